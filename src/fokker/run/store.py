"""The folder of a run: draws that outlive a kill, and the state from which to go on.

    RUN/draws.zarr     posterior and sample_stats, as ArviZ and xarray read them
    RUN/checkpoint.npz the last state of the chains, what was learned, the draws that do not fill a chunk yet,
                       and a description of the run; and the one before it
    RUN/run.json       the same description, for people
    RUN/states         the states, in place of those in the checkpoint, where devices divide them

Draws are written in chunks of fixed size, each once and as a whole; those that do not fill one wait in the
checkpoint. A checkpoint is written after the chunks that it counts. So a kill at any moment leaves a
checkpoint and all the draws it counts; what was written beyond is written again, to the same bits.

A checkpoint has a digest of every chunk that it counts, and all checkpoints of a run have its `id` and a
`serial` number: a file of another run, of another place or of an earlier time is not taken for the right one.
"""

import contextlib
import json
import secrets
import warnings
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fokker._core.files import (
    DamagedFileError,
    check_no_links,
    partial_of,
    read_json,
    read_latest,
    write_arrays,
    write_text,
)
from fokker._core.labels import NO_LABELS, Labels
from fokker.run.description import LEARNED, POSTERIOR, chains_of, check_description
from fokker.run.divided import check_divided
from fokker.run.losses import Loss
from fokker.run.variable import DRAWS, Variable, are_own, write_entries, zarr_store

KIND, VERSION = "run", 1
CHECKPOINT, PREVIOUS, DESCRIPTION = "checkpoint.npz", "checkpoint.previous.npz", "run.json"
# Bytes of a chunk of draws.
_CHUNK = 2**22
# The arrays of a checkpoint that say what is in the chunks.
_CHUNKS = "chunks"


class Checkpoint(NamedTuple):
    """What a run needs to go on: a description of it, arrays by name; and a problem with a newer one.

    `warning`: why it may not be the last.
    """

    description: dict[str, Any]
    arrays: dict[str, np.ndarray]
    problem: str = ""
    warning: str = ""

    @property
    def draws(self) -> int:
        """Draws that the run has on the disk."""
        return int(self.description["draws"])

    @property
    def losses(self) -> dict[int, Loss]:
        """The chains that were stopped."""
        return {int(chain): Loss(*loss) for chain, loss in self.description.get("losses", {}).items()}

    @property
    def learned(self) -> dict[str, Any]:
        """What is described of the settings learned before the first step; runs that were given theirs have
        none.
        """
        return self.description.get(LEARNED, {})

    def group(self, prefix: str) -> dict[str, np.ndarray]:
        """The arrays of one part."""
        start = f"{prefix}/"
        return {name.removeprefix(start): x for name, x in self.arrays.items() if name.startswith(start)}


def has_run(folder: Path) -> bool:
    """Whether a folder has a run in it."""
    return any((folder / name).is_file() for name in (CHECKPOINT, PREVIOUS))


def check_place(folder: Path) -> None:
    """Raise where a run cannot be written to a folder, or would replace something else there."""
    for path in (folder / name for name in (CHECKPOINT, PREVIOUS, DESCRIPTION)):
        for file in (path, partial_of(path)):
            if file.exists() and not file.is_file():
                raise _occupied(file, "is not a file")
    if (folder / DRAWS).exists() and not (folder / DRAWS).is_dir():
        raise _occupied(folder / DRAWS, "is not a folder")
    if has_run(folder):
        return
    is_of_run = False  # one that has lost its checkpoints
    if (folder / DESCRIPTION).exists():
        with contextlib.suppress(OSError, ValueError):
            is_of_run = read_json(folder / DESCRIPTION).get("kind") == KIND
        if not is_of_run:
            raise _occupied(folder / DESCRIPTION, "is not the description of a run")
    if not is_of_run and not are_own(folder):
        raise _occupied(folder / DRAWS, "has files in it that are not draws of a run")


def _occupied(path: Path, problem: str) -> Exception:
    return ValueError(
        f"{path} {problem}, and a run would be written there: move or remove it, or give another folder."
    )


def read_checkpoint(folder: Path) -> Checkpoint:
    """The newest checkpoint that can be read."""
    try:
        paths = (folder / CHECKPOINT, folder / PREVIOUS)
        checkpoint = Checkpoint(*read_latest(paths, KIND, VERSION, partial(_check, folder)))
    except (FileNotFoundError, NotADirectoryError):
        if folder.is_file():
            raise ValueError(f"{folder} is a file, and a run is a folder: give that of a run.") from None
        problem = f"{folder} has no run in it" if folder.exists() else f"there is no folder {folder}"
        raise FileNotFoundError(f"{problem}: sample with out={str(folder)!r} to make one.") from None
    settings = checkpoint.description["settings"]
    settings["chains"] = chains_of(settings)
    return checkpoint._replace(warning=_compared(folder, checkpoint))


def _check(folder: Path, description: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    check_description(description, arrays)
    check_divided(folder, description)


def _compared(folder: Path, checkpoint: Checkpoint) -> str:
    """What the description for people says against a checkpoint; raise where it is that of another run."""
    path, own = folder / DESCRIPTION, checkpoint.description
    try:
        written = read_json(path)
    except (OSError, ValueError):  # it is for people alone
        return f"{checkpoint.problem} The checkpoint before it is used." if checkpoint.problem else ""
    if "id" in own and written.get("id", own["id"]) != own["id"]:
        raise DamagedFileError(
            f"{folder / CHECKPOINT} and {path} are of different runs: restore the files of one of them."
        )
    if checkpoint.problem:
        return f"{checkpoint.problem} The checkpoint before it is used."
    serial = written.get("serial")
    if "serial" in own and isinstance(serial, int) and serial > own["serial"]:
        return (
            f"{folder / CHECKPOINT} is older than {path}: it has {checkpoint.draws:,} draws, and there were "
            f"{written.get('draws')}. The run is read, or goes on, from there."
        )
    return ""


def draws_per_chunk(size: int) -> int:
    """The draws of a chunk, by the bytes of one draw of all chains of the largest variable."""
    return max(1, _CHUNK // max(1, size))


class Store:
    """The draws of a run on disk, and its checkpoints; used by one process that holds the folder."""

    def __init__(
        self, folder: Path, checkpoint: Checkpoint | None = None, labels: Labels = NO_LABELS
    ) -> None:
        self.folder, self.draws, self._labels = folder, 0, labels
        self._chunk_draws = 1
        # Draws beyond the last whole chunk, by group and name, chain × draw × ….
        self._tail: dict[str, np.ndarray] = {}
        self._variables: dict[str, Variable] = {}
        check_place(folder)
        check_no_links(folder / DRAWS)
        before = {} if checkpoint is None else checkpoint.description
        self._id, self._serial = before.get("id") or secrets.token_hex(16), before.get("serial", 0)
        if checkpoint is None:
            (folder / DESCRIPTION).unlink(missing_ok=True)  # of a run that is no longer there
        elif checkpoint.draws:
            self.draws, self._chunk_draws = checkpoint.draws, int(checkpoint.description["chunk"])
            self._tail = checkpoint.group("tail")
            self._variables = _variables_of(folder, checkpoint, labels)
            for variable in self._variables.values():
                variable.check(self._full)
            self._prepare()

    @property
    def _full(self) -> int:
        """Draws in whole chunks."""
        return self.draws // self._chunk_draws * self._chunk_draws

    def _prepare(self) -> None:
        for variable in self._variables.values():
            variable.prepare(self._full)
        axes = {axis for variable in self._variables.values() for axis in variable.axes}
        entries = {axis: x for axis, x in self._labels.coords.items() if axis in axes}
        write_entries(self.folder, POSTERIOR, entries)

    def add(self, draws: dict[str, np.ndarray]) -> None:
        """Append draws, chain × draw × … by group and name; whole chunks are written."""
        if not self._variables:
            self._chunk_draws = draws_per_chunk(max(x[:, :1].nbytes for x in draws.values()))
            axes = _axes(draws, self._labels)
            self._variables = {
                name: Variable(self.folder, name, x, self._chunk_draws, [], axes.get(name))
                for name, x in draws.items()
            }
            self._prepare()
        start = self._full
        has_tail = self.draws > start
        joined = {
            name: np.concatenate([self._tail[name], x], axis=1) if has_tail else np.asarray(x)
            for name, x in draws.items()
        }
        self.draws = start + next(iter(joined.values())).shape[1]
        count = self._full - start
        for name, x in joined.items():
            if count:
                self._variables[name].write(x[:, :count], start)
            # A copy, as a view would keep the whole block in memory.
            self._tail[name] = x[:, count:].copy()

    def commit(self, description: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Write a checkpoint: the state that belongs to all draws added so far."""
        for variable in self._variables.values():
            variable.sync()
        self._serial += 1
        counts = {"draws": self.draws, "chunk": self._chunk_draws, "id": self._id, "serial": self._serial}
        header = {**description, **counts, "kind": KIND, "version": VERSION}
        tail = {f"tail/{name}": x for name, x in self._tail.items()}
        chunks = {f"{_CHUNKS}/{name}": variable.recorded() for name, variable in self._variables.items()}
        stored = {**arrays, **tail, **chunks}
        write_arrays(self.folder / CHECKPOINT, header, stored, backup=self.folder / PREVIOUS)
        write_text(self.folder / DESCRIPTION, json.dumps(header, indent=2, ensure_ascii=False) + "\n")

    def close(self) -> None:
        """Write the draws that do not fill a chunk, for readers that do not know the checkpoint."""
        for name, x in self._tail.items():
            if x.shape[1]:
                self._variables[name].write_rest(x, self._full)
        if self._variables:
            import zarr

            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that its consolidation is not in the standard yet
                zarr.consolidate_metadata(zarr_store(self.folder))


def read_draws(
    folder: Path, checkpoint: Checkpoint, group: str, most: int | None = None
) -> dict[str, np.ndarray]:
    """The draws that a checkpoint counts, by name, chain × draw × …; raise where one is damaged.

    `most`: the last of them, this many or, as whole chunks are read, a few more.
    """
    chunk = int(checkpoint.description["chunk"])
    full = checkpoint.draws // chunk * chunk
    start = 0 if most is None else max(0, checkpoint.draws - most) // chunk * chunk
    variables = _variables_of(folder, checkpoint)
    return {
        name: np.concatenate([variables[f"{group}/{name}"].read(full, start), x], axis=1)
        for name, x in checkpoint.group(f"tail/{group}").items()
    }


def _variables_of(folder: Path, checkpoint: Checkpoint, labels: Labels = NO_LABELS) -> dict[str, Variable]:
    chunk, records = int(checkpoint.description["chunk"]), checkpoint.group(_CHUNKS)
    tail = checkpoint.group("tail")
    axes = _axes(tail, labels)
    return {
        name: Variable(
            folder,
            name,
            x,
            chunk,
            [row.tobytes() for row in records[name]] if name in records else None,
            axes.get(name),
        )
        for name, x in tail.items()
    }


def _axes(draws: Mapping[str, np.ndarray], labels: Labels) -> dict[str, list[str]]:
    """The names of the axes of the variables of theta, after chain and draw."""
    start = f"{POSTERIOR}/"
    shapes = {name.removeprefix(start): x.shape[2:] for name, x in draws.items() if name.startswith(start)}
    return {f"{start}{name}": axes for name, axes in labels.for_arviz(shapes)["dims"].items()}
