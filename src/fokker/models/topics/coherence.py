r"""Coherence: whether the most probable words of a topic occur in the same documents.

All measures use the shares of documents that contain a word, p(v), or two words, p(v, w). In the literature
c_v counts windows of 110 words; counts have no order, so that here, as for documents of at most 110 words, a
window is a document.
"""

from collections.abc import Callable

import numpy as np

from fokker.corpora import Documents

# Added to the share of documents with both words, so that its logarithm is finite (Röder et al. 2015).
_SMALL = 1e-12
# Words belong together that share so many documents, so many standard deviations more than by chance.
_LEAST_TOGETHER, _DEVIATIONS = 5, 4.0


def npmi(documents: Documents, top_words: np.ndarray) -> np.ndarray:
    r"""NPMI of each topic (K,): the mean over pairs of its top words (K, n) of

        log[p(v, w) / (p(v) p(w))] / -log p(v, w)

    (Bouma 2009; Lau et al. 2014). A pair that never occurs together counts -1, a pair that always does counts
    1.
    """
    return _by_topic(documents, top_words, lambda joint: float(_npmi(joint)[_pairs(joint)].mean()))


def u_mass(documents: Documents, top_words: np.ndarray) -> np.ndarray:
    r"""u_mass of each topic (K,): the mean over pairs of its top words (K, n), v more probable than w, of

        log[(p(v, w) + 10⁻¹²) / p(v)]

    (Mimno et al. 2011, with the constant of Röder et al. 2015). It is at most 0; NaN where a word is in no
    document.
    """
    return _by_topic(documents, top_words, _u_mass)


def c_v(documents: Documents, top_words: np.ndarray) -> np.ndarray:
    r"""c_v of each topic (K,): the mean over its top words (K, n) of

        cos(u_v, Σ_w u_w),   u_v = (NPMI(v, w))_w,

    with p(v, w) + 10⁻¹² in NPMI (Röder et al. 2015), from 0 to 1 for topics of use. NaN where a word is in no
    document.
    """
    return _by_topic(documents, top_words, _c_v)


def partnered(documents: Documents, top_words: np.ndarray) -> np.ndarray:
    """The share of the top words (K, n) of each topic that clearly belong with another of them (K,).

    These two are in at least 5 documents together, and in 4 standard deviations more than by chance. It is
    high for several subjects in one topic, whose NPMI is low, and low for words of no subject.
    """
    return _by_topic(documents, top_words, lambda joint: _partnered(joint * documents.size, documents.size))


MEASURES: dict[str, Callable[[Documents, np.ndarray], np.ndarray]] = {
    "npmi": npmi,
    "c_v": c_v,
    "u_mass": u_mass,
}


def _by_topic(
    documents: Documents, top_words: np.ndarray, measure: Callable[[np.ndarray], float]
) -> np.ndarray:
    """The measure of each topic, given the shares of documents (n, n) that have two of its words.

    The diagonal has the shares of documents with one of them.
    """
    top_words = np.asarray(top_words)
    unique_words, word_index = np.unique(top_words, return_inverse=True)
    word_index = word_index.reshape(top_words.shape)
    width = int(max(documents.words.max(initial=0), unique_words.max())) + 1
    occurrence = documents.to_matrix(width)[:, unique_words]
    occurrence.data = np.ones_like(occurrence.data, dtype=np.float64)
    occurrence = occurrence.tocsc()
    measures = np.empty(len(top_words))
    for k, topic in enumerate(word_index):
        joint = np.asarray((occurrence[:, topic].T @ occurrence[:, topic]).todense()) / documents.size
        with np.errstate(divide="ignore", invalid="ignore"):  # a word in no document
            measures[k] = measure(joint)
    return measures


def _pairs(joint: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.triu_indices(len(joint), 1)


def _npmi(joint: np.ndarray) -> np.ndarray:
    share = np.diag(joint)
    # For a pair in every document the ratio is 0/0; its limit is 1.
    return np.where(
        joint >= 1, 1.0, np.where(joint > 0, np.log(joint / np.outer(share, share)) / -np.log(joint), -1.0)
    )


def _partnered(joint: np.ndarray, size: int) -> float:
    by_chance = np.outer(np.diag(joint), np.diag(joint)) / size
    is_clear = joint - by_chance >= _DEVIATIONS * np.sqrt(np.maximum(by_chance, 1))
    is_pair = is_clear & (joint >= _LEAST_TOGETHER) & ~np.eye(len(joint), dtype=bool)
    return float(is_pair.any(1).mean())


def _u_mass(joint: np.ndarray) -> float:
    v, w = _pairs(joint)
    shares = np.diag(joint)
    if not np.all(shares):
        return float("nan")
    return float(np.mean(np.log((joint[v, w] + _SMALL) / shares[v])))


def _c_v(joint: np.ndarray) -> float:
    share = np.diag(joint)
    vectors = np.log((joint + _SMALL) / np.outer(share, share)) / -np.log(joint + _SMALL)
    vector_of_topic = vectors.sum(0)
    norms = np.linalg.norm(vectors, axis=1) * np.linalg.norm(vector_of_topic)
    return float(np.mean(vectors @ vector_of_topic / norms))
