"""Types that signatures all over the library share."""

from typing import TypeAlias

from jaxtyping import Array, PyTree

# One number: of Python outside compiled functions, an array within them.
Number: TypeAlias = float | Array

# Arrays in any structure: a state, the randomness of a step, a batch of rows.
Arrays: TypeAlias = PyTree[Array]

# The name of a variable of a state; None for the whole state.
PartName: TypeAlias = str | None
