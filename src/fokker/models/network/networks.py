"""Networks of any framework as a function of their parameters and one row."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from fokker._core.module import Module
from fokker._core.names import nearest
from fokker._core.state import as_arrays
from fokker.models.network.last_layer import last_layer

# The outputs of a network for one row, given its parameters.
Apply = Callable[[PyTree[Array], Array], Array]

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": jax.nn.relu,
    "tanh": jnp.tanh,
    "gelu": jax.nn.gelu,
    "silu": jax.nn.silu,
}


@dataclass(frozen=True)
class Functional:
    """A network without its parameters.

    `apply(params, x)`: the outputs for one row. `starts`: initial parameters, with a leading axis over
    chains. `output_axis`: the axis of a weight array that counts its outputs, 0 or -1; the others are inputs.
    """

    apply: Apply
    starts: PyTree[Array]
    output_axis: int

    @property
    def first_start(self) -> PyTree[Array]:
        """The initial parameters of the first chain."""
        return jax.tree.map(lambda x: x[0], self.starts)

    def last_layer(self, row: np.ndarray) -> list[bool]:
        """Whether each parameter belongs to the last layer; raise where that cannot be determined."""
        return last_layer(self.apply, self.first_start, jnp.asarray(row))


class Perceptron(Module):
    """Dense layers with an activation between them, on a row that is flattened first."""

    activation: str = eqx.field(static=True)

    def __call__(self, params: Sequence[dict[str, Array]], x: Array) -> Array:
        """The outputs for one row."""
        h = x.ravel()
        for layer in params[:-1]:
            h = ACTIVATIONS[self.activation](h @ layer["weight"] + layer["bias"])
        return h @ params[-1]["weight"] + params[-1]["bias"]


def perceptron_sizes(hidden: Sequence[int], row: np.ndarray, outputs: int) -> list[int]:
    """The sizes of all layers, from the inputs to the outputs."""
    return [math.prod(row.shape), *(int(size) for size in hidden), outputs]


def perceptron_shapes(sizes: Sequence[int]) -> list[dict[str, jax.ShapeDtypeStruct]]:
    """The parameters without their memory."""
    shape = lambda *axes: jax.ShapeDtypeStruct(axes, jnp.result_type(float))  # noqa: E731
    return [{"weight": shape(m, n), "bias": shape(n)} for m, n in itertools.pairwise(sizes)]


def perceptron_start(seed: Sequence[int] | np.ndarray, sizes: Sequence[int]) -> list[dict[str, np.ndarray]]:
    """Weights N(0, 2/inputs) (He et al. 2015) and zero biases; by NumPy, which compiles nothing."""
    generator = np.random.default_rng(seed)

    def start(x: jax.ShapeDtypeStruct) -> np.ndarray:
        deviation = math.sqrt(2 / x.shape[0]) if len(x.shape) == 2 else 0.0
        return generator.normal(0, deviation, x.shape).astype(x.dtype)

    return jax.tree.map(start, perceptron_shapes(sizes))


class _Equinox(Module):
    static: Any = eqx.field(static=True)

    def __call__(self, params: PyTree[Array], x: Array) -> Array:
        return eqx.combine(params, self.static)(x)


class _Linen(Module):
    module: Any = eqx.field(static=True)
    rest: Any  # collections beside the parameters, such as the averages of a BatchNorm

    def __call__(self, params: PyTree[Array], x: Array) -> Array:
        return self.module.apply({**self.rest, "params": params}, x[None])[0]


class _Nnx(Module):
    graph: Any = eqx.field(static=True)
    rest: Any

    def __call__(self, params: PyTree[Array], x: Array) -> Array:
        from flax import nnx

        return nnx.merge(self.graph, params, self.rest)(x[None])[0]


def functional(
    model: Any, params: Any, activation: str, row: np.ndarray, outputs: int, keys: Key[Array, " chains"]
) -> Functional:
    """What a `Network` was given, as a function with initial parameters for every chain."""
    if is_sizes(model):
        if activation not in ACTIVATIONS:
            raise ValueError(
                f"activation is one of {', '.join(ACTIVATIONS)}, not {activation!r}."
                f"{nearest(str(activation), list(ACTIVATIONS))}"
            )
        sizes = perceptron_sizes(model, row, outputs)
        if params is None:
            starts = [perceptron_start(seed, sizes) for seed in np.asarray(jax.random.key_data(keys))]
            return _with_starts(Perceptron(activation), starts, len(keys), -1)
        return _with_starts(Perceptron(activation), [as_arrays(params)], len(keys), -1)
    if _framework(model) == "linen":
        return _of_linen(model, params, row, keys)
    if _framework(model) is None:
        if not callable(model) or isinstance(model, type):
            raise TypeError(
                "the model must be a list of hidden layer sizes, a module of Flax or Equinox, or a function "
                f"f(params, x) with params=, not {_described(model)}."
            )
        if params is not None:  # f(params, x)
            is_drawn = callable(params) and not isinstance(params, eqx.Module)
            starts = [as_arrays(params(key)) for key in keys] if is_drawn else [as_arrays(params)]
            return _with_starts(model, starts, len(keys), -1)
        return _of_modules(_built(model, keys), None, keys)
    return _of_modules([model], params, keys)


def is_sizes(model: object) -> TypeGuard[Sequence[int]]:
    """Whether a model is given by the sizes of its hidden layers."""
    if not isinstance(model, list | tuple):
        return False
    if all(isinstance(size, int | np.integer) and size >= 1 for size in model):
        return True
    raise ValueError(f"the sizes of hidden layers are whole numbers of at least 1; {model!r} was given.")


def is_fresh(model: Any, params: Any) -> bool:
    """Whether weights start at random: those of a module, or of `params`, may have been trained."""
    return params is None and _framework(model) not in ("equinox", "nnx")


def _built(build: Callable[[Any], Any], keys: Key[Array, " chains"]) -> list[Any]:
    """A module for each chain, by a function of a key."""
    try:
        modules = [build(key) for key in keys]
    except TypeError as error:
        raise TypeError(
            "a function given as the model without params= is called with a key, to make a module for each "
            f"chain, which failed: {error}. For a function f(params, x) give params= too."
        ) from error
    if _framework(modules[0]) not in ("equinox", "nnx"):
        raise TypeError(
            f"the function given as the model made {_described(modules[0])} of a key, not a module of "
            "Equinox or Flax NNX. For a function f(params, x) give params= too."
        )
    return modules


def _framework(model: object) -> str | None:
    """Which framework a model is of, without importing any."""
    if isinstance(model, type):
        return None
    names = {f"{parent.__module__}.{parent.__name__}" for parent in type(model).__mro__}
    if "flax.linen.module.Module" in names:
        return "linen"
    if any(name.startswith("flax.nnx.") for name in names):
        return "nnx"
    return "equinox" if isinstance(model, eqx.Module) else None


def _described(model: object) -> str:
    if isinstance(model, type):
        return f"the class {model.__name__}, which has to be called first"
    return f"a {type(model).__name__}"


def _of_linen(
    module: Any, params: PyTree[Array] | None, row: np.ndarray, keys: Key[Array, " chains"]
) -> Functional:
    variables = [dict(module.init(key, jnp.asarray(row)[None])) for key in keys]
    starts = [v.pop("params", {}) for v in variables]
    rest = variables[0]
    if params is not None:
        stored = dict(params) if _is_whole(params, starts[0]) else {"params": params}
        starts = [as_arrays(stored.pop("params"))]
        # Averages that nobody has trained would take the place of those of a trained network.
        if missing := sorted(set(rest) - set(stored)):
            raise ValueError(
                f"params has no {', '.join(missing)}, which this network has beside its parameters: give all "
                f"its variables, params={{'params': …, {', '.join(f'{name!r}: …' for name in missing)}}}."
            )
        rest = {**rest, **jax.tree.map(jnp.asarray, stored)}
    return _with_starts(_Linen(module, rest), starts, len(keys), -1)


def _is_whole(params: PyTree[Array], start: PyTree[Array]) -> bool:
    """Whether these are all variables of a module, with the parameters among them."""
    return "params" in params and paths(params) != paths(start)


def _of_modules(modules: list[Any], params: PyTree[Array] | None, keys: Key[Array, " chains"]) -> Functional:
    if _framework(modules[0]) == "equinox":
        # A whole module given as params brings what is beside its parameters too.
        whole = modules if params is None else [eqx.combine(params, modules[0])]
        # No dropout, as in Flax below.
        parts = [eqx.partition(eqx.nn.inference_mode(module), eqx.is_inexact_array) for module in whole]
        return _with_starts(_Equinox(parts[0][1]), [part[0] for part in parts], len(keys), 0)
    from flax import nnx

    copies = [nnx.clone(module) for module in modules]
    for copy in copies:
        copy.eval()  # no dropout, and the stored averages of a BatchNorm: the data of a batch are independent
    split: tuple[Any, ...] = nnx.split(copies[0], nnx.Param, ...)
    graph, start, rest = split
    starts: list[Any] = [start, *(nnx.state(copy, nnx.Param) for copy in copies[1:])]
    if params is not None:
        # A whole state, or module, brings the averages of a BatchNorm too.
        given = nnx.state(params) if isinstance(params, nnx.Module) else params
        stored, others = nnx.split_state(given, nnx.Param, ...)
        starts, rest = [stored], nnx.merge_state(rest, others)
    return _with_starts(_Nnx(graph, rest), starts, len(keys), -1)


def _with_starts(apply: Apply, starts: list[PyTree[Array]], chains: int, output_axis: int) -> Functional:
    if not jax.tree.leaves(starts[0]):
        raise ValueError("the network has no parameters, so that there is no posterior to sample.")
    together = starts if len(starts) == chains else starts * chains
    stack = lambda *xs: (np if isinstance(xs[0], np.ndarray) else jnp).stack(xs)  # noqa: E731
    return Functional(apply, jax.tree.map(stack, *together), output_axis)


def numbered(tree: PyTree[Any]) -> dict[int, Array]:
    """The leaves of a tree by their numbers, where some of them are None."""
    leaves = jax.tree.leaves(tree, is_leaf=lambda x: x is None)
    return {i: x for i, x in enumerate(leaves) if x is not None}


def _is_key(x: Array) -> bool:
    return jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


def state_arrays(apply: Apply) -> list[np.ndarray]:
    """The arrays that a network has beside its parameters, such as the averages of a BatchNorm."""
    arrays = jax.tree.leaves(eqx.filter(apply, eqx.is_array))
    return [np.asarray(jax.random.key_data(x) if _is_key(x) else x) for x in arrays]


def with_state_arrays(apply: Apply, arrays: Sequence[np.ndarray]) -> Apply:
    """The network with these arrays in place of its own; raise where it is another network."""
    own, rest = eqx.partition(apply, eqx.is_array)
    leaves, structure = jax.tree.flatten(own)
    if [x.shape for x in state_arrays(apply)] != [x.shape for x in arrays]:
        raise ValueError(
            "the model is not the one that was saved: it has other arrays beside its parameters."
        )
    stored = [
        jax.random.wrap_key_data(jnp.asarray(new)) if _is_key(old) else jnp.asarray(new)
        for old, new in zip(leaves, arrays, strict=True)
    ]
    return eqx.combine(jax.tree.unflatten(structure, stored), rest)


def check_draws(start: PyTree[Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Raise unless stored draws, or else fixed values, are there for every parameter, in its shape."""
    number = next((len(x) for name, x in arrays.items() if name.startswith("draws.") and x.ndim), 0)
    for i, (name, leaf) in enumerate(zip(paths(start), jax.tree.leaves(start), strict=True)):
        stored = arrays.get(f"fixed.{i}", arrays.get(f"draws.{i}"))
        wanted = leaf.shape if f"fixed.{i}" in arrays else (number, *leaf.shape)
        if stored is None or stored.shape != wanted:
            shape = "nothing" if stored is None else f"the shape {stored.shape}"
            raise ValueError(
                f"the model is not the one that was saved: {name} has the shape {leaf.shape}, and the "
                f"file has {shape} for it, in place of {wanted}."
            )


def paths(params: PyTree[Any]) -> list[str]:
    """The path of every leaf, as in layers.0.weight."""
    leaves = jax.tree.leaves_with_path(params)
    return [jax.tree_util.keystr(path, simple=True, separator=".") or "params" for path, _ in leaves]


def check_outputs(network: Functional, row: np.ndarray, outputs: int, why: str) -> None:
    """Raise unless the network takes a row and gives that many outputs."""
    try:
        shape = jax.eval_shape(network.apply, network.first_start, jnp.asarray(row)).shape
    except Exception as error:  # of many kinds, by every framework
        raise ValueError(
            f"the network could not be applied to a row of X, of shape {row.shape}: "
            f"{str(error).splitlines()[0]}"
        ) from error
    if math.prod(shape) != outputs or len(shape) > 1:
        raise ValueError(
            f"the network gives outputs of shape {shape} for one row; {why} needs ({outputs},): change the "
            "size of its last layer."
        )
