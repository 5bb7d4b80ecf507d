"""`fokker.sample`: many steps of many chains, in compiled chunks."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from fokker._module import Module
from fokker._state import as_arrays, dimension
from fokker.batches import Batches, WeightedBatches
from fokker.gradients import Estimator
from fokker.samplers._sampler import Sampler
from fokker.trace import Trace

# Steps whose randomness is drawn at once: enough to amortise drawing, little enough to fit the cache.
_CHUNK = 500
_CHUNK_NUMBERS = 2**24


class Moments(Module):
    """Streaming mean and sum of squared deviations (Welford) of a tree, for what is too large to store."""

    count: Array
    mean: PyTree[Array]
    squares: PyTree[Array]

    @classmethod
    def of(cls, tree: PyTree[Array]) -> "Moments":
        """Nothing seen yet."""
        zeros = jax.tree.map(jnp.zeros_like, tree)
        return cls(jnp.zeros(()), zeros, zeros)

    def add(self, tree: PyTree[Array]) -> "Moments":
        """With one more value."""
        n = self.count + 1
        mean = jax.tree.map(lambda m, x: m + (x - m) / n, self.mean, tree)
        squares = jax.tree.map(
            lambda s, m, new, x: s + (x - m) * (x - new), self.squares, self.mean, mean, tree
        )
        return Moments(n, mean, squares)


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
    sampler: Sampler,
    *,
    init: Any,
    steps: int,
    burn_in: int = 0,
    thin: int = 1,
    chains: int = 1,
    batch_size: int | None = None,
    batches: Any = "reshuffle",
    gradient: Estimator | None = None,
    seed: int = 0,
    temperature: float = 1.0,
    keep: str = "draws",
    chunk: int = _CHUNK,
    progress: bool = True,
) -> Trace:
    r"""Sample exp(-U/T) for a `fk.Density` or `fk.Posterior` with a sampler of `fk.samplers`.

    ```python
    trace = fk.sample(target, fk.samplers.sgnht(1e-3), init=jnp.zeros(50), steps=20_000, burn_in=5_000,
                      chains=4, batch_size=100)
    print(trace.summary())
    ```

    `init` is theta, the same for all chains, or a function of a key that draws it for each. `steps` are taken
    after `burn_in`, and every `thin`-th is kept. `batch_size` rows a step are drawn as `batches` says: by
    "reshuffle", "replacement" or "no replacement" (`fokker.batches.Batches`), or, given a score for every
    datum, with probabilities proportional to the scores (`fokker.batches.WeightedBatches`). Without
    `batch_size` every step sees all the data. `gradient` is the estimator that the batches are put into, one
    of `fk.gradients`. `keep="moments"` stores means and variances alone. What step t draws depends on the
    seed and on t, not on `chunk`. Ctrl-C, or a chain that leaves the finite numbers, ends the run with the
    draws so far; the trace says so.
    """
    plan = Plan(steps, burn_in, thin, chains, chunk, keep)
    if not isinstance(sampler, Sampler):
        raise TypeError(f"the sampler must be one of fk.samplers, not {type(sampler).__name__}.")
    batch = _batches(target, batch_size, batches, gradient)
    placed = sampler
    if not sampler.wants_target:
        own = float(getattr(getattr(sampler, "dynamics", None), "temperature", 1.0))
        if temperature not in (1.0, own):
            raise ValueError(
                f"this sampler was made of dynamics at temperature {own:g}; give temperature={temperature} "
                "to them, not to fk.sample."
            )
        temperature = own
    else:
        placed = sampler.on(target, temperature, gradient)
    keys = jax.random.split(jax.random.key(seed), (chains, 3))
    positions = _starts(init, keys[:, 0])
    for chain in range(chains if callable(init) else 1):
        position = jax.tree.map(lambda x, chain=chain: x[chain], positions)
        if sampler.wants_target:
            target.validate(position)
        placed.init(position, key=keys[chain, 1])  # validates before anything is compiled
    states = _start(placed, positions, keys[:, 1])
    run = _Run(placed, batch, plan, keys[:, 2], states, temperature)
    return run.go(progress)


def _starts(init: Any, keys: Array) -> PyTree[Array]:
    if callable(init):
        return jax.vmap(init)(keys)
    position = as_arrays(init)
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (keys.shape[0], *x.shape)), position)


# Compiled, so that what init computes to validate, which nobody reads here, is left out.
@eqx.filter_jit
def _start(sampler: Sampler, positions: PyTree[Array], keys: Array) -> Any:
    return jax.vmap(lambda theta, key: sampler.init(theta, key=key))(positions, keys)


def _batches(
    target: Any, batch_size: int | None, kind: Any, gradient: Any
) -> Batches | WeightedBatches | None:
    if batch_size is None:
        if gradient is not None or not isinstance(kind, str):
            raise ValueError("gradient and batches are about minibatches: give a batch_size with them.")
        return None
    if not hasattr(target, "minibatch_potential"):
        raise ValueError("batch_size needs data: give a fk.Posterior as the target.")
    if isinstance(kind, str):
        return Batches(target.size, batch_size, kind)
    return WeightedBatches(kind, target.size, batch_size)


class _Run:
    """One run: what it is to do, and what it has gathered."""

    def __init__(
        self,
        sampler: Sampler,
        batches: Batches | WeightedBatches | None,
        plan: Plan,
        keys: Key[Array, " chains"],
        states: Any,
        temperature: float,
    ) -> None:
        self.temperature = temperature
        self.sampler, self.batches, self.plan, self.keys, self.states = sampler, batches, plan, keys, states
        self.moments = jax.vmap(Moments.of)(states.position) if plan.keep == "moments" else None

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
            task = bar.add_task("sampling", total=plan.burn_in + plan.steps, speed="")
            done = 0
            try:
                for draws, thin, kept in self._pieces():
                    trouble, out = self._advance(done, draws, thin, kept)
                    done += draws * thin
                    speed = bar.tasks[task].speed
                    bar.update(task, completed=done, speed=f"{speed:,.0f}/s" if speed else "")
                    if kept:
                        gathered.append(out)
                    if trouble:
                        stopped = f"{trouble} before step {done:,}: take smaller steps"
                        break
            except KeyboardInterrupt:
                stopped = f"interrupted after {done:,} of {plan.burn_in + plan.steps:,} steps"
        return Trace.gather(gathered, self.moments, self.states, stopped, self._settings())

    def _settings(self) -> dict[str, Any]:
        plan = self.plan
        return {
            "steps": plan.steps,
            "burn_in": plan.burn_in,
            "thin": plan.thin,
            "chains": plan.chains,
            "temperature": float(self.temperature),
        }

    def _pieces(self) -> list[tuple[int, int, bool]]:
        """(draws, steps a draw, whether they are kept), in order."""
        plan = self.plan
        drawn = jax.eval_shape(jax.vmap(self.sampler.draw), self.keys, self.states)
        most = max(1, min(plan.chunk, _CHUNK_NUMBERS // max(1, dimension(drawn))))
        pieces = [(1, n, False) for n in _cut(plan.burn_in, most)]
        draws, thin = plan.steps // plan.thin, plan.thin
        if thin == 1:
            return pieces + [(n, 1, True) for n in _cut(draws, most)]
        if thin <= most:
            whole, rest = divmod(draws, most // thin)
            return pieces + [(most // thin, thin, True)] * whole + [(rest, thin, True)] * (rest > 0)
        *between, last = _cut(thin, most)
        return pieces + [*((1, n, False) for n in between), (1, last, True)] * draws

    def _advance(self, done: int, draws: int, thin: int, kept: bool) -> tuple[str, Any]:
        """What went wrong, if anything, and what was recorded."""
        steps = draws * thin
        numbers = jnp.arange(done, done + steps, dtype=jnp.uint32)
        places: Any = None
        if self.batches is not None:
            places = tuple(jnp.asarray(p) for p in self.batches.places(done, steps))
        states, moments, sound, out = _chunk(
            self.sampler,
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
            return "a chain left the finite numbers", out
        return "" if enough else "2TD - εB̂ was not positive semidefinite", out


# Compiled once for a sampler, whatever its step size and data: a second run of it starts at once.
@eqx.filter_jit
def _chunk(
    sampler: Sampler,
    batches: Batches | WeightedBatches | None,
    shape: tuple[int, int, bool],
    states: Any,
    moments: Moments | None,
    keys: Array,
    numbers: Array,
    places: Any,
) -> Any:
    """Many steps of all chains: the randomness of all of them first, then the steps."""
    draws, thin, kept = shape

    def chain(state: Any, moment: Moments | None, key: Array) -> Any:
        step_keys = jax.vmap(lambda t: jax.random.fold_in(key, t))(numbers)
        noise = jax.vmap(lambda k: sampler.draw(k, state))(step_keys)
        rows = None
        if batches is not None:
            # A stream of its own: the batch must not depend on the noise.
            batch_key = jax.random.fold_in(key, np.uint32(2**32 - 1))
            batch_keys = jax.vmap(lambda t: jax.random.fold_in(batch_key, t))(numbers)
            rows = jax.vmap(lambda k, e, p: batches.rows(batch_key, k, e, p))(batch_keys, *places)

        def step(carry: Any, given: Any) -> Any:
            state, (finite, enough) = carry
            draw, row, number = given
            batch = None if batches is None else batches.batch(sampler.own_target.data, row)
            state, info = sampler.advance(draw, state, batch, number)
            return (state, (finite & info.finite, enough & (info.noise_shortfall >= 0))), None

        def one_draw(carry: Any, given: Any) -> Any:
            state, sound, moment = carry
            (state, sound), _ = jax.lax.scan(step, (state, sound), given, thin)
            if not kept:
                return (state, sound, moment), None
            good = sound[0] & sound[1]
            if moment is not None:
                added = moment.add(state.position)
                moment = jax.tree.map(lambda new, old: jnp.where(good, new, old), added, moment)
            record: dict[str, Any] = {**sampler.record(state), "sound": good}
            if moment is None:
                record["position"] = state.position
            return (state, sound, moment), record

        inputs = jax.tree.map(lambda x: x.reshape(draws, thin, *x.shape[1:]), (noise, rows, numbers))
        carry = (state, (jnp.asarray(True), jnp.asarray(True)), moment)
        (state, sound, moment), out = jax.lax.scan(one_draw, carry, inputs, draws)
        return state, moment, sound, out

    return jax.vmap(chain)(states, moments, keys)


def _cut(steps: int, most: int) -> list[int]:
    """Lengths of about `most` that sum to `steps`.

    None is 1 unless `steps` is: XLA takes a loop of one step for no loop, and then rounds otherwise.
    """
    most = max(2, most)
    whole, rest = divmod(steps, most)
    if rest == 1 and whole:
        return [most] * (whole - 1) + [most + 1]
    return [most] * whole + [rest] * (rest > 0)
