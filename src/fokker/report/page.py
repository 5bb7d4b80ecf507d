"""Pages of HTML that need nothing else: their parts, and the script that draws and sorts them."""

import base64
import functools
import hashlib
import io
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup

from fokker.diagnostics import Grade
from fokker.report.figures import Figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

# Characters of a cell from which on its column is text in several lines.
_WIDE = 40
_CLASSES = {Grade.GOOD: "good", Grade.CARE: "care", Grade.BAD: "bad"}
_environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)

# The page loads nothing and runs its own script alone, whatever it is filled with.
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src '{{ digest }}'; \
style-src 'unsafe-inline'; img-src data:; media-src data:; base-uri 'none'; form-action 'none'">
<title>{{ title }}</title>
<link rel="icon" href="data:,">
<style>{{ style }}</style>
</head>
<body>
<header class="top"><h1>{{ title }}</h1></header>
<main>
{% for part in parts %}
{{ part }}
{% endfor %}
</main>
<script>{{ script }}</script>
</body>
</html>
"""
_TABLE = """<div class="scroll" tabindex="0" role="region" aria-label="{{ caption }}">
<table{% if classes %} class="{{ classes }}"{% endif %}><caption>{{ caption }}</caption>
{% if columns|select|list %}
<thead><tr>{% for name in columns %}{% if name %}<th scope="col"{% if loop.index0 in wide %} class="words"\
{% endif %}>{{ name }}</th>{% else %}<td></td>{% endif %}{% endfor %}</tr></thead>
{% endif %}
<tbody>
{% for row in rows %}
<tr{% if names %} data-name="{{ row[0] }}"{% endif %}{% if row[0] in flagged %} class="named"{% endif %}>\
{% for cell in row %}{% if loop.first %}<th scope="row">{{ cell }}\
{% if row[0] in flagged %}<span class="flag">see the verdict</span>{% endif %}</th>\
{% else %}<td{% if loop.index0 in wide %} class="words"{% endif %}>{{ cell }}</td>{% endif %}{% endfor %}</tr>
{% endfor %}
</tbody>
</table></div>"""
_VERDICT = """<section class="verdict {{ kind }}" aria-label="Verdict">
<p class="word">{{ word }}</p>
{% if findings %}
<ul>
{% for finding in findings %}
<li>{{ finding }}</li>
{% endfor %}
</ul>
{% endif %}
{% if checked and findings %}
<details><summary>What was checked</summary><p>{{ checked }}</p></details>
{% elif checked %}
<p>{{ checked }}</p>
{% endif %}
{% for note in notes %}
<p class="soft">{{ note }}</p>
{% endfor %}
</section>"""
_DATA = """<script type="application/json">{{ data }}</script>"""
_FIGURE = f"""<figure data-figure="{{{{ key }}}}">
<figcaption><h3>{{{{ title }}}}</h3><p class="legend">{{{{ text }}}}</p></figcaption>
{_DATA}</figure>"""
_CHOICE = f"""<div data-choice="{{{{ key }}}}">{_DATA}</div>"""
_SECTION = f"""<section id="{{{{ key }}}}">{_DATA}
<noscript>The figures need JavaScript.</noscript></section>"""


def html(template: str, **values: object) -> Markup:
    """A piece of a page by a template of Jinja; values that are not such pieces themselves are escaped."""
    return Markup(_environment.from_string(template).render(values))


@functools.cache
def asset(name: str) -> str:
    """A file of the built page, as it was installed."""
    return resources.files("fokker.report").joinpath("assets", name).read_text(encoding="utf-8")


def page(title: str, *parts: str, script: str | None = None, style: str | None = None) -> str:
    """A complete page with these parts, which are HTML; with another script and style than a report's."""
    script = (asset("report.js") if script is None else script).strip()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return str(
        html(
            _PAGE,
            title=title,
            digest=Markup(f"sha256-{digest}"),
            style=Markup(asset("report.css") if style is None else style),
            script=Markup(script),
            parts=map(Markup, parts),
        )
    )


def json_text(data: object) -> Markup:
    """Data within a page: no text in it ends its element, or begins another."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return Markup(text)


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    caption: str = "",
    *,
    sortable: bool = False,
    of_parameters: bool = False,
    flagged: Collection[str] = frozenset(),
) -> Markup:
    """A table of text cells; the first of a row is its head.

    `sortable`: by a click on a head. `of_parameters`: the name of a row chooses the parameter that is drawn.
    `flagged`: rows that the verdict names.
    """
    wide = {i for row in rows for i, cell in enumerate(row) if i and len(cell) > _WIDE}
    classes = " ".join(["sortable"] * sortable + ["of-parameters"] * of_parameters)
    return html(
        _TABLE,
        columns=columns,
        rows=rows,
        caption=caption or "Table",
        classes=classes,
        names=of_parameters,
        flagged=flagged,
        wide=wide,
    )


def pairs(rows: Mapping[str, str], caption: str, names: Sequence[str] = ()) -> Markup:
    """A table of names and values."""
    return table(names, list(rows.items()), caption)


def figure_part(figure: Figure) -> Markup:
    """A figure that the page draws; without its script, what is in it in words."""
    return html(
        _FIGURE,
        key=figure.title,
        title=figure.title,
        text=figure.text,
        data=json_text(figure.to_json()),
    )


def figures_part(figures: Iterable[Figure]) -> Markup:
    """Figures side by side where there is room."""
    return Markup('<div class="figures">{}</div>').format(Markup("").join(map(figure_part, figures)))


def choice_part(figures: Mapping[str, Figure], key: str) -> Markup:
    """Several figures by name, of which one is shown."""
    return html(_CHOICE, key=key, data=json_text({name: x.to_json() for name, x in figures.items()}))


def verdict_part(
    grade: Grade,
    findings: Sequence[str],
    notes: Sequence[str] = (),
    checked: str = "",
    word: str | None = None,
) -> Markup:
    """The grade, the problems, what was checked, and notes; `word` in place of the grade."""
    shown = f"{grade}." if word is None else word
    return html(_VERDICT, kind=_CLASSES[grade], word=shown, findings=findings, notes=notes, checked=checked)


def image(figure: "Picture", alternative: str) -> Markup:
    """A picture of Matplotlib as an <img> element with embedded data."""
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=110)
    return image_of_bytes(buffer.getvalue(), alternative)


def image_of_bytes(png: bytes, alternative: str) -> Markup:
    """A PNG as an <img> element with embedded data."""
    data = base64.b64encode(png).decode()
    return html('<img alt="{{ text }}" src="data:image/png;base64,{{ data }}">', text=alternative, data=data)


def data_part(key: str, data: Any) -> Markup:
    """A section whose contents the script makes of these data."""
    return html(_SECTION, key=key, data=json_text(data))
