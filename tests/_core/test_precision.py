"""Data that single precision would round noticeably are refused everywhere; and runs in double precision."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

import fokker as fk
from fokker.cli import app
from fokker.diagnostics.summary import _form
from fokker.rows.precision import PrecisionError
from fokker.run.call import Call, Options
from fokker.run.precision import in_precision
from fokker.run.predict import predict

DAYS = 2460000.6 + 0.1 * np.random.default_rng(0).normal(size=225)
SECONDS = np.arange(1_700_000_000, 1_700_001_000)


def log_prior(theta):
    return 0.0 * theta


def log_likelihood(theta, datum):
    return -(((datum - theta) / 0.1) ** 2) / 2


def posterior(data, **options):
    return fk.Posterior(log_prior, log_likelihood, data, **options)


def normal(*shape):
    return np.random.default_rng(1).normal(size=shape)


# Whose spread is far larger than their steps: the difference alone is lost.
BOTH = 1.6e9 + 1e7 * normal(100)[:, None] + np.stack([np.zeros(100), 10 + normal(100)], 1)
REFUSED = {
    "days": DAYS,
    "seconds minus nothing": SECONDS.astype(float),
    "one column of a matrix": np.stack([normal(50), 1e6 + 0.1 * normal(50)], 1),
    "many rows of a wide spread": np.linspace(1997.5, 2002.7, 4_000_000),
    "negative": -DAYS,
    "big-endian": DAYS.astype(">f8"),
    "a start and an end": {
        "start": 1.6e9 + 1e7 * normal(100),
        "end": 1.6e9 + 1e7 * normal(100) + 10 + normal(100),
    },
    "a start and an end in a matrix": BOTH,
    "seconds as whole numbers and not": {"start": BOTH[:, 0].astype(np.int64), "end": BOTH[:, 1]},
    "complex": DAYS + 1j * normal(225),
    "the other part": normal(225) + 1j * DAYS,
    "days of some years": 2459000 + 1095 * np.random.default_rng(0).random(1000),
    "days of ten years, twice": 2459000 + 3650 * np.random.default_rng(0).random((2000, 2)),
    "two groups": np.where(normal(1000) > 0, 1.6e9, 1.7e9) + 10 * np.random.default_rng(2).normal(size=1000),
    "a group far from zero": np.where(normal(1000) > 1, 0.0, 1.7e9) + 10 * normal(1000),
}


@pytest.mark.parametrize("name", REFUSED)
def test_data_that_single_precision_rounds_are_refused_with_the_remedy(name):
    with pytest.raises(PrecisionError, match=r"subtract a constant.*precision='double'"):
        posterior(REFUSED[name])
    with jax.enable_x64(True):
        posterior(REFUSED[name])


@pytest.mark.parametrize(
    "data",
    [
        DAYS - 2460000.6,
        DAYS.astype(np.float32),
        np.full(100, 2460000.6),
        normal(1000) * 1e30,
        np.random.default_rng(0).standard_cauchy(100_000),
        2000 + 10 * normal(100_000),
        np.arange(20_000_000.0, 20_000_100.0, 2.0),  # which single precision has exactly
        np.where(normal(1000, 3) > 2.5, 1e7 + 0.1, 0.0),
        {"start": 10 * normal(100), "end": 10 * normal(100)},
        np.zeros((3, 0)),
        np.random.default_rng(0).random(200_000),
        np.round(1000 + normal(10_000), 3),
        np.round(2023 + np.arange(365) / 365, 6),
        np.round(12_345 + 3000 * normal(100_000), 2),
        np.arange(1000.0) * 0.1 + np.repeat([0.0, 1e-14], 500),
        1.0 + 2e-16 * np.arange(5),
        np.stack([normal(50), normal(50) * 0 + 0.1 + 0.2 * np.tile([1, 1 + 2e-16], 25)], 1),
        np.stack([20 + 5 * normal(200), 293.15 + 5 * normal(200)], 1),
        np.arange(1_000_000_007, 1_000_000_107),
        np.random.default_rng(0).integers(0, 10**9, 1000).astype(float),
        np.exp(normal(1000) * 10) * (1 + 1j),
    ],
    ids=[
        "centred",
        "single",
        "constant",
        "huge",
        "heavy tails",
        "years",
        "even",
        "rare",
        "two",
        "no column",
        "uniform",
        "three decimals",
        "days in years",
        "prices",
        "rounding of sums",
        "constant but for rounding",
        "a column that is",
        "Celsius and Kelvin",
        "identifiers",
        "identifiers as floats",
        "complex",
    ],
)
def test_data_that_lose_nothing_to_speak_of_are_taken(data):
    posterior(data)


@pytest.mark.parametrize(
    "data",
    [
        np.array([1.0, 1e-50]),
        np.array([[1.0, 2.0], [0.0, -1e-40]]),
        np.array([1.0, 1e-39], np.float32),
        np.array([1.0 + 1e-60j]),
    ],
    ids=["zero", "subnormal", "single", "complex"],
)
def test_numbers_that_become_zero_are_refused(data, tmp_path):
    with pytest.raises(ValueError, match=r"that is 0 in .*first in row .*multiply the data by a constant"):
        posterior(data)
    if data.ndim == 2:
        with pytest.raises(ValueError, match="that is 0 in float32"):
            fk.models.Network((4,), progress=False).fit(data, normal(2))
        with jax.enable_x64(True):
            posterior(data)


def test_numbers_wider_than_those_of_jax_are_refused():
    if np.dtype(np.longdouble).itemsize > 8:
        with pytest.raises(TypeError, match=r"which JAX does not have: .*astype\(float\)"):
            posterior(normal(5).astype(np.longdouble))


def test_rows_to_predict_must_be_told_apart_and_no_more():
    """How many there are, and how close, says nothing of the scale that a function depends on."""
    draws = np.zeros((1, 2), np.float32)
    fine = 1.0 + np.linspace(0, 1e-3, 2_000)
    with pytest.raises(PrecisionError):
        posterior(fine)
    assert predict(lambda theta, x: x, draws, fine, (), None, 1, "mean", False).shape == (2_000,)
    with pytest.raises(PrecisionError, match="neighbouring values equal"):
        predict(lambda theta, x: x, draws, 2460000 + np.linspace(0, 1, 50), (), None, 1, "mean", False)


def test_files_and_streams_are_looked_at(tmp_path):
    h5py, zarr, pandas = (pytest.importorskip(name) for name in ("h5py", "zarr", "pandas"))
    np.save(tmp_path / "days.npy", DAYS)
    pandas.DataFrame({"days": DAYS}).to_parquet(tmp_path / "days.parquet")
    array = zarr.create_array(str(tmp_path / "days.zarr"), shape=DAYS.shape, chunks=(50,), dtype="f8")
    array[:] = DAYS
    with h5py.File(tmp_path / "days.h5", "w") as file:
        file.create_dataset("days", data=DAYS, chunks=(50,))
    with h5py.File(tmp_path / "days.h5") as file:
        sources = [str(tmp_path / "days.npy"), str(tmp_path / "days.parquet"), array, file["days"]]
        for data in sources:
            with pytest.raises(PrecisionError, match="single precision"):
                posterior(data)
            assert fk.rows.leaves(posterior(data, precision="double").data)[0].dtype == np.float64
    for stream in ((DAYS[:50] for _ in range(3)), lambda: iter([DAYS[:50]])):
        with pytest.raises(PrecisionError, match="for 225 rows"):
            posterior(stream, size=225)


def test_a_sorted_file_is_known_by_rows_of_all_parts_of_it(tmp_path):
    np.save(tmp_path / "sorted.npy", np.sort(1e6 + 1000 * normal(100_000)))
    posterior(str(tmp_path / "sorted.npy"))


@pytest.mark.parametrize(
    ("likelihood", "is_refused"),
    [
        (lambda theta, t: -((t - 1.7e9 - theta) ** 2), True),
        (lambda theta, t: jax.jit(lambda t: -theta * jnp.log1p(t))(t), True),
        (lambda theta, t: jax.lax.cond(theta > 0, lambda t: 1.0 * t, lambda t: -theta, t), True),
        (lambda theta, t: -(((t - 1_700_000_000) - theta) ** 2), False),
        (lambda theta, t: -theta * (t == 1_700_000_100), False),
        (lambda theta, t: -theta, False),
    ],
    ids=["difference", "logarithm in jit", "in a condition", "whole difference", "comparison", "unused"],
)
def test_whole_numbers_are_refused_where_a_model_rounds_them(likelihood, is_refused):
    target = fk.Posterior(log_prior, likelihood, SECONDS)
    if not is_refused:
        target.validate(jnp.array(0.5))
        return
    with pytest.raises(PrecisionError, match="steps of 128"):
        target.validate(jnp.array(0.5))
    fk.Posterior(log_prior, likelihood, SECONDS - 1_700_000_000).validate(jnp.array(0.5))


def test_estimators_refuse_what_they_would_round():
    with pytest.raises(PrecisionError, match=r"X, column 0, and X, column 1, differ by -9"):
        fk.models.Network((4,), progress=False).fit(BOTH, normal(100))
    with pytest.raises(PrecisionError, match=r"X, column 1, is about 2460000.* ± 0.09.*as in x - 2460000.6"):
        fk.models.Network((4,), progress=False).fit(np.stack([normal(225), DAYS], 1), normal(225))
    users = np.arange(225)
    with pytest.raises(PrecisionError, match=r"steps of 0\.25"):
        fk.models.Factorisation(2, progress=False).fit(users, users, DAYS)


@pytest.mark.slow
@pytest.mark.parametrize("data", ["arrays", "file", "stream"])
def test_a_run_in_double_precision_finds_a_mean_that_single_cannot_store(data, tmp_path):
    np.save(tmp_path / "days.npy", DAYS)
    given = {"arrays": DAYS, "file": str(tmp_path / "days.npy"), "stream": lambda: iter(DAYS.reshape(5, 45))}
    target = posterior(given[data], precision="double", size=225 if data == "stream" else None)
    options = {"steps": 60, "chains": 2, "progress": False, "init": jnp.float32(2460000.5)}
    options |= {} if data == "stream" else {"batch_size": 45}
    # The step takes all the way to the mean: -ε U' = -(θ - mean), with the noise of SGLD.
    sampler = fk.samplers.sgld(0.1**2 / 225)
    trace = fk.sample(target, sampler, out=tmp_path / "run", **options)
    assert trace.samples.dtype == np.float64
    assert abs(trace.samples[:, 20:].mean() - DAYS.mean()) < 0.01  # of 0.25 between neighbours in single
    # What the trace computes later, and a run that goes on without naming the precision.
    if data != "stream":
        assert trace.log_likelihood(progress=False).dtype == np.float64
        longer = fk.sample(target, sampler, out=tmp_path / "run", **{**options, "steps": 80})
        np.testing.assert_array_equal(longer.samples[:, :60], trace.samples)
    assert fk.open(tmp_path / "run").settings["precision"] == "double"


def test_a_target_of_single_precision_runs_in_double_where_asked(tmp_path):
    centred = DAYS - 2460000.6
    options = {"init": lambda key: jnp.zeros((), jnp.float32), "steps": 20, "chains": 2, "progress": False}
    sampler = fk.samplers.sgld(1e-5)
    trace = fk.sample(posterior(centred), sampler, precision="double", out=tmp_path, **options)
    assert trace.samples.dtype == np.float64
    assert np.isfinite(trace.log_likelihood(progress=False)).all()
    assert jnp.zeros(()).dtype == np.float32  # outside of it nothing has changed
    again = fk.sample(posterior(centred), sampler, out=tmp_path, **{**options, "steps": 30})
    np.testing.assert_array_equal(again.samples[:, :20], trace.samples)
    with pytest.raises(ValueError, match="precision is 'double', or None"):
        fk.sample(posterior(centred), sampler, precision="quadruple", **options)


def test_tuning_is_in_the_precision_of_the_run(monkeypatch):
    """Of data that are in double precision, without naming it, and where it is named."""
    types = []

    def tuned(target, sampler, options, *rest):
        types.append({jnp.zeros(()).dtype, target.data.dtype, options.init.dtype, sampler.step_size.dtype})

    monkeypatch.setattr("fokker.run.api.tuned", tuned)
    sampler, start = fk.samplers.sgld(jnp.float32(1e-5)), jnp.zeros((), jnp.float32)
    fk.tune(posterior(DAYS, precision="double"), sampler, init=start)
    fk.tune(posterior(DAYS - 2460000.6), sampler, init=start, precision="double")
    fk.tune(posterior(DAYS - 2460000.6), sampler, init=start)
    assert types == [{np.dtype(np.float64)}, {np.dtype(np.float64)}, {np.dtype(np.float32)}]
    with pytest.raises(ValueError, match="precision is 'double', or None"):
        fk.tune(posterior(DAYS - 2460000.6), sampler, init=start, precision="half")


MODEL = """
import jax.numpy as jnp
def log_prior(theta): return 0.0 * theta
def log_likelihood(theta, datum): return -((datum["t"] - theta) / 0.1) ** 2 / 2
init = jnp.array(2460000.5)
def predict(theta, datum): return theta - datum["t"]
"""


@pytest.mark.slow
def test_the_command_refuses_or_runs_in_double_and_goes_on_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(MODEL)
    np.savetxt("t.csv", DAYS, header="t", comments="", fmt="%.6f")
    command = ["sample", "model.py", "--data", "t.csv", "--steps", "60", "--sampler", "sgld", "--chains", "2"]
    command += ["--step-size", str(0.1**2 / 225), "--out", "run"]
    result = CliRunner().invoke(app, command)
    assert "--double" in str(result.exception)
    CliRunner().invoke(app, [*command, "--double"])
    assert json.loads((tmp_path / "run" / "command.json").read_text())["precision"] == "double"
    CliRunner().invoke(app, ["resume", "run", "--steps", "80"])
    draws = fk.open(tmp_path / "run").samples
    assert draws.shape[1] == 80
    assert abs(draws[:, 20:].mean() - DAYS.mean()) < 0.01
    np.savetxt("new.csv", DAYS[:3] * 1.0, header="t", comments="", fmt="%.6f")
    result = CliRunner().invoke(app, ["predict", "run", "--data", "new.csv", "--out", "p.csv"])
    assert result.exit_code == 0
    predicted = np.loadtxt("p.csv", delimiter=",", skiprows=1)[:, :]
    np.testing.assert_allclose(predicted[:, 1], DAYS.mean() - DAYS[:3], atol=0.02)


def test_a_table_shows_the_digits_that_the_spread_resolves():
    draws = 2460000.6018 + 0.0021 * np.random.default_rng(0).normal(size=(4, 500))
    digits = _form(draws.mean(), draws.std(), draws.size)
    assert f"{draws.mean():{digits}}".startswith("2460000.60")
    assert _form(0.5, 1.0, 1000.0) == ".2f"  # one precision for mean, deviation and quantiles of a row
    assert _form(0.5, 1.0, 1e5) == ".3f"
    assert _form(np.nan, 1.0, 1000.0) == _form(1.0, 0.0, 1000.0) == ".4g"


def days_of_numpyro(y):
    import numpyro
    import numpyro.distributions as dist

    mean = numpyro.sample("mean", dist.Normal(2460000.0, 10.0))
    with numpyro.plate("rows", y.shape[0]):
        numpyro.sample("y", dist.Normal(mean, 0.1), obs=y)


def models_of_days(library):
    """Targets of the days with theta {"mean": …}: whole, by minibatches, with the data as a constant."""
    if library == "numpyro":
        pytest.importorskip("numpyro")
        return [fk.from_numpyro(days_of_numpyro, DAYS, subsample=rows) for rows in (None, "rows")]
    pm = pytest.importorskip("pymc")
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mean", 2460000, 10), 0.1, observed=pm.Data("days", DAYS))
    with pm.Model() as constant:
        pm.Normal("y", pm.Normal("mean", -2460000, 10) + DAYS, 0.1, observed=np.zeros(len(DAYS)))
    return [fk.from_pymc(model), fk.from_pymc(model, subsample=["days"]), fk.from_pymc(constant)]


def called(target):
    return Call(target, fk.samplers.sgld(0.1), Options(init=None, steps=1))


@pytest.mark.slow
@pytest.mark.dependencies
@pytest.mark.parametrize("library", ["numpyro", "pymc"])
def test_models_of_other_libraries_keep_their_data_until_the_precision_is_known(library):
    for place, target in enumerate(models_of_days(library)):
        with pytest.raises(PrecisionError, match=r"single precision stores it in steps of .*fk\.sample\("):
            in_precision(None, called(target))
        with jax.enable_x64(True):
            wide = in_precision("double", called(target)).target
            centre = DAYS.mean() if place < 2 else -DAYS.mean()
            slope = jax.grad(lambda mean: wide.potential({"mean": mean}))  # noqa: B023
            # That of the prior alone is left at the mean of the data: 0.006, of 22500 per day.
            assert abs(float(slope(jnp.array(centre, float)))) < 0.1
            assert wide.stored() is wide


@pytest.mark.dependencies
def test_a_run_of_a_model_in_double_precision_finds_the_mean():
    pytest.importorskip("numpyro")
    target = fk.from_numpyro(days_of_numpyro, DAYS)
    options = {"init": {"mean": 2460000.5}, "steps": 60, "chains": 2, "progress": False}
    trace = fk.sample(target, fk.samplers.sgld(0.1**2 / 225), precision="double", **options)
    assert abs(trace.samples["mean"][:, 20:].mean() - DAYS.mean()) < 0.01
    with pytest.raises(PrecisionError, match=r"the argument y is about 2460000"):
        fk.sample(target, fk.samplers.sgld(0.1**2 / 225), **options)


@pytest.mark.dependencies
def test_a_model_may_mark_what_it_leaves_out_by_nan():
    numpyro = pytest.importorskip("numpyro")

    def model(y):
        with numpyro.handlers.mask(mask=jnp.isfinite(y)):
            days_of_numpyro(jnp.nan_to_num(y))

    holed = np.where(np.arange(225) == 3, np.nan, DAYS)
    fk.from_numpyro(model, holed - 2460000.6).stored()
    with pytest.raises(PrecisionError, match="the argument y"):
        fk.from_numpyro(model, holed).stored()
