"""For which chain something is computed, where the chains of a run take their steps together."""

import jax
from jaxtyping import Array, Bool

# The name of the axis over the chains of a run in lockstep.
CHAIN = "chain of the run"


def in_this_chain(holds: Bool[Array, " chains"]) -> Bool[Array, ""]:
    """Whether it holds for the chain that takes a step; outside of steps, whether it holds for all chains."""
    try:
        return holds[jax.lax.axis_index(CHAIN)]
    except NameError:  # as JAX says that there is no such axis
        return holds.all()
