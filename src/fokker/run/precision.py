"""The precision of a run: that of the call, of the target, or of the run in a folder."""

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeVar

import jax
import numpy as np

from fokker._core.precision import DOUBLE, as_double, computing_in
from fokker._core.state import is_function
from fokker.rows import in_this_precision_too, is_source, leaves
from fokker.run.call import Call
from fokker.run.positions import Init, PerChain, WarmedUp
from fokker.run.store import has_run, read_checkpoint
from fokker.targets.target import Target

if TYPE_CHECKING:
    from fokker.run.trace import Trace

_P = ParamSpec("_P")
_T = TypeVar("_T")

Precision = Literal["double"] | None


def precision_of(precision: Precision, target: Target | None, folder: Path | None = None) -> Any:
    """That of the call, or of a target of double precision, or of the run in the folder."""
    stored = [x for x in leaves(target) if is_source(x) or isinstance(x, jax.Array)]
    if precision is None and any(x.dtype == np.float64 for x in stored):
        return DOUBLE
    if precision is None and folder is not None and has_run(folder):
        return read_checkpoint(folder).description["settings"].get("precision")
    return precision


def in_precision(precision: Precision, call: Call) -> Call:
    """The call in its precision; within `computing_in(precision)`."""
    if isinstance(call.target, Target):
        call = dataclasses.replace(call, target=call.target.stored())
    if precision != DOUBLE:
        return call
    options = dataclasses.replace(
        call.options,
        init=_in_double(call.options.init),
        gradient=as_double(call.options.gradient),
        precision="double",
    )
    target, sampler = in_this_precision_too(as_double(call.target)), as_double(call.sampler)
    return dataclasses.replace(call, target=target, sampler=sampler, options=options)


def _in_double(init: Init) -> Init:
    """The start in double precision, also where a function draws it."""
    if isinstance(init, PerChain):
        return PerChain(as_double(init.positions))
    if isinstance(init, WarmedUp):
        return dataclasses.replace(init, positions=as_double(init.positions))
    return (lambda key: as_double(init(key))) if is_function(init) else as_double(init)


def in_its_precision(
    method: Callable[Concatenate["Trace", _P], _T],
) -> Callable[Concatenate["Trace", _P], _T]:
    """A method of a trace in the precision of the run: its target may be of double precision."""

    @functools.wraps(method)
    def called(trace: "Trace", /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        with computing_in(trace.settings.get("precision")):
            return method(trace, *args, **kwargs)

    return called
