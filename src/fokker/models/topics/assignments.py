"""The topics z of all tokens of a pass, as they stay in memory until its end."""

import numpy as np

from fokker.corpora import Documents
from fokker.corpora._documents import offsets
from fokker.models.topics.cells import Cells, divided, num_blocks, sweep_cells
from fokker.models.topics.collapsed import sweep, topics_of_documents
from fokker.models.topics.word_prior import WordPrior

# The most memory for documents and their topics. A larger pass is not swept over.
_MAX_BYTES = 2**29


class Assignments:
    """Documents, and the topic z of each of their tokens: word by word, each as often as it occurs."""

    _NAMES = ("widths", "words", "counts", "z")

    def __init__(self, topics: int, is_here: bool = True) -> None:
        self._topics, self._is_here = topics, is_here
        # Two bytes per token, unless there are more topics than these can count.
        z = np.zeros(0, np.uint16 if topics <= 2**16 else np.int32)
        self._parts: list[tuple[np.ndarray, ...]] = [(*(np.zeros(0, np.int32) for _ in range(3)), z)]
        self.num_bytes = 0
        self._cells: Cells | None = None

    def add(self, documents: Documents, z: np.ndarray | None) -> None:
        """Add documents with the topics of their tokens; where another process has them, only their size."""
        widths, dtype = np.diff(documents.indptr).astype(np.int32), self._parts[0][-1].dtype
        of_documents = (widths, documents.words, documents.counts)
        self.num_bytes += sum(x.nbytes for x in of_documents) + documents.tokens * dtype.itemsize
        if self._is_here:
            assert z is not None
            self._parts.append((*of_documents, z.astype(dtype)))
            self._cells = None

    @property
    def is_too_large(self) -> bool:
        """Whether this takes more memory than it may."""
        return self.num_bytes > _MAX_BYTES

    def sweep(
        self,
        n_kw: np.ndarray,
        prior: WordPrior,
        gamma: np.ndarray,
        seed: np.uint64,
        sweeps: int,
        threads: int = 1,
    ) -> None:
        """Redraw the topic of every token, `sweeps` times; n_kw (V, K), their counts, follows.

        `threads` changes only the time, and nothing for so few tokens that there is one block.
        """
        by_word = n_kw.astype(np.float32)
        by_word[prior.words] += prior.pseudo_counts
        documents, z = self._documents(), self.state()["z"]
        if (blocks := num_blocks(len(z), documents.size)) == 1:
            alphas = np.full(sweeps, prior.alpha)
            sweep(documents.indptr, documents.words, documents.counts, z, by_word, alphas, gamma, seed)
        else:
            if self._cells is None:
                self._cells, words, counts, z = divided(documents, z, len(n_kw), blocks)
                self._parts = [(self._parts[0][0], words, counts, z)]
                documents = self._documents()
            sweep_cells(
                self._cells, documents.words, documents.counts, z, by_word, self.by_document(),
                prior.alpha, gamma, seed, sweeps, threads,
            )  # fmt: skip
        by_word[prior.words] -= prior.pseudo_counts
        n_kw[:] = np.rint(by_word)

    def by_document(self) -> np.ndarray:
        """n_dk (D, K)."""
        return topics_of_documents(self._documents(), self.state()["z"], self._topics)

    def _documents(self) -> Documents:
        """Without names, and not with their words in order."""
        widths, words, counts, _ = self.state().values()
        return Documents(offsets(widths), words, counts, ())

    def state(self) -> dict[str, np.ndarray]:
        """The arrays that a resumed run needs; none where another process has them."""
        if not self._is_here:
            return {}
        if len(self._parts) > 1:
            self._parts = [tuple(np.concatenate(arrays) for arrays in zip(*self._parts, strict=True))]
        return dict(zip(self._NAMES, self._parts[0], strict=True))

    def restore(self, state: dict[str, np.ndarray], num_bytes: int) -> None:
        """Restore a `state`, whose arrays have so many bytes."""
        self.num_bytes = num_bytes
        if self._is_here:
            self._parts = [tuple(np.array(state[name]) for name in self._NAMES)]
            self._cells = None
