"""Reports in Chromium: read on a phone and a screen, sorted, zoomed into; and nothing is loaded."""

import contextlib
import re
import subprocess
import sys

import numpy as np
import pytest
from studio_server import Served, until

from chromium import violations, watched
from fokker.diagnostics import Grade
from fokker.models.topics.live import read_progress
from fokker.models.topics.summary import RunSummary
from fokker.report.figures import Axis, Figure, Mark
from fokker.report.page import choice_part, data_part, figure_part, page, table, verdict_part
from fokker.report.parameters import Shown, parameters_data
from fokker.report.steps import energy_figure
from fokker.run.stored import StoredTrace
from fokker.studio.run_view import RunView

pytestmark = pytest.mark.slow
HOSTILE = "</script><b>x"


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A page of all parts, with 60 parameters of names of which one is hostile and many are long."""
    generator = np.random.default_rng(0)
    draws = np.exp(generator.normal(size=(4, 300, 60)))
    names = [f"a_parameter_of_a_long_name[{i},some words]" for i in range(59)] + [HOSTILE]
    order = [59, *range(59)]
    rows = [[names[i], f"{i}", f"{1 + i / 100:.3f}", "–" if i == 3 else f"{1000 - i}"] for i in order]
    marks = [Mark("lengths", "chain-0", "mean", [0.3, 0.2], [0, -1])]
    words = Figure("Words", "Two words.", marks, Axis("probability"), Axis(names=["one", "two"]))
    points = Mark(
        "points", "chain-0", None, [0, 1, 2], [0, 1, 0], size=[1, 0.5, 0.1], text=["a", "b", HOSTILE]
    )
    text = page(
        f"A report {HOSTILE}",
        verdict_part(Grade.BAD, ["R-hat of " + "x" * 200], ["Note: a note."], "What was checked."),
        table(["parameter", "number", "R-hat", "ESS"], rows, "Parameters", sortable=True, of_parameters=True),
        "<h2>One by one</h2>",
        data_part(
            "parameters",
            parameters_data(
                Shown([names[i] for i in order], [draws[:, :, i] for i in order]),
                generator.uniform(size=(4, 300)) < 0.02,
            ),
        ),
        figure_part(energy_figure(generator.normal(size=(4, 300)))),
        choice_part({"one": words, "two": words}, "words"),
        figure_part(Figure("Map", "Three.", [points], is_map=True)),
    )
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(text, encoding="utf-8")
    return path.as_uri()


@pytest.fixture
def open_report(browser, report):
    """Open the report with these options; in the end nothing else was asked for, and nothing went wrong."""
    elsewhere, mistakes, contexts = [], [], []

    def opened(**options):
        context = browser.new_context(**options)
        contexts.append(context)
        view = context.new_page()
        view.on("request", lambda r: None if r.url in (report, "data:,") else elsewhere.append(r.url))
        view.on("pageerror", lambda error: mistakes.append(str(error)))
        view.on("console", lambda message: mistakes.append(message.text))
        view.goto(report)
        return view

    yield opened
    for context in contexts:
        context.close()
    assert elsewhere == []
    assert mistakes == []


def first_names(view):
    return view.locator("table.of-parameters tbody tr:not([hidden]) th").all_inner_texts()


@pytest.mark.parametrize(("width", "theme"), [(400, "light"), (400, "dark"), (1400, "light"), (1400, "dark")])
def test_nothing_overflows_and_every_figure_is_drawn(open_report, width, theme):
    view = open_report(viewport={"width": width, "height": 900}, color_scheme=theme)
    assert view.evaluate("document.documentElement.dataset.theme") == theme
    view.locator("figure[data-drawn]").nth(8).wait_for()
    assert view.evaluate("document.documentElement.scrollWidth") <= width
    assert view.locator("figure[data-drawn]").count() == view.locator("figure").count() == 9
    unnamed = view.evaluate(
        "[...document.querySelectorAll('input, select, button, canvas')]"
        ".filter(e => !(e.labels?.length || e.ariaLabel || e.textContent.trim())).map(e => e.outerHTML)"
    )
    assert unnamed == []
    assert view.locator("b").count() == 0


@pytest.mark.parametrize(("width", "theme"), [(400, "light"), (400, "dark"), (1400, "light"), (1400, "dark")])
def test_axe_finds_nothing_wrong_in_a_report(browser, report, width, theme):
    with watched(browser, "(?:file|data):", width, color_scheme=theme, bypass_csp=True) as view:
        view.goto(report)
        view.locator("figure[data-drawn]").nth(8).wait_for()
        for numbers in view.get_by_text("Numbers", exact=True).all():
            numbers.click()
        assert violations(view) == []


def test_every_axis_of_numbers_has_two_of_them_on_a_phone(open_report):
    """Numbers along x are those that hang from their place; a single one gives no scale."""
    view = open_report(viewport={"width": 400, "height": 800})
    view.add_init_script(
        "const f = CanvasRenderingContext2D.prototype; const old = f.fillText;"
        "f.fillText = function (t, ...r) {"
        "  const isNumber = t !== '' && !isNaN(t.replace(',', ''));"
        "  if (this.textBaseline === 'top' && isNumber) (this.canvas.ticks ??= []).push(t);"
        "  old.call(this, t, ...r) }"
    )
    view.reload()
    view.wait_for_timeout(500)
    counts = view.evaluate(
        "[...document.querySelectorAll('canvas')].filter(c => c.ticks).map(c => new Set(c.ticks).size)"
    )
    assert len(counts) >= 5
    assert min(counts) >= 2


def test_rows_are_sorted_filtered_and_chosen(open_report):
    view = open_report(viewport={"width": 1200, "height": 900})
    assert len(first_names(view)) == 20  # of 60, folded
    assert first_names(view)[0] == HOSTILE
    head = view.get_by_role("button", name="ESS")
    head.click()
    assert view.locator("th[aria-sort=ascending]").inner_text().startswith("ESS")
    assert first_names(view)[0] == HOSTILE
    head.click()
    assert "[0," in first_names(view)[0]
    view.get_by_role("button", name="Show all 60").click()
    names = first_names(view)
    assert len(names) == 60
    assert "[3," in names[-1]  # without a number
    view.get_by_role("searchbox").fill("script")
    assert first_names(view) == [HOSTILE]
    view.get_by_role("searchbox").fill("[17,")
    view.locator("table.of-parameters").get_by_role("button", name="[17,").click()
    assert "[17," in view.locator("#parameters").get_attribute("data-parameter")
    assert "[17," in view.locator("figure h3").first.inner_text()


def test_a_figure_is_zoomed_by_pointer_and_keys_and_has_its_numbers(open_report):
    view = open_report(viewport={"width": 1200, "height": 900})
    figure = view.locator("#parameters figure").first
    canvas, whole = figure.locator("canvas"), figure.get_by_role("button", name="Whole picture")
    canvas.scroll_into_view_if_needed()
    before = canvas.screenshot()
    box = canvas.bounding_box()
    view.mouse.move(box["x"] + 0.4 * box["width"], box["y"] + 60)
    view.mouse.down()
    view.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 120)
    view.mouse.up()
    assert whole.is_visible()
    assert canvas.screenshot() != before
    canvas.dblclick()
    assert not whole.is_visible()
    canvas.focus()
    view.keyboard.press("+")
    assert whole.is_visible()
    view.keyboard.press("0")
    assert not whole.is_visible()
    figure.get_by_text("Numbers").click()
    figure.locator("table").first.wait_for()  # the table is made after the click
    assert figure.locator("table").count() == 4
    assert re.search(r"chain 1, one in \d+ of 300", figure.locator("caption").first.inner_text())


def test_without_javascript_the_verdict_and_the_table_are_there(open_report):
    view = open_report(java_script_enabled=False, viewport={"width": 400, "height": 900})
    assert view.get_by_text("Do not use").is_visible()
    assert view.locator("table.of-parameters tbody tr").count() == 60
    assert view.get_by_text("BFMI of each chain").is_visible()


MODEL = """
import jax.numpy as jnp
import fokker as fk

names = {"dims": {"a": ["city"]}, "coords": {"city": ["K<b>ln", "Bonn"]}}
target = fk.Density(lambda t: -jnp.sum(t["a"] ** 2) / 2, **names)
init = {"a": jnp.zeros(2)}
"""


def started(folder, *arguments):
    """The command, in a process."""
    command = [sys.executable, "-c", "from fokker.cli import main; main()", *map(str, arguments)]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@contextlib.contextmanager
def live(browser, folder, width=400):
    """The page of the run in a folder."""
    served = Served(run=RunView(folder))
    try:
        with watched(browser, width=width, bypass_csp=True) as view:
            view.on("dialog", lambda dialog: dialog.accept())
            view.goto(f"{served.address}run")
            yield view
    finally:
        served.stop()


def test_a_run_is_watched_killed_resumed_and_stopped(browser, tmp_path):
    (tmp_path / "model.py").write_text(MODEL)
    folder = tmp_path / "run"
    options = ["--steps", 10**9, "--thin", 1000, "--chains", 2, "--sampler", "ula", "--step-size", 0.1]
    process = started(tmp_path, "sample", "model.py:target", "--out", folder, *options)
    try:
        until((folder / "checkpoint.npz").exists)
        with live(browser, folder) as view:
            state = view.locator("#connection")
            view.locator("#parameters figure[data-drawn]").first.wait_for(timeout=120_000)
            assert view.locator("#parameter option").all_inner_texts()[0] in ("a[K<b>ln]", "a[Bonn]")
            assert view.evaluate("document.documentElement.scrollWidth") <= 400
            assert violations(view) == []
            view.locator("#parameter").select_option("a[Bonn]")
            serial = view.evaluate("document.body.dataset.serial")
            until(lambda: view.evaluate("document.body.dataset.serial") != serial)
            # What was chosen stays over updates.
            assert view.locator("#parameters").get_attribute("data-parameter") == "a[Bonn]"
            process.kill()
            process.wait()
            until(lambda: "killed" in state.inner_text())
            assert not view.locator("#stop").is_visible()
            taken = StoredTrace(folder).settings["taken"]
            process = started(tmp_path, "resume", folder)
            until(lambda: state.inner_text() == "running" and StoredTrace(folder).settings["taken"] > taken)
            view.locator("#stop").click()
            # Before the process is waited for: requests of the page pass through this thread.
            until(lambda: state.inner_text() == "not running")
            assert process.wait(240) == 130
            until(lambda: view.get_by_text("interrupted after").count() > 0)
        ended = StoredTrace(folder)
        assert ended.was_interrupted
        assert ended.samples["a"].shape[1] == ended.settings["taken"] // 1000
        assert (folder / "report.html").is_file()
    finally:
        process.kill()
        process.wait()


def test_topics_are_watched_as_they_are_learned_and_stopped(browser, tmp_path):
    subjects = ("apple pear plum cherry", "violin cello flute oboe", "granite basalt marble slate")
    lines = [" ".join(words) for k in range(300) for words in [subjects[k % 3].split()[k % 2 :] * 3]]
    (tmp_path / "lines.txt").write_text("\n".join(lines))
    folder = tmp_path / "run"
    options = ["--topics", 3, "--batch", 20, "--sweeps", 6, "--burn-in", 2, "--threads", 1, "--passes", 10**6]
    process = started(tmp_path, "lda", "lines.txt", "--out", folder, *options)
    try:
        until(lambda: read_progress(folder) is not None)
        with live(browser, folder) as view:
            read = view.locator("main p", has_text="documents of")
            view.locator("figure[data-drawn]").wait_for()
            before = read.inner_text()
            until(lambda: read.inner_text() != before)
            view.get_by_text("Numbers", exact=True).click()
            assert "perplexity" in view.locator("figure table").first.inner_text().lower()
            assert view.get_by_role("table", name="Topics").locator("tbody tr").count() == 3
            assert view.evaluate("document.documentElement.scrollWidth") <= 400
            assert violations(view) == []
            view.locator("#stop").click()
            until(lambda: view.locator("#connection").inner_text() == "not running")
            assert process.wait(240) == 130
            until(lambda: view.get_by_text("The held-out perplexity is").count() > 0)
        learned = read_progress(folder)["documents"]
        assert (folder / "report.html").is_file()
        assert RunSummary.read(folder).perplexity < 12
        assert learned > 300
    finally:
        process.kill()
        process.wait()
