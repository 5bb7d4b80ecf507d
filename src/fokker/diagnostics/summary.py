"""A run in a table, and what speaks against it."""

import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fokker.diagnostics._slopes import as_vectors, slopes_at, thinned
from fokker.diagnostics.configurational import configurational_temperature
from fokker.diagnostics.halving import step_halving
from fokker.diagnostics.noise_share import gradient_noise_share
from fokker.diagnostics.stein import kernel_stein_discrepancy
from fokker.integrators import Reflecting

if TYPE_CHECKING:
    from fokker.trace import Trace

# Vehtari et al. (2021): split R-hat above this, or fewer effective draws than this, is not convergence.
_R_HAT, _EFFECTIVE = 1.01, 400
# A kinetic temperature further from T than this is a step too large, or gradient noise not accounted for.
_TEMPERATURE = 0.05
# Minibatch noise of more than this share of that injected spreads a sampler without a thermostat as much.
_SHARE = 0.1
# A discrepancy that draws of the target would show less often than this.
_P_VALUE = 0.001
# More paths than this cut off at the greatest depth, and a smaller share of the energy moved than this.
_DEEP, _MOVES = 0.05, 0.3
_SLOPES, _POINTS = 1000, 200
_ROWS = 20


@dataclass(frozen=True)
class Summary:
    """A table of moments and diagnostics, and warnings in words; `print(summary)` shows both."""

    names: list[str]
    mean: np.ndarray
    deviation: np.ndarray
    r_hat: np.ndarray
    effective: np.ndarray
    warnings: list[str]
    checks: dict[str, float] = field(default_factory=dict)
    corrected: bool = False

    @property
    def trusted(self) -> bool:
        """Whether nothing speaks against the result."""
        return not self.warnings

    def __str__(self) -> str:
        width = max([len(name) for name in self.names[:_ROWS]] + [9])
        lines = [f"{'':{width}} {'mean':>10} {'sd':>10} {'R-hat':>7} {'ESS':>8}"]
        for i, name in enumerate(self.names[:_ROWS]):
            lines.append(
                f"{name:{width}} {self.mean[i]:10.4g} {self.deviation[i]:10.4g} {self.r_hat[i]:7.3f} "
                f"{self.effective[i]:8.0f}"
            )
        if len(self.names) > _ROWS:
            lines.append(f"… and {len(self.names) - _ROWS} more")
        lines += ["", *(f"{name}: {value:.3g}" for name, value in self.checks.items())]
        if self.warnings:
            lines += ["", "DO NOT TRUST THIS RESULT:"] + [f"- {warning}" for warning in self.warnings]
        else:
            halving = "" if self.corrected else " (The bias of the step: trace.step_halving().)"
            lines += ["", f"Nothing speaks against this result.{halving}"]
        return "\n".join(lines)


def summarise(trace: "Trace", gradients: bool = True, halving: bool = False) -> Summary:
    """Mean, spread, split R-hat and effective draws of every scalar, and what speaks against them."""
    import arviz

    against = [trace.stopped] if trace.stopped else []
    if trace.samples is None:
        raise ValueError(trace._no_draws("trace.moments has them; R-hat and ESS need draws"))
    names, values = trace.flat()
    if values.shape[1] < 8:
        raise ValueError(f"{values.shape[1]} draws are too few to summarise; take more steps.")
    with warnings.catch_warnings():  # of more chains than draws, which is no mistake
        warnings.simplefilter("ignore", UserWarning)
        data = arviz.convert_to_dataset(values)
    r_hat, effective = (np.asarray(f(data)["x"]).reshape(-1) for f in (arviz.rhat, arviz.ess))
    against += _against(trace, names, r_hat, effective)
    checks: dict[str, float] = {}
    if "kinetic_temperature" in trace.stats:
        checks["kinetic temperature"] = float(trace.stats["kinetic_temperature"].mean())
    if "acceptance_rate" in trace.stats:
        checks["mean acceptance"] = float(trace.stats["acceptance_rate"].mean())
    if trace.origin is not None:
        against += trace.origin.notes
        against += _noise_share(trace, checks)
        if gradients:
            against += _by_gradients(trace, float(np.nanmin(effective)), checks)
    if halving:
        against += step_halving(trace).warnings
    mean, deviation = values.mean(axis=(0, 1)), values.std(axis=(0, 1), ddof=1)
    corrected = trace.origin is not None and trace.origin.sampler.corrected
    return Summary(names, mean, deviation, r_hat, effective, against, checks, corrected)


def _noise_share(trace: "Trace", checks: dict[str, float]) -> list[str]:
    assert trace.origin is not None
    sampler = trace.origin.sampler
    share = gradient_noise_share(sampler, trace.state, trace.origin.batches)
    if share is None:
        return []
    checks["gradient noise over injected noise"] = share
    if share <= _SHARE or sampler.noise_estimate is not None or "xi" in trace.state.z:
        return []
    return [
        f"the noise of the minibatches is {share:.2g} of the noise injected and spreads the draws: take "
        "smaller steps, larger batches, control variates, a noise_estimate, or a thermostat"
    ]


def _by_gradients(trace: "Trace", effective: float, checks: dict[str, float]) -> list[str]:
    """The temperature of theta and Stein's discrepancy, for targets without walls."""
    assert trace.origin is not None
    sampler = trace.origin.sampler
    if not sampler.wants_target or isinstance(getattr(sampler, "integrator", None), Reflecting):
        return []
    T = trace.settings.get("temperature", 1.0)
    positions = thinned(trace, _SLOPES)
    draws, slopes = as_vectors(positions), slopes_at(sampler.own_target, positions)
    if len(draws) < 8 or T == 0:
        return []
    found, error = configurational_temperature(draws, slopes)
    checks["configurational temperature"] = float(found.mean())
    worst = int(np.argmax(np.abs(found - T) - 4 * error))
    checks["the furthest off of a coordinate"], checks["its standard error"] = found[worst], error[worst]
    against = []
    if abs(found[worst] - T) > 4 * error[worst] + _TEMPERATURE * T:
        against.append(
            f"the configurational temperature of coordinate {worst} is {found[worst]:.3g} ± "
            f"{error[worst]:.2g} where {T:.3g} was asked for: theta is spread too "
            + ("wide" if found[worst] > T else "narrow")
        )
    few = draws[:: max(1, len(draws) // _POINTS)], slopes[:: max(1, len(draws) // _POINTS)]
    stein = kernel_stein_discrepancy(few[0], -few[1] / T)
    checks["kernel Stein discrepancy²"], checks["its p-value"] = stein.squared, stein.p_value
    # Draws that hang together look alike without being wrong: only as many as are independent can tell.
    if stein.p_value < _P_VALUE and effective >= stein.points:
        against.append(
            f"the kernel Stein discrepancy² of {stein.points} draws is {stein.squared:.3g}, which draws of "
            f"the target would show once in {1 / stein.p_value:.0f} times or less: they are not of the target"
        )
    return against


def _against(trace: "Trace", names: list[str], r_hat: np.ndarray, effective: np.ndarray) -> list[str]:
    warnings = []
    if trace.settings.get("chains", 2) < 2:
        warnings.append("one chain cannot show that it has converged: run at least two, better four")
    elif not np.all(r_hat <= _R_HAT):
        worst = int(np.nanargmax(np.where(np.isnan(r_hat), np.inf, r_hat)))
        warnings.append(
            f"R-hat of {names[worst]} is {r_hat[worst]:.3f}, above {_R_HAT}: the chains disagree; run "
            "longer, or with a larger step"
        )
    if not np.all(effective >= _EFFECTIVE):
        worst = int(np.argmin(np.nan_to_num(effective)))
        warnings.append(
            f"{names[worst]} has {effective[worst]:.0f} effective draws, fewer than {_EFFECTIVE}: run longer"
        )
    warnings += _against_steps(trace)
    if "kinetic_temperature" in trace.stats:
        asked = trace.settings.get("temperature", 1.0)
        found = float(trace.stats["kinetic_temperature"].mean())
        if not abs(found - asked) <= _TEMPERATURE * asked:
            warnings.append(
                f"the kinetic temperature is {found:.3g} where {asked:.3g} was asked for: the step is too "
                "large, or the gradient's noise is too strong for the friction"
            )
    return warnings


def _against_steps(trace: "Trace") -> list[str]:
    """What the steps of a corrected sampler say."""
    warnings, stats = [], trace.stats
    divergent = int(np.sum(stats["diverging"])) if "diverging" in stats else 0
    if divergent:
        warnings.append(
            f"{divergent:,} of {stats['diverging'].size:,} steps diverged: there are places where the step "
            "is too large, and the draws miss what lies behind them. Write the model in other parameters "
            "(not centred), or ask for a higher acceptance, as in fk.samplers.nuts(acceptance=0.95)"
        )
    deepest = getattr(getattr(trace.origin, "sampler", None), "max_depth", None)
    if "tree_depth" in stats and deepest is not None:
        share = float(np.mean(stats["tree_depth"] >= int(deepest)))
        if share > _DEEP:
            warnings.append(
                f"{100 * share:.0f} % of the paths were cut off at the greatest depth, {int(deepest)}: the "
                "scales of the parameters differ too much (scale='dense' or 'low-rank'), or the target "
                "has no end"
            )
    if "tree_depth" in stats and stats["energy"].shape[1] > 1:
        energy = np.asarray(stats["energy"], float)
        # Of each chain: how much of the energy's spread a new momentum makes up for (Betancourt 2016).
        share_of_moves = np.mean(np.diff(energy, axis=1) ** 2, axis=1) / np.maximum(
            np.var(energy, axis=1), 1e-30
        )
        if share_of_moves.min() < _MOVES:
            warnings.append(
                f"the energy moves slowly (BFMI {share_of_moves.min():.2f}, below {_MOVES}): heavy tails or "
                "a funnel; write the model in other parameters"
            )
    return warnings
