"""`fk.models.Network`: a posterior over the weights of a network, with the interface of scikit-learn."""

import os
import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree
from numpy.typing import ArrayLike

from fokker.models import inputs
from fokker.models.columns import deviations
from fokker.models.estimator import (
    RandomState,
    new_seed,
    remember_columns,
)
from fokker.models.fits import as_fitted, parameters_now, unchanged_by_failure
from fokker.models.labels import joined_labels, split_labels
from fokker.models.network.calibration import calibrated, derived_seed, held_out, of_all_chains
from fokker.models.network.networks import (
    check_draws,
    check_outputs,
    functional,
    is_sizes,
    perceptron_shapes,
    perceptron_sizes,
)
from fokker.models.network.parameters import (
    check_classes,
    check_parameters,
    check_unchanged,
    warn_of_large,
)
from fokker.models.network.posterior import Prior, Sampled, prior_scales, sampled_leaves
from fokker.models.network.predictor import FOR_REGRESSION, Predictor
from fokker.models.network.settings import StepSettings
from fokker.models.network.stored import restored_weights, weights_state
from fokker.models.network.training import Fit, Lengths, NetworkPosterior
from fokker.samplers.contract import Sampler


@dataclass(eq=False, repr=False)
class Network(Predictor):
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

    `prior`: the standard deviations s_l: a number; "fan-in", √(2/m) for weights with m inputs, 2 for those of
    the last layer of a classifier and 1 for biases; or a mapping from parts of a parameter's path to these,
    as in {"layers.0": 0.1, "bias": 1.0}.

    `sampler`: "sgnht", "sghmc", "sgld", "psgld", or one of `fk.samplers` with its own settings. For names,
    `learning_rate` (of the mean loss; None chooses it for X), `momentum` and `noise` make its step size and
    friction (`fokker.models.network.settings` says how). `schedule="cyclical"` (Zhang et al. 2020) goes
    through `cycles` from large steps to small ones, with draws from their second halves. `temperature`: T of
    exp(-U/T); the posterior is T = 1.

    A fit is a warm start by SGD with momentum (`warm_start_passes` over the data), burn-in
    (`burn_in_passes`), and `passes` passes from which each of `chains` stores `draws` draws. Without `passes`
    it is 20 passes, but at least 10,000 steps; the other two take a quarter of it each. `sampled`: which
    weights are sampled, while the others stay where the warm start left them: "all", "last" (the last layer,
    by what the output is computed from), parts of paths, or a function of the path.

    `calibration`: a number of folds takes the probabilities of classes to the power `sharpness_`, with a
    share `label_noise_` at random, as is most likely for the rows of each fold, predicted by one chain given
    the others; the draws are those given all rows. By default 5 folds from 50 rows on, or as many of them as
    predict 400 rows, unless weights are given to start from, which may have been trained on these rows; 0 is
    none. A share, such as 0.1, leaves so many rows out of the fit, and of `partial_fit`, for this instead.
    `batch_size`: rows per step; by default all of up to 500, without minibatch noise, and 100 of more.
    `random_state`: a whole number, a generator of NumPy, or None for other draws each time. `progress`:
    whether a progress display is shown.

    After fitting: `trace_`, the run of `fk.sample`; `draws_`, all draws as a tree with a leading axis;
    `classes_`; `stopped_`, why a run ended early. `net.save(path)` writes a file, and `Network.load(path)`
    reads it, with `model=` for a module or a function; neither it nor a pickle has `trace_`.
    """

    _kind = "fitted network"
    # Built again from the arrays of the weights.
    _rebuilt = ("draws_", "_posterior", "_chosen", "_fixed", "_positions")
    _attributes = (
        "input_shape_",
        "stopped_",
        "sharpness_",
        "label_noise_",
        "_outputs",
        "_is_vector",
        "_targets_per_row",
    )
    _arrays = ("_location", "_scale")
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
    prior: Prior = "fan-in"
    noise_scale: float | None = None
    sampler: str | Sampler = "sgnht"
    learning_rate: float | None = None
    momentum: float = 0.9
    noise: str = "two-point"
    schedule: str = "constant"
    cycles: int = 4
    temperature: float = 1.0
    params: Any = None
    activation: str = "relu"
    sampled: Sampled = "all"
    calibration: float | int | None = None
    batch_size: int | None = None
    passes: float | None = None
    burn_in_passes: float | None = None
    warm_start_passes: float | None = None
    draws: int = 50
    chains: int = 2
    random_state: RandomState = 0
    progress: bool = True

    @property
    def _predicts(self) -> Literal["classifier", "regressor"]:
        return "classifier" if self.likelihood == "categorical" else "regressor"

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Start at new weights and sample the posterior given X and y.

        Args:
            X: one row per datum, of numbers in any shape; columns of about unit scale.
            y: labels, or the targets of a regression, one or several per row.

        Returns:
            The estimator itself.
        """
        with unchanged_by_failure(self):
            return self._fit(X, y, None)

    def _fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None) -> Self:
        check_parameters(self)
        self._seed, self._fitted_with = new_seed(self.random_state), parameters_now(self)
        rows = inputs.checked_rows(X)
        targets = self._new_targets(y, len(rows), classes)
        self._remember(X, rows)
        self._partial_fits = 0
        rows, targets, self._held_out = held_out(rows, targets, self.calibration or 0, self._seed)
        self._data = {"x": rows, "y": targets}
        warn_of_large(rows)
        self._posterior = self._new_posterior(rows[0], self.chains, self._seed)
        lengths, network = self._lengths(len(rows)), self._posterior.network
        self._chosen = sampled_leaves(self.sampled, network.first_start, lambda: network.last_layer(rows[0]))
        positions, self._fixed = self._posterior.started(self._fit_of(lengths))
        return self._sample(positions, lengths)

    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None) -> Self:
        """Add rows, and go on from the present weights.

        The draws afterwards are of the posterior given all rows since the last `fit` or the first
        `partial_fit`, which are stored: the same posterior as of one `fit` to all of them. There is no new
        warm start. A share as `calibration` leaves so many of all rows out. Where it fails or is interrupted
        before the first draw the network is as it was, and the rows can be given again.

        Args:
            X: further rows, as in `fit`.
            y: their labels or targets.
            classes: in the first call, all classes if y does not have them all.

        Returns:
            The estimator itself.
        """
        if not self.__sklearn_is_fitted__():
            check_classes(self, classes)
            with unchanged_by_failure(self):
                return self._fit(X, y, classes)
        if not hasattr(self, "_positions"):
            raise ValueError(
                "partial_fit needs the rows of the fits before, which the file of save does not have: call "
                "fit with all rows, old and new, or store the network by pickle, which has them."
            )
        check_parameters(self)
        check_unchanged(self)
        check_classes(self, classes, getattr(self, "classes_", np.empty(0)).tolist())
        rows = self._rows(X)
        targets = self._targets(y, len(rows))
        with unchanged_by_failure(self):
            self._partial_fits = getattr(self, "_partial_fits", 0) + 1  # an older pickle has none
            self._fitted_with, before = parameters_now(self), self._data
            known = len(before["x"]), self._held_out
            rows, targets, self._held_out = held_out(
                rows, targets, self.calibration or 0, self._seed_of_run, *known
            )
            new = {"x": rows, "y": targets}
            self._data = {name: np.concatenate([before[name], new[name]]) for name in new}
            return self._sample(self._positions, self._lengths(len(self._data["x"])))

    @property
    def _seed_of_run(self) -> int:
        """That of the fit, and others for each `partial_fit`: with its seed their noise would be the same."""
        number = getattr(self, "_partial_fits", 0)
        return derived_seed(self._seed, 0, number) if number else self._seed

    def _sample(self, positions: PyTree[Any], lengths: Lengths) -> Self:
        fit, fixed = self._fit_of(lengths), self._fixed
        trace = self._posterior.sampled(fit, positions, fixed, self.temperature, self._seed_of_run)
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
        self.sharpness_, self.label_noise_ = calibrated(self)
        return self

    def _fit_of(self, lengths: Lengths) -> Fit:
        data = of_all_chains(self)
        return Fit(data, self._step_settings(), lengths, self._chosen, len(data["x"]))

    def _step_settings(self) -> StepSettings:
        return StepSettings(
            self.sampler, self.learning_rate, self.momentum, self.schedule, self.cycles, self.noise
        )

    def _lengths(self, rows: int) -> Lengths:
        cycles = self.cycles if self.schedule == "cyclical" else None
        passes = self.passes, self.burn_in_passes, self.warm_start_passes
        return Lengths.of(rows, self.batch_size, *passes, self.draws, cycles)

    def _remember(self, X: ArrayLike, rows: np.ndarray) -> None:
        self.input_shape_ = rows.shape[1:]
        self.n_features_in_ = int(np.prod(self.input_shape_))
        remember_columns(self, X)

    def _new_targets(self, y: ArrayLike, rows: int, classes: ArrayLike | None) -> np.ndarray:
        """y as the network sees it, after finding the classes, or location and scale of y."""
        if self.likelihood == "categorical":
            labels = inputs.checked_labels(y, rows, for_regression=FOR_REGRESSION)
            self.classes_ = inputs.checked_classes(labels, classes, hint=", or classes= in partial_fit")
            self._outputs = len(self.classes_)
            return inputs.class_numbers(labels, self.classes_)
        targets = inputs.checked_targets(y, rows)
        self._is_vector = np.asarray(y).ndim == 2
        scale = deviations(targets)
        self._location, self._scale = targets.mean(0), np.where(scale > 0, scale, 1.0)
        self._targets_per_row = targets.shape[1]
        self._outputs = targets.shape[1] * (2 if self.likelihood == "heteroscedastic" else 1)
        return self._scaled(targets)

    def _targets(self, y: ArrayLike, rows: int) -> np.ndarray:
        if self.likelihood == "categorical":
            return self._class_numbers(y, rows)
        return self._scaled(inputs.checked_targets(y, rows, self._targets_per_row))

    def _scaled(self, targets: np.ndarray) -> np.ndarray:
        return ((targets - self._location) / self._scale).astype(np.float32)

    def _new_posterior(self, row: np.ndarray, chains: int, seed: int) -> NetworkPosterior:
        keys, fit = jax.random.split(jax.random.key(seed), chains), as_fitted(self)
        network = functional(fit.model, fit.params, fit.activation, row, self._outputs, keys)
        check_outputs(network, row, self._outputs, f"likelihood={fit.likelihood!r} with this y")
        last = (lambda: network.last_layer(row)) if fit.likelihood == "categorical" else None
        noise_scale = None
        if fit.noise_scale is not None:
            noise_scale = np.asarray(fit.noise_scale / self._scale, np.float32)
        return NetworkPosterior(
            network=network,
            scales=prior_scales(fit.prior, network.first_start, network.output_axis, last),
            likelihood=fit.likelihood,
            noise_scale=noise_scale,
            outputs=self._outputs,
            seed=seed,
            progress=self.progress,
        )

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        weights = weights_state(self._posterior.network, self.draws_, self._fixed)
        labels, of_classes = split_labels({"classes": self.classes_} if hasattr(self, "classes_") else {})
        return {"labels": labels}, {**weights, **super()._fitted_state()[1], **of_classes}

    def _restore(self, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        fit, self.input_shape_ = as_fitted(self), tuple(self.input_shape_)
        super()._restore(header, arrays)
        if "classes" in header:  # of an older file
            self.classes_ = np.asarray(header["classes"], np.dtype(header["classes_type"]))
        else:
            of_classes = {"classes": arrays["classes"]} if "classes" in arrays else {}
            labels = joined_labels(header["labels"], of_classes)
            if "classes" in labels:
                self.classes_ = labels["classes"]
        if fit.likelihood == "categorical" and len(self.classes_) != self._outputs:
            raise ValueError(f"there are {len(self.classes_)} classes for {self._outputs} outputs")
        # A row without memory of its own: what the file says of its shape is not known to be right yet.
        row = np.broadcast_to(np.float32(0), self.input_shape_)
        if is_sizes(fit.model) and fit.params is None:
            check_draws(perceptron_shapes(perceptron_sizes(fit.model, row, self._outputs)), arrays)
        posterior = self._new_posterior(row, 1, self._seed)
        network, self.draws_, self._fixed, self._chosen = restored_weights(posterior.network, arrays)
        self._posterior = replace(posterior, network=network)

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

    def report(
        self,
        path: str | os.PathLike[str],
        X: ArrayLike,
        y: ArrayLike,
        X_out: ArrayLike | None = None,
        title: str = "A network",
        extra: Sequence[str] = (),
    ) -> None:
        """Write an HTML page about the fit: a verdict, tables and pictures.

        Args:
            path: of the page.
            X: held-out rows.
            y: their labels or targets.
            X_out: rows unlike those of the data, whose uncertainty should be larger.
            title: of the page.
            extra: further parts of the page, in HTML.
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
        write_text(path, report(as_fitted(self), X, y, X_out, title, extra))
