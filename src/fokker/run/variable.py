"""The draws of one variable of a run, in an array of Zarr."""

import contextlib
import hashlib
import json
import math
import os
import shutil
import stat
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fokker._core.files import DamagedFileError, check_no_links, check_own, naming, read_json, write_text

DRAWS = "draws.zarr"
_METADATA = "zarr.json"
# An attribute of the draws of a run, by which they are known from a user's own.
_MARK = "fokker"
_CODECS = ["bytes", "crc32c"]
# What is recorded of a chunk: a digest of its draws, and the checksum at the end of its file.
_DIGEST, _CHECKSUM = 16, 4
RECORD_BYTES = _DIGEST + _CHECKSUM


def zarr_store(folder: Path) -> Any:
    """The draws of the run in a folder."""
    import zarr

    return zarr.storage.LocalStore(folder / DRAWS)


class Variable:
    """The draws of one variable, chain × draw × …, in an array of Zarr with a file per chunk of draws.

    The chunks have checksums. `like`: draws of it, for its shape and type. `records`: what is in the chunks,
    of `RECORD_BYTES` each; None for a run of before they were written down. `axes`: the names of its axes
    after chain and draw; readers do not need them.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        like: np.ndarray,
        chunk_draws: int,
        records: list[bytes] | None,
        axes: Sequence[str] | None = None,
    ) -> None:
        self.folder, self.name, self.chunk_draws, self.records = folder, name, chunk_draws, records
        self.chains, self.shape, self.dtype = like.shape[0], like.shape[2:], _stored_type(like.dtype)
        own_name = name.partition("/")[2]
        self.axes = [f"{own_name}_dim_{i}" for i in range(len(self.shape))] if axes is None else axes
        self._array: Any = None
        self._unsynced: list[int] = []

    @property
    def path(self) -> Path:
        """Its folder."""
        return self.folder / DRAWS / self.name

    def recorded(self) -> np.ndarray:
        """What is in the chunks, a row for each."""
        assert self.records is not None
        return np.frombuffer(b"".join(self.records), np.uint8).reshape(-1, RECORD_BYTES)

    def _layout(self, draws: int, chunk_draws: int) -> dict[str, Any]:
        from zarr.codecs import Crc32cCodec

        return {
            "shape": (self.chains, draws, *self.shape),
            "dtype": self.dtype,
            "chunks": (self.chains, chunk_draws, *(max(1, n) for n in self.shape)),
            "compressors": [Crc32cCodec()],
            "dimension_names": ["chain", "draw", *self.axes],
            "attributes": {},
        }

    def prepare(self, draws: int) -> None:
        """Make the array, or take the one that is there, with this many draws; its chunks are left alone."""
        for path in ("", self.name.partition("/")[0]):
            _make_group(self.folder / DRAWS / path)
        try:
            self._array = self._opened("r+")
            if list(self._array.metadata.dimension_names or ()) != ["chain", "draw", *self.axes]:
                raise ValueError("its axes have other names, as those of runs before they were named")
            if self._array.shape[1] != draws:
                raise ValueError("it has another length, as after a kill")
        except Exception:  # none yet, damaged or of before: it is known what it has to be
            # Zarr would look for every chunk of the length that its file says, which may be any number.
            self._remove_chunks(draws // self.chunk_draws)
            self._make(draws, self.chunk_draws)

    def _remove_chunks(self, first: int) -> None:
        """Remove the files of chunks from this number on, which no checkpoint counts."""
        folder = self.path / "c" / "0"
        for path in folder.iterdir() if folder.is_dir() else ():
            if path.name.isdecimal() and int(path.name) >= first:
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def _make(self, draws: int, chunk_draws: int) -> None:
        import zarr

        (self.path / _METADATA).unlink(missing_ok=True)
        layout = self._layout(draws, chunk_draws)
        self._array = zarr.create_array(
            zarr_store(self.folder), name=self.name, config={"write_empty_chunks": True}, **layout
        )

    def _opened(self, mode: str) -> Any:
        """The array that is there; raise unless it is described as it should be."""
        import zarr

        with zarr.config.set({"array.write_empty_chunks": True}):
            array = zarr.open_array(zarr_store(self.folder), path=self.name, mode=mode)
        codecs: Any = array.metadata.to_dict()["codecs"]
        expected = self._layout(array.shape[1], self.chunk_draws)
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

    def write(self, draws: np.ndarray, start: int) -> None:
        """Write whole chunks of draws from number `start` on."""
        assert self.records is not None
        stored = draws.astype(self.dtype, copy=False)
        first = start // self.chunk_draws
        if 0 not in self.shape:
            count = draws.shape[1] // self.chunk_draws
            self.records += [_digest(part) for part in np.split(stored, count, axis=1)]
            self._unsynced += range(first, first + count)
        self._put(stored, start)

    def write_rest(self, draws: np.ndarray, start: int) -> None:
        """Write draws that do not fill a chunk; where there is none before them, without filling it up."""
        if start == 0:
            self._make(0, draws.shape[1])
        self._put(draws.astype(self.dtype, copy=False), start)

    def _put(self, stored: np.ndarray, start: int) -> None:
        end = start + stored.shape[1]
        with naming(self.path):
            self._array.resize((self.chains, end, *self.shape))
            self._array[:, start:end] = stored

    def _chunk(self, number: int) -> Path:
        """The file of a chunk."""
        return self.path.joinpath("c", "0", str(number), *["0"] * len(self.shape))

    def sync(self) -> None:
        """Wait until what was written is on the disk."""
        assert self.records is not None
        for number in self._unsynced:
            path = self._chunk(number)
            with naming(path), path.open("r+b") as file:  # Windows does not sync what is opened to be read
                os.fsync(file.fileno())
                file.seek(-_CHECKSUM, os.SEEK_END)
                self.records[number] = self.records[number][:_DIGEST] + file.read(_CHECKSUM)
        self._unsynced = []

    def check(self, draws: int) -> None:
        """Raise unless the files of the first draws are those that were recorded; by their last bytes.

        Those of a run of before that are read, and recorded.
        """
        if self.records is None:
            stored = self.read(draws)
            count = 0 if 0 in self.shape else draws // self.chunk_draws
            self.records = [_digest(part) for part in np.split(stored, count, axis=1)] if count else []
            self._unsynced = list(range(count))
            return
        with self._reading():
            for path, record in zip(self._files(draws), self.records, strict=True):
                with path.open("rb") as file:
                    file.seek(-_CHECKSUM, os.SEEK_END)
                    if file.read(_CHECKSUM) != record[_DIGEST:]:
                        raise ValueError(_is_another(path))

    def read(self, draws: int, start: int = 0) -> np.ndarray:
        """The first draws, or of them those from `start` on, the first of a chunk.

        Raises where they are damaged, missing, or others than those that were recorded.
        """
        if draws == 0 or 0 in self.shape:
            return np.empty((self.chains, draws - start, *self.shape), self.dtype)
        with self._reading():
            skipped = start // self.chunk_draws
            paths = list(self._files(draws))[skipped:]
            array = self._opened("r")
            if array.shape[1] < draws:
                raise ValueError(f"{array.shape[1]:,} draws in place of {draws:,}")
            stored = np.asarray(array[:, start:draws])
            if self.records is not None and paths:
                parts = np.split(stored, len(paths), axis=1)
                for path, part, record in zip(paths, parts, self.records[skipped:], strict=True):
                    if _digest(part)[:_DIGEST] != record[:_DIGEST]:
                        raise ValueError(_is_another(path))
            return stored

    def _files(self, draws: int) -> Iterator[Path]:
        """The files of the chunks; raise where one has another size: before any memory is taken."""
        check_own(self.folder / DRAWS)
        check_own(self.path.parent)
        check_no_links(self.path)
        size = self.chains * self.chunk_draws * math.prod(self.shape) * self.dtype.itemsize + _CHECKSUM
        for number in range(0 if 0 in self.shape else draws // self.chunk_draws):
            path = self._chunk(number)
            status = path.stat()
            if not stat.S_ISREG(status.st_mode) or status.st_size != size:
                raise ValueError(f"{path} has {status.st_size:,} bytes in place of {size:,}")
            yield path

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # of many kinds, by Zarr and its codecs
            raise DamagedFileError(
                f"the draws in {self.path} are damaged or missing ({type(error).__name__}: {error}): restore "
                "that folder, or run again."
            ) from error


def are_own(folder: Path) -> bool:
    """Whether the draws in a folder are of a run, or there are none; a kill may have left them unnamed."""
    path = folder / DRAWS
    if not path.is_dir() or all(name.startswith(".") for name in os.listdir(path)):
        return not path.exists() or path.is_dir()
    try:
        return _MARK in read_json(path / _METADATA)["attributes"]
    except (OSError, ValueError, KeyError, TypeError):
        return False


def write_entries(folder: Path, group: str, entries: Mapping[str, np.ndarray]) -> None:
    """Write the entries along named axes of a group, as xarray and ArviZ read them; Fokker does not."""
    if not entries:
        return
    import xarray

    for axis in entries:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(folder / DRAWS / group / axis)
    with warnings.catch_warnings(), naming(folder / DRAWS):
        warnings.simplefilter("ignore")  # that texts are not in the standard of Zarr yet
        xarray.Dataset(coords=dict(entries)).to_zarr(
            zarr_store(folder), group=group, mode="a", consolidated=False, zarr_format=3
        )


def _is_another(path: Path) -> str:
    return f"{path} is not the one that was written there: of another run, another place or an earlier time"


def _digest(draws: np.ndarray) -> bytes:
    """A record of a chunk of draws, with nothing yet in the place of its checksum."""
    contents = np.ascontiguousarray(draws).reshape(-1).view(np.uint8).data
    return hashlib.blake2b(contents, digest_size=_DIGEST).digest() + bytes(_CHECKSUM)


def _make_group(folder: Path) -> None:
    """Describe a folder as a group of Zarr, without the shapes of its arrays.

    `close` puts them there. While a run goes on they are others: a reader would fill what is missing with 0.
    """
    is_first = folder.name == DRAWS
    attributes = {_MARK: True} if is_first else {}
    path, group = folder / _METADATA, {"attributes": attributes, "zarr_format": 3, "node_type": "group"}
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
