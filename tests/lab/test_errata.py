"""The checker tells every formula that is printed wrong from its correction, and no other."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import quick_compiling
from fokker.checker._residual import exact_residuals
from fokker.dynamics.problem import make_problem
from fokker.lab.experiments import EXPERIMENTS, Claim, Result, errata, reproduce
from fokker.lab.experiments.errata import ENTRIES, Entry, _ma_momentum
from fokker.lab.experiments.errata._entry import THRESHOLD, Measurement

_KEYS = {"name", "settings", "seeds", "versions", "wall_seconds", "figures", "claims", "entries"}
_ENTRY_KEYS = {"key", "source", "what", "residual", "expected", "verdict", "agrees", "reasons"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("errata")


# What the claims and tests name; of every twelfth other the residual is looked at in every run, and
# `fokker reproduce errata` and the long tests run them all.
NAMED = {
    "article-underdamped-Q",
    _ma_momentum.NAIVE_SGHMC,
    _ma_momentum.NAIVE_SGRHMC,
    *(f"sgnht-(2/d)-d{d}" for d in (1, 2, 3)),
}
SOME = [entry for entry in ENTRIES if entry.key in NAMED]


@pytest.fixture(scope="module")
def result(folder: Path) -> Iterator[Result]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(errata, "ENTRIES", SOME)
        with quick_compiling():
            found = reproduce("errata", folder, quick=True)
        yield found


# A formula as it is printed, and the next one, its correction, are mostly alike but for one term.
OTHERS = [entry for entry in ENTRIES if entry not in SOME]


@pytest.mark.parametrize(
    "entry",
    [pytest.param(e, id=e.key, marks=() if i % 12 == 0 else pytest.mark.slow) for i, e in enumerate(OTHERS)],
)
@pytest.mark.usefixtures("x64")
def test_the_residual_of_the_others(entry: Entry) -> None:
    """Of those not in `SOME` the residual alone, which takes a tenth of the time of the whole checker."""
    subject = entry.build()
    if isinstance(subject, Measurement):
        residual = subject.residual
    else:
        problem = make_problem(subject, state=entry.state())
        points = np.random.default_rng(0).normal(size=(8, problem.dimension))
        residual = float(np.max(exact_residuals(problem, points).relative))
    assert (residual <= THRESHOLD) is (entry.expected == "right")


@pytest.mark.long("errata::formula_is_judged_as_expected")
def test_every_formula_is_judged_as_expected(tmp_path: Path) -> None:
    whole = reproduce("errata", tmp_path, quick=True)
    assert [entry["key"] for entry in whole.entries if entry["verdict"] != entry["expected"]] == []
    assert len(whole.entries) == len(ENTRIES)


@pytest.fixture(scope="module")
def findings(result: Result) -> dict[str, Any]:
    return {entry["key"]: entry for entry in result.entries}


def test_entries_are_named_once() -> None:
    keys = [entry.key for entry in ENTRIES]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("key", [entry.key for entry in SOME])
def test_formula_is_judged_as_expected(findings: dict[str, Any], key: str) -> None:
    finding = findings[key]
    assert finding["verdict"] == finding["expected"], finding
    if finding["expected"] == "right":
        assert finding["residual"] <= 1e-8
    else:
        assert finding["residual"] >= 1e-3


def test_friction_in_Q_is_named(findings: dict[str, Any]) -> None:
    assert "not skew" in findings["article-underdamped-Q"]["reasons"][0]


def test_every_claim_holds(result: Result) -> None:
    assert [claim.claim for claim in result.claims if not claim.holds] == []
    assert len(result.claims) == 4


def test_result_file_is_json_with_the_documented_keys(folder: Path, result: Result) -> None:
    def refuse(token: str) -> None:
        raise AssertionError(f"{token} is not JSON")

    read = json.loads((folder / "result.json").read_text(encoding="utf-8"), parse_constant=refuse)
    assert set(read) == _KEYS
    assert all(set(claim) == {"claim", "holds", "numbers"} for claim in read["claims"])
    assert all(set(entry) == _ENTRY_KEYS for entry in read["entries"])
    assert len(read["entries"]) == len(SOME)
    assert all((folder / name).stat().st_size > 10_000 for name in read["figures"])
    assert {"python", "fokker", "jax", "numpy"} <= set(read["versions"])


@pytest.mark.long("errata::friction_in_Q_is_named")
@pytest.mark.parametrize(
    ("key", "word"), [("ma-eq11", "friction"), ("ma-eq14-printed", "Γ"), ("sgnht-arxiv-D", "not symmetric")]
)
def test_the_whole_checker_agrees_and_gives_a_reason(key: str, word: str) -> None:
    entry = next(entry for entry in ENTRIES if entry.key == key)
    finding = errata.examine(entry, explain=True)
    assert finding.verdict == "wrong"
    assert any(word in reason for reason in finding.reasons), finding.reasons


def test_unknown_experiment_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no experiment 'erata'\. Did you mean 'errata'"):
        reproduce("erata", tmp_path)
    assert "errata" in EXPERIMENTS


def test_result_writes_null_for_what_is_not_a_number(tmp_path: Path) -> None:
    result = Result("x", [Claim("c", False, {"a": float("nan"), "b": [float("inf"), 1.0]})], wall_seconds=1.0)
    result.write(tmp_path)
    read = json.loads((tmp_path / "result.json").read_text(encoding="utf-8"))
    assert read["claims"][0]["numbers"] == {"a": None, "b": [None, 1.0]}
    assert "entries" not in read
    assert result.table().row_count == 1
    assert not result.holds
