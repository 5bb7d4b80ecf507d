"""Data sets in the files in which they are published. Nothing here needs JAX."""

from fokker.datasets.ratings import Ratings, read_ratings

__all__ = ["Ratings", "read_ratings"]
