"""Which parameters are the last layer of a network, by what its output is computed from and not by names.

The program of the network is traced (`jax.make_jaxpr`), and each of its values knows the parameters that it
comes from. A product with a parameter, as in h·W, starts a layer: what h comes from is before it. A sum, as
in h·W + b, starts one where h·W went through a function that is not linear: W is before b in f(h·W) + b. The
last layer are the parameters that the output comes from with nothing such after them: given all others the
output is a function of one affine map in them. Several products side by side, as of a mean and a variance,
are all last. Without a product of weights at the end, as in |h - c|², or where parameters meet in another
way, nothing is guessed: the user is asked.
"""

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var
from jaxtyping import Array, PyTree

# Operations in which a value meets a parameter as a factor, or picks entries of it.
_CONTRACTIONS = frozenset({"dot_general", "ragged_dot_general", "conv_general_dilated", "gather"})
_PRODUCTS = _CONTRACTIONS | {"mul", "div", "pow", "dynamic_slice"}
# Operations that put values side by side, that add them, and others that are linear in all their inputs.
_BESIDE = frozenset({"concatenate", "select_n"})
_SUMS = frozenset({"add", "add_any", "sub"})
_LINEAR = (
    _BESIDE
    | _SUMS
    | {"neg", "reshape", "broadcast_in_dim", "squeeze", "expand_dims", "transpose", "slice", "split", "pad"}
    | {"reduce_sum", "reduce_window_sum", "cumsum", "rev", "copy", "convert_element_type", "stop_gradient"}
    | {"reduce_precision", "sharding_constraint", "optimization_barrier"}
)
# Products that are linear in each of two inputs; the other products are so in the first alone.
_BILINEAR = frozenset({"mul", "dot_general", "ragged_dot_general", "conv_general_dilated"})
# Operations with a program inside that is run once, as it stands, on their inputs.
_CALLS = ("jaxpr", "call_jaxpr", "fun_jaxpr")
_NOT_CALLS = frozenset({"scan", "while", "cond"})


Atom = Literal | Var


class _Place(enum.Flag):
    LAST = enum.auto()
    BEFORE = enum.auto()
    # Met in a loop or a condition, where the order cannot be determined.
    INSIDE = enum.auto()
    # Met otherwise than in layers, one after the other or side by side.
    UNCLEAR = enum.auto()
    # As a factor of a contraction.
    FACTOR = enum.auto()
    # Went through a function that is not linear.
    CURVED = enum.auto()


@dataclass(frozen=True)
class _Value:
    """What a value of the program comes from: the row, and parameters by their numbers, with their places."""

    is_of_row: bool = False
    places: dict[int, _Place] = field(default_factory=dict)


class UnknownLastLayerError(ValueError):
    """The last layer cannot be determined; the message says why."""


def last_layer(
    apply: Callable[[PyTree[Array], Array], Array], params: PyTree[Array], row: Array
) -> list[bool]:
    """Whether each leaf of the parameters belongs to the last layer; raise where that is unclear."""
    leaves = jax.tree.leaves(params)
    number = len(leaves)
    closed = jax.make_jaxpr(apply)(params, row)
    inputs = [_Value(False, {i: _Place.LAST}) for i in range(number)]
    output = _outputs(closed.jaxpr, [*inputs, _Value(is_of_row=True)])[0]
    is_last = [_Place.LAST in output.places.get(i, _Place(0)) for i in range(number)]
    places = {i: place for i, place in output.places.items() if is_last[i]}
    if any(_Place.INSIDE in place for place in places.values()):
        raise UnknownLastLayerError("its output comes from a loop or a condition that has weights inside")
    # What only scales or shifts is no layer: it may be the temperature of the logits, or a centre.
    if not output.is_of_row or not any(_Place.FACTOR in place for place in places.values()):
        raise UnknownLastLayerError("its output is no product of weights with what comes before")
    if any(_Place.UNCLEAR in place for place in places.values()):
        raise UnknownLastLayerError("weights meet in its output otherwise than in layers")
    if any(_Place.BEFORE in place for place in places.values()):
        raise UnknownLastLayerError("some weights of the last layer are used before it too")
    return is_last


def _outputs(jaxpr: Jaxpr, inputs: Sequence[_Value]) -> list[_Value]:
    """The values that a program returns, given those that it takes; its constants come from nothing."""
    values: dict[Any, _Value] = dict(zip(jaxpr.invars, inputs, strict=True))

    def read(atom: Atom) -> _Value:
        return _Value() if isinstance(atom, Literal) else values.get(atom, _Value())

    for equation in jaxpr.eqns:
        arguments = [read(atom) for atom in equation.invars]
        inner = _called(equation)
        outputs = (
            [_met(equation, arguments)] * len(equation.outvars)
            if inner is None
            else _outputs(inner, arguments)
        )
        values.update(zip(equation.outvars, outputs, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _programs(equation: JaxprEqn) -> list[Any]:
    return [
        value
        for entry in equation.params.values()
        for value in (entry if isinstance(entry, tuple | list) else [entry])
        if isinstance(value, ClosedJaxpr | Jaxpr)
    ]


def _called(equation: JaxprEqn) -> Jaxpr | None:
    """The program that an operation calls once on its own inputs; None where it has none, or a loop."""
    if equation.primitive.name in _NOT_CALLS:
        return None
    for name in _CALLS:
        program = equation.params.get(name)
        inner = program.jaxpr if isinstance(program, ClosedJaxpr) else program
        if isinstance(inner, Jaxpr) and len(inner.invars) == len(equation.invars):
            return inner
    return None


def _met(equation: JaxprEqn, arguments: Sequence[_Value]) -> _Value:
    """What the result of an operation comes from."""
    name = equation.primitive.name
    rows = [value for value in arguments if value.is_of_row]
    factors = [value for value in arguments if not value.is_of_row and value.places]
    if not rows:
        return _Value(False, _union(arguments))
    if not factors:
        return _Value(True, _of_rows(name, arguments, rows))
    is_opaque = bool(_programs(equation)) or "callback" in name
    if not is_opaque and name in _SUMS | _BESIDE:
        earlier = _union(rows) if name in _BESIDE else _left_behind(_union(rows))
        return _Value(True, _merged(earlier, _union(factors)))
    before = dict.fromkeys(_union(rows), _Place.BEFORE)
    added = _Place.INSIDE if is_opaque else _Place.FACTOR if name in _CONTRACTIONS else _Place(0)
    if not is_opaque and name not in _PRODUCTS:
        added = _Place.UNCLEAR
    entered = {i: place | added for i, place in _union(factors).items()}
    return _Value(True, _merged(before, entered))


def _of_rows(name: str, arguments: Sequence[_Value], rows: Sequence[_Value]) -> dict[int, _Place]:
    """The places of parameters after an operation on values of the row, and no parameters beside them."""
    union = _union(rows)
    if name not in _BESIDE:
        for value in rows:
            others = _union([other for other in rows if other is not value])
            further = {i: place for i, place in others.items() if i not in value.places}
            # As in f(h·V) + h·W: neither comes before the other, and they are not side by side.
            if any(_is_straight(place) for place in further.values()):
                curved = {i: _Place.UNCLEAR for i, place in value.places.items() if _is_curved(place)}
                union = _merged(union, curved)
    is_linear = name in _LINEAR
    if name == "select_n":
        is_linear = not arguments[0].is_of_row
    if name in _PRODUCTS and len(rows) == 1:
        is_linear = name in _BILINEAR or (arguments[0].is_of_row and name != "pow")
    return union if is_linear else {i: place | _Place.CURVED for i, place in union.items()}


def _is_curved(place: _Place) -> bool:
    return _Place.LAST in place and _Place.CURVED in place


def _is_straight(place: _Place) -> bool:
    return _Place.LAST in place and _Place.CURVED not in place


def _left_behind(places: dict[int, _Place]) -> dict[int, _Place]:
    """The places of parameters of a value to which further ones are added."""
    is_mixed = any(map(_is_straight, places.values()))
    return {
        i: (place | _Place.UNCLEAR if is_mixed else _Place.BEFORE) if _is_curved(place) else place
        for i, place in places.items()
    }


def _union(values: Sequence[_Value]) -> dict[int, _Place]:
    union: dict[int, _Place] = {}
    for value in values:
        union = _merged(union, value.places)
    return union


def _merged(first: dict[int, _Place], second: dict[int, _Place]) -> dict[int, _Place]:
    empty = _Place(0)
    return {i: first.get(i, empty) | second.get(i, empty) for i in {**first, **second}}
