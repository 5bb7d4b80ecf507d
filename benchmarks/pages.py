"""Tables of a benchmark in a page of the documents, between the marks `<!-- NAME -->` and `<!-- end -->`."""

from pathlib import Path


def write_between(page: Path | None, name: str, content: str) -> None:
    """Put `content` into the page, between its marks; nothing where there is no page."""
    if page is None:
        return
    first, last = f"<!-- {name} -->", "<!-- end -->"
    before, rest = page.read_text(encoding="utf-8").split(first)
    after = rest.split(last, 1)[1]
    page.write_text(f"{before}{first}\n\n{content.strip()}\n\n{last}{after}", encoding="utf-8")
