"""The result of a run: draws or moments, and whether to trust them."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Concatenate, ParamSpec, TypeVar

import jax
import numpy as np
from jaxtyping import Float, PyTree

from fokker._core.draws import at_draws
from fokker._core.precision import computing_in
from fokker._core.statistics import inference_data
from fokker.diagnostics import StepHalving, Summary, step_halving, summarise
from fokker.diagnostics._quantities import Quantities, flat, named_leaves
from fokker.diagnostics.summary import QUANTILES
from fokker.rows import is_source, reading
from fokker.run.losses import Loss, in_words, left_of, surviving
from fokker.run.predict import predict
from fokker.targets.constrained import ConstrainedPosterior
from fokker.targets.target import TargetWithData

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
        options = {**self.origin.options, "out": None, **changes}
        sampler = options.pop("sampler")
        if step_size is not None:
            sampler = sampler.with_step_size(step_size)
        return sample(self.origin.target, sampler, **options)

    def resume(self, steps: int = 0) -> "Trace":
        """Continue where the run ended: with the steps not yet taken, and `steps` more; all draws together.

        The draws are those of one run of that length, to the bit (to rounding, where one step is left).
        """
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

        save(self, Path(path))

    @property
    @_in_its_precision
    def positions(self) -> PyTree[np.ndarray]:
        """The draws in the sampler's own coordinates: those before a constraint's transform."""
        target = None if self.origin is None else self.origin.target
        if target is None or not target.is_constrained:
            return self.samples
        return jax.vmap(jax.vmap(target.unconstrain))(self.samples)

    def named(self) -> dict[str, np.ndarray]:
        """The draws of every leaf of theta by its path; a single array is called theta."""
        return named_leaves(self.samples)

    def flat(self) -> Quantities:
        """Names of all scalars of theta, and their draws as an array chain × draw × scalar."""
        return flat(self.named())

    def flat_positions(self) -> Quantities:
        """The same for `positions`; the names mark leaves that have another shape there."""
        shapes = {name: leaf.shape for name, leaf in self.named().items()}
        renamed = {
            name if leaf.shape == shapes.get(name) else f"unconstrained {name}": leaf
            for name, leaf in named_leaves(self.positions).items()
        }
        return flat(renamed)

    @_in_its_precision
    def to_arviz(self, *, log_likelihood: bool = False) -> Any:
        """The draws as an ArviZ object, with the quantities that the target derives from them.

        An InferenceData, with ArviZ 1.0 and later a DataTree. With `log_likelihood` it has that of each datum
        (`trace.log_likelihood()`), for `arviz.loo`.
        """
        pointwise = {"data": self.log_likelihood()} if log_likelihood else {}
        posterior = {**self.named(), **self._derived()}
        stats = {_ARVIZ.get(name, name): values for name, values in self.sample_stats.items()}
        return inference_data(posterior=posterior, sample_stats=stats, log_likelihood=pointwise)

    def _derived(self) -> dict[str, np.ndarray]:
        """NumPyro's deterministic sites and Stan's transformed parameters at every draw."""
        target = None if self.origin is None else self.origin.target
        if target is None:
            return {}
        return at_draws(_derived, self.samples, target)

    @_in_its_precision
    def predict(
        self,
        function: Callable[[PyTree[Any], PyTree[Any]], PyTree[Any]],
        data: PyTree[Any],
        *,
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
        """
        return predict(function, self.samples, data, (), batch_size, thin, reduce, progress)

    @_in_its_precision
    def log_likelihood(
        self, *, rows: Any = None, batch_size: int | None = None, thin: int = 1, progress: bool = True
    ) -> Float[np.ndarray, "chain draw row"]:
        """log p(x_n|θ) of each datum at every draw: chain × draw × row. The target must be a `fk.Posterior`.

        `rows` are the indices of some data, all by default. `batch_size` and `thin` as for `predict`.
        """
        target = None if self.origin is None else self.origin.target
        if not isinstance(target, TargetWithData) or not self.sampler.wants_target:
            raise TypeError(
                "the log likelihood of single data is known only for a trace of fk.sample with a "
                f"fk.Posterior and one of its samplers; the target here is {type(target).__name__}. "
                "Otherwise give your own function of theta and rows to trace.predict."
            )
        if isinstance(target, ConstrainedPosterior):
            target = target.target  # of the constrained theta
        data = target.data if rows is None else _rows_of(target, rows)
        return predict(
            _log_likelihoods,
            self.samples,
            data,
            (target,),
            batch_size,
            thin,
            None,
            progress,
            "log_likelihood",
        )

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

        write_report(self, Path(path), title, extra, self.summary() if summary is None else summary)


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
    return jax.vmap(lambda datum: target.log_likelihood(theta, datum))(rows)


def _derived(theta: PyTree[Any], target: Any) -> dict[str, Any]:
    return target.derived(theta)
