"""The options of `fk.sample` are declared once; what a run says of its chains."""

import ast
import dataclasses
import inspect
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fokker as fk
from fokker.run import losses
from fokker.run.call import MAY_CHANGE, NAMES, STORED, Options
from fokker.run.losses import Loss
from fokker.run.positions import WarmedUp
from fokker.run.record import differences, written_settings
from fokker.samplers.mass_matrix import Diagonal

RUN = Path(fk.__file__).parent / "run"
KEY = jax.random.key(0)


def options(**changes):
    return Options(**{"init": jnp.zeros(2), "steps": 4, **changes})


def test_the_arguments_of_sample_are_the_options_with_their_defaults_and_types():
    declared = {field.name: field for field in dataclasses.fields(Options)}
    arguments = dict(inspect.signature(fk.sample).parameters)
    own = [arguments.pop(name) for name in ("target", "sampler", "resume")]
    assert len(own) == 3
    assert list(arguments) == list(declared) == list(NAMES)
    for name, argument in arguments.items():
        default = declared[name].default
        assert argument.default is (inspect.Parameter.empty if default is dataclasses.MISSING else default)
        assert str(argument.annotation) == str(declared[name].type)
        assert f"- `{name}`: " in fk.sample.__doc__


def test_tune_has_the_same_options():
    shared = {n: p for n, p in inspect.signature(fk.tune).parameters.items() if n in NAMES}
    assert set(shared) > {"batch_size", "batches", "gradient", "seed", "key", "temperature", "progress"}
    declared = {field.name: field for field in dataclasses.fields(Options)}
    for name, argument in shared.items():
        assert str(argument.annotation) == str(declared[name].type)
        if name not in ("init", "steps"):
            assert argument.default is declared[name].default


# Another value of every option that is written down.
OTHERS = {
    "steps": 8,
    "burn_in": 3,
    "thin": 2,
    "chains": 7,
    "warm_up": 30,
    "batch_size": 5,
    "batches": "reshuffle",
    "batch_repeats": 2,
    "seed": 1,
    "temperature": 2.0,
    "keep": "moments",
    "precision": "double",
}


@pytest.mark.parametrize("name", STORED)
def test_every_stored_option_is_compared_but_the_number_of_steps(name):
    assert set(OTHERS) | {"key"} == set(STORED)
    before = {"settings": written_settings(options(chains=2), KEY), "fingerprints": {}}
    key = jax.random.key(1) if name == "key" else KEY
    changed = options(**{"chains": 2, **({} if name == "key" else {name: OTHERS[name]})})
    now = {"settings": written_settings(changed, key), "fingerprints": {"sampler": "x"}}
    before["fingerprints"] = now["fingerprints"]
    assert isinstance(now["settings"][name], STORED[name])
    found = differences(before, now)
    assert [text.split()[0] for text in found] == ([] if name in MAY_CHANGE else [name])
    assert MAY_CHANGE == ("steps",)


def test_options_of_the_wrong_kind_are_refused_before_anything_is_made(tmp_path):
    for wrong in ({"out": 3}, {"batch_size": 0}, {"temperature": -1.0}):
        with pytest.raises((TypeError, ValueError), match=next(iter(wrong))):
            options(**wrong)
    target = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
    with pytest.raises(ValueError, match="temperature"):
        fk.sample(
            target, fk.samplers.sgld(0.1), init=jnp.zeros(2), steps=2, temperature=-1.0, out=tmp_path / "run"
        )
    assert list(tmp_path.iterdir()) == []


def test_a_trace_is_run_again_with_any_option_changed():
    target = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
    shared = {"init": jnp.zeros(2), "steps": 4, "chains": 2, "progress": False}
    trace = fk.sample(target, fk.samplers.sgld(0.1), seed=3, **shared)
    again = trace.rerun(seed=4)
    np.testing.assert_array_equal(
        again.samples, fk.sample(target, fk.samplers.sgld(0.1), seed=4, **shared).samples
    )
    other = trace.rerun(sampler=fk.samplers.sgld(0.2))
    assert float(other.settings["step_size"]) == pytest.approx(0.2)
    with pytest.raises(TypeError, match=r"rerun has no option 'burnin'.*burn_in"):
        trace.rerun(burnin=3)


NORMAL = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
SHARED = {"init": jnp.zeros(2), "steps": 4, "chains": 2, "progress": False}


def test_another_seed_goes_before_the_key_of_the_first_run():
    trace = fk.sample(NORMAL, fk.samplers.sgld(0.1), key=jax.random.key(7), **SHARED)
    by_seed = trace.rerun(seed=4).samples
    np.testing.assert_array_equal(by_seed, fk.sample(NORMAL, fk.samplers.sgld(0.1), seed=4, **SHARED).samples)
    np.testing.assert_array_equal(trace.rerun(seed=5, key=jax.random.key(7)).samples, trace.samples)
    np.testing.assert_array_equal(trace.rerun(chunk=2).samples, trace.samples)


def test_a_run_after_warm_up_is_run_again_in_double_precision():
    """As a second run has it: where warm-up left two chains, and what it learned, in single precision."""
    ones = jnp.ones(2, jnp.float32)
    sampler = fk.samplers.mala(jnp.float32(0.5), mass_matrix=Diagonal(ones))
    init = WarmedUp(jnp.stack([ones, -ones]), (), one_start=False)
    trace = fk.sample(NORMAL, sampler, precision="double", **{**SHARED, "init": init})
    assert trace.samples.dtype == np.float64
    assert {x.dtype for x in jax.tree.leaves(trace.sampler.mass_matrix)} == {np.dtype(np.float64)}


@pytest.fixture(scope="module")
def two_chains():
    return fk.sample(NORMAL, fk.samplers.sgld(0.1), **SHARED)


@pytest.mark.parametrize(
    "name", sorted(set(OTHERS) - {"steps", "warm_up", "batch_size", "batches", "batch_repeats"})
)
def test_a_trace_goes_on_with_its_own_settings_alone(two_chains, name):
    options = {**SHARED, "steps": 8, name: OTHERS[name]}
    with pytest.raises(ValueError, match=f"resume is of another run: {name} is .*, and was .*trace.rerun"):
        fk.sample(NORMAL, fk.samplers.sgld(0.1), resume=two_chains, **options)


def test_a_trace_goes_on_in_memory_with_its_sampler(two_chains, tmp_path):
    shared = {"init": jnp.zeros(2), "progress": False, "resume": two_chains}

    def resumed(step_size=0.1, **options):
        return fk.sample(NORMAL, fk.samplers.sgld(step_size), **{**shared, "steps": 8, **options})

    # As many chains as it has, and whatever the draws do not depend on.
    np.testing.assert_array_equal(resumed(chunk=3).samples, two_chains.resume(4).samples)
    with pytest.raises(ValueError, match=r"key is .*, and was"):
        resumed(key=jax.random.key(1))
    with pytest.raises(ValueError, match="the sampler, or one of its settings, is another"):
        resumed(0.2)
    with pytest.raises(ValueError, match="has 4 steps already, more than the 2"):
        resumed(steps=2)
    with pytest.raises(ValueError, match=r"out='.*' would have the new draws alone.*trace.save"):
        resumed(out=tmp_path / "new")
    assert not (tmp_path / "new").exists()
    two_chains.save(tmp_path / "old")
    with pytest.raises(ValueError, match=r"that of the folder .*old.*fk.resume"):
        resumed(resume=fk.open(tmp_path / "old"))


@pytest.mark.parametrize(
    ("chains", "lost", "message"),
    [
        (2, [1], "chain 2 of 2 was stopped at step 16 (not finite); the summary is of chain 1"),
        (
            4,
            [0, 3],
            "chains 1, 4 of 4 were stopped, the first at step 16 (not finite); the summary is of chains 2, 3",
        ),
        (40, [5], "chain 6 of 40 was stopped at step 16 (not finite); the summary is of 39 chains"),
        (2, [0, 1], ""),
        (2, [], ""),
    ],
)
def test_chains_that_were_stopped_are_named_and_those_that_are_left(chains, lost, message):
    stopped = {chain: Loss(0, 16 + place, "not finite") for place, chain in enumerate(lost)}
    assert losses.in_words(chains, stopped) == message


@pytest.mark.parametrize("path", sorted(RUN.glob("*.py")), ids=lambda path: path.name)
def test_no_module_of_a_run_is_imported_inside_a_function(path):
    for function in ast.walk(ast.parse(path.read_text())):
        if isinstance(function, ast.FunctionDef):
            inner = [node.module for node in ast.walk(function) if isinstance(node, ast.ImportFrom)]
            assert not [name for name in inner if name and name.startswith("fokker.run")]
