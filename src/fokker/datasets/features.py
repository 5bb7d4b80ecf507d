"""Tables of what is known of users or items, one row each, as `fk.models.Factorisation` takes them."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fokker.rows.column import is_number, listed

if TYPE_CHECKING:
    from pandas import DataFrame

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
    - `columns`: those to use; by default all but the first.

    Returns a data frame with the identifiers as its index.
    """
    import pandas

    from fokker._core.state import nearest
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
            raise ColumnError(
                f"{path} has no column {name!r}.{nearest(name, list(problems))} Its columns are "
                f"{listed(list(problems))}."
            )
    texts = {name: problem for name in (key, *chosen) if (problem := problems[name]) is not None}
    table = read_table(
        [str(path)], columns=[key, *chosen], categories=dict.fromkeys(texts), may_be_missing=texts
    )
    for name, problem in texts.items():
        labels = table.labels[name]
        are_numbers = all(map(is_number, labels))
        if np.any(table[name] < 0) and (name == key or not are_numbers):
            missing = columns_of(str(path), [name])[name].missing_texts()
            instead = "the identifier there" if name == key else "a text there, such as unknown"
            raise ColumnError(f"{missing}: remove these rows, or write {instead}.")
        if are_numbers:
            raise ColumnError(problem)
        if name != key and len(labels) > max(20, table.size // 4):
            raise ValueError(
                f"the column {name!r} of {path} has {len(labels):,} different texts in {table.size:,} rows: "
                f"too many to learn from. Choose others by columns=[…] from {listed(others)}."
            )
    parts = [
        _indicators(name, table[name], table.labels[name])
        if name in texts
        else pandas.DataFrame({name: table[name]})
        for name in chosen
    ]
    frame = pandas.concat(parts, axis=1)
    keys = np.array(table.labels[key])[table[key]] if key in texts else table[key]
    return frame.set_axis(pandas.Index(keys, name=key))


def _indicators(name: str, codes: np.ndarray, labels: Sequence[str]) -> "DataFrame":
    """A column of 0 and 1 for each text."""
    import pandas

    of_labels = pandas.Series(list(labels)).str.get_dummies(_SEPARATOR)
    return of_labels.iloc[codes].add_prefix(f"{name}: ").reset_index(drop=True)
