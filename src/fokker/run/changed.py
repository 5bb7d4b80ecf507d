"""Whether a function that JAX compiled before now computes something else.

JAX compiles a function once, and its programs know the function by its identity. A density, a schedule or a
matrix field that reads a number outside of itself, a global or an attribute, would go on with that of the
first call, silently.
"""

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Set
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from fokker._core.precision import is_double
from fokker._core.state import shapes_of_first
from fokker.batches import Batch
from fokker.gradients import Estimator
from fokker.rows import is_source
from fokker.run import trajectories
from fokker.run.positions import Init, WarmedUp, forget_passed, given_positions
from fokker.run.record import density_of_row, fingerprint_of_program
from fokker.samplers.contract import Sampler
from fokker.targets import Density, Posterior
from fokker.targets.target import Target, TargetWithData

# What each function computed when it was last used, by the function and the shapes of its arguments.
_KNOWN: dict[Any, str] = {}
# The most of them: each keeps its function alive. The oldest are forgotten.
_MOST_KNOWN = 256


def forget_changed(
    target: Target | None,
    sampler: object,
    init: Init,
    keys: Key[Array, "chains 3"],
    gradient: Estimator | None = None,
) -> None:
    """Drop all compiled programs if the density, or a function of the sampler, changed since the last run.

    The density is traced, and a step of a sampler that has functions from outside of the library: its
    dynamics, a schedule, a metric, conditionals; this step with another density, as that would be traced
    twice. Nothing is computed: this takes milliseconds. A change is rare, and every program may contain the
    function, so none is kept.
    """
    try:
        if isinstance(init, WarmedUp):
            position = shapes_of_first(init.positions)
        else:
            position = jax.eval_shape(lambda key: _first_position(init, key, target), keys[:1])
        position, rows = jax.tree.map(_zeros, position), _rows(target, 2)
    except Exception:  # an error of the model or of `init`: the checks that follow say which
        return
    changed = False
    if isinstance(target, Target) and target.may_change:
        changed |= _has_changed(density_of_row, target, position, _rows(target, 1))
    if isinstance(sampler, Sampler) and (not sampler.wants_target or _is_open((sampler, gradient))):
        changed |= _has_changed(_first_step, sampler, gradient, position, rows)
    if changed:
        _forget_programs()


def forget_changed_function(function: Callable[..., Any], *arguments: Any) -> None:
    """The same for a function that draws are given to, at arguments of these shapes."""
    if _has_changed(function, *arguments):
        _forget_programs()


def _forget_programs() -> None:
    jax.clear_caches()
    trajectories.forget_programs()
    forget_passed()


def _first_position(init: Init, key: Key[Array, "1 3"], target: Target | None) -> PyTree[Array]:
    """Where the first chain starts, in the coordinates that are sampled."""
    position = jax.tree.map(lambda x: x[0], given_positions(init, key))
    return target.unconstrain(position) if isinstance(target, Target) else position


def _has_changed(function: Any, *arguments: Any) -> bool:
    """Whether `function` now has another program for arguments of the same functions and shapes."""
    leaves, structure = jax.tree.flatten(arguments, is_leaf=is_source)
    shapes = (
        (x.shape, str(x.dtype), getattr(x, "weak_type", False)) if is_source(x) or eqx.is_array(x) else x
        for x in leaves
    )
    known = (function, structure, tuple(shapes), is_double())
    try:
        now = fingerprint_of_program(function, *arguments)
        before = _KNOWN.pop(known, now)
    except Exception:  # what JAX does not trace, or cannot be compared
        return False
    _KNOWN[known] = now
    if len(_KNOWN) > _MOST_KNOWN:
        del _KNOWN[next(iter(_KNOWN))]
    return before != now


def _is_open(value: Any, seen: Set[int] = frozenset()) -> bool:
    """Whether a part of a sampler comes from outside of the library, and so may read what changes."""
    if id(value) in seen or isinstance(value, type):  # the first: one that refers to itself
        return False
    parts: list[Any] = []
    if isinstance(value, Mapping):
        parts = list(value.values())
    elif isinstance(value, tuple | list):
        parts = list(value)
    elif callable(value) or dataclasses.is_dataclass(value):
        own = value if inspect.isroutine(value) else type(value)
        if str(getattr(own, "__module__", "")).partition(".")[0] != "fokker":
            return True
        parts = [cell.cell_contents for cell in getattr(value, "__closure__", None) or ()]
        parts += [getattr(value, "__self__", None), *getattr(value, "__dict__", {}).values()]
    return any(_is_open(part, seen | {id(value)}) for part in parts)


def _rows(target: Target | None, number: int) -> PyTree[Array]:
    """Zeros of the shape of so many rows: they are only traced, and files are not read for them."""
    if not isinstance(target, TargetWithData):
        return None
    shapes = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct((number, *x.shape[1:]), x.dtype), target.data, is_leaf=is_source
    )
    return jax.tree.map(_zeros, shapes)


def _zeros(x: jax.ShapeDtypeStruct) -> Array:
    """An array to trace a function with: made in the host's memory, for which no program is compiled."""
    return jnp.asarray(np.zeros(x.shape, x.dtype))


def _bell(theta: PyTree[Array], row: PyTree[Array] = None) -> Array:
    return -sum((jnp.sum(x**2) for x in jax.tree.leaves(theta)), jnp.zeros(())) / 2


def _first_step(
    sampler: Sampler, gradient: Estimator | None, position: PyTree[Array], rows: PyTree[Array]
) -> Any:
    """A step from a position on a normal density, by a batch of these rows where the sampler takes batches.

    There are two: some samplers measure how gradients of rows differ.
    """
    key = jax.random.key(0)
    if sampler.is_automatic:
        sampler = sampler.with_step_size(1.0)
    if sampler.wants_target:
        target = Density(_bell) if rows is None else Posterior(_bell, _bell, rows)
        sampler = sampler.on(target, 1.0, gradient)
    batch = Batch(rows, jnp.arange(2)) if sampler.takes_batches and rows is not None else None
    return sampler.step(key, sampler.init(position, key=key), batch)
