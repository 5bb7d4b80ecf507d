"""Which parameters of a factorisation make sense, alone and with each other."""

from typing import TYPE_CHECKING

from fokker.models.checks import one_of, optional, positive, refuse_ignored, whole
from fokker.models.factorisation.hyperparameters import PRIORS

if TYPE_CHECKING:
    from fokker.models.factorisation.estimator import Factorisation

# Passes where no number is given, by sampler: the exact draws of the first forget their start sooner.
PASSES = {"gibbs": 100, "sgnht": 300, "sghmc": 300, "sgld": 300}
# What the samplers of minibatches alone take.
_MINIBATCHES = ("batch_size", "step_size", "friction", "thermostat_mass")


def check_settings(model: "Factorisation") -> None:
    """Raise where a parameter makes no sense: also in `fit`, because `set_params` changes them."""
    for name in ("factors", "draws"):
        whole(1)(name, getattr(model, name))
    for name in ("passes", "batch_size"):
        optional(whole(1))(name, getattr(model, name))
    for name in ("step_size", "thermostat_mass", "friction", "confidence"):
        optional(positive)(name, getattr(model, name))
    one_of(tuple(PASSES))("sampler", model.sampler)
    one_of(PRIORS)("prior", model.prior)
    if model.sampler == "gibbs":
        reason = "is for minibatches, which sampler='gibbs' does not take"
        refuse_ignored(model, _MINIBATCHES, f"{reason}: leave it out, or give sampler='sgnht'.")
    if model.confidence is not None and model.sampler != "gibbs":
        raise ValueError(
            f"confidence={model.confidence:g} is for sampler='gibbs': its data are all pairs, of which "
            f"sampler={model.sampler!r} would see a few at a time."
        )
    if not 0 <= model.num_burn_in < model.num_passes:
        raise ValueError(
            f"burn_in={model.burn_in} of passes={model.num_passes} leaves no pass for draws: give fewer "
            f"than {model.num_passes}."
        )


def check_for_fit(model: "Factorisation") -> None:
    """Also raise for what would be ignored: in `fit` alone, because stored models may have it."""
    check_settings(model)
    if model.sampler != "sgnht":
        reason = f"is of sampler='sgnht', and sampler={model.sampler!r} has no thermostat: leave it out."
        refuse_ignored(model, ("thermostat_mass",), reason)
    if model.confidence is not None:
        reason = f"is for ratings, and confidence={model.confidence:g} for counts, which have one noise"
        refuse_ignored(model, ("noise_by_user",), f"{reason} for all users: leave one of them out.")


def refuse_for_scores(model: "Factorisation", **arguments: object) -> None:
    """Raise for an argument that has no meaning where predictions are scores."""
    for name, value in arguments.items():
        if model._confidence is not None and value is not None:
            raise ValueError(
                f"{name} is for ratings: with confidence, predictions are scores that order items. "
                "recommend has intervals of scores, and ranking(test) judges their order."
            )
