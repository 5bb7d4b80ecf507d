"""Checks of a run by the statistics of its steps."""

from typing import TYPE_CHECKING

import jax
import numpy as np

from fokker.diagnostics._findings import Finding, Grade, care_or_bad
from fokker.diagnostics._scores import effective_draws
from fokker.diagnostics.noise_share import gradient_noise_share

if TYPE_CHECKING:
    from fokker.run.trace import Trace

# A larger relative error of the kinetic temperature means too large a step, or uncorrected gradient noise.
_TEMPERATURE, _TEMPERATURE_BAD = 0.05, 0.25
# Without a thermostat, minibatch noise widens the spread by its share of the injected noise.
_SHARE, _SHARE_BAD = 0.1, 0.25
# A larger share of diverging steps is a serious problem.
_DIVERGING_BAD = 0.01
# Report a larger share of trajectories cut off at the maximum depth, and a smaller BFMI.
_MANY_DEEP, _LOW_BFMI = 0.05, 0.3


def describe(trace: "Trace", checks: dict[str, float]) -> None:
    """The step size, and what a step of a sampler with a correction did on average."""
    size = trace.settings.get("step_size")
    if size is not None and not callable(size) and np.ndim(size) == 0:
        checks["step size"] = float(size)
    stats = trace.sample_stats
    if "num_integration_steps" in stats:
        checks["integration steps per step"] = float(stats["num_integration_steps"].mean())
    if "energy" in stats:
        checks["energy"] = float(np.asarray(stats["energy"], float).mean())
    if "is_divergent" in stats:
        checks["diverging steps"] = int(np.sum(stats["is_divergent"]))


def kinetic_temperature(trace: "Trace", checks: dict[str, float]) -> list[Finding]:
    """Whether the mean of rᵀ∂H/∂r / d is the temperature, up to three standard errors."""
    if "kinetic_temperature" not in trace.sample_stats:
        return []
    values = np.asarray(trace.sample_stats["kinetic_temperature"], float)
    wanted, mean = trace.settings.get("temperature", 1.0), float(values.mean())
    checks["kinetic temperature"] = mean
    error = values.std() / np.sqrt(max(1.0, float(np.nan_to_num(effective_draws(values[:, :, None])[0]))))
    if abs(mean - wanted) <= _TEMPERATURE * wanted + 3 * error:
        return []
    return [
        Finding(
            care_or_bad(not abs(mean - wanted) <= _TEMPERATURE_BAD * wanted),
            f"the kinetic temperature is {mean:.3g} instead of {wanted:.3g}: the step is too large, "
            "or the gradient's noise is too strong for the friction",
        )
    ]


def noise_share(trace: "Trace", checks: dict[str, float]) -> list[Finding]:
    """Whether minibatches add noise that is not corrected for."""
    assert trace.origin is not None
    sampler = trace.origin.sampler
    states = jax.tree.map(lambda x: x[np.asarray(trace.chains)], trace.state)
    share = gradient_noise_share(sampler, states, trace.origin.batches)
    if share is None:
        return []
    checks["gradient noise over injected noise"] = share
    if share <= _SHARE or sampler.noise_estimate is not None or "xi" in trace.state.z:
        return []
    return [
        Finding(
            care_or_bad(not share <= _SHARE_BAD),
            f"the noise of the minibatches is {share:.2g} of the injected noise and widens the distribution: "
            "take smaller steps, larger batches, control variates, a noise_estimate, or a thermostat",
        )
    ]


def decisions(trace: "Trace", checks: dict[str, float]) -> list[Finding]:
    """Divergences, trajectories cut off, and low BFMI, for samplers with a correction."""
    findings, stats = [], trace.sample_stats
    if "acceptance_rate" in stats:
        checks["mean acceptance"] = float(stats["acceptance_rate"].mean())
    if "is_divergent" in stats and np.any(stats["is_divergent"]):
        number, steps = int(np.sum(stats["is_divergent"])), stats["is_divergent"].size
        findings.append(
            Finding(
                care_or_bad(number > max(2, _DIVERGING_BAD * steps)),
                f"{number:,} of {steps:,} steps diverged: in some regions the step is too large, and the "
                "draws may miss parts of the target. Reparametrise the model (non-centred), or take "
                "smaller steps: a smaller step_size if you gave one, else a higher "
                "target_accept, as in fk.samplers.nuts(target_accept=0.95)",
            )
        )
    deepest = getattr(getattr(trace.sampler, "correction", None), "max_depth", None)
    if "tree_depth" in stats and deepest is not None:
        share = float(np.mean(stats["tree_depth"] >= int(deepest)))
        if share > _MANY_DEEP:
            findings.append(
                Finding(
                    Grade.CARE,
                    f"{100 * share:.0f} % of the trajectories were cut off at the maximum depth, "
                    f"{int(deepest)}: the scales of the parameters differ too much (mass_matrix='dense' or "
                    "'low-rank'), or the target is improper",
                )
            )
    if "tree_depth" in stats and stats["energy"].shape[1] > 1:
        smallest = float(bfmi(np.asarray(stats["energy"], float)).min())
        if smallest < _LOW_BFMI:
            findings.append(
                Finding(
                    Grade.CARE,
                    f"the energy changes slowly (BFMI {smallest:.2f}, below {_LOW_BFMI}): the target has "
                    "heavy tails or a funnel; reparametrise the model",
                )
            )
    return findings


def bfmi(energy: np.ndarray) -> np.ndarray:
    """BFMI: the variance of the energy that a new momentum adds, over that of the chain (Betancourt 2016)."""
    spread = np.maximum(np.var(energy, axis=1), 1e-30)
    return np.mean(np.diff(energy, axis=1) ** 2, axis=1) / spread
