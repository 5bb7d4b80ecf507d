"""SGHMC and SGNHT in Speeding up MCMC with Langevin and Hamiltonian dynamics … (2026)."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fokker.dynamics import SDE
from fokker.lab.experiments.errata._article import ARTICLE, FRICTION, second_order
from fokker.lab.experiments.errata._entry import Entry, Measurement
from fokker.lab.experiments.errata._ergodic import VectorField, directions_missed
from fokker.lab.experiments.errata._problems import force
from fokker.lab.experiments.errata._thermostat import sgnht, shapes


def _ergodic(drift: Callable[..., dict[str, Array]], noise_at: int, sizes: tuple[int, ...]) -> Measurement:
    """One noise, on the coordinate `noise_at`, of a state of scalars."""

    def field(x: Array) -> Array:
        f = drift(x[:1], x[1:2], *([x[2]] if len(sizes) > 2 else []))
        return jnp.concatenate([jnp.ravel(part) for part in f.values()])

    def noise(x: Array) -> Array:
        return jnp.zeros_like(x).at[noise_at].set(1.0)

    noises: list[VectorField] = [noise]
    points = jnp.asarray(np.random.default_rng(0).normal(size=(32, len(sizes))))
    missed = directions_missed(field, noises, points, depth=len(sizes) - 1)
    return Measurement(missed / len(sizes), f"Lie brackets miss {missed} of {len(sizes)} directions")


def _sghmc_ergodic() -> Measurement:
    return _ergodic(second_order(1.0, FRICTION, FRICTION).drift_function, 1, (1, 1))


def _sgnht_ergodic() -> Measurement:
    return _ergodic(sgnht(lambda d: d / 2).drift_function, 1, (1, 1, 1))


def _sgnht_force() -> SDE:
    """dr = -f̃ dt - ξr dt + … with f̃ Ding et al.'s force, -∇Ũ."""
    right = sgnht(lambda d: d / 2)

    def drift(theta: Array, r: Array, xi: Array) -> dict[str, Array]:
        return {"theta": r, "r": -force(theta) - xi * r, "xi": jnp.sum(r**2) / r.size - 1}

    return SDE(drift, right.diffusion_argument, right.hamiltonian)


ENTRIES = [
    Entry(
        "article-sghmc-ergodic",
        f"{ARTICLE}: SGHMC is said not to converge",
        "With C > 0 the noise reaches every direction: exp(-H) is the only stationary density.",
        "right",
        _sghmc_ergodic,
    ),
    Entry(
        "article-sgnht-ergodic",
        f"{ARTICLE}: SGNHT is said to be deterministic up to the noise of the gradient",
        "With A > 0 the noise reaches every direction of (θ, r, ξ).",
        "right",
        _sgnht_ergodic,
    ),
    Entry(
        "article-sgnht-weight",
        f"{ARTICLE}: SGNHT, H as printed",
        "(1/2d)(ξ - D)², read with A for D, at d = 2.",
        "wrong",
        lambda: sgnht(lambda d: 1 / (2 * d)),
        shapes(2),
    ),
    Entry(
        "article-sgnht-force",
        f"{ARTICLE}: SGNHT, dr as printed",
        "dr = -f̃ dt - ξr dt + …, where f̃ is Ding et al.'s force -∇Ũ.",
        "wrong",
        _sgnht_force,
        shapes(2),
    ),
]
