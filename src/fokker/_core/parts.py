"""Devices that hold parts of the data, or of the parameters: sums over the former, with their derivatives.

The sums are for the inside of `jax.shard_map`, whose own derivatives of `psum` are right only if it checks
how every value varies over the devices. It would then refuse loops that start from a constant, as in many
likelihoods.
"""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, PyTree

# The axes of a mesh of devices: which chains a device has, which part of the data, and of every large array.
CHAINS, DATA, PARAMETERS = "chains", "data", "parameters"
# Arrays of fewer numbers are not divided: the devices would exchange more than they save.
_LEAST_SHARDED = 1024


def axes_of_shares(shape: tuple[int, ...], shares: int) -> tuple[str | None, ...]:
    """The axis of an array that is divided among so many devices: its longest that divides evenly.

    Arrays without such an axis, and those of few numbers, are on all devices.
    """
    even = [i for i, length in enumerate(shape) if length % shares == 0]
    if shares == 1 or not even or math.prod(shape) < _LEAST_SHARDED:
        return (None,) * len(shape)
    longest = max(even, key=lambda i: shape[i])
    return tuple(PARAMETERS if i == longest else None for i in range(len(shape)))


def sharded(tree: PyTree[Array], leading: int) -> PyTree[Array]:
    """The same arrays, divided over the axis `parameters` of the mesh, if the program runs on one.

    Their first `leading` axes run over chains or draws. The rest of the program follows: XLA divides what is
    computed from them.
    """
    shares = number_of_shares()
    if shares == 1:
        return tree

    def divided(x: Array) -> Array:
        spec = P(*[None] * leading, *axes_of_shares(x.shape[leading:], shares))
        is_traced = isinstance(x, jax.core.Tracer)
        return jax.lax.with_sharding_constraint(x, spec) if is_traced else jax.device_put(x, spec)

    return jax.tree.map(divided, tree)


def number_of_shares() -> int:
    """Devices over which the program that is being traced divides its parameters."""
    sizes = jax.sharding.get_abstract_mesh().shape
    # A caller's own mesh may have an axis of that name.
    return sizes.get(PARAMETERS, 1) if {CHAINS, DATA} <= set(sizes) else 1


@eqx.filter_custom_jvp
def sum_of_parts(theta: PyTree[Array], part: Callable[[PyTree[Array]], Array]) -> Array:
    r"""f(θ) = Σ_p f_p(θ), where `part` is this device's f_p: a module, whose arrays are its own.

    θ is the same on all devices, and so are f, ∇f = Σ_p ∇f_p and derivatives of higher order. ∇f takes one
    all-reduce.
    """
    return jax.lax.psum(part(theta), DATA)


@sum_of_parts.def_jvp
def _sum_of_parts_jvp(
    primals: tuple[PyTree[Array], ...], tangents: tuple[PyTree[Array], ...]
) -> tuple[Array, Array]:
    theta, part = primals
    tangent = tangents[0]
    gradient = _gradient(theta, part)
    products = jax.tree.map(lambda g, t: 0.0 if t is None else jnp.sum(g * t), gradient, tangent)
    return sum_of_parts(theta, part), jax.tree.reduce(jnp.add, products)


@eqx.filter_custom_jvp
def _gradient(theta: PyTree[Array], part: Callable[[PyTree[Array]], Array]) -> PyTree[Array]:
    return _reduced(jax.grad(part)(theta))


@_gradient.def_jvp
def _gradient_jvp(
    primals: tuple[PyTree[Array], ...], tangents: tuple[PyTree[Array], ...]
) -> tuple[PyTree[Array], PyTree[Array]]:
    theta, part = primals
    tangent = jax.tree.map(
        lambda x, t: jnp.zeros_like(x) if t is None else jax.lax.pmean(t, DATA), theta, tangents[0]
    )  # as of `_shared`
    product = jax.jvp(jax.grad(part), (jax.tree.map(_shared, theta),), (tangent,))[1]
    return _gradient(theta, part), _reduced(product)


# The mean over devices changes nothing in a tangent that they all have. But JAX transposes `psum` to itself:
# with both, the transpose of t ↦ Σ_p A_p t is t ↦ Σ_p A_pᵀ t.
@jax.custom_jvp
def _shared(x: Array) -> Array:
    return x


@_shared.defjvp
def _shared_jvp(
    primals: tuple[PyTree[Array], ...], tangents: tuple[PyTree[Array], ...]
) -> tuple[Array, Array]:
    return primals[0], jax.lax.pmean(tangents[0], DATA)


def _reduced(tree: PyTree[Array]) -> PyTree[Array]:
    """The sum over devices of a tree, as one vector per type: one all-reduce, not one for each leaf.

    Leaves that are divided among devices stay apart: one vector of them all would be on each device.
    """
    if number_of_shares() > 1:
        return jax.lax.psum(tree, DATA)
    leaves, structure = jax.tree.flatten(tree)
    sums: list[Any] = [None] * len(leaves)
    for dtype in dict.fromkeys(leaf.dtype for leaf in leaves):
        places = [i for i, leaf in enumerate(leaves) if leaf.dtype == dtype]
        total = jax.lax.psum(jnp.concatenate([leaves[i].reshape(-1) for i in places]), DATA)
        ends = [0]
        for i in places:
            ends.append(ends[-1] + leaves[i].size)
            sums[i] = total[ends[-2] : ends[-1]].reshape(leaves[i].shape)
    return jax.tree.unflatten(structure, sums)
