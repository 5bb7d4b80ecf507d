"""The state z: a dictionary of named variables, or any other pytree.

Three questions about a state are answered here and nowhere else: in which order its variables stand when
it is written as one vector, how a function written in named variables is called on it, and what is wrong
with a state that does not fit.
"""

import difflib
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

# A pytree of arrays; a dictionary of them where the variables have names.
State: TypeAlias = Any


def variable_names(z: State) -> tuple[str, ...]:
    """Names in the order in which matrices over `z` are written: theta first, then by the alphabet.

    JAX sorts the keys of a dictionary whenever it rebuilds one, so the order in which a person typed them
    cannot be relied upon after the first transformation.
    """
    if not isinstance(z, Mapping):
        return ()
    return tuple(sorted(z, key=lambda name: (name != "theta", name)))


def part(z: State, name: str | None) -> PyTree[Array]:
    """The variable `name` of `z`; the whole of it for None."""
    return z if name is None else z[name]


def replace_part(z: State, name: str | None, value: PyTree[Array]) -> State:
    """`z` with the variable `name` (or the whole, for None) put to `value`."""
    return value if name is None else {**z, name: value}


def dimension(tree: PyTree[Array]) -> int:
    """How many numbers `tree` holds; shapes suffice."""
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(tree))


def _ordered_leaves(tree: PyTree[Any], order: Sequence[str] | None = None) -> list[Any]:
    if isinstance(tree, Mapping) and tree:
        names = variable_names(tree) if order is None else order
        return [leaf for name in names for leaf in _ordered_leaves(tree[name])]
    return jax.tree.leaves(tree)


def ravel(tree: PyTree[Array], order: Sequence[str] | None = None) -> Array:
    """`tree` as one vector, variables in the order of `variable_names` unless `order` says otherwise."""
    leaves = [jnp.ravel(leaf) for leaf in _ordered_leaves(tree, order)]
    return jnp.concatenate(leaves) if leaves else jnp.zeros(0)


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
    """The Euclidean inner product of two trees of one structure."""
    products = jax.tree.map(lambda x, y: jnp.sum(x * y), a, b)
    return jax.tree.reduce(jnp.add, products)


def is_function(given: Any) -> bool:
    """Whether `given` is to be called: an Equinox module with numbers in it can be, but is a tree of them."""
    if isinstance(given, jax.tree_util.Partial) or hasattr(given, "__func__"):
        return True
    return callable(given) and not any(isinstance(x, jax.Array | np.ndarray) for x in jax.tree.leaves(given))


def as_arrays(tree: PyTree[Any]) -> PyTree[Array]:
    """Python and NumPy numbers in `tree` as JAX arrays of floating point."""

    def as_array(path: Any, leaf: Any) -> Array:
        if callable(leaf) or isinstance(leaf, str):
            place = jax.tree_util.keystr(path) or "it"
            raise TypeError(
                f"a tree of numbers is wanted, but {place} is {leaf!r}. Of an Equinox module the numbers are "
                "params in `params, static = eqx.partition(module, eqx.is_inexact_array)`, and "
                "eqx.combine(params, static) is the module again."
            )
        return jnp.asarray(leaf, jnp.result_type(float, leaf))

    return jax.tree.map_with_path(as_array, tree)


def nearest(name: str, names: Sequence[str]) -> str:
    """A hint such as " Did you mean 'theta'?", or nothing."""
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return f" Did you mean {close[0]!r}?" if close else ""


def arguments_of(function: Callable[..., Any]) -> tuple[list[str], bool] | None:
    """Names of the required positional arguments of `function` and whether it takes **keywords.

    None where a signature cannot be had (some compiled callables) or says nothing (`*args`): such a function
    is one of the whole state.
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


# What a function of the whole state may call its one argument.
_WHOLE = ("z", "state")


def _takes_whole(required: Sequence[str], names: Sequence[str]) -> bool:
    """Whether the single argument of a function stands for the state itself rather than for a variable.

    Only by these names: any other that is not a variable is taken for a misspelling of one, and refused.
    """
    return len(required) == 1 and required[0] not in names and required[0] in _WHOLE


def depends_on(function: Callable[..., Any], name: str | None, z: State) -> bool:
    """Whether `function` may depend on the variable `name` of `z`, as far as its signature tells.

    A function written in named variables, such as `lambda theta: …`, depends on those alone: its derivative
    by any other vanishes and is not computed.
    """
    arguments = arguments_of(function)
    if arguments is None or name is None:
        return True
    required, keywords = arguments
    return keywords or name in required or _takes_whole(required, variable_names(z))


def call(function: Callable[..., Any], z: State, what: str = "the function") -> Any:
    """Call `function` on the state: `f(theta, r)` by the names of its arguments, `f(z)` with the whole.

    A function of one argument called z or state (unless a variable is), and any function on a state
    without names, is given the whole state.
    """
    arguments = arguments_of(function)
    if arguments is None or not isinstance(z, Mapping):
        return function(z)
    required, keywords = arguments
    names = variable_names(z)
    if _takes_whole(required, names):
        return function(z)
    if keywords and not required:
        return function(**z)
    unknown = [name for name in required if name not in z]
    if unknown:
        raise ValueError(
            f"{what} takes the argument {unknown[0]!r}, but the variables of the state are "
            f"{', '.join(names)}.{nearest(unknown[0], names)} Name the arguments after the variables, as in "
            f"`lambda {', '.join(names)}: …`, or take the whole state as one argument `z`."
        )
    return function(**({**z} if keywords else {name: z[name] for name in required}))


def describe_shapes(tree: PyTree[Any]) -> str:
    """Structure and shapes of `tree` in a few words, for messages."""
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
