"""Effective draws, R-hat and tails, by ArviZ's functions of arrays; draws as ArviZ holds them.

The functions are those of arviz-stats, which are the same with ArviZ 0.x and 1.x, and need neither its
figures nor its data structures: importing all of ArviZ 0.x takes longer than most summaries.
"""

import contextlib
import importlib
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType, ModuleType
from typing import Any

import numpy as np
from jaxtyping import Float

from fokker._core.labels import NO_LABELS, Labels

# How often the import of ArviZ is tried.
_IMPORTS = 5
# The quantiles whose indicators have the tail's effective draws.
_TAILS = (0.05, 0.95)


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
def _array_statistics() -> Iterator[Any]:
    """ArviZ's functions of arrays, without warnings of few draws, of a single chain, and of constant ones."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        from arviz_stats.base import array_stats

        yield array_stats


def effective_sample_size(draws: Float[np.ndarray, "c n ..."], method: str = "bulk") -> np.ndarray:
    """The effective number of draws of each series; the first axes are chain and draw."""
    prob = _TAILS if method == "tail" else None
    with _array_statistics() as statistics:
        draws = np.asarray(draws, float)
        return np.asarray(statistics.ess(draws, chain_axis=0, draw_axis=1, method=method, prob=prob), float)


def split_r_hat(draws: Float[np.ndarray, "c n ..."]) -> np.ndarray:
    """Split R-hat of each series."""
    with _array_statistics() as statistics:
        return np.asarray(statistics.rhat(np.asarray(draws, float), chain_axis=0, draw_axis=1), float)


def pareto_k(values: Float[np.ndarray, " n"]) -> float:
    """Pareto's k of the largest of some positive values: moments of order 1/k and above are infinite.

    Infinite where the largest are all the same, which says nothing about a tail.
    """
    with _array_statistics() as statistics:
        try:
            return float(statistics.pareto_khat(values, chain_axis=None, r_eff=1, tail="right"))
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
    with _array_statistics() as statistics:
        return np.asarray(statistics.autocorr(np.asarray(draws, float), axis=1))[:, list(lags)]
