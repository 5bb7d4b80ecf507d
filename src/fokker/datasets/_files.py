"""Read whole files, compressed or not, as bytes or text."""

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable
from pathlib import Path

# Compression is recognised by the first bytes, not by the file name.
_DECOMPRESSORS: dict[bytes, Callable[[bytes], bytes]] = {
    b"\x1f\x8b": gzip.decompress,
    b"BZh": bz2.decompress,
    b"\xfd7zXZ\x00": lzma.decompress,
}
# Control characters do not occur in text, apart from tab, line feed, form feed and carriage return.
_CONTROL_CHARACTERS = bytes(set(range(32)) - {9, 10, 12, 13, 27})
_SAMPLE_SIZE = 1 << 16


def read_bytes(path: Path) -> bytes:
    """The contents of a file; gzip, bzip2 and xz are decompressed."""
    contents = path.read_bytes()
    for magic, decompress in _DECOMPRESSORS.items():
        if contents.startswith(magic):
            try:
                return decompress(contents)
            except (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error) as error:
                raise ValueError(
                    f"{path} is damaged or cut short: {error}. Download or copy it again."
                ) from None
    return contents


def decode(contents: bytes, path: Path) -> str:
    """The contents as text: UTF-8, or else Latin-1, which older data sets use. Binary data are refused."""
    sample = contents[:_SAMPLE_SIZE]
    if len(sample.translate(None, _CONTROL_CHARACTERS)) < len(sample):
        raise ValueError(f"{path} is a binary file; a text file is needed (plain, .gz, .bz2 or .xz).")
    try:
        return contents.decode("utf-8-sig")
    except UnicodeDecodeError:
        return contents.decode("latin-1")
