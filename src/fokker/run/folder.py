"""Runs on disk: `fk.sample(…, out=…)` writes one, `fk.open` reads it, `fk.resume` goes on with it."""

import functools
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from fokker._core.count import Count
from fokker._core.files import DamagedFileError, interpreting
from fokker._core.labels import Labels, named_leaves
from fokker._core.lock import locked
from fokker._core.paths import as_path
from fokker.run.description import FIXED, POSTERIOR, STATISTICS, file_name, is_file_name
from fokker.run.journal import clear_journal
from fokker.run.losses import Loss, draws_before_end, surviving
from fokker.run.moments import Moments
from fokker.run.record import SCORES, OtherRunError, changed_environment, differences, environment, plain
from fokker.run.store import (
    CHECKPOINT,
    DESCRIPTION,
    Checkpoint,
    Store,
    has_run,
    read_checkpoint,
    read_draws,
)
from fokker.run.trace import Origin, Trace, moments_of

# The group of ArviZ for the constants of a model, and the most bytes of them in a checkpoint.
CONSTANTS, _MOST_CONSTANTS = "constant_data", 2**18


class RunFolder:
    """The folder of a run in progress: its draws and checkpoints are written there.

    `description`: settings, environment and fingerprints; `arrays`: what was learnt before the first step;
    `call`: the target, the sampler and the options as they were given, to call again. `is_compared_only`:
    nothing is written there.
    """

    def __init__(
        self,
        path: Path,
        description: dict[str, Any],
        arrays: dict[str, np.ndarray],
        call: Origin,
        is_compared_only: bool = False,
    ) -> None:
        self.path, self.description, self._arrays, self.call = path, description, arrays, call
        self.checkpoint = read_checkpoint(path) if has_run(path) else None
        if self.checkpoint is not None:
            self._check_same(self.checkpoint)
            if self.checkpoint.warning:
                warnings.warn(self.checkpoint.warning, RuntimeWarning, stacklevel=4)
            if self.checkpoint.problem and not is_compared_only:
                # The next checkpoint would put it in the place of the only one that can be read.
                (path / CHECKPOINT).unlink()
                (path / DESCRIPTION).unlink(missing_ok=True)  # of a state that is not used either
        self.store: Store | None = (
            None if is_compared_only else Store(path, self.checkpoint, _labels_of_files(description))
        )
        self._has_journal = self.checkpoint is None

    @classmethod
    def follow(cls, path: Path, checkpoint: Checkpoint | None, call: Origin) -> "RunFolder":
        """The folder of a run for a process that is not the first: it reads the state, and writes nothing."""
        folder = cls.__new__(cls)
        folder.path, folder.checkpoint, folder.call, folder.store = path, checkpoint, call, None
        return folder

    def _check_same(self, checkpoint: Checkpoint) -> None:
        before, now = checkpoint.description, self.description
        changed = changed_environment(before["environment"], now["environment"])
        if changed:
            warnings.warn(
                f"{self.path} was written in another environment ({changed}): the chains go on, but their "
                "bits may not be those of an uninterrupted run.",
                RuntimeWarning,
                stacklevel=5,
            )
        if not before["fingerprints"]:
            raise ValueError(f"{self.path} has a saved trace in it, which cannot go on: give another folder.")
        found = differences(before, now, programs=not changed)
        if found:
            raise OtherRunError(
                f"{self.path} has another run in it: {'; '.join(found)}. Give the same arguments to go on "
                "with it, or another folder."
            )
        settings = now["settings"]
        total = settings["burn_in"] + settings["steps"]
        if before["taken"] > total:
            raise ValueError(
                f"{self.path} has {before['taken']:,} steps already, more than the {total:,} of burn_in + "
                "steps: give at least as many, or read the run with fk.open."
            )
        if before["stopped"] is not None and not before["stopped"].startswith("interrupted"):
            raise ValueError(f"there is nothing to continue from in {self.path}: {before['stopped']}.")

    def restored(self, like: Any) -> Any:
        """A tree like this one, with the arrays of the checkpoint."""
        assert self.checkpoint is not None
        stored = self.checkpoint.group("state")
        leaves, structure = jax.tree.flatten(like)
        arrays = [stored.get(str(i)) for i in range(len(leaves))]
        for x, leaf in zip(arrays, leaves, strict=True):
            if x is None or x.shape != leaf.shape or x.dtype != leaf.dtype:
                raise DamagedFileError(f"the state in {self.path} is not one of this sampler.")
        return jax.tree.unflatten(structure, [jnp.asarray(x) for x in arrays])

    def add(self, recorded: dict[str, Any]) -> None:
        """Append what a block recorded, chain × draw × …."""
        if self.store is None:
            return
        stats = dict(recorded)
        positions = stats.pop("position", {})
        draws = {f"{POSTERIOR}/{name}": x for name, x in _file_names(positions).items()}
        draws |= {f"{STATISTICS}/{name}": x for name, x in stats.items()}
        if draws:
            self.store.add(draws)

    def commit(
        self,
        taken: int,
        states: Any,
        moments: Moments | None,
        stopped: str | None = None,
        losses: Mapping[int, Loss] = MappingProxyType({}),
    ) -> None:
        """Write a checkpoint after `taken` steps."""
        if self.store is None:
            return
        state = {f"state/{i}": np.asarray(x) for i, x in enumerate(jax.tree.leaves((states, moments)))}
        estimates = {}
        if moments is not None and moments_of(moments) is not None:
            trees = {"mean": moments.mean, "squares": moments.squares}
            estimates = {
                f"{kind}/{name}": np.asarray(x)
                for kind, tree in trees.items()
                for name, x in _file_names(tree).items()
            }
            estimates["moments/count"] = np.asarray(moments.count)
        lost = {str(chain): list(loss) for chain, loss in losses.items()}
        description = {**self.description, "taken": taken, "stopped": stopped, "losses": lost}
        self.store.commit(description, {**self._arrays, **state, **estimates})
        if self._has_journal:  # the checkpoint has what was learnt
            clear_journal(self.path)
            self._has_journal = False

    def finish(
        self,
        taken: int,
        states: Any,
        moments: Moments | None,
        stopped: str | None,
        losses: Mapping[int, Loss] = MappingProxyType({}),
    ) -> None:
        """Write everything that is left."""
        assert self.store is not None
        self.store.close()
        self.commit(taken, states, moments, stopped, losses)


def _file_names(tree: PyTree[Any]) -> dict[str, np.ndarray]:
    """The leaves of theta by names that can be those of files, each its own."""
    names: dict[str, np.ndarray] = {}
    for number, (leaf_name, leaf) in enumerate(named_leaves(tree).items()):
        name = file_name(leaf_name)
        names[file_name(f"{name}|{number}") if not is_file_name(name) or name in names else name] = leaf
    return names


def _labels_of_files(description: Mapping[str, Any]) -> Labels:
    """The names of axes by the names of the files of variables; without those that can name no file."""
    labels = Labels.read(description["labels"])
    names: dict[str, str] = {}
    for number, leaf in enumerate(description["theta"]):
        name = ".".join(map(str, leaf["path"])) or "theta"
        names[f"{name}|{number}" if name in names else name] = leaf["name"]
    dims = {
        names[name]: tuple(axis if is_file_name(axis) else None for axis in axes)
        for name, axes in labels.dims.items()
        if name in names
    }
    return Labels(dims, {axis: entries for axis, entries in labels.coords.items() if is_file_name(axis)})


def _entry(part: Any) -> Any:
    for attribute in ("key", "idx", "name"):
        if hasattr(part, attribute):
            value = getattr(part, attribute)
            return value if isinstance(value, int | str) else str(value)
    return str(part)


def _tree(paths: list[list[Any]], leaves: list[np.ndarray]) -> PyTree[np.ndarray]:
    """Dictionaries, and tuples where the entries are numbers, with the leaves at their paths."""
    if not paths:
        return {}
    if paths == [[]]:
        return leaves[0]
    branches: dict[Any, tuple[list[list[Any]], list[np.ndarray]]] = {}
    for path, leaf in zip(paths, leaves, strict=True):
        branch = branches.setdefault(path[0], ([], []))
        branch[0].append(path[1:])
        branch[1].append(leaf)
    made = {entry: _tree(*branch) for entry, branch in branches.items()}
    return tuple(made.values()) if all(isinstance(entry, int) for entry in made) else made


class StoredTrace(Trace):
    """A trace whose draws are on disk: they are read when they are first asked for."""

    path: Path
    _checkpoint: Checkpoint
    _structure: Any
    _call: Origin | None

    def __init__(
        self,
        path: Path,
        state: Any = None,
        origin: Origin | None = None,
        structure: Any = None,
        call: Origin | None = None,
        settings: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        checkpoint = read_checkpoint(path)
        if checkpoint.warning:
            warnings.warn(checkpoint.warning, RuntimeWarning, stacklevel=4)
        of = checkpoint.description
        values = {
            "path": path,
            "_checkpoint": checkpoint,
            "_structure": structure,
            "_call": call,
            "state": state,
            "stopped": of["stopped"] or _unfinished(of),
            "settings": {**of["settings"], **of.get("used", {}), **settings, "taken": of["taken"]},
            "origin": origin,
            "losses": checkpoint.losses,
            "record": {},
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        with interpreting(path / CHECKPOINT, "checkpoint of a run"):
            object.__setattr__(self, "gathered", self._gathered())
            object.__setattr__(self, "moments", moments_of(self.gathered, self.losses))

    def __repr__(self) -> str:
        return f"Trace({self._draws:,} draws in {self.path}, stopped={self.stopped!r})"

    @property
    def cautions(self) -> tuple[str, ...]:
        """Without its model the draws can be compared with each other alone."""
        if self.origin is not None and self.origin.target is not None:
            return ()
        return (
            "the model is not known here, so that the spread of the draws was not compared with the "
            "target's: fk.resume or `fokker resume` does that",
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Problems found in warm-up."""
        return tuple(self._checkpoint.description["notes"])

    @property
    def one_start(self) -> bool:
        """Whether all chains started at one point."""
        return bool(self._checkpoint.description["one_start"])

    @functools.cached_property
    def labels(self) -> Labels:
        """Names of the axes of parameters, and of the entries along them; older runs have none."""
        text = self._checkpoint.description.get("labels", {"dims": {}, "coords": {}})
        try:
            return Labels.read(text)
        except ValueError as error:
            raise DamagedFileError(f"in {self.path}, {error}: restore the folder, or run again.") from error

    def fixed_entries(self) -> dict[str, np.ndarray]:
        """Where leaves of theta have entries that are constant by construction; older runs do not say it."""
        stored = self._checkpoint.group(FIXED)
        if not stored:
            return super().fixed_entries()
        nowhere = {leaf["name"]: np.zeros((), bool) for leaf in self._checkpoint.description["theta"]}
        masks, theta = (named_leaves(tree) for tree in (self._tree({**nowhere, **stored}), self._shapes()))
        return {name: mask for name, mask in masks.items() if mask.shape == theta[name].shape}

    def known_data(self) -> dict[str, dict[str, Any]]:
        """What the model was given; without the model, the constants that are in the folder."""
        constants = self._checkpoint.group(CONSTANTS)
        return super().known_data() or ({CONSTANTS: constants} if constants else {})

    @property
    def has_results(self) -> bool:
        """Whether there are draws or moments, without reading them."""
        return self._draws > 0 or self.moments is not None

    @property
    def _draws(self) -> int:
        """Draws of the chains that results are of."""
        if len(self.losses) == self.settings["chains"]:
            return draws_before_end(self.losses)
        return self._checkpoint.draws

    @functools.cached_property
    def draws(self) -> PyTree[np.ndarray] | None:
        """Theta's tree, leading axes chain and draw, or None where there are none."""
        if not self._draws:
            return None
        leaves = surviving(read_draws(self.path, self._checkpoint, POSTERIOR), self.losses)
        with interpreting(self.path / CHECKPOINT, "checkpoint of a run"):
            return self._tree(leaves) if leaves else None

    @functools.cached_property
    def sample_stats(self) -> dict[str, np.ndarray]:
        """The statistics of the draws, chain × draw."""
        if not self._draws:
            return {}
        return surviving(read_draws(self.path, self._checkpoint, STATISTICS), self.losses)

    def _gathered(self) -> Moments | None:
        parts = {kind: self._checkpoint.group(kind) for kind in ("mean", "squares", "moments")}
        if not parts["moments"]:
            return None
        count = Count.of(parts["moments"]["count"])
        return Moments(count, self._tree(parts["mean"]), self._tree(parts["squares"]), ((), ()))

    def _tree(self, leaves: dict[str, np.ndarray]) -> PyTree[np.ndarray]:
        """Theta's tree; without its model one of dictionaries and tuples."""
        theta = self._checkpoint.description["theta"]
        ordered = [leaves[leaf["name"]] for leaf in theta]
        if self._structure is not None:
            return jax.tree.unflatten(self._structure, ordered)
        return _tree([leaf["path"] for leaf in theta], ordered)

    def resume(self, steps: int = 0) -> Trace:
        """Continue where the run ended, with `steps` more, in its folder."""
        from fokker.run.sample import sample

        if self._call is None:
            raise ValueError("a trace of fk.open knows no model: call fk.resume(path, target, sampler, …).")
        options = {**self._call.options, "steps": self.settings["steps"] + steps}
        return sample(self._call.target, self._call.sampler, **options)


def _unfinished(description: dict[str, Any]) -> str | None:
    """Why a run has not taken all its steps, where nothing is written of it."""
    settings, taken = description["settings"], description["taken"]
    total = settings["burn_in"] + settings["steps"]
    return None if taken >= total else f"interrupted after {taken:,} of {total:,} steps"


def written_constants(known: Mapping[str, Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """The constants of a model as arrays for a checkpoint, in which large ones would cost time."""
    constants = {f"{CONSTANTS}/{name}": np.asarray(x) for name, x in known.get(CONSTANTS, {}).items()}
    size = sum(x.nbytes for x in constants.values())
    if size <= _MOST_CONSTANTS:
        return constants
    names = ", ".join(known[CONSTANTS])
    warnings.warn(
        f"the pm.Data containers of the model ({names}) have {size / 2**10:,.0f} KiB together, more than the "
        f"{_MOST_CONSTANTS // 2**10} KiB that are stored with a run: the trace of fk.open has none of them. "
        "For functions of PyMC, such as pm.sample_posterior_predictive, use the trace of fk.sample or "
        "fk.resume.",
        RuntimeWarning,
        stacklevel=2,
    )
    return {}


def written_fixed(theta: PyTree[Any], fixed: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The places of constant entries of theta as arrays for a checkpoint."""
    names = dict(zip(named_leaves(theta), _file_names(theta), strict=True))
    return {f"{FIXED}/{names[name]}": mask for name, mask in fixed.items()}


def describe_theta(theta: PyTree[Any]) -> list[dict[str, Any]]:
    """The name of each leaf of theta, and the keys, indices or attributes that lead to it."""
    paths = [[_entry(part) for part in path] for path, _ in jax.tree.leaves_with_path(theta)]
    return [{"name": name, "path": path} for name, path in zip(_file_names(theta), paths, strict=True)]


def save(trace: Trace, path: Path) -> None:
    """Write a trace to a new folder."""
    path.mkdir(parents=True, exist_ok=True)
    with locked(path):
        if has_run(path):
            raise ValueError(f"{path} has a run in it already: give another folder.")
        numbers = {name: plain(value) for name, value in trace.settings.items()}
        kept = {n: v for n, v in numbers.items() if v is None or isinstance(v, int | float | str)}
        theta = trace.moments["mean"] if trace.draws is None and trace.moments else trace.draws
        description = {
            "settings": {**kept, "chains": len(trace.chains)},
            "environment": environment(),
            "fingerprints": {},
            "theta": describe_theta(theta),
            "labels": trace.labels.written(),
            "notes": [*trace.notes, *([trace.lost] if trace.lost else [])],
            "one_start": trace.one_start,
        }
        constants = written_constants(trace.known_data())
        constants |= written_fixed(theta, trace.fixed_entries())
        folder = RunFolder(path, description, constants, Origin(None, None, None))
        recorded: dict[str, Any] = dict(trace.sample_stats)
        folder.add(recorded if trace.draws is None else {**recorded, "position": trace.draws})
        moments = jax.tree.map(lambda x: x[np.asarray(trace.chains)], trace.gathered)
        folder.finish(int(trace.settings["taken"]), (), moments, trace.stopped)


def open(path: Any) -> Trace:
    """The trace of a run in a folder, finished or not; its draws are read when they are asked for.

    It knows no model: for gradients in `summary`, for `rerun` and for more steps use `fk.resume`.
    """
    return StoredTrace(as_path(path, "path"))


def resume(
    path: Any, target: Any, sampler: Any, *, init: Any, steps: int | None = None, **options: Any
) -> Trace:
    """Go on with the run in a folder, to the bit as if it had never stopped; to `steps` steps where given.

    Functions cannot be written down, so the target, the sampler and `init` are given again, and whatever else
    was given that is not a number or a text (`gradient`, `key`, weights of `batches`): a difference is
    refused by name. The other settings are read from the folder.
    """
    from fokker.run.sample import sample

    settings = read_checkpoint(Path(path)).description["settings"]
    names = ("burn_in", "thin", "chains", "batch_size", "seed", "temperature", "keep", "warm_up", "batches")
    given = {name: settings[name] for name in names if settings.get(name) is not None}
    if str(given.get("batches", "")).startswith(SCORES) and "batches" not in options:
        raise ValueError(
            f"the batches of {path} were drawn by scores of the data, of which only a fingerprint is written "
            "down: give them again, as batches=…."
        )
    given |= {"steps": settings["steps"] if steps is None else steps, **options}
    return sample(target, sampler, init=init, out=path, **given)
