"""The browser of the tests: the system's Chromium, or Playwright's own, which `make browser` installs.

`python tests/chromium.py` installs it where there is none. It never fails: without a browser or a network it
prints one line, and the tests that need a browser are skipped.
"""

import contextlib
import itertools
import re
import shutil
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SYSTEM = next(filter(None, map(shutil.which, _NAMES)), None)
ARGUMENTS = [
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
]
_SECONDS = 300
# What a page of this machine may ask for.
LOOPBACK = r"(?:http://127\.0\.0\.1:|data:|blob:)"


@pytest.fixture(scope="module")
def browser():
    """A browser; the test is skipped where there is none."""
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        if not is_there(playwright):
            pytest.skip("no Chromium is installed: `make browser` installs one")
        launched = playwright.chromium.launch(executable_path=SYSTEM, args=ARGUMENTS)
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def served():
    """The studio, in a thread."""
    from studio_server import Served

    running = Served()
    yield running
    running.stop()


@contextlib.contextmanager
def watched(browser, allowed=LOOPBACK, width=1200, **options):
    """A page that reaches these addresses alone; in the end it asked for no other, and nothing went wrong."""
    context = browser.new_context(viewport={"width": width, "height": 900}, **options)
    opened = context.new_page()
    opened.elsewhere, opened.mistakes = [], []

    def only_here(route):
        if re.match(allowed, route.request.url):
            route.continue_()
        else:
            opened.elsewhere.append(route.request.url)
            route.abort()

    context.route("**/*", only_here)
    opened.on("pageerror", lambda error: opened.mistakes.append(str(error)))
    yield opened
    assert opened.elsewhere == []
    assert opened.mistakes == []
    context.close()


@pytest.fixture
def page(browser):
    """A page that reaches this machine alone."""
    with watched(browser) as opened:
        yield opened


def violations(page):
    """What axe finds wrong for readers with a keyboard or a screen reader; the context has `bypass_csp`."""
    page.add_script_tag(
        content=resources.files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
    )
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [f"{row['help']} ({row['id']}): {[node['target'] for node in row['nodes'][:3]]}" for row in found]


def skipped_headings(html):
    """Headings that are more than one level below the one before, which readers of headings would miss."""
    found = [(int(level), text) for level, text in re.findall(r"<h([1-6])[^>]*>(.*?)</h", html)]
    return [
        text for (before, _), (level, text) in itertools.pairwise([(1, ""), *found]) if level > before + 1
    ]


def is_there(playwright):
    """Whether a browser can be launched."""
    return SYSTEM is not None or Path(playwright.chromium.executable_path).is_file()


def install(command=(sys.executable, "-m", "playwright", "install", "chromium")):
    """Install Playwright's Chromium where there is no browser; what to say where this was not possible."""
    if SYSTEM is not None:
        return ""
    try:
        from playwright.sync_api import sync_playwright

        with sync_playwright() as playwright:
            if is_there(playwright):
                return ""
        done = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False)
        reason = "" if done.returncode == 0 else "it could not be downloaded"
    except (ImportError, OSError, subprocess.TimeoutExpired) as error:
        reason = str(error).splitlines()[0]
    return reason and f"No Chromium is installed ({reason}): tests that need a browser are skipped."


if __name__ == "__main__":
    if message := install():
        print(message)
