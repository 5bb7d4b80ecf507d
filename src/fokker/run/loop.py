"""The loop over the blocks of a run: while one is computed, the previous one is fetched."""

import contextlib
import math
import signal
import time
import warnings
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree
from rich.console import Console

from fokker._core.count import Count
from fokker._core.precision import in_this_precision
from fokker._core.state import dimension, unravel
from fokker.batches import BatchScheme, WindowBatches
from fokker.rows import Problem
from fokker.run.ahead import Piece, ReadAhead, is_read
from fokker.run.block import Chains, Form, Setting, Task, position_of, run_block, start
from fokker.run.folder import RunFolder, StoredTrace
from fokker.run.interruption import ENDING, Interruption
from fokker.run.losses import Loss, blanked, first_unsound, in_words
from fokker.run.mesh import Decision, Devices, OneDevice
from fokker.run.moments import Moments
from fokker.run.plan import Plan
from fokker.run.progress import Progress
from fokker.run.shares import Read
from fokker.run.starts import unusable_row
from fokker.run.step_search import StepSearch
from fokker.run.trace import Origin, Trace
from fokker.run.trajectories import run_trajectories
from fokker.samplers.contract import Sampler, TrajectorySampler, chunk_length
from fokker.samplers.schedules import step_size_at
from fokker.targets.constrained import constrained

# Seconds that a block should take: few blocks, and a quick response to Ctrl-C.
_SECONDS = 1.0
# Steps of the first blocks, whose speed is unknown, and how many times longer than the last a block may be.
_FIRST_STEPS, _GROWTH = 16, 8
# The most numbers per block, on a CPU and on an accelerator, and the most draws.
_NUMBERS, _ACCELERATOR_NUMBERS, _ROWS = 2**22, 2**24, 2**12
# Arrays of at least this many bytes are copied by several threads.
_LARGE, _COPIERS = 2**24, 4
# Steps of a schedule that are checked together.
_SCHEDULED = 2**16
# The least seconds between checkpoints, also as a multiple of the time that writing one takes.
_COMMIT_SECONDS, _COMMIT_TIMES = 1.0, 50
# A step's place in the data is counted in 31 bits within a block.
_PLACES = 2**31


class _Block(NamedTuple):
    """A block that is being computed: its steps, whether its chains stayed sound, and what it records.

    `checkpoint`: the states and moments at its end, where they are to be written down.
    """

    first: int
    draws: int
    thin: int
    is_kept: bool
    sound: Any
    out: dict[str, Any]
    sent_at: float
    seconds: float | None
    checkpoint: Any = None


class Measured(NamedTuple):
    """What a trial of a run shows: steps per second, seconds to compile, and the size of one draw.

    `sizes`: bytes of each variable of one draw of one chain, theta's and the statistics; `scalars`: of theta.
    """

    speed: float
    compiling: float
    sizes: list[int]
    scalars: int


class Run:
    """One run: its plan, and what it has recorded."""

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
        folder: RunFolder | None = None,
        devices: Devices | None = None,
    ) -> None:
        self.sampler, self.batches, self.plan = sampler, batches, plan
        self.temperature, self.origin, self.resumed, self.folder = temperature, origin, resumed, folder
        self.devices = devices = OneDevice() if devices is None else devices
        self.done = 0 if resumed is None else resumed.settings["taken"]
        self.losses: dict[int, Loss] = {} if resumed is None else dict(resumed.losses)
        moments: Moments | None = None
        if plan.keep == "moments":
            first = jax.vmap(lambda state: Moments.of(position_of(sampler, state)))
            # No values yet: zeros, in the host's memory, as they may be too large for one device.
            zeros = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), jax.eval_shape(first, states))
            moments = zeros if resumed is None else resumed.gathered
        if folder is not None:
            self.structure = jax.tree.structure(states.position)
            if folder.checkpoint is not None:
                self.done = int(folder.checkpoint.description["taken"])
                states, moments = folder.restored((states, moments))
                self.losses = dict(folder.checkpoint.losses)
            self.next_commit = 0.0
        # A copy, to explain what went wrong: the memory of the states is reused.
        self.start = jax.tree.map(lambda x: np.array(x[0]), states.position)
        self.chains = devices.carried(start(sampler, states, moments, sorted(self.losses)))
        self.is_cpu = next(iter(jax.tree.leaves(self.chains.states)[0].devices())).platform == "cpu"
        self.keys = devices.by_chain(keys)
        self.store: Any = None
        self.problem: str | None = None
        self.draws = 0
        self.draws_before = max(0, self.done - plan.burn_in) // plan.thin
        self.draws_left = plan.steps // plan.thin - self.draws_before
        self.pace = _Pace(plan.chunk)
        self.ahead: ReadAhead | None = None
        most = plan.chunk
        if sampler.has_trajectories:  # as in warm-up, so that both share one program
            most = min(most, chunk_length(dimension(states.position), 500))
            self.rows = max(2, chunk_length(dimension(states.position), 500)) + 1
            self.search: StepSearch | None = None
            if sampler.learns:
                dtype = jnp.result_type(*jax.tree.leaves(states.position))
                step_sizes = jnp.broadcast_to(sampler.step_size, keys.shape).astype(dtype)  # type: ignore[attr-defined]
                self.search = devices.by_chain(StepSearch.around(step_sizes))
            self.shared_sampler = devices.share(sampler, None)[0]
        else:
            self.rows = self._room(states)
            self.setting = self._setting(states)
            if batches is not None:
                most = min(most, _PLACES // batches.batch_size)
                if is_read(origin.target.data, batches):
                    total = plan.burn_in + plan.steps
                    self.ahead = ReadAhead(origin.target.data, batches, keys, total, self._piece, devices)
                    most = min(most, self.ahead.capacity)
        self.pace.most = most

    def _room(self, states: Any) -> int:
        """The most draws per block: a power of eight, so that runs of similar length share a program."""
        plan = self.plan
        if plan.keep == "moments":
            return _ROWS
        numbers = dimension(jax.eval_shape(jax.vmap(lambda s: position_of(self.sampler, s)), states))
        room = (_NUMBERS if self.is_cpu else _ACCELERATOR_NUMBERS) // max(1, numbers)
        return min(_ROWS, max(1, room), _power_of_eight(plan.steps // plan.thin))

    def _setting(self, states: Any) -> Setting:
        # WindowBatches has its own copy of the data.
        needs_data = self.batches is not None and not isinstance(self.batches, WindowBatches)
        data = self.origin.target.data if needs_data else None
        if needs_data and is_read(data, self.batches):  # it comes with each block
            data = None
        rows = 0 if self.batches is None else self.batches.batch_size // self.devices.parts
        form = Form.of(self.devices.shapes_of_one(states), self.plan.thin, rows, self.is_cpu)
        sampler, batches = self.devices.share(self.sampler, self.batches)
        return Setting(
            sampler, self.devices.on_all(data), batches, self.keys, self.rows, form, self.devices.mesh
        )

    def run(self, progress: bool) -> Trace:
        """All the steps, or as many as could be taken."""
        plan, stopped, ended, progress = self.plan, None, None, progress and self.devices.is_first
        total = plan.burn_in + plan.steps
        with (
            Progress("compiling", total, completed=self.done, enabled=progress) as bar,
            # SIGTERM and SIGHUP end the process in any case; with a folder, once everything is written.
            Interruption(signal.SIGINT, *(() if self.folder is None else ENDING)) as interruption,
            # Its own thread: an accelerator blocks the thread that sends a block until it is computed.
            ThreadPoolExecutor(1) as fetcher,
            ThreadPoolExecutor(_COPIERS) as self.copiers,
            contextlib.ExitStack() as at_end,
        ):
            if self.ahead is not None:
                at_end.callback(self.ahead.close)
            running: deque[Future[str | None]] = deque()
            sent, started, end_signal = self.done, self.done, 0
            fetch = in_this_precision(self._fetch)
            while stopped is None and (running or (sent < total and ended is None)):
                if sent < total and ended is None and not end_signal:
                    decision = self.devices.agreed(self._proposal(interruption.received or 0))
                    end_signal = decision.signal
                if sent < total and ended is None and not end_signal:
                    try:
                        block = self._send(sent, decision)
                    except Problem as problem:
                        if sent == started or self.devices.is_shared:
                            raise
                        ended = str(problem).rstrip(".")
                        continue
                    sent += block.draws * block.thin
                    running.append(fetcher.submit(fetch, block))
                    if len(running) < 2 and sent < total:
                        continue  # one more, to be computed while this one is fetched
                if not running:
                    break
                stopped = running.popleft().result()
                note = f"{len(self.losses)} of {plan.chains} chains stopped" if self.losses else ""
                bar.update(self.done, description="sampling", note=note)
        if stopped is None and ended is not None:
            stopped = f"{ended}; the run has {self.done:,} of {total:,} steps"
        elif stopped is None and self.done < total:
            how = "trace.resume() continues" if self.folder is None else "the same call goes on with it"
            stopped = f"interrupted after {self.done:,} of {total:,} steps; {how}"
        states, moments = self.devices.kept((self.chains.states, self.chains.moments))
        if self.folder is not None:
            folder = self.folder
            self.devices.by_first(lambda: folder.finish(self.done, states, moments, stopped, self.losses))
            trace: Trace = StoredTrace(
                self.folder.path, states, self.origin, self.structure, self.folder.call, self._settings()
            )
            for number in ENDING:
                if number in (end_signal, interruption.received):
                    _pass_on(number, trace)
            return self._told(trace, progress)
        gathered = None if self.store is None else jax.tree.map(lambda x: x[:, : self.draws], self.store)
        settings = self._settings()
        trace = Trace.gather(
            gathered, moments, states, stopped, settings, self.origin, self.resumed, self.losses
        )
        return self._told(trace, progress)

    def measured(self, seconds: float) -> Measured:
        """The speed of blocks that are not kept, which take about so many seconds after the first.

        The chains have moved then: the run is not to be used any more.
        """
        try:
            return self._measured(seconds)
        finally:
            if self.ahead is not None:
                self.ahead.close()

    def _measured(self, seconds: float) -> Measured:
        total, done, start = self.plan.burn_in + self.plan.steps, self.done, time.monotonic()
        compiling = 0.0
        while done < total and (not compiling or time.monotonic() - start < compiling + seconds):
            block = self._send(done, self._proposal(0))
            jax.block_until_ready((block.sound, block.out))
            steps = block.draws * block.thin
            done += steps
            self.pace.took(steps, block.sent_at, block.seconds)
            # The first block compiles, and its speed says nothing.
            if not compiling:
                compiling, self.pace.speed = time.monotonic() - start, 0.0
        recorded = {name: tree for name, tree in block.out.items() if name != "sound"}
        # The leading axes are chain and draw, in the order of the kind of block.
        sizes = [x.nbytes // math.prod(x.shape[:2]) for x in jax.tree.leaves(recorded)]
        scalars = sum(math.prod(x.shape[2:]) for x in jax.tree.leaves(recorded.get("position")))
        return Measured(self.pace.speed or total / compiling, compiling, sizes, scalars)

    def _told(self, trace: Trace, progress: bool) -> Trace:
        """The trace, after saying why it is not complete."""
        if not trace.has_results:
            # The user has to know, with or without a progress bar.
            warnings.warn(
                f"the run ended before its first draw: {trace.stopped}.", RuntimeWarning, stacklevel=4
            )
        elif trace.stopped is not None and progress:
            Console(stderr=True).print(f"fokker: {trace.stopped}", markup=False, soft_wrap=True)
        lost = in_words(self.plan.chains, self.losses)
        if lost:
            warnings.warn(f"{lost}.", RuntimeWarning, stacklevel=4)
        return trace

    def _settings(self) -> dict[str, Any]:
        plan = self.plan
        return {
            "taken": self.done,
            "sampler": str(self.sampler),
            "step_size": self.sampler.own_step_size,
            "steps": plan.steps,
            "burn_in": plan.burn_in,
            "thin": plan.thin,
            "chains": plan.chains,
            "temperature": float(self.temperature),
            "batch_size": self.origin.options.get("batch_size"),
            "precision": self.origin.options.get("precision"),
            "seed": self.origin.options.get("seed"),
        }

    def _proposal(self, signal_received: int) -> Decision:
        """What this process would decide about the next block."""
        commits = self.folder is not None and time.monotonic() >= self.next_commit
        return Decision(self.pace.steps, commits, signal_received)

    def _send(self, first: int, decision: Decision) -> _Block:
        """Start the next block, without waiting for it."""
        before = time.monotonic()
        if self.ahead is None:
            piece, read = Piece(first, *self._piece(first, decision.steps)), None
        else:
            # What all processes agreed on, or what is found best when the reading begins.
            piece, read = self.ahead.get(first, decision.steps if self.devices.is_shared else None)
        _, draws, thin, is_kept = piece
        if self.sampler.has_trajectories:
            self.chains, sound, out = self._trajectories(first, draws, thin, is_kept)
        else:
            self.chains, sound, out = self._steps(first, draws, thin, is_kept, read)
        # Where JAX does not compute in the background, as with callbacks, the block is done already.
        is_done = all(x.is_ready() for x in jax.tree.leaves(self.chains.states))
        seconds = time.monotonic() - before if is_done else None
        checkpoint = None
        if decision.commits:
            # A copy: the next block reuses the memory of the states.
            checkpoint = self.devices.gathered(
                jax.tree.map(jnp.copy, (self.chains.states, self.chains.moments))
            )
        return _Block(first, draws, thin, is_kept, sound, out, time.monotonic(), seconds, checkpoint)

    def _piece(self, first: int, steps: int | None) -> tuple[int, int, bool]:
        """The draws, steps per draw and whether they are kept, of the block from step `first` on."""
        return self.plan.piece(first, self.pace.steps if steps is None else steps, self.rows)

    def _steps(
        self, first: int, draws: int, thin: int, is_kept: bool, read: Read | None
    ) -> tuple[Chains, Any, dict[str, Any]]:
        epoch, position = (0, 0) if self.batches is None else self.batches.place(first)
        task = Task(
            Count.of(first),
            jnp.int32(draws),
            jnp.int32(thin),
            jnp.asarray(is_kept),
            (Count.of(epoch), jnp.uint32(position)),
            read,
        )
        chains, sound, out = run_block((self.setting, self.devices.on_all(task)), self.chains)
        return chains, *self.devices.gathered((sound, out))

    def _trajectories(
        self, first: int, draws: int, thin: int, is_kept: bool
    ) -> tuple[Chains, Any, dict[str, Any]]:
        """The same for a sampler whose chains do not wait for each other."""
        sampler = self.shared_sampler
        assert isinstance(sampler, TrajectorySampler)
        begin, steps, every, keeps, learns = self.devices.on_all(
            (
                Count.of(first),
                jnp.int32(draws * thin),
                jnp.int32(thin),
                jnp.asarray(is_kept),
                jnp.asarray(False),
            )
        )
        chains, out = run_trajectories(
            sampler,
            self.rows,
            self.chains.states,
            self.chains.moments,
            self.keys,
            begin,
            steps,
            every,
            keeps,
            self.search,
            learns,
            self.devices.mesh,
        )
        out = self.devices.gathered(out)
        positions = out.pop("position")
        if chains.moments is None:
            out["position"] = _constrained(self.sampler.known_target, self.start, positions)
        out["sound"] = np.ones(out["acceptance_rate"].shape, bool)
        sound = (True, True)  # what is not finite is never accepted
        return self.chains._replace(states=chains.state, moments=chains.moments), sound, out

    def _fetch(self, block: _Block) -> str | None:
        """Wait for a block, store what it recorded, and return the problem, if there is one.

        After a problem nothing more is stored.
        """
        if self.problem is None:
            try:
                self.problem = self._checked(block)
            except BaseException as error:
                # The next block waits behind this one: its draws must not follow a gap.
                self.problem = f"writing failed: {error}"
                raise
        return self.problem

    def _checked(self, block: _Block) -> str | None:
        steps = block.draws * block.thin
        self.pace.took(steps, block.sent_at, block.seconds)
        self.done = block.first + steps
        schedule = self._lose_chains(block)
        if block.is_kept:
            self._store_draws(block)
        if self.sampler.has_trajectories:
            schedule = self._wrong_schedule(block)
        if schedule is None and len(self.losses) < self.plan.chains:
            if self.folder is not None and block.checkpoint is not None:
                before = time.monotonic()
                states, moments = block.checkpoint
                self.folder.commit(self.done, states, moments, losses=self.losses)
                cost = time.monotonic() - before
                self.next_commit = time.monotonic() + max(_COMMIT_SECONDS, _COMMIT_TIMES * cost)
            return None
        if schedule is not None:
            return f"{schedule} before step {self.done:,}: take smaller steps"
        which = "the chain" if self.plan.chains == 1 else "every chain"
        return f"{which} was stopped before step {self.done:,}: {next(iter(self.losses.values())).reason}"

    def _lose_chains(self, block: _Block) -> str | None:
        """Note which chains diverged in a block; return what is wrong with the schedule of all of them."""
        finite, sound = (np.broadcast_to(np.asarray(x), self.plan.chains) for x in block.sound)
        new = [int(c) for c in np.flatnonzero(~(finite & sound)) if int(c) not in self.losses]
        if not new:
            return None
        schedule = self._wrong_schedule(block)
        before = self.draws_before + self.draws
        sounds = np.asarray(block.out["sound"])[: block.draws] if block.is_kept else None
        for c in new:
            draws = before if sounds is None else before + first_unsound(sounds[:, c])
            self.losses[c] = Loss(draws, self.done, schedule or self._why(bool(finite[c])))
        return schedule

    def _why(self, finite: bool) -> str:
        """Why a chain was stopped, and what to do."""
        if finite:
            return "2TD - εB̂ was not positive semidefinite: take smaller steps"
        row = unusable_row(self.origin.target, self.start) if self.sampler.wants_target else None
        return f"it left the finite numbers: {row or 'take smaller steps'}"

    def _store_draws(self, block: _Block) -> None:
        """Copy the draws of a block into the store, while the next block is computed."""
        by_chain = self.sampler.has_trajectories  # otherwise by draw, as they were written

        def rows_of(x: Any) -> np.ndarray:
            rows = np.asarray(x)
            return rows[:, : block.draws] if by_chain else np.swapaxes(rows[: block.draws], 0, 1)

        recorded = jax.tree.map(rows_of, block.out)
        sound = recorded.pop("sound")
        self.draws += block.draws
        if not recorded:
            return
        if self.folder is not None:
            # For readers that do not know which chains were stopped.
            self.folder.add(jax.tree.map(lambda x: blanked(x, sound), recorded))
            return
        if self.store is None:
            total = self.draws_left
            self.store = jax.tree.map(
                lambda x: np.empty((x.shape[0], total, *x.shape[2:]), x.dtype), recorded
            )
        place = slice(self.draws - block.draws, self.draws)
        for stored, x in zip(jax.tree.leaves(self.store), jax.tree.leaves(recorded), strict=True):
            self._copy(stored[:, place], x)

    def _copy(self, stored: np.ndarray, x: np.ndarray) -> None:
        """Copy draws into the store, large arrays by several threads."""
        if x.nbytes < _LARGE:
            stored[:] = x
            return
        parts = np.array_split(np.arange(len(x)), _COPIERS)
        slices = [slice(int(part[0]), int(part[-1]) + 1) for part in parts if part.size]
        list(self.copiers.map(lambda part: np.copyto(stored[part], x[part]), slices))

    def _wrong_schedule(self, block: _Block) -> str | None:
        """A message about the first invalid step size of a schedule in a block."""
        size: Any = self.sampler.own_step_size
        if not callable(size):
            return None
        of_steps = jax.jit(jax.vmap(lambda number: step_size_at(size, number)))
        end = block.first + block.draws * block.thin
        for first in range(block.first, end, _SCHEDULED):
            numbers = np.arange(first, min(first + _SCHEDULED, end), dtype=np.uint64)
            values = np.asarray(of_steps(Count.of(numbers)))
            wrong = np.flatnonzero(~((values >= 0) & np.isfinite(values)))
            if wrong.size:
                value, number = float(values[wrong[0]]), int(numbers[wrong[0]])
                return f"the schedule gave the step size {value} at step {number:,}"
        return None


def _pass_on(number: signal.Signals, trace: Trace) -> None:
    """A signal that was held back; what its handler raises, where it has one, carries the trace."""
    try:
        signal.raise_signal(number)
    except BaseException as error:
        error.trace = trace  # type: ignore[attr-defined]
        raise


class _Pace:
    """How many steps the next block takes, so that it lasts about a second."""

    def __init__(self, most: int) -> None:
        self.most, self.speed, self._last, self._ended = most, 0.0, _FIRST_STEPS, 0.0

    @property
    def steps(self) -> int:
        """Steps of the next block."""
        wanted = int(self.speed * _SECONDS) if self.speed else _FIRST_STEPS
        return max(1, min(wanted, _GROWTH * self._last, self.most))

    def took(self, steps: int, sent_at: float, seconds: float | None = None) -> None:
        """A block of `steps` steps, sent at `sent_at`, has just ended, or took `seconds` to send."""
        now = time.monotonic()
        elapsed = now - max(sent_at, self._ended) if seconds is None else seconds
        self.speed = steps / max(elapsed, 1e-6)
        self._ended, self._last = now, steps


def _power_of_eight(number: int) -> int:
    return 8 ** -(-max(0, number - 1).bit_length() // 3)


@eqx.filter_jit
def _constrained(target: Any, like: PyTree[Any], vectors: Array) -> PyTree[Array]:
    return jax.vmap(jax.vmap(lambda x: constrained(target, unravel(x, like))))(vectors)
