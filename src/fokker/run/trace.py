"""The result of a run: draws or moments, and whether to trust them."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PyTree

from fokker._core.statistics import inference_data
from fokker.diagnostics import StepHalving, Summary, step_halving, summarise
from fokker.report.page import write_report

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
    chain. `stopped`: why the run ended early, else None.
    """

    draws: PyTree[np.ndarray] | None
    moments: dict[str, PyTree[np.ndarray]] | None
    sample_stats: dict[str, np.ndarray]
    state: Any
    stopped: str | None
    settings: dict[str, Any] = field(default_factory=dict)
    origin: Origin | None = field(default=None, repr=False)
    gathered: Any = field(default=None, repr=False)

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
    ) -> "Trace":
        """From the record of a run, with leading axes chain and draw, appended to that of `before`."""
        joined = dict(gathered or {})
        if joined:
            joined = only_sound(joined)
        if before is not None:
            earlier: dict[str, Any] = dict(before.sample_stats)
            if before.draws is not None:
                earlier["position"] = before.draws
            both = [tree for tree in (earlier, joined) if tree]
            joined = jax.tree.map(lambda *xs: np.concatenate(xs, axis=1), *both) if both else {}
        samples = joined.pop("position", None)
        if samples is not None and jax.tree.leaves(samples)[0].shape[1] == 0:
            samples = None
        return cls(samples, moments_of(moments), joined, state, stopped, settings, origin, moments)

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
    def positions(self) -> PyTree[np.ndarray]:
        """The draws in the sampler's own coordinates: those before a constraint's transform."""
        target = None if self.origin is None else self.origin.target
        if target is None or not target.is_constrained:
            return self.samples
        return jax.vmap(jax.vmap(target.unconstrain))(self.samples)

    def named(self) -> dict[str, np.ndarray]:
        """The draws of every leaf of theta by its path; a single array is called theta."""
        return named_leaves(self.samples)

    def flat(self) -> tuple[list[str], np.ndarray]:
        """Names of all scalars of theta, and their draws as an array chain × draw × scalar."""
        return _flat(self.samples)

    def flat_positions(self) -> tuple[list[str], np.ndarray]:
        """The same for `positions`; the names mark leaves that have another shape there."""
        shapes = {name: leaf.shape for name, leaf in named_leaves(self.samples).items()}
        renamed = {
            name if leaf.shape == shapes.get(name) else f"unconstrained {name}": leaf
            for name, leaf in named_leaves(self.positions).items()
        }
        return _flat(renamed)

    def to_arviz(self) -> Any:
        """The draws as an ArviZ object, with the quantities that the target derives from them.

        An InferenceData, with ArviZ 1.0 and later a DataTree.
        """
        posterior = {**self.named(), **self._derived()}
        stats = {_ARVIZ.get(name, name): values for name, values in self.sample_stats.items()}
        return inference_data(posterior, stats)

    def _derived(self) -> dict[str, np.ndarray]:
        """NumPyro's deterministic sites and Stan's transformed parameters at every draw."""
        target = None if self.origin is None else self.origin.target
        if target is None:
            return {}
        # One draw at a time: a model may be large and the draws many.
        derive = eqx.filter_jit(lambda target, chain: jax.lax.map(target.derived, chain))
        chains = len(jax.tree.leaves(self.samples)[0])
        each = [derive(target, jax.tree.map(lambda x, c=c: x[c], self.samples)) for c in range(chains)]
        return jax.tree.map(lambda *xs: np.stack(xs), *each)

    def summary(self, *, gradients: bool = True, step_halving: bool = False) -> Summary:
        """A table of every scalar of theta, a grade, and in plain words what is wrong.

        The grade is "No problems found", with how small a problem would have been seen, "Use with care" or
        "Do not use". With `gradients`, ∇U is computed at up to ten thousand draws, to compare their spread
        with the target's along coordinates and principal directions, and for the kernel Stein discrepancy.
        With `step_halving` the run is repeated with half the step, for the bias of the step size.
        """
        return summarise(self, gradients, step_halving)

    def step_halving(self) -> StepHalving:
        """The bias of the step size, by a second run with half of it."""
        return step_halving(self)

    def report(
        self, path: Any, title: str = "A run of Fokker", extra: Any = (), summary: Summary | None = None
    ) -> None:
        """Write the summary, its verdict and pictures as one self-contained HTML page.

        `extra` are further parts of it, in HTML; `summary` is one computed before.
        """
        write_report(self, Path(path), title, extra, self.summary() if summary is None else summary)


def only_sound(recorded: dict[str, Any]) -> dict[str, Any]:
    """The draws, chain × draw × …, before the first step that went wrong in any chain."""
    sound = recorded["sound"].all(axis=0)
    good = len(sound) if sound.all() else int(np.argmin(sound))
    return {name: jax.tree.map(lambda x: x[:, :good], x) for name, x in recorded.items() if name != "sound"}


def moments_of(moments: Any) -> dict[str, PyTree[np.ndarray]] | None:
    """The mean and the variance that streaming moments estimate; None before the first draw."""
    if moments is None or not np.any(np.asarray(moments.count)):
        return None
    count = np.maximum(np.asarray(moments.count), 2)
    variance = jax.tree.map(
        lambda s: np.asarray(s) / (count - 1).reshape(-1, *[1] * (s.ndim - 1)), moments.squares
    )
    return {"mean": jax.tree.map(np.asarray, moments.mean), "variance": variance}


def named_leaves(tree: PyTree[Any]) -> dict[str, np.ndarray]:
    """The leaves of theta by their paths; a single array is called theta."""
    leaves = jax.tree.leaves_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator=".") or "theta": leaf for path, leaf in leaves}


def _flat(tree: PyTree[Any]) -> tuple[list[str], np.ndarray]:
    names, values = [], []
    for variable, leaf in named_leaves(tree).items():
        shape = leaf.shape[2:]
        names += [f"{variable}[{','.join(map(str, i))}]" if shape else variable for i in np.ndindex(*shape)]
        values.append(np.asarray(leaf).reshape(*leaf.shape[:2], -1))
    return names, np.concatenate(values, axis=2)
