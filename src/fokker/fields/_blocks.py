"""Fields over a named state, given block by block."""

import functools
import operator
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from fokker._core.names import nearest
from fokker._core.state import State, variable_names, zeros_like
from fokker._core.types import PartName
from fokker.fields._dense import Dense, is_its_transpose
from fokker.fields._diagonal import Zero
from fokker.fields._field import Field, Scaled, Sum, as_field

Key = tuple[str, str]


class Blocks(Field):
    r"""A(z) over a named state: a field for each pair (row variable, column variable); absent pairs are zero.

    `symmetric` makes a diffusion D, and `skew` a curl Q, each from one triangle:

    ```python
    D = fk.fields.symmetric({("r", "r"): C})
    Q = fk.fields.skew({("r", "theta"): 1.0})  # and [theta, r] = -1 follows
    ```
    """

    blocks: dict[Key, Field]
    skew_by_construction: bool = eqx.field(static=True, default=False)

    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The functions of all blocks."""
        return tuple(function for block in self.blocks.values() for function in block.functions())

    @property
    def is_skew(self) -> bool:
        """Whether it was made by `skew`."""
        return self.skew_by_construction

    def check_names(self, z: State) -> None:
        """Raise if a block names a variable that is not in the state."""
        names = variable_names(z)
        for key in self.blocks:
            for name in key:
                if name not in names:
                    present = (
                        f"the variables {', '.join(names)}" if names else "no names: it is not a dictionary"
                    )
                    raise ValueError(
                        f"the block {key} names {name!r}, but the state has {present}.{nearest(name, names)}"
                    )

    def _sum_rows(self, z: State, terms: list[tuple[str, PyTree[Array]]]) -> State:
        total: dict[str, PyTree[Array]] = {}
        for row, term in terms:
            total[row] = jax.tree.map(jnp.add, total[row], term) if row in total else term
        return {name: total[name] if name in total else zeros_like(z[name]) for name in z}

    def mv(self, z: State, v: PyTree[Array], row: PartName = None, column: PartName = None) -> PyTree[Array]:
        """Row i is Σ_j A_ij v_j."""
        self.check_names(z)
        return self._sum_rows(z, [(i, block.mv(z, v[j], i, j)) for (i, j), block in self.blocks.items()])

    def transpose(self) -> Field:
        """The transpose of each block, at the mirrored place."""
        return Blocks({(j, i): block.transpose() for (i, j), block in self.blocks.items()}, self.is_skew)

    def divergence(
        self, z: State, row: PartName = None, column: PartName = None, probe: State | None = None
    ) -> PyTree[Array]:
        """Row i is the sum over j of the divergence of A_ij over variable j; constant blocks are skipped."""
        self.check_names(z)
        varying = {(i, j): block for (i, j), block in self.blocks.items() if block.varies_with(z, j)}
        return self._sum_rows(z, [(i, block.divergence(z, i, j, probe)) for (i, j), block in varying.items()])

    def varies_with(self, z: State, name: str | None) -> bool:
        """Whether the divergence over the whole state can be different from zero."""
        return any(block.varies_with(z, j) for (_, j), block in self.blocks.items())

    def _off_diagonal(self) -> bool:
        return any(i != j for i, j in self.blocks)

    def diagonal(self, z: State, row: PartName = None) -> PyTree[Array] | None:
        """The diagonal if every block is diagonal and on the diagonal, else None."""
        if self._off_diagonal():
            return None
        entries = {i: block.diagonal(z, i) for (i, _), block in self.blocks.items()}
        if any(value is None for value in entries.values()):
            return None
        return {name: entries[name] if name in entries else zeros_like(z[name]) for name in z}

    def sqrt_mv(self, z: State, w: PyTree[Array], row: PartName = None) -> PyTree[Array]:
        """Block by block; with blocks off the diagonal, by a square root of the full matrix."""
        if self._off_diagonal():
            return Field.sqrt_mv(self, z, w, row)
        return self._sum_rows(z, [(i, block.sqrt_mv(z, w[i], i)) for (i, _), block in self._noisy()])

    def solve(self, z: State, v: PyTree[Array], row: PartName = None) -> PyTree[Array]:
        """Block by block; with blocks off the diagonal, by the full matrix."""
        if self._off_diagonal():
            return super().solve(z, v, row)
        return {name: self._on_diagonal(name).solve(z, v[name], name) for name in z}

    def log_determinant(self, z: State, row: PartName = None) -> Array:
        """The sum over the blocks; with blocks off the diagonal, by the full matrix."""
        if self._off_diagonal():
            return super().log_determinant(z, row)
        return sum((self._on_diagonal(name).log_determinant(z, name) for name in z), start=jnp.zeros(()))

    def _on_diagonal(self, name: str) -> Field:
        return self.blocks.get((name, name), Zero())

    def _noisy(self) -> list[tuple[Key, Field]]:
        return [(key, block) for key, block in self.blocks.items() if not isinstance(block, Zero)]

    def noise_like(self, z: State, row: PartName = None) -> PyTree[Any]:
        """The noises of the diagonal blocks, by variable; variables without noise are left out."""
        if self._off_diagonal():
            return super().noise_like(z, row)
        return {i: block.noise_like(z, i) for (i, _), block in self._noisy()}


def _keyed(blocks: Mapping[Key, Any], what: str) -> dict[Key, Field]:
    fields: dict[Key, Field] = {}
    for key, value in blocks.items():
        if not (isinstance(key, tuple) and len(key) == 2 and all(isinstance(name, str) for name in key)):
            raise ValueError(
                f"the blocks of {what} are named by pairs of variables, as in ('r', 'theta'), not {key!r}."
            )
        if key[0] != key[1] and key[::-1] in blocks:
            raise ValueError(
                f"{what} declares both {key} and {key[::-1]}: declare one triangle, the other follows."
            )
        fields[key] = as_field(value)
    return fields


def symmetric(blocks: Mapping[Key, Any]) -> Blocks:
    """A symmetric field over a named state, from its diagonal blocks and one of each off-diagonal pair.

    Arguments:

    - `blocks`: by (row, column), of one triangle: what `as_field` takes. The other triangle follows.

    Returns a field over the named variables.

    ```python
    field = fk.fields.symmetric({("r", "r"): 1.0})
    matrix = field.as_matrix({"theta": jnp.ones(2), "r": jnp.ones(2)})
    ```
    """
    fields = _keyed(blocks, "a symmetric field")
    mirrored = {(j, i): block.transpose() for (i, j), block in fields.items() if i != j}
    return Blocks(fields | mirrored)


def skew(blocks: Mapping[Key, Any]) -> Blocks:
    """A skew field over a named state, from one triangle: A_ji = -A_ijᵀ follows.

    A block on the diagonal must be skew: a `Skew` field, or a constant skew matrix.

    Arguments:

    - `blocks`: by (row, column), of one triangle: what `as_field` takes. The other one has the opposite sign.

    Returns a field over the named variables.

    ```python
    field = fk.fields.skew({("r", "theta"): 1.0})
    matrix = field.as_matrix({"theta": jnp.ones(2), "r": jnp.ones(2)})
    ```
    """
    fields = _keyed(blocks, "a skew field")
    for (i, j), block in fields.items():
        if i == j and not is_skew_field(block):
            raise ValueError(
                f"the block {(i, j)} of a skew field must be skew; {type(block).__name__} is not. "
                "Declare it by its lower triangle with fk.fields.Skew(…). Friction, which is symmetric, "
                "belongs to D."
            )
    mirrored = {(j, i): -block.transpose() for (i, j), block in fields.items() if i != j}
    return Blocks(fields | mirrored, skew_by_construction=True)


def is_skew_field(field: Field) -> bool:
    """Whether a field is skew by construction, or a constant skew matrix (a traced matrix is not checked).

    Arguments:

    - `field`: a field.

    Returns True or False, by what the field is made of.

    ```python
    assert fk.fields.is_skew_field(fk.fields.Skew(jnp.zeros((2, 2))))
    ```
    """
    if field.is_skew:
        return True
    if isinstance(field, Dense) and not callable(field.value):
        return isinstance(field.value, jax.core.Tracer) or is_its_transpose(field.value, -1)
    if isinstance(field, Scaled):
        return is_skew_field(field.field)
    if isinstance(field, Sum):
        return all(is_skew_field(term) for term in field.terms)
    return False


def is_zero(field: Field) -> bool:
    """Whether a field is zero by what it is made of; a function that happens to be zero is none.

    Arguments:

    - `field`: a field.

    Returns True or False, by what the field is made of.

    ```python
    assert fk.fields.is_zero(fk.fields.Zero())
    ```
    """
    vanishing = vanishes(field)
    return not isinstance(vanishing, jax.core.Tracer) and bool(vanishing)


def vanishes(field: Field) -> Any:
    """As `is_zero`, and of traced numbers whether they are."""
    if isinstance(field, Zero):
        return np.True_
    if isinstance(field, Blocks):
        return functools.reduce(operator.and_, map(vanishes, field.blocks.values()), np.True_)
    leaves = jax.tree.leaves(field)
    if any(True for _ in field.functions()) or not leaves or any(map(callable, leaves)):
        return np.False_
    zeros = [(x if isinstance(x, jax.core.Tracer) else np.asarray(x)) == 0 for x in leaves]
    return functools.reduce(operator.and_, [x.all() for x in zeros])
