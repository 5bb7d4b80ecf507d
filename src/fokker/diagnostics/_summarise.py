"""The summary of a trace: of each scalar, of directions and leaves if there are many, or of moments."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fokker._core.draws import scalars_per_draw, shape_of_draws
from fokker._core.labels import named_leaves
from fokker.diagnostics import _many, _steps
from fokker.diagnostics._agreement import R_HAT, chance_r_hat
from fokker.diagnostics._arrival import arrival_findings
from fokker.diagnostics._checked import checked_text, repeated_with_half
from fokker.diagnostics._convergence import Context, Statistics, agreement_of, convergence, have_mixed
from fokker.diagnostics._findings import Cause, Finding, Grade
from fokker.diagnostics._gradients import log_densities
from fokker.diagnostics._projections import DIRECTIONS, LeafMoments, Projections, leaf_of_moments, project
from fokker.diagnostics._quantities import MOST_SCALARS, Quantities, as_quantities, none_of
from fokker.diagnostics._spread import Comparison, by_gradients, is_of_stream, target_of, why_not_compared
from fokker.diagnostics._tails import heavy_tails, tail_findings
from fokker.diagnostics.halving import step_halving
from fokker.diagnostics.summary import QUANTILES, LeafRow, Summary

if TYPE_CHECKING:
    from fokker.diagnostics.configurational import Spread
    from fokker.run.trace import Trace

# Series that are kept for a figure, the fewest draws of a summary, and the most names in a note.
_FIGURES, _FEWEST, _NAMED = 6, 8, 5


def summarise(
    trace: "Trace",
    quantities: Any = None,
    gradients: bool = True,
    halving: bool = False,
    probabilities: Sequence[float] = QUANTILES,
) -> Summary:
    """Moments, quantiles, split R-hat and effective draws of what is judged, and the problems found.

    It is what `trace.summary()` calls.

    Arguments:

    - `trace`: a run, with at least 8 draws per chain, or with moments alone.
    - `quantities`, `gradients`: as for `trace.summary`.
    - `halving`: its `step_halving`.
    - `probabilities`: its `quantiles`.

    Returns a `Summary`.

    ```python
    trace = fk.sample(target, fk.samplers.sgld(0.1), init=jnp.zeros(2), steps=1000)
    print(fk.diagnostics.summarise(trace, probabilities=(0.25, 0.5, 0.75)))
    ```
    """
    probabilities = checked_probabilities(probabilities)
    if trace.draws is None and trace.moments is not None:
        return _of_moments(trace, quantities)
    draws = shape_of_draws(trace.samples)[1]
    if draws < _FEWEST:
        remedy = "take more steps" if trace.stopped is None else f"the run ended early: {trace.stopped}"
        raise ValueError(f"{draws} draws per chain are too few for a summary; {remedy}.")
    own = as_quantities(quantities, trace.samples)
    has_many = scalars_per_draw(trace.samples) > MOST_SCALARS
    summary = (_of_many if has_many else _of_scalars)(trace, own, gradients, halving, probabilities)
    if trace.settings.get("temperature", 1.0) == 0:
        text = "at temperature 0 this is an optimiser: there is no distribution, and the draws are a path"
        return replace(summary, findings=[*_of_run(trace), Finding(Grade.CARE, text)], notes=[])
    return summary


def checked_probabilities(probabilities: Sequence[float]) -> tuple[float, ...]:
    """The probabilities of quantiles; raise unless each is between 0 and 1."""
    try:
        values = np.atleast_1d(np.asarray(probabilities, float))
    except (TypeError, ValueError):
        values = np.zeros(0)
    if values.ndim != 1 or not values.size or not np.all((values >= 0) & (values <= 1)):
        raise ValueError(
            "quantiles must be probabilities between 0 and 1, as in 0.05, 0.5, 0.95; "
            f"{probabilities!r} was given."
        )
    return tuple(values.tolist())


def _of_scalars(
    trace: "Trace", own: Quantities, gradients: bool, halving: bool, probabilities: tuple[float, ...]
) -> Summary:
    samples = Quantities(*trace.flat())
    table = samples.joined(own)
    # The entries of a simplex or a Cholesky factor cannot all vary: judge the unconstrained coordinates.
    free = Quantities(*trace.flat_positions())
    is_same = free.values.shape == samples.values.shape and np.array_equal(free.values, samples.values)
    # What the table shows is judged too, so that no number in it contradicts the verdict. A quantity of the
    # user's own may be constant though theta moves, as the entries of a matrix can be.
    others = own if is_same else table
    judged = free.joined(others.without(others.constants() | trace.constants()))
    statistics = Statistics.of(judged.values)
    agreement = agreement_of(judged.values, statistics.r_hat)
    checks: dict[str, float] = {}
    findings = _of_steps(trace, checks)
    comparison = _not_compared(trace, gradients)
    if not comparison.reason and np.isfinite(free.values).all():
        comparison = by_gradients(
            trace, _least(statistics), checks, have_mixed=have_mixed(agreement), names=free.names
        )
    findings, notes = _biases(trace, findings, comparison, checks)
    context = _context(trace, findings, comparison, len(free.names))
    findings += convergence(*judged, agreement, statistics.effective, context)
    findings += _halved(trace, halving)
    shown = statistics if judged.names == table.names else Statistics.of(table.values)
    findings += _arrival_or_tails(trace, judged, statistics.tail, comparison.exponents)
    # That of the table, in which a reader looks for it: those of the unconstrained numbers differ from it.
    least = float(np.nanmin(shown.effective)) if np.isfinite(shown.effective).any() else _least(statistics)
    checked = checked_text(statistics, least, agreement, comparison.spread, trace, halving)
    notes += [*_notes(trace, comparison.spread), *_not_judged(own)]
    of_user = slice(len(samples.names), None)
    return _summary(table, shown, findings, checks, notes, checked, probabilities, own=of_user)


def _arrival_or_tails(
    trace: "Trace", judged: Quantities, tail: np.ndarray, exponents: np.ndarray | None = None
) -> list[Finding]:
    """Whether first draws were made on the way to the target; else whether tails are heavy, as those look."""
    thin, burn_in = (int(trace.settings.get(name, least)) for name, least in (("thin", 1), ("burn_in", 0)))
    arrival = arrival_findings(list(judged.names), judged.values, thin, burn_in)
    return arrival or tail_findings(judged.names, *heavy_tails(judged.values, tail, exponents))


def _of_many(
    trace: "Trace", own: Quantities, gradients: bool, halving: bool, probabilities: tuple[float, ...]
) -> Summary:
    positions, chains = trace.positions, shape_of_draws(trace.samples)[0]
    table = project(named_leaves(trace.samples), trace.labels)
    free = table if positions is trace.samples else project(named_leaves(positions), trace.labels)
    fixed = trace.fixed_entries() if free is table else {}
    checks: dict[str, float] = {}
    findings = _of_steps(trace, checks)
    unusable = _many.unusable_scalars(free.leaves, fixed)
    comparison = _not_compared(trace, gradients, has_many=True)
    can_compare = not comparison.reason and not unusable
    density = none_of(positions)
    if can_compare:
        assert trace.origin is not None
        name, values = log_densities(target_of(trace.origin), positions)
        density = Quantities([name], values[:, :, None].astype(float))
    directions = _many.directions(free).without(trace.constants() if fixed else frozenset())
    own_judged = own.without(own.constants())
    judged = density.joined(own_judged, directions)
    statistics = Statistics.of(judged.values)
    least = _least(statistics)
    agreement = agreement_of(judged.values, statistics.r_hat)
    if can_compare:
        comparison = by_gradients(trace, least, checks, free, have_mixed(agreement))
    findings, notes = _biases(trace, findings, comparison, checks)
    half = shape_of_draws(trace.samples)[1] // 2
    allowed = _many.allowed_r_hat(2 * chains, least, half, free.size)
    if not unusable:
        context = _context(trace, findings, comparison, 0)
        unusable = convergence(*judged, agreement, statistics.effective, context)
        unusable += _arrival_or_tails(trace, judged, statistics.tail)
        if chains > 1 and not any("R-hat" in finding.text for finding in unusable):
            unusable += _many.disagreeing_scalars(free.leaves, allowed)
    findings += [*unusable, *_halved(trace, halving)]
    by_chance = chance_r_hat(2 * chains, np.array([least / (2 * chains)]), half, len(judged.names))
    of_directions = max(R_HAT, float(by_chance[0]))
    notes += [*_notes(trace, comparison.spread), *_not_judged(own)]
    notes.append(_many.limits(free, of_directions, allowed))
    shown = len(judged.names) - len(directions.names)
    of_leaves = Statistics(*(x[shown:] for x in statistics))
    if free is not table or fixed:
        of_leaves = Statistics.of(_many.directions(table).values)
    leaves = _leaf_rows(table, of_leaves)
    least = min(least, *(row.effective for row in leaves if np.isfinite(row.effective)))
    checked = checked_text(statistics, least, agreement, comparison.spread, trace, halving)
    return _summary(
        judged, statistics, findings, checks, notes, checked, probabilities, leaves, shown, slice(shown)
    )


def _of_moments(trace: "Trace", quantities: Any) -> Summary:
    """By means and variances alone: R-hat of whole chains, and the statistics of the steps."""
    if quantities is not None:
        raise ValueError("only moments were kept: quantities need draws; sample with keep='draws'.")
    assert trace.moments is not None
    draws = int(np.max(np.asarray(trace.gathered.count)))
    means, variances = (named_leaves(trace.moments[name]) for name in ("mean", "variance"))
    leaves = [leaf_of_moments(name, means[name], variances[name], draws, trace.labels) for name in means]
    chains, size = len(leaves[0].means), sum(leaf.size for leaf in leaves)
    checks: dict[str, float] = {}
    findings = _of_steps(trace, checks)
    text = (
        "only moments were kept, so that effective draws, mixing within a chain and the spread of the draws "
        "could not be checked; for those sample with keep='draws', and with thin if memory is short"
    )
    findings.append(Finding(Grade.CARE, text))
    kinetic, notes = _steps.kinetic_temperature(trace, checks)
    findings += [*kinetic, *_steps.decisions(trace, checks)]
    findings += _many.unusable_scalars(leaves, trace.fixed_entries()) or (
        _many.disagreeing_scalars(leaves, _many.allowed_r_hat(chains, 0.0, draws, size)) if chains > 1 else []
    )
    notes += _notes(trace, None)
    unknown = np.full(size, np.nan)
    if size > MOST_SCALARS:
        rows = [leaf_row(leaf, np.nanmax(leaf.r_hat, initial=-np.inf), np.nan) for leaf in leaves]
        none = np.zeros(0)
        return Summary([], none, none, none, none, none, none, findings, checks, notes, leaves=rows)
    names = [leaf.scalar(i) for leaf in leaves for i in range(leaf.size)]
    mean, deviation, r_hat = (
        np.concatenate([getattr(leaf, name) for leaf in leaves]) for name in ("mean", "deviation", "r_hat")
    )
    quantiles = np.full((size, len(QUANTILES)), np.nan)
    return Summary(names, mean, deviation, quantiles, r_hat, unknown, unknown, findings, checks, notes)


def _summary(
    table: Quantities,
    statistics: Statistics,
    findings: list[Finding],
    checks: dict[str, float],
    notes: list[str],
    checked: str,
    probabilities: tuple[float, ...],
    leaves: list[LeafRow] | None = None,
    shown: int | None = None,
    own: slice = slice(0),
) -> Summary:
    names, values = table
    mean, deviation = values.mean(axis=(0, 1)), values.std(axis=(0, 1), ddof=1)
    deviation = np.where(np.ptp(values, axis=(0, 1)) == 0, 0.0, deviation)
    quantiles = np.quantile(values, probabilities, axis=(0, 1)).T
    # Figures of constants show nothing, unless nothing moved.
    shown_first = np.argsort(deviation == 0, kind="stable")[:_FIGURES]
    # Of quantities that are no scalars of theta nobody else has the draws.
    others = np.flatnonzero(deviation[own] != 0) + (own.start or 0)
    series = {names[i]: values[:, :, i].copy() for i in dict.fromkeys([*shown_first, *others])}
    moments = (mean, deviation, quantiles)
    return Summary(
        names,
        *moments,
        *statistics,
        findings,
        checks,
        notes,
        checked,
        leaves or [],
        shown,
        series,
        probabilities,
    )


def _leaf_rows(projections: Projections, statistics: Statistics) -> list[LeafRow]:
    """With the worst R-hat and the least ESS of the directions of each leaf, which follow those of all."""
    rows, place = [], DIRECTIONS
    for leaf in projections.leaves:
        own = slice(place, place := place + len(leaf.names))
        worst = np.nanmax(statistics.r_hat[own], initial=-np.inf)
        least = np.nanmin(statistics.effective[own], initial=np.inf)
        rows.append(leaf_row(leaf, worst, least))
    return rows


def leaf_row(leaf: LeafMoments, r_hat: float, effective: float) -> LeafRow:
    """The row of a leaf; what is not known is infinite or NaN."""
    means, deviations = ((float(x.min()), float(x.max())) for x in (leaf.mean, leaf.deviation))
    known = [x if np.isfinite(x) else np.nan for x in (r_hat, effective)]
    return LeafRow(leaf.name, leaf.shape, means, deviations, *known)


def _of_run(trace: "Trace") -> list[Finding]:
    """Problems of the run itself: why it ended, and what it was warned of."""
    findings = []
    if trace.stopped:
        findings.append(Finding(Grade.CARE if trace.was_interrupted else Grade.BAD, trace.stopped))
    if trace.lost:
        findings.append(Finding(Grade.BAD, trace.lost))
    findings += [Finding(Grade.BAD, note) for note in trace.notes]
    return findings + [Finding(Grade.CARE, caution) for caution in trace.cautions]


def _of_steps(trace: "Trace", checks: dict[str, float]) -> list[Finding]:
    """Problems of the run and of its steps."""
    findings = _of_run(trace)
    _steps.describe(trace, checks)
    if trace.origin is not None:
        findings += _steps.noise_share(trace, checks)
    return findings


def _not_judged(own: Quantities) -> list[str]:
    names = sorted(own.constants())
    if not names:
        return []
    rest = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return [f"the same in every draw, and not judged: {', '.join(names[:_NAMED])}{rest}"]


def _halved(trace: "Trace", halving: bool) -> list[Finding]:
    return [Finding(Grade.CARE, text) for text in step_halving(trace).warnings] if halving else []


def _least(statistics: Statistics) -> float:
    return float(np.min(np.nan_to_num(statistics.effective)))


def _not_compared(trace: "Trace", gradients: bool, has_many: bool = False) -> Comparison:
    """Why the draws are not compared with the target, as far as it is known before; else an empty reason."""
    if trace.origin is None:
        return Comparison([], None, "the target is not known")
    if not gradients:
        return Comparison([], None, "gradients=False was given")
    return Comparison([], None, why_not_compared(trace, target_of(trace.origin), has_many))


def _biases(
    trace: "Trace", findings: list[Finding], comparison: Comparison, checks: dict[str, float]
) -> tuple[list[Finding], list[str]]:
    """What was found about bias, with what was not looked for; and notes."""
    kinetic, notes = _steps.kinetic_temperature(
        trace, checks, comparison.spread, is_wrong=bool(comparison.findings)
    )
    findings = [*findings, *kinetic, *comparison.findings]
    findings += _steps.decisions(trace, checks, comparison.boundary)
    spread, sampler = comparison.spread, trace.sampler
    if sampler is None or sampler.is_exact or comparison.findings:
        return findings, notes
    reason = comparison.reason
    if spread is not None and not spread.judged.any():
        reason = "there are too few effective draws, or the tails are too heavy for a standard error"
    if reason:
        findings.append(
            Finding(
                Grade.CARE,
                f"no bias of the draws was looked for, and this sampler is not exact: {reason}. "
                f"For the part that depends on the step: {repeated_with_half(trace)}",
            )
        )
    return findings, notes


def _context(trace: "Trace", findings: list[Finding], comparison: Comparison, coordinates: int) -> Context:
    """What the advice on convergence depends on."""
    spread = comparison.spread
    return Context(
        trace.sampler,
        astray=spread is not None and spread.astray,
        is_biased=any(finding.cause is not Cause.OTHER for finding in findings),
        is_stiff=any(finding.cause is Cause.STIFFNESS for finding in findings),
        coordinates=coordinates,
        is_flat=comparison.is_flat,
    )


def _notes(trace: "Trace", spread: "Spread | None") -> list[str]:
    notes = []
    if reason := trace.settings.get("chosen"):
        notes.append(f"the sampler was chosen automatically: {reason}")
    if trace.one_start:
        notes.append(
            "all chains started at one point, so that R-hat is less able to detect that they disagree; give "
            "init as a function of a key to start them at different points"
        )
    if is_of_stream(trace.origin):
        notes.append(
            "the data came as a stream of batches, and the noise of the minibatches is that of the first one"
        )
    if spread is not None and spread.walled.any():
        notes.append(
            f"coordinates with walls: {int(spread.walled.sum()):,}. Each was compared with the target by one "
            "equation, of its distance from the wall, and not by its mean and its variance"
        )
    shift = None if spread is None else spread.shift
    for what, by in (("variance", spread), ("mean", shift)):
        if by is None:
            continue
        names, judged = by.names, by.judged
        if not judged.all():
            notes.append(
                f"the {what} of {int((~judged).sum()):,} of {_directions(trace, names)} could not be "
                "compared with the target's: there are too few effective draws, or the tails are too heavy "
                "for a standard error"
            )
    return notes


def _directions(trace: "Trace", names: Sequence[str]) -> str:
    """How many directions were compared, and what they are, where they are not random ones."""
    text, size = f"{len(names):,} directions", scalars_per_draw(trace.samples)
    principal = sum(name.startswith("principal direction ") for name in names)
    if not principal or size > MOST_SCALARS:
        return text
    return f"{text} ({len(names) - principal:,} parameters and {principal:,} principal directions)"
