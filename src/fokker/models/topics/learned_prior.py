r"""The prior of the mixtures of documents during a chain: which documents it is drawn from.

- Before the first step: the sample of documents that the topics start from. The draws there are exact.
- A step sees a minibatch only. The numbers N_kj and L_j of all documents (`document_prior`) are estimated
  by an average in which minibatch t has the share (t + 10)^{-0.7}, as stochastic variational inference does
  with expected counts (Hoffman et al. 2010), and γ is drawn given |S| times those of an average document.
- An exact pass draws the topics of all words with γ fixed. At its end γ is drawn given those of all its
  documents, each time before they are redrawn with β integrated out: exact Gibbs steps.
"""

from typing import Any

import numpy as np
from jaxtyping import Array, Key

from fokker.models.topics._uniform import seed_at
from fokker.models.topics.document_prior import DocumentPrior, added, counts_above

# The delay and the decay of the share of a minibatch.
_DELAY, _POWER = 10.0, 0.7
# Without exact passes, a topic is used if an average document has at least this share of it.
_MIN_SHARE = 1e-4


class LearnedPrior:
    """γ of a chain; without effect where γ is not learned.

    `prior`: the current one. `draws` (n, K) and `tokens` (n, K): γ before each draw of the topics in exact
    passes, and the number of words of each topic then.
    """

    def __init__(self, prior: DocumentPrior, key: Key[Array, ""]) -> None:
        self.prior = prior
        self._key = key
        topics = len(prior.base)
        self.draws, self.tokens = np.zeros((0, topics)), np.zeros((0, topics), np.int64)
        # `counts_above` of an average document, and of the exact pass so far.
        self._average: np.ndarray | None = None
        self._pass: np.ndarray | None = None

    @property
    def mean(self) -> np.ndarray:
        """E[γ] (K,) over the second half of these draws; the current γ if there are none."""
        return self.draws[len(self.draws) // 2 :].mean(0) if len(self.draws) else self.prior.gamma

    @property
    def num_used(self) -> np.ndarray:
        """How many topics have words, in each of the second half of the draws."""
        return np.asarray((self.tokens[len(self.tokens) // 2 :] > 0).sum(1))

    @property
    def is_used(self) -> np.ndarray:
        """Which topics (K,) have words: all, unless the prior is one that leaves topics unused.

        Those that have words in at least half of the draws of `num_used`; without exact passes, those with a
        share b_k of at least 10⁻⁴.
        """
        if self.prior.learned != "hdp":
            return np.ones(len(self.prior.base), bool)
        if not len(self.tokens):
            return self.prior.base >= _MIN_SHARE
        return np.asarray((self.tokens[len(self.tokens) // 2 :] > 0).mean(0) >= 0.5)

    def sentences(self) -> tuple[str, ...]:
        """What was learned, in words; nothing where γ is given."""
        if self.prior.learned is None:
            return ()
        draws = self.draws[len(self.draws) // 2 :] if len(self.draws) else self.prior.gamma[None]
        K = len(self.prior.base)

        def described(values: np.ndarray, form: str) -> str:
            bounds = f" ({values.min():{form}} to {values.max():{form}})" if len(values) > 1 else ""
            return f"{np.median(values):{form}}{bounds}"

        if self.prior.learned == "symmetric":
            return (f"The learned γ is {described(draws.mean(1), '.3g')} for all topics.",)
        found = [
            f"The learned γ has the sum {described(draws.sum(1), '.3g')}; its largest number is "
            f"{self.mean.max():.2g}, the median {np.median(self.mean):.2g}."
        ]
        if self.prior.learned == "hdp":
            num_used = self.num_used if len(self.tokens) else np.array([self.is_used.sum()])
            found.append(f"{described(num_used, '.0f')} of {K} topics are used.")
            if num_used.max() == K:
                found.append("The documents may need more topics than that: increase their number.")
        return tuple(found)

    def start_from(self, prior: DocumentPrior, counts: np.ndarray) -> None:
        """Continue from a prior that was learned in documents with these counts n_dk (D, K)."""
        if prior.learned is not None:
            self.prior, self._average = prior, counts_above(counts) / len(counts)

    @property
    def is_learned(self) -> bool:
        """Whether γ is learned, and not given."""
        return self.prior.learned is not None

    def step(self, counts: np.ndarray, total: float, number: int) -> None:
        """Draw γ after minibatch `number`, with n_dk (D, K), of a corpus of `total` documents."""
        if self.prior.learned is None:
            return
        self._pass = None
        self.draws, self.tokens = self.draws[:0], self.tokens[:0]
        if not np.any(counts):
            return
        average = counts_above(counts) / len(counts)
        if self._average is not None:
            share = (number + _DELAY) ** -_POWER
            average = added((1 - share) * self._average, share * average)
        self._average = average
        self.prior = self.prior.given(total * average, seed_at(self._key, number), repeats=1)

    def count(self, counts: np.ndarray) -> None:
        """Add a minibatch with n_dk (D, K) to an exact pass."""
        if self.prior.learned is not None:
            above = counts_above(counts)
            self._pass = above if self._pass is None else added(self._pass, above)

    @property
    def is_counted(self) -> bool:
        """Whether there are counts of a pass that no γ was drawn given yet."""
        return self._pass is not None

    def recount(self, above: np.ndarray) -> None:
        """Take these `counts_above` of all documents of the pass, whose topics were redrawn."""
        self._pass = above

    def end_pass(self, documents: int, total: float, number: int, tokens: np.ndarray) -> None:
        """Draw γ given a pass over this many documents, with so many words of each topic (K,).

        `number`: of the random numbers, another one for each draw.
        """
        if self.prior.learned is None:
            return
        assert self._pass is not None, "the end of a pass needs its counts: call count first"
        self._average = self._pass / documents
        self.prior = self.prior.given(total / documents * self._pass, seed_at(self._key, number))
        self._pass = None
        self.draws = np.concatenate([self.draws, self.prior.gamma[None]])
        self.tokens = np.concatenate([self.tokens, tokens[None]])

    def state(self) -> dict[str, np.ndarray]:
        """The arrays that a resumed run needs."""
        state = {"draws": self.draws, "tokens": self.tokens} | self.prior.state()
        arrays = {"average": self._average, "pass": self._pass}
        return state | {name: above for name, above in arrays.items() if above is not None}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `state`."""
        self.prior = self.prior.restored(state)
        self.draws, self.tokens = np.array(state["draws"]), np.array(state["tokens"])
        self._average, self._pass = (
            np.array(state[name]) if name in state else None for name in ("average", "pass")
        )
