"""Samplers: dynamics × integrator × correction, each with pure `init` and `step`."""

from fokker.samplers._sampler import Info, Sampler, SamplerState
from fokker.samplers.psgld import psgld
from fokker.samplers.recipe import Recipe, recipe
from fokker.samplers.replica_exchange import replica_exchange
from fokker.samplers.sghmc import naive_sghmc, sghmc
from fokker.samplers.sgld import sgfs, sgld, sgrld
from fokker.samplers.sgnht import sgnht, sgnht_by_ding
from fokker.samplers.sgrhmc import gsgrhmc, naive_sgrhmc, sgrhmc

__all__ = [
    "Info",
    "Recipe",
    "Sampler",
    "SamplerState",
    "gsgrhmc",
    "naive_sghmc",
    "naive_sgrhmc",
    "psgld",
    "recipe",
    "replica_exchange",
    "sgfs",
    "sghmc",
    "sgld",
    "sgnht",
    "sgnht_by_ding",
    "sgrhmc",
    "sgrld",
]
