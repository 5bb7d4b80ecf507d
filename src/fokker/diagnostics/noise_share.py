"""The share of minibatch noise in the noise of a step."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from fokker._core.rounding import raised
from fokker.batches import Batch, StreamBatches
from fokker.dynamics import Dynamics
from fokker.gradients import OnlineNoise
from fokker.samplers._sampler import step_size_at
from fokker.samplers.recipe import Recipe


def gradient_noise_share(
    sampler: Any, states: Any, batches: Any, seed: int = 0, positions: Any = None
) -> float | None:
    r"""ε tr B̂ / 2T tr D over the chains' states: the ratio of minibatch noise to injected noise, in variance.

    B̂ is the covariance of the drift (`fk.Dynamics.drift_noise`), from the spread of the gradients of single
    data in one batch per chain. None if it is unknown: without minibatches, or without a fk.Dynamics.
    `positions`, chain × draw: where gradients are taken, and averaged over; by default the states'.
    """
    if not isinstance(sampler, Recipe) or batches is None or batches.batch_size < 2 or sampler.family is None:
        return None
    if not isinstance(sampler.placed, Dynamics):
        return None
    keys = jax.random.split(jax.random.key(seed), jax.tree.leaves(states.z)[0].shape[0])
    # Of a stream only its first batch can be asked for.
    first = batches.batch(sampler.own_target.data, None) if isinstance(batches, StreamBatches) else None
    if positions is None:
        positions = jax.tree.map(lambda x: x[:, None], states.position)
    minibatch, injected = _variances(sampler, states, positions, batches, keys, first)
    return float(jnp.mean(minibatch) / jnp.mean(injected))


@eqx.filter_jit
def _variances(
    sampler: Recipe, states: Any, positions: Any, batches: Any, keys: Array, batch: Batch | None
) -> tuple[Array, Array]:
    def of_chain(state: Any, places: Any, key: Array) -> tuple[Array, Array]:
        state = state._replace(z=raised(state.z))
        dynamics, target, online = sampler.placed, sampler.own_target, OnlineNoise("diagonal")
        assert isinstance(dynamics, Dynamics)
        unused = jnp.zeros((), jnp.uint32)
        used = batch
        if used is None:
            used = batches.batch(target.data, batches.rows(key, key, unused, unused))
        h = step_size_at(sampler.step_size, state.step)

        def noise(position: Any) -> Array:
            each = sampler.estimator.contributions(target, state.memory.estimator, position, used)
            V = online.estimate(each, used.scatter)
            return h * _trace(dynamics.drift_noise(state.z, online.field(V)), state.z)

        injected = 2 * dynamics.temperature * _trace(dynamics.D, state.z)
        return jnp.mean(jax.lax.map(noise, raised(places))), injected

    return jax.vmap(of_chain)(states, positions, keys)


def _trace(field: Any, z: Any) -> Array:
    diagonal = field.diagonal(z)
    if diagonal is None:
        return jnp.trace(field.as_matrix(z))
    return jax.tree.reduce(jnp.add, jax.tree.map(jnp.sum, diagonal))
