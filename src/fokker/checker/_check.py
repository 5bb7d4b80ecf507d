"""`fokker.check`: is exp(-H) stationary under a sampler's dynamics, and if not, what is missing?"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from scipy.stats import chi2

from fokker._problem import Problem, dynamics_of, make_problem
from fokker._state import State, as_arrays
from fokker.checker._marginal import check_marginal
from fokker.checker._points import draw_points
from fokker.checker._reasons import LARGEST, Diagnosis, diagnose
from fokker.checker._report import Report
from fokker.checker._residual import Residuals, compile_once, estimated_residuals, exact_residuals
from fokker.checker._structure import check_structure
from fokker.checker._target import check_target
from fokker.dynamics import Dynamics

# Up to this many coordinates every derivative is taken; above it traces are estimated.
EXACT_UP_TO = 64
_DOUBLE, _SINGLE = 1e-8, 1e-5
_PROBES = 512
# How often estimated residuals raise the alarm on a right sampler.
_FALSE_ALARM = 1e-6
# Above this share of the scale a wrong sampler could hide in the noise of the estimate.
_BLIND = 0.05


def check(
    drift: Any,
    diffusion: Any = None,
    hamiltonian: Any = None,
    *,
    state: Any = None,
    temperature: float = 1.0,
    points: Any = None,
    number_of_points: int | None = None,
    exact: bool | None = None,
    explain: bool = True,
    seed: int = 0,
) -> Report:
    r"""Whether exp(-H) is stationary under dz = f dt + √(2D) dW, where it fails, and what is missing.

    Hand in a `fk.Dynamics`, a `fk.SDE`, a sampler made of one, or a `drift`, `diffusion` and `hamiltonian` as
    functions of the state. Four questions are asked, in float64 and at points drawn where the target has
    mass and around it: whether D is symmetric positive semidefinite and Q skew; whether the stationary
    Fokker–Planck residual vanishes,

        R = -∇·f + f·∇H + Σ_ij [∂_i∂_j D_ij - 2 ∂_iD_ij ∂_jH + D_ij(∂_iH ∂_jH - ∂_i∂_jH)] = 0,

    with derivatives by automatic differentiation; whether theta's marginal is the target; and, where the
    residual does not vanish, which term added to the drift makes it vanish (Ma, Chen, Fox 2015, Theorem 1;
    Ding et al. 2014, Eq. 9).

    ```python
    report = fk.check(
        drift=lambda theta, r: {"theta": r, "r": -theta},  # noise without friction
        diffusion={("r", "r"): 0.5},
        hamiltonian=lambda theta, r: (theta**2 + r**2) / 2,
    )
    report.ok  # False
    report.reasons  # ["the drift lacks -D∇H: noise without the friction that balances it"]
    ```

    `state` is an example of the state, for its shapes and to start drawing from; without it named variables
    are taken to be single numbers. `temperature` is that of a plain drift: the target is exp(-H/T) and
    `diffusion` includes T. `points`, in the structure of the state with a leading axis, replaces the points
    drawn. `exact` takes every derivative (the default up to 64 dimensions) or estimates traces from random
    probes. `explain=False` leaves out the search for the reason, which takes longer than the verdict.
    """
    if temperature != 1.0 and isinstance(dynamics_of(drift), Dynamics):
        raise ValueError("a Dynamics has its own temperature; temperature= goes with a plain drift.")
    with jax.enable_x64(True):
        problem = make_problem(drift, diffusion, hamiltonian, state, temperature)
        report = _check(problem, points, number_of_points, exact, explain, seed)
    if problem.guessed:
        report.notes.append(
            f"no shapes were given: {' and '.join(problem.names)} taken for single numbers. What goes wrong "
            "only in more dimensions is not seen; pass state=… (on the command line --shape theta=3 …)"
        )
    if hasattr(drift, "step_size"):
        report.notes.append(
            "of the sampler its continuous dynamics were checked; its step size, gradient and noise_estimate "
            "were not"
        )
    return report


def _check(
    problem: Problem, given: Any, number: int | None, exact: bool | None, explain: bool, seed: int
) -> Report:
    d = problem.dimension
    exact = d <= EXACT_UP_TO if exact is None else exact
    if number is None:
        number = (512 if d <= 12 else 128) if exact else 32
    if number < 2:
        raise ValueError(f"number_of_points must be at least 2; {number} was given.")
    key = jax.random.key(seed)
    points_key, probes_key, structure_key, target_key = jax.random.split(key, 4)
    points, on_target, notes, settled = _points(problem, given, number, points_key)
    single = _computes_in_single_precision(problem)
    residuals = (
        exact_residuals(problem, points, rounding=1e-6 if single else 1e-10)
        if exact
        else estimated_residuals(problem, points, _PROBES, probes_key)
    )
    usable = np.isfinite(residuals.values) & np.isfinite(residuals.scales)
    structure = check_structure(problem, points, structure_key)
    target = check_target(problem, points[:on_target], target_key)
    marginal = check_marginal(problem, points)

    tolerance = _SINGLE if single else _DOUBLE
    if single:
        notes.append("some constants or steps are in single precision: zero is judged accordingly")
    reasons = [*structure.failures, *target.wrong, *target.doubts]
    undecidable = marginal.holds is None and problem.auxiliary is not None
    if undecidable:
        reasons.append(f"whether the marginal of {problem.position} is the target is {marginal.how}")
    notes += structure.notes
    undecided = not settled or bool(target.doubts) or undecidable
    if not np.all(usable):
        share = float(np.mean(~usable))
        notes.append(f"the residual is not finite at {share:.0%} of the points")
        reasons.append(
            "the drift, the diffusion or a derivative of them is not finite where the target has mass"
        )
        undecided = True
    residuals = _select(residuals, usable)
    residual, stationary, blind = _judge(residuals, tolerance)
    # Points that were given are not draws from the target: averages over them say nothing.
    if stationary and target.flows and given is None:
        undecided = True
        reasons.append(target.flows)
    if blind:
        undecided = True
        reasons.append("the estimate of the residual is too noisy to tell: pass exact=True")

    correction = worst = None
    worst_value = 0.0
    if residuals.values.size:
        index = int(np.argmax(residuals.relative))
        worst_x = points[np.flatnonzero(usable)[index]]
        if not stationary:
            worst, worst_value = problem.to_state(worst_x), float(residuals.values[index])
        if not stationary and not explain:
            reasons.append("the stationary Fokker–Planck equation does not hold")
        elif not stationary:
            diagnosis = _diagnose(problem, points[np.flatnonzero(usable)], tolerance, exact)
            reasons += diagnosis.reasons
            if diagnosis.correction is not None:
                correction = problem.to_state(compile_once(diagnosis.correction)(worst_x))
    if structure.failures and stationary and structure.worst is not None:
        worst = problem.to_state(structure.worst)
    if marginal.holds is False:
        reasons.append(
            f"the marginal of {problem.position} is not the target: ∫exp(-g) over the auxiliary variables "
            f"must be finite and the same for every {problem.position} ({marginal.how})"
        )
    if stationary and not structure.has_noise and not target.doubts:
        notes.append("without noise exp(-H) is kept but not sought: resample the momentum from time to time")
    wrong = not stationary or bool(structure.failures or target.wrong) or marginal.holds is False
    verdict = "wrong" if wrong else "undecided" if undecided else "right"
    return Report(
        ok=verdict == "right",
        verdict=verdict,
        residual=residual,
        tolerance=tolerance,
        scale=residuals.typical_scale,
        root_mean_square=float(np.sqrt(np.mean(residuals.values**2))) if residuals.values.size else math.nan,
        reasons=reasons,
        worst_point=_ordered(worst, problem),
        worst_value=worst_value,
        correction=_ordered(correction, problem),
        dimension=d,
        number_of_points=int(points.shape[0]),
        method="every derivative taken"
        if exact
        else f"traces estimated from {_PROBES} random probes a point",
        power=_power(on_target, residuals, tolerance, exact),
        structure=structure,
        marginal=marginal,
        notes=notes,
    )


def _points(problem: Problem, given: Any, number: int, key: Array) -> tuple[Array, int, list[str], bool]:
    """The points, how many are draws from the target, what to say of them, and whether they settled."""
    if given is not None:
        stacked = as_arrays(given)
        try:
            points = jax.vmap(problem.to_vector)(stacked)
        except (KeyError, ValueError, TypeError, IndexError) as error:
            raise ValueError(
                f"points must have the structure of the state with a leading axis: {error}"
            ) from error
        if points.ndim != 2 or points.shape[1] != problem.dimension:
            raise ValueError(
                f"points make vectors of length {points.shape[-1]}; the state has {problem.dimension}."
            )
        points = points.astype(jnp.float64)
        return points, int(points.shape[0]), ["the points were given, not drawn"], True
    target, wide = draw_points(problem.hamiltonian, problem.start, number, key)
    notes = []
    # Heavy tails made heavier, exp(-H/4), may have no integral: only the target itself must settle.
    if not target.settled:
        notes.append(
            "points could not be drawn where the target has mass (it may not be normalisable, or the state "
            "given is far from it): pass a better state, or points"
        )
    points = jnp.concatenate([target.points, wide.points[: number // 2]])
    return points, number, notes, target.settled


def _select(residuals: Residuals, usable: np.ndarray) -> Residuals:
    return Residuals(
        residuals.values[usable], residuals.errors[usable], residuals.scales[usable], residuals.probes
    )


def _judge(residuals: Residuals, tolerance: float) -> tuple[float, bool, bool]:
    """The scaled residual, whether it is zero, and whether an estimate is too noisy to say so."""
    if not residuals.values.size:
        return math.nan, True, False
    if residuals.probes == 0:
        residual = float(np.max(residuals.relative))
        return residual, residual <= tolerance, False
    scale = max(residuals.typical_scale, 1e-300)
    errors = np.maximum(residuals.errors, tolerance * scale)
    n = residuals.values.size
    statistic = float(np.sum((residuals.values / errors) ** 2))
    excess = max(0.0, float(np.mean(residuals.values**2 - residuals.errors**2)))
    residual = math.sqrt(excess) / scale
    stationary = statistic <= float(chi2.isf(_FALSE_ALARM, n))
    return residual, stationary, stationary and _detectable(residuals, tolerance) > _BLIND


def _detectable(residuals: Residuals, tolerance: float) -> float:
    """The residual, as a share of the scale, that the pooled test finds with probability 0.99."""
    n = residuals.values.size
    scale = max(residuals.typical_scale, 1e-300)
    error = float(np.sqrt(np.mean(np.maximum(residuals.errors, tolerance * scale) ** 2)))
    excess = float(chi2.isf(_FALSE_ALARM, n)) / n - 1 + 2.33 * math.sqrt(2 / n)
    return error / scale * math.sqrt(excess)


def _power(on_target: int, residuals: Residuals, tolerance: float, exact: bool) -> str:
    mass = 1 - 0.01 ** (1 / on_target)
    words = (
        f"an error confined to a region is missed with probability below 1 % if the region holds {mass:.1%} "
        "of the target's mass or more, as far as chains from the state given reach; one in a formula without "
        "case distinctions is found almost surely if it is "
    )
    if exact:
        return words + f"above {tolerance:.1g} of the terms"
    return words + f"above {_detectable(residuals, tolerance):.2g} of the terms (99 %)"


def _diagnose(problem: Problem, points: Array, tolerance: float, exact: bool) -> Diagnosis:
    if problem.dimension > LARGEST or not exact:
        return Diagnosis(
            (
                "the stationary Fokker–Planck equation does not hold; for the reason check the same sampler "
                f"in fewer dimensions (up to {LARGEST})",
            ),
            None,
        )
    return diagnose(problem, points, tolerance)


def _ordered(z: State | None, problem: Problem) -> State | None:
    """The variables in the order in which the user named them."""
    if z is None or not problem.names:
        return z
    return {name: z[name] for name in problem.names}


def _computes_in_single_precision(problem: Problem) -> bool:
    """Whether single precision shows anywhere in the traced functions, given a double-precision state."""
    x = problem.start
    functions: list[Callable[..., Any]] = [
        problem.drift,
        problem.hamiltonian,
        lambda y: problem.D_mv(y, y),
    ]
    return any(_shows_float32(jax.make_jaxpr(function)(x).jaxpr) for function in functions)


def _shows_float32(jaxpr: Any) -> bool:
    for equation in jaxpr.eqns:
        for variable in (*equation.invars, *equation.outvars):
            if getattr(variable.aval, "dtype", None) == jnp.float32:
                return True
        for parameter in jax.tree.leaves(
            list(equation.params.values()), is_leaf=lambda p: hasattr(p, "eqns")
        ):
            inner = getattr(parameter, "jaxpr", parameter)
            if hasattr(inner, "eqns") and _shows_float32(inner):
                return True
    return False
