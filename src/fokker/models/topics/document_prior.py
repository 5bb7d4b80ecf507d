r"""The prior of the mixtures of documents, π_d ~ Dirichlet(γ), given or learned.

    γ_k = c b_k,   c ~ Exponential,   b ~ Dirichlet(g/K, …, g/K)

As K grows, this becomes the hierarchical Dirichlet process (Teh et al. 2006); K is its truncation. Given the
numbers n_dk of words of each topic in each document, the mixtures are integrated out,

    p(n | γ) ∝ Π_d Π_k [γ_k (γ_k + 1) ⋯ (γ_k + n_dk - 1)] / [c (c + 1) ⋯ (c + n_d· - 1)],

and n enters through two numbers only: N_kj, how many documents have more than j words of topic k, and L_j,
how many have more than j words in all. Auxiliary variables make the conditionals simple:

    m_k ~ Σ_j Binomial(N_kj, γ_k/(γ_k + j)),   x ~ Σ_j Gamma(L_j, rate c + j),
    b | m ~ Dirichlet(g/K + m_k),   c | m, x ~ Gamma(1 + m·, rate 1/E[c] + x).

m_k are the tables of topic k in the Chinese restaurants of all documents (Antoniak 1974), because customer
j + 1 opens one with probability γ_k/(γ_k + j); x comes from 1/(c + j) = ∫ exp(-(c + j) x) dx, and is
-Σ_d log η_d of the η_d ~ Beta(c, n_d·) in Teh et al. The same steps one level higher, with the tables m_k as
the counts of one document whose prior is g/K, give g. These are exact Gibbs steps where n comes from a draw
of the topics. Expected counts in its place are smoother than any draw and make c too large.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from fokker.models.topics.settings import INITIAL_GAMMA, LEARNED_GAMMA

# Smaller γ_k are raised to this, so that a topic without words may return. It is far below one word in any
# corpus.
_MIN_GAMMA = 1e-8
# Draws of γ given the same topics, each from the one before: one alone would move γ little.
REPEATS = 20
# E[g] before any data, as for the top level of Teh et al. (2006).
_MEAN_BASE_CONCENTRATION = 10.0


def counts_above(counts: np.ndarray) -> np.ndarray:
    """N_kj, and L_j in the last row (K + 1, J), of documents with n_dk (D, K); J is that of the longest.

    They add up over documents: see `added`.
    """
    whole = np.asarray(counts, np.int64)
    whole = np.concatenate([whole, whole.sum(1, keepdims=True)], 1)
    shape = whole.shape[1], int(whole.max(initial=0))
    rows, n = np.broadcast_to(np.arange(shape[0]), whole.shape)[whole > 0], whole[whole > 0]
    exactly = np.bincount(rows * shape[1] + n - 1, minlength=shape[0] * shape[1]).reshape(shape)
    return np.asarray(exactly[:, ::-1].cumsum(1)[:, ::-1], np.float64)


def added(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The numbers of `counts_above` for both sets of documents."""
    longest = max(first.shape[1], second.shape[1])
    return sum((np.pad(x, ((0, 0), (0, longest - x.shape[1]))) for x in (first, second)), np.zeros(()))


@dataclass(frozen=True)
class DocumentPrior:
    """γ, and how it is learned: `learned` is None or one of `LEARNED_GAMMA`.

    `concentration` is c, `base` b, and `base_concentration` g. "symmetric" learns c alone; "asymmetric"
    learns c and b with g = K; "hdp" learns g too. `mean_concentration` is E[c] before any data: K times
    `INITIAL_GAMMA`.
    """

    concentration: float
    base: np.ndarray
    base_concentration: float
    mean_concentration: float
    learned: str | None = None

    @staticmethod
    def of(gamma: float | Sequence[float] | np.ndarray | str, topics: int) -> "DocumentPrior":
        """The prior before any data: γ is a number, one per topic, or one of `LEARNED_GAMMA`."""
        learned = gamma if isinstance(gamma, str) else None
        if learned is not None and learned not in LEARNED_GAMMA:
            raise ValueError(f"γ is learned as one of {', '.join(LEARNED_GAMMA)}; {learned!r} was given.")
        values = np.broadcast_to(np.asarray(INITIAL_GAMMA if learned else gamma, np.float64), (topics,))
        total = float(values.sum())
        g = _MEAN_BASE_CONCENTRATION if learned == "hdp" else float(topics)
        return DocumentPrior(total, values / total, g, total, learned)

    @property
    def gamma(self) -> np.ndarray:
        """γ (K,)."""
        return np.maximum(self.concentration * self.base, _MIN_GAMMA)

    def given(self, above: np.ndarray, seed: int | np.uint64, repeats: int = REPEATS) -> Self:
        """A draw of c, b and g given the `counts_above` of all documents, which may be weighted.

        Each of the `repeats` starts from the one before: more of them depend less on the current γ.
        """
        if self.learned is None:
            return self
        generator = np.random.Generator(np.random.Philox(int(seed)))
        prior = self
        for _ in range(repeats):
            prior = prior._given(above, generator)
        return prior

    def _given(self, above: np.ndarray, generator: np.random.Generator) -> Self:
        K, g = len(self.base), self.base_concentration
        # Weighted numbers are not whole.
        numbers = np.rint(above[:-1]).astype(np.int64)
        topics, customers = np.nonzero(numbers)
        tables = _drawn_tables(numbers[topics, customers], topics, customers, self.gamma, generator)
        c = _drawn_concentration(above[-1], self.gamma.sum(), tables, self.mean_concentration, generator)
        if self.learned == "symmetric":
            return dataclasses.replace(self, concentration=c)
        if self.learned == "hdp":
            # One document of m_k words of topic k.
            topics = np.repeat(np.arange(K), tables)
            customers = np.arange(len(topics)) - np.repeat(np.cumsum(tables) - tables, tables)
            ones = np.ones(len(topics), np.int64)
            tables_above = _drawn_tables(ones, topics, customers, np.full(K, g / K), generator)
            g = _drawn_concentration(ones, g, tables_above, _MEAN_BASE_CONCENTRATION, generator)
        base = generator.dirichlet(g / K + tables)
        return dataclasses.replace(self, concentration=c, base=base, base_concentration=g)

    def state(self) -> dict[str, np.ndarray]:
        """The arrays that a resumed run needs."""
        numbers = [self.concentration, self.base_concentration, self.mean_concentration]
        return {"numbers": np.array(numbers), "base": self.base}

    def restored(self, state: dict[str, Any]) -> Self:
        """The prior of a `state`, learned as this one."""
        c, g, mean = (float(x) for x in state["numbers"])
        return dataclasses.replace(
            self,
            concentration=c,
            base=np.array(state["base"]),
            base_concentration=g,
            mean_concentration=mean,
        )


def _drawn_tables(
    numbers: np.ndarray,
    topics: np.ndarray,
    customers: np.ndarray,
    gamma: np.ndarray,
    generator: np.random.Generator,
) -> np.ndarray:
    """m (K,), given the numbers N_kj above zero with their k and j."""
    # The first customer, j = 0, always opens a table.
    opened = generator.binomial(numbers, gamma[topics] / (gamma[topics] + customers))
    return np.bincount(topics, opened, len(gamma)).astype(np.int64)


def _drawn_concentration(
    lengths: np.ndarray, current: float, tables: np.ndarray, mean: float, generator: np.random.Generator
) -> float:
    """c given m and L_j, through x, which is drawn given the current c."""
    x = np.sum(generator.standard_gamma(lengths) / (current + np.arange(len(lengths))))
    return float(generator.standard_gamma(1 + tables.sum()) / (1 / mean + x))
