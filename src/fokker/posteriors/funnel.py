"""Neal's funnel: a normal whose width is another's exponential."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from fokker.posteriors._classic import ClassicPosterior, with_reference
from fokker.targets import Density


def funnel() -> ClassicPosterior:
    r"""Ten dimensions whose scales run over many powers of ten.

        v ~ N(0, 3²),  x_i ~ N(0, e^v),   i = 1, …, 9

    The reference is of v alone: x_i has the standard deviation e^{9/4} = 9.49, but a kurtosis of 3e⁹, so
    that no number of draws in reach shows it.

    Neal, *Slice sampling*, Annals of Statistics 31, 2003, section 8.
    """

    def log_density(z: dict[str, Array]) -> Array:
        v, x = z["v"], z["x"]
        return -((v / 3) ** 2) / 2 - x.size * v / 2 - jnp.exp(-v) * jnp.sum(x**2) / 2

    def init(key: Key[Array, ""]) -> dict[str, Array]:
        v, x = jax.random.split(key)
        return {"v": 3 * jax.random.normal(v), "x": 2 * jax.random.normal(x, (9,))}

    return with_reference("funnel", Density(log_density), init)
