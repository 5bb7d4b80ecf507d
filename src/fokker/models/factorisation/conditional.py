r"""Exact draws of the rows of a table, given the other table, its prior and the precision of the noise.

With φ = (1, V_i) of the items that user u rated, and their standardised ratings less b_i as y, the row
(a_u, U_u) is

    N(P⁻¹f, P⁻¹),   P = Λ + τ_uΣφφᵀ,   f = Λμ + τ_uΣφy,

and so for items. Drawing both tables in turn is the Gibbs sampler of Salakhutdinov and Mnih (2008).
"""

import numpy as np
from jaxtyping import Float
from scipy.sparse import csr_array

from fokker.models.factorisation.hyperparameters import Hyperparameters

# Numbers of a block of precision matrices: as many as stay in a processor's cache.
_NUMBERS = 2**18


def draw_rows(
    generator: np.random.Generator,
    ratings: csr_array,
    others: Float[np.ndarray, "columns d"],
    prior: Hyperparameters,
    precisions: Float[np.ndarray, " ratings"],
    shifts: Float[np.ndarray, "rows d"] | None = None,
) -> Float[np.ndarray, "rows d"]:
    """All rows of a table.

    `ratings`: standardised, a row of a sparse matrix for each row of the table. `others`: the other table.
    `precisions`: τ of each rating, in the order of the sparse matrix. `shifts`: what features add to μ in
    each row.
    """
    d = others.shape[1]
    features = others.copy()
    features[:, 0] = 1
    below = np.tril_indices(d)
    products = features[:, below[0]] * features[:, below[1]]
    weights = _like(ratings, precisions)
    residuals = _like(ratings, precisions * (ratings.data - others[ratings.indices, 0]))
    pull = prior.precision @ prior.mean
    rows = np.empty((ratings.shape[0], d))
    size = max(1, _NUMBERS // d**2)
    for first in range(0, len(rows), size):
        part = slice(first, first + size)
        # One column per row of the table: NumPy loops over the long axis, and not over many small matrices.
        force = (residuals[part] @ features).T + pull[:, None]
        if shifts is not None:
            force += (shifts[part] @ prior.precision).T
        precision = np.empty((d, d, force.shape[1]))
        precision[below] = (weights[part] @ products).T + prior.precision[below][:, None]
        rows[part] = draw_gaussians(generator, precision, force).T
    return rows


def draw_gaussians(
    generator: np.random.Generator, precision: Float[np.ndarray, "d d n"], force: Float[np.ndarray, "d n"]
) -> Float[np.ndarray, "d n"]:
    """A draw of N(P⁻¹f, P⁻¹) for each of n problems, of whose P the lower triangle is read; overwrites both.

    With P = LLᵀ it is L⁻ᵀ(L⁻¹f + noise).
    """
    d = len(force)
    for j in range(d):
        column = precision[j:, j]
        column /= np.sqrt(column[0])
        force[j] /= column[0]
        force[j + 1 :] -= column[1:] * force[j]
        for i in range(j + 1, d):
            precision[i:, i] -= column[i - j] * column[i - j :]
    force += generator.standard_normal(force.shape)
    for j in reversed(range(d)):
        force[j] -= np.einsum("in,in->n", precision[j + 1 :, j], force[j + 1 :])
        force[j] /= precision[j, j]
    return force


def _like(matrix: csr_array, values: np.ndarray) -> csr_array:
    """These values in the places of a sparse matrix."""
    return csr_array((values, matrix.indices, matrix.indptr), matrix.shape)
