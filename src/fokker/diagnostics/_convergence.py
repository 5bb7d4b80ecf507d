"""Whether chains have converged, and if not, possible reasons."""

import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import chdtri

from fokker._core.statistics import effective_sample_size, split_r_hat
from fokker.diagnostics._findings import Finding, Grade, care_or_bad
from fokker.diagnostics._scores import effective_draws

# Convergence needs split R-hat below, and effective draws above, these values (Vehtari et al. 2021).
_R_HAT, _EFFECTIVE = 1.01, 400
# Beyond these, not even the first digit of a mean is known.
R_HAT_BAD, _EFFECTIVE_BAD = 1.05, 100
# Share of converged runs whose R-hat exceeds the bound that allows for chance.
_FALSE_ALARMS = 0.01
# Interquartile range of the last third of a chain over that of the first; larger means divergence.
_GROWTH = 30.0
# Fewer draws have no reliable quartiles.
_FEW = 20
# With this many effective draws within it, a chain has settled.
_SETTLED = 50
# Ratios of standard deviations, and of eigenvalues of the correlations, above which scales are unequal.
_UNEQUAL, _CORRELATED = 10.0, 100.0
_LARGEST = 200


class Statistics(NamedTuple):
    """Split R-hat, and effective draws in bulk and tails, of each series; NaN for constant series."""

    r_hat: np.ndarray
    effective: np.ndarray
    tail: np.ndarray

    @classmethod
    def of(cls, values: Float[np.ndarray, "c n k"]) -> "Statistics":
        """By ArviZ, chain × draw × series."""
        tail = np.full(values.shape[2], math.nan)
        usable = _usable(values)
        if usable.any():
            tail[usable] = effective_sample_size(values[:, :, usable], method="tail")
        return cls(*r_hat_and_effective(values), tail)


def _usable(values: np.ndarray) -> np.ndarray:
    return (np.ptp(values, axis=(0, 1)) > 0) & np.isfinite(values).all(axis=(0, 1))


def r_hat_and_effective(values: Float[np.ndarray, "c n k"]) -> tuple[np.ndarray, np.ndarray]:
    """Split R-hat and effective draws of each series (ArviZ); NaN for constant series."""
    r_hat, effective = np.full((2, values.shape[2]), math.nan)
    usable = _usable(values)
    if usable.any():
        r_hat[usable] = split_r_hat(values[:, :, usable])
        effective[usable] = effective_sample_size(values[:, :, usable])
    return r_hat, effective


def convergence(
    names: list[str],
    values: np.ndarray,
    r_hat: np.ndarray,
    effective: np.ndarray,
    sampler: Any,
    astray: bool = False,
    coordinates: int | None = None,
) -> list[Finding]:
    """Problems with the convergence of series in unconstrained coordinates.

    `astray`: the draws are known to be far from the mass of the target, so that advice on mixing is useless.
    `coordinates`: how many of the series, the first, are coordinates of theta, whose scales and correlations
    may be compared; all by default.
    """
    coordinates = len(names) if coordinates is None else coordinates
    finite = np.isfinite(values).all(axis=(0, 1))
    if not finite.all():
        worst = int(np.argmin(finite))
        return [
            Finding(
                Grade.BAD,
                f"{names[worst]} has draws that are not finite: the chain diverged; take smaller steps",
            )
        ]
    constant = np.ptp(values, axis=1).max(axis=0) == 0
    if constant.any():
        name = names[int(np.argmax(constant))]
        return [
            Finding(
                Grade.BAD,
                f"{name} never moved in any chain: every proposal was rejected, or the step is below the "
                "floating-point precision; choose another step size, or start elsewhere",
            )
        ]
    diverged = _divergence(names, values)
    if diverged:
        return diverged
    findings: list[Finding] = []
    chains = values.shape[0]
    if chains < 2:
        findings.append(
            Finding(
                Grade.CARE, "convergence cannot be judged from one chain: run at least two, preferably four"
            )
        )
    else:
        findings += _disagreement(names, values, r_hat, effective, sampler, astray, coordinates)
    if not np.all(effective >= _EFFECTIVE):
        worst = int(np.argmin(np.nan_to_num(effective)))
        advice = "" if findings or astray else _how_to_mix(values[:, :, :coordinates], worst, sampler)
        findings.append(
            Finding(
                care_or_bad(not effective[worst] >= _EFFECTIVE_BAD),
                f"{names[worst]} has {effective[worst]:.0f} effective draws, fewer than {_EFFECTIVE}"
                + (f": {advice}" if advice else ""),
            )
        )
    return findings


def _divergence(names: list[str], values: np.ndarray) -> list[Finding]:
    third = values.shape[1] // 3
    if third < _FEW:  # too few for quartiles: pool all chains
        values = values.transpose(1, 0, 2).reshape(1, -1, values.shape[2])
        third = values.shape[1] // 3
        if third < _FEW:
            return []
    first, last = (
        np.subtract(*np.quantile(values[:, part], [0.75, 0.25], axis=1))
        for part in (slice(third), slice(-third, None))
    )
    growth = np.where(first > 0, last / np.where(first > 0, first, 1), 0).max(axis=0)
    worst = int(np.argmax(growth))
    if growth[worst] <= _GROWTH:
        return []
    return [
        Finding(
            Grade.BAD,
            f"the spread of {names[worst]} is {growth[worst]:.2g} times as wide in the last third of a "
            "chain as in the first: the chain diverges (take smaller steps), or the target is improper (give "
            "it a proper prior)",
        )
    ]


def chance_r_hat(chains: int, effective: np.ndarray, number: int) -> np.ndarray:
    r"""A bound on R-hat that only one in a hundred converged runs exceeds in any of `number` series.

    The halves of m chains with S effective draws in total have R̂² ≈ 1 + (2m/S)(χ²_{2m-1}/(2m-1) - 1).
    """
    freedom = 2 * chains - 1
    # R-hat is the maximum of two, of the ranks and of the folded ranks.
    excess = chdtri(freedom, _FALSE_ALARMS / (2 * number)) / freedom - 1
    return np.sqrt(1 + 2 * chains / np.maximum(np.nan_to_num(effective), _EFFECTIVE_BAD) * excess)


def bounded_r_hat(chains: int, effective: np.ndarray, number: int) -> np.ndarray:
    """The R-hat that raises no alarm: `chance_r_hat` between the usual bound and one that is always bad."""
    return np.maximum(_R_HAT, np.minimum(R_HAT_BAD, chance_r_hat(chains, effective, number)))


def _disagreement(
    names: list[str],
    values: np.ndarray,
    r_hat: np.ndarray,
    effective: np.ndarray,
    sampler: Any,
    astray: bool,
    coordinates: int,
) -> list[Finding]:
    # R-hat also uses the folded draws, which may have fewer effective draws, as for NUTS.
    folded = effective_draws(np.abs(values - np.median(values, axis=(0, 1))))
    allowed = bounded_r_hat(len(values), np.fmin(effective, folded), len(names))
    comparable = np.where(np.isnan(r_hat), np.inf, r_hat)
    if np.all(comparable <= allowed):
        return []
    worst = int(np.argmax(comparable - allowed))
    series = values[:, :, worst]
    within = [effective_draws(chain[None, :, None])[0] for chain in series[:20]]
    half = values.shape[1] // 2
    shifts = series[:, half:].mean(axis=1) - series[:, :half].mean(axis=1)
    have_common_shift = abs(shifts.mean()) > 2 * shifts.std(ddof=1) / np.sqrt(len(shifts))
    if astray:
        cause = "the chains are far from the mass of the target"
    elif np.median(np.nan_to_num(within)) >= _SETTLED:
        cause = (
            "the chains have settled in different regions: the target may have several modes; try "
            "fk.samplers.replica_exchange, and other starts (init)"
        )
    elif have_common_shift:
        advice = _how_to_mix(values[:, :, :coordinates], worst, sampler)
        cause = f"the chains are still moving away from their starts: give more burn_in; {advice}"
    else:
        cause = f"the chains have not mixed yet: {_how_to_mix(values[:, :, :coordinates], worst, sampler)}"
    bad = not r_hat[worst] <= R_HAT_BAD
    return [
        Finding(care_or_bad(bad), f"R-hat of {names[worst]} is {r_hat[worst]:.3g}, above {_R_HAT}: {cause}")
    ]


def _how_to_mix(values: np.ndarray, slow: int, sampler: Any) -> str:
    """Advice for slow chains: other scales if they are unequal, else a longer run."""
    learns = getattr(sampler, "learns", False)
    remedy = (
        "mass_matrix='dense' or 'low-rank'"
        if learns
        else "a mass (sghmc) or a D (sgld) that fits them, or a sampler that learns them (nuts)"
    )
    deviation = np.sqrt(values.var(axis=1).mean(axis=0))
    narrow = float(deviation.min(initial=math.inf))
    if not learns and slow < len(deviation) and deviation[slow] > _UNEQUAL * narrow:
        return (
            f"the scales are unequal (standard deviations from {narrow:.2g} to {deviation.max():.2g}), and "
            f"the narrowest limits the step: give {remedy}"
        )
    if 1 < values.shape[2] <= _LARGEST and narrow > 0:
        within = values - values.mean(axis=1, keepdims=True)
        spectrum = np.linalg.eigvalsh(np.corrcoef(within.reshape(-1, values.shape[2]).T))
        if spectrum[-1] > _CORRELATED * max(spectrum[0], 1e-12):
            return f"the parameters are strongly correlated: give {remedy}, or reparametrise the model"
    return "run longer" if learns else "run longer, or with a larger step if the checks below allow it"
