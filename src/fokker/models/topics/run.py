"""A run over a stream of documents: steps, draws, held-out perplexity, checkpoints."""

import dataclasses
import secrets
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fokker._core.files import write_arrays
from fokker.corpora import Corpus, Documents, Tally, prefetched
from fokker.models.named_arrays import with_prefix, without_prefix
from fokker.models.topics._checks import NotFiniteError
from fokker.models.topics._expected import ExpectedCounts
from fokker.models.topics.evaluate import mixtures
from fokker.models.topics.files import (
    CHECKPOINT,
    KIND,
    MIXTURES,
    PARTIAL_MIXTURES,
    PREVIOUS,
    VERSION,
)
from fokker.models.topics.mixtures_file import MixturesFile
from fokker.models.topics.passes import PassPlan
from fokker.models.topics.reading import Reading
from fokker.models.topics.settings import Settings
from fokker.models.topics.start import is_enough
from fokker.models.topics.together import Minibatches, UnreadableError, gathered_arrays, of_all
from fokker.models.topics.topic_tokens import TopicTokens
from fokker.models.topics.training import Training
from fokker.models.topics.watcher import Show, Watcher
from fokker.run.interruption import Interruption, Stopped
from fokker.run.processes import together

# The least seconds between checkpoints, also as a multiple of the time that writing one takes.
_MIN_SECONDS_BETWEEN_SAVES, _SAVE_TIMES_BETWEEN_SAVES = 60.0, 20.0


class TopicRun:
    """A chain over a stream of documents, created by `start_run` or `resume_run`.

    `plan`: where it is in its passes; `training`: the chain, with the documents that it used.

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
        self.plan = PassPlan(passes, settings.num_exact_passes(passes), length)
        words = corpus.vocabulary.words
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of unknown seed words, which `start_run` warns of
            word_prior = settings.word_prior(len(words), words)
        assert reading.held_out is not None
        self.training = Training(settings, len(words), word_prior, held_out=reading.held_out, has_all=False)
        self.share = self.training.share
        self.tokens = 0
        self.topic_tokens = TopicTokens(settings.topics)
        self.tally = Tally()
        self.interrupted = False
        self._interruption = Interruption()
        self.saved_at: int | None = None
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

    @property
    def seconds(self) -> float:
        """The running time, including that before a resume."""
        return self._seconds_before + time.monotonic() - self._started_at

    @property
    def dropped_mixtures(self) -> int:
        """The number of documents whose mixtures were lost because the disk was full."""
        return 0 if self._mixtures is None else self._mixtures.dropped

    @together()
    def execute(self, watcher: Watcher, *, skip: bool = True) -> None:
        """Step until the passes are done, the stream ends or Ctrl-C is pressed, then save.

        `skip`: skip the documents that were read before; False for a stream that continues where it stopped.
        """
        self._first_place = 0 if skip else self._next_place
        with (
            Interruption() as self._interruption,
            prefetched(self.corpus, self.settings.batch, self.plan.position if skip else 0) as batches,
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
                num_documents = (
                    self.plan.position
                    if self.plan.length is None
                    else min(self.plan.position, self.plan.length)
                )
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
            while not self.plan.is_complete:
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
        if self.corpus.repeat and self.plan.position + batch.size > self.tally.documents:
            # The tally covers the first pass, which ended in this batch or before.
            if self.plan.length is None and self.plan.position:
                self.plan.exact_from = self.tally.documents
            self.plan.length = self.tally.documents
        if self.plan.end is not None and self.plan.position + batch.size > self.plan.end:
            batch = batch.select(slice(0, self.plan.end - self.plan.position))
        pass_end = self.plan.exact_end
        if pass_end is not None and self.plan.position + batch.size > pass_end:
            rest = slice(pass_end - self.plan.position, None)
            self._process_batch(batch.select(slice(0, rest.start)), watcher)
            self._process_batch(batch.select(rest), watcher)
            return
        if self.plan.is_first_read:
            # The first pass ended before there were enough documents for the start.
            self._start_chain(watcher)
        exact_pass = self.plan.exact_pass
        self._use(batch, exact_pass is not None, watcher)
        if self.training.chain.is_counting and exact_pass is not None and self.plan.position == pass_end:
            self.training.end_exact_pass(
                exact_pass,
                self.plan.num_exact,
                self.total(),
                self.seconds,
                lambda number, rounds: watcher.show("drawing the topics", number, rounds, "rounds"),
            )

    def _use(self, batch: Documents, is_exact: bool, watcher: Watcher) -> None:
        """Hold out the documents of a minibatch, step with them, or count them in an exact pass."""
        numbers = np.arange(self.plan.position, self.plan.position + batch.size)
        self.plan.position += batch.size
        assert batch.places is not None
        places = batch.places + self._first_place
        batch = batch._replace(places=places)
        self._next_place = max(self._next_place, int(places.max(initial=-1)) + 1)
        num_missing = self.training.curve.num_missing
        if num_missing:
            self.training.curve.hold_out(batch.select(slice(0, num_missing)))
            batch, numbers = batch.select(slice(num_missing, None)), numbers[num_missing:]
        is_training = self.training.curve.is_training(batch)
        is_held_out = self.plan.is_in_last_pass(numbers) & ~is_training
        if self._wants_mixtures and self.training.chain.number and np.any(is_held_out):
            held_out = batch.select(is_held_out)
            self._add_mixtures(
                held_out, numbers[is_held_out], self.training.chain.expect(held_out)[1], watcher
            )
        documents, numbers = batch.select(is_training), numbers[is_training]
        if self.settings.start_documents and not self.training.chain.number:
            self._waiting.append((documents, numbers, is_exact))
            # Documents of a second pass would be counted twice.
            lengths = np.concatenate([documents.lengths for documents, *_ in self._waiting])
            if self.plan.is_first_read or np.any(is_enough(lengths, self.settings.start_documents)):
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
            is_new=self.plan.length is None or bool(numbers[0] < self.plan.length),
            seconds=self.seconds,
        )
        self.tokens += documents.tokens
        self.topic_tokens.add(numbers // (self.plan.length or self.plan.position), expected.mixtures)
        self._add_mixtures(documents, numbers, expected, watcher)

    def total(self, upcoming: int = 0) -> float:
        """|S|: as given, as counted, or the number of training documents so far and in the next minibatch."""
        assert self.reading.held_out is not None
        trained, length = self.training.documents + upcoming, self.plan.length
        distinct = trained if length is None else max(length - self.reading.held_out, upcoming, 1)
        return self.settings.represented(distinct, trained)

    def _add_mixtures(
        self, documents: Documents, numbers: np.ndarray, expected: ExpectedCounts, watcher: Watcher
    ) -> None:
        """Add rows for those of the documents that belong to the last pass."""
        last_pass = self.plan.is_in_last_pass(numbers)
        if self._mixtures is None or not np.any(last_pass):
            return
        weights = (expected.mixtures + self.training.chain.gamma)[last_pass]
        self._mixtures.add(documents.select(last_pass), weights / weights.sum(1, keepdims=True))
        if self._mixtures.should_flush:
            self._try_to_write(self._mixtures.flush, watcher)

    @property
    def writes_mixtures(self) -> bool:
        """Whether there are mixtures to write: they are wanted, and the last pass has begun."""
        return self._wants_mixtures and bool(self.plan.is_in_last_pass(np.array([self.plan.position - 1]))[0])

    def write_mixtures(self, beta: np.ndarray, show: Show) -> None:
        """Write the mixtures of the documents of the last pass so far, in the order of the source.

        In a single pass, the documents held out came before there were topics: theirs are those under `beta`
        (V, K).
        """
        assert self._mixtures is not None
        held_out = self.training.curve.documents.select(slice(0, None if self.plan.passes == 1 else 0))
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
        place = (self.plan.position, self.training.documents, self.training.chain.number)
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
            "passes": self.plan.passes,
            "length": self.plan.length,
            "position": self.plan.position,
            "exact_from": self.plan.exact_from,
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
        self.saved_at, self._gathered = self.plan.position, None

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Go on from a checkpoint."""
        self.training.restore(arrays, header["trained"], header["held_out_names"])
        self.topic_tokens.restore(without_prefix("topic_tokens", arrays))
        self.plan.position, self.tokens = header["position"], header["tokens"]
        self.saved_at, self.plan.exact_from = self.plan.position, header["exact_from"]
        self._next_place = header["next_place"]
        self._id, self._serial = header.get("id") or self._id, header.get("serial", 0)
        self._seconds_before = header["seconds"]

    def _checkpoint_message(self) -> str:
        if self.saved_at is None:
            return "There is no checkpoint yet."
        return f"The last complete checkpoint, of {self.saved_at:,} documents, is kept."

    def _not_finite_message(self, error: NotFiniteError) -> str:
        return f"{error} Start again with step={error.step_size / 10:.2g}. {self._checkpoint_message()}"
