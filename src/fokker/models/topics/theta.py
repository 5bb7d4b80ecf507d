"""The topics θ (V, K), one row per word, and what every sampler of them has in common."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from jaxtyping import Array, Key

from fokker.models.topics._sums import column_sums
from fokker.models.topics.share import Share


class Topics(ABC):
    """θ with a sampler that moves it given expected counts.

    Args:
        sampler: its name, one of `settings.SAMPLERS`.
        theta: where it starts, (V, K) or the topics of a share. Of float32 it is not copied, and steps change
            it.
        alpha: the prior, θ ~ Gamma(α, 1).
        key: of all random numbers of the steps.
        threads: for compiled steps; they do not change the result.
        share: the topics that are here, by default all.
        start: the α that scir lowers to `alpha` in its first steps.
    """

    # The arrays of a `state`; `_theta` is its first.
    _SAVED: ClassVar[tuple[str, ...]] = ("theta", "totals")

    def __init__(
        self,
        sampler: str,
        theta: np.ndarray,
        alpha: float,
        key: Key[Array, ""],
        threads: int = 1,
        share: Share | None = None,
        start: float = 0.0,
    ) -> None:
        self.sampler, self.alpha, self.number, self.threads = sampler, alpha, 0, threads
        self._key, self._share = key, share or Share(theta.shape[1])
        self._theta = np.ascontiguousarray(theta, np.float32)
        self._totals = column_sums(self._theta)
        self._prepare(start)

    @abstractmethod
    def _prepare(self, start: float) -> None:
        """Add what a sampler has besides θ."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The numbers of words and topics."""
        return self._theta.shape

    @property
    def totals(self) -> np.ndarray:
        """θ_k· (K,), or its expectation given all draws so far."""
        return self._totals

    def rows(self, words: np.ndarray) -> np.ndarray:
        """θ of these words (U, K)."""
        return self._theta[words]

    def all_rows(self) -> np.ndarray:
        """θ (V, K)."""
        return self._theta

    @abstractmethod
    def step(
        self, words: np.ndarray, counts: np.ndarray, h: float, friction: float, data_weight: float
    ) -> None:
        """Move θ by a step of size h given N of these words: expected counts times `data_weight` = |S|/|S̃|.

        `friction` is unused where there is no momentum.
        """

    @property
    def memory(self) -> np.ndarray | None:
        """The memory of θ, for a θ that replaces it; None where it belongs to JAX."""
        return self._theta if self._theta.flags.writeable else None

    def replace(self, theta: np.ndarray) -> None:
        """Continue from this θ (V, K), which belongs to the sampler from now on; the momentum stays."""
        self._theta = np.ascontiguousarray(theta, np.float32)
        self._totals = column_sums(self._theta)

    def state(self) -> dict[str, np.ndarray]:
        """The arrays that a resumed run needs."""
        return {name: getattr(self, f"_{name}") for name in self._SAVED} | {"number": np.asarray(self.number)}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Restore a `state`."""
        self.number = int(state["number"])
        for name in self._SAVED:
            setattr(self, f"_{name}", np.array(state[name]))
