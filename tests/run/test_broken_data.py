"""Files and streams that fail: the draws so far are kept, nothing is rounded, and a sentence says why."""

import itertools
import os
import re
import signal

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import fokker as fk
from fokker import rows, samplers
from fokker.batches import BlockBatches
from fokker.rows import readers, source
from fokker.rows.readers import ArrayReader, PiecesReader
from fokker.run import ahead, record
from fokker.targets._data import checked_data

pytestmark = pytest.mark.dependencies

RANDOM = np.random.default_rng(7)
SGLD = samplers.sgld(1e-3)
RUN = {"init": jnp.zeros(()), "chains": 2, "steps": 12, "thin": 3, "progress": False}


def log_prior(theta):
    return -(theta**2) / 2


def log_likelihood(theta, datum):
    return -((datum - theta) ** 2) / 2


def target_of(data, **size):
    return fk.Posterior(log_prior, log_likelihood, data, **size)


def numbered(count=10**6, fails_at=None, error=None):
    """Batch k is all k mod 7; in the place of batch `fails_at` comes the error, or what it returns."""
    for k in range(count):
        if k == fails_at:
            returned = error()
            if returned is None:
                return
            yield returned
        else:
            yield np.full(4, k % 7, np.float32)


# ---- Types


def second_of(first, second):
    """The second batch of a stream, as it goes to the device."""
    stream = rows.Stream(iter([{"x": np.asarray(first)}, {"x": np.asarray(second)}]), 100)
    return list(itertools.islice(stream.batches(0), 2))[1].leaves[0]


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ([0, 1], [0.6, 2.0], "type float64, but those of the first batch are int64, which cannot store 0.6"),
        (np.uint8([0, 1]), [1, 300], "cannot store 300"),
        (np.uint32([0, 1]), [1, -1], "cannot store -1"),
        (np.float32([0, 1]), [1, 2**24 + 1], "cannot store 16777217"),
        ([True, False], [1, 2], "cannot store 2"),
        ([0.5, 1.0], [1.0, 1j], "cannot store 1j"),
    ],
)
def test_a_batch_whose_values_another_type_would_change_is_refused(first, second, message):
    with pytest.raises(
        rows.RowsError, match=f"batch 2 of the stream, data\\['x'\\], .*{message}.*convert all"
    ):
        second_of(first, second)


@pytest.mark.parametrize(
    ("first", "second"), [([0, 1], [3.0, 4.0]), ([0.5, 1], [3, 4]), (np.float32([0, 1]), [0.1, 0.2])]
)
def test_a_batch_of_another_type_with_the_same_values_is_used(first, second):
    values = second_of(first, second)
    assert values.dtype == source.stored_dtype(np.asarray(first).dtype)
    assert np.array_equal(values, np.float32(second))


def test_other_leaves_are_named():
    stream = rows.Stream(iter([{"x": np.zeros(4)}, {"z": np.zeros(4)}]), 100)
    with pytest.raises(rows.RowsError, match=r"has the leaves data\['z'\], but the first has data\['x'\]"):
        list(stream.batches(0))


# ---- Errors of what is read


def disk_error():
    raise OSError(5, "the disk is gone")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "message"),
    [
        (disk_error, r"the stream of data failed after 15 batches: OSError: \[Errno 5\] the disk is gone"),
        (lambda: np.array(["a"] * 4), "batch 16 of the stream cannot be used: TypeError: .* the type <U1.*"),
        (lambda: np.float32([1, np.nan, 1, 1]), "batch 16 .* not finite, nan, first in row 1: .* uses"),
    ],
)
def test_an_error_within_a_stream_keeps_the_draws_so_far(error, message):
    whole = fk.sample(target_of(numbered(), size=100), SGLD, **RUN)
    trace = fk.sample(target_of(numbered(30, 15, error), size=100), SGLD, **RUN)
    # Batches for seven steps of both chains, and so for two draws.
    assert trace.samples.shape == (2, 2)
    assert np.array_equal(trace.samples, whole.samples[:, :2])
    assert re.fullmatch(f"{message}; the run has 6 of 12 steps", trace.stopped)


def test_a_stream_that_cannot_start_again_says_why():
    starts = iter([numbered(2), numbered(2)])

    def start():
        return next(starts, None) or disk_error()

    with pytest.raises(rows.RowsError, match="could not start again: OSError"):
        list(rows.Stream(start, 100).batches(0))


def test_errors_of_files_are_problems(tmp_path, monkeypatch):
    values = [*range(30), None]
    pyarrow.parquet.write_table(pa.table({"y": values}), tmp_path / "y.parquet", row_group_size=8)
    data = rows.opened(tmp_path / "y.parquet")["y"]
    assert np.array_equal(data[:20], np.arange(20))
    with pytest.raises(rows.RowsError, match="'y' has missing values, first near row 30"):
        data.read(np.array([30]))
    monkeypatch.setattr(data.reader, "piece", lambda index: disk_error())
    for read in (lambda: data[20:28], lambda: data.read(np.array([25]))):
        with pytest.raises(
            rows.RowsError, match=r"data\['y'\] could not be read: OSError: .*the disk is gone"
        ):
            read()


def test_a_problem_within_a_compiled_program_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "_FIRST", 8)
    np.save(tmp_path / "y.npy", np.float32([*range(30), np.nan]))
    target = target_of(tmp_path / "y.npy")
    message = r"^data has a value that is not finite, nan, first in row 30: .* that log_likelihood uses\.$"
    with pytest.raises(rows.RowsError, match=message):
        fk.sample(target, samplers.mala(1e-3), **RUN)
    with pytest.raises(jax.errors.JaxRuntimeError), rows.reading():  # an error of another kind stays
        raise jax.errors.JaxRuntimeError("out of memory")


# ---- What was read and not used


def test_a_generator_goes_on_after_an_interruption_to_the_bit(monkeypatch):
    monkeypatch.setattr(ahead, "_STEPS", 2)
    whole = fk.sample(target_of(numbered(), size=100), SGLD, **RUN)

    def interrupt():
        os.kill(os.getpid(), signal.SIGINT)
        return np.full(4, 9 % 7, np.float32)

    target = target_of(numbered(10**6, 9, interrupt), size=100)
    trace = fk.sample(target, SGLD, **RUN)
    assert trace.was_interrupted
    assert np.array_equal(trace.resume().samples, whole.samples)


def test_batches_that_no_step_could_use_are_given_back():
    """Nine batches are four steps of two chains, one draw of three steps, and three batches too many."""
    target = target_of(numbered(9), size=100)
    trace = fk.sample(target, SGLD, **RUN)
    assert "ended after 9 batches" in trace.stopped
    left = rows.stream_of(target.data).batches(0)
    assert [next(left).leaves[0][0] for _ in range(3)] == [6, 0, 1]


def test_what_is_given_back_again_and_again_stays_in_its_order():
    """As by a second interruption, before all of what the first gave back is used."""
    stream = rows.Stream(numbered(9), 100)
    batches = stream.batches(0)
    seen = []
    for read, used in ((6, 2), (3, 1), (4, 2), (4, 4)):
        some = list(itertools.islice(batches, read))
        stream.give_back(some[used:])
        seen += [batch.number for batch in some[:used]]
        assert stream.used == len(seen)
    assert seen == list(range(1, 10))


@pytest.mark.parametrize(
    ("dtype", "bad", "message"),
    [
        (np.float32, np.inf, "not finite, inf"),
        (np.float64, 1e300, r"not finite in float32, 1e\+300"),
        (np.int64, 2**40, "does not fit into 32 bits"),
    ],
)
def test_batches_after_one_that_cannot_be_used_are_given_back(dtype, bad, message):
    """The values of many batches are checked together, before they are rounded, and after all are read."""
    batches = [np.full(4, k, dtype) for k in range(30)]
    batches[9][2] = bad
    target = target_of(iter(batches), size=100)
    trace = fk.sample(target, SGLD, **RUN)
    assert re.search(f"batch 10 of the stream, data, .*{message}.* first in row 2", trace.stopped)
    assert trace.samples.shape == (2, 1)
    stream = rows.stream_of(target.data)
    assert stream.used == 6
    left = stream.batches(0)
    assert [next(left).leaves[0][0] for _ in range(6)] == [6, 7, 8, 10, 11, 12]


def test_a_part_of_a_draw_is_not_kept():
    piece = ahead.Piece(6, 4, 3, True)
    assert piece.cut(12) == piece
    assert piece.cut(8) == ahead.Piece(6, 2, 3, True)
    assert piece.cut(2) == ahead.Piece(6, 1, 2, False)


# ---- Files that change


def test_any_changed_value_of_a_file_is_noticed(tmp_path, monkeypatch):
    values = np.arange(5000, dtype=np.float32)

    def fingerprint(changed=None):
        other = values.copy()
        if changed is not None:
            other[changed] += 1
        np.save(tmp_path / "y.npy", other)
        return record.fingerprint_of_arrays(rows.opened(tmp_path / "y.npy"))

    monkeypatch.setattr(record, "_BLOCK", 1000)
    assert fingerprint() == fingerprint()
    assert len({fingerprint(row) for row in (None, 0, 1, 1234, 4999)}) == 5
    monkeypatch.setattr(record, "_WHOLE", 1000)  # a large file is known by some of its rows
    assert fingerprint() == fingerprint(1)
    assert fingerprint() != fingerprint(4999)


def test_a_mapped_file_that_was_made_shorter_is_a_problem(tmp_path):
    path = tmp_path / "y.npy"
    np.save(path, np.zeros(10_000))
    data = rows.opened(path)
    assert data[9_000:].shape == (1000,)
    os.truncate(path, 1000)
    for read in (lambda: data[:5], lambda: data.read(np.array([0]))):
        with pytest.raises(
            rows.RowsError, match=r"y.npy was made shorter .* 80,128 bytes to 1,000: write a new"
        ):
            read()
    with pytest.raises(ValueError, match=r"data: .*y.npy cannot be read as an array of numbers"):
        rows.opened(path)
    # A file that takes the place of one in use does no harm: the old one is still there.
    np.save(tmp_path / "z.npy", np.ones(10_000))
    data = rows.opened(tmp_path / "z.npy")
    os.replace(path, tmp_path / "z.npy")
    assert data[9_999:] == 1


def test_more_rows_than_can_be_counted_are_refused():
    many = np.broadcast_to(np.float32(0), 2**31)
    data = rows.Source(ArrayReader(many))
    with pytest.raises(ValueError, match=r"the data have 2,147,483,648 rows.*give at most 2,147,483,647"):
        checked_data(data)


# ---- Pieces and blocks


def test_rows_of_more_pieces_than_are_kept(monkeypatch):
    class Pieces(PiecesReader):
        def piece(self, index):
            return values[self._starts[index] : self._ends[index]]

    monkeypatch.setattr(readers, "CACHE", 1)  # two pieces
    values = RANDOM.normal(size=(23, 2))
    reader = Pieces(np.array([5, 10, 15, 20, 23]), values.shape, values.dtype)
    assert reader._slots == 2
    # All at once, and then some pieces after the other: each is evicted, the first too, and read again.
    for numbers in (RANDOM.permutation(23), *(RANDOM.integers(0, 23, size) for size in [1, 2, 3] * 20)):
        out = np.full((len(numbers), 2), np.nan)
        reader.read(numbers, out)
        assert np.array_equal(out, values[numbers])


def test_rows_of_a_block_are_distinct_and_scatter_less():
    batch = BlockBatches(100, 10, 20, 2).batch(jnp.arange(100.0), jnp.arange(10))
    assert batch.scatter == pytest.approx(0.9)
