"""Designs: what the page may ask for, and how what it may not is refused."""

import pytest

from fokker.studio.catalogue import catalogue
from fokker.studio.design import Design, DesignError, Named, Typed, design_of
from fokker.studio.formulas import text

ZERO = [["0", "0"], ["0", "0"]]
BOWL = {"formula": "x^2 + y^2"}


def test_an_empty_design_is_the_usual_one():
    design = design_of({})
    assert isinstance(design, Design)
    assert design.sampler == Named("sghmc")
    assert not design.is_altered


def test_designs_that_are_the_same_are_equal_and_may_be_remembered():
    assert design_of({"metric": "1 + x^2"}) == design_of({"metric": "1 + x^2"})
    assert hash(design_of({})) == hash(design_of({"gamma": 1}))


def test_a_typed_target_says_where_chains_start_and_older_links_do_not():
    target = design_of({"target": {**BOWL, "x": -2.5, "y": 100, "spread": 0}}).target
    assert (target.start, target.spread) == ((-2.5, 100), 0)
    target = design_of({"target": BOWL}).target
    assert (target.start, target.spread) == ((0, 0), 1)


@pytest.mark.parametrize(
    ("data", "part", "message"),
    [
        ([], "design", "must be an object"),
        ({"target": {"name": "moon"}}, "target.name", "valley"),
        ({"target": {"formula": "x + "}}, "target.formula", "wanted"),
        ({"target": {"formula": "3"}}, "target.formula", "neither x nor y"),
        ({"target": {"formula": 3}}, "target.formula", "must be text"),
        ({"target": {"formula": "p^2"}}, "target.formula", "not known"),
        ({"target": {**BOWL, "x": 101}}, "target.x", "between -100 and 100; 101 was given"),
        ({"target": {**BOWL, "y": "far"}}, "target.y", "must be a number"),
        ({"target": {**BOWL, "spread": -1}}, "target.spread", "between 0 and 20"),
        ({"target": {**BOWL, "spread": float("inf")}}, "target.spread", "number"),
        ({"sampler": {"kind": "magic"}}, "sampler.kind", "named"),
        ({"sampler": {"kind": "named", "name": "__class__"}}, "sampler.name", "rwm"),
        ({"sampler": {"kind": "parts", "integrator": "os"}}, "sampler.integrator", "EulerMaruyama"),
        ({"sampler": {"kind": "typed", "size": 3}}, "sampler.size", "2, 4, 5"),
        ({"sampler": {"kind": "typed", "size": 2, "D": [["1"]], "Q": ZERO}}, "sampler.D", "2 rows of 2"),
        (
            {"sampler": {"kind": "typed", "size": 2, "D": ZERO, "Q": ZERO, "H": "U + p"}},
            "sampler.H",
            "not known",
        ),
        (
            {"sampler": {"kind": "typed", "size": 2, "D": ZERO, "Q": ZERO, "H": "U + x"}},
            "sampler.H",
            "write U",
        ),
        ({"sampler": {"kind": "typed", "size": 2, "D": ZERO, "Q": ZERO, "H": "2*U"}}, "sampler.H", "U plus"),
        ({"sampler": {"kind": "drift", "size": 2, "D": ZERO, "drift": ["x"]}}, "sampler.drift", "2 formulas"),
        ({"settings": {"step_size": 0}}, "settings.step_size", "between"),
        ({"settings": {"step_size": float("nan")}}, "settings.step_size", "number"),
        ({"settings": {"step_size": True}}, "settings.step_size", "number"),
        ({"settings": {"batch": 1.5}}, "settings.batch", "whole"),
        ({"run": {"chains": 10**9}}, "run.chains", "between"),
        ({"run": {"chains": 10000, "steps": 500}}, "run.steps", "moves"),
        ({"gamma": 3}, "gamma", "one of 1, 0, -1"),
        ({"metropolis": "yes"}, "metropolis", "true or false"),
    ],
)
def test_what_cannot_be_used_is_named(data, part, message):
    with pytest.raises(DesignError, match=message) as error:
        design_of(data)
    assert error.value.to_json()["part"] == part


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("U + (p^2 + q^2)/2", "(p^2 + q^2)/2"),
        ("p^2/2 + U + q^2/2", "p^2/2 + q^2/2"),
        ("p^2 - (q - U)", "p^2 - q"),
        ("U - -p", "p"),
    ],
)
def test_the_part_of_H_beside_U(typed, wanted):
    zero = [["0"] * 4] * 4
    design = design_of({"sampler": {"kind": "typed", "size": 4, "H": typed, "D": zero, "Q": zero}})
    assert isinstance(design.sampler, Typed)
    assert text(design.sampler.energy) == wanted


def test_every_target_and_story_of_the_menu_is_a_design():
    menus = catalogue()
    for name in menus["targets"]:
        design_of({"target": {"name": name}})
    for story in menus["stories"]:
        for data in story["designs"]:
            design_of(data)
