"""Parameters and gradients of any framework as named vectors of NumPy."""

import math
from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

# Arrays of any framework, in dictionaries and lists of any depth.
Tree = ArrayLike | Mapping[str, "Tree"] | Sequence["Tree"]


@runtime_checkable
class Tensor(Protocol):
    """What a tensor of PyTorch has: it may belong to a graph, or be on another device."""

    def detach(self) -> "Tensor":
        """Without its graph."""

    def cpu(self) -> "Tensor":
        """In the host's memory."""


def vectors(tree: Tree, what: str) -> dict[str, np.ndarray]:
    """Each array of a tree as a vector, by its path; raise where one is none of finite numbers' type."""
    return {
        path or what: _vector(leaf, f"{what}, {path}" if path else what) for path, leaf in _leaves(tree, "")
    }


def _leaves(tree: Tree, path: str) -> list[tuple[str, object]]:
    if isinstance(tree, Mapping):
        entries = [(str(name), value) for name, value in tree.items()]
    elif isinstance(tree, list | tuple) and not all(isinstance(x, int | float | np.number) for x in tree):
        entries = [(str(i), value) for i, value in enumerate(tree)]
    else:
        return [(path, tree)]
    return [leaf for name, value in entries for leaf in _leaves(value, f"{path}.{name}" if path else name)]


def _vector(leaf: object, what: str) -> np.ndarray:
    if isinstance(leaf, Tensor):
        leaf = leaf.detach().cpu()
    try:
        return np.asarray(leaf if hasattr(leaf, "__array__") else _from_dlpack(leaf), np.float64).ravel()
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"the monitor takes arrays of numbers, and {what} is a {type(leaf).__name__}: give x.float() of "
            f"a tensor in half precision ({error})."
        ) from error


def _from_dlpack(leaf: object) -> object:
    return np.from_dlpack(leaf) if hasattr(leaf, "__dlpack__") else leaf


def check_alike(theta: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray], what: str) -> None:
    """Raise unless there is a number of `other` for each parameter."""
    shapes = {name: len(x) for name, x in theta.items()}
    if {name: len(x) for name, x in other.items()} != shapes:
        # A single array has the name of what it is.
        if len(theta) == len(other) == 1 and [len(x) for x in other.values()] == list(shapes.values()):
            return
        raise ValueError(
            f"{what} must have the arrays of theta: {shapes} numbers are wanted, and "
            f"{ {name: len(x) for name, x in other.items()} } were given."
        )


def check_settings(
    temperature: float, size: int, batch_size: int | None, step_size: float | None, friction: float
) -> None:
    """Raise where a setting of the monitor is no positive number, or a batch larger than the data."""
    settings = {"temperature": temperature, "size": size, "friction": friction}
    optional = {"batch_size": batch_size, "step_size": step_size}
    for name, value in {**settings, **optional}.items():
        if value is None and name in optional:
            continue
        if not (isinstance(value, int | float | np.number) and 0 < value < math.inf):
            alternative = " or None" if name in optional else ""
            raise ValueError(f"{name} must be a positive number{alternative}; {value!r} was given.")
    if batch_size is not None and batch_size > size:
        raise ValueError(
            f"batch_size={batch_size} is larger than size={size}, the number of data: give gradients of the "
            "mean loss with size=N, or leave batch_size out."
        )
