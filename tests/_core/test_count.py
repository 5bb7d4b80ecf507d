"""Numbers of steps beyond 32 bits: their arithmetic, and runs that pass 2³¹, 2³² and 2⁴⁸ steps."""

import dataclasses
import math
import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fokker as fk
from conftest import quick_jit
from fokker import samplers
from fokker._core.count import Count, StepNumber
from fokker._core.random import fold_in, fold_in_step
from fokker.gradients import OnlineNoise
from fokker.run.moments import Moments
from fokker.samplers import SamplerState, schedules

NUMBERS = [0, 1, 6, 2**24 + 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**48 - 1, 2**48, 2**63 + 12345, 2**64 - 1]
DIVISORS = [1, 2, 3, 7, 1000, 65_535, 65_537, 10**6 + 3, 2**30, 2**31 - 1]
# Steps that end, pass and begin in the middle of eight.
NEAR = [2**31 - 4, 2**32 - 4, 2**48 - 4]
COUNTS = Count.of(np.array(NUMBERS, np.uint64))


# Arithmetic -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("divisor", DIVISORS)
def test_quotients_and_remainders_are_exact(divisor):
    """By a divisor that is compiled in, which takes many bits at a time, and by one that is not."""
    for m in (divisor, jnp.asarray(divisor)):
        quotient, remainder = divmod(COUNTS, m)
        assert quotient.tolist() == [n // divisor for n in NUMBERS]
        assert remainder.tolist() == [n % divisor for n in NUMBERS]


def test_a_step_number_compares_with_numbers_on_either_side():
    for t in (StepNumber.of(3), StepNumber.of(2**40)):
        below, above = int(t.value) - 1, 2**41
        for is_true in (t > below, t >= below, t < above, t <= above, below < t, above > t, above >= t):
            assert bool(is_true)
        for is_false in (t > above, t >= above, t < below, t <= below, above < t, below >= t):
            assert not bool(is_false)


def test_sums_and_comparisons_are_exact():
    for more in (0, 1, 5, 2**32 - 1, 2**32, 2**40 + 3):
        assert (COUNTS + more).tolist() == [(n + more) % 2**64 for n in NUMBERS]
    assert (1 + Count.of(2**32 - 1)).tolist() == 2**32
    assert (Count.of(2**32 - 2) + jnp.arange(4, dtype=jnp.uint32)).tolist() == [
        2**32 + k for k in (-2, -1, 0, 1)
    ]
    for compare in (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne):
        for n in NUMBERS:
            assert compare(COUNTS, n).tolist() == [compare(m, n) for m in NUMBERS]
        assert bool(compare(Count.of(5), -1)) == compare(5, -1)


def test_a_count_is_a_number_to_a_person():
    count = Count.of(2**48 + 5)
    assert (int(count), str(count), f"{count:,}") == (2**48 + 5, "281474976710661", "281,474,976,710,661")
    assert np.asarray(count).dtype == np.uint64
    assert COUNTS[9].tolist() == 2**48
    assert repr(COUNTS[:2]) == "[0 1]"
    with pytest.raises(TypeError, match=r"64 bits.*state\.step\.fold_into\(key\)"):
        jax.random.fold_in(jax.random.key(0), count)
    with pytest.raises(ValueError, match=r"from 1 to 2³¹ - 1, not by 2147483648"):
        count % 2**31


def test_floating_point_is_the_nearest():
    values = np.asarray(COUNTS.value, float)
    np.testing.assert_allclose(values, [float(n) for n in NUMBERS], rtol=2**-23)
    # Below 2³² it is what the conversion of one word gives, to the bit.
    below = [n for n in NUMBERS if n < 2**32]
    assert values[: len(below)].tolist() == np.array(below, np.uint32).astype(np.float32).tolist()
    assert COUNTS.astype(jnp.int32).tolist() == [min(n, 2**31 - 1) for n in NUMBERS]
    assert Count.of(3).astype(jnp.float16) == 3


# Keys -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["threefry2x32", "rbg"])
def test_keys_of_steps_are_those_of_jax_and_differ_beyond_32_bits(kind):
    key = jax.random.key(7, impl=kind)
    numbers = [*range(8), *(n + k for n in NEAR for k in range(8)), 2**63]
    keys = jax.vmap(lambda t: fold_in_step(key, t, 2**32 - 1))(Count.of(np.array(numbers, np.uint64)))
    words = [tuple(row) for row in np.asarray(jax.random.key_data(keys)).tolist()]
    # And the key of the other stream is that of no step.
    other = tuple(np.asarray(jax.random.key_data(fold_in(key, 2**32 - 1))).tolist())
    assert len({*words, other}) == len(numbers) + 1
    for place in (0, 5, numbers.index(2**31), numbers.index(2**32 - 2)):
        own = jax.random.fold_in(key, np.uint32(numbers[place]))
        assert words[place] == tuple(np.asarray(jax.random.key_data(own)).tolist())
    own = jax.random.fold_in(key, np.uint32(2**32 - 1))
    assert other == tuple(np.asarray(jax.random.key_data(own)).tolist())


# Step sizes -------------------------------------------------------------------------------------------------

SCHEDULES = {
    "polynomial": (schedules.polynomial(2.0, 1000.0, 0.55), lambda t: (2 * (1 + t / 1000)) ** -0.55),
    "cyclical": (
        schedules.cyclical(0.4, 999_983),
        lambda t: 0.2 * (math.cos(math.pi * (t % 999_983) / 999_983) + 1),
    ),
    "own": (lambda t: 0.1 / jnp.sqrt(1 + t), lambda t: 0.1 / math.sqrt(1 + t)),
    "own steps": (
        lambda t: jnp.where(t < 2**32, 0.2, 0.1) * 0.5 ** (t // 1000 % 4),
        lambda t: (0.2 if t < 2**32 else 0.1) * 0.5 ** (t // 1000 % 4),
    ),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_step_sizes_are_those_of_the_formula_after_any_number_of_steps(name):
    """On log p = θ at T = 0 a step of Langevin dynamics is as long as the step size."""
    schedule, formula = SCHEDULES[name]
    sampler = samplers.sgld(schedule).on(fk.Density(lambda theta: theta), temperature=0.0)
    numbers = [0, 3, *(n + k for n in NEAR for k in range(8))]

    @quick_jit
    @jax.vmap
    def step(count):
        state, info = sampler.step(jax.random.key(0), SamplerState({"theta": jnp.zeros(())}, count))
        return state, info.is_finite

    state, finite = step(Count.of(np.array(numbers, np.uint64)))
    assert np.all(finite)
    np.testing.assert_allclose(state.position, [formula(t) for t in numbers], rtol=2e-6, atol=1e-7)
    assert state.step.tolist() == [t + 1 for t in numbers]


def test_a_schedule_may_be_called_by_a_person():
    assert float(schedules.cyclical(0.4, 20)(StepNumber.of(2**48 + 4))) == pytest.approx(0.4)
    assert float(schedules.cyclical(0.4, 12.5)(10)) == pytest.approx(0.2 * (math.cos(0.8 * math.pi) + 1))


# Everything else that counts --------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_happens_every_so_many_steps_keeps_to_them():
    target = fk.Posterior(lambda t: -(t**2), lambda t, x: -((x - t) ** 2), np.arange(4.0, dtype=np.float32))
    estimator = fk.gradients.svrg(3)
    sampler = samplers.sghmc(0.01, resample=5).on(target, 1.0, estimator)
    start = sampler.init(0.5, key=jax.random.key(0))
    memory = start.memory
    memory = memory._replace(estimator=memory.estimator._replace(center=jnp.asarray(9.0)))

    @quick_jit
    @jax.vmap
    def step(count):
        state = start._replace(step=count, memory=memory, z={**start.z, "r": jnp.asarray(0.0)})
        moved, _ = sampler.step(jax.random.key(1), state, target.data[:2])
        return moved.memory.estimator.center, moved.z["r"]

    numbers = [n + k for n in NEAR for k in range(8)]
    centres, momenta = step(Count.of(np.array(numbers, np.uint64)))
    assert (np.asarray(centres) != 9).tolist() == [(n + 1) % 3 == 0 for n in numbers]
    fresh = np.asarray(momenta)[[n % 5 == 0 for n in numbers]]
    still = np.asarray(momenta)[[n % 5 != 0 for n in numbers]]
    assert (len(set(fresh.tolist())), len(set(still.tolist()))) == (1, 1)
    assert fresh[0] != still[0]


def test_running_averages_outlast_the_counter():
    V = OnlineNoise("scalar").update(jnp.zeros(()), jnp.array([[0.0], [1.0]]), 1.0, Count.of(2**48))
    assert float(V) == pytest.approx(1e-3)  # κ = 1/1000 of V̂ = 1
    sampler = samplers.psgld(0.1).on(fk.Density(lambda theta: -(theta**2) / 2))
    state = sampler.init(1.0)._replace(step=Count.of(2**48))
    state = state._replace(z={"theta": jnp.ones(()), "V": jnp.ones(()), "W": jnp.zeros(())})
    moved, _ = sampler.advance((jnp.zeros(()), jnp.ones(()), ()), state)
    np.testing.assert_allclose(moved.position, 0.9, rtol=1e-4)  # D = 1/(λ + √V)


def test_moments_do_not_stand_still_once_a_value_is_lost_beside_their_sum():
    """2²⁸ values of variance 1, then 2,000 of variance 4: their squares are lost one by one in 24 bits."""
    n, more = 2**28, 2000
    before = Moments.of(jnp.zeros(()))
    before = dataclasses.replace(before, count=Count.of(n), squares=jnp.asarray(float(n)))
    values = jnp.asarray(np.tile([2.0, -2.0], more // 2), jnp.float32)
    after, _ = jax.jit(lambda m: jax.lax.scan(lambda m, x: (m.add(x), None), m, values))(before)
    assert int(after.count) == n + more
    assert float(after.squares) - n == pytest.approx(4 * more, rel=1e-2)
    assert float(dataclasses.replace(before, count=Count.of(2**48)).add(jnp.ones(())).mean) == 2.0**-48


# Runs -------------------------------------------------------------------------------------------------------


def at(trace, number):
    """The trace as if so many steps had been taken before its end."""
    counts = Count.of(np.full(trace.settings["chains"], number, np.uint64))
    settings = {**trace.settings, "taken": number, "steps": number}
    return dataclasses.replace(trace, state=trace.state._replace(step=counts), settings=settings)


DATA = fk.Posterior(lambda t: 0.0 * t, lambda t, x: x * t, 4.0 ** np.arange(6, dtype=np.float32))
RUNS = {
    "reshuffled": (
        DATA,
        samplers.sgld(lambda t: 2.0 ** -(18 + t % 2)),
        {"init": 0.0, "batch_size": 2, "batches": "reshuffle", "temperature": 1e-8},
    ),
    "nuts": (
        fk.Density(lambda t: -jnp.sum(t**2) / 2),
        samplers.nuts(0.5, mass_matrix="identity"),
        {"init": jnp.zeros(2)},
    ),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            n,
            marks=pytest.mark.slow if n == "reshuffled" else (),
        )
        for n in RUNS
    ],
)
def test_runs_that_pass_the_ends_of_counters_resume_to_the_bit_and_repeat_nothing(
    name, optimised, monkeypatch
):
    # The steps before these numbers were never taken: there are no draws of them.
    monkeypatch.setattr("fokker.run.plan.memory", lambda: 2**80)
    target, sampler, options = RUNS[name]
    first = fk.sample(target, sampler, steps=4, chains=2, progress=False, **options)
    for number in NEAR[1:2] if name == "nuts" else NEAR[1:]:
        whole = at(first, number).resume(8)
        halves = at(first, number).resume(4).resume(4)
        assert whole.stopped is None
        assert np.array_equal(whole.samples, halves.samples)
        assert whole.state.step.tolist() == [number + 8] * 2
        assert np.all(np.isfinite(whole.samples))
        if name == "nuts":
            # From one state, the randomness of the steps 0 … 3 would lead the same way again.
            again = dataclasses.replace(at(first, number), state=at(start(first), number).state).resume(8)
            later = again.samples[:, 4:]
            assert not np.any(np.all(later[:, 4:] == first.samples, axis=-1))
        else:
            noise = check_batches(number, whole.samples[:, 3:])
            early = check_batches(0, np.concatenate([np.zeros((2, 1)), first.samples], axis=1))
            assert np.all(np.abs(noise[:, 4:] - early).max(axis=1) > 0.3)


def start(trace):
    """The trace with the state that it began from."""
    states = jax.vmap(lambda k: trace.origin.sampler.init(jnp.zeros(2), key=k))(
        jax.random.split(jax.random.key(0), 2)
    )
    return dataclasses.replace(trace, state=states)


def check_batches(number, theta):
    """The noise of steps that are made of rows 4ⁱ besides, each of them once in an epoch of three steps."""
    sizes = 2.0 ** -(18 + np.array([(number + k) % 2 for k in range(theta.shape[1] - 1)]))
    steps = np.diff(theta.astype(float), axis=1)
    batches = np.round(steps / sizes / 3)  # N/n = 3
    noise = (steps - 3 * sizes * batches) / np.sqrt(2 * sizes * 1e-8)
    assert np.max(np.abs(noise)) < 5
    begin = -number % 3
    for start in range(begin, batches.shape[1] - 2, 3):
        assert np.all(batches[:, start : start + 3].sum(axis=1) == (4**6 - 1) // 3)
    return noise
