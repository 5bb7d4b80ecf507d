"""Lotka and Volterra's hares and lynxes: a differential equation with unknown rates."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from fokker.posteriors._classic import ClassicPosterior, with_reference
from fokker.targets import Density, constrain

# Thousands of pelts of the Hudson's Bay Company, 1900 to 1920 (Elton and Nicholson 1942; Howard 2009).
# fmt: off
HARES = (30.0, 47.2, 70.2, 77.4, 36.3, 20.6, 18.1, 21.4, 22.0, 25.4, 27.1,
         40.3, 57.0, 76.6, 52.3, 19.5, 11.2, 7.6, 14.6, 16.2, 24.7)
LYNXES = (4.0, 6.1, 9.8, 35.2, 59.4, 41.7, 19.0, 13.0, 8.3, 9.1, 7.4,
          8.0, 12.3, 19.5, 45.7, 51.1, 29.7, 15.8, 9.7, 10.1, 8.6)
# fmt: on

STEPS_PER_YEAR = 10


def lotka_volterra() -> ClassicPosterior:
    r"""Hares u and lynxes v of 21 years, observed with lognormal errors.

        u̇ = (α - β v) u,  v̇ = (-γ + δ u) v,  u and v at first are `initial`
        log y_t ~ N(log (u, v)(t), σ²),  t = 0, …, 20
        α, γ ~ N⁺(1, 0.5²),  β, δ ~ N⁺(0.05, 0.05²),  σ ~ LogNormal(-1, 1),  initial ~ LogNormal(log 10, 1)

    The equation is solved for log u and log v by Runge and Kutta's fourth-order steps of a tenth of a year.

    Carpenter, *Predator-prey population dynamics: the Lotka-Volterra model in Stan*, 2018; posteriordb's
    `lotka_volterra`.
    """
    log_counts = np.log(np.array([HARES, LYNXES]).T)

    def log_density(z: dict[str, Array]) -> Array:
        alpha, beta, gamma, delta = z["alpha"], z["beta"], z["gamma"], z["delta"]
        sigma, initial = z["sigma"], z["initial"]
        rates = jnp.stack([alpha, -gamma]), jnp.stack([-beta, delta])
        log_initial, log_sigma = jnp.log(initial), jnp.log(sigma)
        # LogNormal's density has 1/x: it is normal for log x.
        log_prior = (
            -((alpha - 1) ** 2 + (gamma - 1) ** 2) / (2 * 0.5**2)
            - ((beta - 0.05) ** 2 + (delta - 0.05) ** 2) / (2 * 0.05**2)
            - jnp.sum((log_sigma + 1) ** 2 / 2 + log_sigma)
            - jnp.sum((log_initial - np.log(10.0)) ** 2 / 2 + log_initial)
        )
        deviations = (log_counts - _solve(log_initial, rates)) / sigma[None, :]
        return log_prior - log_counts.shape[0] * jnp.sum(log_sigma) - jnp.sum(deviations**2) / 2

    def init(key: Key[Array, ""]) -> dict[str, Array]:
        typical = {"alpha": 0.6, "beta": 0.03, "gamma": 0.8, "delta": 0.025}
        factors = jnp.exp(0.15 * jax.random.normal(key, (8,)))
        return {
            **{name: value * factors[i] for i, (name, value) in enumerate(typical.items())},
            "sigma": 0.4 * factors[4:6],
            "initial": jnp.array([30.0, 6.0]) * factors[6:],
        }

    names = ("alpha", "beta", "gamma", "delta", "sigma", "initial")
    return with_reference(
        "lotka_volterra", constrain(Density(log_density), dict.fromkeys(names, "positive")), init
    )


def _solve(log_initial: Array, rates: tuple[Array, Array]) -> Array:
    """(log u, log v) at every year."""
    own, others = rates
    h = 1 / STEPS_PER_YEAR

    def slope(x: Array) -> Array:
        return own + others * jnp.exp(x[::-1])

    def step(x: Array, _: None) -> tuple[Array, None]:
        k_1 = slope(x)
        k_2 = slope(x + h / 2 * k_1)
        k_3 = slope(x + h / 2 * k_2)
        k_4 = slope(x + h * k_3)
        return x + h / 6 * (k_1 + 2 * k_2 + 2 * k_3 + k_4), None

    def year(x: Array, _: None) -> tuple[Array, Array]:
        after, _ = jax.lax.scan(step, x, length=STEPS_PER_YEAR)
        return after, x

    return jax.lax.scan(year, log_initial, length=len(HARES))[1]
