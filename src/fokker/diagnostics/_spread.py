"""Checks of a run by ∇U at its draws."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from fokker._core.digits import with_error
from fokker._core.labels import named_leaves
from fokker._core.rounding import is_half
from fokker._core.state import ravel, shapes_of_first
from fokker.batches import StreamBatches
from fokker.diagnostics._boundary import Boundary, find_boundary
from fokker.diagnostics._findings import Cause, Finding, Grade, care_or_bad
from fokker.diagnostics._gradients import Potential, as_vectors, redrawn, thinned
from fokker.diagnostics._many import gradients_along
from fokker.diagnostics._projections import Projections, project
from fokker.diagnostics._steps import has_divergences
from fokker.diagnostics._tails import heavy_tails, is_flat_outwards, tail_exponents
from fokker.diagnostics.configurational import FALSE_ALARMS, Groups, Spread, Walls, spread_of
from fokker.diagnostics.stein import kernel_stein_discrepancy
from fokker.dynamics.hamiltonian import Hamiltonian
from fokker.targets.target import Target, TargetWithData, has_gradient

if TYPE_CHECKING:
    from fokker.run.call import Origin
    from fokker.run.trace import Trace

# Draws at which ∇U is computed, and the number used for the discrepancy, whose cost is quadratic.
_POINTS, _STEIN = 10_000, 200
# A discrepancy with a smaller p-value is reported.
_P_VALUE = 0.001
# A variance with a larger relative error, or a mean off by more standard deviations, makes intervals useless.
_BIAS_BAD = 0.25
# A bias that is smaller by this factor in the second half of the draws comes from the first.
_LATE = 0.5


class Comparison(NamedTuple):
    """The spread of the draws beside the target's, None if it was not compared, and then the reason.

    `boundary`: where the target was seen to end or to jump, if it was looked for. `exponents`: how fast the
    target falls along each coordinate (`tail_exponents`), if ∇U was computed. `is_flat`: whether the target
    was seen not to fall far out along one.
    """

    findings: list[Finding]
    spread: Spread | None
    reason: str = ""
    boundary: Boundary | None = None
    exponents: np.ndarray | None = None
    is_flat: bool = False


def walls_of(sampler: Any, positions: Any) -> Walls | None:
    """The walls that the integrator of a sampler reflects at; `positions` are draws, chain × draw × theta."""
    walls = sampler.walls(jax.tree.map(lambda x: x[0, 0], positions))
    return None if walls is None else Walls(*(np.asarray(ravel(wall), float) for wall in walls))


def is_of_stream(origin: "Origin | None") -> bool:
    """Whether the data of a run came as a stream of batches."""
    return origin is not None and isinstance(origin.batches, StreamBatches)


def target_of(origin: "Origin") -> Target | None:
    """The target of the draws; that of a sampler made of dynamics if it is given and they have a U.

    None if its data are a stream: ∇U needs all of them.
    """
    if is_of_stream(origin):
        return None
    if origin.sampler.wants_target:
        return origin.sampler.own_target
    known = isinstance(origin.target, Target) and not origin.target.is_constrained
    return (
        origin.target if known and isinstance(origin.sampler.own_dynamics.hamiltonian, Hamiltonian) else None
    )


def why_not_compared(trace: "Trace", target: Target | None, has_many: bool) -> str:
    """Why the draws cannot be compared with the target by ∇U; empty if they can."""
    assert trace.origin is not None
    if is_of_stream(trace.origin):
        return "the data came as a stream of batches, of which ∇U would need all"
    if target is None:
        return "the target of this sampler is not known: give it to fk.sample"
    if not trace.settings.get("temperature", 1.0) > 0:
        return "at temperature 0 there is no distribution to compare with"
    if not has_gradient(target, shapes_of_first(shapes_of_first(trace.positions))):
        return "the density has no gradient"
    if has_many and walls_of(trace.origin.sampler, trace.positions) is not None:
        return "random directions over many parameters cross the walls of the target"
    return ""


def by_gradients(
    trace: "Trace",
    effective: float,
    checks: dict[str, float],
    projections: Projections | None = None,
    have_mixed: bool = True,
    names: Sequence[str] = (),
) -> Comparison:
    """Findings from the spread and mean of theta and from the Stein discrepancy; all, or projected.

    `names` are those of the coordinates, where they are known.
    """
    assert trace.origin is not None
    sampler, T = trace.origin.sampler, trace.settings.get("temperature", 1.0)
    target = target_of(trace.origin)
    reason = why_not_compared(trace, target, projections is not None)
    if reason:
        return Comparison([], None, reason)
    potential, groups, walls = None, None, None
    if projections is None:
        positions = redrawn(target, thinned(trace.positions, _POINTS))
        walls = walls_of(sampler, positions)
        potential = Potential(target, positions)
        draws, gradients = as_vectors(positions), potential.gradients / T
    else:
        positions = redrawn(target, trace.positions)
        if target is not None and not target.is_one_to_one:
            projections = project(named_leaves(positions), trace.labels)
        draws, gradients, groups = gradients_along(projections, positions, target, T)
    if not (np.isfinite(draws).all() and np.isfinite(gradients).all()):
        text = "the gradient is not finite at some draws: check the log density there"
        return Comparison([Finding(Grade.BAD, text)], None, "the gradient is not finite at some draws")
    spread = spread_of(draws, gradients, groups, walls, names)
    if _leaves_bias(spread, draws, gradients, groups, walls):
        advice = "the second half of the draws does not show it: give more burn_in"
    else:
        advice = _advice(trace, have_mixed)
    exponents = tail_exponents(draws, gradients)
    if walls is not None:
        exponents[walls.present] = np.inf
    is_flat = potential is not None and is_flat_outwards(potential, draws, T, exponents)
    worst = spread.furthest()
    if is_flat and worst is not None and worst[1] < 0:
        advice = (
            "the density does not fall where the outermost draws are: the target may be improper (fk.check "
            "looks at that)"
        )
    is_heavy = heavy_tails(draws, np.full(draws.shape[2], float(draws[:, :, 0].size)), exponents)[1]
    findings = spread_findings(spread, advice=advice, has_sizes=not is_heavy.any())
    own: dict[str, float] = {}
    if walls is None:  # the discrepancy has a boundary term too
        findings += _stein(draws, gradients, effective, own)
    # A sampler that follows ∇U does not see a jump, and neither do the equations above.
    is_blind = not sampler.is_exact and not isinstance(target, TargetWithData)
    is_suspect = is_blind or findings or has_divergences(trace)
    boundary = None
    if potential is not None and potential.is_exact and walls is None and is_suspect:
        boundary = find_boundary(potential, draws, T, has_divergences(trace), names)
        if boundary is not None and boundary.is_relevant:
            finding = _boundary_finding(str(boundary), sampler.is_exact)
            return Comparison([finding], None, str(boundary), boundary)
    checks["configurational temperature"] = T * (1 + spread.pooled_bias)
    checks["standard error of the configurational temperature"] = T * spread.pooled_error
    checks.update(own)
    return Comparison(findings, spread, boundary=boundary, exponents=exponents, is_flat=is_flat)


def _boundary_finding(boundary: str, is_exact: bool) -> Finding:
    if is_exact:
        return Finding(
            Grade.CARE,
            f"{boundary}: the spread of the draws could not be compared with the target's there. This "
            "sampler takes the boundary into account; a transform (fk.constrain) would remove it",
        )
    return Finding(
        Grade.BAD,
        f"{boundary}, which its gradient does not show, and this sampler follows the gradient alone: "
        "reflect at it (fk.integrators.Reflecting), transform it away (fk.constrain), or take a sampler with "
        "a correction (mala, hmc, nuts)",
    )


def _advice(trace: "Trace", have_mixed: bool) -> str:
    """What to do about a bias that stays: by what the sampler is, and by whether its chains agree."""
    assert trace.origin is not None
    if not have_mixed and not trace.origin.sampler.is_exact:
        return "the chains do not agree yet, which may be the reason (see R-hat): fix that first"
    if any(is_half(leaf) for leaf in jax.tree.leaves(trace.state)):  # the draws themselves have 32 bits
        return (
            "theta is stored in 16 bits, whose rounding adds noise, the more the smaller the steps: use "
            "float32, or larger steps"
        )
    if trace.origin.sampler.is_exact:  # its step size causes no bias
        return "run longer: this sampler is exact at any step size, but has not explored the whole target"
    return "take smaller steps, or account for the gradient's noise"


def _leaves_bias(
    spread: Spread, draws: np.ndarray, gradients: np.ndarray, groups: Groups | None, walls: Walls | None
) -> bool:
    """Whether the bias is that of the first half of the draws alone, as after too short a burn-in."""
    half = draws.shape[1] // 2
    if half < 4 or (spread.furthest() is None and spread.shift.furthest() is None):
        return False
    if groups is not None:
        groups = groups._replace(products=groups.products[:, half:])
    late = spread_of(draws[:, half:], gradients[:, half:], groups, walls, spread.names[: draws.shape[2]])
    if late.furthest() is not None or late.shift.furthest() is not None:
        return False
    for whole, second in ((spread.furthest(), late), (spread.shift.furthest(), late.shift)):
        if whole is None:
            continue
        biases = second.bias if isinstance(second, Spread) else second.mean
        bias = second.pooled_bias if isinstance(second, Spread) else 0.0
        if whole[0] in second.names:
            bias = float(biases[second.names.index(whole[0])])
        if abs(bias) > _LATE * abs(whole[1]):
            return False
    return True


def spread_findings(
    spread: Spread,
    false_alarms: float = FALSE_ALARMS,
    advice: str = "take smaller steps, or account for the gradient's noise",
    means: bool = True,
    has_sizes: bool = True,
) -> list[Finding]:
    """The directions in which the variance and, with `means`, the mean or else the shape are most wrong.

    `has_sizes`: whether there are standard deviations by which the size of a shift can be given.
    """
    if spread.astray:
        return [
            Finding(
                Grade.BAD,
                "the draws are far from the mass of the target: (θ - c)·∇U is typically "
                f"{spread.typical:.1g} times its expected value. The chains diverged (take smaller steps), "
                "or are still far from the target (start at fk.find_mode, or give more burn_in)",
            )
        ]
    findings = []
    cause = Cause.LARGE_STEPS if advice.startswith("take smaller steps") else Cause.OTHER
    worst = spread.furthest(false_alarms)
    if worst is not None:
        name, bias, error = worst
        size = f"{with_error(100 * abs(bias), 100 * error)} % too {'large' if bias > 0 else 'small'}"
        text = (
            f"the spread of theta is too {'wide' if bias > 0 else 'narrow'}: by the configurational "
            f"temperature the variance of {name} is {size}; {advice}"
        )
        if name in spread.names and spread.walled[spread.names.index(name)]:
            text = (
                f"the draws of {name} do not fit the target at its wall: the mean of the distance from the "
                f"wall times ∂U is {size}; {advice}"
            )
        findings.append(Finding(care_or_bad(abs(bias) - 2 * error > _BIAS_BAD), text, cause))
    shifted = spread.shift.furthest(false_alarms) if means else None
    if shifted is not None:
        name, shift, error = shifted
        if cause is Cause.LARGE_STEPS:  # which moves means less than it widens the spread
            advice += "; check that the sampler has the whole gradient: prior, all data, every term"
        where = f"too {'high' if shift > 0 else 'low'}"
        text = (
            f"the mean of theta is off: by the mean of ∇U, {name} is about {with_error(abs(shift), error)} "
            f"standard deviations {where}; {advice}"
        )
        if not has_sizes:
            text = f"the draws are off: by the mean of ∇U, those of {name} are {where}; {advice}"
        is_bad = has_sizes and abs(shift) - 2 * error > _BIAS_BAD
        findings.append(Finding(care_or_bad(is_bad), text, cause))
    return findings or (_shape_findings(spread, false_alarms, advice, cause) if means else [])


def _shape_findings(spread: Spread, false_alarms: float, advice: str, cause: Cause) -> list[Finding]:
    """What is most wrong with the shape, where mean and variance are not."""
    worst = spread.shape.furthest(false_alarms)
    if worst is None:
        return []
    name, deviation, error = worst
    return [
        Finding(
            care_or_bad(abs(deviation) - 2 * error > _BIAS_BAD),
            f"the shape of the distribution is off: {name} deviates from the target's by "
            f"{with_error(100 * abs(deviation), 100 * error)} %, though mean and variance do not; {advice}",
            cause,
        )
    ]


def _stein(
    draws: np.ndarray, gradients: np.ndarray, effective: float, checks: dict[str, float]
) -> list[Finding]:
    # In this order, every k-th draw comes from all chains and all times.
    chains, places, d = draws.shape
    shifted = [(np.arange(chains) + place) % chains for place in range(places)]
    order = np.concatenate([chain * places + place for place, chain in enumerate(shifted)])
    few = order[:: max(1, len(order) // _STEIN)]
    if len(few) < 8:
        return []
    stein = kernel_stein_discrepancy(draws.reshape(-1, d)[few], -gradients.reshape(-1, d)[few])
    if not np.isfinite(stein.squared):  # of draws that diverged, which other findings report
        return []
    checks["kernel Stein discrepancy²"] = stein.squared
    checks["p-value of the kernel Stein discrepancy"] = stein.p_value
    # The p-value is valid for independent draws only.
    if not (stein.p_value < _P_VALUE and effective >= stein.points):
        return []
    return [
        Finding(
            Grade.CARE,
            f"the kernel Stein discrepancy² of {stein.points} draws is {stein.squared:.3g}, which draws "
            f"from the target would exceed at most once in {1 / stein.p_value:,.0f} times: their "
            "distribution is not the target's",
        )
    ]
