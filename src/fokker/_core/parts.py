"""Sums over the devices that hold the parts of the data, with their derivatives.

They are for the inside of `jax.shard_map`, whose own derivatives of `psum` are right only if it checks how
every value varies over the devices. It would then refuse loops that start from a constant, as in many
likelihoods.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

# The axes of a mesh of devices: which chains a device has, and which part of the data.
CHAINS, DATA = "chains", "data"


@eqx.filter_custom_jvp
def sum_of_parts(theta: PyTree[Array], part: Callable[[PyTree[Array]], Array]) -> Array:
    r"""f(θ) = Σ_p f_p(θ), where `part` is this device's f_p: a module, whose arrays are its own.

    θ is the same on all devices, and so are f, ∇f = Σ_p ∇f_p and derivatives of higher order. ∇f takes one
    all-reduce.
    """
    return jax.lax.psum(part(theta), DATA)


@sum_of_parts.def_jvp
def _sum_of_parts_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    theta, part = primals
    tangent = tangents[0]
    gradient = _gradient(theta, part)
    products = jax.tree.map(lambda g, t: 0.0 if t is None else jnp.sum(g * t), gradient, tangent)
    return sum_of_parts(theta, part), jax.tree.reduce(jnp.add, products)


@eqx.filter_custom_jvp
def _gradient(theta: PyTree[Array], part: Callable[[PyTree[Array]], Array]) -> PyTree[Array]:
    return _reduced(jax.grad(part)(theta))


@_gradient.def_jvp
def _gradient_jvp(primals: Any, tangents: Any) -> tuple[PyTree[Array], PyTree[Array]]:
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
def _shared_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    return primals[0], jax.lax.pmean(tangents[0], DATA)


def _reduced(tree: PyTree[Array]) -> PyTree[Array]:
    """The sum over devices of a tree, as one vector per type: one all-reduce, not one for each leaf."""
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
