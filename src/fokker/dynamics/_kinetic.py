"""Kinetic energies."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree


def unit_mass(r: PyTree[Array]) -> Array:
    """rᵀr/2 of the variable r."""
    return half_square(r)


def half_square(tree: PyTree[Array]) -> Array:
    """xᵀx/2 over all leaves."""
    return jax.tree.reduce(jnp.add, jax.tree.map(lambda x: jnp.sum(x**2) / 2, tree))
