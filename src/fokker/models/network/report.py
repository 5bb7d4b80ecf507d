"""The report of a network: verdict, scores, calibration, uncertainty, the most and least certain rows."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from fokker.diagnostics import Finding, Grade, Verdict, gradient_noise_share
from fokker.diagnostics._convergence import r_hat_and_effective
from fokker.models.network import inputs, metrics
from fokker.models.network.evaluation import ClassUncertainty, Evaluation
from fokker.models.network.predict import Predictive, by_rows
from fokker.report.page import image, page, table, verdict_part
from fokker.report.plots import RIGHT, TRUTH, WRONG, new_figure, tidy

if TYPE_CHECKING:
    from fokker.models.network.estimator import Network

# Limits of the verdict.
_KINETIC, _R_HAT, _SHARE = 0.1, 1.1, 0.1
_SHOWN = 10
# Rows whose likelihood is followed over the draws.
_FOLLOWED = 2000


def report(
    net: "Network", X: ArrayLike, y: ArrayLike, X_out: ArrayLike | None, title: str, extra: Sequence[str]
) -> str:
    """The page, in HTML."""
    is_classifier = net.likelihood == "categorical"
    scores = net.evaluate(X, y)
    series = _log_likelihood_by_draw(net, X, y)
    verdict, checks = _judge(net, scores, series)
    rows = [list(row) for row in scores.table()]
    if X_out is not None:
        for by in ("entropy", "mutual_information") if is_classifier else ("variance_of_mean", "variance"):
            name = f"AUROC of other data, by {by.replace('_', ' ')}"
            rows.append([name, f"{net.out_of_distribution(X, X_out, by):.4f}"])
    parts = [
        verdict_part(verdict.grade, verdict.headline, verdict.problems),
        "<h2>Scores</h2>",
        table(["on held-out rows", ""], rows),
    ]
    parts.append(
        table(["check", ""], [[name, text] for name, text in checks.items()]),
    )
    if is_classifier:
        parts += _class_parts(net, X, y, X_out)
    else:
        parts += _regression_parts(net, X, y, X_out)
    parts += [
        *extra,
        "<h2>Chains</h2>",
        "<p>The mean log-likelihood of the held-out rows, by draw. Chains that have forgotten their start "
        "move around one level.</p>",
        image(_series_figure(series), "log-likelihood of held-out rows by draw and chain"),
        "<h2>The run</h2>",
        table(["setting", ""], [[name, text] for name, text in _settings(net).items()]),
    ]
    return page(title, *parts)


def _settings(net: "Network") -> dict[str, str]:
    parameters = {name: value for name, value in net.get_params(deep=False).items() if value is not None}
    shown = {name: str(value) for name, value in parameters.items() if len(str(value)) < 80}
    sizes = [x.size for x in jax.tree.leaves(net.parameters(0))]
    sampled = sum(x[0].size for x in jax.tree.leaves(net.draws_))
    step = net.trace_.settings.get("step_size")
    if step is not None and not callable(step):
        shown["step size"] = f"{float(step):.3g}"
    return {
        "weights": f"{sum(sizes):,}, of which {sampled:,} are sampled",
        "rows fitted": f"{len(net._data['x']):,}",
        **shown,
    }


def _log_likelihood_by_draw(net: "Network", X: ArrayLike, y: ArrayLike) -> np.ndarray:
    """The mean of log p(y | x, θ) over some rows, chain by draw."""
    rows = inputs.checked_rows(X, net.input_shape_)[:_FOLLOWED]
    targets = net._targets(np.asarray(y)[: len(rows)], len(rows))
    predictive = Predictive(net._posterior.log_likelihood(net._fixed))
    total: Any = 0.0
    for place, values in by_rows(predictive, net.draws_, rows):
        if net.likelihood == "categorical":
            chosen = np.take_along_axis(values, targets[place][None, :, None], axis=2)[..., 0]
            total = total + np.log(np.maximum(chosen, np.finfo(np.float32).tiny)).sum(1)
        else:
            means, deviations = values
            z = (targets[place] - means) / deviations
            total = total - np.sum(z**2 / 2 + np.log(deviations), (1, 2))
    return (total / len(rows)).reshape(jax.tree.leaves(net.trace_.draws)[0].shape[0], -1)


def _judge(net: "Network", scores: Evaluation, series: np.ndarray) -> tuple[Verdict, dict[str, str]]:
    """The verdict on a fit, and what was checked."""
    problems: list[str] = []
    checks: dict[str, str] = {}
    if net.stopped_ is not None:
        problems.append(f"the run ended early: {net.stopped_}")
    kinetic = net.trace_.sample_stats.get("kinetic_temperature")
    if kinetic is not None:
        value = float(kinetic.mean()) / net.temperature
        checks["kinetic temperature, 1 is right"] = f"{value:.3f}"
        if abs(value - 1) > _KINETIC:
            problems.append(
                f"the kinetic temperature is {value:.2f} times what it should be: the noise of minibatches "
                "heats the chain. Take a smaller learning_rate, a larger batch_size, or sampler='sgnht'."
            )
    origin = net.trace_.origin
    assert origin is not None
    share = gradient_noise_share(origin.sampler, net.trace_.state, origin.batches)
    if share is not None:
        checks["noise of minibatches over injected noise"] = f"{share:.2f}"
        if share > _SHARE:
            problems.append(
                f"the noise of minibatches is {share:.2g} times the injected noise: a thermostat makes up "
                "for its mean only, so that weights are somewhat off their posterior. Where that matters "
                "take a larger batch_size or a smaller learning_rate."
            )
    if series.shape[1] >= 8:
        r_hat, effective = (float(x[0]) for x in r_hat_and_effective(series[:, :, None]))
        checks["R-hat of the log-likelihood"] = f"{r_hat:.3f}"
        checks["effective draws of the log-likelihood"] = f"{effective:.0f}"
        if r_hat > _R_HAT and net.schedule == "constant":
            problems.append(
                f"the held-out likelihood differs between chains or still drifts (R-hat {r_hat:.2f}): take "
                "more passes."
            )
    if net.likelihood == "categorical":
        frequencies = np.bincount(net._data["y"], minlength=len(net.classes_)) / len(net._data["y"])
        unigram = float(metrics.entropy(frequencies))
        if scores.negative_log_likelihood > unigram:
            problems.append("the predictions are worse than the frequencies of the classes alone.")
        error: Any = scores.calibration_error
        chance = 0.5 * ((scores.bins or 1) / scores.rows) ** 0.5
        if error > max(0.05, 2 * chance):
            problems.append(
                f"the calibration error is {error:.3f}: probabilities are that far from frequencies."
            )
    return Verdict(tuple(Finding(Grade.CARE, problem) for problem in problems)), checks


def _class_parts(net: "Network", X: ArrayLike, y: ArrayLike, X_out: ArrayLike | None) -> list[str]:
    probabilities = net.predict_proba(X)
    labels = inputs.class_numbers(inputs.checked_labels(y, len(probabilities)), net.classes_)
    uncertainty: Any = net.uncertainty(X)
    outside: Any = None if X_out is None else net.uncertainty(X_out)
    curves = {"posterior": metrics.reliability(probabilities, labels)}
    return [
        "<h2>Calibration</h2>",
        "<p>Of the predictions made with 80 % confidence, 80 % should be right: the points should lie on the "
        "diagonal. Below it the network is overconfident, above it less certain than it is right. The area "
        "of a point is the number of rows.</p>",
        image(reliability_figure(curves), "accuracy against confidence"),
        "<h2>Uncertainty</h2>",
        "<p>Entropy is all the uncertainty of a prediction; mutual information is the part that comes from "
        "the weights, which more data would remove.</p>",
        image(_entropy_figure(uncertainty, outside), "histograms of entropy and mutual information"),
        "<h2>Most and least certain</h2>",
        _examples(net, np.asarray(X), np.asarray(y), probabilities, uncertainty.entropy),
    ]


def _examples(
    net: "Network", X: np.ndarray, y: np.ndarray, probabilities: np.ndarray, entropies: np.ndarray
) -> str:
    order = np.argsort(entropies)
    chosen = {"most certain": order[:_SHOWN], "least certain": order[::-1][:_SHOWN]}
    shape = _picture_shape(X.shape[1:])
    if shape is not None:
        return image(_pictures(net, X, y, probabilities, chosen, shape), "the most and least certain rows")
    rows = []
    for name, places in chosen.items():
        for place in places[:5]:
            best = np.argmax(probabilities[place])
            label = f"{net.classes_[best]} ({probabilities[place, best]:.0%})"
            rows.append([name, str(place), str(y[place]), label, f"{entropies[place]:.3f}"])
    return table(["", "row", "label", "predicted", "entropy"], rows)


def _picture_shape(shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """How a row is shown as a picture, if it looks like one."""
    if len(shape) == 3 and shape[2] in (1, 3):
        return shape[:2] if shape[2] == 1 else shape
    if len(shape) == 2:
        return shape
    side = round(shape[0] ** 0.5)
    return (side, side) if len(shape) == 1 and side * side == shape[0] and side >= 8 else None


def _pictures(
    net: "Network",
    X: np.ndarray,
    y: np.ndarray,
    probabilities: np.ndarray,
    chosen: Mapping[str, np.ndarray],
    shape: tuple[int, ...],
) -> Figure:
    figure = new_figure(9.0, 2.6)
    panels = figure.subplots(2, _SHOWN, squeeze=False)
    for row, (name, places) in zip(panels, chosen.items(), strict=True):
        for panel in row:
            panel.set_axis_off()
        for panel, place in zip(row, places, strict=False):
            best = np.argmax(probabilities[place])
            picture = X[place].reshape(shape).astype(float)
            panel.imshow((picture - picture.min()) / max(float(np.ptp(picture)), 1e-9), cmap="Greys")
            is_right = net.classes_[best] == y[place]
            text = f"{net.classes_[best]} {probabilities[place, best]:.0%}"
            text += "" if is_right else f"\nis {y[place]}"
            panel.set_title(text, fontsize=7, color=RIGHT if is_right else WRONG)
        row[0].text(-0.25, 0.5, name, rotation=90, va="center", ha="right", transform=row[0].transAxes)
    return figure


def reliability_figure(curves: Mapping[str, metrics.Reliability]) -> Figure:
    """Accuracy against confidence, for one prediction or several."""
    figure = new_figure(9.0, 4.2)
    panel, counts = figure.subplots(1, 2, width_ratios=(1, 1))
    panel.plot([0, 1], [0, 1], color=TRUTH, linewidth=1, linestyle="--")
    for (name, curve), colour in zip(curves.items(), (RIGHT, WRONG, TRUTH), strict=False):
        filled = curve.share > 0
        x, heights = curve.confidence[filled], curve.accuracy[filled]
        panel.plot(x, heights, color=colour, linewidth=1.2, label=f"{name}: ECE {curve.error:.4f}")
        panel.scatter(x, heights, s=10 + 400 * curve.share[filled], color=colour, alpha=0.5)
        counts.stairs(curve.share, curve.edges, color=colour, fill=True, alpha=0.5, label=name)
    tidy(panel, "Is it right as often as it says?", "confidence", "accuracy")
    panel.legend(frameon=False, fontsize=8)
    tidy(counts, "How confident it is", "confidence", "share of rows")
    return figure


def _entropy_figure(inside: ClassUncertainty, outside: ClassUncertainty | None) -> Figure:
    figure = new_figure(9.0, 3.2)
    for panel, name in zip(figure.subplots(1, 2), ("entropy", "mutual_information"), strict=True):
        sets = {"like the data": (getattr(inside, name), RIGHT)}
        if outside is not None:
            sets["other data"] = (getattr(outside, name), WRONG)
        _histograms(panel, sets)
        tidy(panel, name.replace("_", " "), "nats", "density")
        panel.legend(frameon=False, fontsize=8)
    return figure


def _histograms(panel: Axes, sets: Mapping[str, tuple[np.ndarray, str]]) -> None:
    largest = max(float(np.max(values)) for values, _ in sets.values()) or 1.0
    for name, (values, colour) in sets.items():
        heights, edges = np.histogram(values, 40, (0, largest), density=True)
        panel.stairs(heights, edges, color=colour, fill=True, alpha=0.45, label=name)


def _regression_parts(net: "Network", X: ArrayLike, y: ArrayLike, X_out: ArrayLike | None) -> list[str]:
    mean, deviation = (np.asarray(x).reshape(len(x), -1)[:, 0] for x in net.predict(X, True))
    targets = np.asarray(y, float).reshape(len(mean), -1)[:, 0]
    figure = new_figure(9.0, 3.6)
    left, right = figure.subplots(1, 2)
    some = np.linspace(0, len(mean) - 1, min(500, len(mean))).astype(int)
    left.errorbar(
        mean[some], targets[some], xerr=deviation[some], fmt=".", color=RIGHT, alpha=0.4, markersize=3
    )
    span = [float(targets.min()), float(targets.max())]
    left.plot(span, span, color=TRUTH, linewidth=1, linestyle="--")
    tidy(left, "y against its prediction, with one standard deviation", "predicted", "y")
    sets = {"like the data": (_deviation_of_mean(net, X), RIGHT)}
    if X_out is not None:
        sets["other data"] = (_deviation_of_mean(net, X_out), WRONG)
    _histograms(right, sets)
    tidy(right, "uncertainty from the weights", "standard deviation of E[y | x, θ]", "density")
    right.legend(frameon=False, fontsize=8)
    return ["<h2>Predictions</h2>", image(figure, "y against its prediction, and uncertainty")]


def _deviation_of_mean(net: "Network", X: ArrayLike) -> np.ndarray:
    uncertainty: Any = net.uncertainty(X)
    return np.sqrt(np.asarray(uncertainty.variance_of_mean).reshape(len(uncertainty.variance), -1)[:, 0])


def _series_figure(series: np.ndarray) -> Figure:
    figure = new_figure(9.0, 2.6)
    panel = figure.subplots()
    for number, chain in enumerate(series):
        panel.plot(chain, linewidth=1, label=f"chain {number + 1}", color=(RIGHT, WRONG, TRUTH)[number % 3])
    tidy(panel, "", "draw", "mean log-likelihood")
    panel.legend(frameon=False, fontsize=8)
    return figure
