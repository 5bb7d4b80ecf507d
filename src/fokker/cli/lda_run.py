"""A run of `fokker lda` from its corpus to its files: progress, results and what is printed."""

import functools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fokker.cli.console import console, errors, show, show_error
from fokker.cli.flags import translated
from fokker.models.topics.wording import number_of_documents

if TYPE_CHECKING:
    from fokker.cli.lda_progress import RunProgress
    from fokker.models.topics.model import TopicModel
    from fokker.models.topics.results import Findings
    from fokker.models.topics.run import TopicRun
    from fokker.models.topics.settings import Settings

# The exit code after Ctrl-C.
INTERRUPTED = 130
_NOTHING_YET = "interrupted before the first step: there is nothing to save."
# A run prints this many topics at its end, the most prevalent first.
_NUM_TOPICS_SHOWN = 10


def print_by_first_only() -> None:
    """Print nothing here, unless this is the first of the processes of a run."""
    from fokker.run.processes import is_first

    console.quiet = errors.quiet = not is_first()


def start(
    reading: dict[str, Any],
    settings: "Settings",
    folder: Path,
    *,
    vocabulary: str | Path | None,
    learning: dict[str, Any],
    passes: Any,
    mixtures: bool,
    overwrite: bool,
) -> "TopicRun | None":
    """A new run; None after an interruption of any process.

    `learning`: settings of a vocabulary that is learned.
    """
    from fokker.models.topics.reading import Reading, learned_vocabulary
    from fokker.models.topics.starting import start_run
    from fokker.models.topics.together import any_process
    from fokker.run.interruption import Interruption
    from fokker.run.processes import is_first
    from fokker.run.progress import Progress

    # An exception inside a library call may be lost, so Ctrl-C only sets a flag.
    with (
        Progress("reading the corpus", unit=None, enabled=is_first()),
        Interruption() as interruption,
        warnings.catch_warnings(record=True) as caught,
    ):
        run = start_run(
            Reading(**reading),
            settings,
            folder,
            vocabulary=learned_vocabulary(**learning) if learning else vocabulary,
            passes=passes,
            mixtures=mixtures,
            overwrite=overwrite,
        )
    for warning in caught:
        show_error(translated(warning.message))
    if any_process(interruption.asked):
        show(_NOTHING_YET)
        return None
    show(_message(run))
    return run


def resumed(
    folder: Path, changes: dict[str, Any], passes: Any, mixtures: bool, threads: int | None
) -> "TopicRun":
    """The run in a folder at its checkpoint; `changes`: settings that were given again."""
    from fokker.models.topics.starting import resume_run

    passes = "as before" if passes == "default" else passes
    return resume_run(folder, changes, passes=passes, mixtures=mixtures, threads=threads, notify=show_error)


def _message(run: "TopicRun") -> str:
    settings, words = run.settings, len(run.corpus.vocabulary)
    size = "" if run.plan.length is None else f"{number_of_documents(run.plan.length)}, "
    total = "growing with the documents read" if run.plan.length is None else f"{run.total():,.0f}"
    total = total if settings.total is None else str(settings.total)
    language = run.corpus.vocabulary.language
    without = f" (without {language} stop words)" if language else ""
    passes = (
        "no end"
        if run.plan.passes is None
        else "1 pass"
        if run.plan.passes == 1
        else f"{run.plan.passes} passes"
    )
    if exact := settings.num_exact_passes(run.plan.passes):
        passes += f" (the last {exact} exact)"
    num_documents = settings.start_documents
    if run.plan.length is not None:
        assert run.reading.held_out is not None
        num_documents = min(num_documents, max(0, run.plan.length - run.reading.held_out))
    first_topics = (
        f"first topics from {number_of_documents(num_documents)}" if num_documents else "random first topics"
    )
    return (
        f"{run.corpus.source.label}: {size}{words:,} word{'' if words == 1 else 's'}{without}; "
        f"{settings.topics} topic{'' if settings.topics == 1 else 's'} by {settings.sampler}, "
        f"{settings.batch} documents per step, {passes}, "
        f"|S| {total}, {number_of_documents(run.reading.held_out or 0)} held out; {first_topics}; "
        f"writing to {run.folder}"
    )


def execute(run: "TopicRun", skip: bool) -> int:
    """Step to the end, write the results, print them, and return the exit code."""
    from fokker.models.topics.report import documents_used

    results = learn(run, skip)
    if results is None:
        return INTERRUPTED
    findings, file_names = results
    _print_findings(run, findings)
    show(f"{documents_used(run)} in {run.seconds:.1f} s; wrote {', '.join(file_names)} to {run.folder}")
    if run.interrupted:
        show(f"interrupted; to continue: {resume_command(run)}")
        return INTERRUPTED
    return 0 if findings.predictions.is_better else 1


def learn(run: "TopicRun", skip: bool = True) -> "tuple[Findings, list[str]] | None":
    """Step to the end and write the results; return the findings and the names of the files.

    None after an interruption that left no results, which is then explained.
    """
    from fokker.cli.lda_progress import RunProgress
    from fokker.run.interruption import Stopped

    with RunProgress(run, console) as progress:
        run.execute(progress, skip=skip)
        if not run.training.documents:
            show(_NOTHING_YET)
            return None
        try:
            return _end(run, progress)
        except (Stopped, KeyboardInterrupt):
            saved = run.saved_at
    left = (
        "there is no checkpoint"
        if saved is None
        else f"the checkpoint of {number_of_documents(saved)} is kept"
    )
    show(
        f"interrupted while the results were written: {left}, and so are the files that are complete. To "
        f"write the results: {resume_command(run)}"
    )
    return None


def resume_command(run: "TopicRun") -> str:
    """The command that continues a run."""
    return f"fokker lda --resume {run.folder}"


def _end(run: "TopicRun", progress: "RunProgress") -> "tuple[Findings, list[str]]":
    """Compute and write the results."""
    from fokker.cli.lda_wording import COMMAND, interrupted
    from fokker.models.topics.results import analyse
    from fokker.run.interruption import Interruption

    with Interruption() as progress.interruption:
        # A run that was stopped lacks passes, not settings.
        wording = interrupted(resume_command(run)) if run.interrupted else COMMAND
        model, findings = analyse(run, wording, progress.show)
        return findings, _write(run, model, findings, progress)


def _print_findings(run: "TopicRun", findings: "Findings") -> None:
    from fokker.models.topics.results import by_prevalence, headline, topic_line

    if summary := run.tally.sentence():
        show(translated(summary))
    for topic in by_prevalence(findings.topics)[:_NUM_TOPICS_SHOWN]:
        show(topic_line(topic))
    if (more := len(findings.topics) - _NUM_TOPICS_SHOWN) > 0:
        show(f"… and {more} more in topics.txt")
    show(headline(findings))
    for problem in findings.verdict.problems:
        console.print(problem, style="red", markup=False, soft_wrap=True)
    for note in findings.verdict.notes:
        show(note)
    if run.dropped_mixtures:
        show(f"the mixtures of {run.dropped_mixtures:,} documents are missing: the disk was full.")


def _write(run: "TopicRun", model: "TopicModel", findings: "Findings", progress: "RunProgress") -> list[str]:
    """Write the results separately, so that an error affects one file; return the file names."""
    from fokker._core.files import write_text
    from fokker.models.topics.files import CHECKPOINT, MIXTURES, SUMMARY
    from fokker.models.topics.model import MODEL
    from fokker.models.topics.report import report
    from fokker.models.topics.results import tables
    from fokker.models.topics.summary import SCORES, RunSummary, scores_csv

    texts = {
        "report.html": report(run, findings, progress.show),
        **tables(model, findings),
        SCORES: scores_csv(findings.scores),
    }
    writers: dict[str, Callable[[], None]] = {
        name: functools.partial(write_text, run.folder / name, text) for name, text in texts.items()
    }
    writers[MODEL] = functools.partial(model.save, run.folder / MODEL)
    if run.writes_mixtures:
        writers[MIXTURES] = functools.partial(run.write_mixtures, model.mean, progress.show)
    # Last: it says that the others are there.
    writers[SUMMARY] = lambda: write_text(run.folder / SUMMARY, RunSummary.of(run, findings).to_json())
    file_names = list(writers)
    if run.saved_at != run.plan.position:
        writers[CHECKPOINT] = run.save
    errors_by_file: dict[str, OSError] = {}
    for number, (name, write) in enumerate(writers.items()):
        progress.show("writing the results", number, len(writers), "files")
        try:
            write()
        except OSError as error:
            errors_by_file[name] = error
    if errors_by_file:
        advice = (
            "There is no checkpoint: start again on another disk (--out)."
            if run.saved_at is None
            else f"The checkpoint there is of {number_of_documents(run.saved_at)}: free some space, then: "
            f"{resume_command(run)}"
        )
        raise OSError(
            f"{', '.join(errors_by_file)} could not be written to {run.folder} after {run.plan.position:,} "
            f"documents: {next(iter(errors_by_file.values()))}. Files written before still exist. {advice}"
        )
    return file_names
