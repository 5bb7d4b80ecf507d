"""What one draw of a network says about one row."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fokker._core.module import Module
from fokker.models.network.posterior import NetworkLogLikelihood


class Predictive(Module):
    """What one draw says about one row: probabilities of classes, or mean and standard deviation of y."""

    likelihood: NetworkLogLikelihood

    def __call__(self, theta: dict[str, PyTree[Array]], x: Array) -> Any:
        """The probabilities, or (mean, deviation)."""
        outputs = self.likelihood.outputs(theta, x)
        if self.likelihood.kind == "categorical":
            return jax.nn.softmax(outputs)
        mean, log_deviation = self.likelihood.mean_and_log_deviation(theta, outputs)
        return mean, jnp.exp(log_deviation)
