"""The algebra of matrix fields, each against the matrix written out by hand and its dense Jacobian."""

import itertools
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.flatten_util import ravel_pytree

import fokker as fk
from conftest import quick_jit
from fokker import fields
from marks import long_case

SEEDS = st.integers(0, 2**32 - 1)
ORDER = ("theta", "r", "s", "xi")  # of the named state below: theta, then the alphabet


@pytest.fixture(autouse=True)
def _double(x64):
    """Every test in this file is exact."""


def smooth(w, salt: int, x, n: int):
    """n smooth functions of the vector x; `w` holds random numbers, `salt` chooses among them."""
    m = x.size
    numbers = jnp.resize(jnp.roll(w, 13 * salt), n * (m + 2))
    A, b, c = numbers[: n * m].reshape(n, m), numbers[n * m : n * m + n], numbers[n * m + n :]
    return c * jnp.sin(A @ x + b) + 0.1 * (A @ x)


def flat(tree):
    return ravel_pytree(tree)[0]


def like(tree, x):
    return ravel_pytree(tree)[1](x)


def named_state(x):
    def pair(y):
        return {"w": y[:2], "b": y[2]}

    return {"xi": x[8], "theta": pair(x[:3]), "s": x[6:8], "r": pair(x[3:6])}


def flat_state(z):
    """A named state as a vector, written independently of the library."""
    return jnp.concatenate([flat(z[name]) for name in ORDER])


class Layout(NamedTuple):
    """A state, and the variables that a field stands between."""

    size: int
    state: Callable[[Any], Any]  # from a vector of random numbers
    row: str | None
    column: str | None

    def get(self, z, name):
        return z if name is None else z[name]

    def put(self, z, name, value):
        return value if name is None else {**z, name: value}


ARRAY = Layout(3, lambda x: x, None, None)
TREE = Layout(5, lambda x: (x[:2], {"b": x[2:4].reshape(1, 2), "a": x[4]}), None, None)
BLOCK = Layout(9, named_state, "theta", "theta")
OFF_BLOCK = Layout(9, named_state, "r", "theta")
BY_OTHER = Layout(9, named_state, "theta", "r")  # the functions are of theta: no divergence over r
SQUARE = {"array": ARRAY, "tree": TREE, "block": BLOCK, "off": OFF_BLOCK, "other": BY_OTHER}

THETA_TO_S = Layout(9, named_state, "s", "theta")
XI_TO_THETA = Layout(9, named_state, "theta", "xi")
THETA_TO_XI = Layout(9, named_state, "xi", "theta")


class Case(NamedTuple):
    """A field of random functions, and its matrix as a function of theta, both made of the numbers w."""

    field: Callable[[Any], fields.Field]
    matrix: Callable[[Any, Any], Any]
    is_diffusion: bool = False
    is_skew: bool = False


def diag_values(w, theta, salt=0):
    """Entry i depends on coordinate i alone."""
    x = flat(theta)
    b = jnp.resize(jnp.roll(w, salt), x.size)
    return 1.5 + jnp.sin(b * x + 0.3)


def mixed_values(w, theta):
    return jnp.exp(0.3 * smooth(w, 1, flat(theta), flat(theta).size))


def factor(w, theta, k=2):
    d = flat(theta).size
    return smooth(w, 2, flat(theta), d * k).reshape(d, k)


def square(w, theta, salt=3):
    d = flat(theta).size
    return smooth(w, salt, flat(theta), d * d).reshape(d, d)


def constant(w, theta, shape, salt=5):
    return jnp.resize(jnp.roll(w, salt), shape)


def gram(L):
    return L @ L.T


def skew_of(A):
    lower = jnp.tril(A, -1)
    return lower - lower.T


def number(w, theta):
    return jnp.exp(smooth(w, 4, flat(theta), 1)[0])


def eye(theta):
    return jnp.eye(flat(theta).size)


def in_tree(values):
    """A function of (w, theta) with a vector for its value, with a value in the structure of theta."""
    return lambda w: lambda theta: like(theta, values(w, theta))


def of_theta(values):
    return lambda w: lambda theta: values(w, theta)


def square_cases(d: int, example: Any) -> dict[str, Case]:
    """Every kind that maps a variable of dimension d to one of the same structure."""

    def C(w, salt=5):
        return jnp.resize(jnp.roll(w, salt), (d, d))

    def thin(w):
        return jnp.resize(jnp.roll(w, 6), (d, 1))

    def tree(x):
        return like(example, x)

    def positive(w):
        return 0.5 + constant(w, None, (d,)) ** 2

    def product(w):
        def mv(z, v):
            theta = z["theta"] if isinstance(z, dict) and "theta" in z else z
            return like(theta, square(w, theta) @ flat(v))

        return mv

    return {
        "zero": Case(lambda w: fields.Zero(), lambda w, t: jnp.zeros((d, d)), True, True),
        "scalar constant": Case(lambda w: fields.Scalar(w[0] ** 2), lambda w, t: w[0] ** 2 * eye(t), True),
        "scalar function": Case(
            lambda w: fields.Scalar(of_theta(number)(w)), lambda w, t: number(w, t) * eye(t), True
        ),
        "diagonal constant": Case(
            lambda w: fields.Diagonal(tree(positive(w))), lambda w, t: jnp.diag(positive(w)), True
        ),
        "diagonal function": Case(
            lambda w: fields.Diagonal(in_tree(mixed_values)(w)),
            lambda w, t: jnp.diag(mixed_values(w, t)),
            True,
        ),
        "elementwise": Case(
            lambda w: fields.Elementwise(in_tree(diag_values)(w)),
            lambda w, t: jnp.diag(diag_values(w, t)),
            True,
        ),
        "dense constant": Case(lambda w: fields.Dense(C(w)), lambda w, t: C(w)),
        "dense constant diffusion": Case(lambda w: fields.Dense(gram(C(w))), lambda w, t: gram(C(w)), True),
        "dense singular diffusion": Case(
            lambda w: fields.Dense(gram(thin(w))), lambda w, t: gram(thin(w)), True
        ),
        "dense function": Case(lambda w: fields.Dense(of_theta(square)(w)), square),
        "dense function diffusion": Case(
            lambda w: fields.Dense(lambda theta: gram(square(w, theta))),
            lambda w, t: gram(square(w, t)),
            True,
        ),
        "dense singular function": Case(
            lambda w: fields.Dense(lambda theta: gram(factor(w, theta, 1))),
            lambda w, t: gram(factor(w, t, 1)),
            True,
        ),
        "gram constant": Case(lambda w: fields.Gram(thin(w)), lambda w, t: gram(thin(w)), True),
        "gram thin": Case(lambda w: fields.Gram(of_theta(factor)(w)), lambda w, t: gram(factor(w, t)), True),
        "gram wide": Case(
            lambda w: fields.Gram(lambda theta: factor(w, theta, d + 1)),
            lambda w, t: gram(factor(w, t, d + 1)),
            True,
        ),
        "gram plus number": Case(
            lambda w: fields.Gram(of_theta(factor)(w), diagonal_part=0.1),
            lambda w, t: gram(factor(w, t)) + 0.1 * eye(t),
            True,
        ),
        "gram plus constants": Case(
            lambda w: fields.Gram(thin(w), diagonal_part=tree(positive(w))),
            lambda w, t: gram(thin(w)) + jnp.diag(positive(w)),
            True,
        ),
        "gram plus diagonal": Case(
            lambda w: fields.Gram(of_theta(factor)(w), diagonal_part=in_tree(mixed_values)(w)),
            lambda w, t: gram(factor(w, t)) + jnp.diag(mixed_values(w, t)),
            True,
        ),
        "gram plus elementwise": Case(
            lambda w: fields.Gram(thin(w), diagonal_part=in_tree(diag_values)(w), elementwise=True),
            lambda w, t: gram(thin(w)) + jnp.diag(diag_values(w, t)),
            True,
        ),
        "skew constant": Case(lambda w: fields.Skew(C(w)), lambda w, t: skew_of(C(w)), is_skew=True),
        "skew function": Case(
            lambda w: fields.Skew(of_theta(square)(w)), lambda w, t: skew_of(square(w, t)), is_skew=True
        ),
        "operator": Case(lambda w: fields.Operator(product(w)), square),
        "operator transposed": Case(lambda w: fields.Operator(product(w)).T, lambda w, t: square(w, t).T),
        "sum": Case(
            lambda w: fields.Gram(of_theta(factor)(w)) + fields.Elementwise(in_tree(diag_values)(w)) + 0.5,
            lambda w, t: gram(factor(w, t)) + jnp.diag(diag_values(w, t)) + 0.5 * eye(t),
            True,
        ),
        "sum of diagonals": Case(
            lambda w: fields.Elementwise(in_tree(diag_values)(w)) + fields.Scalar(of_theta(number)(w)),
            lambda w, t: jnp.diag(diag_values(w, t)) + number(w, t) * eye(t),
            True,
        ),
        "sum with zero": Case(
            lambda w: fields.Zero() + fields.Dense(gram(C(w))), lambda w, t: gram(C(w)), True
        ),
        "sum of skews": Case(
            lambda w: fields.Skew(of_theta(square)(w)) + fields.Skew(C(w)),
            lambda w, t: skew_of(square(w, t)) + skew_of(C(w)),
            is_skew=True,
        ),
        "scaled": Case(
            lambda w: 2.5 * fields.Gram(of_theta(factor)(w)), lambda w, t: 2.5 * gram(factor(w, t)), True
        ),
        "negative": Case(lambda w: -fields.Dense(of_theta(square)(w)), lambda w, t: -square(w, t)),
        "negative skew": Case(
            lambda w: -fields.Skew(of_theta(square)(w)), lambda w, t: -skew_of(square(w, t)), is_skew=True
        ),
    }


def rectangular(w, theta):
    return smooth(w, 7, flat(theta), 6).reshape(2, 3)


def column(w, theta):
    return mixed_values(w, theta)[:, None]


def elementwise_column(w, theta):
    return diag_values(w, theta)[:, None]


OTHER_CASES: dict[str, tuple[Layout, Case]] = {
    "dense rectangular": (THETA_TO_S, Case(lambda w: fields.Dense(of_theta(rectangular)(w)), rectangular)),
    "dense rectangular transposed": (
        Layout(9, named_state, "theta", "s"),
        Case(lambda w: fields.Dense(of_theta(rectangular)(w)).T, lambda w, t: rectangular(w, t).T),
    ),
    "dense rectangular constant": (
        THETA_TO_S,
        Case(lambda w: fields.Dense(w[:6].reshape(2, 3)), lambda w, t: w[:6].reshape(2, 3)),
    ),
    "dense row by its transpose": (
        THETA_TO_S,
        Case(lambda w: fields.Dense(lambda theta: rectangular(w, theta).T).T, rectangular),
    ),
    "operator rectangular": (
        THETA_TO_S,
        Case(lambda w: fields.Operator(lambda z, v: rectangular(w, z["theta"]) @ flat(v)), rectangular),
    ),
    "operator with its divergence": (
        THETA_TO_S,
        Case(
            lambda w: fields.Operator(
                lambda z, v: rectangular(w, z["theta"]) @ flat(v),
                gamma=lambda z: jnp.einsum(
                    "ijj->i", jax.jacrev(lambda x: rectangular(w, like(z["theta"], x)))(flat(z["theta"]))
                ),
            ),
            rectangular,
        ),
    ),
    "operator rectangular transposed": (
        Layout(9, named_state, "theta", "s"),
        Case(
            lambda w: fields.Operator(lambda z, v: rectangular(w, z["theta"]) @ flat(v)).T,
            lambda w, t: rectangular(w, t).T,
        ),
    ),
    "column": (XI_TO_THETA, Case(lambda w: fields.Column(in_tree(mixed_values)(w)), column)),
    "column constant": (
        XI_TO_THETA,
        Case(
            lambda w: fields.Column({"w": w[:2], "b": w[2]}),
            lambda w, t: jnp.stack([w[2], w[0], w[1]])[:, None],
        ),
    ),
    "row": (
        THETA_TO_XI,
        Case(lambda w: fields.Column(in_tree(mixed_values)(w)).T, lambda w, t: column(w, t).T),
    ),
    "row elementwise": (
        THETA_TO_XI,
        Case(
            lambda w: fields.Column(in_tree(diag_values)(w), elementwise=True).T,
            lambda w, t: elementwise_column(w, t).T,
        ),
    ),
    "column elementwise": (
        XI_TO_THETA,
        Case(lambda w: fields.Column(in_tree(diag_values)(w), elementwise=True), elementwise_column),
    ),
}


def relative(a, b):
    """The largest difference of two arrays, in units of the larger of 1 and their size."""
    return jnp.max(jnp.abs(a - b)) / jnp.maximum(1.0, jnp.max(jnp.abs(b)))


def all_signs(tree):
    """All 2^d trees of signs in the structure of `tree`, stacked."""
    x = flat(tree)
    signs = jnp.asarray(list(itertools.product((-1.0, 1.0), repeat=x.size)))
    return jax.vmap(lambda s: like(tree, s))(signs)


def root_matrix(field, z, row, flatten=flat):
    """L, by the noise that each unit vector of noise gives."""
    shapes = field.noise_like(z, row)
    zeros = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
    x, back = ravel_pytree(zeros)
    if x.size == 0:
        return jnp.zeros((flatten(field.sqrt_mv(z, zeros, row)).size, 1))
    return jax.vmap(lambda e: flatten(field.sqrt_mv(z, back(e), row)))(jnp.eye(x.size)).T


def errors_of(layout: Layout, case: Case, w, x, v) -> dict[str, Any]:
    """Everything that the field does, compared with its matrix; zero where it is right."""
    z, row, col = layout.state(x), layout.row, layout.column
    field = case.field(w)
    variable = "theta" if isinstance(z, dict) and "theta" in z else None

    def matrix_at(state):
        return case.matrix(w, layout.get(state, variable))

    A = matrix_at(z)
    z_col, z_row = layout.get(z, col), layout.get(z, row)
    u, y = v[: A.shape[1]], v[: A.shape[0]]
    exact = field.divergence(z, row, col)
    J = jax.jacfwd(lambda c: matrix_at(layout.put(z, col, like(z_col, c))))(flat(z_col))
    out = {
        "as_matrix": relative(field.as_matrix(z, row, col), A),
        "mv": relative(flat(field.mv(z, like(z_col, u), row, col)), A @ u),
        "transpose": relative(flat(field.transpose().mv(z, like(z_row, y), col, row)), A.T @ y),
        "divergence": relative(flat(exact), jnp.einsum("ijj->i", J)),
        "transpose's divergence": relative(
            flat(field.T.divergence(z, col, row)),
            jnp.einsum(
                "jij->i",
                jax.jacfwd(lambda c: matrix_at(layout.put(z, row, like(z_row, c))))(flat(z_row)),
            ),
        ),
    }
    probes = all_signs(z_col)

    def whole(p):
        return layout.put(jax.tree.map(jnp.ones_like, z), col, p)

    estimates = jax.vmap(lambda p: flat(field.divergence(z, row, col, whole(p))))(probes)
    out["probe"] = relative(jnp.mean(estimates, axis=0), flat(exact))
    if case.is_diffusion and row == col:
        L = root_matrix(field, z, row)
        out["square root"] = relative(L @ L.T, A)
    if case.is_skew:
        out["x·Qx"] = jnp.abs(u @ flat(field.mv(z, like(z_col, u), row, col)))
    return out


def numbers(seed: int, n: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=n)


@cache
def compiled(layout_name: str, kind: str):
    if layout_name == "other kinds":
        layout, case = OTHER_CASES[kind]
    else:
        layout = SQUARE[layout_name]
        z = layout.state(jnp.zeros(layout.size))
        example = layout.get(z, layout.row)
        case = square_cases(flat(example).size, example)[kind]
    return layout, case, quick_jit(lambda w, x, v: errors_of(layout, case, w, x, v))


KINDS = [
    *(("tree", kind) for kind in square_cases(1, 0.0)),
    *(
        ("block", kind)
        for kind in ("diagonal function", "elementwise", "dense function", "gram thin", "operator")
    ),
    *(("array", kind) for kind in ("scalar function", "elementwise", "gram plus diagonal", "skew function")),
    *(("off", kind) for kind in ("scalar function", "elementwise", "diagonal function", "dense function")),
    *(("other", kind) for kind in ("scalar function", "elementwise", "gram thin", "operator")),
    *(("other kinds", kind) for kind in OTHER_CASES),
]


# Every kind is tried on a tree; of the other layouts one that reads the most of it is in every run.
REPEATS = [(layout, kind) for layout, kind in KINDS if layout in ("block", "array", "other")]
REPEATS = [case for case in REPEATS if case[1] not in ("gram thin", "gram plus diagonal")]


@pytest.mark.parametrize(
    ("layout", "kind"),
    [
        pytest.param(
            *case,
            marks=pytest.mark.long("fields::a_field_does_what_its_matrix_does") if case in REPEATS else (),
        )
        for case in KINDS
    ],
    ids=lambda name: name,
)
@settings(max_examples=5)
@given(seed=SEEDS)
def test_a_field_does_what_its_matrix_does(layout, kind, seed):
    layout, _, errors = compiled(layout, kind)
    found = errors(numbers(seed, 60), 0.7 * numbers(seed + 1, layout.size), numbers(seed + 2, 9))
    # A singular matrix has eigenvalues of size 1e-16, whose root is 1e-8 and whose square is 1e-16 again.
    for action, error in found.items():
        assert float(error) < 1e-11, f"{action}: {float(error)}"


def assemble(blocks: dict[tuple[str, str], Any]):
    """A matrix over the named state from its blocks."""
    sizes = {"theta": 3, "r": 3, "s": 2, "xi": 1}
    rows = [[blocks.get((i, j), jnp.zeros((sizes[i], sizes[j]))) for j in ORDER] for i in ORDER]
    return jnp.block(rows)


def skew_blocks(w):
    """A curl with blocks of every kind, and the blocks as matrices."""

    def by_r(r):
        return like(r, diag_values(w, r))

    def mixed(theta, r):
        return like(r, smooth(w, 3, jnp.concatenate([flat(theta), flat(r)]), 3))

    declared = {
        ("theta", "theta"): fields.Skew(of_theta(square)(w)),
        ("r", "theta"): fields.Elementwise(by_r),
        ("s", "theta"): fields.Dense(of_theta(rectangular)(w)),
        ("r", "xi"): fields.Column(mixed),
        ("s", "r"): fields.Operator(lambda z, v: rectangular(w, z["r"]) @ flat(v)),
        ("xi", "theta"): fields.Column(in_tree(diag_values)(w), elementwise=True).T,
    }

    def matrices(z):
        lower = {
            ("theta", "theta"): skew_of(square(w, z["theta"])),
            ("r", "theta"): jnp.diag(diag_values(w, z["r"])),
            ("s", "theta"): rectangular(w, z["theta"]),
            ("r", "xi"): flat(mixed(z["theta"], z["r"]))[:, None],
            ("s", "r"): rectangular(w, z["r"]),
            ("xi", "theta"): diag_values(w, z["theta"])[None, :],
        }
        return assemble(lower | {(j, i): -A.T for (i, j), A in lower.items() if i != j})

    return fields.skew(declared), matrices


def diagonal_blocks(w):
    """A diffusion without blocks off the diagonal, one variable without noise."""

    def whole(z):
        return number(w, flat_state(z))

    declared = {
        ("theta", "theta"): fields.Gram(of_theta(factor)(w), diagonal_part=0.2),
        ("r", "r"): fields.Dense(lambda theta, r: gram(square(w, (theta, r))[:3])),
        ("xi", "xi"): fields.Scalar(whole),
    }

    def matrices(z):
        return assemble(
            {
                ("theta", "theta"): gram(factor(w, z["theta"])) + 0.2 * jnp.eye(3),
                ("r", "r"): gram(square(w, (z["theta"], z["r"]))[:3]),
                ("xi", "xi"): whole(z)[None, None],
            }
        )

    return fields.symmetric(declared), matrices


def coupled_blocks(w):
    """A diffusion with blocks off the diagonal, singular: F Fᵀ for a thin F(theta) over all variables."""

    def F(theta):
        return smooth(w, 2, flat(theta), 18).reshape(9, 2)

    places = {"theta": slice(0, 3), "r": slice(3, 6), "s": slice(6, 8), "xi": slice(8, 9)}

    def block(i, j):
        return fields.Dense(lambda theta: F(theta)[places[i]] @ F(theta)[places[j]].T)

    pairs = [(i, j) for n, i in enumerate(ORDER) for j in ORDER[: n + 1]]
    return fields.symmetric({pair: block(*pair) for pair in pairs}), lambda z: gram(F(z["theta"]))


def plain_diagonal_blocks(w):
    declared = {("r", "r"): 0.7, ("theta", "theta"): fields.Elementwise(in_tree(diag_values)(w))}

    def matrices(z):
        return assemble(
            {("r", "r"): 0.7 * jnp.eye(3), ("theta", "theta"): jnp.diag(diag_values(w, z["theta"]))}
        )

    return fields.symmetric(declared), matrices


def scaled_sum_of_blocks(w):
    (A, matrix_A), (B, matrix_B) = diagonal_blocks(w), plain_diagonal_blocks(w)
    return 0.5 * A + B, lambda z: 0.5 * matrix_A(z) + matrix_B(z)


def whole_errors(make, is_skew, w, x, v):
    field, matrices = make(w)
    z = named_state(x)
    in_order = flat_state(z)  # the order of the library, which is not that of named_state's argument

    def back(y):
        return {
            "theta": like(z["theta"], y[:3]),
            "r": like(z["r"], y[3:6]),
            "s": y[6:8],
            "xi": y[8],
        }

    A = matrices(z)
    J = jax.jacfwd(lambda y: matrices(back(y)))(in_order)
    exact = flat_state(field.divergence(z))
    signs = jnp.asarray(list(itertools.product((-1.0, 1.0), repeat=9)))
    estimates = jax.vmap(lambda s: flat_state(field.divergence(z, probe=back(s))))(signs)
    out = {
        "as_matrix": relative(field.as_matrix(z), A),
        "mv": relative(flat_state(field.mv(z, back(v))), A @ v),
        "transpose": relative(flat_state(field.T.mv(z, back(v))), A.T @ v),
        "divergence": relative(exact, jnp.einsum("ijj->i", J)),
        "transpose's divergence": relative(flat_state(field.T.divergence(z)), jnp.einsum("jij->i", J)),
        "probe": relative(jnp.mean(estimates, axis=0), exact),
    }
    if is_skew:
        out["x·Qx"] = jnp.abs(v @ flat_state(field.mv(z, back(v))))
    else:
        L = root_matrix(field, z, None, flat_state)
        out["square root"] = relative(L @ L.T, A)
        diagonal = field.diagonal(z)
        if diagonal is not None:
            out["diagonal"] = relative(jnp.diag(flat_state(diagonal)), A)
    return out


@cache
def compiled_whole(make, is_skew):
    return quick_jit(lambda w, x, v: whole_errors(make, is_skew, w, x, v))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "is_skew"),
    [
        (skew_blocks, True),
        (diagonal_blocks, False),
        (coupled_blocks, False),
        (plain_diagonal_blocks, False),
        long_case(
            "fields::blocks_do_what_the_matrix_put_together_from_them_does", scaled_sum_of_blocks, False
        ),
    ],
)
@settings(max_examples=5)
@given(seed=SEEDS)
def test_blocks_do_what_the_matrix_put_together_from_them_does(make, is_skew, seed):
    found = compiled_whole(make, is_skew)(numbers(seed, 60), 0.7 * numbers(seed + 1, 9), numbers(seed + 2, 9))
    for action, error in found.items():
        assert float(error) < 1e-11, f"{action}: {float(error)}"


def test_blocks_know_what_they_are():
    assert fields.skew({("r", "theta"): 1.0}).is_skew
    assert not fields.symmetric({("r", "r"): 1.0}).is_skew
    J = np.array([[0.0, 1.0], [-1.0, 0.0]])
    assert fields.is_skew_field(-2.0 * fields.Dense(J) + fields.Skew(J))
    assert not fields.is_skew_field(fields.Dense(J + np.eye(2)))
    assert not fields.is_skew_field(fields.Dense(1e-9 * np.eye(2)))  # small is not the same as skew
    assert fields.symmetric({("r", "r"): 2.0}).is_constant
    assert not fields.symmetric({("r", "r"): fields.Scalar(lambda theta: theta)}).is_constant


def test_a_variable_without_a_diffusion_takes_no_noise():
    z = named_state(jnp.zeros(9))
    assert set(fields.symmetric({("r", "r"): 2.0}).noise_like(z)) == {"r"}
    assert fields.Zero().noise_like(z) is None
    assert jax.tree.leaves(fields.Gram(jnp.ones((3, 1))).noise_like(z, "r"))[0].shape == (1,)


def test_the_root_of_a_matrix_that_has_none_is_not_a_number():
    indefinite = jnp.diag(jnp.array([1.0, -0.1]))
    for field in (fields.Dense(indefinite), fields.Dense(lambda z: indefinite), fields.Scalar(-1.0)):
        assert bool(jnp.any(jnp.isnan(field.sqrt_mv(jnp.zeros(2), jnp.ones(2)))))
    semidefinite = fields.Dense(jnp.diag(jnp.array([1.0, -1e-17])))
    np.testing.assert_allclose(semidefinite.sqrt_mv(jnp.zeros(2), jnp.ones(2)), [1.0, 0.0], atol=1e-15)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_a_field_keeps_the_precision_of_the_state(dtype):
    """Also where its functions and constants are of another: NumPy's constants are double."""
    x = jnp.array([0.3, -0.2], dtype)
    constant = np.array([[1.0, 0.2], [0.2, 2.0]])
    made = [
        fields.Scalar(2.0),
        fields.Scalar(lambda theta: 1),
        fields.Scalar(lambda theta: np.float64(2.0) * jnp.sum(theta**2)),
        fields.Diagonal(np.ones(2)),
        fields.Elementwise(lambda theta: theta * np.ones(2)),
        fields.Diagonal(lambda theta: jnp.roll(theta, 1) * np.ones(2)),
        fields.Dense(constant),
        fields.Dense(lambda theta: jnp.outer(theta, theta) + constant),
        fields.Gram(constant, diagonal_part=np.ones(2)),
        fields.Gram(lambda theta: jnp.outer(theta, theta) + constant),
        fields.Gram(lambda theta: np.eye(2, dtype=int)),
        fields.Skew(lambda theta: jnp.outer(theta, theta) * constant),
        fields.Operator(lambda z, v: (jnp.outer(z, z) + constant) @ v),
        fields.Dense(constant) + fields.Scalar(1.0),
    ]
    probe = jnp.ones(2, dtype)
    for field in made:
        assert field.mv(x, x).dtype == dtype, field
        assert field.divergence(x).dtype == dtype, field
        assert field.divergence(x, probe=probe).dtype == dtype, field
        if not field.is_skew:
            noise = jax.tree.map(lambda s: jnp.ones(s.shape, s.dtype), field.noise_like(x))
            assert field.sqrt_mv(x, noise).dtype == dtype, field


def test_fields_can_be_made_and_used_inside_jit():
    J, C = np.array([[0.0, 1.0], [-1.0, 0.0]]), np.array([[2.0, 0.5], [0.5, 1.0]])

    @jax.jit
    def inside(x):
        Q, D = fields.skew({("x", "x"): J}), fields.symmetric({("x", "x"): C})
        z = {"x": x}
        return Q.mv(z, z)["x"], D.sqrt_mv(z, z)["x"]

    x = jnp.array([0.3, -0.7])
    Qx, Lx = inside(x)
    np.testing.assert_allclose(Qx, J @ x, rtol=1e-14)
    np.testing.assert_allclose(Lx, fields.symmetric_root(jnp.asarray(C)) @ x, rtol=1e-12)
    np.testing.assert_allclose(jax.jit(fields.Dense(C).mv)(x, x), C @ x, rtol=1e-14)


# No more than it needs ------------------------------------------------------------------------------------


def equations(jaxpr):
    """All equations of a jaxpr and of those within it."""
    for equation in jaxpr.eqns:
        yield equation
        for value in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda p: hasattr(p, "eqns")):
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                yield from equations(inner)


def largest_array(function, *arguments) -> int:
    """The size of the largest array that appears in a computation."""
    jaxpr = jax.make_jaxpr(function)(*arguments).jaxpr
    outputs = [v.aval for equation in equations(jaxpr) for v in equation.outvars]
    return max(int(np.prod(aval.shape)) for aval in outputs if hasattr(aval, "shape"))


LARGE = 100_000
CHEAP = {
    "zero": fields.Zero(),
    "scalar": fields.Scalar(lambda theta: jnp.sqrt(1 + jnp.sum(theta**2))),
    "diagonal": fields.Diagonal(lambda theta: jnp.exp(jnp.roll(theta, 1))),
    "elementwise": fields.Elementwise(lambda theta: 1 + theta**2),
    "scaled sum": 2.0 * (fields.Scalar(1.0) + fields.Elementwise(lambda theta: 1 + theta**2)),
    "gram": fields.Gram(lambda theta: jnp.stack([theta, theta**2], axis=1), diagonal_part=0.1),
}


@pytest.mark.parametrize("kind", CHEAP)
def test_no_square_array_for_a_field_that_is_not_dense(kind):
    field, x = CHEAP[kind], jnp.zeros(LARGE)
    noise = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), field.noise_like(x))
    for action in (
        lambda x: field.mv(x, x),
        lambda x: field.divergence(x),
        lambda x: field.divergence(x, probe=jnp.ones_like(x)),
        lambda x: field.sqrt_mv(x, noise),
    ):
        assert largest_array(action, x) <= 4 * LARGE


@pytest.mark.parametrize("kind", ["scalar", "elementwise"])
def test_no_square_array_for_the_dynamics_of_such_fields(kind):
    dynamics = fk.dynamics.riemann(lambda theta: jnp.sum(theta**4), CHEAP[kind], CHEAP[kind])
    z = {"theta": jnp.zeros(LARGE), "r": jnp.zeros(LARGE)}
    step = fk.samplers.recipe(dynamics, 0.1, noise_estimate={("r", "r"): 0.1}).step
    assert (
        largest_array(step, jax.random.key(0), fk.samplers.SamplerState(z, jnp.zeros((), int))) <= 4 * LARGE
    )


def temporary_bytes(function, *arguments) -> int:
    return jax.jit(function).lower(*arguments).compile().memory_analysis().temp_size_in_bytes


@pytest.mark.parametrize(
    "field",
    [
        fields.Dense(lambda theta: jnp.sin(jnp.outer(theta, theta + 1))),
        fields.Skew(lambda theta: jnp.sin(jnp.outer(theta, theta + 1))),
        fields.Operator(lambda z, v: jnp.sin(jnp.outer(z, z + 1)) @ v),
    ],
    ids=["dense", "skew", "operator"],
)
def test_the_divergence_of_a_dense_field_needs_no_rank_three_array(field):
    d = 200
    x = jnp.linspace(0.0, 1.0, d)
    assert largest_array(field.divergence, x) <= d * d
    assert temporary_bytes(field.divergence, x) <= 8 * d * d * 8  # eight d×d arrays of double precision
    # The negative control: what a Jacobian of the whole matrix takes.
    assert largest_array(lambda x: jnp.einsum("ijj->i", jax.jacfwd(field.as_matrix)(x)), x) >= d**3


def test_a_constant_field_adds_nothing_to_the_drift(monkeypatch):
    z = {"theta": jnp.ones(2), "r": jnp.ones(2)}
    C = jnp.array([[2.0, 0.5], [0.5, 1.0]])

    def potential(theta):
        return jnp.sum(theta**4)

    constant = fk.dynamics.underdamped(potential, friction=C)
    elsewhere = fk.dynamics.underdamped(
        potential, friction=fields.Scalar(lambda theta: 1 + jnp.sum(theta**2))
    )
    varying = fk.dynamics.riemann(potential, 1.0, fields.Elementwise(lambda theta: 1 + theta**2))

    def by_hand(z):
        dH = jax.grad(lambda z: potential(z["theta"]) + jnp.sum(z["r"] ** 2) / 2)(z)
        return {"theta": dH["r"], "r": -C @ dH["r"] - dH["theta"]}

    jaxpr = jax.make_jaxpr(constant.drift)(z).jaxpr

    def work(jaxpr):
        return sum(e.primitive.name in ("dot_general", "while", "scan", "pjit") for e in equations(jaxpr))

    assert work(jaxpr) == work(jax.make_jaxpr(by_hand)(z).jaxpr)

    def forbidden(self, z, probe=None):
        raise AssertionError("Γ was computed")

    monkeypatch.setattr(fk.Dynamics, "gamma", forbidden)
    constant.drift(z)
    elsewhere.drift(z)  # it depends on theta, but no derivative by r is wanted of it
    with pytest.raises(AssertionError, match="Γ was computed"):
        varying.drift(z)


def test_a_block_is_not_differentiated_by_a_variable_that_it_does_not_take():
    called = []

    def friction(theta):
        called.append(theta)
        return 1 + jnp.sum(theta**2)

    D = fields.symmetric({("r", "r"): fields.Scalar(friction)})
    z = {"theta": jnp.ones(2), "r": jnp.ones(2)}
    np.testing.assert_array_equal(D.divergence(z)["r"], np.zeros(2))
    assert not called


def test_a_probe_is_ignored_where_the_exact_divergence_is_as_cheap():
    x = jnp.array([0.5, -1.0])
    for field in (CHEAP["scalar"], CHEAP["elementwise"], fields.Column(lambda r: r, elementwise=True)):
        row = {"row": "xi", "column": "r"} if isinstance(field, fields.Column) else {}
        field = field.T if row else field
        z = {"xi": jnp.array(0.0), "r": x} if row else x
        probe = jax.tree.map(lambda a: 7.0 * jnp.ones_like(a), z)
        np.testing.assert_array_equal(field.divergence(z, **row, probe=probe), field.divergence(z, **row))


def test_a_column_may_depend_on_its_own_scalar():
    """Then the column itself, and not only its transpose, has a divergence."""
    z = {"r": jnp.array([0.3, 0.4]), "xi": jnp.array(0.7)}
    column = fields.Column(lambda xi, r: r * xi**2)
    np.testing.assert_allclose(column.divergence(z, "r", "xi"), 2 * 0.7 * z["r"], rtol=1e-14)
    np.testing.assert_allclose(column.T.divergence(z, "xi", "r"), 2 * 0.7**2, rtol=1e-14)


def test_an_operator_beside_variables_named_like_z_has_its_divergence():
    z = {"z1": jnp.array([1.0, 2.0]), "z2": jnp.array([3.0, 4.0])}
    Q = fields.skew({("z1", "z2"): fields.Operator(lambda z, v: z["z2"] ** 2 * v)})
    np.testing.assert_allclose(Q.divergence(z)["z1"], [6.0, 8.0])
    z = {"z": jnp.array([1.0, 2.0]), "r": jnp.array([3.0, 4.0])}
    Q = fields.skew({("z", "r"): fields.Operator(lambda z, v: z["r"] ** 2 * v)})
    np.testing.assert_allclose(Q.divergence(z)["z"], [6.0, 8.0])


def test_a_number_and_a_matrix_stand_for_fields():
    assert isinstance(fields.as_field(2), fields.Scalar)
    assert isinstance(fields.as_field(np.eye(2)), fields.Dense)
    field = fields.Zero()
    assert fields.as_field(field) is field
