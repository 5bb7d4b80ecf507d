"""What is printed in README.md and docs/ can be used as it is: programs, commands and links."""

import builtins
import inspect
import re
import shlex
import symtable

import jax
import pytest
import typer

import fokker as fk
from documents import PAGES, README, ROOT, Block, blocks, has_print, name_of, parsed, programs, run
from fokker.cli import app

# A call of JAX's generators that uses a key: its first argument.
_USED_KEY = re.compile(r"jax\.random\.(?:normal|bernoulli|uniform|randint|split)\((\w+),")
WITH_PROGRAMS = [page for page in PAGES if programs(page)]
# Pages that take a second or two; the others are run by `make test-slow`.
QUICK = {"docs/command.md", "docs/theory/metropolis.md", "docs/coming_from/tomotopy.md"}

# What newcomers run first, with whatever Python and JAX they have: half a minute together.
FIRST = {"README.md", "docs/start.md"}


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


@pytest.mark.parametrize("page", WITH_PROGRAMS, ids=name_of)
def test_a_program_defines_what_it_uses(page):
    """In the README each alone, as they are copied from there; a page of docs/ is one story."""
    before = ""
    for block in programs(page):
        if block.not_run:
            compile(block.text, name_of(page), "exec")
            continue
        names = undefined(before + block.text)
        assert not names, f"{name_of(page)}, line {block.line}: {', '.join(sorted(names))}"
        before += "" if page == README else block.text


@pytest.mark.parametrize("page", WITH_PROGRAMS, ids=name_of)
def test_no_program_draws_twice_with_one_key(page):
    for block in programs(page):
        # Within functions one name stands for several keys.
        rows = [row for row in block.text.splitlines() if row[:1] != " "]
        keys = [key for row in rows for key in _USED_KEY.findall(row)]
        assert len(set(keys)) == len(keys), f"{name_of(page)}, line {block.line}: {keys}"


def test_what_is_not_defined_is_noticed():
    assert undefined("import numpy as np\nx = [np.sin(y) for y in z]\ndef f(a):\n    return a + b\n") == {
        "z",
        "b",
    }
    assert _USED_KEY.findall("jax.random.normal(key, (3,)) + jax.random.uniform(key, ())") == ["key", "key"]


def test_every_page_is_in_the_order_of_the_site():
    """`make docs` fails with a page that no toctree names."""
    listed = {
        (page.parent / f"{line}.md").resolve()
        for page in PAGES
        for block in blocks(page)
        if block.language == "{toctree}"
        for line in block.text.splitlines()
        if line and line[0] != ":"
    }
    pages = set(PAGES) - {README, ROOT / "docs/index.md"}
    missing = sorted(name_of(page) for page in pages - listed)
    assert not missing, f"give these a line in a toctree, such as that of docs/index.md: {', '.join(missing)}"


# Programs are run ------------------------------------------------------------------------------------------


def _case(page):
    marks = [] if name_of(page) in QUICK else [pytest.mark.slow]
    if name_of(page) in FIRST:
        marks.append(pytest.mark.dependencies)
    return pytest.param(page, marks=marks, id=name_of(page))


@pytest.mark.parametrize("page", [_case(page) for page in WITH_PROGRAMS])
# As users have it; libraries beside ours may warn of each other.
@pytest.mark.filterwarnings("default")
def test_the_programs_of_a_page_run_and_print_what_it_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with jax.numpy_rank_promotion("allow"):
        assert not run(name_of(page), programs(page))


def test_few_programs_are_not_run_and_each_says_why():
    reasons = [f"{name_of(page)}: {b.not_run}" for page in PAGES for b in programs(page) if b.not_run]
    reasons = [reason for reason in reasons if not reason.endswith("`make test-bambi` runs it")]
    assert len(reasons) <= 12, reasons
    assert all(re.search(r": needs \w+", reason) for reason in reasons), reasons


def unseen(page, program_blocks):
    """The blocks that print and show nothing, without a word why."""
    return [
        f"{page}, line {block.line} prints: show it in a block of `text`, or print nothing"
        for block in program_blocks
        if not (block.not_run or block.not_shown) and block.output is None and has_print(block.text)
    ]


@pytest.mark.parametrize("page", WITH_PROGRAMS, ids=name_of)
def test_what_a_program_prints_is_shown(page):
    """Without running them; what is printed by other means is noticed where they are run."""
    assert not unseen(name_of(page), programs(page))


def test_few_outputs_are_not_shown_and_each_says_why():
    reasons = [
        f"{name_of(page)}, line {block.line}: {block.not_shown}"
        for page in PAGES
        if page.parent.name != "notebooks"
        for block in programs(page)
        if block.not_shown
    ]
    assert len(reasons) <= 4, reasons
    assert all(re.search(r": \w+ \w+", reason) for reason in reasons), reasons


def test_a_notebook_asserts_what_it_says_of_its_draws():
    """The site shows what its cells print, and no test compares it: a grade or a verdict is asserted too."""
    for page in sorted((ROOT / "docs/notebooks").glob("*.md")):
        text = "".join(block.text for block in programs(page))
        said = {word for word in ("grade", "verdict", "trusted") if f".{word}" in text}
        asserted = "".join(line for line in text.splitlines() if line.startswith("assert "))
        assert all(f".{word}" in asserted for word in said), name_of(page)


_PAGE = """Text.

```python
x = 2
print(x + 0.5)
```

```text
{output}
```

<!-- not run: needs a thing that is not here -->

```python
import not_here
```

```python
print(x)
```

Said in between.

```text
not what it prints
```

<!-- output not shown: x again -->

```python
print(x)
```

```{{code-cell}} ipython3
print(x)
```
"""


def test_what_is_printed_differently_is_noticed():
    assert run("page", parsed(_PAGE.format(output="2.5"))[:1]) == []
    assert run("page", parsed(_PAGE.format(output="2..."))[:1]) == []
    assert run("page", parsed(_PAGE.format(output="2.4"))[:1]) == ["page, line 4 prints\n2.5\n"]
    python = [block for block in parsed(_PAGE.format(output="2.5")) if block.language == "python"]
    assert [block.output for block in python] == ["2.5\n", None, None, None, None]
    assert [block.not_run for block in python] == [None, "needs a thing that is not here", None, None, None]
    assert run("page", python) == ["page, line 19 prints\n2\n"]
    with pytest.raises(NameError):  # each page starts empty
        run("page", python[2:])


def test_a_print_without_its_output_is_noticed():
    python = [block for block in parsed(_PAGE.format(output="2.5")) if block.language == "python"]
    assert [block.not_shown for block in python] == [None, None, None, "x again", "the site shows it"]
    assert len(unseen("page", python)) == 1
    assert "line 19" in unseen("page", python)[0]
    assert has_print("for x in y:\n    print(x)\n")
    assert not has_print("def f(x):\n    print(x)\n\n\ntrace.print = lambda x: print(x)\n")


def test_numbers_that_are_about_right_pass_and_others_do_not():
    page = _PAGE.replace("Text.", "<!-- numbers: about -->")
    page = page.replace("```python\nprint(x)", "<!-- numbers: about -->\n\n```python\nprint(x)", 1)
    assert [b.not_run is None for b in parsed(page) if b.language == "python"] == [True, False, True, True]
    near, far, other = (
        run("page", parsed(page.format(output=output))[:1]) for output in ("2.4", "3.4", "2.5 too")
    )
    assert near == []
    assert far
    assert other


# Tables of settings -----------------------------------------------------------------------------------------


def unknown_settings(text):
    """The settings in the last column of tables of samplers that the samplers of their row do not have."""
    found = []
    for table in re.findall(r"^\|.*\| settings[^|]*\|\n((?:\|.*\n)+)", text, re.MULTILINE):
        for row in table.splitlines()[1:]:
            cells = row.strip("| ").split(" | ")
            for name in re.findall(r"`(\w+)`", cells[0]):
                known = inspect.signature(getattr(fk.samplers, name)).parameters
                # The last cell may be empty.
                last = re.findall(r"`(\w+)`", cells[2]) if len(cells) > 2 else []
                found += [f"{name}: {setting}" for setting in last if setting not in known]
    return found


def test_the_settings_in_the_tables_of_samplers_are_theirs():
    text = (ROOT / "docs/sampling.md").read_text(encoding="utf-8")
    assert not unknown_settings(text)
    for right, wrong in (("`friction`, `thermostat_mass`", "`frction`"), ("`persistence`", "`x`")):
        assert len(unknown_settings(text.replace(f"| {right}", f"| {wrong}"))) == 1


# Commands and links -----------------------------------------------------------------------------------------


def commands(block: Block):
    """The lines of a block that call `fokker`, with what follows a backslash."""
    for line in block.text.replace("\\\n", " ").splitlines():
        for part in re.split(r"\s\|\s|&&", line.split(" #")[0]):
            if part.strip().startswith("fokker "):
                yield shlex.split(part)


def unknown(words):
    """The first word of a command that `fokker` does not know; None where it knows all."""
    whole = command = typer.main.get_command(app)
    for word in words[1:]:
        # `fokker lda CORPUS` is short for `fokker lda run CORPUS`.
        if command is not whole and word not in getattr(command, "commands", {word: None}):
            command = command.commands.get("run", command)
        if word.startswith("-") and word != "-":
            option = word.split("=")[0]
            if option not in {o for p in command.params for o in (*p.opts, *p.secondary_opts)}:
                return option
        elif word in getattr(command, "commands", {}):
            command = command.commands[word]
        elif command is whole:
            return word
    return None


def test_the_commands_shown_exist_with_their_options():
    found = [
        (f"{name_of(page)}, line {block.line}", words)
        for page in PAGES
        for block in blocks(page)
        if block.language in ("sh", "")
        for words in commands(block)
    ]
    assert len(found) > 40
    assert not [(where, " ".join(words)) for where, words in found if unknown(words)]


def test_an_unknown_option_is_noticed():
    assert unknown(["fokker", "sample", "model.py", "--steps", "10", "--stops", "3"]) == "--stops"
    assert unknown(["fokker", "simple"]) == "simple"
    assert unknown(["fokker", "lda", "infer", "news", "-", "--out", "x.csv"]) is None


def test_the_targets_of_make_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    called = {
        word
        for page in PAGES
        for word in re.findall(
            r"(?:`|^)make ([a-z-]+)(?=[`\s])(?! as| a)", page.read_text(encoding="utf-8"), re.MULTILINE
        )
    }
    assert called <= targets


_LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(text):
    """The anchors of a page's headings, as GitHub makes them, and its labels."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return slugs | set(re.findall(r"^\(([\w-]+)\)=$", text, re.MULTILINE))


def broken_links(text, page, generated):
    """The links of a page to files or anchors that are not there; `generated` pages are made by the site."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    broken = []
    for link in _LINK.findall(re.sub(r"`[^`]*`", "", text)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        file = (page.parent / path).resolve() if path else page
        inside = file.relative_to(ROOT).as_posix() if file.is_relative_to(ROOT) else link
        if inside.startswith("docs/generated/"):
            missing = inside.removeprefix("docs/generated/") not in generated
        else:
            missing = not file.exists() or (
                anchor and anchor not in anchors(file.read_text(encoding="utf-8"))
            )
        if missing:
            broken.append(link)
    return broken


def test_every_link_leads_somewhere():
    from site_names import GENERATED

    for page in (*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"):
        found = broken_links(page.read_text(encoding="utf-8"), page, GENERATED)
        assert not found, f"{name_of(page)}: {found}"


def test_a_link_to_nothing_is_noticed():
    text = (
        "[a](docs/start.md#install) [b](docs/stop.md) [c](docs/start.md#nothing) [d](https://x.org) "
        "[e](docs/generated/x.md)"
    )
    assert broken_links(text, README, set()) == [
        "docs/stop.md",
        "docs/start.md#nothing",
        "docs/generated/x.md",
    ]
    assert broken_links(text, README, {"x.md"}) == ["docs/stop.md", "docs/start.md#nothing"]
