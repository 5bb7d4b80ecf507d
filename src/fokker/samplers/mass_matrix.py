r"""Mass matrices, as linear changes of coordinates θ = θ₀ + S q.

Moving q with unit masses is moving θ with the mass matrix M = (SSᵀ)⁻¹; the best S has SSᵀ = Cov θ, which
warm-up estimates from draws. θ₀ is where the chain is: a step starts at q = 0.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from fokker._core.module import Module
from fokker._core.state import State, ravel, unravel
from fokker.integrators._gradient import Gradient

KINDS = ("identity", "diagonal", "dense", "low-rank")

# Stan's shrinkage: an estimate from n draws has weight n, the prior variance below weight five.
_PRIOR_DRAWS, _PRIOR_VARIANCE = 5, 1e-3
# Directions of a low-rank scale: those whose variance, once the coordinates are scaled, is off by more.
_RANK, _CUTOFF = 20, 2.0


class MassMatrix(Protocol):
    """M = (SSᵀ)⁻¹ by its S."""

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


def identity(kind: str, dimension: int, dtype: Any) -> MassMatrix:
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
        raise ValueError(f"the mass matrix is one of {', '.join(KINDS)}, or an array; not {kind!r}.")


def estimate(kind: str, draws: np.ndarray, dtype: Any) -> MassMatrix:
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


def _low_rank(x: np.ndarray, deviations: np.ndarray, dtype: Any) -> LowRank:
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


def check_size(mass_matrix: Any, dimension: int) -> None:
    """Raise unless a mass matrix fits a theta of `dimension` numbers."""
    if mass_matrix is None or isinstance(mass_matrix, str):
        return
    is_dense = isinstance(mass_matrix, Dense)
    size = (mass_matrix.factor if is_dense else mass_matrix.deviations).shape[0]
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


def as_mass_matrix(value: Any) -> Any:
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


class Coordinates(Protocol):
    """Coordinates q in which the dynamics move theta."""

    def __call__(self, q: PyTree[Array]) -> PyTree[Array]:
        """θ at q."""

    def vector(self, theta: PyTree[Array]) -> PyTree[Array]:
        """theta in the form of q, for its shapes."""

    def enter(self, z: State) -> State:
        """A state in these coordinates."""

    def leave(self, z: State) -> State:
        """A state in these coordinates as the caller sees it."""

    def gradient(self, by_theta: Gradient) -> Gradient:
        """The gradient by q, of one by theta."""


class AsItIs:
    """q = θ."""

    def __call__(self, q: PyTree[Array]) -> PyTree[Array]:
        """q."""
        return q

    vector = enter = leave = gradient = __call__


@dataclass(frozen=True)
class Chart:
    """Coordinates around a position: θ = θ₀ + S q, q a vector; a mass matrix yet to be learned is 1."""

    centre: PyTree[Array]
    mass_matrix: Any

    def __call__(self, q: Float[Array, " d"]) -> PyTree[Array]:
        """θ at q."""
        shift = q if isinstance(self.mass_matrix, str) else self.mass_matrix(q).astype(q.dtype)
        return unravel(ravel(self.centre) + shift, self.centre)

    def vector(self, theta: PyTree[Array]) -> Float[Array, " d"]:
        """One number of q per number of theta."""
        return ravel(theta)

    def enter(self, z: State) -> State:
        """The state whose theta is the centre, at q = 0."""
        return {**z, "theta": self._origin}

    @property
    def _origin(self) -> Float[Array, " d"]:
        return jnp.zeros_like(ravel(self.centre))

    def leave(self, z: State) -> State:
        """With θ in place of q."""
        return {**z, "theta": self(z["theta"])}

    def gradient(self, by_theta: Gradient) -> Gradient:
        """Sᵀ∇U."""
        if by_theta is None:
            return None
        return lambda q: jax.vjp(self.__call__, self._origin)[1](by_theta(self(q)))[0]


def coordinates(position: PyTree[Array], mass_matrix: Any) -> Coordinates:
    """Those in which a sampler with this mass matrix moves from a position; None moves theta as it is."""
    return AsItIs() if mass_matrix is None else Chart(position, mass_matrix)
