"""Split bytes into lines, and decode them."""

from collections.abc import Iterable, Iterator

from fokker.corpora._tally import Tally

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


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


def decoded(data: bytes, tally: Tally) -> str:
    """Decode UTF-8. Invalid bytes are replaced by �, and the tally counts the text once."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        tally.invalid_utf8 += 1
        return data.decode("utf-8", errors="replace")
