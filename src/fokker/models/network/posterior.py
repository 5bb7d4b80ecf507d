r"""The posterior over weights: priors by layer, three likelihoods, and which part is sampled.

U(θ) = -Σ_i log p(y_i | f(θ, x_i)) + Σ_l |θ_l|²/(2 s_l²)
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from fokker._core.module import Module
from fokker._core.state import nearest
from fokker.models.network.networks import paths

# s_l² = FAN_IN/m for weights with m inputs. Twice the scale of initial weights, as trained ones are larger.
FAN_IN = 8.0
LIKELIHOODS = ("categorical", "gaussian", "heteroscedastic")
# log σ of a learnt noise, in units of the standard deviation of y, is N(-1, 1): σ between 0.05 and 2.7.
LOG_NOISE_MEAN, LOG_NOISE_DEVIATION = -1.0, 1.0


def prior_scales(
    prior: Any, params: PyTree[Array], output_axis: int, logits: int | None = None
) -> PyTree[float]:
    r"""The standard deviation s_l of the Gaussian prior of every leaf.

    A number s: s for all. "fan-in": s_l = √(8/m) for a weight array with m inputs per output, twice the scale
    at which a ReLU layer keeps the mean square of its inputs (He et al. 2015), and 1 for arrays of one axis,
    the biases. The last layer of a classifier, with `logits` outputs, has 1, so that it can be certain. A
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
    last = None if logits is None else _last_layer(params, logits)
    scales = []
    for name, leaf in zip(names, leaves, strict=True):
        scale = next((scale for pattern, scale in choices.items() if pattern in name), "fan-in")
        if scale == "fan-in":
            scale = 1.0 if _layer(name) == last else _fan_in_scale(leaf.shape, output_axis)
        scales.append(float(scale))
    return jax.tree.unflatten(structure, scales)


def _check_scale(scale: Any, pattern: str) -> None:
    is_number = isinstance(scale, int | float | np.number) and not isinstance(scale, bool)
    if scale == "fan-in" if isinstance(scale, str) else is_number and scale > 0 and math.isfinite(scale):
        return
    where = f" for {pattern!r}" if pattern else ""
    raise ValueError(
        f"prior is a standard deviation above 0, 'fan-in', or a mapping from parts of paths to these; "
        f"{scale!r} was given{where}."
    )


def _fan_in_scale(shape: tuple[int, ...], output_axis: int) -> float:
    if len(shape) < 2:
        return 1.0
    return math.sqrt(FAN_IN * shape[output_axis] / math.prod(shape))


def sampled_leaves(sampled: Any, params: PyTree[Array], outputs: int) -> PyTree[bool]:
    """Which leaves are sampled: "all", "last", parts of paths, or a predicate of the path."""
    names, structure = paths(params), jax.tree.structure(params)
    if isinstance(sampled, str) and sampled == "all":
        chosen = [True] * len(names)
    elif isinstance(sampled, str) and sampled == "last":
        last = _last_layer(params, outputs)
        if last is None:
            raise ValueError(
                f"no weights of this network have {outputs} outputs, so that its last layer is unknown: give "
                f"sampled as parts of paths, of {', '.join(names)}."
            )
        chosen = [_layer(name) == last for name in names]
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


def _layer(name: str) -> str:
    """The path of the layer that a parameter belongs to; NNX has a .value at the end of every path."""
    return name.removesuffix(".value").rpartition(".")[0]


def _last_layer(params: PyTree[Array], outputs: int) -> str | None:
    """The last layer by its name, among those whose weights have as many outputs as the network."""

    def natural(name: str) -> list[Any]:
        return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", name)]

    leaves = zip(paths(params), jax.tree.leaves(params), strict=True)
    layers = {
        _layer(name) for name, leaf in leaves if leaf.ndim >= 2 and outputs in (leaf.shape[0], leaf.shape[-1])
    }
    return max(layers, key=natural, default=None)


class LogPrior(Module):
    """-Σ_l |θ_l|²/(2 s_l²), and the prior of log σ where the noise is learnt."""

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

    apply: Callable[[PyTree[Array], Array], Array]
    fixed: PyTree[Array | None]

    def __call__(self, theta: dict[str, PyTree[Array]], x: Array) -> Array:
        """f(θ, x)."""
        return self.apply(eqx.combine(theta["weights"], self.fixed), x)


class LogLikelihood(Module):
    """log p(y | f(θ, x)) of one row."""

    outputs: Outputs
    kind: str = eqx.field(static=True)
    noise_scale: Any = None

    def __call__(self, theta: dict[str, PyTree[Array]], datum: dict[str, Array]) -> Array:
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


def check_likelihood(likelihood: Any) -> None:
    """Raise unless it is one of the three."""
    if likelihood not in LIKELIHOODS:
        raise ValueError(
            f"likelihood is one of {', '.join(LIKELIHOODS)}, not {likelihood!r}."
            f"{nearest(str(likelihood), LIKELIHOODS)}"
        )
