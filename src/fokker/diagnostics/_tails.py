"""Whether tails are so heavy that mean and variance may not exist: by the draws, and by ∇U at them."""

import numpy as np
from jaxtyping import Float

from fokker._core.statistics import pareto_k
from fokker.diagnostics._findings import Finding, Grade
from fokker.diagnostics._gradients import Potential

# From these tail indices on there is no variance, and no mean.
_NO_VARIANCE, _NO_MEAN = 0.5, 1.0
# How many standard errors the index must be above: those of lognormal draws reach 0.5 by chance.
_ERRORS = 2.0
# Fewer effective draws in a tail show nothing about it.
_FEWEST = 20
# The draws that `pareto_k` takes for the tail.
_SHARE, _ROOT = 0.2, 3.0
# A density that falls like |θ|^-(α + 1) has no variance if α ≤ 2. Where the outermost draws are, Student's t
# of 2 degrees of freedom has about 1.8, and a lognormal of standard deviation 1 about 2.5.
_FALLS_SLOWLY = 1.7
# The outermost draws by which it is measured: a share of all, and the fewest.
_OUTERMOST, _FEWEST_OUTERMOST = 0.005, 20
# A chain that does not reach the tails has lighter ones than its target, but heavier than a normal's.
_LIGHTEST = 0.1
# How far out, in standard deviations of the draws, a density is looked at: stuck chains have small ones.
_FAR = 10.0 ** np.arange(1, 7)


def heavy_tails(
    values: Float[np.ndarray, "c n k"],
    effective: Float[np.ndarray, " k"],
    exponents: Float[np.ndarray, " k"] | None = None,
) -> tuple[Float[np.ndarray, " k"], np.ndarray]:
    """Pareto's k of the heavier tail of each series, and whether it seems to have no variance.

    The standard error of k is (1 + k)/√m for m independent draws in the tail (Smith 1987); of the draws in
    it, as many are taken as independent as `effective`, those of the tails, are of all. With `exponents`,
    those of the first series by `tail_exponents`, the target decides beside the draws.
    """
    flat = values.reshape(-1, values.shape[2])
    number = len(flat)
    k = np.full(flat.shape[1], -np.inf)
    usable = np.isfinite(flat).all(axis=0)
    centred = flat[:, usable] - np.median(flat[:, usable], axis=0)
    for place, x in zip(np.flatnonzero(usable), centred.T, strict=True):
        tails = [tail for tail in (x, -x) if _may_be_heavy(tail)]
        k[place] = max((pareto_k(np.maximum(tail, 0)) for tail in tails), default=-np.inf)
    k[~np.isfinite(k)] = -np.inf  # where the largest are all the same there is no tail
    share = np.clip(np.nan_to_num(effective) / number, 0, 1)
    in_tail = share * min(_SHARE * number, _ROOT * np.sqrt(number))
    error = (1 + np.maximum(k, 0)) / np.sqrt(np.maximum(in_tail, 1))
    is_heavy = (in_tail >= _FEWEST) & (k - _ERRORS * error > _NO_VARIANCE)
    if exponents is not None:
        own = slice(len(exponents))
        falls_slowly = (exponents < _FALLS_SLOWLY) & (k[own] > _LIGHTEST)
        is_heavy[own] |= falls_slowly
        k[own] = np.where(falls_slowly, np.maximum(k[own], 1 / np.maximum(exponents, 0.1)), k[own])
    return k, is_heavy


def _may_be_heavy(tail: np.ndarray) -> bool:
    """A quick look: the largest of n draws without a variance is about √n times as large as typical ones."""
    return bool(tail.max() > 5 * np.quantile(tail, 0.9) > 0)


def tail_exponents(
    draws: Float[np.ndarray, "c n d"], gradients: Float[np.ndarray, "c n d"]
) -> Float[np.ndarray, " d"]:
    r"""Of each coordinate a bound on α, of both tails, if the density falls like |θ_i|^-(α + 1) there.

    The mean of ∂_iU/T at a given θ_i is minus the slope of the logarithm of the marginal density, so that
    (θ_i - c) ∂_iU/T is α + 1 on average over the outermost draws. It is that of the target itself, also where
    the chain visits the tail too rarely; two standard errors are added. Infinite for too few draws.
    """
    flat, flat_gradients = (x.reshape(-1, x.shape[2]) for x in (draws, gradients))
    number = max(_FEWEST_OUTERMOST, int(_OUTERMOST * len(flat)))
    if len(flat) < 10 * number:
        return np.full(flat.shape[1], np.inf)
    centred = flat - np.median(flat, axis=0)
    order = np.argsort(centred, axis=0)
    bounds = []
    for outermost in (order[:number], order[-number:]):
        products = np.take_along_axis(centred * flat_gradients, outermost, axis=0)
        error = products.std(axis=0, ddof=1) / np.sqrt(number)
        bounds.append(products.mean(axis=0) - 1 + _ERRORS * error)
    return np.minimum(*bounds)


def is_flat_outwards(
    potential: Potential,
    draws: Float[np.ndarray, "c n d"],
    temperature: float,
    exponents: Float[np.ndarray, " d"],
) -> bool:
    r"""Whether along some coordinate the density falls no faster than 1/|θ| far out: it has no integral.

    Only coordinates are looked at whose outermost draws lie where it does not fall, by `exponents`. Draws of
    chains that hardly moved do so too, which says nothing about the target: U does.
    """
    flat = draws.reshape(-1, draws.shape[2])
    suspects = np.argsort(exponents)[: min(int(np.sum(exponents < 0)), potential.most // (2 * _FAR.size))]
    if not suspects.size:
        return False
    distances = np.concatenate([_FAR, -_FAR])[None, :] * flat.std(axis=0)[suspects, None]
    places = np.repeat(np.median(flat, axis=0)[None], distances.size, axis=0)
    places[np.arange(distances.size), np.repeat(suspects, distances.shape[1])] += distances.reshape(-1)
    with np.errstate(invalid="ignore", over="ignore"):
        gradients = potential.at(places)[1].reshape(*distances.shape, -1) / temperature
        gradients = np.take_along_axis(gradients, suspects[:, None, None], axis=2)[:, :, 0]
        falls = ~(distances * gradients <= 1)  # what is not finite is no longer flat
    return not falls.reshape(len(suspects), 2, _FAR.size).any(axis=2).all()


def tail_findings(names: list[str], k: Float[np.ndarray, " k"], is_heavy: np.ndarray) -> list[Finding]:
    """The series with the heaviest tail, if it seems to have no variance."""
    if not is_heavy.any():
        return []
    worst = int(np.argmax(np.where(is_heavy, k, -np.inf)))
    others = int(is_heavy.sum()) - 1
    has_mean = k[worst] <= (_NO_VARIANCE + _NO_MEAN) / 2
    missing = "its variance" if has_mean else "its variance, and perhaps its mean,"
    return [
        Finding(
            Grade.CARE,
            f"the tails of {names[worst]}{f' and of {others:,} others' if others else ''} are so heavy "
            f"(Pareto's k is about {k[worst]:.2g}) that {missing} may not exist: use quantiles",
        )
    ]
