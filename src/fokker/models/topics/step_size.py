"""Step sizes and frictions of the samplers of topics."""

from collections.abc import Callable

import numpy as np

Schedule = Callable[[int], float]

# The decay of Patterson and Teh (2013).
DECAY_AFTER, DECAY_POWER = 1000.0, 0.6


def decaying(a: float, b: float = DECAY_AFTER, c: float = DECAY_POWER) -> Schedule:
    """ε_t = a (1 + t/b)^{-c}."""
    return lambda t: a * (1 + t / b) ** -c


def automatic_settings(sampler: str, rate: float, start: float) -> tuple[float, float]:
    r"""A step size and a friction for the rate N_k·/θ_k· at which the data replace the previous θ.

    An overdamped step replaces the share hb of θ, with b = 1 + N_k·/θ_k·. With momentum θ oscillates with the
    frequency ω = √(b/2), and friction above ω damps it. The factors here worked best in one pass over 10,000
    articles; |S|, the number of words per document and θ₀ enter through the rate. Without a metric the step
    is the same for every word and is measured in units of θ₀.
    """
    b = 1 + rate
    omega = float(np.sqrt(b / 2))
    h, friction = {
        "sgld": (0.1 * start / b, 0.0),
        "sghmc": (0.2 * start**0.5 / omega, 2.4 * omega / start**0.5),
        "sgrld": (0.35 / b, 0.0),
        "scir": (0.35 / b, 0.0),
        "sgrhmc": (0.5 / omega, 2.4 * omega),
    }[sampler]
    return h, friction
