"""Q from a drift: recovered where unique, equivalent where not, and honest where there is none."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fokker as fk
from fokker.completion._axial import AxialEntries, survey
from fokker.completion._explore import Exploration
from fokker.completion._flux import flat_flux, flux_velocity
from fokker.completion._interpolate import fit_spline
from fokker.dynamics.problem import make_problem
from marks import long_case

FRICTION = 0.7


@pytest.fixture(autouse=True)
def double() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def U(theta):
    return theta**4 - 2 * theta**2


def H(theta, r):
    return U(theta) + r**2 / 2


def metric_root(theta):
    """G^{-1/2} for G⁻¹ = 1.5 √(U + 1.5), which is smooth since min U = -1."""
    return jnp.sqrt(1.5 * jnp.sqrt(U(theta) + 1.5))


def sghmc(temperature: float = 1.0) -> fk.SDE:
    return fk.SDE(
        lambda theta, r: (r, -jax.grad(U)(theta) - FRICTION * r),
        lambda theta, r: jnp.array([[0.0, 0.0], [0.0, FRICTION * temperature]]),
        H,
    )


def riemann_diffusion(theta, r):
    return jnp.array([[0.0, 0.0], [0.0, 1.0]]) * metric_root(theta) ** 2


def gsgrhmc() -> fk.SDE:
    def drift(theta, r):
        g, dg = jax.value_and_grad(metric_root)(theta)
        return g * r, -g * jax.grad(U)(theta) + dg - g**2 * r

    return fk.SDE(drift, riemann_diffusion, H)


def naive_sgrhmc() -> fk.SDE:
    """Ma et al. 2015, Eq. 16: without Γ."""

    def drift(theta, r):
        g = metric_root(theta)
        return g * r, -g * jax.grad(U)(theta) - g**2 * r

    return fk.SDE(drift, riemann_diffusion, H)


def sgnht() -> fk.SDE:
    return fk.SDE(
        lambda theta, r, xi: (r, -jax.grad(U)(theta) - xi * r, r**2 - 1),
        lambda theta, r, xi: jnp.diag(jnp.array([0.0, 1.0, 0.0])),
        lambda theta, r, xi: H(theta, r) + (xi - 1) ** 2 / 2,
    )


def skew_gaussian() -> fk.Dynamics:
    """A correlated Gaussian turned by a full Q that depends on the state: every axis has leftover flux."""
    precision = jnp.array([[1.0, 0.3, 0.0], [0.3, 1.5, -0.2], [0.0, -0.2, 0.8]])

    def lower(z):
        entries = jnp.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [-0.5, 0.7, 0.0]])
        return entries * (1 + jnp.sin(z[0] - z[2]) / 2)

    return fk.Dynamics(lambda z: z @ precision @ z / 2, D=0.5, Q=fk.fields.Skew(lower), temperature=1.3)


@functools.cache
def completed(make: Callable[[], Any], **options: Any) -> fk.Completion:
    state = jnp.zeros(3) if make is skew_gaussian else None
    return fk.complete(make(), state=state, **options)


def trusted_states(found: fk.Completion, count: int, seed: int = 0) -> Any:
    """Random states, not on the grid, where p > 1e-6 max p."""
    sides = np.array(found.box)
    x = np.random.default_rng(seed).uniform(sides[:, 0], sides[:, 1], (40 * count, len(sides)))
    z = {name: jnp.asarray(x[:, i]) for i, name in enumerate(found.order)} if found.order else jnp.asarray(x)
    chosen = np.flatnonzero(jax.vmap(found.is_trusted)(z))[:count]
    assert len(chosen) == count
    return jax.tree.map(lambda leaf: leaf[chosen], z)


def assert_same_drift(found: fk.Completion, drift: Callable[[Any], Any], tolerance: float) -> None:
    z = trusted_states(found, 300)
    rebuilt = fk.Dynamics(found.dynamics.hamiltonian, found.dynamics.D, found.Q, found.temperature)
    given, again = jax.vmap(drift)(z), jax.jit(jax.vmap(rebuilt.drift))(z)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(b, a, rtol=0, atol=tolerance), given, again)


@pytest.mark.parametrize(
    ("make", "truth"),
    [(sghmc, lambda theta: -jnp.ones_like(theta)), (gsgrhmc, lambda theta: -metric_root(theta))],
)
def test_Q_is_recovered_in_two_dimensions(make, truth):
    found = completed(make)
    theta = np.asarray(truth(jnp.asarray(found.axes[0])))[:, None] + np.zeros(found.density.shape)
    assert found.density.shape == (256, 256)
    assert np.abs(found.Q_on_grid[0, 1] - theta)[found.trusted].max() < 1e-8
    np.testing.assert_array_equal(found.Q_on_grid[1, 0], -found.Q_on_grid[0, 1])
    assert found.trusted.sum() > 10_000
    np.testing.assert_array_equal(found.trusted, found.density > 1e-6)
    assert found.stationary
    assert found.divergence < 1e-12
    assert found.notes == []
    for a in range(2):
        assert found.density.take([0, -1], axis=a).max() < 1e-15


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "tolerance"),
    [
        long_case("completion::the_completed_dynamics_has_the_drift_given", sghmc, 1e-7),
        (gsgrhmc, 1e-7),
        long_case("completion::the_completed_dynamics_has_the_drift_given", sgnht, 1e-7),
        (skew_gaussian, 1e-7),
    ],
)
def test_the_completed_dynamics_has_the_drift_given(make, tolerance):
    found = completed(make)
    assert found.Q.is_skew
    assert found.stationary
    assert_same_drift(found, make().drift, tolerance)


@pytest.mark.slow
def test_three_dimensional_Q_stays_bounded():
    """The Fourier formula's own Q reaches 1e5 here; SGNHT's is r, -1 and 0."""
    found = completed(sgnht)
    r = np.broadcast_to(found.axes[1][None, :, None], found.density.shape)
    for entry, truth in (((0, 1), -1.0), ((1, 2), r), ((0, 2), 0.0)):
        assert np.abs(found.Q_on_grid[entry] - truth)[found.trusted].max() < 1e-7


def stationarity_residual(drift: Callable[[Any], Any], given: fk.SDE, z: Any) -> np.ndarray:
    """∇·F/p = ∇·v - v·∇H with v = f - ∇·D + D∇H."""
    problem = make_problem(
        fk.SDE(drift, given.diffusion_argument, given.hamiltonian, {"theta": 0.0, "r": 0.0})
    )
    velocity = flat_flux(problem)

    def residual(state):
        x = problem.to_vector(state)
        v, slopes = velocity(x)[2], jax.jacfwd(lambda y: velocity(y)[2])(x)
        return jnp.trace(slopes) - v @ jax.grad(problem.hamiltonian)(x)

    return np.asarray(jax.jit(jax.vmap(residual))(z))


@pytest.mark.slow
def test_a_drift_that_is_not_stationary_is_brought_to_the_nearest_that_is():
    given, found = naive_sgrhmc(), completed(naive_sgrhmc)
    assert not found.stationary
    assert 0.01 < found.divergence < 0.2
    z = trusted_states(found, 200)
    assert np.abs(stationarity_residual(given.drift, given, z)).max() > 1.0
    assert np.abs(stationarity_residual(found.nearest_drift, given, z)).max() < 1e-9
    assert "NO" in str(found)
    # A right drift is its own nearest.
    right = completed(sghmc)
    state = {"theta": jnp.asarray(0.3), "r": jnp.asarray(-1.1)}
    assert right.nearest_drift(state) == sghmc().drift(state)
    assert right.distance == 0


@pytest.mark.slow
def test_the_nearest_drift_is_nearest():
    """f - f' = ∇ψ ≠ 0 is orthogonal, over p, to every stationary direction ∇·(Ap)/p with A skew."""
    given, found = naive_sgrhmc(), completed(naive_sgrhmc)
    theta, r = (jnp.asarray(x) for x in np.meshgrid(*found.axes, indexing="ij"))
    z = {"theta": theta.ravel()[::7], "r": r.ravel()[::7]}  # 7 is coprime to 256: still a fair grid
    p = jax.vmap(lambda theta, r: jnp.exp(-1 - H(theta, r)))(z["theta"], z["r"])

    def directions(theta, r):
        def a(t, s):
            return jnp.array([1.0, t, s, t * s, jnp.sin(t) * s**2])

        at, ar = jax.jacfwd(a, argnums=(0, 1))(theta, r)
        Ht, Hr = jax.grad(H, argnums=(0, 1))(theta, r)
        return ar - a(theta, r) * Hr, -(at - a(theta, r) * Ht)

    wt, wr = jax.jit(jax.vmap(directions))(z["theta"], z["r"])
    change = jax.tree.map(
        jnp.subtract, jax.jit(jax.vmap(given.drift))(z), jax.jit(jax.vmap(found.nearest_drift))(z)
    )
    products = (p * change["theta"]) @ wt + (p * change["r"]) @ wr
    sizes = jnp.sqrt(p @ (wt**2 + wr**2) * (p @ (change["theta"] ** 2 + change["r"] ** 2)))
    assert float(p @ change["r"] ** 2 / jnp.sum(p)) > 1e-3
    np.testing.assert_allclose(products / sizes, 0, atol=1e-6)


@pytest.mark.slow
def test_axial_equals_fourier_in_two_dimensions():
    fourier, axial = completed(gsgrhmc), completed(gsgrhmc, method="axial", axis="r")
    assert axial.Q_on_grid is None
    z = trusted_states(fourier, 200)
    a, b = (np.asarray(jax.jit(jax.vmap(found.Q.as_matrix))(z)) for found in (fourier, axial))
    np.testing.assert_allclose(a, b, atol=1e-8, rtol=0)
    np.testing.assert_allclose(b[:, 0, 1], -jax.vmap(metric_root)(z["theta"]), atol=1e-10, rtol=0)
    with pytest.raises(ValueError, match="nearest_drift is a projection that needs a grid"):
        axial.nearest_drift(z)


def double_well(theta):
    return jnp.sum(theta**4 / 4 - theta**2 / 2) + theta[0] * theta[1] / 2


def four_dimensional() -> fk.Dynamics:
    return fk.dynamics.underdamped(double_well, friction=FRICTION, temperature=0.8)


@pytest.mark.long("completion::axial_entries_rebuild_the_drift_in_four_dimensions")
def test_axial_in_four_dimensions_reproduces_the_drift():
    state = {"theta": jnp.zeros(2), "r": jnp.zeros(2)}
    found = fk.complete(four_dimensional(), state=state)
    assert "axial" in found.method
    assert found.divergence < 1e-12
    assert any("grows" in note for note in found.notes)  # one axis cannot carry the flux of both pairs
    points = np.random.default_rng(0).normal(size=(100, 4)) * 0.7
    z = {"theta": jnp.asarray(points[:, :2]), "r": jnp.asarray(points[:, 2:])}
    assert bool(jax.vmap(found.is_trusted)(z).all())
    given, again = (jax.jit(jax.vmap(d.drift))(z) for d in (four_dimensional(), found.dynamics))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-8, rtol=0), given, again)


@pytest.mark.long("completion::the_axis_is_the_one_whose_lines_carry_no_flux")
def test_axial_chooses_the_axis_whose_lines_carry_no_flux():
    found = completed(sgnht, method="axial")
    assert "along r" in found.method
    assert found.notes == []
    assert_same_drift(found, sgnht().drift, 1e-10)
    worse = completed(sgnht, method="axial", axis="xi")
    assert any("whole lines of xi" in note for note in worse.notes)


@pytest.mark.slow
def test_the_axis_is_the_one_whose_lines_carry_no_flux():
    """Of a thermostat r: θ and ξ move with r and r² - 1, whose mean along a line of r is zero."""
    points = np.random.default_rng(0).normal(size=(8, 3)) * 0.7 + np.array([0.0, 0.0, 1.0])
    exploration = Exploration([(-2.8, 2.8), (-9.0, 9.0), (-8.0, 10.0)], jnp.asarray(points), -1.0)
    problem = make_problem(sgnht())
    chosen, given = (survey(problem, exploration, axis) for axis in (None, 2))
    assert chosen.axis == 1
    assert chosen.two_sided
    assert chosen.divergence < 1e-12
    assert given.axis == 2
    assert given.leftover > 0.01
    assert not given.two_sided


@pytest.mark.slow
def test_temperature_in_the_axial_gauge():
    """The drift of underdamped dynamics at T: Q is that of T = 1, and not T or 1/T times it."""
    dynamics = fk.dynamics.underdamped(U, friction=FRICTION, temperature=0.4)
    z = {"theta": jnp.asarray(0.8), "r": jnp.asarray(0.3)}
    # By its parts: finding the box and the axis is most of the time that fk.complete takes.
    entries = AxialEntries(dynamics, jnp.asarray(0.4), jnp.array([-8.0, 8.0]), 1, ("theta", "r"), True)
    np.testing.assert_allclose(entries(z, jnp.array([0.8, 0.3])), [-1.0], atol=1e-9)


@pytest.mark.slow
def test_axial_entries_rebuild_the_drift_in_four_dimensions():
    """F_i for i ≠ a is ∂_a(Q_ia p): the rows beside the axis are those of the drift given."""
    given = four_dimensional()
    problem = make_problem(given, state={"theta": jnp.zeros(2), "r": jnp.zeros(2)})
    entries = AxialEntries(given, given.temperature, jnp.array([-9.0, 9.0]), 3, ("theta", "r"), False)

    def weighted(x):
        return entries(problem.to_state(x), x) * jnp.exp(-problem.hamiltonian(x))

    x = jnp.array([0.4, -0.3, 0.5, 0.2])
    slope = jax.jit(jax.jacfwd(weighted))(x)[:, 3] * jnp.exp(problem.hamiltonian(x)) * given.temperature
    np.testing.assert_allclose(slope, flat_flux(problem)(x)[2][:3], atol=1e-8)


@pytest.mark.slow
def test_Q_is_kept_at_its_edge_far_away():
    """Beyond the box the spline gives the value of the nearest point inside."""
    spline = fit_spline(np.linspace(0.0, 1.0, 24)[None], [np.linspace(-1.0, 1.0, 24)])
    far = np.asarray(jax.vmap(spline)(jnp.array([[-50.0], [50.0]])))[:, 0]
    assert np.all(np.isfinite(far))
    assert np.all(np.abs(far) < 2)


@pytest.mark.slow
def test_temperature():
    T = 0.4
    found = fk.complete(sghmc(temperature=T), temperature=T)
    assert found.stationary
    assert found.temperature == T
    assert np.abs(found.Q_on_grid[0, 1] + 1)[found.trusted].max() < 1e-7
    assert_same_drift(found, sghmc().drift, 1e-6)
    np.testing.assert_allclose(
        found.dynamics.diffusion({"theta": jnp.zeros(()), "r": jnp.zeros(())}), np.diag([0, T * FRICTION])
    )
    dynamics = fk.dynamics.underdamped(U, friction=FRICTION, temperature=T)
    axial = fk.complete(dynamics, method="axial")
    z = {"theta": jnp.asarray(0.8), "r": jnp.asarray(0.3)}
    np.testing.assert_allclose(axial.Q.as_matrix(z), [[0, -1], [1, 0]], atol=1e-9)
    # At a wrong temperature the drift does not keep exp(-H/T).
    assert not fk.complete(
        sghmc(temperature=T), temperature=1.0, box=[(-2.8, 2.8), (-9, 9)], grid=96
    ).stationary


@pytest.mark.parametrize("method", ["fourier", "axial"])
def test_reversible_dynamics_need_no_Q(method):
    D = fk.fields.Dense(jnp.array([[2.0, 0.5], [0.5, 1.0]]))
    langevin = fk.dynamics.langevin(lambda theta: jnp.sum(theta**4) / 4, D=D)
    found = fk.complete(langevin, state={"theta": jnp.zeros(2)}, method=method)
    np.testing.assert_array_equal(found.Q.as_matrix({"theta": jnp.ones(2)}), np.zeros((2, 2)))
    assert found.divergence == 0
    assert found.stationary
    if method == "fourier":
        np.testing.assert_array_equal(found.Q_on_grid, 0)


@pytest.mark.slow
def test_one_dimension():
    D = fk.fields.Elementwise(lambda theta: 1 + theta**2)
    right = fk.complete(fk.dynamics.langevin(U, D=D))
    assert right.stationary
    np.testing.assert_array_equal(right.Q_on_grid, 0)
    # SGRLD without Γ.
    wrong = fk.complete(
        fk.SDE(
            lambda z: -(1 + z**2) * jax.vmap(jax.grad(U))(z),
            lambda z: 1 + z**2,
            lambda z: U(z[0]),
            jnp.zeros(1),
        )
    )
    assert not wrong.stationary
    assert wrong.divergence == pytest.approx(1.0)
    z = jnp.array([0.4])
    np.testing.assert_allclose(wrong.nearest_drift(z), -(1 + z**2) * (4 * z**3 - 4 * z) + 2 * z)


@pytest.mark.slow
def test_single_precision():
    with jax.enable_x64(False):
        found = fk.complete(gsgrhmc())
    z = trusted_states(found, 200)
    with jax.enable_x64(False):
        single = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), z)
        Q = jax.jit(jax.vmap(found.Q.as_matrix))(single)
        f = jax.jit(jax.vmap(found.dynamics.drift))(single)
    assert Q.dtype == jnp.float32
    assert f["r"].dtype == jnp.float32
    np.testing.assert_allclose(Q[:, 0, 1], -jax.vmap(metric_root)(z["theta"]), rtol=2e-5)
    exact = jax.vmap(gsgrhmc().drift)(z)
    for name in exact:
        np.testing.assert_allclose(f[name], exact[name], atol=2e-3, rtol=2e-4)


@pytest.mark.long("completion::Q_is_kept_at_its_edge_far_away")
def test_Q_stays_finite_and_bounded_far_away():
    found = completed(gsgrhmc)
    far = {"theta": jnp.linspace(-50.0, 50.0, 41), "r": jnp.linspace(80.0, -80.0, 41)}
    Q = jax.vmap(found.Q.as_matrix)(far)
    assert float(jnp.abs(Q).max()) < 4
    assert float(jnp.abs(Q[:, 0, 1]).min()) > 1
    assert not bool(jax.vmap(found.is_trusted)(far)[:5].any())


@pytest.mark.slow
def test_the_spline_is_smooth_and_of_high_order():
    def f(x):
        return jnp.sin(2 * x[0]) * jnp.exp(x[1])

    errors = []
    for n in (20, 40):
        axes = [np.linspace(-3, 3, n), np.linspace(-2, 2, n)]
        X = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
        spline = fit_spline(np.asarray(jax.vmap(f)(jnp.asarray(X))).reshape(1, n, n), axes)
        points = jnp.asarray(np.random.default_rng(0).uniform([-1, -0.6], [1, 0.6], (100, 2)))
        second = jax.jit(jax.vmap(jax.hessian(lambda x, s=spline: s(x)[0] - f(x))))(points)
        first = jax.jit(jax.vmap(lambda x, s=spline: s(x)[0] - f(x)))(points)
        errors.append([float(jnp.abs(first).max()), float(jnp.abs(second).max())])
    assert np.log2(errors[0][0] / errors[1][0]) > 7.5
    assert np.log2(errors[0][1] / errors[1][1]) > 5.5


@pytest.mark.slow
def test_state_order_and_another_mode():
    """Rows follow the order of the state given, and a second mode far off is found."""

    def two_wells(theta):
        return jnp.minimum((theta - 3) ** 2, (theta + 3) ** 2) * 4

    found = fk.complete(
        fk.SDE(
            lambda r, theta: (-jax.grad(two_wells)(theta) - r, r),
            lambda r, theta: jnp.diag(jnp.array([1.0, 0.0])),
            lambda r, theta: two_wells(theta) + r**2 / 2,
            {"r": 0.0, "theta": 3.0},
        )
    )
    assert found.names == ["r", "theta"]
    low, high = found.box[1]
    assert low < -5
    assert high > 5
    z = {"theta": jnp.asarray(2.6), "r": jnp.asarray(0.4)}
    np.testing.assert_allclose(found.Q.as_matrix(z), [[0, -1], [1, 0]], atol=1e-2)


@pytest.mark.slow
def test_notes_tell_of_a_coarse_grid_and_a_tight_box():
    coarse = fk.complete(sghmc(), grid=24)
    assert any("too coarse in" in note for note in coarse.notes)
    tight = fk.complete(sghmc(), box={"theta": (-2.8, 2.8), "r": (-4, 4)}, grid=64)
    assert any("density is still" in note and "r = " in note for note in tight.notes)
    assert tight.box == [(-2.8, 2.8), (-4.0, 4.0)]
    assert all(note in str(tight) for note in tight.notes)


BAD = [
    (
        {"box": [(-3, 3)]},
        r"box has shape \(1, 2\).*one \(low, high\) per coordinate, 2 in total \(theta, r\)",
    ),
    ({"box": [(3, -3), (-8, 8)]}, r"side of theta is \(3, -3\)"),
    ({"box": {"theta": (-3, 3)}}, "box names theta"),
    ({"box": "wide"}, "not pairs of numbers"),
    ({"box": [(3, 5), (-8, 8)]}, "does not contain the mass"),
    ({"box": [(3, 5), (-8, 8)], "method": "axial"}, "does not contain the mass"),
    ({"grid": 8}, "too few"),
    ({"grid": -64}, "too few"),
    ({"grid": 64.5}, "not an integer"),
    ({"grid": (64, 64, 64)}, "grid has 3 entries"),
    ({"grid": 64, "method": "axial"}, "no grid"),
    ({"method": "magic"}, "'auto', 'fourier' or 'axial', not 'magic'"),
    ({"axis": "r"}, "is for method='axial'"),
    ({"axis": "s", "method": "axial"}, "must be the name of a coordinate"),
    ({"temperature": 0.0}, "must be positive"),
]


@pytest.mark.parametrize(("options", "message"), BAD)
def test_bad_input(options, message):
    with pytest.raises(ValueError, match=message):
        fk.complete(sghmc(), **options)


def test_bad_problems():
    with pytest.raises(ValueError, match="up to 3 dimensions; this state has 4"):
        fk.complete(four_dimensional(), state={"theta": jnp.zeros(2), "r": jnp.zeros(2)}, method="fourier")
    with pytest.raises(ValueError, match="does not decay in r"):
        fk.complete(fk.SDE(lambda theta, r: (r, -r), lambda theta, r: 1.0, lambda theta, r: theta**2 + 0 * r))
    with pytest.raises(ValueError, match=r"drift is not finite at .* for example at theta = "):
        fk.complete(fk.SDE(lambda theta, r: (r * jnp.log(theta + 1), -theta), lambda theta, r: 1.0, H))
    with pytest.raises(ValueError, match="Hamiltonian is not finite"):
        fk.complete(
            fk.SDE(lambda z: -z, lambda z: 1.0, lambda z: jnp.sum(z**2 / 2 - jnp.log(z + 2)), jnp.zeros(2)),
            box=[(-3, 3), (-3, 3)],
        )
    with pytest.raises(ValueError, match=r"has its own, 0\.8"):
        fk.complete(four_dimensional(), temperature=2.0)
    with pytest.raises(ValueError, match="needs two dimensions"):
        fk.complete(fk.dynamics.langevin(U), method="axial")
    with pytest.raises(ValueError, match="completed for a state of 2 numbers"):
        completed(sghmc).Q.as_matrix({"theta": jnp.zeros(2), "r": jnp.zeros(2)})


@pytest.mark.parametrize("T", [1.0, 2.5])
def test_a_reversible_dynamics_has_no_flux_at_any_temperature(T):
    # F/p = f - T ∇·D + D∇H is zero for f = -D∇H + T ∇·D, whose D depends on theta.
    dynamics = fk.dynamics.langevin(
        lambda theta: jnp.sum(theta**4), fk.fields.Elementwise(lambda theta: 1 + theta**2), temperature=T
    )
    z = {"theta": jnp.array([0.3, -1.2])}
    assert jnp.all(jnp.abs(dynamics.D.divergence(z)["theta"]) > 0.5)  # or T would not matter
    np.testing.assert_allclose(flux_velocity(dynamics, T)(z)["theta"], 0.0, atol=1e-12)
