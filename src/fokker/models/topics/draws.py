"""Draws of the topics, stored in bounded memory for a stream of any length."""

import math
from collections.abc import Callable

import numpy as np

from fokker._core.digits import percent

_MAX_BYTES = 2**30


def draws_needed(probability: float) -> int:
    """The fewest draws n whose smallest and largest values have at least this probability between them."""
    return math.ceil(2 / (1 - probability) - 1 - 1e-9)


def attainable_probability(draws: int) -> float:
    """The probability between the smallest and the largest of n draws: (n - 1)/(n + 1)."""
    return (draws - 1) / (draws + 1)


def credible_bounds(draws: np.ndarray, probability: float) -> tuple[np.ndarray, np.ndarray]:
    """Bounds over the first axis of n draws: their k-th smallest and k-th largest values.

    A further independent draw lies between them with probability 1 - 2k/(n + 1), whatever the distribution. k
    is the largest for which this is at least `probability`; raise where even 1 is too large. Bounds between
    two draws would not do for words that a topic does not use: θ extends over many orders of magnitude there.

    Where 2k draws or more are zero no draw lies below the lower bound. The upper bound is then the 2k-th
    largest value: as much probability lies above it as elsewhere lies outside of both bounds.
    """
    n = len(draws)
    if n < draws_needed(probability):
        raise ValueError(
            f"bounds of probability {probability:g} need {draws_needed(probability):,} draws, and there are "
            f"{n}: the smallest and the largest have {percent(attainable_probability(n), 1)} between them."
        )
    k = min(int((1 - probability) / 2 * (n + 1) + 1e-9), (n + 1) // 2)
    last_zero, one_sided = min(2 * k, n) - 1, max(n - 2 * k, k - 1)
    ordered = np.partition(draws, sorted({k - 1, last_zero, one_sided, n - k}), axis=0)
    return ordered[k - 1], np.where(ordered[last_zero] > 0, ordered[n - k], ordered[one_sided])


class TopicDraws:
    """Draws of β (V, K) from the second half of the chain so far, evenly spaced.

    Every `interval`-th step is stored. When there are `max_draws` draws, every second one is dropped and the
    interval is doubled, so that memory stays bounded. Draws of the first half, before the chain had
    converged, are dropped while it continues.

    Exact passes (`TopicChain.count`) replace these draws by their own: several from each of the last passes.
    """

    def __init__(self, words: int, topics: int, max_draws: int = 20, interval: int = 5) -> None:
        bytes_per_draw = 4 * words * topics
        self.max_draws = max(2, min(max_draws, _MAX_BYTES // bytes_per_draw))
        self.interval = interval
        # With each, whether the topics of the words differ from those of the draw before.
        self._draws: list[tuple[int, np.ndarray, bool]] = []
        self._is_exact = False

    def is_due(self, step: int) -> bool:
        """Whether to store the draw after this many steps."""
        return step > 0 and step % self.interval == 0

    def offer(self, step: int, beta: Callable[[], np.ndarray]) -> bool:
        """Store `beta()` if it is due after this many steps; return whether it was."""
        if not self.is_due(step):
            return False
        if self._is_exact:  # of an earlier run, which ended with exact passes
            self._draws, self._is_exact = [], False
        self._draws = [drawn for drawn in self._draws if 2 * drawn[0] >= step]
        if len(self._draws) == self.max_draws:
            self.interval *= 2
            self._draws = [drawn for drawn in self._draws if drawn[0] % self.interval == 0]
            if not self.is_due(step):
                return False
        self._draws.append((step, np.asarray(beta(), np.float32), True))
        return True

    def num_of_pass(self, number: int, passes: int) -> int:
        """How many draws the exact pass `number` of `passes` gives, counted from 0.

        The second half of the passes fills the store, with the last ones of the first half where their
        numbers do not divide: a store that is not full would have narrower bounds than it should.
        """
        num_stored_passes = passes - passes // 2
        interval = -(-num_stored_passes // self.max_draws)
        num_draws, num_later = max(1, self.max_draws // num_stored_passes), passes - 1 - number
        # Later passes would replace all draws of an early one.
        is_stored = not num_later % interval and num_later // interval * num_draws < self.max_draws
        return num_draws if is_stored else 0

    def offer_pass(
        self,
        step: int,
        number: int,
        passes: int,
        beta: Callable[[int], np.ndarray],
        has_moved: Callable[[], bool] = lambda: True,
    ) -> None:
        """Store the draws `beta(0)`, `beta(1)`, … of the exact pass `number` of `passes`.

        `has_moved`: after each of them, whether a word has another topic than for the one before.
        """
        num_draws = self.num_of_pass(number, passes)
        if not num_draws:
            return
        if not self._is_exact:
            self._draws, self._is_exact = [], True
        self._draws = self._draws[max(0, len(self._draws) + num_draws - self.max_draws) :]
        for i in range(num_draws):
            drawn, is_other = np.asarray(beta(i), np.float32), has_moved()
            # Those before were of another pass.
            self._draws.append((step, drawn, is_other or i == 0))

    @property
    def num_exact_passes(self) -> int:
        """The number of exact passes that the stored draws come from; 0 if they come from steps."""
        return len(set(self.steps)) if self._is_exact else 0

    @property
    def draws(self) -> list[np.ndarray]:
        """The stored draws, oldest first."""
        return [draw for _, draw, _ in self._draws]

    @property
    def num_assignments(self) -> int:
        """Of how many draws of the topics of the words these come."""
        return len(self._draws[:1]) + sum(is_other for _, _, is_other in self._draws[1:])

    @property
    def steps(self) -> list[int]:
        """The steps of the stored draws."""
        return [t for t, _, _ in self._draws]

    def state(self) -> dict[str, np.ndarray]:
        """The arrays that a resumed run needs."""
        shape = self._draws[0][1].shape if self._draws else (0, 0)
        stacked = np.stack(self.draws) if self._draws else np.zeros((0, *shape), np.float32)
        return {
            "steps": np.array(self.steps, np.int64),
            "draws": stacked,
            "interval": np.asarray(self.interval),
            "is_exact": np.asarray(self._is_exact),
            "is_other": np.array([is_other for _, _, is_other in self._draws], bool),
        }

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore a `state`."""
        self.interval, self._is_exact = int(state["interval"]), bool(state["is_exact"])
        steps = [int(t) for t in state["steps"]]
        # Older files have none.
        is_other = [bool(x) for x in state.get("is_other", np.ones(len(steps)))]
        self._draws = list(zip(steps, state["draws"], is_other, strict=True))
