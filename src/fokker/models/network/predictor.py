"""What a fitted network predicts, and how sure it is: from its draws alone."""

from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, PyTree
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from fokker.models import inputs
from fokker.models.by_rows import by_rows
from fokker.models.estimator import Estimator, check_columns
from fokker.models.fits import as_fitted
from fokker.models.network.evaluation import (
    ClassUncertainty,
    Evaluation,
    RegressionUncertainty,
    evaluate_classes,
    evaluate_targets,
)
from fokker.models.network.metrics import Calibration, auroc, entropy, reliability
from fokker.models.network.predict import Predictive
from fokker.models.network.training import NetworkPosterior

# What a classifier is asked for numbers.
FOR_REGRESSION = "give likelihood='gaussian'"


class _OfClasses:
    """A method that a regression does not have: scikit-learn asks by `hasattr` what an estimator can."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method

    def __get__(self, net: "Predictor | None", kind: type) -> Any:
        if net is None:
            return self._method
        if net._likelihood != "categorical":
            name = self._method.__name__
            raise AttributeError(f"{name} is for likelihood='categorical', not {net._likelihood!r}.")
        return self._method.__get__(net, kind)


class Predictor(Estimator):
    """Predictions of a network from `draws_` of its weights, which a subclass fits."""

    likelihood: str
    draws_: dict[str, PyTree[Array]]
    classes_: np.ndarray
    # Of files without calibration.
    sharpness_: float = 1.0
    label_noise_: float = 0.0
    input_shape_: tuple[int, ...]
    _posterior: NetworkPosterior
    _fixed: PyTree[Array]
    _location: np.ndarray
    _scale: np.ndarray
    _targets_per_row: int
    _is_vector: bool

    @property
    def _likelihood(self) -> str:
        return as_fitted(self).likelihood

    def _rows(self, X: ArrayLike) -> np.ndarray:
        """The rows of an X like that of `fit`."""
        check_columns(self, X)
        return inputs.checked_rows(X, self.input_shape_, type(self).__name__)

    def _class_numbers(self, y: ArrayLike, rows: int) -> np.ndarray:
        """The place of each label among the classes."""
        labels = inputs.checked_labels(y, rows, for_regression=FOR_REGRESSION)
        return inputs.class_numbers(labels, self.classes_)

    def _outputs_by_rows(self, X: ArrayLike) -> tuple[int, Iterator[tuple[slice, Any]]]:
        """For slices of the rows: their places and, over draws, the probabilities or means and deviations."""
        self._check_fitted()
        rows = self._rows(X)
        predictive = Predictive(self._posterior.log_likelihood(self._fixed))
        return len(rows), by_rows(predictive, self.draws_, rows)

    def parameters(self, number: int) -> PyTree[np.ndarray]:
        """The weights of draw `number`, sampled and fixed ones, as the tree that the network takes."""
        self._check_fitted()
        return eqx.combine(jax.tree.map(lambda x: x[number], self.draws_["weights"]), self._fixed)

    @_OfClasses
    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """p(class | x) averaged over the draws.

        Args:
            X: rows like those of `fit`.

        Returns:
            One row per row of X, columns in the order of `classes_`; after `calibration`
            to the power of `sharpness_`, normalised, and with a share `label_noise_` at random.
        """
        self._check_fitted()
        return Calibration(self.sharpness_, self.label_noise_).of(self._probabilities(self._rows(X)))

    def _probabilities(self, rows: np.ndarray) -> np.ndarray:
        """Those averaged over the draws, before calibration, for rows that were checked."""
        predictive = Predictive(self._posterior.log_likelihood(self._fixed))
        probabilities = np.empty((len(rows), len(self.classes_)))
        for place, values in by_rows(predictive, self.draws_, rows):
            probabilities[place] = values.mean(0, dtype=float)
        return probabilities

    def predict(self, X: ArrayLike, return_std: bool = False) -> Any:
        """The most probable classes; in a regression E[y | x].

        Args:
            X: rows like those of `fit`.
            return_std: in a regression, whether to return the standard deviation of y too. Its variance is
                that of the means over the draws plus the mean of the noise variance.

        Returns:
            One entry per row of X; with `return_std` a pair of these.
        """
        self._check_fitted()
        if self._likelihood == "categorical":
            if return_std:
                raise ValueError(
                    "return_std is for regression; for classes see predict_proba and uncertainty."
                )
            return self.classes_[np.argmax(self.predict_proba(X), 1)]
        mean, uncertainty = self._moments(X)
        return (mean, np.sqrt(uncertainty.variance)) if return_std else mean

    def _moments(self, X: ArrayLike) -> tuple[np.ndarray, RegressionUncertainty]:
        rows, parts = self._outputs_by_rows(X)
        mean, of_mean, noise = (np.empty((rows, self._targets_per_row)) for _ in range(3))
        for place, (means, deviations) in parts:
            mean[place] = means.mean(0, dtype=float)
            of_mean[place] = means.var(0, dtype=float)
            noise[place] = np.mean(deviations.astype(float) ** 2, 0)
        mean, of_mean, noise = (
            x if self._is_vector else x[:, 0]
            for x in (mean * self._scale + self._location, of_mean * self._scale**2, noise * self._scale**2)
        )
        return mean, RegressionUncertainty(of_mean + noise, of_mean, noise)

    def uncertainty(self, X: ArrayLike) -> ClassUncertainty | RegressionUncertainty:
        """How uncertain the prediction of each row of X is, and how much of it more data could remove.

        For classes, in nats: `entropy` H[E p], `expected_entropy` E H[p], and `mutual_information`, the
        difference, between y and the weights (Houlsby et al. 2011). In a regression: `variance` of y,
        `variance_of_mean` (from the weights) and `expected_variance` (of the noise), which add up.
        """
        self._check_fitted()
        if self._likelihood != "categorical":
            return self._moments(X)[1]
        rows, parts = self._outputs_by_rows(X)
        total, expected = np.empty(rows), np.empty(rows)
        for place, values in parts:
            total[place] = entropy(values.mean(0, dtype=float))
            expected[place] = entropy(values).mean(0, dtype=float)
        return ClassUncertainty(total, np.maximum(total - expected, 0), expected)

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """The accuracy; in a regression R² = 1 - Σ(y - ŷ)²/Σ(y - ȳ)²."""
        if self._likelihood == "categorical":
            return self.evaluate(X, y).accuracy
        predicted = np.asarray(self.predict(X)).reshape(np.shape(X)[0], -1)
        targets = inputs.checked_targets(y, len(predicted), self._targets_per_row)
        return float(1 - np.sum((targets - predicted) ** 2) / np.sum((targets - targets.mean(0)) ** 2))

    def evaluate(self, X: ArrayLike, y: ArrayLike, bins: int = 15) -> Evaluation:
        """Scores on held-out rows; likelihoods are of the average over draws.

        Args:
            X: rows like those of `fit`.
            y: their labels or targets.
            bins: of confidence, for the calibration error.

        Returns:
            Accuracy, negative log-likelihood, Brier score and calibration error; in a regression root mean
            square error, negative log-likelihood, and the share of y within their 90 % intervals.
        """
        self._check_fitted()
        if self._likelihood == "categorical":
            probabilities = self.predict_proba(X)
            labels = self._class_numbers(y, len(probabilities))
            return evaluate_classes(probabilities, labels, bins)
        rows, parts = self._outputs_by_rows(X)
        targets = inputs.checked_targets(y, rows, self._targets_per_row)
        return evaluate_targets(targets, parts, self._location, self._scale)

    def out_of_distribution(self, X_in: ArrayLike, X_out: ArrayLike, by: str | None = None) -> float:
        """How well uncertainty tells other data from such as were fitted.

        Args:
            X_in: rows like those of `fit`.
            X_out: other rows.
            by: a part of `uncertainty`: "entropy" (the default) or "mutual_information"; in a regression
                "variance_of_mean" (the default) or "variance".

        Returns:
            The AUROC: the probability that a row of `X_out` has more of it than one of `X_in`.
        """
        is_classifier = self._likelihood == "categorical"
        choices = ("entropy", "mutual_information") if is_classifier else ("variance_of_mean", "variance")
        by = choices[0] if by is None else by
        if by not in choices:
            raise ValueError(f"by is one of {', '.join(choices)}, not {by!r}.")
        inside, outside = (getattr(self.uncertainty(X), by) for X in (X_in, X_out))
        if inside.ndim == 2:
            inside, outside = inside.sum(1), outside.sum(1)
        return auroc(inside, outside)

    def reliability_plot(self, X: ArrayLike, y: ArrayLike, bins: int = 15) -> Figure:
        """Accuracy against confidence on these rows; on the diagonal the network knows what it knows."""
        from fokker.models.network.report import reliability_figure

        self._needs("categorical", "reliability_plot")
        probabilities = self.predict_proba(X)
        labels = self._class_numbers(y, len(probabilities))
        return reliability_figure({"posterior": reliability(probabilities, labels, bins)})

    def _needs(self, likelihood: str, method: str) -> None:
        self._check_fitted()
        if self._likelihood != likelihood:
            raise AttributeError(f"{method} is for likelihood={likelihood!r}, not {self._likelihood!r}.")
