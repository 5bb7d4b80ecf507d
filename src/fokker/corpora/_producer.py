"""What the process that makes batches ahead runs."""

import os
import pickle
import sys

from fokker.corpora._prefetch import Message, made


def produce() -> None:
    """Read a corpus, a batch size and how many documents to skip, and write the batches, until nobody reads "
    "them."""
    # Whatever is printed by mistake must not get among the messages.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    corpus, batch_size, skip = pickle.load(sys.stdin.buffer)
    batches = corpus.batches(batch_size, skip)
    try:
        for message in made(batches, corpus.tally):
            out.write(_packed(message))
            out.flush()
    except BrokenPipeError:
        # The reader has closed, or died. Nothing is left to be flushed to it at exit.
        os._exit(0)


def _packed(message: Message) -> bytes:
    try:
        return pickle.dumps(message)
    except Exception:  # an error that holds what cannot be sent
        return pickle.dumps(
            message._replace(error=RuntimeError(f"{type(message.error).__name__}: {message.error}"))
        )
