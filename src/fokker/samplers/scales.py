r"""Linear changes of coordinates θ = θ₀ + S q: what a mass matrix is.

Moving q with unit masses is moving θ with the mass matrix M = (SSᵀ)⁻¹; the best S has SSᵀ = Cov θ, which
warm-up estimates from draws.
"""

from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fokker._core.module import Module

KINDS = ("identity", "diagonal", "dense", "low-rank")

# Stan's shrinkage: an estimate by n draws counts n, the unit-scale one below counts five.
_PRIOR_DRAWS, _PRIOR_VARIANCE = 5, 1e-3
# Directions of a low-rank scale: those whose variance, once the coordinates are scaled, is off by more.
_RANK, _CUTOFF = 20, 2.0


class Scale(Protocol):
    """S of θ = θ₀ + S q."""

    def __call__(self, q: Float[Array, " d"]) -> Float[Array, " d"]:
        """S q."""


class Diagonal(Module):
    """S = diag(σ)."""

    deviations: Float[Array, " d"]

    def __call__(self, q: Float[Array, " d"]) -> Float[Array, " d"]:
        """σ ⊙ q."""
        return self.deviations * q


class Dense(Module):
    """S = L, the lower Cholesky factor of a covariance."""

    factor: Float[Array, "d d"]

    def __call__(self, q: Float[Array, " d"]) -> Float[Array, " d"]:
        """L q."""
        return self.factor @ q


class LowRank(Module):
    """S = diag(σ)(I + V diag(√λ - 1) Vᵀ) with k orthonormal columns V: 2dk work in place of d²."""

    deviations: Float[Array, " d"]
    directions: Float[Array, "d k"]
    stretches: Float[Array, " k"]

    def __call__(self, q: Float[Array, " d"]) -> Float[Array, " d"]:
        """S q."""
        along = self.directions.T @ q
        return self.deviations * (q + self.directions @ ((self.stretches - 1) * along))


def identity(kind: str, dimension: int, dtype: Any) -> Scale:
    """S = I, as the kind writes it."""
    check_kind(kind)
    if kind == "dense":
        return Dense(jnp.eye(dimension, dtype=dtype))
    ones = jnp.ones(dimension, dtype)
    if kind == "low-rank":
        rank = min(_RANK, dimension)
        return LowRank(ones, jnp.eye(dimension, rank, dtype=dtype), jnp.ones(rank, dtype))
    return Diagonal(ones)


def check_kind(kind: Any) -> None:
    """Raise unless `kind` is one of `KINDS`."""
    if kind not in KINDS:
        raise ValueError(f"the scale is one of {', '.join(KINDS)}, or standard deviations; not {kind!r}.")


def estimate(kind: str, draws: np.ndarray, dtype: Any) -> Scale:
    """S by draws (chain × draw × d), pooled over chains, shrunk towards a small multiple of I."""
    d = draws.shape[2]
    x = np.asarray(draws, float).reshape(-1, d)
    n = len(x)
    x = x - x.mean(axis=0)
    weight, floor = n / (n + _PRIOR_DRAWS), _PRIOR_VARIANCE * _PRIOR_DRAWS / (n + _PRIOR_DRAWS)
    if kind == "identity":
        return identity(kind, d, dtype)
    if kind == "dense":
        covariance = weight * (x.T @ x) / (n - 1) + floor * np.eye(d)
        return Dense(jnp.asarray(np.linalg.cholesky(covariance), dtype))
    deviations = np.sqrt(weight * (x**2).sum(axis=0) / (n - 1) + floor)
    if kind == "diagonal":
        return Diagonal(jnp.asarray(deviations, dtype))
    return _low_rank(x, deviations, dtype)


def _low_rank(x: np.ndarray, deviations: np.ndarray, dtype: Any) -> LowRank:
    """The directions in which draws scaled to unit variances are most correlated, by far or hardly at all."""
    n, d = x.shape
    rank = min(_RANK, d)
    _, s, Vt = np.linalg.svd(x / deviations / np.sqrt(n - 1), full_matrices=False)
    variances = s**2
    # A few strong directions raise every coordinate's deviation, and leave the many others with variances far
    # below 1, all alike: those are the step size's affair, and must not crowd out the few.
    middle = float(np.clip(np.median(variances), 1e-3, 1.0)) if n > 2 * d else 1.0
    variances = variances / middle
    # With few draws the small ones are noise: of n draws in d dimensions they reach down to (1 - √(d/n))².
    lowest, highest = max(0.0, 1 - np.sqrt(d / n)) ** 2, (1 + np.sqrt(d / n)) ** 2
    certain = (variances > _CUTOFF * highest) | (variances < lowest / _CUTOFF)
    far = np.where(certain, np.abs(np.log(np.maximum(variances, 1e-12))), -1.0)
    chosen = np.argsort(-far)[:rank]
    stretches = np.where(far[chosen] > 0, np.sqrt(np.maximum(variances[chosen], 1e-6)), 1.0)
    directions = np.zeros((d, rank))
    directions[:, : len(chosen)] = Vt[chosen].T
    padded = np.ones(rank)
    padded[: len(chosen)] = stretches
    return LowRank(*(jnp.asarray(a, dtype) for a in (deviations * np.sqrt(middle), directions, padded)))


def check_size(scale: Any, dimension: int) -> None:
    """Raise unless a scale that was given fits a theta of so many numbers."""
    if isinstance(scale, str):
        return
    size = (scale.factor if isinstance(scale, Dense) else scale.deviations).shape[0]
    if size != dimension:
        what = f"a {size} × {size} covariance" if isinstance(scale, Dense) else f"{size} standard deviations"
        raise ValueError(
            f"{what} given as the scale for a theta of {dimension} numbers: there must be one a number of "
            "theta, in the order of its leaves."
        )


def as_scale(given: Any) -> Any:
    """A kind's name, a scale, or one made of standard deviations or of a covariance matrix."""
    if isinstance(given, str):
        check_kind(given)
        return given
    if isinstance(given, Diagonal | Dense | LowRank):
        return given
    values = jnp.asarray(given, jnp.result_type(float))
    if values.ndim == 2 and values.shape[0] == values.shape[1]:
        factor = jnp.linalg.cholesky(values)
        if not isinstance(factor, jax.core.Tracer) and not bool(jnp.all(jnp.isfinite(factor))):
            raise ValueError(
                "a square scale is taken for a covariance matrix; this is not positive definite."
            )
        return Dense(factor)
    if values.ndim == 1:
        if not isinstance(values, jax.core.Tracer) and not bool(jnp.all(values > 0)):
            raise ValueError("standard deviations given as the scale must be positive.")
        return Diagonal(values)
    raise ValueError(
        f"the scale is one of {', '.join(KINDS)}, standard deviations or a covariance matrix; not "
        f"an array of shape {values.shape}."
    )
