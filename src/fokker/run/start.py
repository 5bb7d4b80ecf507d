"""From a sampler with all its settings to chains in their first states, and the folder of the run."""

import dataclasses
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
from jaxtyping import Array, PyTree

from fokker._core.state import shapes_of_first, size_in_bytes
from fokker.gradients import Estimator
from fokker.run.block import position_of
from fokker.run.call import Origin
from fokker.run.description import LEARNED
from fokker.run.fixed import fixed_entries
from fokker.run.folder import RunFolder, describe_theta, written_constants, written_fixed
from fokker.run.plan import Plan, check_memory
from fokker.run.positions import WarmedUp, check_same_target, differs, first_states
from fokker.run.record import Learned, environment, fingerprints, used_settings
from fokker.run.resumed import check_same_sampler
from fokker.run.store import Checkpoint
from fokker.samplers.contract import Sampler, start_chains
from fokker.samplers.plain import NO_GRADIENT
from fokker.targets.target import Target, labels_of

# Of a sampler that was given all its settings.
_NOTHING = Learned()


class Ready(NamedTuple):
    """A sampler with all its settings.

    `sampler`: as a second run is given it; `placed`: on the target, at `temperature`. `learned`: what was
    found for it; `starts`: where warm-up began; `warm_up`: its steps.
    """

    plan: Plan
    sampler: Sampler
    placed: Sampler
    temperature: float
    learned: Learned = _NOTHING
    starts: PyTree[Array] = None
    warm_up: int | None = None


class Started(NamedTuple):
    """Chains before their first step, or as they are in a trace that goes on."""

    ready: Ready
    states: PyTree[Array]
    origin: Origin
    folder: RunFolder | None


def ready(plan: Plan, sampler: Sampler, learned: Learned = _NOTHING) -> Ready:
    """A sampler that has its settings, on the target of the plan."""
    options, gathering = plan.options, sampler.gathering_steps
    if plan.steps.total <= gathering:
        raise ValueError(
            f"this sampler stands still for its first {gathering} steps, while it gathers gradients; "
            f"burn_in={options.burn_in} and steps={options.steps} would end before it moves: take more."
        )
    if sampler.wants_target:
        placed = sampler.on(plan.target, options.temperature, options.gradient)
        _check_estimator(placed, options.gradient)
        return Ready(plan, sampler, placed, options.temperature, learned)
    if options.gradient is not None or (plan.batches is not None and not sampler.takes_batches):
        raise ValueError(NO_GRADIENT)
    own = float(sampler.own_temperature)
    if options.temperature not in (1.0, own):
        raise ValueError(
            f"this sampler was made of dynamics at temperature {own:g}; give "
            f"temperature={options.temperature} to them, not to fk.sample."
        )
    check_same_target(plan.target, sampler.own_dynamics, options.init)
    return Ready(plan, sampler, sampler, own, learned)


def _check_estimator(placed: Sampler, given: Estimator | None) -> None:
    """Raise where the steps would be those of another estimator: nothing else would tell."""
    # By their types, since `on` prepares an estimator for the target, often as another object.
    if given is None or type(placed.gradient_estimator) is type(given):
        return
    raise ValueError(
        f"the sampler {placed.name} does not use the {type(given).__name__} that was given as gradient: "
        "leave gradient out; or let the sampler's method on keep gradient.on(target) in a field estimator, "
        "by whose gradient(…) it steps (docs/own_sampler.md)."
    )


def start(ready: Ready) -> Started:
    """The first state of every chain, and the folder that the run is written to."""
    plan, placed, learned = ready.plan, ready.placed, ready.learned
    options, keys = plan.options, plan.keys
    init: Any = options.init
    one_start = init.one_start if isinstance(init, WarmedUp) else plan.steps.chains > 1 and not differs(init)
    if learned.settings:  # a second run with these settings starts where warm-up ended
        init = WarmedUp(learned.positions, learned.notes, one_start)
        options = dataclasses.replace(options, init=init, warm_up=None)
    if plan.call.resumed is not None:
        check_same_sampler(plan.call.resumed, ready.sampler, options)
        states = plan.call.resumed.state
    else:
        with plan.devices.starting():
            if isinstance(init, WarmedUp):
                states = start_chains(placed, init.of(plan.steps.chains), keys[:, 1])
            else:
                states = first_states(placed, plan.target, init, keys, options.batch_size)
    notes = init.notes if isinstance(init, WarmedUp) else ()
    call = plan.call.to_repeat(ready.sampler, options)
    origin = Origin(plan.target, placed, plan.batches, call, notes, one_start)
    if options.folder is None:
        position = jax.eval_shape(lambda state: state.position, shapes_of_first(states))
        check_memory(plan.steps, size_in_bytes(position))
        return Started(ready, states, origin, None)
    return Started(ready, states, origin, _opened(ready, states, origin, options.folder))


def _opened(ready: Ready, states: PyTree[Array], origin: Origin, path: Path) -> RunFolder:
    """The folder of the run, which the first process opens; raises where it has another run in it."""
    plan, placed = ready.plan, ready.placed
    opened: list[RunFolder] = []

    def open_folder() -> Checkpoint | None:
        text, arrays = ready.learned.written()
        arrays |= written_constants(plan.target.known_data() if isinstance(plan.target, Target) else {})
        theta = jax.eval_shape(partial(position_of, placed), shapes_of_first(states))
        arrays |= written_fixed(theta, fixed_entries(placed.known_target, theta))
        starts = states.position if ready.starts is None else ready.starts
        description = {
            "settings": plan.settings,
            "environment": environment(),
            "fingerprints": fingerprints(plan.target, placed, plan.batches, states, starts),
            LEARNED: text,
            "used": used_settings(placed, plan.steps.chains, ready.temperature)
            | {"warm_up": ready.warm_up}
            | ({"chosen": plan.call.chosen} if plan.call.chosen else {}),
            "notes": list(origin.notes),
            "one_start": origin.one_start,
            "labels": labels_of(plan.target).written(),
            "theta": describe_theta(theta),
        }
        opened.append(RunFolder(path, description, arrays, plan.call.writes))
        return opened[0].checkpoint

    checkpoint = plan.devices.by_first(open_folder)
    return opened[0] if opened else RunFolder.follow(path, checkpoint)
