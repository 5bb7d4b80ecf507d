"""A trial of `fk.tune`: a short run with one candidate, and what is wrong with it."""

import dataclasses
import math
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fokker.diagnostics._gradients import as_vectors, gradients_at, redrawn, thinned
from fokker.diagnostics._spread import spread_findings, walls_of
from fokker.diagnostics._steps import noise_share
from fokker.diagnostics.configurational import spread_of
from fokker.diagnostics.stein import kernel_stein_discrepancy
from fokker.run.call import Call, Options
from fokker.run.candidates import Arm
from fokker.run.journal import Journal
from fokker.run.loop import Run
from fokker.run.plan import entered, plan
from fokker.run.start import ready, start
from fokker.run.trace import Trace
from fokker.samplers.contract import Sampler
from fokker.targets.target import Target

CHAINS, _POINTS = 4, 256
HALF, _THIN = 256, 4
# Steps of the first trials.
TRIED = 2 * HALF
# Rows of data used to judge one trial.
_JUDGED = 20_000_000
# A false rejection costs half a step; a bias that is missed costs the run that follows.
_FALSE_REJECTIONS = 0.1
# A typical (θ - c)·∇U/Td is near 1 where chains have mixed. Below this value they hardly move, and show no
# bias only because they have too few independent draws.
_STILL = 0.1
HARDLY_MOVED = "theta has hardly moved"


@dataclass(frozen=True)
class Trial:
    """One short run: its settings, its length, and the kernel Stein discrepancy² of its second half.

    `problem` is what the summary of a run with these settings would find wrong, as far as it is due to them;
    `gradient_norm`, the median of |∇U|/T at its draws.
    """

    step_size: float
    friction: float | None
    steps: int
    discrepancy: float
    sampler: Sampler = field(repr=False)
    problem: str = ""
    gradient_norm: float = math.nan

    @property
    def order(self) -> tuple[bool, float]:
        """Those without a problem first, and of them those nearest to the target."""
        return bool(self.problem), self.discrepancy


def trial_of(target: Target, arm: Arm, steps: int, options: Options, journal: Journal) -> Trial:
    """A short run of four chains, whose second half is judged."""
    step_size, friction, sampler = arm
    half = HALF * max(1, round(steps / (2 * HALF)))

    def compute() -> Any:
        discrepancy, problem, norm = judged(target, sampler, half, options)
        return (), {"numbers": np.array([discrepancy, norm]), "problem": np.array(problem)}

    _, result = journal.stage((), compute)
    discrepancy, norm = (float(x) for x in result["numbers"])
    return Trial(step_size, friction, 2 * half, discrepancy, sampler, str(result["problem"]), norm)


def judged(target: Target, sampler: Sampler, half: int, options: Options) -> tuple[float, str, float]:
    """The discrepancy², the problem and the median |∇U|/T of a short run."""
    of_trial = dataclasses.replace(
        options,
        steps=half,
        burn_in=half,
        thin=_THIN,
        chains=CHAINS,
        chunk=HALF,  # one length in every round: each program is compiled once
        keep="draws",
        warm_up=None,
        progress=False,
        out=None,
        mesh=None,
    )
    with warnings.catch_warnings():  # a candidate may end before its first draw
        warnings.simplefilter("ignore", RuntimeWarning)
        with entered(Call(target, sampler, of_trial)) as call:
            planned = plan(call)
            trace = Run(start(ready(planned, planned.sampler))).run()
    if trace.was_interrupted:
        raise KeyboardInterrupt
    failed = math.inf, "the chains diverged", math.nan
    if trace.stopped is not None or trace.losses or trace.origin is None:
        return failed
    own_target = trace.origin.sampler.own_target
    positions = redrawn(own_target, thinned(trace.positions, max(_POINTS, half // 2)))
    draws = as_vectors(positions)
    gradients = gradients_at(own_target, positions, _JUDGED) / options.temperature
    if not (np.all(np.isfinite(draws)) and np.all(np.isfinite(gradients))):
        return failed
    every = max(1, draws.shape[0] * draws.shape[1] // _POINTS)
    few_draws, few_gradients = (x[:, ::every].reshape(-1, draws.shape[2]) for x in (draws, gradients))
    discrepancy = kernel_stein_discrepancy(few_draws, -few_gradients).squared
    norm = float(np.median(np.linalg.norm(gradients, axis=-1)))
    return discrepancy, _problem(trace, draws, gradients), norm


def _problem(trace: Trace, draws: np.ndarray, gradients: np.ndarray) -> str:
    """The problem that the summary would find with the settings, whatever the length of the run."""
    findings = noise_share(trace, {})
    if not findings:
        walls = walls_of(trace.sampler, trace.positions)
        spread = spread_of(draws, gradients, walls=walls)
        if spread.typical < _STILL:
            return HARDLY_MOVED
        # A mean that is off in a short run is slow rather than biased: smaller steps would be slower still.
        findings = spread_findings(spread, _FALSE_REJECTIONS, means=False)
    return findings[0].text.split(":")[0] if findings else ""
