"""Slice sampling, along the coordinates or along random directions. It follows no dynamics."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Key, PyTree

from fokker._core.checks import check_whole
from fokker._core.count import Count, no_steps
from fokker._core.state import as_arrays, ravel, unravel
from fokker._core.types import Arrays, Number
from fokker.gradients import Estimator
from fokker.integrators.isokinetic import unit_vector
from fokker.samplers import _checks
from fokker.samplers.contract import Info, Sampler, SamplerState, all_finite
from fokker.targets.target import Target

# Rounds of shrinking after which a move is abandoned; an interval halves in about two.
_SHRINKS = 100


# Its ends, a point in it, whether that is in the slice, and how many were tried.
Interval = tuple[Array, Array, Array, Array, Array]


class Slice(Sampler):
    """A move on the line through theta for every direction; made by `slice_sampler`."""

    width: Any
    direction: str = eqx.field(static=True)
    limit: int = eqx.field(static=True)
    target: Any = None
    temperature: Any = 1.0

    name = "slice_sampler"

    def __str__(self) -> str:
        return "uniform under the density, by stepping out and shrinking"

    is_exact = True

    def on(self, target: Target, temperature: Number = 1.0, gradient: Estimator | None = None) -> "Slice":
        """The sampler of exp(-U/T) for a target."""
        return _checks.placed(self, target, temperature, gradient)

    def _potential(self, theta: PyTree[Array]) -> Any:
        potential = _checks.tempered(self.own_target, self.temperature, theta)

        def U(x: Array) -> Array:
            value = potential(x)
            return jnp.where(jnp.isnan(value), jnp.inf, value)  # outside the support

        return U

    def init(self, position: PyTree[Any], *, key: Key[Array, ""] | None = None) -> SamplerState:
        """The state to start from: inside the support."""
        theta = _checks.check_position(self, position)
        _checks.as_vector(self.width, theta)
        U = self._potential(theta)(ravel(theta))
        _checks.check_finite_start(U, U)
        return SamplerState({"theta": theta}, no_steps())

    def advance(
        self, draws: Arrays, state: SamplerState, batch: Arrays = None, number: Count | None = None
    ) -> tuple[SamplerState, Any]:
        """A move along every coordinate, or along one random direction."""
        _checks.no_batch(self, batch)
        theta = state.position
        x, U = ravel(theta), self._potential(theta)
        width = jnp.broadcast_to(_checks.as_vector(self.width, theta), x.shape)

        def move(key: Array, x: Array, direction: Array) -> tuple[Array, Array, Array]:
            t, is_moved, count = _slice_move(lambda t: U(x + t * direction), key, self.limit, x.dtype)
            return x + t * direction, is_moved, count

        if self.direction == "random":
            direction_key, key = jax.random.split(draws)
            x, is_moved, count = move(
                key, x, width * unit_vector(jax.random.normal(direction_key, x.shape, x.dtype))
            )
        else:
            keys = jax.random.split(draws, x.size)

            def along(i: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
                x, is_moved, count = carry
                x, moved, more = move(keys[i], x, jnp.zeros_like(x).at[i].set(width[i]))
                return x, is_moved & moved, count + more

            first = (x, jnp.asarray(True), jnp.zeros((), jnp.int32))
            x, is_moved, count = jax.lax.fori_loop(0, x.size, along, first)
        theta = unravel(x, theta)
        info = Info(all_finite(theta), is_accepted=is_moved, evaluations=count)
        return SamplerState({"theta": theta}, state.step + 1), info


def _slice_move(
    U: Callable[[Array], Array], key: Array, limit: int, dtype: DTypeLike
) -> tuple[Array, Array, Array]:
    """From t = 0 to a point of the slice U(t) < U(0) + Exp(1), by an interval that is 1 wide at first.

    Both loops have limits that keep detailed balance: that of stepping out is shared between the two ends at
    random (Neal 2003, Fig. 3), and a move abandoned after so many points outside the slice would be abandoned
    from its other end after the same points. Returns t, whether it was found, and the evaluations of U.
    """
    level_key, place_key, share_key, shrink_key = jax.random.split(key, 4)
    start = U(jnp.zeros((), dtype))
    level = start + jax.random.exponential(level_key, (), start.dtype)
    left = -jax.random.uniform(place_key, (), start.dtype)
    steps_left = jax.random.randint(share_key, (), 0, limit)

    def step_out(end: Array, by: float, most: Array) -> tuple[Array, Array]:
        def go(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            end, done, _ = carry
            end = end + by
            return end, done + 1, U(end) < level

        first = (end, jnp.zeros((), jnp.int32), U(end) < level)
        end, done, _ = jax.lax.while_loop(lambda carry: (carry[1] < most) & carry[2], go, first)
        return end, done + 1

    low, first_count = step_out(left, -1.0, steps_left)
    high, second_count = step_out(left + 1, 1.0, limit - 1 - steps_left)

    def shrink(carry: Interval) -> Interval:
        low, high, _, _, count = carry
        share = jax.random.uniform(jax.random.fold_in(shrink_key, count), (), start.dtype)
        t = low + share * (high - low)
        return jnp.where(t < 0, t, low), jnp.where(t < 0, high, t), t, U(t) < level, count + 1

    first = (low, high, jnp.zeros_like(low), jnp.asarray(False), jnp.zeros((), jnp.int32))
    _, _, t, is_found, count = jax.lax.while_loop(
        lambda carry: ~carry[3] & (carry[4] < _SHRINKS), shrink, first
    )
    return jnp.where(is_found, t, 0), is_found, 1 + first_count + second_count + count


def slice_sampler(width: PyTree[Array] = 1.0, *, direction: str = "coordinates", limit: int = 50) -> Slice:
    r"""Slice sampling (Neal 2003) of exp(-U/T): exact, with no gradient and no step size to choose.

        level = U(θ)/T + Exp(1);   θ' uniform on the part of an interval around θ where U/T < level

    The interval is `width` wide at first, steps out in steps of `width` while its ends are inside the slice,
    to at most `limit` widths, and shrinks towards θ with every point outside the slice (Figs. 3 and 5 of the
    paper). The wrong width costs evaluations of U, no accuracy. `width` is a number or a tree like theta.

    `direction="coordinates"`: a step is a move along each coordinate in turn. "random": one move along a
    direction uniform on the sphere, in units of `width` (hit and run); reversible, and cheaper in high
    dimensions. `info.evaluations` counts those of U. It is called `slice_sampler` so as not to hide
    Python's own `slice`.

    Arguments:

    - `width`: of the first interval: a positive number, or a tree like theta.
    - `direction`: "coordinates" or "random".
    - `limit`: the most widths that an interval steps out.

    Returns a sampler of its own class: it follows no dynamics.

    ```python
    trace = fk.sample(target, fk.samplers.slice_sampler(), init=jnp.zeros(2), steps=1000)
    ```
    """
    if direction not in ("coordinates", "random"):
        raise ValueError(f"direction is 'coordinates' or 'random', not {direction!r}.")
    check_whole("limit", limit)
    width = as_arrays(width)
    positive = [jnp.all(jnp.isfinite(w) & (w > 0)) for w in jax.tree.leaves(width)]
    if not all(isinstance(p, jax.core.Tracer) or bool(p) for p in positive):
        raise ValueError(f"the width must be positive; {width} was given.")
    return Slice(width, direction, limit)
