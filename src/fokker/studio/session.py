"""One tab of the browser: its runs, one frame per acknowledgement, and its questions.

The page sends JSON: `{"do": …, "id": …}`. A frame is computed when the page asks for it by `next`, so that a
slow page waits for nobody and nobody waits for it, and a closed tab stops its work at the next block.
"""

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from fokker.studio.design import Design, DesignError, design_of

if TYPE_CHECKING:
    from fokker.studio.simulation import Simulation

MAX_RUNS = 4
MAX_MESSAGE = 64 * 1024
MAX_FRAMES = 100_000


class Channel(Protocol):
    """What a session needs of a WebSocket."""

    async def send_text(self, data: str) -> None:
        """Send JSON."""

    async def send_bytes(self, data: bytes) -> None:
        """Send a frame."""


class Session:
    """The work of one connection; `handle` takes a message, `close` stops everything.

    Of each kind of work and each run there is at most one task, which ends when its answer is sent. A later
    message of that kind waits for it, in the place of one that waited before. So neither messages that come
    too fast nor a page that does not read its answers make a queue.
    """

    def __init__(self, channel: Channel, runners: ThreadPoolExecutor, analysts: ThreadPoolExecutor) -> None:
        self._channel = channel
        self._runners, self._analysts = runners, analysts
        self._runs: dict[int, Simulation] = {}
        # How the page counts them: it tells by it the frames of a run from those of the run before.
        self._starts: dict[int, Any] = {}
        # Runs that were asked for, are not built yet, and were not stopped since.
        self._starting: set[int] = set()
        # Frames of `_runs` that were asked for and are not sent yet: whether with a trajectory.
        self._frames_due: dict[int, bool] = {}
        self._tasks: dict[tuple[int, str], asyncio.Task[None]] = {}
        self._waiting: dict[tuple[int, str], Mapping[str, Any]] = {}
        self._is_closed = False

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being computed."""
        return not self._tasks

    async def handle(self, message: str) -> None:
        """Start what a message asks for; an answer comes when it is ready."""
        try:
            request = json.loads(message)
            if not isinstance(request, Mapping):
                raise TypeError
            number, do = request.get("id", 0), request.get("do")
        except (ValueError, TypeError, RecursionError):
            await self._answer(0, "error", {"message": "a message must be a JSON object.", "part": ""})
            return
        is_number = isinstance(number, int) and not isinstance(number, bool) and 0 <= number < MAX_RUNS
        known = ("start", "next", "stop", *_ANSWERS)
        if not is_number or not isinstance(do, str) or do not in known:
            text = f"a message has an id from 0 to {MAX_RUNS - 1}, and `do` is one of {', '.join(known)}."
            await self._answer(0, "error", {"message": text, "part": ""})
            return
        key = number, do
        if do in ("start", "stop"):  # the run before gives no more frames
            self._runs.pop(number, None)
            self._frames_due.pop(number, None)
            self._waiting.pop((number, "next"), None)
        if do == "start":
            self._starting.add(number)
        if do == "next":
            with_trajectory = request.get("trajectory") is True
            # A page that asks again before its frame is sent gets that frame. A frame that is still being
            # computed for the run before is not due: the request waits for its end.
            if number not in self._runs or self._frames_due.get(number) in (True, with_trajectory):
                return
            self._frames_due[number] = with_trajectory
        if do == "stop":
            self._starting.discard(number)
            self._waiting.pop((number, "start"), None)
            await self._answer(number, "stopped", {})
        elif key not in self._tasks:
            self._tasks[key] = asyncio.create_task(self._work(number, do, request))
        else:
            self._waiting[key] = request

    def close(self) -> None:
        """Stop: what is being computed ends with its block, and its result is dropped."""
        self._is_closed = True
        self._runs.clear()
        self._frames_due.clear()
        self._waiting.clear()
        for task in self._tasks.values():
            task.cancel()

    async def _work(self, number: int, do: str, request: Mapping[str, Any] | None) -> None:
        """Answer a message, and then the last one that came in the meantime."""
        key = number, do
        try:
            while request is not None:
                await self._answered(number, do, request)
                request = self._waiting.pop(key, None)
        finally:
            del self._tasks[key]
            if do == "next":
                self._frames_due.pop(number, None)

    async def _answered(self, number: int, do: str, request: Mapping[str, Any]) -> None:
        run = self._runs.get(number)
        try:
            if do in _ANSWERS:
                await self._ask(number, do, request)
            else:
                await {"start": self._start, "next": self._next}[do](number, request)
        except DesignError as error:
            if (number, do) in self._waiting:
                return  # the design has changed since
            about = {"about": do} if do in _ANSWERS else {}
            await self._answer(number, "error", {**error.to_json(), **about})
        except Exception as error:
            # One that nobody expected ends its answer, not the page, which may be gone by now.
            if do == "next" and self._runs.get(number) is not run:
                return  # of a run that was replaced since
            text = f"{type(error).__name__}: {error}"
            with contextlib.suppress(Exception):
                await self._answer(number, "error", {"message": text, "part": "", "unexpected": True})

    # What is asked for ------------------------------------------------------------------------------------

    async def _start(self, number: int, request: Mapping[str, Any]) -> None:
        from fokker.studio.simulation import Simulation
        from fokker.studio.truth import describe

        simulation = await self._in_thread(
            self._runners, lambda: Simulation(design_of(request.get("design")))
        )
        if number not in self._starting or (number, "start") in self._waiting:
            return  # stopped, or started again, in the meantime
        self._starting.discard(number)
        self._runs[number], self._starts[number] = simulation, request.get("start")
        header = {
            "start": request.get("start"),
            **describe(simulation.truth),
            "sampler": str(simulation.built.sampler),
            "trajectories": simulation.has_trajectories,
        }
        await self._send(number, "started", header, {"truth": simulation.truth.cells})

    async def _next(self, number: int, request: Mapping[str, Any]) -> None:
        simulation = self._runs.get(number)
        if simulation is None or simulation.is_over:
            return
        advance = partial(simulation.advance, with_trajectory=request.get("trajectory") is True)
        numbers, arrays = await self._in_thread(self._runners, advance)
        if self._runs.get(number) is simulation:
            start = self._starts.get(number)
            await self._send(number, "frame", {"start": start, **numbers}, arrays)

    async def _ask(self, number: int, do: str, request: Mapping[str, Any]) -> None:
        # What is answered at once does not wait behind a check.
        threads = self._runners if do in ("recipe", "program") else self._analysts
        header, arrays = await self._in_thread(
            threads, lambda: _ANSWERS[do](design_of(request.get("design")), request)
        )
        await self._send(number, do, {**header, "asked": request.get("asked")}, arrays)

    # Sending ----------------------------------------------------------------------------------------------

    async def _in_thread(self, threads: ThreadPoolExecutor, function: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(threads, self._unless_closed, function)

    def _unless_closed(self, function: Callable[[], Any]) -> Any:
        # Asked by the thread itself: a cancelled task reaches it only at the loop's next turn.
        if self._is_closed:
            raise asyncio.CancelledError
        return function()

    async def _answer(self, number: int, kind: str, content: Mapping[str, Any]) -> None:
        from fokker.studio.frames import finite

        await self._channel.send_text(json.dumps(finite({"id": number, "kind": kind, **content})))

    async def _send(
        self, number: int, kind: str, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
    ) -> None:
        from fokker.studio.frames import packed

        await self._channel.send_bytes(packed({"id": number, "kind": kind, **header}, arrays))


_Answer = tuple[dict[str, Any], dict[str, np.ndarray]]


def _check(design: Design, request: Mapping[str, Any]) -> _Answer:
    from fokker.studio.analysis import known_verdict

    report = known_verdict(design)
    return {"report": report.to_json(), "text": str(report)}, {}


def _recipe(design: Design, request: Mapping[str, Any]) -> _Answer:
    from fokker.studio.recipe_view import recipe_view

    return recipe_view(design), {}


def _residual(design: Design, request: Mapping[str, Any]) -> _Answer:
    from fokker.studio.analysis import residual_map

    result = residual_map(design)
    return result, {"values": result.pop("values")}


def _complete(design: Design, request: Mapping[str, Any]) -> _Answer:
    from fokker.studio.analysis import completion

    result = completion(design)
    return result, {"values": result.pop("values")}


def _program(design: Design, request: Mapping[str, Any]) -> _Answer:
    from fokker.studio.loop import source
    from fokker.studio.program import build

    frames = request.get("frames", 1)
    if isinstance(frames, bool) or not isinstance(frames, int) or not 1 <= frames <= MAX_FRAMES:
        raise DesignError("frames", f"frames is a whole number from 1 to {MAX_FRAMES}, not {frames!r}.")
    return {"program": source(build(design), frames)}, {}


# The questions, in threads of their own.
_ANSWERS: dict[str, Callable[[Design, Mapping[str, Any]], _Answer]] = {
    "check": _check,
    "recipe": _recipe,
    "residual": _residual,
    "complete": _complete,
    "program": _program,
}
