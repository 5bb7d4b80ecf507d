"""What can be said without a run: the verdict of `fk.check`, the residual, the Q behind a drift."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

import fokker as fk
from fokker.checker._residual import exact_residuals
from fokker.dynamics.problem import make_problem
from fokker.studio.design import Design, DesignError, Named, RunSettings, Typed
from fokker.studio.mistakes import by_name
from fokker.studio.named import SAMPLERS
from fokker.studio.program import Built, build
from fokker.studio.truth import truth_of

# The residual is shown on a grid of this many points per side, for this many momenta at each.
RESIDUAL_POINTS, MOMENTA = 32, 4
# Points per side of a picture of Q.
_Q_POINTS = 64


def _without_noise(design: Design) -> Design:
    return dataclasses.replace(design, settings=dataclasses.replace(design.settings, noise=0.0))


def _variables(built: Built) -> tuple[str, ...]:
    """The variables of the dynamics that a sampler follows; empty where they are not x, y, p, q and ξ."""
    sampler = built.design.sampler
    return built.variables or (SAMPLERS[sampler.name].variables if isinstance(sampler, Named) else ())


def _example(design: Design, variables: tuple[str, ...]) -> Any:
    values = {
        "theta": np.asarray(design.target.start),
        "r": np.zeros(2),
        "xi": np.asarray(design.settings.friction),
    }
    return {name: values[name] for name in variables} if variables else values["theta"]


def _with_gradient_noise(design: Design, built: Built) -> fk.SDE | None:
    """The dynamics with the noise of their gradient as one more diffusion, ε/2 (D + Q)V(D + Q)ᵀ.

    A step with a gradient of variance V adds noise of variance ε²(D + Q)V(D + Q)ᵀ (Ma et al. 2015, Eq. 9).
    None where there are no fields to compute it from, or a thermostat that absorbs it.
    """
    dynamics, variables = built.sampler.placed, _variables(built)
    if not isinstance(dynamics, fk.Dynamics) or not variables or "xi" in variables:
        return None
    settings, T, H = design.settings, dynamics.temperature, dynamics.hamiltonian
    assert isinstance(H, fk.Hamiltonian)
    rest = None if H.auxiliary is None else fk.Hamiltonian(lambda theta: jnp.zeros(()), H.auxiliary)
    variance = settings.noise**2 / settings.batch

    def diffusion(z: Mapping[str, Array]) -> Array:
        D = dynamics.D.as_matrix(z)
        columns = (D + dynamics.Q.as_matrix(z))[:, :2]
        return T * D + settings.step_size / 2 * variance * columns @ columns.T

    energy = fk.Hamiltonian(
        lambda theta: H.potential(theta) / T,
        None if rest is None else by_name(lambda z: rest(z) / T, variables),
    )
    return fk.SDE(by_name(dynamics.drift, variables), by_name(diffusion, variables), energy)


def verdict(design: Design, **options: Any) -> fk.Report:
    """What `fk.check` says about a design, with its mistakes, its correction and its gradient noise."""
    notes = []
    try:
        # All of it in double precision, so that no constant of a formula is rounded before it is checked.
        with jax.enable_x64(True):
            built = build(_without_noise(design))
            subject: Any = built.sampler
            variables = built.variables
            if design.settings.noise:
                noisy = _with_gradient_noise(design, built)
                notes.append(
                    "checked with the whole gradient: what gradient noise adds was not looked at"
                    if noisy is None
                    else "gradient noise is checked as the diffusion ε/2 (D + Q)V(D + Q)ᵀ that it adds at "
                    "this step size"
                )
                if noisy is not None:
                    subject, variables = noisy, _variables(built)
            report = fk.check(subject, state=_example(design, variables), **options)
    except DesignError:
        raise
    except (ValueError, TypeError) as error:
        raise DesignError("sampler", str(error)) from None
    report.notes.extend(notes)
    return report


@functools.lru_cache(maxsize=64)
def _known_verdict(design: Design) -> fk.Report:
    return verdict(design)


def known_verdict(design: Design) -> fk.Report:
    """The same, remembered: how much is run, and with which seed, does not matter to it."""
    return _known_verdict(dataclasses.replace(design, run=RunSettings()))


def residual_map(design: Design) -> dict[str, Any]:
    """|R|, root mean square over some momenta, on the window of the target: where a sampler is wrong."""
    with jax.enable_x64(True):
        built = build(_without_noise(design))
        dynamics, variables = built.sampler.placed, _variables(built)
        if dynamics is None or not variables:
            raise DesignError("sampler", "the residual is shown for dynamics over x, y, p, q and ξ alone.")
        problem = make_problem(dynamics, state=_example(design, variables))
        truth = truth_of(design.target.potential, design.settings.temperature)
        theta, rest = _plane(truth.box), _momenta(design, variables)
        points = np.concatenate(
            [np.repeat(theta, len(rest), axis=0), np.tile(rest, (len(theta), 1))], axis=-1
        )
        residuals = exact_residuals(problem, points)
    with np.errstate(all="ignore"):
        squares = np.asarray(residuals.values).reshape(len(theta), len(rest)) ** 2
        values = np.sqrt(np.mean(squares, axis=1)).reshape(RESIDUAL_POINTS, RESIDUAL_POINTS)
    finite = np.where(np.isfinite(values), values, 0.0)
    return {
        "box": truth.box,
        "largest": float(finite.max()),
        "scale": residuals.typical_scale,
        "values": finite,
    }


def _plane(box: tuple[float, float, float, float]) -> np.ndarray:
    middles = (np.arange(RESIDUAL_POINTS) + 0.5) / RESIDUAL_POINTS
    left, right, bottom, top = box
    X, Y = np.meshgrid(left + (right - left) * middles, bottom + (top - bottom) * middles, indexing="ij")
    return np.stack([X.ravel(), Y.ravel()], axis=-1)


def _momenta(design: Design, variables: tuple[str, ...]) -> np.ndarray:
    """Momenta of unit mass, and thermostats around the friction; one row of nothing without them."""
    if "r" not in variables:
        return np.zeros((1, 0))
    generator = np.random.default_rng(0)
    r = np.sqrt(design.settings.temperature) * generator.normal(size=(MOMENTA, 2))
    xi = design.settings.friction + generator.normal(size=(MOMENTA, 1))
    return np.concatenate([r, xi], axis=-1) if "xi" in variables else r


def completion(design: Design) -> dict[str, Any]:
    """The Q behind a drift over x and y that was typed, by `fk.complete`."""
    typed = design.sampler
    if not isinstance(typed, Typed) or typed.drift is None or typed.size != 2:
        raise DesignError(
            "sampler", "Q is recovered from a drift over x and y: choose a drift typed in, without momenta."
        )
    with jax.enable_x64(True):
        built = build(_without_noise(design))
        result = fk.complete(built.sampler.placed, state=_example(design, typed.variables))
    assert result.Q_on_grid is not None
    assert result.trusted is not None
    assert result.axes is not None
    # The square of points around those where Q can be trusted; the page draws as many rows as columns.
    sides = [np.flatnonzero(result.trusted.any(axis=1 - axis)) for axis in (0, 1)]
    chosen = [np.linspace(side[0], side[-1], _Q_POINTS).round().astype(int) for side in sides]
    Q = np.where(result.trusted, result.Q_on_grid[0, 1], 0.0)[np.ix_(*chosen)]
    return {
        "text": str(result),
        "stationary": result.stationary,
        "box": [
            float(x[i]) for x, side in zip(result.axes, chosen, strict=True) for i in (side[0], side[-1])
        ],
        "largest": float(np.abs(Q).max()),
        "values": Q,
    }
