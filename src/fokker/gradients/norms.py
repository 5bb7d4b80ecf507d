"""Norms of the gradients of single data, as scores for weighted minibatches."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from fokker.rows import span
from fokker.targets.target import TargetWithData

_ROWS = 4096


def norms(target: TargetWithData, theta: PyTree[Any], least: float = 0.1) -> Float[Array, " N"]:
    r"""‖∇log p(x_i|θ)‖ of each datum, raised to at least `least` times their mean.

    Scores for weighted minibatches: `fk.sample(…, batches=fk.gradients.norms(target, theta))`. Without the
    lower bound, a row with a small gradient at `theta` would rarely be drawn, with a very large weight.

    Arguments:

    - `target`: a `fk.Posterior`.
    - `theta`: where the gradients are taken, near the mode.
    - `least`: the smallest score, as a share of the mean: no row is left out.

    Returns one positive score per datum, for the argument `batches` of `fk.sample`.

    ```python
    scores = fk.gradients.norms(posterior, jnp.zeros(2))
    ```
    """
    y = target.unconstrain(theta)

    def norm(datum: PyTree[Array]) -> Array:
        g = jax.grad(target.log_likelihood)(y, datum)
        return jnp.sqrt(sum((jnp.sum(x**2) for x in jax.tree.leaves(g)), start=jnp.zeros(())))

    norms_of = jax.jit(jax.vmap(norm))
    spans = [(first, min(_ROWS, target.size - first)) for first in range(0, target.size, _ROWS)]
    each = jnp.concatenate([norms_of(span(target.data, *place)) for place in spans])
    return jnp.maximum(each, least * jnp.mean(each))
