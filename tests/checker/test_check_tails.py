"""What the residual cannot see, part by part: explosion by noise, integrals of exp(-H), reach of the noise.

The parts are called at given points; `tests/verdicts_tails.py` has whole verdicts.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fokker as fk
from fokker.checker._barriers import find_barrier
from fokker.checker._compact import is_not_periodic, lift
from fokker.checker._evaluate import Evaluator
from fokker.checker._explosion import find_explosion
from fokker.checker._inputs import CheckedPoints
from fokker.checker._jumps import find_jumps
from fokker.checker._normalisable import check_integral
from fokker.checker._power import power_words
from fokker.checker._reducible import check_reach
from fokker.checker._residual import Residuals, exact_residuals
from fokker.checker._structure import check_structure
from fokker.checker._tails import find_escape
from fokker.dynamics.problem import make_problem
from fokker.fields import Dense, Diagonal, Elementwise, Skew
from verdicts import ANGLE, PAIR, WITH_XI, microcanonical_angle, potential
from verdicts_tails import TURN, gauss, langevin, momentum, power, square, student, third_order

pytestmark = pytest.mark.usefixtures("x64")


def setup(dynamics, state, **compact):
    """The problem, its evaluator, normal points and a generator."""
    problem = lift(make_problem(dynamics, state=state), compact.get("periodic"), compact.get("sphere", ()))
    generator = np.random.default_rng(0)
    return problem, Evaluator(problem), generator.normal(size=(64, problem.dimension)), generator


def explosion(dynamics, state):
    problem, evaluate, points, generator = setup(dynamics, state)
    return find_explosion(problem, evaluate, points, evaluate.fields(points), 1e-10, generator)


@pytest.mark.parametrize(("nu", "d"), [(1, 1), (2, 3)])
def test_noise_explodes_from_the_power_of_feller_on(nu, d):
    """Student's p s^{d-1} D with D = (1 + |z|²)^a grows like s^{2a - ν - 1}: explosive for a > 1 + ν/2."""
    edge = 1 + nu / 2
    found = [
        explosion(langevin(student(nu, d), power(a))(), {"theta": jnp.zeros(d)})
        for a in (edge - 0.1, edge, edge + 0.01, edge + 0.1)
    ]
    assert found[0] is None
    assert found[1] is None
    assert [one.is_certain for one in found[2:]] == [False, True]
    assert "could not be decided" in found[2].message
    assert "Feller" in found[3].message


def test_an_explosion_is_not_certain_beside_a_flux():
    dynamics = momentum(lambda r: 3 * jnp.log1p(r**2 / 5), Elementwise(lambda r: (1 + r**2) ** 4))()
    result = explosion(dynamics, PAIR)
    assert not result.is_certain
    assert "as r grows" in result.message
    assert explosion(momentum(lambda r: r**2 / 2, 1.0)(), PAIR) is None


def test_in_many_coordinates_an_explosion_is_only_suspected():
    state = {"theta": jnp.zeros(70)}
    assert explosion(langevin(gauss, Elementwise(lambda theta: 1 + theta**2))(), state) is None
    result = explosion(langevin(gauss, Elementwise(lambda theta: jnp.exp(theta**2)))(), state)
    assert result is not None
    assert not result.is_certain


@pytest.mark.parametrize(("index", "d"), [(3, 30), (20, 30)])
def test_an_explosion_of_any_one_coordinate_is_seen(index, d):
    D = Diagonal(lambda theta: jnp.where(jnp.arange(d) == index, jnp.exp(0.6 * theta**2), 1.0))
    assert f"as theta[{index}] grows" in explosion(langevin(gauss, D)(), {"theta": jnp.zeros(d)}).message


def test_an_explosion_needs_a_convergent_integral_all_the_way_out():
    """Where p D rises first and then falls, the later part decides."""
    D = Elementwise(lambda theta: (1 + theta**2) ** 2 / (1 + (1e-32 * theta) ** 2) ** 1.5)
    assert explosion(langevin(student(1, 1), D)(), {"theta": jnp.zeros(1)}) is None


@pytest.mark.parametrize("d", [1, 3])
def test_the_power_of_a_density_must_exceed_the_dimension(d):
    """(1 + |z|²)^-a has an integral for 2a > d; close to it nothing is decided."""
    results = []
    for excess in (-0.2, 0.0, 0.02, 0.1):
        U = lambda theta, excess=excess: (d + excess) / 2 * jnp.log1p(square(theta))  # noqa: E731
        problem, evaluate, points, generator = setup(langevin(U)(), {"theta": jnp.zeros(d)})
        integral = check_integral(problem, evaluate, points, np.zeros(d, bool), generator)
        results.append((len(integral.wrong), len(integral.doubts)))
    assert results == [(1, 0), (1, 0), (0, 1), (0, 0)]


def integral(U, d=2):
    problem, evaluate, points, generator = setup(langevin(U)(), {"theta": jnp.zeros(d)})
    return check_integral(problem, evaluate, points, np.zeros(d, bool), generator)


@pytest.mark.parametrize(
    "U",
    [
        # Far out it is rounding error.
        lambda theta: jnp.sum((theta**4 + theta**2) - theta**4),
        # Infinite outside a square: it has an integral, whatever H is inside.
        lambda theta: jnp.where(jnp.max(jnp.abs(theta)) < 5, 0.0, jnp.inf),
        # H falls first along rays with a small share of theta[0], and rises later.
        lambda theta: theta[0] ** 2 / 18 + square(theta[1:]) * jnp.exp(-theta[0]) / 2 + theta[0],
    ],
)
def test_densities_that_look_like_none(U):
    result = integral(U, 3)
    assert not result.wrong
    assert not result.doubts


@pytest.mark.parametrize(("index", "d"), [(33, 40), (17, 25)])
def test_a_missing_prior_of_any_one_coordinate_is_seen(index, d):
    U = lambda theta: gauss(theta) - theta[index] ** 2 / 2 + 0.4 * jnp.log1p(theta[index] ** 2)  # noqa: E731
    assert f"as theta[{index}] grows" in integral(U, d).wrong[0]


def test_a_period_is_named_if_it_is_a_usual_one():
    assert (
        "period of 1 suggests"
        in integral(lambda theta: gauss(theta[:1]) - jnp.cos(2 * np.pi * theta[1])).doubts[0]
    )
    other = integral(lambda theta: gauss(theta[:1]) - jnp.cos(3.3 * theta[1])).doubts[0]
    assert "period of" not in other
    assert "periodic={…}" in other


def reach(dynamics, state, **compact):
    problem, evaluate, points, generator = setup(dynamics, state, **compact)
    return check_reach(problem, evaluate, points, generator)


@pytest.mark.parametrize(
    ("H", "strength"),
    [
        (gauss, lambda z: z @ z * jnp.exp(z @ z / 2)),
        (lambda z: 1.5 * jnp.log1p(z @ z), lambda z: (1 + z @ z) ** 2),
        (lambda z: 1.5 * jnp.log1p(z @ z), lambda z: (1 + z @ z) ** 1.5),
    ],
)
def test_a_strong_flux_around_the_origin_is_no_escape(H, strength):
    Q = Skew(lambda z: strength(z) * jnp.array([[0.0, 0.0], [1.0, 0.0]]))
    problem, evaluate, points, generator = setup(fk.Dynamics(H, D=1.0, Q=Q), jnp.zeros(2))
    points = np.concatenate([points, 10.0 ** np.linspace(1, 7, 16)[:, None] * points[:16]])
    if H is not gauss:
        assert np.all(exact_residuals(problem, points).relative < 1e-8)
    points = points[:64]
    assert find_escape(problem, evaluate, points, evaluate.energy(points), 1e-10, generator) is None


@pytest.mark.slow
def test_what_noise_does_not_reach_is_conserved():
    plane = {"theta": jnp.zeros(2)}
    along = reach(langevin(gauss, Dense(jnp.array([[4.0, 2.0], [2.0, 1.0]])))(), plane)
    assert "theta[1] never changes" in along.doubt
    assert "-0.5 theta[0]" in along.doubt
    tangent = Dense(lambda theta: square(theta) * jnp.eye(2) - jnp.outer(theta, theta))
    assert "something is conserved" in reach(langevin(potential, tangent)(), plane).doubt
    half = Elementwise(lambda theta: jnp.maximum(theta, 0.0))
    assert "% of the points" in reach(langevin(gauss, half)(), {"theta": jnp.zeros(1)}).doubt


@pytest.mark.parametrize("share", [lambda t: 1.5 - t, lambda t: jnp.abs(t - 1.3) - 0.3])
def test_a_small_region_without_noise_is_noticed(share):
    D = Elementwise(lambda theta: jnp.maximum(share(theta), 0.0) ** 3)
    doubt = reach(langevin(gauss, D)(), {"theta": jnp.zeros(1)}).doubt
    percent = int(doubt.split("%")[0].split()[-1])
    assert 2 <= percent <= 20


@pytest.mark.parametrize(
    ("dynamics", "state", "compact"),
    [
        (lambda: fk.dynamics.underdamped(potential, friction=1e5), PAIR, {}),
        (lambda: fk.dynamics.thermostat(potential, A=2.0, mu=0.5), WITH_XI, {}),
        (third_order, {name: jnp.zeros(()) for name in ("theta", "r", "s")}, {}),
        (microcanonical_angle, ANGLE, {"periodic": {"phi": 2 * np.pi}}),
    ],
    ids=["underdamped", "thermostat", "third order", "angle"],
)
def test_noise_reaches_through_the_drift(dynamics, state, compact):
    result = reach(dynamics(), state, **compact)
    assert not result.doubt
    assert not result.note


def test_what_only_auxiliaries_conserve_is_a_note():
    """Ξ - Ξᵀ of the matrix thermostat: dΞ is symmetric, and theta's marginal does not depend on it."""
    dynamics = fk.dynamics.matrix_thermostat(potential, A=0.5)
    state = {"theta": jnp.zeros(2), "r": jnp.zeros(2), "xi": jnp.zeros((2, 2))}
    result = reach(dynamics, state)
    assert not result.doubt
    assert "xi[1], xi[2] never changes" in result.note


TURNED = jnp.array([[0.0, -1.0], [1.0, 0.0]])


@pytest.mark.parametrize(
    ("H", "period", "differs"),
    [
        (lambda phi: -2 * jnp.cos(phi), 2 * np.pi, ""),
        (lambda phi: -2 * jnp.cos(phi), 4 * np.pi, ""),
        (lambda phi: -2 * jnp.cos(phi), np.pi, "H and the drift are"),
        (lambda phi: 0.3 * phi - 2 * jnp.cos(phi), 2 * np.pi, "H is"),
        (lambda phi: jnp.abs(jnp.sin(phi / 2)), np.pi, "H and the drift are"),
    ],
)
def test_a_period_must_be_one(H, period, differs):
    dynamics = fk.SDE(lambda phi: -jax.grad(H)(phi), {("phi", "phi"): 1.0}, H)
    problem, _, points, _ = setup(dynamics, {"phi": jnp.zeros(())}, periodic={"phi": period})
    messages = is_not_periodic(problem, points)
    assert len(messages) == bool(differs)
    assert not differs or f": {differs} not the same" in messages[0]


PLANE = jnp.array([1.0, 0.5, -1.0])


@pytest.mark.parametrize(
    ("D", "d", "is_sealed"),
    [
        (Elementwise(lambda theta: jnp.abs(theta)), 1, True),
        (Elementwise(lambda theta: (theta - 0.5) ** 2), 2, True),
        (Dense(lambda theta: (theta @ PLANE - 0.3) ** 2 * jnp.eye(3)), 3, True),
        (Dense(lambda theta: (square(theta) - 1) ** 2 * jnp.eye(2)), 2, True),
        # With 7 % and 22 % of the mass behind them.
        (Elementwise(lambda theta: (theta - 1.5) ** 2), 1, True),
        (Dense(lambda theta: (square(theta) - 3) ** 2 * jnp.eye(2)), 2, True),
        # Sealed for the distance from the origin only.
        (
            Dense(
                lambda theta: (
                    (square(theta) - 1) ** 2 * jnp.eye(2) + jnp.outer(TURNED @ theta, TURNED @ theta)
                )
            ),
            2,
            True,
        ),
        # ∫ dz / |z|^0.9 is finite.
        (Elementwise(lambda theta: jnp.abs(theta) ** 0.9), 1, False),
        (Elementwise(lambda theta: 1e-4 + theta**2), 1, False),
        # A point in the plane is passed by; noise along a line crosses it.
        (Dense(lambda theta: square(theta) * jnp.eye(2)), 2, False),
        (Dense(lambda theta: jnp.diag(jnp.stack([jnp.ones(()), theta[0] ** 2]))), 2, False),
    ],
)
def test_where_D_vanishes_on_a_surface_it_is_not_crossed(D, d, is_sealed):
    problem, evaluate, points, _ = setup(langevin(gauss, D)(), {"theta": jnp.zeros(d)})
    assert bool(find_barrier(problem, evaluate, points)) is is_sealed


def test_the_radius_of_an_angle_is_no_barrier():
    dynamics = fk.SDE(lambda phi: -2 * jnp.sin(phi), {("phi", "phi"): 1.0}, lambda phi: -2 * jnp.cos(phi))
    problem, evaluate, points, _ = setup(dynamics, {"phi": jnp.zeros(())}, periodic={"phi": 2 * np.pi})
    assert not find_barrier(problem, evaluate, points)
    assert abs(check_structure(problem, evaluate, points, np.random.default_rng(0)).least_eigenvalue) > 0.1
    sealed = fk.SDE(
        lambda phi: -2 * jnp.sin(phi) * jnp.cos(phi),
        {("phi", "phi"): Elementwise(lambda phi: jnp.sin(phi) ** 2)},
        lambda phi: 0.0 * phi,
    )
    problem, evaluate, points, _ = setup(sealed, {"phi": jnp.zeros(())}, periodic={"phi": 2 * np.pi})
    assert find_barrier(problem, evaluate, points)


def test_a_flux_crosses_where_D_vanishes():
    dynamics = fk.Dynamics(gauss, D=Dense(lambda z: z[0] ** 2 * jnp.eye(2)), Q=TURN)
    problem, evaluate, points, _ = setup(dynamics, jnp.zeros(2))
    assert not find_barrier(problem, evaluate, points)


@pytest.mark.parametrize(("size", "is_seen"), [(4e-3, True), (2e-4, False)])
def test_the_power_line_says_which_jumps_are_seen(size, is_seen):
    U = lambda theta: jnp.sum(theta**2) + size * (theta[0] > 0.3) * 8  # noqa: E731
    problem, evaluate, points, _ = setup(langevin(U)(), {"theta": jnp.zeros(1)})
    assert bool(find_jumps(problem, evaluate, points, 1e-10).wrong) is is_seen
    drawn = CheckedPoints(points, 64, True, False, [])
    words = power_words(drawn, Residuals(np.zeros(2), np.zeros(2), np.ones(2), 0), 1e-8, True)
    assert "below 0.1 % of its range is not seen" in words
