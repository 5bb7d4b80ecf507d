"""The site, built by `make docs`. It opens from a folder, without a network."""

import os
import re
import sys
from importlib.metadata import version as installed
from pathlib import Path

from sphinx.application import Sphinx

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER))
# Notebooks run the library of this checkout, wherever it is installed from.
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(FOLDER.parent / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
)

from site_pages import write_pages  # noqa: E402
from site_pages.stories import write_stories  # noqa: E402

project = "Fokker"
author = "The Fokker developers"
release = version = installed("fokker")
extensions = ["myst_nb", "site_pages.mathml", "site_pages.accessible"]
exclude_patterns = ["_build"]
nitpicky = True
smartquotes = False  # a prime in a formula is no quotation mark
# Docstrings abbreviate with a sign that is not Python.
suppress_warnings = ["misc.highlighting_failure"]

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
nb_execution_mode = "cache"
nb_execution_cache_path = str(FOLDER / "_build" / "notebooks")
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True

html_theme = "furo"
html_title = "Fokker"
html_math_renderer = "mathml"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = [("animation.js", {"defer": "defer"})]
html_extra_path = ["_build/stories"]  # written below: recorded runs, which need no server
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
pygments_style = "xcode"
pygments_dark_style = "monokai"


def _complete_index(app: Sphinx, name: str, source: list[str]) -> None:
    """Pages that no list of the index names come at the end of the last list."""
    if name == "index":
        named = set(re.findall(r"^[a-z_/]+$", source[0], re.MULTILINE))
        others = sorted(page.stem for page in FOLDER.glob("*.md") if page.stem not in {*named, "index"})
        start, end = source[0].rsplit("```", 1)
        source[0] = start + "".join(f"{other}\n" for other in others) + "```" + end


def setup(app: Sphinx) -> None:
    """Write the generated pages before any is read."""
    write_pages(FOLDER / "generated")
    write_stories(FOLDER / "_build" / "stories")
    app.connect("source-read", _complete_index)
