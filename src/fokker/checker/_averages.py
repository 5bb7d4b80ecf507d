"""Whether steps of a sampler from draws of the target leave averages where they are."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from fokker._core.quick import compile_once
from fokker._core.state import ravel
from fokker.checker._finding import ALARM, Finding
from fokker.dynamics.problem import Problem
from fokker.samplers.contract import Sampler

# Of the sampler, from every draw: a small bias of one step adds up.
_OWN_STEPS = 8
# Squared changes below this share of those between independent draws are none.
_STILL = 1e-9


def position_of(sampler: Sampler, problem: Problem, x: Array) -> Any:
    """Where a sampler starts: at theta, or at the whole state if it was made of dynamics."""
    z = problem.to_state(x)
    return z["theta"] if sampler.wants_target else z


def steps_from(sampler: Sampler, state: Any, keys: Array) -> tuple[Any, Array]:
    """The state after one step per key, and theta after each of them."""

    def step(state: Any, key: Array) -> tuple[Any, Array]:
        state, _ = sampler.step(key, state)
        return state, ravel(sampler.position(state))

    return jax.lax.scan(step, state, keys)


def averages_finding(
    sampler: Sampler, problem: Problem, points: np.ndarray, generator: np.random.Generator
) -> Finding:
    """Steps from draws of the target must leave every average where it is."""
    keys = jax.random.split(jax.random.key(int(generator.integers(2**31))), (len(points), _OWN_STEPS + 1))

    def positions(x: Array, keys: Array) -> Array:
        state = sampler.init(position_of(sampler, problem, x), key=keys[0])
        return steps_from(sampler, state, keys[1:])[1]

    # Optimised: it runs a few thousand times.
    moved = np.asarray(jax.jit(jax.vmap(positions))(points, keys))
    points = points[:, : moved.shape[-1]]  # theta comes first
    center, spread = points.mean(axis=0), points.std(axis=0) + 1e-12
    directions = generator.normal(size=(points.shape[1], 32)) / np.sqrt(points.shape[1])

    def tests(x: np.ndarray) -> np.ndarray:
        z = (x - center) / spread
        return np.concatenate(
            [np.tanh(z), np.tanh(z) ** 2, np.tanh(z @ directions), np.tanh(z @ directions) ** 2], axis=-1
        )

    change = tests(moved).mean(axis=1) - tests(points)
    error = change.std(axis=0, ddof=1) / np.sqrt(len(points))
    t = np.abs(change.mean(axis=0)) / np.where(error > 0, error, np.inf)
    largest = float(np.max(t)) if np.all(np.isfinite(moved)) else np.inf
    shift = float(ALARM * np.max(error))
    is_still = bool(np.min(_moves(tests(points), tests(moved[:, -1]))) < _STILL)
    if points.shape[1] == problem.dimension:
        energy = compile_once(jax.vmap(problem.hamiltonian))
        is_still |= bool(_moves(np.asarray(energy(points)), np.asarray(energy(moved[:, -1]))) < _STILL)
    return Finding(
        f"averages: {_OWN_STEPS} steps from {len(points)} draws of the target change none of {t.size} "
        f"averages ({largest:.1f} standard errors at most; {ALARM} would be too many)",
        f"{_OWN_STEPS} steps from draws of the target change averages, by {largest:.0f} standard errors: the "
        "sampler does not keep the target, or the draws are poor",
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


def _moves(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Squared changes against those between independent draws: zero if a function of the draw is constant."""
    return np.asarray(np.mean((after - before) ** 2, axis=0) / (2 * np.var(before, axis=0) + 1e-300))
