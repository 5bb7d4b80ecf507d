r"""SGRHMC on θ with G = diag(θ)⁻¹, except in a layer at zero, where it is SGRLD; compiled, in place.

    D = [[h θδ/(θ + δ), 0], [0, C]],   Q = [[0, -θ/√(θ + δ)], [θ/√(θ + δ), 0]]

Far above δ, Q is that of Ma et al. (2015), section 4.2, G^{-1/2} = √θ, and θ has almost no noise of its own.
Below δ the force N_kw/√θ of a new word is unbounded; there Q vanishes and D = hθ dominates. This is correct
by Theorem 1 of the paper, as is any friction. The friction of the paper, G⁻¹ = θ, is nearly zero for words
that a topic does not use, and too large for a stable step for its most frequent words; here it is C for all
words.

θ and r are updated row by row. r is stored in 16 bits (the first half of a float32), rounded up or down at
random so that its mean is kept: a vocabulary of 200,000 words and 500 topics takes one and a half times the
memory of θ.
"""

import numba
import numpy as np

from fokker._core.random import fold_in
from fokker.models.topics._checks import NotFiniteError, check_friction
from fokker.models.topics._sums import column_sums
from fokker.models.topics._uniform import mix, seed_at, stream
from fokker.models.topics.cir import MIN_THETA
from fokker.models.topics.gibbs import in_threads
from fokker.models.topics.theta import Topics

# The width δ of the layer in units of h², the square of the distance that a momentum of one moves in a step.
# It is wide enough for several steps.
LAYER_WIDTH = 100.0
# The words that are summed at a time: sums that depended on the threads would change the rounding.
_WORDS_PER_PART = 512
# The number folded into the key for the initial momentum.
_INIT_FOLD = 2**30

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_PAIRS = np.uint64(0x5555555555555555)
_FOURS = np.uint64(0x3333333333333333)
_BYTES = np.uint64(0x0F0F0F0F0F0F0F0F)
# The three lowest and the next three of the eight bytes: 24 random bits each.
_LOW_BITS, _HIGH_BITS = np.uint64(0xFFFFFF), np.uint64(0xFFFFFF000000)
_SHIFTS = tuple(np.uint64(n) for n in (1, 2, 4, 8, 16, 24, 48))
_BYTE = np.uint64(0xFF)
_NOISE_MEAN, _NOISE_SCALE = np.float32(12.0), np.float32(6.0**-0.5)
_HALF, _ONE, _TWO, _INFINITY = np.float32(0.5), np.float32(1), np.float32(2), np.float32(np.inf)

# Divisions that do not raise, and float32 throughout: otherwise the loops over topics are not vectorised.
_compiled = numba.njit(nogil=True, cache=True, error_model="numpy")


@_compiled
def _fill_noise(
    seed: np.uint64, first_topic: int, theta_noise: np.ndarray, r_noise: np.ndarray, rounding: np.ndarray
) -> None:
    """Two variates and 16 random bits for each topic of a word, from `first_topic` on.

    A variate is a centred count of 24 random bits, as "binomial" noise of the library: its first three
    moments are those of a Gaussian and the fourth nearly is, which is enough for steps of order 1.
    """
    one, two, four, eight, sixteen, low_end, high_end = _SHIFTS
    for k in range(len(theta_noise)):
        x = mix(seed + np.uint64(first_topic + k + 1) * _GOLDEN)
        rounding[k] = np.uint32(x >> high_end)
        x = x - ((x >> one) & _PAIRS)
        x = (x & _FOURS) + ((x >> two) & _FOURS)
        x = (x + (x >> four)) & _BYTES
        low, high = x & _LOW_BITS, (x & _HIGH_BITS) >> low_end
        low, high = low + (low >> eight) + (low >> sixteen), high + (high >> eight) + (high >> sixteen)
        theta_noise[k] = (np.float32(np.int64(low & _BYTE)) - _NOISE_MEAN) * _NOISE_SCALE
        r_noise[k] = (np.float32(np.int64(high & _BYTE)) - _NOISE_MEAN) * _NOISE_SCALE


@_compiled
def update_row(
    theta: np.ndarray,
    r: np.ndarray,
    counts: np.ndarray,
    alpha: float,
    b: np.ndarray,
    h: float,
    friction: float,
    theta_noise: np.ndarray,
    r_noise: np.ndarray,
) -> bool:
    """An Euler step of θ and r of one word, reflected at the smallest θ; whether all of it is finite.

    b = 1 + N_k·/θ_k·. Entries that would not be finite stay as they are.
    """
    delta = np.float32(LAYER_WIDTH) * h * h
    r_root = np.sqrt(_TWO * h * friction)
    num_bad = np.int32(0)
    for k in range(len(theta)):
        x = theta[k]
        inverse = _ONE / (x + delta)
        inverse_root = np.sqrt(inverse)
        a = alpha - _ONE + counts[k]
        # D/θ, and θ/√(θ + δ)/θ: finite at zero.
        D_ratio = h * delta * inverse
        drift = D_ratio * (a - x * b[k] + delta * inverse) + x * inverse_root * r[k]
        force = inverse_root * (a - x * b[k] + (_HALF * x + delta) * inverse)
        new_x = x + h * drift + np.sqrt(_TWO * h * D_ratio * x) * theta_noise[k]
        new_r = r[k] + h * (force - friction * r[k]) + r_root * r_noise[k]
        is_outside = new_x < MIN_THETA
        new_x = _TWO * MIN_THETA - new_x if is_outside else new_x
        new_r = -new_r if is_outside else new_r
        is_good = (abs(new_x) < _INFINITY) & (abs(new_r) < _INFINITY)
        num_bad += np.int32(0) if is_good else np.int32(1)
        theta[k] = new_x if is_good else x
        r[k] = new_r if is_good else r[k]
    return num_bad == 0


@_compiled
def _update_rows(
    theta: np.ndarray,
    stored_r: np.ndarray,
    counts: np.ndarray,
    row_of_word: np.ndarray,
    alpha: float,
    b: np.ndarray,
    h: float,
    friction: float,
    seed: np.uint64,
    first_topic: int,
    first: int,
    last: int,
    totals: np.ndarray,
) -> bool:
    """Move the words from `first` to `last - 1`, and add their new θ to `totals`."""
    K = theta.shape[1]
    bits, rounding = np.empty(K, np.uint32), np.empty(K, np.uint32)
    r = bits.view(np.float32)
    theta_noise, r_noise = np.empty(K, np.float32), np.empty(K, np.float32)
    no_counts = np.zeros(K, np.float32)
    is_finite = True
    for w in range(first, last):
        _fill_noise(stream(seed, w), first_topic, theta_noise, r_noise, rounding)
        for k in range(K):
            bits[k] = np.uint32(stored_r[w, k]) << np.uint32(16)
        row = no_counts if row_of_word[w] < 0 else counts[row_of_word[w]]
        is_finite &= update_row(theta[w], r, row, alpha, b, h, friction, theta_noise, r_noise)
        for k in range(K):
            stored_r[w, k] = np.uint16((bits[k] + rounding[k]) >> np.uint32(16))
            totals[k] += theta[w, k]
    return is_finite


def rounded(r: np.ndarray) -> np.ndarray:
    """The first 16 bits of float32 numbers, as they are stored."""
    return np.asarray(np.ascontiguousarray(r, np.float32).view(np.uint32) >> np.uint32(16), np.uint16)


class MomentumTopics(Topics):
    """θ and r with SGRHMC, which moves every word at every step; of all topics, or of those of a `share`."""

    _SAVED = ("theta", "totals", "r")

    def _prepare(self, start: float) -> None:
        self._r = np.empty(self.shape, np.uint16)
        generator = np.random.Generator(np.random.Philox(int(seed_at(fold_in(self._key, _INIT_FOLD), 0))))
        for first in range(0, self.shape[0], _WORDS_PER_PART):
            part = self._r[first : first + _WORDS_PER_PART]
            # Of all topics, so that they do not depend on which of them are here.
            normal = generator.standard_normal((len(part), self._share.topics), np.float32)
            part[:] = rounded(normal[:, self._share.own])

    def step(
        self, words: np.ndarray, counts: np.ndarray, h: float, friction: float, data_weight: float
    ) -> None:
        """Move every word."""
        check_friction(h, friction)
        V, K = self._theta.shape
        row_of_word = np.full(V, -1, np.int64)
        row_of_word[words] = np.arange(len(words))
        counts = np.ascontiguousarray(counts, np.float32)
        b = (1 + column_sums(counts) / self._totals).astype(np.float32)
        seed = seed_at(self._key, self.number)
        parts = range(0, V, _WORDS_PER_PART)
        totals, is_finite = np.zeros((len(parts), K)), np.empty(len(parts), bool)

        def work(i: int) -> None:
            first = parts[i]
            is_finite[i] = _update_rows(
                self._theta, self._r, counts, row_of_word, np.float32(self.alpha), b, np.float32(h),
                np.float32(friction), seed, self._share.own.start, first, min(first + _WORDS_PER_PART, V),
                totals[i],
            )  # fmt: skip

        in_threads(self.threads, work, range(len(parts)))
        self._totals = column_sums(totals)
        # The sums are of float64, but divide float32 numbers.
        is_good = bool(np.all(is_finite) and np.all(self._totals < np.finfo(np.float32).max))
        self._share.check_step(is_good, NotFiniteError(self.sampler, h, self.number))
        self.number += 1
