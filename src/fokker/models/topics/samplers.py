"""The samplers of topics by name."""

import numpy as np
from jaxtyping import Array, Key

from fokker._core.names import nearest
from fokker.models.topics.dense import DenseTopics
from fokker.models.topics.lazy import LazyTopics
from fokker.models.topics.settings import SAMPLERS
from fokker.models.topics.sgrhmc import MomentumTopics
from fokker.models.topics.share import Share
from fokker.models.topics.theta import Topics

# Words outside the minibatch follow a distribution known in closed form for those that are lazy.
_KINDS: dict[str, type[Topics]] = {
    "sgrhmc": MomentumTopics,
    "sgrld": LazyTopics,
    "scir": LazyTopics,
    "sghmc": DenseTopics,
    "sgld": DenseTopics,
}


def make_topics(
    sampler: str,
    theta: np.ndarray,
    alpha: float,
    key: Key[Array, ""],
    threads: int = 1,
    start: float = 0.0,
    share: Share | None = None,
) -> Topics:
    """θ (V, K) with one of `SAMPLERS`, as `Topics` says; `start` is the α that scir lowers to `alpha`."""
    if sampler not in SAMPLERS:
        suggestion = nearest(sampler, SAMPLERS)
        raise ValueError(f"the samplers of topics are {', '.join(SAMPLERS)}, not {sampler!r}.{suggestion}")
    return _KINDS[sampler](sampler, theta, alpha, key, threads, share, start)
