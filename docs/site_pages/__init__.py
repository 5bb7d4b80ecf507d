"""What makes the site: mathematics without a network, and pages that are generated from the library itself.

`write_pages` is called before Sphinx reads the sources. The errata are a page of the repository, as they take
minutes: `python -m site_pages.errata` in docs/ writes it.
"""

from pathlib import Path

__all__ = ["write_pages"]


def write_pages(folder: Path) -> None:
    """Write every generated page; one that is as it was keeps its time, so that Sphinx does not read it."""
    from site_pages import api, house, samplers

    pages = {**api.pages(), **house.pages(), **samplers.pages()}
    for old in folder.rglob("*"):
        if old.is_file() and old.relative_to(folder).as_posix() not in pages:
            old.unlink()
    for name, text in pages.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
