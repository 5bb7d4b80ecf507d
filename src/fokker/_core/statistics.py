"""Effective draws, R-hat and tails, by ArviZ: 0.x, whose data are InferenceData, or 1.x, with DataTree."""

import contextlib
import importlib
import logging
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType, ModuleType
from typing import Any

import numpy as np
from jaxtyping import Array, Float, PyTree

from fokker._core.labels import NO_LABELS, Labels

# How often the import of ArviZ is tried.
_IMPORTS = 5


def _arviz() -> Any:
    """ArviZ, imported where it is used; 0.x announces its successor on import.

    0.23 notes down, without a lock, that it has: of two processes that import it at once, the first day,
    one does not find the file that the other has renamed.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        for _ in range(_IMPORTS - 1):
            with contextlib.suppress(FileNotFoundError):
                return importlib.import_module("arviz")
        return importlib.import_module("arviz")


def _is_new(arviz: ModuleType) -> bool:
    """Whether it is ArviZ 1.0 or later, which may still have some names of 0.x, with another meaning."""
    return int(arviz.__version__.split(".")[0]) >= 1


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the warnings of more chains than draws, of a single chain, and of constant ones.

    ArviZ 0.23 logs "Shape validation failed" for every single chain.
    """

    def is_other(record: logging.LogRecord) -> bool:
        return "Shape validation failed" not in record.getMessage()

    # ArviZ 0.x has a logger of its own, which `logging.getLogger` does not know.
    logger = getattr(_arviz(), "_log", logging.getLogger("arviz"))
    logger.addFilter(is_other)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.removeFilter(is_other)


def _of_each(
    function: Callable[..., PyTree[Array]], draws: Float[np.ndarray, "c n ..."], **options: object
) -> np.ndarray:
    with _quiet():
        data = _arviz().convert_to_dataset({"x": np.asarray(draws, float)})
        return np.asarray(function(data, **options)["x"], float)


def effective_sample_size(draws: Float[np.ndarray, "c n ..."], method: str = "bulk") -> np.ndarray:
    """The effective number of draws of each series; the first axes are chain and draw."""
    return _of_each(_arviz().ess, draws, method=method)


def split_r_hat(draws: Float[np.ndarray, "c n ..."]) -> np.ndarray:
    """Split R-hat of each series."""
    return _of_each(_arviz().rhat, draws)


def pareto_k(values: Float[np.ndarray, " n"]) -> float:
    """Pareto's k of the largest of some positive values: moments of order 1/k and above are infinite.

    Infinite where the largest are all the same, which says nothing about a tail.
    """
    arviz = _arviz()
    with _quiet():
        if not _is_new(arviz):
            return float(arviz.psislw(np.log(np.maximum(values, 1e-300)))[1])
        from arviz_stats.base import array_stats

        # Not its `psislw`, which takes the logarithms of inverse weights, where that of 0.x takes weights.
        try:
            return float(array_stats.pareto_khat(values, chain_axis=None, r_eff=1, tail="right"))
        except ValueError:  # "All tail values are the same"
            return math.inf


def inference_data(
    draws: Mapping[str, Mapping[str, np.ndarray]],
    data: Mapping[str, Mapping[str, np.ndarray]] = MappingProxyType({}),
    labels: Labels = NO_LABELS,
) -> Any:
    """Groups of draws, and of data, as ArviZ holds them: an InferenceData, from ArviZ 1.0 on a DataTree.

    Draws have the leading axes chain and draw. Empty groups are left out.
    """
    arviz = _arviz()
    shapes = {name: np.shape(x)[2:] for group in draws.values() for name, x in group.items()}
    shapes |= {name: np.shape(x) for group in data.values() for name, x in group.items()}
    groups = {
        name: {variable: np.asarray(x) for variable, x in group.items()}
        for name, group in {**draws, **data}.items()
        if group
    }
    arguments = labels.for_arviz(shapes)
    if _is_new(arviz):
        return arviz.from_dict(groups, **arguments)
    result = arviz.from_dict(**groups, **arguments)
    for name in data:
        # 0.x makes an axis for a single number: PyMC would take it for another value than its own.
        added = [f"{variable}_dim_0" for variable, x in groups.get(name, {}).items() if x.ndim == 0]
        if added:
            setattr(result, name, result[name].squeeze(added, drop=True))
    return result


def autocorrelation(draws: Float[np.ndarray, "c n"], lags: Sequence[int]) -> Float[np.ndarray, "c l"]:
    """The autocorrelation of each chain at these lags; NaN where it is constant or not finite."""
    arviz = _arviz()
    if _is_new(arviz):
        from arviz_stats.base import array_stats

        compute = array_stats.autocorr
    else:
        compute = arviz.autocorr
    with _quiet(), np.errstate(all="ignore"):
        return np.asarray(compute(np.asarray(draws, float), axis=1))[:, list(lags)]
