"""`fk.monitor` on samplers written here, right ones and wrong ones: each mistake is named."""

import numpy as np
import pytest

import fokker as fk
from fokker.diagnostics import Grade

N, BATCH = 400, 20


def sgld(
    *,
    noise=1.0,
    weight=1.0,
    temperature=1.0,
    wanted=1.0,
    step=0.1,
    chains=2,
    draws=4000,
    start=0.0,
    every=1,
    spread=0.1,
):
    """SGLD on U = N/2 (θ - x̄)² per coordinate, by minibatches; the monitor is fed with the mean loss."""
    rng = np.random.default_rng(0)
    data = rng.normal(size=(N, 3)) * spread
    monitor = fk.monitor(wanted, size=N, batch_size=BATCH, step_size=step / N)
    for chain in range(chains):
        theta = {"a": rng.normal(size=2) / N**0.5 + start, "b": rng.normal(size=1) / N**0.5 + start * chain}
        for t in range(draws):
            rows = data[rng.integers(0, N, (2, BATCH))]
            x = np.concatenate([theta["a"], theta["b"]])
            first, second = x - rows.mean(1)
            as_tree = [{"a": g[:2], "b": g[2:]} for g in (first, second)]
            if t % every == 0:
                monitor.add(theta, as_tree[0], chain=chain, repeat=as_tree[1] if t % 50 == 0 else None)
            xi = noise * np.sqrt(2 * step / N * temperature) * rng.normal(size=3)
            x = x - step * weight * first + xi
            theta = {"a": x[:2], "b": x[2:]}
    return monitor.health()


@pytest.mark.slow
def test_a_right_sampler_is_good_and_its_numbers_are_known():
    health = sgld()
    assert health.verdict.grade == Grade.GOOD, str(health)
    # An Euler step of h has the variance 1/(1 - h/2): 1.053, and minibatches of variance 0.01/n add a little.
    share = 0.1 * N * 0.01 / BATCH / 2
    assert health.configurational.ratio == pytest.approx(
        (1 + share) / (1 - 0.05), abs=4 * health.configurational.error
    )
    assert set(health.blocks) == {"a", "b"}
    # 160 squared differences of 3 coordinates: within 5 standard errors.
    assert health.noise_share == pytest.approx(share, rel=5 * (2 / 480) ** 0.5)
    assert health.r_hat < 1.05
    assert "would have been seen" in str(health)
    assert "T/T₀" in health.line
    assert str(health).count(str(Grade.GOOD)) == 1


def test_a_temperature_that_is_not_judged_is_not_printed():
    rng, monitor, theta = np.random.default_rng(0), fk.monitor(), np.zeros(10)
    for _ in range(400):
        monitor.add(theta, theta)
        theta = theta - 0.05 * theta + np.sqrt(2 * 0.05) * rng.normal(size=10)
    health = monitor.health()
    assert not health.configurational.is_judged
    assert "T/T₀ undecided" in health.line


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        ({"noise": 2.0}, "as if the noise has twice its standard deviation"),
        ({"noise": 2**0.5}, "as if the noise has twice its variance"),
        ({"noise": 0.5**0.5}, "half its variance"),
        ({"wanted": 0.1}, "as if the temperature is forgotten"),
        (
            {"weight": BATCH / N, "draws": 16_000, "step": 0.8, "every": 20},
            "as if the factor N/n is forgotten",
        ),
    ],
)
def test_mistakes_are_named(mistake, message):
    health = sgld(**mistake)
    assert health.verdict.grade == Grade.BAD
    assert message in str(health)


@pytest.mark.slow
def test_noise_of_minibatches_drift_and_chains_apart_are_seen():
    assert any("starts" in problem for problem in sgld(start=1.0, step=0.002, draws=400).verdict.problems)
    drifting = sgld(start=3.0, chains=1, draws=600, step=0.002)
    assert any("drifts" in problem for problem in drifting.verdict.problems)
    hot = sgld(spread=0.7)
    assert any("which the noise of minibatches explains" in problem for problem in hot.verdict.problems)
    rng, monitor = np.random.default_rng(0), fk.monitor(step_size=0.5)
    for _ in range(100):
        monitor.add(rng.normal(size=4), rng.normal(size=4), repeat=rng.normal(size=4))
    # Var g = 1: ε/(2T) of it is a quarter.
    assert monitor.health().noise_share == pytest.approx(0.25, rel=0.4)
    assert any("minibatch noise adds" in problem for problem in monitor.health().verdict.problems)


def test_momentum_has_a_temperature_and_one_array_can_be_wrong_alone():
    rng = np.random.default_rng(0)
    monitor = fk.monitor(0.5)
    for _ in range(3000):
        x, y = rng.normal(size=20) * 0.5**0.5, rng.normal(size=2) * 0.5**0.5
        # The second array is twice as wide as its U says, and too small to be seen in the whole.
        monitor.add([x, y], [x, 1.5 * y], momentum=[x * 2**0.5, y * 2**0.5], mass=2.0)
    health = monitor.health()
    assert health.kinetic.ratio == pytest.approx(1, abs=5 * health.kinetic.error)
    assert "of 1 is 1.5" in str(health)


def test_few_draws_are_undecided():
    monitor = fk.monitor()
    assert "Undecided" in str(monitor.health())
    for i in range(30):
        monitor.add(np.sin([i, i + 1.0]), np.cos([i, i + 1.0]))
    assert monitor.health().verdict.grade == Grade.CARE
    assert "Undecided" in str(monitor.health())


def test_draws_that_hardly_differ_are_undecided():
    """Enough of them, but of a chain that has moved by a few lengths only."""
    rng, monitor, theta = np.random.default_rng(0), fk.monitor(), np.zeros(2)
    for _ in range(200):
        monitor.add(theta, theta)
        theta = 0.97 * theta + (1 - 0.97**2) ** 0.5 * rng.normal(size=2)
    assert "Undecided: there are too few effective draws for the configurational" in str(monitor.health())


@pytest.mark.parametrize("moving", [(), ("a",)])
def test_arrays_that_never_move_are_named(moving):
    rng = np.random.default_rng(0)
    monitor = fk.monitor()
    for _ in range(200):
        theta = {name: rng.normal(size=2) if name in moving else np.zeros(2) for name in "ab"}
        monitor.add(theta, theta, chain="first")
    verdict = monitor.health().verdict
    assert verdict.grade == Grade.BAD
    what = "b" if moving else "theta"
    assert f"{what} of chain first is the same in all its draws" in str(verdict)
    # Those that move are not named.
    assert "b of chain" in str(verdict) or not moving


def test_what_cannot_be_used_is_refused():
    with pytest.raises(ValueError, match="batch_size=20 is larger than size=1"):
        fk.monitor(batch_size=20)
    with pytest.raises(ValueError, match=r"step_size must be a positive number or None; 0\.0 was given"):
        fk.monitor(step_size=0.0)
    with pytest.raises(ValueError, match="temperature must be a positive number; 0 was given"):
        fk.monitor(0)
    monitor = fk.monitor()
    with pytest.raises(ValueError, match=r"gradient must have the arrays of theta"):
        monitor.add({"a": np.zeros(2)}, {"a": np.zeros(3)})
    with pytest.raises(TypeError, match=r"theta, a is a str"):
        monitor.add({"a": "text"}, {"a": np.zeros(1)})
    with pytest.raises(ValueError, match="chain 3 has a number that is not finite"):
        monitor.add(np.array([np.nan]), np.zeros(1), chain=3)
    with pytest.raises(ValueError, match="the same arrays in every call"):
        monitor.add(np.zeros(2), np.zeros(2))


def test_a_line_is_shown_while_it_runs(capsys):
    rng, monitor = np.random.default_rng(0), fk.monitor(live=True)
    for _ in range(80):
        x = rng.normal(size=3)
        monitor.add(x, x)
    assert "draws · T/T₀" in capsys.readouterr().err


class Tensor:
    """What PyTorch has: it refuses to become an array until it is detached and on the host."""

    def __init__(self, values, is_plain=False):
        self.values, self.is_plain = values, is_plain

    def detach(self):
        return Tensor(self.values)

    def cpu(self):
        return Tensor(self.values, is_plain=True)

    def __array__(self, dtype=None, copy=None):
        assert self.is_plain
        return self.values.astype(dtype or self.values.dtype)


@pytest.mark.parametrize("framework", ["jax", "torch", "stand-in"])
def test_arrays_of_other_frameworks_are_taken(framework):
    """The same numbers as of NumPy, with parameters that change in place."""
    module = None if framework == "stand-in" else pytest.importorskip(framework, exc_type=ImportError)
    rng = np.random.default_rng(0)
    plain, other = fk.monitor(), fk.monitor()
    theta = {
        "jax": lambda: module.numpy.zeros((2, 40)),
        "torch": lambda: module.nn.Parameter(module.zeros(2, 40)),
        "stand-in": lambda: Tensor(np.zeros((2, 40))),
    }[framework]()
    for _ in range(60):
        values = rng.normal(size=(2, 40)).astype(np.float32)
        plain.add({"w": values}, {"w": values})
        if framework == "jax":
            theta = module.numpy.asarray(values)
        elif framework == "torch":
            theta.data.copy_(module.as_tensor(values))
        else:
            theta.values[:] = values
        other.add({"w": theta}, {"w": theta})
    assert other.health() == plain.health()
