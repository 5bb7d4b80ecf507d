"""The built site in Chromium, from its files: nothing is loaded from elsewhere, and it fits on a phone."""

from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest

from chromium import violations, watched
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
    "generated/house.html",
    "generated/samplers/index.html",
    "generated/samplers/nuts.html",
    "generated/api/samplers.html",
    "notebooks/first_posterior.html",
    "search.html",
    "stories.html",
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


@pytest.mark.parametrize(("width", "theme"), [(390, "dark"), (1200, "light")])
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing_wrong(browser, name, width, theme):
    with watched(browser, r"(?:file|data|blob):", width, color_scheme=theme, bypass_csp=True) as page:
        page.goto((SITE / name).as_uri())
        page.wait_for_load_state("load")
        assert violations(page) == []


def test_what_is_wider_than_a_phone_and_comes_from_elsewhere_is_noticed(browser, tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text("<h1>Wide</h1><p style='width: 500px'>x</p><img src='https://elsewhere.invalid/x.png'>")
    with watched(browser, "file:", 390) as page:
        page.goto(bad.as_uri())
        assert sideways(page) > 0
        assert page.elsewhere == ["https://elsewhere.invalid/x.png"]
        page.elsewhere.clear()


class Page(HTMLParser):
    """The links of a page with the elements that have them, and the places that others can point to."""

    def __init__(self, path):
        super().__init__()
        self.links, self.places = [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("href", "src") and value is not None:
                self.links.append((tag, value))
            if name == "id" or (tag, name) == ("a", "name"):
                self.places.add(value)


def broken(folder):
    """Links within a folder that lead nowhere, and what its pages would load from elsewhere."""
    pages = {path.resolve(): Page(path) for path in folder.rglob("*.html")}
    found = []
    for path, page in pages.items():
        for tag, link in page.links:
            parts = urlsplit(link)
            if parts.scheme == "data" or (tag == "a" and parts.scheme):
                continue
            to = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            is_there = not (parts.scheme or parts.netloc) and to.is_file()
            is_place = to not in pages or unquote(parts.fragment) in {"", *pages[to].places}
            if not (is_there and is_place):
                found.append(f"{path.relative_to(folder.resolve())}: <{tag}> {link}")
    return found


def test_every_link_of_the_site_leads_somewhere():
    assert (SITE / "stories.html").is_file()
    assert broken(SITE) == []


def test_links_that_lead_nowhere_are_noticed(tmp_path):
    (tmp_path / "a.html").write_text(
        "<h1 id='it'>A</h1><a href='#it'></a><a href='b.html#at%20b'></a><a href='https://elsewhere.invalid'></a>"
        "<img src='data:,'><a href='b.html#it'></a><a href='c.html'></a><img src='c.png'>"
        "<a href='#other'></a><script src='https://elsewhere.invalid/x.js'></script>"
    )
    (tmp_path / "b.html").write_text("<h1 id='at b'>B</h1>")
    links = [line.split("> ")[1] for line in broken(tmp_path)]
    assert links == ["b.html#it", "c.html", "c.png", "#other", "https://elsewhere.invalid/x.js"]


@pytest.mark.parametrize("new", accessible.REPLACED.values())
def test_what_is_added_to_pages_of_the_theme_is_in_some_page(new):
    """Where the theme writes something else, a replacement would do nothing and say nothing."""
    assert any(new in path.read_text(encoding="utf-8") for path in SITE.rglob("*.html"))
