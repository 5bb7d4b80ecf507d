"""Dynamics that wait for a target."""

import abc
import copy
import dataclasses
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, ClassVar, dataclass_transform

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from fokker._core.types import Number
from fokker.dynamics import SDE, Dynamics
from fokker.integrators.noise import draw_like

Potential = Callable[[PyTree[Array]], Array]
Auxiliaries = dict[str, PyTree[Array]]


@dataclass_transform(frozen_default=True, eq_default=False)
class Family(abc.ABC):
    """Dynamics that wait for a target: a class for each kind, whose fields are its settings.

    Subclasses are frozen dataclasses without further ado. Families of equal settings are equal, so that
    samplers that are made again share their compiled programs. To JAX a family is a constant, but for
    settings that are arrays of a single number: programs are shared whatever these are. Other arrays, which
    have no hash, are equal where they are the same object.
    """

    # In words.
    label: ClassVar[str]

    def __init_subclass__(cls) -> None:
        dataclasses.dataclass(frozen=True, eq=False)(cls)
        jax.tree_util.register_pytree_with_keys(cls, _parts, _joined)

    @abc.abstractmethod
    def dynamics(self, potential: Potential, temperature: Number) -> Dynamics | SDE:
        """The dynamics for a potential at a temperature."""

    def auxiliaries(self, key: Key[Array, ""], theta: PyTree[Array], temperature: Number) -> Auxiliaries:
        """The variables beside theta to start from, drawn from their own stationary density."""
        return {}

    def new_momentum(self, noise: Array, theta: PyTree[Array]) -> PyTree[Array]:
        """A momentum made of standard normal noise, for a correction that draws one for every trajectory."""
        return noise

    def simple_variables(self) -> set[str] | None:
        """All variables, where the settings alone say that D and Q are right; None where they do not.

        D is then positive or zero, the same for all coordinates of a variable, and nothing but ξ of a
        thermostat changes the friction: neither is evaluated before a run.
        """
        return None

    def check(self, theta: PyTree[Array]) -> None:  # noqa: B027
        """Raise where a chain cannot start."""

    def _identity(self) -> tuple[Hashable, ...]:
        values = (getattr(self, field.name) for field in dataclasses.fields(self))  # type: ignore[arg-type]
        return type(self), *map(_identity, values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Family) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())


def _parts(family: Family) -> tuple[Any, Any]:
    """Settings that are arrays of a single number, and the rest, which is a constant."""
    values = {field.name: getattr(family, field.name) for field in dataclasses.fields(family)}  # type: ignore[arg-type]
    numbers = {name: x for name, x in values.items() if isinstance(x, jax.Array) and x.ndim == 0}
    keyed = [(jax.tree_util.GetAttrKey(name), x) for name, x in numbers.items()]
    return keyed, (tuple(numbers), _with(family, dict.fromkeys(numbers)))


def _joined(constant: tuple[tuple[str, ...], Family], numbers: Iterable[Any]) -> Family:
    names, family = constant
    return _with(family, dict(zip(names, numbers, strict=True)))


def _with(family: Family, values: Mapping[str, Any]) -> Family:
    """A copy with other settings, which are not checked: JAX puts placeholders in their place."""
    if not values:
        return family
    new = copy.copy(family)
    for name, value in values.items():
        object.__setattr__(new, name, value)
    return new


def _identity(value: object) -> Hashable:
    try:
        hash(value)
    except TypeError:
        return id(value)
    return type(value), value  # 1, 1.0 and True are different settings


def are_positive(*settings: object) -> bool:
    """Whether each is a single number above zero, and such that products of them are finite and not 0."""
    return all(_is_real(x) and 1e-15 < float(x) < 1e15 for x in settings)  # type: ignore[arg-type]


def _is_real(value: object) -> bool:
    """Whether it is a single real number whose value is known."""
    if isinstance(value, bool | jax.core.Tracer):
        return False
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        is_real = any(jnp.issubdtype(value.dtype, kind) for kind in (jnp.integer, jnp.floating))
        return is_real and value.ndim == 0
    return isinstance(value, int | float)


class WithMomentum(Family):
    """Dynamics of theta and a momentum r, which starts with the spread of a unit mass."""

    def auxiliaries(self, key: Key[Array, ""], theta: PyTree[Array], temperature: Number) -> Auxiliaries:
        """r ~ N(0, T): the right spread for a unit mass, and near it for others."""
        drawn = draw_like("gaussian", key, jax.eval_shape(lambda: theta))
        return {"r": jax.tree.map(lambda x: (jnp.sqrt(temperature) * x).astype(x.dtype), drawn)}
