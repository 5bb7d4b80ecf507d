"""Labels of categories along the axes of parameters that a likelihood indexes by them."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas
import pytest

import fokker as fk
from fokker.rows import categories_of

CITIES = ["Bonn", "Köln", "Trier"]
RNG = np.random.default_rng(0)
FRAME = pandas.DataFrame(
    {
        "x": RNG.normal(size=12),
        "city": pandas.Categorical([CITIES[i % 3] for i in range(12)]),
        "size": pandas.Categorical(["small", "large"] * 6, categories=["small", "large"], ordered=True),
    }
)


def log_prior(theta):
    return -sum(jnp.sum(x**2) for x in jax.tree.leaves(theta)) / 2


def log_likelihood(theta, row):
    """Effects by city, not centred; by city and size; and three coefficients that are of no city."""
    effect = theta["scale"] * theta["a"][row["city"]] + theta["both"][row["size"], row["city"]]
    powers = jnp.stack([row["x"], row["x"] ** 2, row["x"] ** 3])
    shifted = jnp.concatenate([jnp.zeros(1), theta["rest"]])[row["city"]]
    return -((row["x"] - effect - powers @ theta["w"] - shifted) ** 2) / 2


INIT = {"a": jnp.zeros(3), "both": jnp.zeros((2, 3)), "rest": jnp.zeros(2), "scale": 0.0, "w": jnp.zeros(3)}


def run(target, init=None, **options):
    init = INIT if init is None else init
    return fk.sample(target, fk.samplers.ula(1e-3), init=init, steps=6, chains=2, progress=False, **options)


@pytest.fixture(scope="module")
def posterior():
    return fk.Posterior(log_prior, log_likelihood, FRAME)


@pytest.fixture(scope="module")
def trace(posterior):
    return run(posterior)


def test_categories_of_a_frame_are_codes_with_labels(posterior):
    assert dict(categories_of(posterior.data).values()) == {"city": CITIES, "size": ["small", "large"]}
    np.testing.assert_array_equal(posterior.data["city"], np.arange(12) % 3)
    np.testing.assert_array_equal(posterior.data["size"], np.arange(12) % 2)
    nested = {"first": np.zeros(12), "second": FRAME}
    assert list(categories_of(fk.Posterior(log_prior, abs, nested).data)) == [1, 2]
    missing = FRAME.assign(city=FRAME["city"].cat.remove_categories("Bonn")).iloc[:9]
    with pytest.raises(ValueError, match=r"data\['city'\] has 3 missing values, first in row 0"):
        fk.Posterior(log_prior, log_likelihood, missing)


def test_an_axis_that_a_column_indexes_has_its_labels_and_no_other(trace, tmp_path):
    """`w` has as many entries as there are cities, `rest` as many as sizes: neither is indexed by them."""
    assert trace.labels.dims == {"a": ("city",), "both": ("size", "city")}
    wanted = ["a[Bonn]", "a[Köln]", "a[Trier]", "both[small,Bonn]"]
    assert trace.flat().names[:4] == wanted
    assert trace.flat().names[-3:] == ["w[0]", "w[1]", "w[2]"]
    trace.save(tmp_path / "saved")
    posterior = fk.open(tmp_path / "saved").to_arviz().posterior
    assert posterior["both"].dims == ("chain", "draw", "size", "city")
    assert list(posterior["city"].values) == CITIES


@pytest.mark.slow
def test_a_run_on_disk_and_a_constrained_one_have_them(posterior, tmp_path):
    init = {**INIT, "scale": 1.0}
    positive = run(fk.constrain(posterior, {"scale": "positive"}), init, out=tmp_path / "run")
    assert positive.labels.dims == {"a": ("city",), "both": ("size", "city")}
    assert fk.open(tmp_path / "run").flat().names[1] == "a[Köln]"
    assert run(posterior, lambda key: INIT).labels == positive.labels


@pytest.mark.slow
def test_names_of_the_user_come_first_and_get_the_labels():
    target = fk.Posterior(
        log_prior,
        log_likelihood,
        FRAME,
        dims={"a": ["place"], "w": ["city"]},
        coords={"place": ["b", "k", "t"]},
    )
    assert list(target.labels().coords["city"]) == CITIES
    names = run(target).flat().names
    assert (names[0], names[-1], names[3]) == ("a[b]", "w[Trier]", "both[small,Bonn]")


def test_a_parameter_with_the_name_of_the_column_has_another_name_for_its_axis():
    target = fk.Posterior(
        log_prior, lambda theta, row: -((row["x"] - theta["city"][row["city"]]) ** 2), FRAME[["x", "city"]]
    )
    trace = run(target, {"city": jnp.zeros(3)})
    assert trace.labels.dims == {"city": ("city_level",)}
    assert trace.flat().names == [f"city[{city}]" for city in CITIES]


def test_one_category_and_a_theta_that_does_not_fit_name_nothing():
    one = FRAME.assign(city=pandas.Categorical(["Bonn"] * 12))
    target = fk.Posterior(
        log_prior, lambda theta, row: -((row["x"] - theta["a"][row["city"]]) ** 2), one[["x", "city"]]
    )
    assert run(target, {"a": jnp.zeros(1)}).labels.dims == {}
    with pytest.raises(
        ValueError, match="log_likelihood uses the name 'a', which is missing: theta, by init, has b"
    ):
        run(target, {"b": jnp.zeros(1)})


def test_new_rows_have_the_codes_of_the_run(trace, tmp_path):
    new = pandas.DataFrame({"city": pandas.Categorical(["Trier", "Köln"])})
    trace.save(tmp_path / "saved")
    for one in (trace, fk.open(tmp_path / "saved")):
        effects = one.predict(lambda theta, rows: theta["a"][rows["city"]], new, progress=False)
        np.testing.assert_array_equal(effects, one.samples["a"][:, :, [2, 1]])
    paris = pandas.DataFrame({"city": pandas.Categorical(["Paris", "Köln"])})
    with pytest.raises(ValueError, match="'city' has 'Paris', a category that the run has not seen"):
        trace.predict(lambda theta, rows: theta["a"][rows["city"]], paris)
    with pytest.raises(ValueError, match="'town' is a column of categories, but the run has no labels"):
        trace.predict(lambda theta, rows: rows["town"], new.rename(columns={"city": "town"}))
