"""The prevalence of topics over time or by group, of a run that is stored."""

import csv
import gzip
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from fokker.corpora import Corpus, column_of_corpus
from fokker.models.topics.evaluate import counts_draw
from fokker.models.topics.files import MIXTURES, stored_reading
from fokker.models.topics.groups import Bin, TopicGroups
from fokker.models.topics.model import TopicModel, top_words
from fokker.models.topics.trends import NO_GROUP, Per, Trends, TrendSums
from fokker.rows.table import MissingColumnError, read_table

_WORDS = 6
_DOCUMENTS_PER_BATCH = 500


def run_trends(
    folder: Path,
    by: str,
    *,
    metadata: Path | None = None,
    id: str | None = None,
    bin: Bin | None = None,
    per: Per = "words",
    sampling: bool = True,
    written: bool = False,
    probability: float = 0.9,
    seed: int = 0,
    show: Callable[[int, int | None], None] = lambda completed, total: None,
) -> Trends:
    """The prevalence of the topics of a run in groups of its documents.

    Args:
        folder: that of the run.
        by: the column that has the groups: of the corpus (a CSV, JSON or Parquet file, or an array of a .npz
            file), or of `metadata`.
        metadata: a table with one row per document (CSV, TSV, JSON lines, Parquet, .npz).
        id: its column with the names of the documents, as `mixtures.csv.gz` has them; None where its rows
            are in the order of the corpus.
        bin: "year", "month" or "day" of dates; None for the values as they are.
        per: "words", the share of a topic in all words of a group; "documents", the mean of its shares.
        sampling: whether the intervals include the sampling of documents, or are of these documents alone.
        written: use the mixtures that the run has written, whose intervals do not include the posterior;
            needed where the documents cannot be read again.
        probability: that of the intervals, and of no clear difference by chance.
        seed: of the random numbers.
        show: called with how many documents are done, and of how many.

    Returns:
        The prevalence with its intervals, as table, plot and CSV.
    """
    if id is not None and metadata is None:
        raise ValueError(f"id={id!r} is a column of metadata=…, which is not given: leave it out.")
    model, reading = TopicModel.load(folder), stored_reading(folder)
    words = tuple(tuple(model.vocabulary.words[w] for w in topic) for topic in top_words(model.mean, _WORDS))
    if written and per == "words":
        per = "documents"  # the lengths of documents are not written
    if reading.single_pass and not written:
        raise ValueError(
            f"the run in {folder} has read standard input, which cannot be read again: set written=True to "
            "use the mixtures that it has written."
        )
    values, row_of = (_of_corpus(folder, by), None) if metadata is None else _of_table(metadata, by, id)
    groups = TopicGroups.of(values, by, bin)
    matched = _Matched(groups, row_of, is_table=metadata is not None)
    draws = 1 if written else len(model.beta)
    sums = TrendSums(
        groups,
        model.settings.topics,
        draws,
        per=per,
        sampling=sampling,
        probability=probability,
        seed=seed,
    )
    num_matched = (_add_written(folder, sums, matched) if written
                   else _add_draws(model, model.open_run(folder), sums, matched, seed, show))  # fmt: skip
    if not num_matched:
        raise ValueError(
            f"no document of the run has a value in {metadata}: the column id={id!r} must have the names of "
            f"the documents as {MIXTURES} has them, or give id=None where the rows are in their order."
        )
    result = sums.result(model.settings.topic_names, words)
    return replace(result, notes=(*result.notes, *matched.sentences()))


class _Matched:
    """The groups of documents, by their places or by their names in a table; and what did not match.

    `row_of`: the row of each name; None where rows are in the order of the documents.
    """

    def __init__(self, groups: TopicGroups, row_of: dict[str, int] | None, *, is_table: bool) -> None:
        self.groups, self.row_of, self.is_table = groups, row_of, is_table
        self.last = 0
        self.documents: list[str] = []
        self.rows: set[str] = set()

    def __call__(self, places: np.ndarray, names: tuple[str, ...]) -> np.ndarray:
        """The codes of their groups."""
        self.last = max(self.last, int(places.max(initial=0)) + 1)
        if self.row_of is None:
            return self.groups.select(places).codes
        self.rows.update(names)
        self.documents += [name for name in names if name not in self.row_of]
        codes = (self.groups.codes[self.row_of[n]] if n in self.row_of else NO_GROUP for n in names)
        return np.array(list(codes), int)

    def sentences(self) -> list[str]:
        """On documents without a row of the table, and on rows without a document."""
        sentences = []
        if self.documents:
            have, are = ("has", "is") if len(self.documents) == 1 else ("have", "are")
            sentences.append(
                f"{_counted(self.documents, 'document')} of the run {have} no row in the table and {are} "
                f"left out, such as {self.documents[0]!r}."
            )
        rows = [name for name in self.row_of or () if name not in self.rows]
        if rows:
            sentences.append(
                f"{_counted(rows, 'row')} of the table {'names' if len(rows) == 1 else 'name'} no document "
                f"of the run with known words, such as {rows[0]!r}."
            )
        if self.is_table and self.row_of is None and self.last < len(self.groups.codes):
            sentences.append(
                f"The table has {len(self.groups.codes):,} rows, and the last document of the run with known "
                f"words is at the place {self.last:,}: they are matched by their order."
            )
        return sentences


def _counted(names: list[str], what: str) -> str:
    return f"{len(names):,} {what}{'' if len(names) == 1 else 's'}"


def _of_corpus(folder: Path, by: str) -> list[str]:
    """The values of a column of the corpus, by the places of the documents."""
    reading = stored_reading(folder)
    if reading.single_pass:
        raise ValueError("the run has read standard input, which has no columns: give metadata=… as a file.")
    try:
        return column_of_corpus(reading.corpus, by, format=reading.format, key=reading.key)
    except ValueError as error:
        raise ValueError(
            f"by={by!r}: {error} Name one of these, or give metadata=… as a table with one row per document."
        ) from None


def _of_table(path: Path, by: str, id: str | None) -> tuple[list[str], dict[str, int] | None]:
    """The values of a column of a table, and the row of each name."""
    wanted = [by] if id is None else [by, id]
    try:
        table = read_table([str(path)], columns=wanted, categories=dict.fromkeys(wanted), may_be_missing=[by])
    except ValueError as error:
        message = error.shown if isinstance(error, MissingColumnError) else error
        raise ValueError(f"metadata={str(path)!r}: {message}") from None
    # The code of a missing value, -1, is the last.
    labels = {name: np.array([*table.labels[name], ""], object) for name in wanted}
    values, *names = (labels[name][table[name]].tolist() for name in wanted)
    if not names:
        return values, None
    row_of = {name: row for row, name in enumerate(names[0])}
    if len(row_of) < len(names[0]):
        raise ValueError(f"id={id!r} of {path} has a name more than once: give each document one row.")
    return values, row_of


def _add_draws(
    model: TopicModel,
    corpus: Corpus,
    sums: TrendSums,
    codes: _Matched,
    seed: int,
    show: Callable[[int, int | None], None],
) -> int:
    """Add all documents with the topics of their words under each draw; return how many have a group."""
    number = num_matched = 0
    settings = model.settings
    for documents in corpus.batches(_DOCUMENTS_PER_BATCH):
        assert documents.places is not None
        of_documents = codes(documents.places, documents.names)
        num_matched += int(np.sum(of_documents >= 0))
        for draw, beta in enumerate(model.beta):
            counts = counts_draw(
                documents,
                beta,
                model.gamma,
                seed + draw,
                sweeps=settings.sweeps,
                threads=settings.num_threads,
            )
            sums.add(draw, of_documents, counts)
        number += documents.size
        show(number, corpus.size)
    return num_matched


def _add_written(folder: Path, sums: TrendSums, codes: _Matched) -> int:
    """Add the mixtures of the file of the run; return how many documents have a group."""
    path = folder / MIXTURES
    if not path.is_file():
        raise ValueError(f"there is no {path}: the run wrote no mixtures: give written=False.")
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))[1:]
    places, names = np.array([int(row[0]) for row in rows]), tuple(row[1] for row in rows)
    of_documents = codes(places, names)
    sums.add(0, of_documents, np.array([row[2:] for row in rows], float))
    return int(np.sum(of_documents >= 0))
