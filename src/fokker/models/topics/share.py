r"""What one process of a run over topics has to do, and what it exchanges with the others.

Process p of P has the topics of its block: θ_kw of all words w, with the momentum, the stored draws and the
counts of an exact pass. All processes read the same stream. For each minibatch

1. all gather the rows of β of its words, of which each process has some columns (`all_topics`);
2. each process sweeps over some of the documents (`deal`);
3. all add up the counts n_kw and n_dk of their documents (`total`), and each uses those of its own topics.

At the end of an exact pass the first process sweeps over the topics z of all tokens, which it has gathered
during the pass; the others wait.

Random numbers belong to a document, or to a word and a topic, and counts are integers, so the draws are those
of one process to the bit. There are two collectives per minibatch. What the processes have to agree on
besides (signals, checkpoints, errors) travels with them.

A single process has all of it and exchanges nothing.
"""

import functools
import heapq
import json
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array
from numpy.typing import DTypeLike

from fokker.corpora import Documents

# Samplers whose steps are compiled for rows of θ and can move some topics alone. The others take their noise
# from JAX, for all topics at once: their θ is with the first process.
DIVISIBLE = ("sgrhmc", "scir")
# Numbers that each process may post for the others to see.
NUM_NOTES = 4
# The most bytes that are exchanged at a time.
_MAX_BYTES = 1 << 24
_AXIS = "process"


class Share:
    """The part that one process has of a run; by default the whole, which exchanges nothing.

    Args:
        topics: K, the number of topics of all processes.
        number: which of the processes this is, from 0.
        size: how many processes there are; they were brought together by `fk.processes.start`.
        is_divided: whether each has some of the topics; otherwise the first has all of them.

    `own` are the topics that are here. Arrays with an axis of topics have it last.
    """

    def __init__(self, topics: int, number: int = 0, size: int = 1, is_divided: bool = True) -> None:
        self.topics, self.number, self.size, self.is_first = topics, number, size, number == 0
        widths = [len(part) for part in np.array_split(np.arange(topics), size)]
        if not is_divided:
            widths = [topics] + [0] * (size - 1)
        self._width, self._bounds = max(widths), np.concatenate([[0], np.cumsum(widths)])
        self.own = slice(int(self._bounds[number]), int(self._bounds[number + 1]))
        self.is_signalled, self._signal = False, False
        self._failed = False
        self._error: Exception = RuntimeError("a step of another process failed.")
        self._notes, self._all_notes = np.zeros(NUM_NOTES, np.uint32), np.zeros((size, NUM_NOTES), np.uint32)
        self._is_posted = True

    def deal(self, lengths: np.ndarray) -> np.ndarray:
        """The indices of the documents that this process sweeps over, given the tokens of each."""
        if self.size == 1:
            return np.arange(len(lengths))
        return np.flatnonzero(dealt(lengths, self.size) == self.number)

    def all_topics(self, x: np.ndarray) -> np.ndarray:
        """The values of all topics (…, K), given those of its own topics, in every process."""
        whole = self._whole(x, is_needed=True)
        assert whole is not None
        return whole

    def for_first(self, x: np.ndarray) -> np.ndarray | None:
        """As `all_topics`, but None in all processes except the first."""
        return self._whole(x, is_needed=self.is_first)

    def _whole(self, x: np.ndarray, is_needed: bool) -> np.ndarray | None:
        if self.size == 1:
            return x
        leading = x.shape[:-1]
        num_rows = int(np.prod(leading))
        rows = np.ascontiguousarray(x).reshape(num_rows, x.shape[-1])
        whole = np.empty((num_rows, self.topics), x.dtype) if is_needed else None
        for part in _parts(num_rows, self._width * x.itemsize):
            own = np.zeros((part.stop - part.start, self._width), x.dtype)
            own[:, : rows.shape[1]] = rows[part]
            received = self._gathered(own)
            if whole is None:
                continue
            for number, values in enumerate(received):
                block = slice(*self._bounds[number : number + 2])
                whole[part, block] = values[:, : block.stop - block.start]
        return None if whole is None else whole.reshape(*leading, self.topics)

    def of_first(self, x: np.ndarray | None, shape: Sequence[int], dtype: DTypeLike) -> np.ndarray:
        """The values of its own topics, of an array (…, K) that the first process has."""
        if self.size == 1:
            assert x is not None
            return x
        leading, dtype = tuple(shape[:-1]), np.dtype(dtype)
        num_rows, width = int(np.prod(leading)), self.own.stop - self.own.start
        rows = None if x is None else np.ascontiguousarray(x, dtype).reshape(num_rows, self.topics)
        own = np.empty((num_rows, width), dtype)
        for part in _parts(num_rows, self.topics * dtype.itemsize):
            shape = part.stop - part.start, self.topics
            values = rows[part] if rows is not None and self.is_first else None
            own[part] = self._of_owner(values, shape, dtype)[:, self.own]
        return own.reshape(*leading, width)

    def total(
        self,
        counts: np.ndarray,
        mixtures: np.ndarray,
        dealt: np.ndarray,
        documents: Documents,
        num_sweeps: int,
        z: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """n_kw of its own topics summed over processes, n_dk of all documents, and all topics of tokens.

        `counts`, `mixtures`, `z`: of those `documents` that were `dealt`; the first two are summed over
        `num_sweeps` sweeps.
        """
        if self.size == 1:
            return counts, mixtures, z
        by_word = np.bincount(documents.words, weights=documents.counts, minlength=1)
        largest = num_sweeps * max(by_word.max(), documents.lengths.max(initial=0))
        # The sums of several small counts fit into one number of 32 bits, with nothing to carry.
        dtype = np.uint8 if largest < 2**8 else np.uint16 if largest < 2**16 else np.uint32
        rows = np.zeros((len(counts) + documents.size, self.topics), dtype)
        rows[: len(counts)] = counts
        rows[len(counts) + dealt] = mixtures
        # Zero where the token is not of this process, so that these are summed too.
        all_z = np.zeros(
            0 if z is None else documents.tokens, np.uint16 if self.topics <= 2**16 else np.uint32
        )
        if z is not None:
            is_dealt = np.zeros(documents.size, bool)
            is_dealt[dealt] = True
            all_z[np.repeat(is_dealt, documents.lengths)] = z
        buffer = _packed(rows, all_z, tail=1)
        buffer[-1] = self._signal
        summed = self._exchanged(_SUM, buffer)
        self.is_signalled = bool(summed[-1])
        rows, all_z = _unpacked(summed, rows, all_z)
        return (
            rows[: len(counts), self.own].astype(np.int32),
            rows[len(counts) :].astype(np.int32),
            None if z is None else all_z.astype(np.int32),
        )

    def tasks(self, number: int) -> range:
        """Which of so many tasks this process has: every P-th, from the p-th on."""
        return range(self.number, number, self.size)

    def any(self, *flags: bool) -> tuple[bool, ...]:
        """Whether each flag is set in any of the processes."""
        return flags if self.size == 1 else tuple(bool(np.any(x)) for x in self._gathered(np.array(flags)).T)

    def best(
        self, results: Sequence[Sequence[np.ndarray]], scores: Sequence[float], num_tasks: int
    ) -> Sequence[np.ndarray]:
        """The arrays with the largest score, in all processes, given those of the `tasks` of this one."""
        if self.size == 1:
            return results[int(np.argmax(scores))]
        own_scores = np.full(-(-num_tasks // self.size), -np.inf)
        own_scores[: len(results)] = scores
        # Of equal ones the first task counts, as for a single process.
        place = int(self._gathered(own_scores).T.argmax())
        owner, index = place % self.size, place // self.size
        return self._arrays_of(owner, results[index] if owner == self.number else None)

    def from_first(self, arrays: Sequence[np.ndarray] | None) -> Sequence[np.ndarray]:
        """The arrays that the first process gives, in all; the others give None."""
        if self.size == 1:
            assert arrays is not None
            return arrays
        return self._arrays_of(0, arrays)

    def _arrays_of(self, owner: int, arrays: Sequence[np.ndarray] | None) -> list[np.ndarray]:
        """The arrays that one process has, in all."""
        text = b"" if arrays is None else json.dumps([(x.shape, x.dtype.str) for x in arrays]).encode()
        length = int(self._gathered(np.array([len(text)]))[owner, 0])
        own_text = np.frombuffer(text, np.uint8) if text else None
        forms = json.loads(self._of_owner(own_text, (length,), np.uint8).tobytes())
        return [
            self._of_owner(None if arrays is None else arrays[number], shape, dtype)
            for number, (shape, dtype) in enumerate(forms)
        ]

    def _of_owner(self, own: np.ndarray | None, shape: Sequence[int], dtype: DTypeLike) -> np.ndarray:
        """The array of the process that gives one, in all: the others add zeros."""
        whole = np.empty(shape, dtype)
        by_byte = whole.reshape(-1).view(np.uint8)
        own_bytes = None if own is None else np.ascontiguousarray(own, dtype).reshape(-1).view(np.uint8)
        for part in _parts(len(by_byte), 1):
            zeros = np.zeros(part.stop - part.start, np.uint8)
            buffer = _packed(zeros if own_bytes is None else own_bytes[part])
            by_byte[part] = _unpacked(self._exchanged(_SUM, buffer), zeros)[0]
        return whole

    def signal(self, is_set: bool) -> None:
        """Set a signal; after the next `total` of all processes, `is_signalled` says whether one has."""
        self._signal = bool(is_set)
        if self.size == 1:
            self.is_signalled = self._signal

    def check_step(self, is_good: bool, error: Exception) -> None:
        """Raise the error if this step failed; with other processes, in all of them at the next gathering."""
        self._failed, self._error = not is_good, error
        if self.size == 1 and not is_good:
            raise error

    def post(self, *notes: int) -> None:
        """Numbers (32 bits each) that the other processes shall know: the next gathering carries them."""
        self._notes[:] = 0
        self._notes[: len(notes)] = notes
        self._is_posted = False

    def posted(self) -> np.ndarray:
        """What each process last posted (processes, `NUM_NOTES`)."""
        if self.size == 1:
            return self._notes[None]
        if not self._is_posted:
            self._gathered(np.zeros(0, np.uint8))
        return self._all_notes

    def _gathered(self, x: np.ndarray) -> np.ndarray:
        """The arrays that the processes gave, which have one shape, stacked."""
        buffer = _packed(x, tail=NUM_NOTES + 1)
        buffer[-NUM_NOTES - 1 : -1], buffer[-1] = self._notes, self._failed
        rows = self._exchanged(_GATHER, buffer)
        if np.any(rows[:, -1]):
            raise self._error
        self._all_notes, self._is_posted = rows[:, -NUM_NOTES - 1 : -1], True
        return np.stack([_unpacked(row, x)[0] for row in rows])

    def _exchanged(self, which: int, own: np.ndarray) -> np.ndarray:
        """What all processes gave, gathered or summed."""
        device, sharding, *functions = _collectives()
        local = jax.device_put(own[None], device)
        stacked = jax.make_array_from_single_device_arrays((self.size, *own.shape), sharding, [local])
        return np.asarray(functions[which](stacked).addressable_data(0))


# The places of the two functions of `_collectives`.
_GATHER, _SUM = range(2)


@functools.cache
def _collectives() -> tuple[jax.Device, NamedSharding, Callable[[Array], Array], Callable[[Array], Array]]:
    """A device of this process, how arrays lie on one of each, and what gathers and adds up these arrays."""
    by_process: dict[int, jax.Device] = {}
    for device in jax.devices():
        by_process.setdefault(device.process_index, device)
    mesh = Mesh(np.array([by_process[number] for number in range(jax.process_count())]), (_AXIS,))
    on_all = NamedSharding(mesh, P())
    return (
        by_process[jax.process_index()],
        NamedSharding(mesh, P(_AXIS)),
        jax.jit(lambda x: x, out_shardings=on_all),
        jax.jit(lambda x: jnp.sum(x, axis=0, dtype=x.dtype), out_shardings=on_all),
    )


class GatheredRows:
    """A matrix whose columns are with several processes: they gather the rows that all ask for."""

    def __init__(self, own: np.ndarray, share: Share) -> None:
        self._own, self._share = own, share

    def __getitem__(self, words: np.ndarray) -> np.ndarray:
        return self._share.all_topics(self._own[words])


def share_of(topics: int, sampler: str) -> Share:
    """The share of this process in a chain over so many topics."""
    return Share(topics, jax.process_index(), jax.process_count(), sampler in DIVISIBLE)


def dealt(sizes: np.ndarray, parts: int) -> np.ndarray:
    """To which part each one goes, so that all parts have about the same size.

    The largest first, to the part that has least.
    """
    loads, part_of = [(0, part) for part in range(parts)], np.empty(len(sizes), np.int64)
    for i in np.argsort(-sizes, kind="stable").tolist():
        load, part_of[i] = loads[0]
        heapq.heapreplace(loads, (load + int(sizes[i]), int(part_of[i])))
    return part_of


def _parts(num_rows: int, bytes_per_row: int) -> list[slice]:
    """Rows that are exchanged at a time; there is one part, of no rows, where there are none."""
    size = max(1, _MAX_BYTES // max(1, bytes_per_row))
    return [slice(first, min(first + size, num_rows)) for first in range(0, max(1, num_rows), size)]


def rounded_up(number: int) -> int:
    """One of a few sizes, four per factor of two, so that few programs are compiled."""
    grain = max(64, 1 << max(0, number.bit_length() - 3))
    return -(-number // grain) * grain


def _packed(*arrays: np.ndarray, tail: int = 0) -> np.ndarray:
    """The bytes of the arrays in numbers of 32 bits, each from a whole number on, and so many at the end."""
    lengths = [-(-x.nbytes // 4) for x in arrays]
    buffer = np.zeros(rounded_up(sum(lengths) + tail), np.uint32)
    for x, start in zip(arrays, np.cumsum([0, *lengths]), strict=False):
        buffer[start:].view(np.uint8)[: x.nbytes] = np.ascontiguousarray(x).reshape(-1).view(np.uint8)
    return buffer


def _unpacked(buffer: np.ndarray, *like: np.ndarray) -> list[np.ndarray]:
    """The arrays of `_packed`, of the shapes and types of these."""
    starts = np.cumsum([0, *(-(-x.nbytes // 4) for x in like)])
    return [
        buffer[start:].view(np.uint8)[: x.nbytes].view(x.dtype).reshape(x.shape)
        for start, x in zip(starts, like, strict=False)
    ]
