"""Arrays of more than 2³¹ - 1 numbers: nothing counts them in 32 bits.

No machine that runs the tests holds such an array: the programs of a run are traced and lowered for its
shape.
"""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import fokker as fk
from fokker._core.count import Count
from fokker.run.block import position_of
from fokker.run.lockstep import Form, Program, Task, first_chains, run_block
from fokker.run.moments import Moments
from fokker.samplers.contract import start_chains

TARGET = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
SAMPLERS = {
    "sgld": fk.samplers.sgld,
    "sghmc": fk.samplers.sghmc,
    "sgnht": fk.samplers.sgnht,
    "diagonal sgnht": partial(fk.samplers.sgnht, kind="diagonal"),
}


def lowered(sampler, shape, dtype=jnp.float32, keeps_moments=False):
    """The program of a block of steps of one chain, whose theta has the given shape."""
    placed = sampler.on(TARGET)
    keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), 1))
    position = jax.ShapeDtypeStruct((1, *shape), dtype)
    states = eqx.filter_eval_shape(start_chains, placed, position, keys)
    moments = None
    if keeps_moments:
        moments = jax.eval_shape(jax.vmap(lambda state: Moments.of(position_of(placed, state))), states)
    chains = eqx.filter_eval_shape(first_chains, states, moments)
    form = Form(1, ahead=False, known=False, each_step=False)
    place = (Count.of(0), jnp.uint32(0))
    one = jnp.int32(1)
    task = Task(Count.of(0), one, one, jnp.asarray(True), Count.of(0), place, jnp.int32(0))
    block = jax.jit(
        lambda keys, chains: run_block((Program(placed, None, None, keys, 2, form), task), chains)
    )
    return block.lower(keys, chains)


@pytest.mark.parametrize("noise", ["gaussian", "two-point", "three-point", "binomial"])
@pytest.mark.parametrize("name", SAMPLERS)
def test_a_run_of_more_parameters_than_32_bits_count_is_compiled(name, noise):
    # No multiple of the 32 numbers that a random word makes; the second takes two words to count.
    size = 2**33 + 8 if noise == "two-point" else 2**31 + 8
    chains, _, out = lowered(SAMPLERS[name](1e-3, noise=noise), (size,)).out_info
    assert chains.states.position.shape == (1, size)
    assert out["position"].shape == (2, 1, size)


def test_the_same_for_moments_half_precision_matrices_and_directions():
    shape = (2**28 + 1, 8)
    sghmc = fk.samplers.sghmc(1e-3)
    assert lowered(sghmc, shape, keeps_moments=True).out_info[0].moments.mean.shape == (1, *shape)
    assert lowered(sghmc, shape, jnp.bfloat16).out_info[0].states.position.dtype == jnp.bfloat16
    assert lowered(fk.samplers.mclmc(1e-3, 1.0), shape).out_info[0].states.position.shape == (1, *shape)
