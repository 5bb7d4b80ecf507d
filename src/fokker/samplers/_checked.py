"""What a sampler says about itself to `fk.check`: the dynamics that it follows, and what makes it exact."""

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxtyping import Array, PyTree

from fokker._core.state import State
from fokker.dynamics import SDE, Dynamics


class Followed(NamedTuple):
    """The continuous dynamics that the steps of a sampler approximate.

    `state`: a whole state of them, with its auxiliaries; None where the shapes are not known. `spheres`: the
    variables that are unit vectors. `is_refreshed`: whether a momentum or a direction is also drawn again
    from time to time. `notes`: what these dynamics leave out. `doubt`: why the sampler may be wrong although
    they are right.
    """

    dynamics: Dynamics | SDE
    state: State | None
    spheres: tuple[str, ...] = ()
    is_refreshed: bool = False
    notes: tuple[str, ...] = ()
    doubt: str | None = None


class Exchange(NamedTuple):
    """Exchanges of two copies: the log of their probability by the two positions, and T_hot / T_cold."""

    log_ratio: Callable[[PyTree[Array], PyTree[Array]], Array]
    warmer: Array


class Claims(NamedTuple):
    """What a sampler claims to be exact, part by part: `fk.check` compares each with the target's density.

    `proposals`: a recipe with a correction, whose proposals and acceptance are checked. `turn`: a step
    (theta, u) → (theta, u, log ratio) with a direction u on the unit sphere, which leads back when u is
    reversed and changes volume by the ratio. `exchange`: exchanges between two temperatures. Where all are
    None, an exact sampler is checked by averages over its own steps.
    """

    proposals: Any = None
    turn: Callable[[PyTree[Array], Array], tuple[PyTree[Array], Array, Array]] | None = None
    exchange: Exchange | None = None
