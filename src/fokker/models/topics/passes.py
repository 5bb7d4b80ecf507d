"""Where documents are in their passes, and which passes are exact."""

from dataclasses import dataclass

import numpy as np


@dataclass
class PassPlan:
    """Passes over a corpus, of which the last `num_exact` are exact.

    Args:
        passes: their number; None for no end.
        num_exact: how many of them are exact.
        length: the documents of one pass; None as long as nobody knows.
        position: how many documents were read so far, in all passes.
        exact_from: passes that began before this position are not exact: some of their documents have moved
            the topics.
    """

    passes: int | None
    num_exact: int = 0
    length: int | None = None
    position: int = 0
    exact_from: int = 0

    @property
    def end(self) -> int | None:
        """Documents of all passes; None where it goes on for ever, or nobody knows yet."""
        return None if self.passes is None or self.length is None else self.passes * self.length

    @property
    def is_complete(self) -> bool:
        """Whether all passes were made, as far as is known."""
        return self.end is not None and self.position >= self.end

    @property
    def exact_pass(self) -> int | None:
        """The number of the exact pass at this position, counted from 0; None if the pass is not exact."""
        if self.passes is None or self.length is None:
            return None
        number = self.position // self.length - (self.passes - self.num_exact)
        is_whole = self.position // self.length * self.length >= self.exact_from
        return number if number >= 0 and is_whole else None

    @property
    def next_pass(self) -> int:
        """The position at which the next pass begins."""
        assert self.length is not None
        return (self.position // self.length + 1) * self.length

    @property
    def exact_end(self) -> int | None:
        """The position at which this pass ends, if it or the next one is exact."""
        if self.passes is None or self.length is None:
            return None
        first_exact = (self.passes - self.num_exact) * self.length
        return self.next_pass if self.next_pass >= first_exact else None

    @property
    def is_first_read(self) -> bool:
        """Whether the first pass is over, as far as is known."""
        return self.length is not None and self.position >= self.length

    def is_in_last_pass(self, numbers: np.ndarray) -> np.ndarray:
        """Whether documents at these positions belong to the last pass."""
        if self.passes == 1:
            return np.ones(len(numbers), bool)
        if self.passes is None or self.length is None:
            return np.zeros(len(numbers), bool)
        return np.asarray(numbers >= (self.passes - 1) * self.length)
