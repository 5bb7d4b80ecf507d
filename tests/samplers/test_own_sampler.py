"""A sampler of one's own, by the contract alone: it gets everything that the library's samplers get."""

import inspect
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fokker as fk
from affine import PRECISION as AFFINE
from affine import Gaussian, covariance
from fokker._core.count import Count
from fokker._core.random import fold_in_step
from fokker.batches import Batch
from fokker.run import warmup
from fokker.run.mesh import devices_of
from fokker.run.step_plan import BATCHES
from fokker.samplers.contract import computed
from own_samplers import (
    Counting,
    Energetic,
    ExactInName,
    FixedEstimator,
    InBatches,
    Learning,
    LeimkuhlerMatthews,
    ManyProposals,
    Moving,
    OneMove,
    Reporting,
    Unadjusted,
    Vectorial,
    VectorialStep,
    noise_like,
    remembering,
)

DOCS = Path(__file__).parents[2] / "docs"
PRECISION = jnp.array([1.0, 4.0])
SHORT = {"init": jnp.ones(2), "chains": 2, "seed": 3, "progress": False}


def log_density(theta):
    return -jnp.sum(PRECISION * theta**2) / 2


def log_likelihood(theta, x):
    return -jnp.sum((theta - x) ** 2) / 2


NORMAL = fk.Density(log_density)
POSTERIOR = fk.Posterior(log_density, log_likelihood, np.linspace(-1, 2, 60, dtype=np.float32)[:, None])


@pytest.mark.parametrize(("sampler", "lines"), [(LeimkuhlerMatthews, 34), (ManyProposals, 36)])
def test_it_is_the_example_of_the_documentation_in_about_thirty_lines(sampler, lines):
    source = inspect.getsource(sampler).replace("  # noqa: E731", "")
    text = (DOCS / "own_sampler.md").read_text()
    assert source in text
    assert inspect.getsource(noise_like) in text
    assert inspect.getsource(remembering) in text
    assert len([line for line in source.splitlines() if line.strip()]) <= lines


@pytest.mark.slow
def test_it_is_checked():
    report = fk.check(LeimkuhlerMatthews(0.1).on(NORMAL), state=jnp.zeros(2), number_of_points=32)
    assert report.verdict == "right"
    unseen = "the bias of larger steps, gradients by minibatches and noise_estimate were not"
    assert unseen in " ".join(report.notes)


def test_the_covariance_of_an_affine_step_is_that_of_theta_whatever_else_the_state_has(x64):
    """By this method theta is exactly right on a Gaussian; its noise w comes after theta in the state."""
    found = covariance(LeimkuhlerMatthews(0.2), Gaussian(AFFINE), 1.7)
    np.testing.assert_allclose(found, 1.7 * np.linalg.inv(AFFINE), rtol=1e-12)


def test_its_time_scale_is_that_of_the_dynamics_that_it_follows():
    where = (NORMAL, 1.0, jnp.zeros(2), jax.random.key(0))
    assert LeimkuhlerMatthews(0.1).fastest_time(*where) == pytest.approx(1 / 4, rel=0.01)
    # Unknown dynamics: the narrowest width of the target.
    assert Unadjusted(0.1).fastest_time(*where) == pytest.approx(1 / 2, rel=0.01)


@pytest.mark.slow
def test_a_run_finds_its_step_size_and_ends_in_a_summary(monkeypatch):
    monkeypatch.setattr("fokker.run.candidates._STEPS", (1.0,))
    monkeypatch.setattr("fokker.run.tuning._CHECKED", 64)
    trace = fk.sample(NORMAL, LeimkuhlerMatthews(), steps=100, **SHORT)
    # At most the time scale of the dynamics, halved where a trial is found to be biased.
    assert 0.25 / 2**7 < trace.settings["step_size"] < 0.27
    assert trace.summary()


@pytest.mark.slow
def test_its_runs_are_stored_and_continued_to_the_bit(tmp_path):
    options = {**SHORT, "batch_size": 4}
    sampler = LeimkuhlerMatthews(1e-3)
    whole = fk.sample(POSTERIOR, sampler, steps=12, **options)
    fk.sample(POSTERIOR, sampler, steps=5, out=tmp_path / "run", **options)
    fk.sample(POSTERIOR, sampler, steps=12, out=tmp_path / "run", **options)
    np.testing.assert_array_equal(fk.open(tmp_path / "run").samples, whole.samples)
    with pytest.raises(ValueError, match="another"):
        fk.sample(POSTERIOR, LeimkuhlerMatthews(2e-3), steps=20, out=tmp_path / "run", **options)


def test_a_sampler_that_says_nothing_is_given_no_batches():
    with pytest.raises(ValueError, match=r"Unadjusted takes no minibatches.*takes_batches = True"):
        fk.sample(POSTERIOR, Unadjusted(1e-3), steps=5, batch_size=4, **SHORT)


def test_an_estimator_that_on_drops_is_refused():
    options = {**SHORT, "steps": 5, "batch_size": 4}
    estimator = fk.gradients.control_variates(jnp.ones(2))
    words = (
        r"Reporting does not use the ControlVariates that was given as gradient: leave gradient out; or let"
    )
    with pytest.raises(ValueError, match=words):
        fk.sample(POSTERIOR, Reporting(1e-3), gradient=estimator, **options)
    with pytest.raises(ValueError, match="FixedEstimator does not use the SAGA that was given"):
        fk.sample(POSTERIOR, FixedEstimator(1e-3), gradient=fk.gradients.saga(), **options)


def test_the_estimator_that_on_keeps_is_used():
    """The likelihood is quadratic: with control variates every batch has the gradient of all the data."""
    theta, batch, key = jnp.ones(2), POSTERIOR.data[:4], jax.random.key(0)
    estimators = None, fk.gradients.control_variates(jnp.zeros(2)), fk.gradients.saga()
    placed = [LeimkuhlerMatthews(1e-3).on(POSTERIOR, 1.0, gradient) for gradient in estimators]
    assert [type(x.gradient_estimator).__name__ for x in placed] == ["Estimator", "ControlVariates", "SAGA"]
    starts = [sampler.init(theta, key=key) for sampler in placed]
    whole = placed[0].step(key, starts[0])[0].position
    rows = Batch(batch, jnp.arange(4))
    plain, other, saga = (x.step(key, state, rows)[0] for x, state in zip(placed, starts, strict=True))
    np.testing.assert_allclose(other.position, whole, rtol=1e-5)
    np.testing.assert_allclose(saga.position, whole, rtol=1e-5)  # its table is of the first position
    assert np.max(np.abs(plain.position - whole)) > 1e-3
    # The table is of theta before the step, where it was before.
    for x, y in zip(jax.tree.leaves(saga.memory), jax.tree.leaves(starts[2].memory), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5)
    again = placed[2].step(key, saga, rows)[0]
    assert np.max(np.abs(again.memory.estimator.each - saga.memory.estimator.each)) > 1e-3


@pytest.mark.slow
def test_copies_of_it_exchange_theta_where_it_says_so():
    class Copied(LeimkuhlerMatthews):
        replicas_refused = ""

    sampler = fk.samplers.replica_exchange(Copied(0.1), (1.0, 3.0), every=2)
    trace = fk.sample(NORMAL, sampler, steps=2_000, burn_in=50, **SHORT)
    # Exact at every step size on a normal target. 4,000 draws, some 10 steps apart: the variances are within
    # 25 % at four standard errors.
    variances = np.var(np.asarray(trace.samples), axis=(0, 1))
    np.testing.assert_allclose(variances * PRECISION, np.ones(2), rtol=0.25)
    assert np.mean(trace.sample_stats["exchange_rate"]) > 0.2


@pytest.mark.slow
def test_what_an_estimator_remembers_goes_on_with_the_run():
    """saga has a table of gradients, which every step renews."""
    options = {**SHORT, "batch_size": 4, "gradient": fk.gradients.saga()}
    sampler = LeimkuhlerMatthews(1e-3)
    whole = fk.sample(POSTERIOR, sampler, steps=6, **options)
    resumed = fk.sample(POSTERIOR, sampler, steps=3, **options).resume(3)
    np.testing.assert_array_equal(resumed.samples, whole.samples)


def test_the_answers_of_a_sampler_that_says_nothing_are_safe():
    sampler = Unadjusted(0.1)
    assert (sampler.name, sampler.own_step_size, sampler.own_temperature) == ("Unadjusted", 0.1, 1.0)
    assert not any((sampler.is_exact, sampler.learns, sampler.takes_batches, sampler.holds_potential))
    assert sampler.reads_all_data
    assert sampler.needs_more_than_gradient
    assert sampler.known_target is None
    assert sampler.own_dynamics is None
    assert sampler.in_blocks(2) is sampler
    assert not any(claim is not None for claim in sampler.claims)
    with pytest.raises(ValueError, match=r"fk\.optax cannot serve"):
        fk.optax(sampler, size=10, log_prior=None, key=jax.random.key(0))
    with pytest.raises(ValueError, match="has no trajectory"):
        sampler.trajectory(jax.random.key(0), sampler.init(jnp.zeros(2)))


def by_hand(sampler, steps):
    """The same steps in a loop of one's own, with the keys of the run."""
    sampler = sampler.on(NORMAL)
    keys = jax.random.split(jax.random.key(SHORT["seed"]), (SHORT["chains"], 3))[:, 2]

    def chain(key):
        state, draws = sampler.init(SHORT["init"]), []
        for t in range(steps):
            state, _ = sampler.step(fold_in_step(key, Count.of(t), BATCHES), state)
            draws.append(state.position)
        return jnp.stack(draws)

    return jax.jit(jax.vmap(chain))(keys)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", [Moving(0.1), Energetic(0.1), Moving(lambda t: 0.1 / (1 + t))])
def test_trajectories_need_no_statistics_and_take_a_schedule(sampler):
    trace = fk.sample(NORMAL, sampler, steps=12, **SHORT)
    np.testing.assert_allclose(trace.samples, by_hand(sampler, 12), rtol=1e-5, atol=1e-6)
    assert trace.stopped is None


@pytest.mark.parametrize("options", [{}, {"batch_repeats": 3}, {"keep": "moments"}, {"thin": 2, "chunk": 4}])
@pytest.mark.parametrize("kind", [Reporting, ExactInName])
def test_the_statistics_of_a_step_with_batches_are_stored(kind, options):
    trace = fk.sample(POSTERIOR, kind(1e-3), steps=12, batch_size=4, **SHORT | options)
    depths = trace.sample_stats["tree_depth"]
    assert depths.dtype == np.int32
    np.testing.assert_array_equal(depths, np.full((2, 12 // options.get("thin", 1)), 4))
    energies = np.asarray(trace.sample_stats["energy"])
    assert len(np.unique(energies)) == energies.size


def test_what_a_sampler_of_trajectories_records_is_stored():
    trace = fk.sample(NORMAL, Energetic(0.1), steps=6, thin=2, **SHORT)
    np.testing.assert_array_equal(trace.sample_stats["pair"], 2 * trace.samples)
    np.testing.assert_array_equal(trace.sample_stats["taken"], np.full((2, 3), 7))
    assert trace.sample_stats["taken"].dtype == np.int32
    U = jax.vmap(jax.vmap(NORMAL.potential))(trace.samples)
    np.testing.assert_allclose(trace.sample_stats["energy"], U, rtol=1e-5)


@pytest.mark.slow
def test_a_schedule_of_trajectories_goes_on_over_blocks_and_a_resume():
    sampler = Moving(lambda t: 0.1 / (1 + t))
    in_blocks = fk.sample(NORMAL, sampler, steps=12, chunk=5, **SHORT)
    resumed = fk.sample(NORMAL, sampler, steps=5, **SHORT).resume(7)
    for trace in (in_blocks, resumed):
        np.testing.assert_allclose(trace.samples, by_hand(sampler, 12), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("chains", [2, 20])
def test_statistics_keep_their_types_to_the_bit(chains):
    """Few chains run one by one, many together."""
    trace = fk.sample(NORMAL, Counting(0.1), steps=4, **SHORT | {"chains": chains})
    stats = trace.sample_stats
    np.testing.assert_array_equal(stats["num_integration_steps"], np.full((chains, 4), 2**24 + 1))
    np.testing.assert_array_equal(stats["energy"], np.full((chains, 4), 1.5))
    assert not stats["is_divergent"].any()
    assert [stats[name].dtype for name in ("num_integration_steps", "is_divergent")] == [np.int32, bool]


@pytest.mark.parametrize("kind", [Vectorial, VectorialStep])
def test_a_statistic_that_is_an_array_is_refused_by_name(kind):
    with pytest.raises(ValueError, match=rf"energy in Info of {kind.__name__} has the shape \(2,\)"):
        fk.sample(NORMAL, kind(0.1), steps=4, **SHORT)


@pytest.mark.parametrize(("keep", "chunk"), [("draws", 500), ("draws", 3), ("moments", 500)])
def test_a_chain_of_trajectories_that_diverges_is_stopped_and_named(keep, chunk):
    """Of two chains one starts so far away that it overflows in the eighth step; the other is unharmed."""
    options = {**SHORT, "chunk": chunk, "init": fk.PerChain(jnp.array([[0.0, 0.0], [1e16, 0.0]]))}
    steep = fk.Density(lambda theta: -jnp.sum(theta**2) * (1e-3 + 50 * (jnp.abs(theta[0]) > 1e10)))
    with pytest.warns(RuntimeWarning, match=r"chain 2 of 2 was stopped at step 8 \(not finite"):
        trace = fk.sample(steep, Moving(0.1), steps=20, keep=keep, **options)
    assert trace.chains == [0]
    draws = trace.losses[1].draws
    assert trace.losses[1].reason == "not finite: take smaller steps"
    lone = {**options, "init": fk.PerChain(jnp.array([[1e16, 0.0]])), "chains": 1}
    # Alone it ends the run, with the draws before: each step multiplies theta by about 9³.
    alone = fk.sample(steep, Moving(0.1), steps=20, keep=keep, **lone)
    assert "the chain was stopped at step 8 (" in alone.stopped
    if keep == "draws":
        assert np.isfinite(trace.samples).all()
        assert alone.samples.shape[1] == draws == 7
        assert np.isfinite(alone.samples).all()
    else:
        assert all(np.isfinite(x).all() for x in jax.tree.leaves(trace.moments))
        # The squares of the last draws are beyond float32.
        assert np.isfinite(alone.moments["mean"]).all()


def test_batches_are_refused_for_trajectories_and_given_to_advance():
    with pytest.raises(ValueError, match="has_trajectories = False"):
        fk.sample(POSTERIOR, InBatches(1e-3), steps=5, batch_size=4, **SHORT)
    sampler = Moving(1e-3).on(POSTERIOR)
    state = sampler.init(SHORT["init"])
    with pytest.raises(ValueError, match="takes no minibatches"):
        sampler.step(jax.random.key(0), state, POSTERIOR.data[:2])
    # Every batch is another one: two chains from one start differ, without any noise.
    trace = fk.sample(POSTERIOR, OneMove(1e-3), steps=5, batch_size=4, **SHORT)
    assert np.all(trace.samples[0] != trace.samples[1])


def test_warm_up_learns_the_step_size_of_ones_own_trajectories():
    """A random walk in units of the narrowest width is accepted at 0.4 by steps of about 1."""
    trace = fk.sample(NORMAL, ManyProposals(), steps=200, warm_up=200, **SHORT)
    assert 0.5 < trace.settings["step_size"] < 2.5
    assert np.mean(trace.sample_stats["acceptance_rate"]) == pytest.approx(0.4, abs=0.1)
    assert set(np.unique(trace.sample_stats["num_integration_steps"])) == set(range(1, 9))


@pytest.mark.slow
def test_the_first_step_size_of_a_chain_does_not_depend_on_how_long_others_move():
    """A chain whose trajectory ends early does not end the search of those that are still moving."""
    keys = jax.random.split(jax.random.key(3), 4)

    def first_steps(keys):
        sampler, positions = ManyProposals().on(NORMAL), jnp.ones((len(keys), 2))
        chains = warmup._Chains(sampler, positions, keys, 61, devices_of(None), computed)
        chains.find_first_step()
        return np.asarray(chains.step_sizes)

    np.testing.assert_array_equal(first_steps(keys), [first_steps(key[None])[0] for key in keys])


def test_what_cannot_be_learned_is_said():
    with pytest.raises(TypeError, match=r"Learning needs an acceptance_rate.*learns = True"):
        fk.sample(NORMAL, Learning("auto"), steps=5, warm_up=20, **SHORT)
    assert fk.sample(NORMAL, Learning(0.1), steps=5, **SHORT).stopped is None
    keys = jax.random.split(jax.random.key(0), 2)
    with pytest.raises(TypeError, match="define warm_up"):
        Unadjusted(0.1).on(NORMAL).warm_up(jnp.zeros((2, 2)), keys, 10)
    with pytest.raises(ValueError, match=r"learns its settings in fk\.sample"):
        fk.samplers.nuts().on(NORMAL).warm_up(jnp.zeros((2, 2)), keys, 10)


@pytest.mark.slow
def test_runs_of_trajectories_are_stored_and_continued_to_the_bit(tmp_path):
    whole = fk.sample(NORMAL, ManyProposals(0.5), steps=12, **SHORT)
    fk.sample(NORMAL, ManyProposals(0.5), steps=5, out=tmp_path / "run", **SHORT)
    fk.sample(NORMAL, ManyProposals(0.5), steps=12, out=tmp_path / "run", **SHORT)
    np.testing.assert_array_equal(fk.open(tmp_path / "run").samples, whole.samples)


@pytest.mark.slow
def test_the_exactness_of_ones_own_trajectories_is_checked():
    assert fk.check(ManyProposals(0.7).on(NORMAL), state=jnp.zeros(2)).ok
