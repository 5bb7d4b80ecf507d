"""What a judgement of topics advises, in the words of an interface."""

from typing import NamedTuple


class Wording(NamedTuple):
    """What a person can change, as the interface that they use names it: whole sentences, and names."""

    longer: str
    unsuitable: str
    less_noise: str
    exact: str
    topics: str
    seed_weight: str


def number_of_documents(number: int, kind: str = "") -> str:
    """So many documents, of this kind."""
    return f"{number:,} {kind}{' ' if kind else ''}document{'' if number == 1 else 's'}"


FIT = Wording(
    longer="Increase passes.",
    unsuitable="Increase passes (a small X needs many), or change step_size.",
    less_noise="A smaller step_size or a larger batch_size makes the draws less noisy.",
    exact="Those of fit with passes=2 or more are.",
    topics="n_components",
    seed_weight="seed_weight",
)
STREAM = FIT._replace(longer="Give more documents to partial_fit.")
# What is said beside the bounds of draws that come from steps.
NOT_EXACT = (
    "The draws come from steps with minibatches: their bounds have the noise of minibatches, are not those "
    "of the posterior, and may contain the truth much less often."
)
