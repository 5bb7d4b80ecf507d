"""Effective draws, R-hat and tails, by ArviZ: 0.x, whose data are InferenceData, or 1.x, with DataTree."""

import logging
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from jaxtyping import Float


def _arviz() -> Any:
    """ArviZ, imported where it is used; 0.x announces its successor on import."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        import arviz

    return arviz


def _is_new(arviz: Any) -> bool:
    """Whether it is ArviZ 1.0 or later, which may still have some names of 0.x, with another meaning."""
    return int(arviz.__version__.split(".")[0]) >= 1


@contextmanager
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


def _of_each(function: Any, draws: Float[np.ndarray, "c n ..."], **options: Any) -> np.ndarray:
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


def inference_data(**groups: dict[str, np.ndarray]) -> Any:
    """Draws as ArviZ holds them: an InferenceData, from ArviZ 1.0 on a DataTree; empty groups are not."""
    arviz = _arviz()
    filled = {name: group for name, group in groups.items() if group}
    return arviz.from_dict(filled) if _is_new(arviz) else arviz.from_dict(**filled)
