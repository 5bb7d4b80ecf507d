"""The table of verdicts: a fifth of it here, one or more of every kind; `make verdicts` runs it all."""

import pytest

import verdicts
import verdicts_reasons
from verdicts import Case

CASES = [*verdicts.CASES, *verdicts_reasons.CASES]


def test_the_table_is_large_and_names_each_case_once():
    assert len(CASES) >= 60
    assert len({(case.kind, case.name) for case in CASES}) == len(CASES)


def test_every_kind_is_in_every_run():
    assert {case.kind for case in CASES} == {case.kind for case in CASES if case.quick}
    assert {"right", "wrong", "undecided"} == {case.verdict for case in CASES if case.quick}


# Formulas, whose residual says it all; cases of the other kinds are each judged by a test of their own.
FORMULAS = ("papers", "temperature", "thermostats", "kinetic", "theorem 1")
REPEATED = pytest.mark.long("check::the_residual_of_every_formula")


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case,
            id=f"{case.kind}: {case.name}",
            marks=() if case.quick else REPEATED if case.kind in FORMULAS else pytest.mark.slow,
        )
        for case in CASES
    ],
)
def test_verdict(case: Case):
    report = verdicts.check(case)
    assert report.verdict == case.verdict, str(report)
    assert report.ok is (case.verdict == "right")
    assert bool(report.reasons) is not report.ok
    assert any(case.reason in reason for reason in report.reasons) or not case.reason, report.reasons
    if report.ok:
        assert report.residual <= report.tolerance
        assert report.modes or report.structure is None or "points" in case.options
