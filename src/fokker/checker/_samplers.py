"""A sampler as a whole: its continuous dynamics, or what makes its correction exact."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from fokker._core.state import as_arrays, ravel
from fokker.checker._corrections import Finding, check_correction
from fokker.checker._inputs import first_state, given_points, starts_of
from fokker.checker._points import draw_points
from fokker.checker._report import Report
from fokker.dynamics import isokinetic, langevin
from fokker.dynamics._dynamics import argument_names
from fokker.dynamics.problem import double, make_problem
from fokker.fields import Diagonal
from fokker.samplers._sampler import Sampler, is_automatic
from fokker.samplers.microcanonical import Microcanonical
from fokker.samplers.psgld import PreconditionedSGLD
from fokker.samplers.recipe import Recipe
from fokker.samplers.replica_exchange import ReplicaExchange

_POINTS = 1024
# Replaces an automatic step size: the correction is exact at every step size.
_TRIAL_STEP = 0.1

_DISCRETE = (
    "of the sampler its continuous dynamics were checked; its step size, gradient and noise_estimate were not"
)


def is_sampler(value: Any) -> bool:
    """Whether it is a sampler."""
    return isinstance(value, Sampler)


def check_sampler(sampler: Any, state: Any, options: Mapping[str, Any]) -> Report:
    """The report on a sampler: of its dynamics where it follows some, of its correction where it has one."""
    if isinstance(sampler, Recipe):
        return _of_recipe(sampler, state, options)
    sampler.own_target  # noqa: B018  raises where it has no target
    if isinstance(sampler, ReplicaExchange):
        coldest = dataclasses.replace(sampler.sampler, temperature=sampler.ladder[0])
        report = _of_recipe(coldest, state, options)
        return _with_findings(report, _corrections(sampler, state, options)[0])
    if isinstance(sampler, PreconditionedSGLD):
        report = _of_dynamics(_preconditioned(sampler), {"theta": _theta(state)}, options)
        report.notes.append(
            "the preconditioner was taken to be that of the gradient where the chain is, V = ∇U², to which "
            "its running average tends as ε → 0"
        )
        return report
    if isinstance(sampler, Microcanonical):
        theta = _theta(state, least=2)
        size = ravel(as_arrays(theta)).size
        start = {"theta": theta, "u": jnp.ones(size) / math.sqrt(size)}
        # By Itô's formula noise of this length is the limit of the refreshments.
        length = (math.sqrt(size) if isinstance(sampler.L, str) else sampler.L) if sampler.partial else None
        dynamics = isokinetic(sampler.placed.hamiltonian.potential, sampler.scale, length)  # type: ignore[attr-defined]
        report = _of_dynamics(dynamics, start, {**options, "sphere": "u"})
        return (
            _with_findings(report, _corrections(sampler, theta, options)[0]) if sampler.adjusted else report
        )
    return _corrected(sampler, state, options)


def _of_dynamics(dynamics: Any, state: Any, options: Mapping[str, Any]) -> Report:
    from fokker.checker._check import check

    report = check(dynamics, state=state, **options)
    report.notes.append(_DISCRETE)
    return report


def _of_recipe(sampler: Recipe, state: Any, options: Mapping[str, Any]) -> Report:
    if sampler.correction is not None:
        return _corrected(sampler, state, options)
    dynamics = sampler.placed
    if sampler.family is None:
        return _of_dynamics(dynamics, state, options)
    _, states = first_state(state)
    full_state: Any = [_completed(sampler, dynamics, one) for one in states]
    full_state = full_state if isinstance(state, list) else full_state[0] if full_state else None
    report = _of_dynamics(dynamics, full_state, options)
    if report.ok and report.structure is not None and not report.structure.has_noise and not sampler.resample:
        reason = (
            "there is neither noise nor friction: with exact gradients the energy never changes, and the "
            "noise of minibatches is heat that nothing takes out (Ma et al. 2015, Eq. 11)"
        )
        return dataclasses.replace(report, ok=False, verdict="undecided", reasons=[reason])
    return report


def _completed(sampler: Recipe, dynamics: Any, state: Any) -> Any:
    """The whole state of a named sampler: theta alone gets its auxiliaries."""
    names = set(argument_names(dynamics.hamiltonian)) | {"theta"}
    if isinstance(state, Mapping) and names <= set(state):
        return state
    assert sampler.family is not None
    theta = as_arrays(state["theta"] if isinstance(state, Mapping) and set(state) == {"theta"} else state)
    return {"theta": theta, **sampler.family.auxiliaries(jax.random.key(0), theta, sampler.temperature)}


def _theta(state: Any, least: int = 1) -> PyTree[Any]:
    """Theta from a state; without one, the smallest theta that the sampler accepts."""
    if state is None:
        return jnp.zeros(()) if least == 1 else jnp.zeros(least)
    example, _ = first_state(state)
    return example["theta"] if isinstance(example, Mapping) and "theta" in example else example


def _preconditioned(sampler: PreconditionedSGLD) -> Any:
    r"""dθ = [-D∇U + TΓ] dt + √(2TD) dW, D = diag(1/(λ + |∇U|)): psgld with an average that has caught up."""
    potential, least = sampler.own_target.potential, sampler.regularisation

    def D(theta: PyTree[Array]) -> PyTree[Array]:
        return jax.tree.map(lambda g: 1 / (least.astype(g.dtype) + jnp.abs(g)), jax.grad(potential)(theta))

    return langevin(potential, Diagonal(D), temperature=sampler.temperature)


def _corrections(
    sampler: Sampler, state: Any, options: Mapping[str, Any]
) -> tuple[list[Finding], np.ndarray, bool, list[str]]:
    """The findings about the correction, the points used, whether they settled, and notes."""
    of_dynamics = isinstance(sampler, Recipe) and sampler.family is None
    notes: list[str] = []
    if of_dynamics and state is None:
        raise ValueError("the correction of a sampler made of dynamics is checked at states: pass state=…")
    as_state = (lambda one: one) if of_dynamics else (lambda one: {"theta": _theta(one)})
    if is_automatic(sampler):
        sampler = sampler.with_step_size(_TRIAL_STEP)
        notes.append(f"the step size is left to be found: {_TRIAL_STEP} was taken, and any would do")
    if state is None:
        notes.append("no shapes were given: theta was taken for a single number; pass state=…")
    with jax.enable_x64(True):
        sampler = double(sampler)
        coldest = sampler.ladder[0] if isinstance(sampler, ReplicaExchange) else 1.0
        temperature = getattr(sampler, "temperature", coldest)
        dynamics: Any = getattr(sampler, "dynamics", None)
        if not of_dynamics:
            dynamics = langevin(sampler.own_target.potential, temperature=temperature)
        problem = make_problem(dynamics, state=as_state(first_state(state)[0] if of_dynamics else state))
        generator = np.random.default_rng(options["seed"])
        if options["points"] is not None:
            points, settled = given_points(problem, options["points"])[0], True
        else:
            starts = starts_of(problem, [as_state(s) for s in first_state(state)[1]])
            number = options["number_of_points"] or _POINTS
            drawn = draw_points(problem.hamiltonian, starts, number, generator)[0]
            points, settled = drawn.points, drawn.settled
        return check_correction(sampler, problem, points, generator), points, settled, notes


def _corrected(sampler: Sampler, state: Any, options: Mapping[str, Any]) -> Report:
    """The report on a sampler of which only the correction is checked."""
    findings, points, settled, notes = _corrections(sampler, state, options)
    if not settled:
        notes.append("points could not be drawn where the target has mass: pass a better state, or points")
    broken = [f for f in findings if not f.holds]
    verdict = "wrong" if broken else "right" if settled else "undecided"
    exact = [f for f in findings if f.tolerance < 1e-3]
    return Report(
        ok=verdict == "right",
        verdict=verdict,
        residual=max((f.error for f in exact), default=0.0),
        tolerance=max((f.tolerance for f in exact), default=0.0),
        scale=1.0,
        root_mean_square=max((f.error for f in exact), default=0.0),
        reasons=[f.reason for f in broken],
        worst_point=None,
        worst_value=0.0,
        correction=None,
        dimension=points.shape[1],
        number_of_points=len(points),
        method="the sampler's own step, by its derivatives and its averages",
        power="; ".join(f.power for f in findings if f.power)
        or "an error in the correction shows at every point",
        structure=None,
        marginal=None,
        checks=[f.words for f in findings if f.holds],
        notes=notes,
    )


def _with_findings(report: Report, findings: list[Finding]) -> Report:
    """The report on dynamics, with the findings about a correction."""
    broken = [f.reason for f in findings if not f.holds]
    verdict = "wrong" if broken else report.verdict
    return dataclasses.replace(
        report,
        ok=verdict == "right",
        verdict=verdict,
        reasons=[*report.reasons, *broken],
        checks=[f.words for f in findings if f.holds],
    )
