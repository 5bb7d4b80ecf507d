r"""Ma, Chen, Fox (2015), A Complete Recipe for Stochastic Gradient MCMC: the recipe itself and SGRLD.

f = -[D + Q]∇H + Γ    (Eq. 3, right)
z' = z - ε[(D + Q)∇H + Γ] + N(0, 2εD)    (Eq. 6, and with ∇H̃ and 2D - εB̂ Eq. 9: Γ has the wrong sign)
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array

from fokker import fields
from fokker.dynamics import SDE, Dynamics, langevin
from fokker.lab.experiments.errata._entry import Entry
from fokker.lab.experiments.errata._problems import (
    curl,
    divergence,
    force,
    gradient_noise,
    identity,
    inverse_metric,
    metric_root,
    potential,
    recipe_drift,
    scalar_metric,
)

# Step size of the updates whose noise depends on it.
STEP = 0.1
PAIR = {"theta": (2,), "r": (1,)}


def _joined(theta: Array, r: Array) -> Array:
    return jnp.concatenate([theta, r])


def _energy(x: Array) -> Array:
    """H = U(θ) + g(θ, r) with a g that depends on θ and yet integrates to a constant over r."""
    theta, r = x[:2], x[2:]
    return potential(theta) + jnp.sum((r - 0.5 * jnp.sin(theta[:1])) ** 2) / 2


def _hamiltonian(theta: Array, r: Array) -> Array:
    return _energy(_joined(theta, r))


def _recipe(gamma_sign: float, diffusion: Callable[[Array], Array]) -> SDE:
    drift = recipe_drift(inverse_metric, curl, _energy, gamma_sign)

    def parts(theta: Array, r: Array) -> dict[str, Array]:
        f = drift(_joined(theta, r))
        return {"theta": f[:2], "r": f[2:]}

    return SDE(parts, lambda theta, r: diffusion(_joined(theta, r)), _hamiltonian)


def _minibatch_noise(x: Array) -> Array:
    """B = (D + Q) diag(V, 0) (D + Q)ᵀ: the covariance that the noise of ∇Ũ has in the drift."""
    both = inverse_metric(x) + curl(x)
    V = jax.scipy.linalg.block_diag(gradient_noise(x[:2]), jnp.zeros((1, 1), x.dtype))
    return both @ V @ both.T


def _minibatch_diffusion(estimate: float) -> Callable[[Array], Array]:
    """Half the noise of Eq. 9 over ε: N(0, ε(2D - εB̂)), and ε²B from the gradient; B̂ = estimate·B."""

    def diffusion(x: Array) -> Array:
        B = _minibatch_noise(x)
        return (2 * inverse_metric(x) - STEP * estimate * B + STEP * B) / 2

    return diffusion


def _theorem_1() -> Dynamics:
    def whole(matrix: Callable[[Array], Array]) -> Callable[[dict[str, Array]], Array]:
        return lambda z: matrix(_joined(z["theta"], z["r"]))

    return Dynamics(_hamiltonian, D=fields.Gram(whole(metric_root)), Q=fields.Skew(whole(curl)))


def _sgrld(gamma: Callable[[Array], Array], metric: Callable[[Array], Array] = inverse_metric) -> SDE:
    """dθ = [G⁻¹(-∇U) + γ(θ)] dt + √(2G⁻¹) dW."""
    return SDE(lambda theta: {"theta": metric(theta) @ force(theta) + gamma(theta)}, metric, potential)


def _scalar_sgrld() -> SDE:
    def metric(theta: Array) -> Array:
        return scalar_metric(theta) * identity(theta)

    return _sgrld(jax.grad(scalar_metric), metric)


ENTRIES = [
    Entry(
        "recipe",
        "Ma et al. Eq. 3, Theorem 1",
        "f = -(D+Q)∇H + Γ with D and Q that depend on the whole state.",
        "right",
        _theorem_1,
        PAIR,
    ),
    Entry(
        "ma-eq6-printed",
        "Ma et al. Eq. 6, as printed",
        "z' = z - ε[(D+Q)∇H + Γ] + N(0, 2εD): Γ is subtracted.",
        "wrong",
        lambda: _recipe(-1.0, inverse_metric),
        PAIR,
    ),
    Entry(
        "ma-eq6-corrected",
        "Ma et al. Eq. 6, corrected",
        "z' = z - ε[(D+Q)∇H - Γ] + N(0, 2εD).",
        "right",
        lambda: _recipe(1.0, inverse_metric),
        PAIR,
    ),
    Entry(
        "ma-eq9-printed",
        "Ma et al. Eq. 9, as printed",
        "The minibatch update with an exact B̂: the noise is right, Γ is subtracted.",
        "wrong",
        lambda: _recipe(-1.0, _minibatch_diffusion(1.0)),
        PAIR,
    ),
    Entry(
        "ma-eq9-corrected",
        "Ma et al. Eq. 9, corrected",
        "With B̂ the covariance of (D+Q)[N(0,V), 0] the noise of gradient and sampler together is 2εD.",
        "right",
        lambda: _recipe(1.0, _minibatch_diffusion(1.0)),
        PAIR,
    ),
    Entry(
        "ma-eq9-without-B",
        "Ma et al. Eq. 9, corrected, with B̂ = 0",
        "At a finite step the gradient's noise stays in and nothing balances it.",
        "wrong",
        lambda: _recipe(1.0, _minibatch_diffusion(0.0)),
        PAIR,
    ),
    Entry(
        "sgld",
        "Ma et al. Eq. 13",
        "SGLD with a constant matrix D.",
        "right",
        lambda: langevin(potential, jnp.asarray([[1.2, 0.4], [0.4, 0.7]])),
        {"theta": (2,)},
    ),
    Entry(
        "ma-eq14-printed",
        "Ma et al. Eq. 14, as printed",
        "SGRLD: θ' = θ - ε[G⁻¹∇U + Γ] + N(0, 2εG⁻¹).",
        "wrong",
        lambda: _sgrld(lambda theta: -divergence(inverse_metric)(theta)),
        {"theta": (2,)},
    ),
    Entry(
        "ma-eq14-corrected",
        "Ma et al. Eq. 14, corrected; their Eq. 33 and S.16",
        "SGRLD: dθ = [-G⁻¹∇U + Γ] dt + √(2G⁻¹) dW with Γ = ∇·G⁻¹.",
        "right",
        lambda: _sgrld(divergence(inverse_metric)),
        {"theta": (2,)},
    ),
    Entry(
        "sgrld-scalar-metric",
        "Xifara et al. (2014), as quoted by Ma et al.",
        "Γ = ∇·G⁻¹ for G⁻¹ = g(θ)I in two dimensions, where it is ∇g.",
        "right",
        _scalar_sgrld,
        {"theta": (2,)},
    ),
]
