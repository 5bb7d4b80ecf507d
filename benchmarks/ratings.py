"""Test RMSE and coverage of `fk.models.Factorisation` on ratings: `python benchmarks/ratings.py`.

The data sets are looked for where `fokker data` keeps them (the variable FOKKER_DATA). A random fifth of the
ratings is held out.
"""

import argparse
import time

from rich.console import Console
from rich.table import Table

from fokker.datasets import read_ratings
from fokker.datasets.folder import data_folder
from fokker.models import Factorisation
from fokker.models.factorisation.report import coverage

DATA_SETS = ("movielens-latest-small", "movielens-latest-first2149", "goodbooks-10k")


def main() -> None:
    """Print a table with a row for each data set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(DATA_SETS))
    parser.add_argument("--passes", type=int, default=300)
    parser.add_argument("--factors", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    shown = Table(title=f"{options.factors} factors, {options.passes} passes, a fifth held out")
    for column in ("data", "ratings", "test RMSE", "coverage of 90 %", "noise", "seconds"):
        shown.add_column(column, justify="right")
    for name in options.names:
        train, test = read_ratings(data_folder() / name, repeated="last").split(0.2, seed=0)
        start = time.perf_counter()
        model = Factorisation(options.factors, passes=options.passes, random_state=options.seed, draws=100)
        model.fit(train, test=test)
        seconds = time.perf_counter() - start
        shown.add_row(
            name,
            f"{len(train) + len(test):,}",
            f"{model.curve_[-1][1]:.4f}",
            f"{coverage(model, test, 0.9):.3f}",
            f"{model.noise_:.3f}",
            f"{seconds:.0f}",
        )
        Console().print(shown)


if __name__ == "__main__":
    main()
