"""A trace in memory that is written to a new folder."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from fokker._core.lock import locked
from fokker.run.folder import RunFolder, RunState, describe_theta, written_constants, written_fixed
from fokker.run.record import environment, plain
from fokker.run.store import has_run

if TYPE_CHECKING:
    from fokker.run.trace import Trace


def write_trace(trace: "Trace", path: Path) -> None:
    """Write the draws, statistics and settings to a new folder, which `fk.open` reads."""
    numbers = {name: plain(value) for name, value in trace.settings.items()}
    settings = {n: v for n, v in numbers.items() if v is None or isinstance(v, int | float | str)}
    theta = trace.moments["mean"] if trace.draws is None and trace.moments else trace.draws
    description = {
        "settings": {**settings, "chains": len(trace.chains)},
        "environment": environment(),
        "fingerprints": {},
        "theta": describe_theta(theta),
        "labels": trace.labels.written(),
        "notes": [*trace.notes, *([trace.lost] if trace.lost else [])],
        "one_start": trace.one_start,
    }
    arrays = written_constants(trace.known_data()) | written_fixed(theta, trace.fixed_entries())
    recorded: dict[str, Any] = dict(trace.sample_stats)
    if trace.draws is not None:
        recorded["position"] = trace.draws
    moments = jax.tree.map(lambda x: x[np.asarray(trace.chains)], trace.gathered)
    path.mkdir(parents=True, exist_ok=True)
    with locked(path):
        if has_run(path):
            raise ValueError(f"{path} has a run in it already: give another folder.")
        folder = RunFolder(path, description, arrays)
        folder.add(recorded)
        folder.finish(RunState(int(trace.settings["taken"]), (), moments, trace.stopped))


def brief(trace: "Trace", *parts: str) -> str:
    """A trace in one line: these parts, its sampler where that is known, and why it was stopped."""
    sampler = trace.settings.get("sampler_name")
    ends = (sampler and f"sampler: {sampler}", trace.stopped and f"stopped: {trace.stopped}")
    return f"Trace({', '.join([*parts, *filter(None, ends)])})"
