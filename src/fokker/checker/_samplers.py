"""A sampler as a whole: the dynamics that it follows, and what makes its correction exact.

A sampler says by `Sampler.follows`, `is_exact` and `claims` what there is to check. One that says nothing is
undecided.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fokker.checker._averages import at_temperature
from fokker.checker._corrections import check_correction
from fokker.checker._dynamics import Checked, CheckOptions, check_dynamics
from fokker.checker._finding import Finding
from fokker.checker._inputs import first_state, given_points, starts_of
from fokker.checker._points import draw_points
from fokker.checker._report import Report
from fokker.checker._steps import names_all_it_does, steps_findings, with_small_step
from fokker.dynamics import langevin
from fokker.dynamics.problem import Problem, double, make_problem
from fokker.samplers.contract import Followed, Sampler, theta_of

_POINTS = 1024
# For samplers that are checked by averages alone; in many dimensions as many as fit into memory.
_POINTS_FOR_AVERAGES, _NUMBERS_FOR_AVERAGES = 4096, 40_000
# Where H/T is compared with that at twice the temperature, and the rises that tell them apart.
_SHIFTS, _TELLING = 8, 1e-6
# Replaces an automatic step size: the correction is exact at every step size.
_TRIAL_STEP = 0.1

_DISCRETE = (
    "the continuous dynamics that the sampler says it follows were checked; its steps themselves, their "
    "size, gradient and noise_estimate were not"
)
_COMPARED = (
    "the continuous dynamics that the sampler says it follows were checked, and small steps without "
    "minibatches were compared with them; the bias of larger steps, gradients by minibatches and "
    "noise_estimate were not"
)
_UNKNOWN = (
    "there is nothing to check: {name} does not say which continuous dynamics its steps follow, and does not "
    "claim to keep the target at every step size. Check the dynamics as fk.SDE(drift, diffusion, "
    "hamiltonian), or define follows, or is_exact = True, in the class of the sampler"
)
_NO_NOISE = (
    "there is neither noise nor friction: with exact gradients the energy never changes, and the noise of "
    "minibatches is heat that nothing takes out (Ma et al. 2015, Eq. 11)"
)


_ONE_TEMPERATURE = (
    "{name} drops the temperature: sampler.on(target, {asked:g}) is a sampler at temperature {own:g}, at "
    "which no error was found. Keep it in a field `temperature`, and use it in the steps and in follows; or "
    "raise a ValueError for any that it cannot have"
)


def check_sampler(sampler: Sampler, state: Any, options: CheckOptions) -> Report:
    """The report on a sampler, at its temperature and on whether it would keep another."""
    report = _at_its_temperature(sampler, state, options)
    if not sampler.wants_target:
        return report
    own = float(sampler.own_temperature)
    report = dataclasses.replace(report, temperature=own)
    if not report.ok or not _drops_temperature(sampler, first_state(state)[0]):
        return report
    reason = _ONE_TEMPERATURE.format(name=sampler.name, asked=2 * own, own=own)
    return dataclasses.replace(report, ok=False, verdict="undecided", reasons=[reason])


def _drops_temperature(sampler: Sampler, state: Any) -> bool:
    """Whether at twice the temperature it is the same sampler, or follows dynamics with the same H/T."""
    warm = at_temperature(sampler, 2)
    if warm is None:
        return False
    if float(warm.own_temperature) == float(sampler.own_temperature):
        return True
    own, warmer = (_rises(followed) for followed in (sampler.follows(state), warm.follows(state)))
    if own is None or warmer is None:
        return False
    # A density that is flat, or ends, between the start and a point says nothing there.
    tells = np.isfinite(own) & np.isfinite(warmer) & (np.abs(own) > _TELLING)
    return bool(tells.any() and np.allclose(own[tells], warmer[tells], rtol=1e-9, atol=0))


def _rises(followed: Followed | None) -> np.ndarray | None:
    """How much higher H/T is at some points than at the start of the dynamics; None where there are none."""
    if followed is None:
        return None
    with jax.enable_x64(True):
        problem = make_problem(followed.dynamics, state=followed.state)
        start = np.asarray(problem.start)
        points = start + np.random.default_rng(0).standard_normal((_SHIFTS, start.size))
        values = jax.vmap(problem.hamiltonian)(jnp.asarray(points))
        return np.asarray(values - problem.hamiltonian(problem.start), float)


def _at_its_temperature(sampler: Sampler, state: Any, options: CheckOptions) -> Report:
    """The report on its dynamics where it follows some, and on its correction where it has one."""
    _, states = first_state(state)
    followed = [sampler.follows(one) for one in states or [None]]
    is_corrected = sampler.is_exact or any(claim is not None for claim in sampler.claims)
    if followed[0] is None:
        return _corrected(sampler, state, options) if is_corrected else _unknown(sampler)
    checked = _of_dynamics([one for one in followed if one is not None], options)
    if is_corrected:
        return _with_findings(checked.report, _corrections(sampler, state, options)[0])
    return _with_steps(sampler, followed[0], checked, states[0] if states else None, options.seed)


def _of_dynamics(followed: list[Followed], options: CheckOptions) -> Checked:
    """The report on the dynamics, from every state that was given."""
    first = followed[0]
    if first.spheres:
        options = options._replace(sphere=first.spheres)
    with jax.enable_x64(True):
        problem = make_problem(first.dynamics, state=first.state)
        states = [one.state for one in followed if one.state is not None]
        checked = check_dynamics(problem, states, options)
    report = checked.report
    report.notes.extend(first.notes)
    doubts = [] if first.doubt is None else [first.doubt]
    if report.structure is not None and not report.structure.has_noise and not first.is_refreshed:
        doubts.append(_NO_NOISE)
    if not report.ok or not doubts:
        return checked
    return checked._replace(report=dataclasses.replace(report, ok=False, verdict="undecided", reasons=doubts))


def _warmer(sampler: Sampler, state: Any, problem: Problem) -> tuple[Sampler, Problem]:
    """The sampler at twice the temperature, with its dynamics: at 1 a forgotten temperature does not show."""
    if not sampler.wants_target:
        return sampler, problem
    warm = at_temperature(sampler, 2)
    followed = None if warm is None else warm.follows(state)
    if warm is None or followed is None:
        return sampler, problem
    return warm, make_problem(followed.dynamics, state=followed.state)


def _with_steps(sampler: Sampler, followed: Followed, checked: Checked, state: Any, seed: int) -> Report:
    """The report on the dynamics, with the steps compared with them where this can be done."""
    report, problem, draws = checked
    findings: list[Finding] = []
    if report.ok and draws is not None and names_all_it_does(sampler, followed, problem):
        with jax.enable_x64(True):
            warm, problem = _warmer(sampler, state, problem)
            small = with_small_step(double(warm), problem, draws)
            if small is not None:
                findings = steps_findings(small, problem, draws, np.random.default_rng(seed))
    report.notes.append(_COMPARED if findings else _DISCRETE)
    reasons = [finding.reason for finding in findings if not finding.holds]
    if reasons:  # undecided: other dynamics may keep the same target
        return dataclasses.replace(report, ok=False, verdict="undecided", reasons=reasons)
    power = ". ".join([report.power, *(finding.power for finding in findings)])
    return dataclasses.replace(report, checks=[finding.words for finding in findings], power=power)


def _unknown(sampler: Sampler) -> Report:
    """The report on a sampler of which nothing can be checked."""
    reason = _UNKNOWN.format(name=sampler.name)
    return Report(False, "undecided", [reason], "nothing was checked", "none: nothing was checked")


def _corrections(
    sampler: Sampler, state: Any, options: CheckOptions
) -> tuple[list[Finding], np.ndarray, bool, list[str]]:
    """The findings about the correction, the points used, whether they settled, and notes."""
    notes: list[str] = []
    if not sampler.wants_target and state is None:
        raise ValueError(
            "the correction of a sampler made of dynamics is checked at states: "
            "give them by state=…, with all its variables."
        )
    if sampler.is_automatic:
        sampler = sampler.with_step_size(_TRIAL_STEP)
        notes.append(f"the step size has not been found yet: {_TRIAL_STEP} was used, and any would do")
    if state is None:
        notes.append("no shapes were given: theta was taken to be a single number. Give its shape by state=…")
    example, states = first_state(state)
    with jax.enable_x64(True):
        sampler = double(sampler)
        if sampler.wants_target:
            states = [{"theta": theta_of(one)} for one in states]
            example = states[0] if states else None
            dynamics: Any = langevin(sampler.own_target.potential, temperature=sampler.own_temperature)
        else:
            dynamics = sampler.own_dynamics
        problem = make_problem(dynamics, state=example)
        generator = np.random.default_rng(options.seed)
        number = options.number_of_points or _number_of_points(sampler, problem.dimension)
        starts = starts_of(problem, states)
        if options.points is not None:
            starts = given_points(problem, options.points)[0]
            notes.append("averages are over draws that start at the points given")
        drawn = draw_points(problem.hamiltonian, starts, number, generator)[0]
        points = drawn.points if options.points is None else starts
        return (
            check_correction(sampler, problem, points, drawn.points, generator),
            points,
            drawn.settled,
            notes,
        )


def _number_of_points(sampler: Sampler, d: int) -> int:
    if any(claim is not None for claim in sampler.claims):
        return _POINTS
    return max(_POINTS, min(_POINTS_FOR_AVERAGES, _NUMBERS_FOR_AVERAGES // d))


def _corrected(sampler: Sampler, state: Any, options: CheckOptions) -> Report:
    """The report on a sampler of which only the correction is checked."""
    findings, points, settled, notes = _corrections(sampler, state, options)
    broken = [f for f in findings if not f.holds]
    doubts = [f.doubt for f in findings if f.doubt]
    if not settled:
        doubts.append("points could not be drawn where the target has mass: pass a better state, or points")
    verdict = "wrong" if broken else "undecided" if doubts else "right"
    exact = [f for f in findings if f.tolerance < 1e-3]
    return Report(
        ok=verdict == "right",
        verdict=verdict,
        residual=max((f.error for f in exact), default=0.0),
        tolerance=max((f.tolerance for f in exact), default=0.0),
        scale=1.0,
        reasons=[f.reason for f in broken] or doubts,
        dimension=points.shape[1],
        number_of_points=len(points),
        method="the sampler's own step, by its derivatives and its averages",
        power="; ".join(f.power for f in findings if f.power)
        or "an error in the correction shows at every point",
        checks=[f.words for f in findings if f.holds],
        notes=notes,
        missed=max((f.missed for f in findings), default=0.0),
    )


def _with_findings(report: Report, findings: list[Finding]) -> Report:
    """The report on dynamics, with the findings about a correction."""
    broken = [f.reason for f in findings if not f.holds]
    doubts = [f.doubt for f in findings if f.doubt]
    verdict = "wrong" if broken else "undecided" if doubts and report.ok else report.verdict
    return dataclasses.replace(
        report,
        ok=verdict == "right",
        verdict=verdict,
        reasons=[*report.reasons, *(broken or doubts)],
        checks=[f.words for f in findings if f.holds],
    )
