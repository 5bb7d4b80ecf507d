"""The trace of a run in a folder: its draws are read when they are asked for."""

import copy
import functools
import itertools
import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, PyTree

from fokker._core.count import Count
from fokker._core.draws import shape_of_draws
from fokker._core.files import DamagedFileError, check_own, interpreting
from fokker._core.labels import Labels, named_leaves
from fokker.run.call import Call, Origin
from fokker.run.description import FIXED, POSTERIOR, STATISTICS
from fokker.run.divided import read_divided
from fokker.run.folder import CONSTANTS
from fokker.run.losses import draws_before_end, surviving
from fokker.run.moments import Moments, moments_of
from fokker.run.saved import brief
from fokker.run.store import CHECKPOINT, Checkpoint, read_checkpoint, read_draws
from fokker.run.trace import Trace
from fokker.run.variable import DRAWS

# What `fokker sample` writes about a run, with its model.
_REPORT = "report.html"


class StoredTrace(Trace):
    """A trace whose draws are on disk: they are read when they are first asked for."""

    path: Path
    _checkpoint: Checkpoint
    _structure: Any
    _call: Call | None
    # The last draws are read, this many: for those who watch a long run.
    _most: int | None = None

    def __init__(
        self,
        path: Path,
        state: PyTree[Array] = None,
        origin: Origin | None = None,
        structure: jax.tree_util.PyTreeDef | None = None,
        call: Call | None = None,
        settings: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        checkpoint = read_checkpoint(path)
        check_own(path / DRAWS)
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
        if "divided" not in of:  # which may be too large for this machine
            _ = self.moments

    def __repr__(self) -> str:
        chains = f"{len(self.chains):,} chains"
        return brief(self, chains, f"{self._draws:,} draws each", f"folder: {self.path}")

    @property
    def cautions(self) -> tuple[str, ...]:
        """Without its model the draws can be compared with each other alone."""
        if self.origin is not None and self.origin.target is not None:
            return ()
        unknown = (
            "the model is not known here, so that the spread of the draws was not compared with the target's"
        )
        if self.stopped is None and (self.path / _REPORT).exists():
            return (f"{unknown}: {_REPORT} has the full verdict; a finished run need not be resumed for it",)
        return (f"{unknown}: resume the run with its model for that",)

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
        leaves = surviving(read_draws(self.path, self._checkpoint, POSTERIOR, self._most), self.losses)
        with interpreting(self.path / CHECKPOINT, "checkpoint of a run"):
            return self._tree(leaves) if leaves else None

    @functools.cached_property
    def sample_stats(self) -> dict[str, np.ndarray]:
        """The statistics of the draws, chain × draw."""
        if not self._draws:
            return {}
        return surviving(read_draws(self.path, self._checkpoint, STATISTICS, self._most), self.losses)

    @functools.cached_property
    def gathered(self) -> Moments | None:
        """The streaming moments of all chains."""
        with interpreting(self.path / CHECKPOINT, "checkpoint of a run"):
            return self._gathered()

    @functools.cached_property
    def moments(self) -> dict[str, PyTree[np.ndarray]] | None:
        """Mean and variance of each entry of theta, per chain."""
        return moments_of(self.gathered, self.losses)

    def _gathered(self) -> Moments | None:
        if "divided" in self._checkpoint.description:
            return self._gathered_apart()
        parts = {kind: self._checkpoint.group(kind) for kind in ("mean", "squares", "moments")}
        if not parts["moments"]:
            return None
        count = Count.of(parts["moments"]["count"])
        return Moments(count, self._tree(parts["mean"]), self._tree(parts["squares"]), ((), ()))

    def _gathered_apart(self) -> Moments | None:
        """Moments that were divided among devices."""
        apart = self._checkpoint.description["divided"]
        arrays = read_divided(self.path, apart, "moments", lambda x: None)
        if not arrays:
            return None
        # The leaves of `Moments`: those of its count, and then trees like theta.
        like, structure = jax.tree.flatten(Count.of(0))
        names = [leaf["name"] for leaf in self._checkpoint.description["theta"]]
        numbers, empty = itertools.count(), np.empty((int(self.settings["chains"]), 0))

        def next_leaves(number: int) -> list[np.ndarray]:
            return [arrays.get(str(i), empty) for i in itertools.islice(numbers, number)]

        count = jax.tree.unflatten(structure, next_leaves(len(like)))
        mean, squares = (self._tree(dict(zip(names, next_leaves(len(names)), strict=True))) for _ in range(2))
        return Moments(count, mean, squares, ((), ()))

    def _tree(self, leaves: dict[str, np.ndarray]) -> PyTree[np.ndarray]:
        """Theta's tree; without its model one of dictionaries and tuples."""
        theta = self._checkpoint.description["theta"]
        ordered = [leaves[leaf["name"]] for leaf in theta]
        if self._structure is not None:
            return jax.tree.unflatten(self._structure, ordered)
        return _tree([leaf["path"] for leaf in theta], ordered)

    def glimpse(self, read: int, kept: int, is_running: bool) -> tuple["StoredTrace", str]:
        """The trace with fewer draws, and what was left out, in words: for those who watch a long run.

        `read`, `kept`: numbers of theta that are read at most, the last draws of them, and of these kept.
        `is_running`: that its last step is not taken yet is no problem then.
        """
        theta = self._checkpoint.group(f"tail/{POSTERIOR}").values()
        per_draw = max(1, sum(x.shape[0] * math.prod(x.shape[2:]) for x in theta))
        shown = copy.copy(self)
        if is_running and self._checkpoint.description["stopped"] is None:
            object.__setattr__(shown, "stopped", None)
        object.__setattr__(shown, "_most", max(1, read // per_draw))
        if shown.draws is None:
            return shown, ""
        number = shape_of_draws(shown.draws)[1]
        every = max(1, -(-number * per_draw // kept))
        for name, tree in (("draws", shown.draws), ("sample_stats", shown.sample_stats)):
            object.__setattr__(shown, name, jax.tree.map(lambda x: x[:, ::every], tree))
        total = self._checkpoint.draws
        parts = [f"the last {number:,} of {total:,} draws of a chain"] if number < total else []
        parts += [f"one draw in {every}"] if every > 1 else []
        return shown, ", of these ".join(parts)

    def resume(self, steps: int = 0) -> Trace:
        """Continue where the run ended, with `steps` more, in its folder."""
        if self._call is None:
            raise ValueError("a trace of fk.open has no model: call fk.resume(path, target, sampler, …).")
        return self._call.again(steps=self.settings["steps"] + steps)


def _unfinished(description: dict[str, Any]) -> str | None:
    """Why a run has not taken all its steps, where nothing is written of it."""
    settings, taken = description["settings"], description["taken"]
    total = settings["burn_in"] + settings["steps"]
    return None if taken >= total else f"interrupted after {taken:,} of {total:,} steps"


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
    trees = {entry: _tree(*branch) for entry, branch in branches.items()}
    return tuple(trees.values()) if all(isinstance(entry, int) for entry in trees) else trees
