"""The programs in README.md and docs/ can be run as they are, in docs/ after those before them on a page."""

import builtins
import re
import symtable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
# A call of JAX's generators that uses a key: its first argument.
_USED_KEY = re.compile(r"jax\.random\.(?:normal|bernoulli|uniform|randint|split)\((\w+),")


def programs(page):
    """The line and the text of each program of a page."""
    text = page.read_text(encoding="utf-8")
    return [(text[: block.start()].count("\n") + 2, block[1]) for block in _BLOCK.finditer(text)]


def tables(table):
    yield table
    for inner in table.get_children():
        yield from tables(inner)


def undefined(program):
    """Names that a program uses and does not define."""
    module = symtable.symtable(program, "program", "exec")
    defined = {s.get_name() for s in module.get_symbols() if s.is_assigned() or s.is_imported()}
    used = {
        symbol.get_name()
        for table in tables(module)
        for symbol in table.get_symbols()
        if symbol.is_referenced() and (table is module or symbol.is_global())
    }
    return used - defined - set(vars(builtins))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_program_defines_what_it_uses(page):
    """In the README each alone, as they are copied from there; a page of docs/ is one story."""
    before = ""
    for line, program in programs(page):
        names = undefined(before + program)
        assert not names, f"{page.name}, line {line}: {', '.join(sorted(names))}"
        before += "" if page == README else program


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_program_draws_twice_with_one_key(page):
    for line, program in programs(page):
        # Within functions one name stands for several keys.
        keys = [key for row in program.splitlines() if row[:1] != " " for key in _USED_KEY.findall(row)]
        assert len(set(keys)) == len(keys), f"{page.name}, line {line}: {keys}"


def test_what_is_not_defined_is_noticed():
    assert undefined("import numpy as np\nx = [np.sin(y) for y in z]\ndef f(a):\n    return a + b\n") == {
        "z",
        "b",
    }
    assert _USED_KEY.findall("jax.random.normal(key, (3,)) + jax.random.uniform(key, ())") == ["key", "key"]
