"""The result of an E-step, and the smallest probability that it uses."""

from typing import Any, NamedTuple

# Replaces zero, so that a word whose probability underflowed in every topic can still be assigned. It is
# negligible beside the probability of any other word, and its product with a small γ does not underflow.
MIN_PROBABILITY = 1e-30


class ExpectedCounts(NamedTuple):
    """`counts` (U, K): E[n_kw], summed over documents. `mixtures` (D, K): E[n_dk].

    `last` (D, K): n_dk of the last sweep, one draw of the topics.
    """

    counts: Any
    mixtures: Any
    last: Any
