r"""Ding et al. (2014), Bayesian Sampling Using Stochastic Gradient Thermostats; SGNHT in Ma et al. (2015).

    dθ = r dt,  dr = [-∇U - ξr] dt + √(2A) dW,  dξ = (rᵀr/d - 1) dt

keeps exp(-H) with H = U + rᵀr/2 + w(ξ - A)² for w = d/2 alone: R = (rᵀr - d)(ξ - A)(2w/d - 1). Ma et al.
print 2/d (arXiv), which is d/2 at d = 2, and 1/(2d) (NIPS), which is d/2 at d = 1.
"""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array

from fokker.dynamics import SDE, matrix_thermostat, thermostat
from fokker.lab.experiments.errata._entry import Entry, Shapes, Verdict
from fokker.lab.experiments.errata._ma_momentum import TWO
from fokker.lab.experiments.errata._problems import (
    energy,
    force,
    gradient_noise,
    identity,
    momentum_noise,
    potential,
)

NOISE = 0.7


def shapes(d: int) -> Shapes:
    """θ and r in d dimensions and one ξ."""
    return {"theta": (d,), "r": (d,), "xi": ()}


def _noise(theta: Array, r: Array, xi: Array) -> dict[str, Array]:
    return {"theta": jnp.zeros_like(theta), "r": NOISE * jnp.ones_like(r), "xi": jnp.zeros_like(xi)}


def sgnht(weight: Callable[[int], float]) -> SDE:
    """SGNHT with the term weight(d)·(ξ - A)² in H."""

    def drift(theta: Array, r: Array, xi: Array) -> dict[str, Array]:
        return {"theta": r, "r": force(theta) - xi * r, "xi": jnp.sum(r**2) / r.size - 1}

    def hamiltonian(theta: Array, r: Array, xi: Array) -> Array:
        return energy(theta, r) + weight(r.size) * (xi - NOISE) ** 2

    return SDE(drift, _noise, hamiltonian)


def _arxiv_diffusion() -> SDE:
    """D with -I in the first row, where Q has it: not symmetric."""
    right = sgnht(lambda d: d / 2)

    def matrix(theta: Array, r: Array, xi: Array) -> Array:
        d = theta.size
        D = jnp.pad(NOISE * identity(r), (d, 1))
        return D.at[:d, d : 2 * d].set(-identity(theta))

    return SDE(right.drift_function, matrix, right.hamiltonian)


def _stray_factor() -> SDE:
    """dξ = (r²/d - 1) r dt, which has a meaning in one dimension only."""
    right = sgnht(lambda d: d / 2)

    def drift(theta: Array, r: Array, xi: Array) -> dict[str, Array]:
        return {"theta": r, "r": force(theta) - xi * r, "xi": (r[0] ** 2 - 1) * r[0]}

    return SDE(drift, _noise, right.hamiltonian)


def _mass_of_thermostat(mu: float) -> SDE:
    """Ding et al., below Eq. 11: dξ = (rᵀr - n)/μ dt with (μ/2)(ξ - A)² in H, for any μ."""

    def drift(theta: Array, r: Array, xi: Array) -> dict[str, Array]:
        return {"theta": r, "r": force(theta) - xi * r, "xi": (jnp.sum(r**2) - r.size) / mu}

    def hamiltonian(theta: Array, r: Array, xi: Array) -> Array:
        return energy(theta, r) + mu / 2 * (xi - NOISE) ** 2

    return SDE(drift, _noise, hamiltonian)


def _fixed_friction(xi: float) -> SDE:
    """Ding et al., section 3: gradient noise N(0, 2Bh) with B = 1, and a friction ξ that is not adapted."""

    def drift(theta: Array, r: Array) -> dict[str, Array]:
        return {"theta": r, "r": force(theta) - xi * r}

    return SDE(drift, momentum_noise(identity), energy)


def _ding_sghmc(estimate: float) -> SDE:
    """Ding et al. Eq. 3: friction A, noise 2(A·I - B̂) and 2B(θ) from the force, with B̂ = estimate·B."""

    def noise(theta: Array) -> Array:
        B = gradient_noise(theta)
        return 1.5 * identity(theta) - estimate * B + B

    def drift(theta: Array, r: Array) -> dict[str, Array]:
        return {"theta": r, "r": force(theta) - 1.5 * r}

    return SDE(drift, momentum_noise(noise), energy)


def _weights() -> list[Entry]:
    """Every printed weight in one, two and three dimensions."""
    printed: list[tuple[str, str, Callable[[int], float], tuple[int, ...]]] = [
        ("(d/2)", "Ding et al. below Eq. 11, μ = n; Ma et al. corrected", lambda d: d / 2, (1, 2, 3)),
        ("(1/2d)", "Ma et al. below Eq. 15 (NIPS) and S.17, as printed", lambda d: 1 / (2 * d), (1,)),
        ("(2/d)", "Ma et al. below Eq. 15 and 34 (arXiv), as printed", lambda d: 2 / d, (2,)),
    ]
    entries = []
    for name, source, weight, right_at in printed:
        for d in (1, 2, 3):
            verdict: Verdict = "right" if d in right_at else "wrong"
            entries.append(
                Entry(
                    f"sgnht-{name}-d{d}",
                    source,
                    f"SGNHT with {name}(ξ - A)² in H, which is {weight(d):.3g}(ξ - A)² at d = {d}.",
                    verdict,
                    lambda weight=weight: sgnht(weight),  # type: ignore[misc]
                    shapes(d),
                )
            )
    return entries


ENTRIES = [
    *_weights(),
    Entry(
        "sgnht-arxiv-D",
        "Ma et al. below Eq. 15 and 34 (arXiv), D as printed",
        "D has -I in its first row and is not symmetric; H with the right weight.",
        "wrong",
        _arxiv_diffusion,
        shapes(2),
    ),
    Entry(
        "sgnht-stray-factor",
        "Ma et al. Eq. 34 and S.17, as printed",
        "dξ = (rᵀr/d - 1) r dt: a stray factor r, tried in one dimension, where it is a number.",
        "wrong",
        _stray_factor,
        shapes(1),
    ),
    Entry(
        "sgnht",
        "Ding et al. Eq. 5 and 6",
        "SGNHT as the library builds it from H, D and Q.",
        "right",
        lambda: thermostat(potential, A=NOISE),
        shapes(2),
    ),
    Entry(
        "ding-mu",
        "Ding et al., below Eq. 11",
        "A scalar thermostat of any mass μ.",
        "right",
        lambda: _mass_of_thermostat(1.3),
        shapes(2),
    ),
    Entry(
        "ding-eq11",
        "Ding et al. Eq. 11",
        "A matrix Ξ of friction: dΞ = (rrᵀ - I)/μ dt.",
        "right",
        lambda: matrix_thermostat(potential, A=NOISE, mu=1.3),
        {"theta": (2,), "r": (2,), "xi": (2, 2)},
    ),
    Entry(
        "ding-fixed-friction-low",
        "Ding et al., section 3: ξ = 0.1, B = 1",
        "A friction below the noise: too hot, as they say.",
        "wrong",
        lambda: _fixed_friction(0.1),
        TWO,
    ),
    Entry(
        "ding-fixed-friction-equal",
        "Ding et al., section 3: ξ = B = 1; the underdamped SDE of the 2026 article",
        "A friction equal to the noise is Langevin dynamics.",
        "right",
        lambda: _fixed_friction(1.0),
        TWO,
    ),
    Entry(
        "ding-eq3",
        "Ding et al. Eq. 3",
        "SGHMC with B̂ = B.",
        "right",
        lambda: _ding_sghmc(1.0),
        TWO,
    ),
    Entry(
        "ding-eq3-without-B",
        "Ding et al. Eq. 3, with B̂ = 0",
        "SGHMC that does not know the noise of its force.",
        "wrong",
        lambda: _ding_sghmc(0.0),
        TWO,
    ),
]
