"""What to change after a run of `fokker lda`, by the names of its options; and what its verdict warned of."""

from pathlib import Path

from fokker.cli.console import show_error
from fokker.models.topics.judgement import Wording

COMMAND = Wording(
    longer="Run longer, with more --passes or documents.",
    unsuitable="The step (--step) or the size of the corpus (--total) is unsuitable, or the run was too "
    "short: a small corpus needs more --passes.",
    less_noise="A smaller step (--step) or more documents per step (--batch) makes the draws less noisy.",
    exact="Use --passes 2 or more for bounds of the posterior.",
    topics="--topics",
    seed_weight="--seed-weight",
)


def repeat_problems(folder: Path) -> None:
    """Repeat what the verdict of a run warned of, beside results that come from its topics."""
    from fokker.models.topics.summary import RunSummary

    summary = RunSummary.read(folder)
    for problem in () if summary is None else summary.problems:
        show_error(f"The run warned: {problem}", "red")
