"""The sampler of any dynamics: write H, D and Q, and sample."""

from fokker.corrections import Correction
from fokker.dynamics import SDE, Dynamics
from fokker.fields import FieldLike, is_zero
from fokker.integrators import EulerMaruyama, Integrator
from fokker.integrators.noise import check_noise
from fokker.samplers._momentum import NewMomentum, OwnMomentum
from fokker.samplers.corrected import Corrected
from fokker.samplers.plain import GradientOfBatch, OwnGradient, Plain, as_noise_estimate
from fokker.samplers.schedules import StepSize, check_step_size

# Every sampler that is dynamics × integrator, with a correction or without.
Recipe = Plain | Corrected


def recipe(
    dynamics: Dynamics | SDE,
    step_size: StepSize,
    *,
    integrator: Integrator | None = None,
    correction: Correction | None = None,
    gradient: GradientOfBatch | None = None,
    noise_estimate: FieldLike | str | None = None,
    gamma: str = "exact",
    noise: str = "gaussian",
) -> Recipe:
    r"""A sampler from dynamics: z' = z + ε f̃(z) + N(0, ε(2TD - εB̂)), or by another integrator.

    With `correction=fk.corrections.Metropolis()` every step keeps exp(-H/T) exactly, whatever its size.

    Arguments:

    - `dynamics`: a `fk.Dynamics` or `fk.SDE`, with a target of its own.
    - `step_size`: ε: a number, or a function of the number of steps taken.
    - `integrator`: one of `fk.integrators`; without it `EulerMaruyama()`.
    - `correction`: one of `fk.corrections`, as `Metropolis()`; None for none.
    - `gradient`: a function of (theta, batch) in the place of ∇U; None for ∇U itself.
    - `noise_estimate`: B̂, which is subtracted: a field, a number, a matrix, or a dictionary of blocks; None
      subtracts nothing.
    - `gamma`: "exact", or "estimate" for an unbiased estimate of Γ by one probe, for fields too large to
      differentiate column by column.
    - `noise`: the kind of unit noise: "gaussian", "three-point", "two-point" or "binomial"
      (`fokker.integrators.noise`).

    Returns a sampler whose `init` takes a whole state, a dictionary with every variable of the dynamics.

    ```python
    potential = lambda theta: jnp.sum(theta**2) / 2
    sampler = fk.samplers.recipe(fk.dynamics.underdamped(potential, friction=1.0), step_size=0.05)
    state = sampler.init({"theta": jnp.zeros(2), "r": jnp.zeros(2)})
    step = lambda state, key: (sampler.step(key, state)[0], state.position)
    _, draws = jax.lax.scan(step, state, jax.random.split(jax.random.key(0), 100))
    ```
    """
    chosen = integrator or EulerMaruyama()
    if correction is not None:
        _check_correctable(correction, gradient, noise_estimate, gamma, noise)
        correctable = correction.check_integrator(chosen)
        is_hamiltonian = isinstance(dynamics, Dynamics) and is_zero(dynamics.D)
        is_new = correctable.is_deterministic and is_hamiltonian
        return Corrected(
            dynamics,
            check_step_size(step_size),
            correctable,
            correction=correction,
            momentum=NewMomentum() if is_new else OwnMomentum(),
        )
    if gamma not in ("exact", "estimate"):
        raise ValueError(f"gamma is 'exact' or 'estimate', not {gamma!r}.")
    check_noise(noise)
    if isinstance(noise_estimate, str):
        raise TypeError("noise is estimated from single data, which a sampler made of dynamics does not see.")
    return Plain(
        dynamics,
        check_step_size(step_size),
        chosen,
        as_noise_estimate(noise_estimate),
        gamma,
        noise,
        estimator=None if gradient is None else OwnGradient(gradient),
    )


def _check_correctable(
    correction: object, gradient: object, noise_estimate: object, gamma: str, noise: str
) -> None:
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
