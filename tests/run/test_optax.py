"""Samplers as optimisers of Optax: the same steps, what the gradient is, other parts of Optax, refusals."""

import re
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import fokker as fk
from conftest import quick_jit
from fokker import integrators, samplers
from marks import long_case

pytestmark = pytest.mark.dependencies

N, n = 12, 4
RNG = np.random.default_rng(0)
DATA = {"x": RNG.normal(size=(N, 2)), "y": RNG.normal(size=N)}
PARAMS = {"b": np.array(0.5), "w": np.array([1.0, -2.0])}
KEY = jax.random.key(7)


def log_likelihood(params, datum):
    return -((datum["y"] - datum["x"] @ params["w"] - params["b"]) ** 2) / 2


def log_prior(params):
    return -sum(jnp.sum(jnp.cosh(leaf)) for leaf in jax.tree.leaves(params))


def mean_loss(params, rows):
    return -jnp.mean(jax.vmap(lambda datum: log_likelihood(params, datum))(rows))


def rows_of(t):
    rows = (4 * t + jnp.arange(n)) % N
    return jax.tree.map(lambda leaf: jnp.asarray(leaf)[rows], DATA)


def arrays(params, dtype=None):
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), params)


def by_optax(optimizer, steps=4, gradient=jax.grad(mean_loss), params=PARAMS):
    """The parameters after every step of a training loop, and the last state."""

    def step(carry, t):
        params, state = carry
        updates, state = optimizer.update(gradient(params, rows_of(t)), state, params)
        params = optax.apply_updates(params, updates)
        return (params, state), params

    def run(params):
        (_, state), draws = jax.lax.scan(step, (params, optimizer.init(params)), jnp.arange(steps))
        return draws, state

    return quick_jit(run)(arrays(params))


def by_sampler(sampler, temperature=1.0, steps=4, log_prior=log_prior, params=PARAMS):
    """The same by `sampler.step` on the posterior."""
    placed = sampler.on(fk.Posterior(log_prior, log_likelihood, DATA), temperature)

    def run(params):
        start_key, key = jax.random.split(KEY)

        def step(state, t):
            state, _ = placed.step(state.step.fold_into(key), state, rows_of(t))
            return state, state.position

        return jax.lax.scan(step, placed.init(params, key=start_key), jnp.arange(steps))[1]

    return quick_jit(run)(arrays(params))


def assert_same(found, wanted, tolerance=1e-13):
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


METRIC = fk.fields.Diagonal(lambda theta: jax.tree.map(lambda x: 1 + x**2, theta))


@pytest.mark.parametrize(
    ("sampler", "temperature"),
    [
        (samplers.sgld(0.01), 0.3),
        (samplers.sgnht(fk.schedules.polynomial(10.0, 2.0, 1.0), 2.0), 0.3),
        long_case("optax::steps_are_those_of_the_sampler", samplers.ulmc(0.1, 2.0), 0.3),
        pytest.param(
            samplers.sghmc(0.1, 2.0, mass_matrix=jnp.array([1.0, 2.0, 3.0]), resample=2),
            1.0,
            marks=pytest.mark.long("optax::steps_are_those_of_the_sampler"),
        ),
        pytest.param(
            samplers.sgrld(0.01, METRIC, integrator=integrators.Reflecting(lower=-2.05)),
            1.0,
            marks=pytest.mark.long("optax::steps_are_those_of_the_sampler"),
        ),
        long_case("optax::steps_are_those_of_the_sampler", samplers.sghmc(0.1, 2.0, noise_estimate=0.5), 0.3),
        long_case("optax::steps_are_those_of_the_sampler", samplers.gsgrhmc(0.01, 4.0, 2.0), 0.3),
        long_case("optax::steps_are_those_of_the_sampler", samplers.sgfs(0.01, 2.0, 0.5), 1.0),
        long_case("optax::steps_are_those_of_the_sampler", samplers.sgnht(0.1, kind="diagonal"), 0.3),
        pytest.param(
            samplers.sghmc(0.1, integrator=integrators.EulerMaruyama()),
            1.0,
            marks=pytest.mark.long("optax::steps_are_those_of_the_sampler"),
        ),
    ],
    ids=str,
)
def test_steps_are_those_of_the_sampler(sampler, temperature, x64):
    """By the gradient of the mean loss, N and the prior. An integrator that looks elsewhere would differ."""
    optimizer = fk.optax(sampler, size=N, log_prior=log_prior, key=KEY, temperature=temperature)
    draws, state = by_optax(optimizer)
    assert_same(draws, by_sampler(sampler, temperature))
    assert int(state.step) == 4
    assert state.is_sound


@pytest.mark.slow
def test_the_gradient_of_the_sum_has_size_one_and_weight_decay_is_a_prior(x64):
    sampler, decay = samplers.sgld(0.01), 0.2
    target = fk.Posterior(log_prior, log_likelihood, DATA)
    whole, _ = by_optax(
        fk.optax(sampler, size=1, log_prior=None, key=KEY), gradient=jax.grad(target.minibatch_potential)
    )
    assert_same(whole, by_sampler(sampler))
    flat = fk.optax(sampler, size=N, log_prior=None, key=KEY)
    decayed, _ = by_optax(optax.chain(optax.add_decayed_weights(decay), flat))
    normal = by_sampler(
        sampler, log_prior=lambda p: -N * decay / 2 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(p))
    )
    assert_same(decayed, normal)


@pytest.mark.slow
def test_multi_steps_are_steps_with_the_mean_of_the_gradients(x64):
    sampler = samplers.sghmc(0.1, 2.0)
    inner = fk.optax(sampler, size=N, log_prior=log_prior, key=KEY)
    draws, state = by_optax(optax.MultiSteps(inner, N // n), steps=6)
    # Three batches of four are all the data.
    full, _ = by_optax(inner, steps=2, gradient=lambda params, _: jax.grad(mean_loss)(params, arrays(DATA)))
    assert_same(jax.tree.map(lambda leaf: leaf[2::3], draws), full, 1e-7)  # Optax adds up in single precision
    assert_same(jax.tree.map(lambda leaf: leaf[:2], draws), jax.tree.map(lambda x: np.stack([x, x]), PARAMS))
    assert int(state.inner_opt_state.step) == 2


def test_a_part_of_the_parameters_is_sampled_while_another_is_trained(x64):
    """With b at its start, as w's own sampler would."""
    seen = []

    def prior_of_w(params):
        seen.append(len(jax.tree.leaves(params)))
        return -jnp.sum(jnp.cosh(params["w"]))

    head = fk.optax(samplers.sghmc(0.1), size=N, log_prior=prior_of_w, key=KEY)
    alone, _ = by_optax(
        head,
        gradient=lambda params, rows: {"w": jax.grad(mean_loss)({**arrays(PARAMS), **params}, rows)["w"]},
        params={"w": PARAMS["w"]},
    )
    labels = {"b": "fixed", "w": "sampled"}
    both = optax.multi_transform({"sampled": head, "fixed": optax.set_to_zero()}, labels)
    draws, _ = by_optax(both)
    assert_same(draws["w"], alone["w"])
    assert_same(draws["b"], np.full(4, PARAMS["b"]))
    assert set(seen) == {1}


def test_chains_are_states_with_keys_of_their_own():
    sampler = samplers.sgld(0.01)
    keys = jax.random.split(KEY, 2)

    def make(key):
        return fk.optax(sampler, size=N, log_prior=None, key=key)

    params = jnp.zeros(2)

    @quick_jit
    def moves(keys):
        states = jax.vmap(lambda key: make(key).init(params))(keys)
        together, _ = jax.vmap(lambda state: make(KEY).update(params, state, params))(states)
        alone = [make(key).update(params, make(key).init(params), params)[0] for key in keys]
        return together, jnp.stack(alone)

    together, alone = moves(keys)
    np.testing.assert_allclose(together, alone, rtol=1e-6)
    assert np.all(together[0] != together[1])


def test_half_precision_is_rounded_once():
    sampler = samplers.sgld(1e-3)
    params = jnp.asarray(RNG.normal(size=200), jnp.bfloat16)
    optimizer = fk.optax(sampler, size=1, log_prior=None, key=KEY)
    placed = sampler.on(fk.Density(lambda x: -jnp.sum(x**2) / 2))

    @quick_jit
    def both(params):
        state = optimizer.init(params)
        updates, _ = optimizer.update(params, state, params)
        start = placed.init(params, key=KEY)
        return optax.apply_updates(params, updates), placed.step(start.step.fold_into(state.key), start)[0]

    found, state = both(params)
    wanted = state.position
    assert found.dtype == jnp.bfloat16
    np.testing.assert_array_equal(found, wanted)


def test_adding_a_difference_is_rounding_as_documented():
    """θ + (θ' - θ) against θ': equal within a factor of two, else within 3/2 units of the larger."""
    a = np.float32(RNG.normal(size=100_000) * 10.0 ** RNG.uniform(-4, 4, 100_000))
    b = np.float32(RNG.normal(size=100_000) * 10.0 ** RNG.uniform(-4, 4, 100_000))
    b[:1000] = a[:1000] * RNG.uniform(0.5, 2, 1000).astype(np.float32)
    again = a + (b - a)
    with np.errstate(divide="ignore"):
        near = (b / a >= 0.5) & (b / a <= 2)
    assert near.sum() > 1000
    assert np.array_equal(again[near], b[near])
    units = np.abs(again.astype(float) - b) / np.spacing(np.maximum(np.abs(a), np.abs(b)))
    assert 0 < units.max() <= 1.5


def test_what_went_wrong_is_remembered():
    optimizer = fk.optax(samplers.sgld(0.1), size=N, log_prior=None, key=KEY)
    params = jnp.zeros(2)

    @quick_jit
    def after(gradient):
        _, state = optimizer.update(gradient, optimizer.init(params), params)
        return optimizer.update(params, state, params)[1].is_sound

    assert after(params)
    assert not after(jnp.array([np.nan, 0.0]))
    # The noise to subtract is there at first, and too large for later steps.
    growing = samplers.sgld(lambda t: jnp.where(t < 1, 0.1, 10.0), noise_estimate=1.0)
    large = fk.optax(growing, size=N, log_prior=None, key=KEY)
    update = quick_jit(lambda state: large.update(params, state, params)[1])
    state = quick_jit(large.init)(params)
    for is_sound in (True, False):
        state = update(state)
        assert bool(state.is_sound) is is_sound


@pytest.mark.parametrize(
    ("sampler", "message"),
    [
        (
            samplers.sghmc(0.1, integrator=integrators.Splitting()),
            r"Splitting \(splitting\).*moves to within",
        ),
        (samplers.sghmc(0.1, integrator=integrators.Leapfrog()), r"Leapfrog.*moves to within.*ExactOU"),
        (
            samplers.sghmc(0.1, integrator=integrators.Reflecting(0.0, 1.0, integrators.Splitting())),
            "Reflect",
        ),
        (samplers.nuts(), r"fk\.samplers\.nuts: it accepts and rejects"),
        (samplers.psgld(0.1), r"psgld: its correction needs Hessian-vector products"),
        (samplers.slice_sampler(), r"needs the target itself"),
        (
            samplers.recipe(fk.dynamics.langevin(lambda x: x**2, 1.0), 0.1),
            "made of dynamics, which have a target of their own",
        ),
        (samplers.sgld(0.1, noise_estimate="diagonal"), "'diagonal'.*single data.*sgnht"),
        (samplers.ula(), "cannot find the step size"),
    ],
)
def test_samplers_that_one_gradient_cannot_serve_are_refused(sampler, message):
    with pytest.raises(ValueError, match=message):
        fk.optax(sampler, size=N, log_prior=None, key=KEY)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"size": 0}, ValueError, r"size must be the number of data N.*0 was given.*size=1"),
        ({"size": jnp.ones(2)}, ValueError, "size must be"),
        ({"key": 3}, TypeError, "key must be a JAX key"),
        ({"key": None}, TypeError, "key must be a JAX key"),
        ({"log_prior": 1.0}, TypeError, "log_prior must be a function .*float"),
        ({"temperature": -1.0}, ValueError, "temperature"),
    ],
)
def test_wrong_arguments_are_named(change, error, message):
    with pytest.raises(error, match=message):
        fk.optax(samplers.sgld(0.1), **{"size": N, "log_prior": None, "key": KEY, **change})


def test_wrong_calls_are_named(monkeypatch):
    with pytest.raises(TypeError, match=r"one of fk\.samplers.*not function"):
        fk.optax(samplers.sgld, size=N, log_prior=None, key=KEY)
    optimizer = fk.optax(samplers.sgld(0.1), size=N, log_prior=None, key=KEY)
    params = jnp.zeros(2)
    state = optimizer.init(params)
    with pytest.raises(ValueError, match=r"call update\(gradient, state, params\)"):
        optimizer.update(params, state)
    with pytest.raises(ValueError, match="the gradient has the shapes"):
        optimizer.update(jnp.zeros(3), state, params)
    monkeypatch.setitem(sys.modules, "optax", None)
    with pytest.raises(ImportError, match=r"pip install 'fokker\[optax\]'"):
        fk.optax(samplers.sgld(0.1), size=N, log_prior=None, key=KEY)


@pytest.mark.slow
def test_the_programs_of_the_document_run(capsys):
    """With three steps in place of 20,000, and networks of two units."""
    text = (Path(__file__).parents[2] / "docs" / "optax.md").read_text()
    program = "\n".join(re.findall(r"```python\n(.*?)```", text, re.S))
    for given, short in (
        ("20_000, 10_000, 100", "3, 1, 1"),
        ("width_size=16", "width_size=2"),
        ("Linear(1, 16", "Linear(1, 2"),
        ("Linear(16, 1", "Linear(2, 1"),
    ):
        assert program.count(given) == 1
        program = program.replace(given, short)
    exec(compile(program, "optax.md", "exec"), {})
    assert len([float(x) for x in capsys.readouterr().out.split()]) == 10


def test_a_prior_that_is_no_number_is_named():
    optimizer = fk.optax(fk.samplers.sgld(0.1), size=3, log_prior=lambda p: -(p**2), key=jax.random.key(0))
    with pytest.raises(ValueError, match=r"log_prior must return one number; it returned the shape \(2,\)"):
        optimizer.init(jnp.ones(2))
