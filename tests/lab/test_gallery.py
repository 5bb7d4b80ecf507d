"""The gallery: exact marginals, animations, verdicts and claims, each with a control that fails."""

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from fokker import samplers
from fokker.lab import animation
from fokker.lab.animation import (
    Backdrop,
    ChainView,
    Job,
    Renderers,
    Series,
    Trajectory,
    _frames,
    animate,
    write_gif,
    write_mp4,
)
from fokker.lab.experiments import (
    _background_density,
    _background_paths,
    _background_steps,
    article_background,
    article_gallery,
    article_scaling,
    reproduce,
)
from fokker.lab.experiments._gallery_runs import (
    BIASED,
    CAVEAT,
    LEFT,
    OTHER,
    SLOW,
    Budget,
    explained,
    judge,
    sampler_on,
)
from fokker.lab.experiments._gallery_samplers import ROWS, Row
from fokker.lab.experiments._gallery_targets import TARGETS, Marginal
from fokker.samplers import Info
from fokker.targets import Density
from marks import long_case

TWO_DIMENSIONAL = [name for name, target in TARGETS.items() if target.dimension == 2]


class Placed(NamedTuple):
    """A walk with Metropolis's rule, its info and trajectories to be drawn; the temperature may be wrong."""

    step_size: Any
    density: Any
    temperature: float = 1.0

    class State(NamedTuple):
        position: Any

    class Info(NamedTuple):
        is_finite: Any
        noise_shortfall: Any
        is_accepted: Any
        proposal: Any

    def on(self, density: Any) -> "Placed":
        return self._replace(density=density)

    def init(self, position: Any, *, key: Any) -> "Placed.State":
        return Placed.State(position)

    def record(self, state: Any) -> dict[str, Any]:
        return {}

    def draw(self, key: Any, state: Any) -> Any:
        return key

    def step(self, key: Any, state: Any) -> Any:
        return self.advance(key, state)

    def advance(self, key: Any, state: Any, batch: Any = None) -> Any:
        move, coin = jax.random.split(key)
        proposal = state.position + self.step_size * jax.random.normal(move, state.position.shape)
        fall = self.density.potential(state.position) - self.density.potential(proposal)
        accepted = jnp.log(jax.random.uniform(coin)) < fall / self.temperature
        info = Placed.Info(jnp.asarray(True), jnp.zeros(()), accepted, proposal)
        return Placed.State(jnp.where(accepted, proposal, state.position)), info

    def trajectory(self, key: Any, state: Any) -> Any:
        new, _ = self.step(key, state)
        points = jnp.linspace(0, 1, 5)[:, None] * (new.position - state.position)[None] + state.position[None]
        return SimpleNamespace(
            points=points, chosen=jnp.asarray(4), state=new, depth=jnp.asarray([0, 1, 2, 2, 3])
        )


def walker(temperature: float) -> Row:
    return Row(
        "sgld",
        "Walk",
        lambda s: Placed(s.step_size, None, temperature),
        2.0,
        "a walk",
        "",
        panels=("accepted",),
        paths=True,
    )


def backdrop(name: str) -> Backdrop:
    return article_gallery.backdrop(TARGETS[name])


def walk(dimension: int, steps: int, **more: Any) -> ChainView:
    moves = np.random.default_rng(0).normal(size=(steps, dimension))
    return ChainView(
        "Walk", "a walk × nothing × none", 0.3 * np.cumsum(moves, axis=0) / np.sqrt(steps), **more
    )


def spread_of_ratio(log_density: Any, name: str, axis: int) -> float:
    """How far ∫ exp(log density) over the other coordinate is from the marginal times a constant."""
    target = TARGETS[name]
    mine, other = target.marginals[axis], target.marginals[1 - axis]
    x = np.interp(np.linspace(0.01, 0.99, 60), mine.distribution, mine.x)
    grid = np.meshgrid(x, other.x, indexing="ij")
    joint = np.exp(log_density(np.stack(grid if axis == 0 else grid[::-1])))
    ratio = np.trapezoid(joint, other.x, axis=1) / np.interp(x, mine.x, mine.density)
    return float(np.ptp(ratio) / ratio.mean())


@pytest.mark.parametrize("name", TWO_DIMENSIONAL)
def test_marginals_are_those_of_the_density(name: str) -> None:
    target = TARGETS[name]
    for axis, marginal in enumerate(target.marginals):
        assert marginal.mass == pytest.approx(1, abs=1e-6)
        # Quadrature over a curve: its nodes are midpoints of equal mass.
        assert spread_of_ratio(target.log_density, name, axis) < 5e-3
        assert spread_of_ratio(lambda z: 1.1 * target.log_density(z), name, axis) > 2e-2


def test_moments_of_the_marginals() -> None:
    expected = {
        "normal-1d": [(0, 1)],
        "student-t": [(0, 2**0.5)] * 2,
        "banana": [(0, 10), (0, 19**0.5)],
        "mixture": [(0, 1.7), (0.2, (0.49 + 0.4 * 1.8**2 + 0.6 * 1.2**2) ** 0.5)],
        "rosenbrock": [(1, 1), (2, 6.2**0.5)],
    }
    for name, moments in expected.items():
        for marginal, (mean, deviation) in zip(TARGETS[name].marginals, moments, strict=True):
            assert marginal.mean == pytest.approx(mean, abs=2e-3)
            assert marginal.deviation == pytest.approx(deviation, rel=2e-3)


def test_traced_and_plain_densities_agree() -> None:
    for target in TARGETS.values():
        theta = np.linspace(0.3, 1.1, target.dimension)
        assert float(jax.jit(target.log_density)(theta)) == pytest.approx(
            float(target.log_density(theta)), rel=1e-5
        )
        lowest = -target.log_density(np.stack([g.ravel() for g in np.meshgrid(*target.grid()[:-1])])).max()
        assert lowest >= target.lowest - 1e-3


@pytest.mark.slow
def test_gif_has_the_frames_asked_for_and_is_small(tmp_path: Path) -> None:
    steps = 3000
    accepted = np.random.default_rng(1).random(steps) < 0.5
    panels = (Series("ξ", np.sin(np.arange(steps)), 0.0), Series("accepted", accepted * 1.0, limits=(0, 1)))
    shown = walk(2, steps, series=panels, accepted=accepted, proposals=walk(2, steps).positions + 0.4)
    frames = animate(backdrop("mixture"), shown, 90)
    assert len(frames) == 90
    assert frames[0].shape == (360, 640, 3)
    path = write_gif(frames, tmp_path / "walk.gif")
    assert path.stat().st_size < 3e6
    with Image.open(path) as gif:
        assert gif.n_frames == 90
        pictures = []
        for k in (0, 30, 89):
            gif.seek(k)
            pictures.append(np.asarray(gif.convert("RGB"), float))
    for k, picture in zip((0, 30, 89), pictures, strict=True):
        # The palette has changed no colour by much, and large areas not at all.
        assert np.abs(picture - frames[k]).mean() < 1.0
    assert np.abs(pictures[0] - pictures[1]).mean() > 0.2
    assert np.abs(pictures[1] - pictures[2]).mean() > 0.2


def test_one_coordinate_is_drawn_too() -> None:
    frames = animate(backdrop("normal-1d"), walk(1, 50), 6)
    assert len({frame.tobytes() for frame in frames}) == 6


def test_mp4_only_where_there_is_ffmpeg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frames = animate(backdrop("normal-2d"), walk(2, 30), 4)
    written = write_mp4(frames, tmp_path / "walk.mp4")
    assert (written is None) == (_frames.ffmpeg() is None)
    assert written is None or written.stat().st_size > 1000
    monkeypatch.setattr(_frames.shutil, "which", lambda name: None)
    assert animation.write_animations(frames, tmp_path / "other.view") == ["other.view.gif"]


def test_time_runs_one_by_one_and_then_faster() -> None:
    done = animation.times(10_000, 30)
    assert len(done) == 30
    assert done[0] == 1
    assert done[-1] == 10_000
    assert np.all(np.diff(done) >= 1)
    assert animation.times(5, 30).tolist() == [1, 2, 3, 4, 5]


@pytest.mark.slow
def test_animations_are_made_by_a_process_of_their_own(tmp_path: Path) -> None:
    with Renderers(1) as renderers:
        renderers.submit(Job(backdrop("normal-2d"), walk(2, 20), 3, tmp_path / "a"))
    assert "a.gif" in renderers.written
    assert (tmp_path / "a.gif").exists()


def tree(**changes: Any) -> Any:
    points = np.stack([np.linspace(-2, 2, 8), np.linspace(1, -1, 8) ** 2], axis=1)
    depth, direction = np.array([0, 1, 2, 2, 3, 3, 3, 3]), np.array([1, 1, -1, -1, 1, 1, 1, 1])
    return SimpleNamespace(
        **{"points": points, "chosen": 5, "depth": depth, "direction": direction} | changes
    )


@pytest.mark.slow
def test_trees_grow_and_the_chosen_point_is_marked() -> None:
    shown = walk(2, 40, trajectories=(Trajectory.of(tree()),))
    frames = animate(backdrop("normal-2d"), shown, 24)
    assert len(frames) == 24
    growing, marked = frames[:8], frames[8]
    assert len({frame.tobytes() for frame in growing}) == 8
    star = np.all(np.abs(marked.astype(int) - [0, 158, 115]) < 10, axis=-1).sum()
    assert star > 20 + np.all(np.abs(growing[-1].astype(int) - [0, 158, 115]) < 10, axis=-1).sum()
    plain = animate(backdrop("normal-2d"), dataclasses.replace(shown, trajectories=()), 24)
    assert np.abs(plain[0].astype(int) - frames[0]).max() > 100


def test_trajectories_without_a_tree_and_wrong_ones() -> None:
    found = Trajectory.of(SimpleNamespace(points=np.zeros((4, 2)), accepted=False))
    assert (found.chosen, found.accepted, found.depth) == (0, False, None)
    assert Trajectory.of(SimpleNamespace(points=np.zeros((4, 2)))).chosen == 3
    for wrong in ({"chosen": 8}, {"depth": np.zeros(3)}):
        with pytest.raises(ValueError, match="trajectory of 8 points"):
            Trajectory.of(tree(**wrong))


def test_verdicts() -> None:
    """Exact draws reach the floor; draws spread too wide, stuck or not finite do not."""
    marginals = TARGETS["normal-2d"].marginals
    draws = np.random.default_rng(2).normal(size=(64, 200, 2))
    right = judge(draws, marginals)
    assert right.reached
    assert right.curve["distance"][-1] < 0.2 * right.curve["distance"][0]
    wide, narrower = judge(1.15 * draws, marginals), judge(1.05 * draws, marginals)
    assert wide.reason == OTHER
    row, target = ROWS[0], TARGETS["normal-2d"]
    uncorrected = dataclasses.replace(row, exact=False)
    assert explained(wide, narrower, uncorrected, target).reason.startswith(BIASED)
    assert explained(wide, wide, uncorrected, target).reason.startswith(OTHER)
    assert explained(wide, narrower, dataclasses.replace(row, exact=True), target).reason.startswith(OTHER)
    cured = explained(wide, wide, uncorrected, target, narrower)
    assert cured.reason.startswith(CAVEAT)
    assert explained(wide, wide, uncorrected, target, wide).reason.startswith(OTHER)
    assert explained(narrower, wide, uncorrected, target).reason.startswith(SLOW)
    assert judge(np.repeat(draws[:, :1], 200, axis=1), marginals).reason == SLOW
    assert judge(np.where(draws > 3.5, np.nan, draws), marginals).reason == LEFT


def test_distance_is_that_of_scipy() -> None:
    from scipy import stats

    draws = np.random.default_rng(3).normal(size=500)
    marginal = Marginal.of(stats.norm.pdf, -8, 8)
    assert marginal.distance(draws) == pytest.approx(stats.kstest(draws, "norm").statistic, abs=1e-5)


@pytest.mark.slow
def test_gallery_with_a_right_and_a_wrong_sampler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice the temperature is found out; what a sampler shows of its steps is in the animations."""
    rows = (walker(1.0), dataclasses.replace(walker(2.0), name="sghmc", title="Hot walk", right=False))
    monkeypatch.setattr(article_gallery, "ROWS", rows)
    monkeypatch.setattr(article_gallery, "TARGETS", {"mixture": TARGETS["mixture"]})
    monkeypatch.setattr(article_gallery, "QUICK", Budget(64, 3000, 100))
    monkeypatch.setattr(article_gallery, "QUICK_FRAMES", 12)
    monkeypatch.setattr(article_gallery, "RENDERERS", 0)
    monkeypatch.setattr(article_gallery, "_CONTROL_EFFECTIVE", 2000)
    result = reproduce("article-gallery", tmp_path, quick=True)
    assert [claim.holds for claim in result.claims] == [True] * 4, result.claims
    told = json.loads((tmp_path / "result.json").read_text(encoding="utf-8"))
    assert [entry["reached"] for entry in told["entries"]] == [True, False]
    assert "Hot walk" in (tmp_path / "index.html").read_text(encoding="utf-8")
    assert all((tmp_path / name).stat().st_size > 1000 for name in result.figures)
    assert "sgld-mixture.gif" in result.figures
    wrong = [dict(entry) | {"right": True} for entry in result.entries]
    assert [claim.holds for claim in article_gallery.claims(wrong)][:2] == [False, False]


@pytest.mark.slow
def test_every_row_makes_a_sampler() -> None:
    for row in ROWS:
        group = [t for t in TARGETS.values() if t.dimension == 2 and row.fits(t)]
        made = sampler_on(row, group, 0, jnp.asarray(0.1))
        state = jax.eval_shape(lambda key, made=made: made.init(jnp.ones(2), key=key), jax.random.key(0))
        assert jax.eval_shape(lambda s: s.position, state).shape == (2,)


PATHS = {
    "hmc": samplers.hmc(0.3, None, [0.25, 1.0]),
    "ghmc": samplers.ghmc(1.5, mass_matrix="identity", num_integration_steps=2),
    "nuts": samplers.nuts(0.5, "identity"),
    "naive nuts": samplers.naive_nuts(0.8, "identity", max_depth=3),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [n if n == "nuts" else long_case("gallery::a_trajectory_ends_where_the_step_does", n) for n in PATHS],
)
def test_a_trajectory_ends_where_the_step_does(name: str) -> None:
    target = TARGETS["banana"]
    sampler = PATHS[name].on(Density(target.log_density))
    step = jax.jit(sampler.step)
    state = sampler.init(jnp.asarray(target.start), key=jax.random.key(1))
    rejected = 0
    for key in jax.random.split(jax.random.key(2), 12):
        told = sampler.trajectory(key, state)
        new, info = step(key, state)
        assert np.allclose(told.points[0], state.position)
        assert np.allclose(told.points[told.chosen], new.position, atol=1e-5)
        assert np.allclose(told.state.position, new.position, atol=1e-5)
        assert len(told.points) == int(info.num_integration_steps) + 1
        if told.depth is None:
            assert told.accepted == bool(info.is_accepted)
            assert np.allclose(told.points[-1], info.proposal, atol=1e-5)
        else:
            # 1, 2, 4, … points a doubling, the last of which may be broken off; neighbours are a leap apart.
            counts = np.bincount(told.depth)
            assert counts[:-1].tolist() == [1, *(2**k for k in range(len(counts) - 2))]
            forwards = told.direction > 0
            path = np.concatenate([told.points[~forwards][::-1], told.points[forwards]])
            assert np.linalg.norm(np.diff(path, axis=0), axis=1).max() < 3.0
        rejected += told.chosen == 0
        state = new
    assert rejected < 12


@pytest.mark.slow
def test_what_a_metropolis_step_tells() -> None:
    sampler = samplers.mala(1.2, "identity").on(Density(TARGETS["normal-2d"].log_density))
    state = sampler.init(jnp.array([2.0, -1.0]), key=jax.random.key(0))
    keys = jax.random.split(jax.random.key(1), 200)
    new, info = jax.jit(jax.vmap(sampler.step, in_axes=(0, None)))(keys, state)
    accepted = np.asarray(info.is_accepted)
    assert 0 < accepted.sum() < 200
    expected = np.where(accepted[:, None], info.proposal, np.asarray(state.position))
    assert np.allclose(expected, new.position, atol=1e-5)
    assert np.allclose(info.acceptance_rate, np.exp(-np.maximum(info.energy_change, 0)), rtol=1e-5)


@pytest.mark.slow
def test_background(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = {"paths": 1000, "particles": 3000, "gibbs": (200, 200), "trees": 8, "frames": 14}
    monkeypatch.setattr(article_background, "QUICK", size)
    monkeypatch.setattr(_background_density, "STEP_SIZE", 0.004)
    monkeypatch.setattr(_frames.shutil, "which", lambda name: None)
    result = reproduce("article-background", tmp_path, quick=True)
    assert [claim.claim for claim in result.claims if not claim.holds] == []
    assert all(5000 < (tmp_path / name).stat().st_size < 3e6 for name in result.figures)


@pytest.mark.slow
def test_background_claims_can_fail() -> None:
    dW = _background_paths.increments(jax.random.key(1), 2000, 512)
    assert _background_paths.brownian(dW)[0].holds
    assert not _background_paths.brownian(1.2 * dW)[0].holds
    assert not _background_paths.brownian(np.repeat(dW[:, ::2], 2, axis=1)[:, ::-1] + dW[:, ::-1])[0].holds
    X = _background_paths.ornstein_uhlenbeck(3**0.5 * dW[:, :100], 3.0)
    assert not _background_paths.ode_and_sde(1.1 * X, 3.0)[0].holds
    found = _background_paths.errors(dW)
    assert [claim.holds for claim in _background_paths.ito_and_stratonovich(found)] == [True, True]
    swapped = found | {"Itô to Itô": found["Stratonovich to Itô"]}
    assert [claim.holds for claim in _background_paths.ito_and_stratonovich(swapped)] == [False, False]
    times = np.linspace(0, 8, 41)
    solved = _background_density.solve(times)
    rng = np.random.default_rng(0)
    shares = np.array([rng.multinomial(4000, row) / 4000 for row in _background_density.coarse(solved)])
    assert [c.holds for c in _background_density.claims(shares, solved, 4000)] == [True] * 3
    late = np.concatenate([shares[2:], shares[-2:]])
    assert [c.holds for c in _background_density.claims(late, 1.001 * solved, 4000)] == [False, False, True]
    assert not _background_density.claims(shares[::-1], solved[::-1], 4000)[2].holds
    halves = _background_steps.gibbs(0, 200, 200)
    assert _background_steps.gibbs_claims(halves)[0].holds
    assert not _background_steps.gibbs_claims(halves[:, ::2])[0].holds
    _, told, _ = _background_steps.tree_chain(jax.random.key(0), 5)
    assert not _background_steps.tree_claims([*told, told[0] | {"points": 3}])[0].holds


class Autoregression(NamedTuple):
    """θ' = aθ + √(1 - a²) noise: (1 + a)/(1 - a) draws are worth one."""

    a: float

    def on(self, density: Any) -> "Autoregression":
        return self

    def init(self, position: Any, *, key: Any) -> Any:
        return Placed.State(position)

    def step(self, key: Any, state: Any) -> Any:
        noise = jax.random.normal(key, state.position.shape)
        return Placed.State(self.a * state.position + (1 - self.a**2) ** 0.5 * noise), Info(
            jnp.asarray(True), num_integration_steps=jnp.asarray(3)
        )


@pytest.mark.slow
def test_cost_of_an_effective_draw_and_its_slope() -> None:
    method = article_scaling.Method("ar", lambda d: Autoregression(0.8), None, lambda d: 2, 0.5, 0.1, "o-")
    size = article_scaling.Size((16, 64), 16, 400, {"ar": 16})
    (row,) = article_scaling.measure([method], size, 1)
    assert row["cost per effective draw"] == pytest.approx(3 * 9, rel=0.15)
    rows = [
        {"method": "ar", "dimension": d, "seed": 0, "cost per effective draw": 3 * d**0.5 + (d < 16) * 50}
        for d in (4, 16, 64, 256)
    ]
    assert article_scaling.claims(rows, [method])[0].holds
    assert not article_scaling.claims(rows, [dataclasses.replace(method, slope=1.0)])[0].holds


@pytest.mark.slow
def test_scaling_by_the_samplers_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too small for the laws: costs and slopes are computed, and in the right order."""
    size = article_scaling.Size((16, 64), 8, 40)
    monkeypatch.setattr(article_scaling, "QUICK", size)
    methods = [m for m in article_scaling.METHODS if m.name in ("rwm", "hmc")]
    monkeypatch.setattr(article_scaling, "METHODS", tuple(methods))
    result = reproduce("article-scaling", tmp_path, quick=True)
    slopes = {c.claim: c.numbers["slope"] for c in result.claims}
    assert all(np.isfinite(slope) for slope in slopes.values())
    rwm, hmc = slopes.values()
    assert rwm > hmc
    costs = {(row["method"], row["dimension"]): row["gradients per step"] for row in result.entries}
    assert costs["hmc", 64] == pytest.approx(3, abs=1)
    assert (tmp_path / article_scaling.FIGURE).stat().st_size > 5000
