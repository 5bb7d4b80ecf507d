"""The package imports its parts when they are asked for, and hides that well."""

import importlib
import subprocess
import sys

import pytest

import fokker as fk


def test_every_public_name_is_there_and_is_its_modules_own():
    assert set(fk.__all__) <= set(dir(fk))
    for name in fk.__all__:
        value = getattr(fk, name)
        if name in fk._HOMES:
            assert value is getattr(importlib.import_module(f"fokker.{fk._HOMES[name]}"), name)
        else:
            assert value is importlib.import_module(f"fokker.{name}")
    assert set(fk.__all__) == set(fk._HOMES) | (set(fk.__all__) & fk._MODULES)
    for name in fk._MODULES:
        assert getattr(fk, name).__name__ == f"fokker.{name}"
    assert fk.__version__


def test_a_wrong_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'fokker' has no attribute 'smaple'"):
        _ = fk.smaple
    with pytest.raises(ImportError, match="smaple"):
        from fokker import smaple  # noqa: F401


def test_nothing_is_imported_before_it_is_asked_for():
    program = "import sys, fokker; print('jax' in sys.modules); fokker.sample; print('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout.split() == [
        "False",
        "True",
    ]
