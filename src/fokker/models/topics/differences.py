r"""Which topics differ between groups of documents, for all topics and pairs of groups together.

With G groups and K topics there are K G (G - 1)/2 differences, of which some are large by chance alone. So
the largest of all is compared with the largest of all that chance gives:

- Where documents are a sample (`beyond_chance`), chance is the random division of the same documents into
  groups of the same sizes: a permutation test with the largest statistic of all topics and pairs (Westfall
  and Young 1993). Nothing is assumed of the distribution of shares, which is very skewed for rare topics in
  small groups, where tails of Student's t would be wrong.
- For these documents alone (`beyond_posterior`), groups made at random do differ, and only the posterior is
  uncertain. It has some twenty draws, too few for quantiles of a maximum: so the predictive tails of
  Student's t, with Bonferroni's correction for all differences.
"""

import math

import numpy as np
from scipy import sparse, stats

# The fewest and the most random divisions, and how many of them are beyond the threshold at least.
_MIN_DIVISIONS, _MAX_DIVISIONS, _BEYOND = 199, 9_999, 10
# The largest probability that so many divisions have a quantile of.
MOST_PROBABLE = _MAX_DIVISIONS / (_MAX_DIVISIONS + 1)
# The quantile that makes deviations of small and large groups comparable.
_SCALE = 0.98
# The documents that are stored for the divisions.
_MAX_BYTES = 2**26
# Sums of the same documents in another order differ by rounding.
_ROUNDING = 1e-4


class DocumentSample:
    """Documents with their counts: all, or where memory is full, evenly spaced ones."""

    def __init__(self, max_bytes: int = _MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._stride, self._seen, self._bytes = 1, 0, 0
        self._parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def add(self, codes: np.ndarray, counts: np.ndarray, lengths: np.ndarray) -> None:
        """Add documents with their groups (D,), counts (D, K) and lengths (D,)."""
        chosen = slice(-self._seen % self._stride, None, self._stride)
        self._parts.append((codes[chosen], counts[chosen].astype(np.float32), lengths[chosen]))
        self._seen += len(codes)
        self._bytes += self._parts[-1][1].nbytes
        while self._bytes > self._max_bytes:
            codes, counts, lengths = (x[::2].copy() for x in self.all())
            self._parts, self._bytes = [(codes, counts, lengths)], counts.nbytes
            self._stride *= 2

    def all(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The groups, counts and lengths of the stored documents."""
        codes, counts, lengths = (np.concatenate(x) for x in zip(*self._parts, strict=True))
        return codes, counts, lengths


def beyond_chance(
    shares: np.ndarray, sizes: np.ndarray, sample: DocumentSample, probability: float, seed: int
) -> np.ndarray:
    """The largest difference of each topic (K,) over that of all topics which chance seldom exceeds.

    Args:
        shares: of the topics in the groups (G, K), NaN in a group that is not to be compared.
        sizes: the number of documents of each group (G,).
        sample: the documents.
        probability: that of no ratio above 1 where the groups of all documents are random; `MOST_PROBABLE` at
            most.
        seed: of the random divisions.
    """
    is_compared = np.isfinite(shares).all(1)
    codes, counts, lengths = sample.all()
    chosen = is_compared[codes]
    counts, lengths, sizes = counts[chosen], lengths[chosen], sizes[is_compared]
    # Where documents were dropped, groups as large in proportion, for which a few documents are repeated.
    stored = len(counts) / sizes.sum()
    sizes = np.ceil(sizes * stored).astype(int)
    documents = np.resize(np.arange(len(counts)), sizes.sum())
    sums = np.column_stack([counts[documents], lengths[documents]]).astype(np.float64)
    generator = np.random.Generator(np.random.Philox([seed, 2**32]))
    number = min(max(_MIN_DIVISIONS, math.ceil(_BEYOND / (1 - probability)) - 1), _MAX_DIVISIONS)
    groups = np.repeat(np.arange(len(sizes)), sizes)
    divided = [shares[is_compared]]
    for _ in range(number):
        of_groups = _sums_of_groups(generator.permutation(groups), sums)
        divided.append(of_groups[:, :-1] / of_groups[:, -1:])
    deviations = np.stack(divided) - sums[:, :-1].sum(0) / sums[:, -1].sum()
    deviations[1:] *= np.sqrt(stored)  # of groups as large as they are
    largest = _largest_differences(deviations)
    rank = min(math.ceil(probability * (number + 1)), number)
    threshold = np.sort(largest[1:].max(1))[rank - 1]
    return np.asarray(largest[0] / max(threshold * (1 + _ROUNDING), np.finfo(float).tiny))


def _sums_of_groups(groups: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Sums (G, C) of the rows of values (D, C) in each group, read in their order: a gather is far slower."""
    number = len(groups)
    indicators = sparse.csc_array((np.ones(number), groups, np.arange(number + 1)))
    return np.asarray(indicators @ values)


def _largest_differences(deviations: np.ndarray) -> np.ndarray:
    """The largest standardised difference of two groups, of each topic (R, K), in R divisions (R, G, K).

    The scale of a group and topic comes from all divisions, the actual one among them: so they can be
    exchanged where groups are random. It is a quantile in the tail, as a standard deviation would let groups
    of few documents decide the threshold for all.
    """
    scale = np.maximum(np.quantile(np.abs(deviations), _SCALE, axis=0), np.finfo(float).eps)
    largest = np.zeros((len(deviations), deviations.shape[2]))
    for g in range(len(scale) - 1):
        of_pairs = np.hypot(scale[g], scale[g + 1 :])
        for i, division in enumerate(deviations):
            differences = np.abs(division[g + 1 :] - division[g]) / of_pairs
            np.maximum(largest[i], differences.max(0), out=largest[i])
    return largest


def beyond_posterior(shares: np.ndarray, probability: float) -> np.ndarray:
    """The largest difference of each topic (K,) over the one whose sign is certain enough.

    Args:
        shares: of the topics in the groups, of each draw of the posterior (S, G, K).
        probability: that with which the signs of all differences with a ratio above 1 are right together.
    """
    num_draws, num_groups, num_topics = shares.shape
    num_differences = num_topics * num_groups * (num_groups - 1) / 2
    quantile = stats.t.isf((1 - probability) / (2 * num_differences), num_draws - 1)
    largest = np.zeros(num_topics)
    for g in range(num_groups - 1):
        differences = shares[:, g + 1 :] - shares[:, g : g + 1]
        spread = differences.std(0, ddof=1) * np.sqrt(1 + 1 / num_draws)
        centre = np.abs(differences.mean(0))
        # Sums of float32 of the same numbers may differ by rounding.
        ratio = np.where(centre > 1e-6, centre / np.maximum(spread, np.finfo(float).tiny), 0)
        np.maximum(largest, ratio.max(0), out=largest)
    return np.asarray(largest / quantile)


__all__ = ["MOST_PROBABLE", "DocumentSample", "beyond_chance", "beyond_posterior"]
