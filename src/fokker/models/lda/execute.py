"""A run of `fokker lda` from its first step to its files: progress, results and the summary printed."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from fokker.models.lda.begin import NOTHING_YET
from fokker.models.lda.console import INTERRUPTED, console, print_line

if TYPE_CHECKING:
    from fokker.models.lda.model import Model
    from fokker.models.lda.progress import RunProgress
    from fokker.models.lda.results import Findings
    from fokker.models.lda.run import Run

# A run prints this many topics at its end, the most prevalent first.
_NUM_TOPICS_SHOWN = 10


def execute(run: "Run", skip: bool) -> int:
    """Step to the end, write the results, print them, and return the exit code."""
    results = learn(run, skip)
    if results is None:
        return INTERRUPTED
    findings, file_names = results
    _print_findings(run, findings)
    print_line(
        f"{run.training.documents:,} documents in {run.seconds:.1f} s; wrote {', '.join(file_names)} to "
        f"{run.folder}"
    )
    if run.interrupted:
        print_line(f"interrupted; to continue: {resume_command(run)}")
        return INTERRUPTED
    return 0 if findings.perplexity < findings.unigram else 1


def learn(run: "Run", skip: bool = True) -> "tuple[Findings, list[str]] | None":
    """Step to the end and write the results; return the findings and the names of the files.

    None after an interruption that left no results, which is then explained.
    """
    from fokker.models.lda.progress import RunProgress
    from fokker.run.interruption import Stopped

    with RunProgress(run, console) as progress:
        run.execute(progress, skip=skip)
        if not run.training.documents:
            print_line(NOTHING_YET)
            return None
        try:
            return _end(run, progress)
        except (Stopped, KeyboardInterrupt):
            saved = run.saved_at
    kept = "there is no checkpoint" if saved is None else f"the checkpoint of {saved:,} documents is kept"
    print_line(
        f"interrupted while the results were written: {kept}, and so are the files that are complete. To "
        f"write the results: {resume_command(run)}"
    )
    return None


def resume_command(run: "Run") -> str:
    """The command that continues a run."""
    return f"fokker lda --resume {run.folder}"


def _end(run: "Run", progress: "RunProgress") -> "tuple[Findings, list[str]]":
    """Compute and write the results."""
    from fokker.models.lda.results import analyse
    from fokker.run.interruption import Interruption

    with Interruption() as progress.interruption:
        model, findings = analyse(run, progress.show)
        return findings, _write(run, model, findings, progress)


def _print_findings(run: "Run", findings: "Findings") -> None:
    from fokker.models.lda.results import by_prevalence, topic_line

    if summary := run.tally.sentence():
        print_line(summary)
    for topic in by_prevalence(findings.topics)[:_NUM_TOPICS_SHOWN]:
        print_line(topic_line(topic))
    if (more := len(findings.topics) - _NUM_TOPICS_SHOWN) > 0:
        print_line(f"… and {more} more in topics.txt")
    for problem in findings.verdict.problems:
        console.print(problem, style="red", markup=False, soft_wrap=True)
    for note in findings.verdict.notes:
        print_line(note)
    if run.dropped_mixtures:
        print_line(f"the mixtures of {run.dropped_mixtures:,} documents are missing: the disk was full.")


def _write(run: "Run", model: "Model", findings: "Findings", progress: "RunProgress") -> list[str]:
    """Write the results separately, so that an error affects one file; return the file names."""
    from fokker._core.files import write_text
    from fokker.models.lda.files import CHECKPOINT, SUMMARY
    from fokker.models.lda.model import MODEL
    from fokker.models.lda.report import report
    from fokker.models.lda.results import tables
    from fokker.models.lda.run import MIXTURES
    from fokker.models.lda.summary import SCORES, RunSummary, scores_csv

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
    if run.saved_at != run.position:
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
            else f"The checkpoint there is of {run.saved_at:,} documents: free some space, then: "
            f"{resume_command(run)}"
        )
        raise OSError(
            f"{', '.join(errors_by_file)} could not be written to {run.folder} after {run.position:,} "
            f"documents: {next(iter(errors_by_file.values()))}. Files written before still exist. {advice}"
        )
    return file_names
