r"""What makes a Metropolis correction exact, by derivatives of the sampler's own step.

A proposal with a density is exact if it is accepted with min(1, π(z')q(z|z') / π(z)q(z'|z)); a deterministic
trajectory if it leads back once the momentum is reversed and is accepted with min(1, e^{-ΔH}|det ∂z'/∂z|).
Both are identities that can be checked at any point. Averages over draws from the target check the rest.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fokker._core.digits import percent
from fokker._core.quick import compile_once
from fokker._core.state import State, ravel, unravel, variable_names
from fokker.checker._averages import averages_finding
from fokker.checker._finding import Finding
from fokker.checker._reducible import without_far_tails
from fokker.checker._residual import map_points
from fokker.corrections import Metropolis, Step
from fokker.corrections.metropolis import PathDraws
from fokker.dynamics.problem import Problem
from fokker.integrators import Point
from fokker.samplers.contract import Exchange, Sampler, SamplerState
from fokker.samplers.coordinates import coordinates
from fokker.samplers.corrected import Corrected

_EXACT_AT = 16
_STEPS = 3
# The least eigenvalue of D, with a diagonal of ones, at which it has no inverse.
_SINGULAR = 1e-14


def check_correction(
    sampler: Sampler,
    problem: Problem,
    points: np.ndarray,
    draws: np.ndarray,
    generator: np.random.Generator,
) -> list[Finding]:
    """All checks of the correction of a sampler, on its target and in double precision.

    Identities are checked at any `points`; averages need `draws` from the target.
    """
    some, claims = points[:_EXACT_AT], sampler.claims
    findings: list[Finding] = []
    if claims.proposals is not None:
        findings += _of_recipe(claims.proposals, problem, some, draws, generator)
    if claims.exchange is not None:
        findings.append(_exchange(claims.exchange, problem, some))
    if claims.turn is not None:
        findings += _isokinetic(claims.turn, problem, some, generator)
    return findings or [averages_finding(sampler, problem, draws, generator)]


def _of_recipe(
    sampler: Corrected, problem: Problem, some: np.ndarray, points: np.ndarray, generator: np.random.Generator
) -> list[Finding]:
    """By the kind of integrator: a map that leads back, or a proposal with a density; else by averages.

    Identities are checked at `some` points, averages over `points` that are draws.
    """
    setup = _Setup(sampler, problem)
    if sampler.integrator.is_deterministic:
        findings = _trajectory(setup, some, generator)
    elif not sampler.integrator.has_density:
        findings = [averages_finding(sampler, problem, points, generator)]
    else:
        has_noise = [] if sampler.wants_target else [_noise_everywhere(problem, points)]
        if any(not finding.holds for finding in has_noise):
            return has_noise
        findings = [*has_noise, _detailed_balance(setup, some, generator)]
    if isinstance(sampler.correction, Metropolis):
        return [*findings, *_acceptance(setup, some, generator)]
    return [*findings, averages_finding(sampler, problem, points, generator)]


class _Setup:
    """A corrected recipe as functions of plain vectors: z with theta first, in theta's own coordinates."""

    def __init__(self, sampler: Corrected, problem: Problem) -> None:
        # Errors of solving are not the step's.
        sampler = dataclasses.replace(sampler, integrator=sampler.integrator.precisely())
        correction = sampler.correction
        if isinstance(correction, Metropolis) and not correction.takes_one_move:
            correction = dataclasses.replace(correction, num_integration_steps=jnp.int32(_STEPS))
        self.sampler = dataclasses.replace(sampler, correction=correction)
        self.problem = problem
        example = problem.example
        self.example = self.state_of(example["theta"]).z if sampler.wants_target else example
        if not sampler.momentum.is_stored:
            theta = self.example["theta"]
            self.example = {**self.example, "r": coordinates(theta, sampler.mass_matrix).vector(theta)}
        self.dimension = ravel(self.example).size

    def state_of(self, position: Any) -> SamplerState:
        """The state that the sampler starts from."""
        return self.sampler.init(position, key=jax.random.key(0))

    def at(self, x: Array) -> tuple[SamplerState, State]:
        """The sampler's state at a vector, with U and ∇U there, and the state in its coordinates."""
        z = unravel(x, self.example)
        state = self.state_of(z["theta"] if self.sampler.wants_target else z)
        own_variables = {name: z[name] for name in state.z}
        state = state._replace(z=own_variables)
        _, local = self.sampler.local_step(state)
        return state, {**local, "r": z["r"]} if "r" in z else local

    def outside(self, local: State, state: SamplerState) -> Array:
        """A state in the coordinates around another, as a vector."""
        return ravel(self.sampler.leave(local, state))

    def propose(self, x: Array, noise: Any) -> tuple[Array, Array, Array]:
        """One proposal from x: its end, its log ratio, and the change of energy."""
        state, local = self.at(x)
        step, _ = self.sampler.local_step(state)
        proposal = step.propose(local, state.memory.point, noise)
        end = self.outside(proposal.z, state)
        change = self._energy(end, proposal.z, step) - self._energy(x, local, step)
        return end, proposal.log_ratio, change

    def _energy(self, x: Array, local: State, step: Step) -> Array:
        """H/T with the target's own U, not the one that the sampler uses."""
        if not self.sampler.wants_target:
            return self.problem.hamiltonian(x)
        theta = x[: self.problem.dimension]
        return self.problem.hamiltonian(theta) + step.energy(local, Point(jnp.zeros(())))

    def noise(self, key: Array) -> Any:
        """The noise of one proposal."""
        x = ravel(self.example)
        state, local = self.at(x)
        return self.sampler.local_step(state)[0].noise(key, local)

    def reversed(self, x: Array) -> Array:
        """In reversed time, where the way back is taken there."""
        return ravel(self.sampler.integrator.rejected(unravel(x, self.example)))

    def start(self, points: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Points of theta, or of all variables, completed by standard normal auxiliaries."""
        if points.shape[1] == self.dimension:
            return points
        # Theta comes first in the order of variables.
        assert variable_names(self.example)[0] == "theta"
        rest = generator.normal(size=(len(points), self.dimension - points.shape[1]))
        return np.concatenate([points, rest], axis=1)


def _largest(values: Any) -> float:
    return float(np.max(np.abs(np.asarray(values))))


def _detailed_balance(setup: _Setup, points: np.ndarray, generator: np.random.Generator) -> Finding:
    """log q(z|z') - log q(z'|z) against the integrator's own; a proposal is affine in its noise."""
    like = setup.noise(jax.random.key(0))
    size = ravel(like).size

    def ends(x: Array, w: Array) -> Array:
        return setup.propose(x, unravel(w, like))[0]

    def log_density(x: Array, end: Array) -> Array:
        """log q(end | x), up to a constant."""
        zero = jnp.zeros(size)
        J = jax.jacfwd(lambda w: ends(x, w))(zero)
        w = jnp.linalg.solve(J, end - ends(x, zero))
        return -jnp.sum(w**2) / 2 - jnp.linalg.slogdet(J)[1]

    def at(x: Array, w: Array) -> Array:
        end, claimed, _ = setup.propose(x, unravel(w, like))
        ratio = log_density(setup.reversed(end), setup.reversed(x)) - log_density(x, end)
        return (claimed - ratio) / (1 + jnp.abs(ratio))

    starts = setup.start(points, generator)
    noise = generator.normal(size=(len(points), size))
    error = _largest(compile_once(jax.vmap(at))(starts, noise))
    is_reversed = np.any(np.asarray(jax.vmap(setup.reversed)(jnp.asarray(starts))) != starts)
    formula = "q(z|z') / q(z'|z)" + (", with momenta reversed" if is_reversed else "")
    return Finding(
        f"detailed balance: the ratio of the way back to the way there is {formula} to {error:.1g}, at "
        f"{len(points)} points; the Metropolis correction makes it exact at every step size",
        f"detailed balance does not hold: the ratio of the way back to the way there is not {formula}, off "
        f"by {error:.2g}",
        error,
    )


def _noise_everywhere(problem: Problem, points: np.ndarray) -> Finding:
    """Whether D is regular at all draws: elsewhere a step has no density and is never accepted."""
    D = np.asarray(map_points(problem.D_matrix, points, 8 * problem.dimension**2))
    diagonal = np.diagonal(D, axis1=1, axis2=2)
    unit = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    least = np.linalg.eigvalsh(D / (unit[:, :, None] * unit[:, None, :]))[:, 0]
    is_singular = np.any(diagonal <= 0, axis=1)
    inner = without_far_tails(points)
    is_singular[inner] |= least[inner] <= _SINGULAR
    share = float(np.mean(is_singular))
    return Finding(
        f"noise: D is regular at all {len(points)} draws of the target",
        f"D is singular at {percent(share)} of the draws of the target: steps into that region are never "
        "accepted and a chain in it does not move, so that only the rest of the target is sampled. Add a "
        "small constant to D",
        share,
        0.0,
        f"a region without noise is seen if it has {percent(1 - 0.01 ** (1 / len(points)), 1)} of the mass "
        "(99 %)",
    )


def _trajectory(setup: _Setup, points: np.ndarray, generator: np.random.Generator) -> list[Finding]:
    """Whether steps without noise lead back with the momentum reversed, and keep volume."""
    noise = setup.noise(jax.random.key(0))

    def steps(x: Array) -> Array:
        for _ in range(_STEPS):
            x = setup.propose(x, noise)[0]
        return x

    def at(x: Array) -> tuple[Array, Array]:
        y = steps(x)
        back = setup.reversed(steps(setup.reversed(y)))
        apart = jnp.max(jnp.abs(back - x)) / (1 + jnp.max(jnp.abs(jnp.concatenate([x, y]))))
        return apart, jnp.linalg.slogdet(jax.jacfwd(steps)(x))[1]

    starts = setup.start(points, generator)
    apart, volume = (_largest(v) for v in compile_once(jax.vmap(at))(starts))
    return [_reversible(apart), _keeps_volume(volume)]


def _reversible(apart: float) -> Finding:
    return Finding(
        f"reversibility: steps, back with the momentum reversed, end where they started, to {apart:.1g}",
        f"the trajectory is not reversible: back with the momentum reversed it ends {apart:.2g} away",
        apart,
    )


def _keeps_volume(volume: float) -> Finding:
    return Finding(
        f"volume: |log det| of their derivative is at most {volume:.1g}; the correction makes them exact",
        f"the trajectory does not keep volume, |log det| = {volume:.2g}, and the acceptance ignores it",
        volume,
    )


def _acceptance(setup: _Setup, points: np.ndarray, generator: np.random.Generator) -> list[Finding]:
    """Whether it accepts with the energies and the ratio of its proposals, and stays where it does not."""
    sampler, correction = setup.sampler, setup.sampler.correction
    like = setup.noise(jax.random.key(0))
    size = ravel(like).size

    def at(x: Array, w: Array) -> tuple[Array, Array]:
        noise = unravel(w, like)
        state, local = setup.at(x)
        draws = PathDraws(jnp.asarray(2.0), jnp.asarray(0.5), noise)  # 2: never accepted
        step, _ = sampler.local_step(state)
        path = correction.finish(correction.start(draws, local, state.memory.point, step), step)
        end, total, change = x, jnp.zeros(()), jnp.zeros(())
        for _ in range(1 if correction.takes_one_move else _STEPS):
            end, ratio, more = setup.propose(end, noise)
            total, change = total + ratio, change + more
        outcome = correction.end(path, state.memory.point, step)
        expected = jnp.minimum(1.0, jnp.exp(total - change))
        apart = jnp.max(jnp.abs(setup.outside(outcome.z, state) - setup.reversed(x)))
        return outcome.acceptance_rate - expected, apart

    starts = setup.start(points, generator)
    errors = compile_once(jax.vmap(at))(starts, generator.normal(size=(len(points), size)))
    rate, stays = (_largest(v) for v in errors)
    return [
        Finding(
            f"acceptance: min(1, e^(-ΔE)) of the energies and the ratio, to {rate:.1g}",
            f"the acceptance is not min(1, e^(-ΔE)) of the energies and the ratio: off by {rate:.2g}",
            rate,
        ),
        Finding(
            "rejection: it stays where it was, with the momentum reversed where there is one",
            "a step that is rejected does not stay where it was with the momentum reversed",
            stays,
        ),
    ]


def _isokinetic(
    turn: Callable[..., Any], problem: Problem, points: np.ndarray, generator: np.random.Generator
) -> list[Finding]:
    """One step on the sphere of directions: u reversed leads back, and e^{-ΔK} is the change of volume."""

    def step(x: Array, y: Array) -> tuple[Array, Array, Array]:
        """The step, extended to all of space by keeping the length of y = ρu."""
        length = jnp.sqrt(jnp.sum(y**2))
        theta, u, log_ratio = turn(problem.to_state(x)["theta"], y / length)
        return ravel(theta), length * u, -log_ratio

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


def _exchange(exchange: Exchange, problem: Problem, points: np.ndarray) -> Finding:
    """The log probability of an exchange against the ratio of the joint densities."""

    def at(x: Array, y: Array) -> Array:
        claimed = exchange.log_ratio(problem.to_state(x)["theta"], problem.to_state(y)["theta"])
        # H is U/T of the coldest.
        joint = lambda a, b: -problem.hamiltonian(a) - problem.hamiltonian(b) / exchange.warmer  # noqa: E731
        return claimed - (joint(y, x) - joint(x, y))

    error = _largest(compile_once(jax.vmap(at))(points, points[::-1]))
    return Finding(
        f"exchanges: accepted with the ratio of the joint densities to {error:.1g}",
        f"exchanges are not accepted with the ratio of the joint densities: off by {error:.2g}",
        error,
    )
