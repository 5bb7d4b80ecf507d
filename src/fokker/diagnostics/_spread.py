"""Checks of a run by ∇U at its draws."""

from typing import TYPE_CHECKING, Any

import numpy as np

from fokker.batches import StreamBatches
from fokker.diagnostics._findings import Finding, Grade, care_or_bad
from fokker.diagnostics._gradients import as_vectors, gradients_at, thinned
from fokker.diagnostics._many import gradients_along
from fokker.diagnostics._projections import Projections
from fokker.diagnostics.configurational import FALSE_ALARMS, Spread, spread_of
from fokker.diagnostics.stein import kernel_stein_discrepancy
from fokker.dynamics.hamiltonian import Hamiltonian
from fokker.integrators import Reflecting
from fokker.targets.target import Target

if TYPE_CHECKING:
    from fokker.run.trace import Origin, Trace

# Draws at which ∇U is computed, and the number used for the discrepancy, whose cost is quadratic.
_POINTS, _STEIN = 10_000, 200
# A discrepancy with a smaller p-value is reported.
_P_VALUE = 0.001
# A variance with a larger relative error makes intervals useless.
_BIAS_BAD = 0.25


def judged_by_gradients(sampler: Any, temperature: float) -> bool:
    """Whether E[v·(θ - c) v·∇U] = T|v|² applies: for targets without walls, at a temperature above 0."""
    walls = isinstance(getattr(sampler, "integrator", None), Reflecting)
    return not walls and temperature > 0


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
    H = getattr(getattr(origin.sampler, "dynamics", None), "hamiltonian", None)
    known = isinstance(origin.target, Target) and not origin.target.is_constrained
    return origin.target if known and isinstance(H, Hamiltonian) else None


def by_gradients(
    trace: "Trace", effective: float, checks: dict[str, float], projections: Projections | None = None
) -> tuple[list[Finding], Spread | None]:
    """Findings from the spread of theta and the Stein discrepancy, and the spread; all, or projected."""
    assert trace.origin is not None
    sampler, T = trace.origin.sampler, trace.settings.get("temperature", 1.0)
    target = target_of(trace.origin)
    if target is None or not judged_by_gradients(sampler, T):
        return [], None
    groups = None
    if projections is None:
        positions = thinned(trace.positions, _POINTS)
        draws, gradients = as_vectors(positions), gradients_at(target, positions) / T
    else:
        draws, gradients, groups = gradients_along(projections, trace.positions, target, T)
    if not (np.isfinite(draws).all() and np.isfinite(gradients).all()):
        return [
            Finding(Grade.BAD, "the gradient is not finite at some draws: check the log density there")
        ], None
    spread = spread_of(draws, gradients, groups)
    checks["configurational temperature"] = T * (1 + spread.pooled_bias)
    checks["its standard error"] = T * spread.pooled_error
    findings = spread_finding(spread, is_exact=sampler.is_exact)
    return [*findings, *_stein(draws, gradients, effective, checks)], spread


def spread_finding(
    spread: Spread, false_alarms: float = FALSE_ALARMS, is_exact: bool = False
) -> list[Finding]:
    """The direction in which the variance is most wrong, if that is significant."""
    if spread.astray:
        return [
            Finding(
                Grade.BAD,
                "the draws are far from the mass of the target: (θ - c)·∇U is typically "
                f"{spread.typical:.1g} times its expected value. The chains diverged (take smaller steps), "
                "or are still far from the target (start at fk.find_mode, or give more burn_in)",
            )
        ]
    worst = spread.furthest(false_alarms)
    if worst is None:
        return []
    name, bias, error = worst
    advice = "take smaller steps, or account for the gradient's noise"
    if is_exact:  # its step size causes no bias
        advice = "run longer: this sampler is exact at any step size, but has not explored the whole target"
    return [
        Finding(
            care_or_bad(abs(bias) - 2 * error > _BIAS_BAD),
            f"the spread of theta is too {'wide' if bias > 0 else 'narrow'}: by the configurational "
            f"temperature the variance of {name} is {100 * abs(bias):.0f} ± {100 * error:.0f} % too "
            f"{'large' if bias > 0 else 'small'}; {advice}",
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
    checks["kernel Stein discrepancy²"], checks["its p-value"] = stein.squared, stein.p_value
    # The p-value is valid for independent draws only.
    if not (stein.p_value < _P_VALUE and effective >= stein.points):
        return []
    return [
        Finding(
            Grade.CARE,
            f"the kernel Stein discrepancy² of {stein.points} draws is {stein.squared:.3g}, which draws "
            f"from the target would exceed at most once in {1 / stein.p_value:.0f} times: they are wrong",
        )
    ]
