"""Leaves of a data tree that are not on the device: their rows are read when a step needs them."""

import contextlib
import itertools
import math
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, PyTree
from numpy.typing import DTypeLike

from fokker.rows.values import check_values, stored_dtype

# Rows of a file that a start is checked with.
_FIRST = 4096
# Pieces of a file, and rows of each, by which the spread of its columns is known.
_SPANS, _SPAN = 16, 64
# JAX on a CPU uses NumPy's memory without a copy if it starts at a multiple of this.
_ALIGNMENT = 64


class RowsError(ValueError):
    """Rows that cannot be used, or a stream that has ended: a run stops with the draws so far."""


def in_a_sentence(error: BaseException) -> str:
    """The type and the first line of another library's error."""
    text = str(error).strip().partition("\n")[0].rstrip(".")
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class Reader(ABC):
    """The rows of one array on the host: its `shape`, `dtype`, and how they are read.

    `is_in_memory`: whether all of it is in the host's memory. `window`: how many rows are read together; 1 if
    single rows can be read, as from memory.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    is_in_memory = False
    is_stream = False
    window = 1

    @abstractmethod
    def span(self, first: int, end: int) -> np.ndarray:
        """Rows `first` to `end`."""

    @abstractmethod
    def read(self, numbers: np.ndarray, out: np.ndarray) -> None:
        """Write rows `numbers`, a vector, into `out`, of this reader's type."""

    def stream(self) -> Any:
        """The stream that the rows come from, if they do."""
        return None


class SourceForm(NamedTuple):
    """What a compiled program has to know of a source."""

    shape: tuple[int, ...]
    dtype: np.dtype
    name: str
    is_stream: bool


# Readers by the number in a source's token. An entry lives as long as the token does.
_READERS: dict[int, Reader] = {}
_NUMBERS = itertools.count()


@jax.tree_util.register_pytree_node_class
class Source:
    """An array that is read row by row, from a file, from the host's memory, or from a stream.

    In a tree it is a node with one leaf: a number by which a compiled program asks the host for rows. So
    programs do not depend on the data, only on their shape and type, and hold no copy of them.
    `source[rows]`, with a slice, a number or an array of numbers, returns NumPy.
    """

    token: Any
    form: SourceForm

    def __init__(self, reader: Reader, name: str = "data") -> None:
        number = next(_NUMBERS) % 2**31
        self.token = jnp.asarray(np.int32(number))
        self.form = SourceForm(tuple(reader.shape), stored_dtype(reader.dtype), name, reader.is_stream)
        _READERS[number] = reader
        weakref.finalize(self.token, _READERS.pop, number, None)

    def tree_flatten(self) -> tuple[tuple[Any], SourceForm]:
        """The token, and the form."""
        return (self.token,), self.form

    @classmethod
    def tree_unflatten(cls, form: SourceForm, children: tuple[Any]) -> "Source":
        """A source with this token."""
        source = object.__new__(cls)
        (source.token,), source.form = children, form
        return source

    @property
    def reader(self) -> Reader:
        """The reader of the rows."""
        return _reader(self.token, self.form)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the whole array."""
        return self.form.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.form.shape)

    @property
    def dtype(self) -> np.dtype:
        """The type of the rows on the device."""
        return self.form.dtype

    @property
    def row_bytes(self) -> int:
        """Bytes of one row on the device."""
        return math.prod(self.shape[1:]) * self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of the whole array on the device."""
        return self.shape[0] * self.row_bytes

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> np.ndarray:
        if isinstance(rows, slice):
            first, end, step = rows.indices(len(self))
            return _span_of(self.reader, self.form, first, max(first, end))[::step]
        return self.read(np.asarray(rows))

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        return self[:] if dtype is None else self[:].astype(dtype)

    def __repr__(self) -> str:
        return f"Source({self.form.name}: {self.dtype.name}{list(self.shape)})"

    def read(self, numbers: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Rows with these numbers, of any shape, checked; into `out` if given."""
        return _read(self.reader, self.form, numbers, out)


def _reader(token: ArrayLike, form: SourceForm) -> Reader:
    reader = _READERS.get(int(np.asarray(token).reshape(-1)[0]))
    if reader is None:
        raise RuntimeError(f"{form.name}: the file or array is no longer open, as its posterior was deleted.")
    return reader


@contextlib.contextmanager
def _failing_as_a_problem(form: SourceForm) -> Iterator[None]:
    """Errors of a file, or of what reads it, as a `RowsError`: a run then keeps its draws so far."""
    try:
        yield
    except Exception as error:
        # What a stream cannot do is not an error of reading.
        if isinstance(error, RowsError) or form.is_stream:
            raise
        raise RowsError(f"{form.name} could not be read: {in_a_sentence(error)}.") from error


def _span_of(reader: Reader, form: SourceForm, first: int, end: int) -> np.ndarray:
    """Rows `first` to `end` as they are on the device, after a check."""
    with _failing_as_a_problem(form):
        values = reader.span(first, end)
    try:
        check_values(form.name, values, np.arange(first, first + len(values)))
    except ValueError as error:
        raise RowsError(str(error)) from None
    return values.astype(form.dtype, copy=False)


def _read(reader: Reader, form: SourceForm, numbers: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    flat = numbers.reshape(-1)
    shape = (*numbers.shape, *form.shape[1:])
    if out is None:
        out = aligned(shape, form.dtype)
    same = reader.dtype == form.dtype
    rows = (out if same else np.empty(shape, reader.dtype)).reshape(len(flat), *form.shape[1:])
    with _failing_as_a_problem(form):
        reader.read(flat, rows)
    try:
        check_values(form.name, rows, flat)
    except ValueError as error:
        raise RowsError(str(error)) from None
    if not same:
        out[...] = rows.reshape(shape)
    return out


def aligned(shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
    """An array, not filled, that JAX on a CPU can use without a copy: give it to jax.device_put."""
    dtype = np.dtype(dtype)
    size = math.prod(shape) * dtype.itemsize
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)


def is_source(leaf: object) -> bool:
    """Whether a leaf of the data is read from outside of the device."""
    return isinstance(leaf, Source)


def leaves(data: PyTree[Any]) -> list[Any]:
    """The leaves of a data tree, arrays and sources."""
    return jax.tree.leaves(data, is_leaf=is_source)


def size_of(data: PyTree[Any]) -> int:
    """N, the number of rows."""
    return leaves(data)[0].shape[0]


class Taken(NamedTuple):
    """Rows that have been read already, in place of the data that they are rows of."""

    values: PyTree[Array]


def take(data: PyTree[Any], rows: ArrayLike) -> PyTree[Array]:
    """Rows of the data by their numbers, in compiled programs too; sources ask the host for them."""
    if isinstance(data, Taken):
        return data.values

    def read(sources: list[Source]) -> list[Array]:
        if not _is_traced(rows, *(source.token for source in sources)):
            return [jnp.asarray(source.read(np.asarray(rows))) for source in sources]
        return _from_host(sources, jnp.shape(rows), _read, rows, "expand_dims")

    return _with_sources_read(data, lambda leaf: leaf[rows], read)


def span(data: PyTree[Any], first: int | Array, length: int) -> PyTree[Array]:
    """`length` consecutive rows of the data, in compiled programs too."""

    def of_array(leaf: Array) -> Array:
        if isinstance(first, int):
            return leaf[first : first + length]
        return jax.lax.dynamic_slice_in_dim(leaf, first, length)

    def read(sources: list[Source]) -> list[Array]:
        if not _is_traced(first, *(source.token for source in sources)):
            return [jnp.asarray(source[int(first) : int(first) + length]) for source in sources]
        return _from_host(sources, (length,), partial(_span_from, length), first, "sequential")

    return _with_sources_read(data, of_array, read)


def _with_sources_read(
    data: PyTree[Any], of_array: Callable[[Any], Array], read: Callable[[list[Source]], list[Array]]
) -> PyTree[Array]:
    """The data with rows of its arrays by one function, and of its sources, all together, by another."""
    data_leaves = leaves(data)
    sources = [leaf for leaf in data_leaves if is_source(leaf)]
    values = iter(read(sources) if sources else ())
    rows = [next(values) if is_source(leaf) else of_array(leaf) for leaf in data_leaves]
    return jax.tree.unflatten(jax.tree.structure(data, is_leaf=is_source), rows)


def _from_host(
    sources: list[Source],
    shape: tuple[int, ...],
    read: Callable[[Reader, SourceForm, np.ndarray], np.ndarray],
    rows: ArrayLike,
    vmap_method: str,
) -> list[Array]:
    """`read(reader, form, rows)` of all sources by one call of the host: a call costs more than many rows."""
    refuse_stream(sources)
    results = [jax.ShapeDtypeStruct((*shape, *source.shape[1:]), source.dtype) for source in sources]
    forms, tokens = [source.form for source in sources], [source.token for source in sources]

    def on_host(tokens: list[np.ndarray], rows: ArrayLike) -> list[np.ndarray]:
        with _noting_problems():
            return [
                read(_reader(token, form), form, np.asarray(rows))
                for token, form in zip(tokens, forms, strict=True)
            ]

    return jax.pure_callback(on_host, results, tokens, rows, vmap_method=vmap_method)


def _span_from(length: int, reader: Reader, form: SourceForm, first: np.ndarray) -> np.ndarray:
    return _span_of(reader, form, int(first), int(first) + length)


# The problem that a compiled program met last when it asked for rows.
_NOTED: deque[RowsError] = deque(maxlen=1)


@contextlib.contextmanager
def _noting_problems() -> Iterator[None]:
    try:
        yield
    except RowsError as problem:
        _NOTED.append(problem)
        raise


@contextlib.contextmanager
def reading() -> Iterator[None]:
    """Raise the `RowsError` itself where a compiled program fails by one, not XLA's report of the call."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        problem = str(_NOTED.pop()) if _NOTED else ""
        if problem and problem in str(error):
            raise RowsError(problem) from None
        raise


def _is_traced(*values: object) -> bool:
    return any(isinstance(value, jax.core.Tracer) for value in values)


def refuse_stream(data: PyTree[Any]) -> None:
    """Raise if the data are a stream, for what needs all of them."""
    if any(is_source(leaf) and leaf.form.is_stream for leaf in leaves(data)):
        raise ValueError(
            "this needs all the data, but they come as a stream of batches: use a sampler of minibatches "
            "with a step size, such as fk.samplers.sghmc(1e-3), and no gradient=; or give arrays or files."
        )


def first_rows(data: PyTree[Any]) -> PyTree[Array]:
    """The first rows of data in files or of a stream, to check a model with; other data as they are.

    Within a compiled program, where they cannot be read, a row of zeros, to check shapes with.
    """
    data_leaves = leaves(data)
    outside = [x for x in data_leaves if is_source(x)]
    if not outside:
        return data
    if _is_traced(*(x.token for x in outside)):
        return jax.tree.map(lambda x: jnp.zeros((1, *x.shape[1:]), x.dtype), data, is_leaf=is_source)
    if all(x.reader.is_in_memory for x in outside):
        return data
    stream = outside[0].reader.stream()
    return span(data, 0, min(len(data_leaves[0]), _FIRST) if stream is None else stream.batch_size)


def in_this_precision_too(tree: PyTree[Any]) -> PyTree[Any]:
    """The tree with its sources in the types that JAX stores their rows as now."""
    return jax.tree.map(
        lambda x: Source(x.reader, x.form.name) if is_source(x) else x, tree, is_leaf=is_source
    )


def some_rows(source: Source) -> np.ndarray:
    """Some rows of a source in its own type, in pieces spread over it; of a stream, the first batch."""
    reader, stream = source.reader, source.reader.stream()
    if stream is not None:
        return reader.span(0, stream.batch_size)
    starts = np.unique(np.linspace(0, max(0, len(source) - _SPAN), _SPANS).astype(np.int64)).tolist()
    with _failing_as_a_problem(source.form):
        return np.concatenate([reader.span(first, min(len(source), first + _SPAN)) for first in starts])


def resident(tree: PyTree[Any]) -> PyTree[Any]:
    """The tree with data that are in the host's memory put on the device; files and streams stay."""
    if not any(is_source(leaf) for leaf in leaves(tree)):
        return tree
    return jax.tree.map(_resident, tree, is_leaf=is_source)


# What is on the device already, by the number of its source, while somebody uses it.
_RESIDENT: weakref.WeakValueDictionary[int, Array] = weakref.WeakValueDictionary()


def _resident(leaf: Any) -> Any:
    if not is_source(leaf) or _is_traced(leaf.token) or not leaf.reader.is_in_memory:
        return leaf
    number = int(leaf.token)
    on_device = _RESIDENT.get(number)
    if on_device is None:
        on_device = jax.device_put(leaf.reader.span(0, len(leaf)).astype(leaf.dtype, copy=False))
        _RESIDENT[number] = on_device
    return on_device
