"""How certain a network should be, by rows that a fit has not seen.

The average over draws can be less certain than it is right, as on labels without noise, or more certain, as
after too wide a prior. `fitted_exponent` finds the power of the probabilities that is most likely for
labels which they have not seen: those of a share that is left out of the fit, or of all rows by folds.
"""

from typing import TYPE_CHECKING

import numpy as np

from fokker.models.checks import is_number
from fokker.models.network.metrics import fitted_exponent

if TYPE_CHECKING:
    from fokker.models.network.estimator import Network

# A fit without a fold has one chain and these shares of the steps and draws of each chain of the main fit.
# Its start takes as many steps: the power depends on how well the rows are fitted.
_SHARE_OF_BURN_IN, _SHARE_OF_STEPS, _DRAWS = 0.5, 0.25, 25


def checked_calibration(value: object) -> float:
    """The share or the number of folds; raise for what is neither."""
    if is_number(value) and (0 <= value < 1 or (value >= 2 and value == int(value))):
        return value
    raise ValueError(
        "calibration must be 0, a share of the rows below 1 such as 0.1, or a whole number of folds from 2 "
        f"such as 5; {value!r} was given."
    )


def number_held_out(calibration: float, rows: int) -> int:
    """How many rows the fit leaves out: none for folds, whose rows are left out of other fits."""
    if calibration > rows:
        raise ValueError(f"calibration={calibration} folds need as many rows; there are {rows}.")
    return int(calibration * rows) if calibration < 1 else 0


def exponent_by_folds(net: "Network", rows: np.ndarray, labels: np.ndarray) -> float:
    """The power for all rows, each predicted by a short fit to the other folds."""
    folds = int(net.calibration)
    fold_of_row = np.random.default_rng(net._seed).permutation(len(rows)) % folds
    lengths = net._lengths(len(rows))
    passes_per_step = net._rows_per_step(len(rows)) / len(rows)
    parameters = {
        **net.get_params(deep=False),
        "calibration": 0,
        "chains": 1,
        "draws": _DRAWS,
        "batch_size": net._rows_per_step(len(rows)),
        "warm_start_passes": lengths.warm_start * passes_per_step,
        "burn_in_passes": _SHARE_OF_BURN_IN * lengths.burn_in * passes_per_step,
        "passes": _SHARE_OF_STEPS * lengths.thin * lengths.draws * passes_per_step,
    }
    probabilities = np.empty((len(rows), len(net.classes_)))
    for fold in range(folds):
        seed = (net._seed + 1 + fold) % 2**32
        rest = fold_of_row != fold
        without = type(net)(**{**parameters, "random_state": seed})
        without._fit(rows[rest], net.classes_[labels[rest]], net.classes_)
        probabilities[~rest] = without.predict_proba(rows[~rest])
    return fitted_exponent(probabilities, labels)
