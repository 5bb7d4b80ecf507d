r"""Mass matrices, as linear changes of coordinates θ = θ₀ + S q.

Moving q with unit masses is moving θ with the mass matrix M = (SSᵀ)⁻¹; the best S has SSᵀ = Cov θ, which
warm-up estimates from draws. θ₀ is where the chain is: a step starts at q = 0.
"""

import dataclasses
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from fokker._core.module import Module

KINDS = ("identity", "diagonal", "dense", "low-rank")

# Stan's shrinkage: an estimate from n draws has weight n, the prior variance below weight five.
_PRIOR_DRAWS, _PRIOR_VARIANCE = 5, 1e-3
# Directions of a low-rank scale: those whose variance, once the coordinates are scaled, is off by more.
_RANK, _CUTOFF = 20, 2.0
# A deviation that is a smaller share of the numbers themselves is their rounding, as of a constant gradient.
_ROUNDING = 1e-6


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


# M = (SSᵀ)⁻¹ by its S; called with q it is S q.
MassMatrix: TypeAlias = Diagonal | Dense | LowRank
# What a user gives: a kind's name, a vector of masses, a matrix, one that was learned, or None for none.
MassMatrixLike: TypeAlias = MassMatrix | np.ndarray | Array | str | None


def identity(kind: str, dimension: int, dtype: DTypeLike) -> MassMatrix:
    """S = I, as the kind writes it."""
    check_kind(kind)
    if kind == "dense":
        return Dense(jnp.eye(dimension, dtype=dtype))
    ones = jnp.asarray(np.ones(dimension, dtype))
    if kind == "low-rank":
        rank = min(_RANK, dimension)
        return LowRank(ones, jnp.eye(dimension, rank, dtype=dtype), jnp.ones(rank, dtype))
    return Diagonal(ones)


def check_kind(kind: object) -> None:
    """Raise unless `kind` is one of `KINDS`."""
    if kind not in KINDS:
        raise ValueError(f"the mass matrix is one of {', '.join(KINDS)}, or an array; not {kind!r}.")


def diagonal(kind: str, deviations: np.ndarray, dtype: DTypeLike) -> MassMatrix:
    """S = diag(σ), as the kind writes it."""
    one, sigma = identity(kind, len(deviations), dtype), jnp.asarray(np.asarray(deviations, dtype))
    return Dense(jnp.diag(sigma)) if isinstance(one, Dense) else dataclasses.replace(one, deviations=sigma)


def by_gradients(draws: np.ndarray, gradients: np.ndarray, before: np.ndarray) -> np.ndarray:
    """σ = (Var θ / Var ∇U)^¼ of draws (chain × draw × d) and ∇U at them; `before` where one does not vary.

    Of a normal with independent coordinates it is exact from any draws, those on the way to its mass too.
    """
    of_draws, of_gradients = spread(draws, np.zeros_like(before)), spread(gradients, np.zeros_like(before))
    varies = (of_draws > 0) & (of_gradients > 0)
    return np.where(varies, of_draws / np.where(varies, of_gradients, 1), before**2) ** 0.5


def spread(draws: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    """The standard deviation of each coordinate of draws, chain × draw × d; `otherwise` if it rounds to 0."""
    x = np.asarray(draws, float).reshape(-1, draws.shape[2])
    deviations = np.std(x, axis=0)
    return np.where(deviations > _ROUNDING * np.max(np.abs(x), axis=0), deviations, otherwise)


def estimate(kind: str, draws: np.ndarray, dtype: DTypeLike) -> MassMatrix:
    """S from draws (chain × draw × d), pooled over chains, shrunk towards a small multiple of I."""
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


def _low_rank(x: np.ndarray, deviations: np.ndarray, dtype: DTypeLike) -> LowRank:
    """The directions in which draws scaled to unit variances have the largest or smallest variances."""
    n, d = x.shape
    rank = min(_RANK, d)
    _, s, Vt = np.linalg.svd(x / deviations / np.sqrt(n - 1), full_matrices=False)
    variances = s**2
    # A few strong directions raise every coordinate's deviation, and leave the many others with variances far
    # below 1, all alike: the step size takes care of those, and they must not displace the few.
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


def check_size(mass_matrix: MassMatrix | str | None, dimension: int) -> None:
    """Raise unless a mass matrix fits a theta of `dimension` numbers."""
    if mass_matrix is None or isinstance(mass_matrix, str):
        return
    is_dense = isinstance(mass_matrix, Dense)
    size = (mass_matrix.factor if isinstance(mass_matrix, Dense) else mass_matrix.deviations).shape[0]
    if size != dimension:
        what = f"a {size} × {size} matrix" if is_dense else f"{size} masses"
        raise ValueError(
            f"{what} given as the mass matrix for a theta of {dimension} numbers: there must be one per "
            "number of theta, in the order of its leaves."
        )


def check_shapes(mass_matrix: Diagonal | Dense | LowRank, dimension: int) -> None:
    """Raise unless all arrays of a mass matrix, as of a file, are those for `dimension` numbers."""
    shapes = [jnp.shape(x) for x in jax.tree.leaves(mass_matrix)]
    wanted: list[tuple[int, ...]] = [(dimension,)]
    if isinstance(mass_matrix, Dense):
        wanted = [(dimension, dimension)]
    elif isinstance(mass_matrix, LowRank):
        rank = jnp.size(mass_matrix.stretches)
        wanted = [(dimension,), (dimension, rank), (rank,)]
    if shapes != wanted:
        raise ValueError(
            f"a mass matrix ({type(mass_matrix).__name__}) has the shapes {shapes}, and {wanted} are needed "
            f"for the {dimension} numbers of theta"
        )


def as_mass_matrix(value: MassMatrixLike) -> MassMatrix | str | None:
    """None, a kind's name, a mass matrix, or one made of a vector of masses or of a matrix."""
    if isinstance(value, str):
        check_kind(value)
        return value
    if value is None or isinstance(value, Diagonal | Dense | LowRank):
        return value
    M = jnp.asarray(value, jnp.result_type(float))
    traced = isinstance(M, jax.core.Tracer)
    if M.ndim == 2 and M.shape[0] == M.shape[1]:
        root = jnp.linalg.cholesky(M)
        if not traced and not bool(jnp.all(jnp.isfinite(root))):
            raise ValueError("a mass matrix must be symmetric and positive definite; this one is not.")
        # SSᵀ = M⁻¹ with M = LLᵀ: S = L⁻ᵀ.
        return Dense(jax.scipy.linalg.solve_triangular(root, jnp.eye(len(M), dtype=M.dtype), lower=True).T)
    if M.ndim == 1:
        if not traced and not bool(jnp.all(M > 0)):
            raise ValueError("masses must be positive.")
        return Diagonal(1 / jnp.sqrt(M))
    raise ValueError(
        f"the mass matrix is one of {', '.join(KINDS)}, a vector of masses or a matrix; not an array of "
        f"shape {M.shape}."
    )
