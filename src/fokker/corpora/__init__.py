"""Corpora as streams of word counts: `open_corpus(source).batches(100)`.

Sources: text in files, lines, JSON, tables or a MediaWiki dump; counts in the formats of UCI, LDA-C and
SciPy; standard input; or nothing, which reads the docstrings of the running Python. Nothing here needs JAX.
"""

from fokker.corpora._corpus import Corpus
from fokker.corpora._documents import Documents
from fokker.corpora._open import FORMATS, column_of_corpus, open_corpus
from fokker.corpora._prefetch import Prefetched, prefetched
from fokker.corpora._stop_words import STOP_WORDS
from fokker.corpora._tally import Tally
from fokker.corpora._tokens import letters, matches, unicode_words
from fokker.corpora._vocabulary import Vocabulary

__all__ = [
    "FORMATS",
    "STOP_WORDS",
    "Corpus",
    "Documents",
    "Prefetched",
    "Tally",
    "Vocabulary",
    "column_of_corpus",
    "letters",
    "matches",
    "open_corpus",
    "prefetched",
    "unicode_words",
]
