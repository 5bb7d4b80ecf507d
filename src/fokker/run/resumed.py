"""A trace that goes on: whether a call continues its run, or would mix two."""

from pathlib import Path
from typing import TYPE_CHECKING

from jaxtyping import Array, Key

from fokker._core.keys import checked_key, key_of_seed
from fokker.run.call import Call, Options
from fokker.run.record import OtherRunError, differences, in_words, written_settings
from fokker.samplers.contract import Sampler

if TYPE_CHECKING:
    from fokker.run.trace import Trace


def check_can_resume(trace: "Trace", out: str | Path | None) -> None:
    """Raise where there is nothing to go on with, or the draws so far would not be in the result."""
    if (path := getattr(trace, "path", None)) is not None:
        raise ValueError(
            f"the trace given as resume is that of the folder {path}: its run goes on by fk.resume, or by "
            "the same call with out= and without resume."
        )
    if trace.origin is None or trace.origin.call is None:
        raise ValueError("only a trace of fk.sample can be resumed.")
    if trace.stopped is not None and not trace.was_interrupted:
        raise ValueError(f"there is nothing to continue from: {trace.stopped}.")
    if out is not None:
        raise ValueError(
            f"out={str(out)!r} would have the new draws alone, as those of the trace given as resume are in "
            "memory: leave out= out, and write all of them by trace.save(path)."
        )


def check_continues(trace: "Trace", options: Options, key: Key[Array, ""]) -> None:
    """Raise where an option that the draws depend on is not that of the trace.

    `warm_up` is not compared: a trace has what was learned in its place, which belongs to the sampler.
    """
    before = _call_of(trace).options
    first_key = checked_key(before.key)
    first_key = key_of_seed(before.seed) if first_key is None else first_key
    earlier, now = (
        {"settings": {**written_settings(*run), "warm_up": None}, "fingerprints": {}}
        for run in ((before, first_key), (options, key))
    )
    _refuse(differences(earlier, now, programs=False))
    taken, total = trace.settings["taken"], (options.burn_in or 0) + options.steps
    if taken > total:
        raise ValueError(
            f"the trace given as resume has {taken:,} steps already, more than the {total:,} of burn_in + "
            "steps: give at least as many."
        )


def check_same_sampler(trace: "Trace", sampler: Sampler, options: Options) -> None:
    """Raise where the sampler, with all its settings, or the gradient is not that of the trace."""
    before = _call_of(trace)
    if before.sampler is sampler and before.options.gradient is options.gradient:
        return
    if in_words((before.sampler, before.options.gradient)) != in_words((sampler, options.gradient)):
        _refuse(["the sampler, or one of its settings, is another"])


def _call_of(trace: "Trace") -> Call:
    assert trace.origin is not None
    assert trace.origin.call is not None
    return trace.origin.call


def _refuse(changes: list[str]) -> None:
    if changes:
        raise OtherRunError(
            f"the trace given as resume is of another run: {'; '.join(changes)}. Give the same arguments to "
            "go on with it (trace.resume() does), or call trace.rerun(…) for a run with others."
        )
