"""Stochastic gradient Hamiltonian Monte Carlo."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from fokker._core.state import same_shapes
from fokker.dynamics import SDE, underdamped
from fokker.dynamics._kinetic import half_square
from fokker.dynamics.hamiltonian import Hamiltonian
from fokker.fields import symmetric
from fokker.integrators import Integrator, SymplecticEuler
from fokker.samplers import _auxiliaries
from fokker.samplers.recipe import Family, Recipe, of_family, on_variable, shared


def sghmc(
    step_size: Any,
    friction: Any = 1.0,
    mass: Any = 1.0,
    *,
    mass_matrix: Any = None,
    integrator: Integrator | None = None,
    noise_estimate: Any = None,
    noise: str = "gaussian",
    resample: int | None = None,
) -> Recipe:
    r"""r' = r - ε∇Ũ - εCM⁻¹r + N(0, ε(2TC - εB̂)), θ' = θ + εM⁻¹r' (Chen, Fox, Guestrin 2014).

        H = U + rᵀM⁻¹r/2,  D = diag(0, C),  Q = [[0, -I], [I, 0]]

    Keeps exp(-U/T). The symplectic Euler step has bias of order ε; `integrator=fk.integrators.Splitting()`
    has order ε² for the same single gradient. B̂ is the variance of ∇Ũ, given or estimated while sampling
    ("scalar", "diagonal", "dense"). `resample`: steps after which a new momentum is drawn. `friction` is C,
    `mass` is M. `mass_matrix`: an array, or what another sampler has learned (`trace.sampler.mass_matrix` of
    `nuts`); the dynamics then move q of θ = θ₀ + S q, SSᵀ its inverse, and C acts on the momentum of q.
    """
    if mass_matrix is not None and not (same_shapes(mass, 0.0) and float(mass) == 1):
        raise ValueError("give mass, the M of H, or mass_matrix, coordinates for unit masses, but not both.")
    estimate = on_variable("r", noise_estimate)
    return of_family(
        _underdamped(friction, mass),
        step_size,
        integrator or SymplecticEuler(),
        estimate,
        noise,
        resample,
        mass_matrix,
    )


@shared
def _underdamped(friction: Any, mass: Any) -> Family:
    return Family(
        "underdamped",
        lambda potential, T: underdamped(potential, friction, mass, T),
        lambda key, theta, T: _scaled_momentum(key, theta, T, mass),
    )


def naive_sghmc(step_size: Any) -> Recipe:
    r"""WRONG on purpose: θ' = θ + εr, r' = r - ε∇Ũ, with the gradient's noise and no friction against it.

    Ma et al. (2015), Eq. 11. With minibatches the energy grows without bound.
    """

    def dynamics(potential: Any, T: Any) -> SDE:
        return SDE(
            lambda theta, r, gradient: {"theta": r, "r": jax.tree.map(lambda g: -g, gradient)},
            symmetric({("r", "r"): 0.0}),
            Hamiltonian(potential, lambda r: half_square(r)),
        )

    return of_family(Family("naive Hamiltonian", dynamics, _auxiliaries.momentum), step_size)


def _scaled_momentum(
    key: Key[Array, ""], theta: PyTree[Array], temperature: Any, mass: Any
) -> dict[str, PyTree[Array]]:
    drawn = _auxiliaries.momentum(key, theta, temperature)["r"]
    if same_shapes(mass, 0.0):
        masses = jax.tree.map(lambda x: mass, drawn)
    elif same_shapes(mass, drawn):
        masses = mass
    else:
        return {"r": drawn}  # the dynamics refuse this mass, with a message
    return {"r": jax.tree.map(lambda x, m: x * jnp.sqrt(m).astype(x.dtype), drawn, masses)}
