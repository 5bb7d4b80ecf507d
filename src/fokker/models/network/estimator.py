"""`fk.models.Network`: a posterior over the weights of a network, with the interface of scikit-learn."""

import warnings
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree
from matplotlib.figure import Figure

from fokker.integrators.noise import check_noise
from fokker.models.checks import optional, positive, whole, within
from fokker.models.estimator import (
    Estimator,
    check_columns,
    joined_labels,
    new_seed,
    remember_columns,
    split_labels,
)
from fokker.models.network import inputs
from fokker.models.network.evaluation import (
    ClassUncertainty,
    Evaluation,
    RegressionUncertainty,
    evaluate_classes,
    evaluate_targets,
)
from fokker.models.network.metrics import auroc, entropy, reliability
from fokker.models.network.networks import (
    check_draws,
    check_outputs,
    functional,
    is_sizes,
    numbered,
    perceptron_sizes,
    perceptron_start,
    state_arrays,
    with_state_arrays,
)
from fokker.models.network.posterior import check_likelihood, prior_scales, sampled_leaves
from fokker.models.network.predict import Predictive, by_rows
from fokker.models.network.settings import StepSettings
from fokker.models.network.training import Lengths, Problem

_FITTED_ARRAYS = ("_location", "_scale")


@dataclass(eq=False, repr=False)
class Network(Estimator):
    r"""A posterior over the weights of a neural network, by stochastic-gradient MCMC.

        p(θ | X, y) ∝ Π_l N(θ_l; 0, s_l²) Π_i p(y_i | f(θ, x_i))

    ```python
    net = fk.models.Network([100]).fit(X, y)  # or a module of Flax or Equinox
    net.predict_proba(X_new), net.uncertainty(X_new).mutual_information, net.evaluate(X_test, y_test)
    ```

    `model`: sizes of the hidden layers of dense layers with an `activation`; a `flax.linen.Module`,
    `flax.nnx.Module` or `equinox.Module`; a function of a key that makes one of the last two, for chains that
    start at different weights; or a function f(params, x) of one row x, with `params` to start from (a tree,
    or a function of a key). Flax modules get a row with a leading axis of length one. `params` of a module
    are where a trained one starts, with all that it has beside its parameters, such as the averages of a
    BatchNorm: all `variables` of Linen, a state of NNX, a module of Equinox.

    `likelihood`: "categorical" (the outputs are logits), "gaussian" (the outputs are means; `noise_scale` is
    the standard deviation of y, or None to learn it) or "heteroscedastic" (means and log variances). In a
    regression the network sees y shifted and scaled to mean 0 and standard deviation 1. Scale the columns of
    X likewise before.

    `prior`: the standard deviations s_l: a number; "fan-in", √(8/m) for weights with m inputs and 1 for
    biases and for the last layer of a classifier; or a mapping from parts of a parameter's path to these, as
    in {"layers.0": 0.1, "bias": 1.0}.

    `sampler`: "sgnht", "sghmc", "sgld", "psgld", or one of `fk.samplers` with its own settings. For names,
    `learning_rate` (of the mean loss; None chooses it for X), `momentum` and `noise` make its step size and
    friction (`fokker.models.network.settings` says how). `schedule="cyclical"` (Zhang et al. 2020) goes
    through `cycles` from large steps to small ones, with draws from their second halves. `temperature`: T of
    exp(-U/T); the posterior is T = 1.

    A fit is a warm start by SGD with momentum, burn-in, and `passes` passes over the data from which each of
    `chains` stores `draws` draws. Without `passes` it is 20 passes, but at least 10,000 steps; the other two
    take a quarter of it each. `sampled`: which weights are sampled, while the others stay where the warm
    start left them: "all", "last" (the last layer, by what the output is computed from), parts of paths,
    or a function of the path.

    After fitting: `trace_`, the run of `fk.sample`; `draws_`, all draws as a tree with a leading axis;
    `classes_`; `stopped_`, why a run ended early. `net.save(path)` writes a file, and `Network.load(path)`
    reads it, with `model=` for a module or a function; neither it nor a pickle has `trace_`.
    """

    _kind = "fitted network"
    # A run holds programs and keys; the others are built again from the arrays of the weights.
    _rebuilt = ("trace_", "draws_", "_problem", "_chosen", "_fixed", "_positions")
    _attributes = (
        "input_shape_",
        "n_features_in_",
        "stopped_",
        "_outputs",
        "_is_vector",
        "_targets_per_row",
    )
    _labels = ("labels",)
    # A module is known without the weights that it started from.
    _remade = ("params",)
    _renamed: ClassVar[dict[str, str]] = {
        "epochs": "passes",
        "burn_in_epochs": "burn_in_passes",
        "warm_start_epochs": "warm_start_passes",
    }

    model: Any = (100,)
    _: KW_ONLY
    likelihood: str = "categorical"
    prior: Any = "fan-in"
    noise_scale: float | None = None
    sampler: Any = "sgnht"
    learning_rate: float | None = None
    momentum: float = 0.9
    noise: str = "two-point"
    schedule: str = "constant"
    cycles: int = 4
    temperature: float = 1.0
    params: Any = None
    activation: str = "relu"
    sampled: Any = "all"
    batch_size: int = 100
    passes: float | None = None
    burn_in_passes: float | None = None
    warm_start_passes: float | None = None
    draws: int = 50
    chains: int = 2
    random_state: Any = 0
    progress: bool = True

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, RegressorTags

        tags = super().__sklearn_tags__()  # type: ignore[misc]
        is_classifier = self.likelihood == "categorical"
        tags.estimator_type = "classifier" if is_classifier else "regressor"
        tags.classifier_tags = ClassifierTags() if is_classifier else None
        tags.regressor_tags = None if is_classifier else RegressorTags()
        tags.target_tags.required = True
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Start at new weights and sample the posterior given X and y."""
        return self._fit(X, y, None)

    def _fit(self, X: Any, y: Any, classes: Any) -> Self:
        self._check_settings()
        self._seed = new_seed(self.random_state)
        rows = inputs.checked_rows(X)
        targets = self._new_targets(y, len(rows), classes)
        self._remember(X, rows)
        self._data = {"x": rows, "y": targets}
        inputs.warn_of_large(rows)
        self._problem = self._new_problem(rows[0], self.chains)
        positions = self._problem.start()
        lengths = self._lengths(len(rows))
        network = self._problem.network
        chosen = sampled_leaves(self.sampled, network.first_start, lambda: network.last_layer(rows[0]))
        is_part = not all(jax.tree.leaves(chosen))
        if is_part:  # the fixed weights are those of one warm start
            positions = jax.tree.map(lambda x: x[:1], positions)
        if lengths.warm_start:
            positions = self._problem.warm_started(
                self._data, self._step_settings(), positions, lengths.warm_start
            )
        weights, rest = eqx.partition(positions["weights"], chosen)
        self._chosen, self._fixed = chosen, jax.tree.map(lambda x: x[0], rest)
        positions = {**positions, "weights": weights}
        if is_part:
            positions = jax.tree.map(lambda x: np.repeat(x, self.chains, axis=0), positions)
        return self._sample(positions, lengths)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Add rows, and go on from the present weights.

        The draws afterwards are of the posterior given all rows since the last `fit` or the first
        `partial_fit`, which are kept: the same posterior as of one `fit` to all of them. There is no new warm
        start. `classes`: in the first call, all classes if X does not have them all.
        """
        if not self.__sklearn_is_fitted__():
            return self._fit(X, y, classes)
        if not hasattr(self, "_positions"):
            raise ValueError(
                "partial_fit needs the rows of the fits before, which the file of save does not have: call "
                "fit with all rows, old and new, or store the network by pickle, which has them."
            )
        self._check_settings()
        rows = self._rows(X)
        targets = self._targets(y, len(rows))
        together = zip(self._data.items(), (rows, targets), strict=True)
        self._data = {name: np.concatenate([old, new]) for (name, old), new in together}
        return self._sample(self._positions, self._lengths(len(self._data["x"])))

    def _sample(self, positions: PyTree[Any], lengths: Lengths) -> Self:
        problem = self._problem
        target = problem.target(self._data, self._chosen, self._fixed)
        curvature = problem.curvature(self._data["x"], positions, self._fixed)
        sampler = self._step_settings().make(target.size, curvature, lengths.period)
        trace = problem.run(
            target,
            sampler,
            positions,
            self.temperature,
            burn_in=lengths.burn_in,
            steps=lengths.thin * lengths.draws,
            thin=lengths.thin,
            seed=self._seed,
        )
        if trace.draws is None:
            raise KeyboardInterrupt
        if trace.stopped is not None:
            warnings.warn(f"the run was {trace.stopped}: fewer draws are used.", stacklevel=3)
        self.trace_, self.stopped_ = trace, trace.stopped
        self._positions = trace.state.position
        selected = lengths.selected()[: jax.tree.leaves(trace.draws)[0].shape[1]]
        if not selected.any():
            selected[-1] = True
        self.draws_ = jax.tree.map(lambda x: x[:, selected].reshape(-1, *x.shape[2:]), trace.draws)
        return self

    def _check_settings(self) -> None:
        check_likelihood(self.likelihood)
        self._step_settings().check()
        check_noise(self.noise)
        for name in ("batch_size", "draws", "chains", "cycles"):
            whole(1)(name, getattr(self, name))
        for name in ("passes", "burn_in_passes", "warm_start_passes"):
            check = within(0, np.inf, "a number of passes over the data, at least 0")
            optional(check)(name, getattr(self, name))
        if self.passes == 0:
            raise ValueError("passes must be above 0: without a pass over the data there are no draws.")
        if self.noise_scale is not None:
            if self.likelihood != "gaussian":
                raise ValueError("noise_scale is for likelihood='gaussian': leave it out.")
            positive("noise_scale", self.noise_scale)

    def _step_settings(self) -> StepSettings:
        return StepSettings(
            self.sampler, self.learning_rate, self.momentum, self.schedule, self.cycles, self.noise
        )

    def _lengths(self, rows: int) -> Lengths:
        steps_per_pass = max(1.0, rows / self.batch_size)
        cycles = self.cycles if self.schedule == "cyclical" else None
        return Lengths.of(
            steps_per_pass, self.passes, self.burn_in_passes, self.warm_start_passes, self.draws, cycles
        )

    def _remember(self, X: Any, rows: np.ndarray) -> None:
        self.input_shape_ = rows.shape[1:]
        self.n_features_in_ = int(np.prod(self.input_shape_))
        remember_columns(self, X)

    def _rows(self, X: Any) -> np.ndarray:
        """The rows of an X like that of `fit`."""
        check_columns(self, X)
        return inputs.checked_rows(X, self.input_shape_)

    def _new_targets(self, y: Any, rows: int, classes: Any) -> np.ndarray:
        """y as the network sees it, after finding the classes, or location and scale of y."""
        if self.likelihood == "categorical":
            labels = inputs.checked_labels(y, rows)
            self.classes_ = inputs.checked_classes(labels, classes)
            self._outputs = len(self.classes_)
            return inputs.class_numbers(labels, self.classes_)
        targets = inputs.checked_targets(y, rows)
        self._is_vector = np.ndim(y) == 2
        scale = targets.std(0)
        self._location, self._scale = targets.mean(0), np.where(scale > 0, scale, 1.0)
        self._targets_per_row = targets.shape[1]
        self._outputs = targets.shape[1] * (2 if self.likelihood == "heteroscedastic" else 1)
        return self._scaled(targets)

    def _targets(self, y: Any, rows: int) -> np.ndarray:
        if self.likelihood == "categorical":
            return inputs.class_numbers(inputs.checked_labels(y, rows), self.classes_)
        return self._scaled(inputs.checked_targets(y, rows, self._targets_per_row))

    def _scaled(self, targets: np.ndarray) -> np.ndarray:
        return ((targets - self._location) / self._scale).astype(np.float32)

    def _new_problem(self, row: np.ndarray, chains: int) -> Problem:
        keys = jax.random.split(jax.random.key(self._seed), chains)
        network = functional(self.model, self.params, self.activation, row, self._outputs, keys)
        check_outputs(network, row, self._outputs, f"likelihood={self.likelihood!r} with this y")
        last = (lambda: network.last_layer(row)) if self.likelihood == "categorical" else None
        noise_scale = None
        if self.noise_scale is not None:
            noise_scale = np.asarray(self.noise_scale / self._scale, np.float32)
        return Problem(
            network=network,
            scales=prior_scales(self.prior, network.first_start, network.output_axis, last),
            likelihood=self.likelihood,
            noise_scale=noise_scale,
            outputs=self._outputs,
            batch_size=self.batch_size,
            seed=self._seed,
            progress=self.progress,
        )

    def _outputs_by_rows(self, X: Any) -> Any:
        """For slices of the rows: their places and, over draws, the probabilities or means and deviations."""
        self._check_fitted()
        rows = self._rows(X)
        predictive = Predictive(self._problem.log_likelihood(self._fixed))
        return len(rows), by_rows(predictive, self.draws_, rows)

    # Storing.

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        draws, fixed = (numbered(x) for x in (self.draws_["weights"], self._fixed))
        arrays = {
            **{f"draws.{i}": np.asarray(x) for i, x in draws.items()},
            **{f"fixed.{i}": np.asarray(x) for i, x in fixed.items()},
            **{f"network.{i}": x for i, x in enumerate(state_arrays(self._problem.network.apply))},
            **{name: np.asarray(getattr(self, name)) for name in _FITTED_ARRAYS if hasattr(self, name)},
        }
        if "log_noise" in self.draws_:
            arrays["log_noise"] = np.asarray(self.draws_["log_noise"])
        labels, of_classes = split_labels({"classes": self.classes_} if hasattr(self, "classes_") else {})
        return {"labels": labels}, {**arrays, **of_classes}

    def _restore(self, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        self.input_shape_ = tuple(self.input_shape_)
        self.__dict__.update({name: arrays[name] for name in _FITTED_ARRAYS if name in arrays})
        if "classes" in header:  # of an older file
            self.classes_ = np.asarray(header["classes"], np.dtype(header["classes_type"]))
        else:
            of_classes = {"classes": arrays["classes"]} if "classes" in arrays else {}
            labels = joined_labels(header["labels"], of_classes)
            if "classes" in labels:
                self.classes_ = labels["classes"]
        if self.likelihood == "categorical" and len(self.classes_) != self._outputs:
            raise ValueError(f"there are {len(self.classes_)} classes for {self._outputs} outputs")
        # A row without memory of its own: what the file says of its shape is not known to be right yet.
        row = np.broadcast_to(np.float32(0), self.input_shape_)
        if is_sizes(self.model) and self.params is None:
            sizes = perceptron_sizes(self.model, row, self._outputs)
            shapes = jax.eval_shape(lambda key: perceptron_start(key, sizes), jax.random.key(0))
            check_draws(shapes, arrays)
        problem = self._new_problem(row, chains=1)
        check_draws(problem.network.first_start, arrays)
        stored = [arrays[f"network.{i}"] for i in range(sum(name.startswith("network.") for name in arrays))]
        network = replace(problem.network, apply=with_state_arrays(problem.network.apply, stored))
        self._problem = replace(problem, network=network)
        leaves, structure = jax.tree.flatten(network.first_start)

        def tree(prefix: str) -> PyTree[Array]:
            stored = [arrays.get(f"{prefix}.{i}") for i in range(len(leaves))]
            return jax.tree.unflatten(structure, [None if x is None else jnp.asarray(x) for x in stored])

        self._fixed = tree("fixed")
        self._chosen = jax.tree.unflatten(structure, [f"draws.{i}" in arrays for i in range(len(leaves))])
        self.draws_ = {"weights": tree("draws")}
        if "log_noise" in arrays:
            self.draws_["log_noise"] = jnp.asarray(arrays["log_noise"])

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        if hasattr(self, "_positions"):
            state["_position_leaves"] = [np.asarray(x) for x in jax.tree.leaves(self._positions)]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        leaves = state.pop("_position_leaves", None)
        super().__setstate__(state)
        if leaves is not None:
            self._positions = jax.tree.unflatten(jax.tree.structure(self.draws_), map(jnp.asarray, leaves))

    def parameters(self, number: int) -> PyTree[np.ndarray]:
        """The weights of one draw, sampled and fixed ones, as the tree that the network takes."""
        self._check_fitted()
        return eqx.combine(jax.tree.map(lambda x: x[number], self.draws_["weights"]), self._fixed)

    def predict_proba(self, X: Any) -> np.ndarray:
        """p(class | x) averaged over the draws, one row per row of X, columns in the order of `classes_`."""
        self._needs("categorical", "predict_proba")
        rows, parts = self._outputs_by_rows(X)
        probabilities = np.empty((rows, len(self.classes_)))
        for place, values in parts:
            probabilities[place] = values.mean(0, dtype=float)
        return probabilities / probabilities.sum(1, keepdims=True)

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The most probable classes; in a regression E[y | x], with `return_std` also the deviation of y.

        The variance of y is that of the means over the draws plus the mean of the noise variance.
        """
        self._check_fitted()
        if self.likelihood == "categorical":
            if return_std:
                raise ValueError(
                    "return_std is for regression; for classes see predict_proba and uncertainty."
                )
            return self.classes_[np.argmax(self.predict_proba(X), 1)]
        mean, uncertainty = self._moments(X)
        return (mean, np.sqrt(uncertainty.variance)) if return_std else mean

    def _moments(self, X: Any) -> tuple[np.ndarray, RegressionUncertainty]:
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

    def uncertainty(self, X: Any) -> ClassUncertainty | RegressionUncertainty:
        """How uncertain each prediction is, and how much of it more data could remove.

        For classes, in nats: `entropy` H[E p], `expected_entropy` E H[p], and `mutual_information`, the
        difference, between y and the weights (Houlsby et al. 2011). In a regression: `variance` of y,
        `variance_of_mean` (from the weights) and `expected_variance` (of the noise), which add up.
        """
        self._check_fitted()
        if self.likelihood != "categorical":
            return self._moments(X)[1]
        rows, parts = self._outputs_by_rows(X)
        total, expected = np.empty(rows), np.empty(rows)
        for place, values in parts:
            total[place] = entropy(values.mean(0, dtype=float))
            expected[place] = entropy(values).mean(0, dtype=float)
        return ClassUncertainty(total, np.maximum(total - expected, 0), expected)

    def score(self, X: Any, y: Any) -> float:
        """The accuracy; in a regression R² = 1 - Σ(y - ŷ)²/Σ(y - ȳ)²."""
        if self.likelihood == "categorical":
            return self.evaluate(X, y).accuracy
        predicted = np.asarray(self.predict(X)).reshape(np.shape(X)[0], -1)
        targets = inputs.checked_targets(y, len(predicted), self._targets_per_row)
        return float(1 - np.sum((targets - predicted) ** 2) / np.sum((targets - targets.mean(0)) ** 2))

    def evaluate(self, X: Any, y: Any, bins: int = 15) -> Evaluation:
        """Accuracy, negative log-likelihood, Brier score and calibration error (over `bins`) on these rows.

        In a regression: root mean square error, negative log-likelihood, and the share of y within their 90 %
        intervals. Likelihoods are of the average over draws.
        """
        self._check_fitted()
        if self.likelihood == "categorical":
            probabilities = self.predict_proba(X)
            labels = inputs.class_numbers(inputs.checked_labels(y, len(probabilities)), self.classes_)
            return evaluate_classes(probabilities, labels, bins)
        rows, parts = self._outputs_by_rows(X)
        targets = inputs.checked_targets(y, rows, self._targets_per_row)
        return evaluate_targets(targets, parts, self._location, self._scale)

    def out_of_distribution(self, X_in: Any, X_out: Any, by: str | None = None) -> float:
        """How well uncertainty tells other data from such as were fitted: the AUROC of `by`.

        It is the probability that a row of `X_out` has more of it than one of `X_in`. `by` is a part of
        `uncertainty`: "entropy" (the default) or "mutual_information"; in a regression "variance_of_mean" or
        "variance".
        """
        is_classifier = self.likelihood == "categorical"
        choices = ("entropy", "mutual_information") if is_classifier else ("variance_of_mean", "variance")
        by = choices[0] if by is None else by
        if by not in choices:
            raise ValueError(f"by is one of {', '.join(choices)}, not {by!r}.")
        inside, outside = (getattr(self.uncertainty(X), by) for X in (X_in, X_out))
        if inside.ndim == 2:
            inside, outside = inside.sum(1), outside.sum(1)
        return auroc(inside, outside)

    def reliability_plot(self, X: Any, y: Any, bins: int = 15) -> Figure:
        """Accuracy against confidence on these rows; on the diagonal the network knows what it knows."""
        from fokker.models.network.report import reliability_figure

        self._needs("categorical", "reliability_plot")
        probabilities = self.predict_proba(X)
        labels = inputs.class_numbers(inputs.checked_labels(y, len(probabilities)), self.classes_)
        return reliability_figure({"posterior": reliability(probabilities, labels, bins)})

    def report(
        self, path: Any, X: Any, y: Any, X_out: Any = None, title: str = "A network", extra: Any = ()
    ) -> None:
        """Write an HTML page about the fit, judged on held-out rows X and y: a verdict, tables and pictures.

        `X_out`: rows unlike those of the data, whose uncertainty should be larger. `extra`: further parts of
        the page, in HTML.
        """
        from fokker._core.files import write_text
        from fokker.models.network.report import report

        self._check_fitted()
        if not hasattr(self, "trace_"):
            raise ValueError(
                "the report is about the run, trace_, which a stored network does not have: fit it."
            )
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, report(self, X, y, X_out, title, extra))

    def _needs(self, likelihood: str, method: str) -> None:
        self._check_fitted()
        if self.likelihood != likelihood:
            raise AttributeError(f"{method} is for likelihood={likelihood!r}, not {self.likelihood!r}.")
