"""Try the tests: make each mistake of tests/mutations in a copy of the tree, and see whether a test fails.

    python tests/mutate.py                 # all of them
    python tests/mutate.py --only Γ -j 2   # those whose file or description matches, two at a time
    python tests/mutate.py --list

The exit status is 0 only where every mistake was noticed.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import conftest  # noqa: F401 - its flags for XLA, which the tests inherit
from mutations import ALL, Mutation
from mutations._mutation import ROOT

# What the tests need of the tree.
_COPIED = ("src", "tests", "benchmarks", "docs", "pyproject.toml", "README.md")
_IGNORED = shutil.ignore_patterns("__pycache__", ".*", "*.egg-info")
_KILLED, _SURVIVED = "killed", "SURVIVED"


def run(mutation: Mutation | None, selectors: list[str], cache: Path) -> tuple[str, float, str]:
    """What became of a mutation (None: the tree as it is), how many seconds it took, and pytest's output."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="fokker-mutate-") as folder:
        root = Path(folder)
        for name in _COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, root / name, ignore=_IGNORED)
            elif (ROOT / name).exists():
                shutil.copy(ROOT / name, root / name)
        if mutation is not None:
            mutation.apply(root)
        environment = {
            **os.environ,
            # Before the installed package, which is the tree itself.
            "PYTHONPATH": os.pathsep.join([str(root / "src"), os.environ.get("PYTHONPATH", "")]),
            "JAX_COMPILATION_CACHE_DIR": str(cache),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2",
        }
        # Without -x a hundred failures would be written out; one is enough.
        command = [sys.executable, "-m", "pytest", "-x", "-n", "0", "--tb=line"]
        command += ["-p", "no:cacheprovider", "-m", "not long"]
        done = subprocess.run(
            [*command, *selectors],
            cwd=root,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    verdict = {0: _SURVIVED, 1: _KILLED}.get(done.returncode, "ERROR")
    return verdict, time.perf_counter() - start, done.stdout


def chosen(pattern: str | None) -> list[Mutation]:
    """The mutations whose file, description or tests match."""
    if pattern is None:
        return ALL
    return [m for m in ALL if re.search(pattern, f"{m.file}: {m.mistake} ({', '.join(m.tests)})")]


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--only", metavar="PATTERN", help="a regular expression for file, description or test"
    )
    parser.add_argument("--list", action="store_true", help="list the mutations and do nothing")
    parser.add_argument("--baseline", action="store_true", help="run their tests on the tree as it is first")
    parser.add_argument("--verbose", action="store_true", help="show the output of what was not killed")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="how many to try at once")
    options = parser.parse_args()
    mutations = chosen(options.only)
    if not mutations:
        print(f"no mutation matches {options.only!r}; --list shows them.")
        return 2
    if options.list:
        for m in mutations:
            print(f"{m.file}: {m.mistake} ({', '.join(m.tests)})")
        print(f"{len(mutations)} mutations")
        return 0
    problems = [f"{m.mistake}: {m.problem()}" for m in mutations if m.problem()]
    if problems:
        print(*problems, sep="\n")
        return 2
    cache = Path(os.environ.get("JAX_COMPILATION_CACHE_DIR") or Path(tempfile.gettempdir()) / "fokker-mutate")
    if options.baseline:
        selectors = sorted({s for m in mutations for s in m.selectors()})
        verdict, seconds, output = run(None, selectors, cache)
        if verdict != _SURVIVED:
            print(output, "the tests do not pass on the tree as it is.", sep="\n")
            return 2
        print(f"without a mistake the tests pass ({seconds:.0f} s)", flush=True)
    left = []
    with ThreadPoolExecutor(options.jobs) as pool:
        results = pool.map(lambda m: run(m, m.selectors(), cache), mutations)
        for mutation, (verdict, seconds, output) in zip(mutations, results, strict=True):
            print(f"{verdict:8} {seconds:5.0f} s  {mutation.file}: {mutation.mistake}", flush=True)
            if verdict != _KILLED:
                left.append(mutation)
                if options.verbose or verdict == "ERROR":
                    print(output, flush=True)
    killed = len(mutations) - len(left)
    print(f"{killed} of {len(mutations)} killed, {100 * killed / len(mutations):.1f} %")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
