"""The experiments of the papers, each one command: `fokker reproduce NAME`."""

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fokker._state import nearest
from fokker.experiments import errata
from fokker.experiments._result import Claim, Result

__all__ = ["EXPERIMENTS", "Claim", "Experiment", "Result", "reproduce"]


@dataclass(frozen=True)
class Experiment:
    """`run(out, quick, seeds)` writes figures into the folder `out` and returns a `Result`."""

    run: Callable[[Path, bool, int], Result]
    description: str


EXPERIMENTS: dict[str, Experiment] = {
    "errata": Experiment(
        errata.run, "the checker on every formula of the papers known to be misprinted, and on its correction"
    ),
}


def reproduce(name: str, out: str | Path, quick: bool = False, seeds: int = 1) -> Result:
    """Run the experiment `name`; write its figures and `result.json` into the folder `out`; return it all.

    `quick` shortens it to under a minute on two cores; `seeds` is how many times it is repeated.
    """
    if name not in EXPERIMENTS:
        raise ValueError(
            f"there is no experiment {name!r}.{nearest(name, list(EXPERIMENTS))} "
            f"There are: {', '.join(sorted(EXPERIMENTS))}."
        )
    if seeds < 1:
        raise ValueError(f"seeds must be at least 1; {seeds} was given.")
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    result = EXPERIMENTS[name].run(folder, quick, seeds)
    result = dataclasses.replace(result, wall_seconds=time.perf_counter() - start)
    result.write(folder)
    return result
