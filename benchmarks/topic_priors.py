"""The prior of the mixtures of documents, fixed and learned: prediction, coherence, recovery, coverage.

real       50 topics of NIPS abstracts and of Associated Press (FOKKER_DATA names the folder of data), a
           tenth held out: held-out perplexity by document completion, NPMI of the ten most probable words
           in all documents. Ours with γ fixed at 0.1 and learned as symmetric, asymmetric and hdp (the
           last with 100 topics at most), and the collapsed Gibbs sampler of tomotopy (500 sweeps) where
           it is installed, with its α fixed at 0.1 and learned, which is its default
recovery   documents drawn with a known γ of very different γ_k: the posterior mean of each
coverage   corpora drawn with c and b from their priors: how often 90 % intervals contain c = Σ_k γ_k

python benchmarks/topic_priors.py [real] [recovery] [coverage] [--seeds 2]
"""

import argparse
import os
import time
from pathlib import Path

import numpy as np
from scipy import stats
from scipy.optimize import linear_sum_assignment

import fokker as fk
from fokker.corpora import Documents, open_corpus
from fokker.models.topics.coherence import npmi
from fokker.models.topics.evaluate import perplexity
from fokker.models.topics.model import top_words
from topic_starts import HAS_TOMOTOPY, tomotopy_topics

TOPICS, TRUNCATION = 50, 100
VARIANTS = {"fixed": 0.1, "symmetric": "symmetric", "asymmetric": "asymmetric", "hdp": "hdp"}
CORPORA = {
    "nips": ("nips-abstracts-2007-2011", "bow.npz", "vocab.txt"),
    "ap": ("ap", "ap.dat.gz", "vocab.txt"),
}


def split_corpus(name: str) -> tuple[Documents, Documents, int]:
    """The documents to learn from, those held out, and the number of words."""
    folder, data, vocabulary = CORPORA[name]
    path = Path(os.environ["FOKKER_DATA"]) / folder
    corpus = open_corpus(path / data, vocabulary=path / vocabulary)
    documents = Documents.concatenate(list(corpus.batches(500)))
    documents = documents.select(np.random.default_rng(0).permutation(documents.size))
    held_out = documents.size // 10
    return (
        documents.select(slice(held_out, None)),
        documents.select(slice(held_out)),
        len(corpus.vocabulary),
    )


def real(seeds: int, corpora: list[str], variants: list[str]) -> None:
    """Perplexity and NPMI on real documents."""
    if not os.environ.get("FOKKER_DATA"):
        print("  left out: FOKKER_DATA names no folder of data.")
        return
    for name in corpora:
        documents, held_out, width = split_corpus(name)
        everything, counts = Documents.concatenate([documents, held_out]), documents.to_matrix(width)
        for variant in variants:
            for seed in range(seeds):
                started = time.perf_counter()
                if variant.startswith("tomotopy"):
                    beta, gamma = tomotopy_topics(counts, TOPICS, seed, "learned" in variant)
                    draws, used = beta.T[None].astype(np.float32), TOPICS
                else:
                    topics = TRUNCATION if variant == "hdp" else TOPICS
                    model = fk.models.LDA(topics, doc_topic_prior=VARIANTS[variant], random_state=seed).fit(
                        counts
                    )
                    draws, gamma = model.draws_.transpose(0, 2, 1), model.doc_topic_prior_
                    used = topics
                    if variant == "hdp":
                        used = int(np.median(model._chain.document_prior.num_used))
                seconds = time.perf_counter() - started
                chosen = np.argsort(-gamma, kind="stable")[:used] if used < len(gamma) else slice(None)
                by_topic = npmi(everything, top_words(draws.mean(0), 10)[chosen])
                of_average, of_draw = (perplexity(held_out, of, gamma, 0, 2) for of in (draws, draws[-1:]))
                print(
                    f"  {name:5}{variant:18} seed {seed}: perplexity {of_average:5.0f} ({of_draw:.0f})"
                    f"  NPMI {by_topic.mean():+.3f}, {np.sum(by_topic < 0):3} of {len(by_topic)} below 0"
                    f"  Σγ {gamma.sum():6.2f}, γ {gamma.min():.4f} to {gamma.max():.3f}  {seconds:4.0f} s",
                    flush=True,
                )


def drawn_documents(
    generator: np.random.Generator, gamma: np.ndarray, documents: int, words: int = 400, length: int = 80
) -> tuple[np.ndarray, np.ndarray]:
    """Counts (D, V) of documents with mixtures of Dirichlet(γ), and their topics (K, V)."""
    beta = generator.dirichlet(np.full(words, 0.05), len(gamma))
    mixtures = generator.dirichlet(gamma, documents)
    return np.stack([generator.multinomial(length, pi @ beta) for pi in mixtures]), beta


def matched(found: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """The topic found (K, V) that matches each true one."""
    found, truth = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (found, truth))
    return np.asarray(linear_sum_assignment(-truth @ found.T)[1])


def recovery(seeds: int) -> None:
    """The posterior mean of a known γ of 5 topics, 1,000 documents of 80 words."""
    truth = np.array([0.02, 0.1, 0.2, 0.4, 1.0])
    print(f"  truth {'':18}{truth}")
    for seed in range(seeds):
        counts, beta = drawn_documents(np.random.default_rng(seed), truth, 1_000)
        for variant, topics in (("asymmetric", 5), ("hdp", 20)):
            model = fk.models.LDA(
                topics, topic_word_prior=0.05, doc_topic_prior=variant, passes=20, random_state=seed
            ).fit(counts)
            order = matched(model.components_, beta)
            rest = np.delete(model.doc_topic_prior_, order)
            used = model._chain.document_prior.num_used
            print(
                f"  seed {seed} {variant:12}      {model.doc_topic_prior_[order].round(3)}; the other "
                f"{len(rest)}: {rest.sum():.4f} in all; topics used {used.min()} to {used.max()}",
                flush=True,
            )


def coverage(corpora: int) -> None:
    """How often a 90 % interval of Σγ contains the truth: c ~ Exponential of mean 0.5, b ~ Dirichlet(1)."""
    ranks = []
    for seed in range(corpora):
        generator = np.random.default_rng(seed)
        gamma = generator.exponential(0.5) * generator.dirichlet(np.ones(5))
        counts, _ = drawn_documents(generator, gamma, 300)
        model = fk.models.LDA(
            5,
            topic_word_prior=0.05,
            doc_topic_prior="asymmetric",
            passes=60,
            random_state=seed,
            n_jobs=1,
        ).fit(counts)
        draws = model.doc_topic_prior_draws_[10:].sum(1)
        ranks.append(np.mean(draws < gamma.sum()))
        print(
            f"  Σγ {gamma.sum():.3f}; found {draws.mean():.3f} ± {draws.std():.3f}; rank {ranks[-1]:.2f}",
            flush=True,
        )
    inside = np.abs(np.array(ranks) - 0.5) <= 0.45
    p = stats.kstest(ranks, "uniform").pvalue
    print(f"  inside the 90 % interval: {inside.sum()} of {corpora}; ranks uniform: p = {p:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help="real, recovery, coverage")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--corpora", nargs="*", default=list(CORPORA), choices=list(CORPORA))
    names = [*VARIANTS, *["tomotopy", "tomotopy, learned"] * HAS_TOMOTOPY]
    parser.add_argument("--variants", nargs="*", default=names)
    given = parser.parse_args()
    for part in given.parts or ["real", "recovery", "coverage"]:
        print(f"\n{part}", flush=True)
        if part == "real":
            real(given.seeds, given.corpora, given.variants)
        elif part == "recovery":
            recovery(given.seeds)
        else:
            coverage(20)


if __name__ == "__main__":
    main()
