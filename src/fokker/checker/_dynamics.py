"""The verdict on dynamics: is exp(-H) stationary, and if not, which term is wrong?"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fokker._core.digits import percent
from fokker._core.quick import compile_once
from fokker._core.state import State, dimension
from fokker.checker._compact import is_not_periodic, leaves_the_sphere, lift
from fokker.checker._evaluate import LARGEST_FULL_MATRIX, Evaluator, Values
from fokker.checker._explosion import find_explosion
from fokker.checker._inputs import CheckedPoints, choose_points
from fokker.checker._jumps import find_jumps
from fokker.checker._marginal import Marginal, check_marginal
from fokker.checker._modes import find_modes
from fokker.checker._power import judge, power_words
from fokker.checker._reasons import LARGEST, Diagnosis, diagnose
from fokker.checker._report import Report
from fokker.checker._residual import Residuals, estimated_residuals, exact_residuals
from fokker.checker._structure import Structure, check_structure
from fokker.checker._tails import find_escape
from fokker.checker._target import TargetFindings, check_target
from fokker.dynamics.problem import Problem

# Up to this many coordinates all derivatives are exact; above, traces are estimated.
EXACT_UP_TO = 64
_DOUBLE, _SINGLE = 1e-8, 1e-5
_PROBES = 512


class CheckOptions(NamedTuple):
    """The options of `fk.check`, which describes them."""

    points: Any = None
    number_of_points: int | None = None
    exact: bool | None = None
    explain: bool = True
    periodic: Mapping[str, Any] | None = None
    sphere: str | Iterable[str] = ()
    seed: int = 0


class Checked(NamedTuple):
    """The report on dynamics, the problem that was checked, and draws of its target, None for poor ones."""

    report: Report
    problem: Problem
    draws: np.ndarray | None


@dataclass
class _Verdict:
    """What was found so far."""

    reasons: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    is_wrong: bool = False
    is_undecided: bool = False

    def wrong(self, *reasons: str) -> None:
        """Add errors."""
        self.reasons += reasons
        self.is_wrong |= bool(reasons)

    def doubt(self, *reasons: str) -> None:
        """Add what could not be decided."""
        self.reasons += reasons
        self.is_undecided |= bool(reasons)

    def __str__(self) -> str:
        return "wrong" if self.is_wrong else "undecided" if self.is_undecided else "right"


class _Parts(NamedTuple):
    """What the tests share: `drawn` are the points that are draws, `values` the fields there."""

    problem: Problem
    checked: CheckedPoints
    evaluate: Evaluator
    drawn: np.ndarray
    values: Values
    structure: Structure
    target: TargetFindings
    generator: np.random.Generator

    @property
    def has_spread(self) -> bool:
        """Whether the draws differ: else nothing beyond them can be looked at."""
        return bool(np.any(self.drawn != self.drawn[0]))


def check_dynamics(problem: Problem, states: list[Any], options: CheckOptions) -> Checked:
    """The report on dynamics as a problem, whose points start at the states; in double precision."""
    problem = lift(problem, options.periodic, options.sphere)
    d = problem.dimension
    exact = d <= EXACT_UP_TO if options.exact is None else options.exact
    number = options.number_of_points or ((512 if d <= 12 else 128) if exact else 32)
    # From NumPy: JAX would compile a generator for every shape.
    generator = np.random.default_rng(options.seed)
    checked = choose_points(problem, states, options.points, number, generator)
    is_single = _computes_in_single_precision(problem)
    rounding, tolerance = (1e-6, _SINGLE) if is_single else (1e-10, _DOUBLE)
    residuals = (
        exact_residuals(problem, checked.points, rounding)
        if exact
        else estimated_residuals(problem, checked.points, _PROBES, generator)
    )
    usable = np.isfinite(residuals.values) & np.isfinite(residuals.scales)
    parts = _parts(problem, checked, Evaluator(problem, rounding), generator)
    marginal = check_marginal(problem, checked.points)

    verdict = _Verdict(notes=checked.notes)
    if is_single:
        verdict.notes.append("some constants or operations are in single precision: the tolerance is larger")
    _judge_parts(verdict, parts, marginal)
    if not np.all(usable):
        verdict.notes.append(
            f"the residual is not finite at {percent(float(np.mean(~usable)))} of the points"
        )
        verdict.is_undecided = True
        if not parts.structure.is_not_finite:
            verdict.doubt(_not_finite(parts.values))
    residuals = residuals.select(usable)
    residual, stationary, blind = judge(residuals, tolerance)
    _judge_globally(verdict, parts, rounding, stationary)
    if blind:
        verdict.doubt("the estimate of the residual is too noisy for a decision: pass exact=True")
    worst = _Worst()
    if not stationary:
        verdict.is_wrong = True
        worst = _explained(verdict, parts, residuals, usable, tolerance, exact, options.explain)
    elif parts.structure.failures and parts.structure.worst is not None:
        worst = _Worst(problem.to_state(jnp.asarray(parts.structure.worst)))
    if marginal.holds is False:
        verdict.wrong(
            f"the marginal of {problem.position} is not the target: ∫exp(-g) over the auxiliary variables "
            f"must be finite and the same for every {problem.position} ({marginal.how})"
        )
    if stationary and not parts.structure.has_noise and not parts.target.doubts:
        verdict.notes.append(
            "without noise exp(-H) is stationary but not reached: resample the momentum from time to time"
        )
    if problem.guessed:
        verdict.notes.append(
            f"no shapes were given: {' and '.join(problem.names)} taken as single numbers. Errors that occur "
            "only in more dimensions are not found: give their shapes by state=…"
        )
    report = _report(verdict, parts, marginal, residuals, residual, tolerance, exact, worst)
    return Checked(report, problem, parts.drawn if checked.settled and not checked.are_given else None)


def _report(
    verdict: _Verdict,
    parts: _Parts,
    marginal: Marginal,
    residuals: Residuals,
    residual: float,
    tolerance: float,
    exact: bool,
    worst: "_Worst",
) -> Report:
    """What was found, with the modes around which it holds."""
    problem, checked = parts.problem, parts.checked
    modes = np.zeros((0, problem.dimension))
    if checked.settled and checked.below is not None:
        modes = find_modes(parts.evaluate, checked.below)
    return Report(
        ok=str(verdict) == "right",
        verdict=str(verdict),
        residual=residual,
        tolerance=tolerance,
        scale=residuals.typical_scale,
        reasons=verdict.reasons,
        worst_point=_ordered(worst.point, problem),
        worst_value=worst.value,
        correction=_ordered(worst.correction, problem),
        dimension=dimension(problem.example),
        number_of_points=len(checked.points),
        method="all derivatives exact"
        if exact
        else f"traces estimated from {_PROBES} random probes per point",
        power=power_words(checked, residuals, tolerance, exact),
        structure=parts.structure,
        marginal=marginal,
        modes=[_ordered(problem.to_state(jnp.asarray(mode)), problem) for mode in modes],
        notes=verdict.notes,
    )


def _parts(
    problem: Problem, checked: CheckedPoints, evaluate: Evaluator, generator: np.random.Generator
) -> _Parts:
    structure = check_structure(problem, evaluate, checked.points, generator)
    drawn = checked.points[: checked.on_target]
    values = evaluate.fields(drawn)
    parts = _Parts(problem, checked, evaluate, drawn, values, structure, TargetFindings((), ()), generator)
    if not parts.has_spread:
        return parts
    with np.errstate(invalid="ignore"):  # fields may be infinite
        return parts._replace(target=check_target(problem, evaluate, drawn, values, generator))


def _judge_parts(verdict: _Verdict, parts: _Parts, marginal: Marginal) -> None:
    """By D, Q, H and the marginal, one by one."""
    problem, target, drawn = parts.problem, parts.target, parts.drawn
    verdict.wrong(*parts.structure.failures, *is_not_periodic(problem, drawn))
    if problem.dimension <= LARGEST_FULL_MATRIX:
        tested = drawn[:64]
        D = parts.evaluate.matrices(tested)["D"]
        verdict.wrong(*leaves_the_sphere(problem, tested, parts.values["f"][:64], D))
    verdict.wrong(*target.wrong)
    verdict.doubt(*target.doubts)
    if marginal.holds is None and problem.auxiliary is not None:
        verdict.doubt(f"whether the marginal of {problem.position} is the target is {marginal.how}")
    verdict.notes += [*parts.structure.notes, *target.notes]
    if parts.checked.settled:
        return
    verdict.is_undecided = True
    if not target.wrong:
        verdict.doubt(
            "points could not be drawn from the target (it may not be normalisable, or the given state is "
            "far from it): pass a better state, or points"
        )


def _judge_globally(verdict: _Verdict, parts: _Parts, rounding: float, stationary: bool) -> None:
    """By what the residual cannot detect: jumps, and flow out to infinity."""
    problem, evaluate, drawn, target = parts.problem, parts.evaluate, parts.drawn, parts.target
    if not parts.has_spread:
        verdict.notes.append(
            "all points are one and the same: edges, jumps and flow out to infinity were not looked for"
        )
    elif not target.wrong and not parts.structure.is_not_finite:
        jumps = find_jumps(problem, evaluate, drawn, rounding)
        # If the residual already shows an error in the drift, its jumps add nothing.
        of_drift = stationary and not jumps.wrong
        verdict.wrong(*jumps.wrong, *(jumps.drift_wrong if of_drift else ()))
        verdict.doubt(*jumps.doubts, *(jumps.drift_doubts if of_drift else ()))
        if stationary and not verdict.is_wrong:
            escape = find_escape(problem, evaluate, drawn, parts.values["H"], rounding, parts.generator)
            verdict.wrong(*([] if escape is None else [escape]))
            explosion = find_explosion(
                problem, evaluate, drawn, parts.values, rounding, parts.generator.spawn(1)[0]
            )
            if explosion is not None:
                (verdict.wrong if explosion.is_certain else verdict.doubt)(explosion.message)
    # Given points are not draws from the target, so that averages over them are meaningless.
    if stationary and target.flows and not parts.checked.are_given and not verdict.is_wrong:
        verdict.doubt(target.flows)


class _Worst(NamedTuple):
    """Where the error is largest, the residual there, and what to add to the drift."""

    point: State | None = None
    value: float = 0.0
    correction: State | None = None


def _explained(
    verdict: _Verdict,
    parts: _Parts,
    residuals: Residuals,
    usable: np.ndarray,
    tolerance: float,
    exact: bool,
    explain: bool,
) -> _Worst:
    """Add the reasons for which the residual is not zero."""
    problem, points = parts.problem, parts.checked.points[usable]
    index = int(np.argmax(residuals.relative))
    x = points[index]
    worst = _Worst(problem.to_state(jnp.asarray(x)), float(residuals.values[index]))
    if not explain:
        verdict.wrong("the stationary Fokker–Planck equation does not hold")
        return worst
    if parts.structure.is_not_finite:
        return worst
    diagnosis = _diagnose(problem, points, tolerance, exact)
    verdict.wrong(*diagnosis.reasons)
    if diagnosis.correction is None:
        return worst
    velocity = compile_once(diagnosis.correction)(x)
    return worst._replace(correction=problem.to_tangent(jnp.asarray(x), velocity))


def _not_finite(values: Values) -> str:
    """Which part of the dynamics is not finite."""
    parts = {"H": "H", "∇H": "gradient", "the drift": "f", "the diffusion": "D"}
    names = [name for name, key in parts.items() if not np.all(np.isfinite(values[key]))]
    what = names[0] if names else "a derivative of the drift or of the diffusion"
    return f"{what} is not finite in the mass of the target"


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
