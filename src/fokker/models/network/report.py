"""The report of a network: verdict, scores, calibration, uncertainty, the most and least certain rows."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from fokker._core.digits import percent
from fokker.diagnostics import Finding, Grade, Verdict, gradient_noise_share
from fokker.diagnostics._convergence import r_hat_and_effective
from fokker.models import inputs
from fokker.models.by_rows import by_rows
from fokker.models.network import metrics
from fokker.models.network.evaluation import ClassUncertainty, Evaluation
from fokker.models.network.predict import Predictive
from fokker.report.figures import Axis, Mark, chain_colour, histogram
from fokker.report.figures import Figure as Drawn
from fokker.report.page import figure_part, figures_part, image, page, pairs, table, verdict_part
from fokker.report.plots import RIGHT, TRUTH, WRONG, new_figure, tidy

if TYPE_CHECKING:
    from fokker.models.network.estimator import Network

# Limits of the verdict.
_KINETIC, _R_HAT, _SHARE, _CALIBRATION = 0.1, 1.1, 0.1, 0.05
_SHOWN = 10
# Bins of confidence, as of `evaluate`.
_BINS = 15
# Rows whose likelihood is followed over the draws.
_FOLLOWED = 2000
# The most chains in a figure.
_CHAINS = 16


def report(
    net: "Network", X: ArrayLike, y: ArrayLike, X_out: ArrayLike | None, title: str, extra: Sequence[str]
) -> str:
    """The page, in HTML."""
    is_classifier = net.likelihood == "categorical"
    scores = net.evaluate(X, y)
    series = log_likelihood_by_draw(net, X, y)
    before, after = stages(net)
    verdict, checks, judged = judge(net, scores, series, X)
    rows = [list(row) for row in scores.table()]
    if X_out is not None:
        for by in ("entropy", "mutual_information") if is_classifier else ("variance_of_mean", "variance"):
            name = f"AUROC of other data, by {by.replace('_', ' ')}{before}"
            rows.append([name, f"{net.out_of_distribution(X, X_out, by):.4f}"])
    parts = [
        verdict_part(verdict.grade, verdict.problems, verdict.notes, judged),
        "<h2>Scores</h2>",
        table([f"on held-out rows{after}", "value"], rows, "Scores on held-out rows"),
        pairs(checks, "What was checked", ("check", "result")),
    ]
    if is_classifier:
        parts += _class_parts(net, X, y, X_out)
    else:
        parts += _regression_parts(net, X, y, X_out)
    parts += [
        *extra,
        "<h2>Chains</h2>",
        f"<p>The mean log-likelihood of the held-out rows, by draw{before}. Chains that have forgotten their "
        "start move around one level.</p>",
        figure_part(_series_figure(series)),
        "<h2>The run</h2>",
        pairs(_settings(net), "Settings", ("setting", "value")),
    ]
    return page(title, *parts)


def stages(net: "Network") -> tuple[str, str]:
    """What is said beside numbers of the draws alone, and beside those of calibrated predictions."""
    return (", before calibration", ", after calibration") if net.sharpness_ != 1 else ("", "")


def _settings(net: "Network") -> dict[str, str]:
    unused = {"cycles"} if net.schedule == "constant" else set()
    parameters = {
        name: value
        for name, value in net.get_params(deep=False).items()
        if value is not None and name not in unused
    }
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


def log_likelihood_by_draw(net: "Network", X: ArrayLike, y: ArrayLike) -> np.ndarray:
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


def judge(
    net: "Network", scores: Evaluation, series: np.ndarray, X: ArrayLike
) -> tuple[Verdict, dict[str, str], str]:
    """The verdict on a fit, what was measured, and what was judged in words; `X`: the rows of the scores."""
    problems: list[str] = []
    judged: list[str] = []
    checks: dict[str, str] = {}
    if net.stopped_ is not None:
        problems.append(f"the run ended early: {net.stopped_}")
    kinetic = net.trace_.sample_stats.get("kinetic_temperature")
    if kinetic is not None:
        value = float(kinetic.mean()) / net.temperature
        checks["kinetic temperature, 1 is right"] = f"{value:.3f}"
        judged.append("the kinetic temperature")
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
        judged.append("the noise of minibatches")
        if share > _SHARE:
            problems.append(
                f"the noise of minibatches is {share:.2g} times the injected noise: a thermostat makes up "
                "for its mean only, so that weights are somewhat off their posterior. Where that matters "
                "take a larger batch_size or a smaller learning_rate."
            )
    if series.shape[1] >= 8:
        r_hat, effective = (float(x[0]) for x in r_hat_and_effective(series[:, :, None]))
        checks["R-hat of the held-out log-likelihood"] = f"{r_hat:.3f}"
        checks["effective draws of the held-out log-likelihood"] = (
            f"{effective:.0f}, from {series.size:,} draws"
        )
        is_judged = net.schedule == "constant"
        judged += ["R-hat of the held-out likelihood"] * is_judged
        if r_hat > _R_HAT and is_judged:
            problems.append(
                f"the held-out likelihood differs between chains or still drifts (R-hat {r_hat:.2f}): take "
                "more passes."
            )
    if net.likelihood == "categorical":
        _judge_classes(net, scores, net.predict_proba(X), problems, judged)
    texts = [f"Checked: {', '.join(judged)}."] if judged else []
    texts.append("Single weights are not judged: predictions depend on them together.")
    return Verdict(tuple(Finding(Grade.CARE, problem) for problem in problems)), checks, " ".join(texts)


def _judge_classes(
    net: "Network", scores: Evaluation, probabilities: np.ndarray, problems: list[str], judged: list[str]
) -> None:
    """Add what is wrong with the probabilities, and what was judged of them."""
    frequencies = np.bincount(net._data["y"], minlength=len(net.classes_)) / len(net._data["y"])
    if scores.negative_log_likelihood > metrics.entropy(frequencies):
        problems.append("the predictions are worse than the frequencies of the classes alone.")
    # By bins of confidence, and by all of them together, where a bias of all is seen on fewer rows.
    of_bins, of_all = (max(_CALIBRATION, metrics.calibration_limit(probabilities, n)) for n in (_BINS, 1))
    error: Any = scores.calibration_error
    bias = abs(scores.accuracy - float(np.mean(np.max(probabilities, 1))))
    if error > of_bins or bias > of_all:
        text = f"the calibration error is {error:.3f}: probabilities are that far from frequencies."
        problems.append(text)
    judged += [
        "whether the held-out likelihood is above that of the frequencies of the classes",
        f"the calibration of the probabilities (of {scores.rows:,} rows an error above {of_bins:.2f} or a "
        f"mean confidence off by {of_all:.2f} would have been reported)",
    ]


def _class_parts(net: "Network", X: ArrayLike, y: ArrayLike, X_out: ArrayLike | None) -> list[str]:
    probabilities = net.predict_proba(X)
    labels = net._class_numbers(y, len(probabilities))
    uncertainty: Any = net.uncertainty(X)
    outside: Any = None if X_out is None else net.uncertainty(X_out)
    curve = metrics.reliability(probabilities, labels)
    before, after = stages(net)
    power = ""
    if net.sharpness_ != 1:
        power = (
            f" The probabilities of the draws are taken to the power {net.sharpness_:.3g} (sharpness_), and "
            f"{percent(net.label_noise_, 2)} of the labels are taken to be random (label_noise_): "
            "calibration chose both."
        )
    return [
        "<h2>Calibration</h2>",
        "<p>Of the predictions made with 80 % confidence, 80 % should be right: the points should lie on the "
        "diagonal. Below it the network is overconfident, above it underconfident. The area "
        f"of a point is the number of rows.{power}</p>",
        figures_part(_reliability_figures(curve, after)),
        "<h2>Uncertainty</h2>",
        "<p>Entropy is all the uncertainty of a prediction; mutual information is the part that comes from "
        "the weights, which more data would remove.</p>",
        figures_part(_entropy_figures(uncertainty, outside, before)),
        "<h2>Most and least certain</h2>",
        _examples(net, np.asarray(X), np.asarray(y), probabilities, metrics.entropy(probabilities)),
    ]


def _examples(
    net: "Network", X: np.ndarray, y: np.ndarray, probabilities: np.ndarray, entropies: np.ndarray
) -> str:
    order = np.argsort(entropies)
    chosen = {"most certain": order[:_SHOWN], "least certain": order[::-1][:_SHOWN]}
    shape = _picture_shape(X.shape[1:])
    if shape is not None:
        return image(
            _pictures(net, X, y, probabilities, chosen, shape),
            f"the most and least certain rows{stages(net)[1]}",
        )
    rows = []
    for name, places in chosen.items():
        for place in places[:5]:
            best = np.argmax(probabilities[place])
            label = f"{net.classes_[best]} ({percent(probabilities[place, best])})"
            rows.append([name, str(place), str(y[place]), label, f"{entropies[place]:.3f}"])
    after = stages(net)[1]
    return table(["", "row", "label", f"predicted{after}", f"entropy{after}"], rows)


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
            text = f"{net.classes_[best]} {percent(probabilities[place, best])}"
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


def _reliability_figures(curve: metrics.Reliability, after: str) -> list[Drawn]:
    """The same for the page, which draws them itself."""
    filled = curve.share > 0
    x, heights, share = (part[filled] for part in (curve.confidence, curve.accuracy, curve.share))
    return [
        Drawn(
            "Is it right as often as it says?",
            f"Expected calibration error {curve.error:.4f}{after}. The area of a point is its number of "
            "rows.",
            [
                Mark("line", "truth", "as often as it says", [0, 1], [0, 1], dashed=True),
                Mark("line", "chain-0", None, x, heights),
                Mark("points", "chain-0", "predictions", x, heights, size=share, opacity=0.4),
            ],
            Axis("confidence"),
            Axis("accuracy"),
        ),
        Drawn(
            "How confident it is",
            f"The share of rows at each confidence{after}.",
            [Mark("bars", "chain-0", None, curve.edges, curve.share, opacity=0.6)],
            Axis("confidence"),
            Axis("share of rows"),
        ),
    ]


def _entropy_figures(inside: ClassUncertainty, outside: ClassUncertainty | None, before: str) -> list[Drawn]:
    return [
        _compared_figure(
            f"{name.replace('_', ' ').capitalize()}{before}",
            "nats",
            getattr(inside, name),
            None if outside is None else getattr(outside, name),
        )
        for name in ("entropy", "mutual_information")
    ]


def _compared_figure(title: str, unit: str, inside: np.ndarray, outside: np.ndarray | None) -> Drawn:
    """Histograms of an uncertainty of rows like the data, and of others."""
    sets = {"like the data": (inside, "chain-0"), "other data": (outside, "chain-1")}
    known = {name: (np.asarray(x, float), colour) for name, (x, colour) in sets.items() if x is not None}
    ends = (0.0, max(float(np.max(values)) for values, _ in known.values()) or 1.0)
    is_alone = len(known) == 1
    means = ", ".join(f"{'' if is_alone else f'{name} '}{x.mean():.3g}" for name, (x, _) in known.items())
    marks = [
        histogram(x, colour, None if is_alone else name, 40, ends) for name, (x, colour) in known.items()
    ]
    return Drawn(
        title, f"{'Mean' if is_alone else 'Means'} over rows: {means}.", marks, Axis(unit), Axis("density")
    )


def _regression_parts(net: "Network", X: ArrayLike, y: ArrayLike, X_out: ArrayLike | None) -> list[str]:
    mean, deviation = (np.asarray(x).reshape(len(x), -1)[:, 0] for x in net.predict(X, True))
    targets = np.asarray(y, float).reshape(len(mean), -1)[:, 0]
    some = np.linspace(0, len(mean) - 1, min(500, len(mean))).astype(int)
    ends = {"low": (mean - deviation)[some], "high": (mean + deviation)[some]}
    span = [float(targets.min()), float(targets.max())]
    predicted = Drawn(
        "y against its prediction",
        f"With one standard deviation; {len(some):,} of {len(mean):,} rows.",
        [
            Mark("intervals", "chain-0", y=targets[some], along="x", **ends, opacity=0.35, width=1),
            Mark("points", "chain-0", "held-out rows", mean[some], targets[some]),
            Mark("line", "truth", "exact", span, span, dashed=True),
        ],
        Axis("predicted"),
        Axis("y"),
    )
    uncertainty = _compared_figure(
        "Uncertainty from the weights",
        "standard deviation of E[y | x, θ]",
        _deviation_of_mean(net, X),
        None if X_out is None else _deviation_of_mean(net, X_out),
    )
    return ["<h2>Predictions</h2>", figures_part([predicted, uncertainty])]


def _deviation_of_mean(net: "Network", X: ArrayLike) -> np.ndarray:
    uncertainty: Any = net.uncertainty(X)
    return np.sqrt(np.asarray(uncertainty.variance_of_mean).reshape(len(uncertainty.variance), -1)[:, 0])


def _series_figure(series: np.ndarray) -> Drawn:
    chains, draws = series.shape
    shown = series[:_CHAINS]
    marks = [
        Mark("line", chain_colour(i), f"chain {i + 1}" if len(shown) <= 8 else None, np.arange(draws), chain)
        for i, chain in enumerate(shown)
    ]
    text = f"{draws:,} draws of each of {chains} chains"
    text += f", of which the first {_CHAINS} are shown." if chains > _CHAINS else "."
    title = "Mean log-likelihood of held-out rows"
    return Drawn(title, text, marks, Axis("draw"), Axis("log-likelihood"))
