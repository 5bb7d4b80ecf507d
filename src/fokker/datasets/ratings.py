"""Ratings of items by users, from the files in which they are commonly published."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from fokker._core.missing import check_none_missing, real_numbers, unmasked
from fokker._core.names import nearest
from fokker.datasets._rating_tables import (
    Columns,
    Limits,
    RatingTable,
    find_layout,
    is_netflix,
    parse_delimited,
    parse_netflix,
    refuse_invalid,
    table_of_arrays,
)
from fokker.datasets._titles import read_titles
from fokker.datasets.catalogue import CATALOGUE
from fokker.datasets.folder import SUFFIXES, data_folder
from fokker.rows.arrays import arrays_of
from fokker.rows.column import as_array
from fokker.rows.compressed import decode, read_all
from fokker.rows.json_lines import read_json_lines
from fokker.rows.parquet_file import open_parquet
from fokker.rows.precision import check_rounding

Repeated = Literal["refuse", "first", "last", "mean"]

# The files of ratings in a folder, in order of preference.
_FILE_NAMES = ("ratings.dat", "ratings.csv", "u.data", "ratings.npz")
_NETFLIX_FILES = ("mv_*.txt", "mv_*.txt.gz", "combined_data_*.txt", "combined_data_*.txt.gz")


@dataclass(frozen=True, eq=False)
class Ratings:
    """Ratings r_ij of items j by users i.

    Rating k is `values[k]`, by user `users[k]` of item `items[k]`. Users and items are numbered from 0 in the
    order of their identifiers: `user_names[i]` and `item_names[j]` are the original ones. `titles[j]` is the
    title of item j, empty if it is unknown; None if the data set comes without titles.
    """

    users: np.ndarray
    items: np.ndarray
    values: np.ndarray
    user_names: np.ndarray
    item_names: np.ndarray
    titles: np.ndarray | None = None

    def __post_init__(self) -> None:
        shapes = {np.shape(array) for array in (self.users, self.items, self.values)}
        if len(shapes) != 1 or len(next(iter(shapes))) != 1:
            raise ValueError(
                f"users, items and values have the shapes {np.shape(self.users)}, {np.shape(self.items)} and "
                f"{np.shape(self.values)}; three vectors of one length are needed."
            )
        for name, numbers, size in (
            ("users", self.users, self.num_users),
            ("items", self.items, self.num_items),
        ):
            if len(numbers) and not 0 <= numbers.min() <= numbers.max() < size:
                raise ValueError(
                    f"{name} has numbers from {numbers.min()} to {numbers.max()}; they must be from 0 to "
                    f"{size - 1}, the positions in {name.removesuffix('s')}_names."
                )
        if self.titles is not None and len(self.titles) != self.num_items:
            raise ValueError(f"titles has {len(self.titles)} entries; there are {self.num_items} items.")

    @classmethod
    def from_identifiers(
        cls, users: np.ndarray, items: np.ndarray, values: np.ndarray, titles: np.ndarray | None = None
    ) -> "Ratings":
        """Number the users and items of ratings that are given by identifiers of any kind."""
        users, items = unmasked(users, "users"), unmasked(items, "items")
        ratings = real_numbers(values, "values")
        check_none_missing(users, "users", "identifier")
        check_none_missing(items, "items", "identifier")
        check_rounding("the ratings", ratings, len(ratings), np.dtype(np.float32), double=None)
        user_names, user_numbers = np.unique(users, return_inverse=True)
        item_names, item_numbers = np.unique(items, return_inverse=True)
        return cls(
            user_numbers.astype(np.int32),
            item_numbers.astype(np.int32),
            ratings.astype(np.float32),
            user_names,
            item_names,
            titles,
        )

    @property
    def num_users(self) -> int:
        """The number of users."""
        return len(self.user_names)

    @property
    def num_items(self) -> int:
        """The number of items."""
        return len(self.item_names)

    @property
    def range(self) -> tuple[float, float]:
        """The least and the greatest rating."""
        return float(self.values.min()), float(self.values.max())

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        low, high = self.range
        return (
            f"Ratings({len(self):,} from {low:g} to {high:g}, of {self.num_items:,} items by "
            f"{self.num_users:,} users)"
        )

    def split(self, fraction: float = 0.2, seed: int = 0) -> tuple["Ratings", "Ratings"]:
        """A random split into training and test ratings; `fraction` of them, rounded, are for the test.

        Both parts keep all users and items and their numbers. A user or item may occur in one part only.
        """
        num_test = round(fraction * len(self)) if 0 < fraction < 1 else 0
        if not 0 < num_test < len(self):
            raise ValueError(
                f"fraction={fraction} of {len(self):,} ratings leaves no ratings in one of the two parts: "
                "give a fraction between 0 and 1, as in 0.2."
            )
        order = np.random.default_rng(seed).permutation(len(self))
        # Sorted, so that both parts keep the order of the file.
        return self._select(np.sort(order[num_test:])), self._select(np.sort(order[:num_test]))

    def _select(self, rows: np.ndarray) -> "Ratings":
        return replace(self, users=self.users[rows], items=self.items[rows], values=self.values[rows])


def read_ratings(
    path: str | Path,
    *,
    columns: Columns | None = None,
    limits: tuple[float, float] | None = None,
    repeated: Repeated = "refuse",
    titles: str | Path | None = None,
) -> Ratings:
    """Read ratings from a file, from the folder of a data set, or by the name of one in the folder of data.

    The format is found from the contents; files may be compressed by gzip, bzip2, xz or zstd:

    - MovieLens: `ratings.dat` (`user::movie::rating::time`), `ratings.csv` and `u.data` (separated by tabs);
    - goodbooks-10k: `ratings.csv`, or a `.npz` file with the arrays user_id, book_id and rating;
    - Parquet and JSON lines, with columns or keys of such names;
    - the Netflix Prize: a folder of `mv_*.txt` or `combined_data_*.txt` files, or one of them;
    - any text file with one rating per line and a header: `columns=("who", "what", "stars")` names the
      columns of user, item and rating. Without a header, give their positions: `columns=(0, 1, 2)`.

    ```python
    train, test = fk.datasets.read_ratings("ml-latest-small/ratings.csv", limits=(0.5, 5)).split(0.2)
    ```

    Arguments:

    - `path`: a file, a folder, or the name of a data set that `fokker data list` shows.
    - `columns`: the three columns of user, item and rating, by their names or by their positions from 0.
    - `limits`: the range in which all ratings must lie, as in (1, 5). A rating that is not a finite number in
      that range is an error that names the line.
    - `repeated`: what to do if a user rated an item more than once: "refuse" (an error), keep the "first" or
      the "last" in the order of the file, or take the "mean". This holds for every format: goodbooks-10k has
      such pairs, also with ratings that differ, so it needs one of the three.
    - `titles`: the file of titles. By default the one that comes with the data set (movies.csv, movies.dat,
      u.item, books.csv or movie_titles.txt in the same folder), if there is one; where that cannot be used,
      a warning says why.

    Returns `Ratings`, whose users and items are numbered from 0.
    """
    if repeated not in ("refuse", "first", "last", "mean"):
        raise ValueError(f'repeated={repeated!r}: give "refuse", "first", "last" or "mean".')
    if columns is not None and (isinstance(columns, str) or len(columns) != 3):
        raise ValueError(
            f"columns={columns!r}: give three, for user, item and rating, as in "
            'columns=("user", "item", "rating") or columns=(0, 1, 2).'
        )
    if limits is not None and not (len(limits) == 2 and limits[0] < limits[1]):
        raise ValueError(f"limits={limits}: give the least and the greatest rating, as in (1, 5).")
    path = locate(path)
    files = _files(path)
    tables, item_columns = zip(*(_read_table(file, columns, limits) for file in files), strict=True)
    table = tables[0] if len(tables) == 1 else RatingTable(*map(np.concatenate, zip(*tables, strict=True)))
    if not len(table.values):
        raise ValueError(f"{path} contains no ratings.")
    ratings = _resolve_repeated(Ratings.from_identifiers(*table), path, repeated)
    found = read_titles(files[0].parent, ratings.item_names, titles, item_columns[0])
    return replace(ratings, titles=found)


def locate(path: str | Path) -> Path:
    """The path itself, or that of the data set with this name in the folder of data; raise for neither."""
    path = Path(path).expanduser()
    if path.exists():
        return path
    if str(path) in CATALOGUE and (stored := data_folder() / path).is_dir():
        return stored
    is_known = str(path) in CATALOGUE
    hint = f" Try `fokker data get {path}`." if is_known else nearest(str(path), list(CATALOGUE))
    raise FileNotFoundError(f"there is no file or folder {path}.{hint}")


def _files(path: Path) -> list[Path]:
    """The files to read: the one given, or those in a folder."""
    if path.is_file():
        return [path]
    for pattern in _NETFLIX_FILES:
        if files := sorted(path.glob(pattern)):
            return files
    for name in _FILE_NAMES:
        for suffix in SUFFIXES:
            if (file := path / f"{name}{suffix}").is_file():
                return [file]
    raise FileNotFoundError(
        f"the folder {path} has no file of ratings: it should contain {', '.join(_FILE_NAMES)} (or .gz), or "
        "mv_*.txt files. Give the file itself if it has another name."
    )


def _read_table(path: Path, columns: Columns | None, limits: Limits) -> tuple[RatingTable, str]:
    """The ratings of a file, and what it calls the column of items; "" where it has no name."""
    contents = read_all(path)
    named = _named_arrays(contents, path)
    if named is not None:
        arrays, place = named
        table, item_column = table_of_arrays(arrays, path, columns)
        refuse_invalid(table.values, place, limits)
        return table, item_column
    text = decode(contents, path)
    if not text.strip():
        raise ValueError(f"{path} is empty; it should contain ratings.")
    if columns is None and is_netflix(text):
        return parse_netflix(text, path, limits), ""
    layout = find_layout(text, path, columns)
    return parse_delimited(text, path, layout, limits), layout.item_column


def _named_arrays(contents: bytes, path: Path) -> tuple[dict[str, np.ndarray], Callable[[int], str]] | None:
    """The columns of .npz, Parquet and JSON lines by name, and where a row is; None for other formats."""

    def place(row: int) -> str:
        return f"{path}, rating {row + 1}"

    if contents.startswith(b"PK"):
        return arrays_of(contents, path), place
    if contents.startswith(b"PAR1"):
        frame = open_parquet(path).read().to_pandas()
        return {name: as_array(frame[name]) for name in frame.columns}, place
    if contents.lstrip().startswith(b"{"):
        read = read_json_lines(path)
        return {name: column.values for name, column in read.items()}, next(iter(read.values())).line
    return None


def _resolve_repeated(ratings: Ratings, path: Path, repeated: Repeated) -> Ratings:
    """Leave one rating per pair of user and item."""
    pairs = ratings.users.astype(np.int64) * ratings.num_items + ratings.items
    order = np.argsort(pairs, kind="stable")
    is_first = np.diff(pairs[order], prepend=-1) != 0  # in each run of equal pairs
    num_repeated = len(pairs) - int(is_first.sum())
    if not num_repeated:
        return ratings
    if repeated == "refuse":
        second = int(order[~is_first].min())
        first = int(np.flatnonzero(pairs == pairs[second])[0])
        raise ValueError(
            f"{path}: {num_repeated:,} ratings repeat an earlier pair of user and item; the first is by user "
            f"{ratings.user_names[ratings.users[first]]} of item {ratings.item_names[ratings.items[first]]}, "
            f"rated {ratings.values[first]:g} and then {ratings.values[second]:g}. Choose "
            'repeated="first", repeated="last" or repeated="mean".'
        )
    starts = np.flatnonzero(is_first)
    ends = np.append(starts[1:], len(order))
    rows = order[ends - 1 if repeated == "last" else starts]
    values = ratings.values[rows]
    if repeated == "mean":
        values = np.add.reduceat(ratings.values[order].astype(np.float64), starts) / (ends - starts)
    in_order = np.argsort(rows)  # the order of the file
    return replace(
        ratings,
        users=ratings.users[rows][in_order],
        items=ratings.items[rows][in_order],
        values=values[in_order].astype(np.float32),
    )
