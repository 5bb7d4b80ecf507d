"""The search of `fk.tune`: a step size, and friction where there is one, from short runs."""

import dataclasses
import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree
from rich.console import Console

from fokker._core.state import is_function, ravel
from fokker.rows import refuse_stream
from fokker.run.call import Options
from fokker.run.candidates import Arm, candidates_of
from fokker.run.journal import Journal
from fokker.run.minibatches import make_batches
from fokker.run.positions import PerChain
from fokker.run.progress import Progress
from fokker.run.trials import CHAINS, HALF, HARDLY_MOVED, TRIED, Trial, judged, trial_of
from fokker.samplers._time_scale import large_batch_potential
from fokker.samplers.by_name import by_name
from fokker.samplers.contract import Sampler
from fokker.targets.target import Target, TargetWithData

# One in this many candidates continues, for this many times longer.
_KEPT = 3
# Steps of the run that checks the winner, after half as many that are left out.
_CHECKED = 64 * HALF
# Seconds that a trial may take which only shows how long a search would be.
_SHORT = 5.0
# How often the step may be halved until the check finds no bias.
_HALVINGS = 6
# A gradient at the start this many times as large as at draws means a start far from the mass.
_FAR = 5.0


@dataclass(frozen=True)
class Tuning:
    """The sampler chosen, and everything that was tried; `print(tuning)` shows it.

    - `sampler`: the one chosen, with its `step_size` and `friction`.
    - `rounds`: what was tried, round by round. The last, of one trial each, are the check of the winner, with
      the step halved until its own diagnostics find no bias.
    - `notes`: warnings about the result.
    """

    sampler: Sampler
    step_size: float
    friction: float | None
    rounds: list[list[Trial]]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"{'step size':>11} {'friction':>10} {'steps':>8} {'discrepancy²':>14}"]
        for trials in self.rounds:
            for trial in sorted(trials, key=lambda t: t.order):
                friction = "" if trial.friction is None else f"{trial.friction:.4g}"
                discrepancy = f"{trial.discrepancy:.4g}" if math.isfinite(trial.discrepancy) else "diverged"
                problem = f"  {trial.problem}" if trial.problem else ""
                lines.append(
                    f"{trial.step_size:11.4g} {friction:>10} {trial.steps:8,} {discrepancy:>14}{problem}"
                )
            lines.append("")
        chosen = f"chosen: step size {self.step_size:.4g}"
        chosen += f", friction {self.friction:.4g}" if self.friction else ""
        return "\n".join([*lines, chosen, *(f"Note: {note}." for note in self.notes)])


def tuned(
    target: Target,
    sampler: Sampler | Callable[..., Sampler] | str,
    options: Options,
    journal: Journal,
    step_sizes: Sequence[float] | None = None,
    frictions: Sequence[float] | None = None,
) -> Tuning:
    """`fk.tune`, with trials that the journal knows; `options` has the steps of the first, and a key."""
    sampler = by_name(sampler) if isinstance(sampler, str) else sampler
    refuse_stream(target.data if isinstance(target, TargetWithData) else None)
    # Raises where they do not fit.
    make_batches(target, options.batch_size, options.batches, options.gradient, jax.random.key(0))
    options = _of_one_start(options)
    theta = _start(target, options)
    target.validate(theta)
    arms = list(candidates_of(target, sampler, theta, step_sizes, frictions, options))
    console = Console(stderr=True, quiet=not options.progress)
    all_rows = target.size if isinstance(target, TargetWithData) else 0
    rows = all_rows if options.batch_size is None else options.batch_size
    steps = options.steps
    console.print(_cost(len(arms), steps, rows), markup=False, soft_wrap=True)
    rounds: list[list[Trial]] = []
    while len(arms) > 1 or not rounds:
        what = f"tuning: {len(arms)} candidates, {steps:,} steps each"
        trials: list[Trial] = []
        with Progress(what, len(arms), unit="candidates", enabled=options.progress) as bar:
            for arm in arms:
                trials.append(trial_of(target, arm, steps, options, journal))
                bar.update(len(trials))
        rounds.append(trials)
        good = sorted((t for t in trials if math.isfinite(t.discrepancy)), key=lambda t: t.order)
        if not good:
            raise ValueError(
                f"every step size tried from {min(t.step_size for t in trials):.3g} to "
                f"{max(t.step_size for t in trials):.3g} diverged: give smaller step_sizes, or start nearer "
                "to the mass of the target (fk.find_mode)."
            )
        best = good[0]
        console.print(f"  best of {len(trials)}: step size {best.step_size:.3g}", markup=False)
        arms = [Arm(t.step_size, t.friction, t.sampler) for t in good[: max(1, len(trials) // _KEPT)]]
        steps *= _KEPT
    return _check(target, arms[0], options, rounds, console, journal)


def _of_one_start(options: Options) -> Options:
    """Trials have their own number of chains: of a start for each chain they take the first."""
    if not isinstance(options.init, PerChain):
        return options
    first = jax.tree.map(lambda x: jnp.asarray(x)[0], options.init.positions)
    return dataclasses.replace(options, init=first)


def _start(target: Target, options: Options) -> PyTree[Array]:
    """Where trials start, in the sampler's coordinates."""
    init: Any = options.init
    return target.unconstrain(init(options.key) if is_function(init) else init)


def rounds_of(candidates: int, steps: int = TRIED) -> list[tuple[int, int]]:
    """(trials, steps of each) of every round; the last is the check of the winner, if no step is halved."""
    rounds: list[tuple[int, int]] = []
    while candidates > 1 or not rounds:
        rounds.append((candidates, steps))
        candidates, steps = max(1, candidates // _KEPT), steps * _KEPT
    return [*rounds, (1, 2 * _CHECKED)]


def _cost(candidates: int, steps: int, rows: int) -> str:
    """The cost of tuning, in words."""
    total = sum(trials * length for trials, length in rounds_of(candidates, steps))
    cost = f", which see {_rounded(CHAINS * total * rows)} rows" if rows else ""
    what = "candidate" if candidates == 1 else "candidates"
    return (
        f"tuning: {candidates} {what}, about {_rounded(total)} steps in each of {CHAINS} chains{cost}; a "
        "step size of your own makes it unnecessary"
    )


def _rounded(count: int) -> str:
    """A number in words, to two digits."""
    rounded = int(float(f"{count:.2g}"))
    for unit, name in ((10**9, " billion"), (10**6, " million")):
        if rounded >= unit:
            return f"{rounded / unit:,.10g}{name}"
    return f"{rounded:,}"


def time_of_tuning(
    target: Target, sampler: Sampler | Callable[..., Sampler], options: Options, step_seconds: float
) -> tuple[float, float]:
    """About how many seconds `tuned` takes, and each halving of the step more, from a few short trials.

    `step_seconds`: those of a step of one chain. Where even a short trial would take long, they are all that
    is known: the time of judging the trials is left out.
    """
    before = time.monotonic()
    options = _of_one_start(options)
    arms = list(candidates_of(target, sampler, _start(target, options), None, None, options))
    rounds = rounds_of(len(arms))
    fixed, per_step = 0.0, CHAINS * step_seconds

    def seconds(half: int) -> float:
        start = time.monotonic()
        judged(target, arms[-1].sampler, half, options)  # that with the smallest step
        return time.monotonic() - start

    if TRIED * per_step < _SHORT:
        seconds(HALF)  # which compiles
        preparing = time.monotonic() - before
        short, longer = seconds(HALF), seconds(_KEPT * HALF)
        fixed = max(0.0, short - TRIED * per_step)
        # Every length of a trial has its own program for judging it.
        compiling = max(0.0, longer - fixed - _KEPT * TRIED * per_step)
        preparing += (len(rounds) - 1) * compiling
    else:
        preparing = time.monotonic() - before
    total = preparing + sum(trials * (fixed + steps * per_step) for trials, steps in rounds)
    return total, fixed + rounds[-1][1] * per_step


def _check(
    target: Target,
    arm: Arm,
    options: Options,
    rounds: list[list[Trial]],
    console: Console,
    journal: Journal,
) -> Tuning:
    """Run the winner for longer, and halve its step until its diagnostics find no bias."""
    for _ in range(_HALVINGS):
        trial = trial_of(target, arm, 2 * _CHECKED, options, journal)
        rounds.append([trial])
        console.print(
            f"  checked step size {arm.step_size:.3g}: {trial.problem or 'no bias found'}", markup=False
        )
        if not trial.problem:
            break
        step_size = arm.step_size * (2 if trial.problem == HARDLY_MOVED else 0.5)
        arm = Arm(step_size, arm.friction, arm.sampler.with_step_size(step_size))
    notes = []
    if trial.problem:
        notes.append(f"no step size tried is free of bias: {trial.problem}")
    if math.isfinite(trial.gradient_norm) and not is_function(options.init):
        theta = _start(target, options)
        potential = large_batch_potential(target.at_temperature(options.temperature))
        at_start = float(np.linalg.norm(ravel(jax.grad(potential)(theta))))
        usual = trial.gradient_norm * options.temperature
        if at_start > _FAR * usual:
            notes.append(
                f"the gradient at init is {at_start / usual:.2g} times as large as that of draws: tuning "
                "started far from the mass of the target, with the time scales there; start at fk.find_mode"
            )
    for note in notes:
        warnings.warn(f"tuning: {note}.", RuntimeWarning, stacklevel=3)
    return Tuning(trial.sampler, trial.step_size, arm.friction, rounds, tuple(notes))
