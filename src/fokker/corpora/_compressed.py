"""Files read in blocks, unpacked on the way, going on after damage where that can be done."""

import bz2
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from fokker.corpora._tally import Tally

# The bytes that are unpacked at once. What a call has unpacked before it meets damage is lost: small, then.
_READ = 1 << 14
# The bytes read at once where there is nothing to unpack.
_READ_PLAIN = 1 << 18
# A bzip2 block is at most 900 kB and a little: its damage is noticed at the latest at its end.
_BLOCK = 1_000_000
_BZIP2 = re.compile(rb"BZh[1-9]1AY&SY")
_LENGTH_OF_BZIP2 = 10


class _Kind(NamedTuple):
    magic: bytes
    unpacker: Callable[[], Any]
    restart: re.Pattern[bytes] | None


def _gzip() -> Any:
    return zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)


# Known by how they begin, whatever the name. Only bzip2's streams begin so that chance cannot imitate it.
_KINDS = (
    _Kind(b"BZh", bz2.BZ2Decompressor, _BZIP2),
    _Kind(b"\x1f\x8b", _gzip, None),
    _Kind(b"\xfd7zXZ\x00", lzma.LZMADecompressor, None),
)
SUFFIXES = (".bz2", ".gz", ".xz")


def blocks(path: Path, tally: Tally) -> Iterator[bytes | None]:
    """The unpacked contents of a file, bit by bit; None stands where something is missing.

    A file may be plain, or one or many streams of gzip, bzip2 or xz. After a damaged bzip2 stream reading
    goes on with the next one; gzip and xz end there. The tally says which bytes were lost.
    """
    with path.open("rb") as file:
        beginning = file.read(8)
        file.seek(0)
        for kind in _KINDS:
            if beginning.startswith(kind.magic):
                yield from _unpacked(file, path.name, kind, tally)
                return
        while block := file.read(_READ_PLAIN):
            yield block


def head(path: Path, size: int = 1 << 16) -> bytes:
    """The first bytes of a file, unpacked; fewer if it is shorter or damaged."""
    found = b""
    for block in blocks(path, Tally()):
        if block is None:
            break
        found += block
        if len(found) >= size:
            break
    return found[:size]


def whole(path: Path, tally: Tally) -> bytes:
    """All of a file, unpacked."""
    return b"".join(block for block in blocks(path, tally) if block is not None)


def _unpacked(file: BinaryIO, name: str, kind: _Kind, tally: Tally) -> Iterator[bytes | None]:
    start = 0  # where the present stream begins in the file
    while True:
        file.seek(start)
        sound = start  # up to here all was unpacked
        stream = kind.unpacker()
        wrong = ""
        while not (stream.eof or wrong):
            packed = file.read(_READ)
            try:
                block = stream.decompress(packed) if packed else b""
            except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
                wrong = str(error)
                break
            if block:
                sound = file.tell()
                yield block
            if not packed:
                wrong = "the file ends within a stream"
        if not wrong:
            sound = start = file.tell() - len(stream.unused_data)
            file.seek(start)
            if file.read(len(kind.magic)) == kind.magic:
                continue
            file.seek(start)
            if _is_padding(file):
                return
            wrong = "what follows is not a compressed stream"
        yield None
        again = _next_stream(file, max(start + 1, file.tell() - _READ - _BLOCK), kind.restart)
        end = file.seek(0, 2) if again is None else again
        tally.lost_bytes += max(end - sound, 1)
        tally.note(f"bytes {sound:,} to {end:,} of {name}: {wrong}")
        if again is None:
            return
        start = again


def _is_padding(file: BinaryIO) -> bool:
    """Whether nothing but zeros is left."""
    while block := file.read(_READ_PLAIN):
        if block.strip(b"\0"):
            return False
    return True


def _next_stream(file: BinaryIO, begin: int, restart: re.Pattern[bytes] | None) -> int | None:
    """Where the next stream begins, at `begin` or after it."""
    if restart is None:
        return None
    file.seek(begin)
    window = b""
    while block := file.read(_READ_PLAIN):
        window = window[-_LENGTH_OF_BZIP2 + 1 :] + block
        if found := restart.search(window):
            return file.tell() - len(window) + found.start()
    return None
