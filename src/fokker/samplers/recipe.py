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
from fokker.hamiltonian import Hamiltonian
from fokker.integrators import EulerMaruyama


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


class Recipe(Module):
    r"""Samples any dynamics by z' = z + ε f̃(z) + N(0, ε(2TD - εB̂)); made by `recipe`."""

    dynamics: Dynamics | SDE
    step_size: Array
    integrator: EulerMaruyama
    gradient: Callable[[PyTree[Array], Any], PyTree[Array]] | None
    noise_estimate: Field | None
    gamma: str = eqx.field(static=True)

    def init(self, position: PyTree[Any], *, key: Key[Array, ""] | None = None) -> SamplerState:
        """The state to start from, after everything that can be wrong with it has been looked at.

        `position` is the whole state of the dynamics: a dictionary with every variable.
        """
        # Before the conversion: a whole number is taken for a real one, an array of integers for a mistake.
        validate_state(jax.tree.map(lambda x: float(x) if isinstance(x, int) else x, position))
        z = as_arrays(dict(position) if isinstance(position, Mapping) else position)
        self.dynamics.validate(z)
        if isinstance(self.dynamics, SDE):
            check_semidefinite(self.dynamics.D_field(z), z, "the diffusion")
        if self.noise_estimate is not None:
            check_field(self.noise_estimate, z, "noise_estimate")
            like = self.dynamics.noise_like(z, self.noise_estimate)
            noise = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), like)
            _, shortfall = self.dynamics.noise(z, noise, self.step_size, self.noise_estimate)
            if not isinstance(shortfall, jax.core.Tracer) and bool(shortfall < 0):
                raise ValueError(
                    "2D - εB̂ is not positive semidefinite at the state given: its least eigenvalue is "
                    f"{float(shortfall):.3g}. Take a smaller step, a larger D, or a smaller noise_estimate."
                )
        return SamplerState(z, jnp.zeros((), jnp.int32))

    def step(self, key: Key[Array, ""], state: SamplerState, batch: Any = None) -> tuple[SamplerState, Info]:
        """One step; pure, for use inside `jax.jit`, `jax.vmap` and `jax.lax.scan`."""
        z = state.z
        noise_key, probe_key = jax.random.split(key) if self.gamma == "estimate" else (key, None)
        noise = _unit_noise(noise_key, self.dynamics.noise_like(z, self.noise_estimate))
        probe = None if probe_key is None else _signs(probe_key, z)
        gradient = None if self.gradient is None else self.gradient(self._theta(state), batch)
        z, shortfall = self.integrator.advance(
            self.dynamics,
            z,
            gradient,
            noise,
            self.step_size,
            probe=probe,
            noise_estimate=self.noise_estimate,
        )
        finite = jax.tree.reduce(jnp.logical_and, jax.tree.map(lambda x: jnp.all(jnp.isfinite(x)), z))
        return SamplerState(z, state.step + 1), Info(finite, shortfall)

    def _theta(self, state: SamplerState) -> PyTree[Array]:
        H = self.dynamics.hamiltonian
        return H.position_of(state.z) if isinstance(H, Hamiltonian) else state.position


def recipe(
    dynamics: Dynamics | SDE,
    step_size: Any,
    *,
    gradient: Callable[[PyTree[Array], Any], PyTree[Array]] | None = None,
    noise_estimate: Any = None,
    gamma: str = "exact",
) -> Recipe:
    r"""A sampler from dynamics: z' = z + ε f̃(z) + N(0, ε(2TD - εB̂)).

    `gradient(theta, batch)`, where given, is the stochastic gradient that stands in for ∇U. `noise_estimate`
    is B̂: a field, a number, a matrix, or a dictionary of blocks. `gamma="estimate"` replaces Γ by its
    one-probe unbiased estimate, for fields too large to differentiate column by column.

    ```python
    sampler = fk.samplers.recipe(dynamics, step_size=0.05)
    state = sampler.init({"theta": jnp.zeros(2), "r": jnp.zeros(2)})
    step = lambda state, key: (sampler.step(key, state)[0], state.position)
    _, draws = jax.lax.scan(step, state, jax.random.split(jax.random.key(0), 10_000))
    ```
    """
    if gamma not in ("exact", "estimate"):
        raise ValueError(f"gamma is 'exact' or 'estimate', not {gamma!r}.")
    step = as_arrays(step_size)
    if not isinstance(step, jax.core.Tracer) and not bool(jnp.all(jnp.isfinite(step) & (step > 0))):
        raise ValueError(f"the step size must be a positive number; {step_size} was given.")
    if noise_estimate is not None:
        is_blocks = isinstance(noise_estimate, Mapping)
        noise_estimate = symmetric(noise_estimate) if is_blocks else as_field(noise_estimate)
    return Recipe(dynamics, step, EulerMaruyama(), gradient, noise_estimate, gamma)


def _unit_noise(key: Key[Array, ""], like: PyTree[Any]) -> PyTree[Array]:
    shapes, structure = jax.tree.flatten(like)
    keys = [key] if len(shapes) == 1 else list(jax.random.split(key, len(shapes)))
    drawn = [jax.random.normal(k, s.shape, s.dtype) for k, s in zip(keys, shapes, strict=False)]
    return jax.tree.unflatten(structure, drawn)


def _signs(key: Key[Array, ""], z: State) -> State:
    leaves, structure = jax.tree.flatten(z)
    keys = jax.random.split(key, len(leaves))
    drawn = [jax.random.rademacher(k, x.shape, x.dtype) for k, x in zip(keys, leaves, strict=True)]
    return jax.tree.unflatten(structure, drawn)
