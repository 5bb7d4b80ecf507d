"""The completed Q as a field for `fk.Dynamics`."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from fokker._core.state import State, dimension, ravel, unravel, variable_names
from fokker._core.types import PartName
from fokker.completion._interpolate import Spline, extend, fit_spline
from fokker.fields import Field


class Curl(Field):
    r"""A skew field over the whole state, from its entries Q_ij for some pairs (i, j).

    It is skew by construction. Errors in the entries change the drift, but not the stationary density
    exp(-H), because Γ is the derivative of the same entries.
    """

    entries: Callable[[State, Array], Array]
    pairs: tuple[tuple[int, int], ...] = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)
    dimension: int = eqx.field(static=True)

    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The matrix, a function of the whole state."""
        return (self.matrix,)

    @property
    def is_skew(self) -> bool:
        """Always true."""
        return True

    def matrix(self, z: State) -> Array:
        """Q(z), rows in the order of `names`."""
        if dimension(z) != self.dimension or set(variable_names(z)) != set(self.names):
            wanted = f"the variables {', '.join(self.names)}" if self.names else "no names"
            raise ValueError(
                f"this Q was completed for a state of {self.dimension} numbers with {wanted}, not for "
                f"one of {dimension(z)} with {', '.join(variable_names(z)) or 'no names'}."
            )
        x = ravel(z, self.names or None)
        values = self.entries(z, x)
        rows, columns = np.array(self.pairs).T
        upper = jnp.zeros((self.dimension, self.dimension), x.dtype).at[rows, columns].set(values)
        return upper - upper.T

    def mv(self, z: State, v: PyTree[Array], row: PartName = None, column: PartName = None) -> PyTree[Array]:
        """Q(z) v, over the whole state."""
        if row is not None or column is not None:
            raise ValueError(
                "a completed Q acts on the whole state: use it as Q=completion.Q, not as a block."
            )
        return unravel(self.matrix(z) @ ravel(v, self.names or None), z, self.names or None)

    def transpose(self) -> Field:
        """The negative."""
        return -self


class SplineEntries(eqx.Module):
    """Entries of Q interpolated from a grid."""

    spline: Spline

    def __call__(self, z: State, x: Array) -> Array:
        """The entries at the state."""
        return self.spline(x)


def curl_from_grid(Q: np.ndarray, p: np.ndarray, trusted: np.ndarray, axes: tuple[np.ndarray, ...]) -> Spline:
    """A spline through the entries i < j of Q, (d, d, grid), extended to where they are unknown.

    They are used as far out as rounding error, about 1e-16/p, and their growth allow, which is well outside
    the region of trust. Farther out they are replaced by their nearest values.
    """
    rows, columns = np.triu_indices(len(Q), 1)
    entries = Q[rows, columns]
    size = np.abs(entries).max(axis=0)
    known = (p > 1e-12) & (size <= 100 * size[trusted].max())
    used_axes: list[np.ndarray] = []
    for a, axis in enumerate(axes):
        others = tuple(b for b in range(known.ndim) if b != a)
        inside = np.flatnonzero(known.any(axis=others))
        span = np.arange(inside[0], inside[-1] + 1)
        known, entries = known.take(span, axis=a), entries.take(span, axis=a + 1)
        used_axes.append(axis[span])
    return fit_spline(extend(entries, known), used_axes)
