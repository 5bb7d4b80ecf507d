r"""The samplers of the topics θ, given expected counts: the library's own, and the exact one.

    U(θ) = Σ_kw [θ_kw - (α - 1 + N_kw) log θ_kw] + Σ_k N_k· log θ_k·,   N = (|S|/|S̃|) Σ_d E[n_dkw]

is the potential whose gradient, with N held where the E-step found it, is that of the posterior of the
expanded mean β_kw = θ_kw/θ_k· (Patterson and Teh 2013; Ma et al. 2015, section 4.2). θ lies word by word, (V,
K).
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
from fokker.dynamics import Dynamics
from fokker.dynamics._kinetic import half_square
from fokker.dynamics.hamiltonian import Hamiltonian
from fokker.fields import Elementwise
from fokker.integrators import Reflecting, SymplecticEuler
from fokker.models.lda._uniform import seed_at
from fokker.models.lda.cir import SMALLEST, transitions
from fokker.models.lda.settings import SAMPLERS
from fokker.samplers import sghmc, sgld, sgrld
from fokker.samplers._auxiliaries import momentum
from fokker.samplers._sampler import SamplerState
from fokker.samplers.recipe import Family, of_family
from fokker.targets import Target

# Streams of random numbers that a step has besides the noise of the library's samplers.
_CATCHING_UP, _MOVING, _LOOKING = 1, 2, 3
# Numbers that a key is folded with for other purposes than steps.
_BEGINNING, _STEPPING = 2**30, 2**30 + 1


class Counts(eqx.Module):
    """What the E-step found, times |S|/|S̃|: N_kw of some words, and θ_k· of all other words."""

    counts: Float[Array, "words topics"]
    rest: Float[Array, " topics"]


class TopicPotential(Target):
    """U(θ) for rows of θ, as a target of the library's samplers; `floor` softens log θ to log(θ + floor)."""

    alpha: Any
    floor: Any = 0.0

    def minibatch_potential(self, theta: Float[Array, "words topics"], batch: Counts) -> Array:
        """Given expected counts."""
        N = batch.counts
        total = batch.rest + jnp.sum(theta, 0)
        by_topic = jnp.sum(jnp.sum(N, 0) * jnp.log(total))
        return jnp.sum(theta - (self.alpha - 1 + N) * jnp.log(theta + self.floor)) + by_topic

    def potential(self, theta: Float[Array, "words topics"]) -> Array:
        """Of the prior alone: Gamma(α, 1) for every θ_kw."""
        nothing = Counts(jnp.zeros_like(theta), jnp.zeros(theta.shape[1]))
        return self.minibatch_potential(theta, nothing)


# A single word that a minibatch has is counted |S|/|S̃| times. Where θ is small the force N_kw/θ_kw then
# throws it much too far in a step; below the θ that such a word moves it to, the samplers soften what is
# singular there. SGRLD needs none of it: D ∂U/∂θ is finite for D = diag(θ).


# A count of bits, three of whose moments are a Gaussian's and the fourth nearly: all that steps of order 1
# need, for half the time of a step.
_NOISE = "binomial"


def _sgld(alpha: Any, h: Any, scale: Any, friction: Any) -> Any:
    walls = Reflecting(lower=0.0)
    return sgld(h, integrator=walls, noise=_NOISE).on(TopicPotential(alpha, jnp.sqrt(h * scale)))


def _sghmc(alpha: Any, h: Any, scale: Any, friction: Any) -> Any:
    walls = Reflecting(lower=0.0, integrator=SymplecticEuler())
    return sghmc(h, friction=friction, integrator=walls, noise=_NOISE).on(
        TopicPotential(alpha, h * jnp.sqrt(scale))
    )


def _sgrld(alpha: Any, h: Any, scale: Any, friction: Any) -> Any:
    D = Elementwise(lambda theta: theta)
    return sgrld(h, D, integrator=Reflecting(lower=SMALLEST), noise=_NOISE).on(TopicPotential(alpha))


def _sgrhmc(alpha: Any, h: Any, scale: Any, friction: Any) -> Any:
    r"""SGRHMC with G = diag(θ)⁻¹, but for a layer at zero, in which it is SGRLD.

        D = [[h θδ/(θ + δ), 0], [0, C]],   Q = [[0, -θ/√(θ + δ)], [θ/√(θ + δ), 0]]

    Far above δ, Q is that of the paper, G^{-1/2} = √θ, and θ has next to no noise of its own. Below, where
    the force N_kw/√θ of a word first seen has no bound and would throw it anywhere, Q vanishes and D = hθ
    takes over. Right by Theorem 1 of Ma et al. (2015), as is any friction: theirs, G⁻¹ = θ, is none for the
    words that a topic does not use, and more than a step can bear for those that it uses most; here it is C
    for all.
    """
    delta = _LAYER * h * h
    diffusion = Elementwise(lambda theta: h * theta * delta / (theta + delta))
    root = Elementwise(lambda theta: theta / jnp.sqrt(theta + delta))

    def dynamics(potential: Any, temperature: Any) -> Dynamics:
        return Dynamics(
            Hamiltonian(potential, lambda r: half_square(r)),
            D={("theta", "theta"): diffusion, ("r", "r"): friction},
            Q={("r", "theta"): root},
            temperature=temperature,
        )

    walls = Reflecting(lower=SMALLEST)
    return of_family(Family(dynamics, momentum), h, walls, noise=_NOISE).on(TopicPotential(alpha))


# The layer's width in squares of what a momentum of one covers in a step: wide enough for several steps.
_LAYER = 100.0

_FROM_THE_LIBRARY = {"sgld": _sgld, "sghmc": _sghmc, "sgrhmc": _sgrhmc, "sgrld": _sgrld}
WITH_MOMENTUM = ("sghmc", "sgrhmc")
# Those for which the words that a minibatch does not have follow a law known in closed form.
_LAZY = ("sgrld", "scir")


@functools.partial(jax.jit, static_argnames="name")
def _advance(
    name: str,
    z: dict[str, Array],
    batch: Counts,
    alpha: Array,
    h: Array,
    scale: Array,
    friction: Array,
    key: Key[Array, ""],
    number: Count,
) -> tuple[dict[str, Array], Array]:
    """One step of a library's sampler, and whether all numbers are finite."""
    sampler = _FROM_THE_LIBRARY[name](alpha, h, scale, friction)
    state, info = sampler.step(fold_in_step(key, number, _BEGINNING), SamplerState(z, number), batch)
    return state.z, info.finite


@functools.partial(jax.jit, static_argnames="words")
def _spread(rows: Array, counts: Array, words: int) -> Array:
    """Counts of a minibatch's words as counts of all words."""
    return jnp.zeros((words, counts.shape[1]), counts.dtype).at[rows].add(counts)


class NotFiniteError(ArithmeticError):
    """θ left the finite numbers."""


def make_topics(
    sampler: str,
    theta: np.ndarray,
    alpha: float,
    key: Key[Array, ""],
    threads: int = 1,
) -> "DenseTopics | LazyTopics":
    """θ (V, K) to be moved by a sampler of `SAMPLERS`."""
    if sampler not in SAMPLERS:
        close = nearest(sampler, SAMPLERS)
        raise ValueError(f"the samplers of topics are {', '.join(SAMPLERS)}, not {sampler!r}.{close}")
    if sampler in _LAZY:
        return LazyTopics(sampler, theta, alpha, key, threads)
    return DenseTopics(sampler, theta, alpha, key)


class DenseTopics:
    """θ of which every word moves at every step, by a sampler of the library."""

    def __init__(self, sampler: str, theta: np.ndarray, alpha: float, key: Key[Array, ""]) -> None:
        self.sampler, self.alpha, self.number = sampler, alpha, 0
        self._key = key
        self._z = {"theta": jnp.asarray(theta, jnp.float32)}
        if sampler in WITH_MOMENTUM:
            self._z["r"] = jax.random.normal(fold_in(key, _BEGINNING), theta.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many words and topics there are."""
        return self._z["theta"].shape

    def rows(self, words: np.ndarray) -> np.ndarray:
        """θ of these words (U, K)."""
        return self.whole()[words]

    @property
    def totals(self) -> np.ndarray:
        """θ_k· (K,)."""
        return self.whole().sum(0)

    def step(self, words: np.ndarray, counts: np.ndarray, h: float, friction: float, scale: float) -> None:
        """One step of size h of every word, given N of these: expected counts times `scale` = |S|/|S̃|."""
        if self.sampler in WITH_MOMENTUM and h * friction >= 2:
            raise ValueError(
                f"the step size {h:.3g} times the friction {friction:.3g} must be less than 2, or the "
                "momentum grows without end: make one of them smaller."
            )
        V = len(self._z["theta"])
        rows, counts = _padded(words, V), _padded(counts, 0)
        batch = Counts(_spread(rows, counts, V), jnp.zeros(counts.shape[1]))
        z, finite = _advance(
            self.sampler, self._z, batch, self.alpha, h, scale, friction, self._key, Count.of(self.number)
        )
        if not bool(finite):
            raise NotFiniteError(_too_long(self.sampler, h, self.number))
        self._z = z
        self.number += 1

    def whole(self) -> np.ndarray:
        """θ (V, K)."""
        return np.asarray(self._z["theta"])

    def state(self) -> dict[str, np.ndarray]:
        """θ, the momentum, and how many steps there were."""
        return {name: np.asarray(x) for name, x in self._z.items()} | {"number": np.asarray(self.number)}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """As it was when `state` was taken."""
        self.number = int(state["number"])
        self._z = {name: jnp.asarray(state[name]) for name in self._z}


class LazyTopics:
    r"""θ of which only a minibatch's words move; the others are brought up to date when they are next seen.

    The drift of a word that is not in a minibatch is α - bθ with b = 1 + N_k·/θ_k· the same for all words of
    a topic: a Cox–Ingersoll–Ross process, with an exact transition over any number of steps
    (`fokker.models.lda.cir`). A step then costs as many words as the minibatch has, whatever the vocabulary.
    θ_k· is carried as its expectation given all draws so far, from which it differs by the noise of the
    words not seen of late.
    """

    # Steps remembered before all words are brought up to date, and the largest ∫b that float64 can bear.
    _REMEMBERED, _FARTHEST = 1024, 300.0

    def __init__(
        self, sampler: str, theta: np.ndarray, alpha: float, key: Key[Array, ""], threads: int = 1
    ) -> None:
        self.sampler, self.alpha, self.number, self.threads = sampler, alpha, 0, threads
        self._key = key
        # That of the library's steps, apart from the streams here.
        self._step_key = fold_in(key, _STEPPING)
        self._theta = np.array(theta, np.float32)
        self._totals = self._theta.sum(0, dtype=np.float64)
        self._forget()

    def _forget(self) -> None:
        """All words are up to date: start the clock of every topic anew."""
        V, K = self._theta.shape
        self._seen = np.zeros(V, np.int32)
        self._now = 0
        # ∫b and ∫exp(∫b) since then, of each topic after each step.
        self._rate, self._time = (np.zeros((self._REMEMBERED + 1, K)) for _ in range(2))

    def _seed(self, stream: int) -> np.uint64:
        """For one purpose of this step."""
        number = 4 * self.number + stream
        return seed_at(self._key, 2**64 - 1 if number == _STEPPING else number)

    def _up_to_date(self, words: np.ndarray, stream: int) -> tuple[np.ndarray, np.ndarray]:
        """θ of these words now, drawn given what it was when they were last seen; and Σ_w (θ - E[θ])."""
        theta = self._theta[words]
        when, which = np.unique(self._seen[words], return_inverse=True)
        waiting = when < self._now
        if not np.any(waiting):
            return theta, np.zeros(theta.shape[1])
        rate, time = self._rate[self._now], self._time[self._now]
        delta = np.exp(self._rate[when] - rate)
        g = (time - self._time[when]) * np.exp(-rate)
        which = np.where(waiting[which], which, -1)
        seed = self._seed(stream)
        return theta, transitions(theta, self.alpha, None, delta, g, which, words, seed, self.threads)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many words and topics there are."""
        return self._theta.shape

    def rows(self, words: np.ndarray) -> np.ndarray:
        """θ of these words (U, K), brought up to date."""
        theta, surprise = self._up_to_date(words, _CATCHING_UP)
        self._totals += surprise
        self._theta[words] = theta
        self._seen[words] = self._now
        return theta

    @property
    def totals(self) -> np.ndarray:
        """E[θ_k· | what was drawn] (K,)."""
        return self._totals

    def step(self, words: np.ndarray, counts: np.ndarray, h: float, friction: float, scale: float) -> None:
        """One step of size h: of these words now, of the others when they are next seen.

        `counts` are expected counts times `scale` = |S|/|S̃|; there is no momentum to have a `friction`.
        """
        theta = self.rows(words)
        by_topic = counts.sum(0, dtype=np.float64)
        b = 1 + by_topic / self._totals
        delta, g = np.exp(-b * h), -np.expm1(-b * h) / b
        if self.sampler == "scir":
            seed = self._seed(_MOVING)
            which = np.zeros(len(words), np.int64)
            transitions(theta, self.alpha, counts, delta[None], g[None], which, words, seed, self.threads)
            moved = theta
        else:
            moved = self._euler(theta, counts, h)
        if not np.all(np.isfinite(moved.sum(0))) or np.any(b * h > self._FARTHEST):
            raise NotFiniteError(_too_long(self.sampler, h, self.number))
        # Of all words, as if none were seen; then what is known better of those that were.
        old = self._theta[words].sum(0, dtype=np.float64)
        unseen = old * delta + len(words) * self.alpha * g
        self._totals = self._totals * delta + len(self._theta) * self.alpha * g
        self._totals += moved.sum(0, dtype=np.float64) - unseen
        self._theta[words] = moved
        self._rate[self._now + 1] = self._rate[self._now] + b * h
        self._time[self._now + 1] = (
            self._time[self._now] + np.exp(self._rate[self._now]) * np.expm1(b * h) / b
        )
        self._now += 1
        self._seen[words] = self._now
        self.number += 1
        if self._now == self._REMEMBERED or self._rate[self._now].max() > self._FARTHEST:
            self._start_anew()

    def _euler(self, theta: np.ndarray, counts: np.ndarray, h: float) -> np.ndarray:
        """The library's step of these words."""
        rows = _padded(theta, 1.0)
        rest = self._totals - rows.sum(0, dtype=np.float64)
        z, _ = _advance(
            self.sampler,
            {"theta": jnp.asarray(rows)},
            Counts(jnp.asarray(_padded(counts, 0)), jnp.asarray(rest, jnp.float32)),
            self.alpha,
            h,
            1.0,
            0.0,
            self._step_key,
            Count.of(self.number),
        )
        return np.asarray(z["theta"])[: len(theta)]

    def whole(self) -> np.ndarray:
        """θ (V, K) now. The words not seen of late are drawn, but not moved: looking changes nothing."""
        return self._up_to_date(np.arange(len(self._theta)), _LOOKING)[0]

    def _start_anew(self) -> None:
        """Bring every word up to date, and begin to count time again."""
        self.rows(np.arange(len(self._theta)))
        self._totals = self._theta.sum(0, dtype=np.float64)
        self._forget()

    _KEPT = ("theta", "totals", "seen", "rate", "time")

    def state(self) -> dict[str, np.ndarray]:
        """All that a resume needs."""
        kept = {name: getattr(self, f"_{name}") for name in self._KEPT}
        return kept | {"number": np.asarray(self.number), "now": np.asarray(self._now)}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """As it was when `state` was taken."""
        self.number, self._now = int(state["number"]), int(state["now"])
        for name in self._KEPT:
            setattr(self, f"_{name}", np.array(state[name]))


def _padded(rows: np.ndarray, fill: float) -> np.ndarray:
    """Rows added up to one of few lengths, four to an octave, so that few programs have to be compiled."""
    grain = max(64, 1 << max(0, len(rows).bit_length() - 3))
    missing = -len(rows) % grain
    if not missing:
        return rows
    return np.concatenate([rows, np.full((missing, *rows.shape[1:]), fill, rows.dtype)])


def _too_long(sampler: str, h: float, number: int) -> str:
    return (
        f"θ left the finite numbers at step {number} of {sampler} with the step size {h:.3g}: take a smaller "
        "one (what was computed before is kept)."
    )
