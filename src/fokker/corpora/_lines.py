"""Bytes into lines, and lines into text."""

from collections.abc import Iterable, Iterator

from fokker.corpora._tally import Tally

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def lines(blocks: Iterable[bytes | None]) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers, from 1, without their ends. A line that is cut by a gap (None) is left "
    "out."""
    number, rest, broken, first = 0, b"", False, True
    for block in blocks:
        if block is None:
            rest, broken = b"", True
            continue
        if first:
            block, first = block.removeprefix(_BYTE_ORDER_MARK), False
        if b"\n" not in block:
            rest += block
            continue
        *complete, rest = (rest + block).split(b"\n")
        for line in complete:
            number += 1
            if not broken:
                yield number, line.rstrip(b"\r")
            broken = False
    if rest and not broken:
        yield number + 1, rest.rstrip(b"\r")


def decoded(data: bytes, tally: Tally) -> str:
    """Text from UTF-8, with what is not UTF-8 replaced by � and counted once."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        tally.invalid_utf8 += 1
        return data.decode("utf-8", errors="replace")
