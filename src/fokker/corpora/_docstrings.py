"""A corpus that every machine has: the docstrings of Python's standard library."""

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
# Tests, what is installed beside the library, and what has much code and little to read.
_LEFT_OUT = {
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
    """The docstrings of the modules, classes and functions below a folder, those of at least 20 words.

    The files are parsed, not imported. The order is shuffled, always the same way; doubles are left out.
    """

    portable = False  # to parse all files again in another process costs more than it saves

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or Path(sysconfig.get_paths()["stdlib"])
        self.label = f"the docstrings below {self.folder}"

    def texts(self, tally: Tally) -> Iterator[Text]:
        """The docstrings, named by where they are: `json.decoder.JSONDecoder.decode`."""
        for name, text in _found(self.folder):
            yield name, (text,)


@functools.lru_cache(maxsize=2)
def _found(folder: Path) -> tuple[tuple[str, str], ...]:
    texts: dict[str, str] = {}
    for path in sorted(folder.rglob("*.py")):
        below = path.relative_to(folder)
        if _LEFT_OUT.isdisjoint(below.parts):
            for name, text in _docstrings(path, ".".join(below.with_suffix("").parts)):
                texts.setdefault(text, name)
    documents = [(name, text) for text, name in texts.items()]
    random.Random(_SEED).shuffle(documents)
    return tuple(documents)


def _docstrings(path: Path, module: str) -> Iterator[tuple[str, str]]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of other people's escapes
            tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, RecursionError):
        return

    def walk(node: Any, name: str) -> Iterator[tuple[str, str]]:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node) or ""
            if len(text.split()) >= _MINIMUM_WORDS:
                yield name, text
        # Not `ast.walk`: nearly all of a tree is expressions, which hold no docstrings.
        for child in (*getattr(node, "body", ()), *getattr(node, "orelse", ())):
            yield from walk(child, f"{name}.{child.name}" if hasattr(child, "name") else name)

    yield from walk(tree, module.removesuffix(".__init__"))
