"""The state z: a dictionary of named variables, or any other pytree.

Only this module decides the order of the variables in a vector, how a function of named variables is called
on a state, and how a state that does not fit is described in messages.
"""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from fokker._core.names import nearest

# A pytree of arrays; a dictionary of them if the variables have names.
State: TypeAlias = Any


def variable_names(z: State) -> tuple[str, ...]:
    """Names in the order of the rows of matrices over `z`: theta first, then alphabetical.

    JAX sorts the keys of a dictionary whenever it rebuilds it, so the user's order is lost after the first
    transformation.
    """
    if not isinstance(z, Mapping):
        return ()
    return tuple(sorted(z, key=lambda name: (name != "theta", name)))


def part(z: State, name: str | None) -> PyTree[Array]:
    """The variable `name` of `z`; the whole state for None."""
    return z if name is None else z[name]


def replace_part(z: State, name: str | None, value: PyTree[Array]) -> State:
    """`z` with the variable `name` (or the whole state, for None) set to `value`."""
    return value if name is None else {**z, name: value}


def dimension(tree: PyTree[Array]) -> int:
    """The number of entries in `tree`, whose leaves may be arrays or shapes.

    In arithmetic with arrays it is `float(dimension(…))`: JAX takes an int for one of 32 bits, and refuses
    numbers from 2³¹ on.
    """
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(tree))


def size_in_bytes(tree: PyTree[Array]) -> int:
    """The memory of `tree`, whose leaves may be arrays or shapes."""
    return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def _ordered_leaves(tree: PyTree[Any], order: Sequence[str] | None = None) -> list[Any]:
    if isinstance(tree, Mapping) and tree:
        names = variable_names(tree) if order is None else order
        return [leaf for name in names for leaf in _ordered_leaves(tree[name])]
    return jax.tree.leaves(tree)


def ravel(tree: PyTree[Array], order: Sequence[str] | None = None) -> Array:
    """`tree` as one vector, variables in the given order, by default that of `variable_names`."""
    leaves = [jnp.ravel(leaf) for leaf in _ordered_leaves(tree, order)]
    return jnp.concatenate(leaves) if leaves else jnp.zeros(0)


# Compiled, with one program for all leaves.
ravel_each = jax.jit(jax.vmap(ravel))
ravel_each_draw = jax.jit(jax.vmap(jax.vmap(ravel)))


def shapes_of_first(tree: PyTree[Array]) -> PyTree[jax.ShapeDtypeStruct]:
    """The shapes of `tree` without the first axis, such as those of one chain; nothing is computed."""
    return jax.eval_shape(lambda tree: jax.tree.map(lambda x: x[0], tree), tree)


def unravel(vector: Array, like: PyTree[Array], order: Sequence[str] | None = None) -> PyTree[Array]:
    """The inverse of `ravel`: `vector` cut into the structure and shapes of `like`."""
    leaves, structure = jax.tree.flatten(like)
    places = _ordered_leaves(jax.tree.unflatten(structure, range(len(leaves))), order)
    start = 0
    for place in places:
        leaf = leaves[place]
        size = math.prod(leaf.shape)
        leaves[place] = vector[start : start + size].reshape(leaf.shape).astype(leaf.dtype)
        start += size
    return jax.tree.unflatten(structure, leaves)


def is_leaf(tree: PyTree[Any]) -> bool:
    """Whether `tree` is a single number or array."""
    return jax.tree_util.treedef_is_leaf(jax.tree.structure(tree))


def zeros_like(tree: PyTree[Array]) -> PyTree[Array]:
    """A tree of zeros in the structure, shapes and dtypes of `tree`."""
    return jax.tree.map(jnp.zeros_like, tree)


def inner(a: PyTree[Array], b: PyTree[Array]) -> Array:
    """The Euclidean inner product of two trees of the same structure."""
    products = jax.tree.map(lambda x, y: jnp.sum(x * y), a, b)
    return jax.tree.reduce(jnp.add, products)


def is_function(value: object) -> bool:
    """Whether `value` is a function. A callable Equinox module with arrays counts as a tree of numbers."""
    if isinstance(value, jax.tree_util.Partial) or hasattr(value, "__func__"):
        return True
    return callable(value) and not any(isinstance(x, jax.Array | np.ndarray) for x in jax.tree.leaves(value))


def as_arrays(tree: PyTree[Any]) -> PyTree[Array]:
    """`tree` with its Python and NumPy numbers as floating-point JAX arrays."""

    def as_array(path: PyTree[Array], leaf: PyTree[Array]) -> Array:
        if callable(leaf) or isinstance(leaf, str):
            place = jax.tree_util.keystr(path) or "it"
            raise TypeError(
                f"a tree of numbers is needed, but {place} is {leaf!r}. For an Equinox module use params of "
                "`params, static = eqx.partition(module, eqx.is_inexact_array)`; eqx.combine(params, static) "
                "gives the module back."
            )
        return jnp.asarray(leaf, jnp.result_type(float, leaf))

    return jax.tree.map_with_path(as_array, tree)


def arguments_of(function: Callable[..., Any]) -> tuple[list[str], bool] | None:
    """Names of the required positional arguments of `function` and whether it takes **keywords.

    None if there is no signature (some compiled callables) or it is just `*args`: such a function takes the
    whole state.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    required = [
        p.name
        for p in parameters
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and p.default is p.empty
    ]
    keywords = any(p.kind is p.VAR_KEYWORD for p in parameters)
    if not required and not keywords and any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return None
    return required, keywords


# The names that mark an argument as the whole state.
_STATE_NAMES = ("z", "state")


def _takes_whole_state(required: Sequence[str], names: Sequence[str]) -> bool:
    """Whether the single argument of a function is the whole state and not a variable.

    Only these names count: another name that is not a variable is probably misspelt, and is refused.
    """
    return len(required) == 1 and required[0] not in names and required[0] in _STATE_NAMES


def depends_on(function: Callable[..., Any], name: str | None, z: State) -> bool:
    """Whether `function` may depend on the variable `name` of `z`, judged by its signature.

    A function of named variables, such as `lambda theta: …`, depends on those only: its derivative with
    respect to any other variable is zero and is not computed.
    """
    arguments = arguments_of(function)
    if arguments is None or name is None:
        return True
    required, keywords = arguments
    return keywords or name in required or _takes_whole_state(required, variable_names(z))


def call(function: Callable[..., Any], z: State, what: str = "the function") -> Any:
    """Call `function` on the state: `f(theta, r)` by the names of its arguments, `f(z)` with the whole state.

    The whole state is passed to a function of one argument called z or state (unless that is a variable),
    and to any function if the state has no names.
    """
    arguments = arguments_of(function)
    if arguments is None or not isinstance(z, Mapping):
        return function(z)
    required, keywords = arguments
    names = variable_names(z)
    if _takes_whole_state(required, names):
        return function(z)
    if keywords and not required:
        return function(**z)
    unknown = [name for name in required if name not in z]
    if unknown:
        raise ValueError(
            f"{what} takes the argument {unknown[0]!r}, but the variables of the state are "
            f"{', '.join(names)}.{nearest(unknown[0], names)} Name the arguments after the variables, as in "
            f"`lambda {', '.join(names)}: …`, or take the whole state as one argument `z`; where "
            f"{unknown[0]!r} is a variable too, the state needs it: name them all in state=…."
        )
    return function(**({**z} if keywords else {name: z[name] for name in required}))


def describe_shapes(tree: PyTree[Any]) -> str:
    """Structure and shapes of `tree` as text, for messages."""
    return str(jax.tree.map(lambda leaf: tuple(getattr(leaf, "shape", ())), tree))


def same_structure(a: PyTree[Any], b: PyTree[Any]) -> bool:
    """Whether two trees agree in structure."""
    return bool(jax.tree.structure(a) == jax.tree.structure(b))  # type: ignore[operator]


def same_shapes(a: PyTree[Any], b: PyTree[Any]) -> bool:
    """Whether two trees agree in structure and in the shapes of their leaves."""
    if not same_structure(a, b):
        return False
    shapes = [[tuple(getattr(x, "shape", ())) for x in jax.tree.leaves(tree)] for tree in (a, b)]
    return shapes[0] == shapes[1]


def choose(condition: Array, yes: PyTree[Array], no: PyTree[Array]) -> PyTree[Array]:
    """`yes` or `no`, two trees of one structure."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


# Compiled, as each leaf is a program of its own otherwise.
@jax.jit
def entry(tree: PyTree[Array], index: int | Array) -> PyTree[Array]:
    """Entry `index` of the first axis of every leaf."""
    return jax.tree.map(lambda x: x[index], tree)
