"""GARCH(1, 1): a series whose variance depends on its past."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from fokker.posteriors._classic import ClassicPosterior, with_reference
from fokker.targets import Density, constrain

LENGTH = 300


def make_data() -> np.ndarray:
    """300 numbers with μ = 0.5, α_0 = 0.4, α_1 = 0.35 and β_1 = 0.45, from the stationary variance."""
    generator = np.random.default_rng(11)
    y, variance = np.zeros(LENGTH), 2.0
    for t in range(LENGTH):
        y[t] = 0.5 + np.sqrt(variance) * generator.normal()
        variance = 0.4 + 0.35 * (y[t] - 0.5) ** 2 + 0.45 * variance
    return y


def garch() -> ClassicPosterior:
    r"""The variance h_t of today from yesterday's variance and shock; 300 simulated numbers.

        y_t ~ N(μ, h_t),  h_t = α_0 + α_1 (y_{t-1} - μ)² + β_1 h_{t-1},  h_1 the variance of y
        μ ~ N(0, 1),  α_0 ~ N⁺(0, 1),  (α_1, β_1) uniform on α_1 + β_1 < 1, where y is stationary

    The last is a simplex: `weights` are (α_1, β_1, 1 - α_1 - β_1).

    Bollerslev, *Generalized autoregressive conditional heteroskedasticity*, J. Econometrics 31, 1986.
    """
    y = make_data()
    first = float(np.var(y))

    def log_density(z: dict[str, Array]) -> Array:
        mu, alpha_0, alpha_1, beta_1 = z["mu"], z["alpha_0"], z["weights"][0], z["weights"][1]
        squares = (y - mu) ** 2
        news = alpha_0 + alpha_1 * squares[:-1]
        h = jnp.concatenate([jnp.full(1, first, news.dtype), _recur(beta_1, news, first)])
        return -(mu**2 + alpha_0**2) / 2 - jnp.sum(jnp.log(h) + squares / h) / 2

    def init(key: Key[Array, ""]) -> dict[str, Array]:
        mu, alpha_0, weights = jax.random.split(key, 3)
        return {
            "mu": jax.random.normal(mu),
            "alpha_0": 0.5 * jnp.exp(jax.random.normal(alpha_0) / 2),
            "weights": jax.nn.softmax(jax.random.normal(weights, (3,))),
        }

    constraints = {"alpha_0": "positive", "weights": "simplex"}
    return with_reference("garch", constrain(Density(log_density), constraints), init)


def _recur(beta: Array, news: Array, first: float) -> Array:
    """h_t = news_t + β h_{t-1} for all t."""

    def step(h: Array, new: Array) -> tuple[Array, Array]:
        h = new + beta * h
        return h, h

    return jax.lax.scan(step, jnp.asarray(first, news.dtype), news, unroll=4)[1]
