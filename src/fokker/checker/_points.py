"""Points from the target, drawn independently of the sampler under test."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fokker._core.quick import compile_once

Points = Float[Array, "n d"]
# The ensemble, its energies and gradients, the proposal's scale in each coordinate, and its log step.
Carry = tuple[Points, Array, Points, Array, Array]
# The ensemble, its energies and gradients, and the step of each of its points.
Descent = tuple[Points, Array, Points, Array]

# Rounds of adaptation: after each, the spread of the ensemble becomes the proposal's scale.
_ROUNDS = 4
_STEPS = 150
# The optimal acceptance rate of Metropolis-adjusted Langevin (Roberts and Rosenthal 1998).
_ACCEPTANCE = 0.574
_DESCENTS = 200


@dataclass(frozen=True)
class Drawn:
    """`points`, one from each of n independent chains; the minima `below` them; whether they settled."""

    points: np.ndarray
    below: np.ndarray
    settled: bool


def _is_sound(energy: Array, gradient: Points) -> Array:
    return jnp.isfinite(energy) & jnp.all(jnp.isfinite(gradient), axis=1)


def _descent(hamiltonian: Callable[[Array], Array]) -> Callable[[Points, Points, Array], Points]:
    """Descends from points; `home` is near them."""
    energy_and_gradient = jax.vmap(jax.value_and_grad(hamiltonian))

    def descend(x: Points, home: Points, enough: Array) -> Points:
        """Gradient descent until the energy is at most `enough`."""

        def step(_: int, carry: Descent) -> Descent:
            x, energy, gradient, size = carry
            length = jnp.sqrt(jnp.sum(gradient**2, axis=1))
            proposed = x - (size / jnp.where(length > 0, length, 1.0))[:, None] * gradient
            new_energy, new_gradient = energy_and_gradient(proposed)
            better = _is_sound(new_energy, new_gradient) & (new_energy < energy) & (energy > enough)
            x, gradient = (
                jnp.where(better[:, None], a, b) for a, b in ((proposed, x), (new_gradient, gradient))
            )
            return x, jnp.where(better, new_energy, energy), gradient, size * jnp.where(better, 1.5, 0.4)

        # A chain whose start has no finite H starts at a given start instead.
        x = jnp.where(_is_sound(*energy_and_gradient(x))[:, None], x, home)
        size = 0.1 * jnp.sqrt(jnp.sum((x - home) ** 2, axis=1)) + 1e-3
        return jax.lax.fori_loop(0, _DESCENTS, step, (x, *energy_and_gradient(x), size))[0]

    return descend


def _chains(
    hamiltonian: Callable[[Array], Array], number: int
) -> Callable[[Points, Array, Array, Array], tuple[Points, Array, Array]]:
    """Chains for exp(-βH): the points, the acceptance rate of the last round, and the reach of each round."""
    energy_and_gradient = jax.vmap(jax.value_and_grad(hamiltonian))

    def run(x: Points, beta: Array, normals: Array, uniforms: Array) -> tuple[Points, Array, Array]:
        def evaluate(x: Points) -> tuple[Array, Points]:
            energy, gradient = energy_and_gradient(x)
            return beta * energy, beta * gradient

        def step(carry: Carry, noise: tuple[Array, Array]) -> tuple[Carry, Array]:
            x, energy, gradient, scale, log_h = carry
            normal, uniform = noise
            h = jnp.exp(log_h)

            def log_proposal(to: Points, start: Points, gradient: Points) -> Array:
                return -jnp.sum(((to - start) / scale + h * scale * gradient) ** 2, axis=1) / (4 * h)

            proposed = x - h * scale**2 * gradient + jnp.sqrt(2 * h) * scale * normal
            new_energy, new_gradient = evaluate(proposed)
            ratio = energy - new_energy
            ratio += log_proposal(x, proposed, new_gradient) - log_proposal(proposed, x, gradient)
            accept = _is_sound(new_energy, new_gradient) & (jnp.log(uniform) < ratio)
            x = jnp.where(accept[:, None], proposed, x)
            energy = jnp.where(accept, new_energy, energy)
            gradient = jnp.where(accept[:, None], new_gradient, gradient)
            rate = jnp.mean(accept)
            return (x, energy, gradient, scale, log_h + 0.1 * (rate - _ACCEPTANCE)), rate

        def one_round(carry: Carry, noise: tuple[Array, Array]) -> tuple[Carry, tuple[Array, Array]]:
            (x, energy, gradient, scale, log_h), rates = jax.lax.scan(step, carry, noise)
            spread = jnp.std(x, axis=0, keepdims=True)
            scale = jnp.where(spread > 0, spread, scale)
            rate = jnp.mean(rates[_STEPS // 2 :])
            return (x, energy, gradient, scale, log_h), (rate, jnp.median(jnp.abs(x), axis=0))

        d = x.shape[1]
        log_h = jnp.asarray(-2.0 - np.log(d) / 3)
        carry = (x, *evaluate(x), jnp.ones((1, d)), log_h)
        (points, energy, *_), (rates, reaches) = jax.lax.scan(one_round, carry, (normals, uniforms))
        # A chain that has not yet reached the target has a higher energy than draws from it; its point is
        # replaced by that of another chain.
        has_reached = energy <= jnp.median(energy) + 30 + 3 * d
        places = jnp.arange(number)
        last = jax.lax.associative_scan(jnp.maximum, jnp.where(has_reached, places, -1))
        points = points[jnp.where(last < 0, jnp.argmax(has_reached), last)]
        return points, rates[-1], reaches

    return run


def draw_points(
    hamiltonian: Callable[[Array], Array],
    starts: np.ndarray,
    number: int,
    generator: np.random.Generator,
    are_draws: np.ndarray | bool = False,
) -> tuple[Drawn, Drawn]:
    r"""Points from exp(-H), and wide points from exp(-H/4), by Metropolis-adjusted Langevin chains.

    The chains are independent given the adapted proposal and give one point each, so that n points are n
    draws. They start around the rows of `starts`. Half of them start far out and descend into a mode nearby,
    which may be far from every start. Coordinates of `starts` that `are_draws` are not changed. The wide
    points reach the tails and the regions between modes, where an error may be hidden.
    """
    d = starts.shape[1]
    # Random numbers are drawn on the host: compiling a generator for each shape would cost more than the
    # rest.
    home = starts[np.arange(number) % len(starts)]
    reach = np.where(np.arange(number) // len(starts) % 2 == 1, 10.0 ** np.linspace(0, 2, number), 1.0)
    reach = np.ones(number) if np.any(are_draws) else reach
    jittered = home + np.where(are_draws, 0.0, reach[:, None]) * generator.normal(size=home.shape)
    compiled_descent = compile_once(_descent(hamiltonian))
    energy = np.asarray(compile_once(jax.vmap(hamiltonian))(starts))
    # Descend to the energy of the starts; the chains continue from there.
    first = compiled_descent(jittered, home, np.min(energy) + d)
    compiled = compile_once(_chains(hamiltonian, number))
    results = []
    for beta in (1.0, 0.25):
        normals = generator.normal(size=(_ROUNDS, _STEPS, number, d))
        uniforms = generator.uniform(size=(_ROUNDS, _STEPS, number))
        points, rate, reaches = (np.asarray(x) for x in compiled(first, np.asarray(beta), normals, uniforms))
        # An ensemble that is still spreading in its last round has not converged, or never will.
        with np.errstate(all="ignore"):
            growth = np.log(reaches[-1] / reaches[-2])
        # The tolerance includes four standard errors of the mean of d medians of n chains.
        is_growing = not bool((np.mean(growth) < 0.3 + 4 / np.sqrt(number * d)) & (np.max(growth) < 2.0))
        has_moved = bool(np.any(np.std(points, axis=0) > 0))
        settled = has_moved and not is_growing and float(rate) > 0.05
        below = np.asarray(
            compiled_descent(points, np.mean(points, axis=0, keepdims=True) + 0 * points, np.asarray(-np.inf))
        )
        results.append(Drawn(points, below, settled))
    return results[0], results[1]
