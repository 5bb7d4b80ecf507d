"""Whether chains have converged, and if not, possible reasons."""

import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import stdtrit

from fokker._core.statistics import effective_sample_size, split_r_hat
from fokker.diagnostics._agreement import Agreement, agreement
from fokker.diagnostics._findings import Finding, Grade, care_or_bad
from fokker.diagnostics._scores import effective_draws

# Convergence needs more effective draws than this (Vehtari et al. 2021).
_EFFECTIVE = 400
# With fewer, not even the first digit of a mean is known.
_EFFECTIVE_BAD = 100
# Interquartile range of the last third of a chain over that of the first; larger means divergence.
_GROWTH = 30.0
# Fewer draws have no reliable quartiles.
_FEW = 20
# With this many effective draws within it, a chain has settled: one that wanders has hardly five.
_SETTLED = 20
# Variance of all draws in the last third of the chains over that in the first: larger if chains drift apart.
_DRIFT = 2.0
# Settled chains with a larger R-hat are apart by more than they are wide.
_APART = 1.2
# Ratios of standard deviations, and of eigenvalues of the correlations, above which scales are unequal.
_UNEQUAL, _CORRELATED = 10.0, 100.0
_LARGEST = 200
# How often chains without a trend are said to have one, where they are known to be slow.
_CHANCE = 0.02
_MOVING = "the chains are still moving away from their starts: give more burn_in"


class Context(NamedTuple):
    """What else is known of a run, on which the advice depends.

    `astray`: the draws are known to be far from the mass of the target, so that advice on mixing is useless.
    `is_biased`: the steps were found to be too large. `is_stiff`: steps diverged or the energy changed
    slowly, as in a funnel. `coordinates`: how many of the series, the first, are coordinates of theta, whose
    scales and correlations may be compared; all by default. `is_flat`: the density does not fall
    far out.
    """

    sampler: Any
    astray: bool = False
    is_biased: bool = False
    is_stiff: bool = False
    coordinates: int | None = None
    is_flat: bool = False


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


def agreement_of(values: np.ndarray, r_hat: np.ndarray) -> Agreement | None:
    """Whether chains agree; None for a single one, and for draws that are not finite."""
    return agreement(values, r_hat) if len(values) > 1 and np.isfinite(values).all() else None


def have_mixed(judged: Agreement | None) -> bool:
    """Whether nothing speaks against it that chains agree."""
    return judged is None or not np.any(judged.excess > 0)


def convergence(
    names: list[str], values: np.ndarray, judged: Agreement | None, effective: np.ndarray, context: Context
) -> list[Finding]:
    """Problems with the convergence of series in unconstrained coordinates."""
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
    if judged is None:
        findings.append(
            Finding(
                Grade.CARE, "convergence cannot be judged from one chain: run at least two, preferably four"
            )
        )
    else:
        findings += _disagreement(names, values, judged, context)
    if not np.all(effective >= _EFFECTIVE):
        worst = int(np.argmin(np.nan_to_num(effective)))
        advice = "" if findings or context.astray else _how_to_mix(values, worst, context)
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


def _disagreement(names: list[str], values: np.ndarray, judged: Agreement, context: Context) -> list[Finding]:
    worst = int(np.argmax(judged.excess))
    r_hat, allowed = float(judged.r_hat[worst]), float(judged.allowed[worst])
    if judged.excess[worst] <= 0:
        if not judged.is_undecided.any():
            return []
        worst = int(np.argmax(np.where(judged.is_undecided, judged.allowed, 0)))
        return [
            Finding(
                Grade.CARE,
                f"whether the chains agree on {names[worst]} cannot be decided: in chains as few and as "
                f"short as these, a nested R-hat up to {judged.allowed[worst]:.3g} may be chance; run longer",
            )
        ]
    kind = "nested R-hat" if judged.is_nested[worst] else "R-hat"
    cause = _cause(values, judged, worst, context)
    drifts = _drift_apart(values[:, :, worst])
    if not context.astray and (drifts or context.is_flat):
        seen = "the spread of the chains grows with time" if drifts else "the density does not fall outwards"
        cause = (
            f"{seen}, so that the target may be improper (fk.check looks at that); if it is proper, {cause}"
        )
    is_bad = not r_hat <= judged.bad[worst]
    value, limit = _distinct(r_hat, allowed)
    return [Finding(care_or_bad(is_bad), f"{kind} of {names[worst]} is {value}, above {limit}: " + cause)]


def _distinct(value: float, limit: float) -> tuple[str, str]:
    """A value and the limit that it exceeds, with as many digits as show that it does."""
    digits = next((n for n in range(3, 8) if f"{value:.{n}g}" != f"{limit:.{n}g}"), 8)
    return f"{value:.{digits}g}", f"{limit:.{digits}g}"


def _drift_apart(series: np.ndarray) -> bool:
    """Whether all draws together become wider from third to third of the chains."""
    widths = [part.var() for part in np.array_split(series, 3, axis=1)]
    return bool(widths[2] > _DRIFT * widths[0] and widths[2] > widths[1] > widths[0])


def _cause(values: np.ndarray, judged: Agreement, worst: int, context: Context) -> str:
    """Why chains disagree, as far as it can be seen, and what to do."""
    if context.astray:
        return "the chains are far from the mass of the target"
    within = [effective_draws(chain[None, :, None])[0] for chain in values[:20, :, worst]]
    is_settled = not judged.is_nested[worst] and np.median(np.nan_to_num(within)) >= _SETTLED
    if context.is_stiff:
        return (
            "chains that cannot enter a narrow region, as the neck of a funnel, stay apart for long; see the "
            "diverging steps and slow energies. Reparametrise the model (non-centred) before anything else"
        )
    if is_settled and judged.r_hat[worst] > _APART:
        return (
            "the chains have settled in different regions: the target may have several modes; try "
            "fk.samplers.replica_exchange, and other starts (init)"
        )
    advice = _how_to_mix(values, worst, context)
    if judged.is_trend[worst] and _MOVING not in advice:
        return _MOVING
    if judged.is_nested[worst]:
        return (
            "where a chain is at its end depends on where it was in its first third: each chain is too "
            f"short, or several modes hold them; {advice}; for modes try fk.samplers.replica_exchange, and "
            "other starts (init)"
        )
    if advice == _MOVING:
        return advice
    if is_settled:
        return f"the chains differ by more than chance, but not by much: {advice}"
    return f"the chains have not mixed yet: {advice}"


def _have_common_shift(series: np.ndarray) -> bool:
    """Whether chains moved in the same direction between their halves (t-test); False for a single one."""
    chains, half = len(series), series.shape[1] // 2
    if chains < 2:
        return False
    shifts = series[:, half:].mean(axis=1) - series[:, :half].mean(axis=1)
    return bool(
        abs(shifts.mean()) > stdtrit(chains - 1, 1 - _CHANCE / 2) * shifts.std(ddof=1) / np.sqrt(chains)
    )


def _how_to_mix(values: np.ndarray, slow: int, context: Context) -> str:
    """Advice for slow chains: for a trend, for scales that are unequal, else a longer run."""
    if context.is_stiff:
        return "reparametrise the model (non-centred): where steps diverge, longer runs help little"
    if _have_common_shift(values[:, :, slow]):
        return _MOVING
    values = values[:, :, : context.coordinates]
    learns = context.sampler is not None and context.sampler.learns
    remedy = (
        "mass_matrix='dense' or 'low-rank'"
        if learns
        else "a mass (sghmc) or a D (sgld) that fits them, or a sampler that learns them (nuts)"
    )
    if not learns and context.sampler is not None and context.sampler.has_mass_matrix:
        return "run longer"  # a mass matrix takes care of scales and correlations
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
    if learns or context.is_biased:
        return "run longer"
    return "run longer, or with a larger step as long as no bias is found"
