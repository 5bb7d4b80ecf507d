r"""Angles and unit vectors as points of a Euclidean space, so that the checker can be applied to them.

An angle φ of period P becomes y = ρ(cos kφ, sin kφ) with k = 2π/P, a unit vector u becomes y = ρu, and ρ is
constant in time. By Itô's formula, where x are the original variables with their f and D,

    dy = M dx - k² D_φφ y dt (for an angle),    M = ∂y/∂x at fixed ρ,    D_y = M D Mᵀ,

so exp(-H) is stationary for x if and only if exp(-H - ρ²/2) is for y. Whether H, D and the drift are periodic
is tested directly.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fokker._core.state import State, nearest
from fokker.checker._residual import compile_once, map_points
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


def lift(problem: Problem, periodic: Mapping[str, Any] | None, sphere: str | Iterable[str]) -> Problem:
    """The problem with angles and unit vectors lifted; unchanged if there are none."""
    spheres = (sphere,) if isinstance(sphere, str) else tuple(sphere)
    periods = {name: np.asarray(period, float) for name, period in (periodic or {}).items()}
    if not spheres and not periods:
        return problem
    _validate(problem, periods, spheres)
    variables, start = {}, 0
    for name, rows in problem.variables.items():
        size = (rows.stop - rows.start) * (2 if name in periods else 1)
        variables[name] = slice(start, start + size)
        start += size
    wave = {
        name: jnp.asarray(np.broadcast_to(2 * np.pi / period, _size(problem, name)))
        for name, period in periods.items()
    }

    def by_variable(piece: Callable[[str], Array]) -> Vector:
        return jnp.concatenate([piece(name) for name in problem.variables])

    def halves(y: Vector, name: str) -> tuple[Array, Array]:
        first, second = jnp.split(y[variables[name]], 2)
        return first, second

    def length(y: Vector, name: str) -> Array:
        square = jnp.sum(y[variables[name]] ** 2)
        return jnp.sqrt(jnp.where(square > 0, square, 1.0))

    def fold(y: Vector) -> Vector:
        def piece(name: str) -> Array:
            if name in periods:
                cosine, sine = halves(y, name)
                # At the origin the angle is arbitrary, but its derivatives must be finite.
                is_away = cosine**2 + sine**2 > 0
                return (
                    jnp.arctan2(jnp.where(is_away, sine, 0.0), jnp.where(is_away, cosine, 1.0)) / wave[name]
                )
            return y[variables[name]] / (length(y, name) if name in spheres else 1.0)

        return by_variable(piece)

    def lifted(x: Vector) -> Vector:
        def piece(name: str) -> Array:
            part = x[problem.variables[name]]
            if name in periods:
                return jnp.concatenate([jnp.cos(wave[name] * part), jnp.sin(wave[name] * part)])
            if name in spheres:
                # A zero vector has no direction: use any.
                part = jnp.where(jnp.all(part == 0), 1.0, part)
                return part / jnp.sqrt(jnp.sum(part**2))
            return part

        return by_variable(piece)

    def push(y: Vector, w: Vector) -> Vector:
        """M w."""

        def piece(name: str) -> Array:
            part = w[problem.variables[name]]
            if name in periods:
                cosine, sine = halves(y, name)
                return jnp.concatenate([-sine * wave[name] * part, cosine * wave[name] * part])
            return part * (length(y, name) if name in spheres else 1.0)

        return by_variable(piece)

    def pull(y: Vector, v: Vector, inverse: bool = False) -> Vector:
        """Mᵀ v, or M⁻¹ v for a velocity v."""

        def piece(name: str) -> Array:
            part = v[variables[name]]
            if name in periods:
                cosine, sine = halves(y, name)
                first, second = jnp.split(part, 2)
                along = cosine * second - sine * first
                return along / ((cosine**2 + sine**2) * wave[name]) if inverse else along * wave[name]
            scale = length(y, name) if name in spheres else 1.0
            return part / scale if inverse else part * scale

        return by_variable(piece)

    def drift(y: Vector) -> Vector:
        x = fold(y)
        result = push(y, problem.drift(x))
        for name in periods:
            rows = np.arange(x.size)[problem.variables[name]]
            entries = jnp.stack([problem.D_mv(x, jnp.zeros_like(x).at[i].set(1))[i] for i in rows])
            turn = wave[name] ** 2 * entries
            result = result.at[variables[name]].add(-jnp.concatenate([turn, turn]) * y[variables[name]])
        return result

    def radial(y: Vector, names: Iterable[str]) -> Array:
        return sum((jnp.sum(y[variables[name]] ** 2) / 2 for name in names), jnp.zeros(()))

    compact = (*periods, *spheres)
    Q_mv, auxiliary = problem.Q_mv, problem.auxiliary
    return Lifted(
        example=problem.example,
        names=problem.names,
        variables=variables,
        drift=drift,
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
        lift=lifted,
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
