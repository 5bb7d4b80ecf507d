"""A block of steps of all chains as one compiled program: the interface of `Lockstep` and `Trajectories`."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax.numpy as jnp
from jaxtyping import Array, Bool, PyTree

from fokker._core.rounding import raised
from fokker.run.moments import Moments
from fokker.run.step_plan import Piece
from fokker.samplers.contract import Info, Sampler
from fokker.targets.constrained import constrained


class Chains(NamedTuple):
    """What the chains carry from step to step.

    `sound`: whether at every step so far 2TD - εB̂ was positive semidefinite and ε not negative; `stats`: what
    the last step reported, by name, within a block.
    """

    states: Any
    moments: Moments | None
    sound: Bool[Array, " chains"]
    stats: dict[str, Array]


# For every chain: whether its numbers are all finite, and whether its steps were sound.
Sound = tuple[Bool[Array, " chains"], Bool[Array, " chains"]]
# The block from a step on, of about so many steps; None where that is decided when it is asked for.
Choose = Callable[[int, int | None], Piece]


class Block(NamedTuple):
    """Steps that were sent to be computed, and what they record, of each draw."""

    piece: Piece
    sound: Sound
    out: dict[str, Any]


class Blocks(Protocol):
    """Takes block after block of steps.

    `rows`: the most draws of a block; `most`: its most steps; `chain_axis`: the axis of what is recorded that
    runs over chains, the other one of the first two runs over draws.
    """

    rows: int
    most: int
    chain_axis: int

    def send(self, first: int, steps: int, chains: Chains) -> tuple[Chains, Block]:
        """Start the block from step `first` on, of about `steps` steps; it is not waited for.

        The chains after it, whose memory may be that of the chains before.
        """

    def close(self) -> None:
        """End what was begun for the next block."""


def position_of(sampler: Sampler, state: PyTree[Array]) -> PyTree[Array]:
    """Theta as the user sees it: constrained where the target has constraints, in a dtype of NumPy."""
    return constrained(sampler.known_target, raised(sampler.position(state)))


def stats_of(sampler: Sampler, info: Info) -> dict[str, Array]:
    """What a step reports, by name: one number each."""
    stats = {name: jnp.asarray(value) for name, value in info.stats.items()}
    for name, value in stats.items():
        if value.ndim:
            raise ValueError(
                f"{name} in Info of {sampler.name} has the shape {value.shape}: a statistic is one number "
                "per step; define record for arrays."
            )
    return stats


def room_for(draws: int) -> int:
    """The least power of eight that is at least so many: each size is a program of its own."""
    return int(8 ** -(-max(0, draws - 1).bit_length() // 3))
