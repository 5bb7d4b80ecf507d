"""Every estimator of `fk.models`, listed once: how it is fitted quickly, and what of a fit is drawn.

`models/test_estimators.py` runs one list of checks over it, `digests.py` stores the bits of the draws, and
`test_bad_input.py` gives it seeds that are none.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import fokker as fk


class Example(NamedTuple):
    """`fit`: an estimator fitted to a few rows, with further parameters by name; `drawn`: arrays of a fit."""

    fit: Callable[..., Any]
    drawn: Callable[[Any], Any]


def counts(overlap: int = 0) -> np.ndarray:
    """Documents of two topics; `overlap`: what every word has more in both, so that z is uncertain."""
    generator = np.random.default_rng(0)
    topics = np.array([[4, 3, 2, 1, 0, 0, 0, 0], [0, 0, 0, 0, 1, 2, 3, 4]]) + overlap
    topics = topics / topics.sum(1, keepdims=True)
    return np.stack([generator.multinomial(30, topics[i % 2]) for i in range(40)])


LDA = {"n_components": 2, "random_state": 3, "batch_size": 10, "sweeps": 4, "burn_in": 2, "n_jobs": 1}
_X = np.linspace(-1, 1, 24, dtype=np.float32).reshape(12, 2)
_NETWORK = {"passes": 4, "burn_in_passes": 2, "draws": 4, "batch_size": 4}
_USERS, _ITEMS = np.arange(60) % 6, np.arange(60) // 6


def _lda(overlap: int = 0, **parameters: Any) -> Any:
    return fk.models.LDA(**{**LDA, "passes": 2, **parameters}).fit(counts(overlap))


def _network(**parameters: Any) -> Any:
    usual = {"model": [3], **_NETWORK, "random_state": 3, "progress": False}
    return fk.models.Network(**{**usual, **parameters}).fit(_X, np.arange(12) % 2)


def _factorisation(**parameters: Any) -> Any:
    usual = {"factors": 2, "passes": 6, "draws": 3, "random_state": 3, "progress": False}
    values = np.random.default_rng(0).integers(1, 6, 60)
    return fk.models.Factorisation(**{**usual, **parameters}).fit(_USERS, _ITEMS, values)


ESTIMATORS = {
    "LDA": Example(_lda, lambda lda: lda.components_),
    "Network": Example(_network, lambda net: net.predict_proba(_X)),
    "Factorisation": Example(_factorisation, lambda model: model.predict(_USERS[:9], _ITEMS[:9])),
}


@functools.cache
def fitted(name: str) -> Any:
    """The fit of an example, one for all tests that only read it."""
    return ESTIMATORS[name].fit()
