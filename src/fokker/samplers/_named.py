"""Arguments of samplers by their names."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from fokker._core.state import nearest


def naming_arguments(make: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, with a message for an unknown argument that names those that it has."""
    parameters = inspect.signature(make).parameters
    known = [name for name, p in parameters.items() if p.kind is not p.VAR_KEYWORD]
    if len(known) < len(parameters):  # what it does not know it passes on
        return make

    @functools.wraps(make)
    def checked(*arguments: object, **options: object) -> Any:
        for name in options:
            if name not in parameters:
                raise TypeError(
                    f"fk.samplers.{make.__name__} has no argument {name!r}.{nearest(name, known)} It has: "
                    f"{', '.join(known)}."
                )
        return make(*arguments, **options)

    return checked
