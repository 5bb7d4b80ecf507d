"""Topics with a sampler that moves the words of a minibatch alone; others wait until they are needed."""

from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np

from fokker._core.count import Count
from fokker._core.random import fold_in
from fokker.models.topics._checks import NotFiniteError
from fokker.models.topics._sums import column_sums
from fokker.models.topics._uniform import seed_at
from fokker.models.topics.cir import transitions
from fokker.models.topics.potential import INIT_FOLD, Counts, advance, padded
from fokker.models.topics.theta import Topics

# Random streams of a step, besides the noise of the library's samplers: to update words that were not in
# recent minibatches, to move the words of the minibatch, and to read all words without moving them.
_UPDATE_STREAM, _STEP_STREAM, _READ_STREAM = 1, 2, 3
# The number folded into the key for the library's steps, so that they are independent of these streams.
_STEP_KEY_FOLD = INIT_FOLD + 1


class LazyTopics(Topics):
    r"""θ with a sampler that moves only the words of a minibatch; other words are updated when next needed.

    The drift of a word that is not in a minibatch is α - bθ, where b = 1 + N_k·/θ_k· is the same for all
    words of a topic. This is a Cox–Ingersoll–Ross process, with an exact transition over any number of steps
    (`fokker.models.topics.cir`). The cost of a step depends on the words of the minibatch, not on the
    vocabulary. θ_k· is stored as its expectation given all draws so far. It differs from the true sum by the
    noise of the words that are not up to date.
    """

    # The most steps stored before all words are updated; the largest ∫b of a step; and that over all steps
    # stored, after which the next step updates all words. exp(100 + 2·300) does not overflow in float64.
    _MAX_STEPS, _MAX_RATE, _UPDATE_RATE = 1024, 300.0, 100.0

    # The steps in which scir halves α, from its start to the α of the prior.
    _HALVING_STEPS = 50

    _SAVED = ("theta", "totals", "seen", "rate", "time")

    def _prepare(self, start: float) -> None:
        self._start_alpha = start if self.sampler == "scir" else 0.0
        self._step_alpha = self._alpha_at(0)
        self._step_key = fold_in(self._key, _STEP_KEY_FOLD)
        self._reset_clock()

    def _reset_clock(self) -> None:
        """Reset the clock of every topic, when all words are up to date."""
        V, K = self._theta.shape
        self._seen = np.zeros(V, np.int32)
        self._now = 0
        # ∫b and ∫exp(∫b) since the reset, for each topic after each step.
        self._rate, self._time = (np.zeros((self._MAX_STEPS + 1, K)) for _ in range(2))
        self._share.signal(False)

    def _signal(self) -> None:
        """Say whether the next step shall update all words, for the topics of other processes too."""
        self._share.signal(self._rate[self._now].max(initial=0) > self._UPDATE_RATE)

    def _alpha_at(self, number: int) -> float:
        """α of a step: from the start it is halved every few steps until it is that of the prior.

        With the exact transitions of a small α, a word that a topic does not use has θ of 1e-30 and less, and
        no document ever assigns the word to the topic. The start, which is random, would decide the topics.
        """
        return max(self.alpha, self._start_alpha * 0.5 ** (number // self._HALVING_STEPS))

    def _seed(self, stream: int) -> np.uint64:
        """The seed of one random stream of this step."""
        number = 4 * self.number + stream
        return seed_at(self._key, 2**64 - 1 if number == _STEP_KEY_FOLD else number)

    def _current_rows(self, words: np.ndarray, stream: int) -> tuple[np.ndarray, np.ndarray]:
        """The current θ of these words, drawn given its last stored value; and Σ_w (θ - E[θ])."""
        theta = self._theta[words]
        last_updates, which = np.unique(self._seen[words], return_inverse=True)
        is_outdated = last_updates < self._now
        if not np.any(is_outdated):
            return theta, np.zeros(theta.shape[1])
        rate, time = self._rate[self._now], self._time[self._now]
        delta = np.exp(self._rate[last_updates] - rate)
        g = (time - self._time[last_updates]) * np.exp(-rate)
        which = np.where(is_outdated[which], which, -1)
        seed = self._seed(stream)
        return theta, transitions(
            theta, self._step_alpha, None, delta, g, which, words, seed, self.threads, self._share.own.start
        )

    def rows(self, words: np.ndarray) -> np.ndarray:
        """θ of these words (U, K), updated to the current step."""
        theta, innovation = self._current_rows(words, _UPDATE_STREAM)
        self._totals += innovation
        self._theta[words] = theta
        self._seen[words] = self._now
        return theta

    def step(
        self, words: np.ndarray, counts: np.ndarray, h: float, friction: float, data_weight: float
    ) -> None:
        """Move these words now, and the others when they are next needed."""
        theta = self.rows(words)
        by_topic = column_sums(counts)
        b = 1 + by_topic / self._totals
        # Of a topic that was empty b may be very large: its θ is forgotten, by exp(-300) or more.
        rate = np.minimum(b * h, self._MAX_RATE) if self.sampler == "scir" else b * h
        delta, g = np.exp(-rate), -np.expm1(-rate) / b
        if self.sampler == "scir":
            seed = self._seed(_STEP_STREAM)
            which = np.zeros(len(words), np.int64)
            transitions(
                theta, self._step_alpha, counts, delta[None], g[None], which, words, seed, self.threads,
                self._share.own.start,
            )  # fmt: skip
            new_theta = theta
        else:
            new_theta = self._euler(theta, counts, h)
        new_sum = column_sums(new_theta)
        is_good = bool(np.all(np.isfinite(new_sum)) and np.all(rate <= self._MAX_RATE))
        self._share.check_step(is_good, NotFiniteError(self.sampler, h, self.number))
        # The totals as if no word were observed, then the correction for the words of the minibatch.
        old_sum = column_sums(self._theta[words])
        unobserved = old_sum * delta + len(words) * self._step_alpha * g
        self._totals = self._totals * delta + len(self._theta) * self._step_alpha * g
        self._totals += new_sum - unobserved
        self._theta[words] = new_theta
        self._rate[self._now + 1] = self._rate[self._now] + rate
        self._time[self._now + 1] = self._time[self._now] + np.exp(self._rate[self._now]) * np.expm1(rate) / b
        self._now += 1
        self._seen[words] = self._now
        self.number += 1
        alpha = self._alpha_at(self.number)
        if alpha != self._step_alpha or self._now == self._MAX_STEPS or self._share.is_signalled:
            self._update_all()
            self._step_alpha = alpha
        self._signal()

    def _euler(self, theta: np.ndarray, counts: np.ndarray, h: float) -> np.ndarray:
        """A step of the library's sampler for these words."""
        rows = padded(theta, 1.0)
        rest = self._totals - column_sums(rows)
        z, _ = advance(
            self.sampler,
            {"theta": jnp.asarray(rows)},
            Counts(jnp.asarray(padded(counts, 0)), jnp.asarray(rest, jnp.float32)),
            self._step_alpha,
            h,
            1.0,
            0.0,
            self._step_key,
            Count.of(self.number),
        )
        return np.asarray(z["theta"])[: len(theta)]

    def all_rows(self) -> np.ndarray:
        """The current θ (V, K). Words that are not up to date are drawn but not stored."""
        return self._current_rows(np.arange(len(self._theta)), _READ_STREAM)[0]

    def _update_all(self) -> None:
        """Update every word, and reset the clock."""
        self.rows(np.arange(len(self._theta)))
        self.replace(self._theta)

    def replace(self, theta: np.ndarray) -> None:
        """Continue from this θ (V, K), of which all words are up to date."""
        super().replace(theta)
        self._reset_clock()

    def state(self) -> dict[str, np.ndarray]:
        """The arrays that a resumed run needs."""
        return super().state() | {"now": np.asarray(self._now)}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Restore a `state`."""
        super().restore(state)
        self._now, self._step_alpha = int(state["now"]), self._alpha_at(self.number)
        self._signal()
