"""Microcanonical Langevin and Hamiltonian Monte Carlo, as they are and with a Metropolis correction."""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from fokker import corrections
from fokker._core.count import Count, no_steps
from fokker._core.state import as_arrays, choose, ravel
from fokker.dynamics import SDE, isokinetic
from fokker.gradients import Estimator
from fokker.integrators import IsokineticLeapfrog, Point
from fokker.integrators.isokinetic import refresh, unit_vector
from fokker.samplers import _checks
from fokker.samplers._microcanonical_warm_up import warm_up
from fokker.samplers.contract import (
    Claims,
    Followed,
    Info,
    Memory,
    Sampler,
    SamplerState,
    Warmed,
    all_finite,
    computed,
    theta_of,
)
from fokker.samplers.schedules import AUTOMATIC, StepSize, check_step_size, step_size_at


class Microcanonical(Sampler):
    """Isokinetic dynamics × isokinetic leapfrog, × Metropolis where adjusted; see `mclmc`, `mchmc`.

    Beside these factors it refreshes a direction u, in part or in whole, which makes it a class of its own: a
    step carries ∇U on from the last, as `Plain` does not, and a trajectory refreshes u on its way, as
    `Corrected` does not.
    """

    step_size: Any
    L: Any
    scale: Any = 1.0
    partial: bool = eqx.field(static=True, default=True)
    adjusted: bool = eqx.field(static=True, default=False)
    integrator: IsokineticLeapfrog = IsokineticLeapfrog()
    preconditioned: bool = eqx.field(static=True, default=True)
    target: Any = None
    temperature: Any = 1.0

    learns = True

    @property
    def is_exact(self) -> bool:  # type: ignore[override]
        """Where it is adjusted."""
        return self.adjusted

    @property
    def name(self) -> str:
        """As in `fk.samplers`."""
        return "mclmc" if self.partial else "mchmc"

    def __str__(self) -> str:
        return f"isokinetic × {self.integrator.label}" + (" × Metropolis" if self.adjusted else "")

    def on(self, target: Any, temperature: Any = 1.0, gradient: Estimator | None = None) -> "Microcanonical":
        """The sampler of exp(-U/T) for a target."""
        return _checks.placed(self, target, temperature, gradient)

    @property
    def placed(self) -> SDE:
        """Those between two refreshments of u, with U/T for the potential."""
        target, T = self.own_target, self.temperature

        def potential(theta: PyTree[Array]) -> Array:
            return (target.potential(theta) / T).astype(jnp.result_type(*jax.tree.leaves(theta)))

        return isokinetic(potential, self.scale)

    def follows(self, state: PyTree[Any] | None = None) -> Followed:
        """Isokinetic dynamics with the noise that the refreshments tend to for small steps."""
        theta = jnp.zeros(2) if state is None else theta_of(state)
        size = ravel(as_arrays(theta)).size
        # By Itô's formula noise of this length is the limit of the refreshments.
        length = (math.sqrt(size) if isinstance(self.L, str) else self.L) if self.partial else None
        dynamics = isokinetic(self.placed.hamiltonian.potential, self.scale, length)  # type: ignore[attr-defined]
        whole = {"theta": theta, "u": jnp.ones(size) / math.sqrt(size)}
        return Followed(dynamics, whole, spheres=("u",), is_refreshed=not self.partial)

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

    def init(self, position: PyTree[Any], *, key: Key[Array, ""] | None = None) -> SamplerState:
        """A direction u drawn at random; U/T and its gradient, with which the next step begins."""
        if key is None:
            raise ValueError("the direction u is drawn at random: pass key=jax.random.key(…).")
        theta = _checks.check_position(self, position)
        x = ravel(theta)
        if x.size < 2:
            raise ValueError(
                f"{self.name} moves on a sphere of directions and needs a theta of two numbers or more: in "
                "one dimension there is nothing to turn. Use fk.samplers.slice_sampler or sghmc for it."
            )
        _checks.as_vector(self.scale, theta)
        z = {"theta": theta, "u": unit_vector(jax.random.normal(key, x.shape, x.dtype))}
        point = self.integrator.evaluate(self.placed, z)
        _checks.check_finite_point(point)
        return SamplerState(z, no_steps(), Memory(point))

    def draw(self, key: Key[Array, ""], state: SamplerState) -> Any:
        """Noise for u; for a trajectory, whose length is not known before, a key in its place."""
        if self.adjusted:
            return key
        u = state.z["u"]
        return jax.random.normal(key, u.shape, u.dtype)

    def _number(self, h: Array, share: Array | float = 1.0) -> Array:
        """The number of steps in a length L."""
        return jnp.maximum(1, jnp.round(share * self._length(h) / h)).astype(jnp.int32)

    def _length(self, like: Array) -> Array:
        if isinstance(self.L, str):
            raise ValueError("L is left to be found: fk.sample finds it with the step size, or give it.")
        return jnp.asarray(self.L, like.dtype)

    def advance(
        self, draws: Any, state: SamplerState, batch: Any = None, number: Count | None = None
    ) -> tuple[SamplerState, Any]:
        """One step, or for the adjusted kinds one trajectory, with the randomness given."""
        _checks.no_batch(self, batch)
        number = state.step if number is None else number
        h = jnp.asarray(step_size_at(self.step_size, number), state.z["u"].dtype)
        if self.adjusted:
            return self._trajectory(draws, state, h)
        z, start = state.z, state.memory.point
        if not self.partial:
            z = {**z, "u": jnp.where(number % self._number(h) == 0, unit_vector(draws), z["u"])}
        z, point, log_ratio, _ = self.integrator.propose(self.placed, z, None, h, start)
        if self.partial:
            z = {**z, "u": refresh(z["u"], draws, h, self._length(h))}
        change = point.potential - start.potential - log_ratio  # type: ignore[operator]
        finite = all_finite((z, point)) & (h >= 0)
        return SamplerState(z, state.step + 1, Memory(point)), Info(finite, energy_change=change)

    def _trajectory(self, key: Array, state: SamplerState, h: Array) -> tuple[SamplerState, Any]:
        """From a new u, steps over a length L, then Metropolis.

        Partial refreshments within it keep u uniform on the sphere and are reversible: the ratio of the path
        and its reverse depends only on the energy that the steps between them gained. Those at its ends would
        change nothing, as u is drawn again.
        """
        u_key, length_key, accept_key, noise_key = jax.random.split(key, 4)
        shape, dtype = state.z["u"].shape, state.z["u"].dtype
        # Trajectories of one length, without noise, could return to their start.
        share = 1.0 if self.partial else jax.random.uniform(length_key, (), dtype, 0.5, 1.5)
        start = {**state.z, "u": unit_vector(jax.random.normal(u_key, shape, dtype))}

        def one_step(i: Array, carry: tuple[Any, Point, Array]) -> tuple[Any, Point, Array]:
            z, point, log_ratio = carry
            z, point, more, _ = self.integrator.propose(self.placed, z, None, h, point)
            if self.partial:
                noise = jax.random.normal(jax.random.fold_in(noise_key, i), shape, dtype)
                z = {**z, "u": refresh(z["u"], noise, h, self._length(h))}
            return z, point, log_ratio + more

        here = state.memory.point
        number = self._number(h, share)
        end, point, log_ratio = jax.lax.fori_loop(0, number, one_step, (start, here, jnp.zeros((), dtype)))
        change = point.potential - here.potential - log_ratio
        uniform = jax.random.uniform(accept_key, (), dtype)
        accepted, acceptance, divergent = corrections.metropolis_rule(
            uniform, change, all_finite((end, point))
        )
        z, chosen = choose(accepted, (end, point), (state.z, here))
        info = Info(
            all_finite((z, chosen)) & (h >= 0),
            acceptance_rate=acceptance,
            is_divergent=divergent,
            num_integration_steps=number,
            is_accepted=accepted,
            energy_change=change,
            proposal=end["theta"],
        )
        return SamplerState(z, state.step + 1, Memory(chosen)), info

    def warm_up(
        self,
        positions: PyTree[Array],
        keys: Key[Array, " chains"],
        steps: int,
        stage: Callable[..., Any] = computed,
    ) -> Warmed:
        """Step size, L and scale from `steps` steps of all chains; and where the chains then are."""
        return Warmed(*warm_up(self, positions, keys, steps, stage))


def mclmc(
    step_size: StepSize = AUTOMATIC,
    L: Any = AUTOMATIC,
    *,
    adjusted: bool = False,
    integrator: str = "minimal norm",
    preconditioned: bool = True,
    scale: Any = 1.0,
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
    """
    return _make(step_size, L, scale, True, adjusted, integrator, preconditioned)


def mchmc(
    step_size: StepSize = AUTOMATIC,
    L: Any = AUTOMATIC,
    *,
    adjusted: bool = False,
    integrator: str = "minimal norm",
    preconditioned: bool = True,
    scale: Any = 1.0,
) -> Microcanonical:
    r"""Microcanonical Hamiltonian Monte Carlo: `mclmc` with no noise, and a new u after every length L.

        dθ = s u dt,   du = -(1 - uuᵀ) s∇(U/T)/(d - 1) dt

    Keeps exp(-U/T) with a bias of order ε² (Robnik, De Luca, Silverstein and Seljak 2023); with
    `adjusted=True` exactly, a step being a trajectory of a length between L/2 and 3L/2. The options are those
    of `mclmc`.
    """
    return _make(step_size, L, scale, False, adjusted, integrator, preconditioned)


def _make(
    step_size: Any, L: Any, scale: Any, partial: bool, adjusted: bool, integrator: str, preconditioned: bool
) -> Microcanonical:
    if L != AUTOMATIC if isinstance(L, str) else not (isinstance(L, jax.core.Tracer) or bool(jnp.all(L > 0))):
        raise ValueError(f"L is a positive length or {AUTOMATIC!r}; {L!r} was given.")
    if isinstance(L, str) and not isinstance(step_size, str):
        raise ValueError(
            "with a step size given L has to be given too, about √d where the target has unit scale; or "
            'leave both to be found: step_size="auto".'
        )
    leaves = jax.tree.leaves(scale)
    if any(isinstance(s, str) for s in leaves):
        raise ValueError(
            f"the scale is a number, or numbers in the structure of theta, not {scale!r}; that of every "
            "coordinate is learned in warm-up, with preconditioned=True."
        )
    if not any(isinstance(s, jax.core.Tracer) for s in leaves) and not all(
        bool(np.all(np.asarray(s) > 0)) for s in leaves
    ):
        raise ValueError(f"the scale must be positive; {scale} was given.")
    length = L if isinstance(L, str) else jnp.asarray(L, jnp.result_type(float))
    vector = (
        ravel(jax.tree.map(jnp.asarray, scale))
        if jnp.ndim(leaves[0]) or len(leaves) > 1
        else as_arrays(scale)
    )
    return Microcanonical(
        check_step_size(step_size),
        length,
        vector,
        partial,
        adjusted,
        IsokineticLeapfrog(integrator),
        preconditioned,
    )
