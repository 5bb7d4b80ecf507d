"""A run over a stream of documents: steps, draws, held-out perplexity, checkpoints."""

import dataclasses
import functools
import hashlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from fokker._core.files import write_arrays
from fokker.corpora import Corpus, Documents, Tally, Vocabulary, open_corpus, prefetched
from fokker.models.lda._checks import NotFiniteError
from fokker.models.lda._expected import ExpectedCounts
from fokker.models.lda.draws import TopicDraws
from fokker.models.lda.evaluate import HeldOut
from fokker.models.lda.files import CHECKPOINT, PREVIOUS, read_latest, with_prefix, without_prefix
from fokker.models.lda.mixtures_file import MixturesFile
from fokker.models.lda.settings import Settings, default_passes
from fokker.models.lda.start import is_enough
from fokker.run.interruption import Interruption, Stopped

_KIND, _VERSION = "checkpoint", 1
MIXTURES = "mixtures.csv.gz"
# Corpora of at most this many bytes are counted in a pass before the first step.
_MAX_BYTES_TO_COUNT = 1 << 26
_MAX_HELD_OUT, _MIN_HELD_OUT, _STREAM_HELD_OUT = 1_000, 100, 100
_SHUFFLE_BUFFER = 5_000
_SAMPLE_DOCUMENTS = 2_000
# The least seconds between checkpoints, also as a multiple of the time that writing one takes.
_MIN_SECONDS_BETWEEN_SAVES, _SAVE_TIMES_BETWEEN_SAVES = 60.0, 20.0
# An evaluation sweeps over half of each held-out document. With this many training documents per held-out
# document between evaluations, it is a tenth of the work. By default so many documents are held out that
# there are about this many evaluations: those in the second half show whether the perplexity still falls.
_DOCUMENTS_PER_HELD_OUT, _NUM_EVALUATIONS = 5, 20


@dataclass(frozen=True)
class Reading:
    """How the documents are read; see `fokker.corpora.open_corpus`.

    `corpus`: a file, folder or glob, "-" for standard input, None for the docstrings of Python. `held_out`:
    the number of documents held out for evaluation, None for `default_held_out`.
    """

    corpus: str | None = None
    format: str | None = None
    key: str = "text"
    pattern: str = "unicode"
    bigrams: bool = False
    minimum_tokens: int = 1
    shuffle_buffer: int | None = None
    held_out: int | None = None

    def __post_init__(self) -> None:
        if self.held_out is not None and self.held_out < 1:
            raise ValueError(f"held_out must be at least 1 document; {self.held_out} was given.")

    @property
    def single_pass(self) -> bool:
        """Whether it can be read only once."""
        return self.corpus == "-"

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> "Reading":
        """The reading of a stored run. Older ones have no pattern where words were the letters a to z."""
        return Reading(**{**values, "pattern": values["pattern"] or "letters"})

    def open(self, vocabulary: Any, seed: int) -> Corpus:
        """Open the corpus; it repeats if it can be read more than once."""
        buffer = (
            (0 if self.single_pass else _SHUFFLE_BUFFER)
            if self.shuffle_buffer is None
            else self.shuffle_buffer
        )
        return open_corpus(
            self.corpus,
            vocabulary=vocabulary,
            format=self.format,
            key=self.key,
            pattern=self.pattern,
            bigrams=self.bigrams,
            minimum_tokens=self.minimum_tokens,
            repeat=not self.single_pass,
            shuffle_buffer=buffer,
            seed=seed,
        )


class Evaluation(NamedTuple):
    """The held-out perplexity after this many training documents: of the current draw and of the average.

    `is_exact`: whether the draw is that of an exact pass.
    """

    documents: int
    seconds: float
    of_draw: float
    of_average: float
    is_exact: bool = False


def curve_to_array(curve: Sequence[Evaluation]) -> np.ndarray:
    """Evaluations as rows of numbers."""
    return np.array(curve, float).reshape(-1, len(Evaluation._fields))


def curve_from_array(rows: np.ndarray) -> list[Evaluation]:
    """The evaluations of `curve_to_array`."""
    return [
        Evaluation(int(n), seconds, of_draw, of_average, bool(is_exact))
        for n, seconds, of_draw, of_average, is_exact in rows.tolist()
    ]


class Watcher(Protocol):
    """Receives the progress of a run."""

    def update(self, run: "Run") -> None:
        """Called after each minibatch."""

    def notify(self, text: str) -> None:
        """Called with messages to the user."""


class Run:
    """A chain over a stream of documents, created by `Run.start` or `Run.resume`.

    `position`: the number of documents read from the stream. `trained`: how many of them the chain used.
    `length`: the number of documents of one pass, if known. `curve`: the evaluations on the held-out
    documents. `sample`: the first training documents, in which the coherence of the topics is measured, too.

    The first documents of the stream, after those held out, wait until there are enough of them for the
    start; then the chain steps with them too.
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
        if corpus.source.single_pass and passes != 1:
            raise ValueError(f"{corpus.source.label} can be read only once: use --passes 1, or a file.")
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
        self._pending_held_out: list[Documents] = []
        # The documents that wait for the start, their positions in the stream, and whether their pass is
        # exact.
        self._waiting: list[tuple[Documents, np.ndarray, bool]] = []
        self.sample = Documents.concatenate([])
        self._held_out_hashes: set[bytes] = set()
        self._started_at, self._seconds_before = time.monotonic(), 0.0
        self._mixtures = (
            None if mixtures_size is None else MixturesFile(folder / MIXTURES, settings.topics, mixtures_size)
        )

    @staticmethod
    def start(
        reading: Reading,
        settings: Settings,
        folder: Path,
        *,
        vocabulary: Any = None,
        passes: int | Literal["default"] | None = "default",
        mixtures: bool = True,
        overwrite: bool = False,
    ) -> "Run":
        """Create a new run and its folder, open its corpus and, if that is quick, count it.

        `passes`: None for no limit, "default" for `default_passes`. `mixtures`: whether to write the mixtures
        of the last pass.
        """
        _prepare_folder(folder, overwrite)
        corpus = reading.open(vocabulary, settings.seed)
        # For a corpus without documents, the stream raises an error with the reason.
        length = (corpus.count() or None) if _is_quick_to_count(corpus) else None
        if passes == "default":
            passes = 1 if reading.single_pass else default_passes(length)
        passes = _num_passes(reading, passes)
        if reading.held_out is None:
            num_documents = settings.total if length is None and isinstance(settings.total, int) else length
            held_out = _STREAM_HELD_OUT if reading.single_pass else default_held_out(num_documents, passes)
            reading = dataclasses.replace(reading, held_out=held_out)
        return Run(
            reading,
            settings,
            corpus,
            folder,
            passes=passes,
            length=length,
            # With unlimited passes there is no last pass to write.
            mixtures_size=0 if mixtures and passes is not None else None,
        )

    @staticmethod
    def resume(
        folder: Path,
        options: Mapping[str, Any],
        *,
        passes: Any = "as before",
        mixtures: bool = True,
        threads: int | None = None,
        notify: Callable[[str], None] = lambda text: None,
    ) -> "Run":
        """The run at its last checkpoint. `options`: settings by name, which must equal those of the run."""
        header, arrays, problem = read_latest(folder, _KIND, _VERSION)
        if problem:
            notify(f"{problem} The previous one is used, of {header['position']:,} documents.")
        _check_same_settings(folder, options, header)
        settings = Settings.from_json(header["settings"] | {"threads": threads})
        reading = Reading.from_json(header["reading"])
        passes = header["passes"] if passes == "as before" else _num_passes(reading, passes)
        # With another number of passes, the last pass is still to come.
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
        """The running time, including that before a resume."""
        return self._seconds_before + time.monotonic() - self._started_at

    @property
    def complete(self) -> bool:
        """Whether all passes were made, as far as is known."""
        return self.end is not None and self.position >= self.end

    @property
    def dropped_mixtures(self) -> int:
        """The number of documents whose mixtures were lost because the disk was full."""
        return 0 if self._mixtures is None else self._mixtures.dropped

    @property
    def end(self) -> int | None:
        """Documents of all passes; None where it goes on for ever, or nobody knows yet."""
        return None if self.passes is None or self.length is None else self.passes * self.length

    def execute(self, watcher: Watcher, *, skip: bool = True) -> None:
        """Step until the passes are done, the stream ends or Ctrl-C is pressed, then save.

        `skip`: skip the documents that were read before; False for a stream that continues where it stopped.
        """
        next_save = time.monotonic() + _MIN_SECONDS_BETWEEN_SAVES
        with (
            Interruption() as interruption,
            prefetched(self.corpus, self.settings.batch, self.position if skip else 0) as batches,
        ):
            try:
                while not self.complete:
                    interruption.waiting = True
                    if interruption.asked:  # checked last: from here on Ctrl-C raises an exception
                        break
                    try:
                        batch = next(batches, None)
                    except (OSError, RuntimeError, ValueError):
                        # The source cannot be read any further; save what was learned before.
                        self._start_chain(watcher)
                        if self.trained:
                            self._try_to_write(self.save, watcher)
                            watcher.notify(self._checkpoint_message())
                        raise
                    interruption.waiting = False
                    self.tally = batches.tally
                    if batch is None:
                        break
                    self._process_batch(batch, watcher)
                    watcher.update(self)
                    if time.monotonic() >= next_save and self.trained:
                        before = time.monotonic()
                        self._try_to_write(self.save, watcher)
                        now = time.monotonic()
                        next_save = now + max(
                            _MIN_SECONDS_BETWEEN_SAVES, _SAVE_TIMES_BETWEEN_SAVES * (now - before)
                        )
                if not interruption.asked:
                    # The stream ended before there were enough documents for the start.
                    self._start_chain(watcher)
            except Stopped:
                pass
            except NotFiniteError as error:
                raise ValueError(self._not_finite_message(error)) from None
            self.interrupted = interruption.asked
            if not self.trained and not self.interrupted:
                num_documents = self.position if self.length is None else min(self.position, self.length)
                raise ValueError(
                    f"all {num_documents:,} documents of {self.corpus.source.label} are held out for "
                    "evaluation and none is left for training: give a smaller --held-out, or more documents."
                )
            if self.trained:
                self._try_to_write(self.save, watcher)

    def _process_batch(self, batch: Documents, watcher: Watcher) -> None:
        """Process one minibatch of the stream, in parts where exact passes begin and end."""
        if self.corpus.repeat and self.position + batch.size > self.tally.documents:
            # The tally covers the first pass, which ended in this batch or before.
            self.length = self.tally.documents
        if self.end is not None and self.position + batch.size > self.end:
            batch = batch.select(slice(0, self.end - self.position))
        pass_end = self._exact_pass_end()
        if pass_end is not None and self.position + batch.size > pass_end:
            rest = slice(pass_end - self.position, None)
            self._process_batch(batch.select(slice(0, rest.start)), watcher)
            self._process_batch(batch.select(rest), watcher)
            return
        if self.length is not None and self.position >= self.length:
            # The first pass ended before there were enough documents for the start.
            self._start_chain(watcher)
        exact_pass = self._exact_pass()
        self._use(batch, exact_pass is not None, watcher)
        if self.chain.is_counting and exact_pass is not None and self.position == pass_end:
            self._end_exact_pass(exact_pass)

    def _exact_pass(self) -> int | None:
        """The number of the exact pass at this position, counted from 0; None before the exact passes."""
        if self.passes is None or self.length is None:
            return None
        number = self.position // self.length - (self.passes - self.settings.num_exact_passes(self.passes))
        return number if number >= 0 else None

    def _exact_pass_end(self) -> int | None:
        """The position at which this pass ends, if it or the next one is exact."""
        if self.passes is None or self.length is None:
            return None
        next_pass = self.position // self.length + 1
        is_next_exact = next_pass >= self.passes - self.settings.num_exact_passes(self.passes)
        return next_pass * self.length if is_next_exact else None

    def _end_exact_pass(self, number: int) -> None:
        """Store exact draws, move the topics to one of them, and evaluate it."""
        assert self.passes is not None
        total = self.total(1)
        self.draws.offer_pass(
            self.chain.number,
            number,
            self.settings.num_exact_passes(self.passes),
            lambda draw: self.chain.beta_given_pass(total, draw),
        )
        self.chain.end_pass(total)
        self._evaluate(is_exact=True)

    def _use(self, batch: Documents, is_exact: bool, watcher: Watcher) -> None:
        """Hold out the documents of a minibatch, step with them, or count them in an exact pass."""
        numbers = np.arange(self.position, self.position + batch.size)
        self.position += batch.size
        num_missing = self._missing_held_out()
        if num_missing:
            self._hold_out(batch.select(slice(0, num_missing)))
            batch, numbers = batch.select(slice(num_missing, None)), numbers[num_missing:]
        is_training = np.array(
            [_document_hash(*batch.row(i)) not in self._held_out_hashes for i in range(batch.size)], bool
        )
        documents, numbers = batch.select(is_training), numbers[is_training]
        if self.settings.start_documents and not self.chain.number:
            self._waiting.append((documents, numbers, is_exact))
            # Documents of a second pass would be counted twice.
            is_pass_read = self.length is not None and self.position >= self.length
            lengths = np.concatenate([documents.lengths for documents, *_ in self._waiting])
            if is_pass_read or np.any(is_enough(lengths, self.settings.start_documents)):
                self._start_chain(watcher)
        elif documents.size:
            self._train(documents, numbers, is_exact, watcher)

    def _start_chain(self, watcher: Watcher) -> None:
        """Start from the documents that wait, if any, then step with them."""
        waiting = [entry for entry in self._waiting if entry[0].size]
        self._waiting = []
        if not waiting:
            return
        self.chain.start_from(Documents.concatenate([documents for documents, *_ in waiting]))
        for documents, numbers, is_exact in waiting:
            self._train(documents, numbers, is_exact, watcher)

    def _train(self, documents: Documents, numbers: np.ndarray, is_exact: bool, watcher: Watcher) -> None:
        """Step with documents at these positions of the stream, or count them in an exact pass."""
        self.trained += documents.size
        if is_exact:
            expected = self.chain.count(documents)
        else:
            expected = self.chain.step(documents, self.total(documents.size))
        self.tokens += documents.tokens
        if self.length is None or numbers[0] < self.length:
            # Only in the first pass: the others have the same words.
            np.add.at(self.word_counts, documents.words, documents.counts)
            if not np.any(is_enough(self.sample.lengths, _SAMPLE_DOCUMENTS)):
                self.sample = Documents.concatenate([self.sample, documents])
        if not is_exact:
            self.draws.offer(self.chain.number, self.chain.beta)
        self._write_mixtures(documents, numbers, expected, watcher)
        if not is_exact and self._is_time_to_evaluate():
            self._evaluate()

    def total(self, batch: int) -> float:
        """|S|: as given, as counted, or the number of training documents so far."""
        if isinstance(self.settings.total, int):
            return self.settings.total
        assert self.reading.held_out is not None
        num_training = None if self.length is None else max(self.length - self.reading.held_out, batch)
        if self.settings.total is None and num_training is not None:
            return num_training
        # Repeated documents are counted once.
        return self.trained if num_training is None else min(self.trained, num_training)

    def _missing_held_out(self) -> int:
        assert self.reading.held_out is not None
        if self.held_out is not None:
            return 0
        return self.reading.held_out - sum(part.size for part in self._pending_held_out)

    def _hold_out(self, documents: Documents) -> None:
        self._pending_held_out.append(documents)
        if not self._missing_held_out():
            self._evaluate_on(Documents.concatenate(self._pending_held_out))
            self._pending_held_out = []

    def _evaluate_on(self, documents: Documents) -> None:
        self._held_out_documents = documents
        self.held_out = HeldOut(documents, self.settings.seed, self.settings.num_threads)
        self._early = {name: np.zeros_like(x) for name, x in self.held_out.state().items()}
        self._held_out_hashes = {_document_hash(*documents.row(i)) for i in range(documents.size)}

    def _is_time_to_evaluate(self) -> bool:
        """Depends only on the number of steps, so that the results are the same on every machine."""
        assert self.reading.held_out is not None
        step = self.chain.number
        interval = -(-_DOCUMENTS_PER_HELD_OUT * self.reading.held_out // self.settings.batch)
        return step % interval == 0 or (step < interval and step.bit_count() == 1)

    def _evaluate(self, is_exact: bool = False) -> None:
        assert self.held_out is not None
        if len(self.curve).bit_count() == 1:
            # Their number has doubled: the draws before the previous doubling are removed from the average.
            # So it covers at least half of the draws, and never the first ones.
            late = {name: x - self._early[name] for name, x in self.held_out.state().items()}
            self.held_out.restore(late)
            self._early = {name: np.array(x) for name, x in late.items()}
        with np.errstate(divide="ignore"):  # a word of probability zero gives an infinite perplexity
            of_draw = self.held_out.add(self.chain.beta(), self.chain.gamma)
            of_average = self.held_out.perplexity
        self.curve.append(Evaluation(self.trained, self.seconds, of_draw, of_average, is_exact))

    def _write_mixtures(
        self, documents: Documents, numbers: np.ndarray, expected: ExpectedCounts, watcher: Watcher
    ) -> None:
        """Write rows for the documents of the last pass."""
        if self._mixtures is None or self.passes is None:
            return
        first = 0 if self.passes == 1 else None if self.length is None else (self.passes - 1) * self.length
        if first is None or numbers[-1] < first:
            return
        last_pass = numbers >= first
        weights = (expected.mixtures + self.chain.gamma)[last_pass]
        names = documents.select(last_pass).names
        self._mixtures.add(numbers[last_pass].tolist(), names, weights / weights.sum(1, keepdims=True))
        if self._mixtures.should_flush:
            self._try_to_write(self._mixtures.flush, watcher)

    def _try_to_write(self, write: Callable[[], object], watcher: Watcher) -> None:
        """Write; report an error, such as a full disk, and continue."""
        try:
            write()
        except OSError as error:
            watcher.notify(
                f"could not write to {self.folder}: {error}. {self._checkpoint_message()} Writing will be "
                "tried again."
            )

    def save(self) -> None:
        """Write a checkpoint; the previous one is kept."""
        assert self.held_out is not None
        # First: the checkpoint refers to a file of mixtures that must exist.
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
        arrays = {
            **with_prefix("chain", self.chain.state()),
            **with_prefix("draws", self.draws.state()),
            **with_prefix("held_out", self.held_out.state()),
            **with_prefix("early", self._early),
            **with_prefix("documents", _arrays(self._held_out_documents)),
            # Without their names, which nothing needs.
            **with_prefix("sample", _arrays(self.sample)),
            "word_counts": self.word_counts,
            "curve": curve_to_array(self.curve),
        }
        write_arrays(self.folder / CHECKPOINT, header, arrays, backup=self.folder / PREVIOUS)
        self.saved_at = self.position

    def _restore(self, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        self.chain.restore(without_prefix("chain", arrays))
        self.draws.restore(without_prefix("draws", arrays))
        documents = without_prefix("documents", arrays)
        self._evaluate_on(Documents(**documents, names=tuple(header["held_out_names"])))
        sample = without_prefix("sample", arrays)
        self.sample = Documents.from_arrays(sample["indptr"], sample["words"], sample["counts"])
        assert self.held_out is not None
        self.held_out.restore(without_prefix("held_out", arrays))
        self._early = without_prefix("early", arrays)
        self.position, self.trained, self.tokens = (
            header[name] for name in ("position", "trained", "tokens")
        )
        self.saved_at = self.position
        self._seconds_before = header["seconds"]
        self.word_counts = np.array(arrays["word_counts"])
        self.curve = curve_from_array(arrays["curve"])

    def _checkpoint_message(self) -> str:
        if self.saved_at is None:
            return "There is no checkpoint yet."
        return f"The last complete checkpoint, of {self.saved_at:,} documents, is kept."

    def _not_finite_message(self, error: NotFiniteError) -> str:
        return f"{error} Start again with a --step of a tenth of it. {self._checkpoint_message()}"


def stored_reading(folder: Path) -> Reading:
    """How the run in this folder reads its documents."""
    return Reading.from_json(read_latest(folder, _KIND, _VERSION)[0]["reading"])


def _num_passes(reading: Reading, passes: Any) -> int | None:
    """The number of passes; standard input has one, even with no limit."""
    return 1 if passes is None and reading.single_pass else passes


def _arrays(documents: Documents) -> dict[str, np.ndarray]:
    """The arrays of documents, by name."""
    return {"indptr": documents.indptr, "words": documents.words, "counts": documents.counts}


def _document_hash(name: str, words: np.ndarray, counts: np.ndarray) -> bytes:
    """A hash of a document, to recognise it when it is repeated in the stream."""
    return hashlib.blake2b(
        name.encode("utf-8", "surrogatepass") + b"\0" + words.tobytes() + counts.tobytes(), digest_size=16
    ).digest()


def _is_quick_to_count(corpus: Corpus) -> bool:
    source = corpus.source
    if source.single_pass:
        return False
    paths = [*getattr(source, "paths", ()), *filter(None, [getattr(source, "path", None)])]
    # Other than plain files, such as a named pipe, may be readable only once.
    return all(path.is_file() for path in paths) and sum(map(os.path.getsize, paths)) <= _MAX_BYTES_TO_COUNT


def default_held_out(length: int | None, passes: int | None) -> int:
    """A tenth of the documents at most, and 100 to 1,000: so that there are about 20 evaluations."""
    if length is None:
        return _MAX_HELD_OUT
    for_evaluations = (
        _MAX_HELD_OUT if passes is None else length * passes // (_NUM_EVALUATIONS * _DOCUMENTS_PER_HELD_OUT)
    )
    return max(1, min(length // 10, _MAX_HELD_OUT, max(_MIN_HELD_OUT, for_evaluations)))


def _prepare_folder(folder: Path, overwrite: bool) -> None:
    """Create the folder of a new run; it must not contain a checkpoint unless `overwrite`."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in (folder / CHECKPOINT, folder / PREVIOUS):
        if path.exists() and not overwrite:
            raise ValueError(
                f"{folder} already contains a run: continue it with --resume {folder}, replace it with "
                "--overwrite, or choose another --out."
            )
        path.unlink(missing_ok=True)


def _check_same_settings(folder: Path, options: Mapping[str, Any], header: Mapping[str, Any]) -> None:
    """Raise if the options differ from the settings of the run."""
    reading = Reading.from_json(header["reading"])
    saved = {**dataclasses.asdict(reading), **header["settings"]}
    differences = [
        f"{name} was {saved[name]!r}, not {x!r}" for name, x in options.items() if saved[name] != x
    ]
    if differences:
        raise ValueError(
            f"{folder} was started with other settings: {'; '.join(differences)}. Omit these options to "
            "continue it, or start a new run with another --out."
        )


def learned_vocabulary(**settings: Any) -> Any:
    """A function that learns a vocabulary from the text, with settings of `Vocabulary.learn`."""
    return functools.partial(Vocabulary.learn, **settings)
