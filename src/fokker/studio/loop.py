"""The loop over steps, in blocks: as it runs here, and as text that computes the same bits."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

import fokker as fk
from fokker.samplers import Sampler
from fokker.samplers._trajectory import Trajectory
from fokker.samplers.composed import Composed
from fokker.samplers.loop import take_steps
from fokker.studio.program import Built

# The text that `start` and `block` are in a program: what stands in braces depends on the design.
_TEXT = """

@eqx.filter_jit
def start(sampler, keys):
    def one(key):
        position_key, momentum_key = jax.random.split(key)
        theta = jnp.array([{x}, {y}]) + {spread} * jax.random.normal(position_key, (2,))
        return sampler.init({state}, key=momentum_key)

    return jax.vmap(one)(keys)


@eqx.filter_jit
def block(sampler, states, keys, first, rows):
    def one(state, key, t):
        key, batch_key = jax.random.split(jax.random.fold_in(key, t))
        return sampler.step(key, state, {batch})

    def advance(states, t):
        states, info = jax.vmap(one, in_axes=(0, 0, None))(states, keys, t)
        return states, (jax.vmap(sampler.position)(states), info)

    return jax.lax.scan(advance, states, first + jnp.arange({steps}))


keys = jax.random.split(jax.random.key({seed}), {chains})
states = start(sampler, keys)
frames = []
for frame in range({frames}):
    states, (theta, info) = block(sampler, states, keys, jnp.asarray(frame * {steps}), {rows})
    frames.append(np.asarray(theta))
draws = np.concatenate(frames)  # step × chain × coordinate
print(draws.shape, "mean", draws[-1].mean(axis=0), "deviation", draws[-1].std(axis=0))
"""
_IMPORTS = ("import equinox as eqx", "import jax", "import jax.numpy as jnp", "import numpy as np", "")


def chain_keys(built: Built) -> Array:
    """One key per chain."""
    run = built.design.run
    return jax.random.split(jax.random.key(run.seed), run.chains)


def start(built: Built, keys: Array) -> Any:
    """The first states of all chains."""
    target, settings = built.design.target, built.design.settings
    return _start(
        built.sampler,
        keys,
        built.variables,
        target.start,
        target.spread,
        settings.temperature,
        settings.friction,
    )


@eqx.filter_jit
def _start(
    sampler: Sampler,
    keys: Array,
    variables: Sequence[str],
    place: tuple[float, float],
    spread: float,
    temperature: float,
    friction: float,
) -> Any:
    def one(key: Array) -> Any:
        position_key, momentum_key = jax.random.split(key)
        theta = jnp.array(place) + spread * jax.random.normal(position_key, (2,))
        if not variables:
            return sampler.init(theta, key=momentum_key)
        state = {"theta": theta}
        if "r" in variables:
            state["r"] = temperature**0.5 * jax.random.normal(momentum_key, (2,))
        if "xi" in variables:
            state["xi"] = jnp.asarray(friction)
        return sampler.init(state, key=momentum_key)

    return jax.vmap(one)(keys)


@eqx.filter_jit
def block(
    sampler: Sampler, states: Any, keys: Array, first: Array, rows: Array | None, steps: int, batch: int
) -> tuple[Any, Any]:
    """`steps` steps of all chains: the last states, and the positions and statistics of every step."""

    def randomness(key: Array, t: Array) -> Any:
        key, batch_key = jax.random.split(jax.random.fold_in(key, t))
        return key, None if rows is None else rows[jax.random.randint(batch_key, (batch,), 0, len(rows))]

    return take_steps(
        jax.vmap(sampler.step),
        states,
        first + jnp.arange(steps),
        lambda states, info: (jax.vmap(sampler.position)(states), info),
        lambda _, t: jax.vmap(randomness, in_axes=(0, None))(keys, t),
    )


def has_trajectories(built: Built) -> bool:
    """Whether a step goes through several points, as HMC and trees do."""
    sampler = built.sampler
    return isinstance(sampler, Composed) and (
        sampler.has_trajectories or isinstance(sampler.correction, fk.corrections.NaiveTree)
    )


def trajectory(built: Built, states: Any, keys: Array, t: int) -> Trajectory:
    """Step `t` of the first chain, point by point: the one that `block` takes from these states."""
    key, _ = jax.random.split(jax.random.fold_in(keys[0], t))
    return built.sampler.trajectory(key, jax.tree.map(lambda leaf: leaf[0], states))


def source(built: Built, frames: int) -> str:
    """The whole program: what the design defines, and a loop over the same blocks of steps."""
    design, run, settings = built.design, built.design.run, built.design.settings
    parts = ['"theta": theta'] if built.variables else []
    if "r" in built.variables:
        parts.append(f'"r": {settings.temperature!r}**0.5 * jax.random.normal(momentum_key, (2,))')
    if "xi" in built.variables:
        parts.append(f'"xi": jnp.asarray({settings.friction!r})')
    has_rows = built.rows is not None
    loop = _TEXT.format(
        x=repr(design.target.start[0]),
        y=repr(design.target.start[1]),
        spread=repr(design.target.spread),
        state=f"{{{', '.join(parts)}}}" if parts else "theta",
        batch=f"rows[jax.random.randint(batch_key, ({settings.batch},), 0, len(rows))]"
        if has_rows
        else "None",
        steps=run.steps,
        seed=run.seed,
        chains=run.chains,
        frames=frames,
        rows="rows" if has_rows else "None",
    )
    imports = [line for line in built.lines if line.startswith("from ")]
    body = [line for line in built.lines if not line.startswith("from ")]
    return "\n".join([*_IMPORTS, "import fokker as fk", *imports, "", *body]).rstrip() + "\n" + loop
