r"""The potential of the topics θ given expected counts, and steps of the library's samplers on it.

    U(θ) = Σ_kw [θ_kw - (α - 1 + N_kw) log θ_kw] + Σ_k N_k· log θ_k·,   N = (|S|/|S̃|) Σ_d E[n_dkw]

Its gradient, with N fixed at the result of the E-step, is that of the posterior of the expanded mean
β_kw = θ_kw/θ_k· (Patterson and Teh 2013; Ma et al. 2015, section 4.2). θ has shape (V, K), one row per word.
"""

import functools
from collections.abc import Callable, Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from fokker._core.count import Count
from fokker._core.random import fold_in_step
from fokker.fields import Elementwise
from fokker.integrators import Reflecting, SymplecticEuler
from fokker.models.topics.cir import MIN_THETA
from fokker.models.topics.share import rounded_up
from fokker.samplers import Sampler, sghmc, sgld, sgrld
from fokker.samplers.contract import SamplerState
from fokker.targets import Target

# The number folded into the key for what is drawn before the first step.
INIT_FOLD = 2**30
Number = float | Array


class Counts(eqx.Module):
    """Expected counts of the E-step times |S|/|S̃|: N_kw of some words; and θ_k· of all other words."""

    counts: Float[Array, "words topics"]
    rest: Float[Array, " topics"]


class TopicPotential(Target):
    """U(θ) for rows of θ, as a target of the library's samplers; `floor` softens log θ to log(θ + floor)."""

    alpha: Number
    floor: Number = 0.0

    def minibatch_potential(self, theta: Float[Array, "words topics"], batch: Counts) -> Array:
        """U(θ) given expected counts."""
        N = batch.counts
        total = batch.rest + jnp.sum(theta, 0)
        by_topic = jnp.sum(jnp.sum(N, 0) * jnp.log(total))
        return jnp.sum(theta - (self.alpha - 1 + N) * jnp.log(theta + self.floor)) + by_topic

    def potential(self, theta: Float[Array, "words topics"]) -> Array:
        """U(θ) of the prior alone: Gamma(α, 1) for every θ_kw."""
        no_counts = Counts(jnp.zeros_like(theta), jnp.zeros(theta.shape[1]))
        return self.minibatch_potential(theta, no_counts)


# Each word of a minibatch counts |S|/|S̃| times. Where θ is small, the force N_kw/θ_kw then moves it much too
# far in one step. Below the value that one such word moves θ to, the samplers smooth this singularity. SGRLD
# does not need it: D ∂U/∂θ is finite for D = diag(θ).


# A count of random bits. Its first three moments are those of a Gaussian and the fourth nearly is, which is
# enough for steps of order 1, and it halves the time of a step.
_NOISE = "binomial"


def _sgld(alpha: Number, h: Number, data_weight: Number, friction: Number) -> Sampler:
    integrator = Reflecting(lower=0.0)
    return sgld(h, integrator=integrator, noise=_NOISE).on(TopicPotential(alpha, jnp.sqrt(h * data_weight)))


def _sghmc(alpha: Number, h: Number, data_weight: Number, friction: Number) -> Sampler:
    integrator = Reflecting(lower=0.0, integrator=SymplecticEuler())
    return sghmc(h, friction=friction, integrator=integrator, noise=_NOISE).on(
        TopicPotential(alpha, h * jnp.sqrt(data_weight))
    )


def _sgrld(alpha: Number, h: Number, data_weight: Number, friction: Number) -> Sampler:
    D = Elementwise(lambda theta: theta)
    return sgrld(h, D, integrator=Reflecting(lower=MIN_THETA), noise=_NOISE).on(TopicPotential(alpha))


_SAMPLERS: Mapping[str, Callable[[Number, Number, Number, Number], Sampler]] = {
    "sgld": _sgld,
    "sghmc": _sghmc,
    "sgrld": _sgrld,
}


@functools.partial(jax.jit, static_argnames="name")
def advance(
    name: str,
    z: dict[str, Array],
    batch: Counts,
    alpha: Number,
    h: Number,
    data_weight: Number,
    friction: Number,
    key: Key[Array, ""],
    number: Count,
) -> tuple[dict[str, Array], Array]:
    """One step of a sampler of the library, and whether the result is finite."""
    sampler = _SAMPLERS[name](alpha, h, data_weight, friction)
    state, info = sampler.step(fold_in_step(key, number, INIT_FOLD), SamplerState(z, number), batch)
    return state.z, info.is_finite


def padded(rows: np.ndarray, fill: float) -> np.ndarray:
    """Rows padded to one of a few lengths, so that few programs are compiled."""
    missing = np.full((rounded_up(len(rows)) - len(rows), *rows.shape[1:]), fill, rows.dtype)
    return np.concatenate([rows, missing]) if len(missing) else rows
