"""Dynamics from H, D and Q (Theorem 1)."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fokker import fields
from fokker._core.module import Module
from fokker._core.state import State, as_arrays, dimension, variable_names
from fokker._core.types import Number
from fokker.dynamics._checks import (
    check_field,
    check_semidefinite,
    check_skew,
    check_temperature,
    validate_state,
)
from fokker.dynamics._noise import noise_like, reduced_noise
from fokker.dynamics.hamiltonian import Hamiltonian, check_hamiltonian, hamiltonian_gradient
from fokker.fields import Blocks, Field, FieldLike


class Dynamics(Module):
    r"""The stochastic dynamics with stationary density exp(-H/T), from a diffusion D and a curl Q.

        dz = f(z) dt + √(2 T D(z)) dW        (Itô)
        f(z) = -[D(z) + Q(z)] ∇H(z) + T Γ(z),     Γ_i = Σ_j ∂/∂z_j (D_ij + Q_ij)

    It is sufficient that D is positive semidefinite and Q is skew (Ma, Chen, Fox 2015, Theorem 1; their Eq. 6
    and 9 print Γ with the wrong sign). Γ is computed from D and Q. At T = 0 this is deterministic descent.

    Arguments:

    - `hamiltonian`: H: a function of named variables or of the whole state, or a `fk.Hamiltonian`.
    - `D`: the diffusion, positive semidefinite: a field, a number, a matrix or a dictionary of blocks; None
      for zero.
    - `Q`: the curl, skew: likewise, and of a dictionary one triangle.
    - `temperature`: T, one number, not negative. It scales both the noise and Γ.

    ```python
    dynamics = fk.Dynamics(
        hamiltonian=lambda theta, r: jnp.sum(theta**2) / 2 + jnp.sum(r**2) / 2,
        D={("r", "r"): 1.0},
        Q={("r", "theta"): 1.0},  # one triangle; Q[theta, r] = -1 follows
    )
    drift = dynamics.drift({"theta": jnp.ones(2), "r": jnp.ones(2)})
    ```
    """

    hamiltonian: Callable[..., Any]
    D: Field
    Q: Field
    temperature: Array

    def __init__(
        self,
        hamiltonian: Callable[..., Any],
        D: FieldLike | None = None,
        Q: FieldLike | None = None,
        temperature: Number = 1.0,
    ) -> None:
        if not callable(hamiltonian):
            raise TypeError(f"the Hamiltonian must be a function, not {type(hamiltonian).__name__}.")
        self.hamiltonian = hamiltonian
        self.D = _as_field(D, fields.symmetric)
        self.Q = _as_field(Q, fields.skew)
        self.temperature = as_arrays(temperature)
        if isinstance(self.Q, fields.Scalar | fields.Diagonal | fields.Elementwise | fields.Gram):
            raise ValueError(
                f"Q must be skew, and a field of kind {type(self.Q).__name__} is not. Declare one triangle, "
                "as in Q={('r', 'theta'): 1.0} or fk.fields.Skew(…). Friction belongs to D."
            )
        check_temperature(self.temperature)

    def gradient(self, z: State, gradient: PyTree[Array] | None = None) -> State:
        """∇H(z), with ∇U replaced by `gradient` unless it is None."""
        return hamiltonian_gradient(self.hamiltonian, z, gradient)

    def drift(self, z: State, gradient: PyTree[Array] | None = None, probe: State | None = None) -> State:
        """f(z). `gradient` replaces ∇U by an estimate; `probe` replaces Γ by its unbiased estimate."""
        dH = self.gradient(z, gradient)
        f = jax.tree.map(lambda d, q: -(d + q), self.D.mv(z, dH), self.Q.mv(z, dH))
        if not (self.D.varies_with(z, None) or self.Q.varies_with(z, None)):
            return f
        T = self.temperature
        return jax.tree.map(lambda a, g: a + T.astype(a.dtype) * g, f, self.gamma(z, probe))

    def gamma(self, z: State, probe: State | None = None) -> State:
        """Γ(z), exact, or estimated by one Jacobian-vector product along `probe` if that is cheaper."""
        return jax.tree.map(jnp.add, self.D.divergence(z, probe=probe), self.Q.divergence(z, probe=probe))

    def diffusion(self, z: State) -> Array:
        """T D(z) as a matrix, with theta first and the other variables in alphabetical order."""
        return self.temperature * self.D.as_matrix(z)

    def noise_like(self, z: State, noise_estimate: Field | None = None) -> PyTree[Any]:
        """Shapes of the unit noise that `noise` takes."""
        return noise_like(self.D, noise_estimate, z)

    def noise(
        self, z: State, w: PyTree[Array], step_size: Number = 0.0, noise_estimate: Field | None = None
    ) -> tuple[State, Array]:
        r"""√(2 T D - ε B̂) w, and the smallest entry or eigenvalue of 2 T D - ε B̂ if it is below zero, else 0.

        `noise_estimate` is B̂, an estimate of the covariance of the drift's minibatch noise
        (D + Q)[N(0, V), 0] (Ma et al. 2015, Eq. 9). If 2TD - εB̂ is not positive semidefinite, the
        minibatch noise is already too large in some directions. No noise is added there, and the second
        result is negative, for the caller to report.
        """
        twice_T = 2 * self.temperature
        if noise_estimate is None:
            root = jnp.sqrt(twice_T)
            return jax.tree.map(lambda x: root.astype(x.dtype) * x, self.D.sqrt_mv(z, w)), jnp.zeros(())
        return reduced_noise(twice_T * self.D, step_size * noise_estimate, z, w)

    def drift_noise(self, z: State, V: Field) -> Field:
        r"""B̂ = A V Aᵀ, with A the columns of D + Q over theta: noise of the drift for gradient noise V.

        It is a diagonal field if A and V are diagonal, as for the samplers with one noisy variable.
        """
        position = self.hamiltonian.position if isinstance(self.hamiltonian, Hamiltonian) else "theta"
        diagonal = self._diagonal_drift_noise(z, V, position)
        if diagonal is not None:
            return diagonal
        start = 0
        for name in variable_names(z):
            if name == position:
                break
            start += dimension(z[name])
        columns = (self.D.as_matrix(z) + self.Q.as_matrix(z))[:, start : start + dimension(z[position])]
        return fields.Dense(columns @ V.as_matrix(z, position, position) @ columns.T)

    def _diagonal_drift_noise(self, z: State, V: Field, position: str) -> Field | None:
        entries = V.diagonal(z, position)
        rows: dict[str, list[PyTree[Array]]] = {}
        for field in (self.D, self.Q):
            if not isinstance(field, Blocks | fields.Zero):
                return None
            for (row, column), block in field.blocks.items() if isinstance(field, Blocks) else ():
                if column == position:
                    rows.setdefault(row, []).append(block.diagonal(z, row))
        if entries is None or len(rows) != 1 or any(a is None for a in next(iter(rows.values()))):
            return None
        ((row, terms),) = rows.items()
        a = jax.tree.map(lambda *xs: sum(xs[1:], start=xs[0]), *terms)
        return fields.symmetric(
            {(row, row): fields.Diagonal(jax.tree.map(lambda x, v: x**2 * v, a, entries))}
        )

    def validate(self, z: State, matrices: bool = True) -> None:
        """Raise if the Hamiltonian or a field does not fit the state `z`.

        With `matrices`, also raise if D is not symmetric positive semidefinite or Q is not skew at `z`.
        """
        validate_state(z)
        check_hamiltonian(self.hamiltonian, z)
        for name, field in (("D", self.D), ("Q", self.Q)):
            check_field(field, z, name)
        if matrices:
            check_semidefinite(self.D, z, "D")
            check_skew(self.Q, z, "Q")


def _as_field(value: FieldLike | None, of_blocks: Callable[[Mapping[Any, Any]], Blocks]) -> Field:
    if value is None:
        return fields.Zero()
    return of_blocks(value) if isinstance(value, Mapping) else fields.as_field(value)
