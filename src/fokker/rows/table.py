"""Tables from files: columns by name, from CSV, Parquet, JSON lines, npy and npz."""

import collections
from collections.abc import Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from fokker.rows.arrays import NOT_READ
from fokker.rows.column import TableColumn, listed, no_column
from fokker.rows.compressed import uncompressed_name
from fokker.rows.delimited import DELIMITERS, TextFormat, read_csv
from fokker.rows.json_lines import ENDINGS, read_json_lines
from fokker.rows.parquet import read_parquet
from fokker.rows.readers import memory
from fokker.rows.source import is_source

# The column of a .npy file, which has no names of its own.
UNNAMED = "x"
_FORMATS = ".csv, .tsv, .txt or .jsonl (plain or compressed), .parquet, .npy or .npz"
# Columns in files of at most this many bytes in all are read into memory.
_SMALL = 2**26

# Labels of a column of categories, in the order of their codes.
Labels = Mapping[str, Sequence[str] | None]


class ColumnError(KeyError):
    """A column that is not there, or cannot be used; the message says why and what to do."""

    def __str__(self) -> str:
        return str(self.args[0])


class MissingColumnError(ValueError):
    """A column that an argument names is not in the files; `shown` says it without the argument."""

    def __init__(self, argument: str, name: str, known: Sequence[str]) -> None:
        missing = no_column(name, known)
        self.shown = f"there is {missing}"
        super().__init__(
            f"{argument}=[{name!r}]: the data have {missing} A run or fit that goes on needs the columns "
            "that it began with."
        )


@dataclass(frozen=True, eq=False)
class _About:
    """What is known of a table besides its numbers: columns that cannot be used and why, and labels.

    `order`: the columns that `matrix` takes, also those that new rows do not have.
    """

    problems: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, list[str]] = field(default_factory=dict)
    order: tuple[str, ...] = ()


class Columns(MutableMapping[str, Any]):
    """Columns by name, each an array whose first axis runs over the rows; a tree, as a dictionary is.

    As a tree, columns of a large file stay there: a `fk.Posterior` of `data`, or of `data[["age", "ill"]]`,
    reads the rows of each step. A single column, `data["age"]`, is an array of NumPy with all its values.
    Columns of text, or with missing values, are not among them: `data["city"]` raises and says what to do.
    """

    def __init__(self, columns: Mapping[str, Any], about: _About | None = None) -> None:
        self.columns = dict(columns)
        self.about = _About() if about is None else about

    @property
    def size(self) -> int:
        """The number of rows."""
        return int(next(iter(self.columns.values())).shape[0]) if self.columns else 0

    @property
    def labels(self) -> Mapping[str, list[str]]:
        """The labels of each column of categories, in the order of their codes."""
        return self.about.labels

    @property
    def order(self) -> tuple[str, ...]:
        """The columns that `matrix` takes by default, in this order: of new rows, those of the run."""
        return self.about.order or tuple(self)

    def matrix(self, *names: str, without: Sequence[str] = ()) -> Any:
        """These columns, by default all but those `without`, beside each other as a matrix."""
        left_out = [without] if isinstance(without, str) else without
        chosen = names or tuple(name for name in self.order if name not in left_out)
        columns = [self[name] for name in chosen]
        if any(isinstance(column, jax.Array) for column in columns):
            return jax.numpy.stack(columns, axis=-1)
        return np.stack(columns, axis=-1)

    def __getitem__(self, name: str | list[str]) -> Any:
        if isinstance(name, list):
            about = replace(self.about, order=tuple(name))
            return Columns({one: self._column(one) for one in name}, about)
        column = self._column(name)
        return column.reader.span(0, len(column)) if is_source(column) else column

    def _column(self, name: str) -> Any:
        """A column, which may be in a file."""
        if name in self.columns:
            return self.columns[name]
        if name in self.about.problems:
            raise ColumnError(self.about.problems[name])
        of_run = ", which those of the run have" if name in self.about.order else ""
        raise ColumnError(f"the data have {no_column(str(name), [*self, *self.about.problems], of_run)}")

    def __setitem__(self, name: str, column: Any) -> None:
        self.columns[name] = column

    def __delitem__(self, name: str) -> None:
        del self.columns[name]

    def __contains__(self, name: object) -> bool:
        return name in self.columns  # without reading it

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def __repr__(self) -> str:
        return repr(self.columns)


def _flatten(columns: Columns) -> tuple[tuple[Any, ...], Any]:
    names = tuple(sorted(columns))
    return tuple(columns.columns[name] for name in names), (names, columns.about)


def _flatten_with_keys(columns: Columns) -> tuple[tuple[Any, ...], Any]:
    values, aux = _flatten(columns)
    return tuple(zip(map(jax.tree_util.DictKey, aux[0]), values, strict=True)), aux


jax.tree_util.register_pytree_with_keys(
    Columns,
    _flatten_with_keys,
    lambda aux, values: Columns(dict(zip(aux[0], values, strict=True)), aux[1]),
    _flatten,
)


def of_columns(columns: Mapping[str, Any], labels: Mapping[str, list[str]]) -> Columns:
    """Columns in memory, with the labels of those that are codes of categories."""
    return Columns(columns, _About(labels=labels))


def categories_of(data: PyTree[Any]) -> dict[int, tuple[str, list[str]]]:
    """The name and the labels of each column of categories of data, by its place among the leaves."""
    categories: dict[int, tuple[str, list[str]]] = {}
    place = 0
    for part in jax.tree.leaves(data, is_leaf=lambda x: isinstance(x, Columns) or is_source(x)):
        if not isinstance(part, Columns):
            place += 1
            continue
        for name in sorted(part):
            if name in part.labels:
                categories[place] = (name, list(part.labels[name]))
            place += len(jax.tree.leaves(part.columns[name], is_leaf=is_source))
    return categories


def with_codes_of(data: PyTree[Any], known: Mapping[str, Sequence[str]]) -> Any:
    """Data in which categories have the codes that they have among the labels `known` of each column."""
    own = categories_of(data)
    if not own:
        return data
    leaves, structure = jax.tree.flatten(data, is_leaf=is_source)
    for place, (name, labels) in own.items():
        if name not in known:
            raise ValueError(
                f"{name!r} is a column of categories, but the run has no labels for it: give the column as "
                "whole numbers, in the codes of the run."
            )
        places = {label: number for number, label in enumerate(known[name])}
        if new := [labels[code] for code in np.unique(leaves[place]) if labels[code] not in places]:
            raise ValueError(
                f"the column {name!r} has {new[0]!r}, a category that the run has not seen: it has "
                f"{listed(list(known[name]))}."
            )
        codes = np.array([places.get(label, -1) for label in labels], np.int32)
        leaves[place] = codes[np.asarray(leaves[place])]
    return jax.tree.unflatten(structure, leaves)


def read_table(
    files: Sequence[str],
    *,
    columns: Sequence[str] | None = None,
    categories: Labels | None = None,
    columns_of_run: Sequence[str] | None = None,
    uses_all_rows: bool = False,
    dates: Sequence[str] = (),
    text: TextFormat | None = None,
    may_be_missing: Collection[str] = (),
) -> Columns:
    """The columns of one file, or of several with as many rows each.

    A file is named by its path; a .npy file as NAME=PATH, for the name of its only column. `columns`: those
    to read, and their order in a matrix; by default all. `categories`: columns whose values, as texts, are
    replaced by codes 0, 1, …, with their labels in this order, or None for the sorted values.

    `dates`: columns of dates, which become days since 1970-01-01 00:00 UTC. `text`: how text files are
    written. `may_be_missing`: categories whose missing values have the code -1, and are no error.

    `columns_of_run`: these are new rows, and a matrix of them has these columns. One that is not there, or
    has a category without a label, is a problem only for a model that uses it.

    Columns of numbers in .npy and .parquet files of more than 64 MiB stay there. `uses_all_rows`: every step
    reads all rows, so that Parquet is decoded once, into memory, if it takes at most a quarter of it.
    """
    labels = dict(categories or {})
    chosen = None if columns is None else {*columns, *labels, *dates}
    gathered = _Gathered(labels, dates, are_new=columns_of_run is not None, may_be_missing=may_be_missing)
    for file in files:
        for name, column in _read_file(file, chosen, set(labels), dates, text or TextFormat()).items():
            gathered.known.append(name)
            if column is not None and (chosen is None or name in chosen):
                gathered.add(name, column)
    gathered.check({"columns": columns or (), "categories": labels, "dates": dates}, files)
    read = _loaded(gathered.columns, uses_all_rows)
    # With those that cannot be used: a matrix does not leave one out in silence.
    order = gathered.known if columns is None else list(dict.fromkeys([*columns, *labels, *dates]))
    about = _About(gathered.problems, gathered.labels, tuple(columns_of_run or order))
    return Columns(read, about)


def columns_of(file: str, texts: Collection[str] = ()) -> dict[str, TableColumn]:
    """All columns of a file in their order, also those that cannot be used; `texts`: to read as texts."""
    columns = _read_file(file, None, set(texts), (), TextFormat())
    return {name: column for name, column in columns.items() if column is not None}


class _Gathered:
    """The columns of all files so far: those that can be used, and why the others cannot.

    `categories`, `dates`: as in `read_table`. `are_new`: these are rows to predict, where a column that
    cannot be used is a problem only for a model that uses it.
    """

    def __init__(
        self, categories: Labels, dates: Sequence[str], are_new: bool, may_be_missing: Collection[str]
    ) -> None:
        self._categories, self._dates, self._are_new = categories, dates, are_new
        self._may_be_missing = may_be_missing
        self.columns: dict[str, Any] = {}
        self.problems: dict[str, str] = {}
        self.labels: dict[str, list[str]] = {}
        self.known: list[str] = []

    def add(self, name: str, column: TableColumn) -> None:
        """Take one more column."""
        if name in self.columns or name in self.problems:
            raise ValueError(f"the column {name!r} is in more than one file of the data: rename one.")
        try:
            if name in self._dates:
                self.columns[name] = column.days()
            elif name in self._categories:
                self.columns[name], self.labels[name] = column.codes(
                    self._categories[name], may_be_missing=name in self._may_be_missing
                )
            elif column.problem is not None:
                self.problems[name] = column.problem
            else:
                self.columns[name] = column.values
        except ValueError as error:
            if not self._are_new:
                raise
            self.problems[name] = str(error)

    def check(self, wanted: Mapping[str, Iterable[str]], files: Sequence[str]) -> None:
        """Raise unless the columns that arguments name are there, and there are rows, as many in each."""
        for argument, names in wanted.items():
            for name in names:
                if name not in self.known and not self._are_new:
                    raise MissingColumnError(argument, name, self.known)
        sizes = collections.Counter(len(column) for column in self.columns.values())
        if len(sizes) > 1:
            described = ", ".join(f"{name} has {len(column):,}" for name, column in self.columns.items())
            if len(files) > 1:
                raise ValueError(f"the files of the data differ in their number of rows: {described}.")
            self._set_aside(sizes, described)
        if not self.columns:
            reason = next(iter(self.problems.values()), "there are no columns")
            raise ValueError(f"{', '.join(files)} has no column of numbers: {reason}")
        if not len(next(iter(self.columns.values()))):
            raise ValueError(f"{', '.join(files)} has no rows.")

    def _set_aside(self, sizes: collections.Counter[int], described: str) -> None:
        """Arrays of another length than most, such as the names of features beside a matrix of them."""
        (size, times), *others = sizes.most_common()
        if others[0][1] == times:
            raise ValueError(
                f"the arrays of the data differ in length: {described}. Choose those with one row per datum "
                "by columns=…."
            )
        for name in [name for name, column in self.columns.items() if len(column) != size]:
            self.problems[name] = (
                f"the array {name!r} has {len(self.columns.pop(name)):,} rows where most have {size:,}: it "
                "cannot be a column of the data."
            )


def _loaded(columns: dict[str, Any], uses_all_rows: bool) -> dict[str, Any]:
    """The columns, those of small files in memory."""
    in_files = {name: x for name, x in columns.items() if is_source(x) or isinstance(x, np.memmap)}
    limit = _SMALL
    if uses_all_rows and sum(x.nbytes for x in in_files.values()) > _SMALL:
        in_files, limit = {name: x for name, x in in_files.items() if is_source(x)}, memory() // 4
    if sum(x.nbytes for x in in_files.values()) > limit:
        return columns
    loaded = {name: x.reader.span(0, len(x)) if is_source(x) else np.array(x) for name, x in in_files.items()}
    return {**columns, **loaded}


def _read_file(
    text: str, names: set[str] | None, categories: set[str], dates: Sequence[str], form: TextFormat
) -> Mapping[str, TableColumn | None]:
    """The columns of a file; None for those that are not named, where a file can be read in parts.

    `categories` and `dates`: columns to read as texts where the file has no types.
    """
    column_name, equals, rest = text.partition("=")
    is_named = bool(equals) and column_name.isidentifier() and not Path(text).exists()
    path = Path(rest if is_named else text)
    kind = uncompressed_name(path).suffix
    if path.is_dir():
        raise ValueError(f"{path} is a folder: give one of the files in it.")
    if not path.is_file():
        raise FileNotFoundError(f"there is no data file {path}.")
    if is_named and kind != ".npy":
        raise ValueError(f"{text}: a name is for .npy files; the columns of {path} have their own.")
    if kind in DELIMITERS:
        return read_csv(path, kind, form, categories, dates)
    if kind in ENDINGS:
        return read_json_lines(path)
    if kind == ".parquet":
        return read_parquet(path, names, {*categories, *dates})
    if kind not in (".npy", ".npz"):
        raise ValueError(f"{path} is not one of the formats that can be read: {_FORMATS}.")
    try:
        loaded = np.load(path, mmap_mode="r" if kind == ".npy" else None, allow_pickle=False)
        if kind == ".npz":
            with loaded:
                chosen = [name for name in loaded.files if names is None or name in names]
                arrays: dict[str, Any] = {**dict.fromkeys(loaded.files), **{n: loaded[n] for n in chosen}}
        elif loaded.dtype.names:
            arrays = {name: loaded[name] for name in loaded.dtype.names}
        else:
            arrays = {column_name if is_named else UNNAMED: loaded}
    except NOT_READ as error:
        raise ValueError(f"{path} could not be read: {error}") from error
    return {
        name: None if x is None else TableColumn(name, x, lambda row: f"row {row} of {path}")
        for name, x in arrays.items()
        if x is None or x.ndim
    }
