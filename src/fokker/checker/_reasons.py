r"""Why a sampler is wrong: the correction of its drift or noise that makes exp(-H) stationary.

The residual is linear in the drift: R[f + αc] = R[f] + α L[c] with L[c] = -∇·c + c·∇H. A candidate c is
accepted only if one number α (or a few candidates with one number each) makes the residual zero at every
point: the reported reason has been verified there.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fokker.checker._candidates import Candidate, candidate_stages, number
from fokker.checker._curl import forgotten_curl, unbalanced_parts
from fokker.checker._gamma_forms import gamma_forms
from fokker.checker._other_targets import (
    Expansion,
    another_density,
    change_of_time,
    expand,
    forgotten_jacobian,
    other_temperature,
)
from fokker.checker._residual import (
    difference,
    divergence_of_matrix,
    map_points,
    required_without_curl,
    stationarity_terms,
    typical,
)
from fokker.dynamics.problem import Problem, Vector

# Candidates need d×d matrices and their second derivatives, which are cheap up to this dimension.
LARGEST = 24


@dataclass(frozen=True)
class Diagnosis:
    """The reasons in words, and the correction to add to the drift, if one was found."""

    reasons: tuple[str, ...]
    correction: Callable[[Vector], Vector] | None
    is_share_of_gamma: bool = False


def diagnose(problem: Problem, points: np.ndarray, tolerance: float) -> Diagnosis:
    """The simplest correction that makes the residual zero at every point, if there is one."""
    points = points[: max(24, 4096 // problem.dimension**2)]
    search = _Search(problem, points, tolerance)
    for attempt in (
        lambda: _wrong_declaration(problem, points, tolerance),
        search.first_terms,
        search.forces,
        search.other_targets,
        search.curls,
        lambda: search.explained(sizes=(2, 3)),
        lambda: _as_diagnosis(other_temperature(search.expansion, tolerance, positive=False)),
        search.another_density,
    ):
        diagnosis = attempt()
        if diagnosis is not None:
            return diagnosis
    return Diagnosis(
        (
            "no single missing term explains it; fk.complete measures the error and, in two and three "
            "dimensions, finds the nearest stationary drift",
        ),
        None,
    )


def _as_diagnosis(reason: str | None) -> Diagnosis | None:
    return None if reason is None else Diagnosis((reason,), None)


class _Search:
    """Candidates and their effects on the residual at the points, computed as they are needed."""

    def __init__(self, problem: Problem, points: np.ndarray, tolerance: float) -> None:
        self.problem, self.points, self.tolerance = problem, points, tolerance
        residual, of_S, scale = _residual_parts(problem, points)
        self._scale = np.maximum(scale, typical(scale))
        self._target = -residual / self._scale
        # The residual is also linear in D: scaling D by 1 + β adds -β L[S] to it.
        self._candidates = [Candidate("noise", problem.drift, _noise_words)]
        self._columns = [-of_S / self._scale]
        self._stages = candidate_stages(problem)

    @functools.cached_property
    def expansion(self) -> Expansion:
        """The residual as a function of H."""
        return expand(self.problem, self.points)

    def _add(self, candidates: list[Candidate]) -> None:
        self._candidates += candidates
        effects = _effects(self.problem, [c.field for c in candidates], self.points)
        self._columns += list(effects.T / self._scale)

    def explained(self, sizes: tuple[int, ...] = (1,)) -> Diagnosis | None:
        """By the candidates so far."""
        return _explain(self._candidates, self._columns, self._target, self.tolerance, sizes)

    def first_terms(self) -> Diagnosis | None:
        """Friction and Γ; a share of Γ that is missing may be a known mistake."""
        self._add(next(self._stages))
        diagnosis = self.explained()
        if diagnosis is not None and not diagnosis.is_share_of_gamma:
            return diagnosis
        temperature = None if diagnosis else other_temperature(self.expansion, self.tolerance, positive=True)
        if temperature is not None:
            return _as_diagnosis(temperature)
        self._add(gamma_forms(self.problem, self.points))
        return self.explained() or diagnosis

    def other_targets(self) -> Diagnosis | None:
        """Densities that the sampler keeps in place of exp(-H)."""
        for find in (change_of_time, forgotten_jacobian):
            reason = find(self.problem, self.expansion, self.tolerance)
            if reason is not None:
                return _as_diagnosis(reason)
        return None

    def forces(self) -> Diagnosis | None:
        """Forces, thermostats, and the divergence of a Q that the drift of the position implies."""
        for stage in self._stages:
            self._add(stage)
            diagnosis = self.explained()
            if diagnosis is not None:
                return diagnosis
        return None

    def curls(self) -> Diagnosis | None:
        """What does not belong to a skew Q, or lacks its divergence."""
        self._add(unbalanced_parts(self.problem))
        diagnosis = self.explained()
        if diagnosis is not None:
            return diagnosis
        curl = forgotten_curl(self.problem, self.points, self.tolerance)
        return None if curl is None else Diagnosis((curl[0],), curl[1])

    def another_density(self) -> Diagnosis | None:
        """Any other density that a reversible drift keeps."""
        other = another_density(self.problem, self.points, self.tolerance)
        return None if other is None else Diagnosis((other[0],), other[1])


def _wrong_declaration(problem: Problem, points: np.ndarray, tolerance: float) -> Diagnosis | None:
    """The diagnosis if the drift of a Dynamics differs from its recipe: a field's Γ is not its divergence."""
    Q_mv = problem.Q_mv
    if Q_mv is None:
        return None

    def missing(x: Vector) -> Vector:
        gradient = jax.grad(problem.hamiltonian)(x)
        required = required_without_curl(problem, x) - Q_mv(x, gradient) + divergence_of_matrix(Q_mv, x)
        return required - problem.drift(x)

    gaps = np.asarray(map_points(missing, points, 8 * 6 * problem.dimension**2))
    drifts = np.asarray(map_points(problem.drift, points, 8 * problem.dimension))
    gaps = np.abs(difference(drifts + gaps, drifts, np.abs(drifts + gaps) + np.abs(drifts), 10 * tolerance))
    if not np.any(gaps):
        return None
    where = problem.coordinate_names()[int(np.argmax(np.max(gaps, axis=0)))]
    reason = (
        f"the Γ of a field is not its divergence, in the drift of {where}: an Elementwise field depends on "
        "other coordinates than its own (declare it Diagonal), or the gamma of an Operator is wrong"
    )
    return Diagnosis((reason,), missing)


def _explain(
    candidates: list[Candidate],
    columns: list[np.ndarray],
    target: np.ndarray,
    tolerance: float,
    sizes: tuple[int, ...],
) -> Diagnosis | None:
    """The first combination of candidates, with one number each, that explains all of the residual."""
    usable = [
        k
        for k, column in enumerate(columns)
        if np.all(np.isfinite(column)) and np.max(np.abs(column)) > 10 * tolerance
    ]
    # Known mistakes come first and stand alone; then the order of the stages, the noise after the first.
    usable.sort(key=lambda k: (not candidates[k].coefficients, 2.5 if candidates[k].name == "noise" else k))
    if sizes != (1,):
        usable = [k for k in usable if not candidates[k].coefficients]
    for size in sizes:
        for subset in combinations(usable, size):
            matrix = np.stack([columns[k] for k in subset], axis=1)
            alphas, *_ = np.linalg.lstsq(matrix, target, rcond=None)
            remainder = np.max(np.abs(matrix @ alphas - target))
            if remainder > 10 * tolerance or np.any(np.abs(alphas) < 1e-6):
                continue
            known = candidates[subset[0]].coefficients
            if known and not any(abs(alphas[0] - coefficient) < 1e-6 for coefficient in known):
                continue
            # Removing a variable's drift completely and replacing it by the recipe's explains nothing.
            speeds = [
                alpha for k, alpha in zip(subset, alphas, strict=True) if candidates[k].name[:5] == "speed"
            ]
            if speeds and (size > 1 or abs(1 + speeds[0]) < 1e-6):
                continue
            # A covariance cannot be negative.
            if any(
                candidates[k].name == "noise" and alpha <= -1 for k, alpha in zip(subset, alphas, strict=True)
            ):
                continue
            parts = [(candidates[k], float(alpha)) for k, alpha in zip(subset, alphas, strict=True)]
            reasons = tuple(candidate.describe(alpha) for candidate, alpha in parts)
            of_drift = all(candidate.name != "noise" for candidate, _ in parts)
            # Not all of Γ, and not its sign.
            is_gamma = size == 1 and parts[0][0].name == "gamma"
            is_share = is_gamma and min(abs(parts[0][1] - 1), abs(parts[0][1] - 2)) > 1e-6
            return Diagnosis(reasons, _combine(parts) if of_drift else None, is_share)
    return None


def _residual_parts(problem: Problem, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    def at(x: Vector) -> tuple[Array, Array, Array]:
        gradient = jax.grad(problem.hamiltonian)(x)
        drift, drift_size = stationarity_terms(problem.drift, gradient, x)
        S, S_size = stationarity_terms(lambda y: required_without_curl(problem, y), gradient, x)
        return drift - S, S, drift_size + S_size

    residual, of_S, scale = map_points(at, points, 8 * 6 * problem.dimension**3)
    return np.asarray(residual), np.asarray(of_S), np.asarray(scale)


def _effects(
    problem: Problem, vector_fields: list[Callable[[Vector], Vector]], points: np.ndarray
) -> np.ndarray:
    """L[c] for each c at each point."""
    if not vector_fields:
        return np.zeros((len(points), 0))

    def at(x: Vector) -> Array:
        gradient = jax.grad(problem.hamiltonian)(x)
        return jnp.stack([stationarity_terms(c, gradient, x)[0] for c in vector_fields])

    return np.asarray(map_points(at, points, 8 * 20 * problem.dimension**3))


def _noise_words(beta: float) -> str:
    return (
        f"the noise does not match the drift: D must be multiplied by {number(1 + beta)} for exp(-H) to be "
        "stationary"
    )


def _combine(parts: list[tuple[Candidate, float]]) -> Callable[[Vector], Vector]:
    return lambda x: sum((alpha * c.field(x) for c, alpha in parts), jnp.zeros_like(x))
