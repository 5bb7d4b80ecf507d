"""What is copied as Python gives the draws of the page, to the bit."""

import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest
import studio_designs as designs

from fokker.studio import loop
from fokker.studio.design import DesignError, design_of
from fokker.studio.named import SAMPLERS
from fokker.studio.program import build

SMALL = {"chains": 6, "steps": 3, "seed": 5}


def page_draws(built, frames=2):
    keys, settings, run = loop.chain_keys(built), built.design.settings, built.design.run
    states, draws = loop.start(built, keys), []
    for frame in range(frames):
        states, (theta, _) = loop.block(
            built.sampler, states, keys, jnp.asarray(frame * run.steps), built.rows, run.steps, settings.batch
        )
        draws.append(np.asarray(theta))
    return np.concatenate(draws)


def program_draws(built, frames=2):
    names = {}
    exec(compile(loop.source(built, frames), "program", "exec"), names)
    return names["draws"]


def same(data):
    built = build(design_of({**data, "run": SMALL}))
    draws = page_draws(built)
    assert draws.shape == (6, 6, 2)
    assert np.array_equal(draws, program_draws(built), equal_nan=True)
    return draws


CASES = {
    "named": {"sampler": {"kind": "named", "name": "sghmc"}, "settings": {"temperature": 2, "friction": 0.7}},
    "altered, noisy": {
        "sampler": {"kind": "named", "name": "sgrld"},
        "gamma": 0,
        "settings": {"noise": 1, "batch": 3, "step_size": 0.001, "temperature": 0.5},
    },
    "typed": designs.RIGHT["riemannian"],
    "thermostat drift, noisy": {**designs.RIGHT["drift of a thermostat"], "settings": {"noise": 1}},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_copied_program_has_the_same_bits(name, optimised):
    assert np.all(np.isfinite(same(CASES[name])))


MORE = {
    "options": {"sampler": {"kind": "named", "name": "nuts"}},
    "metropolis": {"sampler": {"kind": "named", "name": "sgrld"}, "gamma": 0, "metropolis": True},
    "underdamped, corrected": {"sampler": {"kind": "named", "name": "sghmc"}, "metropolis": True},
    "hamiltonian": {
        "sampler": {
            "kind": "parts",
            "dynamics": "hamiltonian",
            "integrator": "Leapfrog",
            "correction": "Metropolis",
        }
    },
    "splitting": {
        "sampler": {
            "kind": "parts",
            "dynamics": "thermostat",
            "integrator": "Splitting",
            "correction": "none",
        }
    },
    "noise that is subtracted": {
        "sampler": {"kind": "named", "name": "sgfs"},
        "settings": {"noise": 1, "step_size": 0.01},
    },
    "dense": designs.RIGHT["dense noise"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MORE)
def test_other_ways_to_build_a_sampler_have_the_same_bits(name, optimised):
    same(MORE[name])


@pytest.mark.long("program::a_copied_program_has_the_same_bits")
@pytest.mark.parametrize("name", SAMPLERS)
def test_every_sampler_of_the_menu_has_the_same_bits(name, optimised):
    same({"sampler": {"kind": "named", "name": name}, "settings": {"step_size": 0.02}})


@pytest.mark.slow
def test_a_program_runs_alone(tmp_path):
    """In processes of their own, which have the same options of XLA."""
    data = {**CASES["altered, noisy"], "run": SMALL}
    program = tmp_path / "program.py"
    program.write_text(
        loop.source(build(design_of(data)), 2) + "np.save('program.npy', draws)\n", encoding="utf-8"
    )
    page = tmp_path / "page.py"
    page.write_text(
        "import numpy as np\nfrom fokker.studio.design import design_of\n"
        "from fokker.studio.simulation import Simulation\n"
        f"run = Simulation(design_of({data!r}))\n"
        "np.save('page.npy', [run.advance()[1]['cloud'] for _ in range(2)])\n",
        encoding="utf-8",
    )
    for file in (program, page):
        subprocess.run([sys.executable, file], cwd=tmp_path, check=True, capture_output=True)
    last = np.load(tmp_path / "program.npy")[SMALL["steps"] - 1 :: SMALL["steps"]]
    assert np.array_equal(last, np.load(tmp_path / "page.npy"))


@pytest.mark.parametrize(
    ("data", "part", "message"),
    [
        ({"sampler": {"kind": "named", "name": "hmc"}, "gamma": 0}, "sampler", "is what it is"),
        (
            {"sampler": {"kind": "named", "name": "hmc"}, "settings": {"noise": 1}},
            "settings.noise",
            "whole gradient",
        ),
        ({"metropolis": True, "settings": {"noise": 1}}, "settings.noise", "a correction needs"),
        ({**designs.RIGHT["drift of langevin"], "gamma": 0}, "gamma", "no Γ"),
        (
            {**designs.RIGHT["drift of langevin"], "settings": {"temperature": 2}},
            "settings.temperature",
            "set the slider to 1",
        ),
        (
            {
                "sampler": {
                    "kind": "parts",
                    "dynamics": "langevin",
                    "integrator": "SymplecticEuler",
                    "correction": "Tree",
                }
            },
            "sampler",
            "cannot be|Leapfrog",
        ),
    ],
)
def test_what_the_library_refuses_is_said_with_its_reason(data, part, message):
    with pytest.raises(DesignError, match=message) as error:
        build(design_of(data))
    assert error.value.part == part
