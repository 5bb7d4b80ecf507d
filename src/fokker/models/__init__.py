"""Models that come with their own samplers."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fokker.models.lda.estimator import LDA

__all__ = ["LDA"]


def __getattr__(name: str) -> Any:
    if name == "LDA":  # when it is asked for: the command line reads corpora without waiting for JAX
        from fokker.models.lda.estimator import LDA

        return LDA
    raise AttributeError(f"module 'fokker.models' has no attribute {name!r}")
