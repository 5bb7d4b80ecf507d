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
