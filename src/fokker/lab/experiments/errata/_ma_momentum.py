r"""Ma, Chen, Fox (2015): HMC, SGHMC and SGRHMC.

naive SGHMC (Eq. 11), r' = r - ε∇Ũ:                 R = ε(rᵀVr - tr V)/2
naive SGRHMC (Eq. 16), no Γ, one dimension, g = G⁻¹:  R = -r g'/(2√g)
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array

from fokker import fields
from fokker.dynamics import SDE, Dynamics, hamiltonian_flow, riemann
from fokker.lab.experiments.errata._entry import Entry
from fokker.lab.experiments.errata._ma_recipe import STEP
from fokker.lab.experiments.errata._problems import (
    divergence,
    energy,
    force,
    gradient_noise,
    identity,
    inverse_metric,
    metric_root,
    momentum_noise,
    potential,
)

ONE = {"theta": (1,), "r": (1,)}
TWO = {"theta": (2,), "r": (2,)}
NAIVE_SGHMC, NAIVE_SGRHMC = "ma-eq11", "ma-eq16"


def _sghmc_with_gradient_noise(friction: float) -> SDE:
    """dr = [-∇U - friction·εV r] dt + N(0, ε²V) per step, which is √(2D) dW with D = εV/2."""

    def drift(theta: Array, r: Array) -> dict[str, Array]:
        return {"theta": r, "r": force(theta) - friction * STEP * gradient_noise(theta) @ r}

    return SDE(drift, momentum_noise(lambda theta: STEP * gradient_noise(theta) / 2), energy)


def _naive_sghmc_residual(z: dict[str, Array]) -> Array:
    V, r = gradient_noise(z["theta"]), z["r"]
    return STEP * (r @ V @ r - jnp.trace(V)) / 2


def _sghmc() -> SDE:
    """Eq. 12: friction C, noise N(0, ε(2C - εB̂)) with B̂ = V, and ε²V from the gradient."""

    def C(theta: Array) -> Array:
        return 0.8 * identity(theta) + 0.3

    def drift(theta: Array, r: Array) -> dict[str, Array]:
        return {"theta": r, "r": force(theta) - C(theta) @ r}

    def noise(theta: Array) -> Array:
        V = gradient_noise(theta)
        return (2 * C(theta) - STEP * V + STEP * V) / 2

    return SDE(drift, momentum_noise(noise), energy)


def _riemann_sde(gamma_sign: float, friction_sign: float) -> SDE:
    r"""dr = [-G^{-1/2}∇U ± ∇·G^{-1/2} ∓ G⁻¹r] dt + √(2G⁻¹) dW; + and - are right."""

    def drift(theta: Array, r: Array) -> dict[str, Array]:
        root = metric_root(theta)
        gamma = divergence(metric_root)(theta)
        friction = friction_sign * inverse_metric(theta) @ r
        return {"theta": root @ r, "r": root @ force(theta) + gamma_sign * gamma - friction}

    return SDE(drift, momentum_noise(inverse_metric), energy)


def _naive_sgrhmc_residual(z: dict[str, Array]) -> Array:
    def g(theta: Array) -> Array:
        return inverse_metric(theta)[0, 0]

    theta, r = z["theta"], z["r"]
    return -r[0] * jax.grad(g)(theta)[0] / (2 * jnp.sqrt(g(theta)))


def _algorithm_1() -> Dynamics:
    return riemann(
        potential,
        # G⁻¹ = LLᵀ with L = G^{-1/2}: the noise needs no other root.
        fields.Gram(metric_root),
        fields.Dense(metric_root),
    )


ENTRIES = [
    Entry(
        "hmc-flow",
        "Ma et al. Eq. 10 and 29",
        "Hamiltonian flow with a mass: D = 0, Q = [[0, -I], [I, 0]].",
        "right",
        lambda: hamiltonian_flow(potential, mass=1.7),
        TWO,
    ),
    Entry(
        NAIVE_SGHMC,
        "Ma et al. Eq. 11, 30 and S.13",
        "Naive SGHMC: the gradient's noise N(0, ε²V) without friction.",
        "wrong",
        lambda: _sghmc_with_gradient_noise(0.0),
        ONE,
        _naive_sghmc_residual,
    ),
    Entry(
        "ma-below-eq11-printed",
        "Ma et al., below Eq. 11, 30 and S.13, as printed",
        "The noise N(0, ε²V) is called 2εD with D = εV, so the friction added is εVr: twice what it must be.",
        "wrong",
        lambda: _sghmc_with_gradient_noise(1.0),
        TWO,
    ),
    Entry(
        "ma-below-eq11-corrected",
        "Ma et al., below Eq. 11, corrected",
        "N(0, ε²V) is 2εD with D = εV/2, so the friction is εVr/2.",
        "right",
        lambda: _sghmc_with_gradient_noise(0.5),
        TWO,
    ),
    Entry(
        "sghmc",
        "Ma et al. Eq. 12, 31 and S.14",
        "SGHMC with a matrix C of friction and B̂ = V.",
        "right",
        _sghmc,
        TWO,
    ),
    Entry(
        NAIVE_SGRHMC,
        "Ma et al. Eq. 16",
        "Naive SGRHMC: preconditioned by G(θ) and without Γ.",
        "wrong",
        lambda: _riemann_sde(0.0, 1.0),
        ONE,
        _naive_sgrhmc_residual,
    ),
    Entry(
        "ma-eq17-printed",
        "Ma et al. Eq. 17, as printed",
        "r' = r - ε[G^{-1/2}∇U + ∇·G^{-1/2} - G⁻¹r] + …: two signs.",
        "wrong",
        lambda: _riemann_sde(-1.0, -1.0),
        TWO,
    ),
    Entry(
        "ma-eq17-friction-corrected",
        "Ma et al. Eq. 17, the sign of G⁻¹r alone corrected",
        "The sign of ∇·G^{-1/2} matters by itself.",
        "wrong",
        lambda: _riemann_sde(-1.0, 1.0),
        TWO,
    ),
    Entry(
        "ma-eq17-gamma-corrected",
        "Ma et al. Eq. 17, the sign of ∇·G^{-1/2} alone corrected",
        "The sign of G⁻¹r matters by itself.",
        "wrong",
        lambda: _riemann_sde(1.0, -1.0),
        TWO,
    ),
    Entry(
        "ma-eq17-corrected",
        "Ma et al. Eq. 17, both signs corrected",
        "r' = r - ε[G^{-1/2}∇U - ∇·G^{-1/2} + G⁻¹r] + N(0, ε(2G⁻¹ - εB̂)).",
        "right",
        lambda: _riemann_sde(1.0, 1.0),
        TWO,
    ),
    Entry(
        "gsgrhmc",
        "Ma et al. Algorithm 1",
        "gSGRHMC as the library builds it from H, D and Q.",
        "right",
        _algorithm_1,
        TWO,
    ),
]
