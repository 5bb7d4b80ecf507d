"""Errors of the library in the words of a command: `batch_size=100` becomes `--batch-size 100`.

The library's messages name arguments of Python, as in name=value, and know no option of a command. Examples
of calls in them, as in fk.sample(…, batch_size=100), stay as they are.
"""

import functools
import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, NamedTuple, get_type_hints

from typer.models import OptionInfo

# Arguments that have another name as an option.
_OTHER_NAMES = {
    "folder": "data_dir",
    "state": "shape",
    "minimum_documents": "min_df",
    "maximum_documents": "max_df",
}
# What stands for any value in a message.
_ANY = "…"
# What an option offers against an error of the library, by the name of its class.
_REMEDIES = {
    "PrecisionError": ("double", " At the command line: {flag}."),
    "MixturesError": ("no_mixtures", " That is {flag}."),
    "OtherRunError": ("overwrite", " {flag} replaces what is there."),
}
# The command that runs, after others whose work it goes on with.
_commands: ContextVar[tuple[Callable[..., Any], ...]] = ContextVar("commands", default=())
_CALL = r"[\w.]+\((?:[^()]|\([^()]*\))*\)"
_VALUE = r"""\[[^\]]*\]|\([^)]*\)|'[^']*'|"[^"]*"|[^\s,;:()]*[^\s,;:().]"""


class CommandError(ValueError):
    """An error in the words of a command; printed as it is."""


class Flag(NamedTuple):
    """An option of a command: its name, and what stands for its value in the help."""

    name: str
    metavar: str


def flags_of(command: Callable[..., Any]) -> dict[str, Flag]:
    """The options of a command by the arguments of Python that they stand for."""
    flags = {}
    for name, hint in get_type_hints(command, include_extras=True).items():
        for option in getattr(hint, "__metadata__", ()):
            if isinstance(option, OptionInfo):
                # In an annotation the first name is where a default would be.
                names = [x for x in (option.default, *(option.param_decls or ())) if str(x).startswith("-")]
                flag = str(names[0]) if names else f"--{name.replace('_', '-')}"
                flags[name] = Flag(flag, option.metavar or _ANY)
    others = {name: flags[other] for name, other in _OTHER_NAMES.items() if other in flags}
    return {**others, **flags}


def in_flags(message: str, flags: Mapping[str, Flag]) -> str:
    """A message with the options of a command in place of arguments of Python."""
    names = "|".join(map(re.escape, flags)) or "(?!)"  # which matches nothing

    def replaced(match: re.Match[str]) -> str:
        name, value = match.groups()
        if name is None:
            return match[0]
        flag = flags[name]
        return f"{flag.name} {flag.metavar if value == _ANY else _as_option(value or '')}".rstrip()

    return re.sub(rf"{_CALL}|(?<![\w.\-])({names})=({_VALUE})?", replaced, message)


def _as_option(value: str) -> str:
    """A value of Python as one writes it after an option."""
    import ast  # these two take time that `fokker --help` need not wait for
    import shlex

    try:
        literal = ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return value
    if isinstance(literal, list | tuple):
        literal = ",".join(map(str, literal))
    if literal is True:
        return ""
    return shlex.quote(literal) if isinstance(literal, str) else value


def translated(message: object) -> str:
    """A message or an error of the library with the options of the command that runs, and what they offer."""
    flags = {name: flag for command in _commands.get() for name, flag in flags_of(command).items()}
    # str() of a KeyError has quotes.
    words = message.args[0] if isinstance(message, Exception) and len(message.args) == 1 else message
    text = in_flags(str(words), flags)
    for kind in type(message).__mro__:
        option, remedy = _REMEDIES.get(kind.__name__, ("", ""))
        text += remedy.format(flag=flags[option].name) if option in flags else ""
    return text


def with_flags(command: Callable[..., Any], *others: Callable[..., Any]) -> Callable[..., Any]:
    """The command, whose errors name its options, or those of others whose work it goes on with."""

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> Any:
        before = _commands.set((*others, command))
        try:
            return command(*arguments, **options)
        except CommandError:
            raise
        except Exception as error:
            if len(error.args) == 1 and isinstance(error.args[0], str):
                error.args = (translated(error),)
            raise
        finally:
            _commands.reset(before)

    return run
