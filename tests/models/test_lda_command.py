"""`fokker lda`: what a run writes, that it goes on to the bit after a stop, and what it says of bad input."""

import contextlib
import csv
import errno
import gzip
import html
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from chromium import skipped_headings
from fokker import cli
from fokker._core import files as core_files
from fokker.cli.lda_run import _message
from fokker.cli.lda_wording import COMMAND
from fokker.corpora import Documents
from fokker.corpora._tally import Tally
from fokker.diagnostics import Grade, Verdict
from fokker.models.named_arrays import with_prefix
from fokker.models.topics import files
from fokker.models.topics.chain import TopicChain
from fokker.models.topics.coherence import npmi, partnered
from fokker.models.topics.curve import CurvePoint, default_held_out
from fokker.models.topics.draws import credible_bounds
from fokker.models.topics.evaluate import HeldOut
from fokker.models.topics.judgement import (
    TopicWords,
    effective_sample_size,
    judge_curve,
    judge_draws,
    judge_steadiness,
    judge_topics,
    relative_decrease,
)
from fokker.models.topics.mixtures_file import MixturesFile
from fokker.models.topics.model import TopicModel, top_words
from fokker.models.topics.passes import PassPlan
from fokker.models.topics.predictions import Predictions, compare_predictions
from fokker.models.topics.reading import Reading
from fokker.models.topics.report import curve_figure, documents_used
from fokker.models.topics.results import Topic, embed_in_plane, headline, hellinger, topics_csv
from fokker.models.topics.settings import Settings, default_passes
from fokker.models.topics.starting import resume_run, start_run
from fokker.models.topics.summary import RunSummary
from fokker.models.topics.topic_tokens import TopicTokens
from fokker.models.topics.wording import FIT, number_of_documents
from marks import long_case

SUBJECTS = (
    "apple pear plum cherry grape melon",
    "violin cello flute oboe trumpet harp",
    "granite basalt marble slate quartz chalk",
    "sparrow robin eagle heron falcon swan",
)
# The topics start when there are 30 documents besides those held out: with the third minibatch.
FEW = {"topics": 4, "batch": 20, "sweeps": 6, "burn_in": 2, "threads": 2, "start_documents": 30}
OPTIONS = (
    *("--topics", 4, "--batch", 20, "--sweeps", 6, "--burn-in", 2, "--alpha", 0.1),
    *("--sampler", "scir", "--step", 0.05, "--start-documents", 60),
)


def command(*arguments):
    """Exit code, output and errors of `fokker lda …`."""
    out, err, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["fokker", "lda", *map(str, arguments)]
    try:
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            pytest.raises(SystemExit) as end,
        ):
            cli.main()
    finally:
        sys.argv = before
    return end.value.code or 0, out.getvalue(), err.getvalue()


class Watching:
    """Does something after the n-th minibatch, and keeps what is said."""

    def __init__(self, at=None, act=lambda: None):
        self.at, self.act, self.said, self.looked = at, act, [], 0

    def update(self, run):
        self.looked += 1
        if self.looked == self.at:
            self.act()

    def show(self, description, completed, total, unit):
        pass

    def notify(self, text):
        self.said.append(text)


PROGRESS = (
    "reading the corpus",
    "finding the first topics",
    "taking the first steps",
    "learning topics",
    "drawing the topics",
    "measuring the topics",
    "drawing the report",
)


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """190 lines, each of words of one subject and a few of another; and five of which nothing is known."""
    generator = np.random.default_rng(1)
    lines = []
    for _ in range(190):
        main, other = generator.permutation(4)[:2]
        words = [*generator.choice(SUBJECTS[main].split(), 12), *generator.choice(SUBJECTS[other].split(), 2)]
        lines.append(" ".join(words))
    lines[7:7] = ["nothing that is known"] * 5
    path = tmp_path_factory.mktemp("corpus") / "lines.txt"
    path.write_text("\n".join(lines) + "\n")
    (path.parent / "words.txt").write_text("\n".join(" ".join(SUBJECTS).split()) + "\n")
    return path


@pytest.fixture(scope="module")
def words(corpus):
    return corpus.parent / "words.txt"


@pytest.fixture(scope="module")
def finished(corpus, words, tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "run"
    told = command(corpus, "--vocab", words, "--passes", 12, "--out", folder, *OPTIONS)
    return folder, *told


def table(path):
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return list(csv.DictReader(io.StringIO(content.decode())))


# What a run writes.


@pytest.mark.slow
def test_a_run_finds_the_subjects_and_says_what_it_left_out(finished):
    folder, code, out, err = finished
    # A machine that is slow shows its progress.
    progress = tuple(f"{what}: " for what in PROGRESS)
    assert (code, [line for line in err.splitlines() if not line.startswith(progress)]) == (0, [])
    assert "190 documents" in out
    assert "5 documents without a known word skipped" in out
    model = TopicModel.load(folder)
    found = {
        frozenset(model.vocabulary.words[w] for w in topic) for topic in top_words(model.beta.mean(0), 6)
    }
    assert found == {frozenset(subject.split()) for subject in SUBJECTS}
    assert np.allclose(model.beta.sum(1), 1, atol=1e-5)


def test_the_bounds_are_order_statistics_of_the_draws(finished):
    folder, *_ = finished
    model, rows = TopicModel.load(folder), table(folder / "topics.csv")
    assert list(rows[0]) == ["topic", "rank", "word", "mean", "5 %", "95 %"]
    assert len(rows) == 4 * 24
    for row in rows:
        draws = model.beta[:, model.vocabulary.index[row["word"]], int(row["topic"])]
        expected = [draws.mean(), *credible_bounds(draws, 0.9)]
        assert np.allclose([float(row[name]) for name in ("mean", "5 %", "95 %")], expected, rtol=1e-4)
    for k in range(4):
        means = [float(row["mean"]) for row in rows if row["topic"] == str(k)]
        assert means == sorted(means, reverse=True)


def test_mixtures_are_of_all_documents_in_the_order_of_the_input(finished, corpus):
    folder, *_ = finished
    rows = table(folder / "mixtures.csv.gz")
    # Those of no known word are counted, and have no row.
    assert [int(row["number"]) for row in rows] == [*range(7), *range(12, 195)]
    assert rows[7]["document"] == "13"
    # The topic of most of a document is that of its first words, also of those held out.
    lines = corpus.read_text().splitlines()
    subject = {word: k for k, words in enumerate(SUBJECTS) for word in words.split()}
    of_topic = {}
    for row in rows:
        topic = max(range(4), key=lambda k: float(row[f"topic {k}"]))
        of_topic.setdefault(topic, []).append(subject[lines[int(row["number"])].split()[0]])
    assert all(max(map(found.count, found)) > 0.95 * len(found) for found in of_topic.values())
    shares = np.array([[float(row[f"topic {k}"]) for k in range(4)] for row in rows])
    assert np.allclose(shares.sum(1), 1, atol=1e-3)
    assert np.mean(shares.max(1) > 0.5) > 0.9


def test_the_prevalence_is_that_of_all_documents(finished):
    folder, *_ = finished
    with gzip.open(folder / "mixtures.csv.gz", "rt", newline="") as file:
        shares = np.array([list(row.values())[-4:] for row in csv.DictReader(file)], float).mean(0)
    lines = [line.split() for line in (folder / "topics.txt").read_text().splitlines()[:4]]
    prevalence = {int(line[1]): float(line[2].rstrip("%")) / 100 for line in lines}
    # All documents have 14 words, so that their mean is the share of words; and γ is small. The 19 documents
    # that are held out differ from it by up to 12 %.
    np.testing.assert_allclose([prevalence[k] for k in range(4)], shares, atol=0.01)


def test_words_per_topic_are_those_of_a_whole_pass():
    tokens = TopicTokens(2)
    tokens.add(np.array([0, 0]), np.array([[1.0, 2.0], [3.0, 0.0]]))
    np.testing.assert_array_equal(tokens.counts, [4, 2])
    # In the middle of the second pass those of the first count, at its end its own.
    tokens.add(np.array([0, 1]), np.array([[0.0, 2.0], [5.0, 0.0]]))
    np.testing.assert_array_equal(tokens.counts, [4, 4])
    again = TopicTokens(2)
    again.restore(tokens.state())
    again.restore({})
    again.add(np.array([1, 1]), np.ones((2, 2)))
    np.testing.assert_array_equal(again.counts, [7, 2])


def test_the_report_tells_what_the_tables_tell(finished):
    folder, _, out, _ = finished
    page = (folder / "report.html").read_text()
    for text in ("5 documents without a known word skipped", "granite", "scir", "|S| = 171", "c_v", "u_mass"):
        assert text in page
    assert not skipped_headings(page)
    # Every topic can be chosen, and the curve and the map are drawn.
    assert page.count("data-figure=") == 2
    assert page.count('data-choice="words"') == 1
    assert all(f'"title":"topic {k} (' in page for k in range(4))
    assert (folder / "vocabulary.txt").read_text().split() == " ".join(SUBJECTS).split()
    lines = (folder / "topics.txt").read_text().splitlines()
    assert sum(line.startswith("topic ") for line in lines) == 4
    # Then the grade, as in the terminal.
    grade = next(line for line in out.splitlines() if line.startswith(("No problems found", "Use with care")))
    assert lines[4:6] == ["", grade]
    curve = table(folder / "perplexity.csv")
    assert float(curve[-1]["perplexity of the average"]) < 24
    assert not list(folder.glob("*.part"))


def test_the_figure_of_the_perplexity_says_what_its_numbers_are_of(finished):
    folder, _, out, _ = finished
    page = html.unescape((folder / "report.html").read_text())
    last = table(folder / "perplexity.csv")[-1]
    average = f"{float(last['perplexity of the average']):,.0f}"
    assert f"The running average is {average} after {int(last['documents']):,} documents" in page
    assert "in the verdict, is that of the stored draws alone" in page
    point = CurvePoint(10, 0.0, 9.0, 8.0)
    assert "vertical line" not in curve_figure([point], None, None).text
    expected = (
        "vertical line at the right end shows draws made after the last document: they all have the same"
    )
    assert expected in curve_figure([point, point], None, None).text
    assert "seed words</" not in page  # an option that has no value
    # The terminal has the grade, and both say how many documents there are, and how many passes.
    assert re.search("^(No problems found|Use with care)", out, re.MULTILINE)
    assert "\n171 documents, 12 passes, in " in out
    assert f">171 documents, 12 passes, and {171 * 12 * 14:,} words in all, of " in page


def test_documents_are_counted_once_after_whole_passes_alone():
    def used(**plan):
        documents = plan.pop("documents")
        return documents_used(
            SimpleNamespace(plan=PassPlan(**plan), training=SimpleNamespace(documents=documents))
        )

    assert used(passes=2, length=300, position=600, documents=540) == "270 documents, 2 passes,"
    assert used(passes=1, length=300, position=300, documents=270) == "270 documents"
    summed = "documents, each counted in every pass,"
    for number, plan in (
        (500, {"passes": 2, "length": 300, "position": 560}),  # interrupted
        (540, {"passes": None, "length": 300, "position": 600}),
        (541, {"passes": 2, "length": 300, "position": 600}),  # where a stream was not read as before
        (100, {"passes": 2, "position": 130}),
    ):
        assert used(**plan, documents=number) == f"{number} {summed}"


@pytest.mark.parametrize(("wanted", "number"), [(500, 171), (30, 30)])
def test_the_first_topics_come_from_documents_that_are_not_held_out(corpus, words, tmp_path, wanted, number):
    run = begin(corpus, words, tmp_path, start_documents=wanted, passes=12)
    assert "190 documents, 24 words; 4 topics by scir" in _message(run)
    assert f"19 documents held out; first topics from {number} documents" in _message(run)


def test_a_finished_run_is_not_overwritten_unless_asked(finished, corpus, words):
    folder, *_ = finished
    code, _, err = command(corpus, "--vocab", words, "--out", folder, *OPTIONS)
    assert code == 2
    assert_in("already contains a run.*--overwrite", err)


def test_a_finished_run_can_be_given_more_passes(finished, tmp_path):
    folder = tmp_path / "copy"
    folder.mkdir()
    for path in finished[0].iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    code, out, _ = command("--resume", folder)
    assert code == 0
    assert "\n171 documents, 12 passes, in " in out
    code, out, _ = command("--resume", folder, "--passes", 13)
    assert code == 0
    assert "\n171 documents, 13 passes, in " in out
    assert len(table(folder / "mixtures.csv.gz")) == 190
    assert table(folder / "mixtures.csv.gz") != table(finished[0] / "mixtures.csv.gz")


# Stopping, and going on.


def begin(corpus, words, folder, sampler="scir", passes=2, **more):
    settings = Settings(**FEW | more, sampler=sampler)
    return start_run(Reading(str(corpus)), settings, folder, vocabulary=words, passes=passes)


def everything(run):
    """All that a run has found, as bytes."""
    parts = {
        **with_prefix("chain", run.training.chain.state()),
        **with_prefix("draws", run.training.draws.state()),
        **with_prefix("held out", run.training.curve.held_out.state()),
        "word counts": run.training.word_counts,
        "curve": np.array([(e.documents, e.of_draw, e.of_average) for e in run.training.curve.points]),
        "position": np.array([run.plan.position, run.training.documents, run.tokens]),
    }
    with gzip.open(run.folder / files.PARTIAL_MIXTURES) as file:
        parts["mixtures"] = np.frombuffer(file.read(), np.uint8)
    return {name: np.array(x).tobytes() for name, x in parts.items()}


@pytest.fixture
def always(monkeypatch):
    """A checkpoint after each minibatch."""
    monkeypatch.setattr("fokker.models.topics.run._MIN_SECONDS_BETWEEN_SAVES", 0.0)
    monkeypatch.setattr("fokker.models.topics.run._SAVE_TIMES_BETWEEN_SAVES", 0.0)


@pytest.fixture(scope="module")
def whole(corpus, words, tmp_path_factory):
    """What an uninterrupted run finds, by sampler."""
    found = {}

    def of(sampler):
        if sampler not in found:
            run = begin(corpus, words, tmp_path_factory.mktemp("whole"), sampler)
            run.execute(Watching())
            assert run.plan.position == 380
            assert len(run.training.draws.draws) == 20
            found[sampler] = everything(run)
        return found[sampler]

    return of


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sampler", "batches"),
    [
        ("scir", 4),
        ("scir", 13),
        long_case("lda_command::a_resumed_run_is_the_uninterrupted_one_to_the_bit", "sgrld", 12),
        ("sgrhmc", 7),
    ],
)
def test_a_resumed_run_is_the_uninterrupted_one_to_the_bit(corpus, words, tmp_path, whole, sampler, batches):
    run = begin(corpus, words, tmp_path, sampler)
    run.execute(Watching(batches, interrupt))
    assert run.interrupted
    assert run.plan.position == 20 * batches
    again = resume_run(tmp_path, {"sampler": sampler}, threads=1)
    again.execute(Watching())
    assert everything(again) == whole(sampler)


def test_a_run_that_died_goes_on_from_its_last_checkpoint(corpus, words, tmp_path, whole, always):
    class Accident(Exception):
        pass

    def happen():
        raise Accident

    run = begin(corpus, words, tmp_path)
    with pytest.raises(Accident):
        run.execute(Watching(14, happen))
    with (tmp_path / files.PARTIAL_MIXTURES).open("ab") as file:
        file.write(b"half a row")
    again = resume_run(tmp_path, {})
    assert again.plan.position == 20 * 13
    again.execute(Watching())
    assert everything(again) == whole("scir")


@pytest.fixture
def counted(monkeypatch):
    """The names of the documents that exact passes count, in their order."""
    count, names = TopicChain.count, []

    def remembered(self, documents):
        names.extend(documents.names)
        return count(self, documents)

    monkeypatch.setattr(TopicChain, "count", remembered)
    return names


@pytest.mark.slow
def test_a_pass_that_became_exact_in_its_middle_is_not_counted(corpus, words, tmp_path, counted):
    begin(corpus, words, tmp_path, passes=6).execute(Watching(12, interrupt))
    # The second pass, of the documents from 190 to 379, would be exact in a run of two passes from the start.
    run = resume_run(tmp_path, {}, passes=2)
    assert run.plan.position == 240
    run.execute(Watching(2, interrupt))
    run = resume_run(tmp_path, {})
    run.execute(Watching())
    assert run.plan.position == 380
    assert run.training.draws.num_exact_passes == 0
    assert not counted
    # The third one is exact as a whole.
    run = resume_run(tmp_path, {}, passes=3)
    run.execute(Watching())
    assert run.training.draws.num_exact_passes == 1
    assert len(set(counted)) == len(counted) == 171


def test_the_first_pass_of_unknown_length_is_not_exact(corpus, words, tmp_path, counted, monkeypatch):
    monkeypatch.setattr("fokker.models.topics.reading._MAX_BYTES_TO_COUNT", 100)
    reading, settings = Reading(str(corpus), held_out=19), Settings(**FEW, sampler="scir", exact_passes=2)
    run = start_run(reading, settings, tmp_path, vocabulary=words, passes=2)
    assert run.plan.length is None
    run.execute(Watching())
    assert len(set(counted)) == len(counted) == 171


def damage(path):
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def test_a_damaged_checkpoint_is_told_and_the_one_before_it_used(corpus, words, tmp_path, whole):
    run = begin(corpus, words, tmp_path)
    run.execute(Watching(5, interrupt))
    run = resume_run(tmp_path, {})
    run.execute(Watching(3, interrupt))
    damage(tmp_path / files.CHECKPOINT)
    said = []
    again = resume_run(tmp_path, {}, notify=said.append)
    assert "is damaged" in said[0]
    assert "The previous one is used, of 100 documents" in said[0]
    again.execute(Watching())
    assert everything(again) == whole("scir")
    damage(tmp_path / files.CHECKPOINT)
    damage(tmp_path / files.PREVIOUS)
    code, _, err = command("--resume", tmp_path)
    assert code == 2
    assert_in("no checkpoint in .* can be read", err)


def test_ctrl_c_saves_and_says_how_to_go_on(corpus, words, tmp_path, monkeypatch):
    step, steps = TopicChain.step, []

    def interrupted_step(self, documents, total):
        steps.append(total)
        if len(steps) == 6:
            interrupt()
        return step(self, documents, total)

    monkeypatch.setattr(TopicChain, "step", interrupted_step)
    code, out, _ = command(corpus, "--vocab", words, "--out", tmp_path, "--forever", *OPTIONS)
    assert code == 130
    assert f"to continue: fokker lda --resume {tmp_path}" in out
    assert len(steps) == 6
    page = html.unescape((tmp_path / "report.html").read_text())
    # Not more passes than were asked for: those that are left.
    assert f"bounds of the posterior come last. Continue the run: fokker lda --resume {tmp_path}" in out
    assert "Continue the run" in page
    assert "--passes 2 or more" not in out + page
    assert not (tmp_path / "mixtures.csv.gz").exists()
    code, out, _ = command("--resume", tmp_path, "--passes", 1)
    assert code in (0, 1)
    assert "continuing after 120 documents" in out
    assert set(steps) == {171}


@pytest.fixture
def standard_input(monkeypatch):
    """Makes a file, or a descriptor, standard input."""
    with contextlib.ExitStack() as stack:

        def become(file):
            monkeypatch.setattr(sys, "stdin", stack.enter_context(open(file)))

        yield become


def test_a_stream_that_waits_can_be_stopped(words, tmp_path, standard_input, monkeypatch):
    step, steps = TopicChain.step, []

    def last_step(self, documents, total):
        steps.append(total)
        if len(steps) == 5:  # there are no more documents, and no end of them
            threading.Timer(0.3, interrupt).start()
        return step(self, documents, total)

    monkeypatch.setattr(TopicChain, "step", last_step)
    reader, writer = os.pipe()
    standard_input(reader)
    for _ in range(3):
        os.write(writer, "".join(f"{subject}\n" for subject in SUBJECTS * 10).encode())
    code, out, _ = command("-", "--vocab", words, "--held-out", 20, "--out", tmp_path, *OPTIONS)
    os.close(writer)
    assert code == 130
    assert "100 documents in" in out


@pytest.mark.slow
def test_a_short_corpus_starts_after_its_first_pass(corpus, words, tmp_path, monkeypatch):
    start, sizes = TopicChain.start_from, []

    def remembered(self, documents, show):
        sizes.append((documents.size, documents.tokens))
        start(self, documents, show)

    monkeypatch.setattr(TopicChain, "start_from", remembered)
    # Fewer documents than wanted: all of the first pass, in which two minibatches of 95 end.
    settings = Settings(**FEW | {"start_documents": 500, "batch": 95}, sampler="scir")
    run = start_run(Reading(str(corpus)), settings, tmp_path / "all", vocabulary=words, passes=3)
    run.execute(Watching())
    assert sizes == [(171, 171 * 14)]
    assert run.training.sample.size == 171
    again = resume_run(tmp_path / "all", {})
    np.testing.assert_array_equal(again.training.sample.words, run.training.sample.words)
    # A single pass, whose documents all wait for its end, may be exact.
    alone = {**FEW, "start_documents": 500, "exact_passes": 1, "topics": 3}
    run = start_run(Reading(str(corpus)), Settings(**alone), tmp_path / "exact", vocabulary=words, passes=1)
    run.execute(Watching())
    assert run.training.draws.num_exact_passes == 1
    sizes.clear()
    begin(corpus, words, tmp_path / "random", passes=1, start_documents=0).execute(Watching())
    assert not sizes


def test_held_out_documents_are_never_learned_from_and_the_schedule_is_by_steps(
    corpus, words, tmp_path, monkeypatch
):
    step, count, seen = TopicChain.step, TopicChain.count, []

    def remembered(self, documents, total=None):
        seen.extend(documents.names)
        return count(self, documents) if total is None else step(self, documents, total)

    monkeypatch.setattr(TopicChain, "step", remembered)
    monkeypatch.setattr(TopicChain, "count", remembered)
    run = begin(corpus, words, tmp_path, passes=3)
    run.execute(Watching())
    held_out = set(run.training.curve.held_out.documents.names)
    assert len(held_out) == 19
    assert held_out.isdisjoint(seen)
    assert {seen.count(name) for name in seen} == {3}
    # 5 · 19 documents apart, and at 1, 2, 4 steps.
    at = [e.documents for e in run.training.curve.points]
    assert at[:4] == [1, 21, 61, 81]
    # Two passes of 19 minibatches in all; each of the 20 draws of the exact pass is evaluated.
    assert len(at) == 3 + 19 // 5 + 20
    assert at[-1] == 3 * 171


# |S|.


@pytest.mark.slow
def test_the_size_of_the_corpus_is_given_counted_or_grows(corpus, words, tmp_path, monkeypatch):
    totals = []
    step = TopicChain.step

    def remembered(self, documents, total):
        totals.append(total)
        return step(self, documents, total)

    monkeypatch.setattr(TopicChain, "step", remembered)
    begin(corpus, words, tmp_path / "given", passes=1, total=1000).execute(Watching())
    assert set(totals) == {1000}
    totals.clear()
    begin(corpus, words, tmp_path / "counted", passes=1).execute(Watching())
    assert set(totals) == {171}
    totals.clear()
    begin(corpus, words, tmp_path / "growing", total="growing").execute(Watching())
    assert totals[:3] == [1, 21, 41]
    assert max(totals) == 171
    assert totals[-1] == 171
    # A corpus too large to be counted: its length is known when it comes again.
    monkeypatch.setattr("fokker.models.topics.reading._MAX_BYTES_TO_COUNT", 100)
    totals.clear()
    reading, settings = Reading(str(corpus), held_out=19), Settings(**FEW, sampler="scir")
    run = start_run(reading, settings, tmp_path / "long", vocabulary=words, passes=2)
    assert run.plan.length is None
    run.execute(Watching())
    assert run.plan.length == 190
    assert run.plan.position == 380
    assert totals[:3] == [1, 21, 41]
    assert totals[-1] == 171
    assert len(table(tmp_path / "long" / files.PARTIAL_MIXTURES)) == 190


def test_standard_input_grows_and_goes_on(corpus, words, tmp_path, standard_input):
    standard_input(corpus)
    code, out, _ = command("-", "--vocab", words, "--out", tmp_path, *OPTIONS)
    assert code in (0, 1)
    assert "|S| growing with the documents read, 100 documents held out" in out
    assert "90 documents in" in out
    standard_input(corpus)
    assert "90 documents in" in command("--resume", tmp_path)[1]  # nothing new
    standard_input(corpus)
    # All come again, and the hundred that are held out stay so.
    assert "180 documents in" in command("--resume", tmp_path, "--no-skip")[1]


# Disks that are full, steps that are too long.


@pytest.fixture
def disk(monkeypatch):
    """Set `full` and nothing more can be written."""

    class Disk:
        full = False

    fsync = os.fsync

    def limited(descriptor):
        if Disk.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(descriptor)

    monkeypatch.setattr(core_files.os, "fsync", limited)
    return Disk


def test_a_full_disk_is_told_and_the_run_goes_on(corpus, words, tmp_path, whole, disk, always):
    run = begin(corpus, words, tmp_path)

    class Filling(Watching):
        def update(self, run):
            super().update(run)
            disk.full = 5 <= self.looked < 9

    watcher = Filling()
    run.execute(watcher)
    assert len(watcher.said) == 4
    assert "No space left on device" in watcher.said[0]
    expected = "The last complete checkpoint, of 80 documents, is kept. Writing will be tried again."
    assert expected in watcher.said[0]
    assert everything(run) == whole("scir")
    assert run.saved_at == 380


@pytest.mark.slow
def test_a_disk_that_stays_full_is_an_error_and_loses_nothing(finished, tmp_path, disk):
    folder = tmp_path / "copy"
    folder.mkdir()
    for path in finished[0].iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    del before[files.PARTIAL_MIXTURES]
    disk.full = True
    code, out, err = command("--resume", folder, "--passes", 13)
    assert code == 2
    assert "Writing will be tried again" in out
    assert_in("topics.csv, .*checkpoint.npz could not be written", err)
    assert_in(
        f"The checkpoint there is of {190 * 12:,} documents: free some space, then: fokker lda --resume", err
    )
    assert before == {name: (folder / name).read_bytes() for name in before}
    disk.full = False
    assert command("--resume", folder, "--passes", 13)[0] == 0


def test_a_corpus_that_breaks_off_keeps_what_was_learned(words, tmp_path, monkeypatch):
    monkeypatch.setattr("fokker.models.topics.reading._MAX_BYTES_TO_COUNT", 0)
    broken = tmp_path / "broken.dat"
    broken.write_text("3 0:2 1:2 2:1\n" * 90 + "3 0:1\n")
    reading, settings = Reading(str(broken), held_out=10, shuffle_buffer=0), Settings(**FEW, sampler="scir")
    run = start_run(reading, settings, tmp_path / "run", vocabulary=words)
    watcher = Watching()
    with pytest.raises(ValueError, match="91"):
        run.execute(watcher)
    assert watcher.said == ["The last complete checkpoint, of 80 documents, is kept."]
    assert resume_run(tmp_path / "run", {}).plan.position == 80


def test_a_step_that_is_too_long_is_named_and_nothing_broken_is_saved(corpus, words, tmp_path):
    options = [x if x != "scir" else "sgrld" for x in OPTIONS]
    code, _, err = command(corpus, "--vocab", words, "--out", tmp_path, *options, "--step", 1e30)
    assert code == 2
    assert_in("θ is not finite", err)
    assert_in(r"step size 1e\+30: use a smaller", err)
    assert_in(r"Start again with --step 1e\+29\. There is no checkpoint yet.", err)
    assert not (tmp_path / files.CHECKPOINT).exists()


# Bad input.


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sampler", "sgrdl"], "--sampler is one of .*Did you mean 'sgrld'"),
        (["--topics", 25], "--topics 25 is more than the 24 words of the vocabulary"),
        (["--topics", 0], "--topics must be a whole number of at least 1; 0"),
        (["--burn-in", 6], "--burn-in is 6 of 6 sweeps"),
        (["--alpha", -1], "--alpha must be a positive number; -1"),
        (["--step", "nan"], "--step must be a positive number; nan"),
        (["--total", "many"], "--total is a number of documents, or 'growing'; 'many'"),
        (["--passes", 0], "--passes must be at least 1; 0"),
        (["--passes", 2, "--forever"], "--passes and --forever contradict"),
        (["--no-skip"], "--no-skip is for --resume FOLDER, which is not given"),
        (["--sampler", "scir", "--friction", 2], "--friction 2.0 is of sghmc and sgrhmc, and --sampler scir"),
        (["--seed-weight", 5], "--seed-weight 5.0 is of --seed-words …, which are not given: leave it out"),
        (["--vocab-size", 5], "give one of them"),
        (["--held-out", 0], "--held-out must be a whole number of at least 1; 0"),
        (["--held-out", 190], "all 190 documents .* are held out"),
        (["--resume", "nowhere"], "cannot be used with --resume"),
    ],
)
def test_bad_options_are_named(corpus, words, tmp_path, arguments, message):
    code, _, err = command(corpus, "--vocab", words, "--out", tmp_path / "a" / "b", *OPTIONS, *arguments)
    assert code == 2
    assert_in(message, err)
    # The documents are counted by a run, which shows how far it is.
    assert not (tmp_path / "a").exists() or "are held out" in message


def test_several_numbers_of_topics_that_fail_leave_no_folder_of_the_one_that_does(corpus, words, tmp_path):
    options = ["--vocab", words, "--out", tmp_path, *OPTIONS]
    assert command(corpus, *options, "--topics", "2,25")[0] == 2
    assert [path.name for path in sorted(tmp_path.iterdir()) if path.is_dir()] == ["topics-2"]
    # Where the first one fails, there is nothing to continue.
    nowhere = [tmp_path / "nowhere.txt", "--out", tmp_path / "new" / "sweep", "--topics", "2,3"]
    code, _, err = command(*nowhere)
    assert code == 2
    assert "there is no file or folder" in err
    assert not (tmp_path / "new").exists()


def test_the_number_of_documents_is_singular_or_plural():
    assert number_of_documents(1, "held-out") == "1 held-out document"
    assert number_of_documents(2000) == "2,000 documents"


def test_exact_passes_of_a_run_without_end_are_refused(corpus, words, tmp_path):
    reading, settings = Reading(str(corpus)), Settings(topics=4, exact_passes=2)
    with pytest.raises(
        ValueError, match="exact_passes=2 are the last passes, and a run without end has none"
    ):
        start_run(reading, settings, tmp_path, vocabulary=words, passes=None)


def assert_in(pattern, text):
    assert re.search(pattern, " ".join(text.split())), text


@pytest.mark.parametrize(
    ("text", "vocabulary", "message"),
    [
        ("", "apple\npear\n", "has no document of at least 1 known word. It is empty."),
        ("stones\nbirds\n", "apple\npear\n", "2 documents without a known word skipped"),
        ("apple pear\n" * 30, "apple\npear\napple\n", "has 'apple' twice, in lines 1 and 3"),
    ],
)
def test_a_corpus_of_nothing_and_a_vocabulary_with_repeats(tmp_path, text, vocabulary, message):
    (tmp_path / "text.txt").write_text(text)
    (tmp_path / "words").write_text(vocabulary)
    options = ["--vocab", tmp_path / "words", "--out", tmp_path / "out", "--topics", 2]
    code, _, err = command(tmp_path / "text.txt", *options)
    assert code == 2
    assert_in(message, err)


def test_a_resume_of_nothing_or_of_something_else_is_refused(finished, tmp_path):
    folder, *_ = finished
    code, _, err = command("--resume", tmp_path)
    assert code == 2
    assert_in("has no checkpoint: there is nothing to resume", err)
    assert_in("there is no folder .*none", command("--resume", tmp_path / "none")[2])
    code, _, err = command("--resume", folder, "--topics", 5, "--step", 0.05, "--seed", 3)
    assert code == 2
    assert_in("started with other settings: topics was 4, not 5; seed was 0, not 3", err)
    assert_in("corpus was .*lines.txt', not '.*other'", command("other", "--resume", folder)[2])
    assert_in("--overwrite replaces a run and --resume", command("--resume", folder, "--overwrite")[2])


# Models, applied to new text.


@pytest.fixture
def letters(tmp_path):
    path = tmp_path / "letters.txt"
    path.write_text(
        "Violin and cello, oboe, harp: and a flute!\nno word of it\nGranite, slate, quartz, chalk.\n"
    )
    return path


def test_infer_names_the_topics_of_new_text(finished, letters, standard_input):
    code, out, err = command("infer", finished[0], letters)
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "1 (5 known words)"
    assert set(lines[1].partition(": ")[2].split()) == set(SUBJECTS[1].split())
    assert float(lines[1].split("%")[0]) > 80
    assert set(lines[lines.index("3 (4 known words)") + 1].partition(": ")[2].split()) == set(
        SUBJECTS[2].split()
    )
    assert_in("1 document without a known word skipped", err)
    standard_input(letters)
    assert command("infer", finished[0] / "model.npz", "-")[1] == out


@pytest.mark.parametrize("name", ["found.csv", "found.csv.gz", "found.npz"])
def test_infer_writes_all_proportions(finished, letters, tmp_path, name):
    code, out, _ = command("infer", finished[0], letters, letters, "--out", tmp_path / name)
    assert code == 0
    assert f"wrote {tmp_path / name}" in out
    if name.endswith(".npz"):
        with np.load(tmp_path / name) as stored:
            names, shares = stored["documents"].tolist(), stored["mixtures"]
    else:
        rows = table(tmp_path / name)
        names = [row["document"] for row in rows]
        shares = np.array([[float(row[f"topic {k}"]) for k in range(4)] for row in rows])
    assert names == ["1", "3", "1", "3"]
    assert np.allclose(shares.sum(1), 1, atol=1e-3)
    assert np.array_equal(shares[:2], shares[2:])
    assert shares[0].argmax() != shares[1].argmax()


def test_infer_refuses_what_it_cannot_use(finished, letters, tmp_path):
    folder, *_ = finished
    (tmp_path / "strange.txt").write_text("nothing here\n")
    code, _, err = command("infer", folder, tmp_path / "strange.txt")
    assert code == 2
    assert_in("no document of at least 1 known word.*1 document without a known word", err)
    no_run = "there is no file or folder .*model.npz: give the folder of a run of topics, or its model.npz"
    assert_in(no_run, command("infer", tmp_path / "model.npz", letters)[2])
    assert_in("is damaged, or not a model", command("infer", letters, letters)[2])
    np.savez(tmp_path / "arrays.npz", beta=np.ones(3))
    assert_in("is damaged, or not a model", command("infer", tmp_path / "arrays.npz", letters)[2])
    assert_in("is a checkpoint; a model", command("infer", folder / files.CHECKPOINT, letters)[2])
    with np.load(folder / "model.npz") as stored:
        arrays = dict(stored)
    header = json.loads(bytes(arrays.pop("header"))) | {"version": 99}
    core_files.write_arrays(tmp_path / "later.npz", header, arrays)
    assert_in("is a model of version 99", command("infer", tmp_path / "later.npz", letters)[2])
    assert_in(r"ends in .csv, .csv.gz or .npz", command("infer", folder, letters, "--out", "x.txt")[2])
    assert_in("--format and --key are of TEXT…", command("infer", folder, "--key", "body")[2])


# The parts.


def test_one_word_and_one_document_are_in_the_singular():
    with pytest.raises(ValueError, match="topics=2 is more than the 1 word of the vocabulary"):
        TopicChain.of(Settings(topics=2), 1)
    assert Tally(documents=1, empty=2).sentence().startswith("1 document read; 2 empty")


def test_a_misspelt_command_is_no_corpus(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for wrong, right in (("infr", "infer"), ("trend", "trends"), ("exports", "export")):
        code, _, err = command(wrong, "run", "letters.txt")
        assert code == 2
        assert_in(f"no command and no corpus '{wrong}': did you mean fokker lda {right}?", err)
    (tmp_path / "trend").write_text("a corpus of this name\n")
    assert "did you mean" not in command("trend", "--topics", 0)[2]


def test_help_shows_both_uses_and_imports_nothing_heavy(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    code, out, _ = command("--help")
    assert code == 0
    assert "Gibbs sweeps over a document. Default: 50." in out
    assert "[default: (" not in out
    assert "its number, from 1" in out
    for text in ("infer", "--topics", "--resume", "CORPUS"):
        assert text in out
    assert "TEXT…" in command("infer", "--help")[1]
    program = (
        "import sys; sys.argv = ['fokker', '--help']\n"
        "from fokker.cli import main\n"
        "try: main()\n"
        "except SystemExit: print([x for x in ('jax', 'numba', 'matplotlib') if x in sys.modules])"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout
    assert "lda" in printed
    assert printed.splitlines()[-1] == "[]"


def test_settings_are_checked_and_go_through_json():
    settings = Settings(topics=7, sampler="sgrhmc", total="growing", step=0.5)
    assert Settings.from_json(json.loads(json.dumps(settings.to_json()))) == settings
    with pytest.raises(ValueError, match="there is no setting 'colour'"):
        Settings.from_json({"colour": 1})
    for name, value in [
        ("topics", 2.5), ("batch", True), ("gamma", 0), ("friction", float("inf")), ("decay_power", -1),
        ("threads", 0), ("seed", -1), ("total", "some"), ("total", 0), ("start", "x"), ("decay_after", None),
        ("start_documents", -1),
    ]:  # fmt: skip
        if value is not None:
            with pytest.raises(ValueError, match=name):
                Settings(**{name: value})


def curve_of(perplexities, num_exact=0):
    first_exact = len(perplexities) - num_exact
    return [CurvePoint(i + 1, 0.0, x, x, i >= first_exact) for i, x in enumerate(perplexities)]


def verdict(perplexity, unigram, curve, draws, effective_draws):
    late = [e.of_draw for e in curve if 4 * e.documents > 3 * curve[-1].documents]
    parts = (
        compare_predictions(Predictions(perplexity, unigram, 0.01), "19 held-out documents", late, COMMAND),
        judge_curve(curve, COMMAND),
        judge_draws(draws, draws, effective_draws, COMMAND),
    )
    return tuple(x for p in parts for x in p.problems), tuple(x for p in parts for x in p.notes)


def test_the_verdict_is_honest():
    falling, flat = curve_of(np.geomspace(2000, 1000, 40)), curve_of([1000 + 10 * (i % 3) for i in range(40)])
    assert relative_decrease(falling) == pytest.approx(np.log(2) / 39 * 10, rel=1e-6)
    assert relative_decrease(flat) == 0
    no_fall = "In the second half of the run the perplexity did not fall by more than its noise."
    assert judge_curve(flat, COMMAND).notes == (no_fall,)
    slow = curve_of(np.geomspace(1000, 990, 40))
    expected = "The perplexity fell by only 0.26 % from the third to the last quarter of the run."
    assert judge_curve(slow, COMMAND).notes == (expected,)
    many = np.full(4, 15.0)
    # Few looks, all on one line: the line is no noise.
    assert relative_decrease(curve_of([4000, 3500, 3000, 2500, 2450, 2400, 2350, 2300])) > 0
    # Too few to say, however they fall: the second half has three of six.
    for curve in ([], falling[:1], curve_of([4000, 3500, 3000, 2500, 2450, 2400]), flat[:6]):
        assert np.isnan(relative_decrease(curve))
        assert "too few to say whether it still falls" in verdict(1000, 1500, curve, 20, many)[0][0]
    assert "still falling" in verdict(1000, 1500, falling, 20, many)[0][0]
    # Draws of exact passes are not compared with those before: the drop between them is no sign of either.
    steps = [2000, *[1000 + i % 2 for i in range(9)]]
    assert relative_decrease(curve_of([*steps, *[800 + i % 2 for i in range(5)]], num_exact=5)) == 0
    assert relative_decrease(curve_of([*steps, *np.geomspace(800, 700, 8)], num_exact=8)) > 0.02
    # Draws of one exact pass come after the same documents, one after the other.
    of_pass = [e._replace(documents=10_000) for e in curve_of(np.geomspace(900, 800, 20), num_exact=20)]
    assert relative_decrease(of_pass) > 0.02
    assert relative_decrease([e._replace(of_draw=800 + i % 3) for i, e in enumerate(of_pass)]) == 0
    # Three exact evaluations are too few: those before count, and the words say so.
    few = curve_of([*steps, 800, 700, 600], num_exact=3)
    assert relative_decrease(few) == 0
    assert (
        "of the passes before the exact ones the perplexity did not"
        in verdict(500, 1500, few, 20, many)[1][1]
    )
    assert relative_decrease(curve_of([*np.geomspace(2000, 1000, 10), 900, 900, 900], num_exact=3)) > 0.02
    assert np.isnan(relative_decrease(curve_of([1000, 1000, 1000, 900, 900, 900], num_exact=3)))
    problems, notes = verdict(1000, 1500, curve_of(np.geomspace(1050, 1000, 40)), 20, many)
    assert not problems
    assert "still falling" in " ".join(notes)
    problems, notes = verdict(1000, 1500, flat, 20, many)
    assert not problems
    assert "did not fall by more than its noise" in " ".join(notes)
    assert "explain nothing" in verdict(1500, 1500, flat, 20, many)[0][0]
    assert "explain nothing" in verdict(float("inf"), 1500, flat, 20, many)[0][0]
    assert "too few for credible bounds" in verdict(1000, 1500, flat, 3, many)[0][0]
    assert "worth 2.0 independent ones" in verdict(1000, 1500, flat, 20, np.full(4, 2.0))[0][0]
    assert "Single draws do worse" in " ".join(verdict(500, 900, flat, 20, many)[1])


def test_topics_within_the_noise_of_the_documents_are_no_better():
    def judged(*predictions):
        verdict = compare_predictions(Predictions(*predictions), "17 held-out documents", [], COMMAND)
        assert verdict.ok is Predictions(*predictions).is_better
        return verdict

    verdict = judged(9.9725, 9.9830, 0.0014)
    assert verdict.grade is Grade.BAD
    assert verdict.problems[0].startswith(
        "The perplexity of 17 held-out documents is 9.97; with word frequencies alone it is 9.98. The "
        "difference, 0.1 % ± 0.1 %, is within the noise of so few documents: these topics are not clearly "
        "better than the word frequencies."
    )
    assert judged(9.9725, 9.9830, 0.0004).notes == (
        "The perplexity of 17 held-out documents is 9.97; with word frequencies alone it is 9.98.",
    )
    # Two errors are needed; of one document there is none.
    assert not judged(100, 100 * np.exp(0.19), 0.1).ok
    assert judged(100, 100 * np.exp(0.21), 0.1).ok
    assert judged(9, 10, float("nan")).ok
    assert "is 10; that is not below the 10 of" in judged(10, 10, 0.0).problems[0]


def test_the_error_of_the_difference_is_over_the_documents():
    """Of documents that differ by far more than two models do."""
    generator = np.random.default_rng(0)
    rows = generator.poisson(np.repeat([[0.2] * 40 + [3] * 10, [3] * 10 + [0.2] * 40], 30, axis=0))
    held_out = HeldOut(Documents.from_matrix(rows))
    counts = rows.sum(0)
    # One topic that is those frequencies.
    held_out.add(((counts + 0.5) / (counts + 0.5).sum())[:, None].astype(np.float64), np.ones(1))
    found = Predictions.of(held_out, counts)
    assert found.perplexity == pytest.approx(found.unigram, rel=1e-6)
    assert found.error < 1e-6


@pytest.mark.filterwarnings("always:12 of 24 words")
def test_texts_without_subjects_have_exit_code_1_and_lost_words_are_named(tmp_path):
    """By chance the perplexity is a little lower than that of the word frequencies."""
    generator = np.random.default_rng(0)
    often, seldom = (" ".join(SUBJECTS[i : i + 2]).split() for i in (0, 2))
    lines = [
        " ".join([*generator.choice(often, 14), *generator.choice(seldom, 6 * (i % 3 > 0))])
        for i in range(300)
    ]
    (tmp_path / "lines.txt").write_text("\n".join(lines) + "\n")
    code, out, err = command(tmp_path / "lines.txt", "--topics", 3, "--out", tmp_path / "run")
    assert_in(
        r"12 of 24 words are left out, as they are in more than 150 of the 300 documents \(--max-df 0\.5\); "
        r"100 of 300 documents have no other words. To keep them, give a larger --max-df\.",
        err,
    )
    summary = RunSummary.read(tmp_path / "run")
    assert summary.perplexity < summary.unigram_perplexity
    assert_in("Do not use.*is within the noise of so few documents", out)
    assert (code, summary.is_useful) == (1, False)


def test_topics_that_change_during_the_draws_are_named():
    steady = np.full(20, 10)
    steady[[3, 17]] = 2, 5
    sentence = (
        "2 of 20 topics changed during the draws (fewer than 6 of their ten words are the same in both "
        "halves): 3, 17"
    )
    problems, notes = parts(judge_steadiness(steady, COMMAND))
    assert (problems, notes) == ((), (f"{sentence}.",))
    findings = SimpleNamespace(topics=[SimpleNamespace(steady_words=x) for x in steady], verdict=Verdict())
    assert headline(findings) == f"No problems found, except that {sentence}."
    # More than a tenth is a problem; six of ten words are the same topic.
    steady[5] = 0
    assert "3 of 20 topics changed" in judge_steadiness(steady, COMMAND).problems[0]
    assert judge_steadiness(np.full(20, 6), COMMAND) == Verdict()
    findings = SimpleNamespace(topics=[SimpleNamespace(steady_words=9)], verdict=Verdict())
    assert headline(findings) == "No problems found."
    findings.verdict = Verdict.of_problem("x")
    assert headline(findings) == "Use with care:"


def topics_of(*words_and_coherence, partnered=0.0):
    return [
        TopicWords(k, tuple(words), coherence, partnered)
        for k, (words, coherence) in enumerate(words_and_coherence)
    ]


def test_topics_without_a_subject_and_repeated_ones_count():
    good = [([f"{word}{k}" for word in "abcdefghij"], 0.2) for k in range(20)]
    problems, notes = parts(judge_topics(topics_of(*good), COMMAND))
    assert (problems, len(notes)) == ((), 1)
    assert "no two share" in notes[0]
    one_bad = [(good[0][0], -0.1), *good[1:]]
    assert "1 of 20 topics has words that occur" in judge_topics(topics_of(*one_bad), COMMAND).notes[0]
    twins = [*good[:19], (good[0][0], 0.2)]
    sentence = "1 of 20 topics shares 6 or more of its ten words"
    assert sentence in judge_topics(topics_of(*twins), COMMAND).notes[0]
    # A tenth of the topics is a note, more is a problem.
    bad = [(words, -0.1) for words, _ in good[:2]] + good[2:]
    problems, notes = parts(judge_topics(topics_of(*bad), COMMAND))
    assert not problems
    assert "2 of 20 topics have words that occur together less often than by chance" in notes[0]
    bad[7] = (good[7][0], -0.9)
    # Words of no subject have several reasons; words of several subjects want more topics.
    (problem,) = judge_topics(topics_of(*bad), COMMAND).problems
    assert (
        ": 0, 1, 7. Run longer, with more --passes or documents. If that does not help, use fewer" in problem
    )
    (problem,) = judge_topics(topics_of(*bad, partnered=0.6), FIT).problems
    assert problem.startswith("3 of 20 topics mix several subjects")
    assert problem.endswith(": 0, 1, 7. Use more topics (n_components).")
    # Six of ten words in common are too many, five are not.
    for shared, count in ((6, 3), (5, 0)):
        repeats = [([*good[1][0][:shared], *(f"{k}{i}" for i in range(10 - shared))], 0.2) for k in range(3)]
        problems = judge_topics(topics_of(*good[:17], *repeats), COMMAND).problems
        assert [x[:2] for x in problems] == ([f"{count} "] if count else [])
        assert all("Use fewer topics (--topics), or more documents." in x for x in problems)


def test_more_and_fewer_topics_are_not_advised_at_once():
    good = [([f"{word}{k}" for word in "abcdefghij"], 0.2) for k in range(14)]
    mixed = [([f"{word}{k}" for word in "klmnopqrst"], -0.1) for k in range(3)]
    none = [([f"{word}{k}" for word in "ABCDEFGHIJ"], -0.1) for k in range(3)]
    topics = [topic._replace(partnered=0.8 * (14 <= topic.number < 17)) for topic in
              topics_of(*good, *mixed, *none)]  # fmt: skip
    for extra in ([], topics_of(*good[:3])):
        repeats = [topic._replace(number=20 + topic.number) for topic in extra]
        text = " ".join(judge_topics([*topics, *repeats], COMMAND).problems)
        assert "mix several subjects" in text
        assert not ("more topics" in text and "fewer topics" in text)
        assert ("more topics" in text) is not bool(extra)


def test_words_of_several_subjects_and_of_none_differ():
    # Each of 300 documents has the five words of one subject out of ten, and each document five random words.
    generator = np.random.default_rng(0)
    subjects = generator.integers(10, size=300)
    words = np.concatenate([subjects[:, None] * 5 + np.arange(5), generator.integers(50, 100, (300, 5))], 1)
    counts = np.zeros((300, 100), int)
    np.add.at(counts, (np.arange(300)[:, None], words), 1)
    documents = Documents.from_matrix(counts)
    mixed, random = np.arange(10) // 2 * 5 + np.arange(10) % 2, np.arange(50, 60)
    top = np.stack([mixed, random])
    assert np.all(npmi(documents, top) < 0)
    assert partnered(documents, top).tolist() == [1.0, 0.0]


def parts(verdict: Verdict):
    return verdict.problems, verdict.notes


def test_small_corpora_are_read_twice_and_every_default_run_has_enough_evaluations():
    assert [default_passes(n) for n in (None, 1, 2_246, 19_999, 20_000, 10**6)] == [1, 2, 2, 2, 1, 1]
    for length in (20, 200, 863, 2_246, 6_500, 9_999, 26_000, 99_999, 10**6):
        passes = default_passes(length)
        held_out = default_held_out(length, passes)
        assert 1 <= held_out <= min(1_000, length // 10)
        # Each stored draw of an exact pass is evaluated. In a single pass there are five times as many
        # training documents as are held out between two evaluations.
        if not Settings().num_exact_passes(passes):
            assert (length - held_out) // (5 * held_out) >= 16
    assert default_held_out(2_246, None) == 224
    assert default_held_out(None, 1) == 1_000


def test_exact_passes_are_marked_in_the_curve(finished):
    # 12 passes: the last six are exact, and their evaluations survive the checkpoint as such. The last four
    # have the 20 draws and a few more of six each, and the two before are evaluated once at their ends.
    run = resume_run(finished[0], {})
    num_exact = sum(e.is_exact for e in run.training.curve.points)
    assert num_exact == 2 + 4 * 6
    assert all(e.is_exact for e in run.training.curve.points[-num_exact:])
    assert run.training.draws.num_exact_passes == 4


def test_effective_draws_are_fewer_where_draws_hang_together():
    noise = np.random.default_rng(0).normal(size=20)
    assert 10 < effective_sample_size(noise) <= 20
    assert effective_sample_size(np.cumsum(noise)) < 8
    assert np.isnan(effective_sample_size(noise[:3]))
    assert np.isnan(effective_sample_size(np.ones(20)))


def test_distances_and_their_plane():
    beta = np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    assert np.allclose(hellinger(beta), [[0, 0, 1], [0, 0, 1], [1, 1, 0]])
    points = np.random.default_rng(0).normal(size=(7, 2))
    distances = np.linalg.norm(points[:, None] - points, axis=2)
    found = embed_in_plane(distances)
    assert np.allclose(np.linalg.norm(found[:, None] - found, axis=2), distances)
    assert embed_in_plane(np.zeros((1, 1))).tolist() == [[0, 0]]


def test_words_with_commas_are_quoted():
    topic = Topic(0, ('a,"b',), *(np.array([x]) for x in (0.5, 0.4, 0.6)), 1.0, 0.0, 0.5, -1.0, 1.0)
    assert next(csv.DictReader(io.StringIO(topics_csv([topic]))))["word"] == 'a,"b'


def test_the_table_of_mixtures_is_cut_back_and_bears_a_full_disk(tmp_path, disk, monkeypatch):
    path, half = tmp_path / "mixtures.csv.gz", np.array([[0.5, 0.5]])

    def document(place, name):
        return Documents.from_rows([(name, np.zeros(1, np.int32), np.ones(1, np.int32))], [place])

    written = MixturesFile(path, ("0", "1"))
    written.add(document(0, "a,b"), half)
    size, digest = written.flush(), written.digest
    written.add(document(1, "c"), half)
    assert written.flush() > size
    with pytest.raises(ValueError, match=f"{path} is not the file that belongs to the checkpoint"):
        MixturesFile(path, ("0", "1"), size, written.digest)  # which is of more rows
    again = MixturesFile(path, ("0", "1"), size, digest)
    assert path.stat().st_size == size
    again.add(document(3, "d"), half)
    disk.full = True
    with pytest.raises(OSError, match="No space left"):
        again.flush()
    disk.full = False
    again.add(document(2, "e"), half)
    again.flush()
    assert [(row["number"], row["document"]) for row in table(path)] == [("0", "a,b"), ("3", "d"), ("2", "e")]
    shown = []
    again.write_in_order(tmp_path / "ordered.gz", document(1, "f"), half, lambda *count: shown.append(count))
    rows = table(tmp_path / "ordered.gz")
    assert [(row["number"], row["document"]) for row in rows] == list(
        zip("0123", ("a,b", "f", "e", "d"), strict=True)
    )
    assert shown == [(0, 4)]
    monkeypatch.setattr("fokker.models.topics.mixtures_file._MAX_PENDING", 10)
    for number in (4, 5):
        again.add(document(number, "g"), half)
    assert again.dropped == 1
    with pytest.raises(ValueError, match="shorter than when the checkpoint was written"):
        MixturesFile(path, ("0", "1"), 10**6)
