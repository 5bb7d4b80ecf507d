r"""The targets and matrices on which the formulas are tried: smooth, and without a symmetry to hide an error.

With z = (θ, r) or z = θ, the recipe of Ma, Chen and Fox (2015) is

    dz = f dt + √(2D) dW,   f = -[D + Q]∇H + Γ,   Γ_i = Σ_j ∂_j(D_ij + Q_ij)

written out here from whole matrices and their Jacobians, independently of the library's fields.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

VectorFunction = Callable[[Array], Array]


def _weights(x: Array) -> np.ndarray:
    """1, 1.4, 1.8, …: no two coordinates alike."""
    return 1 + 0.4 * np.arange(x.size)


def potential(theta: Array) -> Array:
    """A U(θ) in any dimension: skewed, coupled, and growing fast enough for exp(-U) to be normalised."""
    return jnp.sum(0.1 * theta**4 + 0.4 * jnp.sin(theta + 0.3)) + 0.3 * jnp.sum(_weights(theta) * theta) ** 2


def force(theta: Array) -> Array:
    """-∇U."""
    return -jax.grad(potential)(theta)


def metric_root(theta: Array) -> Array:
    """G(θ)^{-1/2}: symmetric, positive definite, every entry depending on every coordinate."""
    wave = jnp.sin(jnp.sum(theta) + _weights(theta))
    return jnp.eye(theta.size) + 0.3 * jnp.outer(wave, wave)


def inverse_metric(theta: Array) -> Array:
    """G(θ)⁻¹."""
    root = metric_root(theta)
    return root @ root


def scalar_metric(theta: Array) -> Array:
    """A positive function g(θ), for G⁻¹ = g·I."""
    return 1.2 + 0.5 * jnp.sin(jnp.sum(_weights(theta) * theta))


def gradient_noise(theta: Array) -> Array:
    """V(θ), the covariance of the minibatch gradient: positive definite."""
    slope = jnp.sin(theta + 0.2)
    return 0.5 * jnp.eye(theta.size) + 0.3 * jnp.outer(slope, slope)


def curl(x: Array) -> Array:
    """A skew Q(x) that depends on x."""
    lower = jnp.tril(0.7 + jnp.outer(jnp.sin(x), jnp.cos(x)), -1)
    return lower - lower.T


def divergence(matrix: VectorFunction) -> VectorFunction:
    """Σ_j ∂_j A_ij, from the whole Jacobian."""
    return lambda x: jnp.trace(jax.jacfwd(matrix)(x), axis1=1, axis2=2)


def recipe_drift(
    D: VectorFunction, Q: VectorFunction, energy: VectorFunction, gamma_sign: float = 1.0
) -> VectorFunction:
    """-[D + Q]∇H ± Γ as a function of the whole vector."""

    def both(x: Array) -> Array:
        return D(x) + Q(x)

    gamma = divergence(both)
    return lambda x: -both(x) @ jax.grad(energy)(x) + gamma_sign * gamma(x)


def energy(theta: Array, r: Array) -> Array:
    """H = U + rᵀr/2."""
    return potential(theta) + jnp.sum(r**2) / 2


def momentum_noise(block: Callable[..., Array]) -> Callable[..., Array]:
    """D = diag(0, block(θ)) over z = (θ, r), written out."""

    def matrix(theta: Array, r: Array) -> Array:
        return jnp.pad(block(theta), (theta.size, 0))

    return matrix


def identity(theta: Array) -> Array:
    """I, of the size of θ."""
    return jnp.eye(theta.size)
