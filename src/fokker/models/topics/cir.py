r"""Exact transitions of the Cox–Ingersoll–Ross process, for many words at once.

    dθ = (a - bθ) dt + √(2θ) dW

is SGRLD on θ with D = diag(θ) given expected counts: a = α + N_kw, b = 1 + N_k·/θ_k·. Over an interval in
which b may change, with δ = exp(-∫b dt) and g = ∫ exp(-∫_s b) ds,

    θ' = g · Gamma(a + P),   P ~ Poisson(θδ/g)

is a scaled noncentral χ² (Cox, Ingersoll, Ross 1985; Baker et al. 2018 for stochastic gradients). There is no
error at the boundary for any step size, and one draw covers any number of steps with constant a.
"""

import math
from typing import Any

import numba
import numpy as np

from fokker.models.topics._expected import MIN_PROBABILITY
from fokker.models.topics._sums import column_sums
from fokker.models.topics._uniform import normal, stream, stream_of_topic, uniform_double
from fokker.models.topics.gibbs import in_threads

# Smaller θ are raised to this: far below the probability of any word, far above the smallest float32.
MIN_THETA = np.float32(MIN_PROBABILITY)
_LOG_MIN_THETA = math.log(MIN_PROBABILITY)
# Innovations are summed in parts of this many words. Parts that depended on the threads would change the
# rounding.
_WORDS_PER_PART = 64


@numba.njit(nogil=True, cache=True)
def draw_gamma(state: np.uint64, a: float) -> Any:
    """The next random state, and Gamma(a, 1) (Marsaglia and Tsang 2000); 0 where it underflows."""
    boost = 1.0
    if a < 1.0:
        state, u = uniform_double(state)
        power = math.log(u) / a
        if power < _LOG_MIN_THETA:
            return state, 0.0
        boost = math.exp(power)
        a += 1.0
    d = a - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        state, x = normal(state)
        v = (1.0 + c * x) ** 3
        if v > 0.0:
            state, u = uniform_double(state)
            if math.log(u) < 0.5 * x * x + d - d * v + d * math.log(v):
                return state, boost * d * v


@numba.njit(nogil=True, cache=True)
def draw_poisson(state: np.uint64, rate: float) -> Any:
    """The next random state, and Poisson(rate): by inversion, or transformed rejection (Hörmann 1993)."""
    if rate < 10.0:
        state, u = uniform_double(state)
        if u < 1.0 - rate:  # 1 - rate < exp(-rate): the count is 0, without the exponential
            return state, 0.0
        count, term = 0.0, math.exp(-rate)
        while u > term and count < 200.0:
            u -= term
            count += 1.0
            term *= rate / count
        return state, count
    root, log_rate = math.sqrt(rate), math.log(rate)
    b = 0.931 + 2.53 * root
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    squeeze = 0.9277 - 3.6224 / (b - 2.0)
    while True:
        state, u = uniform_double(state)
        state, v = uniform_double(state)
        u -= 0.5
        us = 0.5 - abs(u)
        count = math.floor((2.0 * a / us + b) * u + rate + 0.43)
        if us >= 0.07 and v <= squeeze:
            return state, count
        if count < 0.0 or (us < 0.013 and v > us):
            continue
        log_bound = math.log(v * inverse_alpha / (a / (us * us) + b))
        if log_bound <= count * log_rate - rate - math.lgamma(count + 1.0):
            return state, count


@numba.njit(nogil=True, cache=True)
def transition(state: np.uint64, theta: float, a: float, delta: float, g: float) -> Any:
    """The next random state, and θ' ~ g·Gamma(a + Poisson(θδ/g)), at least `MIN_THETA`."""
    rate = theta * delta / g
    if a > 0.5:
        # A noncentral χ² with more than one degree of freedom needs no Poisson draw.
        state, x = normal(state)
        state, y = draw_gamma(state, a - 0.5)
        y += 0.5 * (x + math.sqrt(2.0 * rate)) ** 2
    else:
        state, count = draw_poisson(state, rate)
        state, y = draw_gamma(state, a + count)
    return state, max(np.float32(g * y), MIN_THETA)


@numba.njit(nogil=True, cache=True)
def _transitions(
    theta: np.ndarray,
    alpha: float,
    counts: np.ndarray,
    delta: np.ndarray,
    g: np.ndarray,
    which: np.ndarray,
    words: np.ndarray,
    seed: np.uint64,
    first_topic: int,
    innovation: np.ndarray,
) -> None:
    """Update θ in place, row by row. Word u uses row `which[u]` of δ and g. Adds up θ' - E[θ'] by topic."""
    for u in range(theta.shape[0]):
        i = which[u]
        if i < 0:
            continue
        word_state = stream(seed, words[u])
        for k in range(theta.shape[1]):
            a = alpha + (counts[u, k] if counts.shape[0] else 0.0)
            expected = theta[u, k] * delta[i, k] + a * g[i, k]
            state = stream_of_topic(word_state, first_topic + k)
            _, theta[u, k] = transition(state, theta[u, k], a, delta[i, k], g[i, k])
            innovation[k] += theta[u, k] - expected


def transitions(
    theta: np.ndarray,
    alpha: float,
    counts: np.ndarray | None,
    delta: np.ndarray,
    g: np.ndarray,
    which: np.ndarray,
    words: np.ndarray,
    seed: np.uint64,
    threads: int = 1,
    first_topic: int = 0,
) -> np.ndarray:
    """Update θ (U, K) in place; return Σ_w (θ' - E[θ']) of each topic.

    δ and g have one row for each length of time since words were updated; `which` is the row of each word
    (negative: no update). A draw depends only on `seed`, the number of the word in `words`, and
    that of the topic, of which the first here is `first_topic`.
    """
    count_rows = np.zeros((0, theta.shape[1]), np.float32) if counts is None else counts
    parts = -(-len(theta) // _WORDS_PER_PART)
    innovations = np.zeros((parts, theta.shape[1]))

    def work(thread: int) -> None:
        for part in range(thread, parts, threads):
            rows = slice(part * _WORDS_PER_PART, (part + 1) * _WORDS_PER_PART)
            _transitions(
                theta[rows], alpha, count_rows[rows] if counts is not None else count_rows, delta, g,
                which[rows], words[rows], seed, first_topic, innovations[part],
            )  # fmt: skip

    in_threads(threads, work, range(threads))
    return column_sums(innovations)
