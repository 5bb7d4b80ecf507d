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
_TESTS = 32
# Standard errors; of 32 test functions and normal means one exceeds this once in ten million checks.
_ALARM = 6.5


@dataclass(frozen=True)
class Target:
    """What was found: `wrong` says why there is no target, `doubts` why not all could be looked at.

    `flow` is the largest |t| of the weak form, in standard errors.
    """

    wrong: tuple[str, ...]
    doubts: tuple[str, ...]
    flow: float = 0.0

    @property
    def flows(self) -> str | None:
        """In words, where the draws speak against a residual that is zero."""
        if self.flow <= _ALARM or self.wrong:
            return None
        return (
            f"draws from the target say that something flows ({self.flow:.0f} standard errors) where the "
            "residual, which looks at single points, is zero: out of the tails, through an edge, or at a "
            "jump; or the draws are poor"
        )


def check_target(problem: Problem, points: Array, key: Key[Array, ""]) -> Target:
    """Whether H rises to infinity, has an edge or a jump, and whether everything moves."""
    seen = _look(problem, points, key)
    names = problem.coordinate_names()
    wrong, doubts = [], []
    falling = _falls_without_bound(seen)
    if falling is not None:
        wrong.append(
            f"H falls without bound (as {names[falling]} grows), so exp(-H) is no density: was log p given "
            "in place of -log p?"
        )
        return Target(tuple(wrong), ())
    for name, rows in problem.variables.items():
        if np.all(seen["gradients"][:, rows] == 0):
            wrong.append(f"H does not depend on {name}, so exp(-H) has no integral: is it misspelt?")
    for name, jumped in zip("HDQ", seen["jumps"].T, strict=False):
        if np.any(jumped):
            wrong.append(f"{name} jumps between points of the target: {_CONSEQUENCE[name]}")
    if np.any(~np.isfinite(seen["moved"])):
        doubts.append(
            "H is not finite next to points of the target: it has an edge, and what flows through an edge is "
            "not seen here. Reflect there, or transform to a variable without one"
        )
    still = np.flatnonzero(np.all((seen["drift"] == 0) & (seen["noise"] == 0), axis=0))
    if still.size:
        told = ", ".join(names[i] for i in still[:4]) + (", …" if still.size > 4 else "")
        doubts.append(f"{told} never moves: exp(-H) is kept, but not found")
    return Target(tuple(wrong), tuple(doubts), _largest_t(seen["weak"]))


_CONSEQUENCE = {
    "H": "the sampler does not feel the step of energy there",
    "D": "Γ is infinite there, and no drift has it",
    "Q": "Γ is infinite there, and no drift has it",
}


def _look(problem: Problem, points: Array, key: Key[Array, ""]) -> dict[str, np.ndarray]:
    """Everything that is evaluated, in one program: compiling it is most of the cost."""
    d, H = problem.dimension, problem.hamiltonian
    ray_key, move_key, segment_key, test_key, center_key = jax.random.split(key, 5)
    spread = jnp.std(points, axis=0)
    axes = jnp.eye(d)[: min(d, _RAYS)]
    rays = jnp.concatenate([jax.random.normal(ray_key, (_RAYS, d)), axes, -axes]) * (spread + 1e-3)[None]
    center = jnp.median(points, axis=0)
    moved = points + spread[None] * jax.random.normal(move_key, points.shape)
    half = len(points) // 2
    segments = (points[:half][:_SEGMENTS], points[half:][:_SEGMENTS][: len(points[:half])])
    direction = jax.random.normal(segment_key, (d,))
    tests = jax.random.normal(test_key, (_TESTS, d)) / jnp.sqrt(d)
    tests = tests.at[: min(d, _TESTS // 2)].set(jnp.eye(d)[: min(d, _TESTS // 2)]) / (spread + 1e-12)[None]
    centers = points[jax.random.randint(center_key, (_TESTS,), 0, len(points))]

    def matrices(x: Vector) -> Array:
        """Numbers that jump where H, D or Q does."""
        values = [H(x), direction @ problem.D_mv(x, direction)]
        if problem.Q_mv is not None:
            values.append(jnp.roll(direction, 1) @ problem.Q_mv(x, direction))
        return jnp.stack(values)

    def at_point(x: Vector) -> dict[str, Array]:
        f, noise = problem.drift(x), problem.D_mv(x, jnp.ones(d))

        def against(w: Vector, c: Vector) -> Array:
            t = jnp.tanh(w @ (x - c))
            return (1 - t**2) * (f @ w - 2 * t * (w @ problem.D_mv(x, w)))

        energy, gradient = jax.value_and_grad(H)(x)
        weak = jax.vmap(against)(tests, centers)
        return {"energy": energy, "gradients": gradient, "drift": f, "noise": noise, "weak": weak}

    def program(points: Array, rays: Array, moved: Array) -> dict[str, Array]:
        far = jax.lax.map(lambda ray: jax.vmap(lambda s: H(center + s * ray))(jnp.asarray([1e3, 1e4])), rays)
        found = jax.lax.map(at_point, points, batch_size=64)
        jumps = jax.lax.map(lambda ends: _jump(matrices, *ends), segments, batch_size=32)
        return {**found, "far": far, "moved": jax.vmap(H)(moved), "jumps": jumps}

    seen = compile_once(program)(points, rays, moved)
    return {name: np.asarray(value) for name, value in seen.items()} | {"rays": np.asarray(rays)}


def _falls_without_bound(seen: dict[str, np.ndarray]) -> int | None:
    """The coordinate that grows most along a ray on which H goes below all its values and on falling."""
    near, far = seen["far"].T
    with np.errstate(invalid="ignore"):
        falls = (far == -np.inf) | ((far < near) & (near < np.nanmin(seen["energy"])))
    return int(np.argmax(np.abs(seen["rays"][int(np.argmax(falls))]))) if np.any(falls) else None


def _largest_t(values: np.ndarray) -> float:
    r"""The largest |t| of E[f·∇φ + D:∇²φ] = 0 over test functions φ = tanh(w·(z - c)), with c drawn points.

    It holds for every stationary density, and fails where probability is lost at infinity or at a jump.
    """
    errors = np.std(values, axis=0, ddof=1) / np.sqrt(len(values))
    usable = np.isfinite(errors) & (errors > 0)
    return float(np.max(np.abs(values.mean(axis=0)[usable]) / errors[usable])) if np.any(usable) else 0.0


def _jump(functions: Callable[[Vector], Array], start: Vector, end: Vector) -> Array:
    """Whether the largest increment of each function along the segment stays as the interval shrinks."""
    nodes = jnp.linspace(0.0, 1.0, _NODES)
    values = jax.vmap(lambda t: functions(start + t * (end - start)))(nodes)
    kinds = jnp.arange(values.shape[1])
    return jax.vmap(lambda kind, own: _stays(functions, kind, own, nodes, start, end))(kinds, values.T)


def _stays(
    functions: Callable[[Vector], Array], kind: Array, values: Array, nodes: Array, start: Vector, end: Vector
) -> Array:
    def value(t: Array) -> Array:
        return functions(start + t * (end - start))[kind]

    k = jnp.argmax(jnp.abs(jnp.diff(values)))

    def halve(_: int, interval: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = interval
        middle = (low + high) / 2
        left = jnp.abs(value(middle) - value(low)) > jnp.abs(value(high) - value(middle))
        return jnp.where(left, low, middle), jnp.where(left, middle, high)

    low, high = jax.lax.fori_loop(0, _HALVINGS, halve, (nodes[k], nodes[k + 1]))
    span = jnp.max(values) - jnp.min(values)
    # A constant varies by rounding: its steps are no jumps.
    varies = span > 1e-8 * jnp.max(jnp.abs(values))
    return (jnp.abs(value(high) - value(low)) > _JUMP * span) & varies & jnp.isfinite(span)
