"""A run of `fokker lda` from its first step to its files: progress, results and the summary printed."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from fokker.models.lda.console import INTERRUPTED, console, print_line

if TYPE_CHECKING:
    from fokker.models.lda.model import Model
    from fokker.models.lda.results import Findings
    from fokker.models.lda.run import Run

# A run prints this many topics at its end, the most prevalent first.
_NUM_TOPICS_SHOWN = 10
NOTHING_YET = "interrupted before the first step: there is nothing to save."


def execute(run: "Run", skip: bool) -> int:
    """Step to the end, write the results, and return the exit code."""
    from fokker.models.lda.progress import RunProgress
    from fokker.models.lda.results import analyse, by_prevalence

    with RunProgress(run, console) as progress:
        run.execute(progress, skip=skip)
    resume_command = f"fokker lda --resume {run.folder}"
    if not run.trained:
        print_line(NOTHING_YET)
        return INTERRUPTED
    if summary := run.tally.sentence():
        print_line(summary)
    model, findings = analyse(run)
    file_names = _write(run, model, findings, resume_command)
    for topic in by_prevalence(findings.topics)[:_NUM_TOPICS_SHOWN]:
        print_line(f"topic {topic.number}: {' '.join(topic.words[:10])}")
    for problem in findings.problems:
        console.print(problem, style="red", markup=False, soft_wrap=True)
    for note in findings.notes:
        print_line(note)
    if run.dropped_mixtures:
        print_line(f"the mixtures of {run.dropped_mixtures:,} documents are missing: the disk was full.")
    print_line(
        f"{run.trained:,} documents in {run.seconds:.1f} s; wrote {', '.join(file_names)} to {run.folder}"
    )
    if run.interrupted:
        print_line(f"interrupted; to continue: {resume_command}")
        return INTERRUPTED
    return 0 if findings.perplexity < findings.unigram else 1


def _write(run: "Run", model: "Model", findings: "Findings", resume_command: str) -> list[str]:
    """Write the results separately, so that an error affects one file; return the file names."""
    from fokker._core.files import write_text
    from fokker.models.lda.files import CHECKPOINT
    from fokker.models.lda.model import MODEL
    from fokker.models.lda.report import report
    from fokker.models.lda.results import tables
    from fokker.models.lda.run import MIXTURES

    texts = {"report.html": report(run, findings), **tables(model, findings)}
    writers: dict[str, Callable[[], None]] = {
        name: functools.partial(write_text, run.folder / name, text) for name, text in texts.items()
    }
    writers[MODEL] = functools.partial(model.save, run.folder / MODEL)
    if run.saved_at != run.position:
        writers[CHECKPOINT] = run.save
    errors_by_file: dict[str, OSError] = {}
    for name, write in writers.items():
        try:
            write()
        except OSError as error:
            errors_by_file[name] = error
    if errors_by_file:
        advice = (
            "There is no checkpoint: start again on another disk (--out)."
            if run.saved_at is None
            else f"The checkpoint there is of {run.saved_at:,} documents: free some space, then: "
            f"{resume_command}"
        )
        raise OSError(
            f"{', '.join(errors_by_file)} could not be written to {run.folder} after {run.position:,} "
            f"documents: {next(iter(errors_by_file.values()))}. Files written before still exist. {advice}"
        )
    return [*texts, MODEL, *([MIXTURES] if (run.folder / MIXTURES).is_file() else [])]
