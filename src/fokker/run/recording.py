"""What a run has recorded so far: its draws in memory or on disk, and the chains that were stopped."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from fokker._core.count import Count
from fokker._core.state import entry
from fokker.run.block import Block
from fokker.run.folder import RunState
from fokker.run.losses import Loss, blanked, first_unsound
from fokker.run.positions import unusable_row
from fokker.run.start import Started
from fokker.run.step_plan import Piece
from fokker.samplers.schedules import step_size_at

# Arrays of at least this many bytes are copied by several threads.
_LARGE, _COPIERS = 2**24, 4
# Steps of a schedule that are checked together.
_SCHEDULED = 2**16
# The least seconds between checkpoints, also as a multiple of the time that writing one takes.
_COMMIT_SECONDS, _COMMIT_TIMES = 1.0, 50


class Recording:
    """The draws of a run, chain × draw × …, and how far it is.

    `done`: steps taken. `losses`: the chains that were stopped. `problem`: why nothing more is recorded.
    `chain_axis`: the axis over chains of what blocks record.
    """

    def __init__(self, started: Started, done: int, losses: dict[int, Loss], chain_axis: int) -> None:
        self.plan, self.sampler = started.ready.plan.steps, started.ready.placed
        self.origin, self.folder = started.origin, started.folder
        self.done, self.losses, self._chain_axis = done, losses, chain_axis
        # A copy, to explain what went wrong: the memory of the states is reused.
        self._start = jax.tree.map(np.array, entry(started.states.position, 0))
        self.problem: str | None = None
        self.draws, self.draws_before = 0, max(0, done - self.plan.burn_in) // self.plan.thin
        self._store: Any = None
        self._next_commit = 0.0

    @property
    def is_due(self) -> bool:
        """Whether a checkpoint should follow the next block."""
        return self.folder is not None and time.monotonic() >= self._next_commit

    @property
    def gathered(self) -> dict[str, Any] | None:
        """All draws in memory; None before the first."""
        return None if self._store is None else jax.tree.map(lambda x: x[:, : self.draws], self._store)

    def add(self, block: Block, checkpoint: RunState | None) -> str | None:
        """Wait for a block, store what it recorded, and return the problem, if there is one.

        After a problem nothing more is stored. `checkpoint`: the state after it, where that is to be
        written down.
        """
        if self.problem is None:
            try:
                self.problem = self._checked(block, checkpoint)
            except BaseException as error:
                # The next block waits behind this one: its draws must not follow a gap.
                self.problem = f"writing failed: {error}"
                raise
        return self.problem

    def _checked(self, block: Block, checkpoint: RunState | None) -> str | None:
        self.done = block.piece.end
        schedule = self._lose_chains(block)
        if block.piece.is_kept:
            self._store_draws(block)
        if self.sampler.has_trajectories:
            schedule = self._wrong_schedule(block.piece)
        if schedule is None and len(self.losses) < self.plan.chains:
            if self.folder is not None and checkpoint is not None:
                before = time.monotonic()
                self.folder.commit(checkpoint._replace(losses=self.losses))
                cost = time.monotonic() - before
                cost += 0 if checkpoint.divided is None else checkpoint.divided.seconds
                self._next_commit = time.monotonic() + max(_COMMIT_SECONDS, _COMMIT_TIMES * cost)
            return None
        if schedule is not None:
            return f"{schedule}: give one whose step sizes are positive and finite"
        which = "the chain" if self.plan.chains == 1 else "every chain"
        last = max(loss.step for loss in self.losses.values())
        return f"{which} was stopped at step {last:,} ({next(iter(self.losses.values())).reason})"

    def _lose_chains(self, block: Block) -> str | None:
        """Note which chains diverged in a block; return what is wrong with the schedule of all of them."""
        finite, sound = (np.broadcast_to(np.asarray(x), self.plan.chains) for x in block.sound)
        new = [int(c) for c in np.flatnonzero(~(finite & sound)) if int(c) not in self.losses]
        if not new:
            return None
        schedule = self._wrong_schedule(block.piece)
        before = self.draws_before + self.draws
        piece = block.piece
        rows = self._by_chain(block, block.out["sound"])
        for c in new:
            draws = first_unsound(rows[c])
            step = piece.first + min(draws + 1, piece.draws) * piece.thin
            reason = schedule or self._why(bool(finite[c]))
            self.losses[c] = Loss(before + draws * piece.is_kept, step, reason)
        return schedule

    def _why(self, finite: bool) -> str:
        """Why a chain was stopped, and what to do."""
        if finite:
            return "2TD - εB̂ was not positive semidefinite: take smaller steps"
        row = unusable_row(self.origin.target, self._start) if self.sampler.wants_target else None
        return f"not finite: {row or 'take smaller steps'}"

    def _by_chain(self, block: Block, recorded: PyTree[Any]) -> PyTree[np.ndarray]:
        """What a block has recorded of its draws, chain × draw × …."""
        number = block.piece.draws
        return jax.tree.map(lambda x: np.moveaxis(np.asarray(x), self._chain_axis, 0)[:, :number], recorded)

    def _store_draws(self, block: Block) -> None:
        """Copy the draws of a block into the store, while the next block is computed."""
        number = block.piece.draws
        recorded = self._by_chain(block, block.out)
        sound = recorded.pop("sound")
        self.draws += number
        if not recorded:
            return
        if self.folder is not None:
            # For readers that do not know which chains were stopped.
            self.folder.add(jax.tree.map(lambda x: blanked(x, sound), recorded))
            return
        if self._store is None:
            total = self.plan.draws - self.draws_before
            self._store = jax.tree.map(
                lambda x: np.empty((x.shape[0], total, *x.shape[2:]), x.dtype), recorded
            )
        place = slice(self.draws - number, self.draws)
        for stored, x in zip(jax.tree.leaves(self._store), jax.tree.leaves(recorded), strict=True):
            _copy(stored[:, place], x)

    def _wrong_schedule(self, piece: Piece) -> str | None:
        """A message about the first invalid step size of a schedule in a block."""
        size: Any = self.sampler.own_step_size
        if not callable(size):
            return None
        of_steps = jax.jit(jax.vmap(lambda number: step_size_at(size, number)))
        for first in range(piece.first, piece.end, _SCHEDULED):
            numbers = np.arange(first, min(first + _SCHEDULED, piece.end), dtype=np.uint64)
            values = np.asarray(of_steps(Count.of(numbers)))
            wrong = np.flatnonzero(~((values >= 0) & np.isfinite(values)))
            if wrong.size:
                value, number = float(values[wrong[0]]), int(numbers[wrong[0]])
                return f"the schedule gave the step size {value} at step {number:,}"
        return None


def _copy(stored: np.ndarray, x: np.ndarray) -> None:
    """Copy draws into the store, large arrays by several threads."""
    if x.nbytes < _LARGE:
        stored[:] = x
        return
    parts = np.array_split(np.arange(len(x)), _COPIERS)
    slices = [slice(int(part[0]), int(part[-1]) + 1) for part in parts if part.size]
    with ThreadPoolExecutor(_COPIERS) as copiers:
        list(copiers.map(lambda part: np.copyto(stored[part], x[part]), slices))
