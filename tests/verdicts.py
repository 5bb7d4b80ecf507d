"""The table of verdicts: samplers right and wrong, each with what the checker must say of it.

`python tests/verdicts.py` (or `make verdicts`) checks all of them and prints the table and the confusion;
`tests/checker/test_verdicts.py` runs a fifth of them, one or more of every kind.
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np

import fokker as fk
import verdicts_tails
from fokker.fields import Dense, Diagonal, Elementwise, Skew, Zero
from verdict_case import Case


def check(case: Case) -> fk.Report:
    """The report with as few points as decide."""
    return fk.check(case.build(), **{"number_of_points": 64, "explain": False, **case.options})


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
PAIR = {"theta": jnp.zeros(()), "r": jnp.zeros(())}
PAIR_2D = {"theta": jnp.zeros(2), "r": jnp.zeros(2)}


def normal(z):
    return jnp.sum(z**2) / 2


def sgrhmc(gamma=1.0, friction=1.0):
    def drift(theta, r):
        pull = -root(theta) * force(theta) + gamma * root_slope(theta) - friction * metric(theta) * r
        return {"theta": root(theta) * r, "r": pull}

    return fk.SDE(drift, fk.fields.symmetric({("r", "r"): Elementwise(metric)}), H)


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


def thermostat(kinetic=1.0, constant=1.0, weight=0.5, friction=1.0):
    """dξ = kinetic·rᵀr - constant, weight·(ξ - 1)² in H.

    Right where 2 weight kinetic = 1 and constant = d kinetic.
    """
    h = fk.Hamiltonian(potential, lambda r, xi: jnp.sum(r**2) / 2 + weight * (xi - 1.0) ** 2)

    def drift(theta, r, xi):
        return {"theta": r, "r": -force(theta) - friction * xi * r, "xi": kinetic * jnp.sum(r**2) - constant}

    return fk.SDE(drift, {("r", "r"): 1.0}, h)


def relativistic(friction):
    """A kinetic energy Σ√(1 + r²), whose velocity is bounded; `friction` of r and of that velocity."""
    energy = lambda r: jnp.sum(jnp.sqrt(1 + r**2))  # noqa: E731
    velocity = jax.grad(energy)
    return fk.SDE(
        lambda theta, r: {"theta": velocity(r), "r": -force(theta) - friction(r, velocity(r))},
        {("r", "r"): 0.7},
        fk.Hamiltonian(potential, auxiliary=lambda r: energy(r)),
    )


def random_problem(d, seed, curl=0.0, broken=None):
    """Theorem 1 with D(z), Q(z) and H of random smooth functions; Γ by automatic differentiation, here.

    `curl` adds the drift of another skew matrix, which keeps exp(-H) too; `broken` is an entry of D + Q whose
    Γ is forgotten, or of D in one dimension.
    """
    rng = np.random.default_rng(seed)
    W, V, A = rng.normal(size=(3, d, d, d)) / d
    tilt = rng.normal(size=d)

    def energy(z):
        return (
            jnp.sum(z**4) / 8 + jnp.sum(z**2) / 2 + jnp.sum(jnp.sin(tilt * z)) + jnp.sum(z[:-1] * z[1:]) / 4
        )

    def D(z):
        L = jnp.eye(d) + 0.4 * jnp.sin(W @ z + 1)
        return L @ L.T

    def Q(z, entries=V):
        lower = jnp.tril(jnp.sin(entries @ z) + 0.5, -1)
        return lower - lower.T

    def divergence(matrix, z):
        return jnp.einsum("ijj->i", jax.jacfwd(matrix)(z))

    def drift(z):
        whole = lambda y: D(y) + Q(y)  # noqa: E731
        f = -whole(z) @ jax.grad(energy)(z) + divergence(whole, z)
        if broken is not None:
            f = f.at[broken[0]].add(-jax.jacfwd(whole)(z)[broken][broken[1]])
        return f + curl * (-Q(z, A) @ jax.grad(energy)(z) + divergence(lambda y: Q(y, A), z))

    return fk.SDE(drift, lambda z: D(z), energy, state=jnp.zeros(d))


def turning(speed):
    """A turn about the origin at a speed that depends on the place: harmless if along circles only."""
    return fk.SDE(lambda z: -z + speed(z) * jnp.stack([z[1], -z[0]]), np.eye(2), normal)


def explosive(way, size=0.02):
    b = np.asarray(way, float) / np.linalg.norm(way)
    return fk.SDE(lambda z: -z + size * jnp.exp((b @ z) ** 2 / 2) * b, np.eye(len(b)), normal)


def two_modes(center, wrong):
    energy = lambda z: -jnp.logaddexp(-normal(z - center), -normal(z + center))  # noqa: E731
    return fk.SDE(
        lambda z: -jnp.where(wrong & (z @ center < 0), 3.0, 1.0) * jax.grad(energy)(z),
        np.eye(len(center)),
        energy,
    )


def microcanonical_angle(turn=1.0):
    """Microcanonical Langevin dynamics in the plane, its direction an angle."""

    def drift(theta, phi):
        g = force(theta)
        return {
            "theta": jnp.stack([jnp.cos(phi), jnp.sin(phi)]),
            "phi": turn * (jnp.sin(phi) * g[0] - jnp.cos(phi) * g[1]),
        }

    return fk.SDE(drift, {("phi", "phi"): 0.5}, fk.Hamiltonian(potential, lambda phi: 0 * phi))


def microcanonical_sphere(d=3, force_dimension=3, ito=1.0):
    """The same in more dimensions, its direction a unit vector."""

    def drift(theta, u):
        g = force(theta)
        return {"theta": u, "u": -(g - u * (u @ g)) / (force_dimension - 1) - ito * 0.3 * (d - 1) * u}

    D = {("u", "u"): Dense(lambda u: 0.3 * (jnp.eye(d) - jnp.outer(u, u)))}
    return fk.SDE(drift, D, fk.Hamiltonian(potential, lambda u: 0 * jnp.sum(u)))


def langevin(U, D=1.0):
    return lambda: fk.dynamics.langevin(U, D)


THETA = {"state": {"theta": jnp.zeros(2)}}
SPHERE = {"state": {"theta": jnp.zeros(3), "u": jnp.ones(3) / np.sqrt(3)}, "sphere": "u"}
ANGLE = {"theta": jnp.zeros(2), "phi": jnp.zeros(())}
WITH_XI = {**PAIR_2D, "xi": jnp.zeros(())}
LARGE = {"theta": jnp.zeros(80)}
MODE = 8 * np.eye(15)[0]

CASES = [
    *verdicts_tails.CASES,
    # Theorem 1 over random D, Q and H.
    *[
        Case("theorem 1", f"random D, Q, H in {d}", "right", lambda d=d: random_problem(d, d))
        for d in range(1, 7)
    ],
    *[
        Case("theorem 1", f"with a curl in {d}", "right", lambda d=d: random_problem(d, d, 1.0))
        for d in range(2, 7)
    ],
    *[
        Case(
            "theorem 1",
            f"Γ of one entry forgotten in {d}",
            "wrong",
            lambda d=d: random_problem(d, d, broken=(d - 1, 0)),
            quick=d == 3,
        )
        for d in range(1, 7)
    ],
    # The samplers of the papers.
    Case("papers", "Langevin", "right", langevin(potential, 2.0), {"state": {"theta": jnp.zeros(3)}}),
    Case(
        "papers",
        "Langevin, dense D(θ)",
        "right",
        langevin(potential, Dense(lambda theta: jnp.eye(2) + jnp.outer(theta, theta) / 4)),
        THETA,
    ),
    Case(
        "papers",
        "Hamiltonian flow, mass 2",
        "right",
        lambda: fk.dynamics.hamiltonian_flow(potential, mass=2.0),
        {"state": PAIR_2D},
    ),
    Case(
        "temperature",
        "underdamped, mass 3, T = 0.5",
        "right",
        lambda: fk.dynamics.underdamped(potential, friction=2.0, mass=3.0, temperature=0.5),
        {"state": PAIR},
    ),
    Case(
        "papers",
        "SGNHT",
        "right",
        lambda: fk.dynamics.thermostat(potential, A=2.0, mu=0.5, temperature=0.6),
        {"state": WITH_XI},
    ),
    Case(
        "temperature",
        "diagonal thermostat, T = 3",
        "right",
        lambda: fk.dynamics.diagonal_thermostat(potential, A=0.5, temperature=3.0),
        {"state": {**PAIR_2D, "xi": jnp.zeros(2)}},
    ),
    Case(
        "papers",
        "matrix thermostat",
        "right",
        lambda: fk.dynamics.matrix_thermostat(potential, A=0.5, mu=2.0, temperature=1.7),
        {"state": {**PAIR_2D, "xi": jnp.zeros((2, 2))}},
    ),
    Case(
        "temperature",
        "Riemannian, T = 0.7",
        "right",
        lambda: fk.dynamics.riemann(potential, Elementwise(metric), Elementwise(root), temperature=0.7),
        {"state": PAIR_2D},
    ),
    Case("papers", "SGRHMC by hand", "right", sgrhmc, {"state": PAIR}),
    Case("papers", "SGHMC by hand", "right", sghmc, {"state": PAIR_2D}),
    Case("papers", "SGRLD by hand", "right", sgrld, THETA),
    Case("papers", "Γ of Q missing", "wrong", lambda: sgrhmc(gamma=0.0), {"state": PAIR}),
    Case("papers", "Γ of Q reversed", "wrong", lambda: sgrhmc(gamma=-1.0), {"state": PAIR}),
    Case("papers", "Γ of D missing", "wrong", lambda: sgrld(gamma=0.0), THETA),
    Case("papers", "Γ of D reversed", "wrong", lambda: sgrld(gamma=-1.0), {"state": {"theta": 0.0}}),
    Case("papers", "no friction", "wrong", lambda: sghmc(friction=0.0), {"state": PAIR}),
    Case("papers", "friction too weak", "wrong", lambda: sghmc(friction=0.5), {"state": PAIR_2D}),
    Case(
        "papers",
        "friction off by 1e-6",
        "wrong",
        lambda: sghmc(friction=1 + 1e-6),
        {"state": PAIR},
        quick=True,
    ),
    Case("papers", "force reversed", "wrong", lambda: sghmc(force_sign=1.0), {"state": PAIR}),
    # Temperature.
    Case("temperature", "for T = 1, asked at 4", "wrong", sgrld, {**THETA, "temperature": 4.0}, quick=True),
    Case(
        "temperature",
        "plain drift at T = 4",
        "right",
        lambda: fk.SDE(lambda z: -z, 4 * np.eye(2), normal, jnp.zeros(2)),
        {"temperature": 4.0},
    ),
    # Jumps.
    Case(
        "jumps",
        "of the drift across a line",
        "wrong",
        lambda: turning(lambda z: jnp.where(z[0] <= 0, 1.0, 2.0)),
        {"state": jnp.zeros(2)},
        quick=True,
        reason="the drift jumps",
    ),
    Case(
        "jumps",
        "of the drift along circles",
        "right",
        lambda: turning(lambda z: jnp.where(z @ z < 1.5, 1.0, 2.0)),
        {"state": jnp.zeros(2)},
    ),
    Case(
        "jumps",
        "of the drift across an oblique plane, small",
        "wrong",
        lambda: fk.SDE(
            lambda z: (
                -z
                + jnp.where(z @ jnp.array([1.0, 2.0, -1.0]) < 0.3, 1.0, 1.1)
                * jnp.cross(jnp.array([0.0, 0.0, 1.0]), z)
            ),
            np.eye(3),
            normal,
        ),
        {"state": jnp.zeros(3)},
    ),
    Case(
        "jumps",
        "of D across a line",
        "wrong",
        langevin(lambda theta: jnp.sum(theta**2), Elementwise(lambda theta: jnp.where(theta > 0, 4.0, 1.0))),
        THETA,
    ),
    Case(
        "jumps",
        "of D along a line",
        "right",
        lambda: fk.SDE(
            lambda z: jnp.stack([-z[0], -jnp.where(z[0] > 0, 2.0, 1.0) * z[1]]),
            lambda z: jnp.diag(jnp.stack([jnp.ones(()), jnp.where(z[0] > 0, 2.0, 1.0)])),
            normal,
        ),
        {"state": jnp.zeros(2)},
    ),
    Case("jumps", "of H", "wrong", langevin(lambda theta: jnp.sum(theta**2 + (theta > 0.5))), THETA),
    Case(
        "jumps",
        "none: a kink of H",
        "right",
        langevin(lambda theta: jnp.sum(jnp.abs(theta))),
        THETA,
        quick=True,
    ),
    Case(
        "jumps",
        "none: a kink of D",
        "right",
        langevin(potential, Elementwise(lambda theta: 1 + jnp.abs(theta))),
        THETA,
    ),
    # Flux to infinity.
    Case(
        "tails",
        "explosive on the line",
        "wrong",
        lambda: explosive([1.0]),
        {"state": jnp.zeros(1)},
    ),
    Case("tails", "explosive, weakly", "wrong", lambda: explosive([1.0], 1e-4), {"state": jnp.zeros(1)}),
    Case("tails", "explosive in one of two", "wrong", lambda: explosive([1.0, 0.0]), {"state": jnp.zeros(2)}),
    Case(
        "tails",
        "explosive obliquely in three",
        "wrong",
        lambda: explosive([0.6, 0.8, 0.0]),
        {"state": jnp.zeros(3)},
        reason="flows out to infinity",
    ),
    Case("tails", "explosive in five", "wrong", lambda: explosive([1, 1, 1, 1, 0]), {"state": jnp.zeros(5)}),
    Case(
        "tails",
        "heavy tails that turn",
        "right",
        lambda: fk.Dynamics(
            lambda z: 2.5 * jnp.log(1 + z @ z / 2), D=1.0, Q=Skew(jnp.array([[0.0, 0.0], [1.0, 0.0]]))
        ),
        {"state": jnp.zeros(2)},
    ),
    Case("tails", "Student", "right", langevin(lambda theta: 2 * jnp.log(1 + theta @ theta / 3)), THETA),
    Case(
        "tails", "log p for -log p", "wrong", langevin(lambda theta: -(theta @ theta) / 2), THETA, quick=True
    ),
    Case("tails", "a quartic reversed", "wrong", langevin(lambda theta: jnp.sum(theta**2 - theta**4)), THETA),
    # Compact variables.
    Case(
        "compact",
        "an angle",
        "right",
        microcanonical_angle,
        {"state": ANGLE, "periodic": {"phi": 2 * np.pi}},
    ),
    Case(
        "compact",
        "an angle not declared",
        "undecided",
        microcanonical_angle,
        {"state": ANGLE},
        quick=True,
        reason='pass periodic={"phi": 2π}',
    ),
    Case(
        "compact",
        "an angle of the wrong period",
        "wrong",
        microcanonical_angle,
        {"state": ANGLE, "periodic": {"phi": 3.0}},
    ),
    Case(
        "compact",
        "turned too fast",
        "wrong",
        lambda: microcanonical_angle(2.0),
        {"state": ANGLE, "periodic": {"phi": 2 * np.pi}},
    ),
    Case("compact", "a unit vector", "right", microcanonical_sphere, SPHERE),
    Case(
        "compact",
        "isokinetic dynamics",
        "right",
        lambda: fk.dynamics.isokinetic(potential, jnp.array([0.5, 1.0, 2.0]), 1.1),
        SPHERE,
    ),
    Case("compact", "d for d - 1", "wrong", lambda: microcanonical_sphere(force_dimension=4), SPHERE),
    Case("compact", "off the sphere", "wrong", lambda: microcanonical_sphere(ito=0.0), SPHERE),
    # Modes.
    Case("modes", "two in 15 dimensions", "right", lambda: two_modes(MODE, False), {"state": MODE}),
    Case("modes", "the other wrong", "wrong", lambda: two_modes(MODE, True), {"state": MODE}, quick=True),
    Case("modes", "both given", "wrong", lambda: two_modes(MODE, True), {"state": [MODE, -MODE]}),
    Case(
        "modes",
        "far away on the line",
        "wrong",
        lambda: two_modes(np.array([30.0]), True),
        {"state": jnp.full(1, 30.0)},
    ),
    # Thermostats and kinetic energies.
    Case(
        "thermostats", "rᵀr/d - 1, weight d/2", "right", lambda: thermostat(0.5, 1.0, 1.0), {"state": WITH_XI}
    ),
    Case(
        "thermostats", "rᵀr - d, weight 1/2", "right", lambda: thermostat(1.0, 2.0, 0.5), {"state": WITH_XI}
    ),
    Case(
        "thermostats",
        "rᵀr - 1, weight d/2",
        "wrong",
        lambda: thermostat(1.0, 1.0, 1.0),
        {"state": WITH_XI},
        quick=True,
    ),
    Case("thermostats", "rᵀr - 1, weight 1/2", "wrong", thermostat, {"state": WITH_XI}),
    Case("thermostats", "rᵀr/d - 1, weight 1/2", "wrong", lambda: thermostat(0.5), {"state": WITH_XI}),
    Case("kinetic", "relativistic", "right", lambda: relativistic(lambda r, v: 0.7 * v), {"state": PAIR}),
    Case(
        "kinetic",
        "-Cr for it",
        "wrong",
        lambda: relativistic(lambda r, v: 0.7 * r),
        {"state": PAIR},
        quick=True,
    ),
    Case(
        "kinetic",
        "heavy-tailed momentum",
        "right",
        lambda: fk.Dynamics(
            fk.Hamiltonian(potential, auxiliary=lambda r: 3 * jnp.log1p(r**2 / 5)),
            D={("r", "r"): 1.0},
            Q={("r", "theta"): 1.0},
        ),
        {"state": PAIR},
    ),
    # Estimated traces.
    Case("estimated", "Langevin", "right", langevin(potential, Elementwise(metric)), {"state": LARGE}),
    Case("estimated", "Γ missing", "wrong", lambda: sgrld(gamma=0.0), {"state": LARGE}, quick=True),
    Case(
        "estimated",
        "friction 0.8",
        "wrong",
        lambda: sghmc(friction=0.8),
        {"state": {"theta": jnp.zeros(40), "r": jnp.zeros(40)}},
    ),
    # Matrices.
    Case(
        "matrices",
        "D not symmetric",
        "wrong",
        lambda: fk.SDE(lambda z: -z, np.array([[1.0, 0.5], [-0.5, 1.0]]), normal, jnp.zeros(2)),
        quick=True,
    ),
    Case(
        "matrices",
        "D negative out in the mass",
        "wrong",
        langevin(lambda theta: jnp.sum(theta**2) / 2, Dense(lambda theta: jnp.diag(1 - theta**2))),
        {"state": {"theta": jnp.zeros(1)}},
    ),
    Case(
        "matrices",
        "noise that does not exist",
        "wrong",
        lambda: fk.Dynamics(normal, D=Dense(2 * jnp.eye(2)) + Dense(jnp.array([[-1.0, 0.5], [0.5, 0.0]]))),
        {"state": jnp.zeros(2)},
    ),
    # What cannot be determined.
    Case(
        "in doubt",
        "an edge",
        "undecided",
        langevin(lambda theta: jnp.sum(jnp.where(theta > 0, theta, jnp.inf))),
        {"state": {"theta": jnp.ones(1)}},
        quick=True,
        reason="has an edge",
    ),
    Case(
        "in doubt",
        "a coordinate that never moves",
        "undecided",
        langevin(lambda theta: jnp.sum(theta**2), Diagonal(jnp.array([1.0, 0.0]))),
        THETA,
    ),
    Case(
        "in doubt",
        "no motion at all",
        "undecided",
        lambda: fk.SDE(lambda z: 0 * z, Zero(), normal),
        {"state": jnp.zeros(2)},
    ),
    Case(
        "in doubt",
        "a flat variable",
        "undecided",
        langevin(lambda theta: theta["a"] ** 2),
        {"state": {"theta": {"a": 0.0, "b": 0.0}}},
    ),
    # Awkward, and right.
    Case(
        "awkward", "far from the start", "right", langevin(lambda theta: jnp.sum((theta - 100) ** 2)), THETA
    ),
    Case(
        "awkward",
        "scales",
        "right",
        langevin(lambda theta: jnp.sum((theta * jnp.array([10.0, 0.1])) ** 2)),
        THETA,
        quick=True,
    ),
    Case(
        "awkward",
        "a weak curl in single precision",
        "right",
        lambda: turning(lambda z: jnp.asarray(1e-3, jnp.float32)),
        {"state": jnp.zeros(2)},
    ),
]


def main() -> int:
    """Check every case, print the table and the confusion; 1 where a verdict is not the expected one."""
    from verdicts_reasons import CASES as more  # it imports this file

    verdicts = ("right", "wrong", "undecided")
    confusion = dict.fromkeys(((a, b) for a in verdicts for b in verdicts), 0)
    wrong = 0
    for case in (*CASES, *more):
        report = check(case)
        confusion[case.verdict, report.verdict] += 1
        wrong += report.verdict != case.verdict
        mark = "  " if report.verdict == case.verdict else "✗ "
        print(f"{mark}{case.kind:12} {case.name:45} {case.verdict:10} {report.verdict}", flush=True)
    print(f"\n{'expected':12}" + "".join(f"{verdict:>12}" for verdict in verdicts))
    for expected in verdicts:
        print(f"{expected:12}" + "".join(f"{confusion[expected, found]:12}" for found in verdicts))
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
