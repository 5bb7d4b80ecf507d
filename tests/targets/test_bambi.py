"""Targets from Bambi: the density of its model, its names, predictions and leave-one-out."""

import sys
import warnings

import jax
import numpy as np
import pandas as pd
import pytest

import fokker as fk
from documents import ROOT, programs, run

pytestmark = pytest.mark.dependencies


def test_without_bambi_the_message_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "bambi", None)
    with pytest.raises(ImportError, match=r"pip install 'fokker\[bambi\]'"):
        fk.from_bambi(None)


@pytest.fixture(scope="module")
def model():
    """Varying intercepts of three cities."""
    rng = np.random.default_rng(0)
    city, x = np.tile(["Köln", "Bonn", "Ulm"], 20), rng.normal(size=60)
    data = pd.DataFrame({"y": 1 + x / 2 + (city == "Köln") + rng.normal(size=60) / 2, "x": x, "city": city})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what Bambi uses of other libraries
        return pytest.importorskip("bambi").Model("y ~ x + (1|city)", data)


def test_another_object_is_refused(model):
    with pytest.raises(TypeError, match=r"must be a bambi.Model, not str"):
        fk.from_bambi("y ~ x")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("page", ["models.md", "coming_from/pymc.md"])
def test_the_program_of_a_page_runs(page):
    """Of the pages whose other programs need libraries that Bambi does not go with."""
    pytest.importorskip("bambi")
    shown = [block for block in programs(ROOT / "docs" / page) if "needs Bambi" in (block.not_run or "")]
    assert len(shown) == 1
    unread = {"not_run": None, "not_shown": "pages are compared where Bambi is missing"}
    assert not run(page, [block._replace(**unread) for block in shown])


@pytest.mark.filterwarnings("ignore")
def test_the_density_the_names_and_the_predictions_are_those_of_the_model(model):
    target = fk.from_bambi(model)
    pymc_model = model.backend.model
    log_density = pymc_model.compile_logp()

    def theirs(y):
        return float(
            log_density(
                {pymc_model.rvs_to_values[v].name: np.asarray(y[v.name], float) for v in pymc_model.free_RVs}
            )
        )

    points = [target.unconstrain(target.init(jax.random.key(seed))) for seed in (0, 1)]
    np.testing.assert_allclose(
        [-float(target.potential(y)) for y in points], [theirs(y) for y in points], rtol=1e-5
    )
    trace = fk.sample(target, fk.samplers.nuts(0.05), init=target.init, steps=6, chains=1, progress=False)
    data = trace.to_arviz(log_likelihood=True, predictive=trace.predict(key=jax.random.key(0)))
    assert list(data["posterior"]["1|city"].coords["city__factor_dim"].values) == ["Bonn", "Köln", "Ulm"]
    assert data["log_likelihood"]["y"].shape == data["posterior_predictive"]["y"].shape == (1, 6, 60)
    new = pd.DataFrame({"x": [0.0, 1.0], "city": ["Bonn", "Ulm"]})
    predicted = model.predict(data, data=new, inplace=False)["posterior"]["mu"]
    draws = trace.samples
    np.testing.assert_allclose(
        np.asarray(predicted[0, :, 1] - predicted[0, :, 0]),
        draws["x"][0]
        + draws["1|city_sigma"][0] * (draws["1|city_offset"][0, :, 2] - draws["1|city_offset"][0, :, 0]),
        rtol=1e-4,
    )
