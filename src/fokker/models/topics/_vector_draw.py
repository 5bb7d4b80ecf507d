"""One draw from unnormalised weights, in vectors of sixteen: the innermost step of the Gibbs sweeps.

A running sum is fast only in vectors, and the compiler does not vectorise such a loop. These Numba intrinsics
are written in LLVM vector operations, which LLVM maps to the instructions of the processor (AVX-512, AVX2,
NEON, …).
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

# Numbers per vector.
LANES = 16

_FLOAT = ir.FloatType()
_INT = ir.IntType(32)
_LONG = ir.IntType(64)
_VECTOR = ir.VectorType(_FLOAT, LANES)
_INDICES = ir.VectorType(_INT, LANES)

Generated = tuple[Any, Callable[..., Any]]


def _lane_constants(values: list[int]) -> Any:
    return ir.Constant(_INDICES, values)


def _splat(builder: Any, value: Any, kind: Any) -> Any:
    """The same value in every lane."""
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(_INT, 0))
    return builder.shuffle_vector(first, first, _lane_constants([0] * LANES))


def _running_sum(builder: Any, vector: Any, zero: Any) -> Any:
    """c_l = Σ_{i ≤ l} v_i, in log₂(lanes) shifts."""
    shift = 1
    while shift < LANES:
        moved = _lane_constants([i - shift if i >= shift else LANES for i in range(LANES)])
        vector = builder.fadd(vector, builder.shuffle_vector(vector, zero, moved))
        shift *= 2
    return vector


@intrinsic(prefer_literal=True)
def draw(
    _: Any, n: Any, offset: Any, beta: Any, row: Any, scratch: Any, blocks: Any, old: Any, uniform: Any
) -> Generated:
    r"""k with probability ∝ (n_k - [k = old]) β_k over 16·blocks topics; `uniform` is in [0, 1).

    The weights form `blocks` rows of sixteen lanes. The running sums down the lanes are stored in `scratch`.
    The running sum across the lanes selects a lane, and the sums down that lane select the row: no branch
    depends on the draw. `n` and `scratch` are read from index `offset`, `beta` from index `row`.
    """
    if not isinstance(blocks, types.IntegerLiteral):
        return None  # type: ignore[return-value]
    rows = blocks.literal_value
    signature = types.int64(n, types.int64, beta, types.int64, scratch, blocks, types.int64, types.float32)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def start(which: int, index: Any) -> Any:
            array = context.make_array(signature.args[which])(context, builder, arguments[which])
            return builder.gep(array.data, [index])

        def vector_at(pointer: Any, block: int) -> Any:
            index = builder.gep(pointer, [ir.Constant(_LONG, block * LANES)])
            return builder.bitcast(index, _VECTOR.as_pointer())

        offset, row, old, uniform = (arguments[i] for i in (1, 3, 6, 7))
        counts, weights, sums = start(0, offset), start(2, row), start(4, offset)
        zero, one = (ir.Constant(_VECTOR, [x] * LANES) for x in (0.0, 1.0))
        multiply_add = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(_VECTOR, [_VECTOR] * 3), f"llvm.fma.v{LANES}f32"
        )
        old_lanes = _splat(builder, builder.trunc(old, _INT), _INDICES)
        total = zero
        for block in range(rows):
            block_counts = builder.load(vector_at(counts, block), align=4)
            is_old = builder.icmp_signed(
                "==", old_lanes, _lane_constants([block * LANES + i for i in range(LANES)])
            )
            block_counts = builder.select(is_old, builder.fsub(block_counts, one), block_counts)
            total = builder.call(
                multiply_add, [block_counts, builder.load(vector_at(weights, block), align=4), total]
            )
            builder.store(total, vector_at(sums, block), align=4)
        running = _running_sum(builder, total, zero)
        weight_sum = builder.extract_element(running, ir.Constant(_INT, LANES - 1))
        threshold = builder.fmul(uniform, weight_sum)
        is_below_threshold = builder.fcmp_ordered("<=", running, _splat(builder, threshold, _VECTOR))
        bits = ir.IntType(LANES)
        count_ones = builder.module.declare_intrinsic("llvm.ctpop", [bits])
        num_below = builder.zext(builder.call(count_ones, [builder.bitcast(is_below_threshold, bits)]), _INT)
        last = ir.Constant(_INT, LANES - 1)
        lane = builder.select(builder.icmp_unsigned(">", num_below, last), last, num_below)
        previous_sums = builder.shuffle_vector(running, zero, _lane_constants([LANES, *range(LANES - 1)]))
        threshold = builder.fsub(threshold, builder.extract_element(previous_sums, lane))
        lane = builder.zext(lane, _LONG)
        block_drawn = ir.Constant(_LONG, 0)
        for block in range(rows - 1):
            index = builder.add(ir.Constant(_LONG, block * LANES), lane)
            is_below = builder.fcmp_ordered("<=", builder.load(builder.gep(sums, [index])), threshold)
            block_drawn = builder.add(block_drawn, builder.zext(is_below, _LONG))
        return builder.add(builder.mul(block_drawn, ir.Constant(_LONG, LANES)), lane)

    return signature, generate


@intrinsic
def next_ticket(_: Any, counter: Any) -> Generated:
    """The next integer of a counter that the threads share."""
    signature = types.int64(counter)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.atomic_rmw("add", array.data, ir.Constant(_LONG, 1), "monotonic")

    return signature, generate
