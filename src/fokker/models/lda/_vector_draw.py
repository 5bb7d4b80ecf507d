"""One draw from unnormalised weights, sixteen at a time: the innermost step of the Gibbs sweeps, in LLVM's
terms.

Numba compiles loops over single numbers; a running sum has to be seen sixteen numbers at a time to be fast,
and no loop makes the compiler do so. These few intrinsics say it in vectors, which LLVM maps to whatever the
processor has (AVX-512, AVX2, NEON, …).
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

# Weights in a vector.
LANES = 16

_FLOAT = ir.FloatType()
_INT = ir.IntType(32)
_LONG = ir.IntType(64)
_VECTOR = ir.VectorType(_FLOAT, LANES)
_INDICES = ir.VectorType(_INT, LANES)

Generated = tuple[Any, Callable[..., Any]]


def _lanes(values: list[int]) -> Any:
    return ir.Constant(_INDICES, values)


def _splat(builder: Any, value: Any, kind: Any) -> Any:
    """The same value in every lane."""
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(_INT, 0))
    return builder.shuffle_vector(first, first, _lanes([0] * LANES))


def _running_sum(builder: Any, vector: Any, zero: Any) -> Any:
    """c_l = Σ_{i ≤ l} v_i, in log₂(lanes) shifts."""
    shift = 1
    while shift < LANES:
        moved = _lanes([i - shift if i >= shift else LANES for i in range(LANES)])
        vector = builder.fadd(vector, builder.shuffle_vector(vector, zero, moved))
        shift *= 2
    return vector


@intrinsic(prefer_literal=True)
def draw(
    _: Any, n: Any, at: Any, beta: Any, row: Any, room: Any, blocks: Any, old: Any, uniform: Any
) -> Generated:
    r"""k with probability ∝ (n_k - [k = old]) β_k over 16·blocks places; `uniform` is in [0, 1).

    The weights lie in `blocks` rows of sixteen lanes. Sums down the lanes are kept in `room` as they grow;
    the running sum across the lanes picks a lane, and the sums down that lane pick the row: no branch depends
    on what is drawn. `n` and `room` are read from place `at`, `beta` from place `row`.
    """
    if not isinstance(blocks, types.IntegerLiteral):
        return None  # type: ignore[return-value]
    rows = blocks.literal_value
    signature = types.int64(n, types.int64, beta, types.int64, room, blocks, types.int64, types.float32)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def start(which: int, place: Any) -> Any:
            array = context.make_array(signature.args[which])(context, builder, arguments[which])
            return builder.gep(array.data, [place])

        def vector_at(pointer: Any, block: int) -> Any:
            place = builder.gep(pointer, [ir.Constant(_LONG, block * LANES)])
            return builder.bitcast(place, _VECTOR.as_pointer())

        at, row, old, uniform = (arguments[i] for i in (1, 3, 6, 7))
        counts, weights, sums = start(0, at), start(2, row), start(4, at)
        zero, one = (ir.Constant(_VECTOR, [x] * LANES) for x in (0.0, 1.0))
        multiply_add = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(_VECTOR, [_VECTOR] * 3), f"llvm.fma.v{LANES}f32"
        )
        taken = _splat(builder, builder.trunc(old, _INT), _INDICES)
        total = zero
        for block in range(rows):
            here = builder.load(vector_at(counts, block), align=4)
            own = builder.icmp_signed("==", taken, _lanes([block * LANES + i for i in range(LANES)]))
            here = builder.select(own, builder.fsub(here, one), here)
            total = builder.call(
                multiply_add, [here, builder.load(vector_at(weights, block), align=4), total]
            )
            builder.store(total, vector_at(sums, block), align=4)
        running = _running_sum(builder, total, zero)
        all_of_it = builder.extract_element(running, ir.Constant(_INT, LANES - 1))
        threshold = builder.fmul(uniform, all_of_it)
        below = builder.fcmp_ordered("<=", running, _splat(builder, threshold, _VECTOR))
        bits = ir.IntType(LANES)
        count_ones = builder.module.declare_intrinsic("llvm.ctpop", [bits])
        passed = builder.zext(builder.call(count_ones, [builder.bitcast(below, bits)]), _INT)
        last = ir.Constant(_INT, LANES - 1)
        lane = builder.select(builder.icmp_unsigned(">", passed, last), last, passed)
        before = builder.shuffle_vector(running, zero, _lanes([LANES, *range(LANES - 1)]))
        threshold = builder.fsub(threshold, builder.extract_element(before, lane))
        lane = builder.zext(lane, _LONG)
        block_drawn = ir.Constant(_LONG, 0)
        for block in range(rows - 1):
            place = builder.add(ir.Constant(_LONG, block * LANES), lane)
            under = builder.fcmp_ordered("<=", builder.load(builder.gep(sums, [place])), threshold)
            block_drawn = builder.add(block_drawn, builder.zext(under, _LONG))
        return builder.add(builder.mul(block_drawn, ir.Constant(_LONG, LANES)), lane)

    return signature, generate


@intrinsic
def take_ticket(_: Any, counter: Any) -> Generated:
    """The next whole number of a counter that threads share."""
    signature = types.int64(counter)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.atomic_rmw("add", array.data, ir.Constant(_LONG, 1), "monotonic")

    return signature, generate
