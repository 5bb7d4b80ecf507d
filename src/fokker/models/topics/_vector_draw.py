"""One draw from unnormalised weights, in vectors of sixteen: the innermost step of the Gibbs sweeps.

A running sum is fast only in vectors, and the compiler does not vectorise such a loop. These Numba intrinsics
are written in LLVM vector operations, which LLVM maps to the instructions of the processor (AVX-512, AVX2,
NEON, …).
"""

from collections.abc import Callable, Sequence

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.base import BaseContext
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

# Numbers per vector.
LANES = 16

_FLOAT = ir.FloatType()
_INT = ir.IntType(32)
_LONG = ir.IntType(64)
_VECTOR = ir.VectorType(_FLOAT, LANES)
_INDICES = ir.VectorType(_INT, LANES)

Generated = tuple[Signature, Callable[..., ir.Value]]


def _lane_constants(values: list[int]) -> ir.Constant:
    return ir.Constant(_INDICES, values)


def _splat(builder: ir.IRBuilder, value: ir.Value, kind: ir.Type) -> ir.Value:
    """The same value in every lane."""
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(_INT, 0))
    return builder.shuffle_vector(first, first, _lane_constants([0] * LANES))


def _running_sum(builder: ir.IRBuilder, vector: ir.Value, zero: ir.Constant) -> ir.Value:
    """c_l = Σ_{i ≤ l} v_i, in log₂(lanes) shifts."""
    shift = 1
    while shift < LANES:
        moved = _lane_constants([i - shift if i >= shift else LANES for i in range(LANES)])
        vector = builder.fadd(vector, builder.shuffle_vector(vector, zero, moved))
        shift *= 2
    return vector


def _splat_constant(value: float) -> ir.Constant:
    return ir.Constant(_VECTOR, [value] * LANES)


def _pointer(
    context: BaseContext, builder: ir.IRBuilder, kind: types.Array, array: ir.Value, index: ir.Value
) -> ir.Value:
    """The address of an element of an array."""
    return builder.gep(context.make_array(kind)(context, builder, array).data, [index])


def _vector_at(builder: ir.IRBuilder, pointer: ir.Value, block: int) -> ir.Value:
    """The address of a vector of sixteen, so many vectors after a pointer."""
    index = builder.gep(pointer, [ir.Constant(_LONG, block * LANES)])
    return builder.bitcast(index, _VECTOR.as_pointer())


def _loaded(builder: ir.IRBuilder, pointer: ir.Value, block: int) -> ir.Value:
    return builder.load(_vector_at(builder, pointer, block), align=4)


def _is_topic(builder: ir.IRBuilder, topic: ir.Value, block: int) -> ir.Value:
    """Which lanes of a block are those of this topic."""
    lanes = _splat(builder, builder.trunc(topic, _INT), _INDICES)
    return builder.icmp_signed("==", lanes, _lane_constants([block * LANES + i for i in range(LANES)]))


def _drawn(
    builder: ir.IRBuilder,
    factors: Callable[[int], tuple[ir.Value, ir.Value]],
    sums: ir.Value,
    rows: int,
    uniform: ir.Value,
) -> ir.Value:
    """An index with the probability of its weight, a product of two factors given by the block.

    The weights form `rows` rows of sixteen lanes. The running sums down the lanes are stored in `sums`. The
    running sum across the lanes selects a lane, and the sums down that lane select the row: no branch depends
    on the draw. `uniform` is in [0, 1).
    """
    zero = _splat_constant(0.0)
    multiply_add = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(_VECTOR, [_VECTOR] * 3), f"llvm.fma.v{LANES}f32"
    )
    total = zero
    for block in range(rows):
        total = builder.call(multiply_add, [*factors(block), total])
        builder.store(total, _vector_at(builder, sums, block), align=4)
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


@intrinsic(prefer_literal=True)
def draw(
    _: BaseContext,
    n: types.Array,
    offset: types.Type,
    beta: types.Array,
    row: types.Type,
    scratch: types.Array,
    blocks: types.Type,
    old: types.Type,
    uniform: types.Type,
) -> Generated:
    r"""k with probability ∝ (n_k - [k = old]) β_k over 16·blocks topics; `uniform` is in [0, 1).

    `n` and `scratch` are read from index `offset`, `beta` from index `row`.
    """
    if not isinstance(blocks, types.IntegerLiteral):
        return None  # type: ignore[return-value]
    signature = types.int64(n, types.int64, beta, types.int64, scratch, blocks, types.int64, types.float32)

    def generate(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Sequence[ir.Value]
    ) -> ir.Value:
        offset, row, old, uniform = (arguments[i] for i in (1, 3, 6, 7))
        counts, weights, sums = (
            _pointer(context, builder, signature.args[i], arguments[i], index)
            for i, index in ((0, offset), (2, row), (4, offset))
        )

        def factors(block: int) -> tuple[ir.Value, ir.Value]:
            of_block = _loaded(builder, counts, block)
            without = builder.fsub(of_block, _splat_constant(1.0))
            return (
                builder.select(_is_topic(builder, old, block), without, of_block),
                _loaded(builder, weights, block),
            )

        return _drawn(builder, factors, sums, blocks.literal_value, uniform)

    return signature, generate


@intrinsic(prefer_literal=True)
def draw_collapsed(
    _: BaseContext,
    n: types.Array,
    by_word: types.Array,
    row: types.Type,
    scale: types.Array,
    scratch: types.Array,
    blocks: types.Type,
    old: types.Type,
    old_scale: types.Type,
    alpha: types.Type,
    uniform: types.Type,
) -> Generated:
    r"""k with probability ∝ (n_k - [k = old]) (m_k - [k = old] + α) s_k over 16·blocks topics.

    m, read from index `row` of `by_word`, are the counts of a word. s are `scale`, but `old_scale` at k =
    old. The token is taken out of its topic here, not in memory: vectors that are read right after one of
    their numbers was written have to wait for it.
    """
    if not isinstance(blocks, types.IntegerLiteral):
        return None  # type: ignore[return-value]
    signature = types.int64(
        n, by_word, types.int64, scale, scratch, blocks, types.int64, types.float32, types.float32,
        types.float32,
    )  # fmt: skip

    def generate(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Sequence[ir.Value]
    ) -> ir.Value:
        row, old, old_scale, alpha, uniform = (arguments[i] for i in (2, 6, 7, 8, 9))
        zero = ir.Constant(_LONG, 0)
        counts, words, scales, sums = (
            _pointer(context, builder, signature.args[i], arguments[i], index)
            for i, index in ((0, zero), (1, row), (3, zero), (4, zero))
        )
        alphas, old_scales = (_splat(builder, x, _VECTOR) for x in (alpha, old_scale))

        def factors(block: int) -> tuple[ir.Value, ir.Value]:
            is_old = _is_topic(builder, old, block)
            one = builder.select(is_old, _splat_constant(1.0), _splat_constant(0.0))
            in_document, of_word = (
                builder.fsub(_loaded(builder, pointer, block), one) for pointer in (counts, words)
            )
            scale = builder.select(is_old, old_scales, _loaded(builder, scales, block))
            return in_document, builder.fmul(builder.fadd(of_word, alphas), scale)

        return _drawn(builder, factors, sums, blocks.literal_value, uniform)

    return signature, generate


@intrinsic
def next_ticket(_: BaseContext, counter: types.Array) -> Generated:
    """The next integer of a counter that the threads share."""
    signature = types.int64(counter)

    def generate(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Sequence[ir.Value]
    ) -> ir.Value:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.atomic_rmw("add", array.data, ir.Constant(_LONG, 1), "monotonic")

    return signature, generate
