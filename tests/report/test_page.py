"""Pages: what comes from a user's data or a program is text in them, and nothing else."""

import base64
import hashlib
import html.parser
import json
import re
from types import SimpleNamespace

import numpy as np
import pytest

from fokker.lab.experiments._gallery_page import write_page
from fokker.report.figures import Axis, Figure, Mark, histogram, rule
from fokker.report.packing import packed, words
from fokker.report.page import choice_part, figure_part, image_of_bytes, page, table
from fokker.report.page import html as piece

HOSTILE = """<script>alert("1 & 2")</script>'<!--"""


class Reader(html.parser.HTMLParser):
    """The elements of a page; texts of scripts that are run, and of those that are data."""

    def __init__(self):
        super().__init__()
        self.tags, self.text, self.attributes, self.scripts, self.data = [], "", [], [], []
        self.inside = None

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        if tag == "script":
            self.inside = self.data if ("type", "application/json") in attributes else self.scripts
            self.inside.append("")

    def handle_endtag(self, tag):
        self.inside = None if tag == "script" else self.inside

    def handle_data(self, data):
        if self.inside is not None:
            self.inside[-1] += data
        else:
            self.text += data


def read(text):
    reader = Reader()
    reader.feed(text)
    return reader


def test_a_page_shows_texts_as_they_are():
    parts = [table([HOSTILE], [[HOSTILE], ["b"]], "c"), "<h2>One</h2>", piece("<p>{{ x }}</p>", x=HOSTILE)]
    reader = read(page(HOSTILE, *parts))
    assert reader.tags.count("tr") == 3
    assert reader.tags.count("h2") == 1
    assert reader.text.count(HOSTILE) == 5  # the title stands there twice
    assert len(reader.scripts) == 1
    reader = read(image_of_bytes(b"\xfb\xff", HOSTILE))
    assert dict(reader.attributes) == {"alt": HOSTILE, "src": "data:image/png;base64,+/8="}


def test_data_of_figures_end_no_element_and_come_back_as_they_were():
    figure = Figure(HOSTILE, HOSTILE, [Mark("points", "bad", HOSTILE, [1], [np.nan], text=[HOSTILE])])
    reader = read(page("t", figure_part(figure), choice_part({HOSTILE: figure}, "k")))
    assert len(reader.scripts) == 1
    assert len(reader.data) == 2
    assert json.loads(reader.data[0]) == figure.to_json()
    assert json.loads(reader.data[1]) == {HOSTILE: figure.to_json()}
    assert json.loads(reader.data[0])["marks"][0]["y"] == [None]


def test_a_page_runs_its_own_script_and_loads_nothing():
    text = page("t", piece("<p>{{ x }}</p>", x="a"))
    reader = read(text)
    (policy,) = [value for name, value in reader.attributes if name == "content" and "default-src" in value]
    digest = base64.b64encode(hashlib.sha256(reader.scripts[0].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert not re.findall(r"(?:src|href)=(?![\"']?data:)", text.replace(reader.scripts[0], ""))
    assert ("content", "width=device-width, initial-scale=1") in reader.attributes
    # The style does not depend on the script.
    assert "prefers-color-scheme: dark" in text


def test_a_table_has_heads_for_readers_of_screens_and_its_own_scrolling():
    text = table(["name", "R-hat"], [["a", "1.0"], ["b", "2.0"]], "Rows", sortable=True, flagged={"b"})
    reader = read(text)
    assert reader.attributes.count(("scope", "col")) == 2
    assert reader.attributes.count(("scope", "row")) == 2
    assert ("class", "sortable") in reader.attributes
    assert text.count('class="named"') == text.count("see the verdict") == 1
    assert "<thead>" not in table(["", ""], [["a", "1"]])
    # A head without a word is no head, of which a reader of a screen would say nothing.
    assert '<thead><tr><td></td><th scope="col">n</th></tr></thead>' in table(["", "n"], [["a", "1"]])


def test_arrays_are_packed_to_what_a_picture_needs():
    x = np.array([0.0, 0.25, 1.0, np.nan])
    codes = np.frombuffer(base64.b64decode(words(x, 0, 1)), "<u2")
    assert codes.tolist() == [0, 16384, 65534, 65535]
    assert packed([1.0, np.inf]) == [1.0, None]
    long = np.linspace(0, 1, 100)
    np.testing.assert_array_equal(
        np.frombuffer(base64.b64decode(packed(long)["f32"]), "<f4"), long.astype("f4")
    )


def test_figures_say_what_they_have():
    bars = histogram([1.0, np.nan, 2.0], "chain-0", bins=4)
    figure = Figure("t", "words", [bars, rule(3, "limit")], Axis("x", log=True), Axis(names=["a"]))
    data = figure.to_json()
    assert [len(data["marks"][0][name]) for name in "xy"] == [5, 4]
    assert data["marks"][1] == {
        "kind": "rule",
        "colour": "truth",
        "name": "limit",
        "along": "y",
        "at": 3.0,
        "dashed": True,
    }
    assert (data["x"]["log"], data["y"]["names"]) == (True, ["a"])


@pytest.mark.parametrize("reason", ["", HOSTILE])
def test_the_gallery_shows_texts_as_they_are(tmp_path, reason):
    row = SimpleNamespace(name="a", title=HOSTILE, line="l", text="t")
    targets = [SimpleNamespace(name=name, title=HOSTILE) for name in "xy"]
    entry = {"sampler": "a", "target": "y", "reason": reason, "animation": "f", "mp4": bool(reason)}
    write_page([row], targets, [{**entry, "distance": 0.25, "floor": 0.125}], "o.png", tmp_path / "p.html")
    reader = read((tmp_path / "p.html").read_text(encoding="utf-8"))
    assert "script" not in reader.tags
    assert reader.tags.count("figure") == 1
    assert ("src", "f.gif") in reader.attributes
    assert ("alt", f"{HOSTILE} on {HOSTILE}") in reader.attributes
    assert (("href", "f.mp4") in reader.attributes) == bool(reason)
    shown = re.sub(r"\s+", " ", reader.text)
    assert f"distance 0.250, floor 0.125 {'✗ ' + reason if reason else '✓'}" in shown
