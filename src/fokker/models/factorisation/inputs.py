"""Ratings and identifiers as given by users, checked; what is wrong with them is said in a sentence."""

import warnings
from collections.abc import Hashable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from fokker._core.missing import real_numbers, unmasked
from fokker._core.names import nearest
from fokker.datasets.ratings import Ratings
from fokker.models.factorisation.chain import is_varied
from fokker.rows.precision import check_rounding


def as_ratings(ratings: Ratings | ArrayLike, items: ArrayLike | None, values: ArrayLike | None) -> Ratings:
    """A `Ratings`, made of three sequences where it is not one; raise where it cannot be fitted."""
    if not isinstance(ratings, Ratings) and (items is None or values is None):
        raise TypeError(
            "fit takes a Ratings, as from fk.datasets.read_ratings(path), or three sequences: users, items "
            "and values."
        )
    checked = _with_numbers(ratings, items, values)
    _check_ratings(checked)
    return checked


def as_counts(counts: Ratings | ArrayLike, items: ArrayLike | None, values: ArrayLike | None) -> Ratings:
    """How often each pair was seen: all its counts added up, or 1 where pairs alone are given."""
    if not isinstance(counts, Ratings) and items is None:
        raise TypeError("with confidence, fit takes a Ratings, or the users and items of all pairs seen.")
    if items is not None and values is None:
        values = np.ones(len(np.atleast_1d(np.asarray(items))))
    given = _with_numbers(counts, items, values)
    is_count = np.isfinite(given.values) & (given.values > 0)
    if not np.all(is_count):
        place = int(np.argmin(is_count))
        raise ValueError(
            f"with confidence, values are how often a pair was seen, all above 0; that in place {place} is "
            f"{given.values[place]:g}: leave out what was not seen, or fit ratings without confidence."
        )
    pairs, numbers = np.unique(
        given.users.astype(np.int64) * given.num_items + given.items, return_inverse=True
    )
    rows, columns = (x.astype(np.int32) for x in np.divmod(pairs, given.num_items))
    totals = np.bincount(numbers, given.values).astype(np.float32)
    return replace(given, users=rows, items=columns, values=totals)


def checked_test(test: Ratings | None) -> Ratings | None:
    """Held-out ratings; raise for anything but a `Ratings`."""
    if test is None or isinstance(test, Ratings):
        return test
    raise TypeError(
        "test must be a Ratings: fk.datasets.Ratings.from_identifiers(users, items, values) makes one; "
        f"{type(test).__name__} was given."
    )


def check_alone(*others: ArrayLike | None) -> None:
    """Raise for what comes with a `Ratings`, which has its own."""
    if any(x is not None for x in others):
        raise ValueError("give a Ratings alone, or users, items and values.")


def _with_numbers(ratings: Ratings | ArrayLike, items: ArrayLike | None, values: ArrayLike | None) -> Ratings:
    """A `Ratings` as it is, or one that is made of three sequences."""
    if isinstance(ratings, Ratings):
        check_alone(items, values)
        made = ratings
    else:
        users, items = unmasked(ratings, "users"), unmasked(items, "items")
        numbers = finite_numbers(values, "values")
        if not users.shape == items.shape == numbers.shape or users.ndim != 1:
            raise ValueError(
                f"users, items and values have the shapes {users.shape}, {items.shape} and {numbers.shape}: "
                "give three vectors of one length."
            )
        made = Ratings.from_identifiers(users, items, numbers)
    if not len(made):
        raise ValueError("there are no ratings: give at least one.")
    return made


def _check_ratings(ratings: Ratings) -> None:
    if not np.all(np.isfinite(ratings.values)):
        place = int(np.argmin(np.isfinite(ratings.values)))
        raise ValueError(f"the rating in place {place} is not finite: remove or replace it.")
    pairs = ratings.users.astype(np.int64) * ratings.num_items + ratings.items
    order = np.argsort(pairs, kind="stable")
    repeated = np.flatnonzero(np.diff(pairs[order]) == 0)
    if len(repeated):
        first = order[repeated[0]]
        user, item = ratings.user_names[ratings.users[first]], ratings.item_names[ratings.items[first]]
        raise ValueError(
            f"user {user} rated item {item} more than once: keep one rating per pair, as by "
            'read_ratings(path, repeated="last").'
        )


def warn_if_constant(ratings: Ratings) -> None:
    """Warn where all ratings are the same."""
    if not is_varied(ratings.values):
        warnings.warn(
            f"all {len(ratings):,} ratings are {ratings.values[0]:g}: they do not say which items a user "
            "prefers, and the order of recommendations is arbitrary. For clicks or purchases there is, in "
            "Python, fk.models.Factorisation(confidence=1.0).",
            stacklevel=3,
        )


def finite_numbers(values: ArrayLike | None, what: str) -> np.ndarray:
    """Values in single precision; raise where they are no finite numbers."""
    given = real_numbers(values, what)
    try:
        numbers = given.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{what} must be numbers: {error}.") from error
    if not np.all(np.isfinite(numbers)):
        place = int(np.argmin(np.isfinite(numbers)))
        raise ValueError(f"{what} must be finite; entry {place} is {numbers[place]}: remove or replace it.")
    check_rounding(what, numbers, len(numbers), np.dtype(np.float32), double=None)
    return numbers.astype(np.float32)


class Lookup:
    """The row numbers of the identifiers of users, or of items."""

    def __init__(self, what: str, names: np.ndarray) -> None:
        self.what, self.names = what, names
        self.numbers: Mapping[Hashable, int] = {name: number for number, name in enumerate(names.tolist())}

    def find(self, names: object) -> np.ndarray:
        """The rows of identifiers, one or many."""
        return np.array([self._number(name) for name in np.atleast_1d(np.asarray(names, dtype=object))], int)

    def _number(self, name: Hashable) -> int:
        key: Hashable = name.item() if isinstance(name, np.generic) else name
        if key in self.numbers:
            return self.numbers[key]
        known = list(self.numbers)
        hint = nearest(str(name), [str(other) for other in known])
        if isinstance(key, int | float) and any(isinstance(other, int | float) for other in known):
            hint = ""  # a number that is near is that of somebody else
        elif known and type(key) is not type(known[0]):
            hint = f" Identifiers of {self.what}s are of type {type(known[0]).__name__}, as {known[0]!r}."
        extra = " For someone new give rated={item: rating}." if self.what == "user" else ""
        raise KeyError(f"there is no {self.what} {name!r} in the ratings.{hint}{extra}")


def lookups(ratings: Ratings) -> tuple[Lookup, Lookup]:
    """Of the users and of the items."""
    return Lookup("user", ratings.user_names), Lookup("item", ratings.item_names)


def row_numbers(
    known: tuple[Lookup, Lookup], users: Ratings | ArrayLike | None, items: ArrayLike | None = None
) -> tuple[np.ndarray, ...]:
    """Row numbers of users and items: by identifiers, or those of all ratings of another `Ratings`."""
    if isinstance(users, Ratings):
        check_alone(items)
        ratings, names = users, (users.user_names, users.item_names)
        if all(np.array_equal(a, lookup.names) for a, lookup in zip(names, known, strict=True)):
            return ratings.users, ratings.items
        users, items = ratings.user_names[ratings.users], ratings.item_names[ratings.items]
    elif items is None:
        raise TypeError(
            "give a Ratings, as fk.datasets.Ratings.from_identifiers makes one, or users, items and values."
        )
    return np.broadcast_arrays(*(lookup.find(x) for lookup, x in zip(known, (users, items), strict=True)))


def ratings_of_new(rated: Mapping[Hashable, float], bounds: tuple[float, float] | None) -> np.ndarray:
    """What someone new rated, within the range of the ratings that were fitted; None for counts."""
    values = finite_numbers(list(rated.values()), "the ratings of rated")
    least, greatest = bounds or (np.finfo(np.float32).tiny, np.inf)
    if len(values) and not (values.min() >= least and values.max() <= greatest):
        wanted = "above 0" if bounds is None else f"from {least:g} to {greatest:g}, as those fitted"
        raise ValueError(f"the ratings of rated must be {wanted}; they are {list(rated.values())}.")
    return values
