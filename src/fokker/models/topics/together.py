"""What the processes of a run do alike: the same minibatches, the end at the same one, one set of files."""

import contextlib
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import jax
import numpy as np

from fokker._core.lock import locked
from fokker.corpora import Documents, Prefetched, Tally
from fokker.models.topics.chain import BY_TOPIC, OF_FIRST
from fokker.models.topics.reading import Reading
from fokker.models.topics.share import Share
from fokker.models.topics.watcher import Silent
from fokker.run.interruption import Interruption
from fokker.run.processes import by_first, check_same_settings

if TYPE_CHECKING:
    from fokker.models.topics.run import TopicRun

Result = TypeVar("Result")

# The arrays of a checkpoint of which each process has some topics.
_BY_TOPIC = {"draws.draws", *(f"chain.{name}" for name in BY_TOPIC)}
_OF_FIRST = f"chain.{OF_FIRST}"
# What a process says about the minibatch that comes next.
_READ, _ENDED, _UNREADABLE = range(3)


class UnreadableError(Exception):
    """The stream cannot be read any further, in this process or in another."""

    def __init__(self, reason: Exception) -> None:
        super().__init__(str(reason))
        self.reason = reason


def of_all(error: Exception) -> Exception:
    """An error that all processes raise alike, so that none of them waits for another."""
    error.is_of_all = True  # type: ignore[attr-defined]
    return error


def check_readable_by_all(reading: Reading) -> None:
    """Raise where there are several processes and only one can read the documents."""
    if reading.single_pass and jax.process_count() > 1:
        raise of_all(
            ValueError(
                f"standard input can be read by one process only, and there are {jax.process_count()}: give "
                "a file that all of them see."
            )
        )


def check_same(settings: Mapping[str, Any]) -> None:
    """Raise where another process has other settings."""
    if jax.process_count() > 1:
        check_same_settings(settings)


class Minibatches:
    """The minibatches of a stream, which all processes take alike and leave at the same place.

    `tally`: of the documents up to the last minibatch.

    A single process reads a minibatch when it is asked for, and may wait for it. Several read one ahead, so
    that what each knows of it can travel with the exchanges for the one before.
    """

    def __init__(self, batches: Prefetched, interruption: Interruption, share: Share) -> None:
        self._batches, self._interruption, self._share = batches, interruption, share
        self.tally, self._is_stopped = Tally(), False
        self._upcoming: tuple[Documents | None, Tally] | None = None
        self._problem: Exception | None = None

    @property
    def is_stopped(self) -> bool:
        """Whether a signal ended them."""
        return self._interruption.asked if self._share.size == 1 else self._is_stopped

    def agree(self, wants_save: bool) -> bool:
        """Whether all processes write a checkpoint now, given whether this one would."""
        if self._share.size == 1:
            return wants_save
        if self._upcoming is None:
            self._read_ahead(wants_save)
        asked, saves, statuses, checksums = self._share.posted().T
        self._is_stopped = bool(np.any(asked))
        if np.any(statuses == _UNREADABLE):
            number = int(np.argmax(statuses == _UNREADABLE))
            raise UnreadableError(
                self._problem or ValueError(f"process {number} cannot read the documents any further.")
            )
        is_other = (checksums != checksums[0]) | (statuses != statuses[0])
        if np.any(is_other):
            raise UnreadableError(
                ValueError(
                    f"process {int(np.argmax(is_other))} reads other documents than process 0: give a corpus "
                    "that is the same for all processes."
                )
            )
        return bool(saves[0])

    def _read_ahead(self, wants_save: bool) -> None:
        batch, status = None, _READ
        try:
            batch = next(self._batches, None)
            status = _ENDED if batch is None else _READ
        except (OSError, RuntimeError, ValueError) as error:
            self._problem, status = error, _UNREADABLE
        self._upcoming = batch, self._batches.tally
        self._share.post(self._interruption.asked, wants_save, status, _checksum(batch))

    def next(self, wants_save: bool) -> Documents | None:
        """The next minibatch, or None where the stream has ended or a signal has come; after `agree`."""
        if self._share.size == 1:
            return self._next_alone()
        if self.is_stopped:
            return None
        assert self._upcoming is not None
        batch, self.tally = self._upcoming
        if batch is not None:
            self._read_ahead(wants_save)
        return batch

    def _next_alone(self) -> Documents | None:
        self._interruption.waiting = True
        if self._interruption.asked:  # checked last: from here on Ctrl-C raises an exception
            return None
        try:
            batch = next(self._batches, None)
        except (OSError, RuntimeError, ValueError) as error:
            raise UnreadableError(error) from error
        self._interruption.waiting = False
        self.tally = self._batches.tally
        return batch


def _checksum(batch: Documents | None) -> int:
    if batch is None:
        return 0
    return zlib.crc32(batch.counts.tobytes(), zlib.crc32(batch.words.tobytes(), batch.size))


def gathered_arrays(share: Share, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays of a checkpoint with all topics, in the first process; in the others without them."""
    whole = {name: share.for_first(x) if name in _BY_TOPIC else x for name, x in arrays.items()}
    return {name: x for name, x in whole.items() if x is not None}


def received_arrays(share: Share, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays of the checkpoint that the first process has read, with the topics of this process."""
    if share.size == 1:
        return dict(arrays)
    forms: dict[str, Any]
    of_first = {name: x for name, x in arrays.items() if name.startswith(_OF_FIRST)}
    rest, forms = by_first(
        lambda: (
            {name: x for name, x in arrays.items() if name not in _BY_TOPIC and name not in of_first},
            {name: (x.shape, x.dtype.str) for name, x in arrays.items() if name in _BY_TOPIC},
        )
    )
    by_topic = {name: share.of_first(arrays.get(name), *form) for name, form in forms.items()}
    return rest | by_topic | of_first


def any_process(flag: bool) -> bool:
    """Whether the flag is set in any of the processes."""
    if jax.process_count() == 1:
        return flag
    from jax.experimental import multihost_utils

    return bool(np.any(multihost_utils.process_allgather(np.array([flag]))))


@contextlib.contextmanager
def own_folder(folder: Path) -> Iterator[None]:
    """The folder of a run, which the first process holds where there is one."""
    with contextlib.ExitStack() as stack:

        def enter() -> None:
            if folder.is_dir():
                stack.enter_context(locked(folder))

        by_first(enter)
        yield


def led_by_first(run: "TopicRun", skip: bool, execute: Callable[[], Result]) -> Result:
    """What `execute` returns in the first process, which writes the results; the others take part.

    What a signal ends is what the first process says, while it computes the results alone.
    """
    with contextlib.ExitStack() as stack:
        if run.share.is_first:
            results = [execute()]
        else:
            stack.enter_context(Interruption())
            run.execute(Silent(), skip=skip)
            results = []
            if run.training.documents:
                run.all_draws()  # for the results of the first process
        return by_first(lambda: results[0])
