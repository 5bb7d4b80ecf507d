"""The result of a run: draws or moments, and whether to trust them."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Concatenate, ParamSpec, TypeVar

import jax
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from fokker._core.checks import check_whole
from fokker._core.draws import at_draws, shape_of_draws
from fokker._core.keys import checked_key
from fokker._core.labels import Labels, named_leaves
from fokker._core.paths import as_file, as_folder
from fokker._core.precision import computing_in
from fokker._core.state import nearest
from fokker._core.statistics import inference_data
from fokker.diagnostics import StepHalving, Summary, step_halving, summarise
from fokker.diagnostics._quantities import Quantities, flat
from fokker.diagnostics.summary import QUANTILES
from fokker.rows import categories_of, is_source, opened, reading, with_codes_of
from fokker.run.fixed import fixed_entries
from fokker.run.losses import Loss, in_words, left_of, surviving
from fokker.run.predict import check_memory, predict, predict_with_keys
from fokker.targets.target import Target, TargetWithData, labels_of

_P = ParamSpec("_P")
_T = TypeVar("_T")


def _in_its_precision(
    method: Callable[Concatenate["Trace", _P], _T],
) -> Callable[Concatenate["Trace", _P], _T]:
    """A method of a trace in the precision of the run: its target may be of double precision."""

    @functools.wraps(method)
    def called(trace: "Trace", *args: _P.args, **kwargs: _P.kwargs) -> _T:
        with computing_in(trace.settings.get("precision")):
            return method(trace, *args, **kwargs)

    return called


# What ArviZ's schema calls them.
_ARVIZ = {"is_divergent": "diverging", "num_integration_steps": "n_steps"}


@dataclass(frozen=True)
class Origin:
    """Where a trace comes from: everything needed to run it again.

    `sampler` is put on the target, `batches` are made of its data. `options` are those of `fk.sample`, with
    what warm-up learnt filled in. `notes`: problems found in warm-up; `one_start`:
    whether all chains started at one point.
    """

    target: Any
    sampler: Any
    batches: Any
    options: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    one_start: bool = False


@dataclass(frozen=True)
class Trace:
    """The draws of a run.

    `samples`: theta's tree, leading axes chain and draw; it raises, with the reason, where there are none.
    `draws` is the same, or None. `moments`: mean and variance of each entry of theta, per chain.
    `sample_stats`, chain by draw, where the sampler has them: the kinetic temperature rᵀ∂H/∂r / d and the
    thermostat xi; what `fk.samplers.Info` has of a step with a correction. `state`: the last state of every
    chain. `stopped`: why the run ended early, else None. `losses`: the chains that diverged and were stopped
    while the others went on, with the reason; draws, moments and statistics are those of the others,
    `chains`.
    """

    draws: PyTree[np.ndarray] | None
    moments: dict[str, PyTree[np.ndarray]] | None
    sample_stats: dict[str, np.ndarray]
    state: Any
    stopped: str | None
    settings: dict[str, Any] = field(default_factory=dict)
    origin: Origin | None = field(default=None, repr=False)
    gathered: Any = field(default=None, repr=False)
    losses: Mapping[int, Loss] = field(default_factory=dict, repr=False)
    # Draws and statistics of all chains, also of those that were stopped.
    record: dict[str, Any] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        contents = str(jax.tree.map(np.shape, self.draws))
        if self.draws is None:
            contents = "no draws" if self.moments is None else "moments"
        return f"Trace({contents}, stopped={self.stopped!r})"

    @property
    def samples(self) -> PyTree[np.ndarray]:
        """Theta's tree, leading axes chain and draw; raises where the run has no draws."""
        if self.draws is not None:
            return self.draws
        if self.moments is not None:
            raise RuntimeError(
                "only moments were kept: trace.moments has them; for draws, R-hat and ESS sample with "
                "keep='draws'."
            )
        raise RuntimeError(f"the run ended before its first draw: {self.stopped}.")

    @property
    def has_results(self) -> bool:
        """Whether there are draws or moments."""
        return self.draws is not None or self.moments is not None

    @property
    def cautions(self) -> tuple[str, ...]:
        """What speaks against a better grade than "Use with care"."""
        return ()

    @property
    def was_interrupted(self) -> bool:
        """Whether the run was ended by Ctrl-C, and so can be continued."""
        return self.stopped is not None and self.stopped.startswith("interrupted")

    @classmethod
    def gather(
        cls,
        gathered: dict[str, Any] | None,
        moments: Any,
        state: Any,
        stopped: str | None,
        settings: dict[str, Any],
        origin: Origin | None = None,
        before: "Trace | None" = None,
        losses: Mapping[int, Loss] = MappingProxyType({}),
    ) -> "Trace":
        """From the record of a run, with leading axes chain and draw, appended to that of `before`."""
        record = dict(gathered or {})
        if before is not None:
            both = [tree for tree in (before.record, record) if tree]
            record = jax.tree.map(lambda *xs: np.concatenate(xs, axis=1), *both) if both else {}
        kept = surviving(record, losses)
        samples = kept.get("position")
        if samples is not None and jax.tree.leaves(samples)[0].shape[1] == 0:
            samples = None
        return cls(
            samples,
            moments_of(moments, losses),
            {name: x for name, x in kept.items() if name != "position"},
            state,
            stopped,
            settings,
            origin,
            moments,
            dict(losses),
            record,
        )

    @property
    def chains(self) -> list[int]:
        """The numbers of the chains that the results are of."""
        return left_of(int(self.settings["chains"]), self.losses)

    @property
    def lost(self) -> str:
        """One sentence about chains that were stopped while others went on; else empty."""
        return in_words(int(self.settings.get("chains", 0)), self.losses)

    @property
    def notes(self) -> tuple[str, ...]:
        """Problems found in warm-up."""
        return () if self.origin is None else self.origin.notes

    @property
    def one_start(self) -> bool:
        """Whether all chains started at one point."""
        return self.origin is not None and self.origin.one_start

    @property
    def sampler(self) -> Any:
        """The sampler on its target, with the settings found by tuning or warm-up."""
        return None if self.origin is None else self.origin.sampler

    def rerun(self, *, step_size: Any = None, **changes: Any) -> "Trace":
        """Run it again, with `step_size` or any option of `fk.sample` changed."""
        from fokker.run.sample import sample

        if self.origin is None:
            raise ValueError("only a trace of fk.sample can be run again.")
        known = [*self.origin.options, "step_size", "resume"]
        for name in changes:
            if name not in known:
                raise TypeError(f"rerun has no option {name!r}, as fk.sample has none.{nearest(name, known)}")
        options = {**self.origin.options, "out": None, **changes}
        sampler = options.pop("sampler")
        if step_size is not None:
            sampler = sampler.with_step_size(step_size)
        return sample(self.origin.target, sampler, **options)

    def resume(self, steps: int = 0) -> "Trace":
        """Continue where the run ended: with the steps not yet taken, and `steps` more; all draws together.

        The draws are those of one run of that length, to the bit (to rounding, where one step is left).
        """
        check_whole("steps", steps, 0)
        if self.origin is None:
            raise ValueError("only a trace of fk.sample can be resumed.")
        if self.stopped is not None and not self.was_interrupted:
            raise ValueError(f"there is nothing to continue from: {self.stopped}.")
        return self.rerun(steps=self.settings["steps"] + steps, resume=self)

    def save(self, path: Any) -> None:
        """Write the draws, statistics and settings to a new folder, which `fk.open` reads.

        Draws are in Zarr, as xarray and ArviZ read them. To be able to continue a run from its folder, run it
        with `fk.sample(…, out=…)`.
        """
        from fokker.run.folder import save

        save(self, as_folder(path, "path"))

    @property
    @_in_its_precision
    def positions(self) -> PyTree[np.ndarray]:
        """The draws in the sampler's own coordinates: those before a constraint's transform."""
        target = None if self.origin is None else self.origin.target
        if target is None or not target.is_constrained:
            return self.samples
        return jax.vmap(jax.vmap(target.unconstrain))(self.samples)

    @property
    def labels(self) -> Labels:
        """Names of the axes of parameters, `dims`, and of the entries along them, `coords`."""
        return labels_of(None if self.origin is None else self.origin.target)

    def named(self) -> dict[str, np.ndarray]:
        """The draws of every leaf of theta by its path; a single array is called theta."""
        return named_leaves(self.samples)

    def flat(self) -> Quantities:
        """Names of all scalars of theta, and their draws as an array chain × draw × scalar."""
        return flat(self.named(), self.labels)

    def flat_positions(self) -> Quantities:
        """The same for `positions`, without constants; the names mark leaves of another shape there."""
        positions = self.positions
        if positions is self.samples:
            return self.flat().without(self.constants())
        shapes = {name: leaf.shape for name, leaf in self.named().items()}
        renamed = {
            name if leaf.shape == shapes.get(name) else f"unconstrained {name}": leaf
            for name, leaf in named_leaves(positions).items()
        }
        return flat(renamed, self.labels)

    def constants(self) -> set[str]:
        """The names of scalars of theta that are constant by construction."""
        return {
            self.labels.scalar_name(name, mask.shape, int(i))
            for name, mask in self.fixed_entries().items()
            for i in np.flatnonzero(mask)
        }

    @_in_its_precision
    def fixed_entries(self) -> dict[str, np.ndarray]:
        """Where leaves of theta have entries that are constant by construction; without a model, none."""
        return fixed_entries(None if self.origin is None else self.origin.target, self._shapes())

    def _shapes(self) -> PyTree[jax.ShapeDtypeStruct]:
        """Theta's tree of shapes; None for a run without results."""
        leading, theta = (2, self.draws) if self.draws is not None else (1, (self.moments or {}).get("mean"))
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[leading:], x.dtype), theta)

    @_in_its_precision
    def to_arviz(
        self,
        *,
        log_likelihood: bool = False,
        predictive: Mapping[str, Any] | None = None,
        prior: Mapping[str, Any] | None = None,
    ) -> Any:
        """The draws as an ArviZ object, with the quantities that the target derives from them.

        An InferenceData, with ArviZ 1.0 and later a DataTree. It has the names of the axes and of their
        entries (`dims`, `coords`), and what the model was given (`observed_data`, `constant_data`), which
        PyMC's functions compare with their model. With `log_likelihood` it has that of each datum
        (`trace.log_likelihood()`), for `arviz.loo`. `predictive`: draws of `trace.predict(key=…)`, which
        become `posterior_predictive`; `prior`: those of `fk.prior_predictive`, which become `prior` and, of
        the observed variables, `prior_predictive`.
        """
        known = self.known_data()
        observed = known.get("observed_data", {})
        of_prior = {name: np.asarray(x)[None] for name, x in (prior or {}).items()}
        groups = {
            "posterior": {**self.named(), **self._derived()},
            "sample_stats": {_ARVIZ.get(name, name): values for name, values in self.sample_stats.items()},
            "log_likelihood": self._log_likelihood_by_name() if log_likelihood else {},
            "posterior_predictive": predictive or {},
            "prior": {name: x for name, x in of_prior.items() if name not in observed},
            "prior_predictive": {name: x for name, x in of_prior.items() if name in observed},
        }
        return inference_data(groups, known, self.labels)

    def known_data(self) -> dict[str, dict[str, Any]]:
        """What the model was given, by ArviZ's groups `observed_data` and `constant_data`, and by name."""
        target = None if self.origin is None else self.origin.target
        return target.known_data() if isinstance(target, Target) else {}

    def _log_likelihood_by_name(self) -> dict[str, np.ndarray]:
        target = None if self.origin is None else self.origin.target
        by_name: dict[str, np.ndarray] = {}
        if isinstance(target, Target) and not isinstance(target, TargetWithData):
            by_name = self._log_likelihood_of_model(target, 1)
        if not by_name:
            values = self.log_likelihood()
            by_name = values if isinstance(values, dict) else {"data": values}
        return {name: _without_masked(x) for name, x in by_name.items()}

    def _derived(self) -> dict[str, np.ndarray]:
        """NumPyro's deterministic sites and Stan's transformed parameters at every draw."""
        target = None if self.origin is None else self.origin.target
        if target is None:
            return {}
        return at_draws(_derived, self.samples, target)

    @_in_its_precision
    def predict(
        self,
        function: Callable[..., PyTree[Any]] | None = None,
        data: PyTree[Any] = None,
        *,
        key: Key[Array, ""] | None = None,
        batch_size: int | None = None,
        thin: int = 1,
        reduce: str | Sequence[float] | None = None,
        progress: bool = True,
    ) -> PyTree[np.ndarray]:
        """`function(theta, rows)` at every draw and every row of `data`: leading axes chain, draw and row.

        ```python
        probabilities = trace.predict(lambda theta, x: jax.nn.softmax(x @ theta), x_test, reduce="mean")
        ```

        `data` is a tree of arrays whose first axis runs over rows, and so must everything that the function
        returns. It is compiled, and called with batches of draws and of `batch_size` rows. `thin=10` takes
        every tenth draw. `reduce` keeps memory small: "mean" over all draws, with the leading axis row;
        "moments", a dictionary of mean and variance; or probabilities, such as [0.05, 0.95], for quantiles,
        with the leading axes quantile and row.

        With a `key` the function takes a third argument, one key per row, for predictions that are random:
        `lambda theta, x, keys: x @ theta + jax.vmap(jax.random.normal)(keys)`. Without a function a model
        that can draws its observed variables at every draw (`fk.from_numpyro`, `fk.from_pymc`): a dictionary
        by name, with the leading axes chain and draw.
        """
        key = checked_key(key)
        if function is None:
            return self._predictive(key, data, batch_size, thin, reduce)
        if data is None:
            raise TypeError("trace.predict needs data, the rows that the function is called with.")
        data = with_codes_of(opened(data), self._categories())
        draws: Any = self.samples
        if key is not None:
            function, draws, data = predict_with_keys(function, draws, data, key)
        return predict(function, draws, data, (), batch_size, thin, reduce, progress)

    def _categories(self) -> dict[str, Sequence[str]]:
        """The labels of columns of categories that are known, in the order of their codes."""
        data = getattr(None if self.origin is None else self.origin.target, "data", None)
        coords = {axis: [str(x) for x in entries] for axis, entries in self.labels.coords.items()}
        return {**coords, **dict(categories_of(data).values())}

    def _predictive(
        self, key: Key[Array, ""] | None, data: Any, batch_size: Any, thin: int, reduce: Any
    ) -> dict[str, np.ndarray]:
        if key is None or not all(x is None for x in (data, batch_size, reduce)):
            raise TypeError(
                "trace.predict needs a function of theta and rows, with data; without them it takes a key "
                "and thin alone, for draws of the observed variables of a model."
            )
        target = None if self.origin is None else self.origin.target
        if not isinstance(target, Target):
            raise TypeError("this trace knows no model that could draw data: give a function and data.")
        check_whole("thin", thin)
        return target.predictive_at(jax.tree.map(lambda x: x[:, ::thin], self.samples), key)

    @_in_its_precision
    def log_likelihood(
        self, *, rows: Any = None, batch_size: int | None = None, thin: int = 1, progress: bool = True
    ) -> Float[np.ndarray, "chain draw ..."] | dict[str, np.ndarray]:
        """log p(x_n|θ) of each datum at every draw: chain × draw × row.

        The target must be a `fk.Posterior`, or a model of PyMC or NumPyro. Without `subsample` such a model
        has observed variables: chain × draw × the axes of the variable, and by name where there are several.
        Entries that a mask of NumPyro leaves out of the density are NaN; `to_arviz` leaves them out.
        `rows` are the indices of some data, all by default. `batch_size` and `thin` as for `predict`.
        """
        target = None if self.origin is None else self.origin.target
        if isinstance(target, TargetWithData) and self.sampler.wants_target:
            data = target.data if rows is None else _rows_of(target, rows)
            arguments = (target,)
            name = "log_likelihood"
            return predict(
                _log_likelihoods, self.samples, data, arguments, batch_size, thin, None, progress, name
            )
        values = self._log_likelihood_of_model(target, thin) if rows is None and batch_size is None else {}
        if not values:
            raise TypeError(
                "the log likelihood of single data is known only for a trace of fk.sample with a "
                "fk.Posterior, or a model of PyMC or NumPyro, and one of its samplers (rows and batch_size "
                f"with a fk.Posterior alone); the target here is {type(target).__name__}. Otherwise give "
                "your own function of theta and rows to trace.predict."
            )
        return values if len(values) > 1 else next(iter(values.values()))

    def _log_likelihood_of_model(self, target: Any, thin: int) -> dict[str, np.ndarray]:
        if not isinstance(target, Target) or not self.sampler.wants_target:
            return {}
        check_whole("thin", thin)
        draws = jax.tree.map(lambda x: x[:, ::thin], self.samples)
        chains, number = shape_of_draws(draws)
        first = jax.tree.map(lambda x: np.asarray(x[0, 0]), draws)
        entries = sum(x.size for x in jax.tree.leaves(jax.eval_shape(target.pointwise, first)))
        check_memory(chains * number * entries * 8, chains * number, entries)
        return at_draws(_pointwise, draws, target)

    @_in_its_precision
    def summary(
        self,
        *,
        quantities: Any = None,
        gradients: bool = True,
        step_halving: bool = False,
        quantiles: Sequence[float] = QUANTILES,
    ) -> Summary:
        """A table of every scalar of theta, a grade, and in plain words what is wrong.

        The grade is "No problems found", with how small a problem would have been seen, "Use with care" or
        "Do not use". With `gradients`, ∇U is computed at up to ten thousand draws, to compare their spread
        with the target's along coordinates and principal directions, and for the kernel Stein discrepancy.
        With `step_halving` the run is repeated with half the step, for the bias of the step size.

        `quantities` are further ones to judge, such as predictions: a function of theta that returns a number
        or a small array, an array chain × draw × k, or a dictionary of these by name. If theta has more than
        500 scalars, the table has one row per leaf, and what is judged is the log density, the `quantities`,
        and the draws along random directions, over all scalars and within each leaf. `quantiles` are the
        probabilities of those in the table.
        """
        with reading():
            return summarise(self, quantities, gradients, step_halving, quantiles)

    @_in_its_precision
    def step_halving(self) -> StepHalving:
        """The bias of the step size, by a second run with half of it."""
        return step_halving(self)

    def report(
        self, path: Any, title: str = "A run of Fokker", extra: Any = (), summary: Summary | None = None
    ) -> None:
        """Write the summary, its verdict and pictures as one self-contained HTML page.

        `extra` are further parts of it, in HTML; `summary` is one computed before.
        """
        from fokker.report.page import write_report  # with Matplotlib, which takes as long to import as JAX

        write_report(
            self, as_file(path, "path"), title, extra, self.summary() if summary is None else summary
        )


def _without_masked(values: np.ndarray) -> np.ndarray:
    """Without the entries that are NaN at every draw, which are none of the data."""
    is_masked = np.isnan(values).all((0, 1))
    return values[:, :, ~is_masked] if is_masked.any() else values


def moments_of(
    moments: Any, losses: Mapping[int, Loss] = MappingProxyType({})
) -> dict[str, PyTree[np.ndarray]] | None:
    """The mean and the variance that streaming moments estimate; None before the first draw."""
    if moments is None or not np.any(np.asarray(moments.count)):
        return None
    chains = left_of(np.asarray(moments.count).shape[0], losses)
    count = np.maximum(np.asarray(moments.count)[chains], 2)
    mean, squares = (
        jax.tree.map(lambda x: np.asarray(x)[chains], tree) for tree in (moments.mean, moments.squares)
    )
    variance = jax.tree.map(lambda s: s / (count - 1).reshape(-1, *[1] * (s.ndim - 1)), squares)
    return {"mean": mean, "variance": variance}


def _rows_of(target: TargetWithData, rows: Any) -> PyTree[Any]:
    index = np.asarray(rows)
    is_whole = index.ndim == 1 and index.size and np.issubdtype(index.dtype, np.integer)
    if not is_whole or index.min() < 0 or index.max() >= target.size:
        raise ValueError(
            f"rows must be indices of the {target.size:,} data, whole numbers from 0 to {target.size - 1:,}, "
            f"in a list or an array; {rows!r} was given."
        )
    return jax.tree.map(
        lambda x: x[index] if is_source(x) else np.asarray(x)[index], target.data, is_leaf=is_source
    )


def _log_likelihoods(theta: PyTree[Any], rows: PyTree[Any], target: Any) -> Any:
    return jax.vmap(lambda datum: target.log_likelihood_of_theta(theta, datum))(rows)


def _pointwise(theta: PyTree[Any], target: Any) -> dict[str, Any]:
    return target.pointwise(theta)


def _derived(theta: PyTree[Any], target: Any) -> dict[str, Any]:
    return target.derived(theta)
