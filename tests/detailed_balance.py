"""Is a kernel reversible? From exact draws, (before, after) must be distributed as (after, before)."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

import fokker as fk

# What a right kernel fails with, at any fixed key.
FALSE_ALARM = 1e-6


def asymmetry(before, after, bins=4):
    """The chance that a reversible kernel gives frequencies as unlike their transpose as these.

    Every coordinate is cut at its quantiles, the cells of the product are numbered, and n_ij is compared with
    n_ji: Σ (n_ij - n_ji)²/(n_ij + n_ji) is chi-square with one degree of freedom a pair (Bowker 1948).
    """
    before, after = (np.asarray(x, float).reshape(len(x), -1) for x in (before, after))
    cells = [np.zeros(len(before), int), np.zeros(len(before), int)]
    for k in range(before.shape[1]):
        edges = np.quantile(before[:, k], np.linspace(0, 1, bins + 1)[1:-1])
        for place, x in enumerate((before, after)):
            cells[place] = bins * cells[place] + np.searchsorted(edges, x[:, k])
    size = bins ** before.shape[1]
    n = np.bincount(size * cells[0] + cells[1], minlength=size**2).reshape(size, size)
    together = np.triu(n + n.T, 1)
    used = together >= 20
    return float(stats.chi2.sf(np.sum((n - n.T)[used] ** 2 / together[used]), used.sum()))


def one_step(sampler, draws):
    """One step from each of many draws: where it went, and the infos."""

    @jax.jit
    def run(draws, keys):
        def move(theta, key):
            first, second = jax.random.split(key)
            state, info = sampler.step(second, sampler.init(theta, key=first))
            return state.position, info

        return jax.vmap(move)(draws, keys)

    count = jax.tree.leaves(draws)[0].shape[0]
    return run(draws, jax.random.split(jax.random.key(1), count))


# A skewed density on the line: θ = log of a Gamma(A) variable.
A = 1.5
LOG_GAMMA = fk.Density(lambda theta: jnp.sum(A * theta - jnp.exp(theta)))
# And in the plane, bent: θ₂ - 0.4 θ₁² is such a variable too.
BENT = fk.Density(lambda theta: LOG_GAMMA.log_density(jnp.stack([theta[0], theta[1] - 0.4 * theta[0] ** 2])))


def log_gamma(rng, T, shape):
    """Draws of exp(-U/T) for LOG_GAMMA: the log of T times a Gamma(A/T) variable."""
    return np.log(T * rng.gamma(A / T, size=shape))


def bent(rng, T, count):
    """Draws of exp(-U/T) for BENT."""
    w = log_gamma(rng, T, (count, 2))
    return np.stack([w[:, 0], w[:, 1] + 0.4 * w[:, 0] ** 2], 1)
