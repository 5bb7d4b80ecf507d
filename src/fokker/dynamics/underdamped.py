"""Hamiltonian and underdamped Langevin dynamics: HMC, ULMC and SGHMC."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from fokker._core.state import as_arrays, describe_shapes, same_shapes
from fokker.dynamics._dynamics import Dynamics
from fokker.dynamics._kinetic import half_square
from fokker.dynamics.hamiltonian import Hamiltonian

_DENSE_MASS = "For a dense mass matrix define H = U + rᵀM⁻¹r/2 in a fk.Dynamics."


def hamiltonian_flow(potential: Callable[..., Any], mass: Any = 1.0) -> Dynamics:
    r"""dθ = M⁻¹r dt, dr = -∇U dt: H = U + rᵀM⁻¹r/2, D = 0, Q = [[0, -I], [I, 0]].

    exp(-H) is stationary, but the dynamics are not ergodic: HMC resamples the momentum between trajectories.
    """
    return Dynamics(_with_momentum(potential, mass), Q={("r", "theta"): 1.0})


def underdamped(
    potential: Callable[..., Any], friction: Any = 1.0, mass: Any = 1.0, temperature: Any = 1.0
) -> Dynamics:
    r"""dθ = M⁻¹r dt, dr = [-∇U - C M⁻¹r] dt + √(2TC) dW: H and Q as above, D = diag(0, C).

    SGHMC (Chen et al. 2014; Ma et al. 2015, Eq. 12) and underdamped Langevin Monte Carlo. `friction` is C: a
    number, a matrix or a field; `mass` is M: a number, or a tree of masses in the structure of theta.
    """
    return Dynamics(
        _with_momentum(potential, mass),
        D={("r", "r"): friction},
        Q={("r", "theta"): 1.0},
        temperature=temperature,
    )


def _with_momentum(potential: Callable[..., Any], mass: Any) -> Hamiltonian:
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
