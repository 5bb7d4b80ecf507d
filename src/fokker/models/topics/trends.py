r"""The prevalence of topics in groups of documents, such as years, with intervals.

The prevalence of topic k in group g is the share of its words, Σ_d n_dk / Σ_d n_d over the documents of the
group, or the mean of the shares n_dk / n_d of each document. Two things make it uncertain:

- the posterior: for each stored draw of the topics, the topics z of all words are drawn given these, so that
  the spread over the draws is that of n_dk given the texts;
- the sampling of documents: others of the same group would have other topics. Within each draw the documents
  have random weights (the Bayesian bootstrap of Rubin 1981), and deviations are widened by
  √((n + 1)/(n - 1)) and by the ratio of Student's to Gaussian quantiles, for groups of few documents n.

An interval without the second is one of these documents alone. Each is of one topic in one group;
`fokker.models.topics.differences` says which topics differ clearly, for all topics and groups together.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import stats

from fokker._core.keys import checked_seed
from fokker.models.topics.differences import MOST_PROBABLE, DocumentSample, beyond_chance, beyond_posterior
from fokker.models.topics.draws import attainable_probability, credible_bounds, draws_needed
from fokker.models.topics.files import csv_text
from fokker.models.topics.groups import TopicGroups

Per = Literal["words", "documents"]
# Weights of the documents for each draw, and for a single set of mixtures.
_REPLICATES, _REPLICATES_ALONE = 40, 1_000
# The code of a document that is in no group for another reason than a missing value, -1.
NO_GROUP = -2
# Groups of fewer documents have no interval, and those of few one that may be too narrow: a few documents say
# little of topics that they do not have.
_FEWEST, _FEW = 5, 20
_TOO_NARROW = (
    "The intervals of groups of fewer than {} documents ({}) are too narrow for topics that few documents "
    "have: with 4 to 10 topics, one or two per document, 90 % intervals of 5 documents contained the truth "
    "in 64 to 80 % of simulations, of 10 documents in 72 to 88 %; with more topics in fewer."
)
# The most groups that a note names.
_NAMED = 5
# What clear differences are, by whether the sampling of documents is included.
_CLEARLY = {
    True: "A topic differs clearly if two groups differ by more than any topic does in {} of random "
    "divisions of these documents into groups of the same sizes. An interval is of one topic in one group: "
    "some do not overlap by chance alone.",
    False: "A topic differs clearly if the draws say which of two groups has more of it, with a probability "
    "of {} for all topics and groups together. That is of these documents: groups made at random differ too.",
}


@dataclass(frozen=True)
class Trends:
    """The prevalence of topics in groups of documents, from `fk.models.LDA.trends` or a run.

    `by`: what the groups are. `groups` (G): their labels. `is_ordered`: whether they are numbers or dates.
    `topics` (K): the names of the topics, and `words`: the first of each. `documents` (G,): how many there
    are. `mean`, `low`, `high` (G, K): prevalence with its bounds, of `probability` between them; NaN for a
    bound that is not known, of a group of fewer than five documents. `includes`: what the bounds include, of
    "posterior" and "documents"; with neither they are the prevalence itself. `differences` (K,): the largest
    difference of two groups, over the one from which on it is clear; None where none can be. `notes`: the
    same in words.
    """

    by: str
    groups: tuple[str, ...]
    is_ordered: bool
    topics: tuple[str, ...]
    words: tuple[tuple[str, ...], ...]
    documents: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    probability: float
    includes: tuple[Literal["posterior", "documents"], ...]
    differences: np.ndarray | None
    notes: tuple[str, ...]

    @property
    def changing(self) -> np.ndarray:
        """The topics (K,), first those whose prevalence differs most between groups.

        Differences are relative to those of chance; where nothing is known of chance, they are in prevalence.
        """
        if self.differences is not None:
            return np.argsort(-self.differences, kind="stable")
        by_size = np.ptp(self.mean, axis=0) if len(self.groups) > 1 else self.mean[0]
        return np.argsort(-by_size, kind="stable")

    @property
    def has_interval(self) -> np.ndarray:
        """Whether the bounds of each group (G,) are known and include something."""
        return np.isfinite(self.low).all(1) & bool(self.includes)

    @property
    def num_clear(self) -> int | None:
        """The number of topics that differ clearly between two groups or more.

        Clearly is for all topics and pairs of groups together. If groups are random, a run has such a topic
        with a probability of at most 1 - `probability` of the arguments. Without the sampling of documents
        this is about the groups of these documents, which differ even if they are random.

        None where fewer than two groups have two documents, or the intervals include nothing: that says
        nothing then.
        """
        return None if self.differences is None else int(np.sum(self.differences > 1))

    def csv(self) -> str:
        """One row per group and topic."""
        low, high = f"{50 * (1 - self.probability):.3g} %", f"{50 * (1 + self.probability):.3g} %"
        rows = [
            (
                group,
                int(self.documents[g]),
                topic,
                " ".join(self.words[k]),
                f"{self.mean[g, k]:.6f}",
                *(f"{x[g, k]:.6f}" if self.has_interval[g] else "" for x in (self.low, self.high)),
            )
            for g, group in enumerate(self.groups)
            for k, topic in enumerate(self.topics)
        ]
        return csv_text((self.by, "documents", "topic", "words", "prevalence", low, high), rows)

    def label(self, topic: int, words: int = 4) -> str:
        """The name of a topic with its first words."""
        return f"{self.topics[topic]}: {' '.join(self.words[topic][:words])}"


class TrendSums:
    """Adds up documents with the topics of their words, draw by draw, for the prevalence in groups.

    Args:
        groups: those of all documents; `add` takes the documents in parts.
        topics: K.
        draws: the number of draws of the topics.
        per: "words", the share of a topic in all words of a group; "documents", the mean of its shares.
        sampling: whether the bounds include the sampling of documents.
        probability: that of the bounds, and of no clear difference by chance.
        seed: of the random weights.
    """

    def __init__(
        self,
        groups: TopicGroups,
        topics: int,
        draws: int,
        *,
        per: Per = "words",
        sampling: bool = True,
        probability: float = 0.9,
        seed: int = 0,
    ) -> None:
        if per not in ("words", "documents"):
            raise ValueError(f"per must be 'words' or 'documents'; {per!r} was given.")
        if not 0 < probability < 1:
            raise ValueError(f"probability must be between 0 and 1; {probability!r} was given.")
        if sampling and probability > MOST_PROBABLE:
            raise ValueError(
                f"probability must be at most {MOST_PROBABLE}: topics are compared with 9,999 random "
                f"divisions of the documents; {probability!r} was given."
            )
        checked_seed(seed)
        self.groups, self.per, self.sampling, self.probability = groups, per, sampling, probability
        self._replicates = (_REPLICATES if draws > 1 else _REPLICATES_ALONE) if sampling else 0
        self._generators = [np.random.Generator(np.random.Philox([seed, i])) for i in range(draws)]
        # The first of the weightings is that of one for all.
        shape = (draws, 1 + self._replicates, len(groups.labels))
        self._counts, self._sizes = np.zeros((*shape, topics), np.float32), np.zeros(shape)
        self._documents = np.zeros(len(groups.labels), np.int64)
        self._num_missing = 0
        # Documents with the mean of their counts over the draws, and those that some draws are missing of.
        self._sample = DocumentSample()
        self._unfinished: np.ndarray | float = 0.0
        self._seed = seed

    def add(self, draw: int, codes: np.ndarray, counts: np.ndarray) -> None:
        """Add documents with n_dk (D, K) under one draw of the topics, given their groups (D,).

        All draws of some documents come before those of the next, in order.
        """
        lengths = counts.sum(1, dtype=np.float64)
        is_used = (codes >= 0) & (lengths > 0)
        all_codes = codes
        codes, counts, lengths = codes[is_used], counts[is_used], lengths[is_used]
        if draw == 0:
            self._num_missing += int(np.sum(all_codes == -1))
            self._documents += np.bincount(codes, minlength=len(self._documents))
        if self.per == "documents":
            counts, lengths = counts / lengths[:, None], np.ones(len(lengths))
        self._unfinished = self._unfinished + counts / len(self._generators)
        if draw == len(self._generators) - 1:
            if self.sampling:
                self._sample.add(codes, self._unfinished, lengths)
            self._unfinished = 0.0
        weights = np.ones((1 + self._replicates, len(codes)))
        weights[1:] = self._generators[draw].standard_exponential((self._replicates, len(codes)))
        for g in np.unique(codes):
            here = codes == g
            self._counts[draw, :, g] += weights[:, here] @ counts[here]
            self._sizes[draw, :, g] += weights[:, here] @ lengths[here]

    def result(self, topics: tuple[str, ...], words: tuple[tuple[str, ...], ...]) -> Trends:
        """The prevalence of all topics, with their names and first words."""
        has_documents = self._documents > 0
        if not has_documents.any():
            raise ValueError(f"by={self.groups.by!r}: no document with a value has a known word.")
        n = self._documents[has_documents]
        shares = self._counts[:, :, has_documents] / self._sizes[:, :, has_documents, None]
        plain = shares[:, 0]
        values = shares[:, :1] if not self.sampling else shares[:, 1:]
        if self.sampling:
            values = plain[:, None] + _widening(n, self.probability)[:, None] * (values - plain[:, None])
        low, high, probability = _bounds(np.clip(values, 0, 1), self.probability)
        if self.sampling:
            low[n < _FEWEST], high[n < _FEWEST] = np.nan, np.nan
        labels = tuple(g for g, has in zip(self.groups.labels, has_documents, strict=True) if has)
        mean = plain.mean(0)
        return Trends(
            self.groups.by,
            labels,
            self.groups.is_ordered,
            topics,
            words,
            n,
            mean,
            np.minimum(low, mean),
            np.maximum(high, mean),
            probability,
            self._includes,
            self._differences(plain, n, has_documents),
            self._notes(labels, n, probability),
        )

    def _differences(self, plain: np.ndarray, n: np.ndarray, has_documents: np.ndarray) -> np.ndarray | None:
        """`Trends.differences`, of shares (draws, G, K) in groups that have documents."""
        is_compared = n > 1 if self.sampling else np.full(len(n), len(plain) > 1)
        if is_compared.sum() < 2:
            return None
        if not self.sampling:
            return beyond_posterior(plain, self.probability)
        shares = np.full((len(has_documents), plain.shape[2]), np.nan)
        shares[has_documents] = np.where(is_compared[:, None], plain.mean(0), np.nan)
        return beyond_chance(shares, self._documents, self._sample, self.probability, self._seed)

    @property
    def _includes(self) -> tuple[Literal["posterior", "documents"], ...]:
        """What the bounds include."""
        posterior: tuple[Literal["posterior"], ...] = ("posterior",) if len(self._generators) > 1 else ()
        return (*posterior, "documents") if self.sampling else posterior

    def _notes(self, labels: tuple[str, ...], n: np.ndarray, probability: float) -> tuple[str, ...]:
        draws = len(self._generators)
        parts = [f"the posterior of the topics ({draws} draws)"] if draws > 1 else []
        parts += ["the sampling of documents"] if self.sampling else []
        without = [] if draws > 1 else ["the posterior of the topics"]
        without += [] if self.sampling else ["the sampling of documents: they are of these documents alone"]
        share = "all words of a group" if self.per == "words" else "a document, on average over a group"
        left_out = ", not " + " nor ".join(without) if without else ""
        notes = [f"Prevalence is the share of a topic in {share}."]
        notes[0] += (
            f" The {100 * probability:.3g} % intervals include {' and '.join(parts)}{left_out}."
            if parts
            else " Whether topics differ clearly between groups cannot be said: there are no intervals, "
            "without the posterior of the topics and the sampling of documents."
        )
        if parts:
            notes.append(_CLEARLY[self.sampling].format(f"{100 * self.probability:.3g} %"))
        if self.sampling and (none := _names(labels, n < _FEWEST)):
            notes.append(f"Groups of fewer than {_FEWEST} documents ({none}) have no interval.")
        if self.sampling and (narrow := _names(labels, (n >= _FEWEST) & (n < _FEW))):
            notes.append(_TOO_NARROW.format(_FEW, narrow))
        if missing := self._num_missing:
            documents = "1 document has" if missing == 1 else f"{missing:,} documents have"
            left_out = "is" if missing == 1 else "are"
            notes.append(f"{documents} no value of {self.groups.by} and {left_out} left out.")
        return tuple(notes)


def _names(labels: tuple[str, ...], chosen: np.ndarray) -> str:
    """The labels of the groups that are chosen (G,), of which the first are named; empty for none."""
    names = [label for label, is_chosen in zip(labels, chosen, strict=True) if is_chosen]
    rest = [f"and {len(names) - _NAMED:,} more"] if len(names) > _NAMED else []
    return ", ".join([*names[:_NAMED], *rest])


def _widening(n: np.ndarray, probability: float) -> np.ndarray:
    """By what deviations of the Bayesian bootstrap of n documents are multiplied (G,)."""
    # The variance of weighted means is (n - 1)/(n + 1) of the variance of the mean; and it is estimated.
    n = np.maximum(n, 2)
    tail = (1 + probability) / 2
    return np.asarray(np.sqrt((n + 1) / (n - 1)) * stats.t.ppf(tail, n - 1) / stats.norm.ppf(tail))


def _bounds(values: np.ndarray, probability: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Bounds (G, K) of values (draws, weightings, G, K), and their probability."""
    draws, replicates = values.shape[:2]
    if draws >= draws_needed(probability):
        # Each weighting has draws enough for bounds; their means have less noise.
        low, high = credible_bounds(values, probability)
        return low.mean(0), high.mean(0), probability
    if replicates == 1:
        attainable = attainable_probability(draws)
        low, high = credible_bounds(values, attainable)
        return low[0], high[0], attainable or probability  # of one draw they are no bounds
    tail = (1 - probability) / 2
    low, high = np.quantile(values, [tail, 1 - tail], axis=(0, 1))
    return low, high, probability
