"""A new run, and one that goes on from its checkpoint."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fokker.corpora import Corpus, Vocabulary
from fokker.corpora._open import VocabularyLike
from fokker.models.topics.curve import STREAM_HELD_OUT, default_held_out
from fokker.models.topics.files import (
    CHECKPOINT,
    MIXTURES,
    PREVIOUS,
    SUMMARY,
    interpreting_checkpoint,
    read_latest,
)
from fokker.models.topics.live import PROGRESS
from fokker.models.topics.reading import Reading, is_quick_to_count, num_passes
from fokker.models.topics.run import TopicRun
from fokker.models.topics.seeds import seed_columns
from fokker.models.topics.settings import Settings, default_passes
from fokker.models.topics.summary import RunSummary
from fokker.models.topics.together import check_readable_by_all, check_same, received_arrays
from fokker.run.processes import by_first


def start_run(
    reading: Reading,
    settings: Settings,
    folder: Path,
    *,
    vocabulary: VocabularyLike | None = None,
    passes: int | Literal["default"] | None = "default",
    mixtures: bool = True,
    overwrite: bool = False,
) -> TopicRun:
    """Create a new run and its folder, open its corpus and, if that is quick, count it.

    `passes`: None for no limit, "default" for `default_passes`. `mixtures`: whether to write the mixtures
    of the last pass.
    """
    settings.check_for_start()
    if num_passes(reading, 1 if passes == "default" else passes) is None and settings.exact_passes:
        raise ValueError(
            f"exact_passes={settings.exact_passes} are the last passes, and a run without end has none: "
            "leave it out, or give a number of passes."
        )
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
    return TopicRun(
        reading,
        settings,
        corpus,
        folder,
        passes=passes,
        length=length,
        # With unlimited passes there is no last pass to write.
        mixtures_size=0 if mixtures and passes is not None else None,
    )


def resume_run(
    folder: Path,
    options: Mapping[str, Any],
    *,
    passes: int | Literal["as before"] | None = "as before",
    mixtures: bool = True,
    threads: int | None = None,
    notify: Callable[[str], None] = lambda text: None,
) -> TopicRun:
    """The run at its last checkpoint. `options`: settings by name, which must equal those of the run."""
    arrays: dict[str, np.ndarray] = {}

    def read_first() -> tuple[dict[str, Any], str]:
        header, stored, problem = read_latest(folder)
        with interpreting_checkpoint(folder):
            differences = _different_settings(folder, options, header)
        if differences:
            raise ValueError(differences)
        arrays.update(stored)
        return header, problem

    header, problem = by_first(read_first)
    if problem:
        notify(f"{problem} The previous one is used, of {header['position']:,} documents.")
    with interpreting_checkpoint(folder):
        settings = Settings.from_json(header["settings"] | {"threads": threads})
        reading, words = Reading.from_json(header["reading"]), Vocabulary(header["words"])
    check_readable_by_all(reading)
    passes = header["passes"] if passes == "as before" else num_passes(reading, passes)
    # With another number of passes, the last pass is still to come.
    size = header["mixtures_size"] if passes == header["passes"] else 0
    corpus = reading.open(words, settings.seed)
    run = TopicRun(
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
    with interpreting_checkpoint(folder):
        run.restore(header, received)
    plan = run.plan
    is_within_pass = bool(plan.length and plan.position % plan.length)
    if is_within_pass and passes != header["passes"] and not run.training.chain.is_counting:
        # This pass was not exact from its beginning.
        plan.exact_from = plan.next_pass
    return run


def is_unfinished(folder: Path, reading: Reading, settings: Settings, passes: object) -> bool:
    """Whether the folder has a run with these settings that has not made all its passes, or has no results.

    `passes` as for `start_run`. Standard input is another stream every time.
    """

    def find() -> bool:
        if reading.single_pass or not any((folder / name).exists() for name in (CHECKPOINT, PREVIOUS)):
            return False
        header = read_latest(folder)[0]
        with interpreting_checkpoint(folder):
            stored = Settings.from_json(header["settings"] | {"threads": settings.threads})
            stored_reading = Reading.from_json(header["reading"])
        if reading.held_out is None:
            stored_reading = dataclasses.replace(stored_reading, held_out=None)
        if (stored, stored_reading) != (settings, reading) or passes not in ("default", header["passes"]):
            return False
        is_known = header["passes"] is not None and header["length"] is not None
        if not is_known or header["position"] < header["passes"] * header["length"]:
            return True
        summary = RunSummary.read(folder)  # the last of the results
        return summary is None or not summary.is_complete or summary.passes != header["passes"]

    return by_first(find)


def _prepare_folder(folder: Path, overwrite: bool) -> None:
    """Create the folder of a new run; it must not contain a checkpoint unless `overwrite`."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = (folder / CHECKPOINT, folder / PREVIOUS)
    if not overwrite and any(path.exists() for path in paths):
        raise ValueError(
            f"{folder} already contains a run: continue it with resume={str(folder)!r}, replace it with "
            "overwrite=True, or choose another out=…."
        )
    for path in (*paths, folder / MIXTURES, folder / SUMMARY, folder / PROGRESS):
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
