"""A classic posterior: a target, where to start, and known moments."""

import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from jaxtyping import Array, Key, PyTree

from fokker.targets.target import Target


@dataclass(frozen=True)
class ClassicPosterior:
    """A target with what is known of it.

    `init` draws theta for a chain from a key, wider than the posterior, as `fk.sample(init=…)` takes it.
    `reference` has mean and standard deviation of scalars of theta by the names of `fk.Trace.flat`, and
    `source` says where they come from.
    """

    name: str
    target: Target
    init: Callable[[Key[Array, ""]], PyTree[Array]]
    reference: Mapping[str, tuple[float, float]] = field(repr=False)
    source: str


def with_reference(
    name: str, target: Target, init: Callable[[Key[Array, ""]], PyTree[Array]]
) -> ClassicPosterior:
    """The posterior with the moments that `benchmarks/references.py` computed for it."""
    # A new model has none yet: that script computes it.
    stored = stored_references().get(name, {"source": "not computed yet", "scalars": {}})
    reference = {scalar: (moments["mean"], moments["sd"]) for scalar, moments in stored["scalars"].items()}
    return ClassicPosterior(name, target, init, reference, stored["source"])


@functools.cache
def stored_references() -> dict[str, Any]:
    """`references.json`: by posterior the moments, their Monte Carlo errors, and where they come from."""
    file = resources.files("fokker.posteriors") / "references.json"
    return json.loads(file.read_text()) if file.is_file() else {}
