"""What a run has learned so far in tuning and warm-up, on disk: a kill there does not lose it."""

import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from fokker._core.files import DamagedFileError, check_no_links, interpreting, read_arrays, write_arrays
from fokker.run.record import OtherRunError, changed_environment, differences

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
    folder nothing is written. `description`: settings, environment and fingerprints of the run. `known`:
    results that another process has read.
    """

    def __init__(
        self,
        run: Path | None = None,
        description: Mapping[str, Any] = MappingProxyType({}),
        known: Iterable[dict[str, np.ndarray]] = (),
    ) -> None:
        self.folder = None if run is None else run / JOURNAL
        self.description = description
        self.known: list[dict[str, np.ndarray]] = list(known)
        self._new: list[dict[str, np.ndarray]] = []
        self._stages = self._parts = 0
        self._written = time.monotonic()
        if self.folder is not None:
            check_no_links(self.folder)
            self._read()
        # The number of stages before those that are yet to be written.
        self._first = len(self.known)

    def _read(self) -> None:
        while True:
            path = self._path(self._parts)
            try:
                header, arrays = read_arrays(path, _KIND, _VERSION)
                with interpreting(path, _KIND):
                    problem = self._difference(header)
                    stages = _stages_of(header, arrays, len(self.known))
            except (FileNotFoundError, DamagedFileError):
                return  # what follows is computed again
            if problem:
                raise OtherRunError(problem)
            self.known += stages
            self._parts += 1

    def _difference(self, before: Mapping[str, Any]) -> str:
        """Why the run cannot go on with a journal of this header; else empty."""
        changed = changed_environment(before["environment"], self.description["environment"])
        if changed:
            return (
                f"{self.folder} was written in another environment ({changed}), and the bits of the "
                "rest would be others: remove that folder to warm up again."
            )
        if changes := differences(before, self.description):
            return (
                f"{self.folder} has the warm-up of another run in it: {'; '.join(changes)}. Give the "
                "same arguments to go on with it, or another folder."
            )
        return ""

    def _path(self, part: int) -> Path:
        assert self.folder is not None
        return self.folder / f"{part:06d}.npz"

    @property
    def knows_next(self) -> bool:
        """Whether the next stage was noted down before."""
        return self._stages < len(self.known)

    def stage(self, like: PyTree[Any], compute: Callable[[], Stage]) -> Stage:
        """The result of the next stage: from the journal, or computed and noted down."""
        is_known, number = self.knows_next, self._stages
        self._stages += 1
        if is_known:
            arrays, self.known[number] = self.known[number], {}  # each is asked for once
            leaves, structure = jax.tree.flatten(like)
            names = [f"tree.{i}" for i in range(len(leaves))]
            shapes = [arrays[name].shape if name in arrays else None for name in names]
            if shapes != [np.shape(leaf) for leaf in leaves]:
                raise DamagedFileError(
                    f"stage {number} of the warm-up in {self.folder} is not one of this run: "
                    "remove that folder."
                )
            return jax.tree.unflatten(structure, [jnp.asarray(arrays.pop(name)) for name in names]), arrays
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
        header = {**self.description, "first": self._first, "stages": len(self._new)}
        header |= {"kind": _KIND, "version": _VERSION}
        arrays = {f"{i}/{name}": x for i, stage in enumerate(self._new) for name, x in stage.items()}
        write_arrays(self._path(self._parts), header, arrays)
        self._first += len(self._new)
        self._parts, self._new, self._written = self._parts + 1, [], time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write the rest, also where Ctrl-C ends the warm-up."""
        if self._new:
            self._write()


def _stages_of(
    header: Mapping[str, Any], arrays: Mapping[str, np.ndarray], before: int
) -> list[dict[str, np.ndarray]]:
    """The results of the stages in a part, which must follow those of the parts before it."""
    if header.get("first", before) != before:
        raise ValueError(f"it begins with stage {header['first']}, and {before} are known")
    if not 0 <= header["stages"] <= len(arrays):
        raise ValueError(f"it has {header['stages']} stages")
    stages: list[dict[str, np.ndarray]] = [{} for _ in range(header["stages"])]
    for name, x in arrays.items():
        number, _, rest = name.partition("/")
        stages[int(number)][rest] = x
    return stages


def clear_journal(run: Path) -> None:
    """Remove the journal of a run."""
    shutil.rmtree(run / JOURNAL, ignore_errors=True)
