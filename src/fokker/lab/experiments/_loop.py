"""Chains of the experiments, in blocks of steps of one compiled program.

`fk.sample` runs one setting at a time, stops all chains with the first one that leaves the finite numbers,
and returns draws alone. The experiments vectorise over settings as over chains, some of which are known to
blow up, and look at single steps; `fk.sample` took three times as long for the eight of `ding_fig2_mean`.
"""

from collections.abc import Callable
from typing import Any

from jaxtyping import Array, PyTree

from fokker.samplers.loop import States, take_steps


def in_blocks(
    step: Callable[[Any, States, Any], tuple[States, Any]],
    states: States,
    blocks: PyTree[Array],
    inputs: Callable[[PyTree[Array], States], tuple[Any, Any]],
    record: Callable[[States, Any], PyTree[Array]],
    summary: Callable[[States, PyTree[Array]], PyTree[Array]],
) -> PyTree[Array]:
    """Take the steps of every block, and return the summaries of all blocks along a new first axis.

    `blocks`: arrays whose first axis runs over the blocks. `inputs(block, states)`: the keys of the steps of
    a block, or their draws, made for all of them at once where they do not depend on the states, and the
    minibatches. `step` and `record`: as `take_steps` takes them. `summary(states, recorded)`: what is
    returned of a block, from the states after it and from what was recorded of its steps.
    """

    def steps_of(block: PyTree[Array], states: States, _: None) -> tuple[States, PyTree[Array]]:
        return take_steps(step, states, inputs(block, states), record)

    return take_steps(steps_of, states, (blocks, None), summary)[1]
