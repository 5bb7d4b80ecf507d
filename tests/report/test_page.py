"""Pages: what comes from a user's data or a program is text in them, and nothing else."""

import html.parser
import re
from types import SimpleNamespace

import pytest

from fokker.lab.experiments._gallery_page import write_page
from fokker.report.page import html as piece
from fokker.report.page import image_of_bytes, page, table

HOSTILE = """<script>alert("1 & 2")</script>'"""


class Reader(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.text, self.attributes = [], "", []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes

    def handle_data(self, data):
        self.text += data


def read(text):
    reader = Reader()
    reader.feed(text)
    assert "script" not in reader.tags
    return reader


def test_a_page_shows_texts_as_they_are():
    parts = [table([HOSTILE], [[HOSTILE], ["b"]]), "<h2>One</h2>", piece("<p>{{ x }}</p>", x=HOSTILE)]
    reader = read(page(HOSTILE, *parts))
    assert reader.tags.count("td") == 2
    assert reader.tags.count("h2") == 1
    assert reader.text.count(HOSTILE) == 5  # the title stands there twice
    reader = read(image_of_bytes(b"\xfb\xff", HOSTILE))
    assert dict(reader.attributes) == {"alt": HOSTILE, "src": "data:image/png;base64,+/8="}


@pytest.mark.parametrize("reason", ["", HOSTILE])
def test_the_gallery_shows_texts_as_they_are(tmp_path, reason):
    row = SimpleNamespace(name="a", title=HOSTILE, line="l", text="t")
    targets = [SimpleNamespace(name=name, title=HOSTILE) for name in "xy"]
    entry = {"sampler": "a", "target": "y", "reason": reason, "animation": "f", "mp4": bool(reason)}
    write_page([row], targets, [{**entry, "distance": 0.25, "floor": 0.125}], "o.png", tmp_path / "p.html")
    reader = read((tmp_path / "p.html").read_text(encoding="utf-8"))
    assert reader.tags.count("figure") == 1
    assert ("src", "f.gif") in reader.attributes
    assert ("alt", f"{HOSTILE} on {HOSTILE}") in reader.attributes
    assert (("href", "f.mp4") in reader.attributes) == bool(reason)
    shown = re.sub(r"\s+", " ", reader.text)
    assert f"distance 0.250, floor 0.125 {'✗ ' + reason if reason else '✓'}" in shown
