"""Matrix fields, of which the diffusion D(z) and the curl Q(z) of a sampler are built.

| field | A(z) | cost of Γ |
| --- | --- | --- |
| `Zero()` | 0 | nothing |
| `Scalar(a)` | a·I, a number or a function | nothing, or one gradient |
| `Diagonal(a)` | diag(a) | nothing, or d Jacobian-vector products |
| `Elementwise(a)` | diag(a), a_i depending on its own coordinate | one Jacobian-vector product |
| `Dense(A)` | a matrix, rectangular between two variables | nothing, or d |
| `Gram(L, diagonal_part=a)` | L Lᵀ + diag(a), low rank plus diagonal | nothing, or d + k |
| `Skew(T)` | T - Tᵀ from the lower triangle | nothing, or d |
| `Column(a)` | one column, and its transpose one row | as Diagonal or Elementwise |
| `Operator(product)` | any linear map, by its product with a vector | d, or that of `gamma` |
| `symmetric({...})`, `skew({...})` | blocks over a named state | as their blocks |

Fields can be added (`A + B`), scaled (`2 * A`) and transposed (`A.T`). The arguments of a function are the
variables that it depends on, `lambda theta: …`, or the whole state, `lambda z: …`.
"""

from fokker.fields._blocks import Blocks, is_skew_field, is_zero, skew, symmetric
from fokker.fields._dense import Dense, Skew
from fokker.fields._diagonal import Diagonal, Elementwise, Scalar, Zero
from fokker.fields._field import Field, FieldLike, Scaled, Sum, as_field, symmetric_root
from fokker.fields._gram import Gram
from fokker.fields._operator import Column, Operator

__all__ = [
    "Blocks",
    "Column",
    "Dense",
    "Diagonal",
    "Elementwise",
    "Field",
    "FieldLike",
    "Gram",
    "Operator",
    "Scalar",
    "Scaled",
    "Skew",
    "Sum",
    "Zero",
    "as_field",
    "is_skew_field",
    "is_zero",
    "skew",
    "symmetric",
    "symmetric_root",
]
