"""Samplers with a correction: dynamics × integrator × correction, exact at every step size."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from fokker._core.count import no_steps
from fokker._core.random import normal, split
from fokker._core.state import State, as_arrays, dimension, ravel
from fokker.corrections import Correction, Step
from fokker.dynamics import SDE, Dynamics
from fokker.integrators import Correctable
from fokker.samplers import _checks
from fokker.samplers._momentum import Momentum, OwnMomentum, check_kinetic, momentum_of
from fokker.samplers.composed import Composed, TrajectoryDraws
from fokker.samplers.contract import Claims, Memory, SamplerState
from fokker.samplers.coordinates import Coordinates, coordinates
from fokker.samplers.family import Family
from fokker.samplers.mass_matrix import MassMatrix, MassMatrixLike, as_mass_matrix, check_size
from fokker.samplers.of_dynamics import check_fit, kinetic_temperature
from fokker.samplers.schedules import StepSize, check_step_size
from fokker.targets.target import Target


class Corrected(Composed):
    r"""Dynamics × integrator × correction.

    A step is a trajectory of steps of the integrator, from which the correction chooses a state: the target
    is kept exactly. Made by `recipe`, of dynamics with a target of their own, and by the named samplers, of a
    family of dynamics that waits for a target, which `on` gives it.
    """

    dynamics: Dynamics | SDE | Family
    step_size: StepSize
    integrator: Correctable
    target: Target | None = None
    temperature: float | Array = 1.0
    correction: Correction = eqx.field(kw_only=True)
    # Coordinates θ = θ₀ + S q; None moves theta as it is, a name is of a kind that is still to be learned.
    mass_matrix: MassMatrix | str | None = None
    # The mean acceptance rate at which warm-up sets the step size; None where it is not learned.
    target_accept: Any = None
    momentum: Momentum = OwnMomentum()
    name: str = eqx.field(static=True, default="recipe")

    is_exact = True

    # What others ask ----------------------------------------------------------------------------------------

    @property
    def has_trajectories(self) -> bool:  # type: ignore[override]
        """Where the correction takes more than one move."""
        return not self.correction.takes_one_move

    @property
    def learns(self) -> bool:  # type: ignore[override]
        """Named samplers learn their step size and mass matrix."""
        return self.target_accept is not None

    @property
    def holds_potential(self) -> bool:
        """Named samplers carry U and ∇U along."""
        return self.wants_target

    @property
    def max_tree_depth(self) -> int | None:
        """That of the correction."""
        return self.correction.max_depth

    @property
    def needs_more_than_gradient(self) -> str:
        """It needs the target."""
        return (
            "it accepts and rejects by the value of the target on all the data, and an optimiser is given "
            "gradients"
        )

    @property
    def claims(self) -> Claims:
        """Its proposals."""
        return Claims(proposals=self)

    def with_one_move(self) -> "Corrected":
        """The same with trajectories of a single move, by whose acceptance the first step size is found."""
        return dataclasses.replace(self, correction=self.correction.with_one_move())

    @property
    def error_order(self) -> float:
        """The power of the step size with which the spread of log acceptance ratios grows."""
        return self.correction.error_order(self.integrator)

    def record(self, state: SamplerState) -> dict[str, Array]:
        """The kinetic temperature, where the state has a momentum."""
        step, z = self.local_step(state)
        return kinetic_temperature(step.dynamics, z)

    # What it does -------------------------------------------------------------------------------------------

    def coordinates(self, position: PyTree[Array]) -> Coordinates:
        """Those of the mass matrix."""
        return coordinates(position, self.mass_matrix)

    def shapes(self, z: State) -> State:
        """With a momentum, also where it is no part of the state between trajectories."""
        return jax.eval_shape(lambda: z if self.momentum.is_stored else {**z, "r": z["theta"]})

    def check_theta(self, theta: PyTree[Array]) -> None:
        """Raise where the mass matrix or the family do not fit."""
        check_size(self.mass_matrix, dimension(theta))
        super().check_theta(theta)

    def auxiliaries(self, key: Key[Array, ""] | None, theta: PyTree[Array]) -> State:
        """A momentum, where it is kept."""
        if not self.momentum.is_stored:
            return {}
        assert isinstance(self.dynamics, Family)
        q = ravel(theta)
        key = jax.random.key(0) if key is None else key
        return self.dynamics.auxiliaries(key, q, jnp.ones((), jnp.result_type(q)))

    def init(self, position: PyTree[Array], *, key: Key[Array, ""] | None = None) -> SamplerState:
        """The state to start from, after all checks of it, with U and ∇U there.

        `position` is theta for a named sampler, whose momentum is drawn with `key` where it keeps one; for a
        sampler made from dynamics it is their whole state, a dictionary with every variable.
        """
        if not isinstance(self.dynamics, Family):
            return self._init_own(self.dynamics, position)
        return super().init(position, key=key)

    def _init_own(self, dynamics: Dynamics | SDE, position: PyTree[Array]) -> SamplerState:
        """The start of dynamics with a target of their own, whose variables are a plain dictionary."""
        if not self.momentum.is_stored and isinstance(position, Mapping) and set(position) == {"theta"}:
            # The momentum of a start is not used: a new one is drawn.
            position = {**position, "r": position["theta"]}
        is_named = isinstance(position, Mapping)
        z = _checks.check_position(self, dict(position) if is_named else position, "the state")
        check_fit(dynamics, self.integrator, z)
        self.correction.check(dynamics, self.integrator, z)
        if not self.momentum.is_stored:
            check_kinetic(dynamics, z)
        memory = Memory(self.integrator.evaluate(dynamics, z))
        if not self.momentum.is_stored:
            z = {name: x for name, x in z.items() if name != "r"}
        return SamplerState(z, no_steps(), memory)

    def draw(self, key: Key[Array, ""], state: SamplerState) -> TrajectoryDraws:
        """All the randomness of one step: it depends on the state by its shapes alone."""
        momentum_key, key = split(key)
        momentum = None
        step, z = self.local_step(state)
        if self.momentum.is_drawn:
            x = ravel(z["theta"])
            momentum = normal(momentum_key, x.shape, x.dtype)
            z = {**z, "r": z["theta"]}
        return TrajectoryDraws(momentum, self.correction.draw(key, step, z))

    def refreshed(self, noise: Array, step: Step, z: State) -> State:
        """With a new momentum, or a share of one."""
        if isinstance(self.dynamics, Family):
            new = self.dynamics.new_momentum(noise, z["theta"])
        else:
            new = momentum_of(step.dynamics, {**z, "r": z["theta"]}, noise)
        return {**z, "r": self.momentum.refreshed(z, new)}


def corrected(
    name: str,
    family: Family,
    integrator: Correctable,
    correction: Correction,
    step_size: StepSize,
    mass_matrix: MassMatrixLike,
    target_accept: float,
    momentum: Momentum | None = None,
) -> Corrected:
    """A named sampler with a correction, which learns its step size and mass matrix."""
    # As a float: inside a compiled function JAX traces a comparison even of values that are known.
    if not isinstance(target_accept, jax.core.Tracer) and not 0 < float(target_accept) < 1:
        raise ValueError(f"target_accept must be between 0 and 1; {target_accept} was given.")
    if callable(step_size):
        raise ValueError("this sampler keeps its target at every step size: give a number, not a schedule.")
    if not isinstance(step_size, str) and jnp.ndim(step_size):
        raise ValueError(
            f"the step size is one number, not an array of shape {jnp.shape(step_size)}; for one per "
            "coordinate give masses as the mass_matrix."
        )
    return Corrected(
        family,
        check_step_size(step_size),
        integrator,
        correction=correction,
        mass_matrix=as_mass_matrix(mass_matrix),
        target_accept=as_arrays(target_accept),
        momentum=momentum or OwnMomentum(),
        name=name,
    )
