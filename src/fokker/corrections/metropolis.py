"""The Metropolis–Hastings correction."""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from fokker._core.checks import check_whole
from fokker._core.random import split, uniform
from fokker._core.state import State, choose
from fokker.corrections._correction import (
    Correction,
    Outcome,
    Step,
    Visited,
    check_positive_temperature,
    metropolis_rule,
    noise_of_move,
    number_of,
)
from fokker.dynamics import SDE, Dynamics
from fokker.integrators import Correctable, Integrator, Point

# The number of integration steps from a uniform number and the step size.
Length = Callable[[Array, Array], Array]


class PathDraws(NamedTuple):
    """Uniforms for the decision and the length; the noise of a single move, or a key for that of many."""

    decision: Array
    length: Array
    noise: Any


class Path(NamedTuple):
    """A path of proposals, and how much of it is left."""

    z: State
    point: Point
    start: State
    energy: Array
    log_ratio: Array
    is_sound: Array
    draws: PathDraws
    left: Array
    number: Array


def _as_length(number: Any) -> Any:
    if number is None or callable(number) or isinstance(number, jax.core.Tracer):
        return number
    if isinstance(number, jax.Array | np.ndarray) and number.ndim == 0:
        number = number.item()
    check_whole("num_integration_steps", number)
    return None if number == 1 else number_of(number)


class Metropolis(Correction):
    r"""Accept a step z → z' with min(1, π(z')q(z'→z) / [π(z)q(z→z')]), else stay: exp(-H/T) is kept exactly.

    For an integrator that knows this ratio, in one of two ways. By its transition density: Euler–Maruyama,
    q(z'|z) = N(z + εf(z), 2εTD(z)), for every Q and every invertible D (Roberts and Tweedie 1996 for Q = 0);
    `ExactOU` likewise, with the way back taken at reversed momentum. By the work that a step does: reversible
    volume-preserving parts, as in `Leapfrog`, `GeneralisedLeapfrog` and `Splitting`, are accepted with
    exp(-ΔH/T) summed over them, while an exact Ornstein–Uhlenbeck part keeps the target by itself (Horowitz
    1991). After a rejection in reversed time the momentum is reversed, otherwise the target would not be
    kept. The target is exact at any step size; a larger step is rejected more often.

    Dynamics with D = 0 get a new momentum before each trajectory.

    Arguments:

    - `num_integration_steps`: the steps of the integrator before each decision: a whole number, or a function
      of a uniform number and the step size, whose result is rounded down and at least 1. None (the default)
      is 1.

    ```python
    dynamics = fk.dynamics.langevin(lambda theta: jnp.sum(theta**2) / 2)
    sampler = fk.samplers.recipe(dynamics, step_size=0.1, correction=fk.corrections.Metropolis())
    ```
    """

    # None for one: a path of one step is compiled as such, other numbers are arrays.
    num_integration_steps: Any = eqx.field(converter=_as_length, default=None)

    label: ClassVar = "Metropolis"

    @property
    def takes_one_move(self) -> bool:  # type: ignore[override]
        """Paths of one step."""
        return self.num_integration_steps is None

    def with_one_move(self) -> "Metropolis":
        """Paths of one step; a number that is not compiled in stays an array."""
        return self if self.takes_one_move else dataclasses.replace(self, num_integration_steps=number_of(1))

    def error_order(self, integrator: Correctable) -> float:
        """That of a step; of a path of given length one less, where its steps have no noise."""
        return integrator.error_order - (0 if self.takes_one_move or not integrator.is_deterministic else 1)

    def check(self, dynamics: Dynamics | SDE, integrator: Integrator, z: State) -> None:
        """Raise, with the reason, where steps of these dynamics by this integrator cannot be corrected."""
        check_positive_temperature(dynamics)
        self.check_integrator(integrator).check_correction(dynamics, z)

    def check_integrator(self, integrator: Integrator) -> Correctable:
        """Raise unless the probability of the way back is known."""
        if not isinstance(integrator, Correctable):
            raise ValueError(
                f"steps of {type(integrator).__name__} cannot be corrected: the probability of the way back "
                "is not known. Use fk.integrators.EulerMaruyama() where D has noise on every variable, "
                "Splitting() or ExactOU() for underdamped and Leapfrog() for Hamiltonian dynamics."
            )
        return integrator

    def draw(self, key: Key[Array, ""], step: Step, z: State) -> PathDraws:
        """The randomness of one path."""
        decision_key, length_key, noise_key = split(key, 3)
        dtype = jnp.result_type(*jax.tree.leaves(z))
        one = self.takes_one_move or step.integrator.is_deterministic
        noise = step.noise(noise_key, z) if one else noise_key
        return PathDraws(uniform(decision_key, (), dtype), uniform(length_key, (), dtype), noise)

    def start(self, draws: PathDraws, z: State, point: Point, step: Step) -> Path:
        """A path of no length."""
        number = 1 if self.takes_one_move else self.num_integration_steps
        steps = number_of(number(draws.length, step.size) if callable(number) else number)
        steps = jnp.maximum(steps, 1)
        energy = step.energy(z, point)
        zero = jnp.zeros_like(energy)
        return Path(z, point, z, energy, zero, jnp.asarray(True), draws, steps, steps)

    def move(self, path: Path, step: Step) -> Path:
        """One step of the integrator."""
        noise = noise_of_move(step, path.draws.noise, path.left, path.z)
        proposal = step.propose(path.z, path.point, noise)
        is_sound = path.is_sound & proposal.is_sound
        U = proposal.point.potential
        # A path that has left the finite numbers will not be accepted: it stops here.
        continues = is_sound if U is None else is_sound & jnp.isfinite(U)
        return path._replace(
            z=proposal.z,
            point=proposal.point,
            log_ratio=path.log_ratio + proposal.log_ratio.astype(path.log_ratio.dtype),
            is_sound=is_sound,
            left=jnp.where(continues, path.left - 1, 0),
        )

    def is_done(self, path: Path) -> Array:
        """Whether all steps are taken."""
        return path.left <= 0

    def end(self, path: Path, point: Point, step: Step) -> Outcome:
        """The end of the path with probability min(1, e^{-ΔE}), else its start."""
        change = step.energy(path.z, path.point) - path.energy - path.log_ratio
        is_finite = jnp.all(jnp.stack([jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(path.z)]))
        accepted, rate, divergent = metropolis_rule(path.draws.decision, change, path.is_sound & is_finite)
        here = (step.integrator.rejected(path.start), point)
        z, point = choose(accepted, (path.z, path.point), here)
        return Outcome(z, point, rate, divergent, path.energy, path.number, accepted, change, path.z)

    def visited(self, before: Path, after: Path, step: Step) -> Visited:
        """The end of the path."""
        return Visited(jax.tree.map(lambda x: x[None], after.z["theta"]))
