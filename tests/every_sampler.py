"""Every sampler of `fk.samplers` on a target over a tree of two leaves, for checks that all go through."""

import jax
import jax.numpy as jnp

import fokker as fk
from fokker import samplers

THETA = {"a": jnp.array([0.75, -0.5, 1.25]), "b": jnp.array([0.5, 0.25])}
TARGET = fk.Density(lambda theta: -jnp.sum(theta["a"] ** 4) / 4 - jnp.sum(theta["b"] ** 2) / 2)


def metric():
    """G⁻¹ and its root."""
    inverse = fk.fields.Elementwise(lambda theta: jax.tree.map(lambda x: 1 + x**2, theta))
    return inverse, fk.fields.Elementwise(lambda theta: jax.tree.map(lambda x: jnp.sqrt(1 + x**2), theta))


def of_dynamics():
    """Dynamics that have their own target, over a state with a momentum."""
    return samplers.recipe(fk.dynamics.underdamped(TARGET.potential), 0.1)


def conditional(name):
    return lambda key, theta: jax.random.normal(key, theta[name].shape)


# The first take theta of half precision, the others refuse it.
ROUNDING = {
    "recipe": of_dynamics,
    "sgld": lambda: samplers.sgld(0.1),
    "sgfs": lambda: samplers.sgfs(0.1, 1.0, None),
    "sgrld": lambda: samplers.sgrld(0.1, metric()[0]),
    "psgld": lambda: samplers.psgld(0.1, 0.1),
    "sghmc": lambda: samplers.sghmc(0.1, resample=1),
    "naive_sghmc": lambda: samplers.naive_sghmc(0.1),
    "sgnht": lambda: samplers.sgnht(0.1, kind="diagonal"),
    "sgnht_by_ding": lambda: samplers.sgnht_by_ding(0.01, 0.1),
    "sgrhmc": lambda: samplers.sgrhmc(0.1, *metric()),
    "gsgrhmc": lambda: samplers.gsgrhmc(0.1, *metric()),
    "naive_sgrhmc": lambda: samplers.naive_sgrhmc(0.1, *metric()),
    "ula": lambda: samplers.ula(0.1),
    "ulmc": lambda: samplers.ulmc(0.1),
    "replica_exchange": lambda: samplers.replica_exchange(samplers.sgld(0.1), (1.0, 2.0), every=1),
}
REFUSING = {
    "ghmc": lambda: samplers.ghmc(0.1, mass_matrix="identity"),
    "gibbs": lambda: samplers.gibbs({name: conditional(name) for name in "ab"}),
    "gibbs_normal": lambda: samplers.gibbs_normal(jnp.zeros(5), jnp.eye(5)),
    "hmc": lambda: samplers.hmc(0.1, 2, mass_matrix="identity"),
    "mala": lambda: samplers.mala(0.1),
    "maula": lambda: samplers.maula(0.1),
    "mchmc": lambda: samplers.mchmc(0.1, 0.1, adjusted=True),
    "mclmc": lambda: samplers.mclmc(0.1, 0.2, adjusted=True),
    "naive_nuts": lambda: samplers.naive_nuts(0.3),
    "nuts": lambda: samplers.nuts(0.3, mass_matrix="identity"),
    "rhmc": lambda: samplers.rhmc(0.1, 1.0, 2),
    "rwm": lambda: samplers.rwm(0.1),
    "slice_sampler": lambda: samplers.slice_sampler(),
}
EVERY = ROUNDING | REFUSING


def placed(name):
    """The sampler on the target."""
    sampler = EVERY[name]()
    return sampler.on(TARGET) if sampler.wants_target else sampler


def started(sampler, theta=THETA):
    """Its first state."""
    if sampler.wants_target:
        return sampler.init(theta, key=jax.random.key(1))
    momentum = jax.tree.map(lambda x: jnp.full(x.shape, 0.5, x.dtype), theta)
    return sampler.init({"theta": theta, "r": momentum})
