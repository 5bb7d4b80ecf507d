"""The command `fokker ratings`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from fokker._core.digits import percent
from fokker.cli.console import show
from fokker.cli.flags import CommandError, translated
from fokker.cli.options import Seed, option

if TYPE_CHECKING:
    from fokker.datasets.ratings import Repeated

_OF = "A table whose first column has the identifiers of {}. Texts become columns of 0 and 1."
_COLUMNS = "Columns of that table to use. Default: all."
_THREE = "The columns of user, item and rating: names, or places from 0. Default: by their usual names."
_REPEATED = "Which of the ratings of a pair to keep: first, last or mean. Default: none may repeat."


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
    seed: Seed = 0,
) -> None:
    """Learn who likes what from ratings: error and coverage on held-out ratings, a report, a model."""
    from fokker.datasets.features import read_features
    from fokker.datasets.ratings import read_ratings
    from fokker.models.factorisation.estimator import Factorisation
    from fokker.models.factorisation.report import coverage, verdict_of

    everything = read_ratings(source, columns=_three(columns), repeated=cast("Repeated", repeated))
    train, held_out = everything.split(test, seed=seed)
    features = {}
    for name, path, columns in (
        ("user_features", user_features, user_columns),
        ("item_features", item_features, item_columns),
    ):
        flag = f"--{name.removesuffix('_features')}-columns"
        if path is None and columns is not None:
            raise CommandError(
                f"{flag} {columns}: it is for --{name.replace('_', '-')} FILE, which is not given."
            )
        if path is not None:
            chosen = None if columns is None else columns.split(",")
            try:
                features[name] = read_features(path, columns=chosen)
            except (KeyError, ValueError) as error:
                message = str(error.args[0]).replace("columns=[…]", f"{flag} NAME,…")
                raise CommandError(translated(message)) from None
    known = {str(name): name for name in train.user_names.tolist()}
    if user is not None and user not in known:
        raise CommandError(
            f"--user {user}: the ratings have no such user; their identifiers look like {next(iter(known))}."
        )
    model = Factorisation(factors, passes=passes, random_state=seed).fit(train, test=held_out, **features)
    show(f"{len(train):,} ratings, {len(held_out):,} held out")
    show(
        f"RMSE {model.score(held_out):.4f}; 90 % intervals cover {percent(coverage(model, held_out, 0.9), 1)}"
    )
    show(str(verdict_of(model, held_out)))
    chosen_user = None if user is None else known[user]
    if user is not None:
        show(f"for {user}, with 90 % intervals of the expected rating:")
    for r in [] if user is None else model.recommend(chosen_user):
        show(f"  {r.mean:.2f} ({r.interval[0]:.2f} to {r.interval[1]:.2f})  {r.item}  {r.title}".rstrip())
    out.mkdir(parents=True, exist_ok=True)
    model.save(out / "model.npz")
    model.report(out / "report.html", test=held_out, user=chosen_user)
    show(f"wrote {out / 'model.npz'} and {out / 'report.html'}")


def _three(given: str | None) -> tuple[str, str, str] | tuple[int, int, int] | None:
    """The columns of user, item and rating, by their names or places."""
    if given is None:
        return None
    names = [name.strip() for name in given.split(",")]
    if len(names) != 3:
        raise CommandError(f"--columns {given}: name three columns, as in --columns user,item,rating.")
    user, item, rating = names
    if all(name.isdigit() for name in names):
        return int(user), int(item), int(rating)
    return user, item, rating
