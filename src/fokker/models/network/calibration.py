"""How certain a network should be, by rows that a fit has not seen.

The average over draws can be less certain than it is right, as on labels without noise, or more certain, as
on labels of which some are at random. `fitted_calibration` finds the power of the probabilities and the share
at random that are most likely for labels which they have not seen: those of a share that is left out of the
fit, or of rows by folds.
"""

import warnings
from typing import TYPE_CHECKING

import numpy as np

from fokker.models.checks import is_number
from fokker.models.network.inputs import LARGE
from fokker.models.network.metrics import Calibration, fitted_calibration
from fokker.models.network.networks import is_fresh

if TYPE_CHECKING:
    from fokker.models.network.estimator import Network

# Rows and labels that are not fitted.
HeldOut = tuple[np.ndarray, np.ndarray]
# Without a number of folds: so many, from so many rows on, of which fits leave out no more than are needed to
# predict so many rows.
_FOLDS, _LEAST_ROWS, _ENOUGH = 5, 50, 400
# A fit without a fold has one chain, and this share of the steps and draws of a chain of the main fit.
_SHARE = 0.5


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
    """By rows that are each predicted by one chain given the other folds."""
    rows, labels = net._data["x"], net._data["y"]
    fold_of_row = np.random.default_rng(net._seed_of_run).permutation(len(rows)) % folds
    # All folds have one learning rate and one number of rows, so that they share their compiled programs.
    fewest = len(rows) - -(-len(rows) // folds)
    rate = net.learning_rate
    if rate is None and isinstance(net.sampler, str):
        rate = net._step_settings().default_rate(net._posterior.curvature(rows))
    lengths = net._lengths(len(rows))
    passes_per_step = min(1.0, lengths.batch_size / fewest)
    parameters = {
        **net.get_params(deep=False),
        "calibration": 0,
        "chains": 1,
        "draws": max(1, round(_SHARE * net.draws)),
        "learning_rate": rate,
        "batch_size": lengths.batch_size,
        "warm_start_passes": lengths.warm_start * passes_per_step,
        "burn_in_passes": lengths.burn_in * passes_per_step,
        "passes": _SHARE * lengths.thin * lengths.draws * passes_per_step,
    }
    probabilities = np.full((len(rows), len(net.classes_)), np.nan)
    for fold in range(folds):
        out = fold_of_row == fold
        rest = np.flatnonzero(~out)[:fewest]
        without = type(net)(**{**parameters, "random_state": derived_seed(net._seed_of_run, 1 + fold)})
        with warnings.catch_warnings():
            # Of all rows, which was said already; and of an interruption, which the caller tells.
            warnings.filterwarnings(
                "ignore", f"{LARGE}|the run (was interrupted|ended before its first draw)"
            )
            without._fit(rows[rest], net.classes_[labels[rest]], net.classes_)
        if without.stopped_ is not None:  # a run that is interrupted returns the draws that it has
            raise KeyboardInterrupt
        probabilities[out] = without.predict_proba(rows[out])
        predicted = ~np.isnan(probabilities[:, 0])
        if net.calibration is None and np.sum(predicted) >= _ENOUGH:
            break
    return fitted_calibration(probabilities[predicted], labels[predicted])


def derived_seed(seed: int, *numbers: int) -> int:
    """That of a fold or a `partial_fit`, by its number: the one after that of a fit is its warm start's."""
    return int(np.random.SeedSequence([seed, *numbers]).generate_state(1)[0])
