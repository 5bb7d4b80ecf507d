r"""The coordinates in which samplers move theta: as it is, θ = θ₀ + S q with masses (SSᵀ)⁻¹, or by rows.

This is the one place where a sampler changes coordinates. A constrained target has a change of variables of
its own (`fokker.targets`): samplers of every kind see its free coordinates as theta. The scale of the
microcanonical samplers is part of their dynamics, dθ = s u dt, and theta stays as it is.
"""

from dataclasses import dataclass
from typing import Protocol

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from fokker._core.state import State, ravel, unravel
from fokker.integrators._gradient import Gradient
from fokker.samplers.mass_matrix import MassMatrix


class Coordinates(Protocol):
    """Coordinates q in which the dynamics move theta."""

    def __call__(self, q: PyTree[Array]) -> PyTree[Array]:
        """θ at q."""

    def vector(self, theta: PyTree[Array]) -> PyTree[Array]:
        """theta in the form of q, for its shapes."""

    def enter(self, z: State) -> State:
        """A state in these coordinates."""

    def leave(self, z: State) -> State:
        """A state in these coordinates as the caller sees it."""

    def gradient(self, by_theta: Gradient) -> Gradient:
        """The gradient by q, of one by theta."""


class AsItIs:
    """q = θ."""

    def __call__(self, q: PyTree[Array]) -> PyTree[Array]:
        """q."""
        return q

    vector = enter = leave = gradient = __call__


@dataclass(frozen=True)
class Chart:
    """Coordinates around a position: θ = θ₀ + S q, q a vector; a mass matrix yet to be learned is 1."""

    centre: PyTree[Array]
    mass_matrix: MassMatrix | str

    def __call__(self, q: Float[Array, " d"]) -> PyTree[Array]:
        """θ at q."""
        shift = q if isinstance(self.mass_matrix, str) else self.mass_matrix(q).astype(q.dtype)
        return unravel(ravel(self.centre) + shift, self.centre)

    def vector(self, theta: PyTree[Array]) -> Float[Array, " d"]:
        """One number of q per number of theta."""
        return ravel(theta)

    def enter(self, z: State) -> State:
        """The state whose theta is the centre, at q = 0."""
        return {**z, "theta": self._origin}

    @property
    def _origin(self) -> Float[Array, " d"]:
        return jnp.zeros_like(ravel(self.centre))

    def leave(self, z: State) -> State:
        """With θ in place of q."""
        return {**z, "theta": self(z["theta"])}

    def gradient(self, by_theta: Gradient) -> Gradient:
        """Sᵀ∇U."""
        if by_theta is None:
            return None
        return lambda q: jax.vjp(self.__call__, self._origin)[1](by_theta(self(q)))[0]


@dataclass(frozen=True)
class ByRow:
    """θ = q/√M row by row, for tables of rows: `scales` are 1/√M of each row, by table."""

    scales: dict[str, Float[Array, " rows"]]

    def __call__(self, q: PyTree[Array]) -> PyTree[Array]:
        """θ at q."""
        return {name: x * self.scales[name][:, None] for name, x in q.items()}

    def enter(self, z: State) -> State:
        """With q in place of θ."""
        return {**z, "theta": {name: x / self.scales[name][:, None] for name, x in z["theta"].items()}}

    def leave(self, z: State) -> State:
        """With θ in place of q."""
        return {**z, "theta": self(z["theta"])}


def coordinates(position: PyTree[Array], mass_matrix: MassMatrix | str | None) -> Coordinates:
    """Those in which a sampler with this mass matrix moves from a position; None moves theta as it is."""
    return AsItIs() if mass_matrix is None else Chart(position, mass_matrix)
