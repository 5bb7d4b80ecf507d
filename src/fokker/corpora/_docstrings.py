"""The built-in corpus: the docstrings of Python's standard library."""

import ast
import functools
import random
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fokker.corpora._source import Text, TextSource
from fokker.corpora._tally import Tally

_MINIMUM_WORDS = 20
_SEED = 0
# Tests, installed packages, and packages with much code and little text.
_SKIPPED_FOLDERS = {
    "__pycache__",
    "dist-packages",
    "encodings",
    "idlelib",
    "lib2to3",
    "pydoc_data",
    "site-packages",
    "test",
    "tests",
}


class Docstrings(TextSource):
    """The docstrings of at least 20 words of all modules, classes and functions in a folder.

    The files are parsed, not imported. The order is shuffled with a fixed seed; duplicates are removed.
    """

    portable = False  # parsing all files again in another process costs more than it saves

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or Path(sysconfig.get_paths()["stdlib"])
        self.label = f"the docstrings below {self.folder}"

    def texts(self, tally: Tally) -> Iterator[Text]:
        """The docstrings, each with its qualified name, such as `json.decoder.JSONDecoder.decode`."""
        for name, text in _all_docstrings(self.folder):
            yield name, (text,)


@functools.lru_cache(maxsize=2)
def _all_docstrings(folder: Path) -> tuple[tuple[str, str], ...]:
    texts: dict[str, str] = {}
    for path in sorted(folder.rglob("*.py")):
        relative_path = path.relative_to(folder)
        if _SKIPPED_FOLDERS.isdisjoint(relative_path.parts):
            for name, text in _docstrings_of_file(path, ".".join(relative_path.with_suffix("").parts)):
                texts.setdefault(text, name)
    documents = [(name, text) for text, name in texts.items()]
    random.Random(_SEED).shuffle(documents)
    return tuple(documents)


def _docstrings_of_file(path: Path, module: str) -> Iterator[tuple[str, str]]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about invalid escapes in these files
            tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, RecursionError):
        return

    def walk(node: Any, name: str) -> Iterator[tuple[str, str]]:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node) or ""
            if len(text.split()) >= _MINIMUM_WORDS:
                yield name, text
        # Not `ast.walk`: most of a tree is expressions, which have no docstrings.
        for child in (*getattr(node, "body", ()), *getattr(node, "orelse", ())):
            yield from walk(child, f"{name}.{child.name}" if hasattr(child, "name") else name)

    yield from walk(tree, module.removesuffix(".__init__"))
