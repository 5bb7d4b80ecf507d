"""Dynamics from any drift and diffusion, as printed in a paper."""

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from fokker import fields
from fokker._core.module import Module
from fokker._core.state import (
    State,
    arguments_of,
    as_arrays,
    call,
    describe_shapes,
    dimension,
    is_leaf,
    same_shapes,
    variable_names,
)
from fokker._core.tracing import TRACING_ERRORS, check_real, untraceable
from fokker._core.types import Number
from fokker.dynamics._checks import check_field, validate_state
from fokker.dynamics._noise import noise_like, reduced_noise
from fokker.dynamics.hamiltonian import Hamiltonian, argument_names, check_hamiltonian
from fokker.fields import Field, FieldLike


class SDE(Module):
    r"""Dynamics dz = f(z) dt + √(2D(z)) dW with any drift and diffusion, correct or not.

    `drift` and `diffusion` are functions of named variables or of the whole state. The drift returns the
    structure of the state; the diffusion is a field, a matrix, a diagonal in the structure of the state, or
    one number. `hamiltonian` defines the intended stationary density exp(-H); `fokker.check` tests whether it
    is stationary. `state` is an example of the state, for its shapes. The rows of a matrix are in the order
    of its variables, or of the Hamiltonian's arguments. A drift with an argument `gradient` receives ∇U, or
    its estimate from a minibatch.

    Arguments:

    - `drift`: f: a function of named variables or of the whole state.
    - `diffusion`: D: a field, a matrix, a diagonal or a number, or a function that returns one.
    - `hamiltonian`: H of the density exp(-H) that is meant.
    - `state`: an example of a state, for its shapes; None where they are known otherwise.

    ```python
    sde = fk.SDE(lambda theta: -theta, 1.0, lambda theta: jnp.sum(theta**2) / 2)
    drift = sde.drift({"theta": jnp.ones(2)})
    ```
    """

    drift_function: Callable[..., Any]
    diffusion_argument: Any
    hamiltonian: Callable[..., Any]
    state: State | None
    variables: tuple[str, ...] = eqx.field(static=True)

    def __init__(
        self,
        drift: Callable[..., Any],
        diffusion: FieldLike,
        hamiltonian: Callable[..., Any],
        state: State | None = None,
    ) -> None:
        for name, function in (("drift", drift), ("hamiltonian", hamiltonian)):
            if not callable(function):
                raise TypeError(f"the {name} must be a function, not {type(function).__name__}.")
        self.drift_function = drift
        self.diffusion_argument = diffusion
        self.hamiltonian = hamiltonian
        # Read before as_arrays, because JAX sorts the keys of a dictionary that it rebuilds.
        self.variables = tuple(state) if isinstance(state, Mapping) else argument_names(hamiltonian)
        self.state = None if state is None else as_arrays(state)

    def drift(self, z: State, gradient: PyTree[Array] | None = None, probe: State | None = None) -> State:
        """f(z). A drift function with an argument `gradient` receives ∇U, or its estimate `gradient`."""
        f = call(self.drift_function, self._with_gradient(z, gradient), "the drift")
        if isinstance(z, Mapping) and not isinstance(f, Mapping):
            # A tuple has one entry per variable; for a single variable the tuple may be omitted.
            entries = f if isinstance(f, tuple | list) else (f,)
            if len(entries) == len(z):
                f = dict(zip(self.order(z), entries, strict=True))
        f = as_arrays(f)
        if not same_shapes(f, z):
            raise ValueError(
                f"the drift returns the structure {describe_shapes(f)}, but the state has "
                f"{describe_shapes(z)}. Return one entry per variable, in the structure of the state."
            )
        return f

    def _with_gradient(self, z: State, gradient: PyTree[Array] | None) -> State:
        arguments = arguments_of(self.drift_function)
        if arguments is None or "gradient" not in arguments[0]:
            if gradient is not None:
                raise TypeError(
                    "this drift has no gradient to replace: write it with an argument `gradient`, as in "
                    "`lambda theta, r, gradient: …`, or use fk.Dynamics."
                )
            return z
        if not isinstance(self.hamiltonian, Hamiltonian):
            raise TypeError(
                "a drift with an argument `gradient` needs hamiltonian=fk.Hamiltonian(potential, …)."
            )
        if gradient is None:
            gradient = jax.grad(self.hamiltonian.potential)(self.hamiltonian.position_of(z))
        return {**z, "gradient": gradient}

    def order(self, z: State) -> tuple[str, ...]:
        """The order of the variables in a matrix or tuple: that of the example state, else the library's."""
        return self.variables if set(self.variables) == set(variable_names(z)) else variable_names(z)

    def D_field(self, z: State) -> Field:
        """The diffusion as a field."""
        return diffusion_field(self.diffusion_argument, z, self.order(z))

    def diffusion(self, z: State) -> Array:
        """D(z) as a matrix."""
        return self.D_field(z).as_matrix(z)

    def noise_like(self, z: State, noise_estimate: Field | None = None) -> PyTree[Any]:
        """Shapes of the unit noise that `noise` takes."""
        return noise_like(self.D_field(z), noise_estimate, z)

    def noise(
        self, z: State, w: PyTree[Array], step_size: Number = 0.0, noise_estimate: Field | None = None
    ) -> tuple[State, Array]:
        """√(2D - εB̂) w, as in `Dynamics.noise`."""
        D = self.D_field(z)
        if noise_estimate is None:
            return jax.tree.map(lambda x: jnp.sqrt(2.0).astype(x.dtype) * x, D.sqrt_mv(z, w)), jnp.zeros(())
        return reduced_noise(2.0 * D, step_size * noise_estimate, z, w)

    def validate(self, z: State, matrices: bool = True) -> None:
        """Raise if the drift, the diffusion or the Hamiltonian does not fit the state `z`."""
        validate_state(z)
        check_hamiltonian(self.hamiltonian, z)
        try:
            check_real("the drift", jax.eval_shape(self.drift, z))
        except TRACING_ERRORS as error:
            raise untraceable("the drift", error) from error
        check_field(self.D_field(z), z, "the diffusion")


def diffusion_field(diffusion: FieldLike, z: State, order: tuple[str, ...]) -> Field:
    """A field from a field, blocks, a matrix, a diagonal, a number, or a function that returns one."""
    if isinstance(diffusion, Field):
        return diffusion
    if isinstance(diffusion, Mapping) and diffusion and all(isinstance(key, tuple) for key in diffusion):
        return fields.symmetric(diffusion)

    def value(state: State) -> Any:
        return call(diffusion, state, "the diffusion") if callable(diffusion) else as_arrays(diffusion)

    try:
        shape = jax.eval_shape(value, z)
    except TRACING_ERRORS as error:
        raise untraceable("the diffusion", error) from error
    check_real("the diffusion", shape)
    d = dimension(z)
    is_array = is_leaf(shape)
    if is_array and shape.shape == (d, d):
        rows = _row_order(z, order)
        if not callable(diffusion):
            return fields.Dense(value(z)[rows][:, rows])
        return fields.Dense(lambda *z: value(z[0])[rows][:, rows])
    if same_shapes(shape, z):
        return fields.Diagonal(diffusion)
    if is_array and shape.shape == ():
        return fields.Scalar(diffusion)
    raise ValueError(
        f"the diffusion has shapes {describe_shapes(shape)}; for a state of {describe_shapes(z)} give a "
        f"matrix of shape ({d}, {d}), a diagonal in the structure of the state, or one number."
    )


def _row_order(z: State, order: tuple[str, ...]) -> np.ndarray:
    """The positions, in a matrix in the given order, of the rows of a matrix in the library's order.

    This uses NumPy, because traced programs build the diffusion again.
    """
    if not order:
        return np.arange(dimension(z))
    sizes = [dimension(z[name]) for name in order]
    starts = dict(zip(order, np.cumsum([0, *sizes]), strict=False))
    return np.concatenate([starts[name] + np.arange(dimension(z[name])) for name in variable_names(z)])
