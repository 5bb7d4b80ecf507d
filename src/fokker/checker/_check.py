"""`fokker.check`: is exp(-H) stationary under a sampler's dynamics, and if not, which term is wrong?"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import chi2

from fokker._core.state import State, dimension
from fokker.checker._compact import is_not_periodic, leaves_the_sphere, lift
from fokker.checker._evaluate import LARGEST_FULL_MATRIX, Evaluator, Values
from fokker.checker._explosion import find_explosion
from fokker.checker._inputs import first_state, given_points, starts_of
from fokker.checker._jumps import SMALLEST_JUMP, find_jumps
from fokker.checker._marginal import check_marginal
from fokker.checker._modes import find_modes
from fokker.checker._points import draw_points
from fokker.checker._reasons import LARGEST, Diagnosis, diagnose
from fokker.checker._report import Report
from fokker.checker._residual import Residuals, compile_once, estimated_residuals, exact_residuals
from fokker.checker._structure import check_structure
from fokker.checker._tails import find_escape
from fokker.checker._target import Target, check_target
from fokker.dynamics import Dynamics
from fokker.dynamics.problem import Problem, dynamics_of, make_problem, positive_temperature

# Up to this many coordinates all derivatives are exact; above, traces are estimated.
EXACT_UP_TO = 64
_DOUBLE, _SINGLE = 1e-8, 1e-5
_PROBES = 512
# The probability that estimated residuals of a correct sampler raise an alarm.
_FALSE_ALARM = 1e-6
# With fewer different points given, as many more are taken next to them, at this share of their size.
_FEW, _NEAR = 8, 1e-2
# If the detectable residual is a larger share of the scale, the estimate is too noisy.
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
    periodic: Mapping[str, Any] | None = None,
    sphere: str | Iterable[str] = (),
    seed: int = 0,
) -> Report:
    r"""Test whether exp(-H) is stationary under dz = f dt + √(2D) dW; if not, find the point and the error.

    Give a `fk.Dynamics`, a `fk.SDE`, a sampler, or a `drift`, `diffusion` and `hamiltonian` as functions of
    the state. The tests use float64, at points drawn from the target and around it: whether D is symmetric
    positive semidefinite and Q is skew; whether the stationary Fokker–Planck residual is zero,

        R = -∇·f + f·∇H + Σ_ij [∂_i∂_j D_ij - 2 ∂_iD_ij ∂_jH + D_ij(∂_iH ∂_jH - ∂_i∂_jH)] = 0,

    with derivatives by automatic differentiation; what the residual cannot detect: whether exp(-H) has an
    integral, whether probability flows through a jump or out to infinity, by the drift or by the noise alone,
    and whether the noise reaches every direction; whether theta's marginal is the target; and, if the
    residual is not zero, which term added to the drift makes it zero (Ma, Chen, Fox 2015, Theorem 1; Ding et
    al. 2014, Eq. 9).

    ```python
    report = fk.check(
        drift=lambda theta, r: {"theta": r, "r": -theta},  # noise without friction
        diffusion={("r", "r"): 0.5},
        hamiltonian=lambda theta, r: (theta**2 + r**2) / 2,
    )
    report.ok  # False
    report.reasons  # ["the drift lacks -D∇H: noise without the friction that balances it"]
    ```

    `state` is an example of the state, for its shapes and as a start for drawing points; with a list of
    states, chains start at each of them, so that all modes you know are tested. Without it, named variables
    are taken as single numbers. `temperature` is for a plain drift: the target is exp(-H/T), and `diffusion`
    includes T. `points`, in the structure of the state with a leading axis, replace the drawn points; draws
    of theta only, such as `trace.samples`, are starts for drawing points. `exact` computes all derivatives
    (the default up to 64 dimensions), or else traces are estimated from random probes. `explain=False` leaves
    out the search for the reason, which takes longer than the verdict.

    H need not grow in a compact variable: `periodic={"phi": 2 * jnp.pi}` names angles and their periods,
    `sphere="u"` names unit vectors, for which exp(-H) is a density on the sphere.

    A sampler with a Metropolis correction is exact because of it, so that the correction is tested (detailed
    balance, reversibility, volume). `state` may then be theta only. Of another sampler the dynamics that it
    follows are tested, not its step size; one that says nothing about itself is undecided.
    """
    from fokker.checker._samplers import check_sampler, is_sampler  # it also imports `check`

    options: dict[str, Any] = {
        "points": points,
        "number_of_points": number_of_points,
        "exact": exact,
        "explain": explain,
        "periodic": periodic,
        "sphere": sphere,
        "seed": seed,
    }
    temperature = positive_temperature(temperature)
    if is_sampler(drift):
        if diffusion is not None or hamiltonian is not None:
            raise TypeError("diffusion and hamiltonian are only for a drift; a sampler has its own.")
        if temperature != 1.0:
            raise ValueError("a sampler has its own temperature: sampler.on(target, temperature).")
        return check_sampler(drift, state, options)
    if temperature != 1.0 and isinstance(dynamics_of(drift), Dynamics):
        raise ValueError("a Dynamics has its own temperature; temperature= is only for a plain drift.")
    if number_of_points is not None and number_of_points < 2:
        raise ValueError(f"number_of_points must be at least 2; {number_of_points} was given.")
    example, states = first_state(state)
    with jax.enable_x64(True):
        problem = lift(make_problem(drift, diffusion, hamiltonian, example, temperature), periodic, sphere)
        report = _check(problem, states, points, number_of_points, exact, explain, seed)
    if problem.guessed:
        report.notes.append(
            f"no shapes were given: {' and '.join(problem.names)} taken as single numbers. Errors that occur "
            "only in more dimensions are not found: give their shapes by state=…"
        )
    return report


class CheckedPoints(NamedTuple):
    """The points, how many are draws, whether they settled or were given, and the minima below them."""

    points: np.ndarray
    on_target: int
    settled: bool
    given: bool
    notes: list[str]
    below: np.ndarray | None = None


def _check(
    problem: Problem,
    states: list[Any],
    given: Any,
    number: int | None,
    exact: bool | None,
    explain: bool,
    seed: int,
) -> Report:
    d = problem.dimension
    exact = d <= EXACT_UP_TO if exact is None else exact
    if number is None:
        number = (512 if d <= 12 else 128) if exact else 32
    # From NumPy: JAX would compile a generator for every shape.
    generator = np.random.default_rng(seed)
    checked = _choose_points(problem, states, given, number, generator)
    points, on_target, notes = checked.points, checked.on_target, checked.notes
    single = _computes_in_single_precision(problem)
    rounding = 1e-6 if single else 1e-10
    evaluate = Evaluator(problem, rounding)
    residuals = (
        exact_residuals(problem, points, rounding)
        if exact
        else estimated_residuals(problem, points, _PROBES, generator)
    )
    usable = np.isfinite(residuals.values) & np.isfinite(residuals.scales)
    structure = check_structure(problem, evaluate, points, generator)
    drawn = points[:on_target]
    values = evaluate.fields(drawn)
    # Spread is needed to look further than the points.
    is_spread = bool(np.any(drawn != drawn[0]))
    with np.errstate(invalid="ignore"):  # fields may be infinite
        target = check_target(problem, evaluate, drawn, values, generator) if is_spread else Target((), ())
    marginal = check_marginal(problem, points)

    tolerance = _SINGLE if single else _DOUBLE
    if single:
        notes.append("some constants or operations are in single precision: the tolerance is larger")
    failures = [*structure.failures, *is_not_periodic(problem, drawn)]
    if d <= LARGEST_FULL_MATRIX:
        tested = drawn[:64]
        failures += leaves_the_sphere(problem, tested, values["f"][:64], evaluate.matrices(tested)["D"])
    reasons = [*failures, *target.wrong, *target.doubts]
    undecidable = marginal.holds is None and problem.auxiliary is not None
    if undecidable:
        reasons.append(f"whether the marginal of {problem.position} is the target is {marginal.how}")
    notes += [*structure.notes, *target.notes]
    undecided = not checked.settled or bool(target.doubts) or undecidable
    if not checked.settled and not target.wrong:
        reasons.append(
            "points could not be drawn from the target (it may not be normalisable, or the given state is "
            "far from it): pass a better state, or points"
        )
    if not np.all(usable):
        share = float(np.mean(~usable))
        notes.append(f"the residual is not finite at {share:.0%} of the points")
        if not structure.is_not_finite:
            reasons.append(_not_finite(values))
        undecided = True
    residuals = _select(residuals, usable)
    residual, stationary, blind = _judge(residuals, tolerance)
    flawed = bool(failures or target.wrong)
    if not is_spread:
        notes.append(
            "all points are one and the same: edges, jumps and flow out to infinity were not looked for"
        )
    elif not target.wrong and not structure.is_not_finite:
        jumps = find_jumps(problem, evaluate, drawn, rounding)
        # If the residual already shows an error in the drift, its jumps add nothing.
        jump_wrong = [*jumps.wrong, *(jumps.drift_wrong if stationary and not jumps.wrong else ())]
        jump_doubts = [*jumps.doubts, *(jumps.drift_doubts if stationary and not jumps.wrong else ())]
        flawed, undecided = flawed or bool(jump_wrong), undecided or bool(jump_doubts)
        reasons += [*jump_wrong, *jump_doubts]
        if stationary and not flawed:
            escape = find_escape(problem, evaluate, drawn, values["H"], rounding, generator)
            if escape is not None:
                flawed = True
                reasons.append(escape)
            explosion = find_explosion(problem, evaluate, drawn, values, rounding, generator.spawn(1)[0])
            if explosion is not None:
                flawed, undecided = flawed or explosion.is_certain, undecided or not explosion.is_certain
                reasons.append(explosion.message)
    # Given points are not draws from the target, so that averages over them are meaningless.
    if stationary and target.flows and not checked.given and not flawed:
        undecided = True
        reasons.append(target.flows)
    if blind:
        undecided = True
        reasons.append("the estimate of the residual is too noisy for a decision: pass exact=True")

    correction = worst = None
    worst_value = 0.0
    if residuals.values.size:
        index = int(np.argmax(residuals.relative))
        worst_x = points[np.flatnonzero(usable)[index]]
        if not stationary:
            worst, worst_value = problem.to_state(jnp.asarray(worst_x)), float(residuals.values[index])
        if not stationary and not explain:
            reasons.append("the stationary Fokker–Planck equation does not hold")
        elif not stationary and not structure.is_not_finite:
            diagnosis = _diagnose(problem, points[np.flatnonzero(usable)], tolerance, exact)
            reasons += diagnosis.reasons
            if diagnosis.correction is not None:
                velocity = compile_once(diagnosis.correction)(worst_x)
                correction = problem.to_tangent(jnp.asarray(worst_x), velocity)
    if structure.failures and stationary and structure.worst is not None:
        worst = problem.to_state(jnp.asarray(structure.worst))
    if marginal.holds is False:
        reasons.append(
            f"the marginal of {problem.position} is not the target: ∫exp(-g) over the auxiliary variables "
            f"must be finite and the same for every {problem.position} ({marginal.how})"
        )
    if stationary and not structure.has_noise and not target.doubts:
        notes.append(
            "without noise exp(-H) is stationary but not reached: resample the momentum from time to time"
        )
    wrong = not stationary or flawed or marginal.holds is False
    verdict = "wrong" if wrong else "undecided" if undecided else "right"
    modes = np.zeros((0, d))
    if checked.settled and checked.below is not None:
        modes = find_modes(evaluate, checked.below)
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
        dimension=dimension(problem.example),
        number_of_points=len(points),
        method="all derivatives exact"
        if exact
        else f"traces estimated from {_PROBES} random probes per point",
        power=_power(checked, residuals, tolerance, exact),
        structure=structure,
        marginal=marginal,
        modes=[_ordered(problem.to_state(jnp.asarray(mode)), problem) for mode in modes],
        notes=notes,
    )


def _choose_points(
    problem: Problem, states: list[Any], given: Any, number: int, generator: np.random.Generator
) -> CheckedPoints:
    """The given points, or points drawn from chains that start at the given draws or states."""
    are_draws: np.ndarray | bool = False
    if given is None:
        starts = starts_of(problem, states)
    else:
        starts, are_states = given_points(problem, given)
        if are_states:
            notes = ["the points were given, not drawn"]
            different = np.unique(starts, axis=0)
            near = np.repeat(different, _FEW // len(different), axis=0)
            if len(near):
                # At single points an error may vanish by chance, but not around them.
                near = near + _NEAR * (1 + np.abs(near)) * generator.normal(size=near.shape)
                notes.append(
                    f"few points were given: the residual was also computed at {len(near)} near them"
                )
            return CheckedPoints(np.concatenate([starts, near]), len(starts), True, True, notes)
        are_draws = np.zeros(problem.dimension, bool)
        are_draws[problem.variables[problem.position]] = True
    target, wide = draw_points(problem.hamiltonian, starts, number, generator, are_draws)
    # With heavy tails exp(-H/4) may not be normalisable: only chains of the target must settle.
    points = np.concatenate([target.points, wide.points[: number // 2]])
    return CheckedPoints(points, number, target.settled, False, [], target.below)


def _select(residuals: Residuals, usable: np.ndarray) -> Residuals:
    return Residuals(
        residuals.values[usable], residuals.errors[usable], residuals.scales[usable], residuals.probes
    )


def _judge(residuals: Residuals, tolerance: float) -> tuple[float, bool, bool]:
    """The relative residual, whether it is zero, and whether an estimate is too noisy for that conclusion."""
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
    """The residual, as a share of the scale, that the pooled test detects with probability 0.99."""
    n = residuals.values.size
    scale = max(residuals.typical_scale, 1e-300)
    error = float(np.sqrt(np.mean(np.maximum(residuals.errors, tolerance * scale) ** 2)))
    excess = float(chi2.isf(_FALSE_ALARM, n)) / n - 1 + 2.33 * math.sqrt(2 / n)
    return error / scale * math.sqrt(excess)


def _not_finite(values: Values) -> str:
    """Which part of the dynamics is not finite."""
    parts = {"H": "H", "∇H": "gradient", "the drift": "f", "the diffusion": "D"}
    names = [name for name, key in parts.items() if not np.all(np.isfinite(values[key]))]
    what = names[0] if names else "a derivative of the drift or of the diffusion"
    return f"{what} is not finite in the mass of the target"


def _power(checked: CheckedPoints, residuals: Residuals, tolerance: float, exact: bool) -> str:
    if not residuals.values.size:
        return "none: the residual is not finite at any point"
    if checked.given:
        number = len(np.unique(checked.points[: checked.on_target], axis=0))
        words = (
            f"an error away from the {number} different point{'s' * (number > 1)} given is not seen; at a "
            "point an error is seen if it is "
        )
    else:
        mass = 1 - 0.01 ** (1 / checked.on_target)
        words = (
            f"an error in a region with at least {mass:.1%} of the mass of the tested modes is missed with "
            "probability below 1 %; an error in a formula without case distinctions is found almost surely "
            "if it is "
        )
    least = f"{tolerance:.1g} of the terms"
    if not exact:
        least = f"{_detectable(residuals, tolerance):.2g} of the terms (99 %)"
    return (
        f"{words}above {least}. A jump of H, D or the drift below {SMALLEST_JUMP:.1%} of its range is not "
        "seen. Far out, the integral of exp(-H), the flux and the noise are looked at along straight rays: "
        "mass that escapes along curves, as in a funnel without a prior, is not seen"
    )


def _diagnose(problem: Problem, points: np.ndarray, tolerance: float, exact: bool) -> Diagnosis:
    if problem.dimension > LARGEST or not exact:
        return Diagnosis(
            (
                "the stationary Fokker–Planck equation does not hold; to find the reason, check the same "
                f"sampler in fewer dimensions (up to {LARGEST})",
            ),
            None,
        )
    return diagnose(problem, points, tolerance)


def _ordered(z: State | None, problem: Problem) -> State | None:
    """The state with its variables in the user's order."""
    if z is None or not problem.names:
        return z
    return {name: z[name] for name in problem.names}


def _computes_in_single_precision(problem: Problem) -> bool:
    """Whether the traced functions of a double-precision state contain single precision anywhere."""
    x = problem.start
    functions: list[Callable[..., Any]] = [
        problem.drift,
        problem.hamiltonian,
        lambda y: problem.D_mv(y, y),
    ]
    return any(_contains_float32(jax.make_jaxpr(function)(x).jaxpr) for function in functions)


def _contains_float32(jaxpr: Any) -> bool:
    for equation in jaxpr.eqns:
        for variable in (*equation.invars, *equation.outvars):
            if getattr(variable.aval, "dtype", None) == jnp.float32:
                return True
        for parameter in jax.tree.leaves(
            list(equation.params.values()), is_leaf=lambda p: hasattr(p, "eqns")
        ):
            inner = getattr(parameter, "jaxpr", parameter)
            if hasattr(inner, "eqns") and _contains_float32(inner):
                return True
    return False
