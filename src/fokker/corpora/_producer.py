"""The main function of the process that prepares batches in advance."""

import os
import pickle
import sys

from fokker.corpora._prefetch import Message, batch_messages


def produce() -> None:
    """Read a corpus, a batch size and the documents to skip; write batches until the reader closes."""
    # Output that is printed by mistake must not mix with the messages.
    pipe = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    corpus, batch_size, skip = pickle.load(sys.stdin.buffer)
    batches = corpus.batches(batch_size, skip)
    try:
        for message in batch_messages(batches, corpus.tally):
            pipe.write(_pickled(message))
            pipe.flush()
    except BrokenPipeError:
        # The reader has closed or died: skip the flush at exit, which would fail.
        os._exit(0)


def _pickled(message: Message) -> bytes:
    try:
        return pickle.dumps(message)
    except Exception:  # the error contains an object that cannot be pickled
        return pickle.dumps(
            message._replace(error=RuntimeError(f"{type(message.error).__name__}: {message.error}"))
        )
