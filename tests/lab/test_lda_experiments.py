"""The experiments with topics, on small corpora drawn from topics that are known."""

import json
from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fokker.datasets.folder import VARIABLE
from fokker.lab.experiments import Result, ding_lda, ma_lda, reproduce
from fokker.lab.experiments._online_vb import follow_online_vb
from fokker.lab.experiments._topic_runs import (
    DocumentStream,
    TopicSetting,
    draw_from_topics,
    follow,
    search,
    top_words,
)

WORDS, TOPICS = 120, 5


@pytest.fixture(scope="module")
def stream() -> DocumentStream:
    drawn = draw_from_topics(np.random.default_rng(0), 480, WORDS, TOPICS, 60)
    words = tuple(f"word{w}" for w in range(WORDS))
    return DocumentStream(drawn.select(slice(400)), drawn.select(slice(400, None)), words, TOPICS, 20)


@pytest.fixture(scope="module")
def patch() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module")
def wikipedia(
    stream: DocumentStream, patch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Result, Path]:
    """Without gensim, which need not be there."""
    patch.setattr(ma_lda, "has_gensim", lambda: False)
    steps = {"sgld": 3e-3, "sghmc": 0.03, "sgrld": 0.05, "sgrhmc": 0.06, "scir": 0.05}
    keys = [(sampler, ma_lda.WIDE) for sampler in steps]
    keys += [(sampler, ma_lda.NARROW) for sampler in ("sgrld", "sgrhmc", "scir")]
    grids = {
        (sampler, priors): [
            TopicSetting(sampler, priors.alpha, priors.gamma, steps[sampler], friction=3.0, start=1.0)
        ]
        for sampler, priors in keys
    }
    folder = tmp_path_factory.mktemp("ma-lda")
    result = ma_lda.study(stream, folder, grids, seeds=2, rounds=1)
    result.write(folder)
    return result, folder


@pytest.mark.slow
def test_every_sampler_has_its_curve_and_its_runtime(wikipedia: tuple[Result, Path]) -> None:
    result, folder = wikipedia
    assert all((folder / figure).stat().st_size > 1_000 for figure in result.figures)
    entries = json.loads((folder / "result.json").read_text(encoding="utf-8"))["entries"]
    seconds = next(e["seconds per 100 documents"] for e in entries if "seconds per 100 documents" in e)
    assert set(seconds) == set(ma_lda.NAMES.values())
    assert all(0 < taken["wall"] < 10 for taken in seconds.values())
    curves = [entry for entry in entries if "perplexity by seed" in entry]
    assert len(curves) == 2 * len(ma_lda.NAMES)
    assert all(entry["documents"] == list(range(100, 401, 100)) for entry in curves)
    assert sum("topic" in entry for entry in entries) == TOPICS
    table = (folder / ma_lda.TABLES).read_text(encoding="utf-8")
    assert all(f"| {name} |" in table for name in seconds)
    assert "gensim is not installed" in result.settings["online VB"]


@pytest.mark.slow
def test_topics_predict_better_than_shares_of_words(
    wikipedia: tuple[Result, Path], stream: DocumentStream
) -> None:
    unigram = stream.unigram_perplexity()
    numbers = wikipedia[0].claims[2].numbers
    assert unigram < WORDS
    assert all(numbers[name] < 0.9 * unigram for name in ("SGRLD", "SGRHMC", "SCIR"))


@pytest.mark.slow
def test_claims_say_what_the_numbers_do(wikipedia: tuple[Result, Path]) -> None:
    for beats, ties in (wikipedia[0].claims[:2], wikipedia[0].claims[2:]):
        n = beats.numbers
        assert beats.holds == (max(n["SGRLD"], n["SGRHMC"]) < min(n["SGLD"], n["SGHMC"]))
        assert ties.holds == (ties.numbers["SGRHMC / SGRLD"] <= 1.01)


@pytest.mark.slow
def test_search_puts_what_diverges_last(stream: DocumentStream) -> None:
    good, bad = (TopicSetting("sgrhmc", 0.01, 0.1, h, friction=1e-3) for h in (0.01, 1e3))
    assert follow(stream, bad, 0) is None
    found = search(stream, [bad, good], 0)
    assert [setting for setting, _ in found] == [good, bad]
    assert np.isinf(found[1][1])


def test_top_words_are_the_most_probable() -> None:
    beta = np.array([[0.1, 0.7], [0.6, 0.1], [0.3, 0.2]])
    assert top_words(beta, ("a", "b", "c"), 2) == [["b", "c"], ["a", "c"]]


@pytest.mark.filterwarnings("ignore")
def test_online_vb_is_looked_at_along_the_stream(stream: DocumentStream) -> None:
    pytest.importorskip("gensim")
    curve = follow_online_vb(stream, 0.1, 0.1, 0)
    assert curve.documents.tolist() == list(range(100, 401, 100))
    assert curve.single[-1] < curve.single[0]
    assert curve.last < stream.unigram_perplexity()


@pytest.mark.parametrize("topics", list(ding_lda.TARGETS))
def test_potential_is_that_of_the_posterior(topics: str, x64: None) -> None:
    """-log N(0.1, 1) - Σ N log β, of which β is what the target says."""
    target, _ = ding_lda.TARGETS[topics]
    generator = np.random.default_rng(0)
    theta, N = generator.uniform(0.1, 2.0, (7, 3)), generator.uniform(0.0, 5.0, (7, 3))
    beta = target.topics(theta)
    np.testing.assert_allclose(beta.sum(0), 1.0)
    expected = np.sum((theta - 0.1) ** 2) / 2 - np.sum(N * np.log(beta))
    np.testing.assert_allclose(target.minibatch_potential(jnp.asarray(theta), jnp.asarray(N)), expected)
    prior = target.potential(jnp.asarray(theta))
    nothing = target.minibatch_potential(jnp.asarray(theta), jnp.zeros((7, 3)))
    np.testing.assert_allclose(jax.device_get(prior), jax.device_get(nothing))


@pytest.mark.slow
def test_thermostat_takes_up_the_noise_that_sghmc_does_not(stream: DocumentStream, tmp_path: Path) -> None:
    settings = [s for s in ding_lda.all_settings("natural", (8e-5, 3e-4)) if s.a == 0.01]
    result = ding_lda.study(stream, tmp_path, settings, 1, ding_lda.Length(300, 4, 10))
    assert all((tmp_path / figure).stat().st_size > 1_000 for figure in result.figures)
    found = {(e["method"], e["η"]): e["seeds"][0] for e in result.entries}
    friction = 0.01 / 8e-5**0.5
    assert found["SGHMC", 8e-5].kinetic > 2.0
    assert found["SGHMC", 8e-5].friction == pytest.approx(friction)
    assert found["SGNHT", 8e-5].kinetic == pytest.approx(0.5, abs=0.15)
    assert found["SGNHT", 8e-5].friction > 3 * friction
    unigram = stream.unigram_perplexity()
    assert found["SGNHT", 8e-5].perplexity < found["SGHMC", 8e-5].perplexity < unigram
    # For the paper's η, and for those with the larger one.
    assert len(result.claims) == 6
    assert all(claim.holds for claim in result.claims if "at least as good" in claim.claim)


def test_chain_that_diverges_is_told_as_such(stream: DocumentStream) -> None:
    found = ding_lda.follow(stream, ding_lda.LdaSetting("SGHMC", 0.01, 100.0), 0, ding_lda.Length(50, 2, 5))
    assert np.isinf(found.perplexity)


@pytest.mark.parametrize("name", ["ma-lda", "ding-lda"])
def test_missing_data_are_told_with_where_they_are_from(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "empty"))
    with pytest.raises(FileNotFoundError, match=r"empty has no file .*github.*folder=….*FOKKER_DATA"):
        reproduce(name, tmp_path, quick=True)
    with pytest.raises(FileNotFoundError, match=r"the folder .* has no file"):
        reproduce(name, tmp_path, quick=True, data_dir=tmp_path)
