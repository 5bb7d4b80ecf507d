r"""What makes a Metropolis correction exact, by derivatives of the sampler's own step.

A proposal with a density is exact if it is accepted with min(1, π(z')q(z|z') / π(z)q(z'|z)); a deterministic
trajectory if it leads back once the momentum is reversed and is accepted with min(1, e^{-ΔH}|det ∂z'/∂z|).
Both are identities, to be had at any point. What neither says, averages over draws from the target do.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fokker._core.state import ravel
from fokker.checker._residual import compile_once
from fokker.dynamics.problem import Problem
from fokker.integrators.generalised_leapfrog import reversible_leapfrog
from fokker.samplers._sampler import Sampler, step_size_at
from fokker.samplers._walker import Walker
from fokker.samplers._whole import StepInfo
from fokker.samplers.hmc import HMC, Draws
from fokker.samplers.metropolis import MAULA, SingleMove
from fokker.samplers.microcanonical import Microcanonical
from fokker.samplers.replica_exchange import ReplicaExchange, exchange_log_ratio
from fokker.samplers.rhmc import RiemannianHMC

_EXACT_AT = 16
_LEAPS = 3
_TOLERANCE = 1e-6
# Standard errors; of two hundred averages one exceeds this once in fifty million checks.
_ALARM = 6.5
_REPEATS = 2

Map = Callable[[Array, Array], tuple[Array, Array]]


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing that was looked at: its error, what is allowed, in words what it is and what failed."""

    words: str
    reason: str
    error: float
    tolerance: float = _TOLERANCE
    power: str = ""

    @property
    def holds(self) -> bool:
        """Whether the error is no larger than allowed; NaN does not hold."""
        return self.error <= self.tolerance


def check_correction(
    sampler: Sampler, problem: Problem, points: np.ndarray, generator: np.random.Generator
) -> list[Finding]:
    """All that can be said of the correction of a sampler, put on its target and in double precision."""
    some = points[:_EXACT_AT]
    if isinstance(sampler, SingleMove):
        return _detailed_balance(sampler, problem, some, generator)
    if isinstance(sampler, ReplicaExchange):
        return [_exchange(sampler, problem, some)]
    if isinstance(sampler, HMC):
        short = dataclasses.replace(sampler, leaps=jnp.asarray(_LEAPS), persistence=None)
        found = _trajectory(_leapfrog(sampler, problem), some, generator)
        return [*found, *_acceptance(short, problem, some, generator)]
    if isinstance(sampler, RiemannianHMC):
        return _riemannian(sampler, problem, some, generator)
    if isinstance(sampler, Microcanonical):
        return _isokinetic(sampler, problem, some, generator)
    found = []
    if isinstance(sampler, Walker):
        found = _trajectory(_leapfrog(sampler, problem), some, generator)
    return [*found, _averages(sampler, problem, points, generator)]


def _theta(problem: Problem, x: Array) -> Any:
    return problem.to_state(x)["theta"]


def _largest(values: Any) -> float:
    return float(np.max(np.abs(np.asarray(values))))


def _detailed_balance(
    sampler: SingleMove, problem: Problem, points: np.ndarray, generator: np.random.Generator
) -> list[Finding]:
    """log π(z')q(z|z') - log π(z)q(z'|z) against the sampler's; a proposal is affine in its noise."""
    d, with_momentum = problem.dimension, isinstance(sampler, MAULA)
    U = problem.hamiltonian

    def proposal(x: Array, p: Array, noise: Array) -> tuple[Array, Any, Any]:
        state = sampler.init(_theta(problem, x), key=jax.random.key(0))._replace(momentum=p)
        draws = (noise[:d], noise[d:], jnp.ones(()))
        move = sampler.onward(sampler.begin(draws, state), state)
        there = sampler.vector(move.q, state)
        return jnp.concatenate([there, move.p]) if with_momentum else there, move, state

    def log_density(x: Array, p: Array, end: Array) -> Array:
        """log q(end | x, p), up to a constant."""
        used = 2 * d if with_momentum else d

        def ends(noise: Array) -> Array:
            return proposal(x, p, jnp.zeros(2 * d).at[:used].set(noise))[0]

        zero = jnp.zeros(used)
        J = jax.jacfwd(ends)(zero)
        w = jnp.linalg.solve(J, end - ends(zero))
        return -jnp.sum(w**2) / 2 - jnp.linalg.slogdet(J)[1]

    def at(x: Array, p: Array, noise: Array) -> tuple[Array, Array]:
        end, move, state = proposal(x, p, noise)
        y, new_p = (end[:d], end[d:]) if with_momentum else (end, p)
        back = jnp.concatenate([x, -p]) if with_momentum else x
        ratio = U(x) - U(y) + log_density(y, -new_p, back) - log_density(x, p, end)
        ratio += (jnp.sum(p**2) - jnp.sum(new_p**2)) / 2
        _, info = sampler.finish(move, state)
        claimed = info.acceptance
        return jnp.minimum(1.0, jnp.exp(ratio)) - claimed, (move.log_ratio - ratio) / (1 + jnp.abs(ratio))

    noise = generator.normal(size=(len(points), 2 * d))
    p = generator.normal(size=points.shape)
    rates, ratios = compile_once(jax.vmap(at))(points, p, noise)
    error = max(_largest(rates), _largest(ratios))
    formula = "π(z')q(z|z') / π(z)q(z'|z)" + (", with momenta reversed" if with_momentum else "")
    return [
        Finding(
            f"detailed balance: the acceptance is min(1, {formula}) to {error:.1g}, at {len(points)} points; "
            "the Metropolis correction makes it exact at every step size",
            f"detailed balance does not hold: the acceptance is not min(1, {formula}), off by {error:.2g}",
            error,
        )
    ]


def _leapfrog(sampler: Walker, problem: Problem) -> Map:
    def steps(x: Array, p: Array) -> tuple[Array, Array]:
        state = sampler.init(_theta(problem, x), key=jax.random.key(0))
        q, gradient = jnp.zeros_like(x), state.gradient
        for _ in range(_LEAPS):
            q, p, gradient, _ = sampler.leap(q, p, gradient, jnp.asarray(sampler.step_size, x.dtype), state)
        return sampler.vector(q, state), p

    return steps


def _trajectory(steps: Map, points: np.ndarray, generator: np.random.Generator) -> list[Finding]:
    """Whether a map of position and momentum leads back with the momentum reversed, and keeps volume."""

    def at(x: Array, p: Array) -> tuple[Array, Array]:
        y, new_p = steps(x, p)
        back, back_p = steps(y, -new_p)
        J = jax.jacfwd(lambda z: jnp.concatenate(steps(z[: x.size], z[x.size :])))(jnp.concatenate([x, p]))
        size = 1 + jnp.max(jnp.abs(jnp.concatenate([x, p, y, new_p])))
        apart = jnp.max(jnp.abs(jnp.concatenate([back - x, back_p + p]))) / size
        return apart, jnp.linalg.slogdet(J)[1]

    momenta = generator.normal(size=points.shape)
    apart, volume = (_largest(v) for v in compile_once(jax.vmap(at))(points, momenta))
    return [_reversible(apart), _keeps_volume(volume)]


def _reversible(apart: float) -> Finding:
    return Finding(
        f"reversibility: steps, back with the momentum reversed, end where they began to {apart:.1g}",
        f"the trajectory is not reversible: back with the momentum reversed it ends {apart:.2g} away",
        apart,
    )


def _keeps_volume(volume: float) -> Finding:
    return Finding(
        f"volume: |log det| of their derivative is at most {volume:.1g}; the correction makes them exact",
        f"the trajectory does not keep volume, |log det| = {volume:.2g}, and the acceptance ignores it",
        volume,
    )


def _acceptance(
    sampler: HMC, problem: Problem, points: np.ndarray, generator: np.random.Generator
) -> list[Finding]:
    """Whether it accepts with e^{-ΔH}, and reverses the momentum where it does not accept."""
    steps, U = _leapfrog(sampler, problem), problem.hamiltonian

    def at(x: Array, p: Array) -> tuple[Array, Array]:
        state = sampler.init(_theta(problem, x), key=jax.random.key(0))
        never = jnp.asarray(2.0)
        new, info = sampler.advance(Draws(p, jnp.asarray(0.5), never), state)
        assert isinstance(info, StepInfo)
        y, new_p = steps(x, p)
        change = U(y) - U(x) + (jnp.sum(new_p**2) - jnp.sum(p**2)) / 2
        here = jnp.max(jnp.abs(ravel(new.position) - x)) + jnp.max(jnp.abs(new.momentum + p))
        return info.acceptance - jnp.minimum(1.0, jnp.exp(-change)), here

    found = compile_once(jax.vmap(at))(points, generator.normal(size=points.shape))
    rate, here = (_largest(v) for v in found)
    return [
        Finding(
            f"acceptance: min(1, e^(-ΔH)) to {rate:.1g}",
            f"the acceptance is not min(1, e^(-ΔH)): off by {rate:.2g}",
            rate,
        ),
        Finding(
            "rejection: the momentum is reversed",
            "a step that is rejected does not stay where it was with the momentum reversed",
            here,
        ),
    ]


def _riemannian(
    sampler: RiemannianHMC, problem: Problem, points: np.ndarray, generator: np.random.Generator
) -> list[Finding]:
    example = problem.example["theta"]
    H = sampler.hamiltonian(example)
    h = step_size_at(sampler.step_size, jnp.zeros(()))

    def steps(x: Array, p: Array) -> tuple[Array, Array]:
        for _ in range(_LEAPS):
            x, p, _ = reversible_leapfrog(H, x, p, h, jnp.asarray(1e-12), 4 * sampler.iterations)
        return x, p

    return _trajectory(steps, points, generator)


def _isokinetic(
    sampler: Microcanonical, problem: Problem, points: np.ndarray, generator: np.random.Generator
) -> list[Finding]:
    """One step on the sphere of directions: u reversed leads back, and e^{-ΔK} is the change of volume."""
    h = step_size_at(sampler.step_size, jnp.zeros(()))

    def step(x: Array, y: Array) -> tuple[Array, Array, Array]:
        """The step, made one of all of space by keeping the length of y = ρu."""
        theta = _theta(problem, x)
        length = jnp.sqrt(jnp.sum(y**2))
        U, gradient = sampler.slope(theta)(x)
        z = {"theta": theta, "u": y / length, "U": U, "gradient": gradient}
        new, kinetic = sampler._leap(z, jnp.asarray(h, x.dtype))
        return ravel(new["theta"]), length * new["u"], kinetic

    def at(x: Array, u: Array) -> tuple[Array, Array]:
        y, v, kinetic = step(x, u)
        back, back_u, _ = step(y, -v)
        apart = jnp.max(jnp.abs(jnp.concatenate([back - x, back_u + u]))) / (1 + jnp.max(jnp.abs(x)))

        def ends(z: Array) -> Array:
            return jnp.concatenate(step(z[: x.size], z[x.size :])[:2])

        J = jax.jacfwd(ends)(jnp.concatenate([x, u]))
        return apart, jnp.linalg.slogdet(J)[1] + kinetic

    u = generator.normal(size=points.shape)
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    apart, volume = (_largest(v) for v in compile_once(jax.vmap(at))(points, u))
    return [_reversible(apart), _keeps_volume(volume)]


def _exchange(sampler: ReplicaExchange, problem: Problem, points: np.ndarray) -> Finding:
    """The log probability of an exchange against the ratio of the joint densities."""
    cold, hot = sampler.ladder[0], sampler.ladder[1]

    def at(x: Array, y: Array) -> Array:
        claimed = exchange_log_ratio(
            sampler.own_target, 1 / cold - 1 / hot, _theta(problem, x), _theta(problem, y), None
        )
        # H is U/T of the coldest.
        joint = lambda a, b: -problem.hamiltonian(a) - problem.hamiltonian(b) * cold / hot  # noqa: E731
        return claimed - (joint(y, x) - joint(x, y))

    error = _largest(compile_once(jax.vmap(at))(points, points[::-1]))
    return Finding(
        f"exchanges: accepted with the ratio of the joint densities to {error:.1g}",
        f"exchanges are not accepted with the ratio of the joint densities: off by {error:.2g}",
        error,
    )


def _averages(
    sampler: Sampler, problem: Problem, points: np.ndarray, generator: np.random.Generator
) -> Finding:
    """One step from draws of the target must leave every average where it is."""
    keys = jax.random.split(jax.random.key(int(generator.integers(2**31))), (len(points), _REPEATS))

    def one(x: Array, key: Array) -> Array:
        first, second = jax.random.split(key)
        state, _ = sampler.step(second, sampler.init(_theta(problem, x), key=first))
        return ravel(state.position)

    # Optimised: it runs a few thousand times.
    step = jax.jit(jax.vmap(jax.vmap(one, in_axes=(None, 0))))
    moved = np.asarray(step(points, keys))
    center, spread = points.mean(axis=0), points.std(axis=0) + 1e-12
    ways = generator.normal(size=(points.shape[1], 32)) / np.sqrt(points.shape[1])

    def tests(x: np.ndarray) -> np.ndarray:
        z = (x - center) / spread
        return np.concatenate(
            [np.tanh(z), np.tanh(z) ** 2, np.tanh(z @ ways), np.tanh(z @ ways) ** 2], axis=-1
        )

    change = tests(moved).mean(axis=1) - tests(points)
    error = change.std(axis=0, ddof=1) / np.sqrt(len(points))
    t = np.abs(change.mean(axis=0)) / np.where(error > 0, error, np.inf)
    largest = float(np.max(t)) if np.all(np.isfinite(moved)) else np.inf
    shift = float(_ALARM * np.max(error))
    return Finding(
        f"averages: one step from {len(points)} draws of the target changes none of {t.size} averages "
        f"({largest:.1f} standard errors at most; {_ALARM} would be too many)",
        f"one step from draws of the target changes averages, by {largest:.0f} standard errors: it does not "
        "keep the target, or the draws are poor",
        largest,
        _ALARM,
        f"an average that a step changes by less than {shift:.2g} standard deviations is not seen",
    )
