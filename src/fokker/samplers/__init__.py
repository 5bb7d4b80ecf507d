"""Samplers: dynamics × integrator × correction, each with pure `init` and `step`."""

from fokker.samplers.recipe import Info, Recipe, SamplerState, recipe
from fokker.samplers.sghmc import naive_sghmc, sghmc
from fokker.samplers.sgld import sgfs, sgld, sgrld
from fokker.samplers.sgnht import sgnht, sgnht_by_ding
from fokker.samplers.sgrhmc import gsgrhmc, naive_sgrhmc, sgrhmc

__all__ = [
    "Info",
    "Recipe",
    "SamplerState",
    "gsgrhmc",
    "naive_sghmc",
    "naive_sgrhmc",
    "recipe",
    "sgfs",
    "sghmc",
    "sgld",
    "sgnht",
    "sgnht_by_ding",
    "sgrhmc",
    "sgrld",
]
