"""The folder of a run in progress: whose run is in it, and what is written there."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from fokker._core.files import DamagedFileError
from fokker._core.labels import Labels, named_leaves
from fokker._core.lock import locked
from fokker.run.description import FIXED, POSTERIOR, STATISTICS, file_name, is_file_name
from fokker.run.journal import clear_journal
from fokker.run.losses import Loss
from fokker.run.moments import Moments, moments_of
from fokker.run.record import OtherRunError, changed_environment, differences
from fokker.run.store import CHECKPOINT, DESCRIPTION, Checkpoint, Store, has_run, read_checkpoint

# The group of ArviZ for the constants of a model, and the most bytes of them in a checkpoint.
CONSTANTS, _MOST_CONSTANTS = "constant_data", 2**18


class RunState(NamedTuple):
    """How far a run is: the steps taken, states and moments after them, and why it or a chain was stopped."""

    taken: int
    states: Any
    moments: Moments | None
    stopped: str | None = None
    losses: Mapping[int, Loss] = MappingProxyType({})


class RunFolder:
    """The folder of a run in progress: its draws and checkpoints are written there.

    `description`: settings, environment and fingerprints; `arrays`: what was learned before the first step.
    `writes`: whether anything is written there, or the run in it is only compared.
    """

    def __init__(
        self,
        path: Path,
        description: dict[str, Any],
        arrays: dict[str, np.ndarray],
        writes: bool = True,
    ) -> None:
        self.path, self.description, self._arrays = path, description, arrays
        self.checkpoint = read_checkpoint(path) if has_run(path) else None
        if self.checkpoint is not None:
            self._check_same(self.checkpoint)
            if self.checkpoint.warning:
                warnings.warn(self.checkpoint.warning, RuntimeWarning, stacklevel=4)
            if self.checkpoint.problem and writes:
                # The next checkpoint would put it in the place of the only one that can be read.
                (path / CHECKPOINT).unlink()
                (path / DESCRIPTION).unlink(missing_ok=True)  # of a state that is not used either
        self.store: Store | None = (
            Store(path, self.checkpoint, _labels_of_files(description)) if writes else None
        )
        self._has_journal = self.checkpoint is None

    @classmethod
    def follow(cls, path: Path, checkpoint: Checkpoint | None) -> "RunFolder":
        """The folder of a run for a process that is not the first: it reads the state, and writes nothing."""
        folder = cls.__new__(cls)
        folder.path, folder.checkpoint, folder.store = path, checkpoint, None
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
        changes = differences(before, now, programs=not changed)
        if changes:
            raise OtherRunError(
                f"{self.path} has another run in it: {'; '.join(changes)}. Give the same arguments to go on "
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

    def commit(self, reached: RunState) -> None:
        """Write a checkpoint."""
        moments = reached.moments
        if self.store is None:
            return
        state = {f"state/{i}": np.asarray(x) for i, x in enumerate(jax.tree.leaves(reached[1:3]))}
        estimates = {}
        if moments is not None and moments_of(moments) is not None:
            trees = {"mean": moments.mean, "squares": moments.squares}
            estimates = {
                f"{kind}/{name}": np.asarray(x)
                for kind, tree in trees.items()
                for name, x in _file_names(tree).items()
            }
            estimates["moments/count"] = np.asarray(moments.count)
        end = {
            "taken": reached.taken,
            "stopped": reached.stopped,
            "losses": {str(chain): list(loss) for chain, loss in reached.losses.items()},
        }
        self.store.commit({**self.description, **end}, {**self._arrays, **state, **estimates})
        if self._has_journal:  # the checkpoint has what was learned
            clear_journal(self.path)
            self._has_journal = False

    def finish(self, reached: RunState) -> None:
        """Write everything that is left."""
        assert self.store is not None
        self.store.close()
        self.commit(reached)


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


def write_whole(
    path: Path,
    description: dict[str, Any],
    arrays: dict[str, np.ndarray],
    recorded: dict[str, Any],
    reached: RunState,
) -> None:
    """Write what was recorded, chain × draw × …, to a new folder."""
    path.mkdir(parents=True, exist_ok=True)
    with locked(path):
        if has_run(path):
            raise ValueError(f"{path} has a run in it already: give another folder.")
        folder = RunFolder(path, description, arrays)
        folder.add(recorded)
        folder.finish(reached)
