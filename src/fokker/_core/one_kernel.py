"""A function as one kernel of a CPU.

On a CPU, XLA runs a kernel for each fused operation of a loop, which costs some 50 ns, however small the
arrays: a leapfrog step of ten coordinates is hundreds of them. XLA can also write a whole computation, loops
included, as one function of machine code, and does so by itself for the smallest loops. `one_kernel` asks for
it where every operation of a function can be written so.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fokker._core.as_loops import evaluate, inner, work_of_loop

try:
    from jax.experimental.xla_metadata import set_xla_metadata
except ImportError:  # experimental: where it is missing, nothing fits
    set_xla_metadata = None  # type: ignore[assignment]

# Releases whose XLA writes such functions in bounded time: that of 0.12 did not end with paths of one length.
_RELEASES = ((0, 10),)
# Longer functions take minutes to compile.
_MOST_OPERATIONS = 4_000

# Operations that XLA is known to write in such a function: others fail, or are compiled without end.
_ELEMENTWISE = (
    "abs acos acosh add add_any and asin asinh atan atan2 atanh bessel_i0e bessel_i1e "
    "bitcast_convert_type cbrt ceil clamp clz convert_element_type copy copy_p cos cosh digamma div eq "
    "erf erf_inv erfc exp exp2 expm1 floor ge gt igamma igammac igamma_grad_a integer_pow is_finite le "
    "lgamma log log1p logistic lt max min mul ne neg nextafter not optimization_barrier or polygamma "
    "population_count pow random_gamma_grad random_unwrap random_wrap reduce_precision "
    "regularized_incomplete_beta rem round rsqrt select_n shift_left shift_right_arithmetic "
    "shift_right_logical sign sin sinh sqrt square stop_gradient sub tan tanh xor zeta"
)
_REDUCTIONS = (
    "argmax argmin cumlogsumexp cummax cummin cumprod cumsum reduce_and reduce_max reduce_min reduce_or "
    "reduce_prod reduce_sum reduce_xor"
)
_SHAPES = (
    "broadcast_in_dim concatenate dynamic_slice dynamic_update_slice expand_dims gather iota pad reshape rev "
    "slice split squeeze stack transpose unstack"
)
_COMPUTED, _MOVED = frozenset(f"{_ELEMENTWISE} {_REDUCTIONS}".split()), frozenset(_SHAPES.split())


class NoKernel(Exception):
    """A function that cannot be one kernel, or is too much work for one."""


def one_kernel(function: Callable[..., Any], *arguments: PyTree[Array], most: int) -> Any:
    """`function(*arguments)` as one kernel, inside a function that is compiled for a CPU.

    Raises `NoKernel` where it cannot be one, or computes more than about `most` numbers; of a loop whose
    length is not known one pass is counted.
    """
    leaves = jax.tree.leaves(arguments)
    traced, results = jax.make_jaxpr(function, return_shape=True)(*arguments)
    if set_xla_metadata is None or jax.__version_info__[:2] not in _RELEASES:
        raise NoKernel
    work = _work(traced.jaxpr) if _operations(traced.jaxpr) <= _MOST_OPERATIONS else None
    if work is None or work > most:
        raise NoKernel

    def of_words(words: Array) -> list[Array]:
        return evaluate(traced.jaxpr, traced.consts, *_parts(words, leaves))

    # One argument, of which something is always used: XLA aborts at one that turns out to be unused.
    words = jnp.concatenate([_words(x) for x in leaves])
    assert set_xla_metadata is not None
    # Functions inside are not inlined: fused with all that follows, they would be computed several times.
    with set_xla_metadata(inlineable="false"):
        first, *others = jax.jit(of_words)(words)
    first = set_xla_metadata(first, xla_cpu_small_call="true", inlineable="false")
    return jax.tree.unflatten(jax.tree.structure(results), [first, *others])


def _words(x: Array) -> Array:
    """An array as a vector of 32-bit words."""
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        x = jax.random.key_data(x)
    if x.dtype.itemsize < 4:
        unsigned = jnp.dtype(f"uint{8 * x.dtype.itemsize}")
        x = x.astype(unsigned) if x.dtype == bool else jax.lax.bitcast_convert_type(x, unsigned)
        return x.astype(jnp.uint32).reshape(-1)
    return jax.lax.bitcast_convert_type(x, jnp.uint32).reshape(-1)


def _parts(words: Array, like: Sequence[Array]) -> Iterator[Array]:
    """The arrays that were made words, in order."""
    start = 0
    for kind in like:
        is_key = jnp.issubdtype(kind.dtype, jax.dtypes.prng_key)
        shape = jax.eval_shape(jax.random.key_data, kind) if is_key else kind
        width = max(1, shape.dtype.itemsize // 4)
        count = math.prod(shape.shape) * width
        part = words[start : start + count].reshape(*shape.shape, *([width] if width > 1 else []))
        start += count
        if shape.dtype == bool:
            yield part != 0
        elif shape.dtype.itemsize < 4:
            unsigned = jnp.dtype(f"uint{8 * shape.dtype.itemsize}")
            yield jax.lax.bitcast_convert_type(part.astype(unsigned), shape.dtype)
        else:
            part = jax.lax.bitcast_convert_type(part, shape.dtype)
            yield jax.random.wrap_key_data(part, impl=jax.random.key_impl(kind)) if is_key else part


def _work(jaxpr: Any) -> int | None:
    """How many numbers the operations of a traced function compute; None where one cannot be written."""
    total = 0
    for equation in jaxpr.eqns:
        if not all(_is_plain(x.aval) for x in (*equation.invars, *equation.outvars)):
            return None
        works = [_work(part) for part in inner(equation)]
        if not works:
            works = [_work_of_one(equation)]
        if None in works:
            return None
        total += sum(map(int, works)) * equation.params.get("length", 1)  # type: ignore[arg-type]
    return total


def _operations(jaxpr: Any) -> int:
    """How many operations a traced function has, with those inside others."""
    return len(jaxpr.eqns) + sum(_operations(part) for equation in jaxpr.eqns for part in inner(equation))


def _is_plain(kind: Any) -> bool:
    """Whether the entries of an array are neither complex nor of less than single precision."""
    is_half = jnp.issubdtype(kind.dtype, jnp.floating) and kind.dtype.itemsize < 4
    return not is_half and not jnp.issubdtype(kind.dtype, jnp.complexfloating)


def _work_of_one(equation: Any) -> int | None:
    if equation.primitive.name in _MOVED:
        return 0
    sizes = (math.prod(x.aval.shape) for x in (*equation.invars, *equation.outvars))
    return max(sizes) if equation.primitive.name in _COMPUTED else work_of_loop(equation)
