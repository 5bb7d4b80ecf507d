"""The picture of the layout in CONTRIBUTING.md is that of the imports: no part imports one above it.

`import fokker` counts as an import of each public name that is used of it, and lazy imports count as others.
"""

import ast
import re
from pathlib import Path

import pytest

import fokker as fk

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "fokker"


def layers():
    """The parts of the package by their height in the picture: a line `1. name, name: …` for each layer."""
    lines = re.findall(r"^(\d+)\. ((?:`\w+`(?:, )?)+)", (ROOT / "CONTRIBUTING.md").read_text(), re.M)
    return {part: int(height) for height, parts in lines for part in re.findall(r"`(\w+)`", parts)}


def imports(tree):
    """Modules of the package that are imported, at the top or in a function, but for types' sake.

    Of `import fokker as fk`, the homes of the names that are used of it.
    """
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "fokker":
            yield from [node.module] if "." in node.module else [f"fokker.{a.name}" for a in node.names]
        elif isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.startswith("fokker."))
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in ("fokker", "fk")
            and node.attr in fk._HOMES
        ):
            yield f"fokker.{fk._HOMES[node.attr]}"
        yield from imports(node)


def upward(part, source, heights):
    """Imports of a file of this part that do not point downwards, or stay within it."""
    found = {name.split(".")[1] for name in imports(ast.parse(source))} - {part}
    return sorted(other for other in found if heights[other] >= heights[part])


FILES = sorted(path.relative_to(SOURCE) for path in SOURCE.rglob("*.py") if path.parent != SOURCE)
FILES.append(Path("batches.py"))
# An option of the command line, in a text or a comment; not one of XLA.
FLAG = re.compile(r"(?<![\w-])--(?!xla_)[a-z]")


def test_every_part_has_its_place():
    parts = {path.parts[0].removesuffix(".py") for path in FILES}
    assert parts == set(layers())
    assert {p.name for p in SOURCE.glob("*.py")} == {"__init__.py", "batches.py"}


def test_no_import_points_upwards():
    heights = layers()
    wrong = {}
    for path in FILES:
        part = path.parts[0].removesuffix(".py")
        if above := upward(part, (SOURCE / path).read_text(), heights):
            wrong[str(path)] = above
    assert not wrong


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
    assert upward("samplers", source, layers()) == ["run"]
    guarded = "if TYPE_CHECKING:\n" + "".join(f"    {line}\n" for line in source.splitlines())
    assert not upward("samplers", guarded, layers())


def test_the_library_knows_no_option_of_the_command_line():
    """Its messages name arguments of Python; `fokker.cli.flags` translates them."""
    library = [path for path in FILES if path.parts[0] != "cli"]
    wrong = {str(path): FLAG.findall((SOURCE / path).read_text()) for path in library}
    assert not {path: flags for path, flags in wrong.items() if flags}
    assert FLAG.search('f"give --batch-size {size}"')
    assert not FLAG.search("XLA_FLAGS=--xla_force_host_platform_device_count=2")
