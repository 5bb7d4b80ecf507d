"""Single moves with a Metropolis correction: a random walk, Langevin, underdamped Langevin."""

import abc
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Key

from fokker._core.random import normal, split, uniform
from fokker._core.state import as_arrays
from fokker.corrections import metropolis
from fokker.integrators.exact_ou import coefficients
from fokker.samplers._sampler import AUTOMATIC
from fokker.samplers._walker import Vector, Walker, WalkerState, check_constant
from fokker.samplers._whole import StepInfo, choose, tempered


class Move(NamedTuple):
    """A proposal with what decides on it: log q(back) - log q(there) beside the energies."""

    noise: Vector
    more: Vector
    decision: Array
    q: Vector
    p: Vector
    potential: Array
    gradient: Vector
    log_ratio: Array
    made: Array


class SingleMove(Walker):
    """A sampler that proposes one move a step, and accepts it with the Metropolis–Hastings probability."""

    STATS: ClassVar = {"acceptance_rate": float}

    def draw(self, key: Key[Array, ""], state: WalkerState) -> tuple[Vector, Vector, Array]:
        """Two unit normals a coordinate, and a uniform to decide."""
        first, second, third = split(key, 3)
        shape, dtype = state.gradient.shape, state.gradient.dtype
        return normal(first, shape, dtype), normal(second, shape, dtype), uniform(third, (), dtype)

    def begin(self, draws: tuple[Vector, Vector, Array], state: WalkerState) -> Move:
        """Nothing proposed yet."""
        noise, more, decision = draws
        zero = jnp.zeros_like(noise)
        made = jnp.zeros((), bool)
        return Move(
            noise, more, decision, zero, state.momentum, state.potential, state.gradient, zero[0], made
        )

    @abc.abstractmethod
    def propose(self, move: Move, state: WalkerState) -> tuple[Vector, Vector]:
        """q and p to go to."""

    @abc.abstractmethod
    def log_ratio(self, move: Move, state: WalkerState) -> Array:
        """log π(there) q(back) - log π(here) q(there), of the move with its gradient."""

    def onward(self, move: Move, state: WalkerState) -> Move:
        """The proposal, and U there."""
        # A step size in double precision is not to make theta that.
        q, p = (x.astype(move.q.dtype) for x in self.propose(move, state))
        U, gradient = self.evaluate(q, state)
        move = move._replace(q=q, p=p, potential=U, gradient=gradient, made=jnp.ones((), bool))
        return move._replace(log_ratio=self.log_ratio(move, state).astype(q.dtype))

    def arrived(self, move: Move) -> Array:
        """After one move."""
        return move.made

    def finish(self, move: Move, state: WalkerState) -> tuple[WalkerState, StepInfo]:
        """The proposal or, with the momentum reversed, the state before."""
        accepted, rate, _ = metropolis(move.decision, -move.log_ratio)
        here = (jnp.zeros_like(move.q), state.potential, state.gradient, -state.momentum)
        there = (move.q, move.potential, move.gradient, move.p)
        q, U, gradient, p = choose(accepted, there, here)
        new, info = self.moved(state, q, U, gradient, p, rate)
        return new, self.judged(move, state, info, accepted, rate, -move.log_ratio)


class RWM(SingleMove):
    """Random-walk Metropolis; made by `rwm`."""

    ORDER: ClassVar = 1.0

    def evaluate(self, q: Vector, state: WalkerState) -> tuple[Array, Vector]:
        """U/T alone: the target need have no gradient."""
        potential = tempered(self.own_target, self.temperature, state.position)
        return potential(self.vector(q, state)), jnp.zeros_like(q)

    def propose(self, move: Move, state: WalkerState) -> tuple[Vector, Vector]:
        """q ~ N(0, σ²)."""
        return self.step_size * move.noise, state.momentum

    def log_ratio(self, move: Move, state: WalkerState) -> Array:
        """The proposal is symmetric."""
        return state.potential - move.potential


class MALA(SingleMove):
    """The Metropolis-adjusted Langevin algorithm; made by `mala`."""

    ORDER: ClassVar = 1.5

    def propose(self, move: Move, state: WalkerState) -> tuple[Vector, Vector]:
        """q ~ N(-ε∇U, 2ε)."""
        h = self.step_size
        return -h * state.gradient + jnp.sqrt(2 * h) * move.noise, state.momentum

    def log_ratio(self, move: Move, state: WalkerState) -> Array:
        """With log q(a → b) = -|b - a + ε∇U(a)|²/4ε."""
        h = self.step_size
        back = -move.q + h * move.gradient
        change = (jnp.sum(move.noise**2) * 2 * h - jnp.sum(back**2)) / (4 * h)
        return state.potential - move.potential + change


class MAULA(SingleMove):
    """The Metropolis-adjusted underdamped Langevin algorithm; made by `maula`."""

    friction: Array

    # The frozen gradient is off by O(ε), its force by O(ε²), against a noise of √ε.
    ORDER: ClassVar = 1.5

    def _coefficients(self) -> tuple[Array, ...]:
        """α, β, e^{-γh}, and of the noise: its spread on p, the slope of q on it, and the rest of q's."""
        h, gamma = self.step_size, self.friction
        a, b, rest, var_p, cov = coefficients(gamma * h)
        spread = jnp.sqrt(gamma * h * var_p)
        slope = h * cov / var_p
        return h * a, h**2 * b, jnp.exp(-gamma * h), spread, slope, jnp.sqrt(gamma * h**3 * rest)

    def _noise(self, dq: Vector, p: Vector, gradient: Vector, new_p: Vector) -> tuple[Vector, Vector]:
        """The unit normals by which a step from (·, p) arrives at (· + dq, new_p)."""
        alpha, beta, decay, spread, slope, rest = self._coefficients()
        w = (new_p - decay * p + alpha * gradient) / spread
        return w, (dq - alpha * p + beta * gradient - slope * spread * w) / rest

    def propose(self, move: Move, state: WalkerState) -> tuple[Vector, Vector]:
        """The exact underdamped step with ∇U frozen (`fokker.integrators.ExactOU`)."""
        alpha, beta, decay, spread, slope, rest = self._coefficients()
        p, gradient = state.momentum, state.gradient
        new_p = decay * p - alpha * gradient + spread * move.noise
        q = alpha * p - beta * gradient + slope * spread * move.noise + rest * move.more
        return q, new_p

    def log_ratio(self, move: Move, state: WalkerState) -> Array:
        """π(θ*,p*) q((θ,-p) | (θ*,-p*)) over π(θ,p) q((θ*,p*) | (θ,p))."""
        w, v = self._noise(-move.q, -move.p, move.gradient, -state.momentum)
        there, back = jnp.sum(move.noise**2 + move.more**2), jnp.sum(w**2 + v**2)
        kinetic = jnp.sum(state.momentum**2) - jnp.sum(move.p**2)
        return state.potential - move.potential + (kinetic + there - back) / 2


def rwm(step_size: Any = AUTOMATIC, scale: Any = "diagonal", *, acceptance: float = 0.234) -> RWM:
    r"""Random-walk Metropolis: θ* = θ + σ S w, accepted with min(1, π(θ*)/π(θ)) (Metropolis et al. 1953).

    Keeps exp(-U/T) exactly, and needs no gradient of it. `step_size` is σ; the best is about 2.4/√d of
    the target's scale, where 0.234 of the proposals are accepted (Roberts, Gelman, Gilks 1997). Warm-up
    finds σ and the scale S as for `nuts`.
    """
    return RWM(check_constant(step_size), scale, acceptance)


def mala(step_size: Any = AUTOMATIC, scale: Any = "diagonal", *, acceptance: float = 0.574) -> MALA:
    r"""θ* = θ - ε∇U + √(2ε) w with Metropolis (Roberts and Tweedie 1996), in coordinates θ = θ₀ + S q.

        H = U/T, D = SSᵀ, Q = 0;  q(θ*|θ) = N(θ - ε∇U, 2ε)

    Keeps exp(-U/T) exactly, one gradient a step. The convention is dθ = -∇U dt + √2 dW: others' ε is twice
    this one. 0.574 is the best acceptance in high dimensions (Roberts and Rosenthal 1998).
    """
    return MALA(check_constant(step_size), scale, acceptance)


def maula(
    step_size: Any = AUTOMATIC, friction: float = 1.0, scale: Any = "diagonal", *, acceptance: float = 0.7
) -> MAULA:
    r"""Underdamped Langevin steps, exact for a frozen gradient, with Metropolis (Riou-Durand, Vogrinc 2022).

        H = U/T + pᵀp/2, D = diag(0, γ), Q = [[0, -I], [I, 0]], in coordinates θ = θ₀ + S q

    Accepts (θ*, p*) with π(θ*,p*) q((θ,-p)|(θ*,-p*)) / [π(θ,p) q((θ*,p*)|(θ,p))]; on rejection p is reversed.
    Keeps exp(-U/T) exactly, one gradient a step. `ulmc` is the same without the correction.
    """
    if not friction > 0:
        raise ValueError(f"the friction must be positive; {friction} was given.")
    return MAULA(check_constant(step_size), scale, acceptance, as_arrays(friction))
