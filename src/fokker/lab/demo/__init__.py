"""The demonstrations of `fokker demo`."""

from fokker.lab.demo import logistic, recipe

DEMOS = {"logistic": logistic.run, "recipe": recipe.run}

__all__ = ["DEMOS"]
