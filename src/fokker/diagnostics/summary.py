"""The summary of a run: a table, a grade, and the problems found."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from fokker._core.digits import decimals, r_hat_text, with_error, without_minus_zero
from fokker.diagnostics._findings import Finding, Grade, Verdict, worst_of

QUANTILES = (0.05, 0.5, 0.95)
_ROWS = 20
_ERROR_OF = "standard error of the "
LEAF_COLUMNS = ("", "shape", "means", "sds", "R-hat", "ESS")


class LeafRow(NamedTuple):
    """A leaf of many scalars: ranges of means and standard deviations, worst R-hat and least ESS.

    R-hat and ESS are those along random directions within the leaf; of a run that kept moments only, R-hat is
    the largest of all scalars.
    """

    name: str
    shape: tuple[int, ...]
    means: tuple[float, float]
    deviations: tuple[float, float]
    r_hat: float
    effective: float

    @property
    def cells(self) -> list[str]:
        """The row as text."""
        shape = "×".join(map(str, self.shape)) or "scalar"
        ranges = [_range(*self.means), _range(*self.deviations)]
        return [self.name, shape, *ranges, r_hat_text(self.r_hat), _number(self.effective, ",.0f")]


@dataclass(frozen=True)
class Summary:
    """A table of moments and diagnostics, a grade, and the problems in words; `print(summary)` shows all.

    `names`, `mean`, … `tail` are those of the quantities judged: every scalar of theta and `quantities`; if
    theta has many scalars the log density, `quantities` and random directions, and `leaves` has one row per
    leaf. R-hat and ESS are NaN for entries that cannot vary, such as the zeros of a Cholesky factor.
    `findings` are problems, each with a grade; `notes` are useful to know but not problems; `checked` says
    what was checked and how small a problem would have been detected. `series`: draws for a figure.
    `probabilities`: those of the quantiles.
    """

    names: list[str]
    mean: np.ndarray
    deviation: np.ndarray
    quantiles: np.ndarray
    r_hat: np.ndarray
    effective: np.ndarray
    tail: np.ndarray
    findings: list[Finding]
    checks: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    checked: str = ""
    leaves: list[LeafRow] = field(default_factory=list)
    shown: int | None = None
    series: dict[str, np.ndarray] = field(default_factory=dict)
    probabilities: tuple[float, ...] = QUANTILES

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns of `rows`."""
        quantiles = (f"{100 * q:.4g} %" for q in self.probabilities)
        return ("", "mean", "sd", *quantiles, "R-hat", "ESS", "tail ESS")

    @property
    def grade(self) -> Grade:
        """The worst grade of the findings: "No problems found", "Use with care" or "Do not use"."""
        return worst_of(finding.grade for finding in self.findings)

    @property
    def trusted(self) -> bool:
        """Whether no problems were found."""
        return self.grade is Grade.GOOD

    @property
    def judgement(self) -> Verdict:
        """The findings, the worst first, and the notes, without the table: what an estimator keeps."""
        order = sorted(self.findings, key=lambda finding: finding.grade is not Grade.BAD)
        return Verdict(tuple(order), tuple(self.notes))

    @property
    def warnings(self) -> list[str]:
        """The findings in words, the worst first."""
        return list(self.judgement.problems)

    @property
    def verdict(self) -> str:
        """The grade as a sentence, with the problems; if there are none, with what was checked."""
        said = self.checked if self.trusted else "; ".join(self.warnings)
        return f"{self.judgement.headline} {said}".strip()

    def rows(self) -> list[list[str]]:
        """The quantities as text, one row each; see `columns`."""
        table = []
        for i, name in enumerate(self.names[: self.shown]):
            form = _form(self.mean[i], self.deviation[i], self.effective[i])
            values = (self.mean[i], self.deviation[i], *self.quantiles[i])
            row = [name, *(_number(value, form) for value in values)]
            varies = self.deviation[i] != 0
            judged = [
                r_hat_text(self.r_hat[i]),
                *(_number(x[i], ",.0f") for x in (self.effective, self.tail)),
            ]
            table.append(row + (judged if varies else ["constant", "", ""]))
        return table

    @property
    def measured(self) -> dict[str, str]:
        """`checks` as text; a standard error stands behind its value."""
        errors = {name: self.checks.get(_ERROR_OF + name) for name in self.checks}
        return {
            name: _measured(name, value, errors[name])
            for name, value in self.checks.items()
            if not name.startswith(_ERROR_OF)
        }

    @property
    def tables(self) -> list[tuple[tuple[str, ...], list[list[str]]]]:
        """The tables that are shown, columns and rows: of leaves if theta has many scalars, of quantities."""
        leaves = [(LEAF_COLUMNS, [leaf.cells for leaf in self.leaves])] if self.leaves else []
        rows = self.rows()
        return [*leaves, *([(self.columns, rows)] if rows else [])]

    def __str__(self) -> str:
        return self.text()

    def text(self, width: int | None = None) -> str:
        """Everything as text; with a width the grade has its own line, and sentences are wrapped to it."""
        lines = []
        for columns, rows in self.tables:
            lines += [*_aligned(columns, rows[:_ROWS])]
            if len(rows) > _ROWS:
                lines.append(f"… and {len(rows) - _ROWS} more")
            lines.append("")
        lines += [f"{name}: {text}" for name, text in self.measured.items()]
        verdict = [self.verdict if self.trusted else self.judgement.headline.upper()]
        if width is not None and self.trusted:
            verdict = [f"{self.grade}.", self.checked]
        sentences = [*verdict, *(f"- {warning}" for warning in self.warnings)]
        sentences += [f"Note: {note}." for note in self.notes]
        return "\n".join([*lines, "", *(_wrapped(text, width) for text in sentences)])


def _wrapped(text: str, width: int | None) -> str:
    if width is None:
        return text
    indent = "  " if text.startswith("- ") else ""
    # Paths and formulas stay whole, to be copied.
    return textwrap.fill(
        text, max(width, 40), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _aligned(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    every = [columns, *rows]
    widths = [max(len(row[i]) for row in every) for i in range(len(columns))]
    return [
        f"{row[0]:{widths[0]}}"
        + "".join(f" {text:>{max(width, 8)}}" for text, width in zip(row[1:], widths[1:], strict=True))
        for row in every
    ]


def _form(mean: float, deviation: float, effective: float) -> str:
    """The decimals that the Monte Carlo error of the mean allows, in all numbers of a row: they line up."""
    size = max(abs(mean), deviation)
    if not (np.isfinite(size) and deviation > 0):
        return ".4g"
    # Where the effective draws are not known, as for a thousand of them.
    error = deviation / np.sqrt(effective if effective > 1 else 1000.0)
    if 1e-4 <= size < 1e8:
        return f".{decimals(error)}f"
    return f".{int(np.clip(np.floor(np.log10(size)) - np.floor(np.log10(error)) + 1, 2, 15))}g"


def _measured(name: str, value: float, error: float | None) -> str:
    """A check as text: with its standard error, to the first digit of that."""
    if error is not None and np.isfinite(error) and error > 0:
        return with_error(value, error)
    if name.endswith("temperature"):
        return f"{value:#.4g}".rstrip(".")
    # The estimate is unbiased: around zero it has both signs.
    is_chance = name == "kernel Stein discrepancy²" and value < 0
    text = f"{value:,.0f}" if float(value).is_integer() else f"{value:.3g}"
    return text + " (0 up to chance)" * is_chance


def _number(value: float, form: str) -> str:
    return "–" if np.isnan(value) else without_minus_zero(f"{value:{form}}")


def _range(low: float, high: float) -> str:
    both = [without_minus_zero(f"{value:.3g}") for value in (low, high)]
    return both[0] if both[0] == both[1] else " … ".join(both)
