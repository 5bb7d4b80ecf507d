"""Parse the text formats of ratings into columns of identifiers and values.

Pandas parses a whole file at once. Only if it refuses the file, or a rating is not a finite number in
the range, are the lines read one by one: identifiers that are not integers, and messages that name the line.
"""

import io
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fokker.rows.column import is_number, no_column
from fokker.rows.delimited import TextFormat, numbered_rows, parsed

# The names of the columns in common data sets, in lower case and without "_".
_USER_NAMES = ("user", "userid", "reviewerid", "customerid")
_ITEM_NAMES = ("item", "itemid", "movie", "movieid", "book", "bookid", "asin", "productid", "songid")
_RATING_NAMES = ("rating", "ratings", "stars", "score", "overall")
_NETFLIX_MOVIE = re.compile(r"^[ \t]*(\d+):[ \t]*\r?$", re.MULTILINE)
_SHOWN_LENGTH = 60

Columns = Sequence[str] | Sequence[int]
# The range in which ratings must lie.
Limits = tuple[float, float] | None


class RatingTable(NamedTuple):
    """One entry per rating: identifiers as integers or text, and values."""

    users: np.ndarray
    items: np.ndarray
    values: np.ndarray


@dataclass(frozen=True)
class Delimited:
    """The layout of a text file: its delimiter, the positions of user, item and rating, and its header.

    `item_column`: what the header calls the column of items; "" without a header.
    """

    delimiter: str
    positions: tuple[int, int, int]
    has_header: bool
    item_column: str = ""


def is_netflix(text: str) -> bool:
    """Whether the first line is that of a movie in the Netflix Prize format, as in `1:`."""
    return _NETFLIX_MOVIE.match(_first_line(text)) is not None


def find_layout(text: str, path: Path, columns: Columns | None) -> Delimited:
    """The layout of a text file, from its first line and the columns that the user names."""
    first = _first_line(text)
    delimiter = next((mark for mark in ("::", "\t", ",", ";", "|") if mark in first), None)
    shown = repr(first[:_SHOWN_LENGTH])
    if delimiter is None:
        raise ValueError(
            f"{path}: the format is unknown. Its first line is {shown}; lines with user, item and rating "
            "separated by '::', a tab, ',', ';' or '|' are needed, or a movie of the Netflix Prize (`1:`)."
        )
    fields = _split_line(first, delimiter)
    if columns is not None:
        return _layout_of_columns(fields, delimiter, path, columns)
    if all(is_number(field) for field in fields):
        if delimiter in ("::", "\t") and len(fields) in (3, 4):
            return Delimited(delimiter, (0, 1, 2), has_header=False)
        raise ValueError(
            f"{path}: the first line, {shown}, is not a header that names the columns. If user, item and "
            "rating are the first, second and third column, give columns=(0, 1, 2)."
        )
    names = [normal_name(field) for field in fields]
    positions = [
        [position for position, name in enumerate(names) if name in known]
        for known in (_USER_NAMES, _ITEM_NAMES, _RATING_NAMES)
    ]
    if any(len(places) != 1 for places in positions):
        raise ValueError(
            f"{path}: the header {shown} does not say which columns hold user, item and rating: name them, "
            'as in columns=("who", "what", "stars"), or by place, as in columns=(0, 1, 2), if there is no '
            "header."
        )
    user, item, rating = (places[0] for places in positions)
    return Delimited(delimiter, (user, item, rating), has_header=True, item_column=fields[item])


def parse_delimited(text: str, path: Path, layout: Delimited, limits: Limits) -> RatingTable:
    """The columns of a text file with one rating per line."""
    table = _parse_fast(text, layout)
    if table is None or not _are_valid(table.values, limits):
        table = _parse_slowly(_rows(text, layout), path, layout.positions, limits)
    return table


def parse_netflix(text: str, path: Path, limits: Limits) -> RatingTable:
    """The columns of a file with lines `movie:`, each followed by lines `user,rating,date` of that movie."""
    layout = Delimited(",", (0, 0, 1), has_header=False)  # the item is in no column
    movies, counts = [], []
    bodies = _NETFLIX_MOVIE.split(text)  # what comes before the first movie, then movie and lines in turn
    for movie, body in zip(bodies[1::2], bodies[2::2], strict=True):
        movies.append(int(movie))
        counts.append(sum(1 for line in body.splitlines() if line.strip()))
    table = _parse_fast("".join(bodies[2::2]), layout)
    if bodies[0].strip() or table is None or not _are_valid(table.values, limits):
        return _parse_slowly(_netflix_rows(text), path, (1, 0, 2), limits)
    return table._replace(items=np.repeat(np.array(movies, np.int64), counts))


def refuse_invalid(values: np.ndarray, place: Callable[[int], str], limits: Limits) -> None:
    """Refuse values that are not finite or out of range; the message names the `place` of the first."""
    if not _are_valid(values, limits):
        for row, value in enumerate(values.tolist()):
            if problem := _problem(value, limits):
                raise ValueError(f"{place(row)}: {problem}")


def _first_line(text: str) -> str:
    return next((line for line in io.StringIO(text) if line.strip()), "").strip("\r\n")


def _split_line(line: str, delimiter: str) -> list[str]:
    return next(numbered_rows([line], delimiter))[1]


def normal_name(name: str) -> str:
    """A name of a column as it is compared: in lower case, without "_" and blanks."""
    return name.strip().lower().replace("_", "").replace(" ", "")


def _layout_of_columns(fields: list[str], delimiter: str, path: Path, columns: Columns) -> Delimited:
    if all(isinstance(column, int) for column in columns):
        if not all(0 <= int(column) < len(fields) for column in columns):
            raise ValueError(
                f"columns={tuple(columns)}: the first line of {path} has the columns 0 to {len(fields) - 1}."
            )
        return Delimited(delimiter, _triple([int(column) for column in columns]), has_header=False)
    names = [field.strip() for field in fields]
    for column in columns:
        if column not in names:
            raise ValueError(f"columns: {path} has {no_column(str(column), names)}")
    places = _triple([names.index(str(column)) for column in columns])
    return Delimited(delimiter, places, has_header=True, item_column=str(columns[1]))


def _triple(positions: list[int]) -> tuple[int, int, int]:
    user, item, rating = positions
    return user, item, rating


def _parse_fast(text: str, layout: Delimited) -> RatingTable | None:
    """The table if every identifier is an integer and every rating a number, else None."""
    user, item, rating = layout.positions
    names = range(len(_split_line(_first_line(text), layout.delimiter)))
    delimiter = layout.delimiter
    if len(delimiter) > 1:  # pandas reads one character much faster
        text, delimiter = text.replace(delimiter, "\t"), "\t"
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of rows with more columns than the first
        try:
            frame = parsed(
                io.StringIO(text),
                TextFormat(separator=delimiter, missing=()),
                layout.has_header,
                names=names,
                usecols=sorted(set(layout.positions)),
                dtype={user: np.int64, item: np.int64, rating: np.float64},
            )
        except (ValueError, OverflowError, Warning):
            return None
    return RatingTable(*(frame[position].to_numpy() for position in layout.positions))


def _rows(text: str, layout: Delimited) -> Iterator[tuple[int, list[str]]]:
    """Line numbers and fields of the lines that are not blank."""
    is_header = layout.has_header
    for number, fields in numbered_rows(io.StringIO(text), layout.delimiter):
        if any(field.strip() for field in fields):
            if not is_header:
                yield number, fields
            is_header = False


def _netflix_rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """Line numbers and fields, with the movie in front of each."""
    movie = ""
    for number, line in enumerate(io.StringIO(text), 1):
        if match := _NETFLIX_MOVIE.match(line.rstrip("\r\n")):
            movie = match[1]
        elif line.strip():
            yield number, [movie, *line.strip().split(",")]


def _parse_slowly(
    rows: Iterator[tuple[int, list[str]]], path: Path, positions: tuple[int, int, int], limits: Limits
) -> RatingTable:
    """Read rows one by one; the message about a row that cannot be read names its line."""
    num_columns = max(positions) + 1
    users: list[str] = []
    items: list[str] = []
    values: list[float] = []
    for number, fields in rows:
        if len(fields) < num_columns:
            raise ValueError(
                f"{path}, line {number} has {len(fields)} columns; at least {num_columns} are needed: the "
                "file may be cut short there."
            )
        user, item, rating = (fields[position].strip() for position in positions)
        if not user or not item:
            raise ValueError(f"{path}, line {number} has no {'user' if not user else 'item'}.")
        try:
            value = float(rating)
        except ValueError:
            shown = rating[:_SHOWN_LENGTH]
            raise ValueError(f"{path}, line {number}: the rating {shown!r} is not a number.") from None
        if problem := _problem(value, limits):
            raise ValueError(f"{path}, line {number}: {problem}")
        users.append(user)
        items.append(item)
        values.append(value)
    return RatingTable(_identifiers(users), _identifiers(items), np.array(values, np.float64))


def _identifiers(texts: list[str]) -> np.ndarray:
    """Integers if all are integers, else text."""
    try:
        return np.array([int(text) for text in texts], np.int64)
    except (ValueError, OverflowError):
        return np.array(texts, dtype=np.str_)


def _are_valid(values: np.ndarray, limits: Limits) -> bool:
    is_valid = np.isfinite(values)
    if limits is not None:
        is_valid &= (values >= limits[0]) & (values <= limits[1])
    return bool(np.all(is_valid))


def _problem(value: float, limits: Limits) -> str:
    """What is wrong with a rating; empty if nothing is."""
    if not np.isfinite(value):
        return f"the rating is {value}; a finite number is needed."
    if limits is not None and not limits[0] <= value <= limits[1]:
        return f"the rating {value:g} is not from {limits[0]:g} to {limits[1]:g}, as limits={limits} asks."
    return ""


def table_of_arrays(arrays: dict[str, Any], path: Path, columns: Columns | None) -> tuple[RatingTable, str]:
    """The columns of a file of named arrays: those of `columns`, or named like those of a text file.

    And what the file calls that of items.
    """
    chosen, chosen_names = [], []
    for position, known in enumerate((_USER_NAMES, _ITEM_NAMES, _RATING_NAMES)):
        if columns is None:
            names = [name for name in arrays if normal_name(name) in known]
        else:
            names = [name for name in arrays if name == columns[position]]
        if len(names) != 1:
            raise ValueError(
                f"{path} contains the arrays {', '.join(arrays) or '(none)'}; one for the users (user_id), "
                "one for the items (item_id, movie_id, book_id) and one for the ratings (rating) are needed; "
                "name them with columns=(…) if they have other names."
            )
        chosen.append(np.asarray(arrays[names[0]]))
        chosen_names.append(names[0])
    if len({array.shape for array in chosen}) != 1 or chosen[0].ndim != 1:
        shapes = ", ".join(str(array.shape) for array in chosen)
        raise ValueError(
            f"{path}: the arrays of users, items and ratings have the shapes {shapes}; three vectors of one "
            "length are needed."
        )
    try:
        values = chosen[2].astype(np.float64)
    except (ValueError, TypeError):
        raise ValueError(f"{path}: the ratings are of type {chosen[2].dtype}; numbers are needed.") from None
    return RatingTable(chosen[0], chosen[1], values), chosen_names[1]
