"""Momenta of trajectories: left to the dynamics, or drawn from exp(-H/T) given theta, in whole or in part."""

from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from fokker._core.module import Module
from fokker._core.state import State, ravel, unravel
from fokker.dynamics import SDE, Dynamics
from fokker.dynamics.hamiltonian import hamiltonian_gradient
from fokker.integrators._gradient import no_force
from fokker.integrators._proposal import places_around, temperature_of

# Up to this many coordinates the inverse mass is written out as a matrix; above, it has to be diagonal.
_WRITTEN_OUT = 512


class OwnMomentum(Module):
    """The momentum is left to the dynamics, or there is none."""

    is_drawn: ClassVar[bool] = False
    is_stored: ClassVar[bool] = True

    def refreshed(self, z: State, new: PyTree[Array]) -> PyTree[Array]:
        """The momentum of the state."""
        return z["r"]


class NewMomentum(Module):
    """A new momentum for every trajectory: it is no part of the state between them."""

    is_drawn: ClassVar[bool] = True
    is_stored: ClassVar[bool] = False

    def refreshed(self, z: State, new: PyTree[Array]) -> PyTree[Array]:
        """The new one."""
        return new


class PartialMomentum(Module):
    """r ← κr + √(1-κ²)w with κ the persistence."""

    persistence: Any

    is_drawn: ClassVar[bool] = True
    is_stored: ClassVar[bool] = True

    def refreshed(self, z: State, new: PyTree[Array]) -> PyTree[Array]:
        """A share of the old one and of the new one."""
        share = self.persistence.astype(new.dtype)
        return share * z["r"] + jnp.sqrt(1 - share**2) * new


Momentum = OwnMomentum | NewMomentum | PartialMomentum


def momentum_of(dynamics: Dynamics | SDE, z: State, noise: Array) -> PyTree[Array]:
    """r ~ N(0, T M(θ)) from standard normal noise, with M⁻¹ = ∂²H/∂r²."""
    velocity, zero = _velocity(dynamics, z), jnp.zeros_like(noise)
    if noise.size <= _WRITTEN_OUT:
        L = jnp.linalg.cholesky(jax.jacfwd(velocity)(zero))
        r = jax.scipy.linalg.solve_triangular(L, noise, lower=True, trans=1)
    else:
        r = noise / jnp.sqrt(jax.jvp(velocity, (zero,), (jnp.ones_like(noise),))[1])
    return unravel(jnp.sqrt(jnp.asarray(temperature_of(dynamics), noise.dtype)) * r, z["r"])


def check_kinetic(dynamics: Dynamics | SDE, z: State) -> None:
    """Raise unless ∂H/∂r = M⁻¹r with M positive definite, as far as one random r at three places tells."""
    size = ravel(z["r"]).size
    for place in places_around(z):
        right = _is_quadratic(dynamics, place)
        if isinstance(right, jax.core.Tracer) or bool(right):
            continue
        raise ValueError(
            "a trajectory of Hamiltonian dynamics (D = 0) starts with a new momentum, drawn from a kinetic "
            "energy rᵀM⁻¹r/2 with M positive definite"
            + ("" if size <= _WRITTEN_OUT else f" and, beyond {_WRITTEN_OUT} coordinates, diagonal")
            + "; this H has another. Give the dynamics friction and noise on r, and use "
            "fk.integrators.Splitting()."
        )


def _is_quadratic(dynamics: Dynamics | SDE, z: State) -> Array:
    velocity = _velocity(dynamics, z)
    like = ravel(z["r"])
    r = jnp.asarray(np.random.default_rng(0).normal(size=like.shape), like.dtype)
    zero = jnp.zeros_like(r)
    if r.size <= _WRITTEN_OUT:
        inverse = jax.jacfwd(velocity)(zero)
        expected, least = inverse @ r, jnp.linalg.eigvalsh((inverse + inverse.T) / 2)[0]
    else:
        diagonal = jax.jvp(velocity, (zero,), (jnp.ones_like(r),))[1]
        expected, least = diagonal * r, jnp.min(diagonal)
    close = jnp.abs(velocity(r) - expected) <= 1e-3 * (1e-6 + jnp.max(jnp.abs(expected)))
    # A place outside the support is no evidence.
    return (jnp.all(close) & (least > 0)) | ~jnp.all(jnp.isfinite(expected))


def _velocity(dynamics: Dynamics | SDE, z: State) -> Callable[[Array], Array]:
    """∂H/∂r as a function of r, both as vectors."""

    def velocity(r: Array) -> Array:
        at = {**z, "r": unravel(r, z["r"])}
        return ravel(hamiltonian_gradient(dynamics.hamiltonian, at, no_force(dynamics, at))["r"])

    return velocity
