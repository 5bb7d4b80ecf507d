"""`fokker.sample`: many steps of many chains."""

import contextlib
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Key, PyTree

from fokker._core.checks import check_whole
from fokker._core.files import interpreting
from fokker._core.keys import checked_key, key_of_seed
from fokker._core.lock import locked
from fokker._core.paths import as_folder
from fokker._core.precision import DOUBLE, as_double, computing_in
from fokker._core.random import fold_in
from fokker._core.state import is_function
from fokker.batches import (
    WINDOWS,
    Batches,
    BatchScheme,
    BlockBatches,
    StreamBatches,
    WeightedBatches,
    WindowBatches,
)
from fokker.dynamics._dynamics import check_temperature
from fokker.gradients import Estimator
from fokker.rows import (
    in_this_precision_too,
    is_source,
    leaves,
    reading,
    refuse_stream,
    resident,
    stream_of,
)
from fokker.rows.readers import in_large_pieces, memory
from fokker.run.block import position_of
from fokker.run.cache import keep_compiled_programs
from fokker.run.folder import RunFolder, describe_theta, written_constants
from fokker.run.journal import Journal
from fokker.run.loop import Run
from fokker.run.mesh import Devices, OneDevice, devices_of
from fokker.run.plan import Plan
from fokker.run.processes import check_same_settings, check_seen_by_all, together
from fokker.run.progress import Progress
from fokker.run.record import (
    Learnt,
    environment,
    fingerprint_of_data,
    fingerprints,
    fingerprints_to_learn,
    used_settings,
    written_settings,
)
from fokker.run.starts import (
    PerChain,
    check_same_target,
    checked_positions,
    differs,
    first_states,
    given_positions,
)
from fokker.run.store import CHECKPOINT, Checkpoint, has_run, read_checkpoint
from fokker.run.trace import Origin, Trace
from fokker.run.warmup import warmed_up
from fokker.samplers._checks import no_batch
from fokker.samplers._named import by_name
from fokker.samplers.contract import Sampler, TrajectorySampler, start_chains
from fokker.samplers.plain import NO_GRADIENT
from fokker.samplers.schedules import AUTOMATIC
from fokker.targets.target import Target, TargetWithData, labels_of

# Chains of a run that says nothing of them: as many as R-hat needs to tell chains that disagree.
CHAINS = 4
# Default steps of warm-up for a sampler that learns its settings, and the most that have their own
# randomness.
WARM_UP = 1000
_LONGEST_WARM_UP = 2**30
# Bytes of the smallest draw.
_NUMBER = 4
# The default for the most steps per block.
_CHUNK = 2**24


def sample(
    target: Any,
    sampler: Sampler | str,
    *,
    init: Any,
    steps: int,
    burn_in: int = 0,
    thin: int = 1,
    chains: int | None = None,
    warm_up: int | None = None,
    batch_size: int | None = None,
    batches: Any = None,
    gradient: Estimator | None = None,
    seed: int = 0,
    key: Key[Array, ""] | None = None,
    temperature: float = 1.0,
    keep: str = "draws",
    chunk: int = _CHUNK,
    progress: bool = True,
    out: Any = None,
    mesh: Any = None,
    resume: Trace | None = None,
    precision: str | None = None,
) -> Trace:
    r"""Sample exp(-U/T) for a `fk.Density` or `fk.Posterior` with a sampler of `fk.samplers`.

    ```python
    trace = fk.sample(target, fk.samplers.sgnht(1e-3), init=jnp.zeros(50), steps=20_000, burn_in=5_000,
                      chains=4, batch_size=100)
    print(trace.summary())
    ```

    `init` is theta, the same for all chains; a function of a key that draws it for each; or
    `fk.PerChain(positions)`, a tree like theta whose leaves have a leading axis over chains. With a target of
    `fk.constrain`, `init` and the draws meet the constraints. `chains` is 4 unless given, or as many as
    `fk.PerChain` has. `steps` are taken after `burn_in`, and every `thin`-th is kept.
    Without `batch_size` every step sees all the data. With it, that many rows are drawn as `batches` says:
    "window" (the default on large data: consecutive rows of a shuffled copy,
    `fokker.batches.WindowBatches`), "replacement" (the default below a thousand batches of data),
    "no replacement" or "reshuffle" (`fokker.batches.Batches`), "blocks" (the default for large compressed
    files, and files larger than half of the memory: `fokker.batches.BlockBatches`), or, given a score for
    every datum, with probabilities proportional to the scores (`fokker.batches.WeightedBatches`). Data that
    are a stream have their own batches. `gradient` is the estimator that the batches are put into, one of
    `fk.gradients`. `keep="moments"` stores means and variances alone.
    What step t draws depends on the `seed`, or on the `key` in its place, and on t alone. Steps are taken in
    blocks of about a second, of at most `chunk` steps. Ctrl-C, or a chain that leaves the finite numbers,
    ends the run with the draws so far; the trace says so, and `trace.resume()` continues it.

    `sampler` may be the name of one: its step size and friction are then found by `fk.tune` first, and so is
    the step size of a sampler made with `step_size="auto"`. Those that learn, such as `fk.samplers.nuts()`,
    do so in `warm_up` steps of all chains together (1000 unless given), which come before `burn_in`.

    With `out`, a folder, draws are written there about every second, with the state of the chains, and
    memory does not grow with the run. A kill at any moment costs the work since then: the same call goes on
    with the run in the folder, to the bits of an uninterrupted one, and `fk.open(out)` reads what is there.
    Draws are in Zarr, as xarray and ArviZ read them. Another model, data set, sampler or setting is refused
    by name.

    With `mesh={"chains": 4, "data": 2}`, also as a text, "chains=4,data=2", or a `jax.sharding.Mesh`, eight
    devices share the work: each has a fourth of the chains and half of the rows of every batch, or of all the
    data. A third axis, `parameters`, divides theta and all that is as large. -1 stands for the devices that
    are left. The devices may be those of many processes, which
    `fk.processes.start` brought together and which all make this call; the first of them writes to `out`. The
    draws are those of one device but for the order of sums, and a run goes on with any other mesh.

    With `precision="double"`, or a target of double precision, everything is computed in it: theta, the
    data, and what the trace computes later. Otherwise JAX's own setting holds. A run in a folder keeps its
    precision.
    """
    options = {
        "init": init,
        "steps": steps,
        "burn_in": burn_in,
        "thin": thin,
        "chains": chains,
        "warm_up": warm_up,
        "batch_size": batch_size,
        "batches": batches,
        "gradient": gradient,
        "seed": seed,
        "key": key,
        "temperature": temperature,
        "keep": keep,
        "chunk": chunk,
        "progress": progress,
        "out": out,
        "mesh": mesh,
    }
    _check_options(options, resume)
    keep_compiled_programs()
    devices = devices_of(mesh)
    precision = devices.by_first(lambda: _precision_of(precision, target, out))
    with contextlib.ExitStack() as stack:
        stack.enter_context(computing_in(precision))
        options["precision"] = precision
        if precision == DOUBLE:
            target, sampler = in_this_precision_too(as_double(target)), as_double(sampler)
            options |= {"init": _in_double(init), "gradient": as_double(gradient)}
        stack.enter_context(reading())
        if devices.is_shared:
            stack.enter_context(together())
        if out is not None:
            devices.by_first(lambda: _hold(Path(out), stack))
        if out is not None and devices.is_shared:
            check_seen_by_all(Path(out))
        return prepared(target, sampler, options, resume, devices).run(progress)


def _check_options(options: dict[str, Any], resume: Any) -> None:
    """Raise for options of the wrong kind, before anything is made on the disk."""
    if options["out"] is not None:
        as_folder(options["out"], "out")
    if resume is not None and not isinstance(resume, Trace):
        raise TypeError(
            f"resume must be a trace, as trace.resume() gives it, not {resume!r}; a run in a folder goes on "
            "by fk.resume, or by the same call with out=."
        )
    check_temperature(options["temperature"])
    batch_size = options["batch_size"]
    if batch_size is not None:
        check_whole("batch_size", batch_size)


def _check_memory(plan: Plan, bytes_per_draw: int) -> None:
    """Raise where the draws of a run would not fit into the memory of the machine."""
    size = plan.steps // plan.thin * plan.chains * bytes_per_draw
    if plan.keep == "draws" and size > memory():
        raise MemoryError(
            f"steps={plan.steps:,} with thin={plan.thin} and chains={plan.chains} makes draws of at least "
            f"{size / 2**30:,.0f} GiB, but this machine has {memory() / 2**30:,.0f} GiB of memory: write "
            "them to a folder by out='folder', take a larger thin, or keep='moments'."
        )


def _precision_of(precision: str | None, target: Any, out: Any) -> str | None:
    """That of the call, or of a target of double precision, or of the run in the folder."""
    stored = [x for x in leaves(target) if is_source(x) or isinstance(x, jax.Array)]
    if precision is None and any(x.dtype == np.float64 for x in stored):
        return DOUBLE
    if precision is None and out is not None and has_run(Path(out)):
        return read_checkpoint(Path(out)).description["settings"].get("precision")
    return precision


def _in_double(init: Any) -> Any:
    """The start in double precision, also where a function draws it."""
    if isinstance(init, PerChain):
        return PerChain(as_double(init.positions))
    return (lambda key: as_double(init(key))) if is_function(init) else as_double(init)


def _hold(folder: Path, stack: contextlib.ExitStack) -> None:
    """Hold the folder of a run, made where there is none, until the end of the stack."""
    folder.mkdir(parents=True, exist_ok=True)
    stack.enter_context(locked(folder))


def prepared(
    target: Any,
    sampler: Any,
    options: dict[str, Any],
    resume: Trace | None = None,
    devices: Devices | None = None,
    is_compared_only: bool = False,
) -> Run:
    """The run of `sample`, with its options by name, after tuning and warm-up and before the first step.

    `is_compared_only`: there is a run in its folder, which is compared with it and not written to.
    """
    devices = devices or OneDevice()
    given = dict(options)
    init, chains, seed, key = (options[name] for name in ("init", "chains", "seed", "key"))
    steps, burn_in, warm_up = (options[name] for name in ("steps", "burn_in", "warm_up"))
    batch_size, batches, gradient = (options[name] for name in ("batch_size", "batches", "gradient"))
    temperature, progress, out = (options[name] for name in ("temperature", "progress", "out"))
    progress = progress and devices.is_first
    if chains is None:
        options["chains"] = given["chains"] = chains = init.number if isinstance(init, PerChain) else CHAINS
    key = checked_key(key)
    plan = Plan(steps, burn_in, options["thin"], chains, options["chunk"], options["keep"])
    devices.check(chains, batch_size)
    if out is None:
        _check_memory(plan, _NUMBER)  # before anything is learnt: a draw has one number at least
    before = None
    if out is not None:
        before = devices.by_first(lambda: read_checkpoint(Path(out)) if has_run(Path(out)) else None)
    make = by_name(sampler) if isinstance(sampler, str) else None
    chosen: Any = sampler if make is None else make(step_size=AUTOMATIC)
    if not isinstance(sampler, Sampler | str):
        hint = "; call it, as in fk.samplers.sgld(1e-3)" if callable(sampler) else ""
        raise TypeError(f"the sampler must be one of fk.samplers, not {type(sampler).__name__}{hint}.")
    run_key = key_of_seed(seed) if key is None else key
    batch = make_batches(target, batch_size, batches, gradient, run_key)
    # Windows have their own copy, and of a mesh each device its part: the data are on the device once.
    if not isinstance(batch, WindowBatches) and (batch is not None or devices.mesh is None):
        target = resident(target)
    if devices.is_shared and isinstance(batch, StreamBatches):
        raise ValueError(
            "the batches of a stream cannot be divided among processes, each of which has its own stream: "
            "give the data as arrays or files, or one process."
        )
    if chosen.learns:  # which needs the whole target
        refuse_stream(target.data if isinstance(target, TargetWithData) else None)
    if chosen.wants_target and not chosen.takes_batches:
        no_batch(chosen, batch)
    learns = chosen.is_automatic and chosen.learns
    if warm_up is not None and not learns:
        raise ValueError(
            "warm_up is for samplers that learn their settings, with step_size='auto'; for this one give "
            "burn_in."
        )
    if warm_up is not None and (not isinstance(warm_up, int | np.integer) or warm_up < 1):
        raise ValueError(
            f"warm_up must be a whole number of at least 1; {warm_up!r} was given. With a step_size given to "
            "the sampler there is none."
        )
    if warm_up is not None and warm_up > _LONGEST_WARM_UP:
        raise ValueError(f"warm_up is at most {_LONGEST_WARM_UP:,} steps; {warm_up:,} were given.")
    if chosen.is_automatic and not chosen.wants_target:
        raise ValueError("a sampler made of dynamics needs a step size that is a number or a schedule.")
    learnt_before = {} if before is None else before.description.get("learnt", {})
    if (
        before is not None
        and chosen.is_automatic
        and not learnt_before.get("settings" if learns else "tuned")
    ):
        # A run that was given its step size, or a saved trace.
        raise ValueError(
            f"{out} has another run in it: no step size was found there in the way of this sampler. Give the "
            "same sampler and step size to go on with it, another folder, or --overwrite at the command line."
        )
    if devices.is_shared:
        settings = written_settings(given, run_key)
        check_same_settings({**settings, "fingerprint of the data": fingerprint_of_data(target)})
    learnt = Learnt()
    keys = jax.random.split(run_key, (chains, 3))
    journal = Journal()
    if out is not None and before is None and chosen.is_automatic:
        journals: list[Journal] = []

        def open_journal() -> list[dict[str, np.ndarray]]:
            prints = fingerprints_to_learn(target, sampler, gradient, given_positions(init, keys))
            settings = written_settings(given, run_key)
            journals.append(
                Journal(
                    Path(out), {"settings": settings, "environment": environment(), "fingerprints": prints}
                )
            )
            return journals[0].known

        known = devices.by_first(open_journal)
        journal = journals[0] if journals else Journal(known=known)
    if not learns and (make is not None or chosen.is_automatic):
        from fokker.run.tuning import TRIED, tuned, with_tuned

        if before is None:
            shared = ("batch_size", "batches", "gradient", "temperature")
            of_trials = {"key": run_key, **{name: options[name] for name in shared}}
            with journal:
                tuning = tuned(target, make or chosen, init, None, None, TRIED, of_trials, progress, journal)
            found = {"step_size": tuning.step_size, "friction": tuning.friction}
            learnt = Learnt(devices.by_first(lambda: found))
        else:
            with interpreting(Path(out) / CHECKPOINT, "checkpoint of this run"):
                learnt = Learnt.read(before.description["learnt"], {}, ())
        chosen = with_tuned(make or chosen, **learnt.tuned)
    if burn_in + steps <= chosen.gathering_steps:
        raise ValueError(
            f"this sampler stands still for its first {chosen.gathering_steps} steps, while it gathers "
            f"gradients; burn_in={burn_in} and steps={steps} would end before it moves: take more."
        )
    placed = chosen
    if not chosen.wants_target:
        if gradient is not None or (batch is not None and not chosen.takes_batches):
            raise ValueError(NO_GRADIENT)
        own = float(chosen.own_temperature)
        if temperature not in (1.0, own):
            raise ValueError(
                f"this sampler was made of dynamics at temperature {own:g}; give temperature={temperature} "
                "to them, not to fk.sample."
            )
        temperature = own
        check_same_target(target, chosen.own_dynamics, init)
    else:
        placed = chosen.on(target, temperature, gradient)
    one_start = init.one_start if isinstance(init, _Started) else chains > 1 and not differs(init)
    if learns:
        positions = checked_positions(placed.with_step_size(1.0), target, init, keys, batch_size)
        if before is None:
            warm_up_keys = jax.vmap(lambda key: fold_in(key, 1))(keys[:, 1])
            by_windows = isinstance(placed, TrajectorySampler)
            learn = partial(warmed_up, placed, devices) if by_windows else placed.warm_up
            number = int(warm_up or WARM_UP)
            with journal, Progress("warming up", number, enabled=progress) as bar:

                def stage(taken: int, like: Any, compute: Callable[[], Any]) -> Any:
                    result = journal.stage(like, compute)
                    bar.update(taken)
                    return result

                warmed = learn(positions, warm_up_keys, number, stage)
            learnt = Learnt.by_warm_up(placed, warmed)
            settings, positions_there = devices.same((learnt.settings, learnt.positions))
            learnt = learnt._replace(settings=settings, positions=positions_there)
        else:
            with interpreting(Path(out) / CHECKPOINT, "checkpoint of this run"):
                learnt = Learnt.read(before.description["learnt"], before.group("learnt"), positions)
                learnt.check_like(placed, positions)
        chosen = placed = dataclasses.replace(placed, **learnt.settings)
        # A second run with these settings starts where warm-up ended.
        options |= {"init": _Started(learnt.positions, learnt.notes, one_start), "warm_up": None}
    start = options["init"]
    notes = start.notes if isinstance(start, _Started) else ()
    if resume is not None:
        states = resume.state
    else:
        with devices.starting():
            if isinstance(start, _Started):
                states = start_chains(placed, start.positions_of(chains), keys[:, 1])
            else:
                states = first_states(placed, target, start, keys, batch_size)

    origin = Origin(target, placed, batch, {**options, "sampler": chosen}, notes, one_start)
    folder = None
    one = jax.tree.map(lambda x: x[0], states)
    if out is None:
        _check_memory(plan, sum(x.nbytes for x in jax.tree.leaves(one.position)))
    else:
        starts = positions if learns else states.position
        call = Origin(target, sampler, None, given)
        opened: list[RunFolder] = []

        def open_folder() -> Checkpoint | None:
            text, arrays = learnt.written()
            arrays |= written_constants(target.known_data() if isinstance(target, Target) else {})
            description = {
                "settings": written_settings(given, run_key),
                "environment": environment(),
                "fingerprints": fingerprints(target, placed, batch, states, starts),
                "learnt": text,
                "used": used_settings(placed, plan.chains, temperature),
                "notes": list(notes),
                "one_start": one_start,
                "labels": labels_of(target).written(),
                "theta": describe_theta(jax.eval_shape(partial(position_of, placed), one)),
            }
            opened.append(RunFolder(Path(out), description, arrays, call, is_compared_only))
            return opened[0].checkpoint

        checkpoint = devices.by_first(open_folder)
        folder = opened[0] if opened else RunFolder.follow(Path(out), checkpoint, call)
    return Run(placed, batch, plan, keys[:, 2], states, temperature, origin, resume, folder, devices)


@dataclass(frozen=True)
class _Started:
    """Positions of the chains after warm-up, in the sampler's coordinates, and warnings from warm-up."""

    positions: PyTree[Array]
    notes: tuple[str, ...]
    one_start: bool

    def positions_of(self, chains: int) -> PyTree[Array]:
        """Positions of `chains` chains: a second run may have more, or fewer, than were warmed up."""
        return jax.tree.map(lambda x: x[np.arange(chains) % x.shape[0]], self.positions)


def _shuffle_key(key: Key[Array, ""]) -> Key[Array, ""]:
    # fold_in(key, n) is the n-th of the keys that split(key) gives: a number that no chain reaches.
    return jax.random.fold_in(key, np.uint32(2**32 - 1))


def make_batches(
    target: Any, batch_size: int | None, kind: Any, gradient: Any, key: Key[Array, ""]
) -> BatchScheme | None:
    """How rows are drawn, or None where every step uses all rows."""
    stream = stream_of(target.data) if isinstance(target, TargetWithData) else None
    if stream is not None:
        if batch_size is not None or kind is not None:
            raise ValueError(
                f"the data are a stream, whose batches have {stream.batch_size} rows already: leave "
                "batch_size and batches out, or change the stream."
            )
        return StreamBatches(stream.size, stream.batch_size)
    if batch_size is None:
        if gradient is not None or kind is not None:
            raise ValueError("gradient and batches are about minibatches: give a batch_size with them.")
        return None
    if not isinstance(target, TargetWithData):
        raise ValueError("batch_size needs data: give a fk.Posterior as the target.")
    if kind is None:
        kind = "window" if target.size >= WINDOWS * batch_size else "replacement"
        kind = "blocks" if in_large_pieces(target.data) else kind
    if isinstance(kind, BlockBatches):
        if (kind.size, kind.batch_size) != (target.size, batch_size):
            raise ValueError(
                f"batches are of {kind.batch_size} out of {kind.size} rows; batch_size is {batch_size} and "
                f"there are {target.size} data: give BlockBatches({target.size}, {batch_size}, …)."
            )
        return kind
    if isinstance(kind, str):
        if kind == "window":
            return WindowBatches(target.data, batch_size, _shuffle_key(key))
        if kind == "blocks":
            return BlockBatches.of(target.data, batch_size)
        return Batches(target.size, batch_size, kind)
    return WeightedBatches(kind, target.size, batch_size)
