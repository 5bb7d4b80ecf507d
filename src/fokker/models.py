"""Models that come with their own samplers."""

from fokker.lda.estimator import LDA

__all__ = ["LDA"]
