"""Whether a function that JAX compiled before now computes something else.

JAX compiles a function once, and its programs know the function by its identity. A density that reads a
number outside of itself, a global or an attribute, would go on with that of the first call, silently.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from fokker._core.precision import is_double
from fokker._core.state import shapes_of_first
from fokker.rows import is_source
from fokker.run import trajectories
from fokker.run.positions import Init, WarmedUp, forget_passed, given_positions
from fokker.run.record import density_of_row, fingerprint_of_program
from fokker.samplers.contract import Sampler
from fokker.targets.target import Target, TargetWithData

# What each function computed when it was last used, by the function and the shapes of its arguments.
_KNOWN: dict[Any, str] = {}
# The most of them: each keeps its function alive. The oldest are forgotten.
_MOST_KNOWN = 256


def forget_changed(target: Target | None, sampler: object, init: Init, keys: Key[Array, "chains 3"]) -> None:
    """Drop all compiled programs if the density, or the sampler's own dynamics, changed since the last run.

    Both are traced, not computed: this takes milliseconds. A change is rare, and every program may contain
    the function, so none is kept.
    """
    try:
        if isinstance(init, WarmedUp):
            position = shapes_of_first(init.positions)
        else:
            position = jax.eval_shape(lambda key: _first_position(init, key, target), keys[:1])
        position = jax.tree.map(_zeros, position)
        changed = False
        if isinstance(target, Target) and target.may_change:
            changed |= _has_changed(density_of_row, target, position, _one_row(target))
        if isinstance(sampler, Sampler) and not sampler.wants_target and not sampler.takes_batches:
            changed |= _has_changed(_first_step, sampler, position)
    except Exception:  # an error of the model or of `init`: the checks that follow say which
        return
    if changed:
        _forget_programs()


def forget_changed_function(function: Callable[..., Any], *arguments: Any) -> None:
    """The same for a function that draws are given to, at arguments of these shapes."""
    try:
        changed = _has_changed(function, *arguments)
    except Exception:  # one that JAX does not trace, or an argument that cannot be compared
        return
    if changed:
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
    shapes = ((x.shape, str(x.dtype)) if is_source(x) or eqx.is_array(x) else x for x in leaves)
    known = (function, structure, tuple(shapes), is_double())
    now = fingerprint_of_program(function, *arguments)
    before = _KNOWN.pop(known, now)
    _KNOWN[known] = now
    if len(_KNOWN) > _MOST_KNOWN:
        del _KNOWN[next(iter(_KNOWN))]
    return before != now


def _one_row(target: Target) -> PyTree[Array]:
    """Zeros of the shape of one row: it is only traced, and files are not read for it."""
    if not isinstance(target, TargetWithData):
        return None
    shapes = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct((1, *x.shape[1:]), x.dtype), target.data, is_leaf=is_source
    )
    return jax.tree.map(_zeros, shapes)


def _zeros(x: jax.ShapeDtypeStruct) -> Array:
    """An array to trace a function with: made in the host's memory, for which no program is compiled."""
    return jnp.asarray(np.zeros(x.shape, x.dtype))


def _first_step(sampler: Sampler, position: PyTree[Array]) -> Any:
    key = jax.random.key(0)
    return sampler.step(key, sampler.init(position, key=key), None)
