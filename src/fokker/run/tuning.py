"""The search of `fk.tune`: a step size, and friction where there is one, from short runs."""

import dataclasses
import inspect
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree
from rich.console import Console

from fokker._core.state import is_function, ravel
from fokker.diagnostics._gradients import as_vectors, gradients_at, redrawn, thinned
from fokker.diagnostics._spread import spread_findings, walls_of
from fokker.diagnostics._steps import noise_share
from fokker.diagnostics.configurational import spread_of
from fokker.diagnostics.stein import kernel_stein_discrepancy
from fokker.integrators import Splitting
from fokker.rows import refuse_stream
from fokker.run.call import Call, Options
from fokker.run.journal import Journal
from fokker.run.loop import Run
from fokker.run.minibatches import make_batches
from fokker.run.plan import entered, plan
from fokker.run.positions import PerChain
from fokker.run.progress import Progress
from fokker.run.start import ready, start
from fokker.run.trace import Trace
from fokker.samplers._named import by_name
from fokker.samplers._time_scale import large_batch_potential, largest_curvature
from fokker.samplers.contract import Sampler
from fokker.targets.target import Target, TargetWithData

# Shares of the fastest time scale of the target, and of its rate: the grids that are tried.
_STEPS = tuple(2.0**-k for k in range(9))
_FRICTIONS = (0.03, 0.1, 0.3, 1.0)
_CHAINS, _POINTS = 4, 256
_HALF, _THIN = 256, 4
# Steps of the first trials.
TRIED = 2 * _HALF
# Rows of data used to judge one trial.
_JUDGED = 20_000_000
# One in this many candidates continues, for this many times longer.
_KEPT = 3
# Steps of the run that checks the winner, after half as many that are left out.
_CHECKED = 64 * _HALF
# Seconds that a trial may take which only shows how long a search would be.
_SHORT = 5.0
# How often the step may be halved until the check finds no bias.
_HALVINGS = 6
# A false rejection costs half a step; a bias that is missed costs the run that follows.
_FALSE_REJECTIONS = 0.1
# A typical (θ - c)·∇U/Td is near 1 where chains have mixed. Below this value they hardly move, and show no
# bias only because they have too few independent draws.
_STILL = 0.1
_HARDLY_MOVED = "theta has hardly moved"
# A gradient at the start this many times as large as at draws means a start far from the mass.
_FAR = 5.0


class Arm(NamedTuple):
    """A candidate."""

    step_size: float
    friction: float | None
    sampler: Sampler


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
    arms = list(_candidates(target, sampler, theta, step_sizes, frictions, options))
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
                trials.append(_trial(target, arm, steps, options, journal))
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


def with_tuned(
    sampler: Sampler | Callable[..., Sampler], step_size: float, friction: float | None
) -> Sampler:
    """The sampler that `tune` chose, from what is written of it."""
    base = (
        sampler
        if isinstance(sampler, Sampler)
        else _with_friction(sampler, _friction_name(sampler), friction)
    )
    return base.with_step_size(step_size)


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
    cost = f", {_CHAINS * total * rows:.2g} rows of data" if rows else ""
    return (
        f"tuning: {candidates} candidates in {_CHAINS} chains, about {total:,} steps in all{cost}; fewer "
        "with step_sizes or frictions of your own"
    )


def time_of_tuning(
    target: Target, sampler: Sampler | Callable[..., Sampler], options: Options, step_seconds: float
) -> tuple[float, float]:
    """About how many seconds `tuned` takes, and each halving of the step more, from a few short trials.

    `step_seconds`: those of a step of one chain. Where even a short trial would take long, they are all that
    is known: the time of judging the trials is left out.
    """
    before = time.monotonic()
    options = _of_one_start(options)
    arms = list(_candidates(target, sampler, _start(target, options), None, None, options))
    rounds = rounds_of(len(arms))
    fixed, per_step = 0.0, _CHAINS * step_seconds

    def seconds(half: int) -> float:
        begin = time.monotonic()
        _judged(target, arms[-1].sampler, half, options)  # that with the smallest step
        return time.monotonic() - begin

    if TRIED * per_step < _SHORT:
        seconds(_HALF)  # which compiles
        preparing = time.monotonic() - before
        short, longer = seconds(_HALF), seconds(_KEPT * _HALF)
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
        trial = _trial(target, arm, 2 * _CHECKED, options, journal)
        rounds.append([trial])
        console.print(
            f"  checked step size {arm.step_size:.3g}: {trial.problem or 'no bias found'}", markup=False
        )
        if not trial.problem:
            break
        step_size = arm.step_size * (2 if trial.problem == _HARDLY_MOVED else 0.5)
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


def _trial(target: Target, arm: Arm, steps: int, options: Options, journal: Journal) -> Trial:
    """A short run of four chains, whose second half is judged."""
    step_size, friction, sampler = arm
    half = _HALF * max(1, round(steps / (2 * _HALF)))

    def compute() -> Any:
        discrepancy, problem, norm = _judged(target, sampler, half, options)
        return (), {"numbers": np.array([discrepancy, norm]), "problem": np.array(problem)}

    _, result = journal.stage((), compute)
    discrepancy, norm = (float(x) for x in result["numbers"])
    return Trial(step_size, friction, 2 * half, discrepancy, sampler, str(result["problem"]), norm)


def _judged(target: Target, sampler: Sampler, half: int, options: Options) -> tuple[float, str, float]:
    """The discrepancy², the problem and the median |∇U|/T of a short run."""
    of_trial = dataclasses.replace(
        options,
        steps=half,
        burn_in=half,
        thin=_THIN,
        chains=_CHAINS,
        chunk=_HALF,  # one length in every round: each program is compiled once
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
            return _HARDLY_MOVED
        # A mean that is off in a short run is slow rather than biased: smaller steps would be slower still.
        findings = spread_findings(spread, _FALSE_REJECTIONS, means=False)
    return findings[0].text.split(":")[0] if findings else ""


def _candidates(
    target: Target,
    sampler: Sampler | Callable[..., Sampler],
    theta: PyTree[Array],
    step_sizes: Sequence[float] | None,
    frictions: Sequence[float] | None,
    options: Options,
) -> Iterator[Arm]:
    """All candidates."""
    name = None if isinstance(sampler, Sampler) else _friction_name(sampler)
    if frictions is not None and name is None:
        raise ValueError("this sampler has no friction to choose: leave frictions out, or give a function.")
    chosen: Sequence[float | None] = (None,)
    if name is not None:
        rate = math.sqrt(largest_curvature(target.at_temperature(options.temperature), theta))
        chosen = frictions or [rate * share for share in _FRICTIONS]
    assert options.key is not None
    for friction in chosen:
        # One sampler per friction, so that one program serves all its step sizes.
        base = sampler if isinstance(sampler, Sampler) else _with_friction(sampler, name, friction)
        # The step size is not known yet: one so small that it passes every check.
        time_scale = 1.0
        if step_sizes is None:
            time_scale = base.with_step_size(1e-12).fastest_time(
                target, options.temperature, theta, options.key
            )
        for step_size in step_sizes or [time_scale * share for share in _STEPS]:
            yield Arm(float(step_size), friction, base.with_step_size(step_size))


def _with_friction(make: Callable[..., Sampler], name: str | None, friction: float | None) -> Sampler:
    settings: dict[str, Any] = {}
    parameters = inspect.signature(make).parameters
    if name is not None and friction is not None:
        settings[name] = friction
        if "thermostat_mass" in parameters:  # a thermostat as fast as the friction that it replaces
            settings["thermostat_mass"] = 1 / friction**2
        matrix = "kind" in parameters and parameters["kind"].default == "matrix"
        if "integrator" in parameters and parameters["integrator"].default is None and not matrix:
            settings["integrator"] = Splitting()
    return make(1.0, **settings)


def _friction_name(make: Callable[..., Sampler]) -> str | None:
    parameters = inspect.signature(make).parameters
    return "friction" if "friction" in parameters else None
