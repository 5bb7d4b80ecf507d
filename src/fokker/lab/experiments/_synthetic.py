"""Chains on known densities: noisy gradients, minibatches, and many steps of a sampler as one function.

These experiments run a sampler at dozens of settings, some of which are known to blow up: the settings are
vectorised over like chains, in one program (`_loop.py`).
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Key, PyTree

from fokker.lab.experiments._loop import in_blocks
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


def gaussian(variance: ArrayLike, dimension: int) -> Batches:
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

    def inputs(block_key: Array, state: SamplerState) -> tuple[PyTree[Array], PyTree[Array]]:
        noise_key, batch_key = jax.random.split(block_key)
        noise = jax.vmap(lambda k: sampler.draw(k, state))(jax.random.split(noise_key, length))
        return noise, batches(batch_key, length)

    def thinned(state: SamplerState, recorded: PyTree[Array]) -> PyTree[Array]:
        return jax.tree.map(lambda x: x[thin - 1 :: thin], recorded)

    keys = jax.random.split(run_key, steps // length)
    state = sampler.init(start, key=first_key)
    out = in_blocks(sampler.advance, state, keys, inputs, lambda state, _: record(state), thinned)
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), out)
