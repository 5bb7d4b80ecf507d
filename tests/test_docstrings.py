"""Docstrings of what users call: every argument is named, and the examples run."""

import inspect
import re
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fokker as fk

_BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
_MODULES = ("samplers", "integrators", "fields", "gradients", "dynamics", "batches", "schedules")
# Interfaces to derive from, and records that the library makes, whose fields are described in prose.
_OTHERS = {
    *("KINDS", "NAMES", "WINDOWS", "Batch", "BatchScheme", "Scheme"),
    *("Blocks", "ControlVariates", "Correctable", "Estimator", "Field", "FieldLike", "Followed", "Info"),
    *(
        "Integrator",
        "Point",
        "Proposal",
        "Recipe",
        "Sampler",
        "SamplerState",
        "Scaled",
        "StepInput",
        "Sum",
        "TrajectorySampler",
    ),
}


def public():
    """What users call, by name."""
    names = {"fk.lazy": fk.lazy, "fk.Hamiltonian": fk.Hamiltonian}
    for module in _MODULES:
        part = getattr(fk, module)
        for name in getattr(part, "__all__", ("polynomial", "cyclical")):
            if name not in _OTHERS:
                names[f"fk.{module}.{name}"] = getattr(part, name)
    return names


PUBLIC = public()
TARGET = fk.Density(lambda theta: -sum(jnp.sum(x**2) for x in jax.tree.leaves(theta)) / 2)
POSTERIOR = fk.Posterior(
    lambda theta: -jnp.sum(theta**2) / 2,
    lambda theta, x: -jnp.sum((theta - x) ** 2) / 2,
    np.linspace(-1, 1, 8, dtype=np.float32).reshape(4, 2),
)


def traced(target, sampler, *, init, **options):
    """In the place of `fk.sample`: its arguments, and one step that is traced and not compiled."""
    inspect.signature(fk.sample).bind(target, sampler, init=init, **options)
    size = options.get("batch_size")
    batch = None if size is None else fk.batches.Batch(target.data[:size], jnp.arange(size))
    if sampler.is_automatic:
        sampler = sampler.with_step_size(0.1)
    if isinstance(getattr(sampler, "L", None), str):
        sampler = fk.samplers.mclmc(0.1, 1.0)
    placed = sampler.on(target, 1.0, *([options["gradient"]] if "gradient" in options else []))

    def step(key):
        return placed.step(key, placed.init(init, key=key), batch)[0].position

    return jax.eval_shape(step, jax.random.key(0))


@pytest.mark.parametrize("name", PUBLIC)
def test_every_argument_is_described_and_the_example_runs(name, monkeypatch):
    function = PUBLIC[name]
    text = inspect.getdoc(function)
    listed = set(re.findall(r"^- `(\w+)`:", text, re.MULTILINE))
    parameters = inspect.signature(function).parameters
    assert listed >= set(parameters), f"{name}: {set(parameters) - listed} not described"
    assert listed <= set(parameters), f"{name} has no {listed - set(parameters)}"
    if inspect.isfunction(function):
        assert re.search(r"^Returns ", text, re.MULTILINE), f"{name} does not say what it returns"
    programs = _BLOCK.findall(text)
    assert programs, f"{name} has no example"
    library = SimpleNamespace(**{**vars(fk), **{part: getattr(fk, part) for part in fk.__all__}})
    library.sample = traced
    for program in programs:
        exec(program, {"fk": library, "jax": jax, "jnp": jnp, "target": TARGET, "posterior": POSTERIOR})
