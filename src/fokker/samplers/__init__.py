"""Samplers: dynamics × integrator × correction."""

from fokker.samplers.recipe import Info, Recipe, SamplerState, recipe

__all__ = ["Info", "Recipe", "SamplerState", "recipe"]
