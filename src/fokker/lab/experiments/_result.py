"""The result of an experiment: its claims with their numbers, and everything needed to repeat it."""

import dataclasses
import json
import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from fokker._core.files import write_text

RESULT_FILE = "result.json"
_PACKAGES = ("fokker", "jax", "jaxlib", "equinox", "numpy", "matplotlib")


@dataclass(frozen=True)
class Claim:
    """A statement that an experiment tests: whether it holds, and the numbers that say so."""

    claim: str
    holds: bool
    numbers: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """The outcome of one experiment.

    `settings` are the choices that it was run with, `seeds` the seeds, `figures` the names of the files that
    it wrote beside `result.json`, `entries` a list of single findings where an experiment has such a list.
    """

    name: str
    claims: Sequence[Claim]
    settings: Mapping[str, Any] = field(default_factory=dict)
    seeds: Sequence[int] = (0,)
    figures: Sequence[str] = ()
    entries: Sequence[Mapping[str, Any]] = ()
    wall_seconds: float = 0.0
    versions: Mapping[str, str] = field(default_factory=lambda: installed_versions())

    @property
    def holds(self) -> bool:
        """Whether every claim holds."""
        return all(claim.holds for claim in self.claims)

    def as_json(self) -> str:
        """The result as text that every JSON reader takes: what is not a finite number is null."""
        content = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        if not self.entries:
            del content["entries"]
        return json.dumps(plain(content), indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def write(self, out: Path) -> Path:
        """Write `result.json` into the folder `out` and return its path."""
        path = Path(out) / RESULT_FILE
        write_text(path, self.as_json())
        return path

    def table(self) -> Table:
        """The claims as a table for the terminal."""
        table = Table(title=f"{self.name} ({self.wall_seconds:.0f} s)", show_lines=True)
        table.add_column("claim", ratio=3)
        table.add_column("holds")
        table.add_column("numbers", ratio=2)
        for claim in self.claims:
            numbers = "\n".join(f"{name}: {_short(value)}" for name, value in claim.numbers.items())
            table.add_row(claim.claim, "[blue]yes[/]" if claim.holds else "[bold red]no[/]", numbers)
        return table


def installed_versions() -> dict[str, str]:
    """Versions of Python and of the packages that results depend on."""
    return {"python": platform.python_version()} | {name: version(name) for name in _PACKAGES}


def plain(value: object) -> Any:
    """`value` in the types that JSON has; NaN and the infinities, which it has not, become None."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, str | bool) or value is None:
        return value
    if isinstance(value, Sequence | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "__array__"):
        return plain(np.asarray(value).tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, int):
        return value
    raise TypeError(
        f"{type(value).__name__} has no place in a result: give numbers, text, lists or mappings."
    )


def _short(value: object) -> str:
    """A number with three digits; anything else as it is."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)
