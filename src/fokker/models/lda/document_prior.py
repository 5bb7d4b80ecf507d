r"""The prior of the mixtures of documents, π_d ~ Dirichlet(γ), given or learned.

    γ_k = c b_k,   c ~ Exponential,   b ~ Dirichlet(g/K, …, g/K)

As K grows, this becomes the hierarchical Dirichlet process (Teh et al. 2006); K is its truncation. Given the
numbers n_dk of words of each topic in each document, and auxiliary variables

    m_dk: the tables of a Chinese restaurant with n_dk customers and concentration γ_k (Antoniak 1974),
    η_d ~ Beta(c, n_d·),

the mixtures are integrated out and the conditionals are

    b | m ~ Dirichlet(g/K + m_·k),   c | m, η ~ Gamma(1 + m··, rate 1/E[c] - Σ_d log η_d),

because p(n, m | γ) ∝ Π_d [Γ(c)/Γ(c + n_d·)] Π_k γ_k^{m_dk}, and Γ(c)/Γ(c + n) ∝ ∫ η^{c-1} (1-η)^{n-1} dη.
The same two steps one level higher, with the tables m_·k as the counts of one document whose prior is g/K,
give g. These are exact Gibbs steps where n comes from a draw of the topics. Expected counts in its place are
smoother than any draw and make c too large.
"""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numba
import numpy as np

from fokker.models.lda._uniform import stream, uniform_double
from fokker.models.lda.cir import draw_gamma
from fokker.models.lda.settings import INITIAL_GAMMA, LEARNED_GAMMA

# Smaller γ_k are raised to this, so that a topic without words may return. It is far below one word in any
# corpus.
_MIN_GAMMA = 1e-8
# E[g] before any data, as for the top level of Teh et al. (2006).
_MEAN_BASE_CONCENTRATION = 10.0


class Tables(NamedTuple):
    """What the conditionals need of some documents: Σ_d m_dk (K,), and Σ_d log η_d."""

    by_topic: np.ndarray
    log_eta: float

    def scaled(self, weight: float) -> "Tables":
        """Those of `weight` times as many documents."""
        return Tables(weight * self.by_topic, weight * self.log_eta)

    def plus(self, other: "Tables") -> "Tables":
        """Those of both sets of documents."""
        return Tables(self.by_topic + other.by_topic, self.log_eta + other.log_eta)


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

    def tables(self, counts: np.ndarray, seed: int | np.uint64) -> Tables:
        """Draw the auxiliary variables of documents with the counts n_dk (D, K) of one draw of the topics.

        Those of a document depend only on `seed` and its index.
        """
        return _drawn_tables(counts, self.gamma, seed)

    def given(self, tables: Tables, seed: int | np.uint64) -> Self:
        """A draw of c, b and g given the tables of all documents."""
        if self.learned is None:
            return self
        generator = np.random.Generator(np.random.Philox(int(seed)))
        total = float(tables.by_topic.sum())
        rate = 1 / self.mean_concentration - tables.log_eta
        c = float(generator.standard_gamma(1 + total) / rate)
        if self.learned == "symmetric":
            return dataclasses.replace(self, concentration=c)
        K, g = len(self.base), self.base_concentration
        if self.learned == "hdp":
            # One level higher. Weighted tables are no whole numbers.
            counts = np.rint(tables.by_topic)[None]
            above = _drawn_tables(counts, np.full(K, g / K), generator.integers(2**64, dtype=np.uint64))
            rate = 1 / _MEAN_BASE_CONCENTRATION - above.log_eta
            g = float(generator.standard_gamma(1 + above.by_topic.sum()) / rate)
        base = generator.dirichlet(g / K + tables.by_topic)
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


def _drawn_tables(counts: np.ndarray, gamma: np.ndarray, seed: int | np.uint64) -> Tables:
    by_topic = np.zeros(len(gamma))
    whole = np.ascontiguousarray(counts, np.int64)
    return Tables(by_topic, float(_draw_tables(whole, gamma, np.uint64(seed), by_topic)))


@numba.njit(nogil=True, cache=True)
def _log_gamma_variate(state: Any, a: float) -> Any:
    """The next random state, and the logarithm of Gamma(a, 1), which does not underflow."""
    boost = 0.0
    if a < 1.0:
        state, u = uniform_double(state)
        boost = math.log(u) / a
        a += 1.0
    state, x = draw_gamma(state, a)
    return state, math.log(x) + boost


@numba.njit(nogil=True, cache=True)
def _draw_tables(counts: Any, gamma: Any, seed: Any, by_topic: Any) -> float:
    """Add m_dk of all documents to `by_topic`; return Σ_d log η_d."""
    concentration = gamma.sum()
    log_eta = 0.0
    for d in range(len(counts)):
        state = stream(seed, d)
        length = 0
        for k in range(len(gamma)):
            n = counts[d, k]
            length += n
            # Customer j + 1 opens a table with probability γ_k/(γ_k + j): the first one always.
            for j in range(n):
                state, u = uniform_double(state)
                if u * (gamma[k] + j) < gamma[k]:
                    by_topic[k] += 1
        if length > 0:
            state, x = _log_gamma_variate(state, concentration)
            state, y = _log_gamma_variate(state, float(length))
            log_eta += -math.log1p(math.exp(y - x)) if y < x else x - y - math.log1p(math.exp(x - y))
    return log_eta
