"""The passes of a fit: which sampler moves the tables, and which states are stored."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from fokker.datasets.ratings import Ratings
from fokker.models.factorisation.chain import Draw, FactorChain, GibbsSweep, Mover
from fokker.models.factorisation.features import Covariates
from fokker.models.factorisation.implicit import ImplicitChain
from fokker.models.factorisation.predict import ErrorCurve
from fokker.run.interruption import Interruption
from fokker.run.progress import Progress

if TYPE_CHECKING:
    from fokker.models.factorisation.estimator import Factorisation

# Sweeps of the Gibbs sampler where minibatches start, and their steps per pass if no batch size is given.
_SWEEPS, _STEPS = 20, 80
# A precision of the noise, of standardised ratings, for which the masses of minibatches are far too small.
_LARGE_PRECISION = 20.0


def new_chain(model: "Factorisation", ratings: Ratings, covariates: Mapping[str, Covariates]) -> FactorChain:
    """The chain of ratings, or with `confidence` of counts."""
    settings: dict[str, Any] = {"prior": model.prior, "seed": model._seed, "covariates": covariates}
    if model.confidence is None:
        return FactorChain(ratings, model.factors, noise_by_user=model.noise_by_user is not False, **settings)
    return ImplicitChain(ratings, model.factors, confidence=model.confidence, **settings)


def run_chain(
    model: "Factorisation",
    chain: FactorChain,
    curve: ErrorCurve | None,
    bar: Progress,
    interruption: Interruption,
) -> tuple[list[Draw], str | None]:
    """The draws of all passes, and why there are fewer than asked for."""
    draws: list[Draw] = []
    spacing = max(1, (model.num_passes - model.num_burn_in) // model.draws)
    of_curve = np.random.Generator(np.random.Philox(np.random.SeedSequence([model._seed, 2])))
    number = 0
    for number in chain.passes(_mover(model, chain), model.num_passes):
        is_burned_in = number > model.num_burn_in
        if is_burned_in and (model.num_passes - number) % spacing == 0:
            draws.append(chain.draw())
        note = "" if curve is None else f"test RMSE {curve.add(chain.draw(of_curve), is_burned_in):.4f}"
        bar.update(number, description="sampling", note=note)
        if interruption.asked:
            return draws or [chain.draw()], f"interrupted after {number} of {model.num_passes} passes"
    if number < model.num_passes:
        return draws, f"the chain left the finite numbers in pass {number + 1}: {_remedy(model, chain)}"
    return draws, None


def _remedy(model: "Factorisation", chain: FactorChain) -> str:
    """What to do about a chain that diverges."""
    if model.sampler == "gibbs":
        return "write the ratings in another unit"
    if np.median(chain.noise.precision) > _LARGE_PRECISION:
        return (
            "the ratings are explained with hardly any noise, in which minibatches take no stable steps; "
            "give sampler='gibbs'"
        )
    return "take smaller steps, by step_size, or give sampler='gibbs'"


def _mover(model: "Factorisation", chain: FactorChain) -> Mover:
    """What moves the tables: exact draws, or after a start by them, minibatches."""
    sweep = GibbsSweep(chain)
    if model.sampler == "gibbs":
        return sweep
    # Exact draws do not wait for what the samplers of minibatches import.
    from fokker.models.factorisation.minibatches import MinibatchPass, row_sampler

    for _ in chain.passes(sweep, _SWEEPS):
        pass
    batch_size = model.batch_size or math.ceil(len(chain.values) / _STEPS)
    sampler = row_sampler(
        model.sampler, chain, batch_size, model.step_size, model.friction, model.thermostat_mass
    )
    return MinibatchPass(chain, sampler, batch_size)
