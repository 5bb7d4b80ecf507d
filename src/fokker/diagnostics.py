"""Whether to trust a run: convergence by ArviZ, and what chains without a Metropolis step need beside it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from fokker.trace import Trace

# Vehtari et al. (2021): split R-hat above this, or fewer effective draws than this, is not convergence.
_R_HAT, _EFFECTIVE = 1.01, 400
# A kinetic temperature further from T than this is a step too large, or gradient noise not accounted for.
_TEMPERATURE = 0.05
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
        if self.warnings:
            lines += ["", "DO NOT TRUST THIS RESULT:"] + [f"- {warning}" for warning in self.warnings]
        else:
            lines += ["", "Nothing speaks against this result."]
        return "\n".join(lines)


def summarise(trace: "Trace") -> Summary:
    """Mean, spread, split R-hat and effective draws of every scalar, and what speaks against them."""
    import arviz

    warnings = [trace.stopped] if trace.stopped else []
    if trace.samples is None:
        raise ValueError(trace._no_draws("trace.moments has them; R-hat and ESS need draws"))
    data = trace.to_arviz()
    posterior: Any = data.posterior
    if posterior.sizes["draw"] < 8:
        raise ValueError(f"{posterior.sizes['draw']} draws are too few to summarise; take more steps.")
    r_hats, sizes = arviz.rhat(data), arviz.ess(data)
    names, mean, deviation, r_hat, effective = [], [], [], [], []
    for variable in posterior.data_vars:
        values = np.asarray(posterior[variable])
        flat = values.reshape(*values.shape[:2], -1)
        for i in range(flat.shape[2]):
            names.append(variable if flat.shape[2] == 1 else f"{variable}[{i}]")
        mean.append(flat.mean(axis=(0, 1)))
        deviation.append(flat.std(axis=(0, 1), ddof=1))
        r_hat.append(np.asarray(r_hats[variable]).reshape(-1))
        effective.append(np.asarray(sizes[variable]).reshape(-1))
    means, deviations, hats, ess = (np.concatenate(x) for x in (mean, deviation, r_hat, effective))
    warnings += _against(trace, names, hats, ess)
    return Summary(names, means, deviations, hats, ess, warnings)


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
    if "kinetic_temperature" in trace.stats:
        asked = trace.settings.get("temperature", 1.0)
        found = float(trace.stats["kinetic_temperature"].mean())
        if not abs(found - asked) <= _TEMPERATURE * asked:
            warnings.append(
                f"the kinetic temperature is {found:.3g} where {asked:.3g} was asked for: the step is too "
                "large, or the gradient's noise is too strong for the friction"
            )
    return warnings
