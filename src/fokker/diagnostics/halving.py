"""The bias of the step size, estimated by halving it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from fokker._core.digits import with_error

if TYPE_CHECKING:
    from fokker.run.trace import Trace

# A relevant bias: a tenth of a standard deviation in the mean or in the standard deviation.
_RELEVANT = 0.1
# A bias is reported beyond this many standard errors.
_STANDARD_ERRORS = 4
_ROWS = 20


@dataclass(frozen=True)
class StepHalving:
    """Twice the change of a run when its step is halved: the bias of a first-order scheme.

    `mean`: bias of each mean in standard deviations. `deviation`: relative bias of each standard deviation.
    `mean_error` and `deviation_error`: standard errors of the two, between chains. `halved`: the run with
    half the step.
    """

    names: list[str]
    mean: np.ndarray
    mean_error: np.ndarray
    deviation: np.ndarray
    deviation_error: np.ndarray
    halved: "Trace"

    @property
    def warnings(self) -> list[str]:
        """Relevant biases beyond 4 standard errors, which has a false-alarm rate of 1 in 15,000 each."""
        messages = []
        for what, bias, error in (
            ("mean", self.mean, self.mean_error),
            ("standard deviation", self.deviation, self.deviation_error),
        ):
            significant = (np.abs(bias) > _RELEVANT) & (np.abs(bias) > _STANDARD_ERRORS * error)
            if np.any(significant):
                worst = int(np.argmax(np.where(significant, np.abs(bias), 0)))
                messages.append(
                    f"halving the step changes the {what} of {self.names[worst]}: its bias is about "
                    f"{bias[worst]:+.2f} standard deviations; take smaller steps"
                )
        return messages

    def __str__(self) -> str:
        lines = [
            f"{'':12} {'bias of mean':>18} {'bias of sd':>18}   in standard deviations, ± standard error"
        ]
        for i, name in enumerate(self.names[:_ROWS]):
            lines.append(
                f"{name:12} {with_error(self.mean[i], self.mean_error[i], '+'):>18} "
                f"{with_error(self.deviation[i], self.deviation_error[i], '+'):>18}"
            )
        if len(self.names) > _ROWS:
            lines.append(f"… and {len(self.names) - _ROWS} more")
        return "\n".join([*lines, "", *(self.warnings or [self._no_warning])])

    @property
    def _no_warning(self) -> str:
        """How little the step changes, and that other biases may be there."""
        errors = (float(np.nanmax(error, initial=0.0)) for error in (self.mean_error, self.deviation_error))
        mean, deviation = (max(_RELEVANT, _STANDARD_ERRORS * error) for error in errors)
        return (
            f"Halving the step changes no mean by more than {mean:.2g} standard deviations and no spread by "
            f"more than {100 * deviation:.0f} %. A bias that does not depend on the step, as of a wrong "
            "gradient or a forgotten prior, does not show here; trace.summary() looks for it."
        )


def step_halving(trace: "Trace") -> StepHalving:
    """Compare a run with one that has half the step size and twice the steps; `trace.step_halving()`.

    Arguments:

    - `trace`: a run of `fk.sample` with `keep="draws"` and at least two chains, by a sampler with a step size
      that leaves a bias.

    Returns a `StepHalving`.

    ```python
    trace = fk.sample(target, fk.samplers.sgld(0.1), init=jnp.zeros(2), steps=1000)
    print(fk.diagnostics.step_halving(trace))
    ```
    """
    if trace.origin is None or trace.draws is None:
        raise ValueError("halving the step needs the draws of a run of fk.sample: keep='draws'.")
    if trace.origin.sampler.is_exact:
        raise ValueError("this sampler corrects for its step size, so that there is no bias to measure.")
    size = trace.settings["step_size"]
    if size is None:
        raise ValueError("this sampler has no step size.")
    half = (lambda t: size(t / 2) / 2) if callable(size) else jnp.asarray(size) / 2
    steps, burn_in, thin = (2 * trace.settings[name] for name in ("steps", "burn_in", "thin"))
    halved = trace.rerun(step_size=half, steps=steps, burn_in=burn_in, thin=thin)
    names, draws = trace.flat()
    # Chains that were not stopped in either run, each with its own.
    both = [chain for chain in trace.chains if chain in halved.chains]
    draws = draws[[trace.chains.index(chain) for chain in both]]
    halved_draws = halved.flat()[1][[halved.chains.index(chain) for chain in both]]
    if draws.shape[0] < 2:
        raise ValueError("halving the step needs the spread between chains: run at least two chains.")
    spread = draws.std(axis=(0, 1), ddof=1)
    mean, mean_error = _difference(draws.mean(axis=1), halved_draws.mean(axis=1), spread)
    deviation, deviation_error = _difference(draws.std(axis=1), halved_draws.std(axis=1), spread)
    return StepHalving(names, mean, mean_error, deviation, deviation_error, halved)


def _difference(a: np.ndarray, b: np.ndarray, unit: np.ndarray) -> tuple[Any, Any]:
    """Twice the difference of the averages over chains, in units, and its standard error."""
    # Compared chain by chain: the two runs share a seed, so that their chains are correlated.
    error = (a - b).std(axis=0, ddof=1) / np.sqrt(len(a))
    return 2 * (a.mean(axis=0) - b.mean(axis=0)) / unit, 2 * error / unit
