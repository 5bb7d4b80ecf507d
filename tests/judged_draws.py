"""Summaries of draws by NumPy as those of a sampler, with what is wrong with them put in on purpose."""

import types

import jax
import jax.numpy as jnp
import numpy as np

import fokker as fk
from own_samplers import OfDraws

UNIT = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)


def origin_of(sampler, target, one_start=False):
    """What a summary asks of the run that a trace is of: here one without minibatches."""
    return types.SimpleNamespace(
        sampler=sampler,
        target=target,
        batches=None,
        batch_repeats=1,
        notes=(),
        one_start=one_start,
        rerun=None,
    )


def judged(draws, target, is_exact=False, statistics=None, temperature=1.0, state=None):
    """The summary of draws as those of a sampler, with what is wrong with them put in on purpose."""
    sampler = OfDraws(target, is_exact)
    origin = origin_of(sampler, target)
    settings = {"temperature": temperature, "chains": len(jax.tree.leaves(draws)[0])}
    return fk.Trace(draws, None, statistics or {}, state, None, settings, origin).summary()


def normals(chains=4, number=1000, d=2, seed=0):
    return np.random.default_rng(seed).normal(size=(chains, number, d))
