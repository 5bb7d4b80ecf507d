"""Draws of the topics, kept within a limit of memory however long the stream."""

from collections.abc import Callable

import numpy as np

_MEMORY = 2**30


class TopicDraws:
    """Draws of β (V, K) from the second half of the chain so far, evenly spaced.

    Every `interval`-th step is kept. When there are `most` draws, every other one is dropped and the interval
    is doubled, so that memory stays as it is; draws of the first half, before the chain had settled, are
    dropped as it goes on.
    """

    def __init__(self, words: int, topics: int, most: int = 20, interval: int = 5) -> None:
        bytes_each = 4 * words * topics
        self.most = max(2, min(most, _MEMORY // bytes_each))
        self.interval = interval
        self._draws: list[tuple[int, np.ndarray]] = []

    def wanted(self, step: int) -> bool:
        """Whether the draw after so many steps is to be kept."""
        return step > 0 and step % self.interval == 0

    def offer(self, step: int, beta: Callable[[], np.ndarray]) -> bool:
        """Keep `beta()` if it is wanted after so many steps; say whether it was."""
        if not self.wanted(step):
            return False
        self._draws = [(t, draw) for t, draw in self._draws if 2 * t >= step]
        if len(self._draws) == self.most:
            self.interval *= 2
            self._draws = [(t, draw) for t, draw in self._draws if t % self.interval == 0]
            if not self.wanted(step):
                return False
        self._draws.append((step, np.asarray(beta(), np.float32)))
        return True

    @property
    def draws(self) -> list[np.ndarray]:
        """The draws kept, oldest first."""
        return [draw for _, draw in self._draws]

    @property
    def steps(self) -> list[int]:
        """The steps that they are from."""
        return [t for t, _ in self._draws]

    def state(self) -> dict[str, np.ndarray]:
        """All that a resume needs."""
        shape = self._draws[0][1].shape if self._draws else (0, 0)
        stacked = np.stack(self.draws) if self._draws else np.zeros((0, *shape), np.float32)
        return {
            "steps": np.array(self.steps, np.int64),
            "draws": stacked,
            "interval": np.asarray(self.interval),
        }

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """As it was when `state` was taken."""
        self.interval = int(state["interval"])
        self._draws = list(zip((int(t) for t in state["steps"]), state["draws"], strict=True))
