"""The folder of a run: draws that outlive a kill, and the state from which to go on.

    RUN/draws.zarr     posterior and sample_stats, as ArviZ and xarray read them
    RUN/checkpoint.npz the last state of the chains, what was learnt, the draws that do not fill a chunk yet,
                       and a description of the run; and the one before it
    RUN/run.json       the same description, for people

Draws are written in chunks of fixed size, each once and as a whole; those that do not fill one wait in the
checkpoint. A checkpoint is written after the chunks that it counts. So a kill at any moment leaves a
checkpoint and all the draws it counts; what was written beyond is written again, to the same bits.
"""

import json
import math
import os
import stat
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fokker._core.files import (
    DamagedFileError,
    check_no_links,
    interpreting,
    naming,
    read_json,
    read_latest,
    write_arrays,
    write_text,
)
from fokker.run.description import check_description
from fokker.run.losses import Loss

KIND, VERSION = "run", 1
CHECKPOINT, PREVIOUS, DESCRIPTION, DRAWS = (
    "checkpoint.npz",
    "checkpoint.previous.npz",
    "run.json",
    "draws.zarr",
)
# Bytes of a chunk of draws.
_CHUNK = 2**22
_METADATA = "zarr.json"
_CODECS = ["bytes", "crc32c"]
# Bytes at the end of a chunk.
_CHECKSUM = 4


class Checkpoint(NamedTuple):
    """What a run needs to go on: a description of it, arrays by name; and a problem with a newer one."""

    description: dict[str, Any]
    arrays: dict[str, np.ndarray]
    problem: str = ""

    @property
    def draws(self) -> int:
        """Draws that the run has on the disk."""
        return int(self.description["draws"])

    @property
    def losses(self) -> dict[int, Loss]:
        """The chains that were stopped."""
        return {int(chain): Loss(*loss) for chain, loss in self.description.get("losses", {}).items()}

    def group(self, prefix: str) -> dict[str, np.ndarray]:
        """The arrays of one part."""
        start = f"{prefix}/"
        return {name.removeprefix(start): x for name, x in self.arrays.items() if name.startswith(start)}


def has_run(folder: Path) -> bool:
    """Whether a folder has a run in it."""
    return any((folder / name).exists() for name in (CHECKPOINT, PREVIOUS))


def read_checkpoint(folder: Path) -> Checkpoint:
    """The newest checkpoint that can be read."""
    try:
        checkpoint = Checkpoint(*read_latest((folder / CHECKPOINT, folder / PREVIOUS), KIND, VERSION))
    except FileNotFoundError:
        problem = "has no run in it" if folder.is_dir() else "is not a folder"
        raise FileNotFoundError(
            f"{folder} {problem}: fk.sample(…, out={str(folder)!r}) writes one."
        ) from None
    with interpreting(folder / CHECKPOINT, "checkpoint of a run"):
        check_description(checkpoint.description, checkpoint.arrays)
    return checkpoint


def draws_per_chunk(size: int) -> int:
    """The draws of a chunk, by the bytes of one draw of all chains of the largest variable."""
    return max(1, _CHUNK // max(1, size))


class Store:
    """The draws of a run on disk, and its checkpoints; used by one process that holds the folder."""

    def __init__(self, folder: Path, checkpoint: Checkpoint | None = None) -> None:
        self.folder, self.draws = folder, 0
        self._chunk_draws = 1
        # Draws beyond the last whole chunk, by group and name, chain × draw × ….
        self._tail: dict[str, np.ndarray] = {}
        self._variables: dict[str, _Variable] = {}
        check_no_links(folder / DRAWS)
        if checkpoint is not None and checkpoint.draws:
            self.draws, self._chunk_draws = checkpoint.draws, int(checkpoint.description["chunk"])
            self._tail = checkpoint.group("tail")
            self._variables = self._variables_like(self._tail)
            for variable in self._variables.values():
                variable.prepare(self._full)

    def _variables_like(self, draws: dict[str, np.ndarray]) -> "dict[str, _Variable]":
        return {name: _Variable(self.folder, name, x, self._chunk_draws) for name, x in draws.items()}

    @property
    def _full(self) -> int:
        """Draws in whole chunks."""
        return self.draws // self._chunk_draws * self._chunk_draws

    def add(self, draws: dict[str, np.ndarray]) -> None:
        """Append draws, chain × draw × … by group and name; whole chunks are written."""
        if not self._variables:
            self._chunk_draws = draws_per_chunk(max(x[:, :1].nbytes for x in draws.values()))
            self._variables = self._variables_like(draws)
            for variable in self._variables.values():
                variable.prepare(0)
        begin = self._full
        has_tail = self.draws > begin
        joined = {
            name: np.concatenate([self._tail[name], x], axis=1) if has_tail else np.asarray(x)
            for name, x in draws.items()
        }
        self.draws = begin + next(iter(joined.values())).shape[1]
        count = self._full - begin
        for name, x in joined.items():
            if count:
                self._variables[name].write(x[:, :count], begin)
            # A copy, as a view would keep the whole block in memory.
            self._tail[name] = x[:, count:].copy()

    def commit(self, description: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Write a checkpoint: the state that belongs to all draws added so far."""
        for variable in self._variables.values():
            variable.sync()
        counts = {"draws": self.draws, "chunk": self._chunk_draws}
        header = {**description, **counts, "kind": KIND, "version": VERSION}
        tail = {f"tail/{name}": x for name, x in self._tail.items()}
        write_arrays(self.folder / CHECKPOINT, header, {**arrays, **tail}, backup=self.folder / PREVIOUS)
        write_text(self.folder / DESCRIPTION, json.dumps(header, indent=2, ensure_ascii=False) + "\n")

    def close(self) -> None:
        """Write the draws that do not fill a chunk, for readers that do not know the checkpoint."""
        for name, x in self._tail.items():
            if x.shape[1]:
                self._variables[name].write(x, self._full)
        if self._variables:
            import zarr

            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that its consolidation is not in the standard yet
                zarr.consolidate_metadata(_zarr_store(self.folder))


def read_draws(folder: Path, checkpoint: Checkpoint, group: str) -> dict[str, np.ndarray]:
    """The draws that a checkpoint counts, by name, chain × draw × …; raise where one is damaged."""
    chunk = int(checkpoint.description["chunk"])
    full = checkpoint.draws // chunk * chunk
    return {
        name: np.concatenate([_Variable(folder, f"{group}/{name}", x, chunk).read(full), x], axis=1)
        for name, x in checkpoint.group(f"tail/{group}").items()
    }


def _zarr_store(folder: Path) -> Any:
    import zarr

    return zarr.storage.LocalStore(folder / DRAWS)


class _Variable:
    """The draws of one variable, chain × draw × …, in an array of Zarr with a file per chunk of draws.

    The chunks have checksums. `like`: draws of it, for its shape and type.
    """

    def __init__(self, folder: Path, name: str, like: np.ndarray, chunk_draws: int) -> None:
        self.folder, self.name, self.chunk_draws = folder, name, chunk_draws
        self.chains, self.shape, self.dtype = like.shape[0], like.shape[2:], _stored_type(like.dtype)
        self._array: Any = None
        self._unsynced: list[Path] = []

    @property
    def path(self) -> Path:
        """Its folder."""
        return self.folder / DRAWS / self.name

    def _layout(self, draws: int) -> dict[str, Any]:
        from zarr.codecs import Crc32cCodec

        name = self.name.partition("/")[2]
        return {
            "shape": (self.chains, draws, *self.shape),
            "dtype": self.dtype,
            "chunks": (self.chains, self.chunk_draws, *(max(1, n) for n in self.shape)),
            "compressors": [Crc32cCodec()],
            "dimension_names": ["chain", "draw", *(f"{name}_dim_{i}" for i in range(len(self.shape)))],
            "attributes": {},
        }

    def prepare(self, draws: int) -> None:
        """Make the array, or take the one that is there, with this many draws; its chunks are left alone."""
        import zarr

        store = _zarr_store(self.folder)
        for path in ("", self.name.partition("/")[0]):
            _make_group(self.folder / DRAWS / path)
        try:
            self._array = self._opened("r+")
            self._array.resize((self.chains, draws, *self.shape))
        except Exception:  # none yet, or damaged: it is known what it has to be
            (self.path / _METADATA).unlink(missing_ok=True)
            self._array = zarr.create_array(
                store, name=self.name, config={"write_empty_chunks": True}, **self._layout(draws)
            )

    def _opened(self, mode: str) -> Any:
        """The array that is there; raise unless it is described as it should be."""
        import zarr

        with zarr.config.set({"array.write_empty_chunks": True}):
            array = zarr.open_array(_zarr_store(self.folder), path=self.name, mode=mode)
        codecs: Any = array.metadata.to_dict()["codecs"]
        expected = self._layout(array.shape[1])
        if (
            array.shape != expected["shape"]
            or array.dtype != self.dtype
            or array.chunks != expected["chunks"]
            or [codec["name"] for codec in codecs] != _CODECS
            or codecs[0].get("configuration", {}).get("endian", "little") != "little"
            # Where Zarr finds no file it fills in zeros.
            or array.metadata.encode_chunk_key((0,) * array.ndim) != "/".join(["c", *["0"] * array.ndim])
        ):
            raise ValueError(f"{_METADATA} describes another array")
        return array

    def write(self, draws: np.ndarray, begin: int) -> None:
        """Write draws from number `begin` on, where a chunk begins."""
        end = begin + draws.shape[1]
        with naming(self.path):
            self._array.resize((self.chains, end, *self.shape))
            self._array[:, begin:end] = draws.astype(self.dtype, copy=False)
        self._unsynced += self._chunks(begin, end)

    def _chunks(self, begin: int, end: int) -> Iterator[Path]:
        """The files of these draws."""
        if 0 in self.shape:
            return
        rest = ["0"] * len(self.shape)
        for number in range(begin // self.chunk_draws, -(-end // self.chunk_draws)):
            yield self.path.joinpath("c", "0", str(number), *rest)

    def sync(self) -> None:
        """Wait until what was written is on the disk."""
        for path in self._unsynced:
            with naming(path), path.open("r+b") as file:  # Windows does not sync what is opened to be read
                os.fsync(file.fileno())
        self._unsynced = []

    def read(self, draws: int) -> np.ndarray:
        """The first draws; raise where they are damaged or missing."""
        if draws == 0 or 0 in self.shape:
            return np.empty((self.chains, draws, *self.shape), self.dtype)
        try:
            self._check_sizes(draws)
            array = self._opened("r")
            if array.shape[1] < draws:
                raise ValueError(f"{array.shape[1]:,} draws in place of {draws:,}")
            return np.asarray(array[:, :draws])
        except Exception as error:  # of many kinds, by Zarr and its codecs
            raise DamagedFileError(
                f"the draws in {self.path} are damaged or missing ({type(error).__name__}: {error}): restore "
                "that folder, or run again."
            ) from error

    def _check_sizes(self, draws: int) -> None:
        """Raise unless there is a file of the right size for each chunk: before any memory is taken."""
        check_no_links(self.path)
        size = self.chains * self.chunk_draws * math.prod(self.shape) * self.dtype.itemsize + _CHECKSUM
        for path in self._chunks(0, draws):
            found = path.stat()
            if not stat.S_ISREG(found.st_mode) or found.st_size != size:
                raise ValueError(f"{path} has {found.st_size:,} bytes in place of {size:,}")


def _make_group(folder: Path) -> None:
    """Describe a folder as a group of Zarr, without the shapes of its arrays.

    `close` puts them there. While a run goes on they are others: a reader would fill what is missing with 0.
    """
    path, group = folder / _METADATA, {"attributes": {}, "zarr_format": 3, "node_type": "group"}
    try:
        is_right = read_json(path) == group
    except (OSError, ValueError):
        is_right = False
    if not is_right:
        folder.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(group))


def _stored_type(dtype: np.dtype) -> np.dtype:
    """Zarr and ArviZ do not know bfloat16."""
    return np.dtype(np.float32) if dtype.name == "bfloat16" else dtype
