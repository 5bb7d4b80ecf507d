"""Plausible single mistakes, each of which some test must notice; `make mutate` tries them."""

from mutations import corrected, data, judging, networks, recipe, running, topics
from mutations._mutation import Mutation

ALL: list[Mutation] = [
    *recipe.MUTATIONS,
    *corrected.MUTATIONS,
    *data.MUTATIONS,
    *running.MUTATIONS,
    *judging.MUTATIONS,
    *topics.MUTATIONS,
    *networks.MUTATIONS,
]

__all__ = ["ALL", "Mutation"]
