"""The checker on every formula of the papers that is printed wrong, and on its correction.

| document | modules |
| --- | --- |
| Ma, Chen, Fox (2015), A Complete Recipe for Stochastic Gradient MCMC, arXiv and NIPS | `_ma_*` |
| Ding et al. (2014), Bayesian Sampling Using Stochastic Gradient Thermostats | `_thermostat` |
| Speeding up MCMC with Langevin and Hamiltonian dynamics … (an article of 2026) | `_article*` |

Each module lists `Entry`s: what is printed, what it means as dynamics, and what is expected of it.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fokker.lab.experiments._result import Claim, Result, plain
from fokker.lab.experiments.errata import (
    _article,
    _article_stochastic,
    _ma_completion,
    _ma_metric,
    _ma_momentum,
    _ma_recipe,
    _thermostat,
)
from fokker.lab.experiments.errata._entry import (
    THRESHOLD,
    Entry,
    Finding,
    compare_with_closed_form,
    examine,
)
from fokker.lab.experiments.errata._figure import draw

__all__ = ["ENTRIES", "Entry", "Finding", "examine", "run"]

ENTRIES: list[Entry] = [
    *_ma_recipe.ENTRIES,
    *_ma_momentum.ENTRIES,
    *_ma_metric.ENTRIES,
    *_ma_completion.ENTRIES,
    *_thermostat.ENTRIES,
    *_article.ENTRIES,
    *_article_stochastic.ENTRIES,
]
FIGURE = "errata.png"


def run(out: Path, quick: bool, seeds: int) -> Result:
    """Examine every entry; write the figure into `out`.

    The checker is asked for verdicts, not for reasons, which cost more than finding out that a formula is
    wrong; `fk.check` on an entry's dynamics gives them. `quick` takes fewer points.
    """
    number_of_points = 64 if quick else 512
    # Almost all of the time goes into compilation, which two threads share well.
    with ThreadPoolExecutor(2) as pool:
        findings = list(pool.map(lambda entry: examine(entry, number_of_points, seeds=seeds), ENTRIES))
    draw(findings, out / FIGURE)
    return Result(
        name="errata",
        claims=_claims(findings),
        settings={
            "quick": quick,
            "points": number_of_points,
            "threshold": THRESHOLD,
            "step size ε in update rules": _ma_recipe.STEP,
        },
        seeds=tuple(range(seeds)),
        figures=(FIGURE,),
        entries=[plain(finding) for finding in findings],
    )


def _claims(findings: Sequence[Finding]) -> list[Claim]:
    by_key = {finding.key: finding.verdict for finding in findings}
    verdicts = {f"d = {d}": by_key[f"sgnht-(2/d)-d{d}"] for d in (1, 2, 3)}
    return [
        Claim(
            "exactly the listed formulas fail",
            all(finding.agrees for finding in findings),
            {
                "formulas": len(findings),
                "expected to fail": sum(finding.expected == "wrong" for finding in findings),
                "found to fail": sum(finding.verdict == "wrong" for finding in findings),
                "disagreements": [finding.key for finding in findings if not finding.agrees],
            },
        ),
        _closed_form_claim("naive SGHMC: the residual is εV(r² - 1)/2", _ma_momentum.NAIVE_SGHMC),
        _closed_form_claim("naive SGRHMC: the residual is -r g'/(2√g), g = G⁻¹", _ma_momentum.NAIVE_SGRHMC),
        Claim(
            "SGNHT with (2/d)(ξ - A)² in H is right at d = 2 alone",
            list(verdicts.values()) == ["wrong", "right", "wrong"],
            verdicts,
        ),
    ]


def _closed_form_claim(claim: str, key: str) -> Claim:
    numbers = compare_with_closed_form(next(entry for entry in ENTRIES if entry.key == key))
    return Claim(claim, numbers["largest difference"] <= 1e-10 * numbers["largest residual"], numbers)
