"""Whether topics are found: known topics of drawn documents, and the coherence of those of Associated Press.

    known      documents drawn from 5 and from 20 topics, β_k ~ Dirichlet(0.05) over 1,000 words, mixtures ~
               Dirichlet(0.2), 2,000 documents of 100 words, ten corpora with a seed of its own each: the
               cosine between a true topic and the one matched to it, the least of all topics
    coherence  of 50 topics of Associated Press (FOKKER_DATA names the folder of data), a tenth held out: NPMI
               of the ten most probable words in all documents, held-out perplexity by document completion

Ours by `fk.models.LDA`, started from a sample and at random (in `known` with 5 passes), and the collapsed
Gibbs sampler of tomotopy (500 sweeps) where it is installed: with the same priors, and with α learned, which
is its default. Our perplexity is that of an average over draws, tomotopy's that of its last one.

    python benchmarks/topic_starts.py [known] [coherence] [--seeds 10]
"""

import argparse
import importlib.util
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

import fokker as fk
from fokker.corpora import Documents, open_corpus
from fokker.models.topics.coherence import npmi
from fokker.models.topics.evaluate import perplexity
from fokker.models.topics.model import top_words

ALPHA, GAMMA, GIBBS_SWEEPS = 0.01, 0.1, 500
NUMBERS_OF_TOPICS = (5, 20)
HAS_TOMOTOPY = importlib.util.find_spec("tomotopy") is not None


def drawn_corpus(seed: int, topics: int) -> tuple[np.ndarray, np.ndarray]:
    """Counts (D, V) of documents drawn from an LDA, and its topics (K, V)."""
    generator = np.random.default_rng(seed)
    beta = generator.dirichlet(np.full(1_000, 0.05), topics)
    mixtures = generator.dirichlet(np.full(topics, 0.2), 2_000)
    return np.stack([generator.multinomial(100, pi @ beta) for pi in mixtures]), beta


def least_cosine(found: np.ndarray, truth: np.ndarray) -> float:
    """The least cosine of the best matching of topics (K, V)."""
    found, truth = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (found, truth))
    cosines = truth @ found.T
    return float(cosines[linear_sum_assignment(-cosines)].min())


def tomotopy_topics(
    counts: Any, topics: int, seed: int, learn_alpha: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """β (K, V) after the sweeps, and the prior of the mixtures (K,)."""
    import tomotopy

    model = tomotopy.LDAModel(k=topics, alpha=GAMMA, eta=ALPHA, seed=seed)
    model.optim_interval = 10 if learn_alpha else 0
    documents = Documents.from_matrix(counts)
    for i in range(documents.size):
        _, words, numbers = documents.row(i)
        model.add_doc([str(w) for w in np.repeat(words, numbers)])
    model.train(GIBBS_SWEEPS, workers=1)
    beta = np.full((topics, counts.shape[1]), 1e-9)
    beta[:, [int(word) for word in model.used_vocabs]] = [model.get_topic_word_dist(k) for k in range(topics)]
    return beta / beta.sum(1, keepdims=True), np.asarray(model.alpha, np.float64)


def known(seeds: int) -> None:
    """The least cosine to the true topics, by seed."""
    for topics in NUMBERS_OF_TOPICS:
        found: dict[str, list[float]] = {}
        for seed in range(seeds):
            counts, truth = drawn_corpus(seed, topics)
            for name, number in (("fokker", 2_000), ("fokker, random start", 0)):
                model = fk.models.LDA(
                    topics, doc_topic_prior=GAMMA, passes=5, start_documents=number, random_state=seed
                ).fit(counts)
                found.setdefault(name, []).append(least_cosine(model.components_, truth))
            if HAS_TOMOTOPY:
                beta, _ = tomotopy_topics(counts, topics, seed)
                found.setdefault("tomotopy", []).append(least_cosine(beta, truth))
        for name, cosines in found.items():
            good = np.mean(np.array(cosines) >= 0.98)
            shown = " ".join(f"{x:.3f}" for x in cosines)
            print(f"  {topics:2} topics  {name:22}{shown}   at least 0.98: {good:.0%}", flush=True)


def associated_press() -> tuple[Documents, Documents, int]:
    """The documents to learn from, those held out, and the number of words."""
    folder = Path(os.environ["FOKKER_DATA"]) / "ap"
    corpus = open_corpus(folder / "ap.dat.gz", vocabulary=folder / "vocab.txt")
    documents = Documents.concatenate(list(corpus.batches(500)))
    documents = documents.select(np.random.default_rng(0).permutation(documents.size))
    held_out = documents.size // 10
    parts = documents.select(slice(held_out, None)), documents.select(slice(held_out))
    return *parts, len(corpus.vocabulary)


def compare_coherence(seeds: int) -> None:
    """NPMI and held-out perplexity, mean over the seeds."""
    if not os.environ.get("FOKKER_DATA"):
        print("  left out: FOKKER_DATA names no folder of data.")
        return
    documents, held_out, width = associated_press()
    everything, counts = Documents.concatenate([documents, held_out]), documents.to_matrix(width)
    names = ["fokker", "fokker, random start", *["tomotopy", "tomotopy, α learned"] * HAS_TOMOTOPY]
    for name in names:
        rows = []
        for seed in range(seeds):
            started = time.perf_counter()
            if name.startswith("fokker"):
                number = 0 if "random" in name else 2_000
                model = fk.models.LDA(
                    50, doc_topic_prior=GAMMA, start_documents=number, random_state=seed
                ).fit(counts)
                draws, gamma = model.draws_.transpose(0, 2, 1), model.doc_topic_prior_
            else:
                beta, gamma = tomotopy_topics(counts, 50, seed, "learned" in name)
                draws = beta.T[None].astype(np.float32)
            seconds = time.perf_counter() - started
            by_topic = npmi(everything, top_words(draws.mean(0), 10))
            rows.append(
                (perplexity(held_out, draws, gamma, 0, 2), by_topic.mean(), np.sum(by_topic < 0), seconds)
            )
        shown = "; ".join(f"{p:.0f}, {c:.3f}, {n:.0f}" for p, c, n, _ in rows)
        p, c, n, seconds = np.mean(rows, axis=0)
        print(
            f"  {name:22}perplexity {p:6.0f}  NPMI {c:+.3f}  {n:4.1f} topics below 0  {seconds:5.0f} s"
            f"   ({shown})",
            flush=True,
        )


PARTS = {"known": known, "coherence": compare_coherence}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--seeds", type=int, help="10 for known, 3 for coherence")
    given = parser.parse_args()
    if not HAS_TOMOTOPY:
        print("(tomotopy is not installed: left out.)")
    for part in given.parts or PARTS:
        print(f"\n{part}: {(PARTS[part].__doc__ or '').splitlines()[0]}", flush=True)
        PARTS[part](given.seeds or {"known": 10, "coherence": 3}[part])


if __name__ == "__main__":
    main()
