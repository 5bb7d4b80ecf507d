"""Topics of NIPS abstracts and Associated Press against tomotopy: prediction, coherence and CPU seconds.

Ours is `fk.models.LDA` with its defaults. tomotopy is its collapsed Gibbs sampler with α learned, which is
its default, and our prior of words. Both learn from nine tenths of the documents (FOKKER_DATA names the
folder of data) on one core, in turns, and are evaluated alike: document completion of the rest, p(w) averaged
over 20 states (ours: its stored draws; tomotopy's: evenly spaced over the second half of its sweeps), and
NPMI of the ten most probable words of the mean topics in all documents. An incoherent topic has NPMI below 0.

"to ours": the CPU seconds after which tomotopy's perplexity, averaged over the second half of the sweeps so
far, is no higher than ours, looked at after every hundred sweeps; how many of the seeds get there in
`--sweeps`.

    python benchmarks/topic_peers.py [--seeds 3] [--sweeps 2000] [--write docs/lda.md]

`--write` puts the table into a file, between the marks `<!-- topic_peers -->` and `<!-- end -->`.
"""

import argparse
import importlib.metadata
import os
import platform
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

os.environ.setdefault("OMP_NUM_THREADS", "1")

import fokker as fk
from fokker.corpora import Documents
from fokker.models.topics.coherence import npmi
from fokker.models.topics.evaluate import perplexity
from fokker.models.topics.model import top_words
from pages import write_between
from topic_priors import CORPORA, split_corpus

NUMBERS, STATES, INTERVAL, COMPARED_SWEEPS = (20, 50), 20, 100, 1_000
ALPHA = 0.01


class Score(NamedTuple):
    """One fit."""

    perplexity: float
    npmi: float
    incoherent: float
    seconds: float


class Case(NamedTuple):
    """A corpus, divided, and a number of topics."""

    name: str
    topics: int
    learned: Documents
    held_out: Documents
    width: int

    def score(self, draws: np.ndarray, gamma: np.ndarray, seconds: float) -> Score:
        """The measures of draws of β (n, V, K)."""
        everything = Documents.concatenate([self.learned, self.held_out])
        by_topic = npmi(everything, top_words(draws.mean(0), 10))
        return Score(
            perplexity(self.held_out, draws, gamma), by_topic.mean(), float(np.sum(by_topic < 0)), seconds
        )


def ours(case: Case, seed: int) -> tuple[Score, bool]:
    """The measures of a default fit, and whether its own verdict has no problem."""
    counts = case.learned.to_matrix(case.width)
    started = time.process_time()
    lda = fk.models.LDA(case.topics, n_jobs=1, random_state=seed).fit(counts)
    seconds = time.process_time() - started
    return case.score(lda.draws_.transpose(0, 2, 1), lda.doc_topic_prior_, seconds), lda.verdict_.ok


def tomotopy_curve(case: Case, seed: int, sweeps: int, until: float) -> dict[int, Score]:
    """The measures after every hundred sweeps, 1,000 and more until the perplexity is below `until`."""
    import tomotopy

    started = time.process_time()
    model = tomotopy.LDAModel(k=case.topics, alpha=0.1, eta=ALPHA, seed=seed)
    for i in range(case.learned.size):
        _, words, numbers = case.learned.row(i)
        model.add_doc([str(w) for w in np.repeat(words, numbers)])
    seconds = time.process_time() - started
    states: list[np.ndarray] = []
    scores: dict[int, Score] = {}
    for sweep in range(10, sweeps + 1, 10):
        started = time.process_time()
        model.train(10, workers=1)
        seconds += time.process_time() - started  # without what only this comparison needs
        beta = np.full((case.width, case.topics), 1e-9, np.float32)
        known = [int(word) for word in model.used_vocabs]
        beta[known] = np.stack([model.get_topic_word_dist(k) for k in range(case.topics)], 1)
        states.append(beta / beta.sum(0))
        if sweep % INTERVAL == 0:
            late = states[len(states) // 2 :]
            chosen = np.linspace(0, len(late) - 1, min(STATES, len(late))).round().astype(int)
            draws = np.stack([late[i] for i in chosen])
            scores[sweep] = case.score(draws, np.asarray(model.alpha, np.float64), seconds)
            if sweep >= COMPARED_SWEEPS and scores[sweep].perplexity <= until:
                break
    return scores


def measured(case: Case, seeds: int, sweeps: int) -> list[str]:
    """The rows of the table of one case."""
    rows, curves, verdicts = [], [], []
    for seed in range(seeds):
        score, is_ok = ours(case, seed)
        rows.append(score)
        verdicts.append(is_ok)
        curves.append(tomotopy_curve(case, seed, sweeps, score.perplexity))
    reached = [
        min((s.seconds for s in curve.values() if s.perplexity <= own.perplexity), default=np.inf)
        for own, curve in zip(rows, curves, strict=True)
    ]
    number = int(np.sum(np.isfinite(reached)))
    to_ours = f"{np.mean([x for x in reached if np.isfinite(x)]):.1f} s" if number else "–"
    compared = [curve[min(COMPARED_SWEEPS, max(curve))] for curve in curves]
    title = f"{case.name} {case.topics}"
    return [
        f"| {title} | Fokker | {_means(rows)} | | {sum(verdicts)} of {seeds} |",
        f"| {title} | tomotopy, {COMPARED_SWEEPS:,} sweeps | {_means(compared)} | {to_ours} ({number} of "
        f"{seeds}) | |",
    ]


def _means(rows: list[Score]) -> str:
    """Means over the seeds, NPMI with those of each."""
    p, c, n, seconds = np.mean(rows, axis=0)
    each = ", ".join(f"{row.npmi:.3f}" for row in rows)
    return f"{p:,.0f} | {c:.3f} ({each}) | {n:.1f} | {seconds:.1f} s"


def versions() -> str:
    """What was compared, and on what."""
    names = ("numpy", "numba", "jax", "tomotopy")
    return ", ".join(
        [f"Python {platform.python_version()}", *(f"{n} {importlib.metadata.version(n)}" for n in names)]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sweeps", type=int, default=2_000)
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    if not os.environ.get("FOKKER_DATA"):
        parser.error(
            "set FOKKER_DATA to the folder of data, with nips and ap: FOKKER_DATA=FOLDER make bench-topics"
        )
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-1:])
    lines = [
        "| corpus, topics | | perplexity | NPMI (each seed) | incoherent | CPU | to ours | own verdict |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    print("\n".join(lines), flush=True)
    for name in CORPORA:
        learned, held_out, width = split_corpus(name)
        for topics in NUMBERS:
            case = Case({"nips": "NIPS", "ap": "AP"}[name], topics, learned, held_out, width)
            # What is compiled first is not timed.
            fk.models.LDA(topics, n_jobs=1).fit(learned.select(slice(200)).to_matrix(width))
            rows = measured(case, given.seeds, given.sweeps)
            print("\n".join(rows), flush=True)
            lines += rows
    note = f"Means over {given.seeds} seeds; {versions()}."
    print(note)
    table = "\n".join(lines)
    write_between(given.write, "topic_peers", f"{table}\n\n{note}")


if __name__ == "__main__":
    main()
