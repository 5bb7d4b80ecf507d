"""One tab of the browser: its runs, one frame per acknowledgement, and its questions.

The page sends JSON: `{"do": …, "id": …}`. A frame is computed when the page asks for it by `next`, so that a
slow page waits for nobody and nobody waits for it, and a closed tab stops its work at the next block.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from fokker.studio.design import Design, DesignError, design_of

if TYPE_CHECKING:
    from fokker.studio.simulation import Simulation

MAX_RUNS = 4
MAX_MESSAGE = 64 * 1024
MAX_QUESTIONS = 8
MAX_FRAMES = 100_000


class Channel(Protocol):
    """What a session needs of a WebSocket."""

    async def send_text(self, data: str) -> None:
        """Send JSON."""

    async def send_bytes(self, data: bytes) -> None:
        """Send a frame."""


class Session:
    """The work of one connection; `handle` takes a message, `close` stops everything."""

    def __init__(self, channel: Channel, runners: ThreadPoolExecutor, analysts: ThreadPoolExecutor) -> None:
        self._channel = channel
        self._runners, self._analysts = runners, analysts
        self._runs: dict[int, Simulation] = {}
        # A run that is being built: the latest that was asked for.
        self._starting: dict[int, object] = {}
        self._busy: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()
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
        actions: dict[str, Callable[[int, Mapping[str, Any]], Awaitable[None]]] = {
            "start": self._start,
            "next": self._next,
            "stop": self._stop,
            "check": partial(self._ask, "check", _check),
            "recipe": partial(self._ask, "recipe", _recipe),
            "residual": partial(self._ask, "residual", _residual),
            "complete": partial(self._ask, "complete", _complete),
            "program": partial(self._ask, "program", _program),
        }
        is_number = isinstance(number, int) and not isinstance(number, bool) and 0 <= number < MAX_RUNS
        if not is_number or not isinstance(do, str) or do not in actions:
            known = ", ".join(actions)
            text = f"a message has an id from 0 to {MAX_RUNS - 1}, and `do` is one of {known}."
            await self._answer(0, "error", {"message": text, "part": ""})
            return
        await actions[do](number, request)

    def close(self) -> None:
        """Stop: what is being computed ends with its block, and its result is dropped."""
        self._is_closed = True
        self._runs.clear()
        for task in self._tasks:
            task.cancel()

    # Runs -----------------------------------------------------------------------------------------------

    async def _start(self, number: int, request: Mapping[str, Any]) -> None:
        self._runs.pop(number, None)
        self._spawn(number, self._started(number, request))

    async def _started(self, number: int, request: Mapping[str, Any]) -> None:
        from fokker.studio.simulation import Simulation

        marker = self._starting[number] = object()

        def made() -> Any:
            return Simulation(design_of(request.get("design")))

        try:
            simulation = await self._in_thread(self._runners, made)
        except DesignError as error:
            await self._answer(number, "error", error.to_json())
            return
        if self._starting.get(number) is not marker:  # started again, or stopped, in the meantime
            return
        self._runs[number] = simulation
        from fokker.studio.truth import describe

        header = {
            **describe(simulation.truth),
            "sampler": str(simulation.built.sampler),
            "trajectories": simulation.has_trajectories,
        }
        await self._send(number, "started", header, {"truth": simulation.truth.cells})

    async def _next(self, number: int, request: Mapping[str, Any]) -> None:
        simulation = self._runs.get(number)
        # A page that asks again before its frame has come gets that frame.
        if simulation is None or number in self._busy or simulation.is_over:
            return
        self._busy.add(number)
        with_trajectory = request.get("trajectory") is True
        self._spawn(number, self._advanced(number, simulation, with_trajectory))

    async def _advanced(self, number: int, simulation: "Simulation", with_trajectory: bool) -> None:
        advance = partial(simulation.advance, with_trajectory=with_trajectory)
        try:
            numbers, arrays = await self._in_thread(self._runners, advance)
        finally:
            self._busy.discard(number)
        if self._runs.get(number) is simulation:
            await self._send(number, "frame", numbers, arrays)

    async def _stop(self, number: int, request: Mapping[str, Any]) -> None:
        self._runs.pop(number, None)
        self._starting.pop(number, None)
        await self._answer(number, "stopped", {})

    # Questions --------------------------------------------------------------------------------------------

    async def _ask(
        self,
        kind: str,
        answer: Callable[[Design, Mapping[str, Any]], tuple[dict[str, Any], dict[str, np.ndarray]]],
        number: int,
        request: Mapping[str, Any],
    ) -> None:
        if len(self._tasks) >= MAX_QUESTIONS:
            text = "too much is being computed already: wait for an answer."
            await self._answer(number, "error", {"message": text, "part": kind})
            return
        self._spawn(number, self._answered(kind, answer, number, request))

    async def _answered(self, kind: str, answer: Any, number: int, request: Mapping[str, Any]) -> None:
        def made() -> Any:
            return answer(design_of(request.get("design")), request)

        try:
            header, arrays = await self._in_thread(self._analysts, made)
        except DesignError as error:
            await self._answer(number, "error", {**error.to_json(), "about": kind})
            return
        await self._send(number, kind, {**header, "asked": request.get("asked")}, arrays)

    # Sending ----------------------------------------------------------------------------------------------

    def _spawn(self, number: int, work: Any) -> None:
        task = asyncio.create_task(self._reported(number, work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _reported(self, number: int, work: Any) -> None:
        """An exception that nobody expected ends its answer, not the page."""
        try:
            await work
        except asyncio.CancelledError:
            raise
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            if not self._is_closed:
                await self._answer(number, "error", {"message": text, "part": "", "unexpected": True})

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


def _check(design: Design, request: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    from fokker.studio.analysis import known_verdict

    report = known_verdict(design)
    return {"report": report.to_json(), "text": str(report)}, {}


def _recipe(design: Design, request: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    from fokker.studio.recipe_view import recipe_view

    return recipe_view(design), {}


def _residual(design: Design, request: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    from fokker.studio.analysis import residual_map

    result = residual_map(design)
    return result, {"values": result.pop("values")}


def _complete(design: Design, request: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    from fokker.studio.analysis import completion

    result = completion(design)
    return result, {"values": result.pop("values")}


def _program(design: Design, request: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    from fokker.studio.loop import source
    from fokker.studio.program import build

    frames = request.get("frames", 1)
    if isinstance(frames, bool) or not isinstance(frames, int) or not 1 <= frames <= MAX_FRAMES:
        raise DesignError("frames", f"frames is a whole number from 1 to {MAX_FRAMES}, not {frames!r}.")
    return {"program": source(build(design), frames)}, {}
