"""The Hamiltonian H(z) = U(theta) + g(z), whose ∇U can be replaced by an estimate."""

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fokker._core.module import Module
from fokker._core.required import require
from fokker._core.state import (
    State,
    arguments_of,
    call,
    describe_shapes,
    same_shapes,
    variable_names,
    zeros_like,
)
from fokker._core.tracing import TRACING_ERRORS, untraceable


class Hamiltonian(Module):
    r"""H(z) = U(theta) + g(z), where exp(-U) is the target and g is the energy of the auxiliary variables.

    Because the two are separate, a minibatch gradient ∇Ũ can replace ∇U (Ma et al. 2015, Eq. 7 to 9), and
    `fokker.check` can test that ∫ exp(-g) over the auxiliaries is the same for every theta. Otherwise the
    marginal of theta is not exp(-U) (their Eq. 1).

    Arguments:

    - `potential`: U, a function of the position.
    - `auxiliary`: g, a function of named variables or of the whole state; None for none.
    - `position`: the name of the variable of the target.

    ```python
    H = fk.Hamiltonian(lambda theta: jnp.sum(theta**2) / 2, auxiliary=lambda r: jnp.sum(r**2) / 2)
    value = H({"theta": jnp.ones(2), "r": jnp.ones(2)})
    ```
    """

    potential: Callable[[PyTree[Array]], Array]
    auxiliary: Callable[..., Array] | None = None
    position: str = eqx.field(static=True, default="theta")

    def __call__(self, z: State) -> Array:
        """H(z)."""
        return self.value(z, self.potential(self.position_of(z)))

    def value(self, z: State, total: Array) -> Array:
        """H(z), where U is known."""
        return total if self.auxiliary is None else total + call(self.auxiliary, z, "the auxiliary part of H")

    def position_of(self, z: State) -> PyTree[Array]:
        """The target's variable in `z`."""
        if not isinstance(z, Mapping):
            raise ValueError(
                f"the Hamiltonian is a function of the variable {self.position!r}, but the state has no "
                f"names: it is not a dictionary. Give {{{self.position!r}: …}}."
            )
        if self.position not in z:
            names = variable_names(z)
            raise ValueError(
                f"the Hamiltonian is a function of the variable {self.position!r}, but the variables of the "
                f"state are {', '.join(names)}: rename one of them."
            )
        return z[self.position]

    def gradient(self, z: State, potential_gradient: PyTree[Array] | None = None) -> State:
        """∇H(z), with ∇U replaced by `potential_gradient` unless it is None."""
        if potential_gradient is None:
            return jax.grad(self.__call__)(z)
        theta = self.position_of(z)
        if not same_shapes(potential_gradient, theta):
            raise ValueError(
                f"the gradient of the potential has shapes {describe_shapes(potential_gradient)}, but "
                f"{self.position!r} has {describe_shapes(theta)}."
            )
        auxiliary = self.auxiliary
        if auxiliary is None:
            return {name: potential_gradient if name == self.position else zeros_like(z[name]) for name in z}
        rest = jax.grad(lambda state: call(auxiliary, state, "the auxiliary part of H"))(z)
        return {**rest, self.position: jax.tree.map(jnp.add, rest[self.position], potential_gradient)}


def hamiltonian_value(hamiltonian: Callable[..., Any], z: State) -> Array:
    """H(z) for a `Hamiltonian`, or for a function of the whole state or of named variables."""
    if isinstance(hamiltonian, Hamiltonian):
        return hamiltonian(z)
    return jnp.asarray(call(hamiltonian, z, "the Hamiltonian"))


def hamiltonian_gradient(
    hamiltonian: Callable[..., Any], z: State, potential_gradient: PyTree[Array] | None = None
) -> State:
    """∇H(z), with ∇U replaced by `potential_gradient` unless it is None."""
    if isinstance(hamiltonian, Hamiltonian):
        return hamiltonian.gradient(z, potential_gradient)
    if potential_gradient is not None:
        raise TypeError(
            "the gradient of the potential can be replaced only if the Hamiltonian has the potential as a "
            "separate part: write hamiltonian=fk.Hamiltonian(potential=U, auxiliary=g), not one function."
        )
    return jax.grad(lambda state: hamiltonian_value(hamiltonian, state))(z)


def check_hamiltonian(hamiltonian: Callable[..., Any], z: State) -> None:
    """Raise unless H is one finite number at `z`."""
    try:
        shape = jax.eval_shape(lambda state: hamiltonian_value(hamiltonian, state), z)
    except TRACING_ERRORS as error:
        raise untraceable("the Hamiltonian", error) from error
    if getattr(shape, "shape", None) != ():
        raise ValueError(
            f"the Hamiltonian must return one number; it returns {describe_shapes(shape)}. "
            "Sum over the coordinates, as in jnp.sum(…)."
        )
    if not jnp.issubdtype(shape.dtype, jnp.floating):
        raise ValueError(f"the Hamiltonian must return a real number, not one of type {shape.dtype}.")
    value = hamiltonian_value(hamiltonian, z)
    require(
        jnp.isfinite(value),
        lambda value, z: ValueError(
            f"the Hamiltonian is {float(value)} at this state; start inside the support of the target. "
            f"The state: {z}"
        ),
        value,
        z,
    )


def argument_names(hamiltonian: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a Hamiltonian's arguments; () if it is a function of the whole state."""
    if isinstance(hamiltonian, Hamiltonian):
        auxiliary = () if hamiltonian.auxiliary is None else argument_names(hamiltonian.auxiliary)
        return (hamiltonian.position, *(name for name in auxiliary if name != hamiltonian.position))
    arguments = arguments_of(hamiltonian)
    return () if arguments is None else tuple(arguments[0])
