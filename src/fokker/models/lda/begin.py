"""The beginning of a run of `fokker lda`: its corpus is opened, and what it will do is printed."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fokker.models.lda.console import print_error, print_line

if TYPE_CHECKING:
    from fokker.models.lda.run import Run
    from fokker.models.lda.settings import Settings

NOTHING_YET = "interrupted before the first step: there is nothing to save."


def begin(
    reading: dict[str, Any],
    settings: "Settings",
    folder: Path,
    *,
    vocabulary: str | Path | None,
    learning: dict[str, Any],
    passes: Any,
    mixtures: bool,
    overwrite: bool,
) -> "Run | None":
    """A new run; None after an interruption of any process.

    `learning`: settings of a vocabulary that is learned.
    """
    from fokker.models.lda.reading import Reading, learned_vocabulary
    from fokker.models.lda.run import Run
    from fokker.models.lda.together import any_process
    from fokker.run.interruption import Interruption
    from fokker.run.processes import is_first
    from fokker.run.progress import Progress

    # An exception inside a library call may be lost, so Ctrl-C only sets a flag.
    with (
        Progress("reading the corpus", unit=None, enabled=is_first()),
        Interruption() as interruption,
        warnings.catch_warnings(record=True) as caught,
    ):
        run = Run.start(
            Reading(**reading),
            settings,
            folder,
            vocabulary=learned_vocabulary(**learning) if learning else vocabulary,
            passes=passes,
            mixtures=mixtures,
            overwrite=overwrite,
        )
    for warning in caught:
        print_error(str(warning.message))
    if any_process(interruption.asked):
        print_line(NOTHING_YET)
        return None
    print_line(_message(run))
    return run


def _message(run: "Run") -> str:
    settings = run.settings
    size = "" if run.length is None else f"{run.length:,} documents, "
    total = "growing with the documents read" if run.length is None else f"{run.total():,.0f}"
    total = total if settings.total is None else str(settings.total)
    language = run.corpus.vocabulary.language
    without = f" (without {language} stop words)" if language else ""
    passes = "no end" if run.passes is None else "1 pass" if run.passes == 1 else f"{run.passes} passes"
    if exact := settings.num_exact_passes(run.passes):
        passes += f" (the last {exact} exact)"
    num_documents = min(settings.start_documents, run.length or settings.start_documents)
    start = f"first topics from {num_documents:,} documents" if num_documents else "random first topics"
    return (
        f"{run.corpus.source.label}: {size}{len(run.corpus.vocabulary):,} words{without}; "
        f"{settings.topics} topics by {settings.sampler}, {settings.batch} documents per step, {passes}, "
        f"|S| {total}, {run.reading.held_out:,} documents held out; {start}; writing to {run.folder}"
    )
