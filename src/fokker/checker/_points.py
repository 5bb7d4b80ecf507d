"""Points where the target has mass, drawn without the sampler that is under test."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from fokker.checker._residual import compile_once

Points = Float[Array, "n d"]
# The ensemble, its energies and gradients, the proposal's scale in each coordinate, and its log step.
Carry = tuple[Points, Array, Points, Array, Array]

# Rounds of adaptation: in each the spread of the ensemble becomes the proposal's scale.
_ROUNDS = 4
_STEPS = 150
# Acceptance at which Metropolis-adjusted Langevin moves fastest (Roberts and Rosenthal 1998).
_ACCEPTANCE = 0.574


@dataclass(frozen=True)
class Drawn:
    """`points`, one from each of n independent chains; whether the chains settled; the acceptance rate."""

    points: Points
    acceptance: float
    settled: bool


def draw_points(
    hamiltonian: Callable[[Array], Array], start: Float[Array, " d"], number: int, key: Key[Array, ""]
) -> tuple[Drawn, Drawn]:
    r"""Points from exp(-H), and wide points from exp(-H/4), by Metropolis-adjusted Langevin chains.

    The chains are independent given the adapted proposal, one point each, so that n points are n draws. The
    wide ones reach into the tails and between modes, where a wrong term may hide.
    """
    energy_and_gradient = jax.vmap(jax.value_and_grad(hamiltonian))

    def run(x: Points, beta: Array, normals: Array, uniforms: Array) -> tuple[Points, Array, Array]:
        def evaluate(x: Points) -> tuple[Array, Points]:
            energy, gradient = energy_and_gradient(x)
            return beta * energy, beta * gradient

        def step(carry: Carry, noise: tuple[Array, Array]) -> tuple[Carry, Array]:
            x, energy, gradient, scale, log_h = carry
            normal, uniform = noise
            h = jnp.exp(log_h)

            def log_proposal(to: Points, start: Points, slope: Points) -> Array:
                return -jnp.sum(((to - start) / scale + h * scale * slope) ** 2, axis=1) / (4 * h)

            proposed = x - h * scale**2 * gradient + jnp.sqrt(2 * h) * scale * normal
            new_energy, new_gradient = evaluate(proposed)
            ratio = energy - new_energy
            ratio += log_proposal(x, proposed, new_gradient) - log_proposal(proposed, x, gradient)
            finite = jnp.isfinite(new_energy) & jnp.all(jnp.isfinite(new_gradient), axis=1)
            accept = finite & (jnp.log(uniform) < ratio)
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

        # Chains that start where H is not finite start from the example state instead.
        energy, gradient = evaluate(x)
        inside = jnp.isfinite(energy) & jnp.all(jnp.isfinite(gradient), axis=1)
        x = jnp.where(inside[:, None], x, start[None])
        log_h = jnp.asarray(-2.0 - jnp.log(x.shape[1]) / 3)
        carry = (x, *evaluate(x), jnp.ones_like(start[None]), log_h)
        (points, energy, *_), (rates, reaches) = jax.lax.scan(one_round, carry, (normals, uniforms))
        # A chain that is still on its way in from far out has an energy that draws from the target have not;
        # another chain's point takes its place.
        arrived = energy <= jnp.median(energy) + 30 + 3 * x.shape[1]
        places = jnp.arange(len(points))
        last = jax.lax.associative_scan(jnp.maximum, jnp.where(arrived, places, -1))
        points = points[jnp.where(last < 0, jnp.argmax(arrived), last)]
        return points, rates[-1], reaches

    # All randomness is drawn before the loop: the generator's code is then not compiled again for every H.
    jitter_key, *run_keys = jax.random.split(key, 3)
    # In few dimensions half of the chains start far out, to find modes that are not next to the start.
    reach = jnp.where(jnp.arange(number) % 2 == 1, 10.0 ** jnp.linspace(0, 2, number), 1.0)
    reach = reach if start.size <= 12 else jnp.ones(number)
    jitter = jax.random.normal(jitter_key, (number, start.size), start.dtype)
    jittered = start[None] + reach[:, None] * jitter
    compiled = compile_once(run)
    drawn = []
    for beta, run_key in zip((1.0, 0.25), run_keys, strict=True):
        normal_key, uniform_key = jax.random.split(run_key)
        normals = jax.random.normal(normal_key, (_ROUNDS, _STEPS, number, start.size), start.dtype)
        uniforms = jax.random.uniform(uniform_key, (_ROUNDS, _STEPS, number), start.dtype)
        points, rate, reaches = compiled(jittered, jnp.asarray(beta), normals, uniforms)
        # An ensemble that is still spreading in its last round has not arrived, or never will.
        growth = jnp.log(reaches[-1] / reaches[-2])
        growing = not bool((jnp.mean(growth) < 0.3) & (jnp.max(growth) < 2.0))
        moved = bool(jnp.any(jnp.std(points, axis=0) > 0))
        drawn.append(Drawn(points, float(rate), moved and not growing and float(rate) > 0.05))
    return drawn[0], drawn[1]
