r"""Histograms of draws against a known density, and their distance from it.

The distance is KL(q‖p) = Σ_k q_k log(q_k/p_k) between the shares q of draws in the cells of a histogram and
the exact shares p. It is never zero: n independent draws in K cells give (K - 1)/2n on average. A sampler is
therefore set against exact independent draws of the same effective size, the Monte Carlo floor. That size is
the number of independent draws whose shares would vary as those of the sampler do between its chains.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import ArrayLike

# The exact share outside the histogram counts as at least this, so that the distance is finite.
_LEAST = 1e-12
# A sampler is right within so many floors, and wrong beyond so many. The distance of exact draws in 30 cells
# strays from its mean by a quarter of it, that of a chain that rarely crosses a barrier by up to all of it.
RIGHT_WITHIN, WRONG_BEYOND = 3.0, 6.0
# Above this floor there are too few draws to call anything right.
HIGHEST_FLOOR = 0.005


@dataclass(frozen=True)
class Histogram:
    """Cells on a line and the exact shares of a density in them, the last share for everything outside."""

    edges: np.ndarray
    exact: np.ndarray

    @classmethod
    def of(
        cls, energy: Callable[[np.ndarray], np.ndarray], low: float, high: float, cells: int
    ) -> "Histogram":
        """For p ∝ exp(-energy) by quadrature, on a range three times as wide."""
        edges = np.linspace(low, high, cells + 1)
        fine = np.linspace(2 * low - high, 2 * high - low, 300 * cells, endpoint=False)
        fine += (fine[1] - fine[0]) / 2
        weight = np.exp(-energy(fine))
        shares = np.histogram(fine, edges, weights=weight)[0] / weight.sum()
        return cls(edges, np.append(shares, max(1 - shares.sum(), _LEAST)))

    @property
    def centres(self) -> np.ndarray:
        """The middle of every cell."""
        return (self.edges[1:] + self.edges[:-1]) / 2

    def shares(self, draws: np.ndarray) -> np.ndarray:
        """The shares of the draws; non-finite draws count as outside."""
        counts = np.histogram(draws[np.isfinite(draws)], self.edges)[0]
        return np.append(counts, draws.size - counts.sum()) / draws.size

    def density(self, shares: np.ndarray) -> np.ndarray:
        """Shares as a density over the cells."""
        return shares[:-1] / np.diff(self.edges)

    def distance(self, draws: np.ndarray) -> float:
        """KL(draws‖exact)."""
        return divergence(self.shares(draws), self.exact)

    def effective_size(self, draws: np.ndarray) -> float:
        r"""How many independent draws vary as much as (chains, draws) do: Σ(1 - q_k) / Σ Var(q_k)/q_k.

        The sum of squares χ² = Σ (share - q_k)²/q_k has mean Σ(1 - q_k)/n for n independent draws.
        """
        shares = np.array([self.shares(chain) for chain in draws])
        mean = shares.mean(axis=0)
        seen = mean > 0
        variance = shares.var(axis=0, ddof=1)[seen] / len(draws)
        return float(np.sum(1 - mean[seen]) / max(np.sum(variance / mean[seen]), _LEAST))

    def floor(self, effective: float) -> float:
        """The mean distance of as many independent exact draws."""
        number = int(np.clip(effective, 1, 1e9))
        drawn = np.random.default_rng(0).multinomial(number, self.exact / self.exact.sum(), 50)
        return float(np.mean([divergence(row / number, self.exact) for row in drawn]))


def divergence(shares: np.ndarray, exact: np.ndarray) -> float:
    """KL(shares‖exact) of two lists of shares."""
    seen = shares > 0
    return float(np.sum(shares[seen] * np.log(shares[seen] / exact[seen])))


def mean_and_error(name: str, values: ArrayLike) -> dict[str, float]:
    """The mean over seeds under `name`, and its standard error where there is more than one seed."""
    values = np.asarray(values, float)
    summary = {name: float(values.mean())}
    if values.size > 1:
        summary[f"{name}, standard error"] = float(values.std(ddof=1) / np.sqrt(values.size))
    return summary
