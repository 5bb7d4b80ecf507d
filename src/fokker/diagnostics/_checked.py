"""The line below "No problems found": what was checked, how finely, and what no run can show."""

from typing import TYPE_CHECKING, Any

import numpy as np

from fokker._core.digits import percent
from fokker.diagnostics._agreement import R_HAT, Agreement
from fokker.diagnostics._convergence import Statistics

if TYPE_CHECKING:
    from fokker.diagnostics.configurational import Spread
    from fokker.run.trace import Trace

# A larger error of the variance is said in words: its percentage would mean nothing.
_DOUBLED = 1.0
_NOTICED = "Nine times out of ten, a run like this one notices"


def checked_text(
    statistics: Statistics,
    least: float,
    judged: Agreement | None,
    spread: "Spread | None",
    trace: "Trace",
    halving: bool,
) -> str:
    """What was checked, how small a bias would have been detected, and what was not looked at.

    `least`: the fewest effective draws of what the table shows.
    """
    parts = [f"{_agreement(statistics, judged)}, with at least {least:,.0f} effective draws.", _power(spread)]
    if trace.sampler is not None and not trace.sampler.is_exact and not halving:
        parts.append(f"To look for smaller biases of the step: {repeated_with_half(trace)}.")
    temperature = trace.settings.get("temperature", 1.0)
    if temperature != 1:
        parts.append(f"The draws are of exp(-U/T) with T = {temperature:.3g}, not of the posterior itself.")
    parts.append("No run can show modes that no chain visited, or whether the model is right.")
    return " ".join(parts)


def repeated_with_half(trace: "Trace") -> str:
    """How the bias of the step is seen, for those who have a trace and for those who have not."""
    by_python = "in Python, trace.step_halving() of the trace that fk.sample returned"
    # Half of a step that was found for the sampler chosen here means nothing to a sampler that is named: it
    # has another mass matrix, start and gradient.
    if trace.settings.get("chosen"):
        return f"{by_python} compares with a run whose step size is half as large"
    size: Any = trace.settings.get("step_size")
    is_number = size is not None and not callable(size) and np.ndim(size) == 0
    half = f", {float(size) / 2:.3g}" if is_number else ""
    return f"compare with a run whose step size is half as large{half}; {by_python} does it"


def _agreement(statistics: Statistics, judged: Agreement | None) -> str:
    """The largest R-hat of those that were judged, and what chance allows if it is above 1.01."""
    if judged is None:
        return f"R-hat is at most {np.nanmax(statistics.r_hat, initial=1):.3f}"
    worst = int(np.argmax(np.nan_to_num(judged.r_hat)))
    kind = "Nested R-hat" if judged.is_nested[worst] else "R-hat"
    text = f"{kind} is at most {max(1.0, np.nan_to_num(judged.r_hat[worst])):.3f}"
    if judged.r_hat[worst] > R_HAT:
        text += f" (up to {judged.allowed[worst]:.3f} raises no alarm in chains as short as these)"
    return text


def _power(spread: "Spread | None") -> str:
    if spread is None:
        return "The spread, mean and shape of the draws were not compared with the target's."
    if not spread.judged.any():
        return "There are too few effective draws to compare their spread with the target's."
    one, everywhere = spread.detectable
    if spread.walled[: len(spread.bias)].all():
        return f"{_NOTICED} a deviation of {100 * one:.0f} % at the walls."
    several = len(spread.bias) > 1
    mean = alone = ""
    if spread.shift.judged.any():
        mean = f"a mean that is off by {spread.shift.detectable:.2g} standard deviations"
        mean += f" in {_each('any', spread.shift.judged)}" if several else ""
    if (everywhere if several else one) > _DOUBLED:
        text = "There are too few effective draws to notice even a variance that is twice the target's"
        text += f". {_NOTICED} {mean}" if mean else ""
    else:
        where = f"{percent(everywhere)} in {_each('every', spread.judged)}" if several else percent(one)
        if several and one <= _DOUBLED:
            where += f", or by {percent(one)} in a single one"
        elif several:
            alone = ". In a single direction even a variance that is twice the target's may go unnoticed"
        text = f"{_NOTICED} a variance that is off by {where}" + (f", and {mean}" if mean else "") + alone
    return f"{text}. {_shape(spread)}"


def _each(word: str, judged: np.ndarray) -> str:
    """The directions of which something is said."""
    if judged.all():
        return f"{word} direction"
    return f"{word} one of the {int(judged.sum()):,} directions of {judged.size:,} that could be judged"


def _shape(spread: "Spread") -> str:
    judged = spread.shape.judged
    if not judged.any():
        return "The shape of the distribution beyond that was not compared."
    left = "" if judged.all() else f" ({int((~judged).sum()):,} of {judged.size:,} could not be)"
    return f"The tails and the skewness of each coordinate were compared as well{left}, by one number each."
