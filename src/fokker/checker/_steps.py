r"""Whether the steps of a sampler follow the dynamics that it names.

From the same draws of the target, small steps of the sampler and smaller ones of Euler–Maruyama lead to the
same time t. Averages of squared moves, of products of two coordinates' moves, and of moves weighted by the
drift and by the place, must agree. To first order in t they are those of 2D t and of f t; the reference has
the higher orders too. Noise in rare jumps, whose fourth moment is of order t and not t², may have the same
averages, and then its moves have another distribution: many are small. Averages of e^{-m²/2s²} of the moves m
show it, as fourth moments would; they are bounded, so that one rare move decides nothing. A constant that is
added to the drift moves the mean by t and the noise by √t: it is looked for over a longer time.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fokker._core.digits import percent
from fokker._core.quick import compile_once
from fokker.checker._averages import position_of, steps_from
from fokker.checker._compact import Lifted
from fokker.checker._finding import ALARM, Finding
from fokker.dynamics.problem import Problem, Vector
from fokker.samplers.contract import Followed, Sampler, SamplerState

# Above this many coordinates the root of D at every step takes too long.
_LARGEST = 16
# The time, in units of the fastest time scale, and the steps that lead there; so many more of the reference.
_TIME, _STEPS, _FINER = 0.5, 16, 2
_GROUPS, _STARTS = 128, 32
# So many times as long for the mean. A smaller shift of it, in standard deviations of the target, may come
# from steps that are not small enough.
_LONGER, _SMALL_SHIFT = 8, 0.05
# Draws at which the time scale is computed.
_SCALES = 64
# A smaller difference, as a share of the average, may come from steps that are not small enough.
_SMALL = 0.1
# The same of e^{-m²/2s²}, which a tenth more noise lowers by 2 %, and noise of ±1 in so many steps by 0.4 %.
_SMALL_SHARE = 0.05


def names_all_it_does(sampler: Sampler, followed: Followed, problem: Problem) -> bool:
    """Whether the dynamics are, by what the sampler says, all that its steps do, and can be compared."""
    is_all = not (followed.notes or followed.doubt or followed.spheres or followed.is_refreshed)
    can_be = bool(problem.names) and problem.dimension <= _LARGEST and not isinstance(problem, Lifted)
    return is_all and can_be and sampler.own_step_size is not None


def with_small_step(sampler: Sampler, problem: Problem, draws: np.ndarray) -> Sampler | None:
    """The sampler with a step that is small beside all time scales; None if these could not be computed."""
    scale = _fastest_time(problem, draws)
    return sampler.with_step_size(_TIME / _STEPS * scale) if 0 < scale < np.inf else None


def steps_findings(
    sampler: Sampler, problem: Problem, draws: np.ndarray, generator: np.random.Generator
) -> list[Finding]:
    """The moves of a sampler with a small step beside those of the dynamics; none if it cannot take them."""
    starts = draws[np.arange(_GROUPS * _STARTS) % len(draws)]
    if not _can_step(sampler, problem, starts[0]):
        return []
    short = _short_finding(sampler, problem, draws, starts, generator)
    return [short, _mean_finding(sampler, problem, draws, starts, generator)] if short.holds else [short]


def _short_finding(
    sampler: Sampler,
    problem: Problem,
    draws: np.ndarray,
    starts: np.ndarray,
    generator: np.random.Generator,
) -> Finding:
    """Averages of moves, of their squares and products, over a short time."""
    h = float(sampler.own_step_size)  # type: ignore[arg-type]
    spread = np.std(draws, axis=0) + 1e-300
    drift = np.asarray(compile_once(jax.vmap(problem.drift))(starts))
    weights = _weights((starts - np.mean(draws, axis=0)) / spread, drift)
    moves = []
    for path in (_path(sampler, problem, _STEPS), _by_euler(problem, h, _STEPS)):
        run = compile_once(jax.vmap(path))
        moves.append([(np.asarray(run(starts, keys)) - starts) / spread for keys in _keys(generator)])
    size = np.sqrt(np.mean(moves[1][0] ** 2, axis=0)) + 1e-300
    products = [_products(own, shared, weights, size) for own, shared in moves]
    compared = _compared(products[0], products[1], 2 + weights.shape[2])
    kind, worst = (int(i) for i in np.unravel_index(np.argmax(compared.scores), compared.scores.shape))
    largest = float(compared.scores[kind, worst])
    where = problem.coordinate_names()[worst]
    what = ("mean square of the move", "mean move", "mean move, weighted by drift or place,")[min(kind, 2)]
    if kind >= 2 + weights.shape[2]:
        what = "mean product of the move with that of another coordinate,"
    meaning = ", in standard deviations of the target"
    if kind == len(compared.scores) - 1:
        what, meaning = "share of small moves", ": it is larger where noise comes in jumps"
    actual, expected = (float(np.mean(x, axis=0)[kind, worst]) for x in products)
    how = f"{_STEPS} steps of size {h:.2g} at temperature {float(sampler.own_temperature):.3g} from "
    how += f"{len(starts)} states"
    noise, _, gain = (max(_SMALL, float(np.max(row))) for row in compared.detectable[:3])
    share = max(_SMALL_SHARE, float(np.max(compared.detectable[-1])))
    return Finding(
        f"steps: {how} move them as the dynamics do, by averages of the moves and of their squares, and "
        "without jumps",
        f"the steps are not those of the dynamics that the sampler says it follows: over {how}, the {what} "
        f"of {where} is {actual:.3g} and should be {expected:.3g}{meaning} "
        f"({min(largest, 1e3):.0f} standard errors)",
        largest,
        ALARM,
        f"Steps with {_within(noise)} of the noise, or {_within(gain)} of the drift, of the dynamics are not "
        "distinguished from theirs. "
        f"Jumps are not seen where they make up less than about {percent(min(1.0, 4 * share))} of the mean "
        f"square of the moves, or where more than about {0.1 / share:.1g} of them come in these steps",
    )


def _mean_finding(
    sampler: Sampler,
    problem: Problem,
    draws: np.ndarray,
    starts: np.ndarray,
    generator: np.random.Generator,
) -> Finding:
    """The mean after a longer time, at which a constant drift has moved it further than the noise hides."""
    h, steps = float(sampler.own_step_size), _LONGER * _STEPS  # type: ignore[arg-type]
    spread = np.std(draws, axis=0) + 1e-300
    moves = [
        (np.asarray(compile_once(jax.vmap(path))(starts, _keys(generator)[0])) - starts) / spread
        for path in (_path(sampler, problem, steps), _by_euler(problem, h, steps))
    ]
    difference = np.mean(moves[0] - moves[1], axis=0)
    error = np.std(moves[0] - moves[1], axis=0, ddof=1) / np.sqrt(len(starts)) + 1e-300
    is_off = ~(np.abs(difference) <= _SMALL_SHIFT)  # not finite is off
    scores = np.where(is_off, np.nan_to_num(np.abs(difference) / error, nan=np.inf), 0.0)
    worst = int(np.argmax(scores))
    how = f"{steps} steps of size {h:.2g} at temperature {float(sampler.own_temperature):.3g}"
    missed = max(_SMALL_SHIFT, float(np.max(ALARM * error)))
    return Finding(
        f"mean: {how} leave it where the dynamics do",
        f"the steps are not those of the dynamics that the sampler says it follows: after {how} the mean of "
        f"{problem.coordinate_names()[worst]} is off by {abs(difference[worst]):.2g} standard deviations of "
        f"the target ({min(float(scores[worst]), 1e3):.0f} standard errors)",
        float(scores[worst]),
        ALARM,
        f"A constant drift beside that of the dynamics is not seen where it moves the mean by less than "
        f"{missed:.2g} standard deviations in {steps} steps",
    )


class _Compared(NamedTuple):
    """Of each kind and coordinate: the difference in standard errors, and the share that would be noticed."""

    scores: np.ndarray
    detectable: np.ndarray


def _compared(moves: np.ndarray, expected: np.ndarray, first_cross: int) -> _Compared:
    """Products of the sampler beside those of the dynamics, group × kind × coordinate.

    `first_cross`: the first kind that is a product of two coordinates' moves.
    """
    difference = np.mean(moves - expected, axis=0)
    error = np.std(moves - expected, axis=0, ddof=1) / np.sqrt(len(moves)) + 1e-300
    size = np.abs(np.mean(expected, axis=0))
    # Weights that the drift does not depend on have averages of zero: compare with the others.
    size[1:first_cross] = np.max(size[1:first_cross], axis=0)
    for k, row in enumerate(size[first_cross:-1], 1):
        row[:] = np.sqrt(size[0] * np.roll(size[0], -k))
    small = np.full((len(size), 1), _SMALL)
    small[-1] = _SMALL_SHARE
    is_off = ~(np.abs(difference) <= small * size)  # not finite is off
    scores = np.where(is_off, np.nan_to_num(np.abs(difference) / error, nan=np.inf), 0.0)
    return _Compared(scores, ALARM * error / np.maximum(size, 1e-300))


def _within(share: float) -> str:
    return f"{percent(1 - share)} to {percent(1 + share)}" if share < 1 else "any share"


def _keys(generator: np.random.Generator) -> tuple[Array, Array]:
    """Of each start its own; and the same for all starts of a group, whose noise cancels in differences."""
    own, common = (jax.random.key(int(seed)) for seed in generator.integers(2**31, size=2))
    shared = jnp.repeat(jax.random.split(common, _GROUPS), _STARTS)
    return jax.random.split(own, _GROUPS * _STARTS), shared


def _weights(place: np.ndarray, drift: np.ndarray) -> np.ndarray:
    """Group × start × weight × coordinate: its own drift, and all places; of mean 0 in each group."""
    size = np.sqrt(np.mean(drift**2, axis=0))
    own = np.tanh(drift / np.where(size > 0, size, 1.0))[:, None]
    places = np.repeat(np.tanh(place)[:, :, None], place.shape[1], axis=2)
    weights = np.concatenate([own, places], axis=1).reshape(_GROUPS, _STARTS, -1, place.shape[1])
    return weights - np.mean(weights, axis=1, keepdims=True)


def _products(
    moves: np.ndarray, with_shared_noise: np.ndarray, weights: np.ndarray, size: np.ndarray
) -> np.ndarray:
    """Group × kind × coordinate: means of squares of moves, of moves, with weights, and by another's move.

    By another's move: the next coordinate's, that of the one after it, …, so that all pairs are there. The
    last kind is the mean of e^{-m²/2s²} with s the `size` of the moves of the dynamics.
    """
    by_group = (_GROUPS, _STARTS, -1)
    grouped = moves.reshape(by_group)
    distances = range(1, grouped.shape[2] // 2 + 1)
    cross = [np.mean(grouped * np.roll(grouped, -k, axis=2), axis=1)[:, None] for k in distances]
    unweighted = [np.mean(grouped**power, axis=1)[:, None] for power in (2, 1)]
    weighted = np.mean(with_shared_noise.reshape(by_group)[:, :, None] * weights, axis=1)
    small = np.mean(np.exp(-((moves / size) ** 2) / 2).reshape(by_group), axis=1)[:, None]
    return np.concatenate([*unweighted, weighted, *cross, small], axis=1)


def _fastest_time(problem: Problem, draws: np.ndarray) -> float:
    """One over the spectral radius of ∂f/∂z, or the time in which noise crosses the target if shorter."""
    some = draws[:_SCALES]
    jacobians = np.asarray(compile_once(jax.vmap(jax.jacfwd(problem.drift)))(some))
    D = np.asarray(compile_once(jax.vmap(problem.D_matrix))(some))
    if not (np.all(np.isfinite(jacobians)) and np.all(np.isfinite(D))):
        return np.nan
    rates = np.max(np.abs(np.linalg.eigvals(jacobians)), axis=1)
    crossing = np.max(2 * np.diagonal(D, axis1=1, axis2=2) / (np.var(draws, axis=0) + 1e-300), axis=1)
    with np.errstate(divide="ignore"):
        return float(1 / np.max(np.maximum(rates, crossing)))


def _start(sampler: Sampler, problem: Problem) -> Callable[[Vector, Array], SamplerState | None]:
    """The sampler's state at a point; None if it has no place for all variables of the dynamics."""

    def start(x: Vector, key: Array) -> SamplerState | None:
        z = problem.to_state(x)
        state = sampler.init(position_of(sampler, problem, x), key=key)
        if not isinstance(state, SamplerState) or not set(problem.names) <= set(state.z):
            return None
        return state._replace(z={**state.z, **z})

    return start


def _can_step(sampler: Sampler, problem: Problem, x: np.ndarray) -> bool:
    """Whether its state is that of the dynamics, and it takes steps without a batch."""
    key = jax.random.key(0)
    if jax.eval_shape(_start(sampler, problem), x, key) is None:
        return False
    try:
        jax.eval_shape(_path(sampler, problem, _STEPS), x, key)
    except Exception:  # a user's own step may raise anything
        return False
    return True


def _path(sampler: Sampler, problem: Problem, steps: int) -> Callable[[Vector, Array], Vector]:
    """Where the sampler is after so many steps."""

    def path(x: Vector, key: Array) -> Vector:
        keys = jax.random.split(key, steps + 1)
        state = _start(sampler, problem)(x, keys[0])
        end, _ = steps_from(sampler, state, keys[1:])
        return problem.to_vector({name: end.z[name] for name in problem.names})

    return path


def _by_euler(problem: Problem, h: float, steps: int) -> Callable[[Vector, Array], Vector]:
    """Where the dynamics are after the time of so many steps of this size."""
    small = h / _FINER

    def step(x: Vector, noise: Vector) -> tuple[Vector, None]:
        values, vectors = jnp.linalg.eigh(2 * small * problem.D_matrix(x))
        kick = vectors @ (jnp.sqrt(jnp.maximum(values, 0)) * noise)  # D may be singular
        return x + small * problem.drift(x) + kick, None

    def path(x: Vector, key: Array) -> Vector:
        return jax.lax.scan(step, x, jax.random.normal(key, (steps * _FINER, x.size), x.dtype))[0]

    return path
