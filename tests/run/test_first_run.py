"""How many programs a first run compiles: each costs some 20 ms, however small it is."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fokker as fk


@pytest.fixture
def compiled():
    """Of each program that is compiled from now on, whatever was compiled before."""
    seconds = []

    def listen(event, duration, **_):
        if event.endswith("backend_compile_duration"):
            seconds.append(duration)

    jax.clear_caches()
    jax.monitoring.register_event_duration_secs_listener(listen)
    yield seconds
    jax.monitoring.unregister_event_duration_listener(listen)


ROWS = np.random.default_rng(0).normal(size=(200, 2)).astype(np.float32)


def posterior():
    """A mean of two coordinates."""
    return fk.Posterior(
        lambda theta: -jnp.sum(theta**2) / 2, lambda theta, x: -jnp.sum((x - theta) ** 2) / 2, ROWS
    )


@pytest.mark.slow
@pytest.mark.parametrize(("name", "most"), [("sgnht", 35), ("sghmc", 35)])
def test_a_first_run_by_minibatches_compiles_few_programs(compiled, name, most):
    """Checked operation by operation the start of sgnht was 80 programs."""
    sampler = getattr(fk.samplers, name)(1e-3)
    settings = {"init": jnp.zeros(2), "steps": 40, "batch_size": 20, "progress": False}
    target = posterior()
    fk.sample(target, sampler, **settings)
    first = len(compiled)
    assert 0 < first <= most
    fk.sample(target, sampler, seed=1, **settings)
    assert len(compiled) == first


def test_a_step_is_traced_once(monkeypatch):
    """And not again for the shapes of what it reports: with its noise and its rows most of a program."""
    traced, sampler = [], fk.samplers.sgnht(1e-3)
    for name in ("advance", "draw"):
        method = getattr(type(sampler), name)

        def counted(*given, name=name, method=method):
            traced.append(name)
            return method(*given)

        monkeypatch.setattr(type(sampler), name, counted)
    fk.sample(posterior(), sampler, init=jnp.zeros(2), steps=40, batch_size=20, progress=False)
    assert sorted(traced) == ["advance", "draw"]


@pytest.mark.slow
def test_a_first_run_of_nuts_compiles_few_programs(compiled):
    target = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
    fk.sample(target, "nuts", init=jnp.zeros(3), steps=20, warm_up=40, progress=False)
    assert 0 < len(compiled) <= 60


@pytest.mark.slow
def test_a_first_fit_of_a_network_compiles_few_programs(compiled):
    """Its warm start, its run and its predictions; 437 when starts were checked operation by operation."""
    labels = ROWS[:, 0] > 0
    fk.models.Network([6], calibration=0, passes=4, progress=False).fit(ROWS, labels)
    first = len(compiled)
    assert 0 < first <= 50
    fk.models.Network([6], calibration=0, passes=4, progress=False, random_state=1).fit(ROWS, ~labels)
    assert len(compiled) == first
