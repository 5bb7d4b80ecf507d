"""Read plain and compressed files in blocks; continue after damaged data where the format allows it."""

import bz2
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from fokker.corpora._tally import Tally

# Bytes decompressed per call. A call that meets damaged data loses its whole output, so this is small.
_COMPRESSED_READ_SIZE = 1 << 14
# Bytes read per call from a plain file.
_PLAIN_READ_SIZE = 1 << 18
# A bzip2 block is slightly over 900 kB at most: damage is detected at its end at the latest.
_MAX_BZIP2_BLOCK = 1_000_000
_BZIP2_START = re.compile(rb"BZh[1-9]1AY&SY")
_BZIP2_START_LENGTH = 10


class _Compression(NamedTuple):
    magic: bytes
    new_decompressor: Callable[[], Any]
    restart: re.Pattern[bytes] | None


def _gzip_decompressor() -> Any:
    return zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)


class _Zstd:
    """A decompressor of one zstd frame, from Python 3.14 or the package zstandard."""

    def __init__(self) -> None:
        try:
            from compression import zstd  # type: ignore[import-not-found]

            self._decompressor, self._error = zstd.ZstdDecompressor(), zstd.ZstdError
        except ImportError:
            try:
                import zstandard
            except ImportError:
                raise ImportError(
                    "reading a .zst file needs zstandard: pip install 'fokker[zstd]' (or pip install "
                    "zstandard)."
                ) from None
            self._decompressor = zstandard.ZstdDecompressor().decompressobj()
            self._error = zstandard.ZstdError

    def decompress(self, data: bytes) -> bytes:
        """The next decompressed bytes."""
        try:
            return bytes(self._decompressor.decompress(data))
        except self._error as error:
            raise OSError(str(error)) from None

    @property
    def eof(self) -> bool:
        """Whether the frame has ended."""
        return bool(self._decompressor.eof)

    @property
    def unused_data(self) -> bytes:
        """The bytes after the frame."""
        return bytes(self._decompressor.unused_data)


# Formats are recognised by their first bytes, not by the file name. Only the first bytes of bzip2 streams are
# long enough to search for them inside a file.
_COMPRESSIONS = (
    _Compression(b"BZh", bz2.BZ2Decompressor, _BZIP2_START),
    _Compression(b"\x1f\x8b", _gzip_decompressor, None),
    _Compression(b"\xfd7zXZ\x00", lzma.LZMADecompressor, None),
    _Compression(b"\x28\xb5\x2f\xfd", _Zstd, None),
)
SUFFIXES = (".bz2", ".gz", ".xz", ".zst", ".zstd")


def blocks(path: Path, tally: Tally) -> Iterator[bytes | None]:
    """The decompressed contents of a file, in blocks; None marks a gap.

    The file may be plain, or consist of one or more streams of gzip, bzip2, xz or zstd. After a damaged bzip2
    stream, reading continues with the next one; the others end there. The tally records the lost bytes.
    """
    with path.open("rb") as file:
        first_bytes = file.read(8)
        file.seek(0)
        for compression in _COMPRESSIONS:
            if first_bytes.startswith(compression.magic):
                yield from _decompressed(file, path.name, compression, tally)
                return
        while block := file.read(_PLAIN_READ_SIZE):
            yield block


def head(path: Path, size: int = 1 << 16) -> bytes:
    """The first bytes of a file, decompressed; fewer if it is shorter or damaged."""
    contents = b""
    for block in blocks(path, Tally()):
        if block is None:
            break
        contents += block
        if len(contents) >= size:
            break
    return contents[:size]


def read_all(path: Path, tally: Tally) -> bytes:
    """The complete decompressed contents of a file, without the gaps."""
    return b"".join(block for block in blocks(path, tally) if block is not None)


def _decompressed(
    file: BinaryIO, name: str, compression: _Compression, tally: Tally
) -> Iterator[bytes | None]:
    start = 0  # offset of the current stream in the file
    while True:
        file.seek(start)
        intact_end = start  # everything before this offset was decompressed
        decompressor = compression.new_decompressor()
        problem = ""
        while not (decompressor.eof or problem):
            compressed = file.read(_COMPRESSED_READ_SIZE)
            try:
                block = decompressor.decompress(compressed) if compressed else b""
            except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
                problem = str(error)
                break
            if block:
                intact_end = file.tell()
                yield block
            if not compressed:
                problem = "the file ends within a stream"
        if not problem:
            intact_end = start = file.tell() - len(decompressor.unused_data)
            file.seek(start)
            if file.read(len(compression.magic)) == compression.magic:
                continue
            file.seek(start)
            if _is_padding(file):
                return
            problem = "the data that follows is not a compressed stream"
        yield None
        next_start = _next_stream(
            file, max(start + 1, file.tell() - _COMPRESSED_READ_SIZE - _MAX_BZIP2_BLOCK), compression.restart
        )
        end = file.seek(0, 2) if next_start is None else next_start
        tally.lost_bytes += max(end - intact_end, 1)
        tally.note(f"bytes {intact_end:,} to {end:,} of {name}: {problem}")
        if next_start is None:
            return
        start = next_start


def _is_padding(file: BinaryIO) -> bool:
    """Whether the rest of the file is zeros."""
    while block := file.read(_PLAIN_READ_SIZE):
        if block.strip(b"\0"):
            return False
    return True


def _next_stream(file: BinaryIO, start: int, restart: re.Pattern[bytes] | None) -> int | None:
    """The offset of the next stream at `start` or after it; None if there is none."""
    if restart is None:
        return None
    file.seek(start)
    window = b""
    while block := file.read(_PLAIN_READ_SIZE):
        window = window[-_BZIP2_START_LENGTH + 1 :] + block
        if match := restart.search(window):
            return file.tell() - len(window) + match.start()
    return None
