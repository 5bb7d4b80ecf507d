"""What is marked long repeats, at length, what a test that `.ci/run` runs shows: the mark names that test."""

import ast
from pathlib import Path

import pytest

from mutations._mutation import is_run

MARKS = ("pytest.mark.long", "long_case")
FILES = sorted(Path(__file__).parent.rglob("test_*.py"))


def problems_of(source: str) -> list[str]:
    """The marks `long` in a file of tests that do not name a test which `.ci/run` runs."""
    tree = ast.parse(source)
    called = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    problems = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Name | ast.Attribute) or ast.unparse(node) not in MARKS:
            continue
        call = called.get(id(node))
        reason = call.args[0] if call is not None and call.args else None
        if not (isinstance(reason, ast.Constant) and isinstance(reason.value, str)):
            problems.append(f"line {node.lineno}: which test shows the same is not said")
        elif "::" not in reason.value or not is_run(reason.value):
            problems.append(f"line {node.lineno}: there is no test {reason.value!r} that is not long")
    return problems


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_long_test_names_one_that_shows_the_same(path):
    assert problems_of(path.read_text()) == []


@pytest.mark.parametrize(
    "source",
    [
        "@pytest.mark.long\ndef test_f(): ...",
        "@pytest.mark.long()\ndef test_f(): ...",
        "pytest.param(1, marks=pytest.mark.long)",
        "mark = pytest.mark.long",
        "pytest.param(1, marks=pytest.mark.long('marks::no_such_test'))",
        "long_case('marks', 1)",
        "long_case(name, 1)",
        "[*map(long_case, cases)]",
    ],
)
def test_a_long_test_that_names_none_is_found(source):
    assert len(problems_of(source)) == 1


def test_a_long_test_that_is_shown_by_a_long_one_is_found():
    """The mark of another is looked at, whatever its arguments."""
    assert is_run("marks::a_long_test_that_names_none_is_found")
    assert not is_run("samplers::a_hundred_dimensions")
    assert not is_run("no_such_file::no_such_test")
