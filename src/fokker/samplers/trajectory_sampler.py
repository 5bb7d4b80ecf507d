"""The contract of samplers whose steps are trajectories, such as those of HMC and NUTS."""

import abc
from typing import Any, Self

import jax
from jaxtyping import Array, Key, PyTree

from fokker._core.count import Count
from fokker._core.types import Arrays, Number
from fokker.samplers._checks import no_batch
from fokker.samplers.contract import Info, Sampler, Stages, Warmed, computed
from fokker.samplers.schedules import step_size_at


class TrajectorySampler(Sampler):
    """A sampler whose step may be a trajectory of any number of moves.

    `advance` is: `start`, `move` until `is_done`, `end`. Where `has_trajectories`, no chain of a run waits
    for another's trajectory to end, and its steps see the whole target. With `learns`, warm-up sets the
    `step_size` for a mean `acceptance_rate` of `target_accept`; and the `mass_matrix`, where that is the name
    of a kind.
    """

    # The mean acceptance rate for which warm-up sets the step size.
    target_accept = 0.8

    @property
    def has_trajectories(self) -> bool:  # type: ignore[override]
        """Whether a step takes more than one move."""
        return True

    @abc.abstractmethod
    def start(self, draws: PyTree[Array], state: PyTree[Array]) -> Any:
        """A trajectory from a state."""

    @abc.abstractmethod
    def move(self, trajectory: PyTree[Array], state: PyTree[Array]) -> Any:
        """The trajectory that started at `state` after one more move."""

    @abc.abstractmethod
    def is_done(self, trajectory: PyTree[Array]) -> Array:
        """Whether the trajectory has no move left."""

    def finish(self, trajectory: PyTree[Array], state: PyTree[Array]) -> PyTree[Array]:
        """The trajectory of one chain after all its moves."""
        return jax.lax.while_loop(lambda t: ~self.is_done(t), lambda t: self.move(t, state), trajectory)

    @abc.abstractmethod
    def end(self, trajectory: PyTree[Array], state: PyTree[Array]) -> tuple[Any, Info]:
        """The state that was chosen from the trajectory."""

    def advance(
        self, draws: Arrays, state: Arrays, batch: Arrays = None, number: Count | None = None
    ) -> tuple[Any, Info]:
        """One step with the randomness given: a whole trajectory."""
        no_batch(self, batch)
        sampler = self.at_step(state.step if number is None else number)
        return sampler.end(sampler.finish(sampler.start(draws, state), state), state)

    def at_step(self, number: Count | Number) -> Self:
        """The same with the step size of step `number`, where it has a schedule."""
        size = self.own_step_size
        return self.with_step_size(step_size_at(size, number)) if callable(size) else self

    def with_one_move(self) -> "TrajectorySampler":
        """The same with trajectories of a single move, by whose acceptance the first step size is found.

        By default its own trajectories.
        """
        return self

    @property
    def error_order(self) -> float:
        """The power of the step size with which the spread of log acceptance ratios grows."""
        return 2.0

    def warm_up(
        self,
        positions: PyTree[Array],
        keys: Key[Array, " chains"],
        steps: int,
        stage: Stages = computed,
    ) -> Warmed:
        """By the acceptance of its trajectories."""
        return stage.by_acceptance(self, positions, keys, steps)
