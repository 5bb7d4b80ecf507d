"""The plan of a run."""

from dataclasses import dataclass

from fokker._core.checks import check_whole


@dataclass(frozen=True)
class Plan:
    """The plan of a run, checked before anything is compiled. `chunk`: the most steps per block."""

    steps: int
    burn_in: int
    thin: int
    chains: int
    chunk: int
    keep: str

    def __post_init__(self) -> None:
        for name, least in (("steps", 1), ("burn_in", 0), ("thin", 1), ("chains", 1), ("chunk", 1)):
            value = getattr(self, name)
            check_whole(name, value, least)
        if self.steps % self.thin:
            raise ValueError(f"steps={self.steps} is not a multiple of thin={self.thin}.")
        if self.keep not in ("draws", "moments"):
            raise ValueError(f"keep is 'draws' or 'moments', not {self.keep!r}.")

    def piece(self, done: int, most: int, rows: int) -> tuple[int, int, bool]:
        """(draws, steps per draw, whether they are kept) of the block after `done` steps, of about `most`.

        Burn-in is one draw that is not kept; so is a part of the steps of a draw that takes more than `most`.
        """
        if done < self.burn_in:
            return 1, min(self.burn_in - done, most), False
        taken = done - self.burn_in
        left_of_draw = self.thin - taken % self.thin
        if left_of_draw < self.thin or self.thin > most:
            length = min(left_of_draw, most)
            return 1, length, length == left_of_draw
        draws = min((self.steps - taken) // self.thin, max(1, most // self.thin), rows)
        return draws, self.thin, True
