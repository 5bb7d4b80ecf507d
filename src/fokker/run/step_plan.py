"""The steps of a run, and how they are divided into blocks."""

from dataclasses import dataclass
from typing import NamedTuple

from fokker._core.checks import check_whole

# The number that a chain's key is folded with for the stream of its batches; no step has it.
BATCHES = 2**32 - 1


class Piece(NamedTuple):
    """A block of a run: `draws` times `thin` steps from step `first` on, and whether the draws are kept."""

    first: int
    draws: int
    thin: int
    is_kept: bool

    @property
    def steps(self) -> int:
        """How many steps it takes."""
        return self.draws * self.thin

    @property
    def end(self) -> int:
        """The number of the step after it."""
        return self.first + self.steps

    def cut(self, steps: int) -> "Piece":
        """The same with at most so many steps; a part of a draw is not kept."""
        if steps >= self.steps:
            return self
        draws = steps // self.thin
        return self._replace(draws=draws) if draws else self._replace(draws=1, thin=steps, is_kept=False)


@dataclass(frozen=True)
class StepPlan:
    """How many steps are taken and kept, checked before anything is compiled.

    `chunk`: the most steps per block.
    """

    steps: int
    burn_in: int
    thin: int
    chains: int
    chunk: int
    keep: str

    def __post_init__(self) -> None:
        for name, least in (("steps", 1), ("burn_in", 0), ("thin", 1), ("chains", 1), ("chunk", 1)):
            check_whole(name, getattr(self, name), least)
        if self.steps % self.thin:
            raise ValueError(f"steps={self.steps} is not a multiple of thin={self.thin}.")
        if self.keep not in ("draws", "moments"):
            raise ValueError(f"keep is 'draws' or 'moments', not {self.keep!r}.")

    @property
    def total(self) -> int:
        """All steps, those of burn-in included."""
        return self.burn_in + self.steps

    @property
    def draws(self) -> int:
        """Draws of each chain that are kept."""
        return self.steps // self.thin

    def piece(self, done: int, most: int, rows: int) -> Piece:
        """The block after `done` steps, of about `most` steps and at most `rows` draws.

        Burn-in is one draw that is not kept; so is a part of the steps of a draw that takes more than `most`.
        """
        if done < self.burn_in:
            return Piece(done, 1, min(self.burn_in - done, most), False)
        taken = done - self.burn_in
        left_of_draw = self.thin - taken % self.thin
        if left_of_draw < self.thin or self.thin > most:
            length = min(left_of_draw, most)
            return Piece(done, 1, length, length == left_of_draw)
        draws = min((self.steps - taken) // self.thin, max(1, most // self.thin), rows)
        return Piece(done, draws, self.thin, True)
