"""Features of users and of items: as given, checked, and as the prior means of their rows need them."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from fokker._core.missing import real_numbers
from fokker.datasets.ratings import Ratings
from fokker.models.columns import deviations
from fokker.rows.column import is_number, listed


class Features(NamedTuple):
    """The columns of a table of features, and the coordinates x of rows in which they are used.

    `mean`, `scale`, `axes`: columns are standardised over the rows that were fitted, then turned to their
    principal axes, so that XᵀX = diag(`squares`) and every draw given them is one of single coordinates.
    """

    columns: tuple[str, ...]
    mean: Float[np.ndarray, " p"]
    scale: Float[np.ndarray, " p"]
    axes: Float[np.ndarray, "p p"]
    squares: Float[np.ndarray, " p"]

    def coordinates(self, values: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n p"]:
        """The coordinates of rows with these values."""
        return (values - self.mean) / self.scale @ self.axes


class Covariates(NamedTuple):
    """Features of a table: the coordinates of its rows, and of further rows that have no ratings."""

    features: Features
    rows: Float[np.ndarray, "n p"]
    new: Float[np.ndarray, "m p"]


def no_covariates(rows: int) -> Covariates:
    """Those of a table without features."""
    none = np.zeros(0)
    return Covariates(Features((), none, none, np.zeros((0, 0)), none), np.zeros((rows, 0)), np.zeros((0, 0)))


def with_features(
    ratings: Ratings, user_features: object, item_features: object
) -> tuple[Ratings, dict[str, Covariates]]:
    """The ratings, whose names end with those that only have features; and the features of both tables."""
    users, new_users = _covariates_of(user_features, "user", ratings.user_names)
    items, new_items = _covariates_of(item_features, "item", ratings.item_names)
    return _with_new_names(ratings, new_users, new_items), {"users": users, "items": items}


def _covariates_of(given: object, what: str, names: np.ndarray) -> tuple[Covariates, np.ndarray]:
    """The features of these users or items, as `what` says; and the identifiers that only `given` has."""
    if given is None:
        return no_covariates(len(names)), names[:0]
    frame = _frame(given, f"{what}_features")
    values = _numbers(frame, what)
    places = {name: place for place, name in enumerate(frame.index.tolist())}
    missing = [name for name in names.tolist() if name not in places]
    if missing:
        kinds = {type(name).__name__ for name in (missing[0], frame.index[0])}
        other = f" Its identifiers are like {frame.index.tolist()[0]!r}." if len(kinds) > 1 else ""
        raise ValueError(
            f"{what}_features has no row for {what} {missing[0]!r} of the ratings"
            f"{f', nor for {len(missing) - 1:,} more' if len(missing) > 1 else ''}: add it.{other}"
        )
    fitted = values[[places[name] for name in names.tolist()]]
    features = _fitted(fitted, values, tuple(map(str, frame.columns)), what)
    known = set(names.tolist())
    further = [name for name in frame.index.tolist() if name not in known]
    new = features.coordinates(values[[places[name] for name in further]])
    return Covariates(features, features.coordinates(fitted), new), _new_names(further, names, what)


def _new_names(given: list[Any], names: np.ndarray, what: str) -> np.ndarray:
    """Identifiers that only the features have, to follow `names`; raise for one that would become another."""
    # Texts have the length that they need, and not that of those in the ratings.
    kind = None if given and names.dtype.kind in "US" else names.dtype

    def stored(identifiers: list[Any]) -> list[Any]:
        try:
            return np.concatenate([names[:1], np.array(identifiers, kind)]).tolist()[1:]
        except (OverflowError, TypeError, ValueError):
            return []

    if given and stored(given) != given:
        wrong = next((name for name in given if stored([name]) != [name]), given[0])
        other = "".join(f", and would become {name!r} there" for name in stored([wrong]))
        raise ValueError(
            f"{what}_features has a row for {what} {wrong!r}, which is not of the type of the identifiers in "
            f"the ratings, such as {names.tolist()[0]!r}{other}: give both tables identifiers of one "
            "type, as by frame.set_axis(frame.index.astype(str)) and texts in the ratings."
        )
    return np.array(given, kind)


def row_of_new(given: object, features: Features) -> Float[np.ndarray, " p"]:
    """The coordinates of someone new, whose features are given by column or in the order of the columns."""
    if given is None:
        return np.zeros(len(features.columns))  # the mean of those who were fitted
    if not features.columns:
        raise ValueError("features was given, and the model was fitted without user_features.")
    if hasattr(given, "keys"):
        by_column: Any = given
        wrong = [name for name in features.columns if name not in by_column]
        if wrong:
            raise ValueError(f"features has no {wrong[0]!r}: give {listed(features.columns)}.")
        given = [by_column[name] for name in features.columns]
    values = real_numbers(given, "features").astype(float)
    if values.shape != (len(features.columns),) or not np.all(np.isfinite(values)):
        raise ValueError(f"features must be a finite number for each of {listed(features.columns)}.")
    return features.coordinates(values[None])[0]


def _with_new_names(ratings: Ratings, users: np.ndarray, items: np.ndarray) -> Ratings:
    """The ratings, with further users and items that have none."""
    titles = ratings.titles
    if titles is not None:
        titles = np.concatenate([titles, np.full(len(items), "", titles.dtype)])
    known = ((ratings.user_names, users), (ratings.item_names, items))
    user_names, item_names = (np.concatenate(pair) if len(pair[1]) else pair[0] for pair in known)
    return Ratings(ratings.users, ratings.items, ratings.values, user_names, item_names, titles)


def _frame(given: object, argument: str) -> Any:
    """A data frame whose index has the identifiers."""
    import pandas

    if isinstance(given, dict):
        given = pandas.DataFrame.from_dict(given, orient="index")
    if not isinstance(given, pandas.DataFrame):
        raise TypeError(
            f"{argument} must be a pandas.DataFrame whose index has the identifiers, as by "
            f"frame.set_index('id'), or {{identifier: [numbers]}}; {type(given).__name__} was given."
        )
    repeated = given.index[given.index.duplicated()]
    if len(repeated):
        raise ValueError(
            f"{argument} has more than one row for {repeated.tolist()[0]!r}: keep one for each identifier. "
            "If that is no identifier, this is another table, or its identifiers are in another column."
        )
    twice = given.columns[given.columns.duplicated()]
    if len(twice):
        raise ValueError(f"{argument} has more than one column {twice.tolist()[0]!r}: keep one, or rename.")
    if not len(given) or not given.shape[1]:
        raise ValueError(f"{argument} has {len(given)} rows and {given.shape[1]} columns: it is empty.")
    return given


def _numbers(frame: Any, what: str) -> Float[np.ndarray, "n p"]:
    """The values of all columns; raise where one is missing or is not a number."""
    columns = []
    for name in frame.columns:
        missing = np.asarray(frame[name].isna())
        if not missing.any():
            wrong = next((x for x in frame[name].tolist() if not is_number(x)), None)
            if wrong is not None or frame[name].dtype.kind not in "biuf":
                raise ValueError(
                    f"the column {name!r} of {what}_features holds {wrong!r}, not a number: make columns of "
                    "0 and 1 of it, as by pandas.get_dummies."
                )
            values = frame[name].to_numpy(float)
            missing = ~np.isfinite(values)
        if missing.any():
            raise ValueError(
                f"the column {name!r} of {what}_features has {int(missing.sum()):,} missing or infinite "
                f"values, first of {what} {frame.index.tolist()[int(np.argmax(missing))]!r}: put a number "
                "there and add a column that marks them, or leave the column out."
            )
        columns.append(values)
    return np.stack(columns, 1)


def _fitted(
    fitted: Float[np.ndarray, "n p"], values: Float[np.ndarray, "m p"], columns: tuple[str, ...], what: str
) -> Features:
    """The coordinates of the rows that are `fitted`, which are some of all `values`."""
    constant = [name for name, x in zip(columns, deviations(values) == 0, strict=True) if x]
    if constant:
        raise ValueError(
            f"the column {constant[0]!r} of {what}_features has the same value in all rows, which tells "
            f"nothing: leave out {listed(constant)}."
        )
    # A column that differs in rows without ratings alone, as a kind of items that is new, has a link with its
    # prior: it makes these rows less certain.
    scale = deviations(fitted)
    scale = np.where(scale > 0, scale, deviations(values))
    standard = (fitted - fitted.mean(0)) / scale
    squares, axes = np.linalg.eigh(standard.T @ standard)
    return Features(columns, fitted.mean(0), scale, axes, np.maximum(squares, 0.0))
