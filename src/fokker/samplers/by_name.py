"""Samplers by their names."""

import inspect
from collections.abc import Callable

from fokker import samplers
from fokker._core.names import nearest
from fokker.samplers.contract import Sampler


def by_name(name: str) -> Callable[..., Sampler]:
    """The function of `fk.samplers` of that name, if it needs no more than a step size."""
    known = [n for n in samplers.__all__ if inspect.isfunction(getattr(samplers, n)) and n != "recipe"]
    if name not in known:
        near = nearest(name, [*known, "auto"])
        raise ValueError(
            f"there is no sampler {name!r}.{near} There are: {', '.join(sorted(known))}; or 'auto', which "
            "chooses one."
        )
    make: Callable[..., Sampler] = getattr(samplers, name)
    parameters = inspect.signature(make).parameters.values()
    required = [p.name for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    if "step_size" not in (p.name for p in parameters) or not set(required) <= {"step_size"}:
        wanted = ", ".join(required)
        raise ValueError(f"the sampler {name!r} needs {wanted}: give fk.samplers.{name}({wanted}).")
    return make
