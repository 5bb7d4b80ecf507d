"""The checker, part by part: residual, reasons, structure, marginal, jumps, tails, and what may be handed in.

`tests/verdicts.py` has the table of whole verdicts. Here the parts are called at given points, which takes
far less time than `fk.check`: drawing points is most of that.
"""

import dataclasses
import json
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fokker as fk
from conftest import quick_compiling
from fokker.checker._evaluate import Evaluator
from fokker.checker._marginal import check_marginal
from fokker.checker._modes import find_modes
from fokker.checker._power import judge
from fokker.checker._reasons import diagnose
from fokker.checker._residual import estimated_residuals, exact_residuals
from fokker.checker._structure import check_structure
from fokker.checker._tails import find_escape
from fokker.dynamics.problem import make_problem
from fokker.fields import Column, Dense, Diagonal, Elementwise, Operator, Scalar, Skew
from verdicts import (
    CASES,
    PAIR,
    PAIR_2D,
    WITH_XI,
    explosive,
    force,
    potential,
    relativistic,
    root_slope,
    sghmc,
    sgrhmc,
    sgrld,
    thermostat,
    two_modes,
)
from verdicts import H as SEPARABLE

pytestmark = pytest.mark.usefixtures("x64")


def points_of(problem, number=24, seed=0):
    return np.random.default_rng(seed).normal(size=(number, problem.dimension))


def residual(given, state=None, **options):
    problem = make_problem(given, state=state, **options)
    return float(np.max(exact_residuals(problem, points_of(problem)).relative))


def reasons(given, state=None, **options):
    problem = make_problem(given, state=state, **options)
    return diagnose(problem, points_of(problem), 1e-8).reasons


KINDS = ("papers", "temperature", "thermostats", "kinetic", "theorem 1")


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case,
            id=f"{case.kind}: {case.name}",
            marks=() if i % 6 == 0 else pytest.mark.long("check::the_residual_of_every_formula"),
        )
        for i, case in enumerate(case for case in CASES if case.kind in KINDS and not case.quick)
    ],
)
def test_the_residual_of_every_formula(case):
    """Zero for the right ones, and of order one for the wrong; the quick ones have their whole verdict."""
    found = residual(
        case.build(), case.options.get("state"), temperature=case.options.get("temperature", 1.0)
    )
    assert found < 1e-11 if case.verdict == "right" else found > 1e-3


def test_the_residual_is_the_closed_form():
    """Naive SGHMC with gradient noise V: R = εV(r² - 1)/2."""
    epsilon_V = 0.3
    given = fk.SDE(lambda theta, r: {"theta": r, "r": -force(theta)}, {("r", "r"): epsilon_V / 2}, SEPARABLE)
    problem = make_problem(given, state=PAIR)
    points = points_of(problem)
    r = points[:, problem.variables["r"]][:, 0]
    values = exact_residuals(problem, points).values
    np.testing.assert_allclose(values, epsilon_V * (r**2 - 1) / 2, rtol=1e-9)


def test_scalar_and_column_fields_in_one_state():
    dynamics = fk.Dynamics(
        fk.Hamiltonian(potential, lambda r, xi: (jnp.sum(r**2) + xi**2) / 2),
        D={("r", "r"): Scalar(lambda theta: 1 + jnp.sum(theta**2)), ("xi", "xi"): 0.5},
        Q={("r", "theta"): 1.0, ("theta", "xi"): Column(lambda theta, r: jnp.sin(theta) * r)},
    )
    assert residual(dynamics, WITH_XI) < 1e-12


def test_a_slow_coordinate_is_not_lost_beside_a_stiff_one():
    scale = jnp.array([1e-4, 1e4])
    energy = lambda z: jnp.sum((z / scale) ** 2) / 2  # noqa: E731
    frozen = fk.SDE(lambda z: jnp.stack([-z[0] / scale[0] ** 2, 0 * z[1]]), np.eye(2), energy, jnp.zeros(2))
    problem = make_problem(frozen)
    points = points_of(problem) * np.asarray(scale)
    assert np.max(exact_residuals(problem, points).relative) > 0.1


def test_rounding_that_is_put_to_zero_is_not_taken_for_a_residual():
    """A curl small beside the drift, judged in single precision: what is dropped balanced the rest."""
    problem = make_problem(explosive([1, 1, 1, 1, 0]), state=jnp.zeros(5))
    points = points_of(problem)
    # Where the direction of the flow is almost left out its slope is rounding, and the flow itself is not.
    points[:, :4] -= points[:, :4].mean(axis=1, keepdims=True) - 2e-4
    assert np.max(exact_residuals(problem, points, rounding=1e-6).relative) < 1e-8


def still(power, extra=0.0):
    """Without a drift, or almost: D = p^(-power) keeps p = (1 + z²)^-2 if the power is 1."""
    energy = lambda z: 2 * jnp.sum(jnp.log1p(z**2))  # noqa: E731
    return fk.SDE(lambda z: extra * z, lambda z: jnp.diag((1 + z**2) ** (2 * power)), energy, jnp.zeros(2))


def test_terms_that_cancel_are_the_scale_of_rounding():
    """∇·D and D∇H are equal and large: their difference is rounding, in the residual and in the fields."""
    problem = make_problem(still(1.0))
    points = 30 * points_of(problem)
    exact = exact_residuals(problem, points)
    assert np.all(exact.values == 0)
    assert np.all(exact.scales == 0)
    values = Evaluator(problem).fields(points)
    np.testing.assert_array_equal(values["S"], values["f"])
    # An error of 1e-7 of them is none.
    for wrong in (still(1 + 1e-7), still(1.0, 1e-3)):
        assert np.max(exact_residuals(make_problem(wrong), points_of(problem)).relative) > 1e-3


def test_a_curl_beside_terms_that_cancel():
    """The rounding of large terms that cancel is no residual of a small curl."""
    D = Dense(lambda z: jnp.exp(z @ z / 2) * jnp.eye(2))
    given = fk.Dynamics(lambda z: z @ z / 2, D=D, Q=Skew(jnp.array([[0.0, 0.0], [1e-3, 0.0]])))
    problem = make_problem(given, state=jnp.zeros(2))
    assert np.max(exact_residuals(problem, 2 * points_of(problem, 200)).relative) == 0


@pytest.mark.parametrize(("d", "escapes"), [(4, True), (4, False)])
def test_flux_to_infinity_is_found_in_a_direction_of_its_own(d, escapes):
    """From few points and rays: the narrow direction in which it flows is climbed to."""
    way = np.array([3.0, -1.0, 2.0, 1.0])
    problem = make_problem(explosive(way, 0.02 if escapes else 0.0), state=jnp.zeros(d))
    points = points_of(problem, 4)
    evaluate = Evaluator(problem)
    found = find_escape(problem, evaluate, points, evaluate.energy(points), 1e-10, np.random.default_rng(0))
    assert (found is not None) is escapes


def test_the_order_of_a_matrix_is_that_of_the_state():
    def given(**state):
        return fk.SDE(
            lambda x, v: {"x": v, "v": -x - 0.5 * v},
            jnp.diag(jnp.array([0.0, 0.5])),
            lambda x, v: (x**2 + v**2) / 2,
            state or None,
        )

    assert residual(given()) < 1e-12
    assert residual(given(x=0.0, v=0.0)) < 1e-12
    assert residual(given(v=0.0, x=0.0)) > 0.1


def test_probes_agree_with_every_derivative_taken():
    """The same wrong sampler, exact and estimated, has the same residual within its error."""
    D = Dense(lambda z: jnp.eye(3) + jnp.outer(jnp.sin(z), jnp.sin(z)))
    given = fk.SDE(
        lambda z: -z + jnp.roll(z, 1) ** 2,
        D,
        lambda z: jnp.sum(z**4 / 4 + z[0] * z**2),
        state=jnp.zeros(3),
    )
    problem = make_problem(given)
    points = points_of(problem, 20)
    exact = exact_residuals(problem, points)
    estimated = estimated_residuals(problem, points, 4000, np.random.default_rng(2))
    # Twenty normal deviates: one beyond 4.5 is a chance of 1.4e-4, at this fixed seed none.
    assert np.all(np.abs(exact.values - estimated.values) < 4.5 * estimated.errors)
    assert np.median(estimated.errors) < 0.2 * np.median(np.abs(exact.values))


@pytest.mark.slow
def test_a_strong_curl_does_not_hide_a_wrong_friction():
    """By probes; right ones are called wrong once in a million seeds."""
    K = np.random.default_rng(0).normal(size=(80, 80))
    K = 3 * (K - K.T)
    energy = lambda z: jnp.sum(z**2) / 2 + jnp.sum(z**4) / 8  # noqa: E731
    slope = jax.grad(energy)
    for friction, right in ((1.0, True), (1.01, False)):
        given = fk.SDE(lambda z, c=friction: -c * slope(z) - K @ slope(z), np.eye(80), energy, jnp.zeros(80))
        problem = make_problem(given)
        found = estimated_residuals(problem, points_of(problem, 8), 512, np.random.default_rng(1))
        assert judge(found, 1e-8)[1] is right


# Reasons.

WRONG = {
    "Γ of Q missing": (sgrhmc(gamma=0.0), PAIR, "Γ is missing; adding Γ = ∇·Q in the drift of r"),
    "Γ of Q with the wrong sign": (sgrhmc(gamma=-1.0), PAIR, "Γ has the wrong sign"),
    "Γ of D in two dimensions": (sgrld(gamma=0.0), {"theta": jnp.zeros(2)}, "Γ is missing; adding Γ = ∇·D"),
    "Γ of D with the wrong sign": (sgrld(gamma=-1.0), {"theta": jnp.zeros(())}, "Γ has the wrong sign"),
    "no friction": (sghmc(friction=0.0), PAIR, "lacks -D∇H"),
    "friction too weak": (sghmc(friction=0.5), PAIR_2D, "friction does not match the noise.* 0.5 times"),
    "noise by the square": (
        sghmc(friction=3.0, noise=9.0),
        PAIR,
        "friction does not match the noise.* 0.3333",
    ),
    "friction drives": (sghmc(friction=-1.0), PAIR, "wrong sign: \\+D∇H"),
    "force reversed": (sghmc(force_sign=1.0), PAIR, "drift of r needs another -2 ∂H/∂theta"),
    "thermostat, d forgotten with weight d/2": (
        thermostat(1.0, 1.0, 1.0),
        WITH_XI,
        r"drift of xi needs another -0.5 r·∂H/∂r.*d = 2, the number of coordinates of r; was d forgotten",
    ),
    "thermostat, d forgotten with weight 1/2": (
        thermostat(1.0, 1.0, 0.5),
        WITH_XI,
        "drift of xi needs another -1: .*was d forgotten",
    ),
    "thermostat, d in the drift alone": (
        thermostat(0.5, 1.0, 0.5),
        WITH_XI,
        "drift of xi must be multiplied by 2.*d = 2 is the number of coordinates of r: was it forgotten",
    ),
    "thermostat of the NIPS version": (
        thermostat(0.5, 1.0, 1 / 4),
        WITH_XI,
        "drift of xi must be multiplied by 4",
    ),
    "friction -Cr for a kinetic energy that is not quadratic": (
        relativistic(lambda r, v: 0.7 * r),
        PAIR_2D,
        "friction of r is -D r where -D ∂H/∂r is required: .*not quadratic",
    ),
}


# Those marked long have the reason of another in other words.
REPEATS = {
    "Γ of Q missing",  # is the fixture `naive`
    "Γ of Q with the wrong sign",
    "thermostat, d in the drift alone",
    "thermostat, d forgotten with weight 1/2",
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            n,
            marks=pytest.mark.long("check::wrong_samplers_are_wrong_for_their_reason")
            if n in REPEATS
            else (),
        )
        for n in WRONG
    ],
)
def test_wrong_samplers_are_wrong_for_their_reason(name):
    dynamics, state, reason = WRONG[name]
    found = reasons(dynamics, state)
    assert len(found) == 1
    assert re.search(reason, found[0]), found


@pytest.mark.slow
def test_two_mistakes_are_both_named():
    found = reasons(sgrhmc(gamma=0.0, friction=2.0), PAIR)
    assert any("friction does not match" in reason for reason in found)
    assert any("Γ is missing" in reason for reason in found)


def test_a_temperature_that_was_ignored_is_named():
    """Drift and noise for T = 1, asked to sample at T = 4."""
    found = reasons(sgrld(), {"theta": jnp.zeros(1)}, temperature=4.0)
    assert "friction" in found[0] or "temperature" in found[0]
    found = reasons(sgrhmc(), PAIR, temperature=4.0)
    assert "the temperature is 0.25 times the required one" in found[0]


def test_broken_promises_of_a_field_are_found():
    """An Elementwise field whose entries depend on their neighbours has another Γ than it says."""
    coupled = lambda theta: 1 + jnp.roll(theta, 1) * theta + theta**2 + jnp.roll(theta, 1) ** 2  # noqa: E731
    state = {"theta": jnp.zeros(3)}
    assert residual(fk.dynamics.langevin(potential, Diagonal(coupled)), state) < 1e-12
    # A true elementwise promise and a broken one differ only where a_i depends on z_j.
    assert "declare it Diagonal" in reasons(fk.dynamics.langevin(potential, Elementwise(coupled)), state)[0]


def test_a_wrong_gamma_given_to_an_operator_is_found():
    def make(gamma):
        block = Operator(lambda z, v: jnp.cos(z["theta"]) * v, gamma=gamma)
        return fk.Dynamics(SEPARABLE, D={("r", "r"): 1.0}, Q={("r", "theta"): block})

    assert residual(make(lambda z: -jnp.sin(z["theta"])), PAIR) < 1e-12
    assert residual(make(lambda z: jnp.sin(z["theta"])), PAIR) > 0.1


# The marginal of theta.


def marginal(auxiliary, state=PAIR):
    h = fk.Hamiltonian(potential, auxiliary)
    problem = make_problem(fk.Dynamics(h, D={("r", "r"): 1.0}, Q={("r", "theta"): 1.0}), state=state)
    return check_marginal(problem, points_of(problem))


def test_the_marginal_of_theta():
    """exp(-H) is stationary, but the mass depends on theta and its normalisation was forgotten."""
    mass = lambda theta: 1 + theta**2  # noqa: E731
    forgotten = marginal(lambda theta, r: r**2 / (2 * mass(theta)))
    kept = marginal(lambda theta, r: r**2 / (2 * mass(theta)) + jnp.log(mass(theta)) / 2)
    assert kept.holds
    assert kept.spread < 1e-9
    assert forgotten.holds is False


@pytest.mark.slow
def test_a_wrong_marginal_is_a_wrong_sampler():
    """The mass depends on theta, and H lacks its determinant: exp(-H) is stationary all the same."""
    H = fk.Hamiltonian(lambda theta: theta**2 / 2, auxiliary=lambda theta, r: r**2 * (1 + theta**2) / 2)
    dynamics = fk.Dynamics(H, D={("r", "r"): 1.0}, Q={("r", "theta"): 1.0})
    report = fk.check(dynamics, state=PAIR, number_of_points=32)
    assert report.verdict == "wrong"
    assert "the marginal of theta is not the target" in report.reasons[0]


def test_a_mass_that_depends_on_theta_in_many_dimensions():
    mass = lambda theta: 1 + jnp.sum(theta) ** 2  # noqa: E731
    state = {"theta": jnp.zeros(4), "r": jnp.zeros(4)}
    for power, right in ((0.0, False), (2.0, True)):
        found = marginal(
            lambda theta, r, p=power: jnp.sum(r**2) / (2 * mass(theta)) + p * jnp.log(mass(theta)), state
        )
        assert found.holds is right


def test_an_auxiliary_density_that_has_no_integral():
    assert marginal(lambda r: jnp.log(1 + r**2) / 4).holds is None
    assert marginal(lambda r: 3 * jnp.log1p(r**2 / 5)).holds


# Structure.


def structure(D, d, Q=None):
    problem = make_problem(fk.Dynamics(lambda z: z @ z / 2, D=D, Q=Q), state=jnp.zeros(d))
    found = check_structure(problem, Evaluator(problem), points_of(problem, 4), np.random.default_rng(0))
    return found.failures


@pytest.mark.parametrize(
    ("D", "failure"),
    [
        (np.array([[1.0, 0.5], [0.0, 1.0]]), "not symmetric"),
        (-np.eye(2), "positive semidefinite"),
        (np.diag([1e7, -1.0]), "positive semidefinite"),
        (np.array([[1.0, 2.0], [2.0, 1.0]]), "positive semidefinite"),
    ],
)
def test_structure_failures(D, failure):
    assert any(failure in words for words in structure(D, 2))
    assert structure(D @ D.T + np.eye(2), 2) == ()


def test_a_singular_D_in_single_precision_is_not_called_wrong():
    """By rounding an eigenvalue is about -1e-7, so that a root is NaN: that is no error of the noise."""
    for normal in ((0.6, 0.0, 0.8), (1 / 3, 2 / 3, 2 / 3)):
        n = np.asarray(normal, np.float32)
        D = np.eye(3) - np.outer(n, n).astype(np.float64)
        assert np.linalg.eigvalsh(D)[0] < -1e-9
        assert structure(Dense(jnp.asarray(D)), 3) == ()

    class WithoutRoot(Dense):
        def sqrt_mv(self, *arguments):
            return jnp.nan * super().sqrt_mv(*arguments)

    assert "covariance 2D" in structure(WithoutRoot(jnp.eye(3)), 3)[0]


def test_a_field_too_large_to_write_out():
    """600 coordinates: the entries of the diagonal one by one, the rest along random directions."""
    d = 600
    entries = np.ones(d)
    assert structure(Diagonal(jnp.asarray(entries)), d) == ()
    # Random directions do not see one entry of many: the diagonal does.
    entries[17] = -1e-3
    assert "positive semidefinite" in structure(Diagonal(jnp.asarray(entries)), d)[0]
    lopsided = Operator(lambda z, v: v + jnp.roll(v, 1))
    assert "not symmetric" in structure(lopsided, d)[0]
    Q = Operator(lambda z, v: jnp.roll(v, 1))
    assert "not skew" in structure(1.0, d, Q=Q)[0]


# The report, and what may be handed in.


@pytest.fixture(scope="module")
def naive():
    with quick_compiling():
        return fk.check(sgrhmc(gamma=0.0), state=PAIR, number_of_points=64)


def test_the_correction_makes_it_stationary(naive):
    worst = {name: jnp.asarray(value, jnp.float32) for name, value in naive.worst_point.items()}
    np.testing.assert_allclose(naive.correction["r"], root_slope(worst["theta"]), rtol=1e-4)
    np.testing.assert_allclose(naive.correction["theta"], 0.0, atol=1e-12)


def test_the_report_explains_itself_and_is_json(naive):
    text = str(naive)
    for words in ("WRONG", "Γ is missing", "worst at", "residual", "power", "marginal"):
        assert words in text
    parsed = json.loads(json.dumps(naive.to_json()))
    assert parsed["ok"] is False
    assert set(parsed["worst_point"]) == {"theta", "r"}
    assert not bool(naive)


def test_every_symbol_of_a_report_is_explained_in_it(naive):
    text = str(naive)
    explained = dict(part.split(" is ", 1) for part in text.split("  symbols    ")[1].split("; "))
    assert {"R", "H", "D", "Q", "Γ"} <= set(explained)
    # What explains a symbol needs no other explanation.
    assert set(re.findall(r"(?<![^\W\d])[A-Za-zΓ](?=\W|$)", text)) <= {*explained, "r", "a", "A", "e"}
    assert "g is the part of H with the auxiliary variables" in text
    without = dataclasses.replace(naive, marginal=None)
    assert "g is" not in str(without)
    # The user's own variables are the user's to explain.
    assert "r is" not in text.split("symbols")[1]


def test_an_error_in_a_small_region_is_found():
    """The drift is wrong only where theta > 2, which holds 2.3 % of the mass."""
    given = fk.SDE(
        lambda z: jnp.where(z > 2, -2 * z, -z), jnp.eye(1), lambda z: jnp.sum(z**2) / 2, state=jnp.zeros(1)
    )
    report = fk.check(given, explain=False)
    assert not report.ok
    assert float(report.worst_point[0]) > 2
    assert "at least 0.9 % of the mass" in report.power


def test_the_verdict_names_the_modes_that_were_found():
    center = np.array([8.0, 0.0])
    report = fk.check(two_modes(center, False), state=center, number_of_points=64)
    assert str(report).splitlines()[0].endswith("tested around the 2 modes of H that were found.")
    places = sorted(float(mode[0]) for mode in report.modes)
    np.testing.assert_allclose(places, [-8, 8], atol=0.5)


def _banana(theta):
    return theta[0] ** 2 / 8 + (theta[1] - 5 * theta[0] ** 2) ** 2 / 0.02


def _shell(theta):
    return (jnp.sqrt(jnp.sum(theta**2)) - 10) ** 2 / 0.02


def _two_in_a_valley(theta):
    return 4 * (theta[0] ** 2 - 1) ** 2 + (theta[1] - 5 * theta[0] ** 2) ** 2 / 0.02


def _two_normals(theta):
    """8 apart: between them H is 8 above its minima, and draws in ten dimensions are often higher."""
    return -jnp.logaddexp(-jnp.sum((theta - _apart(theta)) ** 2), -jnp.sum((theta + _apart(theta)) ** 2)) / 2


def _apart(theta):
    return 4.0 * (np.arange(theta.shape[-1]) == 0)


@pytest.mark.parametrize(
    ("energy", "dimension", "modes"),
    [(_banana, 2, 1), (_shell, 5, 1), (_two_in_a_valley, 2, 2), (_two_normals, 5, 2), (_two_normals, 10, 2)],
)
def test_points_of_one_curved_valley_are_one_mode(energy, dimension, modes):
    """Straight segments between them leave the valley; two wells along one remain two modes."""
    places = np.random.default_rng(0).normal(size=(40, dimension))
    points = {
        _banana: np.array([(x, 5 * x**2) for x in (-3.2, 0, 0.1, 2.4, 6)]),
        _shell: 10 * places / np.linalg.norm(places, axis=1, keepdims=True),
        _two_in_a_valley: np.array([(x, 5 * x**2) for x in (-1.1, -0.9, 0.9, 1.1)]),
        _two_normals: np.concatenate([places - _apart(places), places + _apart(places)]),
    }[energy]
    problem = make_problem(fk.dynamics.langevin(energy), state={"theta": jnp.ones(dimension)})
    assert len(find_modes(Evaluator(problem), points)) == modes


@pytest.mark.slow
def test_draws_of_a_run_are_where_the_drawing_starts():
    """A mode too narrow and too far for dispersed starts; draws of theta by chain and draw tell of it."""

    def energy(theta):
        return -jnp.logaddexp(-jnp.sum(theta**2) / 2, -jnp.sum((theta - 3000) ** 2) * 50 + 7)

    given = fk.SDE(
        lambda theta: -jnp.where(theta > 1000, 3.0, 1.0) * jax.grad(energy)(theta),
        {("theta", "theta"): 1.0},
        fk.Hamiltonian(energy),
    )
    draws = jnp.stack([jnp.zeros((8, 3)), jnp.full((8, 3), 3000.0)])
    options = {"state": {"theta": jnp.zeros(3)}, "number_of_points": 32, "explain": False}
    assert not fk.check(given, points=draws, **options).ok
    assert fk.check(given, points=draws[:1], **options).ok


def test_points_may_be_given():
    points = {"theta": jnp.linspace(-1, 1, 9), "r": jnp.linspace(1, 2, 9)}
    report = fk.check(sgrhmc(gamma=0.0), state=PAIR, points=points, explain=False)
    assert report.number_of_points == 9
    assert not report.ok
    by_chain = jax.tree.map(lambda x: x.reshape(3, 3), points)
    report = fk.check(sghmc(), points=by_chain)
    assert report.number_of_points == 9
    assert any("taken as single numbers" in note for note in report.notes)
    assert "these dynamics, tested at the points given." in str(report)
    assert "and |D - Dᵀ| 0, both relative to the size of D" in str(report)
    nearly = dataclasses.replace(report, dimension=1, modes=[{"theta": jnp.array([-3.8e-47, 2.0])}])
    assert re.search(r"  points     \d+ in 1 dimension, ", str(nearly))
    assert "  mode       theta = [0., 2.]" in str(nearly)


@pytest.mark.parametrize("number", [1, 5])
def test_one_point_or_equal_points_are_enough_for_what_they_show(number):
    """At (1, 1) the residual of twice the friction is zero; around it, it is not."""
    points = jnp.ones((number, 2))
    for friction, verdict in ((1.0, "right"), (2.0, "wrong")):
        given = fk.SDE(lambda z, c=friction: -c * z, np.eye(2), lambda z: z @ z / 2)
        report = fk.check(given, state=jnp.zeros(2), points=points, explain=False)
        assert report.verdict == verdict
        assert "away from the 1 different point given" in report.power
        assert any("were not looked for" in note for note in report.notes)


def test_D_that_is_not_finite_is_the_only_reason():
    for D in (lambda z: jnp.diag(jnp.where(z > 0, jnp.nan, 1.0)), lambda z: jnp.diag(jnp.sqrt(z))):
        given = fk.SDE(lambda z: -z, D, lambda z: z @ z / 2)
        points = jnp.asarray(np.random.default_rng(0).normal(size=(12, 2)))
        report = fk.check(given, state=jnp.zeros(2), points=points)
        number = int(np.sum(np.any(~np.isfinite(np.asarray(jax.vmap(D)(points))), axis=(1, 2))))
        assert report.reasons == [f"D is not finite at {number} of the 12 points tested"]
        assert report.verdict == "wrong"
        assert "nan" not in str(report)


def test_what_is_not_finite_is_named():
    given = fk.SDE(lambda z: jnp.where(z > 0, jnp.nan, -z), np.eye(1), lambda z: z @ z / 2)
    report = fk.check(given, state=jnp.zeros(1), points=jnp.linspace(-1, 1, 9)[:, None])
    assert report.reasons == ["the drift is not finite in the mass of the target"]


def test_single_precision_constants_do_not_alarm():
    A = jnp.asarray(0.1, jnp.float32)
    given = fk.SDE(lambda theta, r: {"theta": r, "r": -force(theta) - A * r}, {("r", "r"): 0.1}, SEPARABLE)
    points = {"theta": jnp.linspace(-1, 1, 9), "r": jnp.linspace(1, 2, 9)}
    report = fk.check(given, state=PAIR, points=points)
    assert report.ok
    assert any("single precision" in note for note in report.notes)
    assert not any("single numbers" in note for note in report.notes)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"drift": "sgld"}, r"'sgld' is a name of fk.samplers.* as fk\.samplers\.sgld\(…\)\.on\(target\)"),
        ({"drift": "sgdl"}, "give a fk.Dynamics, or a drift together"),
        ({"drift": lambda z: z}, "give a fk.Dynamics, or a drift together"),
        ({"drift": sghmc(), "diffusion": 1.0}, "has its own"),
        (
            {"drift": lambda z: z, "diffusion": lambda z: 1.0, "hamiltonian": lambda z: z @ z},
            "shape of the state is not known",
        ),
        ({"drift": sghmc(), "state": PAIR, "number_of_points": 1}, "at least 2"),
        ({"drift": fk.dynamics.langevin(potential), "temperature": 4.0}, "its own temperature"),
        ({"drift": sghmc(), "state": PAIR, "points": {"r": jnp.zeros(3)}}, "structure of the state"),
        ({"drift": sghmc(), "state": PAIR, "points": {"theta": 0.0, "r": 0.0}}, "one leading axis, or two"),
        ({"drift": sghmc(), "state": [PAIR, PAIR_2D]}, "state number 1"),
        ({"drift": sghmc(), "state": PAIR, "periodic": {"s": 1.0}}, "'s' is not one of theta, r"),
        ({"drift": sghmc(), "state": PAIR, "periodic": {"r": -1.0}}, "period of r must be a positive number"),
        ({"drift": sghmc(), "state": PAIR, "sphere": "r"}, "a unit vector needs at least two numbers"),
        ({"drift": fk.samplers.nuts(0.1)}, "no target yet"),
        ({"drift": sghmc(), "state": PAIR, "points": {"theta": jnp.zeros(0), "r": jnp.zeros(0)}}, "no rows"),
        (
            {"drift": sghmc(), "state": PAIR, "points": {"theta": jnp.full(1, jnp.nan), "r": jnp.ones(1)}},
            "must be finite",
        ),
        *[
            (
                {"drift": sghmc(), "state": PAIR, "temperature": T},
                "temperature must be one finite number above",
            )
            for T in (0.0, -1.0, np.nan, np.inf, np.ones(2), "hot")
        ],
        (
            {"drift": fk.dynamics.langevin(potential, temperature=0.0), "state": {"theta": 0.0}},
            "temperature must be one finite number above zero",
        ),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        fk.check(**arguments)


# Functions for plain numbers, by what each asks of a number that is not known.
PLAIN = {
    "numpy": lambda z: np.sin(z),
    "if": lambda z: z if z[0] > 0 else -z,
    "float": lambda z: float(z[0]) * z,
    "mask": lambda z: z[z > 0],
}


@pytest.mark.parametrize("how", PLAIN)
@pytest.mark.parametrize("where", ["the drift", "the diffusion", "D", "Q", "the Hamiltonian"])
def test_functions_that_cannot_be_traced_are_named(where, how):
    plain, energy, state = PLAIN[how], lambda z: z @ z / 2, jnp.ones(2)
    given = {
        "the drift": lambda: fk.SDE(plain, np.eye(2), energy),
        "the diffusion": lambda: fk.SDE(lambda z: -z, lambda z: jnp.diag(jnp.asarray(plain(z))), energy),
        "D": lambda: fk.Dynamics(energy, D=Elementwise(plain)),
        "Q": lambda: fk.Dynamics(energy, D=1.0, Q=Operator(lambda z, v: plain(z))),
        "the Hamiltonian": lambda: fk.Dynamics(lambda z: jnp.sum(plain(z)), D=1.0),
    }[where]()
    message = (
        f"{where} could not be traced: write it with jax.numpy instead of numpy, jnp.where instead of if"
    )
    with pytest.raises(TypeError, match=message):
        fk.check(given, state=state)


@pytest.mark.parametrize(
    ("what", "given"),
    [
        ("the drift", lambda: fk.SDE(lambda z: -z * (1 + 0j), np.eye(2), lambda z: z @ z / 2)),
        ("the diffusion", lambda: fk.SDE(lambda z: -z, lambda z: jnp.eye(2) * 1j, lambda z: z @ z / 2)),
        ("D", lambda: fk.Dynamics(lambda z: z @ z / 2, D=Elementwise(lambda z: jnp.sqrt(z + 0j)))),
    ],
)
def test_complex_numbers_are_refused(what, given):
    with pytest.raises(ValueError, match=f"{what} must return real numbers"):
        fk.check(given(), state=jnp.zeros(2))
