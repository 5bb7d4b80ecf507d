"""Topics with a sampler of the library that moves every word at every step."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from fokker._core.count import Count
from fokker._core.random import fold_in
from fokker.models.topics._checks import NotFiniteError, check_friction
from fokker.models.topics._sums import column_sums
from fokker.models.topics.potential import INIT_FOLD, Counts, advance
from fokker.models.topics.settings import WITH_MOMENTUM
from fokker.models.topics.theta import Topics


class DenseTopics(Topics):
    """θ, and a momentum r with sghmc. The threads are JAX's own."""

    def _prepare(self, start: float) -> None:
        has_momentum = self.sampler in WITH_MOMENTUM
        self._SAVED = ("theta", "r") if has_momentum else ("theta",)  # type: ignore[misc]
        if has_momentum:
            self._r = np.asarray(jax.random.normal(fold_in(self._key, INIT_FOLD), self.shape))

    def step(
        self, words: np.ndarray, counts: np.ndarray, h: float, friction: float, data_weight: float
    ) -> None:
        """Move every word."""
        if self.sampler in WITH_MOMENTUM:
            check_friction(h, friction)
        of_all_words = np.zeros(self.shape, np.float32)
        of_all_words[words] = counts
        z, is_finite = advance(
            self.sampler,
            {name: getattr(self, f"_{name}") for name in self._SAVED},
            Counts(jnp.asarray(of_all_words), jnp.zeros(counts.shape[1])),
            self.alpha,
            h,
            data_weight,
            friction,
            self._key,
            Count.of(self.number),
        )
        self._share.check_step(bool(is_finite), NotFiniteError(self.sampler, h, self.number))
        for name, x in z.items():
            setattr(self, f"_{name}", np.asarray(x))
        self._totals = column_sums(self._theta)
        self.number += 1

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Restore a `state`, which has no sums."""
        super().restore(state)
        self._totals = column_sums(self._theta)
