"""The pages of the site that are generated: they have everything, and what they say is so."""

import inspect
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fokker as fk
from documents import ROOT
from fokker.lab.experiments.errata import ENTRIES, examine
from registry import AFFINE, EVERY
from site_names import api, errata, facts, house, samplers

_ROWS = (
    *("dynamics", "integrator", "correction", "H", "D", "Q", "Γ"),
    *("bias by the step size", "gradients per step", "minibatches", "verdict of `fk.check`"),
)
_HEADING = re.compile(r"^## `(fk\.[\w.]+)`$", re.MULTILINE)


def test_the_reference_has_every_public_name_once():
    pages = api.pages()
    own = _HEADING.findall(pages["api/fokker.md"])
    assert {*own, *(f"fk.{name}" for name in api.modules())} == {f"fk.{name}" for name in fk.__all__}
    total = len(own)
    for name, module in api.modules().items():
        listed = _HEADING.findall(pages[f"api/{name}.md"])
        assert listed == [f"fk.{name}.{part}" for part in api.names(module)]
        total += len(listed)
    assert len(own) + len(api.modules()) == len(fk.__all__)
    assert f"All {total} public names" in pages["api/index.md"]
    # Labels are the same in capitals and small letters.
    labels = re.findall(r"^\(([\w-]+)\)=$", "\n".join(pages.values()), re.MULTILINE)
    assert len({label.lower() for label in labels}) == len(labels) == total


def test_the_reference_has_what_functions_return():
    listed = [getattr(m, name) for m in (fk, *api.modules().values()) for name in api.names(m)]
    functions = [value for value in (getattr(fk, name) for name in fk.__all__) if inspect.isfunction(value)]
    returned = [inspect.signature(function).return_annotation for function in functions]
    classes = [c for c in returned if inspect.isclass(c) and c.__module__.startswith("fokker.")]
    assert fk.diagnostics.Monitor in classes
    # Targets and a sampler, which are used as others are.
    names = {c.__name__ for c in classes if not any(c is value for value in listed)}
    assert names == {"Constrained", "Lazy", "PyMCTarget", "StanTarget"}


def test_a_signature_and_the_methods_of_a_class_are_shown():
    text = api.reference("fk.Density", fk.Density)
    assert "fk.Density(log_density" in text
    assert "`potential(theta)`" in text
    assert (
        api._markdown("a * b, `c * d` and x < y\n\n    e * f") == "a \\* b, `c * d` and x \\< y\n\n    e * f"
    )
    sections = api._markdown("One.\n\nArgs:\n    a: of *b*,\n        c.\n\nReturns:\n    d.\n\nE.\n\n    f")
    assert sections == "One.\n\nArguments:\n\n- `a`: of \\*b\\*,\n  c.\n\nReturns:\n\n  d.\n\nE.\n\n    f"


# Names that a page lacks are listed by `test_additions.py`.
@pytest.mark.parametrize("name", sorted(facts.FACTS))
def test_the_page_of_a_sampler_has_its_facts_and_its_verdict(name):
    verdict = {
        "made_of": "these parts × in steps",
        "verdict": "right",
        "report": "RIGHT: as far as it goes",
        "path": [[0.0, 1.0], [0.5, 0.25]],
        "step_size": 0.0625,
    }
    text = samplers.page(name, facts.FACTS[name], verdict)
    assert text.startswith(f"# {name}\n")
    assert inspect.getdoc(getattr(fk.samplers, name)).splitlines()[-1].strip() in text
    for part in (
        "these parts",
        "RIGHT: as far as it goes",
        "steps with step size 0.0625 from",
        facts.FACTS[name].reference,
    ):
        assert part in text
    assert "](<https://" in text
    # What a researcher looks for, each with something in it.
    rows = [row for row in _ROWS if not re.search(rf"^\| {row} \| \S.* \|$", text, re.MULTILINE)]
    assert not rows, "docs/site_pages/facts.py says nothing here"
    parts = ("When to use it", "Pitfalls", "Reference")
    empty = [part for part in parts if not re.search(rf"^\*\*{part}\.\*\* \S", text, re.MULTILINE)]
    assert not empty, "docs/site_pages/facts.py says nothing here"
    words = text.split("\n")[2].split()
    assert len(words) > 10, "docs/site_pages/introductions.py: a sentence or two on what it is"
    assert '<polyline class="path" points="' in text


@pytest.mark.parametrize("name", sorted(facts.FACTS))
def test_the_reference_of_a_page_is_a_paper_that_is_cited(name):
    """It is written in `docs/site_pages/facts.py`, and `fk.cite` reads `samplers/references.bib`."""
    papers = fk.cite(name).split("\n\n")[:-1]  # the last is Fokker
    named = [re.search(r"author = \{([^,}]+).*year = \{(\d+)", paper, re.DOTALL).groups() for paper in papers]
    reference = facts.FACTS[name].reference
    assert any(author in reference and year in reference for author, year in named), (reference, named)


# Those that follow dynamics of fields in every step: not the exact ones, nor those that are wrong on purpose,
# whose terms are given. The page of `recipe` is not about one Γ.
_FOLLOWING = [
    name
    for name in facts.FACTS
    if name != "recipe" and not name.startswith("naive_") and name in EVERY and not EVERY[name].exact
]


@pytest.mark.parametrize("name", _FOLLOWING)
def test_gamma_is_zero_where_its_page_says_so(name):
    example = samplers.EXAMPLES[name]
    followed = example.placed().follows(example.state)
    state = jax.tree.map(lambda x: jnp.linspace(0.3, 0.7, max(x.size, 1)).reshape(x.shape), followed.state)
    gamma = jax.tree.leaves(followed.dynamics.gamma(state))
    is_zero = all(np.all(np.asarray(part) == 0) for part in gamma)
    assert is_zero == (facts.FACTS[name].gamma == "0"), f"docs/site_pages/facts.py: Γ is {gamma} here"


@pytest.mark.parametrize("name", AFFINE)
def test_the_order_of_the_bias_is_that_which_is_measured(name):
    """By `tests/samplers/test_samplers.py`, on a Gaussian."""
    sampler, comma, _ = name.partition(",")
    bias = facts.FACTS[sampler].bias
    # Of its usual settings, or of others.
    second = r".*order ε² with `Splitting\(\)`" if comma else "order ε²"
    wanted = {1: r"order ε(?!²)", 2: second}
    assert re.match(wanted[AFFINE[name].order], bias), bias


def test_the_house_has_every_part_of_the_library():
    storeys = house.layers()
    parts = [part for layer in storeys for part in layer.parts]
    folders = {p.name for p in (ROOT / "src/fokker").iterdir() if p.is_dir() and p.name != "__pycache__"}
    assert set(parts) == folders
    assert [layer.number for layer in storeys] == list(range(1, len(storeys) + 1))
    picture = house.picture(storeys)
    assert all(f">{part}</text>" in picture for part in parts)
    # The lowest storey is drawn lowest.
    places = {part: int(re.search(rf'y="(\d+)"[^>]*>{part}</text>', picture)[1]) for part in parts}
    assert places["_core"] == max(places.values())
    assert places["cli"] == min(places.values())


def test_the_errata_are_those_of_the_checker():
    """Every formula with its verdict, in order; that the verdicts are so is tested with the lab."""
    wanted = [(errata._cell(entry.source), errata._cell(entry.what), entry.expected) for entry in ENTRIES]
    rows = errata.PAGE.read_text(encoding="utf-8").split("| --- |\n", 1)[1].splitlines()
    cells = [re.split(r"(?<!\\) ?\| ?", row) for row in rows]
    assert [(c[1], c[2], c[3].strip("*")) for c in cells] == wanted


@pytest.mark.slow
@pytest.mark.parametrize("key", ["ma-eq14-printed", "sgnht-(1/2d)-d3"])
def test_the_residuals_of_the_errata_are_current(key):
    entry = next(entry for entry in ENTRIES if entry.key == key)
    row = errata.rows([vars(examine(entry, 512))])[0]
    assert row in errata.PAGE.read_text(encoding="utf-8")
