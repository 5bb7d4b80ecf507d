"""A run over a stream of documents: steps, draws, held-out perplexity, checkpoints."""

import dataclasses
import secrets
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from fokker._core.files import interpreting, write_arrays
from fokker.corpora import Corpus, Documents, Tally, Vocabulary, prefetched
from fokker.models.topics._checks import NotFiniteError
from fokker.models.topics._expected import ExpectedCounts
from fokker.models.topics.evaluate import mixtures
from fokker.models.topics.files import (
    CHECKPOINT,
    PARTIAL_MIXTURES,
    PREVIOUS,
    SUMMARY,
    read_latest,
    with_prefix,
    without_prefix,
)
from fokker.models.topics.mixtures_file import MixturesFile
from fokker.models.topics.reading import (
    STREAM_HELD_OUT,
    Reading,
    default_held_out,
    is_quick_to_count,
    num_passes,
)
from fokker.models.topics.seeds import seed_columns
from fokker.models.topics.settings import Settings, default_passes
from fokker.models.topics.start import is_enough
from fokker.models.topics.together import (
    Minibatches,
    UnreadableError,
    check_readable_by_all,
    check_same,
    gathered_arrays,
    of_all,
    received_arrays,
)
from fokker.models.topics.topic_tokens import TopicTokens
from fokker.models.topics.training import Training
from fokker.run.interruption import Interruption, Stopped
from fokker.run.processes import by_first, together

KIND, VERSION = "checkpoint", 1
MIXTURES = "mixtures.csv.gz"
# The least seconds between checkpoints, also as a multiple of the time that writing one takes.
_MIN_SECONDS_BETWEEN_SAVES, _SAVE_TIMES_BETWEEN_SAVES = 60.0, 20.0


# Called during work that takes time, with its description, how much is done, how much there is, and the unit.
Show = Callable[[str, int, int, str], None]


class Watcher(Protocol):
    """Receives the progress of a run."""

    def update(self, run: "Run") -> None:
        """Called after each minibatch."""

    def show(self, description: str, completed: int, total: int, unit: str) -> None:
        """A `Show`, for work besides the minibatches."""

    def notify(self, text: str) -> None:
        """Called with messages to the user."""


class Run:
    """A chain over a stream of documents, created by `Run.start` or `Run.resume`.

    `position`: the number of documents read from the stream; `training`: the chain, with those it used.
    `length`: the number of documents of one pass, if known.

    The first documents of the stream, after those held out, wait until there are enough of them for the
    start; then the chain steps with them too.

    After `fk.processes.start` the run is divided among the processes (`fokker.models.topics.share`), which
    all make the same calls. The first of them alone reads and writes the folder.
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
        mixtures_digest: str | None = None,
    ) -> None:
        if passes is not None and passes < 1:
            raise ValueError(f"passes must be at least 1; {passes} was given.")
        if corpus.source.single_pass and passes != 1:
            raise ValueError(f"{corpus.source.label} can be read only once: use passes=1, or a file.")
        self.reading, self.settings, self.corpus, self.folder = reading, settings, corpus, folder
        self.passes, self.length = passes, length
        words = corpus.vocabulary.words
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of unknown seed words, which `start` warns of
            word_prior = settings.word_prior(len(words), words)
        assert reading.held_out is not None
        self.training = Training(settings, len(words), word_prior, held_out=reading.held_out, has_all=False)
        self.share = self.training.share
        self.position = self.tokens = 0
        self.topic_tokens = TopicTokens(settings.topics)
        self.tally = Tally()
        self.interrupted = False
        self._interruption = Interruption()
        self.saved_at: int | None = None
        # Passes that began before this position are not exact: some of their documents moved the topics.
        self._exact_from = 0
        # The documents that wait for the start, their positions in the stream, and whether their pass is
        # exact.
        self._waiting: list[tuple[Documents, np.ndarray, bool]] = []
        self._started_at, self._seconds_before = time.monotonic(), 0.0
        # Where the next document is in the source, and where a stream that continues begins.
        self._next_place = self._first_place = 0
        # Wanted in all processes, which make the same calls; with the first there is their file.
        self._wants_mixtures, self._mixtures = mixtures_size is not None, None
        if mixtures_size is not None and self.share.is_first:
            path = folder / PARTIAL_MIXTURES
            self._mixtures = MixturesFile(path, settings.topic_names, mixtures_size, mixtures_digest)
        # Which run a checkpoint is of, and which of two is newer.
        self._id, self._serial = secrets.token_hex(16), 0
        # The state that was last gathered from all processes, and where that was.
        self._gathered: dict[str, np.ndarray] | None = None
        self._gathered_at: tuple[int, ...] = ()

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
        check_readable_by_all(reading)
        by_first(lambda: _prepare_folder(folder, overwrite))
        check_same({**dataclasses.asdict(reading), **settings.to_json(), "threads": None, "passes": passes})
        own_corpus: list[Corpus] = []

        def open_first() -> tuple[Vocabulary, int | None]:
            corpus = reading.open(vocabulary, settings.seed)
            own_corpus.append(corpus)
            if settings.seed_words:
                # Warns of unknown words.
                seed_columns(settings.seed_words, corpus.vocabulary.words, len(corpus.vocabulary))
            # For a corpus without documents, the stream raises an error with the reason.
            return corpus.vocabulary, (corpus.count() or None) if is_quick_to_count(corpus) else None

        words, length = by_first(open_first)
        corpus = own_corpus[0] if own_corpus else reading.open(words, settings.seed)
        if passes == "default":
            passes = 1 if reading.single_pass else default_passes(length)
        passes = num_passes(reading, passes)
        if reading.held_out is None:
            num_documents = settings.total if length is None and isinstance(settings.total, int) else length
            held_out = STREAM_HELD_OUT if reading.single_pass else default_held_out(num_documents, passes)
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
        arrays: dict[str, np.ndarray] = {}

        def read_first() -> tuple[dict[str, Any], str]:
            header, stored, problem = read_latest(folder, KIND, VERSION)
            with interpreting(folder / CHECKPOINT, KIND):
                differences = _different_settings(folder, options, header)
            if differences:
                raise ValueError(differences)
            arrays.update(stored)
            return header, problem

        header, problem = by_first(read_first)
        if problem:
            notify(f"{problem} The previous one is used, of {header['position']:,} documents.")
        with interpreting(folder / CHECKPOINT, KIND):
            settings = Settings.from_json(header["settings"] | {"threads": threads})
            reading, words = Reading.from_json(header["reading"]), Vocabulary(header["words"])
        check_readable_by_all(reading)
        passes = header["passes"] if passes == "as before" else num_passes(reading, passes)
        # With another number of passes, the last pass is still to come.
        size = header["mixtures_size"] if passes == header["passes"] else 0
        corpus = reading.open(words, settings.seed)
        run = Run(
            reading,
            settings,
            corpus,
            folder,
            passes=passes,
            length=header["length"],
            mixtures_size=size if mixtures and passes is not None else None,
            mixtures_digest=header.get("mixtures_digest"),
        )
        received = received_arrays(run.share, arrays)
        with interpreting(folder / CHECKPOINT, KIND):
            run._restore(header, received)
        if run.length and run.position % run.length and passes != header["passes"]:
            # This pass was not exact from its beginning, unless it is being counted.
            run._exact_from = run._exact_from if run.training.chain.is_counting else run._next_pass()
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

    @together()
    def execute(self, watcher: Watcher, *, skip: bool = True) -> None:
        """Step until the passes are done, the stream ends or Ctrl-C is pressed, then save.

        `skip`: skip the documents that were read before; False for a stream that continues where it stopped.
        """
        self._first_place = 0 if skip else self._next_place
        with (
            Interruption() as self._interruption,
            prefetched(self.corpus, self.settings.batch, self.position if skip else 0) as batches,
        ):
            minibatches = Minibatches(batches, self._interruption, self.share)
            try:
                self._process(minibatches, watcher)
                # Also where the signal came after the last minibatch.
                (self.interrupted,) = self.share.any(minibatches.is_stopped or self._interruption.asked)
            except Stopped:
                self.interrupted = True
            except NotFiniteError as error:
                raise of_all(ValueError(self._not_finite_message(error))) from None
            if not self.training.documents and not self.interrupted:
                num_documents = self.position if self.length is None else min(self.position, self.length)
                raise of_all(
                    ValueError(
                        f"all {num_documents:,} documents of {self.corpus.source.label} are held out for "
                        "evaluation and none is left for training: give a smaller held_out=…, or more "
                        "documents."
                    )
                )
            if self.training.documents:
                self._try_to_write(self.save, watcher)

    def _process(self, minibatches: Minibatches, watcher: Watcher) -> None:
        """Process all minibatches; save from time to time."""
        next_save = time.monotonic() + _MIN_SECONDS_BETWEEN_SAVES
        try:
            while not self.complete:
                if minibatches.agree(time.monotonic() >= next_save) and self.training.documents:
                    before = time.monotonic()
                    self._try_to_write(self.save, watcher)
                    now = time.monotonic()
                    next_save = now + max(
                        _MIN_SECONDS_BETWEEN_SAVES, _SAVE_TIMES_BETWEEN_SAVES * (now - before)
                    )
                batch = minibatches.next(time.monotonic() >= next_save)
                self.tally = minibatches.tally
                if batch is None:
                    break
                self._process_batch(batch, watcher)
                watcher.update(self)
            if not minibatches.is_stopped:
                # The stream ended before there were enough documents for the start.
                self._start_chain(watcher)
        except UnreadableError as error:
            # The source cannot be read any further; save what was learned before.
            self._start_chain(watcher)
            if self.training.documents:
                self._try_to_write(self.save, watcher)
                watcher.notify(self._checkpoint_message())
            raise of_all(error.reason) from None

    def _process_batch(self, batch: Documents, watcher: Watcher) -> None:
        """Process one minibatch of the stream, in parts where exact passes begin and end."""
        if self.corpus.repeat and self.position + batch.size > self.tally.documents:
            # The tally covers the first pass, which ended in this batch or before.
            if self.length is None and self.position:
                self._exact_from = self.tally.documents
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
        if self.training.chain.is_counting and exact_pass is not None and self.position == pass_end:
            num_exact = self.settings.num_exact_passes(self.passes)
            self.training.end_exact_pass(exact_pass, num_exact, self.total(), self.seconds)

    def _exact_pass(self) -> int | None:
        """The number of the exact pass at this position, counted from 0; None if the pass is not exact."""
        if self.passes is None or self.length is None:
            return None
        number = self.position // self.length - (self.passes - self.settings.num_exact_passes(self.passes))
        is_whole = self.position // self.length * self.length >= self._exact_from
        return number if number >= 0 and is_whole else None

    def _next_pass(self) -> int:
        """The position at which the next pass begins."""
        assert self.length is not None
        return (self.position // self.length + 1) * self.length

    def _exact_pass_end(self) -> int | None:
        """The position at which this pass ends, if it or the next one is exact."""
        if self.passes is None or self.length is None:
            return None
        next_pass = self._next_pass()
        first_exact = (self.passes - self.settings.num_exact_passes(self.passes)) * self.length
        return next_pass if next_pass >= first_exact else None

    def _use(self, batch: Documents, is_exact: bool, watcher: Watcher) -> None:
        """Hold out the documents of a minibatch, step with them, or count them in an exact pass."""
        numbers = np.arange(self.position, self.position + batch.size)
        self.position += batch.size
        assert batch.places is not None
        places = batch.places + self._first_place
        batch = batch._replace(places=places)
        self._next_place = max(self._next_place, int(places.max(initial=-1)) + 1)
        num_missing = self.training.curve.num_missing
        if num_missing:
            self.training.curve.hold_out(batch.select(slice(0, num_missing)))
            batch, numbers = batch.select(slice(num_missing, None)), numbers[num_missing:]
        is_training = self.training.curve.is_training(batch)
        is_held_out = self._is_in_last_pass(numbers) & ~is_training
        if self._wants_mixtures and self.training.chain.number and np.any(is_held_out):
            held_out = batch.select(is_held_out)
            self._add_mixtures(
                held_out, numbers[is_held_out], self.training.chain.expect(held_out)[1], watcher
            )
        documents, numbers = batch.select(is_training), numbers[is_training]
        if self.settings.start_documents and not self.training.chain.number:
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

        def show(completed: int, total: int) -> None:
            watcher.show("finding the first topics", completed, total, "sweeps")
            if self._interruption.asked:
                # There is nothing to save yet.
                raise Stopped

        sample = Documents.concatenate([documents for documents, *_ in waiting])
        self.training.chain.start_from(sample, show)
        for documents, numbers, is_exact in waiting:
            watcher.show("taking the first steps", self.training.documents, sample.size, "documents")
            self._train(documents, numbers, is_exact, watcher)

    def _train(self, documents: Documents, numbers: np.ndarray, is_exact: bool, watcher: Watcher) -> None:
        """Step with documents at these positions of the stream, or count them in an exact pass."""
        expected = self.training.train(
            documents,
            self.total(documents.size),
            is_exact=is_exact,
            is_new=self.length is None or bool(numbers[0] < self.length),
            seconds=self.seconds,
        )
        self.tokens += documents.tokens
        self.topic_tokens.add(numbers // (self.length or self.position), expected.mixtures)
        self._add_mixtures(documents, numbers, expected, watcher)

    def total(self, upcoming: int = 0) -> float:
        """|S|: as given, as counted, or the number of training documents so far and in the next minibatch."""
        if isinstance(self.settings.total, int):
            return self.settings.total
        assert self.reading.held_out is not None
        num_training = None if self.length is None else max(self.length - self.reading.held_out, upcoming, 1)
        if self.settings.total is None and num_training is not None:
            return num_training
        # Repeated documents are counted once.
        trained = self.training.documents + upcoming
        return trained if num_training is None else min(trained, num_training)

    def _add_mixtures(
        self, documents: Documents, numbers: np.ndarray, expected: ExpectedCounts, watcher: Watcher
    ) -> None:
        """Add rows for those of the documents that belong to the last pass."""
        last_pass = self._is_in_last_pass(numbers)
        if self._mixtures is None or not np.any(last_pass):
            return
        weights = (expected.mixtures + self.training.chain.gamma)[last_pass]
        self._mixtures.add(documents.select(last_pass), weights / weights.sum(1, keepdims=True))
        if self._mixtures.should_flush:
            self._try_to_write(self._mixtures.flush, watcher)

    @property
    def writes_mixtures(self) -> bool:
        """Whether there are mixtures to write: they are wanted, and the last pass has begun."""
        return self._wants_mixtures and bool(self._is_in_last_pass(np.array([self.position - 1]))[0])

    def _is_in_last_pass(self, numbers: np.ndarray) -> np.ndarray:
        """Whether documents at these positions of the stream belong to the last pass."""
        if self.passes == 1:
            return np.ones(len(numbers), bool)
        if self.passes is None or self.length is None:
            return np.zeros(len(numbers), bool)
        return np.asarray(numbers >= (self.passes - 1) * self.length)

    def write_mixtures(self, beta: np.ndarray, show: Show) -> None:
        """Write the mixtures of the documents of the last pass so far, in the order of the source.

        In a single pass, the documents held out came before there were topics: theirs are those under `beta`
        (V, K).
        """
        assert self._mixtures is not None
        held_out = self.training.curve.documents.select(slice(0, None if self.passes == 1 else 0))
        settings = self.settings
        shares = mixtures(
            held_out,
            beta,
            self.training.chain.document_prior.mean,
            settings.seed,
            sweeps=settings.sweeps,
            burn_in=settings.burn_in,
            threads=settings.num_threads,
        )
        self._mixtures.write_in_order(
            self.folder / MIXTURES,
            held_out,
            shares,
            lambda completed, total: show("writing the mixtures", completed, total, "documents"),
        )

    def _try_to_write(self, write: Callable[[], object], watcher: Watcher) -> None:
        """Write; report an error, such as a full disk, and continue."""
        try:
            write()
        except OSError as error:
            watcher.notify(
                f"could not write to {self.folder}: {error}. {self._checkpoint_message()} Writing will be "
                "tried again."
            )

    def all_draws(self) -> list[np.ndarray]:
        """The stored draws of β (V, K), or the current one; of several processes, in the first one only."""
        own_draws = self.training.draws.draws or [self.training.beta()]
        return [draw for own in own_draws if (draw := self.share.for_first(own)) is not None]

    def _all_arrays(self) -> dict[str, np.ndarray] | None:
        """The arrays of a checkpoint, where they are to be written.

        Several processes gather them. The first keeps them until they are written, so that it can try again
        when the others are done.
        """
        place = (self.position, self.training.documents, self.training.chain.number)
        if self._gathered_at == place:
            return self._gathered
        arrays = {
            **self.training.state(),
            **with_prefix("topic_tokens", self.topic_tokens.state()),
        }
        if self.share.size == 1:
            return arrays
        arrays, self._gathered_at = gathered_arrays(self.share, arrays), place
        self._gathered = arrays if self.share.is_first else None
        return self._gathered

    def save(self) -> None:
        """Write a checkpoint; the previous one is kept."""
        arrays = self._all_arrays()
        if arrays is None:
            return
        # First: the checkpoint refers to a file of mixtures that must exist.
        mixtures_size = None if self._mixtures is None else self._mixtures.flush()
        self._serial += 1
        header = {
            "kind": KIND,
            "version": VERSION,
            "reading": dataclasses.asdict(self.reading),
            "settings": self.settings.to_json(),
            "words": self.corpus.vocabulary.words,
            "passes": self.passes,
            "length": self.length,
            "position": self.position,
            "exact_from": self._exact_from,
            "trained": self.training.documents,
            "tokens": self.tokens,
            "seconds": self.seconds,
            "mixtures_size": mixtures_size,
            "mixtures_digest": None if self._mixtures is None else self._mixtures.digest,
            "id": self._id,
            "serial": self._serial,
            "next_place": self._next_place,
            "held_out_names": self.training.curve.documents.names,
        }
        write_arrays(self.folder / CHECKPOINT, header, arrays, backup=self.folder / PREVIOUS)
        self.saved_at, self._gathered = self.position, None

    def _restore(self, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        self.training.restore(arrays, header["trained"], header["held_out_names"])
        self.topic_tokens.restore(without_prefix("topic_tokens", arrays))
        self.position, self.tokens = header["position"], header["tokens"]
        self.saved_at, self._exact_from = self.position, header["exact_from"]
        self._next_place = header["next_place"]
        self._id, self._serial = header.get("id") or self._id, header.get("serial", 0)
        self._seconds_before = header["seconds"]

    def _checkpoint_message(self) -> str:
        if self.saved_at is None:
            return "There is no checkpoint yet."
        return f"The last complete checkpoint, of {self.saved_at:,} documents, is kept."

    def _not_finite_message(self, error: NotFiniteError) -> str:
        return f"{error} Start again with step={error.step_size / 10:.2g}. {self._checkpoint_message()}"


def stored_reading(folder: Path) -> Reading:
    """How the run in this folder reads its documents."""
    header = read_latest(folder, KIND, VERSION)[0]
    with interpreting(folder / CHECKPOINT, KIND):
        return Reading.from_json(header["reading"])


def _prepare_folder(folder: Path, overwrite: bool) -> None:
    """Create the folder of a new run; it must not contain a checkpoint unless `overwrite`."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = (folder / CHECKPOINT, folder / PREVIOUS)
    if not overwrite and any(path.exists() for path in paths):
        raise ValueError(
            f"{folder} already contains a run: continue it with resume={str(folder)!r}, replace it with "
            "overwrite=True, or choose another out=…."
        )
    for path in (*paths, folder / MIXTURES, folder / SUMMARY):
        path.unlink(missing_ok=True)


def _different_settings(folder: Path, options: Mapping[str, Any], header: Mapping[str, Any]) -> str:
    """How the options differ from the settings of the run, as a message; else empty."""
    reading, settings = Reading.from_json(header["reading"]), Settings.from_json(header["settings"])
    saved = {**dataclasses.asdict(reading), **settings.to_json()}
    differences = [
        f"{name} was {saved[name]!r}, not {x!r}" for name, x in options.items() if saved[name] != x
    ]
    if not differences:
        return ""
    return (
        f"{folder} was started with other settings: {'; '.join(differences)}. Omit these options to "
        "continue it, or start a new run with another out=…."
    )
