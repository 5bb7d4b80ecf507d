"""Runs of the stories, recorded on one page that needs no server: draws, divergence and verdict."""

import base64
from collections.abc import Callable, Iterable, Mapping
from importlib import resources
from typing import Any

import numpy as np

from fokker.report.page import html, json_text, page
from fokker.studio.analysis import known_verdict
from fokker.studio.design import design_of
from fokker.studio.frames import packed
from fokker.studio.simulation import Simulation
from fokker.studio.stories import STORIES, Story

# Enough to see where a sampler goes, in a page of about a megabyte.
FRAMES = 60
RUN = {"seed": 0, "chains": 80, "steps": 10, "burn_in": 100}
_TITLE = "Samplers, right and wrong"
_STORY = """<section class="story"><h2>{{ title }}</h2><p>{{ text }}</p>
<script type="application/json">{{ data }}</script>
<noscript>The animations need JavaScript.</noscript></section>"""


def record(data: Mapping[str, Any], frames: int = FRAMES, run: Mapping[str, int] | None = None) -> str:
    """One run as a message of `frames.packed`, in base64: clouds, path of the first chain, KL, verdict."""
    run = dict(RUN if run is None else run)
    design = design_of({**data, "run": run})
    simulation = Simulation(design)
    blocks = [simulation.advance() for _ in range(frames)]
    report = known_verdict(design)
    header = {
        "design": {**data, "run": run},
        "sampler": str(simulation.built.sampler),
        "box": simulation.truth.box,
        "kl": [numbers["kl"] for numbers, _ in blocks],
        "chance": [numbers["chance"] for numbers, _ in blocks],
        "verdict": report.verdict,
        "reasons": report.reasons,
    }
    arrays = {
        "truth": simulation.truth.cells,
        "clouds": np.stack([arrays["cloud"] for _, arrays in blocks]),
        "paths": np.stack([arrays["path"] for _, arrays in blocks]),
    }
    return base64.b64encode(packed(header, arrays)).decode()


def gallery(
    stories: Iterable[Story] = STORIES,
    frames: int = FRAMES,
    run: Mapping[str, int] | None = None,
    report: Callable[[str], None] = lambda title: None,
) -> str:
    """The page. `report` is called with the title of each story before its runs."""
    parts = []
    for story in stories:
        report(story.title)
        runs = [record(data, frames, run) for data in story.designs]
        parts.append(html(_STORY, title=story.title, text=story.text, data=json_text(runs)))
    built = resources.files("fokker.studio").joinpath("page")
    script, style = (built.joinpath(name).read_text("utf-8") for name in ("gallery.js", "gallery.css"))
    return page(_TITLE, *parts, script=script, style=style)
