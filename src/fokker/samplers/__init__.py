"""Samplers, each with pure `init` and `step`.

Nearly all are dynamics × integrator (`plain.py`), or dynamics × integrator × correction (`corrected.py`, and
with a direction in place of a momentum `microcanonical.py`). Gibbs and slice samplers follow no dynamics;
psgld has a memory beside its state; replica exchange and `fk.lazy` are made of others. What every sampler
does and says is in `contract.py`.
"""

import inspect
from typing import Any

from fokker._core.names import no_attribute
from fokker.samplers._named import naming_arguments
from fokker.samplers.contract import Followed, Info, Sampler, SamplerState
from fokker.samplers.gibbs import gibbs, gibbs_normal
from fokker.samplers.hmc import ghmc, hmc
from fokker.samplers.mala import mala
from fokker.samplers.maula import maula
from fokker.samplers.microcanonical import mchmc, mclmc
from fokker.samplers.nuts import naive_nuts, nuts
from fokker.samplers.psgld import psgld
from fokker.samplers.recipe import Recipe, recipe
from fokker.samplers.replica_exchange import replica_exchange
from fokker.samplers.rhmc import rhmc
from fokker.samplers.rwm import rwm
from fokker.samplers.sghmc import naive_sghmc, sghmc
from fokker.samplers.sgld import sgfs, sgld, sgrld
from fokker.samplers.sgnht import sgnht, sgnht_by_ding
from fokker.samplers.sgrhmc import gsgrhmc, naive_sgrhmc, sgrhmc
from fokker.samplers.slice_sampler import slice_sampler
from fokker.samplers.trajectory_sampler import TrajectorySampler
from fokker.samplers.unadjusted import ula, ulmc

__all__ = [
    "Followed",
    "Info",
    "Recipe",
    "Sampler",
    "SamplerState",
    "TrajectorySampler",
    "ghmc",
    "gibbs",
    "gibbs_normal",
    "gsgrhmc",
    "hmc",
    "mala",
    "maula",
    "mchmc",
    "mclmc",
    "naive_nuts",
    "naive_sghmc",
    "naive_sgrhmc",
    "nuts",
    "psgld",
    "recipe",
    "replica_exchange",
    "rhmc",
    "rwm",
    "sgfs",
    "sghmc",
    "sgld",
    "sgnht",
    "sgnht_by_ding",
    "sgrhmc",
    "sgrld",
    "slice_sampler",
    "ula",
    "ulmc",
]

# What users call; type checkers see the functions as they are.
globals().update(
    {name: naming_arguments(globals()[name]) for name in __all__ if inspect.isfunction(globals()[name])}
)


def __getattr__(name: str) -> Any:
    raise no_attribute(__name__, name, __all__)
