"""Every sampler through one list of checks; `registry.py` lists them with what they claim.

The checks of a sampler share one compiled step: two chains at once, in single precision.
"""

import functools
import itertools
import pickle
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from affine import Gaussian, affine_in, precision_of, stationary, wanted
from conftest import quick_jit
from fokker._core import random as _random
from fokker._core.rounding import raised
from fokker.gradients import ControlVariates, control_variates
from fokker.run.record import in_words
from key_words import Words
from registry import (
    AFFINE,
    EVERY,
    REFUSING_HALF,
    ROUNDING,
    THETA,
    claims_to_be_exact,
    is_finite,
    past_the_first,
    placed,
    started,
)

pytestmark = pytest.mark.dependencies

CHAINS = 2


def test_those_that_claim_to_be_exact_are_exact_in_the_table():
    assert {name.partition(",")[0] for name in AFFINE} <= {name.partition(",")[0] for name in EVERY}
    assert {name for name in EVERY if claims_to_be_exact(placed(name))} == {
        name for name, entry in EVERY.items() if entry.exact
    }


@pytest.mark.parametrize("name", EVERY)
def test_a_sampler_on_its_target_can_be_pickled(name):
    sampler = placed(name)
    restored = pickle.loads(pickle.dumps(sampler))
    assert in_words(restored) == in_words(sampler)
    if name in ("sghmc", "nuts"):  # it goes on with the programs that were compiled for the other
        assert jax.tree.structure(restored) == jax.tree.structure(sampler)


# One compiled step ------------------------------------------------------------------------------------------


class Stepped(NamedTuple):
    """A sampler, its compiled step as a function of a seed and the states, and what the first step gave."""

    sampler: Any
    step: Any
    traces: list[int]
    states: Any
    after: Any
    info: Any


def different(name, i):
    """Theta of chain i."""
    return jax.tree.map(lambda x: x * (1 - 0.25 * i), EVERY[name].setting.theta)


@functools.cache
def stepped(name):
    """Compiled with JAX's own search for keys that are used twice."""
    sampler, traces = placed(name), []
    first = quick_jit(lambda theta, key: past_the_first(started(sampler, theta, key)))
    starts = [first(different(name, i), jax.random.key(i)) for i in range(CHAINS)]
    states = jax.tree.map(lambda *x: jnp.stack(x), *starts)

    def step(key, state):
        traces.append(1)
        return sampler.step(key, state)

    mapped = quick_jit(jax.vmap(step))

    def checked(seed, states):
        with jax.debug_key_reuse(EVERY[name].keys_are_followed):
            return mapped(keys_of(seed), states)

    return Stepped(sampler, checked, traces, states, *checked(0, states))


def keys_of(seed):
    """One for each chain, made again each time: JAX takes note of those that it has seen."""
    return jax.random.split(jax.random.key(seed), CHAINS)


def chain(tree, i):
    """What is of chain i."""
    return jax.tree.map(lambda x: x[i], tree)


def leaves(tree):
    """As NumPy arrays, keys by their words."""
    return [
        np.asarray(jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x)
        for x in jax.tree.leaves(tree)
    ]


# Their trajectories are those of NUTS, and they take the longest to compile.
REPEATS = ("naive_nuts", "recipe, tree")


# Of module scope, so that all checks of a sampler run one after the other, on one worker.
@pytest.fixture(
    scope="module",
    params=[
        pytest.param(
            n,
            marks=pytest.mark.long("every_sampler::a_step_gives_the_next_state_and_what_is_to_be_said_of_it")
            if EVERY[n].another_name or n in REPEATS
            else (),
        )
        for n in EVERY
    ],
)
def name(request):
    return request.param


def test_a_step_gives_the_next_state_and_what_is_to_be_said_of_it(name):
    one = stepped(name)
    assert jax.tree.structure(one.after) == jax.tree.structure(one.states)
    shapes = [[(x.shape, x.dtype) for x in jax.tree.leaves(state)] for state in (one.states, one.after)]
    assert shapes[0] == shapes[1]
    assert np.all(is_finite(one.info))
    assert one.info.noise_shortfall is None or np.all(one.info.noise_shortfall == 0)
    moved = False
    for i in range(CHAINS):
        first, second = chain(one.states, i), chain(one.after, i)
        assert jax.tree.structure(second.position) == jax.tree.structure(EVERY[name].setting.theta)
        assert int(second.step) == int(first.step) + 1
        pairs = zip(leaves(first.position), leaves(second.position), strict=True)
        moved |= any(np.any(a != b) for a, b in pairs)
    assert moved


def test_jit_and_vmap_give_what_a_plain_step_gives(name):
    one = stepped(name)
    last = CHAINS - 1
    state, info = one.sampler.step(keys_of(0)[last], chain(one.states, last))
    for plain, mapped in zip(leaves((state, info)), leaves((one.after, one.info)), strict=True):
        np.testing.assert_allclose(mapped[last], plain, rtol=2e-5, atol=1e-5)


def test_the_second_call_compiles_nothing_and_a_restored_state_goes_on_to_the_bit(name):
    one = stepped(name)
    repeated, _ = one.step(0, one.states)
    one.traces.clear()
    onward = one.step(1, one.after)
    flat, structure = jax.tree.flatten(one.after)
    stored = [np.array(x) for x in flat]
    again = one.step(1, jax.tree.unflatten(structure, [jnp.asarray(x) for x in stored]))
    assert not one.traces
    for a, b in zip(leaves(onward), leaves(again), strict=True):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(leaves(repeated), leaves(one.after), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64], ids=["single", "double"])
def test_a_step_keeps_the_precision_of_theta_where_double_precision_is_on(name, dtype, x64):
    sampler = placed(name)

    def first_and_next(theta):
        state = started(sampler, theta)
        moved, _ = sampler.step(jax.random.key(0), state)
        return state, moved, moved.position

    theta = EVERY[name].setting.theta
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, dtype), theta)
    first, second, position = (
        [x.dtype for x in jax.tree.leaves(tree)] for tree in jax.eval_shape(first_and_next, shapes)
    )
    assert first == second
    assert set(position) == {jnp.dtype(dtype)}


def test_a_step_takes_a_batch_or_refuses_it(name):
    state, setting = chain(stepped(name).states, 0), EVERY[name].setting
    if not placed(name).wants_target:  # made of dynamics, with no gradient for batches
        with pytest.raises(ValueError, match=r"minibatches|no gradient for batches"):
            placed(name).step(jax.random.key(0), state, setting.batch)
        return
    sampler = placed(name, setting.posterior)
    if EVERY[name].minibatches:
        moved = jax.eval_shape(
            lambda key, *args: sampler.step(key, *args)[0], jax.random.key(0), state, setting.batch
        )
        assert jax.tree.structure(moved) == jax.tree.structure(state)
    else:
        with pytest.raises(ValueError, match="no minibatches"):
            sampler.step(jax.random.key(0), state, setting.batch)


def test_a_step_with_a_batch_is_by_the_estimator_given_or_it_is_refused(name):
    """With control variates at theta itself, any batch has the gradient of all the data."""
    setting, entry = EVERY[name].setting, EVERY[name]
    sampler, estimator = entry.make(), control_variates(setting.theta)
    if name == "lazy":
        with pytest.raises(ValueError, match="takes the plain minibatch gradient"):
            sampler.on(setting.posterior, 1.0, estimator)
    if name == "lazy" or not entry.minibatches:  # without batches `fk.sample` refuses any estimator
        return
    batch = jax.tree.map(lambda x: 2 * x, setting.batch)  # its gradient is not that of the data
    key, state = jax.random.key(0), chain(stepped(name).states, 0)
    plain, other = (sampler.on(setting.posterior, 1.0, gradient) for gradient in (None, estimator))
    assert isinstance(other.gradient_estimator, ControlVariates)

    def moved():
        return [one.step(key, state, x)[0] for one, x in ((plain, batch), (other, batch), (other, None))]

    noisy, estimated, exact = (leaves(x) for x in quick_jit(moved)())
    for x, y in zip(estimated, exact, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)
    assert any(np.max(np.abs(x - y)) > 0.01 for x, y in zip(noisy, exact, strict=True))


# Keys -------------------------------------------------------------------------------------------------------


# Those that draw within a step.
WITHIN = ("gibbs", "lazy", "mchmc", "mclmc", "mclmc, unadjusted")


def words_of_two_steps(name, theta, patch):
    """Those used more than once."""
    sampler = placed(name)
    # What is drawn depends on the shapes of a state alone.
    shapes = jax.eval_shape(lambda: started(sampler, theta))
    state = jax.tree.map(lambda x: jnp.ones(x.shape, x.dtype), shapes)
    words = Words(patch)
    for number in range(2):
        key = _random.fold_in(jax.random.key(5), number)
        draws = sampler.draw(key, state)
        if name in WITHIN:
            with jax.disable_jit():
                sampler.advance(draws, state)
        if name == "sghmc":  # a new momentum
            sampler.dynamics.auxiliaries(draws.key, THETA, 1.0)
    return words.repeated()


def test_two_steps_use_every_word_of_a_key_once(name, monkeypatch):
    assert not words_of_two_steps(name, EVERY[name].setting.theta, monkeypatch)


@pytest.mark.parametrize("sampler", ["sgld", "psgld"])
def test_two_steps_in_half_precision_use_every_word_of_a_key_once(sampler, monkeypatch):
    assert not words_of_two_steps(sampler, half(THETA), monkeypatch)


# Half precision ---------------------------------------------------------------------------------------------


ALL_BITS = jnp.arange(2**16, dtype=jnp.uint16)


def half(theta, dtype=jnp.bfloat16):
    return {**theta, "a": theta["a"].astype(dtype)}


@functools.cache
def rounded_steps():
    """A step of every sampler that rounds, in single precision and averaged over all roundings; one program.

    Beside it the types of the first states and of those after the step.
    """
    types, every = {}, {name: placed(name) for name in ROUNDING}

    def mean_and_single(name):
        sampler = every[name]
        state = past_the_first(started(sampler, half(THETA)))
        draws = sampler.draw(jax.random.key(2), state)

        def step(bits):
            own = jax.tree.map(lambda x: jnp.full_like(x, bits) if x.dtype == jnp.uint16 else x, draws)
            return sampler.advance(own, state)[0]

        types[name] = [jax.tree.map(lambda x: x.dtype, s) for s in (state, step(np.uint16(0)))]
        single = sampler.advance(draws, raised(state))[0].position["a"]
        # Sums of few bits are exact in single precision where they are sums of differences.
        off = jax.vmap(lambda bits: step(bits).position["a"].astype(jnp.float32) - single)(ALL_BITS)
        return single, single + jnp.mean(off, axis=0)

    found = quick_jit(lambda: {name: mean_and_single(name) for name in ROUNDING})()
    return found, types


@pytest.mark.slow
def test_a_step_is_that_of_single_precision_averaged_over_the_roundings():
    """Rounded to the nearest it would be off by up to 2⁻⁹."""
    steps, types = rounded_steps()
    for name, (single, mean) in steps.items():
        assert np.all(np.abs(single - THETA["a"]) > 1e-3), name
        np.testing.assert_allclose(mean, single, rtol=2e-6, err_msg=name)
        # Nothing but theta is of half precision, and it stays so.
        before, after = types[name]
        assert before == after, name
        halves = [dtype for dtype in jax.tree.leaves(before) if dtype == jnp.bfloat16]
        assert len(halves) == (2 if name.startswith("recipe") else 1), (
            name
        )  # of which the state is given whole


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_the_others_refuse_half_precision_and_say_what_to_do(dtype):
    for name in REFUSING_HALF:
        words = (
            rf"fk\.samplers\.{name.partition(',')[0]} needs single or double precision, "
            rf"but theta\['a'\] is {jnp.dtype(dtype)}: "
            r"cast it by jax\.tree\.map\(lambda x: x\.astype\(jnp\.float32\), theta\)"
        )
        with pytest.raises(ValueError, match=words):
            started(placed(name), half(EVERY[name].setting.theta, dtype))


# The exact covariance ---------------------------------------------------------------------------------------


@functools.cache
def matrices_of(name):
    """Its affine step in three dimensions as a function of temperature, step size and friction."""
    target = Gaussian(precision_of(3))
    return affine_in(AFFINE[name].make, target), target


@pytest.mark.parametrize("affine", AFFINE)
def test_the_covariance_is_that_of_the_target_over_temperature_and_friction(affine, x64):
    """Of theta and r together. A √T, √C or 1/√C off in the noise shows as a factor of two or more."""
    matrices, target = matrices_of(affine)
    mass, order = AFFINE[affine].mass, AFFINE[affine].order
    h = 0.02 if order == 2 else 0.005
    for temperature, c in itertools.product((0.1, 1.0, 10.0), (0.25, 1.0, 4.0)):
        truth = wanted(target, mass, temperature)
        # An Euler step heats an oscillator by h·curvature/friction; a splitting errs by (h·frequency)²/8.
        allowed = 2e-4 if order == 2 else 0.01 * max(2, 2 / c)
        error = np.linalg.norm(stationary(matrices(temperature, h, c)) - truth)
        assert error < allowed * np.linalg.norm(truth)
    # From h to h/2 the bias falls by 2 or by 4; at T = 1.7 and a friction that is not 1.
    truth = wanted(target, mass, 1.7)
    steps = (0.1, 0.05) if order == 2 else (0.002, 0.001)
    coarse, fine = (np.linalg.norm(stationary(matrices(1.7, h, 1.3)) - truth) for h in steps)
    assert 0.95 * 2**order < coarse / fine < 1.05 * 2**order
