"""The page opens, runs and says what is wrong, in every run of the tests; the checker is replaced."""

import json
import re
import threading
from base64 import urlsafe_b64decode
from types import SimpleNamespace

import numpy as np
import pytest
from studio_designs import RIGHT
from studio_server import Served, link, until

from chromium import violations, watched
from fokker.studio import analysis
from fokker.studio.frames import unpacked
from fokker.studio.simulation import Simulation

FEW = {"chains": 20, "steps": 2, "burn_in": 0}
SGLD = {"sampler": {"kind": "named", "name": "sgld"}}


@pytest.fixture(autouse=True)
def verdict(monkeypatch):
    """What the checker says; it would take seconds."""
    said = {"ok": True, "verdict": "right", "reasons": [], "notes": []}
    report = SimpleNamespace(to_json=lambda: said)
    monkeypatch.setattr(analysis, "known_verdict", lambda design: report)
    return said


def opened(page, served, panel=SGLD, run=FEW):
    """The page with this panel, after its first frame."""
    page.goto(link(served.address, [panel], run=run))
    panel = page.locator(".panel[data-step]")
    panel.wait_for()
    return panel


@pytest.mark.slow
def test_the_page_opens_runs_and_names_a_malformed_formula(page, served):
    panel = opened(page, served)
    page.get_by_role("button", name="Run", exact=True).click()
    until(lambda: int(panel.get_attribute("data-step")) > 6)
    formula = page.get_by_label("U(x, y)")
    formula.fill("x^2 + 2*(y +")
    formula.press("Enter")
    until(lambda: formula.get_attribute("aria-invalid") == "true")
    assert page.locator("#side .error", has_text="wanted").is_visible()


@pytest.mark.slow
def test_another_sampler_is_chosen_and_its_gamma_dropped(page, served, verdict):
    panel = opened(page, served)
    panel.locator(".verdict.right").wait_for()
    page.get_by_label("Name").select_option("sgrld")
    until(lambda: page.locator("h2", has_text="sgrld").count() == 1)
    until(lambda: page.locator(".made-of", has_text="Langevin").count() == 1)
    verdict.update(ok=False, verdict="wrong", reasons=["Γ is missing"])
    page.get_by_label("Γ", exact=True).select_option("0")
    wrong = panel.locator(".verdict.wrong")
    wrong.wait_for()
    assert "Γ is missing" in wrong.inner_text()
    page.keyboard.press("Escape")
    page.locator("h1").click()
    page.keyboard.press("Space")
    assert page.get_by_role("button", name="Pause").is_visible()


@pytest.mark.slow
def test_a_dropped_connection_is_said_and_comes_back(page):
    first = Served()
    panel = opened(page, first)
    first.stop()
    page.locator("#connection.lost").wait_for()
    page.evaluate("document.querySelector('.panel').dataset.step = '0'")
    second = Served(first.port)
    until(lambda: int(panel.get_attribute("data-step")) > 0)
    assert page.locator("#connection.lost").count() == 0
    second.stop()


def test_a_frame_that_comes_after_another_start_is_not_of_it(page, served):
    """It was on its way when the run was started again: neither the pictures nor the program have it."""
    late = []

    def between(browser_side):
        server_side = browser_side.connect_to_server()

        def from_server(message):
            is_frame = isinstance(message, bytes) and unpacked(message)[0]["kind"] == "frame"
            if is_frame and not late:
                late.append(message)
            else:
                browser_side.send(message)

        def from_page(message):
            server_side.send(message)
            if late and json.loads(message)["do"] == "start":
                browser_side.send(late[0])

        server_side.on_message(from_server)
        browser_side.on_message(from_page)

    page.route_web_socket(re.compile("/socket$"), between)
    page.goto(link(served.address, [SGLD], run=FEW))
    until(lambda: page.wait_for_timeout(50) or late)
    page.get_by_role("button", name="Start again").click()
    panel = page.locator(".panel[data-step]")
    until(lambda: panel.count() == 1 and panel.get_attribute("data-step") == "2")
    page.wait_for_timeout(200)
    page.get_by_role("button", name="Copy as Python").click()
    assert "for frame in range(1):" in page.locator(".program").inner_text()


@pytest.mark.slow
def test_samplers_that_are_added_and_removed_leave_no_listeners(page, served):
    page.add_init_script(
        "window.listeners = 0; const old = document.addEventListener;"
        "document.addEventListener = function (...all) { window.listeners++; old.apply(this, all) }"
    )
    opened(page, served)
    before = page.evaluate("listeners")
    page.get_by_role("button", name="Add a sampler").click()
    page.locator(".panel").nth(1).get_by_role("button", name="Remove").click()
    until(lambda: page.locator(".panel").count() == 1)
    assert page.evaluate("listeners") == before
    page.locator(".panel[data-step]").wait_for()
    before = page.locator("canvas.plot").screenshot()
    page.get_by_role("button", name="Dark").click()
    assert page.locator("canvas.plot").screenshot() != before


TYPED = {"sampler": RIGHT["metric"]["sampler"]}
CURL = RIGHT["drift with a curl"]


@pytest.mark.slow
@pytest.mark.parametrize(("width", "theme"), [(400, "light"), (400, "dark"), (1400, "light"), (1400, "dark")])
def test_axe_finds_nothing_wrong(browser, served, verdict, width, theme):
    verdict.update(ok=False, verdict="wrong", reasons=["Γ is missing"])
    with watched(browser, width=width, color_scheme=theme, bypass_csp=True) as page:
        designs = [{**SGLD, "recipe": True}, TYPED, {"sampler": CURL["sampler"], "recipe": True}]
        page.goto(link(served.address, designs, run=FEW))
        until(lambda: page.locator(".panel[data-step]").count() == 3)
        page.get_by_role("button", name="Complete: recover Q").click()
        page.locator("figure canvas").wait_for(timeout=120_000)
        page.get_by_role("button", name="Copy as Python").first.click()
        page.locator(".program").wait_for()
        formula = page.get_by_label("U(x, y)")
        formula.fill("x^2 + 2*(y +")
        formula.press("Enter")
        page.locator("#side .error", has_text="wanted").wait_for()
        assert violations(page) == []


@pytest.mark.slow
def test_chains_of_a_typed_target_start_where_its_fields_say(browser, served):
    """By keyboard; links and the program have it, a link without it the defaults, a bad number its reason."""
    clouds = []

    def received(message):
        header, arrays = unpacked(message) if isinstance(message, bytes) else ({"kind": ""}, {})
        if header["kind"] == "frame":
            clouds.append(arrays["cloud"].copy())

    still = {**SGLD, "settings": {"step_size": 1e-4}}
    with watched(browser, width=400, bypass_csp=True) as page:
        page.on("websocket", lambda socket: socket.on("framereceived", received))
        starts = page.get_by_role("group", name="Where chains start")

        def values():
            return [starts.get_by_role("spinbutton").nth(k).input_value() for k in range(3)]

        def is_around(place):
            page.wait_for_timeout(50)  # frames are received while the page is asked
            cloud = clouds[-1]
            return np.allclose(cloud.mean(axis=0), place, atol=0.2) and np.all(cloud.std(axis=0) < 0.25)

        opened(page, served, still)
        assert starts.count() == 0  # a target of the menu has its own
        page.goto(link(served.address, [still], {"formula": "x^2 + y^2"}, FEW))
        starts.wait_for()
        assert values() == ["0", "0", "1"]
        page.get_by_label("U(x, y)").focus()
        for text in ("", "3", "-2", "0.125"):
            page.keyboard.type(text)
            page.keyboard.press("Tab")
        until(lambda: is_around([3, -2]))
        wanted = {"formula": "x^2 + y^2", "x": 3, "y": -2, "spread": 0.125}
        until(lambda: json.loads(urlsafe_b64decode(page.url.split("#")[1] + "==="))["target"] == wanted, 20)
        page.reload()
        starts.wait_for()
        assert values() == ["3", "-2", "0.125"]
        page.locator(".panel[data-step]").wait_for()
        page.get_by_role("button", name="Copy as Python").click()
        program = page.locator(".program").inner_text()
        assert "jnp.array([3.0, -2.0]) + 0.125 *" in program

        x = starts.get_by_label("Start x")
        x.fill("101")
        x.press("Enter")
        said = starts.get_by_text("x must be between -100 and 100; 101 was given.")
        said.wait_for()
        assert x.get_attribute("aria-describedby") == said.get_attribute("id")
        assert page.locator("#side [aria-invalid]").count() == 1
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme)
            assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        x.fill("")
        x.press("Enter")
        until(lambda: is_around([0, -2]))
        assert x.input_value() == "0"
        assert page.locator("[aria-invalid]").count() == 0
        page.get_by_label("Choose").select_option("ring")
        assert starts.count() == 0


@pytest.mark.slow
def test_effective_draws_are_drawn_and_begin_again_with_the_run(page, served):
    page.add_init_script(
        "const f = CanvasRenderingContext2D.prototype; const { clearRect, fillText } = f;"
        "f.clearRect = function (...r) { this.canvas.texts = []; clearRect.apply(this, r) };"
        "f.fillText = function (...r) { this.canvas.texts?.push(r[0]); fillText.apply(this, r) }"
    )
    panel = opened(page, served)
    chart = page.get_by_role("img", name="effective draws over the steps")

    def texts():
        return chart.evaluate("canvas => canvas.texts")

    assert texts() == ["effective draws"]  # two steps say nothing of how draws depend on each other
    page.get_by_role("button", name="Run", exact=True).click()
    until(lambda: int(panel.get_attribute("data-step")) > 100)
    page.get_by_role("button", name="Pause").click()
    page.wait_for_timeout(500)
    title, low, high, last = texts()
    assert title == "effective draws"
    assert float(low.replace(",", "")) < float(high.replace(",", ""))
    beside = panel.locator(".numbers div", has_text=title).locator("dd").inner_text()
    assert last == f"eff. {beside.partition(' of ')[0]}"
    page.get_by_role("button", name="Start again").click()
    until(lambda: panel.get_attribute("data-step") == "2")
    assert texts() == ["effective draws"]


def test_it_is_said_that_the_first_steps_are_compiled(page, served, monkeypatch):
    """Which takes up to half a minute, in which nothing else moves."""
    may_go_on = threading.Event()
    advance = Simulation.advance

    def later(*call, **options):
        may_go_on.wait(60)
        return advance(*call, **options)

    monkeypatch.setattr(Simulation, "advance", later)
    page.goto(link(served.address, [SGLD], run=FEW))
    waiting = page.locator(".made-of", has_text="compiling the first steps…")
    waiting.wait_for()
    assert page.locator(".panel[data-step]").count() == 0
    may_go_on.set()
    page.locator(".panel[data-step]").wait_for()
    assert waiting.count() == 0


def test_right_dynamics_whose_chains_are_lost_are_not_said_to_be_right_alone(page, served):
    panel = opened(page, served, {**SGLD, "settings": {"step_size": 10}}, {**FEW, "steps": 200})
    verdict = panel.locator(".verdict.undecided")
    verdict.wait_for()
    assert "The dynamics are right; at this step size the run is not." in verdict.inner_text()
    page.get_by_label("Step size").fill("0")
    panel.locator(".verdict.right").wait_for()
