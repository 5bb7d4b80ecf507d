"""More of the table of verdicts: users' samplers, drifts that cancel, given points, and mistakes by name."""

import jax
import jax.numpy as jnp
import numpy as np

import fokker as fk
from fokker.fields import Dense, Elementwise, Scalar, Skew
from own_samplers import Following, Halved, Jumping, NeverRejecting, Overconfident, RandomWalk, Unadjusted
from verdicts import PAIR_2D, Case, H, force, metric, normal, potential

S = fk.samplers
TARGET = fk.Density(lambda theta: -potential(theta))
NORMAL = fk.Density(lambda theta: -normal(theta))
TWO = {"state": jnp.zeros(2)}
ONE = {"state": jnp.zeros(1)}
NAMED = {"explain": True}
CURL = Skew(jnp.array([[0.0, 0.0], [1.0, 0.0]]))


def rows():
    """Four rows, each with ten observations."""
    data = {"a": np.arange(40) % 4, "y": np.linspace(-1, 2, 40, dtype=np.float32)}
    return fk.tables(
        {"a": fk.Table(4, np.zeros(1))}, lambda rows, datum: -((datum["y"] - rows["a"][0]) ** 2) / 2, data
    )


def conditionals(width):
    """Of a normal distribution of width 1."""
    draw = lambda key, theta: width * jax.random.normal(key, theta["a"].shape)  # noqa: E731
    return S.gibbs({"a": draw}).on(fk.Density(lambda theta: -normal(theta["a"])))


# Drifts that vanish although their terms do not.


def heavy(z):
    return 2 * jnp.sum(jnp.log1p(z**2))


def still(D, energy, drift=lambda z: 0 * z):
    return lambda: fk.SDE(drift, lambda z: jnp.diag(D(z)), energy)


def cosh(z):
    return 2 * jnp.sum(jnp.log(jnp.cosh(z / 2)))


# Mistakes by name.


def tilted(z):
    return jnp.sum(z**4 / 4 + z**2 / 2 + 0.3 * z) + 0.25 * jnp.sum(z[:-1] * z[1:])


def dense(z):
    """Positive definite, with no structure that would make two forms of Γ agree."""
    return (1 + z[0] ** 2) * jnp.eye(z.size) + jnp.outer(jnp.sin(z + 1), jnp.sin(z + 1)) / 2


def divergence(matrix, z):
    return jnp.einsum("ijj->i", jax.jacfwd(matrix)(z))


def log_determinant(z):
    return jnp.linalg.slogdet(dense(z))[1]


def reversible(of_divergence=1.0, of_determinant=0.0, of_ito=0.0):
    """-D∇H + Γ, Γ a combination of ∇·D, D∇log det D and Itô's correction for the Cholesky factor."""

    def drift(z):
        sigma = lambda y: jnp.linalg.cholesky(2 * dense(y))  # noqa: E731
        ito = jnp.einsum("kj,ijk->i", sigma(z), jax.jacfwd(sigma)(z)) / 2
        gamma = of_divergence * divergence(dense, z) + of_ito * ito
        return dense(z) @ (of_determinant * jax.grad(log_determinant)(z) - jax.grad(tilted)(z)) + gamma

    return lambda: fk.SDE(drift, dense, tilted)


def curl(z):
    return (1 + jnp.sin(z[0]) + z[1] ** 2 / 2) * jnp.array([[0.0, 1.0], [-1.0, 0.0]])


def turned(of_divergence):
    """-(D + Q)∇H + Γ with D = 1 and a Q(z) of which ∇·Q counts so many times."""

    def drift(z):
        g = jax.grad(tilted)(z)
        return -g - curl(z) @ g + of_divergence * divergence(curl, z)

    return lambda: fk.SDE(drift, np.eye(2), tilted)


def speed(theta, r):
    return 1.5 + jnp.sin(theta[0]) + jnp.sum(r**2) / 4


def hastened(gradient):
    """Underdamped dynamics speed(θ, r) times as fast; `gradient` counts ∇speed."""

    def drift(theta, r):
        by_theta, by_r = jax.grad(speed, (0, 1))(theta, r)
        pull = speed(theta, r) * (-force(theta) - r) + gradient * (by_theta + by_r)
        return {"theta": speed(theta, r) * r - gradient * by_r, "r": pull}

    return lambda: fk.SDE(drift, {("r", "r"): Scalar(speed)}, H)


MASS = jnp.array([2.0, 0.5])


def magnetic(matrix, momentum=False):
    """Underdamped dynamics of two masses with a force matrix·velocity |θ|², or matrix·momentum."""

    def drift(theta, r):
        B = jnp.asarray(matrix) * jnp.sum(theta**2)
        return {"theta": r / MASS, "r": -force(theta) - r / MASS + B @ (r if momentum else r / MASS)}

    energy = fk.Hamiltonian(potential, auxiliary=lambda r: jnp.sum(r**2 / MASS) / 2)
    return lambda: fk.SDE(drift, {("r", "r"): 1.0}, energy)


def of_logarithm(z):
    """Gamma(3, 1) as a potential of θ = exp(z), without the Jacobian."""
    return jnp.sum(jnp.exp(z) - 2 * z)


def jacobian(in_drift, in_energy):
    energy = lambda z, count: of_logarithm(z) - count * z[0]  # noqa: E731
    return lambda: fk.SDE(
        lambda z: -jax.grad(energy)(z, in_drift), np.eye(2), lambda z: energy(z, in_energy), jnp.zeros(2)
    )


SKEW = [[0.0, 1.0], [-1.0, 0.0]]
LOPSIDED = [[0.0, 1.0], [-0.5, 0.0]]

CASES = [
    # Samplers that the checker does not know, and those that it does.
    Case(
        "samplers", "one's own, unadjusted", "undecided", lambda: Unadjusted(0.4).on(NORMAL), TWO, quick=True
    ),
    Case(
        "samplers",
        "one's own, unadjusted, that claims to be exact",
        "wrong",
        lambda: Overconfident(0.4).on(NORMAL),
        {**TWO, "number_of_points": 4096},
        reason="change averages",
    ),
    Case("samplers", "one's own, exact", "right", lambda: RandomWalk(1.0).on(TARGET), TWO),
    Case(
        "samplers",
        "one's own, accepting too much",
        "wrong",
        lambda: Halved(2.0).on(NORMAL),
        {**TWO, "number_of_points": 1024},
    ),
    Case("samplers", "one's own that follows", "right", lambda: Following(0.4).on(TARGET), TWO),
    Case(
        "samplers",
        "one's own that follows another",
        "wrong",
        lambda: Following(0.4, friction=2.0).on(TARGET),
        TWO,
    ),
    Case(
        "samplers",
        "one's own, accepting all",
        "wrong",
        lambda: NeverRejecting(0.5).on(NORMAL),
        {**TWO, "number_of_points": 4096},
        reason="at 4 times the step size",
    ),
    Case(
        "samplers",
        "one's own, with noise in jumps",
        "undecided",
        lambda: Jumping(0.05).on(NORMAL),
        TWO,
        reason="noise comes in jumps",
    ),
    Case("samplers", "lazy sgld", "right", lambda: fk.lazy(S.sgld(0.04)).on(rows())),
    Case("samplers", "lazy sgnht", "right", lambda: fk.lazy(S.sgnht(0.04, kind="diagonal")).on(rows())),
    Case(
        "samplers",
        "psgld",
        "undecided",
        lambda: S.psgld(0.1).on(TARGET),
        TWO,
        reason="average over earlier steps",
    ),
    Case("samplers", "mclmc, unadjusted", "right", lambda: S.mclmc(0.1, 1.4).on(TARGET), TWO),
    Case(
        "samplers",
        "replicas of sghmc",
        "right",
        lambda: S.replica_exchange(S.sghmc(0.1), (1.0, 3.0)).on(TARGET),
        TWO,
    ),
    Case("samplers", "gibbs", "right", lambda: conditionals(1.0), {"state": {"a": jnp.zeros(2)}}),
    Case(
        "samplers",
        "gibbs of another target",
        "wrong",
        lambda: conditionals(1.5),
        {"state": {"a": jnp.zeros(2)}, "number_of_points": 1024},
    ),
    Case(
        "samplers",
        "neither noise nor refreshment",
        "undecided",
        lambda: S.recipe(fk.dynamics.hamiltonian_flow(potential), 0.1),
        {"state": PAIR_2D},
        reason="neither noise nor friction",
    ),
    # Terms that cancel.
    Case(
        "cancelling",
        "D = 1/p, heavy tails",
        "right",
        still(lambda z: (1 + z**2) ** 2, heavy),
        ONE,
        quick=True,
    ),
    Case("cancelling", "D = 1/p in each of two", "right", still(lambda z: (1 + z**2) ** 2, heavy), TWO),
    Case(
        "cancelling",
        "D = 1/p as a Dynamics",
        "right",
        lambda: fk.Dynamics(heavy, D=Elementwise(lambda z: (1 + z**2) ** 2)),
        TWO,
    ),
    Case("cancelling", "D = 1/p, normal", "right", still(lambda z: jnp.exp(z**2 / 2), normal), ONE),
    Case("cancelling", "D = 1/p, logistic", "right", still(lambda z: jnp.cosh(z / 2) ** 2, cosh), ONE),
    Case(
        "cancelling",
        "D = 1/p with a curl",
        "right",
        lambda: fk.Dynamics(normal, D=Dense(lambda z: jnp.exp(z @ z / 2) * jnp.eye(2)), Q=CURL),
        TWO,
    ),
    Case("cancelling", "D = p^(-0.9)", "wrong", still(lambda z: (1 + z**2) ** 1.8, heavy), ONE),
    Case(
        "cancelling",
        "D = 1/p with a small drift",
        "wrong",
        still(lambda z: (1 + z**2) ** 2, heavy, lambda z: 1e-4 * z),
        ONE,
    ),
    # Points that are given.
    Case(
        "given points",
        "all equal",
        "right",
        lambda: fk.dynamics.underdamped(potential),
        {"state": PAIR_2D, "points": jax.tree.map(lambda x: jnp.full((6, 2), 0.3), PAIR_2D)},
    ),
    Case(
        "given points",
        "one",
        "right",
        lambda: fk.SDE(lambda z: -z, np.eye(2), normal),
        {**TWO, "points": jnp.ones((1, 2))},
    ),
    Case(
        "given points",
        "one, where the residual of a wrong sampler vanishes",
        "wrong",
        lambda: fk.SDE(lambda z: -2 * z, np.eye(2), normal),
        {**TWO, "points": jnp.ones((1, 2))},
        quick=True,
    ),
    Case(
        "given points",
        "all equal, checked by averages",
        "right",
        lambda: S.slice_sampler().on(NORMAL),
        {**TWO, "points": jnp.ones((8, 2))},
    ),
    # Mistakes that have a name; and beside them what is right.
    Case("named", "Itô's drift", "right", reversible(), TWO),
    Case(
        "named",
        "Stratonovich's drift",
        "wrong",
        reversible(of_ito=-1.0),
        {**TWO, **NAMED},
        reason="that of a Stratonovich equation",
    ),
    Case(
        "named",
        "Itô's drift corrected again",
        "wrong",
        reversible(of_ito=1.0),
        {**TWO, **NAMED},
        reason="once too often",
    ),
    Case(
        "named",
        "Girolami and Calderhead's Γ",
        "wrong",
        reversible(2.0, -1.0),
        {**TWO, **NAMED},
        reason="Girolami and Calderhead",
    ),
    Case(
        "named",
        "a density for the metric's volume",
        "wrong",
        reversible(of_determinant=-0.5),
        {**TWO, **NAMED},
        reason="with respect to the volume",
    ),
    Case("named", "a Q(z) with ∇·Q", "right", turned(1.0), TWO),
    Case(
        "named", "∇·Q forgotten", "wrong", turned(0.0), {**TWO, **NAMED}, reason="∇·Q is missing", quick=True
    ),
    Case("named", "a change of time", "right", hastened(1.0), {"state": PAIR_2D}),
    Case(
        "named",
        "a change of time without its gradient",
        "wrong",
        hastened(0.0),
        {"state": PAIR_2D, **NAMED},
        reason="a(z) times as fast",
    ),
    Case("named", "a magnetic force", "right", magnetic(SKEW), {"state": PAIR_2D}),
    Case(
        "named",
        "a magnetic force, not skew",
        "wrong",
        magnetic(LOPSIDED),
        {"state": PAIR_2D, **NAMED},
        reason="not skew",
    ),
    Case(
        "named",
        "a magnetic force by momentum",
        "wrong",
        magnetic(SKEW, True),
        {"state": PAIR_2D, **NAMED},
        reason="not r itself if the mass is not 1",
    ),
    Case("named", "a Jacobian in both", "right", jacobian(1.0, 1.0)),
    Case(
        "named", "a Jacobian missing in H", "wrong", jacobian(1.0, 0.0), NAMED, reason="H lacks -log|dθ/dz|"
    ),
    Case(
        "named",
        "a Jacobian missing in the drift",
        "wrong",
        jacobian(0.0, 1.0),
        NAMED,
        reason="the drift lacks the gradient of log|dθ/dz|",
    ),
    Case(
        "named",
        "a prior missing in the drift",
        "wrong",
        lambda: fk.SDE(
            lambda z: divergence(dense, z) - dense(z) @ (jax.grad(tilted)(z) - jnp.cos(z)), dense, tilted
        ),
        {**TWO, **NAMED},
        reason="keeps another density",
    ),
    Case(
        "named",
        "D not finite in a part of the mass",
        "wrong",
        lambda: fk.SDE(lambda z: -z, lambda z: jnp.diag(jnp.where(z > 1, jnp.nan, 1.0)), normal),
        {**TWO, **NAMED},
        reason="D is not finite at",
    ),
    Case(
        "named",
        "elementwise, where Girolami and Calderhead's Γ is right",
        "right",
        lambda: fk.SDE(
            lambda z: (
                -metric(z) * force(z)
                + 2 * jax.grad(lambda y: jnp.sum(metric(y)))(z)
                - metric(z) * jax.grad(lambda y: jnp.sum(jnp.log(metric(y))))(z)
            ),
            lambda z: jnp.diag(metric(z)),
            potential,
        ),
        TWO,
    ),
]
