r"""The posterior over weights: priors by layer, three likelihoods, and which part is sampled.

U(θ) = -Σ_i log p(y_i | f(θ, x_i)) + Σ_l |θ_l|²/(2 s_l²)
"""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fokker._core.module import Module
from fokker._core.names import nearest
from fokker._core.this_chain import in_this_chain
from fokker.models.checks import is_number
from fokker.models.network.last_layer import UnknownLastLayerError
from fokker.models.network.networks import Apply, paths

# s_l² = FAN_IN/m for weights with m inputs, and s_l for those of the last layer of a classifier.
FAN_IN, LAST = 2.0, 2.0
# Whether each leaf of the parameters belongs to the last layer: traced only where someone asks.
LastLayer = Callable[[], list[bool]]
# Standard deviations of the prior, and which parameters are sampled, as users give them.
Prior = float | str | Mapping[str, float | str]
Sampled = str | Sequence[str] | Callable[[str], bool]
LIKELIHOODS = ("categorical", "gaussian", "heteroscedastic")
# log σ of a learned noise, in units of the standard deviation of y, is N(-1, 1): σ between 0.05 and 2.7.
LOG_NOISE_MEAN, LOG_NOISE_DEVIATION = -1.0, 1.0
# A column of the data: the chains whose posterior has the row, by their place. Without it all have all rows.
FITTED = "fitted"


def prior_scales(
    prior: Prior, params: PyTree[Array], output_axis: int, last: LastLayer | None = None
) -> PyTree[float]:
    r"""The standard deviation s_l of the Gaussian prior of every leaf.

    A number s: s for all. "fan-in": s_l = √(2/m) for a weight array with m inputs per output, the scale at
    which a ReLU layer keeps the mean square of its inputs (He et al. 2015), and 1 for arrays of one axis, the
    biases. The weights of the `last` layer, given for a classifier, have 2, so that it can be certain. A
    mapping: from a part of the path of a leaf to one of these; the first that matches counts, and "fan-in" if
    none does.
    """
    leaves, structure = jax.tree.flatten(params)
    names = paths(params)
    choices = dict(prior) if isinstance(prior, Mapping) else {"": prior}
    for pattern, scale in choices.items():
        _check_scale(scale, pattern)
        if not any(pattern in name for name in names):
            raise ValueError(
                f"prior names {pattern!r}, which is a part of no parameter's path; the paths are "
                f"{', '.join(names)}."
            )
    scales = [
        next((scale for pattern, scale in choices.items() if pattern in name), "fan-in") for name in names
    ]
    is_last = _last_or_none(last, names) if last is not None and "fan-in" in scales else [False] * len(names)
    by_size = [
        _fan_in_scale(leaf.shape, output_axis, is_in_last)
        for leaf, is_in_last in zip(leaves, is_last, strict=True)
    ]
    return jax.tree.unflatten(
        structure, [float(a if s == "fan-in" else s) for s, a in zip(scales, by_size, strict=True)]
    )


def _last_or_none(last: LastLayer, names: Sequence[str]) -> list[bool]:
    """The last layer, or none with a warning where it cannot be determined."""
    try:
        return last()
    except UnknownLastLayerError as error:
        warnings.warn(
            f"the last layer of this network cannot be determined: {error}. Its weights have the same prior "
            "as the others, √(2/inputs), and not 2 as in other classifiers: give prior as a mapping from its "
            f"path to a number. The paths are {', '.join(names)}.",
            stacklevel=5,
        )
        return [False] * len(names)


def _check_scale(scale: object, pattern: str) -> None:
    if scale == "fan-in" if isinstance(scale, str) else is_number(scale) and scale > 0:
        return
    where = f" for {pattern!r}" if pattern else ""
    raise ValueError(
        f"prior is a standard deviation above 0, 'fan-in', or a mapping from parts of paths to these; "
        f"{scale!r} was given{where}."
    )


def _fan_in_scale(shape: tuple[int, ...], output_axis: int, is_in_last: bool) -> float:
    if len(shape) < 2:
        return 1.0
    return LAST if is_in_last else math.sqrt(FAN_IN * shape[output_axis] / math.prod(shape))


def sampled_leaves(sampled: Sampled, params: PyTree[Array], last: LastLayer) -> PyTree[bool]:
    """Which leaves are sampled: "all", "last", parts of paths, or a predicate of the path."""
    names, structure = paths(params), jax.tree.structure(params)
    if isinstance(sampled, str) and sampled == "all":
        chosen = [True] * len(names)
    elif isinstance(sampled, str) and sampled == "last":
        try:
            chosen = last()
        except UnknownLastLayerError as error:
            raise ValueError(
                f"sampled='last', but the last layer of this network cannot be determined: {error}. Give "
                f"sampled as parts of paths, of {', '.join(names)}."
            ) from error
    elif callable(sampled):
        chosen = [bool(sampled(name)) for name in names]
    else:
        patterns = [sampled] if isinstance(sampled, str) else sampled
        if not isinstance(patterns, Sequence) or not all(isinstance(p, str) for p in patterns):
            raise TypeError(
                "sampled is 'all', 'last', a part of a parameter's path, a list of these, or a function of "
                f"the path; {sampled!r} was given."
            )
        chosen = [any(pattern in name for pattern in patterns) for name in names]
    if not any(chosen):
        raise ValueError(f"sampled={sampled!r} selects no parameter; the paths are {', '.join(names)}.")
    return jax.tree.unflatten(structure, chosen)


class NetworkLogPrior(Module):
    """-Σ_l |θ_l|²/(2 s_l²), and the prior of log σ where the noise is learned."""

    scales: PyTree[float]

    def __call__(self, theta: dict[str, PyTree[Array]]) -> Array:
        """The log density, up to a constant."""
        squares = jax.tree.map(lambda x, s: jnp.sum((x / s) ** 2), theta["weights"], self.scales)
        total = -jnp.sum(jnp.stack(jax.tree.leaves(squares))) / 2
        if "log_noise" in theta:
            z = (theta["log_noise"] - LOG_NOISE_MEAN) / LOG_NOISE_DEVIATION
            total = total - jnp.sum(z**2) / 2
        return total


class Outputs(Module):
    """The network's outputs for one row: sampled weights from theta, the others as they were."""

    apply: Apply
    fixed: PyTree[Array | None]

    def __call__(self, theta: dict[str, PyTree[Array]], x: Array) -> Array:
        """f(θ, x)."""
        return self.apply(eqx.combine(theta["weights"], self.fixed), x)


class NetworkLogLikelihood(Module):
    """log p(y | f(θ, x)) of one row."""

    outputs: Outputs
    kind: str = eqx.field(static=True)
    noise_scale: Any = None

    def __call__(self, theta: dict[str, PyTree[Array]], datum: dict[str, Array]) -> Array:
        """The log density of one row, or 0 where the chain does not fit it."""
        value = self.of_row(theta, datum)
        # Not a factor: 0 times what is not finite would be NaN.
        return jnp.where(in_this_chain(datum[FITTED]), value, 0) if FITTED in datum else value

    def of_row(self, theta: dict[str, PyTree[Array]], datum: dict[str, Array]) -> Array:
        """The log density of one row."""
        f = self.outputs(theta, datum["x"])
        if self.kind == "categorical":
            return jax.nn.log_softmax(f)[datum["y"]]
        mean, log_deviation = self.mean_and_log_deviation(theta, f)
        z = (datum["y"] - mean) * jnp.exp(-log_deviation)
        return -jnp.sum(z**2 / 2 + log_deviation + math.log(2 * math.pi) / 2)

    def mean_and_log_deviation(self, theta: dict[str, PyTree[Array]], f: Array) -> tuple[Array, Array]:
        """Mean and log standard deviation of y, from the outputs of the network."""
        if self.kind == "heteroscedastic":
            half = f.shape[-1] // 2
            return f[..., :half], f[..., half:] / 2
        if "log_noise" in theta:
            return f, jnp.broadcast_to(theta["log_noise"], f.shape)
        return f, jnp.broadcast_to(jnp.log(jnp.asarray(self.noise_scale, f.dtype)), f.shape)


def check_likelihood(likelihood: object) -> None:
    """Raise unless it is one of the three."""
    if likelihood not in LIKELIHOODS:
        raise ValueError(
            f"likelihood is one of {', '.join(LIKELIHOODS)}, not {likelihood!r}."
            f"{nearest(str(likelihood), LIKELIHOODS)}"
        )
