"""The records of samplers: states, statistics of a step, and what a sampler says about itself."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxtyping import Array, Key, PyTree

from fokker._core.count import Count, no_steps
from fokker._core.state import State
from fokker.dynamics import SDE, Dynamics
from fokker.integrators import Point

if TYPE_CHECKING:
    from fokker.samplers.contract import Sampler
    from fokker.samplers.trajectory_sampler import TrajectorySampler


class Memory(NamedTuple):
    """What a sampler remembers beside its state.

    `point`: U and ∇U there, for corrections. `estimator`: what the gradient estimator remembers. `noise`: the
    running estimate of the gradient's covariance. `rows`: of `fk.lazy`, when each row was last seen.
    """

    point: Point = Point()
    estimator: PyTree[Array] = ()
    noise: PyTree[Array] = ()
    rows: PyTree[Array] = ()


class SamplerState(NamedTuple):
    """What the next step needs.

    `z`: the state of the dynamics. `step`: the number of steps taken, of 64 bits: `int(state.step)`, or
    `state.step.fold_into(key)` in a loop of your own. `memory`: what else the sampler remembers.
    """

    z: State
    step: Count
    memory: Memory = Memory()

    @classmethod
    def first(cls, z: State) -> "SamplerState":
        """Before the first step."""
        return cls(z, no_steps())

    @property
    def position(self) -> PyTree[Array]:
        """theta, or the whole state where it has no variable of that name."""
        return theta_of(self.z)


class Info(NamedTuple):
    """Statistics of a step; None where they do not apply to the sampler.

    `is_finite`: whether every number still is. `noise_shortfall`: the least eigenvalue of 2TD - εB̂ found
    below zero, 0 where there is none; below zero the step could not subtract the minibatch noise asked for.
    Of a step with a correction: `acceptance_rate`, the probability with which it was accepted, of a tree the
    mean over its points; `is_divergent`, whether the energy rose too far to be trusted; `energy`, H/T at the
    start of its trajectory; `num_integration_steps`; and for single proposals `is_accepted`, `energy_change`
    and the position `proposal`. `tree_depth`: doublings of a tree. `evaluations`: of U.
    """

    is_finite: Array
    noise_shortfall: Array | None = None
    acceptance_rate: Array | None = None
    is_divergent: Array | None = None
    energy: Array | None = None
    num_integration_steps: Array | None = None
    tree_depth: Array | None = None
    is_accepted: Array | None = None
    energy_change: Array | None = None
    proposal: PyTree[Array] | None = None
    evaluations: Array | None = None

    @property
    def stats(self) -> dict[str, Array]:
        """What a run records for every draw."""
        names = ("acceptance_rate", "is_divergent", "energy", "num_integration_steps", "tree_depth")
        values = {name: getattr(self, name) for name in names}
        return {name: value for name, value in values.items() if value is not None}


class Warmed(NamedTuple):
    """A sampler with the settings learned in warm-up, the positions of its chains, and warnings."""

    sampler: "Sampler"
    positions: PyTree[Array]
    notes: tuple[str, ...] = ()


class Stages:
    """The stages of a warm-up, none of which is noted down."""

    def __call__(self, taken: int, like: PyTree[Array], compute: Callable[[], Any]) -> Any:
        """The result of the stage that ends after `taken` steps: that of `compute()`."""
        return compute()

    def by_acceptance(
        self, sampler: "TrajectorySampler", positions: PyTree[Array], keys: Key[Array, " chains"], steps: int
    ) -> Warmed:
        """The warm-up of trajectories, of which the driver takes the steps."""
        raise ValueError(f"{sampler.name} learns its settings in fk.sample: give it a step size here.")


computed = Stages()


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

    `proposals`: a `fokker.samplers.corrected.Corrected`, whose proposals and acceptance are checked. `turn`:
    a step (theta, u) → (theta, u, log ratio) with a direction u on the unit sphere, which leads back when u
    is reversed and changes volume by the ratio. `exchange`: exchanges between two temperatures. Where all are
    None, an exact sampler is checked by averages over its own steps.
    """

    proposals: Any = None
    turn: Callable[[PyTree[Array], Array], tuple[PyTree[Array], Array, Array]] | None = None
    exchange: Exchange | None = None


def theta_of(state: PyTree[Any]) -> PyTree[Any]:
    """The variable theta of a state that has one; else the state is theta itself."""
    return state["theta"] if isinstance(state, Mapping) and "theta" in state else state
