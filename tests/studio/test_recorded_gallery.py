"""The page of recorded runs: what it has, and that it plays without a server."""

import base64
import json
import re
from types import SimpleNamespace

import numpy as np
import pytest

from conftest import quick_compiling
from fokker.cli.flags import CommandError
from fokker.cli.studio import studio
from fokker.studio import gallery
from fokker.studio.design import design_of
from fokker.studio.frames import unpacked
from fokker.studio.simulation import Simulation
from fokker.studio.stories import Story

RUN = {"seed": 3, "chains": 6, "steps": 5, "burn_in": 5}
DATA = {"target": {"name": "normal"}, "sampler": {"kind": "named", "name": "sgld"}}


@pytest.fixture(scope="module")
def html():
    report = SimpleNamespace(verdict="wrong", reasons=["it is not right"])
    with quick_compiling(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(gallery, "known_verdict", lambda design: report)
        return gallery.gallery([Story("A <title>", "a text", (DATA,))], 3, RUN)


def test_the_page_has_the_draws_of_the_run_and_its_verdict(html):
    (data,) = re.findall(r'<script type="application/json">(.*?)</script>', html)
    header, arrays = unpacked(base64.b64decode(json.loads(data)[0]))
    with quick_compiling():
        simulation = Simulation(design_of({**DATA, "run": RUN}))
        blocks = [simulation.advance() for _ in range(3)]
    assert np.array_equal(arrays["clouds"], [block["cloud"] for _, block in blocks])
    assert np.array_equal(arrays["paths"], [block["path"] for _, block in blocks])
    assert header["kl"] == [numbers["kl"] for numbers, _ in blocks]
    assert (header["verdict"], header["reasons"]) == ("wrong", ["it is not right"])


def test_the_page_loads_nothing_and_titles_are_text(html):
    assert "A &lt;title&gt;" in html
    assert "default-src 'none'" in html
    assert not re.search(r"""(?:src|href)=["'](?!data:)""", html)


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(CommandError, match=r"--gallery .*page.txt must be a file named \*.html"):
        studio(gallery=tmp_path / "page.txt")
    with pytest.raises(CommandError, match="in a folder that exists"):
        studio(gallery=tmp_path / "nowhere" / "page.html")
