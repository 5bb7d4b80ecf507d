"""The weights of a fitted network as arrays, and back."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from fokker.models.network.networks import Functional, check_draws, numbered, state_arrays, with_state_arrays


def weights_state(
    network: Functional, draws: Mapping[str, PyTree[Array]], fixed: PyTree[Array]
) -> dict[str, np.ndarray]:
    """The draws, the weights that are not sampled, and what the network has beside weights."""
    by_prefix: dict[str, dict[int, Any]] = {
        "draws": numbered(draws["weights"]),
        "fixed": numbered(fixed),
        "network": dict(enumerate(state_arrays(network.apply))),
    }
    arrays = {f"{prefix}.{i}": np.asarray(x) for prefix, of in by_prefix.items() for i, x in of.items()}
    return {**arrays, "log_noise": np.asarray(draws["log_noise"])} if "log_noise" in draws else arrays


def restored_weights(
    network: Functional, arrays: Mapping[str, np.ndarray]
) -> tuple[Functional, dict[str, Any], PyTree[Array], PyTree[bool]]:
    """Of a `weights_state`: the network, the draws, the fixed weights, and which are sampled."""
    check_draws(network.first_start, arrays)
    stored = [arrays[f"network.{i}"] for i in range(sum(name.startswith("network.") for name in arrays))]
    network = replace(network, apply=with_state_arrays(network.apply, stored))
    leaves, structure = jax.tree.flatten(network.first_start)

    def tree(prefix: str) -> PyTree[Array]:
        stored = [arrays.get(f"{prefix}.{i}") for i in range(len(leaves))]
        return jax.tree.unflatten(structure, [None if x is None else jnp.asarray(x) for x in stored])

    draws = {"weights": tree("draws")}
    if "log_noise" in arrays:
        draws["log_noise"] = jnp.asarray(arrays["log_noise"])
    chosen = jax.tree.unflatten(structure, [f"draws.{i}" in arrays for i in range(len(leaves))])
    return network, draws, tree("fixed"), chosen
