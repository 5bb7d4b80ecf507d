"""The pages of the documentation, and their programs run as they are printed.

A block of `python` is run after those before it on its page, in a namespace that starts empty. A block of
`text` that follows it directly is what it prints; `...` in it stands for any text. A comment
`<!-- not run: REASON -->` before a block says why it is only read; `<!-- numbers: about -->` that other
releases of JAX print other draws: numbers may then differ by a quarter, or by 0.2. A block that prints and
shows no output would hide any change of it: it says why, `<!-- output not shown: REASON -->`. The cells of a
notebook need no reason: the site shows what they print.
"""

import ast
import contextlib
import doctest
import io
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
# Pages that are made when the site is built are checked where they are made.
PAGES = [
    README,
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if not {"generated", "_build"} & {*page.parts}),
]
_FENCE = re.compile(
    r"^(?P<fence>`{3,})(?P<language>[^\n`]*)\n(?P<text>.*?)^(?P=fence)[ ]*$", re.DOTALL | re.MULTILINE
)
_NOT_RUN = re.compile(r"<!-- not run: ((?:(?!-->).)+?) -->\s*$", re.DOTALL)
_NOT_SHOWN = re.compile(r"<!-- output not shown: ((?:(?!-->).)+?) -->\s*$", re.DOTALL)
_ABOUT = re.compile(r"<!-- numbers: about -->\s*$")
_NUMBER = re.compile(r"-?\d[\d,]*\.?\d*")
_CHECKER = doctest.OutputChecker()


class Block(NamedTuple):
    """A block of a page: its language, first line and text, what it prints, and why it is not run.

    `about`: whether its numbers may differ a little. `not_shown`: why the page does not show what it prints.
    """

    language: str
    line: int
    text: str
    output: str | None
    not_run: str | None
    about: bool = False
    not_shown: str | None = None


def name_of(page: Path) -> str:
    """A page by its path in the repository."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page, in order. Cells of a notebook count as Python."""
    return parsed(page.read_text(encoding="utf-8"))


def parsed(text: str) -> list[Block]:
    """The blocks of the text of a page."""
    found = list(_FENCE.finditer(text))
    result = []
    for number, block in enumerate(found):
        before = text[: block.start()]
        is_cell = block["language"].startswith("{code-cell}")
        language = "python" if is_cell else block["language"].strip()
        output = None
        for following in found[number + 1 : number + 2]:
            if following["language"].strip() == "text" and not text[block.end() : following.start()].strip():
                output = following["text"]
        not_run, not_shown = _NOT_RUN.search(before), _NOT_SHOWN.search(before)
        result.append(
            Block(
                language,
                before.count("\n") + 2,
                block["text"],
                output,
                not_run[1] if not_run else None,
                _ABOUT.search(before) is not None,
                "the site shows it" if is_cell else not_shown[1] if not_shown else None,
            )
        )
    return result


def programs(page: Path) -> list[Block]:
    """The programs in Python of a page."""
    return [block for block in blocks(page) if block.language == "python"]


def has_print(program: str) -> bool:
    """Whether a program calls `print`, outside of the functions that it defines."""
    left: list[ast.AST] = [ast.parse(program)]
    while left:
        node = left.pop()
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            return True
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            left += ast.iter_child_nodes(node)
    return False


@contextlib.contextmanager
def _module(name: str) -> Iterator[dict[str, object]]:
    """An empty namespace that classes and pickles can find."""
    module = types.ModuleType(name)
    sys.modules[name] = module
    try:
        yield vars(module)
    finally:
        del sys.modules[name]


def _is_same(block: Block, printed: str) -> bool:
    """Whether a program prints what its page shows."""
    wanted = block.output or ""
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    if not block.about:
        return _CHECKER.check_output(wanted, printed, options)
    if not _CHECKER.check_output(_NUMBER.sub("#", wanted), _NUMBER.sub("#", printed), options):
        return False
    # What stands before the first "...": behind it the numbers are not those of the page any more.
    shown = _NUMBER.findall(wanted.split("...")[0])
    pairs = zip(shown, _NUMBER.findall(printed), strict=False)
    return all(_is_near(*(float(x.replace(",", "")) for x in pair)) for pair in pairs)


def _is_near(wanted: float, found: float) -> bool:
    # Effective draws, of tails above all, differ by more than other numbers from machine to machine.
    share = 1 / 2 if abs(wanted) >= 100 else 1 / 4
    return abs(wanted - found) <= max(0.2, share * abs(wanted))


def run(page: str, programs: list[Block]) -> list[str]:
    """Run the programs of a page in order; what they print differently from what is shown, or unseen."""
    differences = []
    with _module("page") as namespace:
        for block in programs:
            if block.not_run:
                continue
            printed = io.StringIO()
            code = compile("\n" * (block.line - 1) + block.text, page, "exec")
            with contextlib.redirect_stdout(printed):
                exec(code, namespace)
            is_hidden = block.output is None and (block.not_shown or not printed.getvalue())
            if not is_hidden and not _is_same(block, printed.getvalue()):
                differences.append(f"{page}, line {block.line} prints\n{printed.getvalue()}")
    return differences
