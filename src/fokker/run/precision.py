"""The precision of a run: that of the call, of the target, or of the run in a folder."""

from pathlib import Path
from typing import Any

import jax
import numpy as np

from fokker._core.precision import DOUBLE, as_double
from fokker._core.state import is_function
from fokker.rows import in_this_precision_too, is_source, leaves
from fokker.run.starts import PerChain
from fokker.run.store import has_run, read_checkpoint
from fokker.targets.target import Target


def precision_of(precision: str | None, target: Any, out: Any = None) -> str | None:
    """That of the call, or of a target of double precision, or of the run in the folder."""
    stored = [x for x in leaves(target) if is_source(x) or isinstance(x, jax.Array)]
    if precision is None and any(x.dtype == np.float64 for x in stored):
        return DOUBLE
    if precision is None and out is not None and has_run(Path(out)):
        return read_checkpoint(Path(out)).description["settings"].get("precision")
    return precision


def in_precision(
    precision: str | None, target: Any, sampler: Any, init: Any, gradient: Any
) -> tuple[Any, Any, Any, Any]:
    """The parts of a run in its precision; within `computing_in(precision)`."""
    target = target.stored() if isinstance(target, Target) else target
    if precision != DOUBLE:
        return target, sampler, init, gradient
    target = in_this_precision_too(as_double(target))
    return target, as_double(sampler), _in_double(init), as_double(gradient)


def _in_double(init: Any) -> Any:
    """The start in double precision, also where a function draws it."""
    if isinstance(init, PerChain):
        return PerChain(as_double(init.positions))
    return (lambda key: as_double(init(key))) if is_function(init) else as_double(init)
