"""The folder of a run in progress: whose run is in it, and what is written there."""

import warnings
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from fokker._core.files import DamagedFileError
from fokker._core.labels import Labels, named_leaves
from fokker.run.description import FIXED, POSTERIOR, STATISTICS, file_name, is_file_name
from fokker.run.divided import Divided, described, names_of_states, read_divided, remove_states
from fokker.run.journal import clear_journal
from fokker.run.losses import Loss
from fokker.run.mesh import Devices
from fokker.run.moments import Moments, moments_of
from fokker.run.record import OtherRunError, changed_environment, differences
from fokker.run.store import CHECKPOINT, DESCRIPTION, Checkpoint, Store, has_run, read_checkpoint

# The group of ArviZ for the constants of a model, and the most bytes of them in a checkpoint.
CONSTANTS, _MOST_CONSTANTS = "constant_data", 2**18


class RunState(NamedTuple):
    """How far a run is: the steps taken, states and moments after them, and why it or a chain was stopped.

    `divided`: the states and moments where they are in a folder of their own already.
    """

    taken: int
    states: PyTree[Array]
    moments: Moments | None
    stopped: str | None = None
    losses: Mapping[int, Loss] = MappingProxyType({})
    divided: Divided | None = None


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
        # The folders of states that are there, that of the checkpoint last.
        apart = {} if self.checkpoint is None else self.checkpoint.description.get("divided", {})
        present = apart.get("name", "")
        self._states = [*(name for name in names_of_states(path) if name != present), present]

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
        burn_in = f" (of which burn-in: {settings['burn_in']:,})" if settings["burn_in"] else ""
        if before["taken"] > total:
            raise ValueError(
                f"{self.path} has {before['taken']:,} steps already, more than the {total:,} asked for"
                f"{burn_in}: give at least as many. The draws are kept, and can be read as they are."
            )
        if before["stopped"] is not None and not before["stopped"].startswith("interrupted"):
            raise ValueError(f"there is nothing to continue from in {self.path}: {before['stopped']}.")

    def restored(self, states: PyTree[Array], moments: Moments | None, devices: Devices) -> PyTree[Array]:
        """States and moments like these, with the arrays of the checkpoint."""
        assert self.checkpoint is not None
        apart = self.checkpoint.description.get("divided")
        if apart is not None:
            read = partial(read_divided, self.path, apart, sharding=devices.sharding)
            return self._like(states, read("states")), self._like(moments, read("moments"))
        return self._like((states, moments), self.checkpoint.group("state"))

    def _like(self, tree: PyTree[Array], stored: Mapping[str, Any]) -> PyTree[Array]:
        """A tree like this one with arrays by the number of the leaf, where it has entries."""
        leaves, structure = jax.tree.flatten(tree)
        arrays = [stored.get(str(i), None if leaf.size else leaf) for i, leaf in enumerate(leaves)]
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
        if self.store is None:
            return
        end: dict[str, Any] = {
            "taken": reached.taken,
            "stopped": reached.stopped,
            "losses": {str(chain): list(loss) for chain, loss in reached.losses.items()},
        }
        arrays = self._arrays
        if reached.divided is None:
            trees = enumerate(jax.tree.leaves(reached[1:3]))
            arrays = arrays | {f"state/{i}": np.asarray(x) for i, x in trees} | _estimates(reached.moments)
        else:
            end["divided"] = described(self.path, reached.divided.name)
        self.store.commit({**self.description, **end}, arrays)
        # Those of this checkpoint and of the one before it are left.
        self._states.append("" if reached.divided is None else reached.divided.name)
        remove_states(self.path, filter(None, self._states[:-2]))
        self._states = self._states[-2:]
        if self._has_journal:  # the checkpoint has what was learned
            clear_journal(self.path)
            self._has_journal = False

    def finish(self, reached: RunState) -> None:
        """Write everything that is left."""
        assert self.store is not None
        self.store.close()
        self.commit(reached)


def _estimates(moments: Moments | None) -> dict[str, np.ndarray]:
    """Streaming moments by the names of the variables, for readers that do not know the states."""
    if moments is None or moments_of(moments) is None:
        return {}
    trees = {"mean": moments.mean, "squares": moments.squares}
    named = {f"{kind}/{name}": x for kind, tree in trees.items() for name, x in _file_names(tree).items()}
    return {name: np.asarray(x) for name, x in {**named, "moments/count": moments.count}.items()}


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


def _entry(part: object) -> int | str:
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
