"""Stochastic gradient Hamiltonian Monte Carlo."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from fokker._core.state import same_shapes
from fokker._core.types import Number
from fokker.dynamics import SDE, Dynamics, underdamped
from fokker.dynamics._kinetic import unit_mass
from fokker.dynamics.hamiltonian import Hamiltonian
from fokker.fields import FieldLike, symmetric
from fokker.integrators import Integrator, SymplecticEuler
from fokker.samplers.family import Auxiliaries, Potential, WithMomentum, are_positive
from fokker.samplers.mass_matrix import MassMatrixLike
from fokker.samplers.plain import Plain, on_variable, plain
from fokker.samplers.schedules import StepSize


class Underdamped(WithMomentum):
    """H = U + rᵀM⁻¹r/2, D = diag(0, C), Q = [[0, -I], [I, 0]]."""

    friction: Any
    mass: Any

    label = "underdamped"

    def simple_variables(self) -> set[str] | None:
        """Where friction and mass are positive numbers."""
        return {"theta", "r"} if are_positive(self.friction, self.mass) else None

    def dynamics(self, potential: Potential, temperature: Number) -> Dynamics:
        """dθ = M⁻¹r dt, dr = [-∇U - CM⁻¹r] dt + √(2TC) dW."""
        return underdamped(potential, self.friction, self.mass, temperature)

    def auxiliaries(self, key: Key[Array, ""], theta: PyTree[Array], temperature: Number) -> Auxiliaries:
        """r ~ N(0, TM)."""
        drawn = super().auxiliaries(key, theta, temperature)["r"]
        if same_shapes(self.mass, 0.0):
            masses = jax.tree.map(lambda x: self.mass, drawn)
        elif same_shapes(self.mass, drawn):
            masses = self.mass
        else:
            return {"r": drawn}  # the dynamics refuse this mass, with a message
        return {"r": jax.tree.map(lambda x, m: x * jnp.sqrt(m).astype(x.dtype), drawn, masses)}


def sghmc(
    step_size: StepSize,
    friction: FieldLike = 1.0,
    mass: PyTree[Array] = 1.0,
    *,
    mass_matrix: MassMatrixLike = None,
    integrator: Integrator | None = None,
    noise_estimate: FieldLike | str | None = None,
    noise: str = "gaussian",
    resample: int | None = None,
) -> Plain:
    r"""r' = r - ε∇Ũ - εCM⁻¹r + N(0, ε(2TC - εB̂)), θ' = θ + εM⁻¹r' (Chen, Fox, Guestrin 2014).

        H = U + rᵀM⁻¹r/2,  D = diag(0, C),  Q = [[0, -I], [I, 0]]

    Keeps exp(-U/T). The symplectic Euler step has bias of order ε; `integrator=fk.integrators.Splitting()`
    has order ε² for the same single gradient. B̂ is the variance of ∇Ũ.

    Arguments:

    - `step_size`: ε: a number, a schedule (a function of the number of steps taken, as in `fk.schedules`), or
      "auto" to have it found by `fk.tune`.
    - `friction`: C: a number, a matrix, or a field of `fk.fields`.
    - `mass`: M: a number, or a tree like theta.
    - `mass_matrix`: coordinates θ = θ₀ + S q with SSᵀ = M⁻¹: a vector of masses, a matrix, or what another
      run has learned (`trace.sampler.mass_matrix`); None moves theta as it is. C then acts on the momentum of
      q.
    - `integrator`: one of `fk.integrators`; without it `SymplecticEuler()`.
    - `noise_estimate`: B̂, the covariance of the minibatch noise, which is subtracted from the noise of a
      step: a number, a matrix or a field; "scalar", "diagonal" or "dense" to estimate it while sampling; None
      (the default) subtracts nothing.
    - `noise`: the kind of unit noise: "gaussian", "three-point", "two-point" or "binomial"
      (`fokker.integrators.noise`).
    - `resample`: steps after which a new momentum is drawn; None for never.

    Returns a sampler without a correction (`fokker.samplers.plain.Plain`), for `fk.sample` or a loop of your
    own.

    ```python
    sampler = fk.samplers.sghmc(0.01, friction=1.0, integrator=fk.integrators.Splitting())
    trace = fk.sample(posterior, sampler, init=jnp.zeros(2), steps=1000, batch_size=2)
    ```
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


class NaiveHamiltonian(WithMomentum):
    """Hamiltonian dynamics as an SDE without friction."""

    label = "naive Hamiltonian"

    def dynamics(self, potential: Potential, temperature: Number) -> SDE:
        """dθ = r dt, dr = -∇Ũ dt."""
        return SDE(
            lambda theta, r, gradient: {"theta": r, "r": jax.tree.map(lambda g: -g, gradient)},
            symmetric({("r", "r"): 0.0}),
            Hamiltonian(potential, unit_mass),
        )


def naive_sghmc(step_size: StepSize) -> Plain:
    r"""WRONG on purpose: θ' = θ + εr, r' = r - ε∇Ũ, with the gradient's noise and no friction against it.

    Ma et al. (2015), Eq. 11. With minibatches the energy grows without bound.

    Arguments:

    - `step_size`: ε: a number, a schedule (a function of the number of steps taken, as in `fk.schedules`), or
      "auto" to have it found by `fk.tune`.

    Returns a sampler without a correction (`fokker.samplers.plain.Plain`), for `fk.sample` or a loop of your
    own.

    ```python
    trace = fk.sample(target, fk.samplers.naive_sghmc(0.01), init=jnp.zeros(2), steps=1000)
    ```
    """
    return plain("naive_sghmc", NaiveHamiltonian(), step_size)
