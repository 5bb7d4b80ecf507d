"""The gallery's overview and its page."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from fokker._core.files import write_text
from fokker.lab.experiments._gallery_runs import BIASED, CAVEAT, LEFT, OTHER, SLOW
from fokker.lab.experiments._gallery_samplers import Row
from fokker.lab.experiments._gallery_targets import GalleryTarget
from fokker.report.page import html
from fokker.report.plots import RIGHT, WRONG, new_figure

# A word for each reason, as not every reader can see the colours.
_WORDS = {LEFT: "left", SLOW: "slow", BIASED: "biased", CAVEAT: "flawed", OTHER: "wrong"}
_TINTS = {"": RIGHT, "slow": "#E69F00", "left": WRONG, "biased": WRONG, "flawed": WRONG, "wrong": WRONG}


def word(reason: str) -> str:
    """One word for a reason, empty where the floor was reached."""
    return next((short for long, short in _WORDS.items() if reason.startswith(long)), "")


def draw_overview(
    rows: Sequence[Row], targets: Sequence[GalleryTarget], entries: Sequence[Mapping[str, Any]], path: Path
) -> None:
    """Samplers × targets: the distance, and one word on why it is not at the floor."""
    by_pair = {(entry["sampler"], entry["target"]): entry for entry in entries}
    figure = new_figure(1.9 + 1.25 * len(targets), 1.1 + 0.42 * len(rows))
    axes = figure.subplots()
    for i, row in enumerate(rows):
        for j, target in enumerate(targets):
            entry = by_pair.get((row.name, target.name))
            if entry is None:
                continue
            short = word(entry["reason"])
            axes.add_patch(_cell(j, i, _TINTS[short], 0.16 if not short else 0.34))
            label = f"{entry['distance']:.3f}" + (f"  {short}" if short else "  ✓")
            axes.text(j, i, label, ha="center", va="center", fontsize=8.5)
    axes.set(xlim=(-0.5, len(targets) - 0.5), ylim=(len(rows) - 0.5, -0.5))
    axes.set_xticks(np.arange(len(targets)), [target.title for target in targets], fontsize=8.5)
    axes.set_yticks(np.arange(len(rows)), [row.title for row in rows], fontsize=9)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_xlabel(
        "Kolmogorov–Smirnov distance to the worst exact marginal; ✓ at the Monte Carlo floor", fontsize=8.5
    )
    figure.savefig(path, dpi=130)


def _cell(column: int, row: int, colour: str, alpha: float) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((column - 0.48, row - 0.46), 0.96, 0.92, facecolor=colour, alpha=alpha, edgecolor="none")


_STYLE = """
body { font: 16px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 1400px; color: #222;
  padding: 0 1rem; }
h2 { margin: 2.2rem 0 0; } .line { color: #555; margin: 0; } .text { margin: .2rem 0 .8rem; }
.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(310px, 1fr)); gap: 14px; }
figure { margin: 0; border: 1px solid #ddd; border-radius: 6px; overflow: hidden; background: white; }
img { width: 100%; height: auto; display: block; }
figcaption { font-size: .85rem; padding: .35rem .6rem .5rem; }
.no { color: #A63F00; } .yes { color: #005A8D; }
nav a { margin-right: .9rem; white-space: nowrap; }
"""
_HOW = (
    "Grey: the density. Blue line: the last steps, fading; blue dots: the sample. Crosses: rejected "
    "proposals. Stars: the point chosen of a trajectory. Beside: histograms of the draws against the exact "
    "marginals. Time runs faster and faster. Below each: the distance to the exact marginals, and whether it "
    "is at the floor that as many independent draws would have."
)


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Samplers at work</title><style>{{ style }}</style></head>
<body><h1>Samplers at work</h1>
<p>A sampler is dynamics × integrator × correction. {{ how }}</p>
<nav>{% for row in rows %}<a href="#{{ row.name }}">{{ row.title }}</a>{% endfor %}</nav>
<p><img src="{{ overview }}" alt="Distances of all samplers on all targets"></p>
{% for row in rows %}
<h2 id="{{ row.name }}">{{ row.title }}</h2>
<p class="line">{{ row.line }}</p><p class="text">{{ row.text }}</p>
<div class="grid">
{% for target in targets if (row.name, target.name) in entries %}
{% set entry = entries[row.name, target.name] %}
<figure><img loading="lazy" src="{{ entry.animation }}.gif" width="640" height="360"
alt="{{ row.title }} on {{ target.title }}"><figcaption><b>{{ target.title }}</b>:
distance {{ "%.3f" % entry.distance }}, floor {{ "%.3f" % entry.floor }}
<span class="{{ "no" if entry.reason else "yes" }}">{{ "✗ " ~ entry.reason if entry.reason else "✓" }}</span>
{% if entry.mp4 %} <a href="{{ entry.animation }}.mp4">video</a>{% endif %}</figcaption></figure>
{% endfor %}
</div>
{% endfor %}
</body></html>
"""


def write_page(
    rows: Sequence[Row],
    targets: Sequence[GalleryTarget],
    entries: Sequence[Mapping[str, Any]],
    overview: str,
    path: Path,
) -> None:
    """All animations in a grid, each sampler with a line on what it is made of."""
    by_pair = {(entry["sampler"], entry["target"]): entry for entry in entries}
    values = {"rows": rows, "targets": targets, "entries": by_pair, "overview": overview}
    write_text(path, str(html(_PAGE, style=Markup(_STYLE), how=_HOW, **values)) + "\n")
