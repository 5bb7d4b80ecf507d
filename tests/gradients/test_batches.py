"""Minibatches: which rows come, how often, and that they do not depend on how a run is cut."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chi2

import fokker as fk
from conftest import quick_jit
from fokker import samplers
from fokker._core.count import Count
from fokker._core.random import fold_in
from fokker.batches import KINDS, Batches, BlockBatches, WeightedBatches, WindowBatches
from marks import long_case

KEY = jax.random.key(11)
# Of every chi-square test here; there are about 60, so the file has one for one key in 150.
FALSE_ALARM = 1e-4


def start_of(batches, step):
    epoch, position = batches.place(step)
    return Count.of(epoch), jnp.uint32(position)


def stream(batches, first, number, key=KEY):
    """The rows of steps first, first + 1, …, as the runner asks for them."""
    numbers = Count.of(np.uint64(first) + np.arange(number, dtype=np.uint64))
    epochs, positions = batches.places_after(start_of(batches, first), jnp.arange(number, dtype=jnp.uint32))
    keys = jax.vmap(lambda t: fold_in(key, t))(numbers)
    return np.asarray(rows_of(batches.size, batches.batch_size, batches.kind)(key, keys, epochs, positions))


@functools.cache
def rows_of(size, n, kind):
    """`rows` of many steps, compiled."""
    rows = Batches(size, n, kind).rows
    return quick_jit(jax.vmap(lambda key, k, e, p: rows(key, k, e, p), (None, 0, 0, 0)))


@pytest.mark.parametrize(("size", "n"), [(1, 1), (3, 2), (7, 7), (64, 10), (65, 10)])
def test_an_epoch_has_every_row_exactly_once_where_batches_straddle_it_too(size, n):
    epochs = 3 * n
    rows = stream(Batches(size, n), 0, 3 * size)  # 3·N batches of n are 3n epochs
    assert rows.shape == (3 * size, n)
    orders = rows.reshape(epochs, size)
    assert np.array_equal(np.sort(orders, axis=1), np.tile(np.arange(size), (epochs, 1)))
    if size >= 7:  # of 7! orders, two epochs with the same one do not come by chance
        assert len({tuple(order) for order in orders}) == epochs


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_rows_do_not_depend_on_how_the_steps_are_cut(kind):
    batches = Batches(100, 33, kind)
    whole = stream(batches, 0, 20)
    pieces = [stream(batches, first, k) for first, k in ((0, 1), (1, 1), (2, 9), (11, 9))]
    assert np.array_equal(whole, np.concatenate(pieces))
    assert not np.array_equal(whole, stream(batches, 0, 20, jax.random.key(12)))
    assert len({tuple(row) for row in whole}) == 20


@pytest.mark.parametrize(("size", "n", "step"), [(1_000_003, 1000, 10**9), (2**24 + 1, 2**24, 2**48)])
def test_places_are_right_beyond_32_bits(size, n, step):
    """After 10¹² rows, where a product of 32-bit numbers has wrapped round, and 2⁷², where one of 64 has."""
    batches = Batches(size, n)
    epoch, position = batches.places_after(start_of(batches, step), jnp.arange(2, dtype=jnp.uint32))
    assert epoch.tolist() == [step * n // size, (step + 1) * n // size]
    assert position.tolist() == [step * n % size, (step + 1) * n % size]


@pytest.mark.slow
@pytest.mark.parametrize("epoch", [2**32, 2**48])
def test_epochs_beyond_32_bits_are_whole_and_their_orders_new(epoch):
    """Three steps an epoch, from two steps before the end of one on."""
    batches = Batches(70, 25)
    first = (epoch * 70 + 24) // 25 - 3
    rows = stream(batches, first, 9).ravel()
    begin = epoch * 70 - first * 25
    order = rows[begin : begin + 70]
    assert np.array_equal(np.sort(order), np.arange(70))
    early = stream(batches, 0, 12).ravel().reshape(-1)[:280].reshape(4, 70)
    assert not any(np.array_equal(order, other) for other in early)


@pytest.mark.slow
def test_a_run_goes_through_every_epoch_however_it_is_cut():
    """At T = 0 a step is as long as the rows of its batch, 4ⁱ each: three steps an epoch, chunks of four."""
    target = fk.Posterior(lambda t: 0.0 * t, lambda t, x: x * t, 4.0 ** np.arange(6, dtype=np.float32))
    trace = fk.sample(
        target,
        samplers.sgld(2.0**-10 / 3),
        init=0.0,
        steps=12,
        chains=1,
        chunk=4,
        temperature=0.0,
        batch_size=2,
        batches="reshuffle",
        progress=False,
    )
    steps = np.diff(trace.samples[0], prepend=0.0) * 2**10
    batches = np.round(steps).astype(int)
    np.testing.assert_allclose(steps, batches, atol=0.1)
    assert np.all(batches.reshape(4, 3).sum(axis=1) == (4**6 - 1) // 3)
    assert len({tuple(epoch) for epoch in batches.reshape(4, 3)}) > 1


@pytest.mark.parametrize(
    "scheme",
    [
        *(Batches(3000, 3, kind) for kind in KINDS),
        WindowBatches(np.arange(3000), 3, KEY),
        BlockBatches(3000, 3, 500, 2),
        WeightedBatches(np.linspace(1, 2, 3000), 3000, 3),
    ],
    ids=[*KINDS, "window", "blocks", "scores"],
)
def test_the_rows_that_are_read_are_those_of_the_batch(scheme):
    """`numbers` says which rows of a file are read, `batch` which rows of an array are taken."""
    zero = jnp.zeros((), jnp.uint32)
    rows = scheme.rows(KEY, jax.random.key(5), Count.of(0), zero)
    batch = scheme.batch(jnp.arange(3000), rows)
    assert len(set(np.asarray(batch.rows).tolist())) == 3
    np.testing.assert_array_equal(scheme.numbers(rows), batch.rows)
    np.testing.assert_array_equal(batch.data, batch.rows)


def test_windows_are_of_a_shuffled_copy():
    """Neighbours of the data are neighbours of the copy two times on average; 12 times for one key in 1e5."""
    data = np.arange(3000)
    batches, others = (WindowBatches(data, 3, jax.random.key(seed)) for seed in (0, 1))
    order = np.asarray(batches.order)
    assert np.array_equal(np.sort(order[:3000]), data)
    assert np.sum(np.abs(np.diff(order)) == 1) < 12
    assert not np.array_equal(order, others.order)
    assert np.array_equal(order[3000:], order[:2])  # the copy closes on itself
    assert np.array_equal(batches.data, order)


@pytest.mark.parametrize(("size", "n"), [(1, 1), (3, 2), (5, 5), (64, 64), (65, 65)])
def test_rows_without_replacement_are_distinct(size, n):
    rows = stream(Batches(size, n, "no replacement"), 0, 300)
    assert rows.min() >= 0
    assert rows.max() < size
    assert all(len(set(row)) == n for row in rows.tolist())


@pytest.mark.slow
def test_large_data_are_permuted_without_a_repeat():
    rows = stream(Batches(2**18 + 7, 2**12), 0, 65)  # an epoch and the beginning of the next
    assert len(np.unique(rows.ravel()[: 2**18 + 7])) == 2**18 + 7


def uniform(counts):
    """Whether counts come from equal probabilities, by chi-square."""
    counts = np.asarray(counts).ravel()
    if len(counts) == 1:
        return True
    expected = counts.sum() / len(counts)
    assert expected > 10
    return chi2.sf(np.sum((counts - expected) ** 2) / expected, len(counts) - 1) > FALSE_ALARM


@pytest.mark.parametrize(
    ("kind", "size", "number"),
    # Batches without replacement are the first of an epoch, which reshuffled ones show.
    [
        *((kind, 2, 60_000) for kind in KINDS),
        ("replacement", 65, 60_000),
        ("reshuffle", 65, 60_000),
        *(
            long_case("batches::rows_and_ordered_pairs_of_rows_are_uniform", kind, 65, 300_000)
            for kind in ("no replacement", "reshuffle")
        ),
    ],
)
def test_rows_and_ordered_pairs_of_rows_are_uniform(kind, size, number):
    """Of the first two of a batch, by chi-square over so many batches.

    For a reshuffle, in which an epoch is one permutation, of the first batch of an epoch and over keys.
    """
    n = min(size, 2)
    batches = Batches(size, n, kind)
    keys = jax.random.split(jax.random.fold_in(KEY, size), number)
    zero = jnp.zeros((), jnp.uint32)
    rows = np.asarray(quick_jit(jax.vmap(lambda k: batches.rows(k, k, zero, zero)))(keys))
    for column in rows.T:
        assert uniform(np.bincount(column, minlength=size))
    if n == 2:
        counts = np.bincount(rows[:, 0] * size + rows[:, 1], minlength=size**2).reshape(size, size)
        if kind == "replacement":
            assert uniform(counts)
        else:
            assert np.all(np.diag(counts) == 0)
            assert uniform(counts[~np.eye(size, dtype=bool)])


@pytest.mark.parametrize("kind", ["no replacement", "reshuffle"])
def test_all_orders_of_four_rows_are_equally_frequent(kind):
    keys = jax.random.split(jax.random.fold_in(KEY, 99), 60_000)
    batches, zero = Batches(4, 4, kind), jnp.zeros((), jnp.uint32)
    rows = np.asarray(quick_jit(jax.vmap(lambda k: batches.rows(k, k, zero, zero)))(keys))
    order = {p: i for i, p in enumerate(itertools.permutations(range(4)))}
    assert uniform(np.bincount([order[tuple(row)] for row in rows.tolist()], minlength=24))


def test_the_test_of_uniformity_fails_where_it_should():
    """The negative control: a row that comes 10 % more often."""
    generator = np.random.default_rng(0)
    p = np.array([1.1, *[1.0] * 15])
    assert not uniform(generator.multinomial(60_000, p / p.sum()))


@pytest.mark.slow
def test_successive_epochs_are_independent():
    """Where a row stands in one epoch tells nothing of where in the next: chi-square over 8·8 pairs."""
    orders = stream(Batches(8, 8), 0, 40_000)
    place = np.argsort(orders, axis=1)[:, 0].reshape(-1, 2)
    assert uniform(np.bincount(place[:, 0] * 8 + place[:, 1], minlength=64))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ((10, 11), "between 1 and the number of data, 10; 11 was given"),
        ((10, 0), "between 1 and"),
        ((10, -3), "between 1 and"),
        ((10, 5, "reshufle"), "Did you mean 'reshuffle'"),
        ((10, 5, "no-replacement"), "Did you mean 'no replacement'"),
    ],
)
def test_bad_batches_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        Batches(*settings)


def test_a_batch_size_is_a_whole_number():
    with pytest.raises(TypeError, match=r"integer; 2\.5"):
        Batches(10, 2.5)
