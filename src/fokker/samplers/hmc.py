"""Hamiltonian Monte Carlo, with momenta drawn anew or kept in part."""

import dataclasses
import math
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Key

from fokker._core.random import normal, split, uniform
from fokker._core.state import as_arrays
from fokker.corrections import metropolis
from fokker.samplers._sampler import AUTOMATIC
from fokker.samplers._walker import Vector, Walker, WalkerState, check_constant
from fokker.samplers._whole import StepInfo, check_whole, choose

# A quarter of the period of a coordinate of unit scale: from there a path would come back.
_LENGTH = math.pi / 2
_MOST = 1024


class Draws(NamedTuple):
    """Noise for the momentum, and uniforms for the length of the path and for the decision."""

    noise: Vector
    length: Array
    decision: Array


class Path(NamedTuple):
    """A path in phase space, and how much of it is left."""

    q: Vector
    p: Vector
    potential: Array
    gradient: Vector
    start_p: Vector
    decision: Array
    left: Array
    leaps: Array


class HMC(Walker):
    """Hamiltonian Monte Carlo; made by `hmc` and `ghmc`."""

    leaps: Array | None
    persistence: Array | None
    kind: str = eqx.field(static=True, default="hmc")

    STATS: ClassVar = {"acceptance_rate": float, "diverging": bool, "energy": float, "n_steps": int}

    @property
    def name(self) -> str:
        """As in `fk.samplers`."""
        return self.kind

    @property
    def ORDER(self) -> float:  # type: ignore[override]
        """The energy error of one leap grows with ε³, of a path of given length with ε²."""
        return 3.0 if self.kind == "ghmc" else 2.0

    def with_one_move(self) -> "HMC":
        """Paths of one leap."""
        return dataclasses.replace(self, leaps=jnp.ones((), jnp.int32))

    def draw(self, key: Key[Array, ""], state: WalkerState) -> Draws:
        """The randomness of one path."""
        first, second, third = split(key, 3)
        shape, dtype = state.gradient.shape, state.gradient.dtype
        return Draws(normal(first, shape, dtype), uniform(second, (), dtype), uniform(third, (), dtype))

    def begin(self, draws: Draws, state: WalkerState) -> Path:
        """A path of no length, with a new momentum."""
        p = draws.noise
        if self.persistence is not None:
            kept = self.persistence.astype(p.dtype)
            p = kept * state.momentum + jnp.sqrt(1 - kept**2) * p
        leaps = self._leaps(draws.length)
        return Path(jnp.zeros_like(p), p, state.potential, state.gradient, p, draws.decision, leaps, leaps)

    def _leaps(self, u: Array) -> Array:
        """As many as were asked for; otherwise uniform from 1, with the mean that a quarter period takes."""
        if self.leaps is not None:
            return jnp.asarray(self.leaps, jnp.int32)
        mean = jnp.clip(jnp.round(_LENGTH / self.step_size), 1, _MOST)
        return 1 + jnp.floor(u * (2 * mean - 1)).astype(jnp.int32)

    def onward(self, path: Path, state: WalkerState) -> Path:
        """One leap."""
        h = jnp.asarray(self.step_size).astype(path.p.dtype)
        q, p, gradient, U = self.leap(path.q, path.p, path.gradient, h, state)
        # A path that has left the finite numbers will not be accepted: it goes no further.
        left = jnp.where(jnp.isfinite(U), path.left - 1, 0)
        return path._replace(q=q, p=p, potential=U, gradient=gradient, left=left)

    def arrived(self, path: Path) -> Array:
        """Whether the whole of it has been walked."""
        return path.left <= 0

    def finish(self, path: Path, state: WalkerState) -> tuple[WalkerState, StepInfo]:
        """The end of the path with probability min(1, e^{-ΔH}), else its start with the momentum reversed."""
        energy = state.potential + jnp.sum(path.start_p**2) / 2
        change = path.potential + jnp.sum(path.p**2) / 2 - energy
        accepted, rate, divergent = metropolis(path.decision, change)
        here = (jnp.zeros_like(path.q), state.potential, state.gradient, -path.start_p)
        there = (path.q, path.potential, path.gradient, path.p)
        q, U, gradient, p = choose(accepted, there, here)
        new, info = self.moved(state, q, U, gradient, p, rate, divergent, energy, path.leaps)
        return new, self.judged(path, state, info, accepted, rate, change)


def hmc(
    step_size: Any = AUTOMATIC,
    leaps: int | None = None,
    scale: Any = "diagonal",
    *,
    acceptance: float = 0.8,
) -> HMC:
    r"""Hamiltonian Monte Carlo: a new momentum, a leapfrog path, Metropolis (Duane et al. 1987; Neal 2011).

        H = U/T + pᵀp/2 in coordinates θ = θ₀ + S q, D = 0, Q = [[0, -I], [I, 0]]; accept with min(1, e^{-ΔH})

    Keeps exp(-U/T) exactly. `leaps` leapfrog steps; None for a number uniform between 1 and as many as half a
    period of a coordinate of unit scale takes, which no target can resonate with. Warm-up finds step size and
    scale as for `nuts`.
    """
    number = None if leaps is None else _as_number(leaps)
    return HMC(check_constant(step_size), scale, acceptance, number, None, "hmc")


def ghmc(
    step_size: Any = AUTOMATIC,
    persistence: float = 0.9,
    scale: Any = "diagonal",
    *,
    leaps: int = 1,
    acceptance: float = 0.9,
) -> HMC:
    r"""Generalised HMC: momenta are kept in part, p ← κp + √(1-κ²) w, and paths are short (Horowitz 1991).

    With one leap a step it is the splitting OBAB of underdamped Langevin dynamics with friction
    γ = -log κ/ε, corrected by Metropolis. On rejection the momentum is reversed, without which the
    target would not be kept. Keeps exp(-U/T) exactly; one gradient a leap.
    """
    if not 0 <= persistence < 1:
        raise ValueError(f"the persistence must be at least 0 and below 1; {persistence} was given.")
    number = _as_number(leaps)
    return HMC(check_constant(step_size), scale, acceptance, number, as_arrays(persistence), "ghmc")


def _as_number(leaps: Any) -> Array:
    check_whole("leaps", leaps)
    return jnp.asarray(leaps, jnp.int32)
