"""What users give for a field."""

from collections.abc import Callable
from typing import TypeAlias

from jaxtyping import Array, PyTree

from fokker.fields._field import Field

# A field; a number, a diagonal, a matrix or a dictionary of blocks; or a function of the state.
FieldLike: TypeAlias = Field | PyTree[Array] | Callable[..., PyTree[Array]]
