"""A random walk: steps that do not use the target."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fokker._core.state import State
from fokker._core.types import Number
from fokker.dynamics import SDE, Dynamics
from fokker.fields import Field
from fokker.integrators._integrator import StepInput
from fokker.integrators._proposal import Correctable, Point, Proposal, evaluate_point
from fokker.integrators.euler_maruyama import one_number


class RandomWalk(Correctable):
    r"""z' = z + ε w with w ~ N(0, I): a proposal for a Metropolis correction, of no use without one.

    It uses neither D, Q nor the gradient of H: the correction alone determines what is sampled.

    It has no arguments.

    ```python
    dynamics = fk.dynamics.langevin(lambda theta: jnp.sum(theta**2) / 2)
    sampler = fk.samplers.recipe(
        dynamics, 0.5, integrator=fk.integrators.RandomWalk(), correction=fk.corrections.Metropolis()
    )
    ```
    """

    label: ClassVar = "random walk"
    error_order: ClassVar = 1.0
    has_density: ClassVar = True

    def noise_like(self, dynamics: Dynamics | SDE, z: State, noise_estimate: Field | None = None) -> Any:
        """Noise for every variable."""
        return jax.eval_shape(lambda: z)

    def advance(self, step: StepInput) -> tuple[State, Array]:
        """The state one step later."""
        h = one_number(step.step_size)
        return jax.tree.map(lambda x, w: x + (h * w).astype(x.dtype), step.z, step.noise), jnp.zeros(())

    def check_correction(self, dynamics: Dynamics | SDE, z: State) -> None:
        """The way back is as probable as the way there, for any dynamics."""

    def evaluate(self, dynamics: Dynamics | SDE, z: State) -> Point:
        """U alone: the target needs no gradient."""
        return evaluate_point(dynamics, z, with_gradient=False)

    def propose(
        self, dynamics: Dynamics | SDE, z: State, noise: PyTree[Array], step_size: Number, point: Point
    ) -> Proposal:
        """The step; it is symmetric."""
        new, zero = self.advance(StepInput(dynamics, z, None, noise, step_size))
        return Proposal(new, self.evaluate(dynamics, new), zero)

    def rejected(self, z: State) -> State:
        """The same."""
        return z
