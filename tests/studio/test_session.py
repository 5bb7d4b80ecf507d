"""A tab: its runs and questions, one frame per acknowledgement, limits, and an end when it is closed."""

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
import studio_designs as designs

from fokker.studio import analysis, session, simulation, truth
from fokker.studio.design import DesignError, design_of
from fokker.studio.frames import unpacked
from fokker.studio.session import MAX_RUNS, Session

DESIGN = {
    "target": {"name": "normal"},
    "sampler": {"name": "sgld"},
    "run": {"chains": 4, "steps": 2, "burn_in": 0},
}


class Channel:
    """What a page would have received."""

    def __init__(self):
        self.received = []

    async def send_text(self, data):
        self.received.append(json.loads(data))

    async def send_bytes(self, data):
        header, arrays = unpacked(data)
        self.received.append({**header, "arrays": arrays})


def talk(*messages, then=None):
    """What is answered to these messages, each sent when the one before is answered."""
    channel = Channel()

    async def conversation():
        with ThreadPoolExecutor(1) as threads:
            tab = Session(channel, threads, threads)
            for message in messages:
                await tab.handle(message if isinstance(message, str) else json.dumps(message))
                while not tab.is_idle:
                    await asyncio.sleep(0.001)
            if then is not None:
                await then(tab)
            tab.close()

    asyncio.run(conversation())
    return channel.received


def test_a_run_sends_one_frame_for_each_that_is_asked_for():
    start = {"do": "start", "id": 1, "design": DESIGN}
    received = talk(start, {"do": "next", "id": 1}, {"do": "next", "id": 1})
    assert [message["kind"] for message in received] == ["started", "frame", "frame"]
    assert all(message["id"] == 1 for message in received)
    assert [message["step"] for message in received[1:]] == [2, 4]
    direct = simulation.Simulation(design_of(DESIGN))
    assert np.array_equal(received[1]["arrays"]["cloud"], direct.advance()[1]["cloud"])
    assert received[0]["sampler"] == "Langevin × Euler–Maruyama"


def test_frames_have_the_count_of_the_start_that_they_are_of():
    starts = [{"do": "start", "id": 0, "design": DESIGN, "start": count} for count in (7, 8)]
    received = talk(starts[0], {"do": "next", "id": 0}, starts[1], {"do": "next", "id": 0})
    assert [(message["kind"], message["start"]) for message in received] == [
        ("started", 7), ("frame", 7), ("started", 8), ("frame", 8)
    ]  # fmt: skip


def test_asking_faster_than_frames_come_makes_no_queue():
    channel = Channel()

    async def conversation():
        with ThreadPoolExecutor(1) as threads:
            tab = Session(channel, threads, threads)
            await tab.handle(json.dumps({"do": "start", "id": 0, "design": DESIGN}))
            while not tab.is_idle:
                await asyncio.sleep(0.001)
            for _ in range(200):
                await tab.handle(json.dumps({"do": "next", "id": 0}))
            while not tab.is_idle:
                await asyncio.sleep(0.001)

    asyncio.run(conversation())
    assert [message["kind"] for message in channel.received] == ["started", "frame"]


def test_a_closed_tab_stops_its_work():
    entered, release, frames = threading.Event(), threading.Event(), []

    class Slow:
        is_over = False

        def advance(self, *, with_trajectory):
            entered.set()
            release.wait(20)
            frames.append(1)
            return {}, {}

    channel = Channel()

    async def conversation():
        with ThreadPoolExecutor(1) as threads:
            tab = Session(channel, threads, threads)
            tab._runs = {0: Slow(), 1: Slow()}
            for number in (0, 1):
                await tab.handle(json.dumps({"do": "next", "id": number}))
            while not entered.is_set():
                await asyncio.sleep(0.001)
            tab.close()
            release.set()
            threads.submit(int).result(20)  # after those that were waiting, before the loop cancels them
            await asyncio.sleep(0.01)
            assert not tab._runs

    asyncio.run(conversation())
    assert len(frames) == 1  # the block that was being computed; the one that waited never started
    assert channel.received == []


@pytest.mark.parametrize(
    "message",
    [
        "",
        "nonsense",
        "[]",
        "3",
        "[" * 5000,
        '{"do": "start", "id": -1}',
        f'{{"do": "start", "id": {MAX_RUNS}}}',
        '{"do": "start", "id": true}',
        '{"do": "__class__", "id": 0}',
        '{"do": ["start"], "id": 0}',
        '{"do": "start", "id": 0}',
        '{"do": "start", "id": 0, "design": []}',
        '{"do": "check", "id": 0, "design": {"target": {"formula": "x +"}}}',
        '{"do": "program", "id": 0, "design": {}, "frames": 1e9}',
    ],
)
def test_a_message_that_makes_no_sense_gets_an_error_and_no_more(message):
    received = talk(message)
    assert [answer["kind"] for answer in received] == ["error"] or message == '{"do": "start", "id": 0}'


def test_a_frame_of_a_run_that_was_not_started_is_nothing():
    assert talk({"do": "next", "id": 2}) == []
    assert [m["kind"] for m in talk({"do": "stop", "id": 2})] == ["stopped"]


def test_an_error_says_which_part_and_where():
    (answer,) = talk({"do": "recipe", "id": 0, "design": {"target": {"formula": "x^2 + z"}}})
    assert (answer["part"], answer["position"], answer["about"]) == ("target.formula", 6, "recipe")


@pytest.mark.slow
def test_questions_are_answered_with_what_the_library_says(monkeypatch):
    design = designs.RIGHT["metric"]
    report = analysis.verdict(design_of(design), number_of_points=32, explain=False)
    monkeypatch.setattr(analysis, "known_verdict", lambda asked: report)
    recipe, check, program = talk(
        {"do": "recipe", "id": 0, "design": design},
        {"do": "check", "id": 3, "design": design, "asked": 7},
        {"do": "program", "id": 0, "design": design, "frames": 3},
    )
    assert "<math" in recipe["equations"][0]
    assert (check["id"], check["asked"]) == (3, 7)
    assert check["report"]["ok"] is True
    assert check["text"] == str(report)
    assert "for frame in range(3)" in program["program"]


def test_a_verdict_is_remembered_whatever_the_seed(monkeypatch):
    asked = []
    analysis._known_verdict.cache_clear()
    monkeypatch.setattr(analysis, "verdict", lambda design: asked.append(design) or "report")
    for seed in (1, 2):
        assert analysis.known_verdict(design_of({"run": {"seed": seed}})) == "report"
    analysis.known_verdict(design_of({"gamma": 0}))
    analysis._known_verdict.cache_clear()
    assert len(asked) == 2


def test_questions_that_come_too_fast_wait_one_at_a_time(monkeypatch):
    """Of many that wait only the last is answered, as the page has changed since the others."""
    channel, release = Channel(), threading.Event()
    monkeypatch.setitem(session._ANSWERS, "recipe", lambda design, request: (release.wait(20), ({}, {}))[1])

    async def conversation():
        with ThreadPoolExecutor(1) as threads:
            tab = Session(channel, threads, threads)
            for asked in range(200):
                await tab.handle(json.dumps({"do": "recipe", "id": 0, "design": {}, "asked": asked}))
            assert (len(tab._tasks), len(tab._waiting)) == (1, 1)
            release.set()
            while not tab.is_idle:
                await asyncio.sleep(0.001)

    asyncio.run(conversation())
    assert [message["asked"] for message in channel.received] == [0, 199]


def test_a_page_that_does_not_read_gets_no_further_frames():
    """Asked for again and again while the first is still being sent."""
    frames, unread = [], asyncio.Event()

    class Quick:
        is_over = False

        def advance(self, *, with_trajectory):
            frames.append(1)
            return {}, {}

    class Full(Channel):
        async def send_bytes(self, data):
            await unread.wait()

    async def conversation():
        with ThreadPoolExecutor(1) as threads:
            tab = Session(Full(), threads, threads)
            tab._runs = {0: Quick()}
            for _ in range(100):
                await tab.handle(json.dumps({"do": "next", "id": 0}))
                await asyncio.sleep(0.001)
            assert (len(tab._tasks), len(tab._waiting)) == (1, 0)
            tab.close()
            await asyncio.sleep(0.01)
            assert tab.is_idle

    asyncio.run(conversation())
    assert len(frames) == 1


def test_a_run_that_is_stopped_while_it_is_built_does_not_start():
    start, stop = ({"do": do, "id": 0, "design": DESIGN} for do in ("start", "stop"))
    channel = Channel()

    async def conversation():
        with ThreadPoolExecutor(1) as threads:
            tab = Session(channel, threads, threads)
            for message in (start, start, stop):
                await tab.handle(json.dumps(message))
                await asyncio.sleep(0)
            while not tab.is_idle:
                await asyncio.sleep(0.001)
            assert not tab._runs

    asyncio.run(conversation())
    assert [message["kind"] for message in channel.received] == ["stopped"]


def test_a_run_that_is_stopped_before_its_task_begins_does_not_start():
    async def conversation():
        with ThreadPoolExecutor(1) as threads:
            tab = Session(channel, threads, threads)
            for do in ("start", "stop"):
                await tab.handle(json.dumps({"do": do, "id": 0, "design": DESIGN}))
            await until(lambda: tab.is_idle)
            assert not tab._runs

    channel = Channel()
    asyncio.run(conversation())
    assert [message["kind"] for message in channel.received] == ["stopped"]


async def until(condition):
    """The event loop goes on until then."""
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.001)


class Gates:
    """Named places where a thread waits until the test lets it pass."""

    def __init__(self):
        self.changed = threading.Condition()
        self.reached, self.opened = set(), set()

    def wait(self, *name):
        with self.changed:
            self.reached.add(name)
            assert self.changed.wait_for(lambda: {name, "all"} & self.opened, timeout=20)

    def open(self, *names):
        with self.changed:
            self.opened.update(names)
            self.changed.notify_all()


class Conversation:
    """A tab with two threads, and what its page received. A thread waits at gates.

    The gates are ("build", name of the sampler) and ("frame", name of the sampler, number of the frame).
    """

    def __init__(self, monkeypatch):
        gates = self.gates = Gates()

        class Simulation:
            has_trajectories, is_over, frames = True, False, 0
            truth = SimpleNamespace(cells=np.zeros((2, 2)))

            def __init__(self, design):
                self.name = design.sampler.name
                self.built = SimpleNamespace(sampler=self.name)
                gates.wait("build", self.name)
                if self.name == "mala":
                    raise DesignError("sampler", "cannot be built")

            def advance(self, *, with_trajectory):
                self.frames += 1
                frame = self.frames
                gates.wait("frame", self.name, frame)
                if self.name == "ghmc":
                    raise RuntimeError("the frame cannot be computed")
                return {"sampler": self.name, "step": frame, "with_trajectory": with_trajectory}, {}

        monkeypatch.setattr(simulation, "Simulation", Simulation)
        monkeypatch.setattr(truth, "describe", lambda truth: {})

    def run(self, script):
        """Do what the script does with this conversation and wait for all answers: (kind, sampler, step)."""
        channel = self.channel = Channel()

        async def conversation():
            with ThreadPoolExecutor(2) as threads:
                self.tab = Session(channel, threads, threads)
                try:
                    await script(self)
                    await self.is_idle()
                finally:
                    self.gates.open("all")
                    self.tab.close()

        asyncio.run(conversation())
        return [(m["kind"], m.get("sampler"), m.get("step")) for m in channel.received]

    async def send(self, do, **more):
        await self.tab.handle(json.dumps({"do": do, "id": 0, **more}))

    async def start(self, name):
        """Begin to build."""
        await self.send("start", design={**DESIGN, "sampler": {"name": name}})

    async def started(self, name):
        """Build, until the page knows of it."""
        self.gates.open(("build", name))
        await self.start(name)
        await until(lambda: any(m.get("sampler") == name for m in self.channel.received))

    async def reaches(self, *gate):
        await until(lambda: gate in self.gates.reached)

    async def is_idle(self):
        await until(lambda: self.tab.is_idle)


def test_a_new_run_gives_its_frame_though_one_of_the_run_before_is_still_computed(monkeypatch):
    async def script(page):
        await page.started("nuts")
        await page.send("next")
        await page.reaches("frame", "nuts", 1)
        await page.started("sghmc")
        await page.send("next")
        page.gates.open(("frame", "nuts", 1))
        await page.reaches("frame", "sghmc", 1)
        await page.send("next")  # asked again: this frame
        page.gates.open("all")

    received = Conversation(monkeypatch).run(script)
    assert received == [("started", "nuts", None), ("started", "sghmc", None), ("frame", "sghmc", 1)]


def test_a_frame_is_not_sent_once_another_design_is_there(monkeypatch):
    async def script(page):
        await page.started("nuts")
        await page.send("next")
        await page.reaches("frame", "nuts", 1)
        await page.started("sghmc")
        page.gates.open("all")

    assert Conversation(monkeypatch).run(script) == [("started", "nuts", None), ("started", "sghmc", None)]


def test_a_frame_that_was_asked_of_one_run_is_not_taken_of_the_next(monkeypatch):
    async def script(page):
        await page.started("nuts")
        await page.send("next")
        await page.reaches("frame", "nuts", 1)
        await page.started("sghmc")
        await page.send("next")
        await page.started("sgld")
        page.gates.open("all")
        await page.is_idle()
        await page.send("next")

    received = Conversation(monkeypatch).run(script)
    assert [message[:2] for message in received[:3]] == [("started", n) for n in ("nuts", "sghmc", "sgld")]
    assert received[3:] == [("frame", "sgld", 1)]


def test_of_designs_that_change_while_one_is_built_only_the_last_starts(monkeypatch):
    async def script(page):
        await page.start("nuts")
        await page.reaches("build", "nuts")
        await page.start("sgld")
        await page.start("sghmc")
        page.gates.open("all")

    assert Conversation(monkeypatch).run(script) == [("started", "sghmc", None)]


def test_an_error_of_a_design_that_has_changed_since_is_not_shown(monkeypatch):
    async def script(page):
        await page.start("mala")
        await page.reaches("build", "mala")
        await page.start("sghmc")
        page.gates.open("all")

    assert Conversation(monkeypatch).run(script) == [("started", "sghmc", None)]


@pytest.mark.parametrize("replaced", [True, False])
def test_an_error_of_a_run_is_shown_unless_another_has_begun(monkeypatch, replaced):
    async def script(page):
        await page.started("ghmc")
        await page.send("next")
        await page.reaches("frame", "ghmc", 1)
        if replaced:
            await page.started("sghmc")
        page.gates.open("all")

    received = Conversation(monkeypatch).run(script)
    assert received == [
        ("started", "ghmc", None),
        ("started", "sghmc", None) if replaced else ("error", None, None),
    ]


def test_a_trajectory_that_is_asked_for_while_a_frame_is_computed_comes_with_a_frame_of_its_own(monkeypatch):
    page = Conversation(monkeypatch)

    async def script(page):
        await page.started("nuts")
        await page.send("next")
        await page.reaches("frame", "nuts", 1)
        for with_trajectory in (False, True, True, False):
            await page.send("next", trajectory=with_trajectory)
        page.gates.open("all")

    assert page.run(script)[1:] == [("frame", "nuts", 1), ("frame", "nuts", 2)]
    assert [m["with_trajectory"] for m in page.channel.received[1:]] == [False, True]
