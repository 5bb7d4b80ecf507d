r"""Draws of many scalars: moments of every scalar, and the draws along fixed random directions.

The scalars are standardised, z_i = (θ_i - mean_i)/sd_i, so that each counts the same whatever its unit. A
direction is a random vector v of unit length with normal entries, the same for every run of the same shapes.
It is made block by block: neither the matrix of all directions nor a copy of the draws is ever held.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import chdtri

from fokker._core.labels import NO_LABELS, Labels

# Directions over all scalars, and at most over those of one leaf and of all leaves together.
DIRECTIONS = 50
_OF_LEAF, _OF_LEAVES = 10, 500
# Scalars that are looked at together.
_BLOCK = 512


@dataclass(frozen=True)
class LeafMoments:
    """One leaf of theta: moments of each of its scalars, and the draws along directions within it.

    `means`: of the halves of every chain. `r_hat`: split R-hat of each scalar by these means, not by ranks.
    `never_moved`: scalars that are constant in every chain. `series`: draws along `names`, the directions or,
    if there are as few, the scalars themselves.
    """

    name: str
    shape: tuple[int, ...]
    mean: Float[np.ndarray, " d"]
    deviation: Float[np.ndarray, " d"]
    means: Float[np.ndarray, "halves d"]
    r_hat: Float[np.ndarray, " d"]
    is_finite: np.ndarray
    never_moved: np.ndarray
    names: list[str]
    series: Float[np.ndarray, "c n k"]
    labels: Labels = NO_LABELS

    @property
    def size(self) -> int:
        """The number of scalars."""
        return self.mean.size

    def scalar(self, index: int) -> str:
        """The name of a scalar."""
        return self.labels.scalar_name(self.name, self.shape, index)


@dataclass(frozen=True)
class Projections:
    """The leaves, and the draws along `DIRECTIONS` orthogonal directions over all scalars."""

    leaves: list[LeafMoments]
    series: Float[np.ndarray, "c n k"]
    orthogonal: Float[np.ndarray, "k k"]

    @property
    def size(self) -> int:
        """The number of scalars of theta."""
        return sum(leaf.size for leaf in self.leaves)

    def centres(self, leaf: LeafMoments, group: int, chains: int) -> np.ndarray:
        """The mean of a leaf over the other group of draws: even or odd chains, or halves of a single one."""
        halves = leaf.means if chains == 1 else leaf.means.reshape(chains, 2, -1).mean(axis=1)
        return halves[1 - group :: 2].mean(axis=0)

    def along(self, vectors: Sequence[np.ndarray]) -> np.ndarray:
        """v·(sd ∘ x) along the directions, for vectors x given by leaf, each points × scalars of the leaf.

        The gradient by z, if x is the gradient by theta.
        """
        total = np.zeros((len(vectors[0]), DIRECTIONS))
        for number, (leaf, x) in enumerate(zip(self.leaves, vectors, strict=True)):
            unit = np.where(leaf.deviation > 0, leaf.deviation, 1)
            for place, normals in _blocks(number, leaf.size):
                total += x[:, place] @ (normals * unit[place, None]).astype(x.dtype)
        return total @ self.orthogonal


def project(named: dict[str, np.ndarray], labels: Labels = NO_LABELS) -> Projections:
    """Look at the draws of every leaf, chain × draw × its shape, once."""
    chains, draws = next(iter(named.values())).shape[:2]
    of_leaf = int(np.clip(_OF_LEAVES // len(named), 1, _OF_LEAF))
    total, gram = np.zeros((chains, draws, DIRECTIONS)), np.zeros((DIRECTIONS, DIRECTIONS))
    leaves = []
    for number, (name, values) in enumerate(named.items()):
        leaf, series, leaf_gram = _project_leaf(name, number, values, of_leaf, labels)
        leaves.append(leaf)
        total += series
        gram += leaf_gram
    # The columns of R inverse(L)ᵀ are orthonormal if RᵀR = LLᵀ, for the matrix R of all normals.
    orthogonal = np.linalg.inv(np.linalg.cholesky(gram)).T
    return Projections(leaves, total @ orthogonal, orthogonal)


def _project_leaf(
    name: str, number: int, values: np.ndarray, of_leaf: int, labels: Labels
) -> tuple[LeafMoments, np.ndarray, np.ndarray]:
    chains, draws, *shape = values.shape
    size, half = int(np.prod(shape)), draws // 2
    x = np.asarray(values).reshape(chains, draws, size)
    mean, deviation, r_hat = np.empty((3, size), np.float32)
    means = np.empty((2 * chains, size), np.float32)
    is_finite, never_moved = np.empty((2, size), bool)
    series = np.zeros((chains, draws, DIRECTIONS))
    gram = np.zeros((DIRECTIONS, DIRECTIONS))
    for place, normals in _blocks(number, size):
        block = x[:, :, place].astype(float)
        centre = block.mean(axis=(0, 1))
        is_finite[place] = np.isfinite(centre)
        if not is_finite[place].all():
            block, centre = (np.where(is_finite[place], y, 0) for y in (block, centre))
        low, high = block.min(axis=1), block.max(axis=1)
        never_moved[place] = (low == high).all(axis=0)
        varies = low.min(axis=0) < high.max(axis=0)
        block -= centre
        variance = np.einsum("cnb,cnb->b", block, block) / (chains * draws - 1)
        scale = np.where(varies, np.sqrt(variance), 0)
        halves = [block[:, :half], block[:, draws - half :]]
        half_means = np.stack([y.mean(axis=1) for y in halves], axis=1).reshape(2 * chains, -1)
        squares = np.stack([np.einsum("cnb,cnb->cb", y, y) for y in halves], axis=1).reshape(2 * chains, -1)
        r_hat[place] = r_hat_by_means(half_means, (squares - half * half_means**2) / (half - 1), half)
        r_hat[place][~varies] = np.nan
        mean[place], deviation[place] = centre, scale
        means[:, place] = centre + half_means
        along = block.reshape(chains * draws, -1) @ (normals / np.where(varies, scale, 1)[:, None])
        series += along.reshape(series.shape)
        gram += normals.T @ normals
    if size <= of_leaf:
        unit = np.where(deviation > 0, deviation, 1)
        own, names = (x - mean) / unit, [labels.scalar_name(name, tuple(shape), i) for i in range(size)]
    else:
        own = series[:, :, :of_leaf] / np.sqrt(np.diagonal(gram)[:of_leaf])
        names = [f"direction {i + 1} of {name}" for i in range(of_leaf)]
    leaf = LeafMoments(
        name,
        tuple(shape),
        mean,
        deviation,
        means,
        r_hat,
        is_finite,
        never_moved,
        names,
        np.asarray(own, float),
        labels,
    )
    return leaf, series, gram


def r_hat_by_means(means: np.ndarray, variances: np.ndarray, draws: int) -> np.ndarray:
    """√((n-1)/n + Var(means)/mean(variances)) of chains of n draws; NaN for what never varies."""
    within, between = variances.mean(axis=0), means.var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sqrt((draws - 1) / draws + between / within)


def leaf_of_moments(
    name: str, means: np.ndarray, variances: np.ndarray, draws: int, labels: Labels = NO_LABELS
) -> LeafMoments:
    """A leaf whose means and variances in every chain are known, and nothing else."""
    chains, *shape = means.shape
    means, variances = (np.asarray(x, float).reshape(chains, -1) for x in (means, variances))
    size = means.shape[1]
    r_hat = r_hat_by_means(means, variances, draws) if chains > 1 else np.full(size, np.nan)
    deviation = np.sqrt(variances.mean(axis=0) + means.var(axis=0))
    is_finite = np.isfinite(means).all(axis=0) & np.isfinite(variances).all(axis=0)
    never_moved, none = (variances == 0).all(axis=0), np.zeros((chains, 0, 0))
    mean = means.mean(axis=0)
    return LeafMoments(
        name, tuple(shape), mean, deviation, means, r_hat, is_finite, never_moved, [], none, labels
    )


def _blocks(leaf: int, size: int) -> Iterator[tuple[slice, np.ndarray]]:
    """Blocks of the scalars of a leaf, and the normals of all directions for them."""
    for number, first in enumerate(range(0, size, _BLOCK)):
        last = min(first + _BLOCK, size)
        yield slice(first, last), _normals(leaf, number)[: last - first]


def _normals(leaf: int, block: int) -> np.ndarray:
    return np.asarray(_draw_normals(jnp.uint32(leaf), jnp.uint32(block)), float)


@jax.jit
def _draw_normals(leaf: Array, block: Array) -> Array:
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(0), leaf), block)
    return jax.random.normal(key, (_BLOCK, DIRECTIONS), jnp.float32)


def visible_fraction(chains: int, r_hat: float, power: float) -> float:
    r"""The share of the scalars in which one chain must be off by a standard deviation to be detected.

    If the scalars are independent, a chain that is off by one standard deviation in the share f of them is
    off by √f·z along a random direction, with z standard normal. Of the halves of m chains, two are off, and
    R̂² - 1 = f z² s with s from `shift_of_one_chain`. With the probability `power`, the largest of k values of
    z² exceeds the q that solves P(χ²₁ < q)^k = 1 - power.
    """
    largest = float(chdtri(1, 1 - (1 - power) ** (1 / DIRECTIONS)))
    return min(1.0, (r_hat**2 - 1) / (largest * shift_of_one_chain(chains)))


def shift_of_one_chain(chains: int) -> float:
    """Split R̂² - 1 if one of m chains is off by its standard deviation: 2(m - 1)/(m(2m - 1))."""
    return 2 * (chains - 1) / (chains * (2 * chains - 1))
