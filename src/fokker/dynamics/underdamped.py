"""Hamiltonian and underdamped Langevin dynamics: HMC, ULMC and SGHMC."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from fokker._core.state import as_arrays, describe_shapes, same_shapes
from fokker._core.types import Number
from fokker.dynamics._dynamics import Dynamics
from fokker.dynamics._kinetic import half_square
from fokker.dynamics.hamiltonian import Hamiltonian
from fokker.fields import FieldLike

_DENSE_MASS = "For a dense mass matrix define H = U + rᵀM⁻¹r/2 in a fk.Dynamics."


def hamiltonian_flow(potential: Callable[..., Any], mass: PyTree[Array] = 1.0) -> Dynamics:
    r"""dθ = M⁻¹r dt, dr = -∇U dt: H = U + rᵀM⁻¹r/2, D = 0, Q = [[0, -I], [I, 0]].

    exp(-H) is stationary, but the dynamics are not ergodic: HMC resamples the momentum between trajectories.

    Arguments:

    - `potential`: U, a function of theta that returns a number.
    - `mass`: M: a number, or a tree like theta.

    Returns a `fk.Dynamics` of `theta` and `r`.

    ```python
    potential = lambda theta: jnp.sum(theta**2) / 2
    dynamics = fk.dynamics.hamiltonian_flow(potential)
    drift = dynamics.drift({"theta": jnp.ones(2), "r": jnp.ones(2)})
    ```
    """
    return Dynamics(_with_momentum(potential, mass), Q={("r", "theta"): 1.0})


def underdamped(
    potential: Callable[..., Any],
    friction: FieldLike = 1.0,
    mass: PyTree[Array] = 1.0,
    temperature: Number = 1.0,
) -> Dynamics:
    r"""dθ = M⁻¹r dt, dr = [-∇U - C M⁻¹r] dt + √(2TC) dW: H and Q as above, D = diag(0, C).

    SGHMC (Chen et al. 2014; Ma et al. 2015, Eq. 12) and underdamped Langevin Monte Carlo.

    Arguments:

    - `potential`: U, a function of theta that returns a number.
    - `friction`: C: a number, a matrix, or a field of `fk.fields`.
    - `mass`: M: a number, or a tree like theta.
    - `temperature`: T.

    Returns a `fk.Dynamics` of `theta` and `r`.

    ```python
    potential = lambda theta: jnp.sum(theta**2) / 2
    dynamics = fk.dynamics.underdamped(potential, friction=2.0)
    drift = dynamics.drift({"theta": jnp.ones(2), "r": jnp.ones(2)})
    ```
    """
    return Dynamics(
        _with_momentum(potential, mass),
        D={("r", "r"): friction},
        Q={("r", "theta"): 1.0},
        temperature=temperature,
    )


def _with_momentum(potential: Callable[..., Any], mass: PyTree[Array]) -> Hamiltonian:
    mass = as_arrays(mass)
    for m in jax.tree.leaves(mass):
        if not isinstance(m, jax.core.Tracer) and not bool(np.all(np.asarray(m) > 0)):
            raise ValueError(f"the mass must be positive; {mass} was given. {_DENSE_MASS}")

    return Hamiltonian(potential, _Kinetic(mass))


# A class and not a function inside a function: samplers of these dynamics can be pickled.
@dataclass(frozen=True, eq=False)
class _Kinetic:
    """rᵀM⁻¹r/2."""

    mass: PyTree[Array]

    def __call__(self, r: PyTree[Array]) -> Array:
        mass = self.mass
        if same_shapes(mass, 0.0):
            value = half_square(r)
            return value / mass.astype(value.dtype)
        if not same_shapes(mass, r):
            raise ValueError(
                "the mass must be one number, or masses in the structure of the momentum "
                f"{describe_shapes(r)}, not {describe_shapes(mass)}. {_DENSE_MASS}"
            )
        return jax.tree.reduce(
            jnp.add, jax.tree.map(lambda x, m: jnp.sum(x**2 / m.astype(x.dtype)) / 2, r, mass)
        )
