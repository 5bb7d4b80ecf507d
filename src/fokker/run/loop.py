"""The loop over the blocks of a run: while one is computed, the previous one is fetched."""

import contextlib
import functools
import math
import signal
import time
import warnings
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree
from rich.console import Console

from fokker._core.precision import in_this_precision
from fokker.rows import RowsError
from fokker.run.block import Block, Blocks, position_of, room_for
from fokker.run.divided import unused_name, write_divided
from fokker.run.folder import RunState
from fokker.run.interruption import ENDING, Interruption
from fokker.run.lockstep import Lockstep, first_chains
from fokker.run.losses import in_words
from fokker.run.mesh import Decision
from fokker.run.moments import Moments
from fokker.run.progress import Progress
from fokker.run.recording import Recording
from fokker.run.start import Started
from fokker.run.step_plan import Piece
from fokker.run.stored import StoredTrace
from fokker.run.trace import Trace
from fokker.run.trajectories import Trajectories

# Seconds that a block should take: few blocks, and a quick response to Ctrl-C.
_SECONDS = 1.0
# Steps of the first blocks, whose speed is unknown, and how many times longer than the last a block may be.
_FIRST_STEPS, _GROWTH = 16, 8


class _Sent(NamedTuple):
    """A block that is being computed: when it was sent, and the seconds it took where it is done already.

    `checkpoint`: the state at its end, where that is to be written down.
    """

    block: Block
    sent_at: float
    seconds: float | None
    checkpoint: RunState | None


class Measured(NamedTuple):
    """What a trial of a run shows: steps per second, seconds to compile, and the size of one draw.

    `sizes`: bytes of each variable of one draw of one chain, theta's and the statistics; `scalars`: of theta.
    """

    speed: float
    compiling: float
    sizes: list[int]
    scalars: int


class Run:
    """One run, from its start to its trace."""

    def __init__(self, started: Started) -> None:
        self.started, ready = started, started.ready
        self.sampler, self.plan, self.devices = ready.placed, ready.plan.steps, ready.plan.devices
        self.folder, self.resumed = started.folder, ready.plan.call.resumed
        states, moments = started.states, self._first_moments()
        done, losses = 0, {}
        if self.resumed is not None:
            done, losses = self.resumed.settings["taken"], dict(self.resumed.losses)
        if self.folder is not None and self.folder.checkpoint is not None:
            done = int(self.folder.checkpoint.description["taken"])
            losses = dict(self.folder.checkpoint.losses)
            states, moments = self.folder.restored(states, moments, self.devices)
        self.chains = self.devices.carried(first_chains(states, moments, sorted(losses)))
        self._is_cpu = _is_on_cpu(self.chains.states)
        self.pace = _Pace(self.plan.chunk)
        kind = Trajectories if self.sampler.has_trajectories else Lockstep
        self.blocks: Blocks = kind(started._replace(states=states), self._is_cpu, self._choose)
        self.pace.most = self.blocks.most
        self.recording = Recording(started._replace(states=states), done, losses, self.blocks.chain_axis)

    def _first_moments(self) -> Moments | None:
        if self.plan.keep != "moments":
            return None
        if self.resumed is not None:
            return self.resumed.gathered
        first = jax.vmap(lambda state: Moments.of(position_of(self.sampler, state)))
        # No values yet: zeros, in the host's memory, as they may be too large for one device.
        shapes = jax.eval_shape(first, self.started.states)
        return jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), shapes)

    def run(self) -> Trace:
        """All the steps, or as many as could be taken."""
        plan, progress = self.started.ready.plan, self.started.ready.plan.progress
        total = self.plan.total
        with (
            Progress(
                "sampling", total, completed=self.recording.done, compiles=True, enabled=progress
            ) as bar,
            # SIGTERM and SIGHUP end the process in any case; with a folder, once everything is written.
            Interruption(signal.SIGINT, *(() if self.folder is None else ENDING)) as interruption,
        ):
            stopped, end_signal = self._loop(bar, interruption)
        done, losses = self.recording.done, self.recording.losses
        if stopped is None and done < total:
            # How a run on disk continues depends on who reads this: a script, or a person at a terminal.
            how = "; trace.resume() continues" if self.folder is None else ""
            stopped = f"interrupted after {done:,} of {total:,} steps{how}"
        states, moments = self.devices.lasting((self.chains.states, self.chains.moments))
        if self.folder is None:
            parts = self.recording.gathered, moments, states, stopped, self._settings(), self.started.origin
            return self._explained(Trace.gather(*parts, self.resumed, losses))
        folder = self.folder
        reached = self._reached(done) if self.devices.divides else RunState(done, states, moments)
        reached = reached._replace(stopped=stopped, losses=losses)
        self.devices.by_first(lambda: folder.finish(reached))
        structure = jax.tree.structure(self.started.states.position)
        call = plan.call.to_repeat(plan.call.sampler, plan.options)
        trace = StoredTrace(folder.path, states, self.started.origin, structure, call, self._settings())
        for number in ENDING:
            if number in (end_signal, interruption.received):
                _pass_on(number, trace)
        return self._explained(trace)

    def _loop(self, bar: Progress, interruption: Interruption) -> tuple[str | None, int]:
        """Take all the steps: why the run ended before its end, and the signal that asked for it, or 0."""
        total, sent, started = self.plan.total, self.recording.done, self.recording.done
        running: deque[Future[str | None]] = deque()
        stopped, ended, end_signal = None, None, 0
        fetch = in_this_precision(self._fetch)
        # Its own thread: an accelerator blocks the thread that sends a block until it is computed.
        with ThreadPoolExecutor(1) as fetcher, contextlib.closing(self.blocks):
            while stopped is None and (running or (sent < total and ended is None)):
                if sent < total and ended is None and not end_signal:
                    decision = self.devices.agreed(self._proposal(interruption.received or 0))
                    end_signal = decision.signal
                if sent < total and ended is None and not end_signal:
                    try:
                        block = self._send(sent, decision)
                    except RowsError as problem:
                        if sent == started or self.devices.is_shared:
                            raise
                        ended = str(problem).rstrip(".")
                        continue
                    sent = block.block.piece.end
                    running.append(fetcher.submit(fetch, block))
                    if len(running) < 2 and sent < total:
                        continue  # one more, to be computed while this one is fetched
                if not running:
                    break
                stopped = running.popleft().result()
                lost = len(self.recording.losses)
                note = f"{lost} of {self.plan.chains} chains stopped" if lost else ""
                bar.update(self.recording.done, note=note)
        if stopped is None and ended is not None:
            stopped = f"{ended}; the run has {self.recording.done:,} of {total:,} steps"
        return stopped, end_signal

    def measured(self, seconds: float) -> Measured:
        """The speed of blocks that are not kept, which take about so many seconds after the first.

        The chains have moved then: the run is not to be used any more.
        """
        total, done, start = self.plan.total, self.recording.done, time.monotonic()
        compiling = 0.0
        with contextlib.closing(self.blocks):
            while done < total and (not compiling or time.monotonic() - start < compiling + seconds):
                sent = self._send(done, self._proposal(0))
                jax.block_until_ready((sent.block.sound, sent.block.out))
                done = sent.block.piece.end
                self.pace.took(sent.block.piece.steps, sent.sent_at, sent.seconds)
                # The first block compiles, and its speed says nothing.
                if not compiling:
                    compiling, self.pace.speed = time.monotonic() - start, 0.0
        recorded = {name: tree for name, tree in sent.block.out.items() if name != "sound"}
        # The leading axes are chain and draw, in the order of the kind of block.
        sizes = [x.nbytes // math.prod(x.shape[:2]) for x in jax.tree.leaves(recorded)]
        scalars = sum(math.prod(x.shape[2:]) for x in jax.tree.leaves(recorded.get("position")))
        return Measured(self.pace.speed or total / compiling, compiling, sizes, scalars)

    def _explained(self, trace: Trace) -> Trace:
        """The trace, after saying why it is not complete."""
        if not trace.has_results:
            # The user has to know, with or without a progress bar.
            warnings.warn(
                f"the run ended before its first draw: {trace.stopped}.", RuntimeWarning, stacklevel=4
            )
        elif trace.stopped is not None and self.started.ready.plan.progress:
            text = trace.stopped
            if trace.was_interrupted and self.folder is not None:  # its summary has the number of steps
                text = f"interrupted; the run in {self.folder.path} can be continued"
            Console(stderr=True).print(f"fokker: {text}", markup=False, soft_wrap=True)
        lost = in_words(self.plan.chains, self.recording.losses)
        if lost:
            warnings.warn(f"{lost}.", RuntimeWarning, stacklevel=4)
        return trace

    def _settings(self) -> dict[str, Any]:
        """The settings of the trace: those of the call, and what the sampler says where that does not."""
        ready = self.started.ready
        settings = {name: value for name, value in ready.plan.settings.items() if name != "key"}
        before = {} if self.resumed is None else self.resumed.settings
        chosen = ready.plan.call.chosen or before.get("chosen")
        return {
            "taken": self.recording.done,
            "sampler": str(self.sampler),
            "sampler_name": self.sampler.name,
            "step_size": self.sampler.own_step_size,
            **settings,
            "warm_up": ready.warm_up or before.get("warm_up"),
            "temperature": float(ready.temperature),
            **({"chosen": chosen} if chosen else {}),
        }

    def _proposal(self, signal_received: int) -> Decision:
        """What this process would decide about the next block."""
        return Decision(self.pace.steps, self.recording.is_due, signal_received)

    def _choose(self, first: int, steps: int | None) -> Piece:
        """The block from step `first` on."""
        return self.plan.piece(first, self.pace.steps if steps is None else steps, self.blocks.rows)

    def _send(self, first: int, decision: Decision) -> _Sent:
        """Start the next block, without waiting for it."""
        before = time.monotonic()
        self.chains, block = self.blocks.send(first, decision.steps, self.chains)
        if block.piece.is_kept and not self._is_cpu and not self.devices.is_shared:
            # The draws go to the host as soon as they are there, while the block before is being stored.
            block = block._replace(out=_first_draws(block, 1 - self.blocks.chain_axis))
            for recorded in jax.tree.leaves(block.out):
                if isinstance(recorded, jax.Array):
                    recorded.copy_to_host_async()
        # Where JAX does not compute in the background, as with callbacks, the block is done already.
        is_done = all(x.is_ready() for x in jax.tree.leaves(self.chains.states))
        if decision.commits and self.devices.divides:
            # They are written by this thread, once they are computed.
            jax.block_until_ready(self.chains)
            before, is_done = max(before, self.pace.ended), True
        seconds = time.monotonic() - before if is_done else None
        checkpoint = self._reached(block.piece.end) if decision.commits else None
        return _Sent(block, time.monotonic(), seconds, checkpoint)

    def _reached(self, steps: int) -> RunState:
        """The state after so many steps, for a checkpoint; all processes call this at the same block."""
        states, moments = self.chains.states, self.chains.moments
        if not self.devices.divides:
            # A copy: the next block reuses the memory of the states.
            return RunState(steps, *self.devices.gathered(jax.tree.map(jnp.copy, (states, moments))))
        assert self.folder is not None
        path = self.folder.path
        name = self.devices.by_first(lambda: unused_name(path, steps))
        return RunState(steps, (), None, divided=write_divided(path, name, states, moments))

    def _fetch(self, sent: _Sent) -> str | None:
        """Wait for a block, and record it; return the problem, if there is one."""
        if self.recording.problem is None:
            self.pace.took(sent.block.piece.steps, sent.sent_at, sent.seconds)
        return self.recording.add(sent.block, sent.checkpoint)


def _is_on_cpu(states: PyTree[Array]) -> bool:
    return next(iter(jax.tree.leaves(states)[0].devices())).platform == "cpu"


def _first_draws(block: Block, axis: int) -> dict[str, Any]:
    """What a block recorded, of about as many draws as it has: the rest of the memory is not sent."""
    number = room_for(block.piece.draws)
    return jax.tree.map(lambda x: x if x.shape[axis] <= number else _head(x, axis, number), block.out)


@functools.partial(jax.jit, static_argnums=(1, 2))
def _head(x: Array, axis: int, number: int) -> Array:
    return jax.lax.slice_in_dim(x, 0, number, axis=axis)


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
        self.most, self.speed, self._last, self.ended = most, 0.0, _FIRST_STEPS, 0.0

    @property
    def steps(self) -> int:
        """Steps of the next block."""
        wanted = int(self.speed * _SECONDS) if self.speed else _FIRST_STEPS
        return max(1, min(wanted, _GROWTH * self._last, self.most))

    def took(self, steps: int, sent_at: float, seconds: float | None = None) -> None:
        """A block of `steps` steps, sent at `sent_at`, has just ended, or took `seconds` to send."""
        now = time.monotonic()
        elapsed = now - max(sent_at, self.ended) if seconds is None else seconds
        self.speed = steps / max(elapsed, 1e-6)
        self.ended, self._last = now, steps
