"""What to change after a run of `fokker lda`, by the names of its options."""

from fokker.models.topics.wording import Wording

COMMAND = Wording(
    longer="Run longer, with more --passes or documents.",
    unsuitable="The step (--step) or the size of the corpus (--total) is unsuitable, or the run was too "
    "short: a small corpus needs more --passes.",
    less_noise="A smaller step (--step) or more documents per step (--batch) makes the draws less noisy.",
    exact="Use --passes 2 or more for bounds of the posterior.",
    topics="--topics",
    seed_weight="--seed-weight",
)


def interrupted(command: str) -> Wording:
    """What to do after a run that was stopped before its end, and that this command continues."""
    return COMMAND._replace(
        longer=f"Continue the run: {command}",
        exact=f"The passes that give bounds of the posterior come last. Continue the run: {command}",
    )
