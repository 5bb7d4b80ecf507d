"""The reference of every public name, from signatures and docstrings, which are Markdown."""

import inspect
import re
from types import ModuleType
from typing import Any

import fokker as fk

__all__ = ["modules", "names", "pages", "reference"]

# Modules that list no names have all that they define.
_ORDER = (
    *("samplers", "dynamics", "fields", "integrators", "corrections", "gradients", "batches", "schedules"),
    *("constraints", "diagnostics", "models", "corpora", "datasets", "posteriors", "processes"),
)


def modules() -> dict[str, ModuleType]:
    """The public modules, by their names in `fk`."""
    found = {name for name in fk.__all__ if inspect.ismodule(getattr(fk, name))}
    return {name: getattr(fk, name) for name in sorted(found, key=_place)}


def _place(name: str) -> tuple[int, str]:
    return (_ORDER.index(name) if name in _ORDER else len(_ORDER), name)


def names(module: ModuleType) -> list[str]:
    """The public names of a module."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    own = vars(module).items()
    return [
        name
        for name, value in own
        if not name.startswith("_")
        and (inspect.isfunction(value) or inspect.isclass(value))
        and value.__module__ == module.__name__
    ]


def pages() -> dict[str, str]:
    """The pages of the reference: one for the names of `fk` itself, one for each module."""
    result = {"api/fokker.md": _page("fk", fk, [n for n in fk.__all__ if n not in modules()])}
    for name, module in modules().items():
        result[f"api/{name}.md"] = _page(f"fk.{name}", module, names(module))
    listed = "\n".join(f"{name}" for name in ("fokker", *modules()))
    total = sum(len(names(module)) for module in modules().values()) + len(fk.__all__) - len(modules())
    result["api/index.md"] = (
        f"# Reference\n\nAll {total} public names, with their signatures and docstrings.\n\n"
        f"```{{toctree}}\n:maxdepth: 1\n\n{listed}\n```\n"
    )
    return result


def _page(title: str, module: ModuleType, members: list[str]) -> str:
    first = _markdown(inspect.getdoc(module) or "")
    parts = [f"# `{title}`", first]
    parts += [reference(f"{title}.{name}", getattr(module, name)) for name in members]
    return "\n\n".join(part for part in parts if part) + "\n"


def reference(name: str, value: Any) -> str:
    """What is said of one public name."""
    heading = f"({anchor(name)})=\n## `{name}`"
    if not (inspect.isclass(value) or inspect.isroutine(value)):
        shown = repr(value)
        if len(shown) > 400:
            shown = (
                f"{type(value).__name__} of {len(value)}"
                if hasattr(value, "__len__")
                else type(value).__name__
            )
        return f"{heading}\n\n```python\n{shown}\n```"
    parts = [heading, _signature(name, value), _markdown(inspect.getdoc(value) or "")]
    if inspect.isclass(value):
        parts += [_member(name, *member) for member in _members(value)]
    return "\n\n".join(part for part in parts if part)


def anchor(name: str) -> str:
    """The label of a name, for links."""
    # Labels are the same in capitals and small letters: `fk.samplers.Recipe` is not `fk.samplers.recipe`.
    kind = "class" if name.rsplit(".", 1)[-1][:1].isupper() else "api"
    return f"{kind}-" + re.sub(r"[^A-Za-z0-9_]", "-", name)


def _signature(name: str, value: Any) -> str:
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return ""
    return f"```python\n{name}{_plain(list(parameters))}\n```"


def _plain(parameters: list[inspect.Parameter]) -> str:
    """Names and default values: the docstrings say what they are, better than long annotations."""
    shown = [
        p.replace(annotation=inspect.Parameter.empty) for p in parameters if p.name not in ("self", "cls")
    ]
    return re.sub(r"<.*?>", "...", str(inspect.Signature(shown)))


def _members(cls: type) -> list[tuple[str, Any]]:
    """Public methods and properties that a class of ours defines and describes."""
    found = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("fokker"):
            found.update({n: v for n, v in vars(base).items() if not n.startswith("_")})
    usable = (property, classmethod, staticmethod)
    return [(n, v) for n, v in found.items() if isinstance(v, usable) or inspect.isfunction(v)]


def _member(owner: str, name: str, value: Any) -> str:
    function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
    text = inspect.getdoc(function)
    if not text:
        return ""
    if isinstance(value, property):
        heading = f"`{name}`"
    else:
        heading = f"`{name}{_plain(list(inspect.signature(function).parameters.values()))}`"
    body = _markdown(text).replace("\n", "\n  ")
    return f"- {heading}\n\n  {body}"


def _with_lists(text: str) -> str:
    """A docstring whose sections `Args:` and `Returns:` are Markdown: their lines are indented."""
    lines = []
    section = ""
    for line in text.splitlines():
        if line in ("Args:", "Returns:"):
            section = line
            lines += [line.replace("Args", "Arguments"), ""]
        elif section and line.startswith("    "):
            item = re.fullmatch(r"    (\w[\w, ]*): (.*)", line) if section == "Args:" else None
            lines.append(f"- `{item[1]}`: {item[2]}" if item else "  " + line.strip())
        else:
            section = section if not line else ""
            lines.append(line)
    return "\n".join(lines)


def _markdown(text: str) -> str:
    """A docstring as MyST: a lone sign that Markdown would take for its own is kept as it is."""
    kept = []
    fenced = False
    for line in _with_lists(text).splitlines():
        fenced ^= line.lstrip().startswith("```")
        # Formulas are indented by four and stay as they are; so does everything between backticks.
        if not fenced and not line.startswith("    "):
            line = "".join(
                part
                if part.startswith("`")
                else part.replace("*", r"\*").replace("<", r"\<").replace("$", r"\$")
                for part in re.split(r"(`[^`]*`)", line)
            )
            line = re.sub(r"^(\s*)\\\* ", r"\1* ", line)
        kept.append(line)
    return "\n".join(kept)
