"""Posteriors over tables of rows, where a datum depends on one row of each table."""

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, ArrayLike, Float, PyTree

from fokker._core.checks import check_whole
from fokker._core.module import Module
from fokker._core.names import nearest
from fokker._core.state import as_arrays
from fokker.targets.posterior import Posterior


class Table(Module):
    r"""The prior of a table: each of its `rows` rows is N(μ, Λ⁻¹), independent of the others.

    ```python
    users = fk.Table(1000, jnp.zeros(5), 4.0)
    ```

    Arguments:

    - `rows`: their number.
    - `mean`: μ, a vector of k numbers.
    - `precision`: Λ, a number, a vector of k (its diagonal) or a k × k matrix.

    The eigenvalues λ and eigenvectors V of Λ = V diag(λ) Vᵀ are computed once, here: the dynamics of the
    prior are solved in them.
    """

    rows: int = eqx.field(static=True)
    mean: Float[Array, " k"]
    precision: Float[Array, "k k"]
    eigenvalues: Float[Array, " k"]
    eigenvectors: Float[Array, "k k"]

    def __init__(self, rows: int, mean: ArrayLike, precision: ArrayLike = 1.0) -> None:
        check_whole("rows", rows)
        self.rows = int(rows)
        self.mean, Lambda = as_arrays(mean), as_arrays(precision)
        if self.mean.ndim != 1:
            raise ValueError(
                f"the mean of a row must be a vector, one number per column; its shape is {self.mean.shape}."
            )
        k = self.mean.shape[0]
        if Lambda.shape not in ((), (k,), (k, k)):
            raise ValueError(
                f"the precision must be a number, a vector of {k} or a {k}×{k} matrix, as the mean has {k} "
                f"entries; its shape is {Lambda.shape}."
            )
        self.precision = Lambda if Lambda.ndim == 2 else jnp.diag(jnp.broadcast_to(Lambda, (k,)))
        self.eigenvalues, self.eigenvectors = jnp.linalg.eigh(self.precision)
        if isinstance(self.precision, Tracer):
            return
        if not np.allclose(self.precision, self.precision.T, rtol=1e-4) or not np.all(self.eigenvalues > 0):
            raise ValueError("the precision must be symmetric and positive definite.")

    def log_density(self, theta: Float[Array, "rows k"]) -> Array:
        """Σ_rows log N(θ_row | μ, Λ⁻¹), up to a constant, for any of the rows."""
        deviations = theta - self.mean[None, :]
        return -jnp.sum((deviations @ self.precision) * deviations) / 2


class RowPrior(Module):
    """log p(θ) for theta a dictionary of tables, by name."""

    tables: dict[str, Table]

    def __call__(self, theta: Mapping[str, Array]) -> Array:
        """The sum over all rows of all tables."""
        return sum((t.log_density(theta[name]) for name, t in self.tables.items()), jnp.zeros(()))


class RowLikelihood(Module):
    """log p(datum|θ) of a datum that says by number which row of each table it depends on."""

    log_likelihood: Callable[[dict[str, Array], PyTree[Array]], Array]
    names: tuple[str, ...] = eqx.field(static=True)

    def __call__(self, theta: Mapping[str, Array], datum: PyTree[Array]) -> Array:
        """The likelihood of those rows."""
        return self.log_likelihood({name: theta[name][datum[name]] for name in self.names}, datum)


def tables(
    priors: Mapping[str, Table],
    log_likelihood: Callable[[dict[str, Array], PyTree[Array]], Array],
    data: Mapping[str, Any],
) -> Posterior:
    r"""A posterior over tables of rows: log p(θ) = Σ_tables Σ_rows log N(θ_row | μ, Λ⁻¹).

    ```python
    target = fk.tables(
        {"users": fk.Table(1000, jnp.zeros(5), 4.0), "items": fk.Table(300, jnp.zeros(5), 4.0)},
        log_likelihood=lambda rows, datum: -((datum["rating"] - rows["users"] @ rows["items"]) ** 2) / 2,
        data={"users": users, "items": items, "rating": ratings},
    )
    sampler = fk.lazy(fk.samplers.sgnht(0.01, kind="diagonal"))
    ```

    Arguments:

    - `priors`: a `fk.Table` for each table, by name.
    - `log_likelihood`: `log_likelihood(rows, datum)` of one datum and the rows of theta that it depends on, a
      dictionary of vectors by the names of the tables.
    - `data`: arrays by name whose first axis runs over the data; under the name of each table the number of
      the row that a datum depends on.

    Returns a `fk.Posterior` whose theta is a dictionary of arrays (rows, k) by the names of the tables. Any
    sampler can be used; `fk.lazy` makes the cost of a step independent of the number of rows.
    """
    if (
        not isinstance(priors, Mapping)
        or not priors
        or not all(isinstance(t, Table) for t in priors.values())
    ):
        raise TypeError("priors must be a dictionary of fk.Table, as {'users': fk.Table(1000, mean)}.")
    for name, table in priors.items():
        if name not in data:
            raise ValueError(
                f"the data have no {name!r}, the row of that table for each datum; they have "
                f"{', '.join(map(str, data))}.{nearest(name, [str(known) for known in data])}"
            )
        _check_numbers(name, data[name], table.rows)
    return Posterior(RowPrior(dict(priors)), RowLikelihood(log_likelihood, tuple(priors)), dict(data))


def _check_numbers(name: str, numbers: ArrayLike, rows: int) -> None:
    if isinstance(numbers, Tracer):
        return
    numbers = np.asarray(numbers)
    if not np.issubdtype(numbers.dtype, np.integer) or numbers.ndim != 1:
        raise TypeError(
            f"data[{name!r}] must be a vector of whole numbers, the rows of that table; it is of "
            f"{numbers.dtype} and shape {numbers.shape}."
        )
    if numbers.size and not (numbers.min() >= 0 and numbers.max() < rows):
        wrong = numbers.min() if numbers.min() < 0 else numbers.max()
        raise ValueError(
            f"data[{name!r}] has the row number {wrong}, but the table has the rows 0 … {rows - 1}."
        )
