"""Sizes of the gradients of single data."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from fokker.targets.constrained import unconstrained

_ROWS = 4096


def norms(target: Any, theta: PyTree[Any], least: float = 0.1) -> Float[Array, " N"]:
    r"""‖∇log p(x_i|θ)‖ of every datum, raised to at least `least` times their mean.

    Scores for weighted minibatches: `fk.sample(…, batches=fk.gradients.norms(target, theta))`. Without the
    floor a row that happens to be well explained at `theta` would hardly be drawn and weigh too much
    elsewhere.
    """
    theta = unconstrained(target, theta)

    def size(datum: PyTree[Array]) -> Array:
        g = jax.grad(target.log_likelihood)(theta, datum)
        return jnp.sqrt(sum((jnp.sum(x**2) for x in jax.tree.leaves(g)), start=jnp.zeros(())))

    sizes = jax.jit(lambda data: jax.lax.map(size, data, batch_size=_ROWS))(target.data)
    return jnp.maximum(sizes, least * jnp.mean(sizes))
