"""Mathematics as MathML, which browsers show by themselves: no script, no font and no network is needed."""

import re

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata
from sphinx.writers.html5 import HTML5Translator

_TAG = re.compile(r"\s*\\tag\{(\w+)\}")
# Operators whose bounds stand above and below them in a display.
_ROMAN = {r"\tr": r"\operatorname{tr}", r"\argmin": r"\operatorname{argmin}"}


def mathml(text: str, display: str) -> str:
    """A formula of LaTeX as an element of MathML."""
    for command, meaning in _ROMAN.items():
        text = text.replace(command + " ", meaning + " ")
    return convert(text, display=display)


def tagged(text: str) -> tuple[str, str]:
    r"""A formula without its `\tag{…}`, and the number in it."""
    found = _TAG.search(text)
    return (_TAG.sub("", text), found[1]) if found else (text, "")


def inline(self: HTML5Translator, node: nodes.math) -> None:
    """A formula within a line."""
    self.body.append(mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def block(self: HTML5Translator, node: nodes.math_block) -> None:
    """A formula on lines of its own, which can be scrolled where the page is narrow; its number stays."""
    text, number = tagged(node.astext())
    self.body.append('<div class="equation">')
    self.body.append(self.starttag(node, "div", CLASS="math-display", tabindex="0", role="group"))
    self.body.append(mathml(text, "block"))
    self.body.append("</div>" + (f'<span id="equation-{number}">({number})</span>' if number else ""))
    self.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> ExtensionMetadata:
    """Give Sphinx the renderer `mathml`."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
