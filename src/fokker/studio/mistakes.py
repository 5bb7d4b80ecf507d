"""Mistakes made on purpose: Γ dropped or with the printed sign, friction forgotten or doubled."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

import fokker as fk

State = dict[str, Array]


def by_name(function: Callable[[State], Any], variables: Sequence[str]) -> Callable[..., Any]:
    """A function of the whole state as one of named arguments, which the library reads from its signature."""
    signatures: dict[tuple[str, ...], Callable[..., Any]] = {
        ("theta",): lambda theta: function({"theta": theta}),
        ("theta", "r"): lambda theta, r: function({"theta": theta, "r": r}),
        ("theta", "r", "xi"): lambda theta, r, xi: function({"theta": theta, "r": r, "xi": xi}),
        ("theta", "gradient"): lambda theta, gradient: function({"theta": theta, "gradient": gradient}),
        ("theta", "r", "gradient"): lambda theta, r, gradient: function(
            {"theta": theta, "r": r, "gradient": gradient}
        ),
        ("theta", "r", "xi", "gradient"): lambda theta, r, xi, gradient: function(
            {"theta": theta, "r": r, "xi": xi, "gradient": gradient}
        ),
    }
    return signatures[tuple(variables)]


def altered(
    dynamics: fk.Dynamics, variables: Sequence[str], *, gamma: float = 1.0, friction: float = 1.0
) -> fk.SDE:
    r"""The dynamics with Γ and the friction D∇H multiplied by numbers: right where both are 1.

        dz = [-(friction·D + Q)∇H + gamma·TΓ] dt + √(2TD) dW

    `gamma=0` drops Γ, `gamma=-1` has the sign that Ma et al. (2015) print in Eq. 6 and 9; `friction=0` has
    noise without the friction that balances it. `variables` are those of the state: theta, r and xi, as far
    as there are. The target is exp(-H/T), with T inside the result's own H and D; a gradient that replaces
    ∇U is to be divided by T as well.
    """
    H, T = dynamics.hamiltonian, float(dynamics.temperature)
    if not isinstance(H, fk.Hamiltonian):
        raise TypeError("the Hamiltonian must be a fk.Hamiltonian, with the potential as a part of its own.")
    rest = None if H.auxiliary is None else fk.Hamiltonian(lambda theta: jnp.zeros(()), H.auxiliary)

    def drift(arguments: State) -> State:
        z = {name: arguments[name] for name in variables}
        dH = dynamics.gradient(z, jax.tree.map(lambda g: T * g, arguments["gradient"]))
        return jax.tree.map(
            lambda d, q, g: -friction * d - q + gamma * T * g,
            dynamics.D.mv(z, dH),
            dynamics.Q.mv(z, dH),
            dynamics.gamma(z),
        )

    return fk.SDE(
        by_name(drift, (*variables, "gradient")),
        dynamics.D if T == 1 else dynamics.D * T,
        fk.Hamiltonian(
            lambda theta: H.potential(theta) / T,
            None if rest is None else by_name(lambda z: rest(z) / T, variables),
        ),
    )
