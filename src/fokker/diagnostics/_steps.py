"""What the statistics of the steps say about a run."""

from typing import TYPE_CHECKING

import numpy as np

from fokker.diagnostics._findings import Finding, Grade, care_or_bad
from fokker.diagnostics.configurational import effective_draws
from fokker.diagnostics.noise_share import gradient_noise_share

if TYPE_CHECKING:
    from fokker.run.trace import Trace

# A kinetic temperature further from T than this is a step too large, or gradient noise not accounted for.
_TEMPERATURE, _TEMPERATURE_BAD = 0.05, 0.25
# Minibatch noise of more than this share of that injected spreads a sampler without a thermostat as much.
_SHARE, _SHARE_BAD = 0.1, 0.25
# More diverging steps than this share are more than an accident.
_DIVERGING_BAD = 0.01
# More trajectories than this cut off at the greatest depth, and a smaller share of the energy moved.
_DEEP, _MOVES = 0.05, 0.3


def kinetic_temperature(trace: "Trace", checks: dict[str, float]) -> list[Finding]:
    """Whether rᵀ∂H/∂r / d is the temperature, beyond three standard errors of its mean."""
    if "kinetic_temperature" not in trace.sample_stats:
        return []
    values = np.asarray(trace.sample_stats["kinetic_temperature"], float)
    asked, mean = trace.settings.get("temperature", 1.0), float(values.mean())
    checks["kinetic temperature"] = mean
    error = values.std() / np.sqrt(max(1.0, float(np.nan_to_num(effective_draws(values[:, :, None])[0]))))
    if abs(mean - asked) <= _TEMPERATURE * asked + 3 * error:
        return []
    return [
        Finding(
            care_or_bad(not abs(mean - asked) <= _TEMPERATURE_BAD * asked),
            f"the kinetic temperature is {mean:.3g} where {asked:.3g} was asked for: the step is too large, "
            "or the gradient's noise is too strong for the friction",
        )
    ]


def noise_share(trace: "Trace", checks: dict[str, float]) -> list[Finding]:
    """Whether minibatches add noise that nothing accounts for."""
    assert trace.origin is not None
    sampler = trace.origin.sampler
    share = gradient_noise_share(sampler, trace.state, trace.origin.batches)
    if share is None:
        return []
    checks["gradient noise over injected noise"] = share
    if share <= _SHARE or sampler.noise_estimate is not None or "xi" in trace.state.z:
        return []
    return [
        Finding(
            care_or_bad(not share <= _SHARE_BAD),
            f"the noise of the minibatches is {share:.2g} of the noise injected and spreads the draws: take "
            "smaller steps, larger batches, control variates, a noise_estimate, or a thermostat",
        )
    ]


def decisions(trace: "Trace", checks: dict[str, float]) -> list[Finding]:
    """Divergences, trajectories cut off, and slow energies, of samplers with a correction."""
    findings, stats = [], trace.sample_stats
    if "acceptance_rate" in stats:
        checks["mean acceptance"] = float(stats["acceptance_rate"].mean())
    if "is_divergent" in stats and np.any(stats["is_divergent"]):
        number, steps = int(np.sum(stats["is_divergent"])), stats["is_divergent"].size
        checks["diverging steps"] = number
        findings.append(
            Finding(
                care_or_bad(number > max(2, _DIVERGING_BAD * steps)),
                f"{number:,} of {steps:,} steps diverged: there are places where the step is too large, and "
                "the draws may miss what lies behind them. Write the model in other parameters (not "
                "centred), or take smaller steps: a smaller step_size where you gave one, else a higher "
                "acceptance, as in fk.samplers.nuts(target_accept=0.95)",
            )
        )
    deepest = getattr(getattr(trace.origin, "sampler", None), "max_depth", None)
    if "tree_depth" in stats and deepest is not None:
        share = float(np.mean(stats["tree_depth"] >= int(deepest)))
        if share > _DEEP:
            findings.append(
                Finding(
                    Grade.CARE,
                    f"{100 * share:.0f} % of the trajectories were cut off at the greatest depth, "
                    f"{int(deepest)}: the scales of the parameters differ too much (mass_matrix='dense' or "
                    "'low-rank'), or the target has no end",
                )
            )
    if "tree_depth" in stats and stats["energy"].shape[1] > 1:
        smallest = float(energy_moved(np.asarray(stats["energy"], float)).min())
        if smallest < _MOVES:
            findings.append(
                Finding(
                    Grade.CARE,
                    f"the energy moves slowly (BFMI {smallest:.2f}, below {_MOVES}): heavy tails or a "
                    "funnel; write the model in other parameters",
                )
            )
    return findings


def energy_moved(energy: np.ndarray) -> np.ndarray:
    """BFMI: how much of a chain's spread in energy a new momentum makes up for (Betancourt 2016)."""
    spread = np.maximum(np.var(energy, axis=1), 1e-30)
    return np.mean(np.diff(energy, axis=1) ** 2, axis=1) / spread
