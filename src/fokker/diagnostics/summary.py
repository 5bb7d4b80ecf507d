"""The summary of a run: a table, a grade, and the problems found."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fokker.diagnostics import _steps
from fokker.diagnostics._convergence import convergence, r_hat_and_effective
from fokker.diagnostics._findings import Finding, Grade, worst_of
from fokker.diagnostics._spread import by_gradients
from fokker.diagnostics.halving import step_halving

if TYPE_CHECKING:
    from fokker.diagnostics.configurational import Spread
    from fokker.run.trace import Trace

_QUANTILES = (0.05, 0.5, 0.95)
_ROWS = 20


@dataclass(frozen=True)
class Summary:
    """A table of moments and diagnostics, a grade, and the problems in words; `print(summary)` shows all.

    R-hat and ESS are NaN for entries that cannot vary, such as the zeros of a Cholesky factor. `findings` are
    problems, each with a grade; `notes` are useful to know but not problems; `checked` says what was checked
    and how small a problem would have been detected.
    """

    names: list[str]
    mean: np.ndarray
    deviation: np.ndarray
    quantiles: np.ndarray
    r_hat: np.ndarray
    effective: np.ndarray
    findings: list[Finding]
    checks: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    checked: str = ""

    @property
    def grade(self) -> Grade:
        """The worst grade of the findings: "No problems found", "Use with care" or "Do not use"."""
        return worst_of(finding.grade for finding in self.findings)

    @property
    def trusted(self) -> bool:
        """Whether no problems were found."""
        return self.grade is Grade.GOOD

    @property
    def warnings(self) -> list[str]:
        """The findings in words, the worst first."""
        order = sorted(self.findings, key=lambda finding: finding.grade is not Grade.BAD)
        return [finding.text for finding in order]

    @property
    def verdict(self) -> str:
        """The grade as a sentence; if there are no problems, with what was checked."""
        return f"{self.grade}. {self.checked}".strip() if self.trusted else f"{self.grade}:"

    def rows(self) -> list[list[str]]:
        """The table as text, one row per scalar; see `COLUMNS`."""
        table = []
        for i, name in enumerate(self.names):
            numbers = [self.mean[i], self.deviation[i], *self.quantiles[i]]
            row = [name, *(f"{number:.4g}" for number in numbers)]
            varies = self.deviation[i] != 0
            table.append(
                row + ([f"{self.r_hat[i]:.3f}", f"{self.effective[i]:.0f}"] if varies else ["constant", ""])
            )
        return table

    def __str__(self) -> str:
        rows = [[""], *self.rows()[:_ROWS]]
        rows[0] = list(COLUMNS)
        widths = [max(len(row[i]) for row in rows) for i in range(len(COLUMNS))]
        lines = [
            f"{row[0]:{widths[0]}}"
            + "".join(f" {text:>{max(width, 8)}}" for text, width in zip(row[1:], widths[1:], strict=True))
            for row in rows
        ]
        if len(self.names) > _ROWS:
            lines.append(f"… and {len(self.names) - _ROWS} more")
        lines += ["", *(f"{name}: {value:.3g}" for name, value in self.checks.items())]
        lines += ["", self.verdict if self.trusted else self.verdict.upper()]
        lines += [f"- {warning}" for warning in self.warnings]
        return "\n".join([*lines, *(f"Note: {note}." for note in self.notes)])


COLUMNS = ("", "mean", "sd", *(f"{100 * q:.0f} %" for q in _QUANTILES), "R-hat", "ESS")


def summarise(trace: "Trace", gradients: bool = True, halving: bool = False) -> Summary:
    """Moments, quantiles, split R-hat and effective draws of every scalar, and the problems found."""
    names, values = trace.flat()
    if values.shape[1] < 8:
        raise ValueError(f"{values.shape[1]} draws are too few for a summary; take more steps.")
    # The entries of a simplex or a Cholesky factor cannot all vary: judge the unconstrained coordinates.
    free_names, free_values = trace.flat_positions()
    free_r_hat, free_effective = r_hat_and_effective(free_values)
    if free_values.shape == values.shape and np.array_equal(free_values, values):
        r_hat, effective = free_r_hat, free_effective
    else:
        r_hat, effective = r_hat_and_effective(values)
    sampler = None if trace.origin is None else trace.origin.sampler
    checks: dict[str, float] = {}
    findings = _stopped(trace)
    findings += _steps.kinetic_temperature(trace, checks)
    findings += _steps.decisions(trace, checks)
    spread = None
    if trace.origin is not None:
        findings += [Finding(Grade.BAD, note) for note in trace.origin.notes]
        findings += _steps.noise_share(trace, checks)
        if gradients and np.isfinite(free_values).all():
            least = float(np.min(np.nan_to_num(free_effective)))
            more, spread = by_gradients(trace, least, checks)
            findings += more
    astray = spread is not None and spread.astray
    findings += convergence(free_names, free_values, free_r_hat, free_effective, sampler, astray)
    if halving:
        findings += [Finding(Grade.CARE, text) for text in step_halving(trace).warnings]
    mean, deviation = values.mean(axis=(0, 1)), values.std(axis=(0, 1), ddof=1)
    deviation = np.where(np.ptp(values, axis=(0, 1)) == 0, 0.0, deviation)
    quantiles = np.quantile(values, _QUANTILES, axis=(0, 1)).T
    checked = _checked(free_r_hat, free_effective, spread)
    if sampler is not None and not sampler.is_exact and not halving:
        checked += " For the bias of the step in means: trace.step_halving()."
    return Summary(
        names, mean, deviation, quantiles, r_hat, effective, findings, checks, _notes(trace, spread), checked
    )


def _stopped(trace: "Trace") -> list[Finding]:
    if not trace.stopped:
        return []
    return [Finding(Grade.CARE if trace.was_interrupted else Grade.BAD, trace.stopped)]


def _notes(trace: "Trace", spread: "Spread | None") -> list[str]:
    notes = []
    if trace.origin is not None and trace.origin.one_start:
        notes.append(
            "all chains started at one point, so that R-hat is less able to detect that they disagree; give "
            "init as a function of a key to start them at different points"
        )
    if spread is not None and not spread.judged.all():
        notes.append(
            f"the variance of {int((~spread.judged).sum()):,} of {spread.judged.size:,} directions could not "
            "be compared with the target's: there are too few effective draws, or the tails are too "
            "heavy for a standard error"
        )
    return notes


def _checked(r_hat: np.ndarray, effective: np.ndarray, spread: "Spread | None") -> str:
    least = np.nanmin(effective, initial=np.inf)
    text = f"R-hat is at most {np.nanmax(r_hat, initial=1):.3f}, with at least {least:,.0f} effective draws."
    if spread is None:
        return text + " The spread of the draws was not compared with the target's."
    one, everywhere = (f"{100 * share:.0f} % too large or too small" for share in spread.detectable)
    if not spread.judged.any():
        return text + " There are too few effective draws to compare their spread with the target's."
    where = f"{everywhere} in every direction, or {one} in a single one" if len(spread.bias) > 1 else one
    return f"{text} Nine of ten such runs would have shown a variance that is {where}."
