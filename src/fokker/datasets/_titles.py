"""Read the titles of items that come with a data set of ratings."""

import csv
import io
import warnings
from pathlib import Path

import numpy as np

from fokker.datasets._rating_tables import normal_name
from fokker.rows.compressed import decode, read_all
from fokker.rows.delimited import numbered_rows

# The files of titles next to the ratings. Their columns are found as in `_columns`.
_FILE_NAMES = ("movies.csv", "movies.dat", "u.item", "books.csv", "movie_titles.txt", "movie_titles.csv")
# The columns of identifiers, in their order of preference: where books.csv of goodbooks-10k has id and
# book_id, the ratings refer to id, by a column book_id of their own.
_IDENTIFIERS, _NOT_BY_NAME = ("movieId", "item_id", "id", "book_id"), ("", "title", "bookid")


class _NoTitlesError(ValueError):
    """A file that has no titles at all: beside ratings it is something else, such as their features."""


def read_titles(
    folder: Path, item_names: np.ndarray, path: str | Path | None, item_column: str
) -> np.ndarray | None:
    """The titles in the order of `item_names`, "" where there is none; None without a file of titles.

    The file is `path`, or one of the known names in the folder of the ratings: where that has titles which
    cannot be used, a warning says why. `item_column`: the name that the ratings have for their column of
    items, or "".
    """
    file = _find(folder) if path is None else Path(path).expanduser()
    if file is None:
        return None
    if not file.is_file():
        raise FileNotFoundError(f"titles: there is no file {file}.")
    try:
        by_identifier = _parse(decode(read_all(file), file), file, item_column)
    except (OSError, ValueError, csv.Error) as error:
        if path is not None:
            raise
        if not isinstance(error, _NoTitlesError):
            warnings.warn(f"titles beside the ratings are not used: {error}", stacklevel=3)
        return None
    names = [str(name) for name in item_names.tolist()]
    return np.array([by_identifier.get(name, "") for name in names], dtype=np.str_)


def _find(folder: Path) -> Path | None:
    candidates = (folder / f"{name}{suffix}" for name in _FILE_NAMES for suffix in ("", ".gz"))
    return next((path for path in candidates if path.is_file()), None)


def _parse(text: str, path: Path, item_column: str) -> dict[str, str]:
    """Titles by identifier.

    The formats are: a header that names the columns of identifier and title (`movieId,title,genres`);
    `identifier::title::genres`; `identifier|title|…`; and `identifier,year,title`, where the title may
    contain commas and is not quoted.
    """
    first_line = text.split("\n", 1)[0]
    start = first_line.partition(",")[0]
    mark = "::" if "::" in start else "|" if "|" in start else ""
    if mark:
        rows = (line.split(mark) for line in text.splitlines())
        return {row[0]: row[1] for row in rows if len(row) > 1}
    header = [normal_name(name) for name in next(numbered_rows([first_line], ","), (1, []))[1]]
    if "title" in header:
        own = [] if normal_name(item_column) in _NOT_BY_NAME else [item_column]
        candidates = list(dict.fromkeys([*own, *_IDENTIFIERS]))
        places = [header.index(normal_name(name)) for name in candidates if normal_name(name) in header]
        if not places:
            raise ValueError(
                f"{path}: the header {first_line[:60]!r} names no column {', '.join(candidates[:-1])} or "
                f"{candidates[-1]}."
            )
        key, title = places[0], header.index("title")
        rows = (row for _, row in numbered_rows(io.StringIO(text), ",") if len(row) > max(key, title))
        return {row[key].strip(): row[title].strip() for row in rows}
    if first_line.count(",") >= 2 and first_line.split(",", 1)[0].strip().isdigit():
        rows = (line.split(",", 2) for line in text.splitlines())
        return {row[0]: row[2].strip() for row in rows if len(row) > 2}
    raise _NoTitlesError(
        f"{path}: the format of the titles is unknown. Its first line is {first_line[:60]!r}; a header with "
        "the columns movieId and title is one that can be read."
    )
