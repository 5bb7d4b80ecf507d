"""Where auxiliary variables start: drawn from their own stationary density."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from fokker.integrators.noise import draw_like


def none(key: Key[Array, ""], theta: PyTree[Array], temperature: Any) -> dict[str, PyTree[Array]]:
    """No auxiliaries."""
    return {}


def momentum(key: Key[Array, ""], theta: PyTree[Array], temperature: Any) -> dict[str, PyTree[Array]]:
    """r ~ N(0, T): the right spread for a unit mass, and near it for others."""
    drawn = draw_like("gaussian", key, jax.eval_shape(lambda: theta))
    return {"r": jax.tree.map(lambda x: (jnp.sqrt(temperature) * x).astype(x.dtype), drawn)}
