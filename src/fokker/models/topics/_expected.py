"""The result of an E-step, and the smallest probability that it uses."""

from typing import Any, NamedTuple

import numpy as np

# Replaces zero, so that a word whose probability underflowed in every topic can still be assigned. It is
# negligible beside the probability of any other word, and its product with a small γ does not underflow.
MIN_PROBABILITY = 1e-30


class ExpectedCounts(NamedTuple):
    """`counts` (U, K): E[n_kw], summed over documents. `mixtures` (D, K): E[n_dk].

    `z`: the topics of the last sweep, one per token; None where nobody asked for them.
    """

    counts: Any
    mixtures: Any
    z: Any = None


def averaged(
    counts: np.ndarray,
    mixtures: np.ndarray,
    num_sweeps: int,
    sample: bool = False,
    z: np.ndarray | None = None,
) -> ExpectedCounts:
    """Expectations of counts that were summed over so many sweeps; of a `sample`, n_kw are those of one."""
    num_counted = np.float32(1 if sample else num_sweeps)
    return ExpectedCounts(
        counts.astype(np.float32) / num_counted, mixtures.astype(np.float32) / np.float32(num_sweeps), z
    )
