"""What the theme leaves out for readers with a keyboard or a screen reader, added to the finished pages."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata

__all__ = ["REPLACED", "setup"]

# None of the texts on the left is in those on the right: a second time changes nothing.
REPLACED = {
    '<p class="caption" role="heading">': '<p class="caption" role="heading" aria-level="2">',
    "<pre>": '<pre tabindex="0">',
    # On a phone wide tables scroll, by the keyboard too.
    '<table class="docutils': '<table tabindex="0" class="docutils',
    '<th class="head"><p></p></th>': '<td class="head"></td>',
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="All pages">',
    '<aside class="toc-drawer">': '<aside class="toc-drawer" aria-label="On this page">',
    '<aside class="toc-drawer no-toc">': '<aside class="toc-drawer no-toc" aria-label="On this page">',
    '<div id="search-results"></div>': '<h1>Search</h1><div id="search-results" aria-live="polite"></div>',
}


def _finish(app: "Sphinx", error: Exception | None) -> None:
    for page in Path(app.outdir).rglob("*.html") if error is None else ():
        before = text = page.read_text(encoding="utf-8")
        for old, new in REPLACED.items():
            text = text.replace(old, new)
        if text != before:
            page.write_text(text, encoding="utf-8")


def setup(app: "Sphinx") -> "ExtensionMetadata":
    """Change the pages when all are written."""
    app.connect("build-finished", _finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
