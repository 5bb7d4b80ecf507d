"""What a run gathered: draws or moments, and whether to trust them."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from fokker.diagnostics import Summary, summarise
from fokker.report import write_report


@dataclass(frozen=True)
class Trace:
    """The draws of a run.

    `samples`: theta's tree, leading axes chain and draw (None where only moments were kept). `moments`: mean
    and variance of each entry of theta, a chain. `stats`: the kinetic temperature rᵀ∂H/∂r / d and the
    thermostat xi, where the sampler has them, chain by draw. `state`: the last state of every chain.
    `stopped`: why the run ended early, else None.
    """

    samples: PyTree[np.ndarray] | None
    moments: dict[str, PyTree[np.ndarray]] | None
    stats: dict[str, np.ndarray]
    state: Any
    stopped: str | None
    settings: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def gather(
        cls,
        pieces: list[Any],
        moments: Any,
        state: Any,
        stopped: str | None,
        settings: dict[str, Any],
    ) -> "Trace":
        """From the pieces of a run, each with leading axes chain and draw."""
        joined: dict[str, Any] = {}
        if pieces:
            joined = jax.tree.map(lambda *xs: np.concatenate([np.asarray(x) for x in xs], axis=1), *pieces)
            # The draws before the first step that went wrong in any chain.
            sound = joined.pop("sound").all(axis=0)
            good = len(sound) if sound.all() else int(np.argmin(sound))
            joined = jax.tree.map(lambda x: x[:, :good], joined)
        samples = joined.pop("position", None)
        kept = None
        if moments is not None:
            count = np.maximum(np.asarray(moments.count), 2)
            variance = jax.tree.map(
                lambda s: np.asarray(s) / (count - 1).reshape(-1, *[1] * (s.ndim - 1)), moments.squares
            )
            kept = {"mean": jax.tree.map(np.asarray, moments.mean), "variance": variance}
        return cls(samples, kept, joined, state, stopped, settings)

    def to_arviz(self) -> Any:
        """The draws as an ArviZ InferenceData, for its tables and plots."""
        import arviz

        if self.samples is None:
            raise ValueError(self._no_draws("sample with keep='draws' for draws"))
        return arviz.from_dict(posterior=_named(self.samples), sample_stats=dict(self.stats) or None)

    def _no_draws(self, advice: str) -> str:
        if self.moments is None:
            return f"there are no draws: the run was {self.stopped}."
        return f"only moments were kept: {advice}."

    def summary(self) -> Summary:
        """A table of every scalar of theta, and in plain words whether not to trust it."""
        return summarise(self)

    def report(self, path: Any, title: str = "A run of Fokker", extra: Any = ()) -> None:
        """Write the summary, its verdict and pictures as one self-contained HTML page."""
        write_report(self, Path(path), title, extra)


def _named(samples: Any) -> dict[str, np.ndarray]:
    """Leaves by their path; a single array is called theta."""
    leaves = jax.tree.leaves_with_path(samples)
    return {jax.tree_util.keystr(path, simple=True, separator=".") or "theta": leaf for path, leaf in leaves}
