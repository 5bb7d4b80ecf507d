"""Download the files of a data set from their public address, and check what is stored."""

import hashlib
import http.client
import os
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from fokker.datasets.catalogue import DataFile, DataSet
from fokker.datasets.folder import SUFFIXES, stored_file
from fokker.rows.compressed import read_all, suffix_of

_TIMEOUT_SECONDS = 30
_BLOCK_SIZE = 1 << 16

# Called with the bytes received so far and their total number, 0 if it is unknown.
Progress = Callable[[int, int], None]


class DownloadError(OSError):
    """A download that failed; the message says why, and what to do."""


@dataclass(frozen=True)
class FileStatus:
    """A file of a data set: `is_right` is None if it is not there, or if its checksum is not known."""

    file: DataFile
    path: Path | None
    is_right: bool | None

    def __str__(self) -> str:
        if self.path is None:
            return "not there"
        if self.is_right is None:
            return "present; its checksum is not known"
        return "right" if self.is_right else "WRONG: delete it, and download or copy it again"


def checksum(path: Path) -> str:
    """The SHA-256 of the contents of a file after decompression."""
    return hashlib.sha256(read_all(path)).hexdigest()


def check_file(folder: Path, dataset: DataSet, file: DataFile) -> FileStatus:
    """Compare a stored file with its checksum."""
    path = stored_file(folder, dataset.name, file)
    if path is None or not file.sha256:
        return FileStatus(file, path, None)
    try:
        return FileStatus(file, path, checksum(path) == file.sha256)
    except ValueError:  # compressed data that are damaged
        return FileStatus(file, path, False)


def get_dataset(
    dataset: DataSet, folder: Path, progress: Callable[[DataFile], Progress] | None = None
) -> list[Path]:
    """Download the files of a data set that are not stored yet; return the paths of the new ones.

    A file is first written beside its place, checked, and then moved there: what is in the folder is
    complete. An interrupted download continues where it ended, if the server allows it.
    """
    if dataset.refusal:
        raise DownloadError(
            f"{dataset.name} is not downloaded: {dataset.refusal}. Terms: {dataset.terms}. Get it from "
            f"{dataset.source}, put it into {folder / dataset.name}, and read it with {dataset.reader}."
        )
    target = folder / dataset.name
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DownloadError(
            f"the folder {target} cannot be written: {error.strerror}. Give another (folder=…)."
        ) from None
    missing = [
        file
        for file in dataset.files
        if file.address and check_file(folder, dataset, file).is_right is not True
    ]
    archives: dict[str, Path] = {}
    written = []
    try:
        for file in missing:
            if file.address not in archives:
                report = progress(file) if progress is not None else None
                archives[file.address] = _fetch(file.address, target, report)
            written.append(_store(archives[file.address], file, target))
    finally:
        for path in archives.values():
            path.unlink()
    return written


def _fetch(address: str, target: Path, progress: Progress | None) -> Path:
    """Download into a file of the folder, and return its path; continue a download that was interrupted."""
    part = target / f".{hashlib.sha256(address.encode()).hexdigest()[:16]}.part"
    complete = part.with_suffix(".complete")
    start = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(address, headers={"User-Agent": "fokker"})
    if start:
        request.add_header("Range", f"bytes={start}-")
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as response:
            if response.status != http.HTTPStatus.PARTIAL_CONTENT:
                start = 0  # the server sends everything again
            length = int(response.headers.get("Content-Length") or 0)
            total = start + length if length else 0
            with part.open("ab" if start else "wb") as output:
                received = _copy(response, output, start, total, progress)
    except urllib.error.HTTPError as error:
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and start:
            part.unlink()  # nothing is left to send: either complete or of another file; start again
            return _fetch(address, target, progress)
        raise DownloadError(
            f"{address} answered {error.code} {error.reason}. The file may have been moved: get it "
            f"elsewhere, and put it into {target}."
        ) from None
    except (urllib.error.URLError, TimeoutError, ConnectionError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise DownloadError(
            f"{address} cannot be reached: {reason}. Check the network and the proxy settings, and run the "
            "command again."
        ) from None
    if total and received < total:
        raise DownloadError(
            f"the connection to {address} was cut after {received:,} of {total:,} bytes: run the command "
            "again to continue there."
        )
    os.replace(part, complete)
    return complete


def _copy(
    source: http.client.HTTPResponse, output: IO[bytes], start: int, total: int, progress: Progress | None
) -> int:
    """Copy a response to a file; return the number of bytes that it then has."""
    received = start
    try:
        while block := source.read(_BLOCK_SIZE):
            output.write(block)
            received += len(block)
            if progress is not None:
                progress(received, total)
    except (http.client.IncompleteRead, ConnectionError, TimeoutError):
        if not total:
            raise  # it is unknown how much is missing
    return received


def _store(download: Path, file: DataFile, target: Path) -> Path:
    """Check a download and move it to its place; its suffix says how it is compressed."""
    with tempfile.TemporaryDirectory(dir=target, prefix=".unpack-") as folder:
        unpacked = Path(folder) / "file"
        if file.member:
            _extract(download, file, unpacked)
        else:
            shutil.copyfile(download, unpacked)
        try:
            sha256 = checksum(unpacked)
        except ValueError as error:
            sha256 = str(error)
        if sha256 != file.sha256:
            raise DownloadError(
                f"{file.address} is not the file that was expected: the SHA-256 of {file.name} is {sha256}, "
                f"not {file.sha256}. Nothing was kept. If this happens again, the file was replaced there."
            )
        with unpacked.open("rb") as stream:
            first_bytes = stream.read(8)
        suffix = suffix_of(first_bytes)
        place = target / f"{file.name}{suffix}"
        os.replace(unpacked, place)
    # A wrong file that is compressed otherwise would be found in its place.
    for other in SUFFIXES:
        if other != suffix:
            (target / f"{file.name}{other}").unlink(missing_ok=True)
    return place


def _extract(archive: Path, file: DataFile, unpacked: Path) -> None:
    """Copy one member of a tar or zip archive to a file."""
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as zipped, zipped.open(file.member) as source:
                _write(source, unpacked)
            return
        with tarfile.open(archive) as tarred:
            member = tarred.extractfile(file.member)
            if member is None:  # a folder or a link
                raise KeyError(file.member)
            with member as source:
                _write(source, unpacked)
    except (KeyError, tarfile.TarError, zipfile.BadZipFile, EOFError, OSError) as error:
        raise DownloadError(
            f"{file.address} does not contain {file.member}: {error}. Nothing was kept. If this happens "
            "again, the file has been replaced there."
        ) from None


def _write(source: IO[bytes], path: Path) -> None:
    with path.open("wb") as output:
        shutil.copyfileobj(source, output)
