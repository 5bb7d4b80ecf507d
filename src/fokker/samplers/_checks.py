"""Checks that samplers share."""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import jax
import numpy as np
from jaxtyping import Array, PyTree

from fokker._core.rounding import is_half
from fokker._core.state import as_arrays, is_leaf, ravel, unravel
from fokker._core.types import Number
from fokker.dynamics._checks import check_temperature, validate_state
from fokker.gradients import Estimator
from fokker.integrators import Point
from fokker.targets.target import Target, TargetWithData, check_is_target

if TYPE_CHECKING:
    from fokker.samplers.contract import Sampler

AnySampler = TypeVar("AnySampler", bound="Sampler")


def check_target(target: Target, temperature: Number, gradient: object, by_datum: bool = False) -> Target:
    """The target at a temperature; raise unless a sampler can be put on it with this estimator."""
    check_is_target(target)
    if gradient is not None and not isinstance(gradient, Estimator):
        raise TypeError(f"gradient must be one of fk.gradients, not {type(gradient).__name__}.")
    if not isinstance(target, TargetWithData) and (by_datum or gradient is not None):
        raise TypeError(
            "estimators of the gradient and of its noise look at single data: give a fk.Posterior as the "
            "target."
        )
    check_temperature(as_arrays(temperature))
    # The change of variables of a constrained target is not tempered.
    return target.at_temperature(as_arrays(temperature))


def prepared(gradient: Estimator | None, target: Target) -> Estimator:
    """The estimator for a target that was checked: the plain one by default."""
    if gradient is None or not isinstance(target, TargetWithData):
        return Estimator()
    return gradient.on(target)


def placed(sampler: AnySampler, target: Target, temperature: Number, gradient: object) -> AnySampler:
    """The sampler on a target at a temperature above zero."""
    if gradient is not None:
        raise ValueError(
            f"fk.samplers.{sampler.name} takes no minibatches, and so no estimator of the gradient."
        )
    target = check_target(target, temperature, None)
    if not isinstance(temperature, jax.core.Tracer) and not float(temperature) > 0:
        raise ValueError(
            f"fk.samplers.{sampler.name} samples exp(-U/T) for temperatures above zero; {temperature} was "
            "given. For the mode itself use fk.find_mode."
        )
    return dataclasses.replace(sampler, target=target, temperature=as_arrays(temperature))  # type: ignore[call-arg]


def check_position(sampler: "Sampler", position: PyTree[Any], what: str = "theta") -> PyTree[Array]:
    """Theta as arrays; raise unless it holds finite numbers of single or double precision."""
    for path, leaf in jax.tree.leaves_with_path(position):
        if is_half(leaf):
            raise ValueError(
                f"fk.samplers.{sampler.name} needs single or double precision, but "
                f"{what}{jax.tree_util.keystr(path)} is {leaf.dtype}: cast it by "
                "jax.tree.map(lambda x: x.astype(jnp.float32), theta), or use a sampler that "
                "rounds its steps at random, such as fk.samplers.sghmc."
            )
    validate_state(jax.tree.map(lambda x: float(x) if isinstance(x, int) else x, position))
    return as_arrays(position)


def no_batch(sampler: "Sampler", batch: PyTree[Array]) -> None:
    """Raise where there is a batch."""
    if batch is not None:
        raise ValueError(
            f"fk.samplers.{sampler.name} takes no minibatches: it needs the whole target at every step, and "
            "would be wrong with an estimate of it. Leave batch_size out, or use a sampler made for them, as "
            "fk.samplers.sghmc or sgnht. One of your own says that it takes them by takes_batches = True."
        )


def tempered(target: Target, temperature: Number, theta: PyTree[Array]) -> Callable[[Array], Array]:
    """U/T of theta written as a vector: the one place where the temperature enters."""
    return lambda x: (target.potential(unravel(x, theta)) / temperature).astype(x.dtype)


def check_finite_start(value: Array, gradient: Array) -> None:
    """Raise unless U and its gradient are finite, where their values are known."""
    if isinstance(value, jax.core.Tracer) or isinstance(gradient, jax.core.Tracer):
        return
    finite = np.isfinite(np.asarray(gradient))
    if np.isfinite(np.asarray(value)) and finite.all():
        return
    if not np.isfinite(np.asarray(value)):
        raise ValueError(
            f"the log density is not finite at the initial position ({-float(value)}); start inside the "
            "target's support, where it has mass: another init, or one drawn for each chain, "
            "init=lambda key: …"
        )
    place = int(np.argmax(~finite))
    raise ValueError(
        f"the gradient of the log density is not finite at the initial position ({float(gradient[place])} in "
        f"coordinate {place} of {gradient.size}), though the density is. Often it is a root, "
        "a norm or a logarithm at zero, or a `where` whose other branch is not finite: start elsewhere, by "
        "init=lambda key: 0.1 * jax.random.normal(key, shape), or write it so that it has a derivative there."
    )


def check_finite_point(point: Point) -> None:
    """Raise unless U and its gradient are finite, as far as they are known."""
    if point.potential is not None:
        slope = point.potential if point.gradient is None else ravel(point.gradient)
        check_finite_start(point.potential, slope)


def as_vector(value: PyTree[Any], theta: PyTree[Array]) -> Array:
    """A number or a tree like theta, as one number or a vector."""
    value = as_arrays(value)
    x = ravel(theta)
    vector = value if is_leaf(value) and value.ndim == 0 else ravel(value)
    if vector.shape not in ((), x.shape):
        raise ValueError(f"{vector.size} numbers were given for a theta of {x.size}.")
    return vector.astype(x.dtype)
