"""Mistakes that the checker names: each search is called alone, at given points, on right and wrong samplers.

`verdicts_reasons.py` has the whole verdicts on them.
"""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fokker as fk
from fokker.checker._gamma_forms import symmetric_root
from fokker.checker._other_targets import _TRANSFORMS, expand, other_temperature
from fokker.checker._reasons import _Search, diagnose
from fokker.checker._residual import exact_residuals
from fokker.dynamics.problem import make_problem
from verdicts import PAIR, PAIR_2D, H, force, metric, normal, potential, sghmc, sgrld
from verdicts_reasons import (
    LOPSIDED,
    SKEW,
    dense,
    divergence,
    hastened,
    jacobian,
    magnetic,
    reversible,
    tilted,
    turned,
)

pytestmark = pytest.mark.usefixtures("x64")
TWO = jnp.zeros(2)


def search_of(given, state):
    problem = make_problem(given, state=state)
    points = np.random.default_rng(0).normal(size=(32, problem.dimension))
    return _Search(problem, points, 1e-8)


def residual_after(search, diagnosis):
    """Of the drift with the correction that was named."""
    problem = search.problem
    corrected = lambda x: problem.drift(x) + diagnosis.correction(x)  # noqa: E731
    repaired = dataclasses.replace(problem, drift=corrected)
    return float(np.max(exact_residuals(repaired, search.points[:4]).relative))


# The search that must find it, the sampler, its state, and the words.
NAMED = {
    "Stratonovich by Cholesky": (
        "first_terms",
        reversible(of_ito=-1.0),
        TWO,
        "Stratonovich.*Cholesky factor",
    ),
    "Itô twice": ("first_terms", reversible(of_ito=1.0), TWO, "once too often.*Cholesky factor"),
    "Girolami and Calderhead": ("first_terms", reversible(2.0, -1.0), TWO, "Girolami and Calderhead"),
    "the metric's volume": ("first_terms", reversible(of_determinant=-0.5), TWO, "respect to the volume"),
    "∇·Q forgotten": ("curls", turned(0.0), TWO, "∇·Q is missing"),
    "magnetic": ("curls", magnetic(LOPSIDED), PAIR_2D, "force on r .* is not skew"),
    "magnetic by momentum": ("curls", magnetic(SKEW, True), PAIR_2D, "force on r .* is not skew"),
    "linear, not balanced": (
        "curls",
        lambda: fk.SDE(lambda z: -jnp.array([[1.0, 2.0], [-1.5, 1.0]]) @ z, np.eye(2), normal),
        TWO,
        "symmetric part is not D",
    ),
    "time": ("other_targets", hastened(0.0), PAIR_2D, "a = the trace of D.*a\\(z\\) times as fast"),
    "time, without noise": (
        "other_targets",
        lambda: fk.SDE(
            lambda theta, r: {"theta": (1 + r**2) * r, "r": -(1 + r**2) * force(theta)}, fk.fields.Zero(), H
        ),
        PAIR,
        "a = the drift of theta over ∂H/∂r",
    ),
    "Jacobian in H": ("other_targets", jacobian(1.0, 0.0), None, "exp\\(z\\) with z = z\\[0\\]: .*H lacks"),
    "Jacobian in the drift": ("other_targets", jacobian(0.0, 1.0), None, "drift lacks the gradient"),
    "another density": (
        "another_density",
        lambda: fk.SDE(
            lambda z: divergence(dense, z) - dense(z) @ (jax.grad(tilted)(z) - jnp.cos(z)), dense, tilted
        ),
        TWO,
        "keeps another density",
    ),
}
# They take seconds each.
SLOW = {"Itô twice", "Girolami and Calderhead", "the metric's volume", "magnetic by momentum"}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in NAMED]
)
def test_the_mistake_is_named_and_its_correction_is_right(name):
    how, build, state, words = NAMED[name]
    search = search_of(build(), state)
    diagnosis = getattr(search, how)()
    assert diagnosis is not None
    assert re.search(words, diagnosis.reasons[0]), diagnosis.reasons
    if how != "other_targets":
        assert residual_after(search, diagnosis) < 1e-8


@pytest.mark.slow
def test_half_of_gamma_is_a_stratonovich_equation_for_a_diagonal_D():
    """Where every coordinate has its own noise; and with the noise of a momentum, whose D has zero rows."""
    given = sgrld(gamma=0.5)
    assert "Stratonovich" in search_of(given, {"theta": TWO}).first_terms().reasons[0]
    noisy = fk.SDE(
        lambda theta, r: {"theta": r, "r": -force(theta) - (1 + r**2) * r + r},
        {("r", "r"): fk.fields.Elementwise(lambda r: 1 + r**2)},
        H,
    )
    assert "Stratonovich" in search_of(noisy, PAIR).first_terms().reasons[0]


def test_the_derivative_of_a_symmetric_root_with_equal_eigenvalues():
    """Of (1 + t)I it is I/(2√(1 + t)); that of eigenvectors is not defined there."""
    root = lambda t: symmetric_root((1 + t) * jnp.eye(3))  # noqa: E731
    np.testing.assert_allclose(jax.jacfwd(root)(jnp.zeros(())), np.eye(3) / 2, atol=1e-12)
    np.testing.assert_allclose(jax.jacfwd(jax.jacfwd(root))(jnp.zeros(())), -np.eye(3) / 4, atol=1e-12)


TRANSFORMS = {
    "exp(z)": jnp.exp,
    "1/(1 + exp(-z))": jax.nn.sigmoid,
    "log(1 + exp(z))": jax.nn.softplus,
    "tanh(z)": jnp.tanh,
    "z²": jnp.square,
}


@pytest.mark.parametrize("transform", _TRANSFORMS, ids=lambda t: t.formula)
def test_the_jacobians_of_common_transforms(transform):
    log_jacobian = lambda z: jnp.log(jnp.abs(jax.grad(TRANSFORMS[transform.formula])(z)))  # noqa: E731
    z = np.linspace(-3, 2.5, 6)
    slope, curvature = (jax.vmap(f)(z) for f in (jax.grad(log_jacobian), jax.grad(jax.grad(log_jacobian))))
    np.testing.assert_allclose(transform.slope(z), slope, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(transform.curvature(z), curvature, rtol=1e-7, atol=1e-12)


@pytest.mark.slow
def test_a_mistake_without_a_name_gets_none():
    """A force that depends on the momentum and belongs to no density and no skew Q."""
    wrong = fk.SDE(
        lambda theta, r: {"theta": r + jnp.sin(theta * r), "r": -force(theta) - r + jnp.cos(theta)},
        {("r", "r"): 1.0},
        H,
    )
    search = search_of(wrong, PAIR)
    for how in (search.first_terms, search.other_targets, search.curls, search.another_density):
        assert how() is None


def test_large_terms_far_out_do_not_hide_what_is_left_near_the_center():
    """D = exp(H) is 10¹⁷ at θ = 40: beside it, any temperature near 1 seemed to leave no residual."""
    constant_drift = fk.SDE(
        lambda theta: 0 * theta + 1e-3,
        lambda theta: jnp.diag(jnp.exp(jnp.sqrt(1 + theta**2))),
        lambda theta: jnp.sum(jnp.sqrt(1 + theta**2)),
    )
    problem = make_problem(constant_drift, state={"theta": jnp.zeros(1)})
    expansion = expand(problem, np.concatenate([np.linspace(-3, 3, 24), [40.0]])[:, None])
    assert other_temperature(expansion, 1e-8, positive=True) is None


def test_what_was_named_before_keeps_its_name():
    """Friction comes before the forms of Γ, and Γ before Stratonovich where all of it is missing."""
    problem = make_problem(sghmc(friction=0.5), state=PAIR)
    points = np.random.default_rng(0).normal(size=(24, 2))
    assert "friction does not match" in diagnose(problem, points, 1e-8).reasons[0]
    missing = search_of(
        fk.SDE(lambda z: -metric(z) * force(z), lambda z: jnp.diag(metric(z)), potential), TWO
    )
    assert missing.first_terms().reasons[0].startswith("Γ is missing")
