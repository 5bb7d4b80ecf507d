"""Who adds a sampler, an estimator or a command is told every place that lacks it, and by CONTRIBUTING.md."""

import importlib
import inspect
import json
import re

import pytest
import typer

import digests
import fokker as fk
from documents import PAGES, ROOT
from estimators import ESTIMATORS
from fokker.cli import app
from fokker.models.estimator import Estimator
from fokker.studio.named import NOT_IN_MENU, SAMPLERS
from registry import EVERY
from site_names import facts, introductions, samplers

_DOCUMENTS = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)


def _without_settings(names):
    """Runs and entries are called by a name, and after a comma by what is not usual."""
    return {name.partition(",")[0] for name in names}


def _in_tables(page):
    """The names in the first cells of the tables of a page."""
    cells = re.findall(r"^\| (`.*?) \|", (ROOT / page).read_text(encoding="utf-8"), re.M)
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


def _cited():
    papers = (ROOT / "src/fokker/samplers/references.bib").read_text(encoding="utf-8")
    return {name for line in re.findall(r"keywords = \{(.*)\}", papers) for name in line.split(", ")}


def _estimators():
    """The estimators that there are, whether or not `fk.models` has them."""
    files = (ROOT / "src/fokker/models").glob("*/estimator.py")
    modules = [importlib.import_module(f"fokker.models.{file.parent.name}.estimator") for file in files]
    return {
        name
        for module in modules
        for name, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, Estimator) and kind.__module__ == module.__name__ and name[0] != "_"
    }


STORED = set(json.loads(digests.STORED.read_text())["runs"])
# The section of CONTRIBUTING.md: all names, and those that each place has.
ADDITIONS = {
    "sampler": (
        {name for name in fk.samplers.__all__ if inspect.isfunction(getattr(fk.samplers, name))},
        {
            "tests/registry.py": _without_settings(EVERY),
            "samplers/references.bib": _cited(),
            "docs/sampling.md": _in_tables("docs/sampling.md"),
            "docs/site_pages/facts.py": set(facts.FACTS),
            "docs/site_pages/introductions.py": set(introductions.INTRODUCTIONS),
            "docs/site_pages/samplers.py": set(samplers.EXAMPLES),
            "src/fokker/studio/named.py": {*SAMPLERS, *NOT_IN_MENU},
            "python tests/digests.py --write --only NAME": _without_settings(STORED),
        },
    ),
    "estimator": (
        _estimators() | set(fk.models.__all__),
        {
            "models/__init__.py": set(fk.models.__all__) & set(fk.models._HOMES),
            "tests/estimators.py": set(ESTIMATORS),
            "python tests/digests.py --write --only NAME": _without_settings(STORED),
            "a page in `docs/`": set(re.findall(r"fk\.models\.(\w+)", _DOCUMENTS)),
        },
    ),
    "command": (
        set(typer.main.get_command(app).commands),
        {"a page of `docs/`": set(re.findall(r"\bfokker (\w+)", _DOCUMENTS))},
    ),
}


def test_no_sampler_is_in_the_menu_of_the_studio_and_out_of_it():
    assert not SAMPLERS.keys() & NOT_IN_MENU.keys()


def _heading(kind):
    return f"Adding {'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def missing(kind, names):
    return {place: sorted(names - known) for place, known in ADDITIONS[kind][1].items() if names - known}


@pytest.mark.parametrize("kind", ADDITIONS)
def test_everything_is_named_in_every_place(kind):
    names, _ = ADDITIONS[kind]
    lacking = missing(kind, names)
    lines = [f"{place}: {', '.join(lacked)}" for place, lacked in lacking.items()]
    assert not lacking, "\n".join([f"see “{_heading(kind)}” in CONTRIBUTING.md; missing in", *lines])
    assert set(missing(kind, names | {"new_one"})) == set(ADDITIONS[kind][1])


@pytest.mark.parametrize("kind", ADDITIONS)
def test_the_places_are_those_of_contributing(kind):
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = re.search(rf"^## {_heading(kind)}\n(.*?)^## ", text, re.S | re.M)[1]
    unsaid = [place for place in ADDITIONS[kind][1] if place not in section]
    assert not unsaid, f"“{_heading(kind)}” in CONTRIBUTING.md does not name these"


@pytest.mark.parametrize("kind", ["sampler", "estimator"])
def test_what_is_gone_is_named_nowhere(kind):
    names, places = ADDITIONS[kind]
    # Pages name more, what is stored is of samplers and estimators, and `fk.lazy` is not of `fk.samplers`.
    others = {"docs/sampling.md", "a page in `docs/`", "python tests/digests.py --write --only NAME"}
    gone = {place: sorted(places[place] - names - {"lazy"}) for place in places.keys() - others}
    lines = [f"{place}: {', '.join(left)}" for place, left in sorted(gone.items()) if left]
    assert not lines, "\n".join([f"there is no {kind} of these names", *lines])
