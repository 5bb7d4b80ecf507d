"""The sampler of any dynamics: write H, D and Q, and sample."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from fokker._core.count import Count, no_steps
from fokker._core.random import split, uniform
from fokker._core.rounding import Rounding, draw_rounding, is_half, lowered, raised, rounded
from fokker._core.state import State, as_arrays, dimension, inner
from fokker.corrections import Metropolis
from fokker.dynamics import SDE, Dynamics
from fokker.dynamics._dynamics import check_field, check_semidefinite, validate_state
from fokker.dynamics.hamiltonian import hamiltonian_gradient
from fokker.fields import Field, as_field, symmetric
from fokker.gradients import Estimator, OnlineNoise
from fokker.integrators import Correctable, EulerMaruyama, Integrator
from fokker.integrators._gradient import no_force
from fokker.integrators.noise import check_noise, draw_like
from fokker.samplers._sampler import (
    Info,
    Sampler,
    SamplerState,
    all_finite,
    check_step_size,
    check_target,
    step_size_at,
)
from fokker.samplers._whole import StepInfo, check_position, no_batch

GradientOfBatch = Callable[[PyTree[Array], Any], PyTree[Array]]


class Draws(NamedTuple):
    """The randomness of one step: unit noise, the probe of Γ, a key for a new momentum, and rounding.

    `uniform` decides whether a correction accepts the step.
    """

    noise: PyTree[Array]
    probe: PyTree[Array] | None = None
    key: Key[Array, ""] | None = None
    rounding: Rounding = ()
    uniform: Array | None = None


class Family(NamedTuple):
    """Dynamics that wait for a target.

    `dynamics(potential, temperature)` makes them; `auxiliaries(key, theta, temperature)` draws the variables
    beside theta to start from.
    """

    dynamics: Callable[[Callable[..., Any], Any], Dynamics | SDE]
    auxiliaries: Callable[[Key[Array, ""], PyTree[Array], Any], dict[str, PyTree[Array]]]


class Recipe(Sampler):
    r"""Samples any dynamics, or a family of them once it is put `on` a target; made by `recipe` and its like.

    By Euler–Maruyama steps z' = z + ε f̃(z) + N(0, ε(2TD - εB̂)), or by another integrator; with a correction,
    exactly.
    """

    dynamics: Dynamics | SDE | None
    step_size: Array | Callable[[Array], Array]
    integrator: Integrator
    gradient: GradientOfBatch | None
    noise_estimate: Field | OnlineNoise | None
    gamma: str = eqx.field(static=True)
    noise: str = eqx.field(static=True, default="gaussian")
    family: Family | None = eqx.field(static=True, default=None)
    resample: int | None = eqx.field(static=True, default=None)
    target: Any = None
    estimator: Estimator = Estimator()
    temperature: Any = 1.0
    correction: Metropolis | None = None

    @property
    def corrected(self) -> bool:  # type: ignore[override]
        """Whether the step size leaves no bias."""
        return self.correction is not None

    @property
    def decides(self) -> bool:  # type: ignore[override]
        """Whether steps are accepted or rejected."""
        return self.correction is not None

    @property
    def wants_target(self) -> bool:
        """Not where it was made of dynamics, which have one."""
        return self.family is not None

    def on(self, target: Any, temperature: Any = 1.0, gradient: Estimator | None = None) -> "Recipe":
        """The sampler of exp(-U/T) for a `fk.Density` or `fk.Posterior`, by an estimator of its gradient."""
        if self.family is None:
            raise TypeError("this sampler was made of dynamics, which have a target: call it as it is.")
        by_datum = isinstance(self.noise_estimate, OnlineNoise)
        target = check_target(target, temperature, gradient, by_datum)
        return dataclasses.replace(
            self,
            target=target,
            estimator=(gradient or Estimator()).on(target),
            temperature=as_arrays(temperature),
        )

    @property
    def placed(self) -> Dynamics | SDE:
        """The dynamics, with the target's potential in them."""
        if self.dynamics is not None:
            return self.dynamics
        assert self.family is not None
        return self.family.dynamics(self.own_target.potential, self.temperature)

    def init(self, position: PyTree[Any], *, key: Key[Array, ""] | None = None) -> SamplerState:
        """The state to start from, after everything that can be wrong with it has been looked at.

        `position` is theta for a named sampler, whose other variables are drawn with `key`; for a sampler
        made of dynamics it is their whole state, a dictionary with every variable.
        """
        dynamics = self.placed
        # Before the conversion: a whole number is taken for a real one, an array of integers for a mistake.
        validate_state(jax.tree.map(lambda x: float(x) if isinstance(x, int) else x, position))
        # The variables of dynamics are a plain dictionary; theta stays the tree that it is.
        given = as_arrays(
            dict(position) if self.family is None and isinstance(position, Mapping) else position
        )
        z = raised(given)
        remembered: PyTree[Array] = ()
        if self.family is not None:
            if key is None:
                raise ValueError("the auxiliary variables are drawn at random: pass key=jax.random.key(…).")
            remembered = self.estimator.init(self.target, z)
            z = {"theta": z, **self.family.auxiliaries(key, z, self.temperature)}
        dynamics.validate(z)
        self.integrator.check(dynamics, z, self.noise_estimate is not None)
        if self.correction is not None:
            check_position(self, given)
            self.correction.check(dynamics, self.integrator, z)
        if isinstance(dynamics, SDE):
            check_semidefinite(dynamics.D_field(z), z, "the diffusion")
        stored = lowered(z, given) if self.family is None else {**z, "theta": given}
        state = SamplerState(stored, no_steps(), remembered)
        if isinstance(self.noise_estimate, OnlineNoise):
            return state._replace(noise=self.noise_estimate.init(raised(state.position)))
        if self.noise_estimate is not None:
            self._check_noise_estimate(dynamics, self.noise_estimate, z)
        return state

    def _check_noise_estimate(self, dynamics: Dynamics | SDE, noise_estimate: Field, z: State) -> None:
        check_field(noise_estimate, z, "noise_estimate")
        like = dynamics.noise_like(z, noise_estimate)
        noise = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), like)
        _, shortfall = dynamics.noise(z, noise, step_size_at(self.step_size, no_steps()), noise_estimate)
        if not isinstance(shortfall, jax.core.Tracer) and bool(shortfall < 0):
            raise ValueError(
                "2D - εB̂ is not positive semidefinite at the state given: its least eigenvalue is "
                f"{float(shortfall):.3g}. Take a smaller step, a larger D, or a smaller noise_estimate."
            )

    def _drift_noise(self, dynamics: Dynamics | SDE, state: SamplerState) -> Field | None:
        """B̂ at this state."""
        if not isinstance(self.noise_estimate, OnlineNoise):
            return self.noise_estimate
        assert isinstance(dynamics, Dynamics)
        return dynamics.drift_noise(state.z, self.noise_estimate.field(state.noise))

    def draw(self, key: Key[Array, ""], state: SamplerState) -> Draws:
        """All the randomness of one step: it depends on the state by its shapes alone."""
        probe_key = momentum_key = rounding_key = decision = None
        if any(is_half(x) for x in jax.tree.leaves(state.z)):
            key, rounding_key = split(key)
        rounding = draw_rounding(rounding_key, state.z)
        state = state._replace(z=raised(state.z))
        if self.correction is not None:
            key, decision_key = split(key)
            decision = uniform(decision_key, (), jnp.result_type(*jax.tree.leaves(state.z)))
        if self.gamma == "estimate" or self.resample is not None:
            key, probe_key, momentum_key = split(key, 3)
        dynamics = self.placed
        like = self.integrator.noise_like(dynamics, state.z, self._drift_noise(dynamics, state))
        probe = _signs(probe_key, state.z) if self.gamma == "estimate" else None
        return Draws(
            draw_like(self.noise, key, like),
            probe,
            momentum_key if self.resample is not None else None,
            rounding,
            decision,
        )

    def advance(
        self, draws: Draws, state: SamplerState, batch: Any = None, number: Count | None = None
    ) -> tuple[SamplerState, Any]:
        """One step with the randomness given.

        `number` is the number of steps taken, where the caller knows it apart from the state: the same for
        all chains, it keeps what is done every so many steps from being done at every one under `jax.vmap`.
        """
        number = state.step if number is None else number
        stored, state = state.z, state._replace(z=raised(state.z))
        dynamics, z = self.placed, state.z
        gradient: Any = None
        remembered, V = state.estimator, state.noise
        if self.gradient is not None:
            given = self.gradient
            gradient = lambda theta: given(theta, batch)  # noqa: E731
        elif batch is not None and self.family is not None:
            gradient = lambda theta: self.estimator.gradient(  # noqa: E731
                self.target, state.estimator, theta, batch
            )
            remembered = self.estimator.update(self.target, remembered, state.position, batch, number)
            if isinstance(self.noise_estimate, OnlineNoise):
                each = self.estimator.contributions(self.target, state.estimator, state.position, batch)
                V = self.noise_estimate.update(V, each, getattr(batch, "scatter", 1.0), number)
        if self.resample is not None:
            z = self._with_new_momentum(z, draws.key, number)
        h = step_size_at(self.step_size, state.step)
        if self.correction is not None:
            no_batch(self, batch)
            return self._corrected(draws, state._replace(z=z), h)
        z, shortfall = self.integrator.advance(
            dynamics,
            z,
            gradient,
            draws.noise,
            h,
            probe=draws.probe,
            # That of the batches before: the estimate must not depend on the noise that it makes up for.
            noise_estimate=self._drift_noise(dynamics, state),
        )
        z = rounded(z, stored, draws.rounding)
        return SamplerState(z, state.step + 1, remembered, V), Info(
            all_finite(z) & jnp.all(h >= 0), shortfall
        )

    def _corrected(self, draws: Draws, state: SamplerState, h: Array) -> tuple[SamplerState, StepInfo]:
        """One step that is accepted or rejected."""
        assert self.correction is not None
        assert draws.uniform is not None
        assert isinstance(self.integrator, Correctable)
        proposal = self.integrator.propose(self.placed, state.z, draws.noise, h)
        z, accepted, rate, divergent = self.correction.decide(draws.uniform, proposal)
        new = state._replace(z=z, step=state.step + 1)
        there = state._replace(z=proposal.z).position
        finite, zero = all_finite(z) & jnp.all(h >= 0), jnp.zeros(())
        return new, StepInfo(finite, zero, accepted, rate, there, -proposal.log_ratio, divergent)

    def _with_new_momentum(self, z: State, key: Any, number: Count) -> State:
        assert self.family is not None
        assert self.resample is not None
        auxiliaries = self.family.auxiliaries

        def fresh() -> State:
            return {**z, "r": auxiliaries(key, z["theta"], self.temperature)["r"]}

        return jax.lax.cond((number % self.resample == 0) & (number > 0), fresh, lambda: dict(z))

    def record(self, state: SamplerState) -> dict[str, Array]:
        """The kinetic temperature rᵀ∂H/∂r / d, and a scalar thermostat."""
        record: dict[str, Array] = {}
        z, dynamics = raised(state.z), self.placed
        if isinstance(z, dict) and "r" in z:
            slope = hamiltonian_gradient(dynamics.hamiltonian, z, no_force(dynamics, z))["r"]
            record["kinetic_temperature"] = inner(z["r"], slope) / dimension(z["r"])
        if isinstance(z, dict) and "xi" in z and jnp.ndim(z["xi"]) == 0:
            record["xi"] = z["xi"]
        return record


def recipe(
    dynamics: Dynamics | SDE,
    step_size: Any,
    *,
    integrator: Integrator | None = None,
    correction: Metropolis | None = None,
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
    if correction is not None:
        _check_correctable(correction, gradient, noise_estimate, gamma, noise)
    sampler = _make(dynamics, step_size, integrator, gradient, noise_estimate, gamma, noise, None)
    return dataclasses.replace(sampler, correction=correction)


def _check_correctable(correction: Any, gradient: Any, noise_estimate: Any, gamma: str, noise: str) -> None:
    """Raise where the probability of a step would not be known."""
    if not isinstance(correction, Metropolis):
        hint = "; call it, as in fk.corrections.Metropolis()" if callable(correction) else ""
        raise TypeError(f"the correction must be one of fk.corrections, not {correction!r}{hint}.")
    reasons = {
        "gradient": (gradient is not None, "an estimate of the gradient is not the target's"),
        "noise_estimate": (noise_estimate is not None, "it is for minibatches, which cannot be corrected"),
        "gamma": (gamma != "exact", "with a random Γ the probability of a step is not known"),
        "noise": (noise != "gaussian", "the probability of a step is that of Gaussian noise"),
    }
    for name, (given, reason) in reasons.items():
        if given:
            raise ValueError(f"a sampler with a correction takes no {name}: {reason}. Leave {name} out.")


def on_variable(name: str, noise_estimate: Any) -> Any:
    """B̂ of one variable as B̂ of the state; the name of an estimate, or None, as it is."""
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
) -> Recipe:
    """A named sampler: dynamics that wait for a target."""
    if resample is not None and (not isinstance(resample, int) or resample < 1):
        raise ValueError(f"resample must be a whole number of steps, at least 1; {resample!r} was given.")
    return _make(None, step_size, integrator, None, noise_estimate, "exact", noise, family, resample)


def _make(
    dynamics: Dynamics | SDE | None,
    step_size: Any,
    integrator: Integrator | None,
    gradient: GradientOfBatch | None,
    noise_estimate: Any,
    gamma: str,
    noise: str,
    family: Family | None,
    resample: int | None = None,
) -> Recipe:
    if gamma not in ("exact", "estimate"):
        raise ValueError(f"gamma is 'exact' or 'estimate', not {gamma!r}.")
    check_noise(noise)
    step = check_step_size(step_size)
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
        step,
        integrator or EulerMaruyama(),
        gradient,
        noise_estimate,
        gamma,
        noise,
        family,
        resample,
    )


def _signs(key: Any, z: State) -> State:
    return draw_like("two-point", key, jax.eval_shape(lambda: z))
