"""∇U at many draws of a run, from all the data or, if there are too many, with control variates."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from fokker._core.count import Count
from fokker._core.draws import at_draws, scalars_per_draw, shape_of_draws
from fokker._core.state import ravel_each, ravel_each_draw, shapes_of_first, unravel
from fokker.batches import Batches, BlockBatches
from fokker.rows.readers import in_large_pieces
from fokker.targets.target import TargetWithData

# Rows of data used for all the points together: this takes seconds, not minutes.
_ROWS = 50_000_000
# Rows times coordinates of all the points together, where a row takes longer.
_WORK = 2 * 10**10
# Coordinates of all the points together, so that they fit into memory in double precision.
_NUMBERS = 20_000_000
# The fewest rows of a point, if theta is small and if it is large.
_FEWEST_ROWS, _FEWEST_IF_LARGE = 1000, 100


def thinned_places(draws: int, chains: int, points: int) -> np.ndarray:
    """Places of about `points` draws of all chains together, evenly spaced over a chain."""
    places = min(draws, max(1, points // chains))
    return ((np.arange(places) + 0.5) * draws / places).astype(int)


def thinned(positions: PyTree[Any], points: int) -> PyTree[Array]:
    """About `points` positions, chain × place, evenly spaced over the draws."""
    chains, draws = shape_of_draws(positions)
    most = max(100, min(points, _NUMBERS // max(1, scalars_per_draw(positions))))
    draw = thinned_places(draws, chains, most)
    return jax.tree.map(lambda x: jnp.asarray(np.asarray(x)[:, draw]), positions)


def redrawn(target: Any, positions: PyTree[Any]) -> PyTree[Any]:
    """Positions, chain × draw, with what theta does not determine drawn from its density given theta.

    Draws are of theta alone: the length of the y behind a unit vector, for example, is not among them, and
    identities of ∇U hold for the density of all of y.
    """
    if target is None or target.is_one_to_one:
        return positions
    keys = jax.random.split(jax.random.key(0), shape_of_draws(positions))
    # Compiled as one: the data of the target are no part of the program.
    redraw = jax.jit(jax.vmap(jax.vmap(lambda y, key: target.redraw(y, key))))
    return redraw(jax.tree.map(jnp.asarray, positions), keys)


def affordable_rows(target: Any, points: int, coordinates: int, most: int = _ROWS) -> int | None:
    """How many rows each of `points` evaluations may use; None for all of them."""
    if not isinstance(target, TargetWithData):
        return None
    work = _WORK // max(1, coordinates)
    fewest = min(_FEWEST_ROWS, max(_FEWEST_IF_LARGE, work // 1000))
    rows = max(fewest, min(most, work) // points)
    return rows if rows < target.size else None


class Gradients(NamedTuple):
    """∇U at positions; from `rows` rows of data per position, an unbiased estimate with independent noise.

    The estimate is the gradient at a centre plus a difference computed from a minibatch. Its noise decreases
    with the distance from the centre, the mean of the positions, and is far below the spread of the gradient
    itself where the target has one mode. Of large files in pieces, the batches of positions that follow each
    other are of the same pieces: with rows from all over the file, each position would read all of it.
    """

    target: Any
    batches: Batches | BlockBatches | None
    centre: PyTree[Array] | None
    at_centre: PyTree[Array] | None

    @classmethod
    def around(cls, target: Any, centre: PyTree[Array] | None, rows: int | None) -> "Gradients":
        """With the gradient at the centre, where it is needed."""
        if rows is None:
            return cls(target, None, None, None)
        batches: Any = Batches(target.size, rows, "replacement")
        if in_large_pieces(target.data):
            batches = BlockBatches.of(target.data, rows)
        return cls(target, batches, centre, _full_gradient(target, centre))

    def at(self, positions: PyTree[Array], keys: Array) -> PyTree[Array]:
        """The gradients at positions with a leading axis, a key for each."""
        return _values_and_gradients(self, positions, keys)[1]


class Potential:
    """U and ∇U at positions chain × place, as vectors; for many data, estimates of ∇U by `Gradients`.

    `values` are U at these positions, NaN where gradients are estimates, and `gradients` are ∇U.
    """

    def __init__(self, target: Any, positions: PyTree[Array], most: int = _ROWS) -> None:
        chains, places = shape_of_draws(positions)
        self._total = chains * places
        flat = jax.tree.map(lambda x: x.reshape(self._total, *x.shape[2:]), positions)
        self._like = shapes_of_first(flat)
        self._keys = jax.random.split(jax.random.key(0), self._total)
        rows = affordable_rows(target, 2 * self._total, scalars_per_draw(positions), most)
        self.is_exact = rows is None
        centre = None if rows is None else jax.tree.map(lambda x: jnp.mean(x, axis=0), flat)
        self._estimate = Gradients.around(target, centre, rows)
        values, gradients = self._evaluated(flat)
        self.values = values.reshape(chains, places)
        self.gradients = gradients.reshape(chains, places, -1)

    def _evaluated(self, positions: PyTree[Array]) -> tuple[np.ndarray, np.ndarray]:
        values, gradients = _values_and_gradients(self._estimate, positions, self._keys)
        return np.asarray(values, float), np.asarray(ravel_each(gradients), float)

    def at(self, vectors: Float[np.ndarray, "m d"]) -> tuple[np.ndarray, np.ndarray]:
        """U and ∇U at up to as many vectors as there are positions, by the program compiled for these."""
        number = len(vectors)
        padded = np.concatenate([vectors, np.repeat(vectors[:1], self._total - number, axis=0)])
        values, gradients = self._evaluated(jax.vmap(lambda v: unravel(v, self._like))(jnp.asarray(padded)))
        return values[:number], gradients[:number]

    @property
    def most(self) -> int:
        """How many vectors `at` takes."""
        return self._total


def gradients_at(target: Any, positions: PyTree[Array], most: int = _ROWS) -> Float[np.ndarray, "c n d"]:
    """∇U at positions chain × place, as vectors; for many data an estimate by `Gradients`."""
    return Potential(target, positions, most).gradients


@eqx.filter_jit
def _full_gradient(target: Any, theta: PyTree[Array]) -> PyTree[Array]:
    return jax.grad(target.potential)(theta)


@eqx.filter_jit
def _values_and_gradients(
    estimate: Gradients, positions: PyTree[Array], keys: Array
) -> tuple[Array, PyTree[Array]]:
    target, batches, centre, at_centre = estimate
    if batches is None:
        return jax.lax.map(jax.value_and_grad(target.potential), positions)
    zero = jnp.zeros((), jnp.uint32)
    places = batches.places_after((Count(zero, zero), zero), jnp.arange(len(keys), dtype=jnp.uint32))

    def gradient(inputs: tuple[PyTree[Array], Array, tuple[Count, Array]]) -> PyTree[Array]:
        theta, key, place = inputs
        batch = batches.batch(target.data, batches.rows(keys[0], key, *place))
        at_theta, at_centre_by_batch = (
            jax.grad(target.minibatch_potential)(x, batch) for x in (theta, centre)
        )
        return jax.tree.map(lambda a, b, c: a + (b - c), at_centre, at_theta, at_centre_by_batch)

    return jnp.full(len(keys), jnp.nan), jax.lax.map(gradient, (positions, keys, places))


def log_densities(target: Any, positions: PyTree[Any]) -> tuple[str, Float[np.ndarray, "c n"]]:
    """-U at every draw, and its name; for many data by some of them, always the same."""
    chains, draws = shape_of_draws(positions)
    rows = affordable_rows(target, chains * draws, scalars_per_draw(positions))
    if rows is None:
        return "log density", -at_draws(_potential, positions, target)
    batches = Batches(target.size, rows, "replacement")
    unused = jnp.zeros((), jnp.uint32)
    key = jax.random.key(0)
    batch = batches.batch(target.data, batches.rows(key, key, unused, unused))
    name = f"log density by {rows:,} of {target.size:,} rows"
    return name, -at_draws(_minibatch_potential, positions, target, batch)


# Functions of the module, so that each is compiled once.
def _potential(theta: PyTree[Array], target: Any) -> Array:
    return target.potential(theta)


def _minibatch_potential(theta: PyTree[Array], target: Any, batch: Any) -> Array:
    return target.minibatch_potential(theta, batch)


def as_vectors(positions: PyTree[Array]) -> Float[np.ndarray, "c n d"]:
    """Each position, chain × place, as a vector."""
    return np.asarray(ravel_each_draw(positions), float)
