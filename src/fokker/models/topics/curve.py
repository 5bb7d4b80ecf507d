"""The documents by which a chain is evaluated, and its curve of perplexity."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fokker.corpora import Documents
from fokker.models.named_arrays import with_prefix, without_prefix
from fokker.models.topics.evaluate import HeldOut, RowsOfBeta
from fokker.models.topics.share import Share

# With this many training documents for each evaluated one between two evaluations, these are a tenth of the
# work: they sweep over half of each document.
DOCUMENTS_PER_EVALUATED = 5
_MAX_HELD_OUT, _MIN_HELD_OUT, STREAM_HELD_OUT = 1_000, 100, 100
# By default so many documents are held out that there are about this many evaluations: those in the second
# half show whether the perplexity still falls.
_NUM_EVALUATIONS = 20
# So many documents at most are evaluated where nothing says how many.
_MAX_DOCUMENTS = 200


class CurvePoint(NamedTuple):
    """The held-out perplexity after this many training documents: of the current draw and of the average.

    `is_exact`: whether the draw is that of an exact pass.
    """

    documents: int
    seconds: float
    of_draw: float
    of_average: float
    is_exact: bool = False


def curve_to_array(curve: Sequence[CurvePoint]) -> np.ndarray:
    """Evaluations as rows of numbers."""
    return np.array(curve, float).reshape(-1, len(CurvePoint._fields))


def curve_from_array(rows: np.ndarray) -> list[CurvePoint]:
    """The evaluations of `curve_to_array`."""
    return [
        CurvePoint(int(n), seconds, of_draw, of_average, bool(is_exact))
        for n, seconds, of_draw, of_average, is_exact in rows.tolist()
    ]


class PerplexityCurve:
    """The perplexity of some documents' hidden words after some of the steps of a chain.

    `size`: the number of documents to hold out from the stream. `points`: the evaluations. The average is
    over the draws of at least the last half of the evaluations, and never the first ones. `is_held_out`:
    whether the chain never uses these documents.
    """

    def __init__(self, size: int, seed: int, threads: int, share: Share | None = None) -> None:
        self.size, self._seed, self.threads, self._share = size, seed, threads, share
        self.points: list[CurvePoint] = []
        self.held_out: HeldOut | None = None
        self.is_held_out = True
        self._documents = Documents.concatenate([])
        self._pending: list[Documents] = []
        self._hashes: set[bytes] = set()

    def use_threads(self, threads: int) -> None:
        """Evaluate with so many threads from now on."""
        self.threads = threads
        if self.held_out is not None:
            self.held_out.threads = threads

    @property
    def num_missing(self) -> int:
        """The number of documents that are still to be held out."""
        return 0 if self.held_out is not None else self.size - sum(part.size for part in self._pending)

    def hold_out(self, documents: Documents) -> None:
        """Hold out these documents, `num_missing` at most."""
        self._pending.append(documents)
        if not self.num_missing:
            self._complete(Documents.concatenate(self._pending))
            self._pending = []

    def use(self, documents: Documents, is_held_out: bool) -> None:
        """Evaluate the first of these documents that have two words, if there are any."""
        chosen = documents.select(np.flatnonzero(documents.lengths >= 2)[:_MAX_DOCUMENTS])
        if chosen.size:
            self.is_held_out = is_held_out
            self._complete(chosen)

    def _complete(self, documents: Documents) -> None:
        self._documents = documents
        self.held_out = HeldOut(documents, self._seed, self.threads, self._share)
        self._early = {name: np.zeros_like(x) for name, x in self.held_out.state().items()}
        self._hashes = {_document_hash(*documents.row(i)) for i in range(documents.size)}

    def is_training(self, documents: Documents) -> np.ndarray:
        """Which of these documents are not held out, also where the stream repeats them."""
        return np.array(
            [_document_hash(*documents.row(i)) not in self._hashes for i in range(documents.size)], bool
        )

    def is_due(self, step: int, batch: int) -> bool:
        """Whether to evaluate after this step, with minibatches of this size.

        It depends on numbers of steps and documents alone, so that results are the same on every machine.
        """
        if self.held_out is None:
            return False
        interval = -(-DOCUMENTS_PER_EVALUATED * self._documents.size // batch)
        return step % interval == 0 or (step < interval and step.bit_count() == 1)

    def evaluate(
        self, beta: RowsOfBeta, gamma: np.ndarray, *, documents: int, seconds: float, is_exact: bool
    ) -> None:
        """Add the perplexity of a draw β (V, K), after so many training documents."""
        if self.held_out is None:
            return
        if len(self.points).bit_count() == 1:
            # Their number has doubled: the draws before the previous doubling are removed from the average.
            # So it covers at least half of the draws, and never the first ones.
            late = {name: x - self._early[name] for name, x in self.held_out.state().items()}
            self.held_out.restore(late)
            self._early = {name: np.array(x) for name, x in late.items()}
        with np.errstate(divide="ignore"):  # a word of probability zero gives an infinite perplexity
            of_draw = self.held_out.add(beta, gamma)
            of_average = self.held_out.perplexity
        self.points.append(CurvePoint(documents, seconds, of_draw, of_average, is_exact))

    @property
    def documents(self) -> Documents:
        """All documents that are evaluated or held out, also those of which nothing can be predicted."""
        return self._documents

    def state(self) -> dict[str, np.ndarray]:
        """The arrays that a resumed run needs, with the names of `documents`."""
        arrays = {"curve": curve_to_array(self.points)}
        if self.held_out is None:
            return arrays
        places = self._documents.places
        return {
            **({} if places is None else {"documents.places": places}),
            **with_prefix("held_out", self.held_out.state()),
            **with_prefix("early", self._early),
            **with_prefix("documents", self._documents.arrays()),
            **arrays,
        }

    def restore(self, state: Mapping[str, np.ndarray], names: Sequence[str]) -> None:
        """Restore a `state`."""
        self.points = curve_from_array(state["curve"])
        documents = without_prefix("documents", state)
        if not documents:
            return
        self._complete(Documents(**documents, names=tuple(names)))
        assert self.held_out is not None
        self.held_out.restore(without_prefix("held_out", state))
        # Older estimators have none: their average began at the last doubling.
        self._early |= without_prefix("early", state)


def default_held_out(length: int | None, passes: int | None) -> int:
    """A tenth of the documents at most, and 100 to 1,000: so that there are about 20 evaluations."""
    if length is None:
        return _MAX_HELD_OUT
    for_evaluations = (
        _MAX_HELD_OUT if passes is None else length * passes // (_NUM_EVALUATIONS * DOCUMENTS_PER_EVALUATED)
    )
    return max(1, min(length // 10, _MAX_HELD_OUT, max(_MIN_HELD_OUT, for_evaluations)))


def _document_hash(name: str, words: np.ndarray, counts: np.ndarray) -> bytes:
    """A hash of a document, to recognise it when it is repeated in the stream."""
    return hashlib.blake2b(
        name.encode("utf-8", "surrogatepass") + b"\0" + words.tobytes() + counts.tobytes(), digest_size=16
    ).digest()
