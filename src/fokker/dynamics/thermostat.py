"""Nosé–Hoover thermostats: SGNHT with a scalar, diagonal or full friction matrix."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fokker._core.state import State, as_arrays, dimension, same_shapes
from fokker._core.types import Number
from fokker.dynamics._checks import check_temperature
from fokker.dynamics._dynamics import Dynamics
from fokker.dynamics._kinetic import half_square
from fokker.dynamics.hamiltonian import Hamiltonian
from fokker.fields import Column, Elementwise, Field, Operator


def thermostat(
    potential: Callable[..., Any], A: PyTree[Array] = 1.0, mu: PyTree[Array] = 1.0, temperature: Number = 1.0
) -> Dynamics:
    r"""dθ = r dt, dr = [-∇U - ξr] dt + √(2TA) dW, dξ = (rᵀr/(dT) - 1)/μ dt, with ξ a number.

        H = U + rᵀr/2 + (μTd/2)(ξ - A)²,  D = diag(0, A·I, 0),
        Q = [[0, -I, 0], [I, 0, r/(μTd)], [0, -rᵀ/(μTd), 0]]

    SGNHT (Ding et al. 2014) with μ = T = 1. μ is the thermostat's inertia: it should be of the order of the
    squared time scale of theta, 1/curvature of U. With the factor T next to μ, the same A, μ and step size
    work at every temperature: θ/√T, r/√T and ξ of the target exp(-U(θ)/T) move as they do at
    T = 1 under the potential U(√T θ)/T. The weight d/2 is correct; Ma et al. (2015) print 2/d and 1/(2d).

    Arguments:

    - `potential`: U, a function of theta that returns a number.
    - `A`: the noise that is injected: a number.
    - `mu`: μ, the inertia of the thermostat, a positive number.
    - `temperature`: T, above zero.

    Returns a `fk.Dynamics` of `theta`, `r` and `xi`, one ξ.

    ```python
    potential = lambda theta: jnp.sum(theta**2) / 2
    dynamics = fk.dynamics.thermostat(potential)
    drift = dynamics.drift({"theta": jnp.ones(2), "r": jnp.ones(2), "xi": jnp.ones(())})
    ```
    """

    inertia = _inertia(A, mu, temperature)

    def auxiliary(r: PyTree[Array], xi: Array) -> Array:
        return half_square(r) + inertia * float(dimension(r)) / 2 * jnp.sum((xi - A) ** 2)

    def per_dimension(r: PyTree[Array]) -> PyTree[Array]:
        d = float(dimension(r))
        return jax.tree.map(lambda x: x / (inertia * d), r)

    return Dynamics(
        Hamiltonian(potential, auxiliary),
        D={("r", "r"): A},
        Q={("r", "theta"): 1.0, ("r", "xi"): Column(per_dimension, elementwise=True)},
        temperature=temperature,
    )


def diagonal_thermostat(
    potential: Callable[..., Any], A: PyTree[Array] = 1.0, mu: PyTree[Array] = 1.0, temperature: Number = 1.0
) -> Dynamics:
    r"""One thermostat per coordinate: dr = [-∇U - ξ⊙r] dt + √(2TA) dW, dξ = (r⊙r/T - 1)/μ dt.

    H = U + rᵀr/2 + (μT/2)‖ξ - A‖² and Q[r, ξ] = diag(r)/(μT): the diagonal case of Ding et al. (2014), 4.2.

    Arguments:

    - `potential`: U, a function of theta that returns a number.
    - `A`: the noise that is injected: a number, or a tree like theta.
    - `mu`: μ, the inertia of the thermostat, a positive number.
    - `temperature`: T, above zero.

    Returns a `fk.Dynamics` of `theta`, `r` and `xi`, one ξ per coordinate.

    ```python
    potential = lambda theta: jnp.sum(theta**2) / 2
    dynamics = fk.dynamics.diagonal_thermostat(potential)
    drift = dynamics.drift({"theta": jnp.ones(2), "r": jnp.ones(2), "xi": jnp.ones(2)})
    ```
    """

    inertia = _inertia(A, mu, temperature)

    def auxiliary(r: PyTree[Array], xi: PyTree[Array]) -> Array:
        return half_square(r) + inertia * half_square(jax.tree.map(lambda x: x - A, xi))

    return Dynamics(
        Hamiltonian(potential, auxiliary),
        D={("r", "r"): A},
        Q={("r", "theta"): 1.0, ("r", "xi"): Elementwise(lambda r: jax.tree.map(lambda x: x / inertia, r))},
        temperature=temperature,
    )


def matrix_thermostat(
    potential: Callable[..., Any], A: PyTree[Array] = 1.0, mu: PyTree[Array] = 1.0, temperature: Number = 1.0
) -> Dynamics:
    r"""A full friction matrix Ξ: dr = [-∇U - Ξr] dt + √(2TA) dW, dΞ = (rrᵀ/T - I)/μ dt, with r a vector.

    H = U + rᵀr/2 + (μT/2)‖Ξ - A·I‖² and Q[r, Ξ] V = V r/(μT) (Ding et al. 2014, section 4.2). `xi` is d×d.

    Arguments:

    - `potential`: U, a function of theta that returns a number.
    - `A`: the noise that is injected: a number.
    - `mu`: μ, the inertia of the thermostat, a positive number.
    - `temperature`: T, above zero.

    Returns a `fk.Dynamics` of `theta`, `r` and `xi`, a matrix ξ.

    ```python
    potential = lambda theta: jnp.sum(theta**2) / 2
    dynamics = fk.dynamics.matrix_thermostat(potential)
    drift = dynamics.drift({"theta": jnp.ones(2), "r": jnp.ones(2), "xi": jnp.eye(2)})
    ```
    """

    inertia = _inertia(A, mu, temperature)

    def auxiliary(r: Array, xi: Array) -> Array:
        return half_square(r) + inertia * half_square(xi - A * jnp.eye(r.size, dtype=xi.dtype))

    def product(z: State, v: Array) -> Array:
        return v @ z["r"] / inertia

    return Dynamics(
        Hamiltonian(potential, auxiliary),
        D={("r", "r"): A},
        Q={("r", "theta"): 1.0, ("r", "xi"): Operator(product)},
        temperature=temperature,
    )


def _inertia(A: PyTree[Array], mu: PyTree[Array], temperature: Number) -> Any:
    """μT. Raise unless T > 0 and A and μ are numbers: H and D would interpret an array A differently."""
    for name, value in {"A": A, "mu": mu}.items():
        if callable(value) or isinstance(value, Field) or not same_shapes(value, 0.0):
            raise TypeError(
                f"{name} of a thermostat must be one number, not {type(value).__name__}; for structured "
                "friction define H, D and Q in a fk.Dynamics."
            )
    check_temperature(as_arrays(temperature))
    if not isinstance(temperature, jax.core.Tracer) and float(temperature) == 0:
        raise ValueError(
            "a thermostat needs a temperature above zero; 0 was given. "
            "To cool to zero use fk.dynamics.underdamped (fk.samplers.sghmc)."
        )
    return mu * temperature
