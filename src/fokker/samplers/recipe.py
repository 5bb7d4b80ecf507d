"""The sampler of any dynamics: write H, D and Q, and sample."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from fokker._module import Module
from fokker._state import State, as_arrays
from fokker.dynamics import SDE, Dynamics
from fokker.dynamics._dynamics import check_field, check_semidefinite, validate_state
from fokker.fields import Field, as_field, symmetric
from fokker.integrators import EulerMaruyama, Integrator
from fokker.noise import check_noise, draw_like

GradientOfBatch = Callable[[PyTree[Array], Any], PyTree[Array]]


class SamplerState(NamedTuple):
    """What the next step needs: the dynamics' state `z` and the number of steps taken."""

    z: State
    step: Array

    @property
    def position(self) -> PyTree[Array]:
        """theta, or the whole state where it has no variable of that name."""
        return self.z["theta"] if isinstance(self.z, Mapping) and "theta" in self.z else self.z


class Info(NamedTuple):
    """What a person wants to see of a step.

    `finite`: whether every number still is. `noise_shortfall`: the least eigenvalue of 2TD - εB̂ found below
    zero, 0 where there is none; below zero the step could not subtract the minibatch noise asked for.
    """

    finite: Array
    noise_shortfall: Array


class Family(NamedTuple):
    """Dynamics that wait for a target.

    `dynamics(potential, temperature)` makes them; `auxiliaries(key, theta, temperature)` draws the variables
    beside theta to start from.
    """

    dynamics: Callable[[Callable[..., Any], Any], Dynamics | SDE]
    auxiliaries: Callable[[Key[Array, ""], PyTree[Array], Any], dict[str, PyTree[Array]]]


class Recipe(Module):
    r"""Samples any dynamics, or a family of them once it is put `on` a target; made by `recipe` and its like.

    By Euler–Maruyama steps z' = z + ε f̃(z) + N(0, ε(2TD - εB̂)), or by another integrator.
    """

    dynamics: Dynamics | SDE | None
    step_size: Array | Callable[[Array], Array]
    integrator: Integrator
    gradient: GradientOfBatch | None
    noise_estimate: Field | None
    gamma: str = eqx.field(static=True)
    noise: str = eqx.field(static=True, default="gaussian")
    family: Family | None = eqx.field(static=True, default=None)

    def on(self, target: Any, temperature: Any = 1.0) -> "Recipe":
        """The sampler of exp(-U/T) for a `fk.Density` or `fk.Posterior`."""
        if self.family is None:
            raise TypeError("this sampler was made of dynamics, which have a target: call it as it is.")
        if not hasattr(target, "potential"):
            raise TypeError(
                f"the target must be a fk.Density or a fk.Posterior, not {type(target).__name__}; a function "
                "is made one by fk.Density(log_density)."
            )
        minibatch = getattr(target, "minibatch_potential", None)
        gradient = None if minibatch is None else jax.grad(minibatch)
        return Recipe(
            self.family.dynamics(target.potential, temperature),
            self.step_size,
            self.integrator,
            gradient,
            self.noise_estimate,
            self.gamma,
            self.noise,
            self.family,
        )

    def _placed(self) -> Dynamics | SDE:
        if self.dynamics is None:
            raise ValueError(
                "this sampler has no target yet: call fk.sample(target, sampler, …), or sampler.on(target) "
                "to use init and step yourself."
            )
        return self.dynamics

    def init(self, position: PyTree[Any], *, key: Key[Array, ""] | None = None) -> SamplerState:
        """The state to start from, after everything that can be wrong with it has been looked at.

        `position` is theta for a named sampler, whose other variables are drawn with `key`; for a sampler
        made of dynamics it is their whole state, a dictionary with every variable.
        """
        dynamics = self._placed()
        # Before the conversion: a whole number is taken for a real one, an array of integers for a mistake.
        validate_state(jax.tree.map(lambda x: float(x) if isinstance(x, int) else x, position))
        z = as_arrays(dict(position) if isinstance(position, Mapping) else position)
        if self.family is not None:
            if key is None:
                raise ValueError("the auxiliary variables are drawn at random: pass key=jax.random.key(…).")
            T = getattr(dynamics, "temperature", jnp.ones(()))
            z = {"theta": z, **self.family.auxiliaries(key, z, T)}
        dynamics.validate(z)
        self.integrator.check(dynamics, z)
        if isinstance(dynamics, SDE):
            check_semidefinite(dynamics.D_field(z), z, "the diffusion")
        if self.noise_estimate is not None:
            self._check_noise_estimate(dynamics, z)
        return SamplerState(z, jnp.zeros((), jnp.int32))

    def _check_noise_estimate(self, dynamics: Dynamics | SDE, z: State) -> None:
        assert self.noise_estimate is not None
        check_field(self.noise_estimate, z, "noise_estimate")
        like = dynamics.noise_like(z, self.noise_estimate)
        noise = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), like)
        _, shortfall = dynamics.noise(z, noise, self._step_size(jnp.zeros(())), self.noise_estimate)
        if not isinstance(shortfall, jax.core.Tracer) and bool(shortfall < 0):
            raise ValueError(
                "2D - εB̂ is not positive semidefinite at the state given: its least eigenvalue is "
                f"{float(shortfall):.3g}. Take a smaller step, a larger D, or a smaller noise_estimate."
            )

    def _step_size(self, step: Array) -> Array:
        return self.step_size(step) if callable(self.step_size) else self.step_size

    def draw(self, key: Key[Array, ""], state: SamplerState) -> PyTree[Array]:
        """All the randomness of one step: it depends on the state by its shapes alone."""
        noise_key, probe_key = jax.random.split(key) if self.gamma == "estimate" else (key, None)
        like = self._placed().noise_like(state.z, self.noise_estimate)
        probe = None if probe_key is None else _signs(probe_key, state.z)
        return draw_like(self.noise, noise_key, like), probe

    def advance(
        self, draws: PyTree[Array], state: SamplerState, batch: Any = None
    ) -> tuple[SamplerState, Info]:
        """One step with the randomness given."""
        dynamics = self._placed()
        noise, probe = draws
        gradient = self.gradient
        if gradient is not None and batch is None and self.family is not None:
            gradient = None
        z, shortfall = self.integrator.advance(
            dynamics,
            state.z,
            None if gradient is None else lambda theta: gradient(theta, batch),
            noise,
            self._step_size(state.step),
            probe=probe,
            noise_estimate=self.noise_estimate,
        )
        finite = jax.tree.reduce(jnp.logical_and, jax.tree.map(lambda x: jnp.all(jnp.isfinite(x)), z))
        return SamplerState(z, state.step + 1), Info(finite, shortfall)

    def step(self, key: Key[Array, ""], state: SamplerState, batch: Any = None) -> tuple[SamplerState, Info]:
        """One step; pure, for use inside `jax.jit`, `jax.vmap` and `jax.lax.scan`."""
        return self.advance(self.draw(key, state), state, batch)


def recipe(
    dynamics: Dynamics | SDE,
    step_size: Any,
    *,
    integrator: Integrator | None = None,
    gradient: GradientOfBatch | None = None,
    noise_estimate: Any = None,
    gamma: str = "exact",
    noise: str = "gaussian",
) -> Recipe:
    r"""A sampler from dynamics: z' = z + ε f̃(z) + N(0, ε(2TD - εB̂)), or by another integrator.

    `step_size` is a number or a function of the number of steps taken. `gradient(theta, batch)`, where given,
    is the stochastic gradient that stands in for ∇U. `noise_estimate` is B̂: a field, a number, a matrix, or a
    dictionary of blocks. `gamma="estimate"` replaces Γ by its one-probe unbiased estimate, for fields too
    large to differentiate column by column. `noise` is a kind of `fokker.noise`.

    ```python
    sampler = fk.samplers.recipe(dynamics, step_size=0.05)
    state = sampler.init({"theta": jnp.zeros(2), "r": jnp.zeros(2)})
    step = lambda state, key: (sampler.step(key, state)[0], state.position)
    _, draws = jax.lax.scan(step, state, jax.random.split(jax.random.key(0), 10_000))
    ```
    """
    return _make(dynamics, step_size, integrator, gradient, noise_estimate, gamma, noise, None)


def of_family(
    family: Family,
    step_size: Any,
    integrator: Integrator | None = None,
    noise_estimate: Any = None,
    noise: str = "gaussian",
) -> Recipe:
    """A named sampler: dynamics that wait for a target."""
    return _make(None, step_size, integrator, None, noise_estimate, "exact", noise, family)


def _make(
    dynamics: Dynamics | SDE | None,
    step_size: Any,
    integrator: Integrator | None,
    gradient: GradientOfBatch | None,
    noise_estimate: Any,
    gamma: str,
    noise: str,
    family: Family | None,
) -> Recipe:
    if gamma not in ("exact", "estimate"):
        raise ValueError(f"gamma is 'exact' or 'estimate', not {gamma!r}.")
    check_noise(noise)
    step = step_size if callable(step_size) else as_arrays(step_size)
    first = step(jnp.zeros(())) if callable(step) else step
    if not isinstance(first, jax.core.Tracer) and not bool(jnp.all(jnp.isfinite(first) & (first > 0))):
        raise ValueError(f"the step size must be a positive number; {first} was given.")
    if noise_estimate is not None:
        is_blocks = isinstance(noise_estimate, Mapping)
        noise_estimate = symmetric(noise_estimate) if is_blocks else as_field(noise_estimate)
    return Recipe(
        dynamics, step, integrator or EulerMaruyama(), gradient, noise_estimate, gamma, noise, family
    )


def _signs(key: Key[Array, ""], z: State) -> State:
    return draw_like("two-point", key, jax.eval_shape(lambda: z))
