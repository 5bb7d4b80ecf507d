"""Is there a target? What of H, D and Q the residual, which looks at single points, cannot see."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from fokker._problem import Problem, Vector
from fokker.checker._residual import compile_once

_RAYS = 64
_SEGMENTS = 128
_NODES = 33
_HALVINGS = 40
# An increment that stays above this share of the function's range, however short the interval, is a jump.
_JUMP = 1e-3


@dataclass(frozen=True)
class Target:
    """What was found of the target: `wrong` says why it is none, `doubts` why not all could be looked at."""

    wrong: tuple[str, ...]
    doubts: tuple[str, ...]


def check_target(problem: Problem, points: Array, key: Key[Array, ""]) -> Target:
    """Whether H rises to infinity, has an edge or a jump, and whether everything moves."""
    ray_key, segment_key, edge_key = jax.random.split(key, 3)
    names = problem.coordinate_names()
    wrong, doubts = [], []
    falling = _falls_without_bound(problem, points, ray_key)
    if falling is not None:
        wrong.append(
            f"H falls without bound (as {names[falling]} grows), so exp(-H) is no density: was log p given "
            "in place of -log p?"
        )
        return Target(tuple(wrong), ())
    gradients = np.asarray(compile_once(jax.vmap(jax.grad(problem.hamiltonian)))(points))
    for name, rows in problem.variables.items():
        if np.all(gradients[:, rows] == 0):
            wrong.append(f"H does not depend on {name}, so exp(-H) has no integral: is it misspelt?")
    wrong += _jumps(problem, points, segment_key)
    if _has_edge(problem, points, edge_key):
        doubts.append(
            "H is not finite next to points of the target: it has an edge, and what flows through an edge is "
            "not seen here. Reflect there, or transform to a variable without one"
        )
    still = _still(problem, points)
    if still.size:
        told = ", ".join(names[i] for i in still[:4]) + (", …" if still.size > 4 else "")
        doubts.append(f"{told} never moves: exp(-H) is kept, but not found")
    return Target(tuple(wrong), tuple(doubts))


def _falls_without_bound(problem: Problem, points: Array, key: Key[Array, ""]) -> int | None:
    """The coordinate that grows most along a ray on which H goes below all its values and on falling."""
    d = problem.dimension
    center, spread = jnp.median(points, axis=0), jnp.std(points, axis=0) + 1e-3
    directions = jax.random.normal(key, (_RAYS, d))
    axes = jnp.eye(d)[: min(d, _RAYS)]
    directions = jnp.concatenate([directions, axes, -axes]) * spread[None]
    reaches = jnp.asarray([1e1, 1e2, 1e3, 1e4])

    def along(direction: Vector) -> Array:
        return jax.vmap(lambda s: problem.hamiltonian(center + s * direction))(reaches)

    energies = np.asarray(compile_once(jax.vmap(along))(directions))
    least = float(np.nanmin(np.asarray(compile_once(jax.vmap(problem.hamiltonian))(points))))
    far, near = energies[:, -1], energies[:, -2]
    with np.errstate(invalid="ignore"):
        falls = (far == -np.inf) | ((far < near) & (near < least))
    if not np.any(falls):
        return None
    return int(np.argmax(np.abs(np.asarray(directions)[int(np.argmax(falls))])))


def _has_edge(problem: Problem, points: Array, key: Key[Array, ""]) -> bool:
    """Whether H is infinite or undefined a typical distance away from points of the target."""
    spread = jnp.std(points, axis=0, keepdims=True)
    moved = points + spread * jax.random.normal(key, points.shape)
    energies = np.asarray(compile_once(jax.vmap(problem.hamiltonian))(moved))
    return bool(np.any(~np.isfinite(energies)))


def _still(problem: Problem, points: Array) -> np.ndarray:
    """Coordinates without drift and without noise at every point."""
    some = points[:64]
    drifts = np.asarray(compile_once(jax.vmap(problem.drift))(some))
    basis = jnp.ones(problem.dimension)
    noise = np.asarray(compile_once(jax.vmap(lambda x: problem.D_mv(x, basis)))(some))
    return np.flatnonzero(np.all((drifts == 0) & (noise == 0), axis=0))


def _jumps(problem: Problem, points: Array, key: Key[Array, ""]) -> list[str]:
    """Jumps of H and of D along segments between points: the residual is zero on both sides of one."""
    direction = jax.random.normal(key, (problem.dimension,))
    found = []
    looked_at: list[tuple[str, str, Callable[[Vector], Array]]] = [
        ("H", "the sampler does not feel the step of energy there", problem.hamiltonian),
        (
            "D",
            "Γ is infinite there, and no drift has it",
            lambda x: direction @ problem.D_mv(x, direction),
        ),
    ]
    if problem.Q_mv is not None:
        Q_mv, other = problem.Q_mv, jnp.roll(direction, 1)
        looked_at.append(
            ("Q", "Γ is infinite there, and no drift has it", lambda x: other @ Q_mv(x, direction))
        )
    starts = points[: min(_SEGMENTS, len(points) // 2)]
    ends = points[len(points) // 2 :][: len(starts)]
    for name, consequence, function in looked_at:
        jumped = np.asarray(compile_once(jax.vmap(lambda a, b, f=function: _jump(f, a, b)))(starts, ends))
        if np.any(jumped):
            found.append(f"{name} jumps between points of the target: {consequence}")
    return found


def _jump(function: Callable[[Vector], Array], start: Vector, end: Vector) -> Array:
    """Whether the largest increment along the segment stays as the interval shrinks."""

    def value(t: Array) -> Array:
        return function(start + t * (end - start))

    nodes = jnp.linspace(0.0, 1.0, _NODES)
    values = jax.vmap(value)(nodes)
    k = jnp.argmax(jnp.abs(jnp.diff(values)))

    def halve(_: int, interval: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = interval
        middle = (low + high) / 2
        left = jnp.abs(value(middle) - value(low)) > jnp.abs(value(high) - value(middle))
        return jnp.where(left, low, middle), jnp.where(left, middle, high)

    low, high = jax.lax.fori_loop(0, _HALVINGS, halve, (nodes[k], nodes[k + 1]))
    span = jnp.max(values) - jnp.min(values)
    return (jnp.abs(value(high) - value(low)) > _JUMP * span) & (span > 0) & jnp.isfinite(span)
