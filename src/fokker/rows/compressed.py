"""Plain and compressed files as blocks of bytes, as lines, or whole.

A damaged file is an error, unless the caller takes note of what is lost: reading then continues after the
damaged data where the format allows it.
"""

import bz2
import io
import lzma
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

# What takes note of damage: the number of bytes that are lost, and what is wrong.
Damage = Callable[[int, str], None]
# Bytes decompressed per call. A call that meets damaged data loses its whole output, so this is small.
_COMPRESSED_READ_SIZE = 1 << 14
# Bytes read per call from a plain file.
_PLAIN_READ_SIZE = 1 << 18
# A bzip2 block is slightly over 900 kB at most: damage is detected at its end at the latest.
_MAX_BZIP2_BLOCK = 1_000_000
_BZIP2_START = re.compile(rb"BZh[1-9]1AY&SY")
_BZIP2_START_LENGTH = 10


class _Compression(NamedTuple):
    suffix: str
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
    _Compression(".bz2", b"BZh", bz2.BZ2Decompressor, _BZIP2_START),
    _Compression(".gz", b"\x1f\x8b", _gzip_decompressor, None),
    _Compression(".xz", b"\xfd7zXZ\x00", lzma.LZMADecompressor, None),
    _Compression(".zst", b"\x28\xb5\x2f\xfd", _Zstd, None),
)
SUFFIXES = (*(compression.suffix for compression in _COMPRESSIONS), ".zstd")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Control characters do not occur in text, apart from tab, line feed, form feed and carriage return.
_CONTROL_CHARACTERS = bytes(set(range(32)) - {9, 10, 12, 13, 27})
_SAMPLE_SIZE = 1 << 16


def _compression(first_bytes: bytes) -> _Compression | None:
    return next((known for known in _COMPRESSIONS if first_bytes.startswith(known.magic)), None)


def suffix_of(first_bytes: bytes) -> str:
    """The suffix of a file that begins with these bytes, if it is compressed; else empty."""
    compression = _compression(first_bytes)
    return "" if compression is None else compression.suffix


def uncompressed_name(path: Path) -> Path:
    """The name of a file without the suffix of its compression."""
    return Path(path.stem if path.suffix.lower() in SUFFIXES else path.name)


def blocks(path: Path, damage: Damage | None = None) -> Iterator[bytes | None]:
    """The decompressed contents of a file, in blocks; None marks a gap.

    The file may be plain, or consist of one or more streams of gzip, bzip2, xz or zstd. After a damaged bzip2
    stream, reading continues with the next one; the others end there. Without `damage` it raises.
    """
    if damage is None:
        damage = _refused(path)
    with path.open("rb") as file:
        compression = _compression(file.read(8))
        file.seek(0)
        if compression is not None:
            yield from _decompressed(file, path.name, compression, damage)
            return
        while block := file.read(_PLAIN_READ_SIZE):
            yield block


def head(path: Path) -> bytes:
    """The first bytes of a file, decompressed; fewer if it is shorter or damaged."""
    contents = b""
    for block in blocks(path, lambda *_: None):
        if block is None:
            break
        contents += block
        if len(contents) >= _SAMPLE_SIZE:
            break
    return contents[:_SAMPLE_SIZE]


def read_all(path: Path, damage: Damage | None = None) -> bytes:
    """The complete decompressed contents of a file, without the gaps."""
    return b"".join(block for block in blocks(path, damage) if block is not None)


def decode(contents: bytes, path: Path) -> str:
    """The contents as text: UTF-8, or else Latin-1, which older data sets use. Binary data are refused."""
    sample = contents[:_SAMPLE_SIZE]
    if len(sample.translate(None, _CONTROL_CHARACTERS)) < len(sample):
        raise ValueError(f"{path} is a binary file; a text file is needed, plain or compressed.")
    try:
        return contents.decode("utf-8-sig")
    except UnicodeDecodeError:
        return contents.decode("latin-1")


def lines(blocks: Iterable[bytes | None]) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers, from 1, without line ends. A line that is cut by a gap (None) is skipped."""
    number, rest, is_cut, is_first_block = 0, b"", False, True
    for block in blocks:
        if block is None:
            rest, is_cut = b"", True
            continue
        if is_first_block:
            block, is_first_block = block.removeprefix(_BYTE_ORDER_MARK), False
        if b"\n" not in block:
            rest += block
            continue
        *complete, rest = (rest + block).split(b"\n")
        for line in complete:
            number += 1
            if not is_cut:
                yield number, line.rstrip(b"\r")
            is_cut = False
    if rest and not is_cut:
        yield number + 1, rest.rstrip(b"\r")


def open_binary(path: Path) -> io.BufferedReader:
    """The decompressed contents of a file as a file; damage is an error."""
    return io.BufferedReader(_Contents(blocks(path)), _PLAIN_READ_SIZE)


class _Contents(io.RawIOBase):
    """Blocks as a file that can be read once."""

    def __init__(self, source: Iterator[bytes | None]) -> None:
        self._source, self._rest = source, b""

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        """Fill the buffer as far as the next block goes; 0 at the end."""
        while not self._rest:
            block = next(self._source, None)
            if block is None:
                return 0
            self._rest = block
        view = memoryview(buffer)
        size = min(len(view), len(self._rest))
        view[:size], self._rest = self._rest[:size], self._rest[size:]
        return size


def _refused(path: Path) -> Damage:
    def refuse(size: int, problem: str) -> None:
        raise ValueError(f"{path} is damaged or cut short: {problem}. Download or copy it again.")

    return refuse


def _decompressed(
    file: BinaryIO, name: str, compression: _Compression, damage: Damage
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
        damage(max(end - intact_end, 1), f"bytes {intact_end:,} to {end:,} of {name}: {problem}")
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
