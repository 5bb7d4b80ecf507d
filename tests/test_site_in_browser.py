"""The built site in Chromium, from its files: nothing is loaded from elsewhere, and it fits on a phone."""

import pytest

from chromium import watched
from documents import ROOT
from site_names import accessible

SITE = ROOT / "docs/_build/html"
# A page of each kind.
PAGES = [
    "index.html",
    "start.html",
    "sampling.html",
    "gallery.html",
    "theory/recipe.html",
    "generated/samplers/index.html",
    "generated/samplers/nuts.html",
    "generated/api/samplers.html",
    "search.html",
]
pytestmark = pytest.mark.site


def sideways(page):
    """How far the page scrolls sideways; tables, formulas and programs scroll for themselves."""
    root = "document.documentElement"
    return page.evaluate(f"{root}.scrollWidth - {root}.clientWidth")


@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_opens_from_its_file_without_errors_and_fits(browser, name, width):
    with watched(browser, r"(?:file|data|blob):", width) as page:
        page.on("console", lambda m: page.mistakes.append(m.text) if m.type == "error" else None)
        page.goto((SITE / name).as_uri())
        page.wait_for_load_state("load")
        assert page.locator("h1").first.inner_text()
        assert sideways(page) == 0


def test_what_is_wider_than_a_phone_and_comes_from_elsewhere_is_noticed(browser, tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text("<h1>Wide</h1><p style='width: 500px'>x</p><img src='https://elsewhere.invalid/x.png'>")
    with watched(browser, "file:", 390) as page:
        page.goto(bad.as_uri())
        assert sideways(page) > 0
        assert page.elsewhere == ["https://elsewhere.invalid/x.png"]
        page.elsewhere.clear()


@pytest.mark.parametrize("new", accessible.REPLACED.values())
def test_what_is_added_to_pages_of_the_theme_is_in_some_page(new):
    """Where the theme writes something else, a replacement would do nothing and say nothing."""
    assert any(new in path.read_text(encoding="utf-8") for path in SITE.rglob("*.html"))
