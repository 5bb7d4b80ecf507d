"""The candidates of `fk.tune`: step sizes and frictions in proportion to the fastest time scale."""

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from jaxtyping import Array, PyTree

from fokker.integrators import Splitting
from fokker.run.call import Options
from fokker.samplers._time_scale import largest_curvature
from fokker.samplers.contract import Sampler
from fokker.targets.target import Target

# Shares of the fastest time scale of the target, and of its rate: the grids that are tried.
_STEPS = tuple(2.0**-k for k in range(9))
_FRICTIONS = (0.03, 0.1, 0.3, 1.0)


class Arm(NamedTuple):
    """A candidate."""

    step_size: float
    friction: float | None
    sampler: Sampler


def candidates_of(
    target: Target,
    sampler: Sampler | Callable[..., Sampler],
    theta: PyTree[Array],
    step_sizes: Sequence[float] | None,
    frictions: Sequence[float] | None,
    options: Options,
) -> Iterator[Arm]:
    """All candidates."""
    name = None if isinstance(sampler, Sampler) else _friction_name(sampler)
    if frictions is not None and name is None:
        raise ValueError("this sampler has no friction to choose: leave frictions out, or give a function.")
    chosen: Sequence[float | None] = (None,)
    if name is not None:
        rate = math.sqrt(largest_curvature(target.at_temperature(options.temperature), theta))
        chosen = frictions or [rate * share for share in _FRICTIONS]
    assert options.key is not None
    for friction in chosen:
        # One sampler per friction, so that one program serves all its step sizes.
        base = sampler if isinstance(sampler, Sampler) else _with_friction(sampler, name, friction)
        # The step size is not known yet: one so small that it passes every check.
        time_scale = 1.0
        if step_sizes is None:
            time_scale = base.with_step_size(1e-12).fastest_time(
                target, options.temperature, theta, options.key
            )
        for step_size in step_sizes or [time_scale * share for share in _STEPS]:
            yield Arm(float(step_size), friction, base.with_step_size(step_size))


def _with_friction(make: Callable[..., Sampler], name: str | None, friction: float | None) -> Sampler:
    settings: dict[str, Any] = {}
    parameters = inspect.signature(make).parameters
    if name is not None and friction is not None:
        settings[name] = friction
        if "thermostat_mass" in parameters:  # a thermostat as fast as the friction that it replaces
            settings["thermostat_mass"] = 1 / friction**2
        matrix = "kind" in parameters and parameters["kind"].default == "matrix"
        if "integrator" in parameters and parameters["integrator"].default is None and not matrix:
            settings["integrator"] = Splitting()
    return make(1.0, **settings)


def _friction_name(make: Callable[..., Sampler]) -> str | None:
    parameters = inspect.signature(make).parameters
    return "friction" if "friction" in parameters else None


def with_tuned(
    sampler: Sampler | Callable[..., Sampler], step_size: float, friction: float | None
) -> Sampler:
    """The sampler that `tune` chose, from what is written of it."""
    base = (
        sampler
        if isinstance(sampler, Sampler)
        else _with_friction(sampler, _friction_name(sampler), friction)
    )
    return base.with_step_size(step_size)
