"""What a run has learnt so far in tuning and warm-up, on disk: a kill there does not lose it."""

import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from fokker._core.files import DamagedFileError, read_arrays, write_arrays
from fokker.run.record import changed_environment, differences

JOURNAL = "warm-up"
_KIND, _VERSION = "part of a warm-up", 1
# The least seconds between two parts.
_SECONDS = 1.0

# A stage: arrays like the first argument, and others by name, by the function that computes both.
Stage = tuple[PyTree[Any], dict[str, np.ndarray]]


class Journal:
    """The results of the stages before the first step of a run, in their order.

    A run that goes on calls its stages again, in the same order; those whose results are in the journal are
    not computed again. About every second the stages since then are written as one more file. Without a
    folder nothing is written. `description`: settings, environment and fingerprints of the run.
    """

    def __init__(
        self, run: Path | None = None, description: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        self.folder = None if run is None else run / JOURNAL
        self.description = description
        self._known: list[dict[str, np.ndarray]] = []
        self._new: list[dict[str, np.ndarray]] = []
        self._stages = self._parts = 0
        self._written = time.monotonic()
        if self.folder is not None and self.folder.is_dir():
            self._read()

    def _read(self) -> None:
        while True:
            try:
                header, arrays = read_arrays(self._path(self._parts), _KIND, _VERSION)
            except (FileNotFoundError, DamagedFileError):
                return  # what follows is computed again
            self._check_same(header)
            for number in range(header["stages"]):
                start = f"{number}/"
                self._known.append(
                    {n.removeprefix(start): x for n, x in arrays.items() if n.startswith(start)}
                )
            self._parts += 1

    def _check_same(self, before: Mapping[str, Any]) -> None:
        changed = changed_environment(before["environment"], self.description["environment"])
        if changed:
            raise ValueError(
                f"{self.folder} was written in another environment ({changed}), and the bits of the "
                "rest would be others: remove that folder to warm up again."
            )
        if found := differences(before, self.description):
            assert self.folder is not None
            raise ValueError(
                f"{self.folder.parent} has the warm-up of another run in it: {'; '.join(found)}. Give the "
                "same arguments to go on with it, another folder, or --overwrite at the command line."
            )

    def _path(self, part: int) -> Path:
        assert self.folder is not None
        return self.folder / f"{part:06d}.npz"

    def stage(self, like: PyTree[Any], compute: Callable[[], Stage]) -> Stage:
        """The result of the next stage: from the journal, or computed and noted down."""
        number, self._stages = self._stages, self._stages + 1
        if number < len(self._known):
            arrays, self._known[number] = self._known[number], {}  # each is asked for once
            leaves, structure = jax.tree.flatten(like)
            own = [jnp.asarray(arrays.pop(f"tree.{i}")) for i in range(len(leaves))]
            return jax.tree.unflatten(structure, own), arrays
        tree, named = compute()
        if self.folder is not None:
            stored = {f"tree.{i}": np.asarray(x) for i, x in enumerate(jax.tree.leaves(tree))}
            self._new.append({**stored, **{name: np.asarray(x) for name, x in named.items()}})
            if time.monotonic() - self._written > _SECONDS:
                self._write()
        return tree, named

    def _write(self) -> None:
        assert self.folder is not None
        self.folder.mkdir(parents=True, exist_ok=True)
        header = {**self.description, "stages": len(self._new), "kind": _KIND, "version": _VERSION}
        arrays = {f"{i}/{name}": x for i, stage in enumerate(self._new) for name, x in stage.items()}
        write_arrays(self._path(self._parts), header, arrays)
        self._parts, self._new, self._written = self._parts + 1, [], time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write the rest, also where Ctrl-C ends the warm-up."""
        if self._new:
            self._write()


def clear_journal(run: Path) -> None:
    """Remove the journal of a run."""
    shutil.rmtree(run / JOURNAL, ignore_errors=True)
