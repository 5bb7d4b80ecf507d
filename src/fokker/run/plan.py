"""From a call to a plan: everything that can be checked before the sampler learns or moves."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Key

from fokker._core.keys import checked_key, key_of_seed
from fokker._core.lock import locked
from fokker._core.precision import computing_in
from fokker.batches import BatchScheme, StreamBatches, WindowBatches
from fokker.rows import categories_of, reading, refuse_stream, resident
from fokker.rows.readers import memory
from fokker.run.cache import keep_compiled_programs
from fokker.run.call import Call, Options
from fokker.run.divided import check_orbax, prepare_states
from fokker.run.mesh import Devices, devices_of
from fokker.run.minibatches import make_batches
from fokker.run.positions import Init, PerChain, WarmedUp, given_positions
from fokker.run.precision import in_precision, precision_of
from fokker.run.processes import check_same_settings, check_seen_by_all, together
from fokker.run.record import OtherRunError, fingerprint_of_data, written_settings
from fokker.run.resumed import check_continues
from fokker.run.step_plan import StepPlan
from fokker.run.store import Checkpoint, check_place, has_run, read_checkpoint
from fokker.samplers._checks import no_batch
from fokker.samplers.by_name import by_name
from fokker.samplers.contract import Sampler
from fokker.samplers.schedules import AUTOMATIC
from fokker.targets.target import Target, TargetWithData

# Chains of a run that says nothing of them: as many as R-hat needs to tell chains that disagree.
CHAINS = 4
# The most steps of warm-up that have their own randomness.
_LONGEST_WARM_UP = 2**30
# Bytes of the smallest draw.
_NUMBER = 4


@dataclass(frozen=True)
class Plan:
    """A call that was checked: its steps, its sampler, how rows are drawn, and the run in its folder.

    `sampler` is not on the target yet, and may have a step size that is to be found; `make` is its function
    where it was given by name. `keys`: three per chain, for its start, its first state and its steps.
    """

    call: Call
    steps: StepPlan
    sampler: Sampler
    make: Callable[..., Sampler] | None
    batches: BatchScheme | None
    key: Key[Array, ""]
    keys: Key[Array, "chains 3"]
    before: Checkpoint | None

    @property
    def target(self) -> Any:
        """The target, whose data are on the device where they belong there."""
        return self.call.target

    @property
    def options(self) -> Options:
        """The options, with the number of chains and of steps of burn-in."""
        return self.call.options

    @property
    def devices(self) -> Devices:
        """The devices that share the work."""
        return self.call.devices

    @property
    def progress(self) -> bool:
        """Whether this process shows the progress."""
        return self.options.progress and self.devices.is_first

    @property
    def settings(self) -> dict[str, Any]:
        """What is written down of the options."""
        return written_settings(self.options, self.key)


@contextlib.contextmanager
def entered(call: Call) -> Iterator[Call]:
    """The call on its devices, in its precision, and with its folder, which nobody else uses meanwhile."""
    keep_compiled_programs()
    options, folder = call.options, call.options.folder
    devices = devices_of(options.mesh)
    precision = devices.by_first(lambda: precision_of(options.precision, call.target, folder))
    call = dataclasses.replace(call, devices=devices)
    with contextlib.ExitStack() as stack:
        stack.enter_context(computing_in(precision))
        stack.enter_context(reading())
        if devices.is_shared:
            stack.enter_context(together())
        if folder is not None:
            devices.by_first(lambda: _hold(folder, stack))
            if devices.is_shared:
                check_seen_by_all(folder)
        yield in_precision(precision, call)


def _hold(folder: Path, stack: contextlib.ExitStack) -> None:
    """Hold the folder of a run, made where there is none, until the end of the stack."""
    folder.mkdir(parents=True, exist_ok=True)
    stack.enter_context(locked(folder))


def _checkpoint_in(folder: Path) -> Checkpoint | None:
    """The checkpoint of the run in a folder, if any; raise where none could be written there."""
    check_place(folder)
    return read_checkpoint(folder) if has_run(folder) else None


def plan(call: Call) -> Plan:
    """The plan of a call; raises where it cannot be carried out."""
    options, devices = call.options, call.devices
    folder, before = options.folder, None
    if folder is not None:
        before = devices.by_first(lambda: _checkpoint_in(folder))
    options = dataclasses.replace(options, burn_in=options.burn_in or 0)
    if options.chains is None:
        options = dataclasses.replace(options, chains=_default_chains(call, before))
    key = checked_key(options.key)
    names = [field.name for field in dataclasses.fields(StepPlan)]
    steps = StepPlan(*(getattr(options, name) for name in names))
    devices.check(steps.chains, options.batch_size)
    if devices.divides and folder is not None:
        check_orbax()
        devices.by_first(lambda: prepare_states(folder))
    if options.out is None:
        check_memory(steps, _NUMBER)  # before anything is learned: a draw has one number at least
    sampler, make = _sampler_of(call.sampler)
    key = key_of_seed(options.seed) if key is None else key
    if call.resumed is not None:
        check_continues(call.resumed, options, key)
    batches = make_batches(call.target, options.batch_size, options.batches, options.gradient, key)
    target = call.target
    # Windows have their own copy, and of a mesh each device its part: the data are on the device once.
    if not isinstance(batches, WindowBatches) and (batches is not None or devices.mesh is None):
        target = resident(target)
    keys = jax.random.split(key, (steps.chains, 3))
    call = dataclasses.replace(call, target=_labelled(target, options.init, keys), options=options)
    planned = Plan(call, steps, sampler, make, batches, key, keys, before)
    _check_data(planned)
    _check_warm_up(planned)
    _check_sampler_before(planned)
    if devices.is_shared:
        check_same_settings({**planned.settings, "fingerprint of the data": fingerprint_of_data(target)})
    return planned


def _default_chains(call: Call, before: Checkpoint | None) -> int:
    """As many as the trace that goes on, as `init` has starts, or as the run in the folder.

    That may be of another default.
    """
    if call.resumed is not None:
        return int(call.resumed.settings["chains"])
    if isinstance(call.options.init, PerChain):
        return call.options.init.number
    return CHAINS if before is None else int(before.description["settings"]["chains"])


def _labelled(target: Target | None, init: Init, keys: Key[Array, "chains 3"]) -> Any:
    """The target with the labels of the categories that index its parameters."""
    if not isinstance(target, TargetWithData) or not categories_of(target.data) or isinstance(init, WarmedUp):
        return target
    return target.labelled(jax.tree.map(lambda x: x[0], given_positions(init, keys)))


def _sampler_of(
    sampler: Sampler | Callable[..., Sampler] | str,
) -> tuple[Sampler, Callable[..., Sampler] | None]:
    """The sampler, and its function where it was given by name."""
    if isinstance(sampler, str):
        make = by_name(sampler)
        return make(step_size=AUTOMATIC), make
    if not isinstance(sampler, Sampler):
        hint = "; call it, as in fk.samplers.sgld(1e-3)" if callable(sampler) else ""
        raise TypeError(f"the sampler must be one of fk.samplers, not {type(sampler).__name__}{hint}.")
    return sampler, None


def check_memory(steps: StepPlan, bytes_per_draw: int) -> None:
    """Raise where the draws of a run would not fit into the memory of the machine."""
    size = steps.draws * steps.chains * bytes_per_draw
    if steps.keep == "draws" and size > memory():
        raise MemoryError(
            f"steps={steps.steps:,} with thin={steps.thin} and chains={steps.chains} makes draws of at least "
            f"{size / 2**30:,.0f} GiB, but this machine has {memory() / 2**30:,.0f} GiB of memory: write "
            "them to a folder by out='folder', take a larger thin, or keep='moments'."
        )


def _check_data(plan: Plan) -> None:
    """Raise where the batches are not for these processes, or not for a sampler of the whole target."""
    if plan.devices.is_shared and isinstance(plan.batches, StreamBatches):
        raise ValueError(
            "the batches of a stream cannot be divided among processes, each of which has its own stream: "
            "give the data as arrays or files, or one process."
        )
    if plan.options.batch_repeats > 1:
        _check_repeats(plan)
    if plan.sampler.learns:
        refuse_stream(plan.target.data if isinstance(plan.target, TargetWithData) else None)
    if plan.sampler.wants_target and not plan.sampler.takes_batches:
        no_batch(plan.sampler, plan.batches)
    if plan.sampler.has_trajectories and plan.batches is not None:
        raise ValueError(
            f"{plan.sampler.name} takes batches, but every move of a trajectory sees the whole target. Leave "
            "batch_size out; or say has_trajectories = False, and advance is given the batch of its step."
        )


def _check_repeats(plan: Plan) -> None:
    """Raise where steps cannot share a batch."""
    estimator, why = plan.options.gradient, plan.sampler.batches_unrepeated
    if plan.batches is None:
        why = "there are no minibatches: give a batch_size with it"
    elif estimator is not None and estimator.remembers_rows:
        why = f"{type(estimator).__name__} has the gradients of the batch's own rows, of the step before"
    if why:
        raise ValueError(f"batch_repeats={plan.options.batch_repeats} cannot be used: {why}.")


def _check_warm_up(plan: Plan) -> None:
    """Raise where there is nothing to learn, or too long a time for it."""
    warm_up = plan.options.warm_up
    is_open = plan.sampler.is_automatic
    if warm_up is not None and not (is_open and plan.sampler.learns):
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
    if is_open and not plan.sampler.wants_target:
        raise ValueError("a sampler made of dynamics needs a step size that is a number or a schedule.")


def _check_sampler_before(plan: Plan) -> None:
    """Raise where the run in the folder is by another sampler, or was given its step size."""
    if plan.before is None:
        return
    name = plan.before.description.get("used", {}).get("sampler_name", plan.sampler.name)
    if name != plan.sampler.name:
        raise OtherRunError(
            f"{plan.options.out} has another run in it: the run is by {name}; you asked for "
            f"{plan.sampler.name}. Give the same sampler to continue it, or another folder."
        )
    if not plan.sampler.is_automatic:
        return
    if not plan.before.learned.get("settings" if plan.sampler.learns else "tuned"):
        raise OtherRunError(
            f"{plan.options.out} has another run in it: its step size was given, and this sampler would "
            "search for one. Give the same sampler and step size to go on with it, or another folder."
        )
