"""Control variates at a point that follows the chain."""

from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
from jaxtyping import Array, PyTree

from fokker._core.count import Count
from fokker._core.types import Arrays
from fokker.gradients.control_variates import ControlVariates
from fokker.gradients.minibatch import Estimator
from fokker.targets.target import TargetWithData


class _Center(NamedTuple):
    center: PyTree[Array]
    full: PyTree[Array]


class SVRG(Estimator):
    """`ControlVariates` whose θ* is moved to the position of the chain every `every` steps."""

    reads_all_data: ClassVar[bool] = True
    every: int = eqx.field(static=True)  # type: ignore[misc]

    def init(self, target: TargetWithData, theta: PyTree[Array]) -> _Center:
        """θ* at the first position."""
        return _Center(theta, jax.grad(target.potential)(theta))

    def _control_variates(self, state: _Center) -> ControlVariates:
        return ControlVariates(state.center, state.full)

    def excess(self, target: TargetWithData, state: _Center, batch: PyTree[Array]) -> PyTree[Array]:
        """∇Ũ(θ*) - ∇U(θ*)."""
        return self._control_variates(state).excess(target, (), batch)

    def baselines(self, target: TargetWithData, state: _Center, batch: PyTree[Array]) -> PyTree[Array]:
        """g_i(θ*)."""
        return self._control_variates(state).baselines(target, (), batch)

    def update(
        self, target: TargetWithData, state: _Center, theta: Arrays, batch: Arrays, number: Count
    ) -> _Center:
        """At every `every`-th step, θ* at the current position, by a pass over all the data."""
        return jax.lax.cond(
            (number + 1) % self.every == 0, lambda: self.init(target, theta), lambda: _Center(*state)
        )


def svrg(every: int) -> SVRG:
    r"""b_i = g_i(θ*), with θ* moved to the chain's position every `every` steps by a pass over all the data.

    Stochastic variance reduced gradients (Johnson and Zhang 2013; for Langevin dynamics Dubey et al. 2016).
    Use it if there is no single mode for control variates. With `every` of the order of N/n, the passes
    cost as much as the steps between them.

    Arguments:

    - `every`: steps after which the centre moves to where the chain is, with a pass over all the data.

    Returns an estimator, for the argument `gradient` of `fk.sample`.

    ```python
    trace = fk.sample(posterior, fk.samplers.sgld(1e-3), init=jnp.zeros(2), steps=1000, batch_size=2,
                      gradient=fk.gradients.svrg(every=100))
    ```
    """
    if not isinstance(every, int) or every < 1:
        raise ValueError(f"every must be an integer number of steps, at least 1; {every!r} was given.")
    return SVRG(every)
