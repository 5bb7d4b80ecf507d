"""The bias of the step size, by taking half of it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

if TYPE_CHECKING:
    from fokker.run.trace import Trace

# A bias that matters: a tenth of a standard deviation in the mean, or of the standard deviation itself.
_MATTERS = 0.1
_ROWS = 20


@dataclass(frozen=True)
class StepHalving:
    """What a run changed by when its step was halved, doubled: the bias of a scheme of first order.

    `mean`: bias of each mean in standard deviations; `deviation`: bias of each standard deviation as a share
    of it; `mean_error` and `deviation_error`: standard errors of the two, between chains. `halved` is the run
    with the half step.
    """

    names: list[str]
    mean: np.ndarray
    mean_error: np.ndarray
    deviation: np.ndarray
    deviation_error: np.ndarray
    halved: "Trace"

    @property
    def warnings(self) -> list[str]:
        """Biases that matter and are not noise: beyond 4 standard errors, a false alarm in 15,000 each."""
        found = []
        for what, bias, error in (
            ("mean", self.mean, self.mean_error),
            ("standard deviation", self.deviation, self.deviation_error),
        ):
            sure = (np.abs(bias) > _MATTERS) & (np.abs(bias) > 4 * error)
            if np.any(sure):
                worst = int(np.argmax(np.where(sure, np.abs(bias), 0)))
                found.append(
                    f"halving the step moves the {what} of {self.names[worst]}: its bias is about "
                    f"{bias[worst]:+.2f} standard deviations; take smaller steps"
                )
        return found

    def __str__(self) -> str:
        lines = [
            f"{'':12} {'bias of mean':>18} {'bias of sd':>18}   in standard deviations, ± standard error"
        ]
        for i, name in enumerate(self.names[:_ROWS]):
            lines.append(
                f"{name:12} {self.mean[i]:+9.3f} ± {self.mean_error[i]:.3f} "
                f"{self.deviation[i]:+10.3f} ± {self.deviation_error[i]:.3f}"
            )
        if len(self.names) > _ROWS:
            lines.append(f"… and {len(self.names) - _ROWS} more")
        return "\n".join([*lines, "", *(self.warnings or ["No bias of the step that matters was seen."])])


def step_halving(trace: "Trace") -> StepHalving:
    """Run again with half the step and twice the steps, and compare."""
    if trace.origin is None or trace.draws is None:
        raise ValueError("halving the step needs the draws of a run of fk.sample: keep='draws'.")
    if trace.origin is not None and trace.origin.sampler.is_exact:
        raise ValueError("this sampler corrects for its step, which leaves no bias to be measured.")
    size = trace.settings["step_size"]
    if size is None:
        raise ValueError("this sampler has no step size to be halved.")
    half = (lambda t: size(t / 2) / 2) if callable(size) else jnp.asarray(size) / 2
    steps, burn_in, thin = (2 * trace.settings[name] for name in ("steps", "burn_in", "thin"))
    halved = trace.rerun(step_size=half, steps=steps, burn_in=burn_in, thin=thin)
    names, here = trace.flat()
    there = halved.flat()[1]
    if here.shape[0] < 2:
        raise ValueError("halving the step compares runs by the spread between chains: run at least two.")
    spread = here.std(axis=(0, 1), ddof=1)
    mean, mean_error = _difference(here.mean(axis=1), there.mean(axis=1), spread)
    deviation, deviation_error = _difference(here.std(axis=1), there.std(axis=1), spread)
    return StepHalving(names, mean, mean_error, deviation, deviation_error, halved)


def _difference(a: np.ndarray, b: np.ndarray, unit: np.ndarray) -> tuple[Any, Any]:
    """Twice the difference of the averages over chains, in units, and its standard error."""
    # Chain by chain: the two runs share a seed, and so their chains are alike.
    error = (a - b).std(axis=0, ddof=1) / np.sqrt(len(a))
    return 2 * (a.mean(axis=0) - b.mean(axis=0)) / unit, 2 * error / unit
