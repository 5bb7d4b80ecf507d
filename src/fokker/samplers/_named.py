"""Samplers by their names, and their arguments by theirs."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from fokker._core.state import nearest
from fokker.samplers.contract import Sampler


def by_name(name: str) -> Callable[..., Sampler]:
    """The function of `fk.samplers` of that name, if it needs no more than a step size."""
    from fokker import samplers

    known = [n for n in samplers.__all__ if inspect.isfunction(getattr(samplers, n)) and n != "recipe"]
    if name not in known:
        raise ValueError(
            f"there is no sampler {name!r}.{nearest(name, known)} There are: {', '.join(sorted(known))}."
        )
    make: Callable[..., Sampler] = getattr(samplers, name)
    parameters = inspect.signature(make).parameters.values()
    required = [p.name for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    if "step_size" not in (p.name for p in parameters) or not set(required) <= {"step_size"}:
        wanted = ", ".join(required)
        raise ValueError(f"the sampler {name!r} needs {wanted}: give fk.samplers.{name}({wanted}).")
    return make


def naming_arguments(make: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, with a message for an unknown argument that names those that it has."""
    parameters = inspect.signature(make).parameters
    known = [name for name, p in parameters.items() if p.kind is not p.VAR_KEYWORD]
    if len(known) < len(parameters):  # what it does not know it passes on
        return make

    @functools.wraps(make)
    def checked(*arguments: Any, **options: Any) -> Any:
        for name in options:
            if name not in parameters:
                raise TypeError(
                    f"fk.samplers.{make.__name__} has no argument {name!r}.{nearest(name, known)} It has: "
                    f"{', '.join(known)}."
                )
        return make(*arguments, **options)

    return checked
