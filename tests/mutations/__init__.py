"""Plausible single mistakes, each of which some test must notice; `make mutate` tries them."""

from mutations import (
    corrected,
    data,
    datasets,
    judging,
    other_libraries,
    recipe,
    running,
    summaries,
    topics,
)
from mutations._mutation import Mutation

ALL: list[Mutation] = [
    *recipe.MUTATIONS,
    *corrected.MUTATIONS,
    *data.MUTATIONS,
    *datasets.MUTATIONS,
    *running.MUTATIONS,
    *judging.MUTATIONS,
    *summaries.MUTATIONS,
    *topics.MUTATIONS,
    *other_libraries.MUTATIONS,
]

__all__ = ["ALL", "Mutation"]
