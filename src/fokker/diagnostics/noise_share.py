"""The share of minibatch noise in the noise of a step."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from fokker.batches import Batch, StreamBatches
from fokker.samplers import Sampler


def gradient_noise_share(
    sampler: Sampler, states: Any, batches: Any, seed: int = 0, positions: Any = None, repeats: int = 1
) -> float | None:
    r"""ε tr B̂ / 2T tr D over the chains' states: the ratio of minibatch noise to injected noise, in variance.

    B̂ is the covariance of the drift (`fk.Dynamics.drift_noise`), from the spread of the gradients of single
    data in one batch per chain. Steps that share a batch add its noise up, r steps r² times the variance of
    one: as much as that of r times B̂ in each, where the chain moves little meanwhile.

    Arguments:

    - `sampler`: on its target, as `trace.origin.sampler`.
    - `states`: the states of the chains, as `trace.state`.
    - `batches`: how rows are drawn (`fk.batches`), as `trace.origin.batches`.
    - `seed`: of the batches; of a stream the first is taken.
    - `positions`: where gradients are taken and averaged over, a tree like theta with the leading axes chain
      and draw. None takes the positions of the states.
    - `repeats`: r, how many steps share a batch.

    Returns the ratio, or None where it is not known: without minibatches, with batches of a single row, or
    for a sampler that does not say it.

    ```python
    trace = fk.sample(posterior, fk.samplers.sgld(1e-3), init=jnp.zeros(2), steps=1000, batch_size=2)
    share = fk.diagnostics.gradient_noise_share(trace.origin.sampler, trace.state, trace.origin.batches)
    ```
    """
    if batches is None or batches.batch_size < 2 or not sampler.wants_target:
        return None
    keys = jax.random.split(jax.random.key(seed), jax.tree.leaves(states.position)[0].shape[0])
    # Of a stream only its first batch can be asked for.
    first = batches.batch(sampler.own_target.data, None) if isinstance(batches, StreamBatches) else None
    if positions is None:
        positions = jax.tree.map(lambda x: x[:, None], states.position)
    variances = _variances(sampler, states, positions, batches, keys, first)
    if variances is None:
        return None
    minibatch, injected = variances
    return float(repeats * jnp.mean(minibatch) / jnp.mean(injected))


@eqx.filter_jit
def _variances(
    sampler: Sampler, states: Any, positions: Any, batches: Any, keys: Array, batch: Batch | None
) -> tuple[Array, Array] | None:
    def of_chain(state: Any, places: Any, key: Array) -> tuple[Array, Array] | None:
        unused = jnp.zeros((), jnp.uint32)
        used = batch
        if used is None:
            used = batches.batch(sampler.own_target.data, batches.rows(key, key, unused, unused))
        return sampler.noise_variances(state, places, used)

    return jax.vmap(of_chain)(states, positions, keys)
