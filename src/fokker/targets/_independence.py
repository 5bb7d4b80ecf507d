"""Whether the rows of a model's data are independent given theta, so that minibatches of them are right.

The log likelihood of a row alone must be its term in that of all rows, and so must its derivatives by every
part of theta. Each row is compared relative to its own size, in double precision: a poor fit, whose log
likelihoods are huge, hides nothing. A dependence that shows at none of the starts, or in rows that are not
among those looked at, is not seen.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from fokker._core.precision import as_double
from fokker.targets._program import first_line

# Rows that are looked at, spread over the data.
_ROWS = 256
# Starts that are tried, and finite ones that suffice; parts of theta whose derivatives are taken one by one.
_STARTS, _ENOUGH, _PARTS = 12, 3, 16


class _Tolerance(NamedTuple):
    """How far a number may differ: relative to it, to its mean over rows, and to other numbers."""

    relative: float
    mean: float
    others: float


_DOUBLE, _SINGLE = _Tolerance(1e-4, 1e-7, 1e-8), _Tolerance(1e-3, 1e-4, 1e-4)


class Model(Protocol):
    """A model that can be run on some of its rows; a tree of arrays, or constant."""

    def log_likelihood(self, theta: PyTree[Array], rows: PyTree[Array], /) -> Array:
        """log p(rows|theta)."""
        ...

    def log_likelihoods(self, theta: PyTree[Array], rows: PyTree[Array], /) -> Array | None:
        """The term of each row in it; None where it is not known which is whose."""
        ...


class _Values(NamedTuple):
    """Log likelihoods and, along the last axis, derivatives: of single rows, and of all of them together."""

    alone: np.ndarray
    terms: np.ndarray | None
    total: np.ndarray


class DependentRows(ValueError):
    """A model whose rows are not independent given theta; what to do is for the caller to say."""


def check_independence(
    model: Model,
    draw: Callable[[int], PyTree[Array]],
    rows: PyTree[Array],
    advice: str,
    is_prior_of_rows: bool = False,
) -> None:
    """Raise unless the rows are independent given theta at some starts, `draw(seed)`; warn if none is finite.

    `is_prior_of_rows`: whether `model.log_prior` takes rows too. Then it must not depend on them.
    """
    size = len(jax.tree.leaves(rows)[0])
    if size < 2:
        return
    chosen = np.random.default_rng(0).permutation(np.linspace(0, size - 1, min(size, _ROWS)).astype(int))
    some = jax.tree.map(lambda x: jnp.asarray(x)[chosen], rows)
    try:
        is_decided = _decide_in_double(model, draw, some, is_prior_of_rows)
        if is_decided is None:
            is_decided = _decide(model, draw, some, is_prior_of_rows, _SINGLE)
    except DependentRows as error:
        raise ValueError(f"{error} {advice}") from None
    except Exception as error:
        raise ValueError(
            "the model could not be evaluated on two of its rows together and on its rows row by row: "
            f"{first_line(error)} {advice}"
        ) from error
    if not is_decided:
        warnings.warn(
            "it could not be checked that the rows are independent given theta, as minibatches need: the log "
            f"likelihood was not finite at any of {_STARTS} starts. {advice}",
            stacklevel=5,
        )


def _decide_in_double(
    model: Model, draw: Callable[[int], Any], rows: PyTree[Array], is_prior_of_rows: bool
) -> bool | None:
    """As `_decide`; None for a model that is written for single precision alone."""
    try:
        with jax.enable_x64(True):
            return _decide(as_double(model), draw, as_double(rows), is_prior_of_rows, _DOUBLE)
    except DependentRows:
        raise
    except Exception:
        return None


def _decide(
    model: Model,
    draw: Callable[[int], PyTree[Array]],
    rows: PyTree[Array],
    is_prior_of_rows: bool,
    tolerance: _Tolerance,
) -> bool:
    """Whether a start was finite; raise where the rows depend on one another there."""
    num_finite = 0
    for seed in range(_STARTS):
        theta = draw(seed)
        names, directions = _directions(theta)
        likelihood, prior = _evaluated(model, theta, rows, directions, is_prior_of_rows)
        num_finite += _check_terms(_Values(*jax.tree.map(np.asarray, likelihood)), names, tolerance)
        if prior is not None:
            _check_same(np.asarray(prior[0]), np.asarray(prior[1]), names, tolerance)
        if num_finite == _ENOUGH:
            break
    return num_finite > 0


def _directions(theta: PyTree[Array]) -> tuple[list[str], PyTree[Array]]:
    """A random direction in each part of theta, along a new first axis; and the names of the parts."""
    named, structure = jax.tree_util.tree_flatten_with_path(theta)
    generator = np.random.default_rng(0)
    number = min(len(named), _PARTS)
    stacked = []
    for place, (_, leaf) in enumerate(named):
        direction = np.zeros((number, *jnp.shape(leaf)))
        direction[place % number] = generator.normal(size=jnp.shape(leaf))
        stacked.append(jnp.asarray(direction, jnp.asarray(leaf).dtype))
    names = [
        " and ".join(jax.tree_util.keystr(path) for path, _ in named[part::number]) for part in range(number)
    ]
    return names, jax.tree.unflatten(structure, stacked)


@eqx.filter_jit
def _evaluated(
    model: Any, theta: PyTree[Array], rows: PyTree[Array], directions: PyTree[Array], is_prior_of_rows: bool
) -> Any:
    """`_Values` of the log likelihood; and the log prior on single rows and on all."""

    def with_derivatives(function: Callable[..., Array], rows: PyTree[Array]) -> Array:
        value, linear = jax.linearize(lambda theta: function(theta, rows), theta)
        return jnp.concatenate([value[..., None], jnp.moveaxis(jax.vmap(linear)(directions), 0, -1)], -1)

    def alone(function: Callable[..., Array]) -> Array:
        singles = jax.tree.map(lambda x: x[:, None], rows)
        return jax.vmap(lambda row: with_derivatives(function, row))(singles)

    has_terms = jax.eval_shape(model.log_likelihoods, theta, rows) is not None
    likelihood = (
        alone(model.log_likelihood),
        with_derivatives(model.log_likelihoods, rows) if has_terms else None,
        with_derivatives(model.log_likelihood, rows),
    )
    if not is_prior_of_rows:
        return likelihood, None
    return likelihood, (alone(model.log_prior), with_derivatives(model.log_prior, rows))


def _check_terms(values: _Values, names: Sequence[str], tolerance: _Tolerance) -> bool:
    """Whether a row is finite; raise where a term, or their sum, is not that of single rows."""
    alone, number = values.alone, len(values.alone)
    allowed = _allowed(alone, tolerance)
    if values.terms is not None:
        both = np.abs(alone) + np.abs(values.terms)
        where = f"the log likelihood of one of {number} rows"
        _refuse_first(where, values.terms, alone, tolerance.relative * both + allowed, names)
    size = np.abs(alone).sum(0)
    where = f"the log likelihood of {number} rows"
    limit = tolerance.relative * size + number * allowed
    _refuse_first(where, values.total[None], alone.sum(0)[None], limit, names)
    return bool(np.isfinite(alone[:, 0]).any())


def _check_same(alone: np.ndarray, together: np.ndarray, names: Sequence[str], tolerance: _Tolerance) -> None:
    """Raise where the prior depends on the rows that the model is run on."""
    every = np.broadcast_to(together, alone.shape)
    limit = tolerance.relative * (np.abs(alone) + np.abs(every)) + _allowed(alone, tolerance)
    _refuse_first(f"the log prior of a model of {len(alone)} rows", every, alone, limit, names)


def _allowed(alone: np.ndarray, tolerance: _Tolerance) -> np.ndarray:
    """What rounding may change, for the values and each of the derivatives."""
    finite = np.isfinite(alone)
    means = np.where(finite, np.abs(alone), 0.0).sum(0) / np.maximum(finite.sum(0), 1)
    largest = np.concatenate([means[:1], np.full(means.size - 1, means[1:].max(initial=0.0))])
    return tolerance.mean * means + tolerance.others * largest


def _refuse_first(
    what: str, together: np.ndarray, apart: np.ndarray, limit: np.ndarray, names: Sequence[str]
) -> None:
    with np.errstate(all="ignore"):
        wrong = np.abs(together - apart) > limit
    # A value that is finite one way alone is a contradiction; derivatives may fail for other reasons.
    wrong[:, 0] |= np.isfinite(together[:, 0]) != np.isfinite(apart[:, 0])
    if wrong.any():
        place, column = np.argwhere(wrong)[0]
        of = what if column == 0 else f"the derivative by theta{names[column - 1]} of {what}"
        raise DependentRows(
            f"{of} is {together[place, column]:.6g} together and {apart[place, column]:.6g} row by row, so "
            "minibatches would be wrong."
        )
