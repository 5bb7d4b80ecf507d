"""The first steps of a chain over lines of equal density, as a picture that `static/animation.js` plays.

Without the script it shows all steps at once.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from contourpy import contour_generator

__all__ = ["figure", "steps_of"]

STEPS = 120
Path = list[list[float]]
_SIZE = 360  # of the picture, in its own units
# Lines of equal density: U above its least value, as one to three standard deviations of a normal.
_LEVELS = (0.5, 2.0, 4.5)


def steps_of(sampler: Any, theta: Any) -> Path:
    """The positions of a chain in a plane, from its start on; as numbers of two decimals."""
    # A scalar example has a target of any dimension.
    theta = jnp.zeros(2) if jnp.ndim(jax.tree.leaves(theta)[0]) == 0 else theta
    start = sampler.init(jax.tree.map(lambda x: x + jnp.array([1.5, -1.5]), theta), key=jax.random.key(0))
    data = getattr(sampler.own_target, "data", None) if sampler.wants_target else None

    def step(state: Any, key: Any) -> tuple[Any, Any]:
        after = sampler.step(key, state, data)[0]
        return after, _plane(after.position)

    keys = jax.random.split(jax.random.key(1), STEPS)
    draws = jax.jit(lambda state: jax.lax.scan(step, state, keys)[1])(start)
    return np.round([_plane(start.position), *draws], 2).tolist()


def _plane(position: Any) -> Any:
    """The two coordinates of a position; of replicas, those of the first."""
    return jnp.concatenate([jnp.ravel(x) for x in jax.tree.leaves(position)])[:2]


def figure(name: str, path: Path, potential: Callable[[Any], Any], step_size: float | None) -> str:
    """The chain of a sampler over its target, as HTML."""
    points = np.asarray(path)
    reach = 1.15 * max(2.2, float(np.abs(points).max()))
    lines = "".join(
        f'<polyline class="level" points="{_points(line, reach)}"/>' for line in _contours(potential, reach)
    )
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5"/>' for x, y in _placed(points, reach))
    x, y = _placed(points[:1], reach)[0]
    size = "" if step_size is None else f" with step size {step_size:g}"
    return f"""<figure class="chain">
<svg viewBox="0 0 {_SIZE} {_SIZE}" role="img" aria-label="{STEPS} steps of {name} over lines of density">
{lines}
<polyline class="path" points="{_points(points, reach)}"/>
<g class="draws">{dots}</g><circle class="start" cx="{x:.1f}" cy="{y:.1f}" r="6"/>
</svg>
<figcaption>{STEPS} steps{size} from the ring, on the target of the check below.</figcaption>
</figure>"""


def _contours(potential: Callable[[Any], Any], reach: float) -> list[Any]:
    grid = np.linspace(-reach, reach, 81)
    plane = jnp.stack(jnp.meshgrid(grid, grid), axis=-1)
    values = np.asarray(jax.vmap(jax.vmap(potential))(plane))
    contours = contour_generator(grid, grid, values - values.min())
    return [line[::2] for level in _LEVELS for line in contours.lines(level)]


def _placed(points: Any, reach: float) -> Any:
    """In the units of the picture, whose second axis points down."""
    return (np.asarray(points) * [1, -1] / reach + 1) * _SIZE / 2


def _points(points: Sequence[Any], reach: float) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in _placed(points, reach))
