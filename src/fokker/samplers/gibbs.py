"""Gibbs sampling: one block at a time from its exact conditional. It follows no dynamics."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from fokker._core.count import Count, no_steps
from fokker._core.names import nearest
from fokker._core.state import as_arrays, describe_shapes, ravel, same_shapes, unravel
from fokker._core.types import Arrays, Number
from fokker.gradients import Estimator
from fokker.samplers import _checks
from fokker.samplers.contract import Info, Sampler, SamplerState, all_finite
from fokker.targets.target import Target

Conditional = Callable[[Key[Array, ""], dict[str, PyTree[Array]]], PyTree[Array]]

SCANS = ("systematic", "cyclic", "random")


class Gibbs(Sampler):
    """Blocks of theta one after another, each from the user's conditional; made by `gibbs`."""

    conditionals: tuple[tuple[str, Conditional], ...] = eqx.field(static=True)
    scan: str = eqx.field(static=True, default="systematic")
    target: Any = None

    name = "gibbs"

    def __str__(self) -> str:
        return "exact conditionals, block by block"

    is_exact = True

    def on(self, target: Target, temperature: Number = 1.0, gradient: Estimator | None = None) -> "Gibbs":
        """The same: the target is that of the conditionals, and the one given is for diagnostics alone."""
        target = _checks.check_target(target, temperature, gradient)
        if isinstance(temperature, jax.core.Tracer) or float(temperature) != 1:
            raise ValueError(
                "the temperature of a Gibbs sampler is that of its conditionals; "
                f"temperature={temperature} was given. Leave it at 1, and give the conditionals of exp(-U/T)."
            )
        return dataclasses.replace(self, target=target)

    def init(self, position: PyTree[Any], *, key: Key[Array, ""] | None = None) -> SamplerState:
        """The state to start from, after every conditional has been tried on it for shapes."""
        theta = _checks.check_position(self, position)
        if not isinstance(theta, Mapping):
            raise ValueError(
                "theta must be a dictionary, of which the conditionals name the blocks; it is "
                f"{describe_shapes(theta)}."
            )
        for name, _ in self.conditionals:
            if name not in theta:
                raise ValueError(
                    f"there is a conditional for {name!r}, but theta has only {', '.join(map(str, theta))}."
                    f"{nearest(name, [str(known) for known in theta])}"
                )
        left = [name for name in theta if name not in dict(self.conditionals)]
        if left:
            raise ValueError(f"there is no conditional for {left[0]!r}: give one for every block of theta.")
        for name, conditional in self.conditionals:
            shapes = jax.eval_shape(conditional, jax.random.key(0), theta)
            if not same_shapes(shapes, theta[name]):
                raise ValueError(
                    f"the conditional of {name!r} gives {describe_shapes(shapes)}; theta[{name!r}] is "
                    f"{describe_shapes(theta[name])}."
                )
        return SamplerState({"theta": dict(theta)}, no_steps())

    def advance(
        self, draws: Arrays, state: SamplerState, batch: Arrays = None, number: Count | None = None
    ) -> tuple[SamplerState, Info]:
        """Every block once, or one of them."""
        _checks.no_batch(self, batch)
        number = state.step if number is None else number
        choice_key, key = jax.random.split(draws)

        def update(block: tuple[str, Conditional], theta: PyTree[Array], key: Array) -> Any:
            name, conditional = block
            old = theta[name]
            new = jax.tree.map(lambda a, b: jnp.asarray(a, b.dtype), conditional(key, theta), old)
            return {**theta, name: new}

        theta, blocks = state.position, len(self.conditionals)
        if self.scan == "systematic":
            for block, own in zip(self.conditionals, jax.random.split(key, blocks), strict=True):
                theta = update(block, theta, own)
        else:
            chosen = (
                jax.random.randint(choice_key, (), 0, blocks) if self.scan == "random" else number % blocks
            )
            branches = [lambda t, k, block=block: update(block, t, k) for block in self.conditionals]
            theta = jax.lax.switch(chosen, branches, theta, key)
        return SamplerState({"theta": theta}, state.step + 1), Info(all_finite(theta))


class NormalGibbs(Sampler):
    """Coordinates of a normal distribution in turn, each given the others; made by `gibbs_normal`."""

    mean: Float[Array, " d"]
    precision: Float[Array, "d d"]
    scan: str = eqx.field(static=True, default="systematic")
    target: Any = None
    temperature: Any = 1.0

    name = "gibbs_normal"

    def __str__(self) -> str:
        return "exact conditionals, coordinate by coordinate"

    is_exact = True

    def on(
        self, target: Target, temperature: Number = 1.0, gradient: Estimator | None = None
    ) -> "NormalGibbs":
        """The same at a temperature; the target given is for diagnostics alone."""
        return _checks.placed(self, target, temperature, gradient)

    def init(self, position: PyTree[Any], *, key: Key[Array, ""] | None = None) -> SamplerState:
        """The state to start from."""
        theta = _checks.check_position(self, position)
        if ravel(theta).shape != self.mean.shape:
            raise ValueError(f"theta has {ravel(theta).size} numbers, the mean {self.mean.size}.")
        return SamplerState({"theta": theta}, no_steps())

    def draw(self, key: Key[Array, ""], state: SamplerState) -> tuple[Array, Array]:
        """Noise for every coordinate, and which one is moved in a random scan."""
        noise_key, choice_key = jax.random.split(key)
        x = ravel(state.position)
        return jax.random.normal(noise_key, x.shape, x.dtype), jax.random.randint(choice_key, (), 0, x.size)

    def advance(
        self, draws: Arrays, state: SamplerState, batch: Arrays = None, number: Count | None = None
    ) -> tuple[SamplerState, Info]:
        """Every coordinate once, or one of them."""
        _checks.no_batch(self, batch)
        number = state.step if number is None else number
        noise, chosen = draws
        x = ravel(state.position)
        mean, precision = self.mean.astype(x.dtype), self.precision.astype(x.dtype)
        T = jnp.asarray(self.temperature, x.dtype)

        def update(i: Array, x: Array) -> Array:
            row = precision[i]
            shift = row @ (x - mean) / row[i]
            return x.at[i].add(-shift + jnp.sqrt(T / row[i]) * noise[i])

        if self.scan == "systematic":
            x = jax.lax.fori_loop(0, x.size, update, x)
        else:
            x = update(chosen if self.scan == "random" else number % x.size, x)
        theta = unravel(x, state.position)
        return SamplerState({"theta": theta}, state.step + 1), Info(all_finite(theta))


def gibbs(conditionals: Mapping[str, Conditional], *, scan: str = "systematic") -> Gibbs:
    r"""Gibbs sampling (Geman and Geman 1984): θ_b ~ p(θ_b | all other blocks), block after block.

    theta is a dictionary with a conditional for each of its keys; what is sampled is the distribution that
    they are the conditionals of, and no gradient or density is needed: the target of `fk.sample` is for
    diagnostics. `scan`: "systematic", every block in the order given, is one step; "cyclic", one block per
    step in turn, and "random", one block at random, show the single moves. The last is reversible.

    Arguments:

    - `conditionals`: by block: a function of (key, theta) that draws the block given the rest.
    - `scan`: "systematic", "cyclic" or "random".

    Returns a sampler of its own class: it follows no dynamics.

    ```python
    sampler = fk.samplers.gibbs({
        "a": lambda key, theta: 0.5 * theta["b"] + jax.random.normal(key),
        "b": lambda key, theta: 0.5 * theta["a"] + jax.random.normal(key),
    })
    state = sampler.on(target).init({"a": jnp.zeros(()), "b": jnp.zeros(())}, key=jax.random.key(0))
    ```
    """
    if not isinstance(conditionals, Mapping) or not conditionals:
        raise ValueError("gibbs takes a dictionary of conditionals, as {'a': lambda key, theta: …}.")
    for name, conditional in conditionals.items():
        if not callable(conditional):
            raise TypeError(f"the conditional of {name!r} must be a function of (key, theta).")
    _check_scan(scan)
    return Gibbs(tuple(conditionals.items()), scan)


def gibbs_normal(mean: PyTree[Array], covariance: PyTree[Array], *, scan: str = "systematic") -> NormalGibbs:
    r"""Gibbs sampling of N(mean, T·covariance) by coordinates.

        θ_i | rest ~ N(m_i - Σ_{j≠i} Λ_ij(θ_j - m_j)/Λ_ii, T/Λ_ii),   Λ = covariance⁻¹

    With a correlation ρ in two dimensions a sweep forgets by a factor ρ². `scan` as in `gibbs`; theta is any
    tree with as many numbers as the mean.

    Arguments:

    - `mean`: m, a vector.
    - `covariance`: a matrix, symmetric and positive definite.
    - `scan`: "systematic", "cyclic" or "random", as of `gibbs`.

    Returns a sampler of its own class: it follows no dynamics.

    ```python
    sampler = fk.samplers.gibbs_normal(jnp.zeros(2), jnp.eye(2))
    trace = fk.sample(target, sampler, init=jnp.zeros(2), steps=1000)
    ```
    """
    _check_scan(scan)
    m, C = np.asarray(mean, float), np.asarray(covariance, float)
    if m.ndim != 1 or C.shape != (m.size, m.size):
        raise ValueError(f"a mean of shape {m.shape} has no covariance of shape {C.shape}.")
    if not np.allclose(C, C.T) or not np.all(np.linalg.eigvalsh(C) > 0):
        raise ValueError("the covariance must be symmetric and positive definite.")
    return NormalGibbs(as_arrays(m), as_arrays(np.linalg.inv(C)), scan)


def _check_scan(scan: str) -> None:
    if scan not in SCANS:
        raise ValueError(f"scan is one of {', '.join(map(repr, SCANS))}, not {scan!r}.")
