"""A posterior, from a prior, the likelihood of one datum, and the data."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from fokker._core.labels import Labels, named_leaves, shapes_of
from fokker._core.precision import computing_in
from fokker.batches import Batch
from fokker.rows import Stream, categories_of, first_rows, is_source, is_stream, leaves, size_of, span
from fokker.targets._categories import axes_of_categories
from fokker.targets._data import checked_data, checked_stream, placed
from fokker.targets._indices import check_indices
from fokker.targets._integers import check_integers
from fokker.targets.blocks import sum_over_rows
from fokker.targets.target import TargetWithData, check_number, checked_function

# Rows whose likelihoods are evaluated at the same time in a sum over all the data, and bytes of those that
# are read from a file for it.
_ROWS, _BYTES = 65_536, 2**25


class Posterior(TargetWithData):
    r"""U(θ) = -Σ_x log p(x|θ) - log p(θ), over data that may be too large for a pass in every step.

    ```python
    target = fk.Posterior(
        log_prior=lambda theta: -jnp.sum(theta**2) / 2,
        log_likelihood=lambda theta, datum: -((datum["y"] - datum["x"] @ theta) ** 2) / 2,
        data={"x": x, "y": y},
    )
    ```

    Arguments:

    - `log_prior`: a function of theta, log p(θ) up to a constant.
    - `log_likelihood`: `log_likelihood(theta, datum)` of one datum, a tree like the data without the first
      axis. It is vectorised here. Both may read numbers outside of themselves, as `log_density` of
      `fk.Density` may.
    - `data`: arrays, or files and tables, whose first axis runs over the data; or a stream of batches.
    - `size`: N, of a stream alone.
    - `precision`: "double" stores the data in double precision, and `fk.sample` then computes in it.
    - `dims`, `coords`: names of the axes of parameters and of the entries along them, as for `fk.Density`.

    `minibatch_potential` is the unbiased estimate (Ma et al. 2015, Eq. 7)

        Ũ(θ) = -(N/n) Σ_{x in batch} log p(x|θ) - log p(θ),

    and N/n is applied here only. Rows drawn with unequal probabilities have their own weights.

    The leaves of `data` are arrays, or they stay in a file: the path of an .npy or .parquet file, a
    np.memmap, a dataset of HDF5 (h5py) or of Zarr, or an Arrow table, which is a dictionary of its columns.
    Rows of files are read when a step needs them, by a thread that reads ahead; they are checked then, and a
    value that is not finite stops the run by name. NumPy arrays of more than 64 MiB are used where they are,
    not copied: do not change them.

    `data` may also be an iterable of batches, such as a PyTorch DataLoader, or a function that returns one;
    then `size` is N, the number of data that they are drawn from. See docs/data.md.

    Columns of categories, as `fokker sample` reads them or of the type category in a DataFrame, are codes 0,
    1, … with labels. An axis that `log_likelihood` indexes by such a column, as in theta["a"][row["city"]],
    has its name and its labels if this is found out; `dims={"a": ["city"]}` names an axis for which it is
    not. An index beyond the end of an array, where JAX takes the last entry, is refused: `fk.sample` looks at
    the rows with the smallest and the largest number of each column of integers in memory.

    JAX stores floating-point numbers in single precision unless 64 bits are enabled. Data that this would
    round noticeably are refused (docs/data.md has the rule).
    """

    log_prior: Callable[[PyTree[Array]], Array]
    log_likelihood: Callable[[PyTree[Array], PyTree[Array]], Array]
    data: PyTree[Array]
    _labels: Labels = eqx.field(static=True)

    def __init__(
        self,
        log_prior: Callable[[PyTree[Array]], Array],
        log_likelihood: Callable[[PyTree[Array], PyTree[Array]], Array],
        data: PyTree[Any],
        size: int | None = None,
        precision: str | None = None,
        *,
        dims: Mapping[str, Any] | None = None,
        coords: Mapping[str, Any] | None = None,
    ) -> None:
        self.log_prior = checked_function(log_prior, "log_prior", "lambda theta: -jnp.sum(theta**2) / 2")
        example = "lambda theta, datum: -((datum - theta) ** 2) / 2"
        self.log_likelihood = checked_function(log_likelihood, "log_likelihood", example)
        self._labels = Labels.checked(dims, coords)
        if isinstance(data, list) and size is not None:
            raise TypeError(
                f"data is a list of {len(data)}, which stands for the columns of one data set, and "
                f"size={size} is for a stream of batches: for a list of batches give a function that returns "
                "it, data=lambda: batches; for columns leave size out."
            )
        with computing_in(precision):
            if is_stream(data):
                self.data = checked_stream(Stream(data, _checked_size(data, size)).data())
                return
            self.data = placed(checked_data(data))
        self._labels = self._labels.with_entries(dict(categories_of(self.data).values()))
        if size is not None and size != size_of(self.data):
            raise ValueError(
                f"size={size!r}, but the first axis of the data has length {size_of(self.data):,}: leave "
                "size out. It is for a stream of batches, whose length is not known; give the stream itself "
                "as data."
            )

    def potential(self, theta: PyTree[Array]) -> Array:
        """U, by a pass over all the data."""
        return -sum_over_rows(self, theta, self._rows_per_block()) - self.log_prior(theta)

    def _rows_per_block(self) -> int:
        bytes_per_row = sum(x.row_bytes for x in leaves(self.data) if is_source(x))
        return min(_ROWS, max(1, _BYTES // bytes_per_row)) if bytes_per_row else _ROWS

    def on_first_rows(self) -> "Posterior":
        """Itself, or, of data in a file or a stream, with the first rows alone."""
        data = first_rows(self.data)
        labels = self._labels
        if data is self.data:
            return self
        return Posterior(self.log_prior, self.log_likelihood, data, dims=labels.dims, coords=labels.coords)

    def labels(self) -> Labels:
        """Names of the axes of parameters, and of the entries along them."""
        return self._labels

    def labelled(self, theta: PyTree[Array]) -> "Posterior":
        """With the labels of categories along the axes that the likelihood indexes by them."""
        axes = axes_of_categories(self.log_likelihood, theta, self.data, self._labels)
        if axes is self._labels:
            return self
        # Not by __init__, which would check the data a second time.
        labelled: Posterior = object.__new__(type(self))
        for field in dataclasses.fields(self):
            value = axes if field.name == "_labels" else getattr(self, field.name)
            object.__setattr__(labelled, field.name, value)
        return labelled

    def known_data(self) -> dict[str, dict[str, Any]]:
        """The data that are in memory: prior and likelihood do not say which of them are random."""
        in_memory = {name: x for name, x in named_leaves(self.data).items() if isinstance(x, jax.Array)}
        return {"observed_data": {"data" if name == "theta" else name: x for name, x in in_memory.items()}}

    def minibatch_potential(self, theta: PyTree[Array], batch: PyTree[Array]) -> Array:
        """Ũ from a batch of n rows: a tree of rows, or a `fokker.batches.Batch`."""
        rows, weights = self.weighted(batch)
        return -self._log_likelihoods(theta, rows, weights) - self.log_prior(theta)

    def weighted(self, batch: PyTree[Array]) -> tuple[PyTree[Array], Any]:
        """The rows of a batch and their weights: N/n, or those of the batch."""
        rows, weights = (batch.data, batch.weights) if isinstance(batch, Batch) else (batch, None)
        n = jax.tree.leaves(rows)[0].shape[0]
        if weights is None and n > self.size:
            raise ValueError(
                f"a batch of {n} rows was given to a posterior of {self.size} data, so that N/n would be "
                "wrong. For batches of a stream make it as fk.Posterior(…, data=stream, size=N)."
            )
        return rows, self.size / n if weights is None else weights

    def _log_likelihoods(
        self, theta: PyTree[Array], rows: PyTree[Array], weights: float | Array = 1.0
    ) -> Array:
        each = jax.vmap(lambda datum: self.log_likelihood(theta, datum))(rows)
        return jnp.sum(weights * each) if jnp.ndim(weights) else weights * jnp.sum(each)

    def validate(self, theta: PyTree[Array]) -> None:
        """Raise unless the prior and the likelihood are each one finite number at theta."""
        check_number(self.log_prior, theta, "log_prior")
        datum = jax.tree.map(lambda x: x[0], span(self.data, 0, 1))
        try:
            check_number(self.log_likelihood, theta, "log_likelihood", datum)
        except ValueError as error:
            if not isinstance(self.data, list):
                raise
            raise ValueError(
                f"{error} A datum is a list of {len(self.data)} here, as data is a list of columns: for a "
                "list of batches give fk.Posterior(…, data=lambda: batches, size=N)."
            ) from error
        self._labels.check(shapes_of(theta))
        check_integers(self.log_likelihood, theta, datum, self.data)
        check_indices(self.log_likelihood, theta, datum, self.data)


def _checked_size(data: object, size: object) -> int:
    """N of a stream; raise unless it is given."""
    if not isinstance(size, int | np.integer) or size < 1:
        what = "no size was" if size is None else f"size={size!r} was"
        raise ValueError(
            f"data is a stream of batches ({type(data).__name__}), and {what} given: give size=N, the number "
            "of all data that the batches come from. The likelihood of a batch of n rows counts N/n times."
        )
    return int(size)
