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

    from fokker.rows.table import ColumnError, read_table

    path = Path(path).expanduser()
    table = read_table([str(path)])
    key, *others = table.order
    chosen = list(others if columns is None else columns)
    for name in chosen:
        if name not in table.order:
            table[name]  # raises, and names what is there
    texts = {name: table.about.problems[name] for name in (key, *chosen) if name not in table}
    coded = read_table([str(path)], categories=dict.fromkeys(texts), may_be_missing=texts) if texts else table
    for name, problem in texts.items():
        labels = coded.labels[name]
        if np.any(coded[name] < 0) or all(map(is_number, labels)):
            raise ColumnError(problem)
        if name != key and len(labels) > max(20, coded.size // 4):
            raise ValueError(
                f"the column {name!r} of {path} has {len(labels):,} different texts in {coded.size:,} rows: "
                f"too many to learn from. Choose others by columns=[…] from {listed(others)}."
            )
    parts = [
        _indicators(name, coded[name], coded.labels[name])
        if name in texts
        else pandas.DataFrame({name: table[name]})
        for name in chosen
    ]
    frame = pandas.concat(parts, axis=1)
    keys = np.array(coded.labels[key])[coded[key]] if key in texts else table[key]
    return frame.set_axis(pandas.Index(keys, name=key))


def _indicators(name: str, codes: np.ndarray, labels: Sequence[str]) -> "DataFrame":
    """A column of 0 and 1 for each text."""
    import pandas

    of_labels = pandas.Series(list(labels)).str.get_dummies(_SEPARATOR)
    return of_labels.iloc[codes].add_prefix(f"{name}: ").reset_index(drop=True)
