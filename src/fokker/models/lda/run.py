"""A run over a stream of documents: steps, draws, held-out perplexity, checkpoints."""

import dataclasses
import functools
import hashlib
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from fokker.corpora import Corpus, Documents, Tally, Vocabulary, open_corpus, prefetched
from fokker.models.lda._expected import Expected
from fokker.models.lda.draws import TopicDraws
from fokker.models.lda.evaluate import HeldOut
from fokker.models.lda.files import CHECKPOINT, PREVIOUS, part_of, read_latest, under, write_arrays
from fokker.models.lda.mixtures_file import MixturesFile
from fokker.models.lda.settings import Settings
from fokker.models.lda.theta import NotFiniteError
from fokker.run.interruption import Interruption, Stopped

_KIND, _VERSION = "checkpoint", 1
MIXTURES = "mixtures.csv.gz"
# Files of at most so many bytes are counted in a pass before the first step.
_COUNTED_BYTES = 1 << 26
_MOST_HELD_OUT, _HELD_OUT_OF_A_STREAM = 1_000, 100
_SHUFFLED = 5_000
# Seconds between checkpoints, and how many times longer than writing one they are apart.
_SECONDS_APART, _TIMES_APART = 60.0, 20.0
# An evaluation sweeps over half of each held-out document: after so many times their number of others it is
# a tenth of the work.
_BETWEEN_EVALUATIONS = 5


@dataclass(frozen=True)
class Reading:
    """How the documents are read; see `fokker.corpora.open_corpus`.

    `corpus`: a file, folder or glob, "-" for standard input, None for the docstrings of Python. `held_out`:
    how many documents are kept for evaluation, None for a tenth, at most 1,000.
    """

    corpus: str | None = None
    format: str | None = None
    key: str = "text"
    pattern: str | None = None
    minimum_tokens: int = 1
    shuffle_buffer: int | None = None
    held_out: int | None = None

    def __post_init__(self) -> None:
        if self.held_out is not None and self.held_out < 1:
            raise ValueError(f"held_out must be at least 1 document; {self.held_out} was given.")

    @property
    def once(self) -> bool:
        """Whether it can be read a single time."""
        return self.corpus == "-"

    def open(self, vocabulary: Any, seed: int) -> Corpus:
        """The corpus, which begins again at its end if it can."""
        buffer = (0 if self.once else _SHUFFLED) if self.shuffle_buffer is None else self.shuffle_buffer
        return open_corpus(
            self.corpus,
            vocabulary=vocabulary,
            format=self.format,
            key=self.key,
            pattern=self.pattern,
            minimum_tokens=self.minimum_tokens,
            repeat=not self.once,
            shuffle_buffer=buffer,
            seed=seed,
        )


class Evaluation(NamedTuple):
    """The perplexity of held-out documents after so many others: of the draw then, and of the average."""

    documents: int
    seconds: float
    of_draw: float
    of_average: float


class Watcher(Protocol):
    """Whoever is told how a run goes."""

    def look(self, run: "Run") -> None:
        """After a minibatch."""

    def say(self, text: str) -> None:
        """What happened and matters."""


class Run:
    """A chain on its way through a stream; `Run.begin` and `Run.resume` make one.

    `position`: documents taken from the stream. `trained`: those that the chain was shown. `length`: the
    documents of one pass, once that is known. `curve`: an `Evaluation` each time the held-out documents were
    looked at.
    """

    def __init__(
        self,
        reading: Reading,
        settings: Settings,
        corpus: Corpus,
        folder: Path,
        *,
        passes: int | None,
        length: int | None,
        mixtures_size: int | None,
    ) -> None:
        if passes is not None and passes < 1:
            raise ValueError(f"passes must be at least 1; {passes} was given.")
        if corpus.source.once and passes != 1:
            raise ValueError(f"{corpus.source.label} can be read only once: --passes 1, or a file.")
        self.reading, self.settings, self.corpus, self.folder = reading, settings, corpus, folder
        self.passes, self.length = passes, length
        self.chain = settings.chain(len(corpus.vocabulary))
        self.draws = TopicDraws(len(corpus.vocabulary), settings.topics)
        self.held_out: HeldOut | None = None
        self.position = self.trained = self.tokens = 0
        self.word_counts = np.zeros(len(corpus.vocabulary), np.int64)
        self.curve: list[Evaluation] = []
        self.tally = Tally()
        self.interrupted = False
        self.saved_at: int | None = None
        self._waiting_room: list[Documents] = []
        self._held_out_ones: set[bytes] = set()
        self._begun, self._seconds_before = time.monotonic(), 0.0
        self._mixtures = (
            None if mixtures_size is None else MixturesFile(folder / MIXTURES, settings.topics, mixtures_size)
        )

    @staticmethod
    def begin(
        reading: Reading,
        settings: Settings,
        folder: Path,
        *,
        vocabulary: Any = None,
        passes: int | None = 1,
        mixtures: bool = True,
        overwrite: bool = False,
    ) -> "Run":
        """A run at its beginning, its folder made, its corpus opened and, where that is quick, counted.

        `passes`: None goes on for ever. `mixtures`: whether those of the last pass are written.
        """
        passes = _passes(reading, passes)
        _make_room(folder, overwrite)
        corpus = reading.open(vocabulary, settings.seed)
        # Of no documents at all the stream itself will say why.
        length = (corpus.count() or None) if _is_quickly_counted(corpus) else None
        if reading.held_out is None:
            reading = dataclasses.replace(reading, held_out=_held_out(corpus, settings, length))
        return Run(
            reading,
            settings,
            corpus,
            folder,
            passes=passes,
            length=length,
            # Of documents that come again and again there is no last row to write.
            mixtures_size=0 if mixtures and passes is not None else None,
        )

    @staticmethod
    def resume(
        folder: Path,
        given: Mapping[str, Any],
        *,
        passes: Any = "as before",
        mixtures: bool = True,
        threads: int | None = None,
        say: Callable[[str], None] = lambda text: None,
    ) -> "Run":
        """A run as it was at its last checkpoint. `given`: what its settings are thought to be, by name."""
        header, arrays, wrong = read_latest(folder, _KIND, _VERSION)
        if wrong:
            say(f"{wrong} The one before it is used, of {header['position']:,} documents.")
        _refuse_others(folder, given, header)
        settings = Settings.from_json(header["settings"] | {"threads": threads})
        reading = Reading(**header["reading"])
        passes = header["passes"] if passes == "as before" else _passes(reading, passes)
        # With more passes than were meant, the last one is still to come.
        size = header["mixtures_size"] if passes == header["passes"] else 0
        corpus = reading.open(Vocabulary(header["words"]), settings.seed)
        run = Run(
            reading,
            settings,
            corpus,
            folder,
            passes=passes,
            length=header["length"],
            mixtures_size=size if mixtures and passes is not None else None,
        )
        run._restore(header, arrays)
        return run

    @property
    def seconds(self) -> float:
        """Time spent, before a resume too."""
        return self._seconds_before + time.monotonic() - self._begun

    @property
    def complete(self) -> bool:
        """Whether all passes were made, as far as is known."""
        return self.end is not None and self.position >= self.end

    @property
    def dropped_mixtures(self) -> int:
        """Documents whose mixtures could not be held until there was room on the disk."""
        return 0 if self._mixtures is None else self._mixtures.dropped

    @property
    def end(self) -> int | None:
        """Documents of all passes; None where it goes on for ever, or nobody knows yet."""
        return None if self.passes is None or self.length is None else self.passes * self.length

    def go(self, watcher: Watcher, *, skip: bool = True) -> None:
        """Step until the passes are made, the stream ends or Ctrl-C is pressed, and save.

        `skip`: leave out as many documents as were taken before (a stream that goes on where it was left has
        none to leave out).
        """
        next_save = time.monotonic() + _SECONDS_APART
        with (
            Interruption() as interruption,
            prefetched(self.corpus, self.settings.batch, self.position if skip else 0) as batches,
        ):
            try:
                while not self.complete:
                    interruption.waiting = True
                    if interruption.asked:  # looked at last: from here on the wish is an exception
                        break
                    try:
                        batch = next(batches, None)
                    except (OSError, RuntimeError, ValueError):
                        # The source is broken from here on; what was learned before is not.
                        if self.trained:
                            self._try(self.save, watcher)
                            watcher.say(self._kept())
                        raise
                    interruption.waiting = False
                    self.tally = batches.tally
                    if batch is None:
                        break
                    self._take(batch, watcher)
                    watcher.look(self)
                    if time.monotonic() >= next_save and self.trained:
                        before = time.monotonic()
                        self._try(self.save, watcher)
                        now = time.monotonic()
                        next_save = now + max(_SECONDS_APART, _TIMES_APART * (now - before))
            except Stopped:
                pass
            except NotFiniteError as error:
                raise ValueError(self._too_long(error)) from None
            self.interrupted = interruption.asked
            if not self.trained and not self.interrupted:
                raise ValueError(
                    f"all {self.position:,} documents of {self.corpus.source.label} are held out for "
                    "evaluation and none is left to learn from: give a smaller --held-out, or more documents."
                )
            if self.trained:
                self._try(self.save, watcher)

    def _take(self, batch: Documents, watcher: Watcher) -> None:
        """One minibatch of the stream: held out, or stepped with."""
        if self.corpus.repeat and self.position + batch.size > self.tally.documents:
            # The tally is of the first pass, which has ended within this batch or before it.
            self.length = self.tally.documents
        if self.end is not None and self.position + batch.size > self.end:
            batch = batch.select(slice(0, self.end - self.position))
        numbers = np.arange(self.position, self.position + batch.size)
        self.position += batch.size
        missing = self._missing_held_out()
        if missing:
            self._hold_out(batch.select(slice(0, missing)))
            batch, numbers = batch.select(slice(missing, None)), numbers[missing:]
        ours = np.array(
            [_identity(*batch.row(i)) not in self._held_out_ones for i in range(batch.size)], bool
        )
        documents, numbers = batch.select(ours), numbers[ours]
        if not documents.size:
            return
        self.trained += documents.size
        expected = self.chain.step(documents, self.total(documents.size))
        self.tokens += documents.tokens
        if self.length is None or numbers[0] < self.length:
            # Of the first pass: the others would have the same words.
            np.add.at(self.word_counts, documents.words, documents.counts)
        self.draws.offer(self.chain.number, self.chain.beta)
        self._write_mixtures(documents, numbers, expected, watcher)
        if self._is_time_to_evaluate():
            self._evaluate()

    def total(self, batch: int) -> float:
        """|S|: as it was given, as it was counted, or the documents seen so far."""
        if isinstance(self.settings.total, int):
            return self.settings.total
        assert self.reading.held_out is not None
        others = None if self.length is None else max(self.length - self.reading.held_out, batch)
        if self.settings.total is None and others is not None:
            return others
        # Documents that come again are not more documents.
        return self.trained if others is None else min(self.trained, others)

    def _missing_held_out(self) -> int:
        assert self.reading.held_out is not None
        if self.held_out is not None:
            return 0
        return self.reading.held_out - sum(part.size for part in self._waiting_room)

    def _hold_out(self, documents: Documents) -> None:
        self._waiting_room.append(documents)
        if not self._missing_held_out():
            self._evaluate_on(Documents.concatenate(self._waiting_room))
            self._waiting_room = []

    def _evaluate_on(self, documents: Documents) -> None:
        self._held_out_documents = documents
        self.held_out = HeldOut(documents, self.settings.seed, self.settings.processors)
        self._early = {name: np.zeros_like(x) for name, x in self.held_out.state().items()}
        self._held_out_ones = {_identity(*documents.row(i)) for i in range(documents.size)}

    def _is_time_to_evaluate(self) -> bool:
        """By the number of steps alone, so that the results are those of any machine."""
        assert self.reading.held_out is not None
        step = self.chain.number
        apart = -(-_BETWEEN_EVALUATIONS * self.reading.held_out // self.settings.batch)
        return step % apart == 0 or (step < apart and step.bit_count() == 1)

    def _evaluate(self) -> None:
        assert self.held_out is not None
        if len(self.curve).bit_count() == 1:
            # Their number has doubled: the draws before the last doubling are taken out of the average, which
            # is thus of half of the draws at the least, and never of the first ones.
            late = {name: x - self._early[name] for name, x in self.held_out.state().items()}
            self.held_out.restore(late)
            self._early = {name: np.array(x) for name, x in late.items()}
        with np.errstate(divide="ignore"):  # a word that no topic has makes it infinite, and so it is told
            of_draw = self.held_out.add(self.chain.beta(), self.chain.gamma)
            of_average = self.held_out.perplexity
        self.curve.append(Evaluation(self.trained, self.seconds, of_draw, of_average))

    def _write_mixtures(
        self, documents: Documents, numbers: np.ndarray, expected: Expected, watcher: Watcher
    ) -> None:
        """Rows for those documents that are of the last pass."""
        if self._mixtures is None or self.passes is None:
            return
        first = 0 if self.passes == 1 else None if self.length is None else (self.passes - 1) * self.length
        if first is None or numbers[-1] < first:
            return
        last_pass = numbers >= first
        weights = (expected.mixtures + self.chain.gamma)[last_pass]
        names = documents.select(last_pass).names
        self._mixtures.add(numbers[last_pass].tolist(), names, weights / weights.sum(1, keepdims=True))
        if self._mixtures.full:
            self._try(self._mixtures.flush, watcher)

    def _try(self, write: Callable[[], object], watcher: Watcher) -> None:
        """Write; of a full disk the run says so, and goes on."""
        try:
            write()
        except OSError as error:
            watcher.say(f"could not write to {self.folder}: {error}. {self._kept()} It will be tried again.")

    def save(self) -> None:
        """A checkpoint of now; the one before it is kept."""
        assert self.held_out is not None
        # First: a checkpoint speaks of a table of mixtures that is there.
        mixtures_size = None if self._mixtures is None else self._mixtures.flush()
        header = {
            "kind": _KIND,
            "version": _VERSION,
            "reading": dataclasses.asdict(self.reading),
            "settings": self.settings.to_json(),
            "words": self.corpus.vocabulary.words,
            "passes": self.passes,
            "length": self.length,
            "position": self.position,
            "trained": self.trained,
            "tokens": self.tokens,
            "seconds": self.seconds,
            "mixtures_size": mixtures_size,
            "held_out_names": self._held_out_documents.names,
        }
        indptr, words, counts, _ = self._held_out_documents
        arrays = {
            **under("chain", self.chain.state()),
            **under("draws", self.draws.state()),
            **under("held_out", self.held_out.state()),
            **under("early", self._early),
            **under("documents", {"indptr": indptr, "words": words, "counts": counts}),
            "word_counts": self.word_counts,
            "curve": np.array(self.curve, float).reshape(-1, 4),
        }
        write_arrays(self.folder / CHECKPOINT, header, arrays, keep=self.folder / PREVIOUS)
        self.saved_at = self.position

    def _restore(self, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        self.chain.restore(part_of("chain", arrays))
        self.draws.restore(part_of("draws", arrays))
        documents = part_of("documents", arrays)
        self._evaluate_on(Documents(**documents, names=tuple(header["held_out_names"])))
        assert self.held_out is not None
        self.held_out.restore(part_of("held_out", arrays))
        self._early = part_of("early", arrays)
        self.position, self.trained, self.tokens = (
            header[name] for name in ("position", "trained", "tokens")
        )
        self.saved_at = self.position
        self._seconds_before = header["seconds"]
        self.word_counts = np.array(arrays["word_counts"])
        self.curve = [Evaluation(int(n), *rest) for n, *rest in arrays["curve"].tolist()]

    def _kept(self) -> str:
        if self.saved_at is None:
            return "There is no checkpoint yet."
        return f"The last whole checkpoint, of {self.saved_at:,} documents, is kept."

    def _too_long(self, error: NotFiniteError) -> str:
        return f"{error} Begin again with a --step of a tenth of it. {self._kept()}"


def _passes(reading: Reading, passes: Any) -> int | None:
    """Standard input without an end is one pass too."""
    return 1 if passes is None and reading.once else passes


def _identity(name: str, words: np.ndarray, counts: np.ndarray) -> bytes:
    """What tells one document from another, wherever in the stream it comes again."""
    return hashlib.blake2b(
        name.encode("utf-8", "surrogatepass") + b"\0" + words.tobytes() + counts.tobytes(), digest_size=16
    ).digest()


def _is_quickly_counted(corpus: Corpus) -> bool:
    source = corpus.source
    if source.once:
        return False
    paths = [*getattr(source, "paths", ()), *filter(None, [getattr(source, "path", None)])]
    # What is no plain file, such as a pipe with a name, may be gone after a pass.
    return all(path.is_file() for path in paths) and sum(map(os.path.getsize, paths)) <= _COUNTED_BYTES


def _held_out(corpus: Corpus, settings: Settings, length: int | None) -> int:
    if corpus.source.once:
        return _HELD_OUT_OF_A_STREAM
    known = settings.total if length is None and isinstance(settings.total, int) else length
    return _MOST_HELD_OUT if known is None else max(1, min(_MOST_HELD_OUT, known // 10))


def _make_room(folder: Path, overwrite: bool) -> None:
    """The folder for a new run, in which no checkpoint of another may lie."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in (folder / CHECKPOINT, folder / PREVIOUS):
        if path.exists() and not overwrite:
            raise ValueError(
                f"{folder} has a run already: --resume {folder} goes on with it, --overwrite gives it up, "
                "another --out leaves it alone."
            )
        path.unlink(missing_ok=True)


def _refuse_others(folder: Path, given: Mapping[str, Any], header: Mapping[str, Any]) -> None:
    """A resume goes on with what was begun: other settings are another run."""
    before = {**header["reading"], **header["settings"]}
    other = [f"{name} was {before[name]!r}, not {x!r}" for name, x in given.items() if before[name] != x]
    if other:
        raise ValueError(
            f"{folder} was begun with other settings: {'; '.join(other)}. Leave them out to go on with it, "
            "or begin a new run with another --out."
        )


def learned(words: int) -> Any:
    """A vocabulary of so many words, to be learned from the text."""
    return functools.partial(Vocabulary.learn, maximum_words=words)
