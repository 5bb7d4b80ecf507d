"""What every E-step hands back, and the least probability that it works with."""

from typing import Any, NamedTuple

# In place of zero, so that a word that has underflowed in every topic still has a topic to go to; beside the
# probability of any other word it is nothing, and its products with small γ are normal numbers.
LEAST_PROBABILITY = 1e-30


class Expected(NamedTuple):
    """`counts` (U, K): E[n_kw], summed over documents. `mixtures` (D, K): E[n_dk]."""

    counts: Any
    mixtures: Any
