"""Mathematics as MathML, which browsers show by themselves: no script, no font and no network is needed."""

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata
from sphinx.writers.html5 import HTML5Translator

# Operators whose bounds stand above and below them in a display.
_ROMAN = {r"\tr": r"\operatorname{tr}", r"\argmin": r"\operatorname{argmin}"}


def mathml(text: str, display: str) -> str:
    """A formula of LaTeX as an element of MathML."""
    for command, meaning in _ROMAN.items():
        text = text.replace(command + " ", meaning + " ")
    return convert(text, display=display)


def inline(self: HTML5Translator, node: nodes.math) -> None:
    """A formula within a line."""
    self.body.append(mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def block(self: HTML5Translator, node: nodes.math_block) -> None:
    """A formula on lines of its own, which can be scrolled where the page is narrow."""
    self.body.append(self.starttag(node, "div", CLASS="math-display", tabindex="0", role="group"))
    self.body.append(mathml(node.astext(), "block"))
    self.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> ExtensionMetadata:
    """Give Sphinx the renderer `mathml`."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
