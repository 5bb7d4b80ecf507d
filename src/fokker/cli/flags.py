"""Errors of the library in the words of a command: `batch_size=100` becomes `--batch-size 100`.

The library's messages name arguments of Python, as in name=value, and know no option of a command. What could
not be written after an option stays as it is: calls, as in fk.sample(…, batch_size=100), functions,
dictionaries, other expressions, and values that the option does not take; so do quotations and the axes of a
mesh. A value that stands for one to be found, as in step_size='auto', becomes "no --step-size", and a name
that is no English word, as batch_size, becomes its option without a value, too. An init that is a function is
one of the model's file, as in def init(key).
"""

import contextlib
import functools
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple, get_args, get_type_hints

from typer.models import OptionInfo

from fokker.cli.console import show_error

# Arguments that have another name as an option.
_OTHER_NAMES = {
    "folder": "data_dir",
    "state": "shape",
    "minimum_documents": "min_df",
    "maximum_documents": "max_df",
    "fraction": "test",
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
# An apostrophe within a word, or at its end, begins no quotation.
_QUOTED = r"""(?<!\w)(?:'[^'\n]*'|"[^"\n]*")|“[^”]*”"""
# Several names with values and no space between them, such as the axes of a mesh.
_LIST = r"\w+=[^\s,;:()='\"]*(?:,\w+=[^\s,;:()='\"]*[^\s,;:()='\".])+"
_VALUE = rf"""{_LIST}|\[[^\]]*\]|\([^)]*\)|'[^']*'|"[^"]*"|[^\s,;:()]*[^\s,;:().]"""
# Functions, dictionaries, names with a dot.
_EXPRESSION = re.compile(r"lambda\b|\{|[^\W\d]\w*\.[^\W\d]")
# What follows the name of an argument that a message is about; a folder may have such a name, too.
_ABOUT = r"(?= must be\b| is one of\b| is \d| has more than one )"
# A function as the argument init: its arguments.
_INIT = r"(?<![\w.])init=lambda (\w+): "
# What does not follow the name of an argument that stands alone.
_ALONE = r"(?![\w/=(\[\-]|\.\w)"
# The source of Fokker.
_SOURCE = Path(__file__).parents[1]
# An argument of Python that is to be found.
_AUTOMATIC = "auto"


class CommandError(ValueError):
    """An error in the words of a command; printed as it is."""


class Flag(NamedTuple):
    """An option of a command: its name, what stands for its value in the help, and the types it may have."""

    name: str
    metavar: str
    types: tuple[Any, ...] = ()


def flags_of(command: Callable[..., Any]) -> dict[str, Flag]:
    """The options of a command by the arguments of Python that they stand for."""
    flags = {}
    for name, hint in get_type_hints(command, include_extras=True).items():
        for option in getattr(hint, "__metadata__", ()):
            if isinstance(option, OptionInfo):
                # In an annotation the first name is where a default would be.
                names = [x for x in (option.default, *(option.param_decls or ())) if str(x).startswith("-")]
                flag = str(names[0]) if names else f"--{name.replace('_', '-')}"
                kind = get_args(hint)[0]
                flags[name] = Flag(flag, option.metavar or _ANY, get_args(kind) or (kind,))
    others = {name: flags[other] for name, other in _OTHER_NAMES.items() if other in flags}
    return {**others, **flags}


def in_flags(message: str, flags: Mapping[str, Flag]) -> str:
    """A message with the options of a command in place of arguments of Python."""
    names = "|".join(map(re.escape, flags)) or "(?!)"  # which matches nothing
    no_words = "|".join(re.escape(name) for name in flags if "_" in name) or "(?!)"
    if "init" in flags:
        message = re.sub(_INIT, r"def init(\1): return ", message)

    def replaced(match: re.Match[str]) -> str:
        name, value, about, alone = match.groups()
        if about is not None or alone is not None:
            return flags[about or alone].name
        # A value before a parenthesis is a function that is called.
        if name is None or _EXPRESSION.match(value or "") or message[match.end() :].startswith("("):
            return match[0]
        words = _as_option(flags[name], value or "")
        return match[0] if words is None else words

    pattern = rf"{_CALL}|{_QUOTED}|(?<![\w.\-])(?:{_LIST}|({names})=({_VALUE})?)|\A({names}){_ABOUT}"
    pattern += rf"|(?<![\w./\-])({no_words}){_ALONE}"
    return re.sub(pattern, replaced, message)


def _as_option(flag: Flag, value: str) -> str | None:
    """An option with a value of Python; None where it takes no such value."""
    import ast  # these two take time that `fokker --help` need not wait for
    import shlex

    if value == _ANY:
        return f"{flag.name} {flag.metavar}"
    try:
        literal = ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return None if value.startswith(("[", "(")) else f"{flag.name} {value}".rstrip()
    of_numbers = int in flag.types or float in flag.types
    if literal is None or (literal == _AUTOMATIC and of_numbers):
        return f"no {flag.name}" if NoneType in flag.types else None
    if isinstance(literal, bool):
        if flag.types and bool not in flag.types:
            return None
        return flag.name if literal else f"no {flag.name}"
    if bool in flag.types or (of_numbers and not isinstance(literal, int | float)):
        return None
    if isinstance(literal, list | tuple):
        literal = ",".join(map(str, literal))
    return f"{flag.name} {shlex.quote(literal) if isinstance(literal, str) else value}"


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


@contextlib.contextmanager
def _warnings_in_words() -> Iterator[None]:
    """Print what Fokker warns of in the words of the command, without the place in its source."""
    before = warnings.showwarning

    def shown(message: Any, category: Any, filename: str, *more: Any, **named: Any) -> None:
        # Of other warnings, as in a model's file, the place is what a user needs.
        if _SOURCE in Path(filename).parents and issubclass(category, UserWarning | RuntimeWarning):
            show_error(translated(message))
        else:
            before(message, category, filename, *more, **named)

    warnings.showwarning = shown
    try:
        yield
    finally:
        warnings.showwarning = before


def with_flags(command: Callable[..., Any], *others: Callable[..., Any]) -> Callable[..., Any]:
    """The command, whose errors name its options, or those of others whose work it goes on with."""

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> Any:
        before = _commands.set((*others, command))
        try:
            with _warnings_in_words():
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
