r"""Angles and unit vectors as points of a Euclidean space, so that the checker can be applied to them.

An angle φ of period P becomes y = ρ(cos kφ, sin kφ) with k = 2π/P, a unit vector u becomes y = ρu, and ρ is
constant in time. By Itô's formula, where x are the original variables with their f and D,

    dy = M dx - k² D_φφ y dt (for an angle),    M = ∂y/∂x at fixed ρ,    D_y = M D Mᵀ,

so exp(-H) is stationary for x if and only if exp(-H - ρ²/2) is for y. Whether H, D and the drift are periodic
is tested directly.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fokker._core.names import nearest
from fokker._core.quick import compile_once
from fokker._core.state import State
from fokker.checker._residual import map_points
from fokker.dynamics.problem import Problem, Vector

# Points at which periods are tested, and the share of the size below which a difference is rounding.
_SHIFTED, _SAME = 16, 1e-5


@dataclasses.dataclass(frozen=True)
class Lifted(Problem):
    """A problem for the lifted vector y; states have the user's structure."""

    fold: Callable[[Vector], Vector]
    lift: Callable[[Vector], Vector]
    pull_back: Callable[[Vector, Vector], Vector]
    flat: Problem
    spheres: tuple[str, ...]
    periods: Mapping[str, np.ndarray]

    @property
    def dimension(self) -> int:
        """The length of y."""
        return max(rows.stop for rows in self.variables.values())

    @property
    def number_of_radii(self) -> int:
        """How many lengths ρ are constant in time: one for each angle and each unit vector."""
        angles = sum(rows.stop - rows.start for rows in self.variables.values()) - self.flat.dimension
        return angles + len(self.spheres)

    @property
    def start(self) -> Vector:
        """The example state as y."""
        return self.lift(self.flat.start)

    def to_state(self, x: Vector) -> State:
        """The state of y."""
        return self.flat.to_state(self.fold(x))

    def to_vector(self, z: State) -> Vector:
        """The y of a state."""
        return self.lift(self.flat.to_vector(z))

    def to_tangent(self, x: Vector, velocity: Vector) -> State:
        """A velocity at y, in the structure of the state."""
        return self.flat.to_state(self.pull_back(x, velocity))

    def coordinate_names(self) -> list[str]:
        """The original names; an angle has two coordinates."""
        result: list[str] = []
        names = self.flat.coordinate_names()
        for name, rows in self.flat.variables.items():
            part = names[rows]
            lifted = self.variables[name]
            if lifted.stop - lifted.start > len(part):
                part = [f"cos {n}" for n in part] + [f"sin {n}" for n in part]
            result += part
        return result


class _Chart(NamedTuple):
    """Vectors x of a problem as vectors y of the plane and of space, variable by variable.

    `variables`: the slice of y of each; `wave`: 2π over the period of an angle. M: ∂y/∂x, as above.
    """

    problem: Problem
    spheres: tuple[str, ...]
    variables: dict[str, slice]
    wave: dict[str, Array]

    @classmethod
    def of(cls, problem: Problem, periods: Mapping[str, np.ndarray], spheres: tuple[str, ...]) -> "_Chart":
        """An angle takes two numbers of y."""
        variables, start = {}, 0
        for name, rows in problem.variables.items():
            size = (rows.stop - rows.start) * (2 if name in periods else 1)
            variables[name] = slice(start, start + size)
            start += size
        wave = {
            name: jnp.asarray(np.broadcast_to(2 * np.pi / period, _size(problem, name)))
            for name, period in periods.items()
        }
        return cls(problem, spheres, variables, wave)

    def _by_variable(self, piece: Callable[[str], Array]) -> Vector:
        return jnp.concatenate([piece(name) for name in self.problem.variables])

    def _halves(self, y: Vector, name: str) -> tuple[Array, Array]:
        first, second = jnp.split(y[self.variables[name]], 2)
        return first, second

    def _length(self, y: Vector, name: str) -> Array:
        square = jnp.sum(y[self.variables[name]] ** 2)
        return jnp.sqrt(jnp.where(square > 0, square, 1.0))

    def fold(self, y: Vector) -> Vector:
        """x of y."""

        def piece(name: str) -> Array:
            if name in self.wave:
                cosine, sine = self._halves(y, name)
                # At the origin the angle is arbitrary, but its derivatives must be finite.
                is_away = cosine**2 + sine**2 > 0
                sine, cosine = jnp.where(is_away, sine, 0.0), jnp.where(is_away, cosine, 1.0)
                return jnp.arctan2(sine, cosine) / self.wave[name]
            return y[self.variables[name]] / (self._length(y, name) if name in self.spheres else 1.0)

        return self._by_variable(piece)

    def lift(self, x: Vector) -> Vector:
        """y of x, on the circles and spheres."""

        def piece(name: str) -> Array:
            part = x[self.problem.variables[name]]
            if name in self.wave:
                angle = self.wave[name] * part
                return jnp.concatenate([jnp.cos(angle), jnp.sin(angle)])
            if name in self.spheres:
                # A zero vector has no direction: use any.
                part = jnp.where(jnp.all(part == 0), 1.0, part)
                return part / jnp.sqrt(jnp.sum(part**2))
            return part

        return self._by_variable(piece)

    def push(self, y: Vector, w: Vector) -> Vector:
        """M w."""

        def piece(name: str) -> Array:
            part = w[self.problem.variables[name]]
            if name in self.wave:
                cosine, sine = self._halves(y, name)
                return jnp.concatenate([-sine * self.wave[name] * part, cosine * self.wave[name] * part])
            return part * (self._length(y, name) if name in self.spheres else 1.0)

        return self._by_variable(piece)

    def pull(self, y: Vector, v: Vector, inverse: bool = False) -> Vector:
        """Mᵀ v, or M⁻¹ v for a velocity v."""

        def piece(name: str) -> Array:
            part = v[self.variables[name]]
            if name in self.wave:
                cosine, sine = self._halves(y, name)
                first, second = jnp.split(part, 2)
                along, wave = cosine * second - sine * first, self.wave[name]
                return along / ((cosine**2 + sine**2) * wave) if inverse else along * wave
            scale = self._length(y, name) if name in self.spheres else 1.0
            return part / scale if inverse else part * scale

        return self._by_variable(piece)

    def drift(self, y: Vector) -> Vector:
        """M f, with what Itô's formula adds on circles."""
        problem, x = self.problem, self.fold(y)
        result = self.push(y, problem.drift(x))
        for name, wave in self.wave.items():
            rows = np.arange(x.size)[problem.variables[name]]
            entries = jnp.stack([problem.D_mv(x, jnp.zeros_like(x).at[i].set(1))[i] for i in rows])
            turn = wave**2 * entries
            own = self.variables[name]
            result = result.at[own].add(-jnp.concatenate([turn, turn]) * y[own])
        return result

    def radial(self, y: Vector, names: Iterable[str]) -> Array:
        """What H has in the direction that is not in x."""
        return sum((jnp.sum(y[self.variables[name]] ** 2) / 2 for name in names), jnp.zeros(()))


def lift(problem: Problem, periodic: Mapping[str, Any] | None, sphere: str | Iterable[str]) -> Problem:
    """The problem with angles and unit vectors lifted; unchanged if there are none."""
    spheres = (sphere,) if isinstance(sphere, str) else tuple(sphere)
    periods = {name: np.asarray(period, float) for name, period in (periodic or {}).items()}
    if not spheres and not periods:
        return problem
    _validate(problem, periods, spheres)
    chart = _Chart.of(problem, periods, spheres)
    compact = (*periods, *spheres)
    Q_mv, auxiliary = problem.Q_mv, problem.auxiliary
    fold, push, pull, radial = chart.fold, chart.push, chart.pull, chart.radial
    return Lifted(
        example=problem.example,
        names=problem.names,
        variables=chart.variables,
        drift=chart.drift,
        D_mv=lambda y, v: push(y, problem.D_mv(fold(y), pull(y, v))),
        hamiltonian=lambda y: problem.hamiltonian(fold(y)) + radial(y, compact),
        Q_mv=None if Q_mv is None else lambda y, v: push(y, Q_mv(fold(y), pull(y, v))),
        noise_covariance=None,
        auxiliary=None
        if auxiliary is None
        else lambda y: auxiliary(fold(y)) + radial(y, (n for n in compact if n != problem.position)),
        position=problem.position,
        guessed=problem.guessed,
        fold=fold,
        lift=chart.lift,
        pull_back=lambda y, v: pull(y, v, inverse=True),
        flat=problem,
        spheres=spheres,
        periods=periods,
    )


def leaves_the_sphere(problem: Problem, points: np.ndarray, f: np.ndarray, D: np.ndarray) -> list[str]:
    """Messages for vectors whose length does not stay 1: d|y|²/dt = 2(y·f + tr D), with noise 2D y."""
    messages = []
    for name in problem.spheres if isinstance(problem, Lifted) else ():
        rows = problem.variables[name]
        y, part = points[:, rows], D[:, rows, rows]
        size = np.abs(np.trace(part, axis1=1, axis2=2)) + np.sum(np.abs(y * f[:, rows]), axis=1)
        change = np.sum(y * f[:, rows], axis=1) + np.trace(part, axis1=1, axis2=2)
        noise = np.linalg.norm(np.einsum("nij,nj->ni", part, y), axis=1)
        if np.any(np.abs(change) > 1e-6 * size) or np.any(noise > 1e-6 * size):
            messages.append(
                f"{name} does not stay on the sphere |{name}| = 1: D must have D{name} = 0, as 1 - uuᵀ has, "
                f"and the drift (Itô) must have {name}·f = -tr D"
            )
    return messages


def is_not_periodic(problem: Problem, points: np.ndarray) -> list[str]:
    """Messages for periods after which H, the drift or D are not what they were."""
    if not isinstance(problem, Lifted):
        return []
    flat = problem.flat
    some = np.asarray(map_points(problem.fold, points[:_SHIFTED], 8 * problem.dimension))
    direction = jnp.asarray(np.cos(1 + np.arange(flat.dimension)))

    def parts(x: Vector) -> tuple[Array, ...]:
        return flat.hamiltonian(x), flat.drift(x), flat.D_mv(x, direction)

    messages = []
    program = compile_once(jax.vmap(parts))
    before = [np.asarray(part) for part in program(some)]
    for name, period in problem.periods.items():
        rows = np.arange(flat.dimension)[flat.variables[name]]
        for row, length in zip(rows, np.broadcast_to(period, rows.shape), strict=True):
            after = program(some + length * np.eye(flat.dimension)[row])
            different = [
                what
                for what, a, b in zip(("H", "the drift", "D"), before, after, strict=True)
                if np.nanmax(np.abs(b - a), initial=0.0) > _SAME * (1 + np.nanmax(np.abs(a), initial=0.0))
            ]
            if different:
                what = " and ".join(different) + (" are" if len(different) > 1 else " is")
                messages.append(
                    f"{flat.coordinate_names()[row]} has no period of {length:.4g}: {what} not the same one "
                    "period later. Is it an angle, and is this its whole period?"
                )
    return messages


def _size(problem: Problem, name: str) -> int:
    rows = problem.variables[name]
    return rows.stop - rows.start


def _validate(problem: Problem, periods: Mapping[str, np.ndarray], spheres: tuple[str, ...]) -> None:
    for name in (*periods, *spheres):
        if name not in problem.variables:
            known = list(problem.variables)
            raise ValueError(
                f"periodic and sphere must name variables of the state; {name!r} is not one of "
                f"{', '.join(known) or 'them (the state has no names)'}.{nearest(name, known)}"
            )
        if name in periods and name in spheres:
            raise ValueError(f"{name} is either periodic or on a sphere, not both.")
    for name, period in periods.items():
        if not np.all(np.isfinite(period) & (period > 0)):
            raise ValueError(f"the period of {name} must be a positive number, as 2π; {period} was given.")
    for name in spheres:
        if _size(problem, name) < 2:
            raise ValueError(f"a unit vector needs at least two numbers; {name} has {_size(problem, name)}.")
