"""Speeding up MCMC with Langevin and Hamiltonian dynamics and stochastic gradient estimates (2026).

An article on the web: its Langevin dynamics, HMC, NUTS, and its account of the recipe.
"""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array

from fokker.dynamics import SDE, Dynamics
from fokker.fields import Dense
from fokker.lab.experiments.errata._entry import Entry
from fokker.lab.experiments.errata._ma_momentum import TWO
from fokker.lab.experiments.errata._problems import (
    curl,
    divergence,
    energy,
    force,
    identity,
    inverse_metric,
    momentum_noise,
    potential,
    recipe_drift,
)

ARTICLE = "The 2026 article"
FRICTION = 0.6


def _theorem_1(sign: float) -> SDE:
    """Theorem 1 with exp(sign·H) said to be stationary, tried with the H for which that is exp(-U)."""
    drift = recipe_drift(inverse_metric, curl, lambda theta: -sign * potential(theta))
    return SDE(lambda theta: {"theta": drift(theta)}, inverse_metric, potential)


def second_order(force_sign: float, friction: float, noise: float) -> SDE:
    """dθ = r dt, dr = [∓∇U - friction·r] dt + √(2·noise) dW."""

    def drift(theta: Array, r: Array) -> dict[str, Array]:
        return {"theta": r, "r": force_sign * force(theta) - friction * r}

    return SDE(drift, momentum_noise(lambda theta: noise * identity(theta)), energy)


def _flux(D: Callable[[Array], Array], gamma: float = 0.0) -> SDE:
    r"""dx = b dx + √D dW with the b for which the flux vanishes at exp(-U).

    Printed is J = bp - (D/2)∇p, which vanishes for b = -(D/2)∇U (gamma = 0); the equation that follows from
    the noise has J = bp - ½∇·(Dp), which vanishes for b = -(D/2)∇U + ½∇·D (gamma = 1).
    """

    def drift(theta: Array) -> dict[str, Array]:
        return {"theta": D(theta) @ force(theta) / 2 + gamma / 2 * divergence(D)(theta)}

    return SDE(drift, lambda theta: D(theta) / 2, potential)


def _friction_in_Q() -> Dynamics:
    """D = diag(0, D), Q = [[0, -I], [I, I]]: the library refuses a Q that is not skew."""
    identity_2 = jnp.eye(2)
    Q = jnp.block([[jnp.zeros((2, 2)), -identity_2], [identity_2, identity_2]])
    return Dynamics(energy, D={("r", "r"): FRICTION}, Q=Dense(Q))


def _wrong_update() -> SDE:
    """The generalised update rule on SGRLD, Γ inside the bracket."""
    drift = recipe_drift(inverse_metric, lambda theta: 0 * inverse_metric(theta), potential, gamma_sign=-1.0)
    return SDE(lambda theta: {"theta": drift(theta)}, inverse_metric, potential)


def _constant(theta: Array) -> Array:
    return identity(theta) + 0.3


ENTRIES = [
    Entry(
        "article-theorem1-printed",
        f"{ARTICLE}, Theorem 1, as printed",
        "exp(+H) is said to be stationary; with H = -U that would be exp(-U).",
        "wrong",
        lambda: _theorem_1(1.0),
        {"theta": (2,)},
    ),
    Entry(
        "article-theorem1-corrected",
        f"{ARTICLE}: Theorem 1, corrected",
        "exp(-H) is stationary.",
        "right",
        lambda: _theorem_1(-1.0),
        {"theta": (2,)},
    ),
    Entry(
        "article-update-printed",
        f"{ARTICLE}: the generalised update rule, as printed",
        "SGRLD by z' = z - ε[(D+Q)∇H + Γ] + N(0, 2εD): the sign of Γ, from Ma et al. Eq. 6.",
        "wrong",
        _wrong_update,
        {"theta": (2,)},
    ),
    Entry(
        "article-hmc-printed",
        f'{ARTICLE}: "HMC Update Rule", as printed',
        "dr = -∇U dt - r dt: friction without noise.",
        "wrong",
        lambda: second_order(1.0, 1.0, 0.0),
        TWO,
    ),
    Entry(
        "article-hmc-corrected",
        f'{ARTICLE}: "HMC Update Rule", corrected',
        "dr = -∇U dt.",
        "right",
        lambda: second_order(1.0, 0.0, 0.0),
        TWO,
    ),
    Entry(
        "article-flux-printed",
        f"{ARTICLE}: the flux -(D/2)∇p, as printed, D = D(x)",
        "It is not the flux of ½∇²[Dp] where D depends on x.",
        "wrong",
        lambda: _flux(inverse_metric),
        {"theta": (2,)},
    ),
    Entry(
        "article-flux-constant",
        f"{ARTICLE}: the flux -(D/2)∇p, D constant",
        "There the two agree.",
        "right",
        lambda: _flux(_constant),
        {"theta": (2,)},
    ),
    Entry(
        "article-flux-corrected",
        f"{ARTICLE}: the flux -½∇·(Dp), D = D(x)",
        "The flux of ½∇²[Dp].",
        "right",
        lambda: _flux(inverse_metric, 1.0),
        {"theta": (2,)},
    ),
    Entry(
        "article-underdamped-Q",
        f"{ARTICLE}: underdamped Langevin, matrices as printed",
        "Q = [[0, -I], [I, I]] is not skew.",
        "wrong",
        _friction_in_Q,
        TWO,
    ),
    Entry(
        "article-underdamped-recipe",
        f"{ARTICLE}: underdamped Langevin, matrices as printed, put into the recipe",
        "-(D+Q)∇H has friction I + D with the noise of D.",
        "wrong",
        lambda: second_order(1.0, 1 + FRICTION, FRICTION),
        TWO,
    ),
    Entry(
        "article-underdamped-update",
        f"{ARTICLE}: underdamped Langevin, update rule as printed, D = 0.6",
        "r' = r - ε(∇U + r) + N(0, 2εD): friction 1 with noise D, right for D = I alone.",
        "wrong",
        lambda: second_order(1.0, 1.0, FRICTION),
        TWO,
    ),
    Entry(
        "article-underdamped-corrected",
        f"{ARTICLE}: underdamped Langevin, corrected",
        "Friction and noise by the same D; Q = [[0, -I], [I, 0]].",
        "right",
        lambda: second_order(1.0, FRICTION, FRICTION),
        TWO,
    ),
    Entry(
        "article-solution-printed",
        f"{ARTICLE}: the solution r_t, as printed",
        "r_t = r_0 e^{-γt} - ∫e^{-γ(t-s)}∇log f ds + … solves dr = +∇U dt - γr dt + √(2γ) dW.",
        "wrong",
        lambda: second_order(-1.0, FRICTION, FRICTION),
        TWO,
    ),
    Entry(
        "article-solution-corrected",
        f"{ARTICLE}: the solution r_t, corrected",
        "+∫e^{-γ(t-s)}∇log f ds solves dr = -∇U dt - γr dt + √(2γ) dW.",
        "right",
        lambda: second_order(1.0, FRICTION, FRICTION),
        TWO,
    ),
    Entry(
        "article-nuts-printed",
        f"{ARTICLE}: NUTS, U = log p as printed",
        "With that U the leapfrog r' = r - (ε/2)∇U goes uphill in energy.",
        "wrong",
        lambda: second_order(-1.0, 0.0, 0.0),
        TWO,
    ),
    Entry(
        "article-nuts-corrected",
        f"{ARTICLE}: NUTS, U = -log p",
        "As in the article's own HMC; log p is then L throughout.",
        "right",
        lambda: second_order(1.0, 0.0, 0.0),
        TWO,
    ),
]
