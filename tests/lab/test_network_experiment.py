"""The experiment with a neural network, on small images of ten patterns."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fokker.datasets import Images
from fokker.datasets.folder import VARIABLE
from fokker.lab.experiments import ding_bnn, reproduce
from fokker.lab.experiments.ding_bnn import Chain, DingSetting, Length, Network, NetworkOnImages


def images(number: int, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Ten patterns of 6 × 6 pixels with noise."""
    patterns = np.random.default_rng(5).integers(0, 160, (10, 6, 6))
    labels = generator.integers(0, 10, number)
    return (patterns[labels] + generator.integers(0, 96, (number, 6, 6))).astype(np.uint8), labels.astype(
        np.uint8
    )


def small_data() -> Images:
    generator = np.random.default_rng(0)
    return Images(*images(1_000, generator), *images(200, generator))


@pytest.mark.slow
def test_the_experiment_on_small_images(tmp_path: Path) -> None:
    settings = [DingSetting(method, 0.01, 1e-3) for method in ding_bnn.SAMPLERS]
    result = ding_bnn.study(small_data(), tmp_path, settings, 1, Length(400, 200, 50), None)
    assert all((tmp_path / figure).stat().st_size > 300 for figure in result.figures)
    assert (tmp_path / ding_bnn.TABLE).read_text(encoding="utf-8").count("\n| SG") == 2
    result.write(tmp_path)
    hot, kept = json.loads((tmp_path / "result.json").read_text(encoding="utf-8"))["entries"]
    assert hot["iterations"] == list(range(50, 401, 50))
    assert len(hot["test error over iterations, %"][0]) == 8
    # The noise of the gradient heats SGHMC, so it predicts badly; the thermostat raises its friction instead.
    # A fixed seed, far from the bounds: kinetic energy 45 and 0.56, friction 0.32 and 1.18, error 96 % and
    # 0.5 %. SGHMC is the negative control.
    assert hot["kinetic energy by seed"][0] > 4
    assert kept["kinetic energy by seed"][0] < 1
    assert hot["friction by seed"][0] == pytest.approx(0.01 / 1e-3**0.5)
    assert kept["friction by seed"][0] > 2 * hot["friction by seed"][0]
    assert kept["test error by seed, %"][0] < 10 < 50 < hot["test error by seed, %"][0]


def test_draws_predict_alone_up_to_the_end_of_burn_in_and_then_their_mean(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Of two images, both of class 0; draw n predicts class 0 with these probabilities, else class 1.
    probabilities = np.array([[0.9, 0.9], [0.1, 0.1], [0.4, 0.9], [0.8, 0.1], [0.1, 0.2]])
    trace = SimpleNamespace(
        draws={"B": np.arange(5)[None]},
        sample_stats={"kinetic_temperature": np.array([[9.0, 9.0, 1.0, 2.0, 3.0]])},
        stopped=None,
    )
    monkeypatch.setattr(ding_bnn, "sample", lambda *arguments, **options: trace)

    def predict(theta: dict[str, Any]) -> np.ndarray:
        p = probabilities[theta["B"]]
        return np.stack([p, 1 - p, *[np.zeros(2)] * 8], axis=1)

    posterior: Any = SimpleNamespace(data={"image": np.zeros((1, 4))})
    problem = NetworkOnImages(Network(), posterior, predict, np.zeros(2, np.int64))
    chain = ding_bnn.follow(problem, DingSetting("SGHMC", 0.1, 0.25), 0, Length(10, 4, 2))
    # Single draws at 2 and 4; then means 0.4, 0.9; 0.6, 0.5 (a tie goes to the first class); 0.43, 0.4.
    assert chain.iterations.tolist() == [2, 4, 6, 8, 10]
    assert chain.errors.tolist() == [0.0, 100.0, 50.0, 0.0, 100.0]
    assert chain.kinetic == pytest.approx(1.0)
    assert chain.friction == pytest.approx(0.2)
    # A chain that leaves the finite numbers is reported as such, and ends with the error of guessing.
    trace.stopped = "a chain left the finite numbers"
    chain = ding_bnn.follow(problem, DingSetting("SGHMC", 0.1, 0.25), 0, Length(20, 4, 2))
    assert chain.diverged == trace.stopped
    assert chain.errors.tolist() == [0.0, 100.0, 50.0, 0.0, 100.0, 90.0]
    trace.draws, trace.sample_stats = None, {}
    chain = ding_bnn.follow(problem, DingSetting("SGHMC", 0.1, 0.25), 0, Length(20, 4, 2))
    assert (chain.last, chain.kinetic, chain.iterations.tolist()) == (90.0, np.inf, [2])


def chains_with(
    errors: dict[tuple[str, float, float], float], energy: dict[str, float]
) -> dict[DingSetting, list[Chain]]:
    return {
        DingSetting(*key): [Chain(np.array([1]), np.array([error]), energy[key[0]], 1.0)]
        for key, error in errors.items()
    }


def test_the_claims_hold_where_they_should_and_only_there() -> None:
    pairs = [(a, eta) for a in ding_bnn.AMOUNTS for eta in ding_bnn.STEPS]
    paper = {("SGNHT", a, eta): 2.0 for a, eta in pairs}
    paper |= {("SGHMC", a, eta): 2.0 + (eta - 2e-7) * (1e8 if a == 0.001 else 1e6) for a, eta in pairs}
    energy = {"SGNHT": 0.5, "SGHMC": 0.7}
    assert all(claim.holds for claim in ding_bnn.claims(chains_with(paper, energy)))
    swapped = {({"SGNHT": "SGHMC", "SGHMC": "SGNHT"}[m], a, eta): x for (m, a, eta), x in paper.items()}
    assert not any(claim.holds for claim in ding_bnn.claims(chains_with(swapped, energy))[:5])
    warm = ding_bnn.claims(chains_with(paper, {"SGNHT": 0.56, "SGHMC": 0.7}))[-1]
    cold = ding_bnn.claims(chains_with(paper, {"SGNHT": 0.5, "SGHMC": 0.49}))[-1]
    assert not warm.holds
    assert not cold.holds


def test_missing_images_are_named_with_the_command_that_gets_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"mnist/train-images-idx3-ubyte .*`fokker data get mnist`"):
        reproduce("ding-bnn", tmp_path, quick=True)
