"""Whether two trees are the same: a short key for each, which keeps no large array alive."""

import hashlib
import weakref
from collections.abc import Hashable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

# Arrays up to this many bytes are compared by their numbers, larger ones by being the same object.
_COMPARED = 2**20


class _SameArray:
    """Equal to itself made of the same array, while that array exists."""

    def __init__(self, array: jax.Array) -> None:
        self._reference, self._address = weakref.ref(array), id(array)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _SameArray):
            return NotImplemented
        array = self._reference()
        return array is not None and array is other._reference()

    def __hash__(self) -> int:
        return self._address


def identity_of(tree: PyTree[Any]) -> Hashable | None:
    """A key that is equal for trees of the same structure, functions and numbers; None where none is known.

    None for traced values, for large arrays of NumPy, which may change in place, and for leaves without a
    hash.
    """
    leaves, structure = jax.tree.flatten(tree)
    keys: list[Hashable] = []
    for leaf in leaves:
        if isinstance(leaf, jax.core.Tracer):
            return None
        if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        if not isinstance(leaf, jax.Array | np.ndarray):
            keys.append((type(leaf), leaf))
        elif leaf.nbytes <= _COMPARED:
            digest = hashlib.blake2b(np.ascontiguousarray(leaf).tobytes(), digest_size=16).digest()
            keys.append((leaf.shape, str(leaf.dtype), digest))
        elif isinstance(leaf, jax.Array):
            keys.append(_SameArray(leaf))
        else:
            return None
    identity = (structure, tuple(keys))
    try:
        hash(identity)
    except TypeError:
        return None
    return identity
