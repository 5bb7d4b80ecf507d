"""Stochastic gradient Hamiltonian Monte Carlo."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from fokker._core.state import same_shapes
from fokker.dynamics import SDE, Dynamics, underdamped
from fokker.dynamics._kinetic import unit_mass
from fokker.dynamics.hamiltonian import Hamiltonian
from fokker.fields import symmetric
from fokker.integrators import Integrator, SymplecticEuler
from fokker.samplers.family import Auxiliaries, Family, Potential, unit_mass_momentum
from fokker.samplers.plain import Plain, on_variable, plain
from fokker.samplers.schedules import StepSize


class Underdamped(Family):
    """H = U + rᵀM⁻¹r/2, D = diag(0, C), Q = [[0, -I], [I, 0]]."""

    friction: Any
    mass: Any

    label = "underdamped"

    def dynamics(self, potential: Potential, temperature: Any) -> Dynamics:
        """dθ = M⁻¹r dt, dr = [-∇U - CM⁻¹r] dt + √(2TC) dW."""
        return underdamped(potential, self.friction, self.mass, temperature)

    def auxiliaries(self, key: Key[Array, ""], theta: PyTree[Array], temperature: Any) -> Auxiliaries:
        """r ~ N(0, TM)."""
        drawn = unit_mass_momentum(key, theta, temperature)["r"]
        if same_shapes(self.mass, 0.0):
            masses = jax.tree.map(lambda x: self.mass, drawn)
        elif same_shapes(self.mass, drawn):
            masses = self.mass
        else:
            return {"r": drawn}  # the dynamics refuse this mass, with a message
        return {"r": jax.tree.map(lambda x, m: x * jnp.sqrt(m).astype(x.dtype), drawn, masses)}


def sghmc(
    step_size: StepSize,
    friction: Any = 1.0,
    mass: Any = 1.0,
    *,
    mass_matrix: Any = None,
    integrator: Integrator | None = None,
    noise_estimate: Any = None,
    noise: str = "gaussian",
    resample: int | None = None,
) -> Plain:
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
    return plain(
        "sghmc",
        Underdamped(friction, mass),
        step_size,
        integrator or SymplecticEuler(),
        estimate,
        noise,
        resample,
        mass_matrix,
    )


class NaiveHamiltonian(Family):
    """Hamiltonian dynamics as an SDE without friction."""

    label = "naive Hamiltonian"

    def dynamics(self, potential: Potential, temperature: Any) -> SDE:
        """dθ = r dt, dr = -∇Ũ dt."""
        return SDE(
            lambda theta, r, gradient: {"theta": r, "r": jax.tree.map(lambda g: -g, gradient)},
            symmetric({("r", "r"): 0.0}),
            Hamiltonian(potential, unit_mass),
        )

    def auxiliaries(self, key: Key[Array, ""], theta: PyTree[Array], temperature: Any) -> Auxiliaries:
        """A momentum of unit mass."""
        return unit_mass_momentum(key, theta, temperature)


def naive_sghmc(step_size: StepSize) -> Plain:
    r"""WRONG on purpose: θ' = θ + εr, r' = r - ε∇Ũ, with the gradient's noise and no friction against it.

    Ma et al. (2015), Eq. 11. With minibatches the energy grows without bound.
    """
    return plain("naive_sghmc", NaiveHamiltonian(), step_size)
