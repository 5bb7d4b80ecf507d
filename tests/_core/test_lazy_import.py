"""The package imports its parts when they are asked for, and hides that well."""

import importlib
import inspect
import re
import subprocess
import sys
import traceback

import pytest

import fokker as fk

pytestmark = pytest.mark.dependencies


def test_every_public_name_is_there_and_is_its_modules_own():
    assert set(dir(fk)) == {*fk.__all__, "__version__"}
    assert sorted(fk._HOMES) == sorted(fk.__all__)
    for name in fk.__all__:
        home = importlib.import_module(f"fokker.{fk._HOMES[name]}")
        assert getattr(fk, name) is getattr(home, name, home)
    assert fk.__version__


def test_a_wrong_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'fokker' has no attribute 'smaple'"):
        _ = fk.smaple
    with pytest.raises(ImportError, match="smaple"):
        from fokker import smaple  # noqa: F401


def test_a_misspelt_name_of_a_module_is_told_the_one_that_was_meant():
    for module, name, meant in (
        ("fokker", "Sample", "sample"),
        ("fokker.samplers", "sghcm", "sghmc"),
        ("fokker.samplers", "Nuts", "nuts"),
        ("fokker.models", "Netwrk", "Network"),
        ("fokker.datasets", "read_rating", "read_ratings"),
        ("fokker.rows", "Strem", "Stream"),
    ):
        words = rf"^module '{re.escape(module)}' has no attribute '{name}'\. Did you mean '{meant}'\?$"
        with pytest.raises(AttributeError, match=words) as caught:
            getattr(importlib.import_module(module), name)
        # Python's own hint, which a traceback would add, is not there beside it.
        assert "".join(traceback.format_exception_only(caught.value)).count("Did you mean") == 1
    with pytest.raises(AttributeError, match=r"has no attribute 'hamiltonian_monte_carlo'$"):
        _ = fk.samplers.hamiltonian_monte_carlo
    with pytest.raises(AttributeError, match=r"has no attribute '__names__'$"):
        _ = fk.samplers.__names__


@pytest.mark.slow
def test_a_misspelt_name_imports_nothing():
    program = "import sys, fokker as fk; print(hasattr(fk, 'Sample'), hasattr(fk.models, 'LAD'))"
    program += "; print('jax' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout
    assert found.split() == ["False"] * 3


def test_a_misspelt_argument_of_a_sampler_is_named_and_signatures_stay():
    with pytest.raises(
        TypeError, match=r"fk\.samplers\.nuts has no argument 'mass_matrx'.*mean 'mass_matrix'\? It has: "
    ):
        fk.samplers.nuts(mass_matrx=2.0)
    with pytest.raises(TypeError, match=r"sgrhmc has no argument 'inverse_metric'.*inverse_fisher_root"):
        fk.samplers.sgrhmc(0.1, inverse_metric=1.0, inverse_metric_root=1.0)
    with pytest.raises(TypeError, match=r"sghmc has no argument 'x'\. It has: step_size, friction, mass"):
        fk.samplers.sghmc(0.1, x=2.0)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'step_size'"):
        fk.samplers.sgld()
    assert list(inspect.signature(fk.samplers.sgld).parameters)[:2] == ["step_size", "D"]


@pytest.mark.slow
def test_nothing_is_imported_before_it_is_asked_for():
    """Neither JAX by the package, nor by a run what only its summary and report use."""
    program = """
import sys, fokker as fk
print('jax' in sys.modules)
fk.sample(fk.Density(lambda x: -x**2), fk.samplers.sgld(0.1), init=0.0, steps=1, progress=False)
print([name for name in ('jax', 'arviz', 'matplotlib', 'scipy.stats') if name in sys.modules])
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout
    assert found.splitlines() == ["False", "['jax']"]
