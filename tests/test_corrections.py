"""Any dynamics made exact: the ratio of a step and its way back, reversibility, what cannot be corrected."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import fokker as fk
from conftest import quick_jit
from detailed_balance import FALSE_ALARM, A, asymmetry, log_gamma
from fokker import fields
from fokker.integrators import EulerMaruyama, ExactOU, Reflecting, Splitting, SymplecticEuler
from fokker.integrators import splitting as splitting_module

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


@pytest.mark.parametrize("name", CASES)
def test_corrected_steps_are_reversible(name):
    """From exact draws, (before, after) is distributed as (after, before): false alarms once in a million."""
    before, after, info = steps_of(name)
    assert 0.3 < float(jnp.mean(info.accepted)) < 0.97
    assert asymmetry(before, after) > FALSE_ALARM
    np.testing.assert_allclose(jnp.mean(info.accepted), jnp.mean(info.acceptance), atol=0.02)


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
    from fokker.integrators import Proposal

    right = Splitting.propose

    def propose(self, dynamics, z, noise, step_size):
        made = right(self, dynamics, z, noise, step_size)
        return Proposal(made.z, made.log_ratio, z)

    monkeypatch.setattr(Splitting, "propose", propose)
    return "ABOBA"


def _temperature_ignored(monkeypatch):
    from fokker.integrators import exact_ou

    right = exact_ou.energy
    monkeypatch.setattr(exact_ou, "energy", lambda dynamics, z: T * right(dynamics, z))
    return "exact OU"


@pytest.mark.parametrize(
    "fault", [_without_heat, _heat_doubled, _without_determinant, _momentum_kept, _temperature_ignored]
)
def test_a_wrong_ratio_is_seen(fault, monkeypatch):
    before, after, _ = steps_of(fault(monkeypatch))
    assert asymmetry(before, after) < 1e-9


def test_the_ratio_of_euler_maruyama_steps_is_that_of_two_normal_densities(x64):
    dynamics, integrator, h = CASES["Euler–Maruyama"]
    z = {"theta": jnp.array([0.3]), "r": jnp.array([-1.1])}
    noise = {"theta": jnp.array([0.7]), "r": jnp.array([-0.4])}
    proposal = quick_jit(lambda z, noise: integrator.propose(dynamics, z, noise, h))(z, noise)

    def vector(z):
        return np.concatenate([np.asarray(z["theta"]), np.asarray(z["r"])])

    def log_q(a, b):
        mean = vector(a) + h * vector(dynamics.drift(a))
        return stats.multivariate_normal(mean, 2 * h * np.asarray(dynamics.diffusion(a))).logpdf(vector(b))

    there, back = log_q(z, proposal.z), log_q(proposal.z, z)
    target = (float(H(z)) - float(H(proposal.z))) / T
    np.testing.assert_allclose(float(proposal.log_ratio), target + back - there, rtol=1e-6)
    jax.tree.map(np.testing.assert_array_equal, proposal.stay, z)


def test_the_exact_ou_step_of_a_linear_potential_is_always_accepted(x64):
    """It is then solved exactly, and the way back in reversed time has the same probability flux."""
    slope = fk.Hamiltonian(lambda theta: jnp.sum(3.0 * theta), lambda r: jnp.sum(r**2) / (2 * MASS))
    dynamics = fk.Dynamics(slope, D={("r", "r"): 0.7}, Q={("r", "theta"): 1.0}, temperature=T)
    z = {"theta": jnp.array([0.3, 2.0]), "r": jnp.array([-1.1, 0.4])}
    noise = {"theta": jnp.array([0.7, -1.0]), "r": jnp.array([-0.4, 2.0])}
    np.testing.assert_allclose(ExactOU().propose(dynamics, z, noise, 0.9).log_ratio, 0, atol=1e-12)


def test_the_step_proposed_is_the_step_taken_without_a_correction():
    for dynamics, integrator, h in CASES.values():
        plain = fk.samplers.recipe(dynamics, h, integrator=integrator)
        z = {"theta": jnp.array([0.3]), "r": jnp.array([-1.1])}

        @quick_jit
        def both(z, plain=plain, dynamics=dynamics, integrator=integrator, h=h):
            noise = plain.draw(jax.random.key(0), plain.init(z)).noise
            moved, _ = integrator.advance(dynamics, z, None, noise, h)
            return moved, integrator.propose(dynamics, z, noise, h).z

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


def test_your_own_dynamics_are_sampled_exactly_by_fk_sample():
    """Means of θ and θ² at a step that is far off without the correction; false alarms 7e-6 each."""
    sampler = fk.samplers.recipe(ANY, 0.6, correction=EXACT)
    init = {"theta": jnp.zeros(1), "r": jnp.zeros(1)}
    trace = fk.sample(None, sampler, init=init, steps=200, burn_in=40, seed=2, chains=200, progress=False)
    assert 0.3 < trace.stats["acceptance_rate"].mean() < 0.97
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


def test_the_checker_says_what_it_did_not_look_at_of_a_correction():
    slow = fk.SDE(lambda theta: -theta / 2, 1.0, lambda theta: jnp.sum(theta**2) / 2)
    state = {"theta": jnp.zeros(1)}
    report = fk.check(fk.samplers.recipe(slow, 0.1, correction=EXACT), state=state, explain=False)
    assert report.verdict == "undecided"
    assert "the correction" in report.reasons[0]
    right = fk.Dynamics(lambda theta: jnp.sum(theta**2) / 2, D=1.0)
    report = fk.check(fk.samplers.recipe(right, 0.1, correction=EXACT), state=state)
    assert report.ok
    assert any("ratio was not checked" in note for note in report.notes)
