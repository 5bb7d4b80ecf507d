"""The checker: right samplers pass, each kind of wrong one fails for the reason it is wrong."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fokker as fk
from fokker.fields import Column, Dense, Diagonal, Elementwise, Operator, Scalar, Skew


def potential(theta):
    """Skewed and not Gaussian, so that no error cancels."""
    return jnp.sum(theta**4 / 4 - theta**2 / 2 + 0.3 * theta)


def metric(theta):
    return 0.5 + 0.4 * jnp.sin(theta) + 0.2 * theta**2


def root(theta):
    return jnp.sqrt(metric(theta))


force = jax.grad(potential)
root_slope = jax.grad(lambda theta: jnp.sum(root(theta)))
H = fk.Hamiltonian(potential, auxiliary=lambda r: jnp.sum(r**2) / 2)
D_METRIC = {("r", "r"): Elementwise(metric)}
PAIR = {"theta": jnp.zeros(()), "r": jnp.zeros(())}
PAIR_2D = {"theta": jnp.zeros(2), "r": jnp.zeros(2)}


def sgrhmc(gamma=1.0, friction=1.0):
    def drift(theta, r):
        pull = -root(theta) * force(theta) + gamma * root_slope(theta) - friction * metric(theta) * r
        return {"theta": root(theta) * r, "r": pull}

    return fk.SDE(drift, fk.fields.symmetric(D_METRIC), H)


def sghmc(friction=1.0, noise=1.0, force_sign=-1.0):
    def drift(theta, r):
        return {"theta": r, "r": force_sign * force(theta) - friction * r}

    return fk.SDE(drift, {("r", "r"): noise}, H)


def sgrld(gamma=1.0):
    slope = jax.grad(lambda theta: jnp.sum(metric(theta)))
    return fk.SDE(
        lambda theta: {"theta": -metric(theta) * force(theta) + gamma * slope(theta)},
        {("theta", "theta"): Elementwise(metric)},
        fk.Hamiltonian(potential),
    )


RIGHT = {
    "langevin": (fk.dynamics.langevin(potential, 2.0), {"theta": jnp.zeros(3)}),
    "langevin dense": (
        fk.dynamics.langevin(potential, Dense(lambda theta: jnp.eye(2) + jnp.outer(theta, theta) / 4)),
        {"theta": jnp.zeros(2)},
    ),
    "hamiltonian": (fk.dynamics.hamiltonian_flow(potential, mass=2.0), PAIR_2D),
    "underdamped": (fk.dynamics.underdamped(potential, friction=2.0, mass=3.0, temperature=0.5), PAIR_2D),
    "thermostat": (fk.dynamics.thermostat(potential, A=2.0), {**PAIR_2D, "xi": jnp.zeros(())}),
    "diagonal thermostat": (
        fk.dynamics.diagonal_thermostat(potential, A=0.5, temperature=3.0),
        {**PAIR_2D, "xi": jnp.zeros(2)},
    ),
    "matrix thermostat": (
        fk.dynamics.matrix_thermostat(potential, A=0.5, mu=2.0),
        {**PAIR_2D, "xi": jnp.zeros((2, 2))},
    ),
    "riemann": (
        fk.dynamics.riemann(potential, Elementwise(metric), Elementwise(root), temperature=0.7),
        PAIR_2D,
    ),
    "sgrhmc by hand": (sgrhmc(), PAIR),
    "sghmc by hand": (sghmc(), PAIR_2D),
    "sgrld by hand": (sgrld(), {"theta": jnp.zeros(2)}),
}


@pytest.mark.long
@pytest.mark.parametrize("name", RIGHT)
def test_right_samplers_pass(name):
    dynamics, state = RIGHT[name]
    report = fk.check(dynamics, state=state)
    assert report.ok, str(report)
    assert report.residual < 1e-12
    assert report.reasons == []
    assert report.marginal.holds


WRONG = {
    "Γ of Q missing": (sgrhmc(gamma=0.0), PAIR, "Γ is missing; adding Γ = ∇·Q in the drift of r"),
    "Γ of Q with the wrong sign": (sgrhmc(gamma=-1.0), PAIR, "Γ has the wrong sign"),
    "Γ of D missing": (sgrld(gamma=0.0), {"theta": jnp.zeros(())}, "Γ is missing; adding Γ = ∇·D"),
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
}


# One for each reason; the others name the same by another case.
OTHERS = {"Γ of D missing", "friction too weak", "Γ of Q with the wrong sign", "friction drives"}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.long) if n in OTHERS else n for n in WRONG]
)
def test_wrong_samplers_fail_for_their_reason(name):
    dynamics, state, reason = WRONG[name]
    report = fk.check(dynamics, state=state)
    assert not report.ok
    assert report.verdict == "wrong"
    assert report.residual > 1e-3
    assert len(report.reasons) == 1
    assert re.search(reason, report.reasons[0]), report.reasons
    assert report.worst_point is not None


@pytest.mark.long
def test_two_mistakes_are_both_named():
    report = fk.check(sgrhmc(gamma=0.0, friction=2.0), state=PAIR)
    assert any("friction does not match" in reason for reason in report.reasons)
    assert any("Γ is missing" in reason for reason in report.reasons)


def test_the_correction_makes_it_stationary():
    given = sgrhmc(gamma=0.0)
    report = fk.check(given, state=PAIR)
    worst = {name: jnp.asarray(value, jnp.float32) for name, value in report.worst_point.items()}
    np.testing.assert_allclose(report.correction["r"], root_slope(worst["theta"]), rtol=1e-4)
    np.testing.assert_allclose(report.correction["theta"], 0.0, atol=1e-12)


def test_the_residual_is_the_closed_form():
    """Naive SGHMC with gradient noise V: R = εV(r² - 1)/2."""
    epsilon_V = 0.3
    given = fk.SDE(lambda theta, r: {"theta": r, "r": -force(theta)}, {("r", "r"): epsilon_V / 2}, H)
    report = fk.check(given, state=PAIR)
    r = float(report.worst_point["r"])
    assert report.worst_value == pytest.approx(epsilon_V * (r**2 - 1) / 2, rel=1e-9)


def test_a_temperature_that_was_ignored_is_named():
    """Drift and noise for T = 1, asked to sample at T = 4."""
    given = fk.SDE(
        lambda theta: {"theta": -metric(theta) * force(theta) + jax.grad(metric)(theta)},
        {("theta", "theta"): Elementwise(metric)},
        fk.Hamiltonian(potential),
    )
    assert fk.check(given, state={"theta": 0.0}, temperature=1.0).ok
    report = fk.check(given, state={"theta": 0.0}, temperature=4.0)
    assert not report.ok
    assert "temperature" in report.reasons[0] or "friction" in report.reasons[0]


def test_the_marginal_of_theta():
    """exp(-H) is stationary, but the mass depends on theta and its normalisation was forgotten."""
    mass = lambda theta: 1 + theta**2  # noqa: E731
    forgotten = fk.Hamiltonian(potential, auxiliary=lambda theta, r: r**2 / (2 * mass(theta)))
    kept = fk.Hamiltonian(
        potential, auxiliary=lambda theta, r: r**2 / (2 * mass(theta)) + jnp.log(mass(theta)) / 2
    )
    reports = {
        h: fk.check(fk.Dynamics(h, D={("r", "r"): 1.0}, Q={("r", "theta"): 1.0})) for h in (forgotten, kept)
    }
    assert reports[kept].ok, str(reports[kept])
    assert reports[kept].marginal.spread < 1e-9
    assert not reports[forgotten].ok
    assert reports[forgotten].residual < 1e-12  # nothing is wrong with the joint density
    assert "marginal of theta" in reports[forgotten].reasons[0]


def test_an_auxiliary_density_that_has_no_integral():
    h = fk.Hamiltonian(lambda theta: jnp.sum(theta**2) / 2, auxiliary=lambda r: jnp.log(1 + r**2) / 4)
    report = fk.check(fk.Dynamics(h, D={("r", "r"): 1.0}, Q={("r", "theta"): 1.0}))
    assert not report.ok


@pytest.mark.long
def test_broken_promises_of_a_field_are_found():
    """An Elementwise field whose entries depend on their neighbours has another Γ than it says."""
    coupled = lambda theta: 1 + jnp.roll(theta, 1) * theta + theta**2 + jnp.roll(theta, 1) ** 2  # noqa: E731
    state = {"theta": jnp.zeros(3)}
    honest = fk.dynamics.langevin(potential, Diagonal(coupled))
    assert fk.check(honest, state=state).ok
    # A true elementwise promise and a broken one differ only where a_i depends on z_j.
    broken = fk.dynamics.langevin(potential, Elementwise(coupled))
    report = fk.check(broken, state=state)
    assert not report.ok
    assert "declare it Diagonal" in report.reasons[0]


@pytest.mark.long
def test_a_wrong_gamma_given_to_an_operator_is_found():
    def make(gamma):
        block = Operator(lambda z, v: jnp.cos(z["theta"]) * v, gamma=gamma)
        return fk.Dynamics(H, D={("r", "r"): 1.0}, Q={("r", "theta"): block})

    assert fk.check(make(lambda z: -jnp.sin(z["theta"])), state=PAIR).ok
    assert not fk.check(make(lambda z: jnp.sin(z["theta"])), state=PAIR).ok


@pytest.mark.long
def test_structure_failures():
    not_semidefinite = fk.SDE(lambda z: z * 0 + z, -jnp.eye(2), lambda z: jnp.sum(z**2) / 2)
    report = fk.check(not_semidefinite, state=jnp.zeros(2))
    assert not report.ok
    assert "positive semidefinite" in report.reasons[0]
    lopsided = fk.SDE(
        lambda z: -z, lambda z: jnp.array([[1.0, 0.5], [0.0, 1.0]]), lambda z: jnp.sum(z**2) / 2
    )
    report = fk.check(lopsided, state=jnp.zeros(2))
    assert not report.ok
    assert "not symmetric" in report.reasons[0]


def test_an_indefinite_field_away_from_the_start_is_found():
    """D is positive where the chain starts and negative out in the target's mass."""
    D = Dense(lambda theta: jnp.reshape(1 - theta**2, (1, 1)))
    report = fk.check(
        fk.dynamics.langevin(lambda theta: jnp.sum(theta**2) / 2, D), state={"theta": jnp.zeros(1)}
    )
    assert not report.ok
    assert "positive semidefinite" in report.reasons[0]


def test_an_error_in_a_small_region_is_found():
    """The drift is wrong only where theta > 2, which holds 2.3 % of the mass."""
    given = fk.SDE(
        lambda z: jnp.where(z > 2, -2 * z, -z), jnp.eye(1), lambda z: jnp.sum(z**2) / 2, state=jnp.zeros(1)
    )
    report = fk.check(given)
    assert not report.ok
    assert float(report.worst_point[0]) > 2
    assert "0.9% of the target's mass" in report.power


@pytest.mark.long
def test_small_errors_are_not_rounded_away():
    report = fk.check(sghmc(friction=1.0 + 1e-6), state=PAIR)
    assert not report.ok


@pytest.mark.long
@pytest.mark.parametrize("d", [100, pytest.param(300, marks=pytest.mark.long)])
def test_hundreds_of_dimensions_by_probes(d):
    state = {"theta": jnp.zeros(d), "r": jnp.zeros(d)}
    right = fk.dynamics.riemann(potential, Elementwise(metric), Elementwise(root))
    report = fk.check(right, state=state)
    assert report.ok, str(report)
    assert "estimated" in report.method
    wrong = fk.check(sgrhmc(gamma=0.0), state=state)
    assert not wrong.ok
    weak = fk.check(sghmc(friction=0.8), state=state)
    assert not weak.ok


def test_probes_agree_with_every_derivative_taken():
    """The same wrong sampler, exact and estimated, has the same residual within its error."""
    from fokker._problem import make_problem
    from fokker.checker._residual import estimated_residuals, exact_residuals

    D = Dense(lambda z: jnp.eye(3) + jnp.outer(jnp.sin(z), jnp.sin(z)))
    with jax.enable_x64(True):
        given = fk.SDE(
            lambda z: -z + jnp.roll(z, 1) ** 2,
            D,
            lambda z: jnp.sum(z**4 / 4 + z[0] * z**2),
            state=jnp.zeros(3),
        )
        problem = make_problem(given)
        points = jax.random.normal(jax.random.key(1), (20, 3))
        exact = exact_residuals(problem, points)
        estimated = estimated_residuals(problem, np.asarray(points), 4000, np.random.default_rng(2))
    # Twenty normal deviates: one beyond 4.5 is a chance of 1.4e-4, at this fixed key none.
    assert np.all(np.abs(exact.values - estimated.values) < 4.5 * estimated.errors)
    assert np.median(estimated.errors) < 0.2 * np.median(np.abs(exact.values))


@pytest.mark.long
def test_theorem_one_for_an_unnamed_state():
    D = Dense(lambda z: jnp.eye(2) * (1 + z[0] ** 2))
    Q = Skew(lambda z: jnp.full((2, 2), jnp.sin(z[0] * z[1])))
    dynamics = fk.Dynamics(lambda z: jnp.sum(z**4) / 4 + z[0] * z[1], D=D, Q=Q)
    assert fk.check(dynamics, state=jnp.zeros(2)).ok


@pytest.mark.long
def test_points_may_be_given():
    points = {"theta": jnp.linspace(-1, 1, 9), "r": jnp.linspace(1, 2, 9)}
    report = fk.check(sgrhmc(gamma=0.0), state=PAIR, points=points)
    assert report.number_of_points == 9
    assert not report.ok
    with pytest.raises(ValueError, match="structure of the state"):
        fk.check(sgrhmc(), state=PAIR, points={"r": jnp.zeros(3)})


THETA = {"theta": jnp.zeros(2)}
NOT_RIGHT = {
    "log p for -log p": (lambda theta: -jnp.sum(theta**2) / 2, 1.0, THETA, "wrong", "falls without bound"),
    "a quartic the wrong way": (
        lambda theta: jnp.sum(theta**2 - theta**4),
        1.0,
        THETA,
        "wrong",
        "without bound",
    ),
    "an edge": (
        lambda theta: jnp.sum(jnp.where(theta > 0, theta, jnp.inf)),
        1.0,
        {"theta": jnp.ones(1)},
        "undecided",
        "has an edge",
    ),
    "a step of energy": (lambda theta: jnp.sum(theta**2 + (theta > 0.5)), 1.0, THETA, "wrong", "H jumps"),
    "a step of D": (
        lambda theta: jnp.sum(theta**2),
        Elementwise(lambda theta: jnp.where(theta > 0, 4.0, 1.0)),
        THETA,
        "wrong",
        "D jumps",
    ),
    "no motion": (
        lambda theta: jnp.sum(theta**2),
        Diagonal(jnp.array([1.0, 0.0])),
        THETA,
        "undecided",
        r"theta\[1\] never moves",
    ),
    "a flat variable": (
        lambda theta: theta["a"] ** 2,
        1.0,
        {"theta": {"a": 0.0, "b": 0.0}},
        "undecided",
        None,
    ),
}


@pytest.mark.parametrize("name", NOT_RIGHT)
def test_what_the_residual_cannot_see_is_not_passed(name):
    """The residual vanishes at every point of these, and yet they do not sample a target."""
    U, D, state, verdict, reason = NOT_RIGHT[name]
    report = fk.check(fk.dynamics.langevin(U, D), state=state)
    assert not report.ok
    assert report.verdict == verdict, str(report)
    assert report.residual < 1e-8
    if reason is not None:
        assert re.search(reason, report.reasons[0]), report.reasons


@pytest.mark.parametrize(
    "U",
    [
        lambda theta: jnp.sum(jnp.abs(theta)),  # a kink is no jump
        lambda theta: 2 * jnp.log(1 + jnp.sum(theta**2) / 3),  # heavy tails
        lambda theta: jnp.sum((theta - 100) ** 2),  # far from the start
        lambda theta: jnp.sum((theta * jnp.array([10.0, 0.1])) ** 2),  # scales
    ],
    ids=["Laplace", "Student", "far", "scales"],
)
def test_awkward_targets_are_not_refused(U):
    report = fk.check(fk.dynamics.langevin(U), state=THETA)
    assert report.ok, str(report)


def test_flux_out_of_the_tails_is_not_passed():
    """f = -z + c exp(z²/2) has R = 0 everywhere, and carries probability to infinity."""
    explosive = fk.SDE(lambda z: -z + jnp.exp(z**2 / 2) / 2, np.eye(1), lambda z: jnp.sum(z**2) / 2)
    report = fk.check(explosive, state=jnp.zeros(1))
    assert report.residual < 1e-8
    assert report.verdict == "wrong"
    assert "flows out to infinity" in report.reasons[0]


def test_a_slow_coordinate_is_not_lost_beside_a_stiff_one():
    scale = jnp.array([1e-4, 1e4])
    energy = lambda z: jnp.sum((z / scale) ** 2) / 2  # noqa: E731
    frozen = fk.SDE(lambda z: jnp.stack([-z[0] / scale[0] ** 2, 0 * z[1]]), np.eye(2), energy)
    assert not fk.check(frozen, state=jnp.zeros(2)).ok


@pytest.mark.long
def test_a_strong_curl_does_not_hide_a_wrong_friction():
    K = np.random.default_rng(0).normal(size=(100, 100))
    K = 30 * (K - K.T) / 10
    energy = lambda z: jnp.sum(z**2) / 2 + jnp.sum(z**4) / 8  # noqa: E731
    slope = jax.grad(energy)
    for friction, right in ((1.0, True), (1.01, False)):
        given = fk.SDE(lambda z, c=friction: -c * slope(z) - K @ slope(z), np.eye(100), energy)
        assert fk.check(given, state=jnp.zeros(100)).ok is right


def test_a_second_mode_far_away_is_looked_at():
    energy = lambda z: -jnp.logaddexp(-(z[0] ** 2) / 2, -((z[0] - 60) ** 2) / 2)  # noqa: E731
    given = fk.SDE(lambda z: -jnp.where(z > 30, 3.0, 1.0) * jax.grad(energy)(z), np.eye(1), energy)
    assert not fk.check(given, state=jnp.zeros(1)).ok


def test_small_negative_noise_beside_large():
    report = fk.check(
        fk.Dynamics(lambda z: jnp.sum(z**2) / 2, D=jnp.diag(jnp.array([1e7, -1.0]))), state=jnp.zeros(2)
    )
    assert "positive semidefinite" in report.reasons[0]


def test_noise_that_does_not_exist_is_not_passed():
    """A sum that is positive semidefinite, of terms that are not: its noise is NaN."""
    D = Dense(2 * jnp.eye(2)) + Dense(jnp.array([[-1.0, 0.5], [0.5, 0.0]]))
    report = fk.check(fk.Dynamics(lambda z: jnp.sum(z**2) / 2, D=D), state=jnp.zeros(2))
    assert "covariance 2D" in report.reasons[0]


@pytest.mark.long
def test_a_mass_that_depends_on_theta_in_many_dimensions():
    mass = lambda theta: 1 + jnp.sum(theta) ** 2  # noqa: E731
    state = {"theta": jnp.zeros(4), "r": jnp.zeros(4)}
    for power, right in ((0.0, False), (2.0, True)):
        h = fk.Hamiltonian(
            potential,
            lambda theta, r, p=power: jnp.sum(r**2) / (2 * mass(theta)) + p * jnp.log(mass(theta)),
        )
        report = fk.check(fk.Dynamics(h, D={("r", "r"): 1.0}, Q={("r", "theta"): 1.0}), state=state)
        assert report.ok is right, str(report)


@pytest.mark.long
def test_heavy_tailed_momentum_is_not_refused():
    h = fk.Hamiltonian(potential, auxiliary=lambda r: 3 * jnp.log1p(r**2 / 5))
    report = fk.check(fk.Dynamics(h, D={("r", "r"): 1.0}, Q={("r", "theta"): 1.0}), state=PAIR)
    assert report.ok, str(report)


def test_a_temperature_beside_dynamics_is_refused():
    with pytest.raises(ValueError, match="its own temperature"):
        fk.check(fk.dynamics.langevin(potential), state=THETA, temperature=4.0)


@pytest.mark.long
def test_shapes_that_were_guessed_are_said():
    given = fk.SDE(lambda theta, r: {"theta": r, "r": -force(theta) - r}, {("r", "r"): 1.0}, H)
    assert any("taken for single numbers" in note for note in fk.check(given).notes)
    assert not any("single numbers" in note for note in fk.check(given, state=PAIR).notes)


def test_single_precision_constants_do_not_alarm():
    A = jnp.asarray(0.1, jnp.float32)
    given = fk.SDE(lambda theta, r: {"theta": r, "r": -force(theta) - A * r}, {("r", "r"): 0.1}, H)
    report = fk.check(given, state=PAIR)
    assert report.ok
    assert any("single precision" in note for note in report.notes)


@pytest.mark.long
def test_the_order_of_a_matrix_is_that_of_the_state():
    def drift(x, v):
        return {"x": v, "v": -x - 0.5 * v}

    given = {"diffusion": jnp.diag(jnp.array([0.0, 0.5])), "hamiltonian": lambda x, v: (x**2 + v**2) / 2}
    assert fk.check(drift, **given).ok
    assert fk.check(drift, **given, state={"x": 0.0, "v": 0.0}).ok
    assert not fk.check(drift, **given, state={"v": 0.0, "x": 0.0}).ok


@pytest.mark.long
def test_a_sampler_is_checked_by_its_dynamics():
    dynamics, state = RIGHT["thermostat"]
    assert fk.check(fk.samplers.recipe(dynamics, 0.1), state=state).ok


@pytest.mark.long
def test_a_thermostat_with_the_wrong_weight():
    """H with (1/2d)(ξ - A)² where (d/2)(ξ - A)² belongs, for d = 3."""
    d = 3
    right = fk.dynamics.thermostat(potential, A=1.0)
    weight = {"right": d / 2, "wrong": 1 / (2 * d)}
    reports = {}
    for name, w in weight.items():
        h = fk.Hamiltonian(potential, lambda r, xi, w=w: jnp.sum(r**2) / 2 + w * (xi - 1.0) ** 2)
        given = fk.SDE(lambda z: right.drift(z), right.D, h)
        state = {"theta": jnp.zeros(d), "r": jnp.zeros(d), "xi": jnp.zeros(())}
        reports[name] = fk.check(given, state=state)
    assert reports["right"].ok, str(reports["right"])
    assert not reports["wrong"].ok
    assert "drift of xi would have to be 9 times" in reports["wrong"].reasons[0]


@pytest.mark.long
def test_scalar_and_column_fields_in_one_state():
    dynamics = fk.Dynamics(
        fk.Hamiltonian(potential, lambda r, xi: (jnp.sum(r**2) + xi**2) / 2),
        D={("r", "r"): Scalar(lambda theta: 1 + jnp.sum(theta**2)), ("xi", "xi"): 0.5},
        Q={("r", "theta"): 1.0, ("theta", "xi"): Column(lambda theta, r: jnp.sin(theta) * r)},
    )
    assert fk.check(dynamics, state={**PAIR_2D, "xi": jnp.zeros(())}).ok


@pytest.mark.long
def test_the_report_explains_itself_and_is_json():
    import json

    report = fk.check(sgrhmc(gamma=0.0), state=PAIR)
    text = str(report)
    for words in ("WRONG", "Γ is missing", "worst at", "residual", "power", "marginal"):
        assert words in text
    parsed = json.loads(json.dumps(report.to_json()))
    assert parsed["ok"] is False
    assert set(parsed["worst_point"]) == {"theta", "r"}
    assert not bool(report)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"drift": lambda z: z}, "give a fk.Dynamics, or a drift together"),
        ({"drift": sghmc(), "diffusion": 1.0}, "has its own"),
        (
            {"drift": lambda z: z, "diffusion": lambda z: 1.0, "hamiltonian": lambda z: z @ z},
            "shape of the state is not known",
        ),
        ({"drift": sghmc(), "state": PAIR, "number_of_points": 1}, "at least 2"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        fk.check(**arguments)
