"""Ratings, features and counts against what is one import away: a part of `make bench-models`.

A fifth of the pairs is held out. Peers are run where they are installed, in turns in one process, with
times of its CPU: `surprise` (SVD, its defaults), `smurff` (BPMF, 16 factors, as many sweeps as take the CPU
time of our 10 factors, a third of them burn-in) and `implicit` (ALS, its defaults but for the number of
factors). With OPENBLAS_NUM_THREADS=1, as `make` sets it, no time is counted in which threads wait.
`--write` puts the tables into a page, between the marks `<!-- ratings -->` and `<!-- end -->`.
"""

import argparse
import contextlib
import dataclasses
import importlib.metadata
import io
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import coo_matrix, csr_matrix

import fokker as fk
from fokker.datasets.folder import data_folder
from fokker.models.factorisation.implicit import ranking_of
from pages import write_between

SETS = ("movielens-latest-small", "movielens-latest-first2149", "goodbooks-10k")
PEERS = ("scikit-surprise", "smurff", "implicit")
# Held-out ratings by how often their item was rated in the rest.
STRATA = (0, 1, 3, 10, 10**9)
Row = tuple[str, np.ndarray, np.ndarray | None, float]


def read(name: str) -> fk.datasets.Ratings:
    """The ratings of a public set."""
    return fk.datasets.read_ratings(data_folder() / name, repeated="last")


def movie_features(name: str) -> pd.DataFrame | None:
    """Genres and the year in the title; None for a set that has none."""
    path = next((p for p in (data_folder() / name).glob("movies.csv*")), None)
    if path is None:
        return None
    genres = fk.datasets.read_features(path, columns=["genres"])
    titles = pd.read_csv(path, index_col=0)["title"]
    years = titles.str.extract(r"\((\d{4})\)\s*$")[0].astype(float)
    return genres.assign(year=years.fillna(years.mean()))


def rows(train: Any, test: Any, features: pd.DataFrame | None, seed: int) -> Iterator[Row]:
    """The name of a method, its predictions, 90 % intervals and CPU seconds, one method after another."""
    yield "5 factors", *_own(5, train, test, None, seed)
    *predicted, seconds = _own(10, train, test, None, seed)
    yield "10 factors", *predicted, seconds
    if features is not None:
        yield "10 factors, genres and year", *_own(10, train, test, features, seed)
    yield from _surprise(train, test, seed)
    yield from _smurff(train, test, seed, seconds)


def _own(k: int, train: Any, test: Any, features: Any, seed: int) -> tuple[np.ndarray, Any, float]:
    start = time.process_time()
    model = fk.models.Factorisation(k, random_state=seed, progress=False).fit(train, item_features=features)
    seconds = time.process_time() - start
    predictions = model.predict(test, interval=0.9)
    return predictions.mean, predictions.interval, seconds


def _surprise(train: Any, test: Any, seed: int) -> Iterator[Row]:
    try:
        import surprise
    except ImportError:
        return
    frame = pd.DataFrame({"u": train.users, "i": train.items, "r": train.values.astype(float)})
    reader = surprise.Reader(rating_scale=train.range)
    data = surprise.Dataset.load_from_df(frame, reader).build_full_trainset()
    start = time.process_time()
    model = surprise.SVD(random_state=seed).fit(data)
    seconds = time.process_time() - start
    predicted = [model.predict(u, i).est for u, i in zip(test.users, test.items, strict=True)]
    yield "SVD of surprise", np.array(predicted), None, seconds


def _smurff(train: Any, test: Any, seed: int, budget: float) -> Iterator[Row]:
    """With about `budget` CPU seconds."""
    try:
        import smurff
    except ImportError:
        return
    shape, mean = (train.num_users, train.num_items), float(train.values.mean())
    own, other = (
        coo_matrix((r.values.astype(float) - mean, (r.users, r.items)), shape) for r in (train, test)
    )

    def run(sweeps: int) -> tuple[dict[Any, float], float]:
        start = time.process_time()
        with contextlib.redirect_stderr(io.StringIO()):  # where it shows its progress
            session = smurff.BPMFSession(
                Ytrain=own, Ytest=other, is_scarce=True, num_latent=16, burnin=sweeps // 3,
                nsamples=sweeps - sweeps // 3, verbose=0, num_threads=1, seed=seed + 1,
            )  # fmt: skip
            found = {p.coords: p.pred_avg for p in session.run()}
        return found, time.process_time() - start

    least, more = 3, 12
    base, slower = run(least)[1], run(more)[1]
    sweeps = max(least, least + round((budget - base) * (more - least) / max(slower - base, 1e-3)))
    found, seconds = run(sweeps)
    predicted = [found[pair] for pair in zip(test.users.tolist(), test.items.tolist(), strict=True)]
    yield f"BPMF of smurff, {sweeps} sweeps", mean + np.array(predicted), None, seconds


def _inside(values: np.ndarray, interval: np.ndarray) -> np.ndarray:
    return (values >= interval[0]) & (values <= interval[1])


def _rmse(predicted: np.ndarray, values: np.ndarray) -> float:
    return float(np.sqrt(np.mean((predicted - values) ** 2)))


def ratings(names: list[str], seeds: int) -> Iterator[str]:
    """Error and coverage of held-out ratings, and by how often their item was rated."""
    yield "\n| | ratings | | test RMSE | 90 % intervals cover | CPU seconds |\n|" + " --- |" * 6
    strata = []
    for name in names:
        for seed in range(seeds):
            train, test = read(name).split(0.2, seed=seed)
            number = np.bincount(train.items, minlength=train.num_items)[test.items]
            label = f"{name}, split {seed}"
            for method, mean, interval, seconds in rows(train, test, movie_features(name), seed):
                inside = None if interval is None else _inside(test.values, interval)
                covered = "" if inside is None else f"{inside.mean():.3f}"
                shown = f"{_rmse(mean, test.values):.4f} | {covered} | {seconds:.1f}"
                yield f"| {label} | {len(train) + len(test):,} | {method} | {shown} |"
                parts = [(number >= low) & (number < high) for low, high in pairwise(STRATA)]
                cells = [
                    f"{_rmse(mean[p], test.values[p]):.3f}"
                    + ("" if inside is None else f", {inside[p].mean():.3f}")
                    if p.any()
                    else ""
                    for p in parts
                ]
                strata.append(f"| {label} | {method} | {' | '.join(cells)} |")
    yield (
        "\n| RMSE, coverage by ratings of the item | | none | 1 or 2 | 3 to 9 | 10 and more |\n|"
        + " --- |" * 6
    )
    yield from strata


def cold(name: str, seeds: int) -> Iterator[str]:
    """Items all of whose ratings are held out, a tenth: by features, and by the mean of each user."""
    features = movie_features(name)
    if features is None:
        return
    yield "\n| items without ratings | | RMSE | 90 % intervals cover |\n|" + " --- |" * 4
    for seed in range(seeds):
        everything = read(name)
        is_cold = (np.random.default_rng(seed).uniform(size=everything.num_items) < 0.1)[everything.items]
        users, items = everything.user_names[everything.users], everything.item_names[everything.items]
        known, values = ~is_cold, everything.values
        model = fk.models.Factorisation(10, random_state=seed, progress=False)
        model.fit(users[known], items[known], values[known], item_features=features)
        found = model.predict(users[is_cold], items[is_cold], interval=0.9)
        inside = _inside(values[is_cold], found.interval).mean()
        means = pd.Series(values[known]).groupby(users[known]).mean().reindex(users[is_cold]).to_numpy()
        error = _rmse(found.mean, values[is_cold])
        yield f"| {name}, {seed} | genres and year | {error:.4f} | {inside:.3f} |"
        yield f"| {name}, {seed} | mean of the user | {_rmse(means, values[is_cold]):.4f} | |"


def _als(train: Any, factors: int, seed: int) -> tuple[str, Callable[[int], np.ndarray], float] | None:
    try:
        from implicit.als import AlternatingLeastSquares
    except ImportError:
        return None
    shape = (train.num_users, train.num_items)
    seen = csr_matrix((np.ones(len(train), np.float32), (train.users, train.items)), shape)
    model = AlternatingLeastSquares(factors=factors, random_state=seed, num_threads=1)
    start = time.process_time()
    model.fit(seen, show_progress=False)
    seconds = time.process_time() - start
    return (
        f"ALS of implicit, {factors} factors",
        lambda u: model.item_factors @ model.user_factors[u],
        seconds,
    )


def pairs_of(ratings: Any) -> Any:
    """Who rated what, each pair once."""
    return dataclasses.replace(ratings, values=np.ones(len(ratings), np.float32))


def counts(name: str, seeds: int) -> Iterator[str]:
    """Recall and NDCG of held-out pairs, where that someone rated an item is all that is known."""
    yield "\n| pairs alone | | recall@20 | NDCG@20 | CPU seconds |\n|" + " --- |" * 5
    for seed in range(seeds):
        train, test = read(name).split(0.2, seed=seed)
        label, pairs = f"{name}, split {seed}", (test.users, test.items)
        popularity = np.bincount(train.items, minlength=train.num_items)
        found = [("popularity", ranking_of(lambda user, p=popularity: p, train, pairs, 20), 0.0)]
        for factors in (10, 32):
            model = fk.models.Factorisation(factors, confidence=1.0, random_state=seed, progress=False)
            start = time.process_time()
            model.fit(pairs_of(train))
            seconds = time.process_time() - start
            found.append((f"{factors} factors", model.ranking(test), seconds))
            if (peer := _als(train, factors, seed)) is not None:
                found.append((peer[0], ranking_of(peer[1], train, pairs, 20), peer[2]))
        for method, ranking, seconds in found:
            yield f"| {label} | {method} | {ranking.recall:.3f} | {ranking.ndcg:.3f} | {seconds:.1f} |"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--parts", nargs="+", default=["ratings", "cold", "counts"])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--write", type=Path, help="the page that the tables are put into")
    options = parser.parse_args()
    installed = {d.metadata["Name"].lower(): d.version for d in importlib.metadata.distributions()}
    versions = [f"{name} {installed.get(name, 'is not installed')}" for name in ("numpy", "scipy", *PEERS)]
    parts = {
        "ratings": ratings(options.sets, options.seeds),
        "cold": cold(options.sets[0], options.seeds),
        "counts": counts(options.sets[0], options.seeds),
    }
    lines = [f"{', '.join(versions)}; splits: {options.seeds}."]
    print(lines[0], flush=True)
    for part in options.parts:
        for line in parts[part]:
            print(line, flush=True)
            lines.append(line)
    write_between(options.write, "ratings", "\n".join(lines))


if __name__ == "__main__":
    main()
