"""How many words each topic has, in all documents of a pass."""

import numpy as np


class TopicTokens:
    """E[n_dk] summed over the documents of a pass, as they were when the chain used them.

    `counts` (K,) are those of the last pass that was whole, or of the first one so far.
    """

    def __init__(self, topics: int) -> None:
        # Of the pass before, and of the current one: their sums, and their numbers of documents.
        self._counts = np.zeros((2, topics))
        self._documents = np.zeros(2, np.int64)
        self._pass = 0

    def add(self, passes: np.ndarray, expected: np.ndarray) -> None:
        """Add E[n_dk] (D, K) of documents of these passes (D,), which ascend."""
        for number in np.unique(passes):
            if number > self._pass:
                self._pass = int(number)
                self._counts = np.stack([self._counts[1], np.zeros(self._counts.shape[1])])
                self._documents = np.array([self._documents[1], 0])
            is_here = passes == number
            self._counts[1] += expected[is_here].sum(0, dtype=np.float64)
            self._documents[1] += is_here.sum()

    @property
    def counts(self) -> np.ndarray:
        """E[n_k] (K,)."""
        # The current pass is whole once it has as many documents as the one before.
        return self._counts[int(self._documents[1] >= self._documents[0])]

    def state(self) -> dict[str, np.ndarray]:
        """The arrays that a resumed run needs."""
        return {"counts": self._counts, "documents": self._documents, "pass": np.asarray(self._pass)}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore a `state`; a checkpoint of an older version has none."""
        if state:
            self._counts, self._documents = np.array(state["counts"]), np.array(state["documents"])
            self._pass = int(state["pass"])
