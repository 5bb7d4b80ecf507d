"""Arguments of samplers by their names."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from fokker._core.names import nearest


def naming_arguments(make: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, with a message for an unknown argument that names those that it has."""
    parameters = inspect.signature(make).parameters

    @functools.wraps(make)
    def checked(*arguments: object, **options: object) -> Any:
        for name in options:
            if name not in parameters:
                hint = nearest(name, [*parameters])
                raise TypeError(
                    f"fk.samplers.{make.__name__} has no argument {name!r}.{hint} It has: "
                    f"{', '.join(parameters)}."
                )
        return make(*arguments, **options)

    return checked
