"""The page in Chromium at length: what is used less, or needs the checker itself."""

import json
import subprocess
import sys
from base64 import urlsafe_b64decode

import numpy as np
import pytest
from PIL import Image, ImageSequence
from studio_designs import RIGHT
from studio_server import ENVIRONMENT, command, link, until

from chromium import violations, watched
from fokker.studio.frames import unpacked
from fokker.studio.gallery import gallery
from fokker.studio.stories import Story

pytestmark = pytest.mark.slow


def number(page, name, panel=0):
    text = page.evaluate(f"document.querySelectorAll('.panel')[{panel}]?.dataset.{name} ?? ''")
    return float(text) if text else 0.0


SGLD = {"sampler": {"kind": "named", "name": "sgld"}}
METRIC = {
    "sampler": {"kind": "named", "name": "sgrld"},
    "metric": "0.1 + x^2",
    "settings": {"step_size": 0.05},
}


def test_the_leapfrog_steps_of_hmc_are_drawn_and_sgld_has_none(page, served):
    page.goto(link(served.address, [{"sampler": {"kind": "named", "name": "hmc"}}, SGLD]))
    until(lambda: number(page, "step", 0) >= 20 and number(page, "step", 1) >= 20)
    button = page.get_by_role("button", name="Leapfrog")
    assert button.count() == 1
    before = page.locator("canvas.plot").first.screenshot()
    button.click()
    until(lambda: number(page, "step") >= 40)
    assert button.get_attribute("aria-pressed") == "true"
    assert page.locator("canvas.plot").first.screenshot() != before
    page.locator(".panel").first.get_by_label("Name").select_option("sgld")
    until(lambda: button.count() == 0)


def test_without_gamma_the_divergence_rises_and_the_verdict_says_why(page, served):
    page.goto(link(served.address, [METRIC, {**METRIC, "gamma": 0}]))
    page.get_by_role("button", name="Run", exact=True).click()
    until(lambda: number(page, "step", 0) > 3000 and number(page, "step", 1) > 3000)
    assert number(page, "kl", 1) > 2 * number(page, "kl", 0)
    page.get_by_role("button", name="Pause").click()
    wrong = page.locator(".panel").nth(1).locator(".verdict.wrong")
    wrong.wait_for(timeout=240_000)
    assert "Γ" in wrong.inner_text()
    page.locator(".panel").nth(0).locator(".verdict.right").wait_for(timeout=240_000)


def test_a_typed_formula_and_a_malformed_one(page, served):
    page.goto(link(served.address, [SGLD]))
    until(lambda: number(page, "step") >= 20)
    formula = page.get_by_label("U(x, y)")
    formula.fill("x^2 + 2*(y +")
    formula.press("Enter")
    until(lambda: formula.get_attribute("aria-invalid") == "true")
    assert page.locator("#side .error", has_text="wanted").is_visible()
    formula.fill("x^2 + 2*(y - 3)^2")
    formula.press("Enter")
    until(lambda: formula.get_attribute("aria-invalid") is None)
    until(lambda: page.locator(".made-of", has_text="Langevin").count() == 1)


def test_a_link_restores_the_state_and_two_tabs_do_not_disturb_each_other(page, served):
    page.goto(link(served.address, [METRIC, {**SGLD, "settings": {"noise": 2.0}}], {"formula": "x^2 + y^4"}))
    until(lambda: number(page, "step", 1) >= 20)
    other = page.context.new_page()
    other.goto(page.url)
    until(lambda: number(other, "step", 1) >= 20)
    assert other.get_by_label("U(x, y)").input_value() == "x^2 + y^4"
    assert other.locator(".panel h2").all_inner_texts() == ["sgrld", "sgld"]
    other.close()
    page.get_by_role("button", name="Run", exact=True).click()
    until(lambda: number(page, "step", 0) > 100)


def test_a_link_restores_what_is_shown_of_a_sampler(page, served):
    page.goto(link(served.address, [METRIC, SGLD]))
    until(lambda: number(page, "step", 1) >= 20)
    first = page.locator(".panel").first
    first.get_by_role("button", name="Density").click()
    first.get_by_text("Recipe: D, Q and Γ").click()
    first.locator("math").first.wait_for()
    page.get_by_role("button", name="Dark").click()
    address = ""

    def state():
        nonlocal address
        address = page.evaluate("location.href")
        return json.loads(urlsafe_b64decode(address.split("#")[1] + "==="))

    until(lambda: state().get("theme") == "dark", 20)
    other = page.context.new_page()
    other.goto(address)
    other.locator("math").first.wait_for()
    pressed = other.locator("[data-view][aria-pressed=true]").all_inner_texts()
    assert pressed == ["Density", "Cloud"]
    assert other.evaluate("document.documentElement.dataset.theme") == "dark"
    other.close()


def test_no_formula_is_cut_off(page, served):
    long = "-(sqrt(1 + x^2/2 + y^2/3)*cosh(x*y/7))"
    D = [["1", long], [long, "1"]]
    typed = {"kind": "typed", "size": 2, "H": "U", "D": D, "Q": [["0", "0"], ["0", "0"]]}
    page.set_viewport_size({"width": 400, "height": 900})
    page.goto(link(served.address, [{"sampler": typed}], {"name": "mixture"}))
    until(lambda: page.locator(".cells").count() == 2)
    cut = "e => e.scrollHeight > e.clientHeight + 1 || e.scrollWidth > e.clientWidth + 1"
    fields = "[...document.querySelectorAll('textarea, .cells input')]"
    until(lambda: page.evaluate(f"{fields}.filter({cut}).map(e => e.value)") == [])
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


@pytest.mark.parametrize("width", [1200, 280])
def test_chains_that_left_the_picture_are_counted(page, served, width):
    """In words that fit beside the marginal: fewer in a narrow picture."""
    page.set_viewport_size({"width": width, "height": 900})
    away = {"kind": "drift", "size": 2, "H": "U", "D": [["0", "0"], ["0", "0"]], "drift": ["50", "0"]}
    written = "const f = CanvasRenderingContext2D.prototype; const old = f.fillText; window.written = [];"
    room = "this.canvas.clientWidth - x - this.measureText(t).width"
    page.add_init_script(
        f"{written} f.fillText = function (t, x, ...r) "
        f"{{ written.push([t, {room}]); old.call(this, t, x, ...r) }}"
    )
    page.goto(link(served.address, [{"sampler": away, "settings": {"step_size": 0.5}}]))

    def rooms():
        return {text: room for text, room in page.evaluate("written") if text.startswith("60 of 60 ")}

    until(lambda: rooms() != {})
    assert min(rooms().values()) > 54  # the margin with the marginal
    assert ("60 of 60 chains are outside of the picture" in rooms()) == (width == 1200)


def test_one_frame_is_under_way_at_a_time(page, served):
    """Frames of 10,000 points: each is asked for when the one before is drawn, and no queue grows."""
    ahead, most = 0, 0

    def sent(message):
        nonlocal ahead, most
        ahead += json.loads(message)["do"] == "next"
        most = max(most, ahead)

    def received(message):
        nonlocal ahead
        ahead -= isinstance(message, bytes) and unpacked(message)[0]["kind"] == "frame"

    def watch(socket):
        socket.on("framesent", sent)
        socket.on("framereceived", received)

    page.on("websocket", watch)
    run = {"seed": 0, "chains": 10_000, "steps": 1, "burn_in": 0}
    page.goto(link(served.address, [SGLD], run=run))
    until(lambda: number(page, "step") >= 1)
    page.get_by_role("button", name="Run", exact=True).click()
    until(lambda: number(page, "step") > 100)
    assert most == 1


def test_the_recipe_the_program_and_a_picture(page, served):
    page.goto(link(served.address, [METRIC]))
    until(lambda: number(page, "step") >= 20)
    page.get_by_text("Recipe: D, Q and Γ").click()
    page.locator("math").first.wait_for()
    assert page.locator("math").count() == 5
    page.get_by_role("button", name="Show the residual").click()
    page.get_by_text("zero everywhere").wait_for(timeout=120_000)
    page.get_by_role("button", name="Copy as Python").click()
    program = page.locator(".program")
    program.wait_for()
    assert "fk.samplers.sgrld" in program.inner_text()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as PNG").click()
    assert download.value.suggested_filename == "fokker-sgrld.png"
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_role("button", name="Record as WebM").click()
    step = number(page, "step")
    until(lambda: number(page, "step") > step + 200)
    with page.expect_download() as download:
        page.get_by_role("button", name="End the recording").click()
    assert download.value.suggested_filename == "fokker-sgrld.webm"
    assert download.value.path().read_bytes()[:4] == b"\x1aE\xdf\xa3"  # of Matroska, and so of WebM
    page.get_by_label("Γ", exact=True).select_option("0")
    page.get_by_text("Γ is dropped").wait_for()
    page.get_by_role("button", name="Show the residual").click()
    page.locator("figure canvas").wait_for(timeout=120_000)


def test_the_copied_program_makes_the_draws_that_were_shown(browser, tmp_path):
    """Each frame to the bit, in a process of its own, as the page was served from one."""
    frames = []

    def received(message):
        header, arrays = unpacked(message) if isinstance(message, bytes) else ({"kind": ""}, {})
        if header["kind"] == "frame":
            frames.append((header["step"], arrays["cloud"].copy()))

    design = {"sampler": {"kind": "named", "name": "sghmc"}, "settings": {"noise": 1, "batch": 2}}
    with command() as address, watched(browser) as page:
        page.on("websocket", lambda socket: socket.on("framereceived", received))
        page.goto(link(address, [design], run={"seed": 3, "chains": 20, "steps": 5, "burn_in": 0}))
        until(lambda: number(page, "step") >= 5)
        page.get_by_role("button", name="Run", exact=True).click()
        until(lambda: number(page, "step") >= 30)
        page.get_by_role("button", name="Pause").click()
        page.wait_for_timeout(1000)
        page.get_by_role("button", name="Copy as Python").click()
        program = page.locator(".program").inner_text()
        assert number(page, "step") == frames[-1][0]
    (tmp_path / "program.py").write_text(f"{program}\nnp.save('draws.npy', draws)\n")
    subprocess.run([sys.executable, "program.py"], cwd=tmp_path, env=ENVIRONMENT, check=True)
    draws = np.load(tmp_path / "draws.npy")
    assert len(draws) == frames[-1][0]
    assert len(frames) >= 6
    for step, cloud in frames:
        np.testing.assert_array_equal(draws[step - 1], cloud)


def test_the_curl_behind_a_drift_is_recovered_and_drawn(page, served):
    design = RIGHT["drift with a curl"]
    page.goto(link(served.address, [{"sampler": design["sampler"], "recipe": True}], design["target"]))
    page.get_by_role("button", name="Complete: recover Q").click()
    page.locator("figure canvas").wait_for(timeout=120_000)
    assert "at most 1" in page.locator("figcaption").inner_text()
    assert "stationary: yes" in page.locator(".recipe pre").inner_text()


def test_a_gif_has_the_pictures_of_the_run_and_ends_with_what_is_shown(page, served):
    page.goto(link(served.address, [SGLD], run={"seed": 0, "chains": 2000, "steps": 5, "burn_in": 0}))
    until(lambda: number(page, "step") >= 5)
    page.get_by_role("button", name="Record as GIF").click()
    page.get_by_role("button", name="Run", exact=True).click()
    until(lambda: number(page, "step") > 100)
    page.get_by_role("button", name="Pause").click()
    page.wait_for_timeout(500)
    with page.expect_download() as download:
        page.get_by_role("button", name="End the recording").click()
    assert download.value.suggested_filename == "fokker-sgld.gif"
    with Image.open(download.value.path()) as gif:
        frames = [np.asarray(frame.convert("RGB"), float) for frame in ImageSequence.Iterator(gif)]
        assert (gif.format, gif.info["loop"]) == ("GIF", 0)
    assert len(frames) >= 4
    assert len({frame.tobytes() for frame in frames[:-1]}) >= 3
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as PNG").click()
    with Image.open(download.value.path()) as png:
        shown = np.asarray(png.convert("RGB"), float)
    assert frames[-1].shape == shown.shape
    away = np.abs(frames[-1] - shown).max(-1)
    assert np.mean(away == 0) > 0.4  # the commonest colours are kept; others are nearer than a box of 8
    assert np.mean(away < 8) > 0.99
    assert page.get_by_role("button", name="Record as GIF").get_attribute("aria-pressed") == "false"


@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_overflows_on_a_phone_or_a_screen_in_both_themes(page, served, width, theme):
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=theme)
    page.goto(link(served.address, [SGLD, METRIC]))
    until(lambda: number(page, "step", 1) >= 20)
    assert page.evaluate("document.documentElement.dataset.theme") == theme
    page.get_by_role("button", name="Run", exact=True).click()
    until(lambda: page.locator(".numbers small", has_text="chance").count() == 2)
    page.get_by_role("button", name="Pause").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    # In columns too narrow for a number and its chance in one line.
    columns = "e => { e.style.gridTemplateColumns = 'repeat(3, 6rem)' }"
    page.evaluate(f"document.querySelectorAll('dl.numbers').forEach({columns})")
    wide = "e => e.scrollWidth > e.clientWidth"
    assert page.evaluate(f"[...document.querySelectorAll('dd')].filter({wide}).map(e => e.innerText)") == []
    unnamed = page.evaluate(
        "[...document.querySelectorAll('input, select, button, canvas')]"
        ".filter(e => !(e.labels?.length || e.ariaLabel || e.textContent.trim())).map(e => e.outerHTML)"
    )
    assert unnamed == []


def test_recorded_runs_play_from_a_file(browser, tmp_path):
    run = {"seed": 0, "chains": 8, "steps": 5, "burn_in": 5}
    stories = [Story("One", "of a test", ({"target": {"name": "normal"}, **SGLD},))]
    file = tmp_path / "gallery.html"
    file.write_text(gallery(stories, 3, run), encoding="utf-8")
    with watched(browser, "(?:file|data):", 400, bypass_csp=True) as page:
        page.goto(file.as_uri())
        until(lambda: page.locator(".card[data-frame='2']").count() == 1, 20)
        assert page.locator(".card h3").inner_text() == "sgld"
        assert page.locator(".card .right").count() == 1
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme)
            assert violations(page) == []
