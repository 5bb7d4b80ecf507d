"""A boundary that reflects steps across it."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fokker._core.required import require
from fokker._core.state import State, as_arrays, same_shapes
from fokker.dynamics import SDE, Dynamics
from fokker.fields import Field
from fokker.integrators._integrator import Integrator, StepInput
from fokker.integrators.euler_maruyama import EulerMaruyama


class Reflecting(Integrator):
    r"""Steps of another integrator, with theta reflected into [lower, upper] and its momentum reversed.

        θ ← 2·lower - θ where θ < lower,  2·upper - θ where θ > upper;   r ← -r where θ was reflected

    for a target that ends at a wall with its density still positive there: under a transform it would
    vanish. `lower` and `upper` are numbers or trees in the structure of theta; None is no wall on that side.

    ```python
    fk.samplers.sgld(1e-3, integrator=fk.integrators.Reflecting(lower=0.0))
    ```

    Arguments:

    - `lower`: the lower walls: a number, or a tree like theta; None for none.
    - `upper`: the upper walls, likewise.
    - `integrator`: that which takes the step; `EulerMaruyama()` by default.
    """

    lower: PyTree[Array] | None = eqx.field(
        converter=lambda x: None if x is None else as_arrays(x), default=None
    )
    upper: PyTree[Array] | None = eqx.field(
        converter=lambda x: None if x is None else as_arrays(x), default=None
    )
    integrator: Integrator = EulerMaruyama()

    @property
    def label(self) -> str:  # type: ignore[override]
        """The integrator's, with walls."""
        return f"reflecting {self.integrator.label}"

    @property
    def gradient_at_start(self) -> bool:  # type: ignore[override]
        """As the integrator's."""
        return self.integrator.gradient_at_start

    def check(self, dynamics: Dynamics | SDE, z: State, subtracts: bool = False) -> None:
        """Raise unless theta starts inside, and as the integrator itself does."""
        self.integrator.check(dynamics, z, subtracts)
        if not isinstance(z, Mapping) or "theta" not in z:
            raise ValueError("Reflecting keeps the variable theta inside walls; this state has none.")
        low, high = self.walls(z["theta"])
        inside = jax.tree.map(lambda x, a, b: jnp.all((a < b) & (a <= x) & (x <= b)), z["theta"], low, high)
        every = jnp.all(jnp.stack(jax.tree.leaves(inside)))
        require(
            every,
            lambda lower, upper: ValueError(
                f"the initial position lies outside its walls, lower={lower} and upper={upper}, or "
                "they leave no room: start inside."
            ),
            self.lower,
            self.upper,
        )

    def noise_like(self, dynamics: Dynamics | SDE, z: State, noise_estimate: Field | None = None) -> Any:
        """As the integrator's."""
        return self.integrator.noise_like(dynamics, z, noise_estimate)

    def walls(self, theta: PyTree[Array]) -> tuple[PyTree[Array], PyTree[Array]]:
        """The lower and the upper wall of every entry of theta; infinite where there is none."""

        def wall(bound: PyTree[Array] | None, absent: float) -> PyTree[Array]:
            value = jnp.asarray(absent) if bound is None else bound
            if same_shapes(value, 0.0):
                return jax.tree.map(lambda x: jnp.full_like(x, value), theta)
            if not same_shapes(value, theta):
                raise ValueError("the walls of Reflecting are numbers, or trees in the structure of theta.")
            return value

        return wall(self.lower, -jnp.inf), wall(self.upper, jnp.inf)

    def advance(self, step: StepInput) -> tuple[State, Array]:
        """The state one step later, inside the walls."""
        z, shortfall = self.integrator.advance(step)
        low, high = self.walls(z["theta"])
        reflected = {**z, "theta": jax.tree.map(_fold, z["theta"], low, high)}
        if "r" in z:
            turns = jax.tree.map(_turns, z["theta"], low, high)
            reflected["r"] = jax.tree.map(lambda r, turn: jnp.where(turn, -r, r), z["r"], turns)
        return reflected, shortfall


def _phase(x: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """The place of x in the zigzag that goes up over [0, width] and down over [width, 2 width]."""
    width = high - low
    # No distance from a wall at minus infinity: measure downwards from the other.
    start = jnp.where(jnp.isfinite(low), low, high)
    away = jnp.where(jnp.isfinite(low), x - start, start - x)
    period = jnp.where(jnp.isfinite(width), 2 * width, 1.0)
    return jnp.where(jnp.isfinite(width), away % period, jnp.abs(away)), width


def _fold(x: Array, low: Array, high: Array) -> Array:
    """x reflected at the walls as often as needed."""
    place, width = _phase(x, low, high)
    up = jnp.where(place <= width, place, 2 * width - place)
    inside = jnp.where(jnp.isfinite(low), low + up, high - up)
    # Rounding may carry a point reflected at one wall slightly past the other.
    return jnp.where((x < low) | (x > high), jnp.clip(inside, low, high), x)


def _turns(x: Array, low: Array, high: Array) -> Array:
    """Whether x was reflected an odd number of times."""
    place, width = _phase(x, low, high)
    odd = jnp.where(jnp.isfinite(width), place > width, True)
    return ((x < low) | (x > high)) & odd
