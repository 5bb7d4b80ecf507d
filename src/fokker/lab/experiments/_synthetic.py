"""Chains on known densities: noisy gradients, minibatches, and many steps of a sampler as one function.

These experiments run a sampler at dozens of settings, some of which are known to blow up. `fk.sample` runs
one setting at a time, compiles a program for each friction and metric, and stops all chains with the first
one that leaves the finite numbers. Here the settings are vectorised over like chains, in one program: the
figures take a quarter to a half of the time that they take with `fk.sample`.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from fokker.samplers import Recipe, SamplerState
from fokker.targets import Target

# Steps whose randomness is drawn at once, which costs a fifth of drawing it step by step.
_BLOCK = 500
# Draws from a key the batches of a number of steps; the first axis runs over the steps.
Batches = Callable[[Key[Array, ""], int], PyTree[Array]]


class NoisyGradient(Target):
    """A target whose gradient is seen with noise: Ũ(θ) = U(θ) + nᵀθ, where the batch is n."""

    exact_potential: Callable[[Array], Array]

    def potential(self, theta: Array) -> Array:
        """U."""
        return self.exact_potential(theta)

    def minibatch_potential(self, theta: Array, batch: Array) -> Array:
        """U + nᵀθ, of gradient ∇U + n."""
        return self.potential(theta) + jnp.vdot(batch, theta)


def gaussian(variance: Any, dimension: int) -> Batches:
    """Gradient noise N(0, variance·I)."""

    def noise(key: Key[Array, ""], number: int) -> Array:
        # Drawn in one row: XLA takes ten times as long to compile a draw with two axes.
        drawn = jax.random.normal(key, (number * dimension,))
        return jnp.sqrt(variance) * drawn.reshape(number, dimension)

    return noise


def minibatch(data: Array, size: int) -> Batches:
    """Draws `size` rows of the data with replacement."""

    def rows(key: Key[Array, ""], number: int) -> Array:
        # Of a hundred rows each is as likely to five digits, at half the cost of jax.random.randint.
        places = jnp.floor(len(data) * jax.random.uniform(key, (number * size,)))
        return data[places.astype(jnp.int32)].reshape(number, size)

    return rows


def position_of(state: SamplerState) -> PyTree[Array]:
    """What a chain records by default."""
    return state.position


def simulate(
    sampler: Recipe,
    start: PyTree[Array],
    key: Key[Array, ""],
    steps: int,
    batches: Batches,
    record: Callable[[SamplerState], PyTree[Array]] = position_of,
    thin: int = 1,
) -> PyTree[Array]:
    """One chain of a sampler that has its target: `record` of every `thin`-th state, the first axis time.

    Pure, to be vectorised over chains and settings and compiled as a whole. `steps` is rounded down to whole
    blocks.
    """
    first_key, run_key = jax.random.split(key)
    length = max(thin, _BLOCK // thin * thin)

    def block(state: SamplerState, block_key: Array) -> tuple[SamplerState, PyTree[Array]]:
        noise_key, batch_key = jax.random.split(block_key)
        noise = jax.vmap(lambda k: sampler.draw(k, state))(jax.random.split(noise_key, length))
        seen = batches(batch_key, length)

        def step(state: SamplerState, inputs: Any) -> tuple[SamplerState, PyTree[Array]]:
            state, _ = sampler.advance(inputs[0], state, inputs[1])
            return state, record(state)

        state, out = jax.lax.scan(step, state, (noise, seen))
        return state, jax.tree.map(lambda x: x[thin - 1 :: thin], out)

    first_state = sampler.init(start, key=first_key)
    _, out = jax.lax.scan(block, first_state, jax.random.split(run_key, steps // length))
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), out)
