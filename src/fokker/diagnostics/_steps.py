"""Checks of a run by the statistics of its steps."""

from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from fokker.diagnostics._findings import Cause, Finding, Grade, care_or_bad
from fokker.diagnostics._scores import effective_draws
from fokker.diagnostics.noise_share import gradient_noise_share
from fokker.samplers.schedules import step_size_at

if TYPE_CHECKING:
    from fokker.diagnostics._boundary import Boundary
    from fokker.diagnostics.configurational import Spread
    from fokker.run.trace import Trace
    from fokker.samplers import Sampler

# A larger relative error of the kinetic temperature means too large a step, or uncorrected gradient noise.
_TEMPERATURE, _TEMPERATURE_BAD = 0.05, 0.25
# Without a thermostat, minibatch noise widens the spread by its share of the injected noise.
_SHARE, _SHARE_BAD = 0.1, 0.25
# A larger share of diverging steps is a serious problem.
_DIVERGING_BAD = 0.01
# Report a larger share of trajectories cut off at the maximum depth, and a smaller BFMI.
_MANY_DEEP, _LOW_BFMI = 0.05, 0.3
# Draws of each chain at which the noise of a gradient with a moving centre is looked at.
_PLACES = 8


def describe(trace: "Trace", checks: dict[str, float]) -> None:
    """The step size, and what a step of a sampler with a correction did on average."""
    size = trace.settings.get("step_size")
    if size is not None and not callable(size) and np.ndim(size) == 0:
        checks["step size"] = float(size)
    stats = trace.sample_stats
    if "num_integration_steps" in stats:
        checks["integration steps per step"] = float(stats["num_integration_steps"].mean())
    if "energy" in stats:
        checks["energy"] = float(np.asarray(stats["energy"], float).mean())
    if "is_divergent" in stats:
        checks["diverging steps"] = int(np.sum(stats["is_divergent"]))


def kinetic_temperature(
    trace: "Trace", checks: dict[str, float], spread: "Spread | None" = None, is_wrong: bool = False
) -> tuple[list[Finding], list[str]]:
    """Whether the mean of rᵀ∂H/∂r / d is the temperature, up to three standard errors; a finding or a note.

    A step may leave theta exact and the momentum not: BAOAB on a normal has a momentum that is too cold by
    h²/4 and the right theta. Where the spread of theta itself was compared with the target's, and finely
    enough, that decides, and the momentum is only noted; nothing is said of it where theta `is_wrong`, as the
    momentum may be so by the same fault.
    """
    if "kinetic_temperature" not in trace.sample_stats:
        return [], []
    values = np.asarray(trace.sample_stats["kinetic_temperature"], float)
    wanted, mean = trace.settings.get("temperature", 1.0), float(values.mean())
    checks["kinetic temperature"] = mean
    error = values.std() / np.sqrt(max(1.0, float(np.nan_to_num(effective_draws(values[:, :, None])[0]))))
    if abs(mean - wanted) <= _TEMPERATURE * wanted + 3 * error:
        return [], []
    text = f"the kinetic temperature is {mean:.3g} instead of {wanted:.3g}"
    if spread is not None and spread.judged.any() and spread.detectable[1] <= _TEMPERATURE_BAD:
        return [], [] if is_wrong else [
            f"{text}; this concerns the momentum only: theta itself was compared with the target"
        ]
    is_bad = not abs(mean - wanted) <= _TEMPERATURE_BAD * wanted
    cause = "the step is too large, or the gradient's noise is too strong for the friction"
    return [Finding(care_or_bad(is_bad), f"{text}: {cause}", Cause.LARGE_STEPS)], []


def noise_share(trace: "Trace", checks: dict[str, float]) -> list[Finding]:
    """Whether minibatches add noise that is not corrected for."""
    assert trace.origin is not None
    sampler = trace.origin.sampler
    states = trace.state
    if trace.losses:
        states = jax.tree.map(lambda x: x[np.asarray(trace.chains)], states)
    share = gradient_noise_share(
        sampler,
        states,
        trace.origin.batches,
        positions=_recent_positions(trace),
        repeats=trace.origin.batch_repeats,
    )
    if share is None:
        return []
    checks["gradient noise over injected noise"] = share
    larger_batches = "larger batches" + (
        ", a smaller batch_repeats" if trace.origin.batch_repeats > 1 else ""
    )
    if share <= _SHARE:
        return []
    if sampler.absorbs_noise(trace.state):
        return _slow_noise(sampler, states, share, trace.origin.batch_repeats)
    return [
        Finding(
            care_or_bad(not share <= _SHARE_BAD),
            f"the noise of the minibatches is {share:.2g} times the injected noise and widens the "
            f"distribution: take smaller steps, {larger_batches}, control variates, a noise_estimate, or a "
            "thermostat",
            Cause.LARGE_STEPS,
        )
    ]


def _slow_noise(sampler: "Sampler", states: Any, share: float, repeats: int) -> list[Finding]:
    """Whether steps share a batch for too long for a thermostat: it absorbs noise that is new at every step.

    Its friction ξ makes the kinetic temperature right. A momentum forgets in the time 1/ξ, and noise that
    stays the same for τ = rε adds less to it than to theta: where there is `share` of it per white noise, the
    variance of theta is too large by share/(1 + share) · ξτ/3, to first order in ξτ.
    """
    frictions = getattr(states, "z", {}).get("xi")
    if repeats == 1 or frictions is None:
        return []
    leaves = [np.asarray(x) for x in jax.tree.leaves(frictions)]
    # Of a matrix its diagonal.
    each = [
        np.diagonal(x, axis1=1, axis2=2) if x.ndim == 3 and x.shape[1] == x.shape[2] else x for x in leaves
    ]
    friction = np.mean(np.concatenate([np.ravel(x) for x in each]))
    size: Any = sampler.own_step_size
    step_size = float(np.mean(step_size_at(size, states.step)))
    error = float(share / (1 + share) * friction * step_size * repeats / 3)
    if error <= _SHARE:
        return []
    return [
        Finding(
            care_or_bad(not error <= _SHARE_BAD),
            f"{repeats:,} steps share a batch, which is long for what the momentum remembers: the thermostat "
            f"absorbs their noise in part, and the variance is about {100 * error:.0f} % too large. Take a "
            "smaller batch_repeats, larger batches, or smaller steps",
            Cause.LARGE_STEPS,
        )
    ]


def _recent_positions(trace: "Trace") -> Any:
    """Draws at which an estimator with a moving centre has its noise: chain × draw; None for others.

    It is zero at the centre and grows until the centre moves, every `every` steps: the last state is anywhere
    between. The draws of that many steps before the centre was last moved are as far from it as those that
    follow, as the chain is the same in both directions of time.
    """
    estimator = trace.sampler.gradient_estimator
    every = None if estimator is None else estimator.every
    thin = int(trace.settings.get("thin", 1))
    if every is None or trace.draws is None or every < 2 * thin:
        return None
    draws = jax.tree.leaves(trace.draws)[0].shape[1]
    end = draws - (int(np.max(np.asarray(trace.state.step, float))) % every) // thin
    places = np.unique(np.linspace(max(0, end - every // thin), max(0, end - 1), _PLACES).astype(int))
    return jax.tree.map(lambda x: np.asarray(x)[:, places], trace.positions)


def has_divergences(trace: "Trace") -> bool:
    """Whether steps of a sampler with a correction diverged."""
    return "is_divergent" in trace.sample_stats and bool(np.any(trace.sample_stats["is_divergent"]))


def _divergences(stats: dict[str, np.ndarray], boundary: "Boundary | None") -> Finding:
    number, steps = int(np.sum(stats["is_divergent"])), stats["is_divergent"].size
    if boundary is not None and boundary.is_end:
        return Finding(
            Grade.CARE,
            f"{number:,} of {steps:,} steps diverged or were refused beyond a boundary: {boundary}. Refusing "
            "them is right but slow, and hides steps that diverged for another reason; a transform "
            "(fk.constrain) would remove the boundary",
        )
    return Finding(
        care_or_bad(number > max(2, _DIVERGING_BAD * steps)),
        f"{number:,} of {steps:,} steps diverged: in some regions the step is too large, and the "
        "draws may miss parts of the target. Reparametrise the model (non-centred), or take "
        "smaller steps: a smaller step_size if you gave one, else a higher "
        "target_accept, as in fk.samplers.nuts(target_accept=0.95)",
        Cause.STIFFNESS,
    )


def decisions(trace: "Trace", checks: dict[str, float], boundary: "Boundary | None" = None) -> list[Finding]:
    """Divergences, trajectories cut off, and low BFMI, for samplers with a correction."""
    findings, stats = [], trace.sample_stats
    if "acceptance_rate" in stats:
        checks["mean acceptance"] = float(stats["acceptance_rate"].mean())
    if "is_divergent" in stats and np.any(stats["is_divergent"]):
        findings.append(_divergences(stats, boundary))
    deepest = None if trace.sampler is None else trace.sampler.max_tree_depth
    if "tree_depth" in stats and deepest is not None:
        share = float(np.mean(stats["tree_depth"] >= int(deepest)))
        if share > _MANY_DEEP:
            findings.append(
                Finding(
                    Grade.CARE,
                    f"{100 * share:.0f} % of the trajectories were cut off at the maximum depth, "
                    f"{int(deepest)}: the scales of the parameters differ too much (mass_matrix='dense' or "
                    "'low-rank'), or the target is improper",
                )
            )
    if "tree_depth" in stats and stats["energy"].shape[1] > 1:
        smallest = float(bfmi(np.asarray(stats["energy"], float)).min())
        if smallest < _LOW_BFMI:
            findings.append(
                Finding(
                    Grade.CARE,
                    f"the energy changes slowly (BFMI {smallest:.2f}, below {_LOW_BFMI}): the target has "
                    "heavy tails or a funnel; reparametrise the model",
                    Cause.STIFFNESS,
                )
            )
    return findings


def bfmi(energy: np.ndarray) -> np.ndarray:
    """BFMI: the variance of the energy that a new momentum adds, over that of the chain (Betancourt 2016)."""
    energy = np.asarray(energy, float)
    spread = np.maximum(np.var(energy, axis=1), 1e-30)
    return np.mean(np.diff(energy, axis=1) ** 2, axis=1) / spread
