"""The command `fokker ratings`."""

import dataclasses
from collections.abc import Hashable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from fokker.cli.console import show
from fokker.cli.flags import CommandError, translated
from fokker.cli.options import Seed, option

if TYPE_CHECKING:
    from pandas import DataFrame

    from fokker.datasets.ratings import Ratings, Repeated
    from fokker.models.factorisation.estimator import Factorisation

_MODEL, _REPORT = "model.npz", "report.html"
_OVERWRITE = "Replace an existing model in the folder."
_OF = "A table whose first column has the identifiers of {}. Texts become columns of 0 and 1."
_COLUMNS = "Columns of that table to use. Default: all except text columns with too many different values."
_THREE = "The columns of user, item and rating: names, or places from 0. Default: by their usual names."
_REPEATED = "Which of the ratings of a pair to keep: first, last or mean; refuse allows one per pair."


def ratings(
    source: Annotated[
        str, typer.Argument(metavar="RATINGS", help="A file or folder of ratings, or a known data set.")
    ],
    user_features: Annotated[Path | None, option(_OF.format("users"), "FILE")] = None,
    user_columns: Annotated[str | None, option(_COLUMNS, "NAME,…")] = None,
    item_features: Annotated[Path | None, option(_OF.format("items"), "FILE")] = None,
    item_columns: Annotated[str | None, option(_COLUMNS, "NAME,…")] = None,
    columns: Annotated[str | None, option(_THREE, "USER,ITEM,RATING")] = None,
    factors: Annotated[int, option("The number of factors.")] = 10,
    passes: Annotated[int | None, option("Passes over the ratings. Default: 100.")] = None,
    test: Annotated[float, option("The share of ratings to hold out and be tested on.")] = 0.2,
    repeated: Annotated[str, option(_REPEATED)] = "refuse",
    user: Annotated[str | None, option("The identifier of a user to recommend items to.")] = None,
    out: Annotated[Path, option("Folder for model.npz and report.html.")] = Path("fokker-ratings"),
    overwrite: Annotated[bool, option(_OVERWRITE, None, "--overwrite")] = False,
    seed: Seed = 0,
) -> None:
    """Learn who likes what from ratings: error and coverage on held-out ratings, a report, a model.

    Exit code 1 if held-out ratings are predicted no better than by their mean, 2 for bad input.
    """
    from fokker._core.digits import percent  # with NumPy, which the command line starts without
    from fokker._core.keys import checked_seed
    from fokker.cli.folders import check_not_replaced, made_folder
    from fokker.datasets.ratings import locate, read_ratings
    from fokker.diagnostics import Grade
    from fokker.models.factorisation.estimator import Factorisation
    from fokker.models.factorisation.report import coverage, verdict_of

    checked_seed(seed)
    locate(source)
    _check_exists("--user-features", user_features)
    _check_exists("--item-features", item_features)
    check_not_replaced(out, overwrite, _MODEL, _REPORT)
    with made_folder(out):
        everything = read_ratings(source, columns=_three(columns), repeated=cast("Repeated", repeated))
        train, held_out = everything.split(test, seed=seed)
        features = {
            **_features("user", user_features, user_columns),
            **_features("item", item_features, item_columns),
        }
        known = {str(name): name for name in train.user_names.tolist()}
        if user is not None and user not in known:
            raise CommandError(
                f"--user {user}: the ratings have no such user; their identifiers look like "
                f"{next(iter(known))}."
            )
        model = Factorisation(factors, passes=passes, random_state=seed).fit(train, test=held_out, **features)
        if item_features is not None:
            model.ratings_ = _with_titles(model.ratings_, item_features)
        chosen_user = None if user is None else known[user]
        model.save(out / _MODEL)
        model.report(out / _REPORT, test=held_out, user=chosen_user)
    show(f"{len(everything):,} ratings, {len(held_out):,} of them held out")
    covered = percent(coverage(model, held_out, 0.9), 1)
    show(f"RMSE {model.score(held_out):.4f}; 90 % intervals cover {covered}")
    verdict = verdict_of(model, held_out)
    show(str(verdict))
    if user is not None:
        _show_recommendations(model, chosen_user)
    show(f"wrote {out / _MODEL} and {out / _REPORT}")
    if verdict.grade is Grade.BAD:
        raise typer.Exit(1)


def _show_recommendations(model: "Factorisation", user: Hashable) -> None:
    from fokker.models.factorisation.report import shown_recommendations

    best, (low, high) = shown_recommendations(model, user), model.ratings_.range
    if not best:
        show(f"Nothing to recommend to user {user}, who has rated all items.")
        return
    show(
        f"Recommendations for user {user}, the best first, with 90 % intervals of the expected rating, cut "
        f"off at the range of the ratings, {low:g} to {high:g}:"
    )
    for r in best:
        show(f"  {r.mean:.2f} ({r.interval[0]:.2f} to {r.interval[1]:.2f})  {r.item}  {r.title}".rstrip())


def _check_exists(flag: str, path: Path | None) -> None:
    """Raise where a file that an option names is not there."""
    if path is not None and not path.expanduser().exists():
        raise CommandError(f"{flag} {path}: there is no such file.")


def _features(whose: str, path: Path | None, columns: str | None) -> "dict[str, DataFrame]":
    """The features of users or of items as an argument of `Factorisation.fit`; none without a file."""
    from fokker.datasets.features import read_features

    flag = f"--{whose}-columns"
    if path is None:
        if columns is not None:
            raise CommandError(f"{flag} {columns}: it is for --{whose}-features FILE, which is not given.")
        return {}
    chosen = None if columns is None else _names(columns)
    try:
        return {f"{whose}_features": read_features(path, columns=chosen)}
    except (KeyError, ValueError) as error:
        message = str(error.args[0]).replace("columns=[…]", f"{flag} NAME,…")
        raise CommandError(translated(message)) from None


def _with_titles(ratings: "Ratings", path: Path) -> "Ratings":
    """The ratings, where items without a title have the one in this table of features, if it has titles."""
    import numpy as np

    from fokker.datasets.features import read_item_titles

    of_table = read_item_titles(path)
    if not of_table:
        return ratings
    titles = [""] * ratings.num_items if ratings.titles is None else ratings.titles.tolist()
    pairs = zip(titles, ratings.item_names.tolist(), strict=True)
    filled = [title or of_table.get(str(name), "") for title, name in pairs]
    return dataclasses.replace(ratings, titles=np.array(filled))


def _names(text: str) -> list[str]:
    """Names with commas between them, and perhaps spaces."""
    return [name.strip() for name in text.split(",")]


def _three(given: str | None) -> tuple[str, str, str] | tuple[int, int, int] | None:
    """The columns of user, item and rating, by their names or places."""
    if given is None:
        return None
    names = _names(given)
    if len(names) != 3:
        raise CommandError(f"--columns {given}: name three columns, as in --columns user,item,rating.")
    user, item, rating = names
    if all(name.isdigit() for name in names):
        return int(user), int(item), int(rating)
    return user, item, rating
