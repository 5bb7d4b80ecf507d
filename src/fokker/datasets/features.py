"""Tables of what is known of users or items, one row each, as `fk.models.Factorisation` takes them."""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fokker.datasets._rating_tables import normal_name
from fokker.rows.column import is_number, listed, no_column

if TYPE_CHECKING:
    from pandas import DataFrame

    from fokker.rows.table import Columns

# Between several texts in one field, as in "Comedy|Drama".
_SEPARATOR = "|"


def read_features(path: str | Path, *, columns: Sequence[str] | None = None) -> "DataFrame":
    """Read features of users or items from a file whose first column has their identifiers.

    Columns of numbers stay as they are. A column of texts becomes a column of 0 and 1 for each text; a field
    may have several, with | between them, as the genres of MovieLens.

    ```python
    genres = fk.datasets.read_features("ml-latest-small/movies.csv", columns=["genres"])
    model = fk.models.Factorisation(10).fit(ratings, item_features=genres)
    ```

    Arguments:

    - `path`: a file that `fokker sample` reads too: .csv, .tsv, .jsonl or .parquet, plain or compressed.
    - `columns`: those to use. By default all but the first, without those that have too many different texts
      to learn from, such as titles; a warning names these.

    Returns a data frame with the identifiers as its index.
    """
    import pandas

    from fokker.rows.table import ColumnError, columns_of, read_table

    path = Path(path).expanduser()
    problems = {name: column.problem for name, column in columns_of(str(path)).items()}
    if not problems:
        raise ValueError(f"{path} has no columns.")
    key, *others = problems
    chosen = list(others if columns is None else columns)
    if not chosen:
        raise ValueError(
            f"columns=[] chooses none: give names of {listed(others)}."
            if others
            else f"{path} has the column {key!r} alone, of identifiers: add columns of features after it."
        )
    for name in chosen:
        if name not in problems:
            raise ColumnError(f"{path} has {no_column(name, list(problems))}")
    texts = {name: problem for name in (key, *chosen) if (problem := problems[name]) is not None}
    table = read_table(
        [str(path)], columns=[key, *chosen], categories=dict.fromkeys(texts), may_be_missing=texts
    )
    too_many = {
        name: len(table.labels[name])
        for name in chosen
        if name in texts and _are_too_many(table.labels[name], table.size)
    }
    if too_many:
        is_refused = columns is not None or len(too_many) == len(chosen)
        _refuse_or_warn(path, too_many, table.size, others, is_refused)
        chosen = [name for name in chosen if name not in too_many]
    for name, problem in texts.items():
        if name in too_many:
            continue
        labels = table.labels[name]
        are_numbers = all(map(is_number, labels))
        if np.any(table[name] < 0) and (name == key or not are_numbers):
            missing = columns_of(str(path), [name])[name].missing_texts()
            instead = "the identifier there" if name == key else "a text there, such as unknown"
            raise ColumnError(f"{missing}: remove these rows, or write {instead}.")
        if are_numbers:
            raise ColumnError(problem)
    parts = [
        _indicators(name, table[name], table.labels[name])
        if name in texts
        else pandas.DataFrame({name: table[name]})
        for name in chosen
    ]
    frame = pandas.concat(parts, axis=1)
    return frame.set_axis(pandas.Index(_values(table, key), name=key))


def read_item_titles(path: Path) -> dict[str, str]:
    """The column `title` of a file of features by its identifiers, as texts; empty without such a column."""
    from fokker.rows.table import columns_of, read_table

    problems = {name: column.problem for name, column in columns_of(str(path)).items()}
    key, *others = problems
    title = next((name for name in others if normal_name(name) == "title"), None)
    if title is None or problems[title] is None:
        return {}
    texts = [name for name in (key, title) if problems[name] is not None]
    table = read_table(
        [str(path)], columns=[key, title], categories=dict.fromkeys(texts), may_be_missing=texts
    )
    pairs = zip(_values(table, key).tolist(), table[title].tolist(), strict=True)
    return {str(name): table.labels[title][code] for name, code in pairs if code >= 0}


def _values(table: "Columns", name: str) -> np.ndarray:
    """A column, whose categories are texts again."""
    return np.array(table.labels[name])[table[name]] if name in table.labels else np.asarray(table[name])


def _are_too_many(labels: Sequence[str], size: int) -> bool:
    """Whether a column of so many rows has too many different texts to learn from."""
    return len(labels) > max(20, size // 4) and not all(map(is_number, labels))


def _refuse_or_warn(
    path: Path, counts: Mapping[str, int], size: int, others: Sequence[str], is_refused: bool
) -> None:
    """Tell which columns have too many different texts; `counts`: how many each of them has."""
    if not is_refused:
        numbers = ", ".join(f"{name} ({number:,})" for name, number in counts.items())
        warnings.warn(
            f"{path}: columns with too many different texts to learn from are left out: {numbers}.",
            stacklevel=3,
        )
        return
    name, number = next(iter(counts.items()))
    rest = [other for other in others if other not in counts]
    advice = (
        f"from. Choose others by columns=[…] from {listed(rest)}."
        if rest
        else "from, and there is no other column: add columns of numbers, or of fewer texts."
    )
    raise ValueError(
        f"the column {name!r} of {path} has {number:,} different texts in {size:,} rows: too many to learn "
        f"{advice}"
    )


def _indicators(name: str, codes: np.ndarray, labels: Sequence[str]) -> "DataFrame":
    """A column of 0 and 1 for each text."""
    import pandas

    of_labels = pandas.Series(list(labels)).str.get_dummies(_SEPARATOR)
    return of_labels.iloc[codes].add_prefix(f"{name}: ").reset_index(drop=True)
