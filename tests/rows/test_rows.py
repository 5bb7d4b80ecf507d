"""Data in files and streams of batches: the draws are those of the same data in memory."""

import functools
import gc
import re
import weakref

import h5py
import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import zarr

import fokker as fk
from conftest import quick_jit
from fokker import rows, samplers
from fokker._core.count import Count
from fokker.batches import BlockBatches, WindowBatches
from fokker.rows import readers, source
from fokker.run import ahead
from fokker.run.ahead import ReadAhead
from fokker.run.minibatches import make_batches
from fokker.targets import _data, posterior
from marks import long_case

pytestmark = pytest.mark.dependencies

N = 5003
RANDOM = np.random.default_rng(5)
X = RANDOM.normal(size=(N, 3)).astype(np.float32)
Y = (RANDOM.random(N) < 0.5).astype(np.int32)
OPTIONS = {"init": jnp.zeros(3), "chains": 2, "progress": False}
RUN = {**OPTIONS, "steps": 24, "burn_in": 10, "thin": 2, "batch_size": 5}
SGLD = samplers.sgld(1e-4)


def log_prior(theta):
    return -jnp.sum(theta**2) / 2


def log_likelihood(theta, datum):
    return jax.nn.log_sigmoid((2.0 * datum["y"] - 1.0) * (datum["x"] @ theta))


def target_of(data, **size):
    return fk.Posterior(log_prior, log_likelihood, data, **size)


@functools.cache
def in_memory():
    return target_of({"x": X, "y": Y})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    np.save(folder / "x.npy", X)
    np.save(folder / "y.npy", Y)
    table = pa.table({"x": pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 3), "y": Y})
    pyarrow.parquet.write_table(table, folder / "data.parquet", row_group_size=512)
    with h5py.File(folder / "data.h5", "w") as file:
        file["x"] = X
        file.create_dataset("y", data=Y, chunks=(100,), compression="gzip")
    group = zarr.open_group(folder / "data.zarr", mode="w")
    group.create_array("x", data=X.astype(float), chunks=(700, 3))
    group.create_array("y", data=Y.astype(np.int64), chunks=(700,))
    return folder


@pytest.fixture
def mapped(folder):
    return target_of({"x": folder / "x.npy", "y": np.load(folder / "y.npy", mmap_mode="r")})


def of_kind(folder, kind):
    if kind == "npy":
        return {"x": str(folder / "x.npy"), "y": jnp.asarray(Y)}  # some of it on the device
    if kind == "parquet":
        return folder / "data.parquet"
    if kind == "arrow":
        return pyarrow.parquet.read_table(folder / "data.parquet")
    if kind == "hdf5":
        file = h5py.File(folder / "data.h5", "r")
        return {"x": file["x"], "y": file["y"]}
    group = zarr.open_group(folder / "data.zarr", mode="r")
    return {"x": group["x"], "y": group["y"]}


@functools.cache
def draws_in_memory(batches):
    scores = np.linspace(1, 2, N) if batches == "scores" else batches
    return fk.sample(in_memory(), SGLD, batches=scores, **RUN).samples


@pytest.mark.slow
@pytest.mark.parametrize(
    "batches",
    [
        "window",
        *(
            long_case("rows::draws_from_a_file_are_those_of_the_same_data_in_memory", x)
            for x in ("replacement", "no replacement", "scores")
        ),
    ],
)
def test_draws_from_a_file_are_those_of_the_same_data_in_memory(mapped, monkeypatch, batches):
    monkeypatch.setattr(ahead, "_STEPS", 7)  # several blocks
    scores = np.linspace(1, 2, N) if batches == "scores" else batches
    trace = fk.sample(mapped, SGLD, batches=scores, **RUN)
    assert np.array_equal(trace.samples, draws_in_memory(batches))
    assert not np.array_equal(trace.samples, draws_in_memory("reshuffle"))


@pytest.mark.parametrize("kind", ["npy", "parquet", "arrow", "hdf5", "zarr"])
def test_every_kind_of_file_has_the_same_rows(folder, kind, monkeypatch):
    monkeypatch.setattr(readers, "_WINDOW", 2**12)
    target = target_of(of_kind(folder, kind))
    found = [leaf for leaf in rows.leaves(target.data) if rows.is_source(leaf)]
    assert found
    numbers = np.array([[3, N - 1, 511, 512], [512, 3, 0, 4000]])
    x, y = rows.take(target.data, numbers)["x"], rows.take(target.data, numbers)["y"]
    assert x.dtype == jnp.float32
    assert np.array_equal(x, X[numbers])
    assert np.array_equal(y, Y[numbers])
    assert np.array_equal(rows.span(target.data, 500, 40)["x"], X[500:540])
    # The same, asked for by a compiled program, for each of several chains.
    ask = quick_jit(lambda data, numbers: jax.vmap(lambda row: rows.take(data, row))(numbers))
    assert np.array_equal(ask(target.data, numbers)["x"], X[numbers])


def test_a_dataset_in_one_piece_is_mapped_and_chunks_are_read_whole(folder):
    data = target_of(of_kind(folder, "hdf5")).data
    assert isinstance(data["x"].reader.values.base, np.memmap)
    assert data["y"].reader.window > 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["parquet", long_case("rows::blocks_are_the_same_in_memory", "zarr")])
def test_blocks_are_the_same_in_memory(folder, kind):
    scheme = BlockBatches(N, 5, 512, 2)
    trace = fk.sample(target_of(of_kind(folder, kind)), SGLD, batches=scheme, **RUN)
    assert np.array_equal(trace.samples, draws_in_memory(scheme))


def test_large_compressed_files_are_read_in_blocks_of_their_pieces(folder, mapped, monkeypatch):
    def scheme(target):
        return make_batches(target, 5, None, None, jax.random.key(0))

    target = target_of(folder / "data.parquet")
    assert isinstance(scheme(target), WindowBatches)
    monkeypatch.setattr("fokker.rows.readers.CACHE", 1000)
    assert isinstance(scheme(target), BlockBatches)
    assert scheme(target).window == 512
    assert isinstance(scheme(mapped), WindowBatches)
    monkeypatch.setattr("fokker.rows.readers.memory", lambda: 1000)
    assert isinstance(scheme(mapped), BlockBatches)


@pytest.mark.slow
def test_the_gradients_of_a_summary_read_a_large_file_piece_by_piece(folder, monkeypatch):
    """Five batches have all rows but three once: their mean is nearly the gradient, where each is off."""
    from fokker.diagnostics._gradients import Gradients
    from fokker.rows.parquet import _ColumnReader

    monkeypatch.setattr("fokker.rows.readers.CACHE", 1000)
    monkeypatch.setattr("fokker.rows.parquet.CACHE", 1000)
    monkeypatch.setattr("fokker.batches._blocks._POOL_BYTES", 1)
    target = target_of(folder / "data.parquet")
    piece, decoded = _ColumnReader.piece, []
    monkeypatch.setattr(_ColumnReader, "piece", lambda self, i: decoded.append(i) or piece(self, i))
    positions = jnp.broadcast_to(jnp.array([0.3, -0.2, 0.1]), (5, 3))
    estimate = Gradients.around(target, jnp.zeros(3), N // 5)
    decoded.clear()
    found = np.asarray(estimate.at(positions, jax.random.split(jax.random.key(0), 5)))
    exact = np.asarray(jax.grad(in_memory().potential)(positions[0]))
    assert np.abs(found.mean(axis=0) - exact).max() < 0.1 * np.abs(found - exact).max(axis=1).min()
    # Of two columns; rows from all over the file would decode each piece at every position.
    pieces = -(-N // 512)
    assert len(decoded) <= 2 * (pieces + 2 * len(positions)) < 2 * pieces * len(positions)


@pytest.mark.parametrize(
    ("size", "n", "window", "pool"),
    [(1, 1, 1, 1), (7, 3, 2, 2), (100, 7, 9, 3), (640, 64, 64, 4), (50, 50, 50, 8), (400, 9, 90, 1)],
)
def test_an_epoch_of_blocks_has_every_row_once(size, n, window, pool):
    scheme, key = BlockBatches(size, n, window, pool), jax.random.key(1)
    places = scheme.places_after((Count.of(0), jnp.uint32(0)), jnp.arange(2 * size, dtype=jnp.uint32))
    of_steps = quick_jit(jax.vmap(lambda epoch, position: scheme.rows(key, key, epoch, position)))
    epochs = np.asarray(of_steps(*places)).reshape(2 * n, size)
    assert np.array_equal(np.sort(epochs, axis=1), np.tile(np.arange(size), (2 * n, 1)))
    if size < 100:
        return
    assert not np.array_equal(epochs[0], epochs[1])
    in_pool = epochs[0][: window * pool] // window
    assert len(set(in_pool)) == pool  # a pool is whole windows,
    if pool > 1:
        assert len(set(in_pool[:window])) > 1  # shuffled together
        # Each pool has an order of its own.
        pools = epochs[0][: size // (window * pool) * window * pool].reshape(-1, window * pool)
        assert len({tuple(rows % window) for rows in pools}) == len(pools) > 1


def test_blocks_of_a_wrong_size_are_refused():
    with pytest.raises(ValueError, match="window=9 is more than the 5 data"):
        BlockBatches(5, 1, 9)
    with pytest.raises(ValueError, match=r"give BlockBatches\(5003, 5, …\)"):
        fk.sample(in_memory(), SGLD, batches=BlockBatches(N, 6, 100), **RUN)


@pytest.mark.slow
def test_sums_over_all_the_data_are_taken_block_by_block(mapped, monkeypatch):
    monkeypatch.setattr(posterior, "_BYTES", 16_000)  # 1000 rows
    theta = jnp.arange(3.0)
    value, gradient = jax.value_and_grad(mapped.potential)(theta)
    expected, expected_gradient = jax.value_and_grad(in_memory().potential)(theta)
    assert np.isclose(value, expected, rtol=1e-6)
    assert np.allclose(gradient, expected_gradient, rtol=1e-5)
    assert np.allclose(fk.gradients.norms(mapped, theta), fk.gradients.norms(in_memory(), theta))


@pytest.mark.slow
def test_control_variates_and_exact_samplers_work_from_a_file(mapped):
    gradient = fk.gradients.control_variates(jnp.zeros(3))
    run = {**OPTIONS, "steps": 8, "batch_size": 5, "gradient": gradient}
    one, other = (fk.sample(t, SGLD, **run).samples for t in (mapped, in_memory()))
    assert np.allclose(one, other, rtol=1e-5, atol=1e-6)
    one, other = (
        fk.sample(t, samplers.mala(1e-3), **OPTIONS, steps=8).samples for t in (mapped, in_memory())
    )
    assert np.allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_a_run_from_a_file_goes_on_in_its_folder(mapped, tmp_path):
    run = {**RUN, "batches": "reshuffle"}
    fk.sample(mapped, SGLD, out=tmp_path / "run", **{**run, "steps": 10})
    trace = fk.sample(mapped, SGLD, out=tmp_path / "run", **run)
    assert np.array_equal(trace.samples, draws_in_memory("reshuffle"))
    changed = X.copy()
    changed[0] += 1
    np.save(tmp_path / "x.npy", changed)
    with pytest.raises(ValueError, match="the data is another"):
        fk.sample(target_of({"x": tmp_path / "x.npy", "y": Y}), SGLD, out=tmp_path / "run", **run)


@pytest.mark.slow
def test_a_value_that_is_not_finite_stops_the_run_and_is_named(tmp_path, monkeypatch):
    wrong = X[:60].copy()
    wrong[57, 1] = np.nan
    np.save(tmp_path / "x.npy", wrong)
    target = target_of({"x": tmp_path / "x.npy", "y": Y[:60]})
    run = {**OPTIONS, "steps": 30, "batch_size": 5, "batches": "reshuffle"}
    message = r"data\['x'\] has a value that is not finite, nan, first in row 57, column 1"
    with pytest.raises(ValueError, match=message):  # among the rows that a start is checked with
        fk.sample(target, SGLD, **run)
    monkeypatch.setattr(source, "_FIRST", 8)
    monkeypatch.setattr(ahead, "_STEPS", 1)
    trace = fk.sample(target, SGLD, **run)  # some steps are taken before that row comes
    assert re.search(message, trace.stopped)
    assert 0 < trace.samples.shape[1] < 12


def written(path):
    path.write_text("y\n1\n")
    return path


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (lambda p: written(p / "text.csv"), ValueError, ".npy and .parquet files are read"),
        (lambda p: {"x": p / "objects.npy"}, ValueError, "cannot be read as an array of numbers"),
        (lambda p: {"x": p / "text.npy"}, TypeError, "give numbers"),
        (lambda p: p / "words.parquet", TypeError, "the column 'word' has the type string"),
        (lambda p: pa.table({"x": [1.0, None, 2.0]}), ValueError, "'x' has missing values, first near row 1"),
        (lambda p: {"x": np.zeros((3, 2)), "y": p / "four.npy"}, ValueError, "differ in length"),
    ],
)
def test_files_that_cannot_be_used_are_refused(tmp_path, data, error, message):
    np.save(tmp_path / "objects.npy", np.array([1, "a"], object), allow_pickle=True)
    np.save(tmp_path / "text.npy", np.array(["a", "b"]))
    np.save(tmp_path / "four.npy", np.zeros(4))
    pyarrow.parquet.write_table(pa.table({"word": ["a", "b"]}), tmp_path / "words.parquet")
    with pytest.raises(error, match=message):
        target_of(data(tmp_path))


@pytest.mark.slow
def test_large_arrays_are_neither_copied_nor_kept(monkeypatch):
    monkeypatch.setattr(_data, "_LARGE", 2**10)
    x, y = X.copy(), Y.copy()
    target = target_of({"x": x, "y": y})
    assert np.shares_memory(target.data["x"].reader.values, x)
    trace = fk.sample(target, SGLD, batches="window", **RUN)
    assert np.array_equal(trace.samples, draws_in_memory("window"))
    assert not source._RESIDENT
    scheme = trace.origin.batches
    assert isinstance(scheme, WindowBatches)
    assert np.array_equal(scheme.data["x"], X[np.asarray(scheme.order)])
    # Other batches use the data on the device, in one copy for all runs.
    other = fk.sample(target, SGLD, batches="replacement", **RUN)
    assert np.array_equal(other.samples, draws_in_memory("replacement"))
    assert rows.resident(target).data["x"] is other.origin.target.data["x"]
    alive = [weakref.ref(x), weakref.ref(target.data["x"].token)]
    del x, target, trace, scheme, other
    gc.collect()
    assert [reference() for reference in alive] == [None, None]
    assert not source._RESIDENT


# ---- Streams


def batches_of(n, size=N, epochs=1):
    for _ in range(epochs):
        for first in range(0, size, n):
            rows = slice(first, min(first + n, size))
            yield {"x": X[rows], "y": Y[rows]}


class Loader:
    """As a DataLoader: it can be iterated again and again."""

    def __init__(self, n=50, size=5000):
        self.n, self.size = n, size

    def __iter__(self):
        return batches_of(self.n, self.size)


STREAM = {**OPTIONS, "steps": 24}


@functools.cache
def draws_of_stream():
    return fk.sample(target_of(Loader(), size=5000), SGLD, **STREAM)


def test_a_stream_gives_each_chain_its_own_next_batch():
    """By hand: step by step, chain by chain, with the noise of the run."""
    trace = draws_of_stream()
    seen = []

    class Recording(Loader):
        def __iter__(self):
            for number, batch in enumerate(batches_of(self.n, self.size)):
                seen.append(number)
                yield batch

    other = fk.sample(target_of(Recording(), size=5000), SGLD, **STREAM)
    assert np.array_equal(trace.samples, other.samples)
    assert seen[:1] == [0]  # looked at when the posterior is made
    assert seen[1:49] == list(range(48))
    # Without noise the first step is -ε∇Ũ of the chain's batch, the first or the second: N/n times its sum.
    cold = fk.sample(target_of(Loader(), size=5000), SGLD, **{**STREAM, "steps": 1, "temperature": 0.0})
    sums = [-100 * np.sum((0.5 - Y[s, None]) * X[s], axis=0) for s in (slice(0, 50), slice(50, 100))]
    found = [int(np.argmin([np.abs(x[0] - 1e-4 * s).max() for s in sums])) for x in cold.samples]
    assert sorted(found) == [0, 1]
    for chain, batch in enumerate(found):
        assert np.allclose(cold.samples[chain, 0], 1e-4 * sums[batch], rtol=1e-4)


@pytest.mark.parametrize(
    "sampler",
    [
        SGLD,
        *(
            long_case("rows::a_stream_that_ends_starts_again_or_ends_the_run", s(1e-3))
            for s in (samplers.sghmc, samplers.sgnht)
        ),
    ],
)
def test_a_stream_that_ends_starts_again_or_ends_the_run(sampler):
    run = {**OPTIONS, "steps": 6}
    again = fk.sample(target_of(lambda: batches_of(50, 200), size=200), sampler, **run)
    long = fk.sample(target_of(batches_of(50, 200, epochs=5), size=200), sampler, **run)
    assert np.array_equal(again.samples, long.samples)
    assert again.stopped is None
    target = target_of(batches_of(50, 350), size=350)
    short = fk.sample(target, sampler, **run)
    assert short.stopped == "the stream of data ended after 7 batches; the run has 3 of 6 steps"
    assert short.samples.shape == (2, 3, 3)
    with pytest.raises(ValueError, match="ended after 7 batches"):
        fk.sample(target, sampler, **run)


def test_a_stream_goes_on_in_its_folder_after_the_batches_that_were_used(tmp_path):
    fk.sample(target_of(Loader(), size=5000), SGLD, out=tmp_path / "run", **{**STREAM, "steps": 10})
    trace = fk.sample(target_of(Loader(), size=5000), SGLD, out=tmp_path / "run", **STREAM)
    assert np.array_equal(trace.samples, draws_of_stream().samples)
    summary = trace.summary()
    assert any("stream of batches" in note for note in summary.notes)


def test_batches_of_another_length_are_left_out_or_refused():
    with pytest.warns(RuntimeWarning, match="a batch of 10 rows was left out, since the first has 50"):
        fk.sample(target_of(Loader(50, 110), size=110), SGLD, **OPTIONS, steps=4)
    longer = [next(batches_of(50)), next(batches_of(50)), next(batches_of(60))]
    trace = fk.sample(target_of(lambda: iter(longer), size=100), SGLD, **OPTIONS, steps=4)
    assert "has the shapes [(60, 3), (60,)], but the first has [(50, 3), (50,)]" in trace.stopped
    wrong = [next(batches_of(50)), next(batches_of(50)), {"x": np.full((50, 3), np.inf), "y": Y[:50]}]
    trace = fk.sample(target_of((batch for batch in wrong), size=100), SGLD, **OPTIONS, steps=4)
    assert "not finite, inf" in trace.stopped
    assert trace.samples.shape[1] == 1


def test_tensors_become_arrays():
    class Tensor:  # of PyTorch, as far as it is used
        def __init__(self, values):
            self.values = values

        def detach(self):
            return self

        def cpu(self):
            return self

        def numpy(self):
            return self.values

    loader = [{name: Tensor(x) for name, x in batch.items()} for batch in batches_of(50, 5000)]
    trace = fk.sample(target_of(lambda: iter(loader), size=5000), SGLD, **STREAM)
    assert np.array_equal(trace.samples, draws_of_stream().samples)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: target_of(Loader()), r"stream of batches \(Loader\), and no size was given: give size=N"),
        (lambda: target_of(Loader(), size=10), "size=10 is less than the 50 rows of a batch"),
        (lambda: target_of(iter([]), size=10), "a stream without any batch"),
        (lambda: target_of(lambda: iter([1.0]), size=10), "Give an iterable of batches, not of rows"),
        (
            lambda: target_of({"x": X[:1], "y": Y[:1]}, size=N),
            "size=5003, but the first axis of the data has length 1",
        ),
        (lambda: run_stream("nuts"), "this needs all the data, but they come as a stream"),
        (lambda: run_stream("sghmc"), "this needs all the data"),
        (lambda: run_stream(samplers.mala(1e-3)), "this needs all the data"),
        (lambda: run_stream(SGLD, gradient=fk.gradients.svrg(5)), "this needs all the data"),
        (lambda: run_stream(SGLD, batch_size=5), "whose batches have 50 rows already"),
        (lambda: fk.find_mode(target_of(Loader(), size=5000), jnp.zeros(3)), "this needs all the data"),
    ],
)
def test_what_a_stream_cannot_do_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_stream_is_not_divided_among_processes():
    from fokker.run.api import prepared
    from fokker.run.call import Call, Options
    from fokker.run.mesh import OneDevice

    devices = OneDevice()
    devices.is_shared = True  # as of many processes
    options = Options(init=jnp.zeros(3), chains=1, steps=2, progress=False)
    target = target_of(lambda: batches_of(5), size=N)
    with pytest.raises(ValueError, match=r"cannot be divided among processes, .* or one process"):
        prepared(Call(target, SGLD, options, devices=devices))


@pytest.mark.slow
def test_a_trial_run_ends_the_thread_that_reads_ahead(mapped):
    from fokker.run.api import prepared
    from fokker.run.call import Call, Options

    run = prepared(Call(mapped, SGLD, Options(init=jnp.zeros(3), chains=2, steps=40, batch_size=5)))
    assert run.measured(0.0).speed > 0
    assert run.blocks._ahead._thread._shutdown


def run_stream(sampler, **options):
    return fk.sample(target_of(Loader(), size=5000), sampler, **STREAM, **options)


def test_a_batch_of_more_rows_than_there_are_data_is_refused():
    """A stub of one row, with batches from elsewhere, would count every row 1/n times."""
    stub = target_of({"x": X[:1], "y": Y[:1]})
    with pytest.raises(ValueError, match=r"a batch of 50 rows was given to a posterior of 1 data.*size=N"):
        stub.minibatch_potential(jnp.zeros(3), next(batches_of(50)))


@pytest.mark.parametrize("number", [4, 16, 64])
def test_of_a_stream_that_repeats_itself_every_chain_sees_all_batches(number):
    """`number` batches in one order, again and again: a multiple of the four chains."""
    ahead = object.__new__(ReadAhead)
    ahead.rows = (4, 1)
    seen = [set() for _ in range(4)]
    for step in range(10 * number):
        chains = [ahead._chain_of(step, place) for place in range(4)]
        assert sorted(chains) == [0, 1, 2, 3]
        for place, chain in enumerate(chains):
            seen[chain].add((4 * step + place) % number)
    assert all(len(batches) == number for batches in seen)
