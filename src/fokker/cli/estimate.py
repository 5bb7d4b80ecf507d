"""`fokker sample --dry-run`: what would run, how long, and how much memory and disk it would take."""

import contextlib
import dataclasses
import shutil
import sys
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rich.filesize import decimal

from fokker._core.files import DamagedFileError
from fokker._core.keys import key_of_seed
from fokker.cli.flags import translated
from fokker.cli.stored import check_same_settings
from fokker.rows import leaves
from fokker.run.api import prepared
from fokker.run.call import Call, Options
from fokker.run.candidates import with_tuned
from fokker.run.choice import chosen as choose
from fokker.run.journal import JOURNAL
from fokker.run.learn import WARM_UP
from fokker.run.step_plan import StepPlan
from fokker.run.store import draws_per_chunk, has_run, read_checkpoint
from fokker.run.tuning import time_of_tuning
from fokker.samplers import Sampler
from fokker.samplers.by_name import by_name
from fokker.samplers.schedules import AUTOMATIC
from fokker.targets import Target
from fokker.targets.target import TargetWithData

# Seconds of the trial, and the most steps of its warm-up.
_SECONDS, _WARM_UP = 0.5, 100
# A step size that leaves chains where they start: the time of a step does not depend on it.
_TINY = 1e-9
# Copies of the draws in memory while the report is made.
_COPIES = 3
# Bytes of the libraries and programs of the report, as measured.
_REPORT = 250_000_000


def estimate(
    target: Target,
    sampler: Sampler | str,
    options: Mapping[str, Any],
    out: Path,
    title: str,
    overwrite: bool = False,
    settings: Mapping[str, Any] = MappingProxyType({}),
) -> list[str]:
    """What `fk.sample` would do with these options, as lines of text. Nothing is written.

    `settings`: those of --set, which are compared with a run in the folder, as everything else is.

    A short run is measured. A sampler whose step size is tuned takes the same time per step with any, and
    trials of the search are measured beside it; one that adapts by warm-up has a short warm-up first.
    """
    decided = choose(Call(target, sampler, Options(**{**options, "out": None})))
    named: Any = decided.sampler
    is_name = isinstance(named, str)
    chosen: Any = by_name(named)(step_size=AUTOMATIC) if is_name else named
    adapts = chosen.is_automatic and chosen.learns
    tuned = chosen.is_automatic and not chosen.learns
    warm_up = int(options["warm_up"] or WARM_UP) if adapts else 0
    make = by_name(named) if is_name else chosen
    trial = with_tuned(make, _TINY, 1.0) if tuned else named
    trial_warm_up = min(warm_up, _WARM_UP) if adapts else options["warm_up"]
    call = dataclasses.replace(decided.options, warm_up=trial_warm_up, progress=False)
    start = time.monotonic()
    run = prepared(Call(target, trial, call))
    preparing = time.monotonic() - start
    speed, compiling, sizes, scalars = run.measured(_SECONDS)
    # The trial's own warm-up is part of the preparation.
    compiling += max(0.0, preparing - (trial_warm_up or 0) / speed)
    plan = run.plan
    steps = plan.burn_in + plan.steps
    taken = 0
    if has_run(out) and not overwrite:
        taken = int(read_checkpoint(out).description["taken"])
        steps, warm_up, tuned = max(0, steps - taken), 0, False
    search = _search_text(target, make, call, 1 / (speed * plan.chains)) if tuned else ""
    num_draws = plan.steps // plan.thin
    size = plan.chains * sum(sizes)
    disk = _stored_draws(num_draws, draws_per_chunk(plan.chains * max(sizes))) * size
    memory = _peak() + _COPIES * num_draws * size + _REPORT
    rows = _rows(target, decided.options.batch_size)
    lines = [
        title,
        f"target: {type(target).__name__}, {_of_data(target)}{scalars:,} "
        + ("parameter" if scalars == 1 else "parameters"),
        f"sampler: {decided.chosen or _sampler_text(named, chosen, tuned, adapts)}",
        f"chains: {plan.chains}; steps: {_steps_text(plan, warm_up)}; {num_draws:,} draws per chain are kept",
        f"rows per step: {rows}",
        "output: "
        + (_replaced(out) if overwrite else f"{out}, {output(target, sampler, options, out, settings)}"),
        f"time to the last draw: about {_time(compiling + (steps + warm_up) / speed)}: "
        + _parts(compiling, warm_up, steps, speed)
        + search,
        f"memory: about {_size(memory)}, measured in a trial, including the report; the data take "
        f"{_size(_data_bytes(target))}, the draws {_size(num_draws * size)}",
        f"disk: about {_size(disk)} for draws and checkpoints; {_size(_free(out))} free",
    ]
    if disk > _free(out):
        lines.append("the draws may not fit on the disk: take a larger --thin or another --out")
    return lines


def _stored_draws(number: int, chunk: int) -> int:
    """For how many draws there is room on the disk, where each chain keeps so many.

    Where there are whole chunks, the last one is filled up. Draws that do not fill one are in both
    checkpoints too.
    """
    chunks, rest = divmod(number, chunk)
    return (number if chunks == 0 else -(-number // chunk) * chunk) + 2 * (rest if chunks == 0 else chunk)


def _search_text(target: Target, make: Any, call: Options, seconds: float) -> str:
    """How long a step size would be searched for, where a step of one chain takes so many seconds."""
    of_trials = dataclasses.replace(call, key=key_of_seed(call.seed))
    searching, halving = time_of_tuning(target, make, of_trials, seconds)
    return (
        f"; before it about {_time(searching)} to search for a step size, and {_time(halving)} more each "
        "time it has to be halved: --step-size avoids this"
    )


def _sampler_text(sampler: Sampler | str, chosen: Sampler, tuned: bool, adapts: bool) -> str:
    name = sampler if isinstance(sampler, str) else str(chosen)
    if tuned:
        return f"{name}, its step size found by short runs first"
    return f"{name}, which adapts in warm-up" if adapts else name


def _steps_text(plan: StepPlan, warm_up: int) -> str:
    first = [
        f"{number:,} of {what}"
        for number, what in ((warm_up, "warm-up"), (plan.burn_in, "burn-in"))
        if number
    ]
    return " and ".join(first) + (", then " if first else "") + f"{plan.steps:,}"


def _replaced(out: Path) -> str:
    """What a run with --overwrite writes, and which one it replaces."""
    if not has_run(out):
        return f"{out}, a new run"
    is_finished = False
    with contextlib.suppress(DamagedFileError):  # a run that cannot be read is replaced too
        of = read_checkpoint(out).description
        is_finished = of["taken"] >= of["settings"]["burn_in"] + of["settings"]["steps"]
    return f"a new run, which replaces the {'finished ' if is_finished else ''}run in {out}"


def output(
    target: Target, sampler: Sampler | str, options: Mapping[str, Any], out: Path, settings: Mapping[str, Any]
) -> str:
    """Whether a run would start, continue the one in the folder, or be refused, by the checks of a run."""
    if not has_run(out):
        if not (out / JOURNAL).exists():
            return "a new run"
        return (
            "a new run; it continues with the stored warm-up if the model, the data and all arguments are "
            "the same, which is not compared here"
        )
    try:
        check_same_settings(out, settings)
        call = Options(**{**options, "out": out, "progress": False})
        run = prepared(Call(target, sampler, call, writes=False))
    except (ValueError, TypeError) as error:
        return f"this call would be refused: {translated(error)}"
    done, total = run.recording.done, run.plan.total
    return f"continuing the stored run, after {done:,} of {total:,} steps"


def _parts(compiling: float, warm_up: int, steps: int, speed: float) -> str:
    parts = [f"{_time(compiling)} to compile"]
    parts += [f"{_time(warm_up / speed)} for warm-up"] if warm_up else []
    parts += [f"{_time(steps / speed)} for {steps:,} steps at {_speed(speed)} per second"]
    return ", ".join(parts)


def _speed(speed: float) -> str:
    return f"{speed:,.0f}" if speed >= 100 else f"{speed:.3g}"


def _of_data(target: Target) -> str:
    return f"{target.size:,} rows of data, " if isinstance(target, TargetWithData) else ""


def _rows(target: Target, batch_size: int | None) -> str:
    if not isinstance(target, TargetWithData):
        return "all of the target"
    return f"all {target.size:,}" if batch_size is None else f"{batch_size:,} of {target.size:,}"


def _data_bytes(target: Target) -> int:
    if not isinstance(target, TargetWithData):
        return 0
    return sum(x.nbytes for x in leaves(target.data))


def _peak() -> int:
    """The most memory that this process has had, in bytes."""
    import resource  # not on Windows

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most


def _free(out: Path) -> int:
    existing = next(folder for folder in (out, *out.resolve().parents) if folder.exists())
    return shutil.disk_usage(existing).free


def _size(count: float) -> str:
    return decimal(int(count))


def _time(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.2g} s"
    return str(timedelta(seconds=round(seconds)))
