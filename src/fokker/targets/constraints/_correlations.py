"""Correlation matrices and their Cholesky factors, and the density of LKJ on them."""

import math
from typing import final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from fokker.targets.constraints._constraint import TOLERANCE, Constraint, is_known, log_smallest, refuse


def _size(y: Array) -> int:
    """d, for d(d - 1)/2 numbers."""
    return (1 + math.isqrt(1 + 8 * y.shape[-1])) // 2


def _log_cosh(y: Array) -> Array:
    """-log √(1 - tanh(y)²), also where the tanh is rounded to 1."""
    return -(jax.nn.log_sigmoid(2 * y) + jax.nn.log_sigmoid(-2 * y)) / 2 - math.log(2)


def _diagonal(like: Array) -> np.ndarray:
    """Whether an entry of a matrix, or of several, is on the diagonal."""
    return np.broadcast_to(np.eye(like.shape[-1], dtype=bool), like.shape)


def _lower(y: Array) -> Array:
    """A matrix with y below the diagonal, row by row."""
    d = _size(y)
    return jnp.zeros((*y.shape[:-1], d, d), y.dtype).at[..., *np.tril_indices(d, -1)].set(y)


def _log_remainders(y: Array) -> Array:
    """log √(1 - Σ_{k<j} L_ik²) at i, j."""
    logs = -_lower(_log_cosh(y))
    return jnp.concatenate([jnp.zeros_like(logs[..., :1]), jnp.cumsum(logs, -1)[..., :-1]], -1)


@final
class _CorrelationCholesky(Constraint):
    r"""L_ij = tanh(y_ij) √(1 - Σ_{k<j} L_ik²) for j < i, and L_ii = √(1 - Σ_{k<i} L_ik²).

    tanh(y_ij) is the correlation of i and j given the variables before j. The Jacobian is triangular:
    log|dL/dy| = Σ_{j<i} (log(1 - tanh(y_ij)²) + log √(1 - Σ_{k<j} L_ik²)).
    """

    def constrain(self, y: Array) -> Array:
        # The square of the diagonal does not vanish either, so that y can be found from L.
        lengths = jnp.exp(jnp.maximum(_log_remainders(y), log_smallest(y.dtype) / 2))
        return jnp.tril(jnp.where(_diagonal(lengths), 1, jnp.tanh(_lower(y))) * lengths)

    def unconstrain(self, x: Array) -> Array:
        # tanh(y) = L_ij/√(Σ_{k≥j} L_ik²), and sinh(y) by the sum over k > j, which loses no digits.
        squares = jnp.flip(jnp.cumsum(jnp.flip(x**2, -1), -1), -1)
        after = jnp.concatenate([squares[..., 1:], jnp.ones_like(squares[..., :1])], -1)
        rows, columns = np.tril_indices(x.shape[-1], -1)
        return jnp.arcsinh(x[..., rows, columns] / jnp.sqrt(after[..., rows, columns]))

    def log_jacobian(self, y: Array) -> Array:
        remainders = _log_remainders(y)[..., *np.tril_indices(_size(y), -1)]
        return jnp.sum(remainders - 2 * _log_cosh(y))

    def check(self, x: Array, name: str) -> None:
        what = "a Cholesky factor of a correlation matrix"
        advice = "give jnp.linalg.cholesky(R) of a correlation matrix R"
        _refuse_shape(x, name, what)
        if not is_known(x):
            return
        values = np.asarray(x)
        refuse(values, np.isfinite(values), name, f"{what}: {advice}")
        refuse(values, np.tri(values.shape[-1], dtype=bool) | (values == 0), name, f"0, as {what}: {advice}")
        diagonal = np.eye(values.shape[-1], dtype=bool)
        refuse(values, ~diagonal | (values > 0), name, f"above 0, as {what}: {advice}")
        lengths = np.linalg.norm(values, axis=-1)
        wrong = np.abs(lengths - 1) > TOLERANCE
        if np.any(wrong):
            raise ValueError(
                f"{name} must be {what}, whose rows have the length 1, but has a row of length "
                f"{lengths[wrong][0]:.6g}: {advice}."
            )


@final
class _Correlation(Constraint):
    """R = LLᵀ; log|dR/dy| = log|dL/dy| + Σ_i (d - i) log L_ii, by the entries below the diagonal."""

    def constrain(self, y: Array) -> Array:
        L = _CorrelationCholesky().constrain(y)
        products = jnp.matmul(L, jnp.swapaxes(L, -1, -2), precision=jax.lax.Precision.HIGHEST)
        below = jnp.tril(products, -1)
        return jnp.where(_diagonal(below), 1, below + jnp.swapaxes(below, -1, -2))

    def unconstrain(self, x: Array) -> Array:
        return _CorrelationCholesky().unconstrain(_cholesky(x))

    def log_jacobian(self, y: Array) -> Array:
        logs = jnp.diagonal(_log_remainders(y), axis1=-2, axis2=-1)
        return _CorrelationCholesky().log_jacobian(y) + jnp.sum(_powers(logs) * logs)

    def check(self, x: Array, name: str) -> None:
        what = "a correlation matrix"
        _refuse_shape(x, name, what)
        if not is_known(x):
            return
        values = np.asarray(x, float)
        refuse(values, np.isfinite(values), name, f"{what}: give finite numbers")
        diagonal = np.eye(values.shape[-1], dtype=bool)
        requirement = f"1, as the diagonal of {what}: give C / jnp.outer(s, s), s = jnp.sqrt(jnp.diag(C))"
        refuse(values, ~diagonal | (np.abs(values - 1) <= TOLERANCE), name, requirement)
        is_symmetric = np.abs(values - np.swapaxes(values, -1, -2)) <= TOLERANCE
        refuse(values, is_symmetric, name, f"symmetric, as {what}: give (R + R.T) / 2")
        smallest = np.linalg.eigvalsh(values)[..., 0].min()
        if not smallest > 0:
            raise ValueError(
                f"{name} must be {what}, but is not positive definite: its smallest eigenvalue is "
                f"{smallest:.3g}. Give the correlations of more rows than columns, or jnp.eye(d)."
            )


def _cholesky(R: Array) -> Array:
    """The Cholesky factor of a correlation matrix, also of one that rounding has made singular."""
    d, eps = R.shape[-1], float(jnp.finfo(R.dtype).eps)
    is_singular = ~jnp.all(
        jnp.isfinite(jnp.linalg.cholesky(jax.lax.stop_gradient(R))), (-2, -1), keepdims=True
    )
    shrunk = jnp.where(_diagonal(R), 1, (1 - 4 * d * eps) * R)
    return jnp.linalg.cholesky(jnp.where(is_singular, shrunk, R))


def _powers(diagonal: Array) -> Array:
    """d - i, for i from 1: |dR/dL| = Π_i L_ii^(d - i)."""
    powers = np.arange(diagonal.shape[-1] - 1, -1, -1)
    return jnp.asarray(np.broadcast_to(powers, diagonal.shape), diagonal.dtype)


def _refuse_shape(x: Array, name: str, what: str) -> None:
    if x.ndim < 2 or x.shape[-1] != x.shape[-2] or x.shape[-1] < 2:
        raise ValueError(
            f"{name} must be {what}, but has the shape {x.shape}: give a square matrix of at least two rows, "
            "or several along leading axes."
        )


def correlation() -> Constraint:
    """Correlation matrices R, d × d in the last two axes: positive definite, with a diagonal of 1.

    From d(d - 1)/2 numbers. Densities are with respect to Lebesgue measure on the entries below the diagonal,
    as that of `lkj_log_density` is; 0 as a log density is the uniform distribution. Where correlations come
    near to 1, `correlation_cholesky` keeps more digits.

    Returns a constraint, for `fk.constrain`. It has no arguments.

    ```python
    constrained = fk.constrain(target, {"correlation": fk.constraints.correlation()})
    ```
    """
    return _Correlation()


def correlation_cholesky() -> Constraint:
    """Cholesky factors L of correlation matrices R = LLᵀ, d × d in the last two axes.

    Lower triangular, with rows of length 1 and a positive diagonal, from d(d - 1)/2 numbers. Densities are
    with respect to Lebesgue measure on the entries below the diagonal, as that of `lkj_cholesky_log_density`
    is, under which R has the density of LKJ.

    Returns a constraint, for `fk.constrain`. It has no arguments.

    ```python
    constrained = fk.constrain(target, {"factor": fk.constraints.correlation_cholesky()})
    ```
    """
    return _CorrelationCholesky()


def lkj_log_density(correlation: Float[Array, "... d d"], eta: float | Array) -> Float[Array, "..."]:
    r"""log of det(R)^(η - 1)/c, the density of LKJ, for `fk.constraints.correlation()`.

    Each correlation has the density of 2b - 1, b ~ Beta(a, a), a = η - 1 + d/2.
    c = Π_{k=1}^{d-1} π^(k/2) Γ(η + (d - 1 - k)/2)/Γ(η + (d - 1)/2). Lewandowski, Kurowicka and Joe (2009).

    Arguments:

    - `correlation`: R, a correlation matrix of at least two rows, or several along leading axes.
    - `eta`: η, a number above 0: 1 is the uniform distribution, and larger η favour small correlations.

    Returns the log density of each matrix.

    ```python
    log_density = fk.constraints.lkj_log_density(jnp.array([[1.0, 0.5], [0.5, 1.0]]), 2.0)
    ```
    """
    R = _checked(correlation, "correlation")
    eta = _checked_eta(eta, R)
    logs = jnp.log(jnp.diagonal(_cholesky(R), axis1=-2, axis2=-1))
    return 2 * (eta - 1) * jnp.sum(logs, -1) - _log_integral(R.shape[-1], eta)


def lkj_cholesky_log_density(factor: Float[Array, "... d d"], eta: float | Array) -> Float[Array, "..."]:
    r"""log of the density of L for which R = LLᵀ has that of `lkj_log_density`: Π_i L_ii^(d - i + 2η - 2)/c.

    For `fk.constraints.correlation_cholesky()`; i is from 1 to d.

    Arguments:

    - `factor`: L, lower triangular, d × d, or several along leading axes.
    - `eta`: η, as for `lkj_log_density`.

    Returns the log density of each L.

    ```python
    log_density = fk.constraints.lkj_cholesky_log_density(jnp.array([[1.0, 0.0], [0.6, 0.8]]), 2.0)
    ```
    """
    L = _checked(factor, "factor")
    eta = _checked_eta(eta, L)
    logs = jnp.log(jnp.diagonal(L, axis1=-2, axis2=-1))
    return jnp.sum((_powers(logs) + 2 * (eta - 1)) * logs, -1) - _log_integral(L.shape[-1], eta)


def _checked(matrix: ArrayLike, name: str) -> Array:
    matrix = jnp.asarray(matrix)
    matrix = matrix.astype(jnp.result_type(matrix, float))  # of whole numbers too, as in [[1, 0], [0, 1]]
    _refuse_shape(matrix, name, "square")
    return matrix


def _checked_eta(eta: float | Array, like: Array) -> Array:
    if np.ndim(eta) or (is_known(eta) and not 0 < eta < math.inf):
        raise ValueError(
            f"eta must be a number above 0, not {eta}: 1 is uniform, and 2 favours small correlations."
        )
    return jnp.asarray(eta, like.dtype)


def _log_integral(d: int, eta: Array) -> Array:
    """log c."""
    k = jnp.asarray(np.arange(1, d), eta.dtype)
    terms = jax.lax.lgamma(eta + (d - 1 - k) / 2) - jax.lax.lgamma(eta + (d - 1) / 2)
    return jnp.sum(terms) + d * (d - 1) / 4 * math.log(math.pi)
