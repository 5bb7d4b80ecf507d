"""The formulas of D, Q and Γ that are shown are those of the library's dynamics."""

import jax
import numpy as np
import pytest
import studio_designs as designs

from fokker.studio.design import LETTERS, design_of
from fokker.studio.formulas import text
from fokker.studio.formulas.values import value
from fokker.studio.named import SAMPLERS
from fokker.studio.program import build
from fokker.studio.recipe_view import recipe_of, recipe_view

SETTINGS = {"friction": 0.7, "temperature": 1.7}
POINT = {"x": 0.4, "y": -0.8, "p": 1.1, "q": -0.3, "s": 0.6}


def cells(matrix, values):
    return np.array([[float(value(cell, values)) for cell in row] for row in matrix])


@pytest.mark.parametrize("dynamics", sorted({named.dynamics for named in SAMPLERS.values()} - {None}))
def test_the_matrices_shown_are_those_of_the_dynamics(dynamics):
    integrator = "Leapfrog" if dynamics == "hamiltonian" else "EulerMaruyama"
    settings = {"friction": 0.7} if dynamics == "hamiltonian" else SETTINGS
    sampler = {"kind": "parts", "dynamics": dynamics, "integrator": integrator, "correction": "none"}
    if dynamics == "hamiltonian":
        sampler["correction"] = "Metropolis"
    design = design_of({"sampler": sampler, "settings": settings})
    with jax.enable_x64(True), jax.disable_jit():
        built = build(design)
        recipe = recipe_of(design)
        z = {name: np.array([POINT[letter] for letter in LETTERS[name]]) for name in recipe.variables}
        if "xi" in z:
            z["xi"] = z["xi"][0]
        U, slope = jax.value_and_grad(built.potential)(z["theta"])
        values = {**POINT, "U": float(U), "Ux": float(slope[0]), "Uy": float(slope[1])}
        placed = built.sampler.placed
        np.testing.assert_allclose(cells(recipe.D, values), placed.D.as_matrix(z), atol=1e-6)
        np.testing.assert_allclose(cells(recipe.Q, values), placed.Q.as_matrix(z), atol=1e-6)
        np.testing.assert_allclose(value(recipe.energy, values), placed.hamiltonian(z), rtol=1e-6)
        gamma = np.concatenate([np.ravel(placed.gamma(z)[name]) for name in recipe.variables])
    np.testing.assert_allclose([value(row, values) for row in recipe.gamma], gamma, atol=1e-6)


def test_samplers_whose_dynamics_can_be_altered_show_them():
    hidden = [name for name, named in SAMPLERS.items() if named.variables and named.dynamics is None]
    assert not hidden, f"name their dynamics in src/fokker/studio/named.py: {', '.join(hidden)}"


def test_gamma_is_a_formula_with_its_zeros_left_out():
    recipe = recipe_of(design_of(designs.RIGHT["both vary"]))
    assert [text(row) for row in recipe.gamma] == ["2*x/4 + x/4", "-(y/4) + 2*y/4"]


def test_gamma_of_a_metric_by_the_energy_has_its_slope():
    recipe = recipe_of(design_of(designs.RIGHT["metric by the energy"]))
    assert "Ux" in text(recipe.gamma[0])
    assert text(recipe.gamma[1]) == "0"


def test_a_mistake_is_said_beside_the_equations():
    view = recipe_view(design_of(designs.BROKEN["Γ dropped"]))
    assert "Γ is dropped" in view["note"]
    assert len(view["equations"]) == 5


def test_a_drift_and_a_sampler_without_fields_are_shown_as_far_as_they_go():
    assert len(recipe_view(design_of(designs.RIGHT["drift of langevin"]))["equations"]) == 3
    assert "not written as D and Q" in recipe_view(design_of({"sampler": {"name": "slice_sampler"}}))["note"]


def test_the_cells_go_on_as_a_typed_sampler():
    view = recipe_view(design_of({"sampler": {"name": "sgnht"}, "settings": SETTINGS}))
    again = recipe_of(design_of({"sampler": {"kind": "typed", **view["typed"]}, "settings": SETTINGS}))
    shown = recipe_of(design_of({"sampler": {"name": "sgnht"}, "settings": SETTINGS}))
    assert (again.D, again.Q) == (shown.D, shown.Q)
    values = {**POINT, "U": 2.0}
    assert value(again.energy, values) == pytest.approx(value(shown.energy, values))
