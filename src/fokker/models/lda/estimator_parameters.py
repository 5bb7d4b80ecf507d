"""The parameters of the estimator, checked, with errors in their own names."""

import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

from fokker._core.keys import checked_seed
from fokker._core.state import nearest
from fokker.models.lda.gibbs import cores
from fokker.models.lda.seeds import seed_columns
from fokker.models.lda.settings import LEARNED_GAMMA, SAMPLERS, Settings
from fokker.models.lda.word_prior import WordPrior

_MAX_SEED = 2**31 - 1


def checked_settings(estimator: Any, words: int, seed: int) -> Settings:
    """The settings of a chain over topics of this many words."""
    topics, sweeps = _whole(estimator, "n_components", 1), _whole(estimator, "sweeps", 1)
    burn_in = _whole(estimator, "burn_in", 0)
    if burn_in >= sweeps:
        raise ValueError(f"burn_in={burn_in} of sweeps={sweeps} are not counted: at least one must remain.")
    if words < 2:
        raise ValueError("X has n_features=1 word: topics differ in the probabilities of two or more.")
    if topics > words:
        raise ValueError(
            f"n_components={topics} topics of n_features={words} words cannot all differ: use fewer topics, "
            "or more words."
        )
    if estimator.sampler not in SAMPLERS:
        raise ValueError(
            f"sampler is one of {', '.join(SAMPLERS)}, not {estimator.sampler!r}."
            f"{nearest(str(estimator.sampler), SAMPLERS)}"
        )
    _whole(estimator, "draws", 1)
    if estimator.passes is not None:
        _whole(estimator, "passes", 1)
    fraction = estimator.validation_fraction
    if not (isinstance(fraction, numbers.Real) and 0 <= float(fraction) < 1):
        raise ValueError(f"validation_fraction must be from 0 to below 1; {fraction!r} was given.")
    return Settings(
        topics=topics,
        sampler=estimator.sampler,
        alpha=float(_word_prior_array(estimator, topics, words).min()),
        gamma=_prior_of_mixtures(estimator, topics),
        seed_words=estimator.seed_words or None,
        seed_weight=_positive(estimator, "seed_weight"),
        step=None if estimator.step_size is None else _positive(estimator, "step_size"),
        friction=None if estimator.friction is None else _positive(estimator, "friction"),
        batch=_whole(estimator, "batch_size", 1),
        start_documents=_whole(estimator, "start_documents", 0),
        sweeps=sweeps,
        burn_in=burn_in,
        threads=num_threads(estimator.n_jobs),
        seed=seed,
        exact_passes=None if estimator.exact_passes is None else _whole(estimator, "exact_passes", 0),
        total=None if estimator.total_samples is None else _whole(estimator, "total_samples", 1),
    )


def _prior_of_mixtures(estimator: Any, topics: int) -> float | list[float] | str:
    """γ: a number, one per topic, or how it is learned."""
    given = estimator.doc_topic_prior
    is_number = isinstance(given, numbers.Real) and not isinstance(given, bool)
    if is_number or (isinstance(given, str) and given in LEARNED_GAMMA):
        return given if isinstance(given, str) else _positive(estimator, "doc_topic_prior")
    gamma = np.asarray(given, np.float64) if not isinstance(given, str) and np.ndim(given) else np.zeros(0)
    if gamma.shape != (topics,) or not np.all((gamma > 0) & np.isfinite(gamma)):
        raise ValueError(
            f"doc_topic_prior must be a positive number, one per topic, n_components={topics}, or one of "
            f"{', '.join(LEARNED_GAMMA)}; {given!r} was given.{nearest(str(given), LEARNED_GAMMA)}"
        )
    return list(gamma.tolist())


def _word_prior_array(estimator: Any, topics: int, words: int) -> np.ndarray:
    """α: a number, one per word (V,), or one per topic and word (K, V)."""
    given = estimator.topic_word_prior
    if np.ndim(given) == 0:
        return np.array(_positive(estimator, "topic_word_prior"))
    prior = np.asarray(given, np.float64)
    if prior.shape not in ((words,), (topics, words)) or not np.all((prior > 0) & np.isfinite(prior)):
        raise ValueError(
            f"topic_word_prior must be a positive number, one per word ({words},), or one per topic and word "
            f"({topics}, {words}); an array of shape {prior.shape} was given"
            + ("." if np.all(prior > 0) else " with numbers that are not positive.")
        )
    return prior


def word_prior(estimator: Any, settings: Settings, words: int) -> WordPrior:
    """The prior of the words of topics, with the pseudo-counts of seed words."""
    prior = WordPrior.of_array(_word_prior_array(estimator, settings.topics, words), settings.topics)
    if not estimator.seed_words:
        return prior
    seeds = seed_columns(estimator.seed_words, _names_of_columns(estimator), words)
    return prior.with_seeds(seeds, settings.seed_weight)


def _names_of_columns(estimator: Any) -> Sequence[str] | None:
    """The words of the columns of X: those of a data frame, else the parameter."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        names = estimator.feature_names
    if names is not None and len(names) != estimator.n_features_in_:
        raise ValueError(
            f"feature_names has {len(names)} names for the {estimator.n_features_in_} columns of X: give one "
            "per column."
        )
    return names


def num_threads(n_jobs: Any) -> int:
    """The number of threads: None and -1 are all processors, -2 all but one."""
    if n_jobs is None:
        return cores()
    if not isinstance(n_jobs, numbers.Integral) or n_jobs == 0:
        raise ValueError(f"n_jobs must be a whole number other than 0, or None; {n_jobs!r} was given.")
    return max(1, cores() + 1 + int(n_jobs)) if n_jobs < 0 else int(n_jobs)


def new_seed(random_state: Any) -> int:
    """The seed of a fit: as given, drawn from a generator, or another one each time."""
    if random_state is None:
        return int(np.random.default_rng().integers(_MAX_SEED))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(_MAX_SEED))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(_MAX_SEED))
    try:
        return checked_seed(random_state, "random_state")
    except ValueError as error:
        raise ValueError(f"{error} Or give a numpy.random.RandomState or Generator, or None.") from None


def _whole(estimator: Any, name: str, minimum: int) -> int:
    value = getattr(estimator, name)
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < minimum:
        raise ValueError(f"{name} must be a whole number of at least {minimum}; {value!r} was given.")
    return int(value)


def _positive(estimator: Any, name: str) -> float:
    value = getattr(estimator, name)
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not (is_number and math.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be a positive number; {value!r} was given.")
    return float(value)
