"""Prepare batches in advance, in another process or thread."""

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

# Not with multiprocessing: it would run the caller's main module again, and forking is unsafe with JAX's
# threads.
_COMMAND = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from fokker.corpora._producer import produce; produce()"
)


class Message(NamedTuple):
    """A message of the producer: a batch with the tally so far, an error, or neither at the end."""

    documents: Documents | None
    tally: Tally
    error: BaseException | None = None


class Prefetched:
    """The batches of a corpus, prepared in advance; iterate over it inside a `with` statement.

    `tally` covers the batches yielded so far.

    Arguments:

    - `corpus`, `batch_size`, `skip`, `ahead`: as for `prefetched`.

    ```python
    corpus = fk.corpora.open_corpus(["the cat sat", "the cat ran"], vocabulary=["cat", "ran", "sat"])
    with fk.corpora.Prefetched(corpus, 1, skip=1) as batches:
        documents = next(batches)
    ```
    """

    def __init__(self, corpus: Corpus, batch_size: int, skip: int = 0, ahead: int = 8) -> None:
        if ahead < 1:
            raise ValueError(f"ahead must be at least 1 batch; {ahead} was given.")
        self.corpus = corpus
        self.tally = Tally()
        self.process: subprocess.Popen[bytes] | None = None
        batches = corpus.batches(batch_size, skip)  # reads nothing yet, but checks the arguments
        messages: Iterator[Message]
        if corpus.source.portable and sys.executable:
            task = pickle.dumps(sys.path) + pickle.dumps((corpus, batch_size, skip))
            self.process = _start_process()
            messages = _received_messages(self.process, task, corpus.source.label)
        else:
            messages = batch_messages(batches, corpus.tally)

        self._queue: queue.Queue[Message] = queue.Queue(ahead)
        self._stop = threading.Event()
        self._finished = False
        # A daemon: standard input may block it without end.
        thread = threading.Thread(target=_enqueue, args=(messages, self._queue, self._stop), daemon=True)
        thread.start()
        self._finalizer = weakref.finalize(self, _shut_down, self._stop, self._queue, self.process, thread)

    def __iter__(self) -> Iterator[Documents]:
        return self

    def __next__(self) -> Documents:
        if self._finished or not self._finalizer.alive:
            raise StopIteration
        message = self._queue.get()
        self.tally = self.corpus.tally = message.tally
        if message.documents is not None:
            return message.documents
        self._finished = True
        self.close()
        if message.error is not None:
            raise message.error
        raise StopIteration

    def close(self) -> None:
        """Stop preparing batches; batches not yet yielded are discarded."""
        self._finalizer()

    def __enter__(self) -> "Prefetched":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def prefetched(corpus: Corpus, batch_size: int, skip: int = 0, ahead: int = 8) -> Prefetched:
    """The same batches as `corpus.batches(batch_size, skip)`, some of them prepared in advance.

    Text in files is read in a separate process, which does not import JAX. Iterables and standard input,
    which only this process has, and matrices, which are cheap to read, are read in a thread. An error is
    raised in place of the batch that caused it.

    Arguments:

    - `corpus`: a `Corpus`.
    - `batch_size`: the documents per batch.
    - `skip`: how many documents to leave out at the start.
    - `ahead`: about how many batches wait, at least 1.

    Returns an iterator over `Documents`, for a `with` statement.

    ```python
    corpus = fk.corpora.open_corpus(["the cat sat", "the cat ran"], vocabulary=["cat", "ran", "sat"])
    with fk.corpora.prefetched(corpus, 100) as batches:
        for documents in batches:
            print(documents.size)
    ```
    """
    return Prefetched(corpus, batch_size, skip, ahead)


def batch_messages(batches: Iterator[Documents], tally: Tally) -> Iterator[Message]:
    """The producer's messages for these batches, each with a copy of the current tally."""
    try:
        for documents in batches:
            yield Message(documents, copy.deepcopy(tally))
    except Exception as error:
        yield Message(None, copy.deepcopy(tally), error)
    else:
        yield Message(None, copy.deepcopy(tally))


def _start_process() -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-c", _COMMAND],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # so that it does not receive Ctrl-C; it ends when its pipe closes
    )


def _received_messages(process: "subprocess.Popen[bytes]", task: bytes, label: str) -> Iterator[Message]:
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
            RuntimeError(f"the process that reads {label} ended before it was finished (exit code {code})."),
        )


def _enqueue(
    messages: Iterator[Message], message_queue: "queue.Queue[Message]", stop: threading.Event
) -> None:
    try:
        for message in messages:
            if stop.is_set():
                return
            message_queue.put(message)
    except Exception as error:  # otherwise the reader would wait without end
        message_queue.put(Message(None, Tally(), error))


def _shut_down(
    stop: threading.Event,
    message_queue: "queue.Queue[Message]",
    process: "subprocess.Popen[bytes] | None",
    thread: threading.Thread,
) -> None:
    stop.set()
    if process is not None:
        process.kill()
        process.wait()
    # The thread waits to put at most one message, and checks `stop` before the next.
    with contextlib.suppress(queue.Empty):
        while True:
            message_queue.get_nowait()
    if process is not None:
        thread.join()
        assert process.stdout is not None
        process.stdout.close()
