"""Theorem 1 as an identity, the named dynamics against the textbook, the noise against its covariance."""

from functools import cache

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
from fokker.dynamics import (
    diagonal_thermostat,
    hamiltonian_flow,
    langevin,
    matrix_thermostat,
    riemann,
    thermostat,
    underdamped,
)
from marks import long_case

SEEDS = st.integers(0, 2**32 - 1)
TEMPERATURES = (1.0, 0.3, 2.5)


@pytest.fixture(autouse=True)
def _double(x64):
    """Every test in this file is exact."""


def numbers(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def flat(tree):
    return ravel_pytree(tree)[0]


def flatten(z):
    """A state as a vector: theta first, then by the alphabet; independent of the library's own."""
    if not isinstance(z, dict):
        return flat(z)
    return jnp.concatenate([flat(z[name]) for name in sorted(z, key=lambda name: (name != "theta", name))])


def unflatten(x, example):
    """The inverse of `flatten`."""
    if not isinstance(example, dict):
        return ravel_pytree(example)[1](x)
    z, start = {}, 0
    for name in sorted(example, key=lambda name: (name != "theta", name)):
        size = flat(example[name]).size
        z[name] = ravel_pytree(example[name])[1](x[start : start + size])
        start += size
    return z


def smooth(w, salt, x, n):
    """n smooth functions of the vector x, of coefficients w."""
    m = x.size
    c = jnp.resize(jnp.roll(w, 13 * salt), n * (m + 2))
    return c[n * m : n * m + n] * jnp.sin(c[: n * m].reshape(n, m) @ x + c[n * m + n :])


# The residual, written here once more ---------------------------------------------------------------------


def residual(f, D, H, x, *others):
    """-∇·F + F·∇H with F = f - ∇·D + D∇H, term by term: K(f), K(∇·D), K(D∇H), then K of `others`.

    exp(-H) is stationary for dx = f dt + √(2D) dW if and only if K(f) - K(∇·D) + K(D∇H) = 0, where
    K(v) = -∇·v + v·∇H: the current f p - ∇·(D p) is F p, and its divergence -K(F) p. D and H contain the
    temperature. The second result is the sum of the absolute values of all that is summed.
    """
    gradient = jax.grad(H)

    def vectors(x):
        divergence = jnp.einsum("ijj->i", jax.jacfwd(D)(x))
        return jnp.stack([f(x), divergence, D(x) @ gradient(x), *(v(x) for v in others)])

    spread = jnp.einsum("tii->ti", jax.jacfwd(vectors)(x))
    terms = jnp.stack([-spread, vectors(x) * gradient(x)[None, :]])
    return jnp.sum(terms, axis=(0, 2)), jnp.sum(jnp.abs(terms[:, :3])) + 1e-12


def pieces(dynamics, example):
    """f, D and Γ of a Dynamics as functions of a vector, D and Γ without the temperature."""

    def D(x):
        return dynamics.D.as_matrix(unflatten(x, example))

    def D_and_Q(x):
        return D(x) + dynamics.Q.as_matrix(unflatten(x, example))

    def gamma(x):
        return jnp.einsum("ijj->i", jax.jacfwd(D_and_Q)(x))

    return lambda x: flatten(dynamics.drift(unflatten(x, example))), D, gamma


def residuals(dynamics, hamiltonian, example, x):
    """Relative residuals of a Dynamics and of the ways to get it wrong; the sizes of Γ, of D and of T - 1."""
    f, D, gamma = pieces(dynamics, example)
    T = dynamics.temperature
    (drift, noise, friction, correction), scale = residual(
        f, lambda x: T * D(x), lambda x: hamiltonian(unflatten(x, example)) / T, x, gamma
    )
    right = drift - noise + friction
    found = {
        "right": right,
        "no Γ": right - T * correction,
        "-Γ": right - 2 * T * correction,
        "Γ without T": right + (1 - T) * correction,
        "double friction": right - friction,
        "double noise": right - noise + friction,
        "noise without T": drift + (friction - noise) / T,
    }
    sizes = {"Γ": jnp.max(jnp.abs(gamma(x))), "D": jnp.max(jnp.abs(D(x))), "T": jnp.abs(T - 1)}
    written = flatten(dynamics.diffusion(unflatten(x, example))) - (T * D(x)).ravel()
    return {name: jnp.abs(r) / scale for name, r in found.items()}, sizes, jnp.max(jnp.abs(written))


# Random dynamics ------------------------------------------------------------------------------------------


def gram(L):
    return L @ L.T


def energy(w, x):
    """Not quadratic, and confining."""
    return jnp.sum(x**4) / 10 + jnp.sum(smooth(w, 9, x, 3)) + x @ x / 2


def positive(w, salt=0):
    """A diagonal whose entries depend on their own coordinate."""
    return lambda theta: 1.2 + jnp.sin(theta * jnp.resize(jnp.roll(w, salt), theta.size) + 0.4)


def matrix(w, salt, n, k=None):
    return lambda theta: smooth(w, salt, theta, n * (k or n)).reshape(n, k or n)


def vector_case(d, D, Q):
    """Dynamics over an array of d numbers."""

    def make(w):
        def hamiltonian(z):
            return energy(w, z)

        T = jnp.exp(w[0] / 2)
        return fk.Dynamics(hamiltonian, D=D(w), Q=Q(w), temperature=T), hamiltonian

    return make, lambda x: x, d


def skew_operator(w, d):
    def product(z, v):
        lower = jnp.tril(matrix(w, 4, d)(z), -1)
        return lower @ v - lower.T @ v

    return fields.Operator(product)


def named(x):
    return {"theta": x[:2], "r": x[2:4], "xi": x[4]}


def over_all(z):
    return jnp.concatenate([z["theta"], z["r"], z["xi"][None]])


def many_blocks(w):
    """Blocks that depend on their own variables and on the others'."""

    def together(theta, r):
        return jnp.concatenate([theta, r])

    return (
        {
            ("theta", "theta"): fields.Elementwise(lambda theta, r: (1 + jnp.sum(r**2)) * positive(w)(theta)),
            ("r", "r"): fields.Gram(lambda theta, r: smooth(w, 2, together(theta, r), 2).reshape(2, 1), 0.1),
            ("xi", "xi"): fields.Scalar(lambda z: jnp.exp(smooth(w, 1, over_all(z), 1)[0])),
        },
        {
            ("r", "theta"): fields.Dense(lambda theta, r: smooth(w, 3, together(theta, r), 4).reshape(2, 2)),
            ("r", "xi"): fields.Column(lambda r, xi: xi * matrix(w, 4, 2, 1)(r)[:, 0]),
            ("xi", "theta"): fields.Column(lambda theta: positive(w, 5)(theta), elementwise=True).T,
            ("theta", "theta"): fields.Skew(lambda theta: matrix(w, 6, 2)(theta)),
        },
    )


def coupled_blocks(w):
    """D is F Fᵀ for a factor over two variables, so that it has blocks off the diagonal and is singular."""

    def F(theta):
        return matrix(w, 2, 4, 3)(theta)

    D = {
        ("theta", "theta"): fields.Dense(lambda theta: gram(F(theta)[:2])),
        ("r", "theta"): fields.Dense(lambda theta: F(theta)[2:] @ F(theta)[:2].T),
        ("r", "r"): fields.Dense(lambda theta: gram(F(theta)[2:])),
    }
    return D, {("theta", "r"): fields.Scalar(lambda theta, r: jnp.sin(theta @ r))}


def named_case(blocks):
    def make(w):
        D, Q = blocks(w)

        def hamiltonian(z):
            return energy(w, over_all(z))

        return fk.Dynamics(hamiltonian, D=D, Q=Q, temperature=jnp.exp(w[0] / 2)), hamiltonian

    return make, named, 5


def none(w):
    return None


CASES = {
    "1-D elementwise": vector_case(1, lambda w: fields.Elementwise(positive(w)), none),
    "2-D only Q": vector_case(2, none, lambda w: fields.Skew(matrix(w, 4, 2))),
    "2-D dense": vector_case(
        2, lambda w: fields.Dense(lambda z: gram(matrix(w, 3, 2)(z))), lambda w: fields.Skew(matrix(w, 4, 2))
    ),
    "3-D gram": vector_case(
        3,
        lambda w: fields.Gram(matrix(w, 2, 3, 1), positive(w), elementwise=True),
        lambda w: fields.Skew(matrix(w, 4, 3)) + 0.7 * fields.Skew(jnp.resize(w, (3, 3))),
    ),
    "6-D diagonal": vector_case(
        6, lambda w: fields.Diagonal(lambda z: jnp.exp(smooth(w, 1, z, 6))), lambda w: skew_operator(w, 6)
    ),
    "blocks": named_case(many_blocks),
    "coupled blocks": named_case(coupled_blocks),
}


@cache
def compiled(name):
    make, example, d = CASES[name]

    def at_points(w, points):
        dynamics, hamiltonian = make(w)
        return jax.vmap(lambda x: residuals(dynamics, hamiltonian, example(points[0]), x))(points)

    return quick_jit(at_points), d


# The fields of the others are among those of test_fields.py.
QUICK = ("1-D elementwise", "2-D dense", "blocks")


@pytest.mark.parametrize(
    "name",
    [
        n
        if n in QUICK
        else long_case("dynamics::theorem_1_holds_for_every_D_and_Q_and_for_nothing_near_it", n)
        for n in CASES
    ],
)
@settings(max_examples=8)
@given(seed=SEEDS)
def test_theorem_1_holds_for_every_D_and_Q_and_for_nothing_near_it(name, seed):
    at_points, d = compiled(name)
    found, sizes, written = at_points(numbers(seed, 60), 0.8 * numbers(seed + 1, 6, d))
    assert float(jnp.max(found["right"])) < 1e-10
    assert float(jnp.max(written)) < 1e-14
    T_is_another, gamma, D = (
        float(sizes["T"][0]) > 0.02,
        float(jnp.max(sizes["Γ"])),
        float(jnp.max(sizes["D"])),
    )
    nontrivial = {
        "no Γ": gamma > 0.02,
        "-Γ": gamma > 0.02,
        "Γ without T": gamma > 0.02 and T_is_another,
        "double friction": D > 0.02,
        "double noise": D > 0.02,
        "noise without T": D > 0.02 and T_is_another,
    }
    for mistake, matters in nontrivial.items():
        if matters:  # at one of the points at the least: elsewhere it may cancel
            assert float(jnp.max(found[mistake])) > 1e-4, mistake


@pytest.mark.slow
def test_the_mistakes_that_are_looked_for_do_occur():
    """The conditions in the test above are not all false."""
    for name in CASES:
        at_points, d = compiled(name)
        found, sizes, _ = at_points(numbers(0, 60), 0.8 * numbers(1, 6, d))
        assert float(jnp.max(sizes["Γ"])) > 0.02, name
        assert float(jnp.max(found["no Γ"])) > 1e-3, name
        if name != "2-D only Q":
            assert float(jnp.max(found["double noise"])) > 1e-3, name
            assert float(jnp.max(found["noise without T"])) > 1e-3, name


# Named dynamics -------------------------------------------------------------------------------------------


def U(theta):
    """A potential of any tree, neither quadratic nor symmetric nor separable."""
    x = flat(theta)
    return jnp.sum(x**4) / 4 + jnp.sum(x**3) / 5 + jnp.sin(jnp.sum(x)) + x @ x / 2


def dU(theta):
    return jax.grad(U)(theta)


def add(*trees):
    return jax.tree.map(lambda *x: sum(x), *trees)


def times(c, tree):
    return jax.tree.map(lambda x: c * x, tree)


def g(theta):
    return jax.tree.map(lambda x: 1.3 + jnp.tanh(x), theta)


def dg(theta):
    return jax.tree.map(lambda x: 1 - jnp.tanh(x) ** 2, theta)


def product(a, b):
    return jax.tree.map(jnp.multiply, a, b)


# NumPy's arrays are double where JAX's would be single: the module is read before double precision is on.
TREE = {"w": np.array([0.3, -0.8]), "b": np.array(0.5)}
MOMENTUM = {"w": np.array([-0.4, 0.9]), "b": np.array(0.2)}
VECTOR, MOMENTUM_VECTOR = np.array([0.3, -0.8]), np.array([0.7, 0.4])
MASS = {"w": np.array([2.0, 0.5]), "b": np.array(3.0)}
DENSE = np.array([[2.0, 0.3, 0.1], [0.3, 1.0, -0.2], [0.1, -0.2, 0.7]])


def tree_product(A, tree):
    x, back = ravel_pytree(tree)
    return back(A @ x)


def root_metric(theta):
    x = flat(theta)
    return (
        jnp.diag(1.5 + 0 * x)
        + 0.2 * jnp.outer(jnp.sin(x), jnp.cos(x))
        + 0.2 * jnp.outer(jnp.cos(x), jnp.sin(x))
    )


def div(A, theta):
    x, back = ravel_pytree(theta)
    return back(jnp.einsum("ijj->i", jax.jacfwd(lambda x: A(back(x)))(x)))


def zeros(tree):
    return times(0.0, tree)


def kinetic(z):
    return flat(z["r"]) @ flat(z["r"]) / 2


PAIR = {"theta": TREE, "r": MOMENTUM}

# name: (dynamics of a temperature, state, H(z), drift of the textbook f(z, T), noise D(z) on each variable)
NAMED = {
    "langevin": (
        lambda T: langevin(U, 0.7, T),
        {"theta": TREE},
        lambda z, T: U(z["theta"]),
        lambda z, T: {"theta": times(-0.7, dU(z["theta"]))},
        {"theta": lambda z: 0.7 * jnp.eye(3)},
    ),
    "langevin, dense": (
        lambda T: langevin(U, DENSE, T),
        {"theta": TREE},
        lambda z, T: U(z["theta"]),
        lambda z, T: {"theta": times(-1.0, tree_product(DENSE, dU(z["theta"])))},
        {"theta": lambda z: jnp.asarray(DENSE)},
    ),
    "langevin, elementwise (SGRLD)": (
        lambda T: langevin(U, fields.Elementwise(g), T),
        {"theta": TREE},
        lambda z, T: U(z["theta"]),
        lambda z, T: {
            "theta": add(times(-1.0, product(g(z["theta"]), dU(z["theta"]))), times(T, dg(z["theta"])))
        },
        {"theta": lambda z: jnp.diag(flat(g(z["theta"])))},
    ),
    "langevin, metric (SGRLD)": (
        lambda T: langevin(U, fields.Gram(root_metric), T),
        {"theta": TREE},
        lambda z, T: U(z["theta"]),
        lambda z, T: {
            "theta": add(
                times(-1.0, tree_product(gram(root_metric(z["theta"])), dU(z["theta"]))),
                times(T, div(lambda t: gram(root_metric(t)), z["theta"])),
            )
        },
        {"theta": lambda z: gram(root_metric(z["theta"]))},
    ),
    "hamiltonian flow": (
        lambda T: hamiltonian_flow(U, MASS),
        PAIR,
        lambda z, T: U(z["theta"]) + flat(z["r"]) @ (flat(z["r"]) / flat(MASS)) / 2,
        lambda z, T: {"theta": jax.tree.map(jnp.divide, z["r"], MASS), "r": times(-1.0, dU(z["theta"]))},
        {},
    ),
    "underdamped": (
        lambda T: underdamped(U, 1.7, 2.3, T),
        PAIR,
        lambda z, T: U(z["theta"]) + kinetic(z) / 2.3,
        lambda z, T: {
            "theta": times(1 / 2.3, z["r"]),
            "r": add(times(-1.0, dU(z["theta"])), times(-1.7 / 2.3, z["r"])),
        },
        {"r": lambda z: 1.7 * jnp.eye(3)},
    ),
    "underdamped, matrix of friction, tree of masses": (
        lambda T: underdamped(U, DENSE, MASS, T),
        PAIR,
        lambda z, T: U(z["theta"]) + flat(z["r"]) @ (flat(z["r"]) / flat(MASS)) / 2,
        lambda z, T: {
            "theta": jax.tree.map(jnp.divide, z["r"], MASS),
            "r": add(
                times(-1.0, dU(z["theta"])),
                times(-1.0, tree_product(DENSE, jax.tree.map(jnp.divide, z["r"], MASS))),
            ),
        },
        {"r": lambda z: jnp.asarray(DENSE)},
    ),
    "underdamped, friction of theta": (
        lambda T: underdamped(U, fields.Elementwise(lambda theta: g(theta)), 1.0, T),
        PAIR,
        lambda z, T: U(z["theta"]) + kinetic(z),
        lambda z, T: {
            "theta": z["r"],
            "r": add(times(-1.0, dU(z["theta"])), times(-1.0, product(g(z["theta"]), z["r"]))),
        },
        {"r": lambda z: jnp.diag(flat(g(z["theta"])))},
    ),
    "thermostat (SGNHT)": (
        lambda T: thermostat(U, 1.4, temperature=T),
        {**PAIR, "xi": np.array(0.6)},
        lambda z, T: U(z["theta"]) + kinetic(z) + T * 3 / 2 * (z["xi"] - 1.4) ** 2,
        lambda z, T: {
            "theta": z["r"],
            "r": add(times(-1.0, dU(z["theta"])), times(-z["xi"], z["r"])),
            "xi": flat(z["r"]) @ flat(z["r"]) / (3 * T) - 1,
        },
        {"r": lambda z: 1.4 * jnp.eye(3)},
    ),
    "thermostat, diagonal": (
        lambda T: diagonal_thermostat(U, 1.4, temperature=T),
        {**PAIR, "xi": times(0.5, MOMENTUM)},
        lambda z, T: U(z["theta"]) + kinetic(z) + T * jnp.sum((flat(z["xi"]) - 1.4) ** 2) / 2,
        lambda z, T: {
            "theta": z["r"],
            "r": add(times(-1.0, dU(z["theta"])), times(-1.0, product(z["xi"], z["r"]))),
            "xi": jax.tree.map(lambda r: r**2 / T - 1, z["r"]),
        },
        {"r": lambda z: 1.4 * jnp.eye(3)},
    ),
    "thermostat, matrix": (
        lambda T: matrix_thermostat(U, 1.4, 0.8, T),
        {"theta": VECTOR, "r": MOMENTUM_VECTOR, "xi": np.array([[0.5, 0.2], [-0.3, 1.1]])},
        lambda z, T: U(z["theta"]) + kinetic(z) + 0.8 * T / 2 * jnp.sum((z["xi"] - 1.4 * jnp.eye(2)) ** 2),
        lambda z, T: {
            "theta": z["r"],
            "r": -dU(z["theta"]) - z["xi"] @ z["r"],
            "xi": (jnp.outer(z["r"], z["r"]) / T - jnp.eye(2)) / 0.8,
        },
        {"r": lambda z: 1.4 * jnp.eye(2)},
    ),
    "riemann, elementwise (gSGRHMC)": (
        lambda T: riemann(
            U,
            fields.Elementwise(lambda theta: product(g(theta), g(theta))),
            fields.Elementwise(lambda theta: g(theta)),
            T,
        ),
        PAIR,
        lambda z, T: U(z["theta"]) + kinetic(z),
        lambda z, T: {
            "theta": product(g(z["theta"]), z["r"]),
            "r": add(
                times(-1.0, product(g(z["theta"]), dU(z["theta"]))),
                times(T, dg(z["theta"])),
                times(-1.0, product(product(g(z["theta"]), g(z["theta"])), z["r"])),
            ),
        },
        {"r": lambda z: jnp.diag(flat(g(z["theta"])) ** 2)},
    ),
    "riemann, dense (gSGRHMC)": (
        lambda T: riemann(U, fields.Gram(lambda theta: root_metric(theta)), fields.Dense(root_metric), T),
        PAIR,
        lambda z, T: U(z["theta"]) + kinetic(z),
        lambda z, T: {
            "theta": tree_product(root_metric(z["theta"]), z["r"]),
            "r": add(
                times(-1.0, tree_product(root_metric(z["theta"]), dU(z["theta"]))),
                times(T, div(root_metric, z["theta"])),
                times(-1.0, tree_product(gram(root_metric(z["theta"])), z["r"])),
            ),
        },
        {"r": lambda z: gram(root_metric(z["theta"]))},
    ),
}


def as_double(tree):
    return jax.tree.map(lambda x: jnp.asarray(x, jnp.float64), tree)


@cache
def compiled_named(name):
    make, _, hamiltonian, drift, noisy = NAMED[name]

    def at(T, z):
        dynamics = make(T)
        T = dynamics.temperature  # one where the dynamics takes none
        x = flatten(z)
        f, D, _ = pieces(dynamics, z)
        terms, scale = residual(f, lambda x: T * D(x), lambda x: hamiltonian(unflatten(x, z), T) / T, x)
        R = terms[0] - terms[1] + terms[2]
        blocks = {
            name: noisy[name](z) if name in noisy else jnp.zeros((flat(z[name]).size,) * 2) for name in z
        }
        in_order = sorted(z, key=lambda name: (name != "theta", name))
        rows = [
            [blocks[i] if i == j else jnp.zeros((len(blocks[i]), len(blocks[j]))) for j in in_order]
            for i in in_order
        ]
        gradient = flatten(dynamics.gradient(z)) - flatten(jax.grad(hamiltonian)(z, T))
        return R / scale, flatten(dynamics.drift(z)) - flatten(drift(z, T)), D(x) - jnp.block(rows), gradient

    return quick_jit(at)


# Their fields are those of another dynamics here, or of theorem 1 above.
REPEATS = ("riemann, dense (gSGRHMC)", "langevin, elementwise (SGRLD)")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            n,
            marks=pytest.mark.long("dynamics::a_named_dynamics_is_stationary_and_that_of_the_textbook")
            if n in REPEATS
            else (),
        )
        for n in NAMED
    ],
)
def test_a_named_dynamics_is_stationary_and_that_of_the_textbook(name):
    z = as_double(NAMED[name][1])
    NAMED[name][0](1.0).validate(z)
    for T in TEMPERATURES:
        R, f, D, gradient = compiled_named(name)(T, z)
        assert abs(float(R)) < 1e-13
        for difference in (f, D, gradient):
            np.testing.assert_allclose(difference, np.zeros(difference.shape), atol=1e-13)


def test_temperature_zero_is_descent_without_noise_or_gamma():
    dynamics = langevin(U, fields.Elementwise(g), temperature=0.0)
    z = {"theta": VECTOR}
    np.testing.assert_allclose(dynamics.drift(z)["theta"], -g(VECTOR) * dU(VECTOR), rtol=1e-14)
    kick, shortfall = dynamics.noise(z, z)
    assert not np.any(kick["theta"])
    assert float(shortfall) == 0


def test_dynamics_can_be_jitted_and_mapped_over_temperatures():
    dynamics = riemann(U, fields.Elementwise(g), fields.Elementwise(g))
    z = {"theta": VECTOR, "r": MOMENTUM_VECTOR}
    for method in (dynamics.drift, dynamics.gamma, dynamics.diffusion):
        plain, jitted = flat(method(z)), flat(jax.jit(method)(z))
        np.testing.assert_allclose(jitted, plain, rtol=1e-14)

    def make(T):
        return riemann(U, fields.Elementwise(g), fields.Elementwise(g), T).drift(z)["r"]

    mapped = jax.vmap(make)(jnp.asarray(TEMPERATURES))
    np.testing.assert_allclose(mapped, [make(T) for T in TEMPERATURES], rtol=1e-14)


# The gradient of the potential, replaced ------------------------------------------------------------------


def test_a_replaced_gradient_stands_for_that_of_the_potential_alone():
    """The auxiliary part here depends on theta too, and keeps its own gradient."""

    def auxiliary(theta, r):
        return jnp.sum(r**2 * jnp.exp(theta)) / 2

    H = fk.Hamiltonian(U, auxiliary)
    z = {"theta": VECTOR, "r": MOMENTUM_VECTOR}
    other = jnp.array([10.0, -20.0])
    exact, replaced = H.gradient(z), H.gradient(z, other)
    np.testing.assert_allclose(replaced["theta"], exact["theta"] - dU(VECTOR) + other, rtol=1e-13)
    np.testing.assert_allclose(replaced["r"], exact["r"], rtol=1e-14)
    np.testing.assert_allclose(H.gradient(z, dU(VECTOR))["theta"], exact["theta"], rtol=1e-13)
    np.testing.assert_allclose(float(H(z)), float(U(VECTOR) + auxiliary(VECTOR, MOMENTUM_VECTOR)), rtol=1e-14)

    dynamics = underdamped(U, friction=2.0)
    f, g = dynamics.drift(z), dynamics.drift(z, gradient=other)
    np.testing.assert_allclose(g["r"] - f["r"], dU(VECTOR) - other, rtol=1e-13)
    np.testing.assert_array_equal(g["theta"], f["theta"])


def test_a_replaced_gradient_without_an_auxiliary_part_and_with_another_name():
    H = fk.Hamiltonian(U, position="x")
    z = {"x": VECTOR, "other": jnp.array(1.0)}
    replaced = H.gradient(z, jnp.array([1.0, 2.0]))
    np.testing.assert_array_equal(replaced["x"], [1.0, 2.0])
    assert float(replaced["other"]) == 0.0


def test_a_gradient_is_replaced_only_where_the_potential_is_known():
    z = {"theta": VECTOR}
    with pytest.raises(TypeError, match=r"fk\.Hamiltonian\(potential=U"):
        fk.Dynamics(lambda theta: U(theta), D=1.0).drift(z, gradient=VECTOR)
    with pytest.raises(TypeError, match="no gradient to replace"):
        fk.SDE(lambda theta: {"theta": -theta}, 1.0, lambda theta: U(theta)).drift(z, gradient=VECTOR)
    with pytest.raises(ValueError, match=r"shapes \(3,\), but 'theta' has \(2,\)"):
        langevin(U).drift(z, gradient=jnp.zeros(3))


# The noise ------------------------------------------------------------------------------------------------


def covariance(dynamics, z, step_size=0.0, B=None):
    """That of the noise, exactly: it is linear in w."""
    like = dynamics.noise_like(z) if B is None else dynamics.noise_like(z, B)
    w, back = ravel_pytree(jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), like))
    kick = quick_jit(lambda e: flatten(dynamics.noise(z, back(e), step_size, B)[0]))
    if w.size == 0:
        kick(w)
        return np.zeros((flatten(z).size,) * 2)
    L = jax.vmap(kick)(jnp.eye(w.size)).T
    return np.asarray(L @ L.T)


@pytest.mark.parametrize("name", NAMED)
def test_the_noise_has_covariance_2TD(name):
    make, z, _, _, _ = NAMED[name]
    z, dynamics = as_double(z), make(2.5)
    np.testing.assert_allclose(covariance(dynamics, z), 2 * np.asarray(dynamics.diffusion(z)), atol=1e-13)
    np.testing.assert_allclose(
        dynamics.diffusion(z), dynamics.temperature * dynamics.D.as_matrix(z), rtol=1e-14, atol=0
    )


NOISY = {"theta": VECTOR, "r": MOMENTUM_VECTOR}
FACTOR = np.array([[1.0], [0.5]])
BIG = np.array([[3.0, 0.4, 0.1, 0.0], [0.4, 2.0, 0.3, 0.2], [0.1, 0.3, 2.5, -0.4], [0.0, 0.2, -0.4, 1.5]])
B_BLOCK = np.array([[0.5, 0.2], [0.2, 0.4]])


def reduced():
    """Name: (state, D, B̂); made where double precision is on."""
    return {
        "scalar and scalar": (VECTOR, 1.0, 0.3),
        "diagonal and scalar": (VECTOR, fields.Diagonal(np.array([1.0, 2.0])), 0.3),
        "elementwise and diagonal": (VECTOR, fields.Elementwise(g), fields.Diagonal(np.array([0.2, 0.5]))),
        "sum of diagonals": (VECTOR, fields.Elementwise(g) + 0.5, 0.3),
        "scalar and dense": (VECTOR, 1.0, B_BLOCK),
        "dense and scalar": (VECTOR, fields.Dense(B_BLOCK + np.eye(2)), 0.3),
        "dense function and gram": (
            VECTOR,
            fields.Dense(lambda z: jnp.eye(2) + jnp.outer(z, z)),
            fields.Gram(FACTOR),
        ),
        "gram and scalar": (VECTOR, fields.Gram(FACTOR, diagonal_part=1.0), 0.3),
        "thin gram and itself": (VECTOR, fields.Gram(FACTOR), 0.5 * fields.Gram(FACTOR)),
        "sum and scalar": (VECTOR, fields.Gram(FACTOR) + fields.Elementwise(g), 0.3),
        "sum and dense, named": (NOISY, fields.Dense(BIG) + fields.Scalar(0.5), 0.1 * BIG),
        "gram over all variables": (NOISY, fields.Gram(BIG[:, :2], diagonal_part=1.0), 0.1),
        "scaled": (NOISY, 2.0 * fields.symmetric({("r", "r"): 1.0}), {("r", "r"): 0.3}),
        "zero and zero": (NOISY, None, fields.Zero()),
        "blocks, diagonal": (NOISY, {("r", "r"): 1.0}, {("r", "r"): 0.3}),
        "blocks, a zero": (NOISY, {("r", "r"): 1.0, ("theta", "theta"): fields.Zero()}, {("r", "r"): 0.3}),
        "blocks, a scaled zero": (
            NOISY,
            {("r", "r"): 1.0, ("theta", "theta"): 2.0 * fields.Zero()},
            {("r", "r"): 0.3},
        ),
        "blocks, dense estimate": (NOISY, {("r", "r"): 1.0}, {("r", "r"): B_BLOCK}),
        "blocks, gram": (NOISY, {("r", "r"): fields.Gram(FACTOR, diagonal_part=1.0)}, {("r", "r"): B_BLOCK}),
        "blocks, sum": (NOISY, {("r", "r"): fields.Gram(FACTOR) + 1.0}, {("r", "r"): 0.3}),
        "blocks off the diagonal": (
            NOISY,
            {("theta", "theta"): BIG[:2, :2], ("r", "theta"): BIG[2:, :2], ("r", "r"): BIG[2:, 2:]},
            {("r", "r"): B_BLOCK, ("r", "theta"): 0.1},
        ),
    }


def as_block_field(B):
    return fields.symmetric(B) if isinstance(B, dict) else fields.as_field(B)


@pytest.mark.parametrize("name", reduced())
def test_with_an_estimate_of_the_gradient_noise_the_covariance_is_2TD_less_it(name):
    z, D, B = reduced()[name]
    z, B, step_size, T = as_double(z), as_block_field(B), 0.7, 1.3
    dynamics = fk.Dynamics(lambda z: U(z), D=D, temperature=T)
    wanted = 2 * T * dynamics.D.as_matrix(z) - step_size * B.as_matrix(z)
    assert np.linalg.eigvalsh(wanted)[0] > -1e-12
    np.testing.assert_allclose(covariance(dynamics, z, step_size, B), wanted, atol=1e-12)
    w = jax.tree.map(lambda s: jnp.zeros(s.shape), dynamics.noise_like(z, B))
    assert float(dynamics.noise(z, w, step_size, B)[1]) == 0


@pytest.mark.parametrize("kind", ["diagonal", "dense", "gram"])
def test_what_cannot_be_taken_off_is_reported_and_not_added(kind):
    d = np.array([1.0, 0.1])
    D = {"diagonal": fields.Diagonal(d), "dense": np.diag(d), "gram": fields.Gram(np.diag(d**0.5))}[kind]
    dynamics, B = fk.Dynamics(lambda z: U(z), D=D), fields.Scalar(1.0)
    x = jnp.asarray(VECTOR)
    w = jax.tree.map(lambda s: jnp.zeros(s.shape), dynamics.noise_like(x, B))
    shortfall = dynamics.noise(x, w, 0.5, B)[1]
    np.testing.assert_allclose(float(shortfall), 0.2 - 0.5, rtol=1e-12)
    np.testing.assert_allclose(covariance(dynamics, x, 0.5, B), np.diag([1.5, 0.0]), atol=1e-12)


def test_a_variable_without_noise_has_none_to_be_reduced():
    dynamics = fk.Dynamics(lambda z: U(z), D={("r", "r"): 1.0})
    w = {"r": jnp.ones(2)}
    z = as_double(NOISY)
    kick, shortfall = dynamics.noise(z, w, 0.5, fields.symmetric({("theta", "theta"): 0.4}))
    np.testing.assert_allclose(float(shortfall), -0.2, rtol=1e-12)
    assert not np.any(kick["theta"])
    none = fk.Dynamics(lambda z: U(z), Q={("r", "theta"): 1.0})
    np.testing.assert_allclose(float(none.noise(z, None, 0.5, fields.Scalar(0.4))[1]), -0.2, rtol=1e-12)


@pytest.mark.parametrize("kind", ["diagonal", "dense"])
def test_rounding_is_no_shortfall(kind):
    """2D = εB̂ to the last digit, in single precision, where the difference comes out a little below zero."""
    with jax.enable_x64(False):
        x = jnp.ones(3)
        for n in range(1, 60):
            D, h = n / 70, 0.1
            D_field, B = (fields.Scalar(D), fields.Scalar(2 * D / h))
            if kind == "dense":
                D_field, B = fields.Dense(D * np.eye(3)), fields.Dense(2 * D / h * np.eye(3))
            shortfall = fk.Dynamics(lambda z: U(z), D=D_field).noise(x, x, h, B)[1]
            assert float(shortfall) == 0, n


# An SDE as somebody wrote it down -------------------------------------------------------------------------


def test_an_sde_reads_matrices_and_tuples_in_the_order_of_its_variables():
    """Here r comes first, as in the arguments of the Hamiltonian; the library puts theta first."""
    D_by_r_first = np.array([[3.0, 0.5], [0.5, 2.0]])
    sde = fk.SDE(
        lambda r, theta: (-r, -2 * theta),
        lambda theta: jnp.asarray(D_by_r_first) * (1 + theta**2),
        lambda r, theta: r**2 / 2 + theta**4,
    )
    z = {"theta": jnp.array(0.5), "r": jnp.array(-1.0)}
    assert sde.order(z) == ("r", "theta")
    np.testing.assert_allclose(sde.diffusion(z), D_by_r_first[::-1, ::-1] * 1.25, rtol=1e-14)
    f = sde.drift(z)
    assert (float(f["theta"]), float(f["r"])) == (-1.0, 1.0)
    np.testing.assert_allclose(covariance(sde, z), 2 * D_by_r_first[::-1, ::-1] * 1.25, rtol=1e-12)
    by_state = fk.SDE(
        sde.drift_function, D_by_r_first, lambda z: 0.0 * z["r"], state={"r": 0.0, "theta": 0.0}
    )
    np.testing.assert_allclose(by_state.diffusion(z), D_by_r_first[::-1, ::-1], rtol=1e-14)


@pytest.mark.parametrize(
    ("diffusion", "wanted"),
    [
        (2.0, 2 * np.eye(4)),
        (lambda z: 2, 2 * np.eye(4)),
        (lambda theta: 1 + theta[0] ** 2, 1.09 * np.eye(4)),
        ({"theta": np.ones(2), "r": np.zeros(2)}, np.diag([1.0, 1, 0, 0])),
        (lambda r: {"theta": jnp.zeros(2), "r": r**2}, np.diag([0.0, 0, 0.49, 0.16])),
        (BIG, BIG),
        ({("r", "r"): 3.0}, np.diag([0.0, 0, 3, 3])),
        (fields.symmetric({("r", "r"): 3.0}), np.diag([0.0, 0, 3, 3])),
    ],
)
def test_an_sde_takes_its_diffusion_in_any_form(diffusion, wanted):
    sde = fk.SDE(lambda z: z, diffusion, lambda z: U(z))
    z = as_double(NOISY)
    sde.validate(z)
    np.testing.assert_allclose(sde.diffusion(z), wanted, rtol=1e-13)
    np.testing.assert_allclose(covariance(sde, z), 2 * wanted, atol=1e-13)
    np.testing.assert_allclose(covariance(sde, z, 0.1, fields.Zero()), 2 * wanted, atol=1e-13)


def test_an_sde_over_a_variable_named_z():
    sde = fk.SDE(
        lambda z, r: {"z": -z, "r": -r}, np.array([[1.0, 0.2], [0.2, 2.0]]), lambda z, r: z**2 + r**2
    )
    z = {"z": jnp.array(0.5), "r": jnp.array(-1.0)}
    np.testing.assert_allclose(sde.diffusion(z), [[2.0, 0.2], [0.2, 1.0]])
    function = fk.SDE(sde.drift_function, lambda r: jnp.array([[1.0, 0.2], [0.2, 2.0]]), sde.hamiltonian)
    np.testing.assert_allclose(function.diffusion(z), [[2.0, 0.2], [0.2, 1.0]])
