"""Plausible single mistakes, each of which some test must notice; `make mutate` tries them."""

from mutations import corrected, data, factorisation, judging, recipe, running, topics
from mutations._mutation import Mutation

ALL: list[Mutation] = [
    *recipe.MUTATIONS,
    *corrected.MUTATIONS,
    *data.MUTATIONS,
    *factorisation.MUTATIONS,
    *running.MUTATIONS,
    *judging.MUTATIONS,
    *topics.MUTATIONS,
]

__all__ = ["ALL", "Mutation"]
