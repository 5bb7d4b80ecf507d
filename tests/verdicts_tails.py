"""Verdicts on what the residual cannot see: explosion by noise, no density, noise that is not everywhere.

Each closed form is stated next to its case: p D s^{d-1} for Feller's test, the power of p for its integral.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

import fokker as fk
from fokker.fields import Dense, Diagonal, Elementwise, Skew
from verdict_case import Case

OBLIQUE = np.array([0.6, 0.8])
TURN = Skew(jnp.array([[0.0, 0.0], [1.0, 0.0]]))


def of(d: int) -> dict[str, Any]:
    return {"state": {"theta": jnp.zeros(d)}}


def square(theta):
    return jnp.sum(theta**2)


def gauss(theta):
    return square(theta) / 2


def student(nu: float, d: int):
    return lambda theta: (nu + d) / 2 * jnp.log1p(square(theta) / nu)


def langevin(U, D: Any = 1.0) -> Callable[[], Any]:
    return lambda: fk.dynamics.langevin(U, D)


def isotropic(size) -> Dense:
    return Dense(lambda theta: size(theta) * jnp.eye(theta.size))


def power(exponent: float) -> Dense:
    return isotropic(lambda theta: (1 + square(theta)) ** exponent)


def of_noise(column) -> Dense:
    """D of noise along one vector field."""
    return Dense(lambda theta: jnp.outer(column(theta), column(theta)))


def third_order():
    """Noise on s, which reaches r, which reaches theta."""

    def H(theta, r, s):
        return jnp.sum(theta**4 / 4 + theta**2 / 2 + r**2 / 2 + s**2 / 2)

    return fk.SDE(
        lambda theta, r, s: {"theta": r, "r": -(theta**3) - theta + s, "s": -r - s}, {("s", "s"): 1.0}, H
    )


def momentum(kinetic, D):
    H = fk.Hamiltonian(lambda theta: jnp.sum(theta**4) / 4, auxiliary=kinetic)
    return lambda: fk.Dynamics(H, D={("r", "r"): D}, Q={("r", "theta"): 1.0})


def corrected(size):
    dynamics = fk.dynamics.langevin(gauss, Elementwise(size))
    return fk.samplers.recipe(
        dynamics,
        integrator=fk.integrators.EulerMaruyama(),
        correction=fk.corrections.Metropolis(),
        step_size=0.3,
    )


def logistic(x):
    return lambda theta: jnp.sum(jnp.logaddexp(0.0, -(x @ theta)))


PAIR = {"state": {"theta": jnp.zeros(()), "r": jnp.zeros(())}}
SEPARABLE = jnp.array([[1.0, 1.0], [2.0, 1.0], [1.0, 0.5]])
MIXED = jnp.array([[1.0, 1.0], [-2.0, 1.0], [1.0, -1.0], [-1.0, -1.5]])
EXPLODES = "reach infinity in finite time"

_EXPLOSION = [
    Case("explosion", "Cauchy, p D ~ z²", "wrong", langevin(student(1, 1), power(2)), of(1), True, EXPLODES),
    Case("explosion", "Cauchy, p D ~ z", "right", langevin(student(1, 1), power(1.5)), of(1)),
    Case("explosion", "Cauchy, p D ~ z^1.02", "undecided", langevin(student(1, 1), power(1.51)), of(1)),
    Case("explosion", "Cauchy in the plane, s p D ~ s²", "wrong", langevin(student(1, 2), power(2)), of(2)),
    Case("explosion", "Student 3, p D ~ z²", "wrong", langevin(student(3, 1), power(3)), of(1)),
    Case("explosion", "Student 3, p D ~ z^0.4", "right", langevin(student(3, 1), power(2.2)), of(1)),
    Case("explosion", "Student 5 in five, s⁴ p D ~ s²", "wrong", langevin(student(5, 5), power(4)), of(5)),
    Case("explosion", "Student 5 in five, s⁴ p D ~ s^-2", "right", langevin(student(5, 5), power(2)), of(5)),
    Case(
        "explosion",
        "Gauss in the plane, exp(0.6|z|²)",
        "wrong",
        langevin(gauss, isotropic(lambda theta: jnp.exp(0.6 * square(theta)))),
        of(2),
        reason=EXPLODES,
    ),
    Case(
        "explosion",
        "Gauss in the plane, exp(0.4|z|²)",
        "right",
        langevin(gauss, isotropic(lambda theta: jnp.exp(0.4 * square(theta)))),
        of(2),
        quick=True,
    ),
    Case(
        "explosion",
        "Laplace, exp(1.5|z|)",
        "wrong",
        langevin(
            lambda theta: jnp.sum(jnp.abs(theta)), Elementwise(lambda theta: jnp.exp(1.5 * jnp.abs(theta)))
        ),
        of(1),
    ),
    Case(
        "explosion",
        "Laplace, exp(0.5|z|)",
        "right",
        langevin(
            lambda theta: jnp.sum(jnp.abs(theta)), Elementwise(lambda theta: jnp.exp(0.5 * jnp.abs(theta)))
        ),
        of(1),
    ),
    Case(
        "explosion",
        "one of two coordinates",
        "wrong",
        langevin(gauss, Diagonal(lambda theta: jnp.exp(jnp.array([0.6, 0.1]) * theta**2))),
        of(2),
    ),
    Case(
        "explosion",
        "none: the other coordinate is the clock",
        "right",
        langevin(gauss, Diagonal(lambda theta: jnp.exp(jnp.array([0.6, 0.0]) * theta[::-1] ** 2))),
        of(2),
    ),
    Case(
        "explosion",
        "in an oblique direction",
        "wrong",
        langevin(
            gauss,
            Dense(
                lambda theta: jnp.eye(2) + jnp.exp(0.6 * (OBLIQUE @ theta) ** 2) * np.outer(OBLIQUE, OBLIQUE)
            ),
        ),
        of(2),
    ),
    Case(
        "explosion",
        "radial noise only grows",
        "wrong",
        langevin(student(1, 2), Dense(lambda theta: jnp.eye(2) + jnp.outer(theta, theta) * square(theta))),
        of(2),
    ),
    Case(
        "explosion",
        "none: noise along circles grows",
        "right",
        langevin(
            student(1, 2),
            Dense(
                lambda theta: (
                    jnp.eye(2) + square(theta) ** 2 * (square(theta) * jnp.eye(2) - jnp.outer(theta, theta))
                )
            ),
        ),
        of(2),
    ),
    Case(
        "explosion",
        "with a turn, which may prevent it",
        "undecided",
        lambda: fk.Dynamics(
            lambda z: jnp.log1p(z @ z) * 1.5, D=Dense(lambda z: (1 + z @ z) ** 2 * jnp.eye(2)), Q=TURN
        ),
        {"state": jnp.zeros(2)},
        reason="Whether that flux prevents it",
    ),
]

_DENSITIES = [
    Case(
        "densities",
        "a cosine, not declared",
        "undecided",
        langevin(lambda theta: -2 * jnp.sum(jnp.cos(theta))),
        of(1),
        True,
        'pass periodic={"theta": 2π}',
    ),
    Case(
        "densities",
        "a cosine of period 2π",
        "right",
        langevin(lambda theta: -2 * jnp.sum(jnp.cos(theta))),
        {**of(1), "periodic": {"theta": 2 * np.pi}},
    ),
    Case(
        "densities",
        "a cosine in one of two",
        "undecided",
        langevin(lambda theta: theta[0] ** 2 / 2 - 2 * jnp.cos(theta[1])),
        of(2),
        reason="a variable of its own",
    ),
    Case(
        "densities",
        "a cosine in an oblique direction",
        "undecided",
        langevin(lambda theta: (theta[0] + theta[1]) ** 2 / 2 - 2 * jnp.cos(theta[1] - 0.3 * theta[0])),
        of(2),
    ),
    Case(
        "densities",
        "a cosine below a momentum",
        "undecided",
        lambda: fk.dynamics.underdamped(lambda theta: -jnp.cos(theta), friction=1.0),
        PAIR,
    ),
    Case(
        "densities",
        "a high cosine",
        "undecided",
        langevin(lambda theta: -20 * jnp.sum(jnp.cos(theta))),
        of(2),
    ),
    Case(
        "densities",
        "cosines in a wide Gauss",
        "right",
        langevin(lambda theta: square(theta) / 200 - 2 * jnp.sum(jnp.cos(theta))),
        of(2),
    ),
    *[
        Case(
            "densities",
            f"(1 + z²)^-{half / 2:g}",
            verdict,
            langevin(lambda theta, half=half: half / 2 * jnp.sum(jnp.log1p(theta**2))),
            of(1),
            half == 0.8,
            reason,
        )
        for half, verdict, reason in (
            (0.6, "wrong", "not a density"),
            (0.8, "wrong", "not a density"),
            (1.0, "wrong", "must grow faster than log s"),
            (1.02, "undecided", "too close to s^-1"),
            (1.1, "right", ""),
        )
    ],
    Case(
        "densities",
        "(1 + |z|²)^-1 in the plane",
        "wrong",
        langevin(lambda theta: jnp.log1p(square(theta))),
        of(2),
    ),
    Case(
        "densities",
        "three factors (1 + z²)^-0.55",
        "right",
        langevin(lambda theta: 0.55 * jnp.sum(jnp.log1p(theta**2))),
        of(3),
    ),
    Case(
        "densities",
        "one of three factors too heavy",
        "wrong",
        langevin(lambda theta: jnp.sum(jnp.array([0.6, 0.45, 1.0]) * jnp.log1p(theta**2))),
        of(3),
        reason="as theta[1] grows",
    ),
    Case(
        "densities",
        "a momentum too heavy",
        "wrong",
        momentum(lambda r: 0.4 * jnp.log1p(r**2), 1.0),
        PAIR,
        reason="as r grows",
    ),
    Case(
        "densities",
        "a small number added to p",
        "undecided",
        langevin(lambda theta: -jnp.log(jnp.exp(-gauss(theta)) + 1e-12)),
        of(2),
        reason="a small number added to p",
    ),
    Case("densities", "separable classes without a prior", "undecided", langevin(logistic(SEPARABLE)), of(2)),
    Case("densities", "mixed classes without a prior", "right", langevin(logistic(MIXED)), of(2)),
    Case(
        "densities",
        "a funnel",
        "right",
        langevin(lambda theta: theta[0] ** 2 / 18 + theta[1] ** 2 * jnp.exp(-theta[0]) / 2 + theta[0] / 2),
        of(2),
    ),
]

_REACH = [
    Case(
        "reach",
        "noise along (1, 1)",
        "undecided",
        langevin(lambda theta: jnp.sum(theta**4) / 4, of_noise(jnp.ones_like)),
        of(2),
        True,
        "theta[0] -1 theta[1] never changes",
    ),
    Case(
        "reach",
        "noise along (1, 1), and a turn",
        "right",
        lambda: fk.Dynamics(gauss, D=Dense(jnp.ones((2, 2))), Q=TURN),
        {"state": jnp.zeros(2)},
    ),
    Case(
        "reach",
        "noise on spheres",
        "undecided",
        langevin(
            lambda theta: jnp.sum(theta**4) / 4 + theta[0],
            Dense(lambda theta: square(theta) * jnp.eye(3) - jnp.outer(theta, theta)),
        ),
        of(3),
        reason="something is conserved",
    ),
    Case(
        "reach",
        "noise along sines",
        "undecided",
        langevin(gauss, of_noise(lambda theta: jnp.stack([jnp.ones(()), jnp.cos(2 * theta[0])]))),
        of(2),
    ),
    Case(
        "reach",
        "two fields whose bracket is the third",
        "right",
        langevin(
            gauss,
            of_noise(lambda theta: jnp.stack([jnp.ones(()), jnp.zeros(()), theta[1]]))
            + Dense(jnp.diag(jnp.array([0.0, 1.0, 0.0]))),
        ),
        of(3),
    ),
    Case(
        "reach",
        "third-order Langevin",
        "right",
        third_order,
        {"state": {name: jnp.zeros(2) for name in ("theta", "r", "s")}},
    ),
    Case(
        "reach",
        "underdamped, friction on a half-line",
        "right",
        momentum(lambda r: r**2 / 2, Elementwise(lambda theta: jnp.maximum(theta, 0.0))),
        PAIR,
    ),
    Case(
        "reach",
        "noise on a half-line",
        "undecided",
        langevin(gauss, Elementwise(lambda theta: jnp.maximum(theta, 0.0))),
        of(1),
        reason="% of the points",
    ),
    Case(
        "reach",
        "noise that vanishes on a line",
        "undecided",
        langevin(gauss, isotropic(lambda theta: (theta[0] - theta[1]) ** 2)),
        of(2),
        reason="D vanishes on a surface",
    ),
    Case(
        "reach",
        "noise that vanishes at a point",
        "right",
        langevin(gauss, isotropic(lambda theta: square(theta) / (1 + square(theta)))),
        of(2),
    ),
    Case(
        "reach",
        "corrected, noise on a half-line",
        "wrong",
        lambda: corrected(lambda theta: jnp.maximum(theta, 0.0)),
        of(1),
        True,
        "D is singular at",
    ),
    Case(
        "reach",
        "corrected, less noise on a half-line",
        "right",
        lambda: corrected(lambda theta: 0.1 + jnp.maximum(theta, 0.0)),
        of(1),
    ),
]

CASES = [*_EXPLOSION, *_DENSITIES, *_REACH]
