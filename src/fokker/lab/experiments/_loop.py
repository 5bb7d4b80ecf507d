"""The one loop over chains of the experiments, in compiled programs.

`fk.sample` runs one setting at a time, stops all chains with the first one that leaves the finite numbers,
and returns draws alone. The experiments vectorise over settings as over chains, some of which are known to
blow up, and look at single steps; `fk.sample` took three times as long for the eight of `ding_fig2_mean`.
"""

from collections.abc import Callable
from typing import TypeVar

import jax
from jaxtyping import Array, PyTree

States = TypeVar("States")
# `step(states, input)`: the states one step later, and what is recorded of the step.
Step = Callable[[States, PyTree[Array]], tuple[States, PyTree[Array]]]


def in_blocks(
    step: Step[States],
    states: States,
    blocks: PyTree[Array],
    inputs: Callable[[PyTree[Array], States], PyTree[Array]],
    summary: Callable[[States, PyTree[Array]], PyTree[Array]],
) -> PyTree[Array]:
    """Take the steps of every block, and return the summaries of all blocks along a new first axis.

    `blocks`: arrays whose first axis runs over the blocks. `inputs(block, states)`: the inputs of the steps
    of a block, such as their randomness, which is drawn for all of them at once where it does not depend on
    the states. `summary(states, recorded)`: what is returned of a block, from the states after it and from
    what its steps recorded.
    """

    def one(states: States, block: PyTree[Array]) -> tuple[States, PyTree[Array]]:
        states, recorded = jax.lax.scan(step, states, inputs(block, states))
        return states, summary(states, recorded)

    return jax.lax.scan(one, states, blocks)[1]
