"""The sampler of any dynamics: write H, D and Q, and sample."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from fokker._core.state import as_arrays
from fokker.corrections import Correction
from fokker.dynamics import SDE, Dynamics
from fokker.fields import as_field, is_zero, symmetric
from fokker.gradients import OnlineNoise
from fokker.integrators import EulerMaruyama, Integrator
from fokker.integrators.noise import check_noise
from fokker.samplers._recipe import Family, GradientOfBatch, Recipe, shared
from fokker.samplers._sampler import check_step_size
from fokker.samplers.mass_matrix import as_mass_matrix

__all__ = ["Family", "Recipe", "corrected", "of_family", "on_variable", "recipe", "shared"]


def recipe(
    dynamics: Dynamics | SDE,
    step_size: Any,
    *,
    integrator: Integrator | None = None,
    correction: Correction | None = None,
    gradient: GradientOfBatch | None = None,
    noise_estimate: Any = None,
    gamma: str = "exact",
    noise: str = "gaussian",
) -> Recipe:
    r"""A sampler from dynamics: z' = z + ε f̃(z) + N(0, ε(2TD - εB̂)), or by another integrator.

    `step_size` is a number or a function of the number of steps taken. With
    `correction=fk.corrections.Metropolis()` every step keeps exp(-H/T) exactly, whatever its size.
    `gradient(theta, batch)`, where given, is the stochastic gradient that stands in for ∇U. `noise_estimate`
    is B̂: a field, a number, a matrix, or a dictionary of blocks. `gamma="estimate"` replaces Γ by its
    one-probe unbiased estimate, for fields too large to differentiate column by column. `noise` is a kind of
    `fokker.integrators.noise`.

    ```python
    sampler = fk.samplers.recipe(dynamics, step_size=0.05)
    state = sampler.init({"theta": jnp.zeros(2), "r": jnp.zeros(2)})
    step = lambda state, key: (sampler.step(key, state)[0], state.position)
    _, draws = jax.lax.scan(step, state, jax.random.split(jax.random.key(0), 10_000))
    ```
    """
    momentum = "own"
    if correction is not None:
        _check_correctable(correction, gradient, noise_estimate, gamma, noise)
        correction.check_integrator(integrator or EulerMaruyama())
        is_deterministic = getattr(integrator, "is_deterministic", False)
        if is_deterministic and isinstance(dynamics, Dynamics) and is_zero(dynamics.D):
            momentum = "new"
    return _make(
        dynamics=dynamics,
        step_size=step_size,
        integrator=integrator,
        gradient=gradient,
        noise_estimate=noise_estimate,
        gamma=gamma,
        noise=noise,
        correction=correction,
        momentum=momentum,
    )


def _check_correctable(correction: Any, gradient: Any, noise_estimate: Any, gamma: str, noise: str) -> None:
    """Raise where the probability of a step would not be known."""
    if not isinstance(correction, Correction):
        hint = "; call it, as in fk.corrections.Metropolis()" if callable(correction) else ""
        raise TypeError(f"the correction must be one of fk.corrections, not {correction!r}{hint}.")
    reasons = {
        "gradient": (gradient is not None, "an estimate of the gradient is not the target's"),
        "noise_estimate": (noise_estimate is not None, "it is for minibatches, which cannot be corrected"),
        "gamma": (gamma != "exact", "with a random Γ the probability of a step is not known"),
        "noise": (noise != "gaussian", "the probability of a step is that of Gaussian noise"),
    }
    for name, (is_set, reason) in reasons.items():
        if is_set:
            raise ValueError(f"a sampler with a correction takes no {name}: {reason}. Leave {name} out.")


def on_variable(name: str, noise_estimate: Any) -> Any:
    """B̂ of one variable as B̂ of the state; the name of an estimate, or None, unchanged."""
    return (
        noise_estimate
        if noise_estimate is None or isinstance(noise_estimate, str)
        else {(name, name): noise_estimate}
    )


def of_family(
    family: Family,
    step_size: Any,
    integrator: Integrator | None = None,
    noise_estimate: Any = None,
    noise: str = "gaussian",
    resample: int | None = None,
    mass_matrix: Any = None,
) -> Recipe:
    """A named sampler without a correction: dynamics that wait for a target."""
    if resample is not None and (not isinstance(resample, int) or resample < 1):
        raise ValueError(f"resample must be a whole number of steps, at least 1; {resample!r} was given.")
    M = as_mass_matrix(mass_matrix)
    if isinstance(M, str):
        raise ValueError(
            f"mass_matrix={M!r} is learned by samplers with a correction, such as fk.samplers.nuts(); give "
            "this one an array, or the mass_matrix that another has learned: trace.sampler.mass_matrix."
        )
    if M is not None and noise_estimate is not None:
        raise ValueError("noise_estimate is in the coordinates of theta: leave it out, or the mass_matrix.")
    return _make(
        family=family,
        step_size=step_size,
        integrator=integrator,
        noise_estimate=noise_estimate,
        noise=noise,
        resample=resample,
        mass_matrix=M,
    )


def corrected(
    name: str,
    family: Family,
    integrator: Integrator,
    correction: Correction,
    step_size: Any,
    mass_matrix: Any,
    target_accept: float,
    momentum: str = "own",
    persistence: Any = None,
) -> Recipe:
    """A named sampler with a correction, which learns its step size and mass matrix."""
    # As a float: inside a compiled function JAX traces a comparison even of values that are known.
    if not isinstance(target_accept, jax.core.Tracer) and not 0 < float(target_accept) < 1:
        raise ValueError(f"target_accept must be between 0 and 1; {target_accept} was given.")
    if callable(step_size):
        raise ValueError("this sampler keeps its target at every step size: give a number, not a schedule.")
    if jnp.ndim(step_size):
        raise ValueError(
            f"the step size is one number, not an array of shape {jnp.shape(step_size)}; for one per "
            "coordinate give masses as the mass_matrix."
        )
    return _make(
        name=name,
        family=family,
        step_size=step_size,
        integrator=integrator,
        correction=correction,
        mass_matrix=as_mass_matrix(mass_matrix),
        target_accept=as_arrays(target_accept),
        momentum=momentum,
        persistence=None if persistence is None else as_arrays(persistence),
    )


def _make(
    *,
    step_size: Any,
    dynamics: Dynamics | SDE | None = None,
    family: Family | None = None,
    integrator: Integrator | None = None,
    noise_estimate: Any = None,
    gamma: str = "exact",
    noise: str = "gaussian",
    **options: Any,
) -> Recipe:
    if gamma not in ("exact", "estimate"):
        raise ValueError(f"gamma is 'exact' or 'estimate', not {gamma!r}.")
    check_noise(noise)
    if isinstance(noise_estimate, str):
        if family is None:
            raise TypeError(
                "noise is estimated from single data, which a sampler made of dynamics does not see."
            )
        noise_estimate = OnlineNoise(noise_estimate)
    elif noise_estimate is not None:
        is_blocks = isinstance(noise_estimate, Mapping)
        noise_estimate = symmetric(noise_estimate) if is_blocks else as_field(noise_estimate)
    return Recipe(
        dynamics,
        check_step_size(step_size),
        integrator or EulerMaruyama(),
        noise_estimate=noise_estimate,
        gamma=gamma,
        noise=noise,
        family=family,
        **options,
    )
