"""The demonstrations of `fokker demo`."""

from fokker.demo import logistic, network, ratings, recipe

DEMOS = {"logistic": logistic.run, "network": network.run, "ratings": ratings.run, "recipe": recipe.run}

__all__ = ["DEMOS"]
