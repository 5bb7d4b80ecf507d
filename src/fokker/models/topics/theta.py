r"""Samplers of the topics θ given expected counts: those of the library, and two compiled ones.

    U(θ) = Σ_kw [θ_kw - (α - 1 + N_kw) log θ_kw] + Σ_k N_k· log θ_k·,   N = (|S|/|S̃|) Σ_d E[n_dkw]

is the potential. Its gradient, with N fixed at the result of the E-step, is that of the posterior of the
expanded mean β_kw = θ_kw/θ_k· (Patterson and Teh 2013; Ma et al. 2015, section 4.2). θ has shape (V, K), one
row per word.
"""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from fokker._core.count import Count
from fokker._core.random import fold_in, fold_in_step
from fokker._core.state import nearest
from fokker.fields import Elementwise
from fokker.integrators import Reflecting, SymplecticEuler
from fokker.models.topics._checks import NotFiniteError, check_friction
from fokker.models.topics._sums import column_sums
from fokker.models.topics._uniform import seed_at
from fokker.models.topics.cir import MIN_THETA, transitions
from fokker.models.topics.settings import SAMPLERS
from fokker.models.topics.sgrhmc import MomentumTopics
from fokker.models.topics.share import Alone, Share
from fokker.samplers import sghmc, sgld, sgrld
from fokker.samplers.contract import SamplerState
from fokker.targets import Target

# Random streams of a step, besides the noise of the library's samplers: to update words that were not in
# recent minibatches, to move the words of the minibatch, and to read all words without moving them.
_UPDATE_STREAM, _STEP_STREAM, _READ_STREAM = 1, 2, 3
# Numbers folded into the key for purposes other than steps.
_INIT_FOLD, _STEP_KEY_FOLD = 2**30, 2**30 + 1


class Counts(eqx.Module):
    """Expected counts of the E-step times |S|/|S̃|: N_kw of some words; and θ_k· of all other words."""

    counts: Float[Array, "words topics"]
    rest: Float[Array, " topics"]


class TopicPotential(Target):
    """U(θ) for rows of θ, as a target of the library's samplers; `floor` softens log θ to log(θ + floor)."""

    alpha: Any
    floor: Any = 0.0

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


def _sgld(alpha: Any, h: Any, data_weight: Any, friction: Any) -> Any:
    integrator = Reflecting(lower=0.0)
    return sgld(h, integrator=integrator, noise=_NOISE).on(TopicPotential(alpha, jnp.sqrt(h * data_weight)))


def _sghmc(alpha: Any, h: Any, data_weight: Any, friction: Any) -> Any:
    integrator = Reflecting(lower=0.0, integrator=SymplecticEuler())
    return sghmc(h, friction=friction, integrator=integrator, noise=_NOISE).on(
        TopicPotential(alpha, h * jnp.sqrt(data_weight))
    )


def _sgrld(alpha: Any, h: Any, data_weight: Any, friction: Any) -> Any:
    D = Elementwise(lambda theta: theta)
    return sgrld(h, D, integrator=Reflecting(lower=MIN_THETA), noise=_NOISE).on(TopicPotential(alpha))


_LIBRARY_SAMPLERS = {"sgld": _sgld, "sghmc": _sghmc, "sgrld": _sgrld}
WITH_MOMENTUM = ("sghmc", "sgrhmc")
# Samplers for which words outside the minibatch follow a distribution known in closed form.
_LAZY = ("sgrld", "scir")


@functools.partial(jax.jit, static_argnames="name")
def _advance(
    name: str,
    z: dict[str, Array],
    batch: Counts,
    alpha: Array,
    h: Array,
    data_weight: Array,
    friction: Array,
    key: Key[Array, ""],
    number: Count,
) -> tuple[dict[str, Array], Array]:
    """One step of a sampler of the library, and whether the result is finite."""
    sampler = _LIBRARY_SAMPLERS[name](alpha, h, data_weight, friction)
    state, info = sampler.step(fold_in_step(key, number, _INIT_FOLD), SamplerState(z, number), batch)
    return state.z, info.is_finite


@functools.partial(jax.jit, static_argnames="words")
def _scatter_rows(rows: Array, counts: Array, words: int) -> Array:
    """The counts of the words of a minibatch, as counts of all words."""
    return jnp.zeros((words, counts.shape[1]), counts.dtype).at[rows].add(counts)


def make_topics(
    sampler: str,
    theta: np.ndarray,
    alpha: float,
    key: Key[Array, ""],
    threads: int = 1,
    start: float = 0.0,
    share: Share | None = None,
) -> "Topics":
    """θ (V, K) with one of `SAMPLERS`; `start` is the α that scir lowers to `alpha` in its first steps.

    θ of float32 is not copied, and the steps change it. With a `share` of the topics, its own are given.
    """
    share = share or Alone(theta.shape[1])
    if sampler not in SAMPLERS:
        suggestion = nearest(sampler, SAMPLERS)
        raise ValueError(f"the samplers of topics are {', '.join(SAMPLERS)}, not {sampler!r}.{suggestion}")
    if sampler in _LAZY:
        return LazyTopics(sampler, theta, alpha, key, threads, start, share)
    if sampler == "sgrhmc":
        return MomentumTopics(theta, alpha, key, threads, share)
    return DenseTopics(sampler, theta, alpha, key, share)


class DenseTopics:
    """θ with a sampler of the library that moves every word at every step."""

    def __init__(
        self,
        sampler: str,
        theta: np.ndarray,
        alpha: float,
        key: Key[Array, ""],
        share: Share | None = None,
    ) -> None:
        self.sampler, self.alpha, self.number = sampler, alpha, 0
        self._key, self._share = key, share or Alone(theta.shape[1])
        self._z = {"theta": jnp.asarray(theta, jnp.float32)}
        if sampler in WITH_MOMENTUM:
            self._z["r"] = jax.random.normal(fold_in(key, _INIT_FOLD), theta.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """The numbers of words and topics."""
        return self._z["theta"].shape

    def rows(self, words: np.ndarray) -> np.ndarray:
        """θ of these words (U, K)."""
        return self.all_rows()[words]

    @property
    def totals(self) -> np.ndarray:
        """θ_k· (K,)."""
        return np.asarray(column_sums(self.all_rows()))

    def step(
        self, words: np.ndarray, counts: np.ndarray, h: float, friction: float, data_weight: float
    ) -> None:
        """Move every word by a step of size h given N, the expected counts times `data_weight` = |S|/|S̃|."""
        if self.sampler in WITH_MOMENTUM:
            check_friction(h, friction)
        V = len(self._z["theta"])
        rows, counts = _padded(words, V), _padded(counts, 0)
        batch = Counts(_scatter_rows(rows, counts, V), jnp.zeros(counts.shape[1]))
        z, finite = _advance(
            self.sampler,
            self._z,
            batch,
            self.alpha,
            h,
            data_weight,
            friction,
            self._key,
            Count.of(self.number),
        )
        self._share.check_step(bool(finite), NotFiniteError(self.sampler, h, self.number))
        self._z = z
        self.number += 1

    def all_rows(self) -> np.ndarray:
        """θ (V, K)."""
        return np.asarray(self._z["theta"])

    @property
    def memory(self) -> np.ndarray | None:
        """None: the memory of θ belongs to JAX."""
        return None

    def replace(self, theta: np.ndarray) -> None:
        """Continue from this θ (V, K); the momentum is unchanged."""
        self._z["theta"] = jnp.asarray(theta, jnp.float32)

    def state(self) -> dict[str, np.ndarray]:
        """θ, the momentum, and the number of steps."""
        return {name: np.asarray(x) for name, x in self._z.items()} | {"number": np.asarray(self.number)}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore a `state`."""
        self.number = int(state["number"])
        self._z = {name: jnp.asarray(state[name]) for name in self._z}


class LazyTopics:
    r"""θ with a sampler that moves only the words of a minibatch; other words are updated when next needed.

    The drift of a word that is not in a minibatch is α - bθ, where b = 1 + N_k·/θ_k· is the same for all
    words of a topic. This is a Cox–Ingersoll–Ross process, with an exact transition over any number of steps
    (`fokker.models.topics.cir`). The cost of a step depends on the words of the minibatch, not on the
    vocabulary. θ_k· is stored as its expectation given all draws so far. It differs from the true sum by the
    noise of the words that are not up to date.
    """

    # The most steps stored before all words are updated; the largest ∫b of a step; and that over all steps
    # stored, after which the next step updates all words. exp(100 + 2·300) does not overflow in float64.
    _MAX_STEPS, _MAX_RATE, _UPDATE_RATE = 1024, 300.0, 100.0

    # The steps in which scir halves α, from its start to the α of the prior.
    _HALVING_STEPS = 50

    def __init__(
        self,
        sampler: str,
        theta: np.ndarray,
        alpha: float,
        key: Key[Array, ""],
        threads: int = 1,
        start: float = 0.0,
        share: Share | None = None,
    ) -> None:
        self.sampler, self.number, self.threads = sampler, 0, threads
        self._share = share or Alone(theta.shape[1])
        self.alpha, self._start_alpha = alpha, start if sampler == "scir" else 0.0
        self._step_alpha = self._alpha_at(0)
        self._key = key
        # For the library's steps, independent of the streams here.
        self._step_key = fold_in(key, _STEP_KEY_FOLD)
        self._theta = np.ascontiguousarray(theta, np.float32)
        self._totals = column_sums(self._theta)
        self._reset_clock()

    def _reset_clock(self) -> None:
        """Reset the clock of every topic, when all words are up to date."""
        V, K = self._theta.shape
        self._seen = np.zeros(V, np.int32)
        self._now = 0
        # ∫b and ∫exp(∫b) since the reset, for each topic after each step.
        self._rate, self._time = (np.zeros((self._MAX_STEPS + 1, K)) for _ in range(2))
        self._share.signal(False)

    def _signal(self) -> None:
        """Say whether the next step shall update all words, for the topics of other processes too."""
        self._share.signal(self._rate[self._now].max(initial=0) > self._UPDATE_RATE)

    def _alpha_at(self, number: int) -> float:
        """α of a step: from the start it is halved every few steps until it is that of the prior.

        With the exact transitions of a small α, a word that a topic does not use has θ of 1e-30 and less, and
        no document ever assigns the word to the topic. The start, which is random, would decide the topics.
        """
        return max(self.alpha, self._start_alpha * 0.5 ** (number // self._HALVING_STEPS))

    def _seed(self, stream: int) -> np.uint64:
        """The seed of one random stream of this step."""
        number = 4 * self.number + stream
        return seed_at(self._key, 2**64 - 1 if number == _STEP_KEY_FOLD else number)

    def _current_rows(self, words: np.ndarray, stream: int) -> tuple[np.ndarray, np.ndarray]:
        """The current θ of these words, drawn given its last stored value; and Σ_w (θ - E[θ])."""
        theta = self._theta[words]
        last_updates, which = np.unique(self._seen[words], return_inverse=True)
        is_outdated = last_updates < self._now
        if not np.any(is_outdated):
            return theta, np.zeros(theta.shape[1])
        rate, time = self._rate[self._now], self._time[self._now]
        delta = np.exp(self._rate[last_updates] - rate)
        g = (time - self._time[last_updates]) * np.exp(-rate)
        which = np.where(is_outdated[which], which, -1)
        seed = self._seed(stream)
        return theta, transitions(
            theta, self._step_alpha, None, delta, g, which, words, seed, self.threads, self._share.own.start
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """The numbers of words and topics."""
        return self._theta.shape

    def rows(self, words: np.ndarray) -> np.ndarray:
        """θ of these words (U, K), updated to the current step."""
        theta, innovation = self._current_rows(words, _UPDATE_STREAM)
        self._totals += innovation
        self._theta[words] = theta
        self._seen[words] = self._now
        return theta

    @property
    def totals(self) -> np.ndarray:
        """E[θ_k· | all draws so far] (K,)."""
        return self._totals

    def step(
        self, words: np.ndarray, counts: np.ndarray, h: float, friction: float, data_weight: float
    ) -> None:
        """Move these words by a step of size h now, and the others when they are next needed.

        `counts` are expected counts times `data_weight` = |S|/|S̃|. `friction` is unused: there is no
        momentum.
        """
        theta = self.rows(words)
        by_topic = column_sums(counts)
        b = 1 + by_topic / self._totals
        # Of a topic that was empty b may be very large: its θ is forgotten, by exp(-300) or more.
        rate = np.minimum(b * h, self._MAX_RATE) if self.sampler == "scir" else b * h
        delta, g = np.exp(-rate), -np.expm1(-rate) / b
        if self.sampler == "scir":
            seed = self._seed(_STEP_STREAM)
            which = np.zeros(len(words), np.int64)
            transitions(
                theta, self._step_alpha, counts, delta[None], g[None], which, words, seed, self.threads,
                self._share.own.start,
            )  # fmt: skip
            new_theta = theta
        else:
            new_theta = self._euler(theta, counts, h)
        new_sum = column_sums(new_theta)
        is_good = bool(np.all(np.isfinite(new_sum)) and np.all(rate <= self._MAX_RATE))
        self._share.check_step(is_good, NotFiniteError(self.sampler, h, self.number))
        # The totals as if no word were observed, then the correction for the words of the minibatch.
        old_sum = column_sums(self._theta[words])
        unobserved = old_sum * delta + len(words) * self._step_alpha * g
        self._totals = self._totals * delta + len(self._theta) * self._step_alpha * g
        self._totals += new_sum - unobserved
        self._theta[words] = new_theta
        self._rate[self._now + 1] = self._rate[self._now] + rate
        self._time[self._now + 1] = self._time[self._now] + np.exp(self._rate[self._now]) * np.expm1(rate) / b
        self._now += 1
        self._seen[words] = self._now
        self.number += 1
        alpha = self._alpha_at(self.number)
        if alpha != self._step_alpha or self._now == self._MAX_STEPS or self._share.is_signalled:
            self._update_all()
            self._step_alpha = alpha
        self._signal()

    def _euler(self, theta: np.ndarray, counts: np.ndarray, h: float) -> np.ndarray:
        """A step of the library's sampler for these words."""
        rows = _padded(theta, 1.0)
        rest = self._totals - column_sums(rows)
        z, _ = _advance(
            self.sampler,
            {"theta": jnp.asarray(rows)},
            Counts(jnp.asarray(_padded(counts, 0)), jnp.asarray(rest, jnp.float32)),
            self._step_alpha,
            h,
            1.0,
            0.0,
            self._step_key,
            Count.of(self.number),
        )
        return np.asarray(z["theta"])[: len(theta)]

    def all_rows(self) -> np.ndarray:
        """The current θ (V, K). Words that are not up to date are drawn but not stored."""
        return self._current_rows(np.arange(len(self._theta)), _READ_STREAM)[0]

    def _update_all(self) -> None:
        """Update every word, and reset the clock."""
        self.rows(np.arange(len(self._theta)))
        self._totals = column_sums(self._theta)
        self._reset_clock()

    @property
    def memory(self) -> np.ndarray | None:
        """The memory of θ, for a θ that replaces it."""
        return self._theta

    def replace(self, theta: np.ndarray) -> None:
        """Continue from this θ (V, K), which belongs to the sampler from now on."""
        self._theta = np.ascontiguousarray(theta, np.float32)
        self._totals = column_sums(self._theta)
        self._reset_clock()

    _SAVED_ARRAYS = ("theta", "totals", "seen", "rate", "time")

    def state(self) -> dict[str, np.ndarray]:
        """The arrays that a resumed run needs."""
        arrays = {name: getattr(self, f"_{name}") for name in self._SAVED_ARRAYS}
        return arrays | {"number": np.asarray(self.number), "now": np.asarray(self._now)}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore a `state`."""
        self.number, self._now = int(state["number"]), int(state["now"])
        self._step_alpha = self._alpha_at(self.number)
        for name in self._SAVED_ARRAYS:
            setattr(self, f"_{name}", np.array(state[name]))
        self._signal()


def _padded(rows: np.ndarray, fill: float) -> np.ndarray:
    """Rows padded to one of a few lengths, four per factor of two, so that few programs are compiled."""
    grain = max(64, 1 << max(0, len(rows).bit_length() - 3))
    num_missing = -len(rows) % grain
    if not num_missing:
        return rows
    return np.concatenate([rows, np.full((num_missing, *rows.shape[1:]), fill, rows.dtype)])


Topics = DenseTopics | LazyTopics | MomentumTopics
