"""What a mutation is, and how one is applied to a copy of the source."""

import ast
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]


@cache
def _in_every_run(path: Path) -> set[str]:
    """The tests of a file that are not marked long as a whole."""
    found = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)]
    long = "pytest.mark.long"
    return {test.name for test in found if long not in map(ast.unparse, test.decorator_list)}


class Mutation(NamedTuple):
    """One plausible mistake: `find`, which occurs once in `file`, replaced by `replace`.

    `file` is relative to src/fokker. `tests` are those that should notice: "fields" is tests/test_fields.py,
    "fields::a_probe_is_ignored" the test test_a_probe_is_ignored in it.
    """

    file: str
    find: str
    replace: str
    mistake: str
    tests: tuple[str, ...]

    @property
    def path(self) -> Path:
        """Where the file is, relative to the root of the repository."""
        return Path("src/fokker") / self.file

    def problem(self, root: Path = ROOT) -> str | None:
        """Why it cannot be applied to the tree at `root`, or None."""
        path = root / self.path
        if not path.is_file():
            return f"{self.path} does not exist"
        times = path.read_text().count(self.find)
        if times != 1:
            return f"{self.path} has {self.find!r} {times} times, not once: give the text as it is now"
        if self.find == self.replace:
            return "it changes nothing"
        for test in self.tests:
            file, _, name = test.partition("::")
            tests = root / "tests" / f"test_{file}.py"
            if not tests.is_file() or (name and f"test_{name}" not in _in_every_run(tests)):
                return f"there is no test {test!r}, or it is marked long"
        return None if self.tests else "it names no test"

    def apply(self, root: Path) -> None:
        """Make the mistake in the tree at `root`."""
        path = root / self.path
        path.write_text(path.read_text().replace(self.find, self.replace))

    def selectors(self) -> list[str]:
        """Its tests as pytest wants them."""
        parts = (test.partition("::") for test in self.tests)
        return [f"tests/test_{file}.py" + (f"::test_{name}" if name else "") for file, _, name in parts]
