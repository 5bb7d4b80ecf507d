"""`fokker.sample`: many steps of many chains, in compiled chunks."""

import itertools
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from fokker._count import Count, StepNumber, no_steps
from fokker._module import Module
from fokker._random import fold_in, fold_in_step
from fokker._rounding import lowered, raised
from fokker._state import as_arrays, dimension, is_function, unravel
from fokker.batches import WINDOWS, Batches, WeightedBatches, WindowBatches
from fokker.gradients import Estimator
from fokker.samplers._named import by_name
from fokker.samplers._sampler import AUTOMATIC, CHUNK, Sampler, chunk_length, is_automatic, start_chains
from fokker.samplers._walker import Walker, check_chains
from fokker.samplers._whole import no_batch
from fokker.targets.constrained import constrained
from fokker.trace import Origin, Trace
from fokker.walking import StepSearch, walk_chunk

# Steps of warm-up for a sampler that learns its settings, and of how many the randomness is kept apart.
_WARM_UP = 1000
_LONGEST_WARM_UP = 2**30
# The number that a chain's key is folded with for the stream of its batches.
_BATCHES = 2**32 - 1


class Moments(Module):
    """Streaming mean and sum of squared deviations (Welford) of a tree, for what is too large to store.

    `lost` is what rounding took from both, to be made up for with the next value (Kahan 1965): in single
    precision a sum of 2²⁴ squares would otherwise no longer grow, and the variance fall to zero.
    """

    count: Count
    mean: PyTree[Array]
    squares: PyTree[Array]
    lost: tuple[PyTree[Array], PyTree[Array]]

    @classmethod
    def of(cls, tree: PyTree[Array]) -> "Moments":
        """Nothing seen yet."""
        zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, jnp.promote_types(x.dtype, jnp.float32)), tree)
        return cls(no_steps(), zeros, zeros, (zeros, zeros))

    def add(self, tree: PyTree[Array]) -> "Moments":
        """With one more value."""
        n = self.count + 1
        steps = jax.tree.map(lambda m, x: (x - m) / n.astype(m.dtype), self.mean, tree)
        mean, lost_mean = _plus(self.mean, self.lost[0], steps)
        products = jax.tree.map(lambda m, new, x: (x - m) * (x - new), self.mean, mean, tree)
        squares, lost_squares = _plus(self.squares, self.lost[1], products)
        return Moments(n, mean, squares, (lost_mean, lost_squares))


def _plus(
    total: PyTree[Array], lost: PyTree[Array], terms: PyTree[Array]
) -> tuple[PyTree[Array], PyTree[Array]]:
    """total + terms + lost, and what is lost by rounding this time."""
    terms = jax.tree.map(jnp.add, terms, lost)
    new = jax.tree.map(jnp.add, total, terms)
    return new, jax.tree.map(lambda t, s, x: x - (s - t), total, new, terms)


@dataclass(frozen=True)
class Plan:
    """What a run is to do; checked before anything is compiled."""

    steps: int
    burn_in: int
    thin: int
    chains: int
    chunk: int
    keep: str

    def __post_init__(self) -> None:
        for name, least in (("steps", 1), ("burn_in", 0), ("thin", 1), ("chains", 1), ("chunk", 1)):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or value < least:
                raise ValueError(f"{name} must be a whole number of at least {least}; {value!r} was given.")
        if self.steps % self.thin:
            raise ValueError(f"steps={self.steps} is not a multiple of thin={self.thin}.")
        if self.keep not in ("draws", "moments"):
            raise ValueError(f"keep is 'draws' or 'moments', not {self.keep!r}.")


def sample(
    target: Any,
    sampler: Sampler | str,
    *,
    init: Any,
    steps: int,
    burn_in: int = 0,
    thin: int = 1,
    chains: int = 1,
    warm_up: int | None = None,
    batch_size: int | None = None,
    batches: Any = None,
    gradient: Estimator | None = None,
    seed: int = 0,
    temperature: float = 1.0,
    keep: str = "draws",
    chunk: int = CHUNK,
    progress: bool = True,
    resume: Trace | None = None,
) -> Trace:
    r"""Sample exp(-U/T) for a `fk.Density` or `fk.Posterior` with a sampler of `fk.samplers`.

    ```python
    trace = fk.sample(target, fk.samplers.sgnht(1e-3), init=jnp.zeros(50), steps=20_000, burn_in=5_000,
                      chains=4, batch_size=100)
    print(trace.summary())
    ```

    `init` is theta, the same for all chains, or a function of a key that draws it for each; with a target of
    `fk.constrain`, `init` and the draws meet the constraints. `steps` are taken after `burn_in`, and every
    `thin`-th is kept. Without `batch_size` every step sees all the data. With it, that many rows are drawn as
    `batches` says: "window" (the default on large data: consecutive rows of a shuffled copy,
    `fokker.batches.WindowBatches`), "replacement" (the default below a thousand batches of data),
    "no replacement" or "reshuffle" (`fokker.batches.Batches`), or, given a score for every datum, with
    probabilities proportional to the scores (`fokker.batches.WeightedBatches`). `gradient` is the estimator
    that the batches are put into, one of `fk.gradients`. `keep="moments"` stores means and variances alone.
    What step t draws depends on the seed and on t, not on `chunk`. Leaves of `init` in half precision stay so
    under the samplers that round their steps at random (docs/sampling.md); the draws are float32. Ctrl-C, or
    a chain that leaves the finite numbers, ends the run with the draws so far; the trace says so, and
    `trace.resume()` goes on with it.

    `sampler` may be the name of one: its step size and friction are then found by `fk.tune` first, and so is
    the step size of a sampler made with `step_size="auto"`. Those that learn, such as `fk.samplers.nuts()`,
    do so in `warm_up` steps of all chains together (1000 unless given), which come before `burn_in`.
    """
    options = {
        "init": init,
        "steps": steps,
        "burn_in": burn_in,
        "thin": thin,
        "chains": chains,
        "warm_up": warm_up,
        "batch_size": batch_size,
        "batches": batches,
        "gradient": gradient,
        "seed": seed,
        "temperature": temperature,
        "keep": keep,
        "chunk": chunk,
        "progress": progress,
    }
    plan = Plan(steps, burn_in, thin, chains, chunk, keep)
    make = by_name(sampler) if isinstance(sampler, str) else None
    chosen: Any = sampler if make is None else make(step_size=AUTOMATIC)
    if not isinstance(sampler, Sampler | str):
        hint = "; call it, as in fk.samplers.sgld(1e-3)" if callable(sampler) else ""
        raise TypeError(f"the sampler must be one of fk.samplers, not {type(sampler).__name__}{hint}.")
    batch = make_batches(target, batch_size, batches, gradient, seed)
    if chosen.learns:  # and so looks at the whole target
        no_batch(chosen, batch)
    learns = is_automatic(chosen) and chosen.learns
    if warm_up is not None and not learns:
        raise ValueError(
            "warm_up is for samplers that learn their settings, with step_size='auto'; for this one give "
            "burn_in."
        )
    if warm_up is not None and (not isinstance(warm_up, int | np.integer) or warm_up < 1):
        raise ValueError(
            f"warm_up must be a whole number of at least 1; {warm_up!r} was given. With a step_size given to "
            "the sampler there is none."
        )
    if warm_up is not None and warm_up > _LONGEST_WARM_UP:
        raise ValueError(f"warm_up is at most {_LONGEST_WARM_UP:,} steps; {warm_up:,} were given.")
    if not learns and (make is not None or is_automatic(chosen)):
        from fokker.tuning import tune

        shared = ("init", "batch_size", "batches", "gradient", "seed", "temperature", "progress")
        chosen = tune(target, make or chosen, **{name: options[name] for name in shared}).sampler
    placed = chosen
    if not chosen.wants_target:
        if gradient is not None or (batch is not None and getattr(chosen, "gradient", None) is None):
            raise ValueError(
                "this sampler was made of dynamics and has no gradient for batches to go into: make it with "
                "fk.samplers.recipe(dynamics, step_size, gradient=lambda theta, batch: …)."
            )
        own = float(getattr(getattr(chosen, "dynamics", None), "temperature", 1.0))
        if temperature not in (1.0, own):
            raise ValueError(
                f"this sampler was made of dynamics at temperature {own:g}; give temperature={temperature} "
                "to them, not to fk.sample."
            )
        temperature = own
    else:
        placed = chosen.on(target, temperature, gradient)
    keys = jax.random.split(jax.random.key(seed), (chains, 3))
    if learns:
        positions = _checked_starts(placed.with_step_size(1.0), target, init, keys)
        learning = jax.vmap(lambda key: fold_in(key, 1))(keys[:, 1])
        warmed = placed.warm_up(positions, learning, warm_up or _WARM_UP, progress)
        chosen = placed = warmed.sampler
        # A second run with these settings starts where warm-up ended.
        options |= {"init": _Started(warmed.positions, warmed.notes), "warm_up": None}
    start = options["init"]
    notes = start.notes if isinstance(start, _Started) else ()
    states = _first_states(placed, target, start, keys) if resume is None else resume.state

    def rerun(step_size: Any = None, **changes: Any) -> Trace:
        other = chosen if step_size is None else chosen.with_step_size(step_size)
        return sample(target, other, **{**options, **changes})

    one_start = chains > 1 and not is_function(init) and not isinstance(init, _Started)
    origin = Origin(target, placed, batch, rerun, notes, one_start)
    return _Run(placed, batch, plan, keys[:, 2], states, temperature, origin, resume).go(progress)


@dataclass(frozen=True)
class _Started:
    """Where warm-up left the chains, as the sampler knows it, and what it found to speak against going on."""

    positions: PyTree[Array]
    notes: tuple[str, ...]


def _first_states(placed: Sampler, target: Any, init: Any, keys: Array) -> Any:
    positions = _checked_starts(placed, target, init, keys)
    states = start_chains(placed, positions, keys[:, 1])
    if isinstance(placed, Walker):
        check_chains(states)
    return states


def _checked_starts(placed: Sampler, target: Any, init: Any, keys: Array) -> PyTree[Array]:
    if isinstance(init, _Started):
        # A second run may have more chains, or fewer, than were warmed up.
        place = np.arange(keys.shape[0])
        return jax.tree.map(lambda x: x[place % x.shape[0]], init.positions)
    positions = _starts(getattr(placed, "target", None), init, keys[:, 0])
    for chain in range(keys.shape[0] if is_function(init) else 1):
        position = jax.tree.map(lambda x, chain=chain: x[chain], positions)
        try:
            if placed.wants_target:
                target.validate(raised(position))
            if not isinstance(placed, Walker):  # whose states are looked at once they are compiled
                placed.init(position, key=keys[chain, 1])  # validates before anything is compiled
        except ValueError as error:
            if not is_function(init):
                raise
            raise ValueError(f"chain {chain}, whose start init drew: {error}") from error
    return positions


def _starts(target: Any, init: Any, keys: Array) -> PyTree[Array]:
    """Where each chain starts, as the sampler knows it: unconstrained, where the target has constraints."""
    if is_function(init):
        positions = jax.vmap(init)(keys)
    else:
        position = as_arrays(init)
        positions = jax.tree.map(lambda x: jnp.broadcast_to(x, (keys.shape[0], *x.shape)), position)
    if not hasattr(target, "unconstrain"):
        return positions
    for chain in range(keys.shape[0] if is_function(init) else 1):
        target.check(jax.tree.map(lambda x, chain=chain: x[chain], raised(positions)))
    return lowered(jax.vmap(target.unconstrain)(raised(positions)), positions)


def _position(sampler: Sampler, state: Any) -> PyTree[Array]:
    """Theta as the user knows it: constrained, where the target has constraints, and known to NumPy."""
    return constrained(getattr(sampler, "target", None), raised(state.position))


def _shuffle_key(seed: int) -> Key[Array, ""]:
    # fold_in(key, n) is the n-th of the keys that split(key) gives: a number that no chain reaches.
    return jax.random.fold_in(jax.random.key(seed), np.uint32(2**32 - 1))


BatchScheme = Batches | WeightedBatches | WindowBatches


def make_batches(
    target: Any, batch_size: int | None, kind: Any, gradient: Any, seed: int = 0
) -> BatchScheme | None:
    """How rows are drawn, or None where every step sees all."""
    if batch_size is None:
        if gradient is not None or kind is not None:
            raise ValueError("gradient and batches are about minibatches: give a batch_size with them.")
        return None
    if not hasattr(target, "minibatch_potential"):
        raise ValueError("batch_size needs data: give a fk.Posterior as the target.")
    if kind is None:
        kind = "window" if target.size >= WINDOWS * batch_size else "replacement"
    if isinstance(kind, str):
        if kind == "window":
            return WindowBatches(target.data, batch_size, _shuffle_key(seed))
        return Batches(target.size, batch_size, kind)
    return WeightedBatches(kind, target.size, batch_size)


class _Run:
    """One run: what it is to do, and what it has gathered."""

    def __init__(
        self,
        sampler: Sampler,
        batches: BatchScheme | None,
        plan: Plan,
        keys: Key[Array, " chains"],
        states: Any,
        temperature: float,
        origin: Origin,
        resumed: Trace | None,
    ) -> None:
        self.temperature = temperature
        self.sampler, self.batches, self.plan, self.keys, self.states = sampler, batches, plan, keys, states
        self.origin, self.resumed = origin, resumed
        # Windows have a copy of their own.
        gathered = isinstance(batches, Batches | WeightedBatches)
        self.data = origin.target.data if gathered else None
        self.moments: Moments | None = None
        if plan.keep == "moments":
            first = jax.vmap(lambda state: Moments.of(_position(sampler, state)))(states)
            self.moments = first if resumed is None else resumed.gathered

    def go(self, progress: bool) -> Trace:
        """All the steps, or as many as could be taken."""
        plan = self.plan
        gathered: list[Any] = []
        stopped = None
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f} steps {task.fields[speed]}"),
            TimeRemainingColumn(),
        )
        with Progress(*columns, disable=not progress, transient=True) as bar:
            task = bar.add_task("compiling", total=plan.burn_in + plan.steps, speed="")
            done = 0 if self.resumed is None else self.resumed.settings["taken"]
            try:
                for draws, thin, kept in self._pieces(done):
                    trouble, out = self._advance(done, draws, thin, kept)
                    done += draws * thin
                    speed = bar.tasks[task].speed
                    told = f"{speed:,.0f}/s" if speed else ""
                    bar.update(task, description="sampling", completed=done, speed=told)
                    if kept:
                        gathered.append(out)
                    if trouble:
                        stopped = f"{trouble} before step {done:,}: take smaller steps"
                        break
            except KeyboardInterrupt:
                total = plan.burn_in + plan.steps
                stopped = f"interrupted after {done:,} of {total:,} steps; trace.resume() goes on"
        settings = self._settings(done)
        trace = Trace.gather(
            gathered, self.moments, self.states, stopped, settings, self.origin, self.resumed
        )
        if trace.draws is None and trace.moments is None:
            # Whoever goes on to use the trace has to know, progress bar or not.
            warnings.warn(f"the run ended before its first draw: {stopped}.", RuntimeWarning, stacklevel=3)
        elif stopped is not None and progress:
            Console(stderr=True).print(f"fokker: {stopped}", markup=False, soft_wrap=True)
        return trace

    def _settings(self, done: int) -> dict[str, Any]:
        plan = self.plan
        return {
            "taken": done,
            "step_size": getattr(self.sampler, "step_size", None),
            "steps": plan.steps,
            "burn_in": plan.burn_in,
            "thin": plan.thin,
            "chains": plan.chains,
            "temperature": float(self.temperature),
        }

    def _pieces(self, done: int = 0) -> Iterator[tuple[int, int, bool]]:
        """(draws, steps a draw, whether they are kept), in order, after the steps that are done."""
        plan = self.plan
        most = self._most()
        yield from ((1, n, False) for n in _cut(max(0, plan.burn_in - done), most))
        kept, thin = max(0, done - plan.burn_in), plan.thin
        draws = plan.steps // thin - kept // thin
        if kept % thin:
            yield from _one_draw(thin - kept % thin, most)
            draws -= 1
        if thin == 1:
            yield from ((n, 1, True) for n in _cut(draws, most))
        elif thin <= most:
            whole, rest = divmod(draws, most // thin)
            yield from itertools.repeat((most // thin, thin, True), whole)
            yield from itertools.repeat((rest, thin, True), rest > 0)
        else:
            for _ in range(draws):
                yield from _one_draw(thin, most)

    def _most(self) -> int:
        """Steps of a chunk."""
        if isinstance(self.sampler, Walker):  # the same as warm-up's, for one program to do for both
            return chunk_length(dimension(self.states.position), self.plan.chunk)
        drawn = jax.eval_shape(jax.vmap(self.sampler.draw), self.keys, self.states)
        return chunk_length(dimension(drawn), self.plan.chunk)

    def _walk(self, done: int, draws: int, thin: int, kept: bool) -> tuple[str, Any]:
        """The same for a sampler whose chains do not wait for each other."""
        sampler = self.sampler
        assert isinstance(sampler, Walker)
        step_sizes = jnp.broadcast_to(sampler.step_size, self.keys.shape).astype(self.states.potential.dtype)
        chains, out = walk_chunk(
            sampler,
            max(2, self._most()) + 1,  # as long as the longest piece that `_cut` makes
            self.states,
            self.moments,
            self.keys,
            Count.of(done),
            jnp.int32(draws * thin),
            jnp.int32(thin),
            jnp.asarray(kept),
            StepSearch.around(step_sizes),
            jnp.asarray(False),
        )
        positions = _constrained(sampler.target, self.states.position, out.pop("position"))
        out["sound"] = np.ones(out["acceptance_rate"].shape, bool)
        if self.moments is None:
            out["position"] = positions
        # Waited for before anything is put in place, as in `_advance`.
        out = jax.tree.map(lambda x: np.asarray(x)[:, :draws], out)
        self.states, self.moments = chains.state, chains.moments
        return "", out

    def _advance(self, done: int, draws: int, thin: int, kept: bool) -> tuple[str, Any]:
        """What went wrong, if anything, and what was recorded."""
        if isinstance(self.sampler, Walker):
            return self._walk(done, draws, thin, kept)
        steps = draws * thin
        numbers = Count.of(np.uint64(done) + np.arange(steps, dtype=np.uint64))
        places: Any = None
        if self.batches is not None:
            epochs, positions = self.batches.places(done, steps)
            places = (Count.of(epochs), jnp.asarray(positions))
        states, moments, sound, out = _chunk(
            self.sampler,
            self.data,
            self.batches,
            (draws, thin, kept),
            self.states,
            self.moments,
            self.keys,
            numbers,
            places,
        )
        # Waited for before anything is put in place: a Ctrl-C leaves states, moments and draws in agreement.
        finite, enough = (bool(jnp.all(x)) for x in sound)
        self.states, self.moments = states, moments
        if not finite:
            return self._why(done, steps), out
        return "" if enough else "2TD - εB̂ was not positive semidefinite", out

    def _why(self, done: int, steps: int) -> str:
        size = getattr(self.sampler, "step_size", None)
        if callable(size):
            for number in range(done, done + steps):
                value = float(size(StepNumber.of(number)))
                if not 0 <= value < math.inf:
                    return f"the schedule gave the step size {value} at step {number:,}"
        return "a chain left the finite numbers"


@eqx.filter_jit
def _constrained(target: Any, chains: PyTree[Array], vectors: Array) -> PyTree[Array]:
    like = jax.tree.map(lambda x: x[0], chains)
    return jax.vmap(jax.vmap(lambda x: constrained(target, unravel(x, like))))(vectors)


# Compiled once for a sampler, whatever its step size and data: a second run of it starts at once.
@eqx.filter_jit
def _chunk(
    sampler: Sampler,
    data: PyTree[Array] | None,
    batches: BatchScheme | None,
    shape: tuple[int, int, bool],
    states: Any,
    moments: Moments | None,
    keys: Array,
    numbers: Count,
    places: Any,
) -> Any:
    """Many steps of all chains: the randomness of all of them first, then the steps."""
    draws, thin, kept = shape

    def chain(state: Any, moment: Moments | None, key: Array) -> Any:
        step_keys = jax.vmap(lambda t: fold_in_step(key, t, _BATCHES))(numbers)
        noise = jax.vmap(lambda k: sampler.draw(k, state))(step_keys)
        rows = None
        if batches is not None:
            # A stream of its own: the batch must not depend on the noise.
            batch_key = fold_in(key, _BATCHES)
            batch_keys = jax.vmap(lambda t: fold_in(batch_key, t))(numbers)
            rows = jax.vmap(lambda k, e, p: batches.rows(batch_key, k, e, p))(batch_keys, *places)

        def step(carry: Any, given: Any) -> Any:
            state, (finite, enough), _ = carry
            draw, row, number = given
            batch = None if batches is None else batches.batch(data, row)
            state, info = sampler.advance(draw, state, batch, number)
            sound = (finite & info.finite, enough & (info.noise_shortfall >= 0))
            return (state, sound, _decision(info) if sampler.decides else ()), None

        def one_draw(carry: Any, given: Any) -> Any:
            state, sound, moment = carry
            nothing: Any = (jnp.zeros((), jnp.float32), jnp.zeros((), bool)) if sampler.decides else ()
            (state, sound, decision), _ = jax.lax.scan(step, (state, sound, nothing), given, thin)
            if not kept:
                return (state, sound, moment), None
            good = sound[0] & sound[1]
            if moment is not None:
                added = moment.add(_position(sampler, state))
                moment = jax.tree.map(lambda new, old: jnp.where(good, new, old), added, moment)
            record: dict[str, Any] = {**sampler.record(state), "sound": good}
            if sampler.decides:
                record["acceptance_rate"], record["diverging"] = decision
            if moment is None:
                record["position"] = _position(sampler, state)
            return (state, sound, moment), record

        inputs = jax.tree.map(lambda x: x.reshape(draws, thin, *x.shape[1:]), (noise, rows, numbers))
        carry = (state, (jnp.asarray(True), jnp.asarray(True)), moment)
        (state, sound, moment), out = jax.lax.scan(one_draw, carry, inputs, draws)
        return state, moment, sound, out

    return jax.vmap(chain)(states, moments, keys)


def _decision(info: Any) -> tuple[Array, Array]:
    return info.acceptance.astype(jnp.float32), info.divergent


def _cut(steps: int, most: int) -> Iterator[int]:
    """Lengths of about `most` that sum to `steps`.

    None is 1 unless `steps` is: XLA takes a loop of one step for no loop, and then rounds otherwise.
    """
    most = max(2, most)
    while steps > 0:
        length = steps if steps <= most + 1 else most
        yield length
        steps -= length


def _one_draw(steps: int, most: int) -> Iterator[tuple[int, int, bool]]:
    """The pieces of so many steps of which the last is kept."""
    for length in _cut(steps, most):
        steps -= length
        yield 1, length, steps == 0
