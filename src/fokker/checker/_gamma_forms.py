r"""Known mistakes in Γ: another stochastic calculus, another measure, Girolami and Calderhead's formula.

Each is a term with a fixed coefficient. Roots and determinants are those of the rows of D that are noisy.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fokker.checker._candidates import Candidate
from fokker.checker._residual import divergence_of_matrix
from fokker.dynamics.problem import Matrix, Problem, Vector

# The derivative of a symmetric root solves as many equations as it has entries.
_LARGEST_ROOT = 8


@jax.custom_jvp
def symmetric_root(M: Matrix) -> Matrix:
    """S with S² = M; its derivatives are finite for equal eigenvalues too."""
    values, vectors = jnp.linalg.eigh(M)
    return (vectors * jnp.sqrt(values)[None, :]) @ vectors.T


@symmetric_root.defjvp
def _symmetric_root_jvp(primals: tuple[Matrix], tangents: tuple[Matrix]) -> tuple[Matrix, Matrix]:
    """From S dS + dS S = dM."""
    S, one = symmetric_root(primals[0]), jnp.eye(len(primals[0]))
    derivative = jnp.linalg.solve(jnp.kron(one, S) + jnp.kron(S, one), tangents[0].reshape(-1))
    return S, derivative.reshape(S.shape)


def gamma_forms(problem: Problem, points: np.ndarray) -> list[Candidate]:
    """What is missing from the drift if Γ has one of the known wrong forms."""
    diagonals = np.asarray(jax.vmap(lambda x: jnp.diagonal(problem.D_matrix(x)))(points))
    noisy = np.flatnonzero(np.any(diagonals != 0, axis=0))
    if not noisy.size:
        return []

    def block(x: Vector) -> Matrix:
        return problem.D_matrix(x)[noisy][:, noisy]

    def by_determinant(x: Vector) -> Vector:
        """D∇log det D."""
        return problem.D_mv(x, jax.grad(lambda y: jnp.linalg.slogdet(block(y))[1])(x))

    def girolami_calderhead(x: Vector) -> Vector:
        return by_determinant(x) - divergence_of_matrix(problem.D_mv, x)

    roots: dict[str, Callable[[Matrix], Matrix]] = {"Cholesky factor": jnp.linalg.cholesky}
    if noisy.size <= _LARGEST_ROOT:
        roots = {"symmetric root": symmetric_root, **roots}
    return [
        *[_stratonovich(block, noisy, root, name) for name, root in roots.items()],
        Candidate("Girolami and Calderhead", girolami_calderhead, lambda _: _CALDERHEAD, (1.0,)),
        Candidate("volume", by_determinant, lambda _: _VOLUME, (0.5,)),
    ]


_CALDERHEAD = (
    "Γ is that of Girolami and Calderhead (2011), 2∇·D - D∇log det D, which is wrong from two dimensions on: "
    "Γ = ∇·D is required"
)
_VOLUME = (
    "the drift keeps exp(-H) as a density with respect to the volume (det D)^(-1/2) dz of the metric D⁻¹: "
    "for a density with respect to dz it needs another ½ D∇log det D"
)


def _stratonovich(
    block: Callable[[Vector], Matrix], noisy: np.ndarray, root: Callable[[Matrix], Matrix], name: str
) -> Candidate:
    """The difference of Itô's and Stratonovich's drift for σ, a root of 2D."""

    def field(x: Vector) -> Array:
        sigma = lambda y: root(2 * block(y))  # noqa: E731
        derivatives = jax.jacfwd(sigma)(x)[:, :, noisy]
        correction = jnp.einsum("kj,ijk->i", sigma(x), derivatives) / 2
        return jnp.zeros_like(x).at[noisy].set(correction)

    def describe(alpha: float) -> str:
        term = f"½ Σ_jk σ_kj ∂σ_ij/∂z_k, with σ the {name} of 2D"
        if alpha > 0:
            return f"the drift is that of a Stratonovich equation; Itô's needs another {term}"
        return f"the drift has the correction from Stratonovich's to Itô's once too often, {term}"

    return Candidate(f"Stratonovich {name}", field, describe, (1.0, -1.0))
