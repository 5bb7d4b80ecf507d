"""Which parameters of a network make sense, alone and with each other, and from one fit to the next."""

import warnings
from typing import TYPE_CHECKING, Any

import equinox as eqx
import numpy as np
from numpy.typing import ArrayLike

from fokker.integrators.noise import check_noise
from fokker.models.checks import is_number, optional, positive, refuse_ignored, whole, within
from fokker.models.fits import as_fitted
from fokker.models.network.calibration import check_calibration
from fokker.models.network.networks import is_sizes
from fokker.models.network.posterior import check_likelihood
from fokker.samplers.contract import Sampler

if TYPE_CHECKING:
    from fokker.models.network.estimator import Network

# What a chain has from its start, which `partial_fit` goes on with.
_OF_THE_START = (
    "model", "likelihood", "prior", "noise_scale", "params", "activation", "sampled", "chains",
    "random_state",
)  # fmt: skip


# Above this mean square of the entries of X, the default learning rates are not what they are made for.
_LARGE_INPUTS = 100.0


def check_parameters(net: "Network") -> None:
    """Raise where a parameter makes no sense."""
    check_likelihood(net.likelihood)
    net._step_settings().check()
    check_noise(net.noise)
    for name in ("draws", "chains", "cycles"):
        whole(1)(name, getattr(net, name))
    optional(whole(1))("batch_size", net.batch_size)
    for name in ("passes", "burn_in_passes", "warm_start_passes"):
        check = within(0, np.inf, "a number of passes over the data, at least 0")
        optional(check)(name, getattr(net, name))
    if net.passes == 0:
        raise ValueError("passes must be above 0: without a pass over the data there are no draws.")
    check_calibration(net.calibration)
    if net.calibration and net.likelihood != "categorical":
        raise ValueError("calibration is of the probabilities of classes: leave it out in a regression.")
    if net.noise_scale is not None:
        if net.likelihood != "gaussian":
            raise ValueError("noise_scale is for likelihood='gaussian': leave it out.")
        positive("noise_scale", net.noise_scale)
    if isinstance(net.sampler, Sampler):
        names: tuple[str, ...] = ("learning_rate", "momentum", "noise", "schedule", "cycles")
        own = (
            "has no effect on a sampler of fk.samplers: make the sampler with it, or give sampler as a name."
        )
        refuse_ignored(net, names, own)
    elif net.sampler in ("sgld", "psgld"):
        without = f"has no effect on sampler={net.sampler!r}: leave it out, or give sampler='sghmc'."
        refuse_ignored(net, ("momentum",), without)
    if net.schedule == "cyclical":
        reason = "has no effect with schedule='cyclical', where the first half of each cycle is left out"
        refuse_ignored(net, ("burn_in_passes",), f"{reason}: leave one of them out.")
    else:
        refuse_ignored(net, ("cycles",), "has no effect with schedule='constant': give schedule='cyclical'.")
    if not is_sizes(net.model):
        refuse_ignored(net, ("activation",), "is for a model of layer sizes, and this one has its own.")


def _of_the_start(net: "Network") -> dict[str, Any]:
    """The parameters that a chain has from its start, by name."""
    share = net.calibration if is_number(net.calibration) and net.calibration < 1 else 0
    return {**{name: getattr(net, name) for name in _OF_THE_START}, "calibration": share}


def check_classes(net: "Network", classes: ArrayLike | None, known: list[Any] | None = None) -> None:
    """Raise for classes of `partial_fit` in a regression, or which are none of those of the first call."""
    if classes is None:
        return
    if net.likelihood != "categorical":
        raise ValueError(
            f"classes are for labels, and likelihood={net.likelihood!r} has none: leave them out."
        )
    given = np.asarray(classes).tolist()
    if unknown := [] if known is None else [x for x in given if x not in known]:
        raise ValueError(f"classes has {unknown[0]!r}, which the first call did not have: name all there.")


def check_unchanged(net: "Network") -> None:
    """Raise where a parameter has changed that the chain of `partial_fit` has from its start."""
    now, before = _of_the_start(net), _of_the_start(as_fitted(net))
    changed = [name for name, x in now.items() if not (x is before[name] or eqx.tree_equal(x, before[name]))]
    if changed:
        raise ValueError(
            f"partial_fit goes on with a chain that cannot change {', '.join(changed)}: set it back, or call "
            "fit with all rows, old and new."
        )


def warn_of_large(rows: np.ndarray) -> None:
    """Warn where the columns should be scaled first."""
    mean_square = float(np.mean(rows.astype(float) ** 2))
    if mean_square > _LARGE_INPUTS:
        warnings.warn(
            f"the entries of X are large, {mean_square**0.5:.3g} in root mean square: scale columns to "
            "standard deviation 1, as StandardScaler of scikit-learn does; the default settings are made for "
            "that.",
            stacklevel=4,
        )
