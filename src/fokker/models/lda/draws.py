"""Draws of the topics, stored in bounded memory for a stream of any length."""

from collections.abc import Callable

import numpy as np

_MAX_BYTES = 2**30


class TopicDraws:
    """Draws of β (V, K) from the second half of the chain so far, evenly spaced.

    Every `interval`-th step is stored. When there are `max_draws` draws, every second one is dropped and the
    interval is doubled, so that memory stays bounded. Draws of the first half, before the chain had
    converged, are dropped while it continues.
    """

    def __init__(self, words: int, topics: int, max_draws: int = 20, interval: int = 5) -> None:
        bytes_per_draw = 4 * words * topics
        self.max_draws = max(2, min(max_draws, _MAX_BYTES // bytes_per_draw))
        self.interval = interval
        self._draws: list[tuple[int, np.ndarray]] = []

    def is_due(self, step: int) -> bool:
        """Whether to store the draw after this many steps."""
        return step > 0 and step % self.interval == 0

    def offer(self, step: int, beta: Callable[[], np.ndarray]) -> bool:
        """Store `beta()` if it is due after this many steps; return whether it was."""
        if not self.is_due(step):
            return False
        self._draws = [(t, draw) for t, draw in self._draws if 2 * t >= step]
        if len(self._draws) == self.max_draws:
            self.interval *= 2
            self._draws = [(t, draw) for t, draw in self._draws if t % self.interval == 0]
            if not self.is_due(step):
                return False
        self._draws.append((step, np.asarray(beta(), np.float32)))
        return True

    @property
    def draws(self) -> list[np.ndarray]:
        """The stored draws, oldest first."""
        return [draw for _, draw in self._draws]

    @property
    def steps(self) -> list[int]:
        """The steps of the stored draws."""
        return [t for t, _ in self._draws]

    def state(self) -> dict[str, np.ndarray]:
        """The arrays that a resumed run needs."""
        shape = self._draws[0][1].shape if self._draws else (0, 0)
        stacked = np.stack(self.draws) if self._draws else np.zeros((0, *shape), np.float32)
        return {
            "steps": np.array(self.steps, np.int64),
            "draws": stacked,
            "interval": np.asarray(self.interval),
        }

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore a `state`."""
        self.interval = int(state["interval"])
        self._draws = list(zip((int(t) for t in state["steps"]), state["draws"], strict=True))
