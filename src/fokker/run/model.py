"""What the model of a trace says at its draws: likelihoods, observed variables and derived quantities."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Array, Key, PyTree

from fokker._core.checks import check_whole
from fokker._core.draws import at_draws, shape_of_draws
from fokker.rows import categories_of, is_source
from fokker.run.predict import Reduce, check_memory, predict
from fokker.targets.target import Target, TargetWithData

if TYPE_CHECKING:
    from fokker.run.trace import Trace

# What ArviZ's schema calls them.
_ARVIZ = {"is_divergent": "diverging", "num_integration_steps": "n_steps"}


def target_of(trace: "Trace") -> Target | None:
    """The target, where the trace knows it."""
    return None if trace.origin is None else trace.origin.target


def arviz_groups(
    trace: "Trace",
    log_likelihood: bool,
    predictive: Mapping[str, Any] | None,
    prior: Mapping[str, Any] | None,
) -> dict[str, Mapping[str, Any]]:
    """The groups of `trace.to_arviz`, by name."""
    observed = trace.known_data().get("observed_data", {})
    of_prior = {name: np.asarray(x)[None] for name, x in (prior or {}).items()}
    target = target_of(trace)
    # NumPyro's deterministic sites and Stan's transformed parameters.
    derived = {} if target is None else at_draws(_derived, trace.samples, target)
    return {
        "posterior": {**trace.named(), **derived},
        "sample_stats": {_ARVIZ.get(name, name): values for name, values in trace.sample_stats.items()},
        "log_likelihood": _log_likelihood_by_name(trace) if log_likelihood else {},
        "posterior_predictive": predictive or {},
        "prior": {name: x for name, x in of_prior.items() if name not in observed},
        "prior_predictive": {name: x for name, x in of_prior.items() if name in observed},
    }


def _log_likelihood_by_name(trace: "Trace") -> dict[str, np.ndarray]:
    target = target_of(trace)
    by_name = {} if isinstance(target, TargetWithData) else _log_likelihood_of_model(trace, 1)
    if not by_name:
        values = trace.log_likelihood()
        by_name = values if isinstance(values, dict) else {"data": values}
    return {name: _without_masked(x) for name, x in by_name.items()}


def _without_masked(values: np.ndarray) -> np.ndarray:
    """Without the entries that are NaN at every draw, which are none of the data."""
    is_masked = np.isnan(values).all((0, 1))
    return values[:, :, ~is_masked] if is_masked.any() else values


def log_likelihood(
    trace: "Trace",
    rows: Sequence[int] | np.ndarray | None,
    batch_size: int | None,
    thin: int,
    progress: bool,
) -> np.ndarray | dict[str, np.ndarray]:
    """As `trace.log_likelihood` says."""
    target = target_of(trace)
    if isinstance(target, TargetWithData) and trace.sampler.wants_target:
        data = target.data if rows is None else _some_rows(target, rows)
        name = "log_likelihood"
        return predict(
            _log_likelihoods, trace.samples, data, (target,), batch_size, thin, None, progress, name
        )
    values = _log_likelihood_of_model(trace, thin) if rows is None and batch_size is None else {}
    if not values:
        raise TypeError(
            "the log likelihood of single data is known only for a trace of fk.sample with a "
            "fk.Posterior, or a model of PyMC or NumPyro, and one of its samplers (rows and batch_size "
            f"with a fk.Posterior alone); the target here is {type(target).__name__}. Otherwise give "
            "your own function of theta and rows to trace.predict."
        )
    return values if len(values) > 1 else next(iter(values.values()))


def _log_likelihood_of_model(trace: "Trace", thin: int) -> dict[str, np.ndarray]:
    """log p of each observed value, by the name of its variable; empty where they are not known."""
    target = target_of(trace)
    if not isinstance(target, Target) or not trace.sampler.wants_target:
        return {}
    draws = _thinned(trace, thin)
    chains, number = shape_of_draws(draws)
    first = jax.tree.map(lambda x: np.asarray(x[0, 0]), draws)
    entries = sum(x.size for x in jax.tree.leaves(jax.eval_shape(target.pointwise, first)))
    check_memory(chains * number * entries * 8, chains * number, entries)
    return at_draws(_pointwise, draws, target)


def predictive(
    trace: "Trace",
    key: Key[Array, ""] | None,
    data: PyTree[Any],
    batch_size: int | None,
    thin: int,
    reduce: Reduce,
) -> dict[str, np.ndarray]:
    """The observed variables of a model at every draw, as `trace.predict` without a function gives them."""
    if key is None or not all(x is None for x in (data, batch_size, reduce)):
        raise TypeError(
            "trace.predict needs a function of theta and rows, with data; without them it takes a key "
            "and thin alone, for draws of the observed variables of a model."
        )
    target = target_of(trace)
    if not isinstance(target, Target):
        raise TypeError("this trace has no model that could draw data: give a function and data.")
    return target.predictive_at(_thinned(trace, thin), key)


def _thinned(trace: "Trace", thin: int) -> PyTree[np.ndarray]:
    check_whole("thin", thin)
    return jax.tree.map(lambda x: x[:, ::thin], trace.samples)


def categories(trace: "Trace") -> dict[str, Sequence[str]]:
    """The labels of columns of categories that are known, in the order of their codes."""
    target = target_of(trace)
    data = target.data if isinstance(target, TargetWithData) else None
    coords = {axis: [str(x) for x in entries] for axis, entries in trace.labels.coords.items()}
    return {**coords, **dict(categories_of(data).values())}


def _some_rows(target: TargetWithData, rows: Sequence[int] | np.ndarray) -> PyTree[Any]:
    """The data with these indices."""
    index = np.asarray(rows)
    is_whole = index.ndim == 1 and index.size and np.issubdtype(index.dtype, np.integer)
    if not is_whole or index.min() < 0 or index.max() >= target.size:
        raise ValueError(
            f"rows must be indices of the {target.size:,} data, whole numbers from 0 to {target.size - 1:,}, "
            f"in a list or an array; {rows!r} was given."
        )
    return jax.tree.map(
        lambda x: x[index] if is_source(x) else np.asarray(x)[index], target.data, is_leaf=is_source
    )


# Functions of a module, as programs are compiled once for a function.


def _log_likelihoods(theta: PyTree[Array], rows: PyTree[Array], target: TargetWithData) -> Array:
    return jax.vmap(lambda datum: target.log_likelihood_of_theta(theta, datum))(rows)


def _pointwise(theta: PyTree[Array], target: Target) -> dict[str, Array]:
    return target.pointwise(theta)


def _derived(theta: PyTree[Array], target: Target) -> dict[str, Array]:
    return target.derived(theta)
