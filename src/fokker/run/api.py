"""`fk.sample`, `fk.tune`, `fk.resume` and `fk.open`: the functions that people call."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import jax
from jaxtyping import Array, Key
from rich.console import Console

from fokker._core.keys import checked_key, key_of_seed
from fokker._core.paths import as_path
from fokker._core.precision import computing_in
from fokker.gradients import Estimator
from fokker.rows import reading
from fokker.run.call import NAMES, STORED, BatchKind, Call, Options
from fokker.run.changed import forget_changed
from fokker.run.choice import AUTO, chosen
from fokker.run.journal import Journal
from fokker.run.learn import learn
from fokker.run.loop import Run
from fokker.run.mesh import MeshSizes
from fokker.run.plan import entered, plan
from fokker.run.positions import Init
from fokker.run.precision import in_precision, precision_of
from fokker.run.record import SCORES
from fokker.run.resumed import check_can_resume
from fokker.run.start import start
from fokker.run.store import read_checkpoint
from fokker.run.stored import StoredTrace
from fokker.run.trace import Trace
from fokker.run.trials import TRIED
from fokker.run.tuning import Tuning, tuned
from fokker.samplers.contract import Sampler
from fokker.targets.target import Target


def prepared(call: Call) -> Run:
    """The run of a call, after tuning and warm-up and before its first step."""
    call = chosen(call)
    if call.chosen and call.options.progress and call.devices.is_first:
        Console(stderr=True).print(f"sampler: {call.chosen}", markup=False, highlight=False, soft_wrap=True)
    planned = plan(call)
    options = planned.options
    forget_changed(planned.target, planned.sampler, options.init, planned.keys, options.gradient)
    return Run(start(learn(planned)))


def sample(
    target: Target | None,
    sampler: Sampler | str = AUTO,
    *,
    init: Init,
    steps: int,
    burn_in: int | None = Options.burn_in,
    thin: int = Options.thin,
    chains: int | None = Options.chains,
    warm_up: int | None = Options.warm_up,
    batch_size: int | None = Options.batch_size,
    batches: BatchKind | None = Options.batches,
    batch_repeats: int = Options.batch_repeats,
    gradient: Estimator | None = Options.gradient,
    seed: int = Options.seed,
    key: Key[Array, ""] | None = Options.key,
    temperature: float = Options.temperature,
    keep: Literal["draws", "moments"] = Options.keep,
    chunk: int = Options.chunk,
    progress: bool = Options.progress,
    out: str | Path | None = Options.out,
    mesh: MeshSizes | None = Options.mesh,
    precision: Literal["double"] | None = Options.precision,
    resume: Trace | None = None,
) -> Trace:
    r"""Sample exp(-U/T) for a `fk.Density` or `fk.Posterior` with a sampler of `fk.samplers`.

    ```python
    trace = fk.sample(target, fk.samplers.sgnht(1e-3), init=jnp.zeros(50), steps=20_000, burn_in=5_000,
                      chains=4, batch_size=100)
    print(trace.summary())
    ```

    What step t draws depends on the seed and on t alone. Steps are taken in blocks of about a second. Ctrl-C,
    or a chain that leaves the finite numbers, ends the run with the draws so far; the trace says so, and
    `trace.resume()` continues it.

    Arguments:

    - `target`: a `fk.Density` or `fk.Posterior`, or a model of `fk.from_numpyro`, `fk.from_pymc` or
      `fk.from_stan`. With one of `fk.constrain`, `init` and the draws meet the constraints.
    - `sampler`: one of `fk.samplers`, its name, or "auto" (the default), which takes the first rule of the
      table in docs/choosing.md that holds; `trace.settings["chosen"]` and the summary say which and why. A
      name, and a sampler made with `step_size="auto"`, have their step size found first: in warm-up by those
      that learn, such as `fk.samplers.nuts()`, else by `fk.tune`, which finds the friction of a sampler given
      by name too.
    - `init`: theta, the same for all chains; a function of a key that draws it for each; or
      `fk.PerChain(positions)`, a tree like theta whose leaves have a leading axis over chains. An array is
      always one theta, also if its first axis has as many entries as there are chains.
    - `steps`: steps after `burn_in`.
    - `burn_in`: steps before the first draw; without it none, or as many as `sampler="auto"` chooses.
    - `thin`: every `thin`-th step is kept.
    - `chains`: how many; without it 4, or as many as `fk.PerChain` has.
    - `warm_up`: steps in which the settings of a sampler are learned by all chains together, before
      `burn_in`; without it 1000.
    - `batch_size`: rows of the data per step; without it every step sees all of them. Data that are a stream
      have their own batches.
    - `batches`: how rows are drawn. "window" (the default on large data): consecutive rows of a shuffled copy
      (`fokker.batches.WindowBatches`); "replacement" (the default below a thousand batches of data), "no
      replacement" or "reshuffle" (`fokker.batches.Batches`); "blocks" (the default for large compressed
      files, and files larger than half of the memory: `fokker.batches.BlockBatches`); or a score for every
      datum, to draw with probabilities proportional to the scores (`fokker.batches.WeightedBatches`).
    - `batch_repeats`: how many steps in a row share a batch: step t has batch t // `batch_repeats`. Fewer
      rows are fetched, and the noise of minibatches counts up to so many times (docs/sampling.md).
    - `gradient`: the estimator that the batches are put into, one of `fk.gradients`.
    - `seed`: of all random numbers.
    - `key`: a key of JAX, in the place of the seed.
    - `temperature`: T.
    - `keep`: "draws", or "moments" to store means and variances alone.
    - `chunk`: the most steps per block.
    - `progress`: whether a progress display is shown.
    - `out`: a folder. Draws are written there about every second, with the state of the chains, and memory
      does not grow with the run. A kill at any moment costs the work since then: the same call goes on with
      the run in the folder, to the bits of an uninterrupted one, and `fk.open(out)` reads what is there.
      Draws are in Zarr, as xarray and ArviZ read them. Another model, data set, sampler or setting is refused
      by name.
    - `mesh`: devices that share the work, as `{"chains": 4, "data": 2}`, as a text, "chains=4,data=2", or as
      a `jax.sharding.Mesh`: of these eight each has a fourth of the chains and half of the rows of every
      batch, or of all the data. A third axis, `parameters`, divides theta and all that is as large. -1 stands
      for the devices that are left. The devices may be those of many processes, which `fk.processes.start`
      brought together and which all make this call; the first of them writes to `out`. The draws are those of
      one device but for the order of sums, and a run goes on with any other mesh.
    - `precision`: "double" to compute everything in double precision: theta, the data, and what the trace
      computes later. So is a target of double precision, and a run in a folder keeps its own; else JAX's
      setting holds.
    - `resume`: a trace to go on with, in memory, as `trace.resume()` does. The other arguments are those of
      its run: `steps` is the new total, `chains` may be left out, and another setting is refused by name.
      Whether the target is the same is not checked.

    Returns a `fk.Trace`, with `.samples`, `.summary()`, `.to_arviz()`, `.report(path)` and `.save(path)`.
    """
    arguments = locals()
    if resume is not None and not isinstance(resume, Trace):
        raise TypeError(
            f"resume must be a trace, as trace.resume() gives it, not {resume!r}; a run in a folder goes on "
            "by fk.resume, or by the same call with out=."
        )
    options = Options(**{name: arguments[name] for name in NAMES})
    if resume is not None:
        check_can_resume(resume, out)
    with entered(Call(target, sampler, options, resume, sample=sample)) as call:
        return prepared(call).run()


def tune(
    target: Target,
    sampler: Sampler | Callable[..., Sampler] | str,
    *,
    init: Init,
    step_sizes: Sequence[float] | None = None,
    frictions: Sequence[float] | None = None,
    steps: int = TRIED,
    batch_size: int | None = Options.batch_size,
    batches: BatchKind | None = Options.batches,
    batch_repeats: int = Options.batch_repeats,
    gradient: Estimator | None = Options.gradient,
    seed: int = Options.seed,
    key: Key[Array, ""] | None = Options.key,
    temperature: float = Options.temperature,
    progress: bool = Options.progress,
    precision: Literal["double"] | None = Options.precision,
) -> Tuning:
    r"""Choose a step size, and the friction of a sampler that has one, by successive halving.

    ```python
    tuning = fk.tune(target, fk.samplers.sghmc, init=mode, batch_size=100)
    print(tuning)
    trace = fk.sample(target, tuning.sampler, …)
    ```

    Every candidate is run for `steps` steps in four chains; the third of them with the smallest kernel Stein
    discrepancy continues for three times as long, until one is left: a bandit that spends its budget on the
    good ones (Coullon, South, Nemeth 2023). The discrepancy is small for draws that are spread as the target
    is, and so weighs the bias of a large step against the slowness of a small one. Candidates that the
    diagnostics of `trace.summary()` find biased (spread of theta, minibatch noise) come last,
    and the winner is checked by them in a longer run, with its step halved until they find nothing.

    Arguments:

    - `target`: as for `fk.sample`.
    - `sampler`: a sampler, of which the step size is changed; or a function such as `fk.samplers.sghmc`, or
      its name, of which the friction is chosen too (the inertia of a thermostat then follows), with a
      splitting for its integrator unless another was given.
    - `init`: where trials start, as for `fk.sample`: near the mode (`fk.find_mode`).
    - `step_sizes`: those to try; without them a grid of powers of two below the fastest time scale of the
      dynamics at `init`.
    - `frictions`: those to try; without them four below the rate of that time scale.
    - `steps`: of the first trials.
    - `batch_size`, `batches`, `batch_repeats`, `gradient`, `seed`, `key`, `temperature`, `progress`,
      `precision`: as for `fk.sample`.

    Returns a `fk.Tuning`: its `.sampler` is the one chosen, and `print(tuning)` shows what was tried.
    """
    key = key_of_seed(seed) if key is None else checked_key(key)
    arguments = locals()
    options = Options(**{name: arguments[name] for name in NAMES if name in arguments})
    precision = precision_of(precision, target)
    with computing_in(precision), reading(), Journal() as journal:
        call = in_precision(precision, Call(target, sampler, options))
        keys = jax.random.split(jax.random.key(0), (1, 3))
        forget_changed(call.target, call.sampler, init, keys, call.options.gradient)
        return tuned(call.target, call.sampler, call.options, journal, step_sizes, frictions)


def open(path: str | Path) -> Trace:
    """The trace of a run in a folder, finished or not.

    Arguments:

    - `path`: the folder, as `fk.sample(…, out=path)` or `trace.save(path)` has written it.

    Returns a `fk.Trace`, whose draws are read when they are asked for. It knows no model: for gradients in
    `summary`, for `rerun` and for more steps use `fk.resume`.

    ```python
    print(fk.open("run").summary())
    ```
    """
    return StoredTrace(as_path(path, "path"))


def resume(
    path: str | Path,
    target: Target | None,
    sampler: Sampler | str,
    *,
    init: Init,
    steps: int | None = None,
    **options: Any,
) -> Trace:
    """Go on with the run in a folder, to the bit as if it had never stopped.

    ```python
    trace = fk.resume("run", target, fk.samplers.sgld(1e-3), init=jnp.zeros(50), steps=40_000)
    ```

    Functions cannot be written down, so the target, the sampler and `init` are given again: a difference is
    refused by name. The settings that are numbers or texts are read from the folder.

    Arguments:

    - `path`: the folder of the run.
    - `target`, `sampler`, `init`: as they were given to `fk.sample`.
    - `steps`: how many in all, after `burn_in`; without it as many as before.
    - `options`: whatever else was given to `fk.sample` that is not a number or a text (`gradient`, `key`,
      scores as `batches`), and what has no influence on the draws (`progress`, `mesh`, `chunk`).

    Returns the `fk.Trace` of the whole run.
    """
    settings = read_checkpoint(Path(path)).description["settings"]
    stored = {n: settings[n] for n in STORED if n != "key" and settings.get(n) is not None}
    if str(stored.get("batches", "")).startswith(SCORES) and "batches" not in options:
        raise ValueError(
            f"the batches of {path} were drawn by scores of the data, of which only a fingerprint is written "
            "down: give them again, as batches=…."
        )
    if steps is not None:
        stored["steps"] = steps
    return sample(target, sampler, init=init, out=path, **{**stored, **options})
