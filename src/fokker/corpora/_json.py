"""Text in JSON: one object per line, or an array of objects or strings."""

import codecs
import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from fokker.corpora._source import TableSource, Text
from fokker.corpora._tally import Tally, decoded
from fokker.rows.compressed import blocks, lines, read_all
from fokker.rows.json_lines import records

# The name of a document is its value under the first of these.
NAME_KEYS = ("title", "name", "id")
# Between two elements of an array.
_BETWEEN = re.compile(r"[ \t\r\n,]*")


class JsonLines(TableSource):
    """One JSON object per line, with its text under `key`, named by its title, name or id if it has one.

    Other lines are counted in the tally.
    """

    def texts_of(self, path: Path, tally: Tally) -> Iterator[Text]:
        """The objects of one file, in order."""
        numbered = ((n, decoded(line, tally)) for n, line in lines(blocks(path, tally.lose)))
        return json_texts(numbered, self.key, partial(self.name_of, path), tally, self.named_by)


class JsonArray(TableSource):
    """One JSON array per file, of objects with their text under `key`, or of strings.

    The elements are read one by one. They are named like those of `JsonLines`, else by their numbers from 1.
    Those without text are counted in the tally.
    """

    def texts_of(self, path: Path, tally: Tally) -> Iterator[Text]:
        """The elements of one file, in order."""
        for number, element in enumerate(_elements(path, tally), 1):
            name = self.name_of(path, number)
            if isinstance(element, str):
                yield "" if self.named_by else name, (element,)
            else:
                yield from _text_of(element, self.key, name, tally, named_by=self.named_by)


def _elements(path: Path, tally: Tally) -> Iterator[Any]:
    """The elements of an array; a file that is cut short loses the last one."""
    decode, number = json.JSONDecoder().raw_decode, 0
    chunks = _decoded_chunks(path, tally)
    text, position, is_last = next(chunks, "").lstrip(), 1, False
    if not text.startswith("["):
        raise ValueError(
            f"{path} is not a JSON array{_keys_of_object(path, tally)}: give an array of objects or strings, "
            "or one object per line (format='jsonl')."
        )
    while True:
        position = _end_of(_BETWEEN, text, position)
        if text.startswith("]", position):
            return
        problem = "the array is not closed"
        try:
            element, end = decode(text, position)
            # Complete only if something follows: 12 may be the beginning of 123.
            is_complete = _end_of(_BETWEEN, text, end) < len(text)
        except ValueError as error:
            is_complete, problem = False, str(error)
        if is_complete:
            number, position = number + 1, end
            yield element
        elif is_last:
            tally.bad_line(f"{path.name} after element {number}: {problem}")
            return
        else:
            # At least as much again, so that a long element is not decoded too often.
            parts, wanted = [text[position:]], 2 * (len(text) - position) + 1
            while sum(map(len, parts)) < wanted and not is_last:
                chunk = next(chunks, None)
                is_last = chunk is None
                parts.append(chunk or "")
            text, position = "".join(parts), 0


def _end_of(expression: re.Pattern[str], text: str, position: int) -> int:
    match = expression.match(text, position)
    return match.end() if match else position


def _decoded_chunks(path: Path, tally: Tally) -> Iterator[str]:
    # Of a character that is divided between two blocks, the decoder keeps the first bytes.
    decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
    for block in blocks(path, tally.lose):
        chunk = decoder.decode(block or b"")
        tally.invalid_utf8 += "\N{REPLACEMENT CHARACTER}" in chunk
        yield chunk
    yield decoder.decode(b"", final=True)


def _keys_of_object(path: Path, tally: Tally) -> str:
    try:
        value = json.loads(read_all(path, tally.lose))
    except ValueError:
        return ""
    if not isinstance(value, dict):
        return f" but a {type(value).__name__}"
    return f" but an object with the keys {', '.join(map(repr, list(value)[:8]))}"


def is_json_object(line: bytes) -> bool:
    """Whether a line is a JSON object, or the beginning of one."""
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return line.lstrip().startswith(b'{"')


def json_texts(
    numbered: Iterable[tuple[int, str]],
    key: str,
    name_of: Callable[[int], str],
    tally: Tally,
    named_by: str | None = None,
) -> Iterator[Text]:
    """The texts of JSON lines that have one; `named_by` as for `TableSource`."""
    for number, entry, problem in records(numbered):
        yield from _text_of(entry, key, name_of(number), tally, problem, named_by)


def _text_of(
    entry: Any, key: str, name: str, tally: Tally, problem: str = "", named_by: str | None = None
) -> Iterator[Text]:
    if problem:
        pass
    elif not isinstance(entry, dict):
        problem = f"a JSON {type(entry).__name__}, not an object"
    elif key not in entry:
        problem = f"no key {key!r} among {', '.join(map(repr, list(entry)[:8]))}: set key=…"
    elif not isinstance(entry[key], str):
        problem = f"{key!r} is a {type(entry[key]).__name__}, not text"
    if problem:
        tally.bad_line(f"line {name}: {problem}")
        return
    keys = NAME_KEYS if named_by is None else (named_by,)
    names = (str(entry[name_key]) for name_key in keys if entry.get(name_key) not in (None, ""))
    yield next(names, name if named_by is None else ""), (entry[key],)
