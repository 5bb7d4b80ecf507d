"""Microcanonical Langevin and Hamiltonian Monte Carlo, as they are and with a Metropolis correction."""

import math
from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from fokker._core.count import Count
from fokker._core.random import fold_in, normal, split, uniform
from fokker._core.state import State, as_arrays, ravel
from fokker._core.types import Arrays
from fokker.corrections import Metropolis, Step
from fokker.corrections.metropolis import Path, PathDraws
from fokker.dynamics import SDE, isokinetic
from fokker.integrators import IsokineticLeapfrog
from fokker.integrators.isokinetic import refresh, unit_vector
from fokker.samplers import _checks
from fokker.samplers._microcanonical_warm_up import warm_up
from fokker.samplers._trajectory import Trajectory
from fokker.samplers.composed import Composed, TrajectoryDraws
from fokker.samplers.contract import (
    Claims,
    Followed,
    Info,
    Memory,
    Sampler,
    SamplerState,
    Stages,
    Warmed,
    all_finite,
    computed,
    theta_of,
)
from fokker.samplers.family import Auxiliaries, Family, Potential
from fokker.samplers.schedules import AUTOMATIC, StepSize, check_step_size, step_size_at
from fokker.samplers.trajectory_sampler import TrajectorySampler
from fokker.targets.target import Target

# A length, or to be found.
Length = float | Array | Literal["auto"]


class Isokinetic(Family):
    """A particle of unit speed that the force turns: H = U, and u uniform on the sphere."""

    scale: float | Array

    label = "isokinetic"

    def dynamics(self, potential: Potential, temperature: float | Array) -> SDE:
        """Those between two refreshments of u."""
        return isokinetic(potential, self.scale)

    def auxiliaries(
        self, key: Key[Array, ""], theta: PyTree[Array], temperature: float | Array
    ) -> Auxiliaries:
        """A direction u, uniform on the sphere."""
        x = ravel(theta)
        return {"u": unit_vector(normal(key, x.shape, x.dtype))}

    def check(self, theta: PyTree[Array]) -> None:
        """Raise where there are no directions, or another number of scales."""
        if ravel(theta).size < 2:
            raise ValueError(
                "isokinetic dynamics move on a sphere of directions and need a theta of two numbers or more: "
                "in one dimension there is nothing to turn. Use fk.samplers.slice_sampler or sghmc for it."
            )
        _checks.as_vector(self.scale, theta)


class RefreshmentKey(NamedTuple):
    """Draws the noise of all refreshments on a path, whose number is not known before."""

    key: Key[Array, ""]


class Microcanonical(Composed):
    """Isokinetic dynamics × isokinetic leapfrog, × Metropolis where adjusted; see `mclmc`, `mchmc`.

    What is refreshed is the direction u. Partial refreshments keep u uniform on the sphere and are
    reversible, and the energy does not depend on u: the ratio of a path and its reverse depends only on the
    energy that the steps between them gained.
    """

    step_size: StepSize
    L: Length
    scale: float | Array = 1.0
    partial: bool = eqx.field(static=True, default=True)
    adjusted: bool = eqx.field(static=True, default=False)
    integrator: IsokineticLeapfrog = IsokineticLeapfrog()
    preconditioned: bool = eqx.field(static=True, default=True)
    target: Target | None = None
    temperature: float | Array = 1.0

    learns = True
    # Paths of about the same length: the chains of a run wait for each other.
    has_trajectories = False

    @property
    def dynamics(self) -> Isokinetic:
        """Isokinetic ones, with this scale."""
        return Isokinetic(self.scale)

    @property
    def correction(self) -> Metropolis:
        """Metropolis after a length L; without noise on the way, between L/2 and 3L/2.

        Trajectories of one length, without noise, could return to their start.
        """
        return Metropolis(
            lambda uniform, h: self._number(h) if self.partial else self._number(h, 0.5 + uniform)
        )

    @property
    def is_exact(self) -> bool:  # type: ignore[override]
        """Where it is adjusted."""
        return self.adjusted

    @property
    def name(self) -> str:
        """As in `fk.samplers`."""
        return "mclmc" if self.partial else "mchmc"

    def __str__(self) -> str:
        return super().__str__() if self.adjusted else f"{self.dynamics.label} × {self.integrator.label}"

    def follows(self, state: PyTree[Array] | None = None) -> Followed:
        """Isokinetic dynamics with the noise that the refreshments tend to for small steps."""
        theta = jnp.zeros(2) if state is None else theta_of(state)
        size = ravel(as_arrays(theta)).size
        # By Itô's formula noise of this length is the limit of the refreshments.
        length = (math.sqrt(size) if isinstance(self.L, str) else self.L) if self.partial else None
        dynamics = isokinetic(self.placed.hamiltonian.potential, self.scale, length)  # type: ignore[attr-defined]
        whole = {"theta": theta, "u": jnp.ones(size) / math.sqrt(size)}
        guessed = "no shapes were given: theta was taken to be two numbers. Give its shape by state=…"
        notes = (guessed,) if state is None else ()
        return Followed(dynamics, whole, spheres=("u",), is_refreshed=not self.partial, notes=notes)

    @property
    def claims(self) -> Claims:
        """Where it is adjusted, the step of its trajectories."""
        if not self.adjusted:
            return Claims()

        def turn(theta: PyTree[Array], u: Array) -> tuple[PyTree[Array], Array, Array]:
            z, dynamics = {"theta": theta, "u": u}, self.placed
            h = jnp.asarray(step_size_at(self.step_size, jnp.zeros(())), u.dtype)
            point = self.integrator.evaluate(dynamics, z)
            new, _, log_ratio, _ = self.integrator.propose(dynamics, z, None, h, point)
            return new["theta"], new["u"], log_ratio

        return Claims(turn=turn)

    def auxiliaries(self, key: Key[Array, ""] | None, theta: PyTree[Array]) -> State:
        """A direction drawn at random."""
        if key is None:
            raise ValueError("the direction u is drawn at random: pass key=jax.random.key(…).")
        return self.dynamics.auxiliaries(key, theta, 1.0)

    def draw(self, key: Key[Array, ""], state: SamplerState) -> TrajectoryDraws:
        """Noise for u; for a path, whose length is not known before, keys and the numbers of Metropolis."""
        shape, dtype = state.z["u"].shape, state.z["u"].dtype
        if not self.adjusted:
            return TrajectoryDraws(normal(key, shape, dtype), ())
        u_key, length_key, decision_key, noise_key = split(key, 4)
        decision, length = (uniform(k, (), dtype) for k in (decision_key, length_key))
        path = PathDraws(decision, length, RefreshmentKey(noise_key))
        return TrajectoryDraws(u_key, path)

    def refreshed(self, noise: Key[Array, ""], step: Step, z: State) -> State:
        """With a new direction, drawn by a key."""
        return {**z, "u": unit_vector(normal(noise, z["u"].shape, z["u"].dtype))}

    def _partly_refreshed(self, noise: Array, step: Step, z: State) -> State:
        return {**z, "u": refresh(z["u"], noise, step.size, self._length(step.size))}

    def _number(self, h: Array, share: Array | float = 1.0) -> Array:
        """The number of steps in a length L."""
        return jnp.maximum(1, jnp.round(share * self._length(h) / h)).astype(jnp.int32)

    def _length(self, like: Array) -> Array:
        if isinstance(self.L, str):
            raise ValueError("L has not been found yet: fk.sample finds it with the step size, or give it.")
        return jnp.asarray(self.L, like.dtype)

    def move(self, path: Path, state: SamplerState) -> Path:
        """One step of the integrator, and of `mclmc` a refreshment in part.

        The last one, at the end of a path, changes nothing: u is drawn again.
        """
        new = super().move(path, state)
        if not self.partial:
            return new
        u, place = path.z["u"], (path.number - path.left).astype(jnp.uint32)
        noise = normal(fold_in(path.draws.noise.key, place), u.shape, u.dtype)
        return new._replace(z=self._partly_refreshed(noise, self.local_step(state)[0], new.z))

    def finish(self, path: Path, state: SamplerState) -> Path:
        """The path after all its moves, each with its refreshment, of which the correction does not know."""
        return TrajectorySampler.finish(self, path, state)

    def end(self, path: Path, state: SamplerState) -> tuple[SamplerState, Info]:
        """The end of the path or its start."""
        new, info = super().end(path, state)
        # U/T alone has no kinetic part: what is said of energies does not hold for it.
        return new, info._replace(energy=None)

    def advance(
        self, draws: TrajectoryDraws, state: SamplerState, batch: Arrays = None, number: Count | None = None
    ) -> tuple[SamplerState, Info]:
        """One step that is taken as it is, or for the adjusted kinds one trajectory."""
        if self.adjusted:
            return super().advance(draws, state, batch, number)
        _checks.no_batch(self, batch)
        number = state.step if number is None else number
        step, z = self.local_step(state)
        start, noise = state.memory.point, draws.momentum
        assert noise is not None
        if not self.partial:
            is_due = number % self._number(step.size) == 0
            z = {**z, "u": jnp.where(is_due, unit_vector(noise), z["u"])}
        z, point, log_ratio, _ = step.propose(z, start)
        if self.partial:
            z = self._partly_refreshed(noise, step, z)
        change = point.potential - start.potential - log_ratio  # type: ignore[operator]
        finite = all_finite((z, point)) & (step.size >= 0)
        return SamplerState(z, state.step + 1, Memory(point)), Info(finite, energy_change=change)

    def trajectory(self, key: Key[Array, ""], state: SamplerState) -> Trajectory:
        """Of the adjusted kinds."""
        return super().trajectory(key, state) if self.adjusted else Sampler.trajectory(self, key, state)

    def warm_up(
        self,
        positions: PyTree[Array],
        keys: Key[Array, " chains"],
        steps: int,
        stage: Stages = computed,
    ) -> Warmed:
        """Step size, L and scale from `steps` steps of all chains; and where the chains then are."""
        return Warmed(*warm_up(self, positions, keys, steps, stage))


def mclmc(
    step_size: StepSize = AUTOMATIC,
    L: Length = AUTOMATIC,
    *,
    adjusted: bool = False,
    integrator: str = "minimal norm",
    preconditioned: bool = True,
    scale: PyTree[Array] = 1.0,
) -> Microcanonical:
    r"""Microcanonical Langevin Monte Carlo (Robnik, De Luca et al. 2023; Robnik and Seljak 2024).

        dθ = s u dt,   du = -(1 - uuᵀ) s∇(U/T)/(d - 1) dt + noise along the sphere,   |u| = 1

    keeps exp(-U/T) times the uniform distribution of u: a particle of unit speed that the force turns, and
    that forgets its direction over a length L. Every kick and the noise are solved exactly; `integrator` is
    "minimal norm" (two gradients per step) or "leapfrog" (one), both with a bias of order ε². The energy
    change of a step, ΔU/T + (d - 1)Σ log(cosh δ + e·u sinh δ), is in `info.energy_change`, and its square
    per dimension measures the bias: "auto" makes it 5e-4.

    `adjusted=True` corrects for the bias exactly: a step is then a trajectory of length L from a new u,
    with the same noise on the way, accepted with probability min(1, e^{-ΔE}) (Riou-Durand and Vogrinc 2022,
    with the microcanonical energy: Robnik, Cohn-Gordon and Seljak 2025); "auto" finds the step for 90 % of
    them.

    `scale` s is a number, or a tree like theta: the coordinates' sizes. ε and L are in its units, where a
    posterior has the size √d. "auto" finds ε and L, and with `preconditioned` s, while warming up. It needs a
    theta of at least two numbers, and all the data at every step.

    ```python
    trace = fk.sample(target, fk.samplers.mclmc(), init=jnp.zeros(100), steps=10_000, burn_in=2_000)
    ```

    Arguments:

    - `step_size`: ε: a number, or "auto" (the default) to learn it in warm-up.
    - `L`: the length over which the direction u is forgotten, in units of the scale: a positive length, or
      "auto" (the default) to have it found with the step size.
    - `adjusted`: whether a step is a whole trajectory with a Metropolis correction.
    - `integrator`: "minimal norm" or "leapfrog", the kinds of `fk.integrators.IsokineticLeapfrog`.
    - `preconditioned`: whether warm-up learns the scale of every coordinate.
    - `scale`: s, the sizes of the coordinates: a positive number, or a tree like theta.

    Returns a sampler (`fokker.samplers.microcanonical.Microcanonical`) for `fk.sample` or a loop of your own.
    """
    return _make(step_size, L, scale, True, adjusted, integrator, preconditioned)


def mchmc(
    step_size: StepSize = AUTOMATIC,
    L: Length = AUTOMATIC,
    *,
    adjusted: bool = False,
    integrator: str = "minimal norm",
    preconditioned: bool = True,
    scale: PyTree[Array] = 1.0,
) -> Microcanonical:
    r"""Microcanonical Hamiltonian Monte Carlo: `mclmc` with no noise, and a new u after every length L.

        dθ = s u dt,   du = -(1 - uuᵀ) s∇(U/T)/(d - 1) dt

    Keeps exp(-U/T) with a bias of order ε² (Robnik, De Luca, Silverstein and Seljak 2023); with
    `adjusted=True` exactly, a step being a trajectory of a length between L/2 and 3L/2. The options are those
    of `mclmc`.

    Arguments:

    - `step_size`: ε: a number, or "auto" (the default) to learn it in warm-up.
    - `L`: the length over which the direction u is forgotten, in units of the scale: a positive length, or
      "auto" (the default) to have it found with the step size.
    - `adjusted`: whether a step is a whole trajectory with a Metropolis correction.
    - `integrator`: "minimal norm" or "leapfrog", the kinds of `fk.integrators.IsokineticLeapfrog`.
    - `preconditioned`: whether warm-up learns the scale of every coordinate.
    - `scale`: s, the sizes of the coordinates: a positive number, or a tree like theta.

    Returns a sampler (`fokker.samplers.microcanonical.Microcanonical`) for `fk.sample` or a loop of your own.

    ```python
    trace = fk.sample(target, fk.samplers.mchmc(adjusted=True), init=jnp.zeros(2), steps=1000)
    ```
    """
    return _make(step_size, L, scale, False, adjusted, integrator, preconditioned)


def _make(
    step_size: StepSize,
    L: Length,
    scale: PyTree[Array],
    partial: bool,
    adjusted: bool,
    integrator: str,
    preconditioned: bool,
) -> Microcanonical:
    if L != AUTOMATIC if isinstance(L, str) else not (isinstance(L, jax.core.Tracer) or bool(jnp.all(L > 0))):
        raise ValueError(f"L is a positive length or {AUTOMATIC!r}; {L!r} was given.")
    if isinstance(L, str) and not isinstance(step_size, str):
        raise ValueError(
            "with a step size given L has to be given too, about √d where the target has unit scale; or "
            'leave both to be found: step_size="auto".'
        )
    return Microcanonical(
        check_step_size(step_size),
        L if isinstance(L, str) else jnp.asarray(L, jnp.result_type(float)),
        _as_scale(scale),
        partial,
        adjusted,
        IsokineticLeapfrog(integrator),
        preconditioned,
    )


def _as_scale(scale: PyTree[Array]) -> Array:
    """A positive number, or a vector of those of a tree like theta."""
    leaves = jax.tree.leaves(scale)
    if any(isinstance(s, str) for s in leaves):
        raise ValueError(
            f"the scale is a number, or numbers in the structure of theta, not {scale!r}; that of every "
            "coordinate is learned in warm-up, with preconditioned=True."
        )
    is_traced = any(isinstance(s, jax.core.Tracer) for s in leaves)
    if not is_traced and not all(bool(np.all(np.asarray(s) > 0)) for s in leaves):
        raise ValueError(f"the scale must be positive; {scale} was given.")
    is_number = len(leaves) == 1 and not jnp.ndim(leaves[0])
    return as_arrays(scale) if is_number else ravel(jax.tree.map(jnp.asarray, scale))
