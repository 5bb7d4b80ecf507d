"""The stochastic gradient Nosé–Hoover thermostat."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from fokker._core.count import StepNumber
from fokker._core.names import nearest
from fokker._core.state import dimension
from fokker._core.types import Number
from fokker.dynamics import Dynamics, diagonal_thermostat, matrix_thermostat, thermostat
from fokker.fields import FieldLike
from fokker.integrators import Integrator, SymplecticEuler
from fokker.samplers.family import Auxiliaries, Potential, WithMomentum, are_positive
from fokker.samplers.mass_matrix import MassMatrixLike
from fokker.samplers.plain import Plain, on_variable, plain
from fokker.samplers.schedules import StepSize, check_step_size

# √μ in steps. On Gaussians of one coordinate with noise added to the gradient, 3 diverges, 10 doubles the
# autocorrelation, and 100 costs nothing; the smaller, the sooner the noise is absorbed.
_STEPS = 50

_KINDS: dict[str, Callable[..., Dynamics]] = {
    "scalar": thermostat,
    "diagonal": diagonal_thermostat,
    "matrix": matrix_thermostat,
}


class Thermostat(WithMomentum):
    """H = U + rᵀr/2 + (μTd/2)(ξ - A)², D = diag(0, A, 0), by the kind of ξ."""

    kind: str
    friction: Any
    thermostat_mass: Any

    label = "thermostat"

    def simple_variables(self) -> set[str] | None:
        """With positive numbers, and without a matrix, whose friction mixes coordinates."""
        is_known = self.kind != "matrix" and are_positive(self.friction, self.thermostat_mass)
        return {"theta", "r", "xi"} if is_known else None

    def dynamics(self, potential: Potential, temperature: Number) -> Dynamics:
        """dr = [-∇U - ξr] dt + √(2TA) dW, dξ = (rᵀr/(dT) - 1)/μ dt."""
        return _KINDS[self.kind](potential, self.friction, self.thermostat_mass, temperature=temperature)

    def auxiliaries(self, key: Key[Array, ""], theta: PyTree[Array], temperature: Number) -> Auxiliaries:
        """A momentum of unit mass, and ξ = A."""
        dtype = jnp.result_type(*jax.tree.leaves(theta))
        xi: PyTree[Array]
        if self.kind == "scalar":
            xi = jnp.full((), self.friction, dtype)
        elif self.kind == "diagonal":
            xi = jax.tree.map(lambda x: jnp.full_like(x, self.friction), theta)
        else:
            xi = self.friction * jnp.eye(dimension(theta), dtype=dtype)
        return {**super().auxiliaries(key, theta, temperature), "xi": xi}


def sgnht(
    step_size: StepSize,
    friction: float = 1.0,
    thermostat_mass: float | None = None,
    *,
    mass_matrix: MassMatrixLike = None,
    kind: str = "scalar",
    integrator: Integrator | None = None,
    noise_estimate: FieldLike | str | None = None,
    noise: str = "gaussian",
    resample: int | None = None,
) -> Plain:
    r"""r' = r - ε∇Ũ - εξr + √(2TA) N(0, ε), θ' = θ + εr', ξ' = ξ + ε(r'ᵀr'/(dT) - 1)/μ (Ding et al. 2014).

        H = U + rᵀr/2 + (μTd/2)(ξ - A)²,  D = diag(0, A, 0),  Q[r, ξ] = r/(μTd)

    The friction ξ rises until the kinetic temperature is T: unknown minibatch noise is absorbed without an
    estimate of it. `friction` is A; `thermostat_mass` is μ, its inertia; it means the same at every
    temperature, which must be above zero. ξ relaxes in the time 1/ξ or μξ, whichever is longer. By default
    μ = (50ε)², of the first step size: as εξ < 1 in a stable run, that is at most 2,500 steps, however large
    the noise of the gradient; with step_size="auto" μ = 1/A².

    `kind`: one thermostat for all coordinates ("scalar"), one each ("diagonal"), or a matrix ("matrix", for
    theta a vector). Keeps exp(-U/T) with bias of order ε; one gradient per step. With
    `integrator=fk.integrators.Splitting()` it is of order ε² for the same single gradient (not for the
    matrix).

    Arguments:

    - `step_size`: ε: a number, a schedule (a function of the number of steps taken, as in `fk.schedules`), or
      "auto" to have it found by `fk.tune`.
    - `friction`: A, the noise that is injected, and the friction that goes with it.
    - `thermostat_mass`: μ, the inertia of ξ; None for (50ε)².
    - `mass_matrix`: coordinates θ = θ₀ + S q with SSᵀ = M⁻¹: a vector of masses, a matrix, or what another
      run has learned (`trace.sampler.mass_matrix`); None moves theta as it is.
    - `kind`: "scalar", "diagonal" or "matrix": one thermostat for all coordinates, one for each, or a matrix.
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
    sampler = fk.samplers.sgnht(0.01, friction=1.0)
    trace = fk.sample(posterior, sampler, init=jnp.zeros(2), steps=1000, batch_size=2)
    ```
    """
    if kind not in _KINDS:
        raise ValueError(f"kind is one of {', '.join(_KINDS)}, not {kind!r}.{nearest(kind, list(_KINDS))}")

    mu = _default_mass(step_size, friction) if thermostat_mass is None else thermostat_mass
    family = Thermostat(kind, friction, mu)
    estimate = on_variable("r", noise_estimate)
    return plain(
        "sgnht", family, step_size, integrator or SymplecticEuler(), estimate, noise, resample, mass_matrix
    )


def _default_mass(step_size: StepSize, friction: Number) -> Number:
    """μ by the first step size."""
    step = check_step_size(step_size)
    if isinstance(step, str):
        return 1.0 if isinstance(friction, int | float) and not friction else 1 / friction**2
    first = step(StepNumber.of(0)) if callable(step) else step
    is_number = not isinstance(first, jax.core.Tracer) and jnp.ndim(first) == 0
    return (_STEPS * (float(first) if is_number else first)) ** 2  # numbers: equal samplers share a program


def sgnht_by_ding(eta: float, a: float, *, kind: str = "scalar") -> Plain:
    r"""The same in the parametrisation η = ε², a = Aε of Ding et al. (2014): u = rε, α = ξε.

    Arguments:

    - `eta`: η, the square of the step size.
    - `a`: A times the step size.
    - `kind`: as of `sgnht`.

    Returns a sampler without a correction (`fokker.samplers.plain.Plain`), for `fk.sample` or a loop of your
    own.

    ```python
    trace = fk.sample(target, fk.samplers.sgnht_by_ding(1e-4, 0.01), init=jnp.zeros(2), steps=1000)
    ```
    """
    step_size = eta**0.5
    return sgnht(step_size, a / step_size, 1.0, kind=kind)
