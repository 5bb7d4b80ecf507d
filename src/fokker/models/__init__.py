"""Models with their own samplers."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fokker.models.lda.estimator import LDA

__all__ = ["LDA"]


def __getattr__(name: str) -> Any:
    if name == "LDA":  # imported on demand, so that the command line starts without loading JAX
        from fokker.models.lda.estimator import LDA

        return LDA
    raise AttributeError(f"module 'fokker.models' has no attribute {name!r}")
