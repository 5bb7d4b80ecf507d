"""How large the source is, and how its modules depend on each other: `python tests/measures.py` prints it.

Everything is read from the syntax trees; nothing is imported.
"""

import ast
import functools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeGuard

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "fokker"
# Sizes from which a file, in lines, and a function, in lines of code, should be divided.
LONG_FILE, LONG_FUNCTION = 400, 60
# What drives a chain: a loop, of Python or compiled, around one of these methods of a sampler.
_LOOPS, _STEPS = {"scan", "fori_loop", "while_loop"}, {"step", "advance", "move"}
# Parts that are one step of a sampler: their loops are within a step. In samplers those of moves are.
WITHIN_STEP = ("integrators", "corrections", "_core", "dynamics", "fields", "gradients")

_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """A file of the source: its path in the package, and its text."""

    path: Path
    text: str

    @property
    def name(self) -> str:
        """As it is imported."""
        return ".".join(["fokker", *self.path.with_suffix("").parts]).removesuffix(".__init__")

    @property
    def part(self) -> str:
        """The folder or file of the package that it belongs to."""
        return self.path.parts[0].removesuffix(".py")

    @functools.cached_property
    def tree(self) -> ast.Module:
        """Its syntax."""
        return ast.parse(self.text)

    @functools.cached_property
    def definitions(self) -> list[ast.ClassDef | _Function]:
        """All classes and functions, those within others too."""
        return [node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef | _Function)]

    @property
    def functions(self) -> list[_Function]:
        """All functions."""
        return [node for node in self.definitions if isinstance(node, _Function)]

    @functools.cached_property
    def code(self) -> set[int]:
        """The numbers of the lines that have code: no blank lines, comments or docstrings."""
        texts = enumerate(map(str.strip, self.text.splitlines()), 1)
        lines = {number for number, text in texts if text and not text.startswith("#")}
        for node in (self.tree, *self.definitions):
            if ast.get_docstring(node, clean=False):
                lines.difference_update(_span(node.body[0]))
        return lines


@functools.cache
def modules() -> tuple[Module, ...]:
    """All files of the package."""
    paths = sorted(SOURCE.rglob("*.py"))
    texts = {path.relative_to(SOURCE): path.read_text() for path in paths}
    return tuple(Module(path, text) for path, text in texts.items())


def _span(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def code_lines() -> Counter[str]:
    """Lines of code of each part."""
    counts: Counter[str] = Counter()
    for module in modules():
        counts[module.part] += len(module.code)
    return counts


def long_files() -> list[str]:
    """Files that should be divided."""
    return [str(m.path) for m in modules() if len(m.text.splitlines()) > LONG_FILE]


def long_functions() -> list[str]:
    """Functions that should be divided."""
    names = []
    for module in modules():
        for node in module.functions:
            if len(module.code.intersection(_span(node))) > LONG_FUNCTION:
                names.append(f"{module.path}:{node.name}")
    return names


def untyped_parameters() -> dict[str, tuple[int, int]]:
    """Of each part: parameters annotated with a bare `Any`, and all parameters but self and cls."""
    counts: dict[str, tuple[int, int]] = {}
    for module in modules():
        untyped, total = counts.get(module.part, (0, 0))
        for node in module.functions:
            of = node.args
            named = [*of.posonlyargs, *of.args, *of.kwonlyargs, *filter(None, (of.vararg, of.kwarg))]
            annotations = [a.annotation for a in named if a.arg not in ("self", "cls")]
            total += len(annotations)
            untyped += sum(isinstance(a, ast.Name) and a.id == "Any" for a in annotations)
        counts[module.part] = untyped, total
    return counts


def chain_loops() -> list[str]:
    """Functions in which a loop takes steps of chains; those within a single step are not looked at.

    By names alone: a call of a method `step`, `advance` or `move`, or of an argument `step`, within a loop of
    Python or in a function that a compiled loop is made in. A loop that hides the step behind a function of
    another name is not seen.
    """
    names = []
    for module in modules():
        if module.part in WITHIN_STEP:
            continue
        methods = _STEPS - {"move"} if module.part == "samplers" else _STEPS
        for node in module.tree.body:
            for function in [node] if isinstance(node, _Function) else _methods(node):
                given = {"step"}.intersection(a.arg for a in function.args.args)
                if any(_takes_steps(loop, methods, given) for loop in _loops(function)):
                    names.append(f"{module.path}:{function.name}")
    return names


def _methods(node: ast.stmt) -> list[_Function]:
    return [n for n in node.body if isinstance(n, _Function)] if isinstance(node, ast.ClassDef) else []


def _loops(function: _Function) -> Iterator[ast.AST]:
    """The loops of Python, and the whole function where it makes a compiled one."""
    for node in ast.walk(function):
        if isinstance(node, ast.For | ast.While):
            yield node
        elif isinstance(node, ast.Attribute) and node.attr in _LOOPS:
            yield function


def _takes_steps(loop: ast.AST, methods: set[str], given: set[str]) -> bool:
    """Whether one of these methods is called in it, or one of these arguments, by itself or by a loop."""
    for call in (node for node in ast.walk(loop) if isinstance(node, ast.Call)):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        steps = [call.func, *(call.args if name in _LOOPS else ())]
        if name in methods or any(isinstance(step, ast.Name) and step.id in given for step in steps):
            return True
    return False


class Imported(NamedTuple):
    """A module of the package that another one imports; `is_lazy`: in a function, when that is called."""

    name: str
    is_lazy: bool


def _is_of_package(node: ast.AST) -> TypeGuard[ast.Attribute]:
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in ("fokker", "fk")
    )


def imports(tree: ast.AST, homes: dict[str, str], is_lazy: bool = False) -> Iterator[Imported]:
    """The modules of the package that are imported, but for types' sake.

    `homes`: public names and their modules. Of `import fokker as fk`, the homes of the names that are used.
    """
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "fokker":
            # `from fokker.run import loop` is an import of a module, or of a name in one.
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.startswith("fokker.")]
        elif _is_of_package(node) and node.attr in homes:
            names = [f"fokker.{homes[node.attr]}"]
        yield from (Imported(name, is_lazy) for name in names)
        yield from imports(node, homes, is_lazy or isinstance(node, _Function))


def lazy_imports_in_cycles(homes: dict[str, str]) -> list[str]:
    """Lazy imports without which two modules would import each other: "a → b" for each."""
    sources = {module.name: module.tree for module in modules()}

    def home(name: str) -> str:
        while name not in sources and "." in name:
            name = name.rpartition(".")[0]
        return name

    graph: dict[str, set[str]] = {}
    lazy: list[tuple[str, str]] = []
    for name, tree in sources.items():
        graph[name] = set()
        for imported in imports(tree, homes):
            target = home(imported.name)
            if target in ("fokker", name):
                continue
            if imported.is_lazy:
                lazy.append((name, target))
            else:
                graph[name].add(target)

    @functools.cache
    def reached(name: str) -> frozenset[str]:
        seen, waiting = {name}, [name]
        while waiting:
            new = graph.get(waiting.pop(), set()) - seen
            seen |= new
            waiting += new
        return frozenset(seen)

    return sorted({f"{name} → {target}" for name, target in lazy if name in reached(target)})


def table() -> str:
    """Everything that is measured, as text."""
    counts, untyped = code_lines(), untyped_parameters()
    rows = [f"{'part':15} {'code lines':>10} {'Any':>10}"]
    for part, lines in counts.most_common():
        rows.append(f"{part:15} {lines:10,} {'{}/{}'.format(*untyped[part]):>10}")
    bare, total = (sum(column) for column in zip(*untyped.values(), strict=True))
    rows += [
        f"{'all':15} {counts.total():10,} {bare / total:10.1%}",
        f"{'outside lab':15} {counts.total() - counts['lab']:10,}",
        f"files over {LONG_FILE} lines: {len(long_files())}",
        f"functions over {LONG_FUNCTION} lines of code: {len(long_functions())}",
        f"loops that drive chains: {len(chain_loops())}",
    ]
    return "\n".join(rows)


if __name__ == "__main__":
    print(table())
    for name, members in {
        f"files over {LONG_FILE} lines": long_files(),
        f"functions over {LONG_FUNCTION} lines of code": long_functions(),
        "loops that drive chains": chain_loops(),
    }.items():
        print(f"\n{name}:", *members, sep="\n  ")
