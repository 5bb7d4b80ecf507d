"""How certain a network should be, by rows that a fit has not seen.

The average over draws can be less certain than it is right, as on labels without noise, or more certain, as
after too wide a prior. `fitted_exponent` finds the power of the probabilities that is most likely for
labels which they have not seen: those of a share that is left out of the fit, or of all rows by folds.
"""

import warnings
from typing import TYPE_CHECKING

import numpy as np

from fokker.models.checks import is_number
from fokker.models.network.inputs import LARGE
from fokker.models.network.metrics import fitted_exponent

if TYPE_CHECKING:
    from fokker.models.network.estimator import Network

# A fit without a fold has one chain and these shares of the steps and draws of each chain of the main fit.
# Its start takes as many steps: the power depends on how well the rows are fitted.
_SHARE_OF_BURN_IN, _SHARE_OF_STEPS, _DRAWS = 0.5, 0.25, 25


def check_calibration(value: object) -> None:
    """Raise unless it is a share, a number of folds, or 0 or None for neither."""
    if value is None:
        return
    if is_number(value) and (0 <= value < 1 or (value >= 2 and value == int(value))):
        return
    raise ValueError(
        "calibration must be 0, a share of the rows below 1 such as 0.1, or a whole number of folds from 2 "
        f"such as 5; {value!r} was given."
    )


def held_out(
    rows: np.ndarray, targets: np.ndarray, calibration: float, seed: int
) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray] | None]:
    """The rows to fit with their targets, and a share of both that is not fitted; None for folds."""
    if calibration > len(rows):
        raise ValueError(f"calibration={calibration} folds need as many rows; there are {len(rows)}.")
    number = int(calibration * len(rows)) if calibration < 1 else 0
    if not number:
        return rows, targets, None
    order = np.random.default_rng(seed).permutation(len(rows))
    out, rest = order[:number], np.sort(order[number:])
    return rows[rest], targets[rest], (rows[out], targets[out])


def calibrated_exponent(net: "Network") -> float:
    """The power of the probabilities of a network that has its draws; 1 without calibration."""
    if net._held_out is not None:
        rows, labels = net._held_out
        net.sharpness_ = 1.0  # of an earlier fit
        return fitted_exponent(net.predict_proba(rows), labels)
    if (net.calibration or 0) < 2 or net.stopped_ is not None:
        return 1.0
    try:
        return exponent_by_folds(net, net._data["x"], net._data["y"])
    except KeyboardInterrupt:  # nothing that was drawn is lost
        warnings.warn(
            "the fits of the calibration were interrupted: probabilities are those of the draws.",
            stacklevel=5,
        )
        return 1.0


def exponent_by_folds(net: "Network", rows: np.ndarray, labels: np.ndarray) -> float:
    """The power for all rows, each predicted by a short fit to the other folds."""
    folds = int(net.calibration or 0)
    fold_of_row = np.random.default_rng(net._seed).permutation(len(rows)) % folds
    lengths = net._lengths(len(rows))
    passes_per_step = lengths.batch_size / len(rows)
    parameters = {
        **net.get_params(deep=False),
        "calibration": 0,
        "chains": 1,
        "draws": _DRAWS,
        "batch_size": lengths.batch_size,
        "warm_start_passes": lengths.warm_start * passes_per_step,
        "burn_in_passes": _SHARE_OF_BURN_IN * lengths.burn_in * passes_per_step,
        "passes": _SHARE_OF_STEPS * lengths.thin * lengths.draws * passes_per_step,
    }
    probabilities = np.empty((len(rows), len(net.classes_)))
    for fold in range(folds):
        seed = (net._seed + 1 + fold) % 2**32
        rest = fold_of_row != fold
        without = type(net)(**{**parameters, "random_state": seed})
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", LARGE)  # of all rows, which was said already
            without._fit(rows[rest], net.classes_[labels[rest]], net.classes_)
        probabilities[~rest] = without.predict_proba(rows[~rest])
    return fitted_exponent(probabilities, labels)
