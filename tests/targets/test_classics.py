"""The models of docs/classics.md: three ways of writing each have one density."""

import inspect
import re
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fokker as fk
from conftest import quick_jit
from fokker._core.precision import computing_in
from fokker._core.state import ravel, unravel
from fokker._core.statistics import effective_sample_size
from marks import long_case

pytestmark = [
    pytest.mark.dependencies,
    pytest.mark.filterwarnings("ignore"),  # of what PyMC and NumPyro use of others
]

PAGE = Path(__file__).parents[2] / "docs" / "classics.md"
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
INTRODUCTION, *SECTIONS = PAGE.read_text(encoding="utf-8").split("\n## ")
MODELS = {section.splitlines()[0]: _BLOCK.findall(section) for section in SECTIONS}
# Those that are compared with PyMC every time: converting a model of PyMC takes seconds.
QUICK = {"A mixture"}


def as_pymc(name, theta):
    """theta in the variables of the PyMC model, where they are others."""
    if not name.startswith("Varying slopes"):
        return theta
    factor = theta["scale"][:, None] * theta["L"]
    rest = {n: x for n, x in theta.items() if n not in ("L", "scale")}
    return {**rest, "L": factor[np.tril_indices(2)]}


def run(name, ways):
    """The names that a section defines; `ways`: how many of its programs run: Fokker, NumPyro and PyMC."""
    space = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for program in [*_BLOCK.findall(INTRODUCTION), *MODELS[name][:ways]]:
            exec(program, space)
    return space


def log_densities(targets, name, points):
    """log p of each target in the unconstrained coordinates of the first, at points of these."""
    first, *others = targets

    def of_first(y):
        return -first.potential(y)

    def of_other(other, convert):
        def log_density(y):
            def move(x):
                theta = first.constrain(unravel(x, y))
                return other.unconstrain(as_pymc(name, theta) if convert else theta)

            jacobian = jax.jacobian(lambda x: ravel(move(x)))(ravel(y))
            return jnp.linalg.slogdet(jacobian)[1] - other.potential(move(ravel(y)))

        return log_density

    functions = [of_first, *(of_other(other, number == 1) for number, other in enumerate(others))]
    return np.array([[float(f(y)) for y in points] for f in map(quick_jit, functions)])


def test_there_are_ten():
    assert len(MODELS) == 10
    assert all(len(programs) == 3 for programs in MODELS.values())


@pytest.mark.parametrize(
    ("name", "ways"),
    [
        *((name, 3 if name in QUICK else 2) for name in MODELS),
        *(pytest.param(name, 3, marks=pytest.mark.slow) for name in MODELS if name not in QUICK),
    ],
)
def test_the_log_densities_differ_by_a_constant(name, ways):
    with computing_in("double"), jax.numpy_rank_promotion("allow"):  # which NumPyro and PyMC use
        space = run(name, ways)
        targets = [space[n].stored() for n in ("target", "with_numpyro", "with_pymc")[:ways]]
        keys = jax.random.split(jax.random.key(0), 3)
        starts = [targets[0].unconstrain(targets[1].init(key)) for key in keys]
        points = [jax.tree.map(lambda x: x / 5, y) for y in starts]  # PyMC rounds far tails of times to zero
        values = log_densities(targets, name, points)
    changes = values - values[:, :1]
    scale = np.abs(values).max()
    np.testing.assert_allclose(changes[1:], np.broadcast_to(changes[0], changes[1:].shape), atol=1e-6 * scale)
    assert np.abs(changes[0]).max() > 1e-3 * scale  # or all would agree with anything


def test_ordinal_answers_have_gradients_far_out():
    """In single precision, where the difference of two sigmoids is 0 and its logarithm infinite."""
    log_likelihood = run("Ordinal answers", 1)["log_likelihood"]
    theta = {"cut": jnp.array([-1.5, 0.0, 1.5]), "b": jnp.array(30.0)}
    for y, value in enumerate((0.0, -37.752, -39.252, -40.5)):
        row = {"x": jnp.array(-1.3), "y": y}
        found, gradient = jax.value_and_grad(log_likelihood)(theta, row)
        np.testing.assert_allclose(found, value, atol=1e-3)
        assert all(np.isfinite(part).all() for part in gradient.values())


def by_numpyro(name, draws):
    """theta by name, each chain × draw × …: NumPyro's NUTS."""
    from numpyro.infer import MCMC, NUTS

    space = run(name, 2)
    arguments = re.search(r"from_numpyro\(model,(.*)\)", MODELS[name][1]).group(1)
    settings = {"num_warmup": draws // 2, "num_samples": draws, "num_chains": 2, "progress_bar": False}
    theirs = MCMC(NUTS(space["model"]), chain_method="sequential", **settings)
    theirs.run(jax.random.key(1), *eval(f"({arguments},)", space))
    return theirs.get_samples(group_by_chain=True)


def by_pymc(name, draws):
    """The same by PyMC's."""
    import pymc as pm

    settings = {"chains": 2, "cores": 1, "progressbar": False, "compute_convergence_checks": False}
    with run(name, 3)["model"]:
        posterior = pm.sample(draws, tune=draws // 2, random_seed=1, **settings).posterior
    return {leaf: np.asarray(posterior[leaf]) for leaf in posterior.data_vars}


@pytest.fixture
def contexts_of_their_own(monkeypatch):
    """A program lowered while another is, as by NumPyro's transformations, has a context of its own."""
    from jax._src.interpreters import mlir

    monkeypatch.setattr(mlir, "make_ir_context", inspect.unwrap(mlir.make_ir_context))


# PyMC's NUTS takes minutes for the process of 200 points.
REPEATED = [
    (name, others)
    for name in MODELS
    for others in (by_numpyro, by_pymc)
    if not name.startswith(("Radon", "Survival")) and not ("200 points" in name and others is by_pymc)
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "others"),
    [
        ("Radon: varying intercepts", by_numpyro),
        ("Survival with censoring", by_pymc),
        long_case("classics::draws_are_those_of_others", "Radon: varying intercepts", by_pymc),
        long_case("classics::draws_are_those_of_others", "Survival with censoring", by_numpyro),
        *(long_case("classics::draws_are_those_of_others", *case) for case in REPEATED),
    ],
)
def test_draws_are_those_of_others(optimised, contexts_of_their_own, name, others):
    """Means and mean squares: 40 of each exceed 4.5 standard errors by chance once in 2,000 runs."""
    draws = 100 if "200 points" in name else 1000  # each step factorises a matrix of 200 rows
    with jax.numpy_rank_promotion("allow"):
        space = run(name, 2)
        trace = fk.sample(
            space["target"], init=space["with_numpyro"].init, steps=draws, chains=2, progress=False
        )
        theirs = others(name, draws)
    compared = {leaf: x for leaf, x in trace.samples.items() if np.size(theirs.get(leaf, ())) == np.size(x)}
    assert set(trace.samples) - set(compared) <= ({"L", "scale"} if others is by_pymc else set())
    for leaf, ours in compared.items():
        both = [np.asarray(x, float).reshape(2, draws, -1) for x in (ours, theirs[leaf])]
        both = [x[..., both[0].std((0, 1)) > 0] for x in both]  # entries of a factor that are 0 or 1
        for power in (1, 2):
            means, errors = zip(*(mean_and_error(x**power) for x in both), strict=True)
            assert np.all(np.abs(means[0] - means[1]) < 4.5 * np.hypot(*errors)), (leaf, power)
            noticed = 1 if name.startswith(("Radon", "Survival")) else 2  # standard deviations
            shifted = means[1] + noticed * both[1].std((0, 1)) * (power == 1)
            assert power == 2 or np.all(np.abs(means[0] - shifted) > 4.5 * np.hypot(*errors))


def mean_and_error(x):
    """The mean of each scalar over chains and draws, and its Monte Carlo error."""
    return x.mean((0, 1)), x.std((0, 1)) / np.sqrt(effective_sample_size(x, "mean"))
