"""Indices of the data beyond the end of an array, where JAX reads another entry."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import fokker as fk

pytestmark = pytest.mark.dependencies
Y = np.repeat(np.float32([0, 10, 20]), 4)
THETA = {"a": jnp.zeros(3)}


def log_prior(theta):
    return -jnp.sum(theta["a"] ** 2) / 200


def by_group(theta, row):
    return -((row["y"] - theta["a"][row["group"]]) ** 2) / 2


def validate(group, log_likelihood=by_group, theta=THETA):
    fk.Posterior(log_prior, log_likelihood, {"y": Y, "group": group}).validate(theta)


@pytest.mark.parametrize(
    ("first", "row", "index"), [(1, 8, 3), (7, 0, 7), (-5, 0, -2)], ids=["from 1", "far", "below the first"]
)
def test_an_index_beyond_the_end_is_refused_with_its_row(first, row, index):
    group = np.repeat(np.arange(first, first + 3), 4)
    with pytest.raises(ValueError, match=f"in row {row} of the data.*index {index} is out of bounds.*size 3"):
        validate(group)


def test_it_is_seen_in_a_few_rows_in_the_middle_and_in_a_branch():
    group = np.repeat(np.arange(3), 4)
    group[5] = 3
    with pytest.raises(ValueError, match="in row 5 of the data"):
        validate(group)

    def in_a_branch(theta, row):
        return jnp.vectorize(lambda i: -((row["y"] - theta["a"][i]) ** 2))(row["group"])

    with pytest.raises(ValueError, match="in row 5 of the data"):
        validate(group, in_a_branch)


def test_it_is_seen_in_one_column_of_several_numbers_per_row():
    pairs = np.stack([np.repeat(np.arange(3), 4), np.arange(12) % 3], axis=1)
    pairs[7, 1] = 3
    with pytest.raises(ValueError, match="in row 7 of the data"):
        validate(pairs, lambda theta, row: -(jnp.sum(theta["a"][row["group"]] - row["y"]) ** 2))


@pytest.mark.slow
def test_a_category_without_rows_needs_an_entry_too():
    texts = np.repeat(["b", "a", "c"], 4)
    data = pd.DataFrame({"y": Y, "group": pd.Categorical(texts, categories=["z", "a", "b", "c"])})
    posterior = fk.Posterior(log_prior, by_group, data)
    with pytest.raises(ValueError, match="give a parameter one entry for each category"):
        fk.sample(posterior, init=THETA, steps=10, progress=False)
    posterior.validate({"a": jnp.zeros(4)})


def test_indices_that_are_right_limited_or_no_indices_are_not_refused():
    group = np.repeat(np.arange(3), 4)
    validate(group)
    validate(group - 3)  # from the end, as in NumPy
    validate(group + 1, lambda theta, row: by_group(theta, {**row, "group": jnp.minimum(row["group"], 2)}))
    # Of a program that checkify may not know nothing is said.
    validate(group, jax.checkpoint(by_group))
    validate(group + 100, lambda theta, row: row["group"] * theta["a"][0])


def in_a_loop(read):
    """The read in a loop and in a branch, under `vmap`."""

    def sums(a, i):
        loop = lambda total, i: (total + jax.lax.cond(i > 0, lambda: read(a, i), lambda: a[0]), None)  # noqa: E731
        return jax.lax.scan(loop, 0.0, jnp.stack([i, i]))[0]

    return lambda a, i: jnp.sum(jax.vmap(lambda i: sums(a, i))(jnp.stack([i, i])))


# What the program says of a read; that of the last two is that of a plain one.
DELIBERATE = {
    "filled": lambda a, i: a.at[i].get(mode="fill", fill_value=0.0),
    "filled, below": lambda a, i: a.at[i].get(mode="fill", fill_value=-jnp.inf).clip(-1),
    "taken": lambda a, i: jnp.take(a, i, mode="clip"),
    "several": lambda a, i: jnp.sum(a.at[jnp.stack([i, i])].get(mode="clip")),
    "of a table of integers": lambda a, i: a[jnp.arange(3).at[i].get(mode="fill", fill_value=0)],
    "round": lambda a, i: jnp.take(a, i, mode="wrap"),
}
PLAIN = {
    "plain": lambda a, i: a[i],
    "several": lambda a, i: jnp.sum(a[jnp.stack([i, i])]),
    "taken": lambda a, i: jnp.nan_to_num(jnp.take(a, i)),
    "of what was filled in": lambda a, i: a[jnp.arange(3).at[i].get(mode="fill", fill_value=3)],
    "of a table of integers": lambda a, i: a[jnp.take(jnp.arange(3), i).clip(0)],
    "clipped one": lambda a, i: a.at[i].get(mode="clip"),
}


@pytest.mark.parametrize("place", [lambda read: read, in_a_loop], ids=["alone", "in a loop"])
@pytest.mark.parametrize("read", DELIBERATE.values(), ids=DELIBERATE.keys())
def test_a_read_beyond_the_end_that_is_asked_for_is_none(read, place):
    def likelihood(theta, row):
        return -((row["y"] - place(read)(theta["a"], row["group"])) ** 2)

    group = np.repeat(np.arange(1, 4), 4)
    validate(group, likelihood)
    # A plain read beside it is still seen.
    with pytest.raises(ValueError, match=r"in row 8 of the data.*index 3 is out of bounds"):
        validate(group, lambda theta, row: likelihood(theta, row) + by_group(theta, row))


@pytest.mark.parametrize("place", [lambda read: read, in_a_loop], ids=["alone", "in a loop"])
@pytest.mark.parametrize("read", PLAIN.values(), ids=PLAIN.keys())
def test_a_read_that_does_not_ask_for_it_is_refused_with_the_way_to_ask(read, place):
    def likelihood(theta, row):
        return -((row["y"] - place(read)(theta["a"], row["group"])) ** 2)

    with pytest.raises(ValueError, match=r"index 3 is out of bounds.*jnp\.take\(theta, i, mode='clip'\)"):
        validate(np.repeat(np.arange(1, 4), 4), likelihood)


def test_keys_may_be_read():
    keys = jax.random.split(jax.random.key(0), 3)
    validate(
        np.repeat(np.arange(3), 4),
        lambda theta, row: theta["a"][0] * jax.random.normal(jnp.take(keys, row["group"])),
    )
