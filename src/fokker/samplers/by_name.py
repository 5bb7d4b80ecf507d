"""Samplers by their names."""

import inspect
from collections.abc import Callable

from fokker import samplers
from fokker._core.names import nearest
from fokker.samplers.contract import Sampler


def by_name(name: str) -> Callable[..., Sampler]:
    """The function of `fk.samplers` of that name, if it needs no more than a step size."""
    known = {n: getattr(samplers, n) for n in samplers.__all__ if inspect.isfunction(getattr(samplers, n))}
    if name not in known:
        others = [n for n in known if needed_call(n)]
        raise ValueError(
            f"there is no sampler {name!r}.{nearest(name, [*known, 'auto'])} There are: "
            f"{', '.join(sorted(known.keys() - others))}; or 'auto', which chooses one. Not by their names, "
            f"but as fk.samplers.NAME(…): {', '.join(others)}."
        )
    if call := needed_call(name):
        raise ValueError(f"the sampler {name!r} cannot be given by its name alone: give {call}.")
    make: Callable[..., Sampler] = known[name]
    return make


def needed_call(name: str) -> str:
    """How a sampler of `fk.samplers` is made that cannot be given by its name; empty for others."""
    make = getattr(samplers, name) if name in samplers.__all__ else None
    if not inspect.isfunction(make):
        return ""
    parameters = inspect.signature(make).parameters.values()
    required = [p.name for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    if "step_size" in (p.name for p in parameters) and set(required) <= {"step_size"}:
        return ""
    return f"fk.samplers.{name}({', '.join(required)})"
