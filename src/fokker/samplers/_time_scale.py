"""The fastest time scales of a target and of dynamics on it, from which step sizes are tried."""

import math
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from fokker._core.state import State, inner
from fokker._core.types import Number
from fokker.dynamics import SDE, Dynamics
from fokker.rows import span
from fokker.targets.target import Target, TargetWithData

# Of more data the first rows alone are used.
_ROWS = 65_536
_ITERATIONS = 20


def large_batch_potential(target: Target) -> Callable[[PyTree[Array]], Array]:
    """U, or its estimate by the first rows where there are many."""
    if not isinstance(target, TargetWithData) or target.size <= _ROWS:
        return target.potential
    rows = span(target.data, 0, _ROWS)
    return lambda theta: target.minibatch_potential(theta, rows)


def largest_curvature(target: Target, theta: PyTree[Array]) -> float:
    """The largest eigenvalue of ∇²U at theta in size, by power iteration."""
    gradient = jax.grad(large_batch_potential(target))
    return _growth(lambda v: jax.jvp(gradient, (theta,), (v,))[1], theta)


def curvature_time(target: Target, temperature: Number, theta: PyTree[Array]) -> float:
    """√(T/λ) with λ the largest curvature: the narrowest width of the target, as far as it is normal."""
    return math.sqrt(temperature / largest_curvature(target.at_temperature(temperature), theta))


def drift_time(
    dynamics: Dynamics | SDE, z: State, gradient: Callable[[PyTree[Array]], PyTree[Array]] | None = None
) -> float:
    """One over the spectral radius of ∂f/∂z: the fastest time scale of the dynamics; ∇U by `gradient`."""

    def drift(z: State) -> State:
        return dynamics.drift(z) if gradient is None else dynamics.drift(z, gradient(z["theta"]))

    return 1.0 / _growth(lambda v: jax.jvp(drift, (z,), (v,))[1], z)


def _growth(product: Callable[[PyTree[Array]], PyTree[Array]], like: PyTree[Array]) -> float:
    """The factor by which a linear map stretches in the long run, averaged over the second half."""
    leaves, structure = jax.tree.flatten(like)
    keys = jax.random.split(jax.random.key(0), len(leaves))
    drawn = [jax.random.normal(k, x.shape, x.dtype) for k, x in zip(keys, leaves, strict=True)]
    v = jax.tree.unflatten(structure, drawn)

    @eqx.filter_jit
    def run(v: PyTree[Array]) -> Array:
        def apply(v: PyTree[Array], _: None) -> tuple[PyTree[Array], Array]:
            v = product(v)
            size = jnp.sqrt(inner(v, v))
            return jax.tree.map(lambda x: x / jnp.maximum(size, 1e-30), v), size

        return jax.lax.scan(apply, v, length=_ITERATIONS)[1]

    sizes = np.asarray(run(v), float)[_ITERATIONS // 2 :]
    factor = float(np.exp(np.mean(np.log(np.maximum(sizes, 1e-30)))))
    if not (math.isfinite(factor) and factor > 1e-20):
        raise ValueError("the curvature of the target at init is zero or not finite: give step_sizes.")
    return factor
