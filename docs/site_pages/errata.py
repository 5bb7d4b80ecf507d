# ruff: noqa: E501
"""The page of errata, from the checker's own findings: `python -m site_pages.errata` in docs/ writes it.

The checker takes minutes for all formulas, so that the page is part of the repository; `tests/test_site.py`
compares it with the list of formulas, and `make docs` shows it as it is.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from fokker.lab.experiments import errata

__all__ = ["PAGE", "page", "rows"]

PAGE = Path(__file__).resolve().parents[1] / "theory" / "errata.md"
_HEAD = """# Errata

Written by the checker: `fokker reproduce errata` runs it on these formulas of the papers, as printed and as corrected.
A formula is right if the residual of the stationary Fokker–Planck equation, as a share of its terms, vanishes up to
rounding. The residuals are those at 512 points in double precision. Of formulas that are not a drift another identity is
measured.

The documents are Y.-A. Ma, T. Chen, E. B. Fox, “A complete recipe for stochastic gradient MCMC” (arXiv and NIPS versions,
2015), N. Ding et al., “Bayesian sampling using stochastic gradient thermostats” (2014), and an article of 2026 on Langevin and Hamiltonian
dynamics. Their ideas are right; nearly all of these are signs and factors in print. The most consequential one is the sign of
Γ in the update rule of the recipe (Eq. 6 and 9). Some are wrong on purpose: the papers show them as such.

"""


def rows(findings: list[dict[str, Any]]) -> list[str]:
    """The rows of the table, in the order of the list of formulas."""
    return [
        f"| {_cell(finding['source'])} | {_cell(finding['what'])} | {'**wrong**' if finding['verdict'] == 'wrong' else 'right'} "
        f"| {finding['residual']:.1g} |"
        for finding in findings
    ]


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("*", r"\*")


def page(findings: list[dict[str, Any]]) -> str:
    """The text of the page."""
    wrong = sum(finding["verdict"] == "wrong" for finding in findings)
    table = "\n".join(rows(findings))
    return (
        f"{_HEAD}Of {len(findings)} formulas {wrong} do not keep the target.\n\n"
        f"| where | formula | verdict | residual |\n| --- | --- | --- | --- |\n{table}\n"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--result", type=Path, help="result.json of `fokker reproduce errata`, if it was run already"
    )
    given = parser.parse_args().result
    if given:
        found = json.loads(given.read_text(encoding="utf-8"))["entries"]
    else:
        with tempfile.TemporaryDirectory() as folder:
            found = errata.run(Path(folder), quick=False, seeds=1).entries
    PAGE.write_text(page(found), encoding="utf-8")
