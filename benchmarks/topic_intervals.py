"""How often 90 % intervals of the topics contain the truth, over corpora drawn from the prior.

θ_kw ~ Gamma(α, 1), mixtures ~ Dirichlet(0.1): the model of `fk.models.LDA`, so that intervals of the
posterior contain the true β_kw for 90 % of the words and topics, and 90 % of every group of them that depends
on the documents alone. Words are grouped by N E[β_kw | documents], the expected number of tokens: at least 5
(used), below 0.5 (unused), and between (rare). Each share has its standard error, over corpora. "bias" is
N (E[β_kw | documents] - β_kw) of rare words, in tokens: 0 is right. "mass" is the posterior mean of β_kw over
all words that a topic has no token of, and what it is in truth. A topic counts as found if the cosine between
its posterior mean and the truth is above 0.98. Topics of corpora in which all are found are compared; in the
others some topics are merged, and the intervals are those of another mode.

    python benchmarks/topic_intervals.py [--alpha 0.1 0.05 0.01] [--passes 1 2 10 20] [--corpora 30]
"""

import argparse
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

import fokker as fk
from fokker.corpora import Documents

GAMMA, PROBABILITY, MIN_COSINE = 0.1, 0.9, 0.98
TOPICS, WORDS, DOCUMENTS, LENGTH = 5, 400, 1_000, 80


class Corpus(NamedTuple):
    """Documents, the true β (K, V), and how often each topic has each word (K, V)."""

    documents: Documents
    beta: np.ndarray
    counts: np.ndarray


def simulate(alpha: float, seed: int) -> Corpus:
    """A corpus drawn from the prior."""
    rng = np.random.default_rng(seed)
    theta = rng.gamma(alpha, 1, (TOPICS, WORDS))
    beta = theta / theta.sum(1, keepdims=True)
    by_topic = np.array(
        [rng.multinomial(LENGTH, pi) for pi in rng.dirichlet(np.full(TOPICS, GAMMA), DOCUMENTS)]
    )
    counts = np.stack([rng.multinomial(n, beta) for n in by_topic])  # documents, topics, words
    return Corpus(Documents.from_matrix(counts.sum(1)), beta, counts.sum(0))


def matched(mean: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each true topic (K, V), the number of the topic to compare it with, and the cosine between them."""
    unit_mean, unit_truth = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (mean, truth))
    cosines = unit_truth @ unit_mean.T
    rows, columns = linear_sum_assignment(-cosines)
    return columns, cosines[rows, columns]


def _share(inside: np.ndarray, group: np.ndarray) -> str:
    """The share of a group that is inside (corpora, K, V), with the standard error of a ratio of sums."""
    num_inside, num = (np.sum(x, (1, 2), dtype=float) for x in (inside & group, group))
    share = num_inside.sum() / num.sum()
    error = np.sqrt(np.mean((num_inside - share * num) ** 2) / len(num)) / num.mean()
    return f"{share:.3f} ± {error:.3f}"


def study(alpha: float, passes: int, corpora: int, sampler: str, exact_passes: int | None) -> str:
    """One row of the table."""
    found, seconds, compared = 0, 0.0, []
    for seed in range(corpora):
        corpus = simulate(alpha, seed)
        before = time.process_time()
        lda = fk.models.LDA(
            TOPICS,
            sampler=sampler,
            topic_word_prior=alpha,
            doc_topic_prior=GAMMA,
            passes=passes,
            exact_passes=exact_passes,
            random_state=seed,
            n_jobs=1,
        ).fit(corpus.documents.to_matrix(WORDS))
        seconds += time.process_time() - before
        columns, cosines = matched(lda.components_, corpus.beta)
        found += int(np.sum(cosines > MIN_COSINE))
        if np.all(cosines > MIN_COSINE):
            low, high = lda.credible_interval(PROBABILITY)[:, columns]
            mean = lda.components_[columns]
            inside = (low <= corpus.beta) & (corpus.beta <= high)
            # The number of tokens of a topic, by the documents alone.
            tokens = lda.transform(corpus.documents.to_matrix(WORDS)).sum(0)[columns] * LENGTH
            compared.append(
                (inside, tokens[:, None] * mean, tokens[:, None], mean, corpus.beta, corpus.counts)
            )
    row = f"  {alpha:5g}{passes:8d}{found:6d}/{TOPICS * corpora}{len(compared):9d}"
    if compared:
        inside, expected, tokens, mean, beta, counts = (np.stack(x) for x in zip(*compared, strict=True))
        is_rare = (expected >= 0.5) & (expected < 5)
        for group in (expected >= 5, is_rare, expected < 0.5):
            row += f"{_share(inside, group):>15}"
        unused = counts == 0
        row += f"{(tokens * (mean - beta))[is_rare].mean():8.2f}"
        num_topics = len(mean) * TOPICS
        row += f"{mean[unused].sum() / num_topics:10.5f}{beta[unused].sum() / num_topics:9.5f}"
    return row + f"{seconds / corpora:8.1f}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--alpha", type=float, nargs="+", default=[0.1, 0.05, 0.01])
    parser.add_argument("--passes", type=int, nargs="+", default=[1, 2, 10, 20])
    parser.add_argument("--corpora", type=int, default=30)
    parser.add_argument("--sampler", default="sgrhmc")
    parser.add_argument("--exact-passes", type=int, help="default: half of the passes")
    given = parser.parse_args(arguments)
    print(f"{given.sampler}: {TOPICS} topics, {WORDS} words, {DOCUMENTS:,} documents of {LENGTH} tokens")
    print(f"  {'α':>5}{'passes':>8}{'found':>9}{'compared':>9}{'used':>15}{'rare':>15}{'unused':>15}"
          f"{'bias':>8}{'mass':>10}{'true':>9}{'s':>8}")  # fmt: skip
    for alpha in given.alpha:
        for passes in given.passes:
            print(study(alpha, passes, given.corpora, given.sampler, given.exact_passes), flush=True)


if __name__ == "__main__":
    main()
