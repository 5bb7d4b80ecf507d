"""What a user of `fokker lda` sees besides the topics: several numbers of them, progress, a map, Ctrl-C."""

import csv
import dataclasses
import json
import shutil

import numpy as np
import pytest
from test_lda_command import OPTIONS, command, corpus, interrupt, table, words  # noqa: F401

from chromium import skipped_headings
from fokker.corpora import Documents, open_corpus
from fokker.models.topics import files, start
from fokker.models.topics.comparison import aligned, compare, preference
from fokker.models.topics.document_prior import DocumentPrior
from fokker.models.topics.evaluate import DocumentScores, HeldOut
from fokker.models.topics.report import map_figure
from fokker.models.topics.results import Topic
from fokker.models.topics.start import first_topics
from fokker.models.topics.summary import RunSummary, read_scores
from fokker.models.topics.word_prior import WordPrior
from fokker.run.interruption import Stopped

_OPTIONS = [x for x in OPTIONS if x not in ("--topics", 4)]


@pytest.fixture(scope="module")
def swept(corpus, words, tmp_path_factory):  # noqa: F811
    """A sweep over two numbers of topics: its folder, and what the command says."""
    folder = tmp_path_factory.mktemp("swept") / "sweep"
    told = command(corpus, "--vocab", words, "--passes", 2, "--out", folder, *_OPTIONS, "--topics", "4,2")
    return folder, *told


# Several numbers of topics.


@pytest.mark.slow
def test_a_sweep_compares_its_runs(swept):
    folder, code, out, err = swept
    assert (code, err) == (0, "")
    with (folder / "sweep.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["topics"] for row in rows] == ["2", "4"]
    for row in rows:
        run_folder = folder / f"topics-{row['topics']}"
        assert (run_folder / "report.html").is_file()
        summary = RunSummary.read(run_folder)
        assert summary.is_complete
        assert float(row["perplexity"]) == pytest.approx(summary.perplexity, rel=1e-5)
        assert read_scores(run_folder).perplexity == pytest.approx(summary.perplexity, rel=1e-6)
    # The documents have four subjects.
    assert "The held-out perplexity is lowest with 4 topics. It is clearly higher with 2 (+" in out
    assert "That is the largest number tried" in out
    page = (folder / "sweep.html").read_text()
    assert "lowest with 4 topics" in page
    assert 'href="topics-2/report.html"' in page
    assert not skipped_headings(page)
    assert (folder / "sweep.png").read_bytes().startswith(b"\x89PNG")
    assert out.count("documents held out") == 2


@pytest.mark.slow
def test_a_sweep_goes_on_where_it_stopped(swept, corpus, words, tmp_path):  # noqa: F811
    folder = tmp_path / "copy"
    shutil.copytree(swept[0], folder)
    for name in (files.SUMMARY, files.CHECKPOINT):
        (folder / "topics-4" / name).unlink(missing_ok=True)
    arguments = (corpus, "--vocab", words, "--passes", 2, "--out", folder, *_OPTIONS)
    code, _, err = command(*arguments, "--topics", "2,4", "--seed", 5)
    assert (code, "seed was the default, not 5" in err) == (2, True)
    code, out, _ = command("--resume", folder)
    assert code == 0
    assert "2 topics: done before" in out
    assert "4 topics: done before" not in out
    assert read_scores(folder / "topics-4").perplexity == read_scores(swept[0] / "topics-4").perplexity
    # The same command, too: now there is nothing left to do.
    code, out, _ = command(*arguments, "--topics", "2,4")
    assert (code, out.count("done before")) == (0, 2)
    code, _, err = command(*arguments, "--topics", 3)
    assert (code, "add this one by --resume" in err) == (2, True)


def test_ctrl_c_in_a_sweep_keeps_what_is_done(swept, tmp_path, monkeypatch):
    folder = tmp_path / "copy"
    shutil.copytree(swept[0], folder)
    monkeypatch.setattr("fokker.cli.lda_sweep.learn", lambda run: None)
    assert "--no-skip is for a single run" in command("--resume", folder, "--no-skip")[2]
    code, out, _ = command("--resume", folder, "--topics", 3, "--no-mixtures")
    assert code == 130
    assert f"to continue: fokker lda --resume {folder}" in out
    stored = json.loads((folder / "sweep.json").read_text())
    assert (stored["topics"], stored["mixtures"]) == ([2, 3, 4], False)
    assert "lowest with 4 topics" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--topics", "5;10"),
            "--topics is a number, such as 20, or several, such as 5,10,20; '5;10' was given",
        ),
        (("-", "--topics", "5,10"), "can be read again, and an end: not standard input"),
        (("--topics", "5,10", "--forever"), "can be read again, and an end: not --forever"),
    ],
)
def test_what_no_sweep_can_do_is_an_error(arguments, message, tmp_path):
    code, _, err = command(*arguments, "--out", tmp_path)
    assert code == 2
    assert message in err


def summary_of(topics, scores, **more):
    values = {field.name: 0.0 for field in dataclasses.fields(RunSummary)}
    values |= {"topics": topics, "perplexity": scores.perplexity, "unigram_perplexity": 1e9, "problems": ()}
    return RunSummary(**values | {"is_complete": True} | more)


def scores_of(log_p):
    log_p = np.asarray(log_p, float)
    return DocumentScores(tuple(map(str, range(len(log_p)))), log_p, np.full(len(log_p), 10.0))


def test_a_number_of_topics_is_preferred_no_more_clearly_than_it_is():
    # Documents differ by far more than models: only differences within documents say something.
    generator = np.random.default_rng(0)
    hard = generator.normal(-80, 20, 100)
    best, noise = scores_of(hard), generator.normal(0, 1, 100)
    noise -= noise.mean()
    noise /= noise.std(ddof=1)
    # The mean difference is this many of its standard errors.
    for ratio, is_clear in ((2.9, False), (3.1, True)):
        other = scores_of(hard + noise - ratio / 10)
        said = preference([summary_of(5, best), summary_of(9, other)], [best, other])
        assert ("It is clearly higher with 9 (+" in said) is is_clear
        assert ("the documents do not decide" in said) is not is_clear
        assert "lowest with 5 topics" in said
        assert "smallest number tried" in said
    useless = summary_of(5, best, unigram_perplexity=2.0)
    assert "better than the word frequencies alone" in preference([useless, useless], [best, best])
    assert "no two complete runs" in preference([useless], [best])
    others = best._replace(names=tuple(f"x{i}" for i in range(100)))
    assert "cannot be compared" in preference([summary_of(5, best), summary_of(9, others)], [best, others])
    coherent = [summary_of(k, best, npmi=x, npmi_error=0.01) for k, x in ((5, 0.1), (9, 0.13), (20, 0.05))]
    assert "NPMI is highest with 9 topics (+0.130), but not clearly higher than with 5." in preference(
        coherent, [best] * 3
    )


def test_the_standard_error_is_that_of_a_ratio():
    """Against the spread over samples of documents: 4000 samples know it to 1.1 %, so 5 % is 4.5 sigma."""
    generator = np.random.default_rng(1)
    sizes = generator.integers(5, 60, (4_000, 50)).astype(float)
    log_p = -7 * sizes + generator.normal(0, 3, sizes.shape) * np.sqrt(sizes)
    samples = [DocumentScores((), *rows) for rows in zip(log_p, sizes, strict=True)]
    spread_of_samples = np.std([sample.perplexity for sample in samples])
    errors = np.array([sample.standard_error for sample in samples])
    assert np.mean(errors) == pytest.approx(spread_of_samples, rel=0.05)
    # A formula that forgets that long documents have a smaller log p is seen.
    wrong = np.std(log_p, axis=1) / sizes.mean(1) / np.sqrt(50) * [sample.perplexity for sample in samples]
    assert np.mean(wrong) > 1.5 * spread_of_samples
    assert np.isnan(DocumentScores(("a",), np.ones(1), np.ones(1)).standard_error)


def test_the_scores_of_documents_give_the_perplexity():
    documents = Documents.from_matrix(np.random.default_rng(2).integers(0, 4, (12, 6)))
    held_out = HeldOut(documents)
    for seed in range(2):
        held_out.add(np.random.default_rng(seed).dirichlet(np.ones(6), 3).T.astype(np.float32), np.ones(3))
    scores = held_out.scores()
    assert scores.perplexity == pytest.approx(held_out.perplexity)
    assert scores.num_words.tolist() == [-(-n // 2) for n in held_out.documents.lengths]
    assert scores.log_ratio(scores) == (0, 0)


def test_columns_are_aligned():
    assert aligned([("a", "b"), ("10", "long")]).splitlines() == [" a  b", "10  long"]


def test_nothing_is_compared_without_a_run(tmp_path):
    assert compare(tmp_path, (2, 4)) is None
    (tmp_path / files.SUMMARY).write_text("{")
    assert RunSummary.read(tmp_path) is None


# Stopping.


def test_ctrl_c_while_results_are_written_says_what_is_kept(swept, tmp_path, monkeypatch):
    folder = tmp_path / "copy"
    shutil.copytree(swept[0] / "topics-4", folder)
    (folder / "report.html").unlink()

    def report(run, findings, show):
        interrupt()
        return ""

    with monkeypatch.context() as patch:
        patch.setattr("fokker.models.topics.report.report", report)
        code, out, _ = command("--resume", folder)
    assert code == 130
    assert "interrupted while the results were written: the checkpoint of 380 documents is kept" in out
    assert f"To write the results: fokker lda --resume {folder}" in out
    assert not (folder / "report.html").exists()
    assert command("--resume", folder)[0] == 0
    assert (folder / "report.html").is_file()


def test_the_start_shows_its_sweeps_and_can_be_stopped(monkeypatch):
    monkeypatch.setattr(start, "_SECONDS_BETWEEN_REPORTS", 1e-3)
    documents = Documents.from_matrix(np.random.default_rng(0).integers(0, 20, (40, 50)))
    shown = []
    arguments = (documents, 50, WordPrior.symmetric(0.1, 3), DocumentPrior.of("symmetric", 3), [1, 2])
    counts = first_topics(*arguments, 2, show=lambda *progress: shown.append(progress)).by_word
    assert counts.sum() == documents.tokens
    assert {total for _, total in shown} == {360}
    numbers = [completed for completed, _ in shown]
    assert numbers == sorted(numbers)
    assert 0 <= numbers[0] < numbers[-1] <= 360
    np.testing.assert_array_equal(first_topics(*arguments).by_word, counts)

    def stop(completed, total):
        raise Stopped

    with pytest.raises(Stopped):
        first_topics(*arguments, 2, show=stop)


def test_ctrl_c_in_the_start_saves_nothing(corpus, words, tmp_path, monkeypatch):  # noqa: F811
    def first(*arguments):
        interrupt()
        show = arguments[-1]
        show(0, 360)

    monkeypatch.setattr("fokker.models.topics.chain.first_topics", first)
    code, out, _ = command(corpus, "--vocab", words, "--out", tmp_path, *OPTIONS)
    assert code == 130
    assert "interrupted before the first step" in out
    assert not (tmp_path / files.CHECKPOINT).exists()


# Mixtures, places and the map.


def test_documents_know_their_places_in_the_source():
    lines = ["a", "x", "b a", "b", "x y", "a a", "b b"]
    shuffled = open_corpus(lines, vocabulary=["a", "b"], repeat=True, shuffle_buffer=3, seed=1)
    batches = shuffled.batches(2)
    documents = Documents.concatenate([next(batches) for _ in range(5)])
    assert sorted(documents.places[:5]) == sorted(documents.places[5:]) == [0, 2, 3, 5, 6]
    assert documents.places[:5].tolist() != sorted(documents.places[:5])
    for i in range(documents.size):
        found = documents.row(i)[2].sum()
        assert found == len([w for w in lines[documents.places[i]].split() if w in "ab"])
    chosen = documents.select(documents.places > 3)
    assert set(chosen.places) == {5, 6}


def test_a_single_pass_has_mixtures_of_its_held_out_documents_too(corpus, words, tmp_path):  # noqa: F811
    ended = command(corpus, "--vocab", words, "--out", tmp_path, *OPTIONS, "--passes", 1)
    assert ended[0] in (0, 1)
    rows = table(tmp_path / "mixtures.csv.gz")
    assert [int(row["number"]) for row in rows] == [*range(7), *range(12, 195)]
    assert all(sum(float(row[f"topic {k}"]) for k in range(4)) == pytest.approx(1, abs=1e-3) for row in rows)


def topic(number, prevalence):
    unused = np.zeros(2)
    return Topic(
        number, (f"first{number}", f"second{number}"), unused, unused, unused, prevalence, *[0.0] * 4
    )


def test_the_map_has_all_topics_at_their_distances():
    generator = np.random.default_rng(3)
    points = generator.normal(size=(100, 2)) * 0.1
    distances = np.linalg.norm(points[:, None] - points, axis=-1)
    topics = [topic(k, share) for k, share in enumerate(generator.dirichlet(np.ones(100)))]
    figure = map_figure(topics, distances)
    (circles,) = figure.marks
    assert circles.text == [f"{k}: first{k} second{k}" for k in range(100)]
    placed = np.stack([circles.x, circles.y], axis=1)
    np.testing.assert_allclose(np.linalg.norm(placed[:, None] - placed, axis=-1), distances, atol=1e-9)
    np.testing.assert_allclose(
        circles.size, [t.prevalence / max(x.prevalence for x in topics) for t in topics]
    )
    assert figure.is_map
