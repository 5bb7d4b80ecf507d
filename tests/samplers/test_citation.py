"""`fk.cite`: every sampler has its papers, and Fokker itself is among them."""

import inspect
import re
from pathlib import Path

import jax.numpy as jnp
import pytest

import fokker as fk

ROOT = Path(__file__).parents[2]
SAMPLERS = [name for name in fk.samplers.__all__ if inspect.isfunction(getattr(fk.samplers, name))]
ENTRY = re.compile(r"@(\w+)\{(\w+),\n(.*?)^\}$", re.S | re.M)
# What an entry of a kind has to say.
FIELDS = {
    "article": {"journal", "volume", "pages"},
    "inproceedings": {"booktitle"},
    "incollection": {"booktitle", "publisher"},
    "misc": {"eprint"},
    "software": {"version", "year"},
}


def fields(text):
    return dict(re.findall(r"^  (\w+) = \{(.*)\},$", text, re.M))


@pytest.mark.parametrize("name", SAMPLERS)
def test_every_sampler_has_a_paper_and_the_software(name):
    text = fk.cite(name)
    entries = ENTRY.findall(text)
    assert len(entries) == text.count("@") >= 2
    assert text.count("{") == text.count("}")
    assert entries[-1][:2] == ("software", "fokker")
    for kind, key, body in entries:
        found = fields(body)
        assert found.keys() >= {"author", "title", *FIELDS[kind]}, key
        assert "keywords" not in found
        assert kind == "software" or key.endswith(found["year"])


# Papers that are at no lasting address.
WITHOUT_ADDRESS = {"welling2011": "the proceedings gave it no DOI, and it is in no archive"}


def test_every_paper_has_an_address_or_a_reason_why_not():
    papers = (ROOT / "src/fokker/samplers/references.bib").read_text(encoding="utf-8")
    entries = {key: fields(body) for _, key, body in ENTRY.findall(papers)}
    without = {key for key, found in entries.items() if not found.keys() & {"doi", "eprint", "url"}}
    assert without == WITHOUT_ADDRESS.keys()
    for key, found in entries.items():
        assert re.fullmatch(r"10\.\d{4,}/\S+", found.get("doi", "10.1000/x")), key
        assert re.fullmatch(r"\d{4}\.\d{4,5}", found.get("eprint", "1501.00001")), key
        assert ("eprint" in found) == (found.get("archivePrefix") == "arXiv"), key
        assert found.get("url", "https://").startswith("https://"), key


@pytest.mark.parametrize("name", SAMPLERS)
def test_papers_that_a_docstring_names_first_are_cited(name):
    first = inspect.getdoc(getattr(fk.samplers, name)).splitlines()[0]
    named = re.search(r"\((\w[\w-]*)[^();]*? (\d{4})", first)
    if named:
        author, year = named.groups()
        key = f"{author.lower().replace('-', '')}{year}"
        assert re.search(rf"@\w+\{{{key},", fk.cite(name)), key


def test_the_recipe_is_cited_where_a_sampler_is_one():
    assert "@inproceedings{ma2015," in fk.cite(fk.samplers.recipe)
    assert "@inproceedings{ma2015," in fk.cite("sgnht")
    assert "ma2015" not in fk.cite("slice_sampler")


def test_a_sampler_a_lazy_one_and_a_trace_are_cited_as_their_names(tmp_path):
    assert fk.cite(fk.samplers.nuts()) == fk.cite("nuts") == fk.cite(fk.samplers.nuts)
    assert fk.cite(fk.lazy(fk.samplers.sgld(0.1))) == fk.cite("sgld")
    target = fk.Density(lambda theta: -jnp.sum(theta**2))
    trace = fk.sample(target, fk.samplers.ula(0.1), init=jnp.zeros(2), steps=8, chains=1, progress=False)
    trace.save(tmp_path / "run")
    assert fk.cite(trace) == fk.cite(fk.open(tmp_path / "run")) == fk.cite("ula")


def test_the_software_is_as_the_citation_file_says():
    stated = dict(re.findall(r"^(\w+): (.*)$", (ROOT / "CITATION.cff").read_text(), re.M))
    entry = fields(fk.cite("recipe").split("\n\n")[-1])
    assert entry["title"] == f"{stated['title']}: {stated['abstract'].rstrip('.')}"
    assert entry["version"] == fk.__version__


def test_what_has_no_paper_is_named():
    with pytest.raises(ValueError, match=r"no papers are known for a sampler 'sgdl'. Did you mean 'sgld'"):
        fk.cite("sgdl")
    with pytest.raises(
        TypeError, match=r"takes a sampler, its name or a trace, as in fk.cite\('nuts'\), not int"
    ):
        fk.cite(3)
