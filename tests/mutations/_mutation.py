"""What a mutation is, and how one is applied to a copy of the source."""

import ast
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]


def _file_of(name: str, root: Path = ROOT) -> Path | None:
    """The file of tests with this name, in whichever folder; None without one."""
    return next((root / "tests").rglob(f"test_{name}.py"), None)


@cache
def _not_long(path: Path) -> set[str]:
    """The tests of a file that are not marked long as a whole."""
    tests = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)]
    return {
        test.name
        for test in tests
        if not any(ast.unparse(mark).startswith("pytest.mark.long") for mark in test.decorator_list)
    }


def is_run(test: str, root: Path = ROOT) -> bool:
    """Whether there is such a test, "fields" or "fields::name", that `.ci/run` runs, slow or not."""
    file, _, name = test.partition("::")
    path = _file_of(file, root)
    return path is not None and (not name or f"test_{name}" in _not_long(path))


class Mutation(NamedTuple):
    """One plausible mistake: `find`, which occurs once in `file`, replaced by `replace`.

    `file` is relative to src/fokker. `tests` are those that should notice: "fields" is the file
    tests/fields/test_fields.py, "fields::a_probe_is_ignored" the test test_a_probe_is_ignored in it.
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
            if not is_run(test, root):
                return f"there is no test {test!r}, or it is marked long"
        return None if self.tests else "it names no test"

    def apply(self, root: Path) -> None:
        """Make the mistake in the tree at `root`."""
        path = root / self.path
        path.write_text(path.read_text().replace(self.find, self.replace))

    def selectors(self) -> list[str]:
        """Its tests as pytest wants them."""
        parts = (test.partition("::") for test in self.tests)
        files = ((_file_of(file), name) for file, _, name in parts)
        return [
            str(path.relative_to(ROOT)) + (f"::test_{name}" if name else "") for path, name in files if path
        ]
