"""From a plan to a sampler with all its settings: by trials of `fk.tune`, by warm-up, or as they are."""

import dataclasses
from collections.abc import Callable

import jax
import numpy as np
from jaxtyping import Array, Key, PyTree

from fokker._core.files import interpreting
from fokker._core.random import fold_in
from fokker.run.candidates import with_tuned
from fokker.run.description import LEARNED
from fokker.run.journal import Journal, Stage
from fokker.run.mesh import Devices
from fokker.run.plan import Plan
from fokker.run.positions import checked_positions, given_positions
from fokker.run.progress import Progress
from fokker.run.record import Learned, environment, fingerprints_to_learn
from fokker.run.start import Ready, ready
from fokker.run.store import CHECKPOINT
from fokker.run.trials import TRIED
from fokker.run.tuning import tuned
from fokker.run.warmup import warmed_up
from fokker.samplers.contract import Sampler, Stages, Warmed
from fokker.samplers.trajectory_sampler import TrajectorySampler

# Default steps of warm-up.
WARM_UP = 1000


def learn(plan: Plan) -> Ready:
    """The sampler of a plan; settings that were left open are found, or read from the run in its folder."""
    if not plan.sampler.is_automatic:
        return ready(plan, plan.sampler)
    return _by_warm_up(plan) if plan.sampler.learns else _by_trials(plan)


def _by_trials(plan: Plan) -> Ready:
    """A step size, and the friction of a sampler given by name."""
    sampler = plan.make or plan.sampler
    if plan.before is None:
        options = dataclasses.replace(plan.options, steps=TRIED, key=plan.key, progress=plan.progress)
        with _journal(plan) as journal:
            tuning = tuned(plan.target, sampler, options, journal)
        settings = {"step_size": tuning.step_size, "friction": tuning.friction}
        learned = Learned(plan.devices.by_first(lambda: settings))
    else:
        learned = _stored(plan, ())
    return ready(plan, with_tuned(sampler, **learned.tuned), learned)


def _by_warm_up(plan: Plan) -> Ready:
    """Everything that the sampler learns in the first steps of all chains together."""
    placed = ready(plan, plan.sampler).placed
    options = plan.options
    number = int(options.warm_up or WARM_UP)
    positions = checked_positions(
        placed.with_step_size(1.0), plan.target, options.init, plan.keys, options.batch_size
    )
    if plan.before is None:
        learned = Learned.by_warm_up(placed, _warmed(plan, placed, positions, number))
        settings, end = plan.devices.same((learned.settings, learned.positions))
        learned = learned._replace(settings=settings, positions=end)
    else:
        learned = _stored(plan, positions, placed)
    sampler = dataclasses.replace(placed, **learned.settings)
    return Ready(plan, sampler, sampler, options.temperature, learned, positions, number)


@jax.jit
def _keys_of_warm_up(keys: Key[Array, "chains 3"]) -> Key[Array, " chains"]:
    return jax.vmap(lambda key: fold_in(key, 1))(keys[:, 1])


def _warmed(plan: Plan, placed: Sampler, positions: PyTree[Array], number: int) -> Warmed:
    keys = _keys_of_warm_up(plan.keys)
    bar = Progress("warming up", number, compiles=True, enabled=plan.progress)
    with _journal(plan) as journal, bar:
        return placed.warm_up(positions, keys, number, _Noted(journal, bar, number, plan.devices))


@dataclasses.dataclass(frozen=True)
class _Noted(Stages):
    """Stages that are noted down in the folder of a run, and shown."""

    journal: Journal
    bar: Progress
    steps: int
    devices: Devices

    def __call__(self, taken: int, like: PyTree[Array], compute: Callable[[], Stage]) -> Stage:
        """The result of a stage, which a run that goes on reads."""
        is_known = self.journal.knows_next
        result = self.journal.stage(like, compute)
        if is_known:  # it took no time, which must not count as speed
            self.bar.start_part("warming up", self.steps, completed=taken)
        else:
            self.bar.update(taken)
        return result

    def by_acceptance(
        self, sampler: TrajectorySampler, positions: PyTree[Array], keys: Key[Array, " chains"], steps: int
    ) -> Warmed:
        """The warm-up of trajectories."""
        return warmed_up(sampler, self.devices, positions, keys, steps, self)


def _stored(plan: Plan, positions: PyTree[Array], placed: Sampler | None = None) -> Learned:
    """What the run in the folder has learned; `placed`: the sampler that warm-up changed."""
    assert plan.before is not None
    assert plan.options.folder is not None
    with interpreting(plan.options.folder / CHECKPOINT, "checkpoint of this run"):
        learned = Learned.read(plan.before.learned, plan.before.group(LEARNED), positions)
        if placed is not None:
            learned.check_like(placed, positions)
        return learned


def _journal(plan: Plan) -> Journal:
    """The results of earlier stages in the folder of the run, which the first process reads for all."""
    if plan.options.folder is None:
        return Journal()
    options, folder = plan.options, plan.options.folder
    journals: list[Journal] = []

    def open_journal() -> list[dict[str, np.ndarray]]:
        starts = given_positions(options.init, plan.keys)
        prints = fingerprints_to_learn(plan.target, plan.call.sampler, options.gradient, starts)
        description = {
            "settings": plan.settings,
            "environment": environment(),
            "fingerprints": prints,
        }
        journals.append(Journal(folder, description))
        return journals[0].known

    known = plan.devices.by_first(open_journal)
    return journals[0] if journals else Journal(known=known)
