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
# A list of arguments, "- `a`, `b`: …".
_NAMES = re.compile(r"^- ((?:`\*{0,2}\w+`(?:,\s+)?)+):", re.MULTILINE)
_MODULES = (
    *("samplers", "integrators", "fields", "gradients", "dynamics", "batches", "schedules"),
    *("corrections", "constraints", "diagnostics"),
)
_CORPORA = ("Corpus", "Prefetched", "Vocabulary", "letters", "matches", "prefetched", "unicode_words")
# Interfaces to derive from, and records that the library makes, whose fields are described in prose.
_OTHERS = {
    *("Completion", "Report", "Target", "Trace", "Tuning"),
    *("Constraint", "Correction", "DIVERGENT", "Outcome", "Step", "Visited"),
    *("Finding", "Grade", "Health", "Spread", "Stein", "StepHalving", "Summary", "Verdict"),
    *("KINDS", "NAMES", "WINDOWS", "Batch", "BatchScheme", "Scheme"),
    *("Blocks", "Correctable", "Estimator", "Field", "FieldLike", "Followed", "Info"),
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
    names = {
        **{
            f"fk.{name}": getattr(fk, name)
            for name in ("check", "complete", "Hamiltonian", "lazy", "monitor")
        },
        **{f"fk.corpora.{name}": getattr(fk.corpora, name) for name in _CORPORA},
        "fk.posteriors.correlated_normal": fk.posteriors.correlated_normal,
    }
    for module in _MODULES:
        part = getattr(fk, module)
        for name in getattr(part, "__all__", ("polynomial", "cyclical")):
            if name not in _OTHERS:
                names[f"fk.{module}.{name}"] = getattr(part, name)
    return names


PUBLIC = public()
# And those whose examples need a model, files or a run of the reader's.
DESCRIBED = PUBLIC | {
    f"fk.{name}": getattr(fk, name)
    for name in fk.__all__
    if name not in _OTHERS and not inspect.ismodule(getattr(fk, name))
}
# Their examples compile for more than about a second.
SLOW = {
    *("fk.check", "fk.complete"),
    *(f"fk.diagnostics.{name}" for name in ("gradient_noise_share", "step_halving", "summarise")),
}
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


def described(text):
    """The arguments that a docstring lists."""
    return set(re.findall(r"\w+", " ".join(_NAMES.findall(text))))


@pytest.mark.parametrize("name", DESCRIBED)
def test_every_argument_is_described(name):
    function = DESCRIBED[name]
    text = inspect.getdoc(function)
    listed, parameters = described(text), set(inspect.signature(function).parameters)
    assert listed >= parameters, f"{name}: {parameters - listed} not described"
    assert listed <= parameters, f"{name} has no {listed - parameters}"
    if inspect.isfunction(function):
        assert re.search(r"^Returns ", text, re.MULTILINE), f"{name} does not say what it returns"
    assert _BLOCK.search(text), f"{name} has no example"


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in PUBLIC]
)
def test_the_example_runs(name):
    library = SimpleNamespace(**{**vars(fk), **{part: getattr(fk, part) for part in fk.__all__}})
    if not name.startswith("fk.diagnostics."):  # which need a trace
        library.sample = traced
    known = {"jax": jax, "jnp": jnp, "np": np, "target": TARGET, "posterior": POSTERIOR}
    for program in _BLOCK.findall(inspect.getdoc(PUBLIC[name])):
        exec(program, {"fk": library, **known})


def test_arguments_are_found_in_a_list():
    text = "Says.\n\n- `a`: one.\n- `b`, `c`,\n  `d`: of more than a line.\n- `*e`, `**f`: all, as `g`: so."
    assert described(text) == set("abcdef")
    assert described(text.replace("`a`:", "`a`")) == set("bcdef")
