"""The picture of the layout in CONTRIBUTING.md is that of the imports: no part imports one above it.

`import fokker` counts as an import of each public name that is used of it, and lazy imports count as others.
And the source stays small: what is measured has limits.
"""

import ast
import re
from pathlib import Path

import pytest

import fokker as fk
import measures
from measures import ROOT, SOURCE, imports

# What may not grow: `python tests/measures.py` shows what these numbers are now, and of what.
LIMITS = {
    "lines of code outside lab": 48_600,  # in steps of 100, so that not every change has to raise it
    "parameters annotated Any, of 1,000": 50,
    "files over 400 lines": 0,
    "functions over 60 lines of code": 5,
    "loops that drive chains": 5,
    "lazy imports that only break a cycle": 0,
}


def layers():
    """The parts of the package by their height in the picture: a line `1. name, name: …` for each layer."""
    lines = re.findall(r"^(\d+)\. ((?:`\w+`(?:, )?)+)", (ROOT / "CONTRIBUTING.md").read_text(), re.M)
    return {part: int(height) for height, parts in lines for part in re.findall(r"`(\w+)`", parts)}


def upward(part, tree, heights):
    """Imports of a file of this part that do not point downwards, or stay within it."""
    imported = {name.split(".")[1] for name, _ in imports(tree, fk._HOMES)} - {part}
    return sorted(other for other in imported if heights[other] >= heights[part])


FILES = sorted(path.relative_to(SOURCE) for path in SOURCE.rglob("*.py") if path.parent != SOURCE)
# An option of the command line, in a text or a comment; not one of XLA.
FLAG = re.compile(r"(?<![\w-])--(?!xla_)[a-z]")


def test_every_part_has_its_place():
    parts = {path.parts[0] for path in FILES}
    assert parts == set(layers())
    assert {p.name for p in SOURCE.glob("*.py")} == {"__init__.py", "__main__.py"}


def test_no_import_points_upwards():
    heights = layers()
    files = [module for module in measures.modules() if module.part in heights]
    assert not {str(m.path): above for m in files if (above := upward(m.part, m.tree, heights))}


@pytest.mark.parametrize(
    "source",
    [
        "from fokker.run.loop import Run",
        "def f():\n    from fokker import run",
        "import fokker.run.loop",
        "import fokker\nfokker.sample()",
        "def f():\n    import fokker as fk\n    return fk.Trace",
    ],
)
def test_an_import_that_points_upwards_is_seen(source):
    assert upward("samplers", ast.parse(source), layers()) == ["run"]
    guarded = "if TYPE_CHECKING:\n" + "".join(f"    {line}\n" for line in source.splitlines())
    assert not upward("samplers", ast.parse(guarded), layers())


def test_the_library_knows_no_option_of_the_command_line():
    """Its messages name arguments of Python; `fokker.cli.flags` translates them."""
    texts = {str(path): (SOURCE / path).read_text() for path in FILES if path.parts[0] != "cli"}
    assert not [path for path, text in texts.items() if FLAG.search(text) or "import typer" in text]
    assert FLAG.search('f"give --batch-size {size}"')
    assert not FLAG.search("XLA_FLAGS=--xla_force_host_platform_device_count=2")


def test_the_source_stays_within_its_limits():
    print(measures.table())
    lines, untyped = measures.code_lines(), measures.untyped_parameters().values()
    measured = (
        lines.total() - lines["lab"],
        1000 * sum(bare for bare, _ in untyped) / sum(total for _, total in untyped),
        len(measures.long_files()),
        len(measures.long_functions()),
        len(measures.chain_loops()),
        len(measures.lazy_imports_in_cycles(fk._HOMES)),
    )
    now = dict(zip(LIMITS, measured, strict=True))
    above = [f"{name}: {now[name]:,g}, above {LIMITS[name]:,}" for name in LIMITS if now[name] > LIMITS[name]]
    advice = "find what is done twice; where the source must grow, raise LIMITS and say why"
    assert not above, "\n".join([advice, *above])


def test_lines_of_code_are_those_of_neither_comments_nor_docstrings():
    source = (
        '"""Of the module."""\n\n# why\ndef f(\n    x,  # so\n):\n    """Of f."""\n    return """\ntext"""\n'
    )
    assert measures.Module(Path("f.py"), source).code == {4, 5, 6, 8, 9}


@pytest.mark.parametrize(
    "lazy",
    [
        "from fokker.run.loop import Run",
        "from fokker.run import loop",
        "import fokker.run.loop",
        "import fokker as fk\n    fk.sample()",
    ],
)
def test_a_lazy_import_that_breaks_a_cycle_is_seen(monkeypatch, lazy):
    sources = {
        "run/start.py": f"def f():\n    {lazy}",
        "run/loop.py": "from fokker.run.middle import x",
        "run/api.py": "from fokker.run.middle import x",
        "run/middle.py": "import fokker.run.start",
    }

    def cycles():
        read = tuple(measures.Module(Path(p), s) for p, s in sources.items())
        monkeypatch.setattr(measures, "modules", lambda: read)
        return measures.lazy_imports_in_cycles(fk._HOMES)

    (cycle,) = cycles()
    assert cycle.startswith("fokker.run.start → fokker.run.")
    # Without the way back it is lazy for another reason.
    sources["run/middle.py"] = "if TYPE_CHECKING:\n    import fokker.run.start"
    assert not cycles()


def test_a_loop_that_drives_chains_is_seen(monkeypatch):
    source = """
def by_hand(sampler, state):
    for _ in range(3):
        state, _ = sampler.step(key, state)

def compiled(sampler, state):
    def body(state, key):
        return sampler.step(key, state)
    return jax.lax.scan(body, state, keys)

def one(sampler, state):
    return sampler.step(key, state)

def other(files):
    for file in files:
        file.read()

def given(step, state):
    return jax.lax.scan(step, state, keys)

def called(step, state):
    return jax.lax.scan(lambda state, key: step(key, state), state, keys)

def its_own(x):
    def step(x, _):
        return x / 2, None
    return jax.lax.scan(step, x, length=3)

def trajectory(sampler, path):
    return jax.lax.while_loop(sampler.is_done, lambda path: sampler.move(path), path)
"""
    files = [measures.Module(Path(part) / "new.py", source) for part in ("models", "samplers", "corrections")]
    monkeypatch.setattr(measures, "modules", lambda: files)
    seen = ["by_hand", "compiled", "given", "called"]
    # A trajectory is one step of a sampler, and what a correction loops over is within it.
    assert measures.chain_loops() == [
        *(f"models/new.py:{name}" for name in [*seen, "trajectory"]),
        *(f"samplers/new.py:{name}" for name in seen),
    ]
