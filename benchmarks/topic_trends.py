"""Whether intervals of the prevalence of topics contain the truth, over corpora drawn with a known one.

Documents of 5 groups have mixtures of Dirichlet(γ_g) with means that differ by group, topics are of
Dirichlet(0.05); `fk.models.LDA` learns them with one γ for all, and `trends` gives 90 % intervals by group:

    population  with the sampling of documents, of the mean γ_g / Σγ_g that the documents were drawn with
    these       without it, of the share of each topic in the words of these documents

    python benchmarks/topic_trends.py [--corpora 20]
"""

import argparse

import numpy as np
from scipy.optimize import linear_sum_assignment

import fokker as fk

TOPICS, WORDS, GROUPS = 5, 300, 5


def drawn_corpus(
    generator: np.random.Generator, documents: int, length: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Counts (D, V), groups (D,), topics (K, V), mean mixtures by group (G, K), and n_dk (D, K)."""
    beta = generator.dirichlet(np.full(WORDS, 0.05), TOPICS)
    means = generator.dirichlet(np.full(TOPICS, 2.0), GROUPS)
    groups = generator.integers(GROUPS, size=documents)
    mixtures = np.stack([generator.dirichlet(means[g]) for g in groups])
    n = np.stack([generator.multinomial(length, pi) for pi in mixtures])
    counts = np.stack(
        [sum(generator.multinomial(n_dk, b) for n_dk, b in zip(row, beta, strict=True)) for row in n]
    )
    return counts, groups, beta, means, n


def covered(seed: int, documents: int, length: int) -> tuple[float, float, float]:
    """The shares of true values in intervals of both kinds, and the mean width of the first."""
    generator = np.random.default_rng(seed)
    counts, groups, beta, means, n = drawn_corpus(generator, documents, length)
    lda = fk.models.LDA(TOPICS, topic_word_prior=0.05, passes=2, n_jobs=1, random_state=seed).fit(counts)
    unit = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (beta, lda.components_)]
    order = linear_sum_assignment(-unit[0] @ unit[1].T)[1]
    these = np.stack([n[groups == g].sum(0) / n[groups == g].sum() for g in range(GROUPS)])
    bounds = []
    for sampling in (True, False):
        trends = lda.trends(counts, groups, sampling=sampling)
        bounds.append((trends.low[:, order], trends.high[:, order]))
    population, alone = (
        float(np.mean((low <= truth) & (truth <= high)))
        for (low, high), truth in zip(bounds, (means, these), strict=True)
    )
    return population, alone, float(np.mean(bounds[0][1] - bounds[0][0]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpora", type=int, default=20)
    number = parser.parse_args().corpora
    for documents, length in ((500, 80), (500, 20), (100, 80)):
        rows = np.array([covered(seed, documents, length) for seed in range(number)])
        mean, error = rows.mean(0), rows.std(0, ddof=1) / np.sqrt(number)
        print(
            f"{documents} documents of {length} words: population {mean[0]:.3f} ± {error[0]:.3f}, "
            f"these {mean[1]:.3f} ± {error[1]:.3f}; width {mean[2]:.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
