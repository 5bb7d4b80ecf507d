"""Tables as JSON lines: one object per line, whose keys are the columns."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from fokker.rows.column import TableColumn, as_array
from fokker.rows.compressed import blocks, lines

ENDINGS = (".jsonl", ".ndjson")


def records(text_lines: Iterable[tuple[int, bytes | str]]) -> Iterator[tuple[int, Any, str]]:
    """The value of each line that is not blank, with the line's number, and what is wrong with the line."""
    for number, line in text_lines:
        if line.strip():
            try:
                yield number, json.loads(line), ""
            except ValueError as error:
                yield number, None, f"not JSON, {error}"


def read_json_lines(path: Path) -> dict[str, TableColumn]:
    """The columns of a file, checked; a key that a line does not have is a missing value there."""
    import pandas

    numbers, objects = [], []
    for number, value, problem in records(lines(blocks(path))):
        if not problem and not isinstance(value, dict):
            problem = f"a JSON {type(value).__name__}, not an object"
        if problem:
            raise ValueError(f"line {number} of {path}: {problem}; one object per line is needed.")
        numbers.append(number)
        objects.append(value)
    if not objects:
        raise ValueError(f"{path} has no rows.")
    frame = pandas.DataFrame.from_records(objects)
    return {
        name: TableColumn(name, as_array(frame[name]), lambda row: f"line {numbers[row]} of {path}")
        for name in frame.columns
    }
