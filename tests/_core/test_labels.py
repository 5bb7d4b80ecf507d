"""Names of axes and of their entries: in tables, reports, ArviZ and stored runs; what is refused."""

import datetime
import json
import warnings

import jax.numpy as jnp
import numpy as np
import pandas
import pytest
import xarray

import fokker as fk
from fokker._core.labels import NO_LABELS, Labels
from fokker.diagnostics._projections import project
from fokker.run.variable import write_entries

CITIES = ["Köln", r"$\Bonn$", "<b>Trier</b>"]
DAYS = np.array(["2024-01-01", "2024-02-29"], "datetime64[D]")


def log_density(theta):
    return -jnp.sum(theta["a"] ** 2) / 2 - jnp.sum(theta["nested"]["w"] ** 2) / 2


START = {"a": jnp.zeros(3), "nested": {"w": jnp.zeros((2, 3))}}
LABELS = {
    "dims": {"a": "city", "nested.w": ("day", "city")},
    "coords": {"city": CITIES, "day": DAYS},
}
NAMES = [f"a[{city}]" for city in CITIES] + [f"nested.w[{day},{city}]" for day in DAYS for city in CITIES]


def run(target, init=None, **options):
    init = START if init is None else init
    options = {"steps": 20, "chains": 2, "progress": False, **options}
    return fk.sample(target, fk.samplers.ula(0.1), init=init, **options)


@pytest.fixture(scope="module")
def trace():
    return run(fk.Density(log_density, **LABELS))


def test_tables_and_reports_have_the_entries(trace, tmp_path):
    summary = trace.summary(gradients=False)
    assert summary.names == NAMES
    assert "a[Köln]" in str(summary)
    trace.report(tmp_path / "report.html", summary=summary)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "a[Köln]" in page
    assert "<b>Trier" not in page  # a label is text, never part of the page


def test_arviz_has_dims_and_coords(trace):
    posterior = trace.to_arviz().posterior
    assert posterior["nested.w"].dims == ("chain", "draw", "day", "city")
    assert list(posterior["city"].values) == CITIES
    assert posterior["day"].values.astype("datetime64[D]").tolist() == DAYS.tolist()


def test_a_stored_run_keeps_them(trace, tmp_path):
    run(fk.Density(log_density, **LABELS), out=tmp_path / "run")
    trace.save(tmp_path / "saved")
    for folder in ("run", "saved"):
        stored = fk.open(tmp_path / folder)
        assert stored.labels == trace.labels
        assert stored.flat().names == NAMES
        assert list(stored.to_arviz().posterior["city"].values) == CITIES


def named_in_zarr(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Zarr, that texts are not in its standard yet
        return xarray.open_zarr(folder / "draws.zarr", group="posterior").load()


def test_the_draws_on_disk_have_them_for_other_programs(trace, tmp_path):
    trace.save(tmp_path / "saved")
    target = fk.Density(log_density, **LABELS)
    run(target, out=tmp_path / "run", chunk=4)
    for folder in ("run", "saved"):
        posterior = named_in_zarr(tmp_path / folder)
        assert posterior["nested.w"].dims == ("chain", "draw", "day", "city")
        assert list(posterior["city"].values) == CITIES
        assert posterior["day"].values.astype("datetime64[D]").tolist() == DAYS.tolist()
        np.testing.assert_array_equal(posterior["a"], trace.samples["a"])


def test_a_run_of_before_goes_on_and_has_them_then(tmp_path, monkeypatch):
    """Chunks of two draws, so that most are not in the checkpoint."""
    monkeypatch.setattr("fokker.run.store._CHUNK", 2 * 2 * 6 * 4)
    target = fk.Density(log_density, **LABELS)
    with monkeypatch.context() as before:
        before.setattr("fokker.run.folder._labels_of_files", lambda description: NO_LABELS)
        run(target, out=tmp_path, steps=14)
    assert named_in_zarr(tmp_path)["a"].dims == ("chain", "draw", "a_dim_0")
    draws = run(target, out=tmp_path, steps=20).samples["a"]
    posterior = named_in_zarr(tmp_path)
    assert list(posterior["a"]["city"].values) == CITIES
    np.testing.assert_array_equal(posterior["a"], draws)
    np.testing.assert_array_equal(run(target, steps=20).samples["a"], draws)


def test_entries_are_written_within_the_folder_alone(tmp_path):
    """Names of axes may be of a stranger's folder that is saved again."""
    dims = {"a": ["../../outside"], "nested.w": ["zarr.json", "nested.w|1"]}
    coords = {"../../outside": CITIES, "zarr.json": [1, 2]}
    run(fk.Density(log_density, dims=dims, coords=coords), out=tmp_path / "one" / "run")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one"]
    assert not (tmp_path / "one" / "run" / "outside").exists()
    posterior = named_in_zarr(tmp_path / "one" / "run")
    assert posterior["a"].dims == ("chain", "draw", "a_dim_0")
    assert list(fk.open(tmp_path / "one" / "run").labels.coords["../../outside"]) == CITIES


def test_an_axis_with_the_name_of_another_parameter_has_no_name():
    labels = Labels.checked({"a": ["b"]}, {"b": CITIES})
    assert labels.for_arviz({"a": (3,), "b": (2,)})["dims"] == {"a": ["a_dim_0"], "b": ["b_dim_0"]}
    assert labels.for_arviz({"a": (3,)})["dims"] == {"a": ["b"]}


def test_a_stored_run_keeps_the_constants_of_a_model(tmp_path):
    class WithConstants(fk.Density):
        def known_data(self):
            return {"constant_data": {"scale": np.float64(5.0)}}

    target = WithConstants(lambda theta: -jnp.sum(theta**2))
    run(target, jnp.zeros(2), out=tmp_path / "run").save(tmp_path / "saved")
    for folder in ("run", "saved"):
        constants = fk.open(tmp_path / folder).to_arviz().constant_data
        assert constants["scale"].shape == ()
        assert float(constants["scale"]) == 5.0


def test_constants_that_are_too_large_to_be_stored_are_said(tmp_path):
    class WithConstants(fk.Density):
        def known_data(self):
            return {"constant_data": {"x": np.zeros((2**15, 2))}}

    target = WithConstants(lambda theta: -jnp.sum(theta**2))
    with pytest.warns(
        RuntimeWarning, match=r"containers of the model \(x\) have 512 KiB together.*fk\.resume"
    ):
        trace = run(target, jnp.zeros(2), out=tmp_path / "run")
    assert trace.known_data()["constant_data"]["x"].shape == (2**15, 2)
    assert fk.open(tmp_path / "run").known_data() == {}


@pytest.mark.slow
def test_moments_and_many_scalars_have_them_too():
    posterior = fk.Posterior(
        lambda theta: -jnp.sum(theta**2) / 2,
        lambda theta, x: -jnp.sum((x - theta[0]) ** 2) / 2,
        np.ones(5),
        dims={"theta": ["row"]},
        coords={"row": [f"row {i}" for i in range(4)]},
    )
    names = [f"theta[row {i}]" for i in range(4)]
    positive = fk.constrain(posterior, "positive")
    assert positive.labels() == posterior.labels()
    assert run(positive, jnp.ones(4), keep="moments").summary().names == names
    rng = np.random.default_rng(0)
    draws = {"theta": rng.normal(size=(2, 20, 4)), "rest": rng.normal(size=(2, 20, 60))}
    assert [project(draws, posterior.labels()).leaves[0].scalar(i) for i in range(4)] == names


def test_entries_that_read_alike_do_not_make_two_scalars_alike():
    labels = Labels.checked({"a": ["city"]}, {"city": ["Bonn", "Bonn"]})
    assert [labels.scalar_name("a", (2,), i) for i in range(2)] == ["a[0]", "a[1]"]


def test_what_is_written_is_read_again():
    labels = Labels.checked(
        {"a": ["city", None, "day"], "b": ["at"]},
        {"city": CITIES, "day": [datetime.date(2024, 1, 1)], "at": DAYS, "x": [1.5, 2.5], "y": [True, False]},
    )
    again = Labels.read(labels.written())
    assert again == labels
    assert hash(again) == hash(labels)
    assert again.coords["at"].dtype == DAYS.dtype
    assert again != Labels.checked(labels.dims, {**labels.coords, "x": [1.5, 2.0]})


@pytest.mark.parametrize(
    "entries",
    [
        np.array([1, 2, 30], "timedelta64[D]"),
        np.array([1, 2, "NaT"], "timedelta64[ns]"),
        np.array(["2024-01", "2025-01", "NaT"], "datetime64[M]"),
        np.array([1.5, np.nan, np.inf], np.longdouble),
        np.array([True, False, True]),
        np.array([2**64 - 1, 0, 1], np.uint64),
        pandas.MultiIndex.from_tuples([(1, "a"), (2, "b"), (3, "c")]),
    ],
    ids=str,
)
def test_entries_of_any_type_are_stored(entries, tmp_path):
    density = fk.Density(log_density, dims={"a": ["lag"]}, coords={"lag": entries})
    labels = density.labels()
    again = Labels.read(json.loads(json.dumps(labels.written())))
    assert again.coords["lag"].dtype == labels.coords["lag"].dtype
    assert [str(x) for x in again.coords["lag"]] == [str(x) for x in labels.coords["lag"]]
    write_entries(tmp_path, "posterior", labels.coords)


@pytest.mark.parametrize("entries", [[b"a", b"b", b"c"], [1j, 2, 3], np.zeros(3, [("a", int)])], ids=str)
def test_entries_that_cannot_be_stored_are_refused_at_the_start(entries):
    with pytest.raises(TypeError, match=r"coords\['lag'\] has entries of the type .*: give texts"):
        fk.Density(log_density, dims={"a": ["lag"]}, coords={"lag": entries})


@pytest.mark.parametrize(
    "text",
    [
        None,
        3,
        {"dims": {}},
        {"dims": [], "coords": {}},
        {"dims": {"a": [3]}, "coords": {}},
        {"dims": {}, "coords": {"a": {"type": "O", "values": [1]}}},
        {"dims": {}, "coords": {"a": {"type": "<i8", "values": ["x"]}}},
        {"dims": {}, "coords": {"a": {"type": "<i8", "values": [[1]]}}},
    ],
)
def test_damaged_text_is_refused(text):
    with pytest.raises(ValueError, match="the names of axes are damaged"):
        Labels.read(text)


@pytest.mark.parametrize(
    ("dims", "coords", "message"),
    [
        ({"b": ["city"]}, None, r"dims names 'b', but the parameters are a, nested\.w"),
        ({"nestd.w": ["x", "y"]}, None, r"Did you mean 'nested\.w'"),
        ({"a": ["city", "day"]}, None, r"dims\['a'\] has 2 names, but the parameter has the shape \(3,\)"),
        ({"a": ["x"]}, {"x": [1]}, r"the axis 'x' has 3 entries in 'a', but coords\['x'\] has 1"),
        ({"a": ["x"], "nested.w": ["x", None]}, None, r"'x' has 2 entries in 'nested\.w', but a has 3"),
        ({"a": ["draw"]}, None, r"an axis 'draw', but the draws have an axis of that name"),
        ({"a": ["a"]}, None, r"an axis 'a', but a variable has that name"),
        ({"nested.w": ["x", "x"]}, None, r"names two axes alike"),
        (None, {"x": [[1, 2]]}, r"coords\['x'\] must be a list of entries"),
        (None, {"x": 3}, r"coords\['x'\] must be a list of entries.*3 was given"),
        (None, {"x": "abc"}, r"coords\['x'\] must be a list of entries.*'abc' was given"),
        ({"a": 3}, None, r"dims\['a'\] must be a list of names"),
        (["city"], None, r"dims must be a dictionary.*not list"),
        (None, ["city"], r"coords must be a dictionary.*not list"),
    ],
)
def test_names_that_do_not_fit_are_refused(dims, coords, message):
    with pytest.raises((TypeError, ValueError), match=message):
        run(fk.Density(log_density, dims=dims, coords=coords))


@pytest.mark.parametrize("name", ["chain", "draw"])
def test_a_parameter_with_the_name_of_an_axis_of_draws_is_refused(name):
    with pytest.raises(ValueError, match=f"called '{name}', which is the name of an axis"):
        run(fk.Density(lambda theta: -(theta[name] ** 2)), {name: jnp.zeros(())})


def test_draws_are_written_as_netcdf(trace, tmp_path):
    arviz = pytest.importorskip("arviz")
    trace.to_arviz().to_netcdf(str(tmp_path / "draws.nc"))
    posterior = arviz.from_netcdf(str(tmp_path / "draws.nc")).posterior
    assert list(posterior["city"].values) == CITIES
    np.testing.assert_array_equal(posterior["a"], trace.samples["a"])
