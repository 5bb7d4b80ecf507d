"""The result of a run: draws or moments, and whether to trust them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from fokker._core.checks import check_whole
from fokker._core.keys import checked_key
from fokker._core.labels import Labels, named_leaves
from fokker._core.names import nearest
from fokker._core.paths import as_file, as_folder
from fokker._core.statistics import inference_data
from fokker.diagnostics import StepHalving, Summary, step_halving, summarise
from fokker.diagnostics._quantities import Quantities, flat
from fokker.diagnostics.summary import QUANTILES
from fokker.rows import opened, reading, with_codes_of
from fokker.run import model
from fokker.run.call import NAMES, Call, Origin
from fokker.run.fixed import fixed_entries
from fokker.run.losses import Loss, in_words, left_of, surviving
from fokker.run.moments import Moments, moments_of
from fokker.run.precision import in_its_precision
from fokker.run.predict import Reduce, predict, predict_with_keys
from fokker.run.saved import brief, write_trace
from fokker.samplers.contract import Sampler
from fokker.samplers.schedules import StepSize
from fokker.targets.target import Target, labels_of


@dataclass(frozen=True)
class Trace:
    """The draws of a run.

    `samples`: theta's tree, leading axes chain and draw; it raises, with the reason, where there are none.
    `draws` is the same, or None. `moments`: mean and variance of each entry of theta, per chain.
    `sample_stats`, chain by draw, where the sampler has them: the kinetic temperature rᵀ∂H/∂r / d and the
    thermostat xi; what `fk.samplers.Info` has of a step with a correction. `state`: the last state of every
    chain. `stopped`: why the run ended early, else None. `losses`: the chains that diverged and were stopped
    while the others went on, with the reason; draws, moments and statistics are of the others, `chains`.
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
        if self.draws is None:
            return brief(self, "no draws" if self.moments is None else "moments")
        chains, draws = jax.tree.leaves(self.draws)[0].shape[:2]
        shapes = jax.tree.map(lambda x: np.shape(x)[2:], self.draws)
        return brief(self, f"{chains:,} chains", f"{draws:,} draws each", f"theta: {shapes}")

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
        moments: Moments | None,
        state: PyTree[Array],
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
        remaining = surviving(record, losses)
        samples = remaining.get("position")
        if samples is not None and jax.tree.leaves(samples)[0].shape[1] == 0:
            samples = None
        return cls(
            samples,
            moments_of(moments, losses),
            {name: x for name, x in remaining.items() if name != "position"},
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

    def rerun(
        self, *, sampler: Sampler | str | None = None, step_size: StepSize | None = None, **changes: Any
    ) -> "Trace":
        """Run it again, from the same start, with the settings that tuning or warm-up found.

        - `sampler`: another sampler.
        - `step_size`: another step size of the sampler.
        - `changes`: any option of `fk.sample`, with its new value. Without `out` nothing is written.

        ```python
        finer = trace.rerun(step_size=0.5 * trace.sampler.step_size, steps=20_000)
        ```
        """
        call = self._call_to_repeat("run again")
        known = [*NAMES, "sampler", "step_size"]
        for name in changes:
            if name not in known:
                raise TypeError(f"rerun has no option {name!r}, as fk.sample has none.{nearest(name, known)}")
        if "seed" in changes:  # a key goes before the seed
            changes = {"key": None, **changes}
        chosen: Any = call.sampler if sampler is None else sampler
        if step_size is not None:
            chosen = chosen.with_step_size(step_size)
        return replace(call, sampler=chosen).again(**{"out": None, **changes})

    def resume(self, steps: int = 0) -> "Trace":
        """Continue where the run ended; all draws together are those of one run of that length, to the bit.

        (To rounding, where one step is left.)

        - `steps`: how many to take besides those that the run has not taken yet.
        """
        check_whole("steps", steps, 0)
        call = self._call_to_repeat("resumed")
        return call.again(resumed=self, out=None, steps=self.settings["steps"] + steps)

    def _call_to_repeat(self, what: str) -> Call:
        if self.origin is None or self.origin.call is None:
            raise ValueError(f"only a trace of fk.sample can be {what}.")
        return self.origin.call

    def save(self, path: str | Path) -> None:
        """Write the draws, statistics and settings to a new folder, which `fk.open` reads.

        Draws are in Zarr, as xarray and ArviZ read them. To be able to continue a run from its folder, run it
        with `fk.sample(…, out=…)`.
        """
        write_trace(self, as_folder(path, "path"))

    @property
    @in_its_precision
    def positions(self) -> PyTree[np.ndarray]:
        """The draws in the sampler's own coordinates: those before a constraint's transform."""
        target = model.target_of(self)
        if target is None or not target.is_constrained:
            return self.samples
        return jax.vmap(jax.vmap(target.unconstrain))(self.samples)

    @property
    def labels(self) -> Labels:
        """Names of the axes of parameters, `dims`, and of the entries along them, `coords`."""
        return labels_of(model.target_of(self))

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

    @in_its_precision
    def fixed_entries(self) -> dict[str, np.ndarray]:
        """Where leaves of theta have entries that are constant by construction; without a model, none."""
        return fixed_entries(model.target_of(self), self._shapes())

    def _shapes(self) -> PyTree[jax.ShapeDtypeStruct]:
        """Theta's tree of shapes; None for a run without results."""
        leading, theta = (2, self.draws) if self.draws is not None else (1, (self.moments or {}).get("mean"))

        def shape(x: np.ndarray) -> jax.ShapeDtypeStruct:
            # In the precision that JAX computes in here.
            return jax.ShapeDtypeStruct(x.shape[leading:], jax.dtypes.canonicalize_dtype(x.dtype))

        return jax.tree.map(shape, theta)

    @in_its_precision
    def to_arviz(
        self,
        *,
        log_likelihood: bool = False,
        predictive: Mapping[str, Any] | None = None,
        prior: Mapping[str, Any] | None = None,
    ) -> Any:
        """The draws as an ArviZ object, with the quantities that the target derives from them.

        - `log_likelihood`: whether it has that of each datum (`trace.log_likelihood()`), for `arviz.loo`.
        - `predictive`: draws of `trace.predict(key=…)`, which become `posterior_predictive`.
        - `prior`: those of `fk.prior_predictive`, which become `prior` and, of the observed variables,
          `prior_predictive`.

        Returns an InferenceData, with ArviZ 1.0 and later a DataTree. It has the names of the axes and of
        their entries (`dims`, `coords`), and what the model was given (`observed_data`, `constant_data`),
        which PyMC's functions compare with their model.
        """
        groups = model.arviz_groups(self, log_likelihood, predictive, prior)
        return inference_data(groups, self.known_data(), self.labels)

    def known_data(self) -> dict[str, dict[str, Any]]:
        """What the model was given, by ArviZ's groups `observed_data` and `constant_data`, and by name."""
        target = model.target_of(self)
        return target.known_data() if isinstance(target, Target) else {}

    @in_its_precision
    def predict(
        self,
        function: Callable[..., PyTree[Any]] | None = None,
        data: PyTree[Any] = None,
        *,
        key: Key[Array, ""] | None = None,
        batch_size: int | None = None,
        thin: int = 1,
        reduce: Reduce = None,
        progress: bool = True,
    ) -> PyTree[np.ndarray]:
        """Predictions at every draw and every row of data.

        ```python
        probabilities = trace.predict(lambda theta, x: jax.nn.softmax(x @ theta), x_test, reduce="mean")
        ```

        - `function`: of theta and rows. It is compiled, and everything that it returns has rows as its first
          axis. Without it a model that can draws its observed variables (`fk.from_numpyro`,
          `fk.from_pymc`).
        - `data`: the rows, a tree of arrays whose first axis runs over them.
        - `key`: for predictions that are random. The function then takes a third argument, one key per row:
          `lambda theta, x, keys: x @ theta + jax.vmap(jax.random.normal)(keys)`.
        - `batch_size`: rows that the function is called with at a time.
        - `thin`: 10 takes every tenth draw.
        - `reduce`: keeps memory small. "mean" over all draws, with the leading axis row; "moments", a
          dictionary of mean and variance; or probabilities, such as [0.05, 0.95], for quantiles, with the
          leading axes quantile and row.
        - `progress`: whether a progress display is shown.

        Returns what the function returns, with the leading axes chain, draw and row; of a model without a
        function, a dictionary by name with the leading axes chain and draw.
        """
        key = checked_key(key)
        if function is None:
            return model.predictive(self, key, data, batch_size, thin, reduce)
        if data is None:
            raise TypeError("trace.predict needs data, the rows that the function is called with.")
        data = with_codes_of(opened(data), model.categories(self))
        draws = self.samples
        if key is not None:
            function, draws, data = predict_with_keys(function, draws, data, key)
        return predict(function, draws, data, (), batch_size, thin, reduce, progress)

    @in_its_precision
    def log_likelihood(
        self,
        *,
        rows: Sequence[int] | np.ndarray | None = None,
        batch_size: int | None = None,
        thin: int = 1,
        progress: bool = True,
    ) -> Float[np.ndarray, "chain draw ..."] | dict[str, np.ndarray]:
        """log p(x_n|θ) of each datum at every draw: chain × draw × row.

        The target must be a `fk.Posterior`, or a model of PyMC or NumPyro. Without `subsample` such a model
        has observed variables: chain × draw × the axes of the variable, and by name where there are several.
        Entries that a mask of NumPyro leaves out of the density are NaN; `to_arviz` leaves them out.

        - `rows`: the indices of some data; without them all.
        - `batch_size`, `thin`, `progress`: as for `predict`.
        """
        return model.log_likelihood(self, rows, batch_size, thin, progress)

    @in_its_precision
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
        "Do not use". If theta has more than 500 scalars, the table has one row per leaf, and what is judged
        is the log density, the `quantities`, and the draws along random directions, over all scalars and
        within each leaf.

        - `quantities`: further ones to judge, such as predictions: a function of theta that returns a number
          or a small array, an array chain × draw × k, or a dictionary of these by name.
        - `gradients`: whether ∇U is computed at up to ten thousand draws, to compare their spread with the
          target's along coordinates and principal directions, and for the kernel Stein discrepancy.
        - `step_halving`: whether the run is repeated with half the step, for the bias of the step size.
        - `quantiles`: the probabilities of those in the table.
        """
        with reading():
            return summarise(self, quantities, gradients, step_halving, quantiles)

    @in_its_precision
    def step_halving(self) -> StepHalving:
        """The bias of the step size, by a second run with half of it."""
        return step_halving(self)

    def report(
        self,
        path: str | Path,
        title: str = "A run of Fokker",
        extra: Sequence[str] = (),
        summary: Summary | None = None,
    ) -> None:
        """Write the verdict, a table of all parameters and figures of each as one HTML page without links.

        - `path`: the file.
        - `title`: of the page.
        - `extra`: further parts of it, in HTML; scripts in them do not run.
        - `summary`: one computed before.
        """
        from fokker.report.trace_page import write_report  # with Jinja, which only pages need

        write_report(
            self, as_file(path, "path"), title, extra, self.summary() if summary is None else summary
        )
