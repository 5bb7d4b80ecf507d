"""The demonstrations of `fokker demo`."""

from fokker.lab.demo import logistic, ratings, recipe

DEMOS = {"logistic": logistic.run, "ratings": ratings.run, "recipe": recipe.run}

__all__ = ["DEMOS"]
