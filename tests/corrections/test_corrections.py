"""Any dynamics made exact: the ratio of a step and its way back, reversibility, what cannot be corrected."""

import importlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import fokker as fk
from conftest import quick_jit
from detailed_balance import BENT, FALSE_ALARM, A, asymmetry, bent, log_gamma
from fokker import corrections, fields
from fokker.integrators import (
    EulerMaruyama,
    ExactOU,
    GeneralisedLeapfrog,
    IsokineticLeapfrog,
    Leapfrog,
    Reflecting,
    Splitting,
    StepInput,
    SymplecticEuler,
)
from fokker.integrators import splitting as splitting_module
from fokker.samplers._momentum import momentum_of
from marks import long_case

pytestmark = pytest.mark.usefixtures("quickly")

T, MASS = 2.0, 2.5  # exact in single precision
EXACT = fk.corrections.Metropolis()


def potential(theta):
    return jnp.sum(jnp.exp(theta) - A * theta)


H = fk.Hamiltonian(potential, lambda r: jnp.sum(r**2) / (2 * MASS))


def metric(z):
    """A dense D that depends on everything."""
    a, b = z["theta"][0], z["r"][0]
    off = 0.4 * jnp.sin(a + b)
    return jnp.array([[1.2 + 0.5 * jnp.tanh(a), off], [off, 1.0 + 0.5 * jnp.cos(b)]])


def curl(z):
    return jnp.array([[0.0, 0.0], [1.0 + 0.5 * jnp.sin(z["theta"][0]), 0.0]])


# Every entry of D and Q depends on the state.
ANY = fk.Dynamics(H, D=fields.Dense(lambda z: metric(z)), Q=fields.Skew(lambda z: curl(z)), temperature=T)
# Friction that depends on theta, noise on the momentum alone.
UNDERDAMPED = fk.Dynamics(
    H,
    D={("r", "r"): fields.Elementwise(lambda theta: 0.8 + 0.5 * jnp.tanh(theta))},
    Q={("r", "theta"): 1.0},
    temperature=T,
)
CASES = {
    "Euler–Maruyama": (ANY, EulerMaruyama(), 0.6),
    "exact OU": (UNDERDAMPED, ExactOU(), 1.5),
    "ABOBA": (UNDERDAMPED, Splitting(), 1.5),
    "BAOAB": (UNDERDAMPED, Splitting("BAOAB"), 1.3),
}


def proposed(integrator, dynamics, z, noise, h):
    """A proposal with what is known at its start."""
    return integrator.propose(dynamics, z, noise, h, integrator.evaluate(dynamics, z))


def exact_draws(count):
    rng = np.random.default_rng(3)
    theta, r = log_gamma(rng, T, (count, 1)), np.sqrt(T * MASS) * rng.normal(size=(count, 1))
    return {"theta": jnp.asarray(theta, jnp.float32), "r": jnp.asarray(r, jnp.float32)}


def steps_of(name, correction=EXACT, count=30_000):
    """Draws before and after one step, the latter with the momentum reversed where time is; and the infos."""
    dynamics, integrator, h = CASES[name]
    sampler = fk.samplers.recipe(dynamics, h, integrator=integrator, correction=correction)

    @quick_jit
    def run(z, keys):
        def move(z, key):
            state, info = sampler.step(key, sampler.init(z))
            return state.z, info

        return jax.vmap(move)(z, keys)

    before = exact_draws(count)
    after, info = run(before, jax.random.split(jax.random.key(5), count))
    if integrator != EulerMaruyama():
        after = {**after, "r": -after["r"]}
    return *(jnp.concatenate([z["theta"], z["r"]], axis=1) for z in (before, after)), info


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_corrected_steps_are_reversible(name):
    """From exact draws, (before, after) is distributed as (after, before): false alarms once in a million."""
    before, after, info = steps_of(name)
    assert 0.3 < float(jnp.mean(info.is_accepted)) < 0.97
    assert asymmetry(before, after) > FALSE_ALARM
    np.testing.assert_allclose(jnp.mean(info.is_accepted), jnp.mean(info.acceptance_rate), atol=0.02)


@pytest.mark.parametrize("name", CASES)
def test_without_the_correction_they_are_not(name):
    before, after, _ = steps_of(name, correction=None)
    assert asymmetry(before, after) < 1e-12


def _without_heat(monkeypatch):
    monkeypatch.setattr(splitting_module, "_heat", lambda *z: jnp.zeros(()))
    return "ABOBA"


def _heat_doubled(monkeypatch):
    right = splitting_module._heat
    monkeypatch.setattr(splitting_module, "_heat", lambda *z: 2 * right(*z))
    return "ABOBA"


def _without_determinant(monkeypatch):
    monkeypatch.setattr(fields.Field, "log_determinant", lambda self, z, row=None: jnp.zeros(()))
    return "Euler–Maruyama"


def _momentum_kept(monkeypatch):
    monkeypatch.setattr(Splitting, "rejected", lambda self, z: z)
    return "ABOBA"


def _temperature_ignored(monkeypatch):
    right = corrections.Step.energy
    monkeypatch.setattr(corrections.Step, "energy", lambda step, *at: T * right(step, *at))
    return "exact OU"


@pytest.mark.parametrize(
    "fault",
    [
        _without_heat,
        _momentum_kept,
        *(
            long_case("corrections::a_wrong_ratio_is_seen", f)
            for f in (_heat_doubled, _without_determinant, _temperature_ignored)
        ),
    ],
)
def test_a_wrong_ratio_is_seen(fault, monkeypatch):
    before, after, _ = steps_of(fault(monkeypatch))
    assert asymmetry(before, after) < 1e-9


@pytest.mark.slow
def test_the_ratio_of_euler_maruyama_steps_is_that_of_two_normal_densities(x64):
    dynamics, integrator, h = CASES["Euler–Maruyama"]
    z = {"theta": jnp.array([0.3]), "r": jnp.array([-1.1])}
    noise = {"theta": jnp.array([0.7]), "r": jnp.array([-0.4])}
    proposal = quick_jit(lambda z, noise: proposed(integrator, dynamics, z, noise, h))(z, noise)

    def vector(z):
        return np.concatenate([np.asarray(z["theta"]), np.asarray(z["r"])])

    def log_q(a, b):
        mean = vector(a) + h * vector(dynamics.drift(a))
        return stats.multivariate_normal(mean, 2 * h * np.asarray(dynamics.diffusion(a))).logpdf(vector(b))

    there, back = log_q(z, proposal.z), log_q(proposal.z, z)
    np.testing.assert_allclose(float(proposal.log_ratio), back - there, rtol=1e-6)
    U, gradient = jax.value_and_grad(potential)(proposal.z["theta"])
    np.testing.assert_allclose(proposal.point.potential, U, rtol=1e-12)
    np.testing.assert_allclose(proposal.point.gradient, gradient, rtol=1e-12)
    jax.tree.map(np.testing.assert_array_equal, integrator.rejected(z), z)


def test_the_exact_ou_step_of_a_linear_potential_is_always_accepted(x64):
    """It is then solved exactly, and the way back in reversed time has the same probability flux."""
    slope = fk.Hamiltonian(lambda theta: jnp.sum(3.0 * theta), lambda r: jnp.sum(r**2) / (2 * MASS))
    dynamics = fk.Dynamics(slope, D={("r", "r"): 0.7}, Q={("r", "theta"): 1.0}, temperature=T)
    z = {"theta": jnp.array([0.3, 2.0]), "r": jnp.array([-1.1, 0.4])}
    noise = {"theta": jnp.array([0.7, -1.0]), "r": jnp.array([-0.4, 2.0])}
    proposal = proposed(ExactOU(), dynamics, z, noise, 0.9)
    change = (slope(proposal.z) - slope(z)) / T
    np.testing.assert_allclose(proposal.log_ratio, change, atol=1e-12)
    assert abs(float(change)) > 0.1


@pytest.mark.slow
def test_the_step_proposed_is_the_step_taken_without_a_correction():
    for dynamics, integrator, h in CASES.values():
        plain = fk.samplers.recipe(dynamics, h, integrator=integrator)
        z = {"theta": jnp.array([0.3]), "r": jnp.array([-1.1])}

        @quick_jit
        def both(z, plain=plain, dynamics=dynamics, integrator=integrator, h=h):
            noise = plain.draw(jax.random.key(0), plain.init(z)).noise
            moved, _ = integrator.advance(StepInput(dynamics, z, None, noise, h))
            return moved, proposed(integrator, dynamics, z, noise, h).z

        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), *both(z))


D1 = jnp.array([0.5, 1.5, 2.0])
L = jnp.array([[1.0, 0.2], [-0.3, 0.5], [0.4, 2.0]])
FULL = jnp.diag(D1) + 0.3 * jnp.ones((3, 3))
SOLVED = {
    "scalar": (fields.Scalar(lambda z: 1 + jnp.sum(z**2)), None),
    "diagonal": (fields.Diagonal(D1), None),
    "elementwise": (fields.Elementwise(lambda z: 1 + z**2), None),
    "dense": (fields.Dense(FULL), None),
    "low rank plus diagonal": (fields.Gram(L, D1), None),
    "low rank plus dense": (fields.Gram(L, fields.Dense(FULL)), None),
    "scaled sum": (2.0 * (fields.Gram(L, 0.3) + fields.Diagonal(D1)), None),
    "blocks": (fields.symmetric({("r", "r"): fields.Dense(FULL), ("theta", "theta"): 0.4}), "named"),
    "blocks off the diagonal": (
        fields.symmetric({("r", "r"): 2.0, ("theta", "theta"): 1.0, ("r", "theta"): 0.3}),
        "named",
    ),
}


@pytest.mark.parametrize("name", SOLVED)
def test_fields_are_solved_and_have_their_determinant(name, x64):
    field, named = SOLVED[name]
    field = jax.tree.map(lambda x: x if callable(x) else jnp.asarray(x, jnp.float64), field)
    x = jnp.array([0.2, -0.7, 1.1])
    z = {"theta": x[::-1], "r": x} if named else x
    v = {"theta": x + 1, "r": 2 * x - 0.5} if named else x + 1
    there = field.solve(z, v)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10), field.mv(z, there), v)
    sign, value = np.linalg.slogdet(np.asarray(field.as_matrix(z)))
    assert sign == 1
    np.testing.assert_allclose(field.log_determinant(z), value, rtol=1e-10)


def test_a_singular_field_has_no_finite_determinant():
    z = {"theta": jnp.ones(2), "r": jnp.ones(2)}
    assert not np.isfinite(fields.symmetric({("r", "r"): 1.0}).log_determinant(z))
    assert not np.isfinite(fields.Gram(jnp.ones((2, 1))).log_determinant(jnp.ones(2)))


@pytest.mark.long("corrections::corrected_steps_are_reversible")
def test_your_own_dynamics_are_sampled_exactly_by_fk_sample():
    """Means of θ and θ² at a step that is far off without the correction; false alarms 7e-6 each."""
    sampler = fk.samplers.recipe(ANY, 0.6, correction=EXACT)
    init = {"theta": jnp.zeros(1), "r": jnp.zeros(1)}
    trace = fk.sample(None, sampler, init=init, steps=200, burn_in=40, seed=2, chains=200, progress=False)
    assert 0.3 < trace.sample_stats["acceptance_rate"].mean() < 0.97
    exact = log_gamma(np.random.default_rng(0), T, 1_000_000)
    for power in (1, 2):
        means = (np.asarray(trace.samples, float)[..., 0] ** power).mean(axis=1)
        error = means.std(ddof=1) / np.sqrt(len(means))
        assert abs(means.mean() - (exact**power).mean()) < 4.5 * error


REFUSED = {
    "degenerate D": (UNDERDAMPED, {"integrator": EulerMaruyama()}, "only where D is invertible.*Splitting"),
    "symplectic Euler": (
        UNDERDAMPED,
        {"integrator": SymplecticEuler()},
        "SymplecticEuler cannot be corrected",
    ),
    "walls": (UNDERDAMPED, {"integrator": Reflecting(0.0)}, "Reflecting cannot be corrected"),
    "a thermostat": (
        fk.dynamics.thermostat(potential),
        {"integrator": Splitting()},
        "thermostat cannot be corrected",
    ),
    "an uneven kinetic energy": (
        fk.Dynamics(
            fk.Hamiltonian(potential, lambda r: jnp.sum(r**2 / 2 + r)),
            D={("r", "r"): 1.0},
            Q={("r", "theta"): 1.0},
        ),
        {"integrator": Splitting()},
        "even in r",
    ),
    "no temperature": (
        fk.Dynamics(H, D={("theta", "theta"): 1.0, ("r", "r"): 1.0}, temperature=0.0),
        {},
        "temperature above zero",
    ),
    "two-point noise": (ANY, {"noise": "two-point"}, "takes no noise"),
    "a random Γ": (ANY, {"gamma": "estimate"}, "takes no gamma"),
    "B̂": (ANY, {"noise_estimate": 0.1}, "takes no noise_estimate"),
    "minibatches": (ANY, {"gradient": lambda theta, batch: theta}, "takes no gradient"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_corrected_is_refused_with_the_reason(name):
    dynamics, options, reason = REFUSED[name]
    z = {"theta": jnp.zeros(1), "r": jnp.zeros(1)} | ({"xi": jnp.ones(())} if "thermostat" in name else {})
    with pytest.raises(ValueError, match=reason):
        fk.samplers.recipe(dynamics, 0.1, correction=EXACT, **options).init(z)


def test_a_correction_is_an_object():
    with pytest.raises(TypeError, match=r"Metropolis\(\)"):
        fk.samplers.recipe(ANY, 0.1, correction=fk.corrections.Metropolis)


def test_a_splitting_refuses_forces_on_the_position():
    """Q[theta, theta] ∇U is not a part that any letter of the splitting has."""
    turning = fk.Dynamics(
        fk.Hamiltonian(lambda theta: jnp.sum(theta**2) / 2, lambda r: jnp.sum(r**2) / 2),
        D={("r", "r"): 1.0},
        Q={("r", "theta"): 1.0, ("theta", "theta"): fields.Skew(jnp.array([[0.0, 0.0], [1.0, 0.0]]))},
    )
    z = {"theta": jnp.ones(2), "r": jnp.ones(2)}
    for integrator in (Splitting(), ExactOU()):
        with pytest.raises(ValueError, match="force on theta"):
            fk.samplers.recipe(turning, 0.1, integrator=integrator).init(z)


@pytest.mark.parametrize("what", ["a mass that depends on theta", "a Q that depends on r"])
def test_what_a_splitting_cannot_solve_is_seen_from_any_start(what):
    """From theta = 0, where the mass has no slope, and r = 0, where Q has none."""
    if what == "a Q that depends on r":
        turned = {("r", "theta"): fields.Diagonal(lambda r: 1 / (0.2 + r**2))}
        dynamics = fk.Dynamics(H, D={("r", "r"): 1.0}, Q=turned)
    else:
        kinetic = fk.Hamiltonian(
            lambda theta: jnp.sum(theta**2) / 2,
            lambda theta, r: jnp.sum(r**2 / (2 * (1 + theta**2)) + jnp.log1p(theta**2) / 2),
        )
        dynamics = fk.Dynamics(kinetic, D={("r", "r"): 1.0}, Q={("r", "theta"): 1.0})
    for integrator in (Splitting(), ExactOU()):
        with pytest.raises(ValueError, match="Q and the mass the same everywhere"):
            fk.samplers.recipe(dynamics, 0.1, integrator=integrator).init(
                {"theta": jnp.zeros(1), "r": jnp.zeros(1)}
            )


@pytest.mark.long("check_samplers::corrections_that_are_wrong_are_found")
def test_the_checker_looks_at_the_correction_of_your_own_dynamics(monkeypatch):
    """A drift that does not keep the target is a proposal like any other; a wrong ratio is found."""
    slow = fk.SDE(lambda theta: -theta / 2, 1.0, lambda theta: jnp.sum(theta**2) / 2)
    state = {"theta": jnp.zeros(1)}
    options = {"state": state, "explain": False, "number_of_points": 64}
    sampler = fk.samplers.recipe(slow, 0.1, correction=EXACT)
    report = fk.check(sampler, **options)
    assert report.verdict == "right"
    assert any("detailed balance" in check for check in report.checks)
    assert fk.check(slow, **options).verdict == "wrong"
    right = EulerMaruyama.propose
    zero = lambda *given: right(*given)._replace(log_ratio=jnp.zeros(()))  # noqa: E731
    monkeypatch.setattr(EulerMaruyama, "propose", zero)
    report = fk.check(sampler, **options)
    assert report.verdict == "wrong"
    assert "detailed balance does not hold" in report.reasons[0]


# Hamiltonian dynamics of your own -------------------------------------------------------------------------


def uneven(theta, r):
    """A kinetic energy whose mass depends on theta, and mixes the coordinates."""
    a = 1.3 + jnp.tanh(theta[0])
    inverse = jnp.array([[a, 0.3], [0.3, 1.0]])
    return r @ inverse @ r / 2 - jnp.log(a - 0.09) / 2


HEAVY = jnp.array([2.0, 0.5])
OWN = {
    "leapfrog, Metropolis": (
        fk.dynamics.hamiltonian_flow(BENT.potential, HEAVY),
        Leapfrog(),
        corrections.Metropolis(3),
        0.7,
    ),
    "leapfrog, tree": (
        fk.dynamics.hamiltonian_flow(BENT.potential, HEAVY),
        Leapfrog(),
        corrections.Tree(4),
        0.9,
    ),
    "leapfrog, naive tree": (
        fk.dynamics.hamiltonian_flow(BENT.potential, HEAVY),
        Leapfrog(),
        corrections.NaiveTree(3),
        0.9,
    ),
    "generalised leapfrog, Metropolis": (
        fk.Dynamics(fk.Hamiltonian(BENT.potential, uneven), Q={("r", "theta"): 1.0}),
        GeneralisedLeapfrog(),
        corrections.Metropolis(2),
        0.5,
    ),
    "generalised leapfrog of one function, tree": (
        fk.Dynamics(lambda theta, r: BENT.potential(theta) + uneven(theta, r), Q={("r", "theta"): 1.0}),
        GeneralisedLeapfrog(),
        corrections.Tree(3),
        0.5,
    ),
}


def own_steps(name):
    """Draws of theta before and after one step, and the infos; T = 1."""
    dynamics, integrator, correction, h = OWN[name]
    sampler = fk.samplers.recipe(dynamics, h, integrator=integrator, correction=correction)
    before = jnp.asarray(bent(np.random.default_rng(0), 1.0, 20_000), jnp.float32)

    @quick_jit
    def run(theta, keys):
        def move(theta, key):
            state, info = sampler.step(key, sampler.init({"theta": theta, "r": jnp.zeros(2)}))
            return state.position, info

        return jax.vmap(move)(theta, keys)

    return before, *run(before, jax.random.split(jax.random.key(1), len(before)))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        n
        if n.startswith("leapfrog") and "naive" not in n
        else long_case("corrections::your_own_hamiltonian_dynamics_are_reversible", n)
        for n in OWN
    ],
)
def test_your_own_hamiltonian_dynamics_are_reversible(name):
    """With masses that are not 1 and a momentum drawn from the kinetic energy; false alarm 1e-6."""
    before, after, info = own_steps(name)
    assert 0.2 < float(jnp.mean(info.acceptance_rate)) < 0.97
    assert float(jnp.mean(jnp.any(before != after, axis=1))) > 0.3
    assert asymmetry(before, after, 4) > FALSE_ALARM


@pytest.mark.parametrize(
    "name",
    [
        "leapfrog, tree",
        long_case(
            "corrections::with_momenta_of_another_mass_they_are_not", "generalised leapfrog, Metropolis"
        ),
    ],
)
def test_with_momenta_of_another_mass_they_are_not(name, monkeypatch):
    module = importlib.import_module("fokker.samplers.corrected")
    monkeypatch.setattr(module, "momentum_of", lambda dynamics, z, noise: noise)
    before, after, _ = own_steps(name)
    assert asymmetry(before, after, 4) < 1e-9


@pytest.mark.slow
def test_a_momentum_is_drawn_from_the_kinetic_energy(x64):
    """Its covariance is T M(θ): the root of the inverse of ∂²H/∂r², written out or diagonal."""
    theta, T = jnp.array([0.4, -0.3]), 1.7
    H = fk.Hamiltonian(BENT.potential, uneven)
    dynamics = fk.Dynamics(H, Q={("r", "theta"): 1.0}, temperature=T)
    z = {"theta": theta, "r": jnp.zeros(2)}
    root = jax.jacfwd(lambda w: momentum_of(dynamics, z, w))(jnp.zeros(2))
    mass = np.linalg.inv(jax.hessian(uneven, 1)(theta, jnp.ones(2)))
    np.testing.assert_allclose(root @ root.T, T * mass, rtol=1e-10)
    many = jnp.linspace(0.5, 2.0, 600)
    heavy = fk.dynamics.hamiltonian_flow(lambda theta: jnp.sum(theta**2), many)
    z = {"theta": jnp.zeros(600), "r": jnp.zeros(600)}
    np.testing.assert_allclose(momentum_of(heavy, z, jnp.ones(600)), jnp.sqrt(many), rtol=1e-10)


REFUSED_TREES = {
    "noise in the steps": (
        lambda: fk.samplers.recipe(UNDERDAMPED, 0.1, integrator=Splitting(), correction=corrections.Tree()),
        "no noise in them",
    ),
    "friction": (
        lambda: fk.samplers.recipe(UNDERDAMPED, 0.1, integrator=Leapfrog(), correction=corrections.Tree()),
        "D = 0",
    ),
    "friction in the generalised leapfrog": (
        lambda: fk.samplers.recipe(UNDERDAMPED, 0.1, integrator=GeneralisedLeapfrog(), correction=EXACT),
        "D = 0",
    ),
    "a kinetic energy that is not quadratic": (
        lambda: fk.samplers.recipe(
            fk.Dynamics(fk.Hamiltonian(potential, lambda r: jnp.sum(r**4)), Q={("r", "theta"): 1.0}),
            0.1,
            integrator=GeneralisedLeapfrog(),
            correction=corrections.Tree(),
        ),
        "kinetic energy rᵀM⁻¹r/2",
    ),
    "a mass that depends on theta, by the plain leapfrog": (
        lambda: fk.samplers.recipe(
            fk.Dynamics(
                fk.Hamiltonian(potential, lambda theta, r: jnp.sum(r**2 * (1 + theta**2))),
                Q={("r", "theta"): 1.0},
            ),
            0.1,
            integrator=Leapfrog(),
            correction=EXACT,
        ),
        "the same everywhere",
    ),
    "a Q of one's own, by the generalised leapfrog": (
        lambda: fk.samplers.recipe(
            fk.Dynamics(H, Q={("r", "theta"): 2.0}), 0.1, integrator=GeneralisedLeapfrog(), correction=EXACT
        ),
        "Q={('r', 'theta'): 1.0}",
    ),
}


@pytest.mark.parametrize("name", REFUSED_TREES)
def test_what_no_trajectory_can_be_made_of_is_refused_with_the_reason(name):
    make, words = REFUSED_TREES[name]
    with pytest.raises(ValueError, match=re.escape(words)):
        make().init({"theta": jnp.array([0.2]), "r": jnp.array([0.3])})


def test_a_sampler_says_what_it_is_made_of():
    S = fk.samplers
    for sampler, words in (
        (S.sgld(0.1), "Langevin × Euler–Maruyama"),
        (S.mala(), "Langevin × Euler–Maruyama × Metropolis"),
        (S.rwm(), "Langevin × random walk × Metropolis"),
        (S.maula(), "underdamped × exact OU × Metropolis"),
        (S.hmc(), "Hamiltonian × leapfrog × Metropolis"),
        (S.nuts(), "Hamiltonian × leapfrog × tree"),
        (S.rhmc(0.1, 1.0), "Riemannian × generalised leapfrog × Metropolis"),
        (S.sgnht(0.1), "thermostat × symplectic Euler"),
        (S.sghmc(0.1, integrator=Splitting("BAOAB")), "underdamped × BAOAB"),
        (
            S.recipe(UNDERDAMPED, 0.1, integrator=ExactOU(), correction=EXACT),
            "Dynamics × exact OU × Metropolis",
        ),
    ):
        assert str(sampler) == words


@pytest.mark.slow
@pytest.mark.parametrize(
    "D",
    [
        None,
        *(
            long_case("corrections::dynamics_without_noise_get_new_momenta_however_their_zero_is_written", D)
            for D in (0.0, {}, {("r", "r"): 0.0})
        ),
        fields.Zero(),
    ],
    ids=str,
)
def test_dynamics_without_noise_get_new_momenta_however_their_zero_is_written(D):
    dynamics = fk.Dynamics(H, D=D, Q={("r", "theta"): 1.0})
    for correction in (corrections.Metropolis(3), corrections.Tree()):
        sampler = fk.samplers.recipe(dynamics, 0.1, integrator=Leapfrog(), correction=correction)
        state = sampler.init({"theta": jnp.array([0.2])})
        assert set(state.z) == {"theta"}
        moved = {float(sampler.step(jax.random.key(k), state)[0].position[0]) for k in range(3)}
        assert len(moved) == 3


@pytest.mark.parametrize("integrator", [Leapfrog(), GeneralisedLeapfrog()], ids=lambda x: x.label)
def test_a_run_takes_a_zero_that_is_a_number_for_no_noise(integrator):
    """Its first state is compiled, where numbers of D are traced; other numbers are still refused there."""
    z = {"theta": jnp.array([0.2]), "r": jnp.array([0.3])}

    def draws(D):
        sampler = fk.samplers.recipe(fk.Dynamics(H, D=D, Q={("r", "theta"): 1.0}), 0.1, integrator=integrator)
        return fk.sample(None, sampler, init=z, steps=10, chains=1, progress=False).samples

    np.testing.assert_allclose(draws({("r", "r"): 0.0}), draws(None), rtol=1e-5)
    np.testing.assert_array_equal(draws({("r", "r"): 0.0}), draws({("r", "r"): jnp.zeros(())}))
    with pytest.raises(ValueError, match="for Hamiltonian dynamics, with D = 0"):
        draws({("r", "r"): 0.5})


def test_isokinetic_dynamics_without_noise_may_give_their_zero_as_a_number():
    dynamics = fk.dynamics.isokinetic(lambda theta: jnp.sum(theta**2) / 2)
    z = {"theta": jnp.ones(2), "u": jnp.array([0.6, 0.8])}

    def draws(D):
        own = fk.SDE(dynamics.drift_function, D, dynamics.hamiltonian)
        sampler = fk.samplers.recipe(own, 0.1, integrator=IsokineticLeapfrog())
        return fk.sample(None, sampler, init=z, steps=10, chains=1, progress=False).samples

    np.testing.assert_array_equal(draws({("u", "u"): 0.0}), draws(fields.Zero()))
    with pytest.raises(ValueError, match="without noise, and these dynamics are others"):
        draws({("u", "u"): 0.5})


def test_a_noise_that_only_happens_to_be_zero_is_refused():
    """Else the momentum would never be renewed, and the chain stay on one path."""
    D = {("r", "r"): fields.Elementwise(lambda theta: 0 * theta)}
    dynamics = fk.Dynamics(H, D=D, Q={("r", "theta"): 1.0})
    sampler = fk.samplers.recipe(dynamics, 0.1, integrator=Leapfrog(), correction=EXACT)
    with pytest.raises(ValueError, match="leave D out"):
        sampler.init({"theta": jnp.array([0.2]), "r": jnp.array([0.3])})


def test_a_tree_of_noisy_steps_is_refused_when_it_is_made():
    with pytest.raises(ValueError, match="no noise in them"):
        fk.samplers.recipe(UNDERDAMPED, 0.1, correction=corrections.Tree())


def test_a_target_that_is_not_the_samplers_is_refused():
    sampler = fk.samplers.recipe(fk.dynamics.langevin(potential), 0.1)
    options = {"init": {"theta": jnp.zeros(1)}, "steps": 10, "chains": 1, "progress": False}
    assert fk.sample(fk.Density(lambda theta: -potential(theta)), sampler, **options).samples.shape == (
        1,
        10,
        1,
    )
    with pytest.raises(ValueError, match="not that of the sampler's dynamics"):
        fk.sample(fk.Density(lambda theta: -potential(theta - 10)), sampler, **options)
    with pytest.raises(ValueError, match="needs a step size"):
        fk.sample(None, fk.samplers.recipe(fk.dynamics.langevin(potential), "auto"), **options)


ELSEWHERE = {
    "a D that is zero at the start alone": (
        lambda: fk.Dynamics(
            H, D={("r", "r"): fields.Diagonal(lambda theta: jnp.maximum(theta, 0.0))}, Q={("r", "theta"): 1.0}
        ),
        Leapfrog(),
        "D = 0",
    ),
    "a Q that depends on r, and H one function": (
        lambda: fk.Dynamics(
            lambda theta, r: jnp.sum(theta**2 + r**2) / 2,
            Q={("r", "theta"): fields.Diagonal(lambda r: 1 + r**2)},
        ),
        Leapfrog(),
        "the same everywhere",
    ),
    "a D that depends on r": (
        lambda: fk.Dynamics(
            H, D={("r", "r"): fields.Diagonal(lambda r: 0.3 + 0 * r)}, Q={("r", "theta"): 1.0}
        ),
        Splitting(),
        "the same everywhere",
    ),
    "a kinetic energy that is quadratic at the start alone": (
        lambda: fk.Dynamics(
            lambda theta, r: jnp.sum(theta**2 / 2 + r**2 / 2 + theta**2 * r**4), Q={("r", "theta"): 1.0}
        ),
        GeneralisedLeapfrog(),
        "kinetic energy rᵀM⁻¹r/2",
    ),
    "a kinetic energy that is even at the start alone": (
        lambda: fk.Dynamics(
            lambda theta, r: jnp.sum(theta**2 / 2 + (r - theta**2) ** 2 / 2), Q={("r", "theta"): 1.0}
        ),
        GeneralisedLeapfrog(),
        "H(θ, -r) is not H(θ, r)",
    ),
    "no friction for a splitting": (
        lambda: fk.dynamics.underdamped(potential, 0.0),
        Splitting(),
        "use fk.integrators.Leapfrog()",
    ),
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_holds_at_the_start_alone_is_not_enough(name):
    make, integrator, words = ELSEWHERE[name]
    sampler = fk.samplers.recipe(make(), 0.1, integrator=integrator, correction=corrections.Metropolis(3))
    with pytest.raises(ValueError, match=re.escape(words)):
        sampler.init({"theta": jnp.zeros(1), "r": jnp.zeros(1)})


def test_exact_ou_steps_refuse_a_q_that_mixes_coordinates():
    Q = {("r", "theta"): fields.Dense(jnp.array([[1.0, 0.9], [-0.9, 1.0]]))}
    dynamics = fk.Dynamics(H, D={("r", "r"): 1.0}, Q=Q)
    with pytest.raises(ValueError, match="this Q mixes"):
        fk.samplers.recipe(dynamics, 0.1, integrator=ExactOU()).init(
            {"theta": jnp.zeros(2), "r": jnp.ones(2)}
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["exact OU", long_case("corrections::several_noisy_steps_before_a_decision_are_reversible", "BAOAB")],
)
def test_several_noisy_steps_before_a_decision_are_reversible(name):
    """Their ratios add up, and each has noise of its own; false alarm 1e-6."""
    before, after, info = steps_of(name, corrections.Metropolis(3))
    assert 0.2 < float(jnp.mean(info.is_accepted)) < 0.97
    assert asymmetry(before, after) > FALSE_ALARM


def test_every_step_of_a_path_has_noise_of_its_own():
    dynamics, integrator, h = CASES["exact OU"]
    sampler = fk.samplers.recipe(dynamics, h, integrator=integrator, correction=corrections.Metropolis(3))
    state = sampler.init({"theta": jnp.zeros(1), "r": jnp.zeros(1)})
    path = sampler.start(sampler.draw(jax.random.key(0), state), state)
    step, _ = sampler.local_step(state)
    noises = []
    for _ in range(3):
        noises.append(
            float(corrections._correction.noise_of_move(step, path.draws.noise, path.left, path.z)["r"][0])
        )
        path = sampler.move(path, state)
    assert len(set(noises)) == 3


@pytest.mark.parametrize("number", [0, -3, 2.7, jnp.array(-3), jnp.array(2.7), True])
def test_a_number_of_steps_that_is_none_is_refused(number):
    with pytest.raises(ValueError, match="whole number of at least 1"):
        corrections.Metropolis(number)


@pytest.mark.slow
def test_a_schedule_that_turns_negative_stops_trajectories_too():
    dynamics = fk.dynamics.hamiltonian_flow(BENT.potential)
    schedule = lambda t: jnp.where(t < 12, 0.1, -0.1)  # noqa: E731
    sampler = fk.samplers.recipe(
        dynamics, schedule, integrator=Leapfrog(), correction=corrections.Metropolis(3)
    )
    trace = fk.sample(BENT, sampler, init={"theta": jnp.zeros(2)}, steps=40, chains=1, progress=False)
    assert "the schedule gave the step size -0.1" in trace.stopped


def test_every_chain_of_dynamics_is_looked_at_where_it_starts():
    half = fk.Hamiltonian(lambda theta: jnp.sum(jnp.where(theta > 0, theta**2 / 2, jnp.inf)))
    sampler = fk.samplers.recipe(fk.Dynamics(half, D=1.0), 0.1, correction=EXACT)
    starts = fk.PerChain({"theta": jnp.array([[1.0], [-1.0]])})
    with pytest.raises(ValueError, match="chain 2 of 2"):
        fk.sample(None, sampler, init=starts, steps=10, progress=False)
