"""Batches made ahead, in another process or thread."""

import contextlib
import copy
import pickle
import queue
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from types import TracebackType
from typing import NamedTuple

from fokker.corpora._corpus import Corpus
from fokker.corpora._documents import Documents
from fokker.corpora._tally import Tally

# Not by multiprocessing: that would run the caller's main module again, and JAX's threads do not bear a fork.
_COMMAND = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from fokker.corpora._producer import produce; produce()"
)


class Message(NamedTuple):
    """What a producer sends: a batch with the tally so far, an error, or, with neither, the end."""

    documents: Documents | None
    tally: Tally
    error: BaseException | None = None


class Prefetched:
    """The batches of a corpus, made ahead; iterate over it within a `with`. `tally` is that of the batches "
    "given."""

    def __init__(self, corpus: Corpus, batch_size: int, skip: int = 0, ahead: int = 8) -> None:
        if ahead < 1:
            raise ValueError(f"ahead must be at least 1 batch; {ahead} was given.")
        self.corpus = corpus
        self.tally = Tally()
        self.process: subprocess.Popen[bytes] | None = None
        batches = corpus.batches(batch_size, skip)  # not begun yet, but the numbers are checked
        messages: Iterator[Message]
        if corpus.source.portable and sys.executable:
            task = pickle.dumps(sys.path) + pickle.dumps((corpus, batch_size, skip))
            self.process = _start()
            messages = _received(self.process, task, corpus.source.label)
        else:
            messages = made(batches, corpus.tally)

        self._ready: queue.Queue[Message] = queue.Queue(ahead)
        self._stop = threading.Event()
        self._ended = False
        # A daemon: standard input may keep it waiting for ever.
        thread = threading.Thread(target=_pump, args=(messages, self._ready, self._stop), daemon=True)
        thread.start()
        self._finalizer = weakref.finalize(self, _shut, self._stop, self._ready, self.process, thread)

    def __iter__(self) -> Iterator[Documents]:
        return self

    def __next__(self) -> Documents:
        if self._ended or not self._finalizer.alive:
            raise StopIteration
        message = self._ready.get()
        self.tally = self.corpus.tally = message.tally
        if message.documents is not None:
            return message.documents
        self._ended = True
        self.close()
        if message.error is not None:
            raise message.error
        raise StopIteration

    def close(self) -> None:
        """Stop making batches; those made and not yet given are dropped."""
        self._finalizer()

    def __enter__(self) -> "Prefetched":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def prefetched(corpus: Corpus, batch_size: int, skip: int = 0, ahead: int = 8) -> Prefetched:
    """The same batches as `corpus.batches(batch_size, skip)`, about `ahead` of them made in advance.

    Text in files is read in a process of its own, which imports no JAX; what only this process has
    (iterables, standard input) or is cheap to read (matrices) in a thread. Errors arrive where the batch
    would have.

        with prefetched(corpus, 100) as batches:
            for documents in batches:
                …
    """
    return Prefetched(corpus, batch_size, skip, ahead)


def made(batches: Iterator[Documents], tally: Tally) -> Iterator[Message]:
    """The messages that a producer sends of these batches, each with the tally as it is then."""
    try:
        for documents in batches:
            yield Message(documents, copy.deepcopy(tally))
    except Exception as error:
        yield Message(None, copy.deepcopy(tally), error)
    else:
        yield Message(None, copy.deepcopy(tally))


def _start() -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-c", _COMMAND],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # of its own: Ctrl-C is not sent to it, and it ends when its pipe does
    )


def _received(process: "subprocess.Popen[bytes]", task: bytes, label: str) -> Iterator[Message]:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with process.stdin as pipe:
            pipe.write(task)
        while True:
            message: Message = pickle.load(process.stdout)
            yield message
            if message.documents is None:
                return
    except (EOFError, OSError, ValueError, pickle.UnpicklingError):
        code = process.wait()
        yield Message(
            None,
            Tally(),
            RuntimeError(
                f"the process that reads {label} ended before its work was done (exit code {code})."
            ),
        )


def _pump(messages: Iterator[Message], ready: "queue.Queue[Message]", stop: threading.Event) -> None:
    try:
        for message in messages:
            if stop.is_set():
                return
            ready.put(message)
    except Exception as error:  # the reader must not wait for what will not come
        ready.put(Message(None, Tally(), error))


def _shut(
    stop: threading.Event,
    ready: "queue.Queue[Message]",
    process: "subprocess.Popen[bytes] | None",
    thread: threading.Thread,
) -> None:
    stop.set()
    if process is not None:
        process.kill()
        process.wait()
    # The thread waits for room for at most one message, and looks whether to stop before the next.
    with contextlib.suppress(queue.Empty):
        while True:
            ready.get_nowait()
    if process is not None:
        thread.join()
        assert process.stdout is not None
        process.stdout.close()
