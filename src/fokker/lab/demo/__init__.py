"""The demonstrations of `fokker demo`."""

from fokker.lab.demo import logistic, network, recipe

DEMOS = {"logistic": logistic.run, "network": network.run, "recipe": recipe.run}

__all__ = ["DEMOS"]
