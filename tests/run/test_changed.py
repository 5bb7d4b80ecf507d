"""A density that reads a number outside of itself: a run has the number of its own time."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fokker as fk
from fokker.run import changed

SCALE = 1.0


class Settings:
    """Numbers that functions read as attributes."""

    shift = 0.0
    scales = np.ones(2)


def log_density(theta):
    return -jnp.sum((theta / SCALE) ** 2) / 2


# Of an object of the library, whose method a field may be.
OTHER = fk.Density(log_density)


def log_density_of_array(theta):
    return -jnp.sum((theta / Settings.scales) ** 2) / 2


def log_likelihood(theta, datum):
    return -((datum - theta - Settings.shift) ** 2) / 2


class Normal(fk.Target):
    """Its method reads a global."""

    def potential(self, theta):
        return -log_density(theta)


def spread(target, sampler):
    trace = fk.sample(target, sampler, init=jnp.zeros(2), steps=1500, burn_in=100, progress=False)
    return float(np.std(trace.samples))


@pytest.fixture
def scale(monkeypatch):
    return lambda value: monkeypatch.setitem(globals(), "SCALE", value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "sampler"),
    [
        pytest.param(lambda: fk.Density(log_density), fk.samplers.nuts(0.3), id="density, trajectories"),
        pytest.param(Normal, fk.samplers.mala(0.5), id="method, lockstep"),
    ],
)
def test_a_global_that_changed_is_read_anew(sampler, make, scale):
    """At a quarter of the scale, whether the target is the same object or a new one of the same function."""
    target = make()
    before = spread(target, sampler)
    scale(0.25)
    assert spread(target, sampler) < before / 2
    scale(1.0)
    assert spread(make(), sampler) == before  # to the bit


@pytest.mark.slow
def test_a_prediction_is_by_the_present_value_of_a_global(monkeypatch, scale):
    """Of a function that is given, and of the likelihood of the target, as its function is now."""
    data = jnp.linspace(-1, 1, 5)
    target = fk.Posterior(lambda theta: -(theta**2) / 200, log_likelihood, data)
    trace = fk.sample(target, fk.samplers.sgld(5e-4), init=0.0, steps=2, batch_size=5, progress=False)

    def function(theta, rows):
        return rows * SCALE

    for value in (1.0, 3.0, 1.0):
        scale(value)
        monkeypatch.setattr(Settings, "shift", value)
        np.testing.assert_allclose(trace.predict(function, data)[0, 0], value * data, rtol=1e-6)
        wanted = -((data - trace.samples[0, 0] - value) ** 2) / 2
        np.testing.assert_allclose(trace.log_likelihood()[0, 0], wanted, rtol=1e-5)


# That what is cleared is computed anew, the runs above show; of the rest only whether it is cleared.


@pytest.fixture
def is_cleared(monkeypatch):
    """Whether the start of a run drops the programs of earlier ones."""
    cleared = []
    monkeypatch.setattr(changed.jax, "clear_caches", lambda: cleared.append(1))
    monkeypatch.setattr(changed, "_KNOWN", {})

    def of_run(target, sampler, init):
        before = len(cleared)
        changed.forget_changed(target, sampler, init, jax.random.split(jax.random.key(0), (1, 3)))
        assert changed._KNOWN  # it was traced
        return len(cleared) > before

    return of_run


@pytest.mark.parametrize("kind", [np, jnp], ids=["numpy", "jax"])
def test_an_array_that_was_replaced_is_read_anew(monkeypatch, is_cleared, kind):
    """Arrays are constants of the program, compared by their values."""
    monkeypatch.setattr(Settings, "scales", kind.ones(2))
    run = lambda: is_cleared(fk.Density(log_density_of_array), fk.samplers.mala(0.5), jnp.zeros(2))  # noqa: E731
    assert not run()
    monkeypatch.setattr(Settings, "scales", kind.ones(2))
    assert not run()
    monkeypatch.setattr(Settings, "scales", kind.ones(2) / 4)
    assert run()


def test_an_attribute_of_a_likelihood_that_changed_is_read_anew(monkeypatch, is_cleared):
    """With minibatches."""
    data = np.linspace(-1, 1, 200, dtype=np.float32)
    target = fk.Posterior(lambda theta: -(theta**2) / 200, log_likelihood, data)
    assert not is_cleared(target, fk.samplers.sgld(5e-4), jnp.zeros(()))
    monkeypatch.setattr(Settings, "shift", 3.0)
    assert is_cleared(target, fk.samplers.sgld(5e-4), jnp.zeros(()))


def test_dynamics_that_changed_are_read_anew(scale, is_cleared):
    """A sampler of one's own dynamics has no target: its step is compared."""
    dynamics = fk.Dynamics(lambda x: -log_density(x), D={("x", "x"): 1.0})
    sampler = fk.samplers.recipe(dynamics, step_size=0.005)
    assert not is_cleared(None, sampler, {"x": jnp.zeros(2)})
    scale(0.25)
    assert is_cleared(None, sampler, {"x": jnp.zeros(2)})


def schedule(step):
    return 0.2 * SCALE / (1 + step)


def widths(theta):
    return SCALE * (1 + theta**2)


def conditional(key, theta):
    return SCALE * jax.random.normal(key, (2,))


STANDARD = fk.Density(lambda theta: -jnp.sum(jax.tree.leaves(theta)[0] ** 2) / 2)
ROWS = fk.Posterior(
    lambda theta: -jnp.sum(theta**2) / 200,
    lambda theta, datum: -jnp.sum((datum - theta) ** 2) / 2,
    np.zeros((20, 2), np.float32),
)
FIELD = fk.fields.Diagonal(lambda theta: widths(theta))


@pytest.mark.parametrize(
    ("sampler", "target", "init"),
    [
        pytest.param(fk.samplers.ula(schedule), STANDARD, jnp.ones(2), id="schedule"),
        pytest.param(
            fk.samplers.ula(schedule), fk.constrain(STANDARD, "positive"), jnp.ones(2), id="constrained"
        ),
        pytest.param(fk.samplers.sghmc(schedule), ROWS, jnp.ones(2), id="schedule, batches"),
        pytest.param(fk.samplers.sgrld(0.01, FIELD), ROWS, jnp.ones(2), id="field"),
        pytest.param(fk.samplers.sgrld("auto", FIELD), STANDARD, jnp.ones(2), id="field, no step size yet"),
        pytest.param(fk.samplers.rhmc(0.1, FIELD), STANDARD, jnp.ones(2), id="metric"),
        pytest.param(fk.samplers.sgfs(schedule, jnp.eye(2)), ROWS, jnp.ones(2), id="batches of several rows"),
        pytest.param(
            fk.samplers.sgrld(0.01, fk.fields.Scalar(OTHER.potential)), ROWS, jnp.ones(2), id="method"
        ),
        pytest.param(
            fk.samplers.gibbs({"a": conditional}), STANDARD, {"a": jnp.ones(2)}, id="conditional, by name"
        ),
        pytest.param(
            fk.samplers.gibbs({"a": lambda key, theta: conditional(key, theta)}),
            STANDARD,
            {"a": jnp.ones(2)},
            id="conditional",
        ),
    ],
)
def test_a_function_of_a_sampler_that_changed_is_read_anew(scale, is_cleared, sampler, target, init):
    for value, changes in ((1.0, False), (1.0, False), (0.25, True), (0.25, False)):
        scale(value)
        assert is_cleared(target, sampler, init) == changes


def test_the_density_is_traced_once_and_not_for_the_step_too(is_cleared):
    """Its gradient may be a large program, and it is traced at every call."""
    traced = []

    def density(theta):
        traced.append(theta)
        return -jnp.sum(theta**2) / 2

    is_cleared(fk.Density(density), fk.samplers.rhmc(0.1, FIELD), jnp.ones(2))
    assert len(traced) == 1


def test_draws_are_by_the_present_value_of_a_schedule(scale):
    sampler = fk.samplers.ula(schedule)
    options = {"init": jnp.ones(2), "steps": 20, "chains": 1, "progress": False}
    before = fk.sample(STANDARD, sampler, **options).samples
    scale(1e-8)
    after = fk.sample(STANDARD, sampler, **options).samples
    assert np.std(after) < 1e-3 < np.std(before)


def test_steps_of_samplers_without_functions_are_not_traced(is_cleared):
    """That takes some ten milliseconds, at every call."""
    for sampler in (
        fk.samplers.nuts(),
        fk.samplers.sgld(fk.schedules.polynomial(1.0, 10.0, 0.55)),
        fk.samplers.sghmc(0.1, friction=0.5),
        fk.samplers.replica_exchange(fk.samplers.sgld(0.1), [1.0, 2.0]),
    ):
        assert not is_cleared(ROWS, sampler, jnp.zeros(2))
    assert {function for function, *_ in changed._KNOWN} == {changed.density_of_row}


def test_programs_of_what_did_not_change_stay(is_cleared):
    """Other numbers in arrays of a target and other samplers are no changes."""

    class Scaled(fk.Target):
        precision: jnp.ndarray

        def potential(self, theta):
            # A custom derivative has an address in its text, which differs between traces.
            return self.precision * jnp.sum(jnp.logaddexp(theta, -theta))

    for precision in (1.0, 2.0):
        for sampler in (fk.samplers.mala(0.5), fk.samplers.hmc(0.5)):
            assert not is_cleared(Scaled(jnp.asarray(precision)), sampler, jnp.zeros(2))


def test_programs_of_single_chains_are_made_again_for_another_density(monkeypatch, scale):
    """Else threads would compile the new one at once, each for itself, or go on without a kernel."""
    cleared = []
    monkeypatch.setattr(changed.jax, "clear_caches", lambda: cleared.append("all"))
    monkeypatch.setattr(changed.trajectories, "forget_programs", lambda: cleared.append("single"))
    keys = jax.random.split(jax.random.key(0), (1, 3))
    for value in (1.0, 1.0, 0.5):
        assert not cleared
        scale(value)
        changed.forget_changed(fk.Density(log_density), fk.samplers.nuts(), jnp.zeros(2), keys)
    assert cleared == ["all", "single"]


def test_what_is_known_of_functions_is_bounded(monkeypatch):
    """Functions made for one run each would otherwise all be kept alive."""
    monkeypatch.setattr(changed, "_MOST_KNOWN", 3)
    monkeypatch.setattr(changed, "_KNOWN", {})
    keys = jax.random.split(jax.random.key(0), (1, 3))
    for scale in range(1, 6):
        target = fk.Density(lambda theta, scale=scale: -jnp.sum((theta / scale) ** 2) / 2)
        changed.forget_changed(target, fk.samplers.mala(0.5), jnp.zeros(2), keys)
    assert len(changed._KNOWN) == 3


def test_an_error_of_the_density_is_reported_by_the_checks():
    """What looks for changes says nothing of it."""
    with pytest.raises(ValueError, match="log_density must return one number"):
        fk.sample(fk.Density(lambda theta: theta), fk.samplers.mala(0.5), init=jnp.zeros(2), steps=10)


_LOWEST = 0.0


def test_a_start_is_checked_again_where_the_density_has_changed(monkeypatch):
    """sgld holds no potential that would say it."""
    target = fk.Density(lambda theta: jnp.where(theta[0] > _LOWEST, -jnp.sum(theta**2), -jnp.inf))
    options = {"init": jnp.ones(2), "steps": 4, "chains": 1, "progress": False}
    fk.sample(target, fk.samplers.sgld(0.01), **options)
    monkeypatch.setattr(sys.modules[__name__], "_LOWEST", 3.0)
    with pytest.raises(ValueError, match="log_density is -inf"):
        fk.sample(target, fk.samplers.sgld(0.01), **options)
