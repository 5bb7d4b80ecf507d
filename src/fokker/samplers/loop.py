"""The one loop over steps outside a run of `fk.sample`: for checks, warm-up, models, studio and experiments.

A run stores draws, reads its data, finds its step size and can be resumed: its two loops are in
`run.lockstep` and `run.trajectories`. Here there are steps alone.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
from jaxtyping import Array, PyTree

States = TypeVar("States")


def take_steps(
    step: Callable[[Any, States, Any], tuple[States, Any]],
    states: States,
    inputs: PyTree[Array],
    record: Callable[[States, Any], PyTree[Array]],
    randomness: Callable[[States, Any], tuple[Any, Any]] = lambda _, given: given,
) -> tuple[States, PyTree[Array]]:
    """The states after one step per input, and what is recorded of each step along a new first axis.

    `step(key, states, batch)`: `sampler.step`, or `sampler.advance` with draws in place of the key, of one
    chain or of many. `randomness(states, given)`: key and minibatch of a step, given its inputs, which by
    default are that pair. `record(states, info)`: what is recorded, from the states after a step and what it
    reports.
    """

    def one(states: States, given: PyTree[Array]) -> tuple[States, PyTree[Array]]:
        key, batch = randomness(states, given)
        states, info = step(key, states, batch)
        return states, record(states, info)

    return jax.lax.scan(one, states, inputs)
