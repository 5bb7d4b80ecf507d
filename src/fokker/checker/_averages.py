r"""Whether steps of a sampler from draws of the target leave averages where they are.

A sampler that claims to be exact is so at every step size and temperature, and an error may be too small to
be seen at those given. So larger steps are taken too, and steps at half the temperature, where a draw of
exp(-U/T) counts with the weight exp(-U/T); of many dimensions at a temperature that is less far away.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fokker._core.quick import compile_once
from fokker._core.state import ravel
from fokker.checker._finding import ALARM, Finding
from fokker.dynamics.problem import Problem, double
from fokker.samplers.contract import Sampler
from fokker.samplers.loop import take_steps
from fokker.samplers.schedules import step_size_at

# Of the sampler, from every draw: a small bias of one step adds up.
_OWN_STEPS = 8
# Squared changes below this share of those between independent draws are none.
_STILL = 1e-9
# Times the step size that is given.
_LARGER = (2, 4)
# By which 1/T is increased, the first that leaves so many effective draws.
_COLDER, _FEWEST = (1.0, 0.5, 0.25, 0.125), 100


def position_of(sampler: Sampler, problem: Problem, x: Array) -> Any:
    """Where a sampler starts: at theta, or at the whole state if it was made of dynamics."""
    z = problem.to_state(x)
    return z["theta"] if sampler.wants_target else z


def steps_from(sampler: Sampler, state: Any, keys: Array) -> tuple[Any, Array]:
    """The state after one step per key, and theta after each of them."""
    return take_steps(sampler.step, state, (keys, None), lambda state, _: ravel(sampler.position(state)))


def at_temperature(sampler: Sampler, factor: float) -> Sampler | None:
    """The sampler at so many times its temperature; None where it says that it has one temperature only."""
    try:
        return sampler.on(sampler.own_target, factor * sampler.own_temperature)
    except ValueError:
        return None


class _Trial(NamedTuple):
    """A sampler with other settings than those given, in words, and the weights of the draws there."""

    sampler: Sampler
    where: str
    weights: np.ndarray


def _others(sampler: Sampler, energies: np.ndarray) -> Iterator[_Trial]:
    """The sampler with larger steps, and at a lower temperature, as far as it has these settings."""
    size: Any = sampler.own_step_size
    for factor in _LARGER if size is not None else ():
        larger: Any = (lambda n, k=factor: k * step_size_at(size, n)) if callable(size) else factor * size
        trial = double(sampler.with_step_size(larger))
        yield _Trial(trial, f"{factor} times the step size", np.ones_like(energies))
    colder = _colder(energies) if sampler.wants_target else None
    cold = None if colder is None else at_temperature(sampler, 1 / (1 + colder[0]))
    if colder is not None and cold is not None and cold.own_temperature != sampler.own_temperature:
        yield _Trial(double(cold), f"temperature {float(cold.own_temperature):.3g}", colder[1])


def _colder(energies: np.ndarray) -> tuple[float, np.ndarray] | None:
    """k and weights exp(-kU/T), with which draws are those at T/(1 + k); None where few draws have all of it.

    In many dimensions temperatures that are far apart have no draws in common.
    """
    for k in _COLDER:
        weights = np.exp(k * (np.min(energies) - energies))
        if np.sum(weights) ** 2 >= _FEWEST * np.sum(weights**2):
            return k, weights / np.mean(weights)
    return None


def averages_finding(
    sampler: Sampler, problem: Problem, points: np.ndarray, generator: np.random.Generator
) -> Finding:
    """Steps from draws of the target must leave every average where it is, also with other settings."""
    draws = points
    energy = compile_once(jax.vmap(problem.hamiltonian))
    energies = np.asarray(energy(draws))
    run = _runner(problem, draws, int(generator.integers(2**31)))
    moved = run(sampler)
    points = draws[:, : moved.shape[-1]]  # theta comes first
    center, spread = points.mean(axis=0), points.std(axis=0) + 1e-12
    directions = generator.normal(size=(points.shape[1], 32)) / np.sqrt(points.shape[1])

    def tests(x: np.ndarray) -> np.ndarray:
        near, along = np.tanh((x - center) / spread), np.tanh((x - center) / spread @ directions)
        # Of all coordinates together, as a spread that is a little wrong in each shows there.
        total = np.mean(near**2, axis=-1, keepdims=True)
        return np.concatenate([near, near**2, total, along, along**2], axis=-1)

    before = tests(points)
    change = tests(moved).mean(axis=1) - before
    largest, error = _standard_errors(change)
    largest, worst, looked = largest if np.all(np.isfinite(moved)) else np.inf, "", []
    for trial in _others(sampler, energies):
        ends = run(trial.sampler)
        if np.all(np.isfinite(ends)):  # else its steps are too large
            looked.append(trial.where)
            there = _standard_errors(trial.weights[:, None] * (tests(ends).mean(axis=1) - before))[0]
            largest, worst = max((largest, worst), (there, f" at {trial.where}"))
    shift = float(ALARM * np.max(error))
    is_still = bool(np.min(_moves(before, tests(moved[:, -1]))) < _STILL)
    if points.shape[1] == problem.dimension:
        is_still |= bool(_moves(energies, np.asarray(energy(moved[:, -1]))) < _STILL)
    also = f", nor do they at {' or at '.join(looked)}" if looked else ""
    return Finding(
        f"averages: {_OWN_STEPS} steps from {len(points)} draws of the target change none of "
        f"{change.shape[1]} averages{also} ({largest:.1f} standard errors at most; {ALARM} would be too "
        "many)",
        f"{_OWN_STEPS} steps from draws of the target change averages{worst}, by {largest:.0f} standard "
        "errors: the sampler does not keep the target, or the draws are poor",
        largest,
        ALARM,
        "none: averages of what does not move do not change"
        if is_still
        else f"an average that {_OWN_STEPS} steps change by less than {shift:.2g} would not be noticed (of "
        f"functions between -1 and 1, whose values they change by {float(np.sqrt(np.mean(change**2))):.2g})",
        f"in {_OWN_STEPS} steps from draws of the target some functions of the draw never change (theta or a "
        "part of it stays, or only changes its sign): the target is kept, but is not reached"
        if is_still
        else "",
        shift,
    )


def _runner(problem: Problem, draws: np.ndarray, seed: int) -> Callable[[Sampler], np.ndarray]:
    """Where steps of a sampler lead from all draws."""
    keys = jax.random.split(jax.random.key(seed), (len(draws), _OWN_STEPS + 1))

    def positions(sampler: Sampler) -> Array:
        def path(x: Array, keys: Array) -> Array:
            state = sampler.init(position_of(sampler, problem, x), key=keys[0])
            return steps_from(sampler, state, keys[1:])[1]

        return jax.vmap(path)(jnp.asarray(draws), keys)

    # Optimised: it runs a few thousand times.
    compiled = eqx.filter_jit(positions)

    def run(sampler: Sampler) -> np.ndarray:
        try:
            return np.asarray(compiled(sampler))
        except TypeError:  # its step needs the values of its settings, and is compiled for each
            return np.asarray(jax.jit(lambda: positions(sampler))())

    return run


def _standard_errors(change: np.ndarray) -> tuple[float, np.ndarray]:
    """How far the means are from zero, at most, in standard errors; and these."""
    error = change.std(axis=0, ddof=1) / np.sqrt(len(change))
    return float(np.max(np.abs(change.mean(axis=0)) / np.where(error > 0, error, np.inf))), error


def _moves(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Squared changes against those between independent draws: zero if a function of the draw is constant."""
    return np.asarray(np.mean((after - before) ** 2, axis=0) / (2 * np.var(before, axis=0) + 1e-300))
