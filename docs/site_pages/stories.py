"""The stories of the studio on the site: recorded runs, kept until what they are made of changes."""

import hashlib
from importlib import resources
from pathlib import Path

# What the draws, verdicts and the page come from; other changes of the library leave it as it is.
_PARTS = ("fokker.studio", "fokker.report", "fokker.checker", "fokker.dynamics", "fokker.integrators")


def _digest() -> str:
    files = sorted(
        path
        for part in _PARTS
        for path in Path(str(resources.files(part))).rglob("*")
        if path.suffix in (".py", ".js", ".css")
    )
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()


def write_stories(folder: Path) -> None:
    """Write stories.html into a folder, unless it is there already: it takes a minute or two."""
    page, stored = folder / "stories.html", folder.with_suffix(".sha256")
    digest = _digest()
    if page.is_file() and stored.is_file() and stored.read_text() == digest:
        return
    from fokker.studio.gallery import gallery

    folder.mkdir(parents=True, exist_ok=True)
    page.write_text(gallery(), encoding="utf-8")
    stored.write_text(digest)
