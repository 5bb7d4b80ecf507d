"""gensim's online variational Bayes on the same documents, as a line to compare with; it may be absent."""

import importlib.util
from collections.abc import Callable, Iterator

import numpy as np

from fokker.corpora import Documents
from fokker.lab.experiments._topic_runs import INTERVAL, Curve, DocumentStream, Evaluations

# Hoffman et al. (2010) take offsets of 1 to 1024 and decays of 0.5 to 1.
OFFSET, DECAY = 64, 0.5


def has_gensim() -> bool:
    """Whether gensim is installed."""
    return importlib.util.find_spec("gensim") is not None


class Watched:
    """Documents as gensim takes them. `at(n)` is called after n of them have been learned from.

    gensim asks for a minibatch when it is done with the one before.
    """

    def __init__(self, documents: Documents, every: int, at: Callable[[int], None]) -> None:
        self.documents, self.every, self.at = documents, every, at

    def __len__(self) -> int:
        return self.documents.size

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        for number in range(self.documents.size):
            if number and number % self.every == 0:
                self.at(number)
            _, words, counts = self.documents.row(number)
            yield list(zip(words.tolist(), counts.tolist(), strict=True))


def follow_online_vb(stream: DocumentStream, alpha: float, gamma: float, seed: int) -> Curve:
    """Online variational Bayes in one pass, the topics' prior α and the mixtures' γ."""
    from gensim.models import LdaModel

    evaluations = Evaluations(stream, gamma, seed)
    model = LdaModel(
        num_topics=stream.topics,
        id2word=dict(enumerate(stream.words)),
        alpha=np.full(stream.topics, gamma),
        eta=alpha,
        chunksize=stream.batch,
        offset=OFFSET,
        decay=DECAY,
        eval_every=None,
        random_state=seed,
    )

    def evaluate(number: int) -> None:
        evaluations.add(number, model.get_topics().T)

    model.update(Watched(stream.documents, INTERVAL * stream.batch, evaluate))
    evaluate(stream.documents.size)
    return evaluations.curve()
