"""How certain a network should be, by rows that a fit has not seen.

The average over draws can be less certain than it is right, as on labels without noise, or more certain, as
on labels of which some are at random. `fitted_calibration` finds the power of the probabilities and the share
at random that are most likely for labels which they have not seen: those of a share that is left out of the
fit, or of rows by folds.
"""

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

import jax
import numpy as np

from fokker.models.by_rows import by_rows
from fokker.models.checks import is_number
from fokker.models.network.metrics import Calibration, fitted_calibration
from fokker.models.network.networks import is_fresh
from fokker.models.network.posterior import FITTED
from fokker.models.network.predict import Predictive
from fokker.models.network.training import Fit

if TYPE_CHECKING:
    from fokker.models.network.estimator import Network

# Rows and labels that are not fitted.
HeldOut = tuple[np.ndarray, np.ndarray]
# Without a number of folds: so many, from so many rows on, of which fits leave out no more than are needed to
# predict so many rows.
_FOLDS, _LEAST_ROWS, _ENOUGH = 5, 50, 400
# A fit without a fold takes this share of the steps of a chain of the main fit.
_SHARE = 0.5
# Steps are small with so many weights times rows: to compile a second program takes longer than they do.
_SMALL = 2**18


def check_calibration(value: object) -> None:
    """Raise unless it is a share, a number of folds, 0 for neither, or None to choose."""
    if value is None:
        return
    if is_number(value) and (0 <= value < 1 or (value >= 2 and value == int(value))):
        return
    raise ValueError(
        "calibration must be 0, a share of the rows below 1 such as 0.1, or a whole number of folds from 2 "
        f"such as 5; {value!r} was given."
    )


def chosen_calibration(net: "Network", rows: int) -> float | int:
    """`calibration` where it is not given: folds for classes, unless a fit to fewer rows could know them.

    Given weights may have been trained on all rows, also on those of a fold.
    """
    if net.calibration is not None:
        return net.calibration
    is_split = net.likelihood == "categorical" and rows >= _LEAST_ROWS and is_fresh(net.model, net.params)
    return _FOLDS if is_split else 0


def held_out(
    rows: np.ndarray,
    targets: np.ndarray,
    calibration: float,
    seed: int,
    fitted: int = 0,
    known: HeldOut | None = None,
) -> tuple[np.ndarray, np.ndarray, HeldOut | None]:
    """The rows to fit with their targets, and a share of both that is not fitted; None for folds.

    Of rows that are added to so many `fitted` ones as many are put to those `known`, which were not fitted,
    as make them this share of all.
    """
    before = 0 if known is None else len(known[0])
    total = len(rows) + fitted + before
    if calibration > total:
        raise ValueError(f"calibration={calibration} folds need as many rows; there are {total}.")
    wanted = int(calibration * total) if calibration < 1 else 0
    if 0 < calibration < 1 and not wanted:
        raise ValueError(
            f"calibration={calibration:g} of {total} rows is none of them: give a larger share, or folds."
        )
    number = max(0, wanted - before)
    if not number:
        return rows, targets, known
    order = np.random.default_rng(seed).permutation(len(rows))
    out, rest = order[:number], np.sort(order[number:])
    if known is not None:
        return rows[rest], targets[rest], (np.r_[known[0], rows[out]], np.r_[known[1], targets[out]])
    return rows[rest], targets[rest], (rows[out], targets[out])


def calibrated(net: "Network") -> Calibration:
    """The calibration of a network that has its draws."""
    if net._held_out is not None:
        rows, labels = net._held_out
        return fitted_calibration(net._probabilities(rows), labels)
    folds = int(chosen_calibration(net, len(net._data["x"])))
    if folds < 2 or net.stopped_ is not None:
        return Calibration()
    try:
        return calibrated_by_folds(net, folds)
    except KeyboardInterrupt:  # nothing that was drawn is lost
        warnings.warn(
            "the fits of the calibration were interrupted, and it is not finished: probabilities are those "
            "of the draws.",
            stacklevel=5,
        )
        return Calibration()


def calibrated_by_folds(net: "Network", folds: int) -> Calibration:
    """By rows that are each predicted by a chain given the other folds."""
    labels = net._data["y"]
    probabilities = fold_probabilities(net, fold_of_rows(net, folds), number_predicted(net, folds))
    predicted = ~np.isnan(probabilities[:, 0])
    return fitted_calibration(probabilities[predicted], labels[predicted])


def fold_of_rows(net: "Network", folds: int) -> np.ndarray:
    """The number of the fold of every row: as many rows in each, but for one more in the first."""
    return np.random.default_rng(net._seed_of_run).permutation(len(net._data["x"])) % folds


def number_predicted(net: "Network", folds: int) -> int:
    """How many of the folds are predicted: all that were asked for, else those with enough rows."""
    rows = len(net._data["x"])
    return folds if net.calibration is not None else min(folds, -(-_ENOUGH * folds // rows))


def chains_of_folds(net: "Network", predicted: int) -> int:
    """How many folds are fitted together, by a chain each: as many as the fit has chains, or one.

    Together they share the programs of the fit, which in a first fit takes half of the time. But one by one
    steps that are more than small take half the time of those of two chains; and one by one are the folds of
    weights that stay fixed, which are those of one warm start, and of a sampler that was given.
    """
    weights = sum(x.size for x in jax.tree.leaves(net._posterior.network.first_start))
    is_small = net._lengths(len(net._data["x"])).batch_size * weights <= _SMALL
    by_chain = all(jax.tree.leaves(net._chosen)) and isinstance(net.sampler, str)
    return net.chains if is_small and by_chain and predicted >= net.chains else 1


def of_all_chains(net: "Network") -> dict[str, np.ndarray]:
    """The data of a fit, each chain with all rows; in the form of its folds' data if they share programs."""
    data, folds = net._data, int(chosen_calibration(net, len(net._data["x"])))
    if folds < 2 or chains_of_folds(net, number_predicted(net, folds)) != net.chains:
        return data
    return {**data, FITTED: np.ones((len(data["x"]), net.chains), bool)}


def without_folds(
    net: "Network", fold_of_row: np.ndarray, folds: list[int], fewest: int
) -> dict[str, np.ndarray]:
    """The data of chains of which each has the rows without a fold, at least so many of them."""
    fitted = fold_of_row[:, None] != folds
    if len(folds) == net.chains:
        return {**net._data, FITTED: fitted}
    # As many rows for every fold, so that they share a program.
    rest = np.flatnonzero(fitted[:, 0])[:fewest]
    return {name: values[rest] for name, values in net._data.items()}


def fold_probabilities(net: "Network", fold_of_row: np.ndarray, predicted: int) -> np.ndarray:
    """The probabilities of each row by draws given the other folds; NaN in folds that are not predicted."""
    rows = net._data["x"]
    sizes = np.bincount(fold_of_row)
    # All folds have one learning rate, one number of steps and one step size.
    rate, fewest = net.learning_rate, int(len(rows) - sizes.max())
    if rate is None and isinstance(net.sampler, str):
        rate = net._step_settings().default_rate(net._posterior.curvature(rows))
    settings = replace(net._step_settings(), learning_rate=rate)
    lengths = net._lengths(len(rows)).shortened(_SHARE)
    together = chains_of_folds(net, predicted)
    sums, counts = np.zeros((len(rows), len(net.classes_))), np.zeros(len(rows), int)
    for run in range(-(-predicted // together)):
        # The last run may have room for more: a fold is then predicted by two chains.
        numbers = [chain % predicted for chain in range(run * together, (run + 1) * together)]
        posterior = net._new_posterior(rows[0], together, derived_seed(net._seed_of_run, 1 + run))
        data = without_folds(net, fold_of_row, numbers, fewest)
        fit = Fit(data, settings, lengths, net._chosen, fewest)
        with warnings.catch_warnings():
            # Of an interruption, which the caller tells.
            warnings.filterwarnings("ignore", "the run (was interrupted|ended before its first draw)")
            positions, fixed = posterior.started(fit)
            trace = posterior.sampled(fit, positions, fixed, net.temperature, posterior.seed)
        if trace.draws is None or trace.stopped is not None:  # interrupted
            raise KeyboardInterrupt
        predictive = Predictive(posterior.log_likelihood(fixed))
        for chain, fold in enumerate(numbers):
            out = np.flatnonzero(fold_of_row == fold)
            draws = jax.tree.map(lambda x, c=chain: np.asarray(x)[c, lengths.selected()], trace.draws)
            # As many rows for every fold, by one program.
            filled = rows[np.resize(out, sizes.max())]
            means = np.concatenate([x.mean(0, dtype=float) for _, x in by_rows(predictive, draws, filled)])
            sums[out] += means[: len(out)]
            counts[out] += 1
    return np.where(counts[:, None], sums / np.maximum(counts, 1)[:, None], np.nan)


def derived_seed(seed: int, *numbers: int) -> int:
    """That of a fold or a `partial_fit`, by its number: the one after that of a fit is its warm start's."""
    return int(np.random.SeedSequence([seed, *numbers]).generate_state(1)[0])
