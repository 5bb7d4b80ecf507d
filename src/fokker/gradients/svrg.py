"""Control variates around a point that follows the chain."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
from jaxtyping import Array, PyTree

from fokker._core.count import Count
from fokker.gradients.control_variates import ControlVariates
from fokker.gradients.minibatch import Estimator


class _Center(NamedTuple):
    center: PyTree[Array]
    full: PyTree[Array]


class SVRG(Estimator):
    """`ControlVariates` whose θ* is put to where the chain is, every so many steps; made by `svrg`."""

    every: int = eqx.field(static=True)

    def init(self, target: Any, theta: PyTree[Array]) -> _Center:
        """Around the first position."""
        return _Center(theta, jax.grad(target.potential)(theta))

    def _around(self, state: _Center) -> ControlVariates:
        return ControlVariates(state.center, state.full)

    def excess(self, target: Any, state: _Center, batch: Any) -> PyTree[Array]:
        """∇Ũ(θ*) - ∇U(θ*)."""
        return self._around(state).excess(target, (), batch)

    def baselines(self, target: Any, state: _Center, batch: Any) -> PyTree[Array]:
        """g_i(θ*)."""
        return self._around(state).baselines(target, (), batch)

    def update(self, target: Any, state: _Center, theta: PyTree[Array], batch: Any, number: Count) -> _Center:
        """Around where the chain was, with a pass over all the data, at every `every`-th step."""
        return jax.lax.cond(
            (number + 1) % self.every == 0, lambda: self.init(target, theta), lambda: _Center(*state)
        )


def svrg(every: int) -> SVRG:
    r"""b_i = g_i(θ*), with θ* moved to the chain every `every` steps by a pass over all the data.

    Stochastic variance reduced gradients (Johnson and Zhang 2013; under Langevin dynamics Dubey et al. 2016):
    for where there is no one mode to put control variates around. `every` of the order of N/n makes the
    passes cost as much as the steps between them.
    """
    if not isinstance(every, int) or every < 1:
        raise ValueError(f"every must be a whole number of steps, at least 1; {every!r} was given.")
    return SVRG(every)
