"""The perplexity during the fit of an estimator."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from fokker.corpora import Documents
from fokker.models.lda.chain import TopicChain
from fokker.models.lda.curve import Evaluation, curve_from_array, curve_to_array
from fokker.models.lda.evaluate import HeldOut
from fokker.models.lda.files import with_prefix, without_prefix
from fokker.models.lda.judgement import SAMPLE_DOCUMENTS
from fokker.models.lda.start import is_enough

# At most so many documents are evaluated. With this many training documents for each of them between two
# evaluations, these are a tenth of the work.
_MAX_DOCUMENTS, _DOCUMENTS_PER_EVALUATED = 200, 5


class Curve:
    """Evaluations of a chain on some documents, at steps that depend on their number alone.

    `is_held_out`: whether the chain never uses these documents.
    """

    def __init__(self) -> None:
        self.points: list[Evaluation] = []
        self.held_out: HeldOut | None = None
        self.is_held_out = False
        self._documents: Documents | None = None
        # The first training documents, in which words are measured.
        self.sample = Documents.concatenate([])

    def start(self, documents: Documents, seed: int, threads: int) -> None:
        """Evaluate on the first of these documents that have two words, if there are any."""
        chosen = documents.select(np.flatnonzero(documents.lengths >= 2)[:_MAX_DOCUMENTS])
        if chosen.size:
            self._documents, self.held_out = chosen, HeldOut(chosen, seed, threads)

    def add_to_sample(self, documents: Documents) -> None:
        """Add training documents until there are enough to measure words in."""
        if not np.any(is_enough(self.sample.lengths, SAMPLE_DOCUMENTS)):
            self.sample = Documents.concatenate([self.sample, documents])

    @property
    def reference(self) -> Documents:
        """The documents in which words are measured."""
        is_part = self.is_held_out or not self.sample.size
        return Documents.concatenate(
            [*([self._documents] if is_part and self._documents is not None else []), self.sample]
        )

    def evaluated(
        self, draws: Sequence[np.ndarray], gamma: np.ndarray, seed: int, threads: int
    ) -> HeldOut | None:
        """The documents with their words predicted by these draws; None where none has two words."""
        if self._documents is None:
            return None
        held_out = HeldOut(self._documents, seed, threads)
        for beta in draws:
            held_out.add(beta, gamma)
        return held_out

    def offer(self, chain: TopicChain, documents: int, seconds: float, batch_size: int) -> None:
        """Evaluate the chain after this many documents, if it is time."""
        if self.held_out is None or self._documents is None:
            return
        interval = -(-_DOCUMENTS_PER_EVALUATED * self._documents.size // batch_size)
        step = chain.number
        if not (step % interval == 0 or (step < interval and step.bit_count() == 1)):
            return
        self.evaluate(chain, documents, seconds)

    def evaluate(self, chain: TopicChain, documents: int, seconds: float, is_exact: bool = False) -> None:
        """Evaluate the chain after this many documents."""
        if self.held_out is None:
            return
        if len(self.points).bit_count() == 1:
            # Their number has doubled: the average forgets the draws before.
            self.held_out.reset()
        with np.errstate(divide="ignore"):  # a word of probability zero gives an infinite perplexity
            of_draw = self.held_out.add(chain.beta(), chain.gamma)
            self.points.append(Evaluation(documents, seconds, of_draw, self.held_out.perplexity, is_exact))

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """What `restored` needs: values for JSON, and arrays."""
        arrays = {
            "points": curve_to_array(self.points),
            **with_prefix("sample", self.sample.arrays()),
        }
        if self.held_out is not None and self._documents is not None:
            arrays |= {**self._documents.arrays(), **self.held_out.state()}
        return {"is_held_out": self.is_held_out}, arrays

    @classmethod
    def restored(cls, values: dict[str, Any], arrays: dict[str, np.ndarray], seed: int, threads: int) -> Self:
        """The curve of a `state`."""
        curve = cls()
        curve.is_held_out = values["is_held_out"]
        curve.points = curve_from_array(arrays["points"])
        if sample := without_prefix("sample", arrays):  # older files have none
            curve.sample = Documents.from_arrays(sample["indptr"], sample["words"], sample["counts"])
        if "indptr" in arrays:
            documents = Documents.from_arrays(arrays["indptr"], arrays["words"], arrays["counts"])
            curve.start(documents, seed, threads)
            assert curve.held_out is not None
            curve.held_out.restore({name: arrays[name] for name in ("sum", "draws")})
        return curve
