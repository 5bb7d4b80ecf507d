r"""What one process of a run over topics has to do, and what it exchanges with the others.

Process p of P has the topics of its block: θ_kw of all words w, with the momentum, the stored draws and the
counts of an exact pass. All processes read the same stream. For each minibatch

1. all gather the rows of β of its words, of which each process has some columns (`all_topics`);
2. each process sweeps over some of the documents (`deal`);
3. all add up the counts n_kw and n_dk of their documents (`total`), and each uses those of its own topics.

At the end of an exact pass the first process sweeps over the topics z of all tokens, one after the other,
which it has gathered during the pass; the others wait.

Random numbers belong to a document, or to a word and a topic, and counts are integers, so the draws are those
of one process to the bit. There are two collectives per minibatch. What the processes have to agree on
besides (signals, checkpoints, errors) travels with them.

`Alone` is the same for a single process: it exchanges nothing.
"""

import functools
import heapq
import json
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array

from fokker.corpora import Documents

# Samplers whose steps are compiled for rows of θ and can move some topics alone. The others take their noise
# from JAX, for all topics at once: their θ is with the first process.
DIVISIBLE = ("sgrhmc", "scir")
# Numbers that each process may post for the others to see.
NUM_NOTES = 4
# Numbers of 32 bits at the end of what is gathered: the notes, and whether the last step failed.
_TAIL = NUM_NOTES + 1
# The most bytes that are exchanged at a time.
_MAX_BYTES = 1 << 24
_AXIS = "process"


class Alone:
    """The only process of a run: all topics and documents are its own."""

    number, size, is_first = 0, 1, True

    def __init__(self, topics: int) -> None:
        self.topics, self.own = topics, slice(0, topics)
        self.is_signalled = False
        self._notes = np.zeros(NUM_NOTES, np.uint32)

    def deal(self, lengths: np.ndarray) -> np.ndarray:
        """The indices of the documents that this process sweeps over, given the tokens of each."""
        return np.arange(len(lengths))

    def all_topics(self, x: np.ndarray) -> np.ndarray:
        """The values of all topics (…, K), given those of its own topics, in every process."""
        return x

    def for_first(self, x: np.ndarray) -> np.ndarray | None:
        """As `all_topics`, but None in all processes except the first."""
        return x

    def of_first(self, x: np.ndarray | None, shape: Sequence[int], dtype: Any) -> np.ndarray:
        """The values of its own topics, of an array (…, K) that the first process has."""
        assert x is not None
        return x

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
        return counts, mixtures, z

    def tasks(self, number: int) -> range:
        """Which of so many tasks this process has."""
        return range(number)

    def any(self, *flags: bool) -> tuple[bool, ...]:
        """Whether each flag is set in any of the processes."""
        return flags

    def best(
        self, results: Sequence[Sequence[np.ndarray]], scores: Sequence[float], num_tasks: int
    ) -> Sequence[np.ndarray]:
        """The arrays with the largest score, in all processes, given those of the `tasks` of this one."""
        return results[int(np.argmax(scores))]

    def signal(self, is_set: bool) -> None:
        """Set a signal; after the next `total` of all processes, `is_signalled` says whether one has."""
        self.is_signalled = bool(is_set)

    def check_step(self, is_good: bool, error: Exception) -> None:
        """Raise the error if this step failed; with other processes, in all of them and a little later."""
        if not is_good:
            raise error

    def post(self, *notes: int) -> None:
        """Numbers (32 bits each) that the other processes shall know."""
        self._notes[:] = 0
        self._notes[: len(notes)] = notes

    def posted(self) -> np.ndarray:
        """What each process last posted (processes, `NUM_NOTES`)."""
        return self._notes[None]


class Processes:
    """One of the processes that `fk.processes.start` brought together; the methods are those of `Alone`."""

    def __init__(self, topics: int, is_divided: bool) -> None:
        self.topics, self.is_signalled = topics, False
        self._notes = np.zeros(NUM_NOTES, np.uint32)
        self.number, self.size = jax.process_index(), jax.process_count()
        self.is_first = self.number == 0
        # All topics are with the first process where they cannot be divided.
        widths = [len(part) for part in np.array_split(np.arange(topics), self.size)]
        if not is_divided:
            widths = [topics] + [0] * (self.size - 1)
        self.bounds = np.concatenate([[0], np.cumsum(widths)])
        self._width = max(widths)
        self.own = slice(int(self.bounds[self.number]), int(self.bounds[self.number + 1]))
        self._device, self._sharding, self._gather, self._sum = _collectives()
        self._all_notes: np.ndarray | None = None
        self._signal, self._failed = False, False
        self._error: Exception | None = None

    def _exchanged(self, function: Callable[[Array], Array], own: np.ndarray) -> np.ndarray:
        """The result of a function of what all processes gave, stacked."""
        shape = (self.size, *own.shape)
        local = jax.device_put(own[None], self._device)
        stacked = jax.make_array_from_single_device_arrays(shape, self._sharding, [local])
        return np.asarray(function(stacked).addressable_data(0))

    def _gathered(self, x: np.ndarray) -> np.ndarray:
        """The bytes that each process gave (processes, bytes), and those of zero after them."""
        buffer = np.zeros(_rounded_up(-(-x.nbytes // 4) + _TAIL), np.uint32)
        buffer[-_TAIL:-1], buffer[-1] = self._notes, self._failed
        buffer.view(np.uint8)[: x.nbytes] = np.ascontiguousarray(x).reshape(-1).view(np.uint8)
        rows = self._exchanged(self._gather, buffer)
        if np.any(rows[:, -1]):
            assert self._error is not None
            raise self._error
        self._all_notes = rows[:, -_TAIL:-1]
        return rows.view(np.uint8)

    def deal(self, lengths: np.ndarray) -> np.ndarray:
        """Documents such that all have about as many tokens: the longest first, to who has the fewest."""
        loads = [(0, number) for number in range(self.size)]
        own = []
        for i in np.argsort(-lengths, kind="stable").tolist():
            load, number = loads[0]
            if number == self.number:
                own.append(i)
            heapq.heapreplace(loads, (load + int(lengths[i]), number))
        return np.sort(np.array(own, np.int64))

    def all_topics(self, x: np.ndarray) -> np.ndarray:
        """The values of all topics, in every process."""
        whole = self._all(x, is_needed=True)
        assert whole is not None
        return whole

    def for_first(self, x: np.ndarray) -> np.ndarray | None:
        """The values of all topics, in the first process."""
        return self._all(x, is_needed=self.is_first)

    def _all(self, x: np.ndarray, is_needed: bool) -> np.ndarray | None:
        leading = x.shape[:-1]
        num_rows = int(np.prod(leading))
        rows = np.ascontiguousarray(x).reshape(num_rows, x.shape[-1])
        whole = np.empty((num_rows, self.topics), x.dtype) if is_needed else None
        size = self._width * x.itemsize
        for part in _parts(num_rows, size):
            own = np.zeros((part.stop - part.start, self._width), x.dtype)
            own[:, : rows.shape[1]] = rows[part]
            received = self._gathered(own)[:, : own.nbytes]
            if whole is None:
                continue
            for number, piece in enumerate(received):
                block = slice(*self.bounds[number : number + 2])
                values = piece.view(x.dtype).reshape(own.shape)
                whole[part, block] = values[:, : block.stop - block.start]
        return None if whole is None else whole.reshape(*leading, self.topics)

    def of_first(self, x: np.ndarray | None, shape: Sequence[int], dtype: Any) -> np.ndarray:
        """The values of its own topics, of an array (…, K) that the first process has."""
        leading, dtype = tuple(shape[:-1]), np.dtype(dtype)
        num_rows, width = int(np.prod(leading)), self.own.stop - self.own.start
        rows = None if x is None else np.ascontiguousarray(x, dtype).reshape(num_rows, self.topics)
        own = np.empty((num_rows, width), dtype)
        for part in _parts(num_rows, self.topics * dtype.itemsize):
            num_bytes = (part.stop - part.start) * self.topics * dtype.itemsize
            buffer = np.zeros(_rounded_up(-(-num_bytes // 4)), np.uint32)
            if rows is not None and self.is_first:
                buffer.view(np.uint8)[:num_bytes] = rows[part].reshape(-1).view(np.uint8)
            received = self._exchanged(self._sum, buffer).view(np.uint8)[:num_bytes]
            own[part] = received.view(dtype).reshape(-1, self.topics)[:, self.own]
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
        """n_kw of its own topics summed over processes, n_dk of all documents, and all topics of tokens."""
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
        num_words = [-(-x.nbytes // 4) for x in (rows, all_z)]
        buffer = np.zeros(_rounded_up(sum(num_words) + 1), np.uint32)
        buffer.view(np.uint8)[: rows.nbytes] = rows.reshape(-1).view(np.uint8)
        buffer[num_words[0] :].view(np.uint8)[: all_z.nbytes] = all_z.view(np.uint8)
        buffer[-1] = self._signal
        summed = self._exchanged(self._sum, buffer)
        self.is_signalled = bool(summed[-1])
        sums = summed.view(np.uint8)[: rows.nbytes].view(dtype).reshape(rows.shape)
        all_z = summed[num_words[0] :].view(np.uint8)[: all_z.nbytes].view(all_z.dtype)
        return (
            sums[: len(counts), self.own].astype(np.int32),
            sums[len(counts) :].astype(np.int32),
            None if z is None else all_z.astype(np.int32),
        )

    def tasks(self, number: int) -> range:
        """Every P-th task, from the p-th on."""
        return range(self.number, number, self.size)

    def any(self, *flags: bool) -> tuple[bool, ...]:
        """Whether each flag is set in any of the processes."""
        own = np.array(flags, np.uint8)
        return tuple((self._gathered(own)[:, : len(own)].max(0) > 0).tolist())

    def best(
        self, results: Sequence[Sequence[np.ndarray]], scores: Sequence[float], num_tasks: int
    ) -> Sequence[np.ndarray]:
        """The arrays with the largest score."""
        own_scores = np.full(-(-num_tasks // self.size), -np.inf)
        own_scores[: len(results)] = scores
        by_process = self._gathered(own_scores)[:, : own_scores.nbytes].copy().view(np.float64)
        # Of equal ones the first task counts, as for a single process.
        place = int(by_process.T.argmax())
        owner, index = place % self.size, place // self.size
        return self._arrays_of(owner, results[index] if owner == self.number else None)

    def _arrays_of(self, owner: int, arrays: Sequence[np.ndarray] | None) -> list[np.ndarray]:
        """The arrays that one process has, in all."""
        forms = b"" if arrays is None else json.dumps([(x.shape, x.dtype.str) for x in arrays]).encode()
        length = int(self._gathered(np.array([len(forms)]))[owner, :8].view(np.int64)[0])
        forms = self._bytes_of(np.frombuffer(forms, np.uint8) if forms else None, length).tobytes()
        received = []
        for number, (shape, dtype) in enumerate(json.loads(forms)):
            own = None if arrays is None else np.ascontiguousarray(arrays[number]).reshape(-1).view(np.uint8)
            num_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
            received.append(self._bytes_of(own, num_bytes).view(dtype).reshape(shape))
        return received

    def _bytes_of(self, own: np.ndarray | None, num_bytes: int) -> np.ndarray:
        """So many bytes of the process that gives them, in all."""
        whole = np.empty(num_bytes, np.uint8)
        for part in _parts(num_bytes, 1):
            length = part.stop - part.start
            buffer = np.zeros(_rounded_up(-(-length // 4)), np.uint32)
            if own is not None:
                buffer.view(np.uint8)[:length] = own[part]
            whole[part] = self._exchanged(self._sum, buffer).view(np.uint8)[:length]
        return whole

    def signal(self, is_set: bool) -> None:
        """Set the signal that the next `total` carries."""
        self._signal = bool(is_set)

    def check_step(self, is_good: bool, error: Exception) -> None:
        """Remember whether the step failed: the next gathering raises in all processes."""
        self._failed, self._error = not is_good, error

    def post(self, *notes: int) -> None:
        """Numbers that the next gathering carries."""
        self._notes[:] = 0
        self._notes[: len(notes)] = notes
        self._all_notes = None

    def posted(self) -> np.ndarray:
        """What each process last posted (processes, `NUM_NOTES`)."""
        if self._all_notes is None:
            self._gathered(np.zeros(0, np.uint8))
        assert self._all_notes is not None
        return self._all_notes


@functools.cache
def _collectives() -> tuple[Any, NamedSharding, Callable[[Array], Array], Callable[[Array], Array]]:
    """A device of this process, how arrays lie on one of each, and what gathers and adds up these arrays."""
    by_process: dict[int, Any] = {}
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


Share = Alone | Processes


class SharedRows:
    """A matrix whose columns are with several processes: they gather the rows that all ask for."""

    def __init__(self, own: np.ndarray, share: Share) -> None:
        self._own, self._share = own, share

    def __getitem__(self, words: np.ndarray) -> np.ndarray:
        return self._share.all_topics(self._own[words])


def share_of(topics: int, sampler: str) -> Share:
    """The share of this process in a chain over so many topics."""
    return Alone(topics) if jax.process_count() == 1 else Processes(topics, sampler in DIVISIBLE)


def _parts(num_rows: int, bytes_per_row: int) -> list[slice]:
    """Rows that are exchanged at a time; there is one part, of no rows, where there are none."""
    size = max(1, _MAX_BYTES // max(1, bytes_per_row))
    return [slice(first, min(first + size, num_rows)) for first in range(0, max(1, num_rows), size)]


def _rounded_up(number: int) -> int:
    """One of a few sizes, four per factor of two, so that few programs are compiled."""
    grain = max(64, 1 << max(0, number.bit_length() - 3))
    return -(-number // grain) * grain
