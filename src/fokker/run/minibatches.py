"""How the rows of each step are drawn, as the options of `fk.sample` say."""

import jax
import numpy as np
from jaxtyping import Array, Key

from fokker.batches import (
    WINDOWS,
    Batches,
    BatchScheme,
    BlockBatches,
    StreamBatches,
    WeightedBatches,
    WindowBatches,
)
from fokker.gradients import Estimator
from fokker.rows import stream_of
from fokker.rows.readers import in_large_pieces
from fokker.run.call import BatchKind
from fokker.targets.target import Target, TargetWithData


def _shuffle_key(key: Key[Array, ""]) -> Key[Array, ""]:
    # fold_in(key, n) is the n-th of the keys that split(key) gives: a number that no chain reaches.
    return jax.random.fold_in(key, np.uint32(2**32 - 1))


def make_batches(
    target: Target | None,
    batch_size: int | None,
    kind: BatchKind | None,
    gradient: Estimator | None,
    key: Key[Array, ""],
) -> BatchScheme | None:
    """How rows are drawn, or None where every step uses all rows."""
    stream = stream_of(target.data) if isinstance(target, TargetWithData) else None
    if stream is not None:
        if batch_size is not None or kind is not None:
            raise ValueError(
                f"the data are a stream, whose batches have {stream.batch_size} rows already: leave "
                "batch_size and batches out, or change the stream."
            )
        return StreamBatches(stream.size, stream.batch_size)
    if batch_size is None:
        if gradient is not None or kind is not None:
            raise ValueError("gradient and batches are about minibatches: give a batch_size with them.")
        return None
    if not isinstance(target, TargetWithData):
        raise ValueError("batch_size needs data: give a fk.Posterior as the target.")
    if kind is None:
        kind = "window" if target.size >= WINDOWS * batch_size else "replacement"
        kind = "blocks" if in_large_pieces(target.data) else kind
    if isinstance(kind, BlockBatches):
        if (kind.size, kind.batch_size) != (target.size, batch_size):
            raise ValueError(
                f"batches are of {kind.batch_size} out of {kind.size} rows; batch_size is {batch_size} and "
                f"there are {target.size} data: give BlockBatches({target.size}, {batch_size}, …)."
            )
        return kind
    if isinstance(kind, str):
        if kind == "window":
            return WindowBatches(target.data, batch_size, _shuffle_key(key))
        if kind == "blocks":
            return BlockBatches.of(target.data, batch_size)
        return Batches(target.size, batch_size, kind)
    return WeightedBatches(kind, target.size, batch_size)
