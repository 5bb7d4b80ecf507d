"""All estimators have one base: one vocabulary, seeds, files, and what scikit-learn asks for."""

import copy
import dataclasses
import datetime
import inspect
import json
import pickle
import re
import uuid
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone, is_regressor
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import check_estimator
from typer.main import get_command

import fokker as fk
from estimators import ESTIMATORS, fitted
from fokker._core.files import DamagedFileError, read_arrays, write_arrays
from fokker.cli import app
from fokker.datasets.ratings import Ratings
from fokker.diagnostics import Finding, Grade, Verdict
from fokker.diagnostics._findings import Cause
from fokker.models.checks import one_of, optional, positive, whole, within
from fokker.models.estimator import Estimator, NotFittedError, _Parameters, new_seed
from fokker.models.factorisation.chain import TABLES, Draw
from fokker.models.factorisation.features import no_covariates
from fokker.models.factorisation.hyperparameters import Hyperparameters, equal_noise
from fokker.models.network.training import NetworkPosterior
from fokker.models.topics.settings import DECLARED, Settings
from marks import long_case

pytestmark = pytest.mark.dependencies

ALL = [getattr(fk.models, name) for name in fk.models.__all__]
COUNTS = np.array([[4, 3, 2, 1, 0, 0], [0, 0, 1, 2, 3, 4]] * 8)
LDA = {"batch_size": 8, "sweeps": 4, "burn_in": 2, "passes": 2, "n_jobs": 1, "start_documents": 0}


_ALWAYS = {"random_state", "progress", "draws"}


@pytest.mark.parametrize("kind", ALL)
def test_every_estimator_speaks_one_vocabulary(kind):
    assert issubclass(kind, BaseEstimator)
    parameters = list(inspect.signature(kind).parameters.values())
    names = {p.name for p in parameters}
    lacking = _ALWAYS - names
    assert not lacking, "all estimators have these parameters"
    of_minibatches = {"passes", "batch_size"}
    assert len(of_minibatches & names) != 1, "those that take minibatches have both of passes and batch_size"
    others = names & {"seed", "key", "epochs", "iterations", "n_iter", "n_samples", "verbose"}
    assert not others, f"other names for one of {', '.join(sorted({*_ALWAYS, *of_minibatches}))}"
    by_place = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
    assert by_place == [parameters[0].name], "only the first is given by its place: _: KW_ONLY follows it"
    undescribed = [name for name in sorted(names) if not re.search(rf"\b{name}\b", inspect.getdoc(kind))]
    assert not undescribed, f"the docstring of {kind.__name__} does not describe these parameters"
    changed = kind(draws=7, random_state=3)
    assert clone(changed).get_params() == changed.get_params()
    assert "draws=7" in repr(changed)
    for old, new in kind._renamed.items():
        message = f"has no parameter '{old}' any more: it is '{new}' now"
        with pytest.raises(TypeError, match=message):
            kind(**{old: 1})
        with pytest.raises(ValueError, match=message):
            changed.set_params(**{old: 1})
        assert new in changed.get_params()
    message = f"{kind.__name__} has no parameter 'random_sate'. Did you mean 'random_state'?"
    with pytest.raises(TypeError, match=re.escape(message)):
        kind(random_sate=1)
    with pytest.raises(ValueError, match=re.escape(message)):
        changed.set_params(random_sate=1)
    with pytest.raises(TypeError, match=r"has no parameter 'zzzz'\. It has .*random_state"):
        kind(zzzz=1)


def test_a_subclass_may_hand_names_on_and_without_scikit_learn_unknown_ones_are_refused():
    class Louder(fk.models.Network):
        def __init__(self, volume=3, **others):
            super().__init__(**others)
            self.volume = volume

    assert Louder(volume=4, chains=3).chains == 3

    class Bare(_Parameters):
        def __init__(self, chains=2):
            self.chains = chains

    assert Bare().set_params(chains=3).get_params() == {"chains": 3}
    with pytest.raises(ValueError, match="there is no parameter 'chains__a'"):
        Bare().set_params(chains__a=1)


def test_a_seed_comes_from_whatever_random_state_is():
    assert new_seed(np.int8(3)) == 3
    for generator in (np.random.RandomState, np.random.default_rng):
        assert new_seed(generator(1)) == new_seed(generator(1)) != new_seed(generator(2))
    assert new_seed(None) != new_seed(None)
    for wrong in (-1, True, 0.5, "x"):
        with pytest.raises(ValueError, match=r"random_state must be a whole number of 32 bits.*a numpy"):
            new_seed(wrong)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_what_is_set_after_a_fit_changes_neither_draws_nor_files(name, tmp_path):
    example, before = ESTIMATORS[name], fitted(name)
    estimator = copy.copy(before)
    for parameter, value in before.get_params().items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            estimator.set_params(**{parameter: value + 3})
        elif isinstance(value, list):
            estimator.set_params(**{parameter: [*value, 5]})
    estimator.save(tmp_path / "file.npz")
    loaded = type(estimator).load(tmp_path / "file.npz")
    for again in (estimator, loaded, pickle.loads(pickle.dumps(estimator))):
        np.testing.assert_array_equal(example.drawn(again), example.drawn(before))
    assert loaded.get_params() == before.get_params()


def test_a_list_that_is_changed_in_place_after_a_fit_is_not_stored(tmp_path):
    net = copy.deepcopy(fitted("Network"))
    net.model.append(5)
    net.save(tmp_path / "net.npz")
    assert fk.models.Network.load(tmp_path / "net.npz").model == fitted("Network").model


def test_a_generator_is_stored_as_the_seed_that_was_drawn(tmp_path):
    users, items = np.arange(24) % 4, np.arange(24) // 4
    model = fk.models.Factorisation(
        1, passes=2, burn_in=0, draws=2, random_state=np.random.default_rng(5), progress=False
    ).fit(users, items, (users + items) % 5)
    model.save(tmp_path / "model.npz")
    again = fk.models.Factorisation.load(tmp_path / "model.npz")
    assert again.random_state == again._seed == new_seed(np.random.default_rng(5))
    new = {"items": [0, 1], "rated": {2: 3.0}}
    np.testing.assert_array_equal(again.predict(None, **new), model.predict(None, **new))
    # A file of before: the parameter under its earlier name.
    header, arrays = read_arrays(tmp_path / "model.npz", "fitted factorisation", 1)
    header["parameters"]["seed"] = header["parameters"].pop("random_state")
    del header["seed"]
    write_arrays(tmp_path / "older.npz", header, arrays)
    older = fk.models.Factorisation.load(tmp_path / "older.npz")
    assert older.random_state == again.random_state
    np.testing.assert_array_equal(older.predict(None, **new), model.predict(None, **new))


@pytest.mark.parametrize(
    ("names", "refused"),
    [
        (np.array("2024-01", "datetime64[M]") + np.arange(4), None),
        (np.array([b"a", b"b", b"c", b"d"]), None),
        (np.fromiter(map(np.int64, range(4)), object), None),
        (np.fromiter((uuid.UUID(int=i) for i in range(4)), object), "UUID"),
        (np.fromiter((datetime.date(2024, 1, i + 1) for i in range(4)), object), "date"),
    ],
)
def test_identifiers_come_back_or_are_refused_by_name(names, refused, tmp_path):
    numbers = np.arange(12) % 4
    ratings = Ratings(numbers, numbers, np.ones(12), names, names)
    model = fk.models.Factorisation(1)
    model._seed, model.mean_, model.running_mean_, model.curve_ = 0, 1.0, None, [(0.0, 1.0)]
    hyperparameters = Hyperparameters(*(np.ones(1) for _ in Hyperparameters._fields))
    tables = {name: np.ones((4, 1)) for name in TABLES}
    model.ratings_, model.features_ = ratings, {name: no_covariates(4).features for name in TABLES}
    model.draws_ = [
        Draw(*tables.values(), dict.fromkeys(TABLES, hyperparameters), equal_noise(1.0, 4), 1.0, 1.0)
    ]
    if refused:
        with pytest.raises(TypeError, match=f"user_names has .*{refused}.* which a file cannot hold"):
            model.save(tmp_path / "model.npz")
        return
    model.save(tmp_path / "model.npz")
    loaded = fk.models.Factorisation.load(tmp_path / "model.npz")
    assert loaded.ratings_.user_names.dtype == names.dtype
    np.testing.assert_array_equal(loaded.ratings_.item_names, names)


@pytest.mark.parametrize(
    "x",
    [
        np.array([None]),
        np.zeros(1, [("a", int)]),
        np.zeros(1, jnp.float8_e4m3fn),
        np.zeros(1, "V3"),
        np.array([b"a", 1], object),
    ],
    ids=lambda x: str(x.dtype),
)
def test_arrays_that_would_not_be_read_are_not_written(x, tmp_path):
    header = {"kind": "test", "version": 1}
    with pytest.raises(TypeError, match=r"test\.npz cannot be written: labels has the type"):
        write_arrays(tmp_path / "test.npz", header, {"labels": x})
    with pytest.raises(TypeError, match="cannot be written: in notes, Object of type date is not JSON"):
        write_arrays(tmp_path / "test.npz", {**header, "notes": {"day": datetime.date(2024, 1, 1)}}, {})
    assert not list(tmp_path.iterdir())
    for type_ in ("bfloat16", "datetime64[us]", "timedelta64[D]", "S3", "U3", "complex64", "bool", "float16"):
        stored = np.zeros(2, jnp.bfloat16 if type_ == "bfloat16" else type_)
        write_arrays(tmp_path / "test.npz", header, {"x": stored})
        assert read_arrays(tmp_path / "test.npz", "test", 1)[1]["x"].dtype == stored.dtype


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        *sorted(ESTIMATORS.keys() - {"Network"}),
        long_case("network_model::a_network_is_saved_without_its_rows_and_loaded", "Network"),
    ],
)
def test_a_fit_comes_back_from_a_file_and_a_pickle(name, tmp_path):
    model, drawn = fitted(name), ESTIMATORS[name].drawn
    kind = type(model)
    with pytest.raises(NotFittedError, match=f"this {name} is not fitted yet"):
        clone(model).save(tmp_path / "model.npz")
    model.save(tmp_path / "model.npz")
    for again in (kind.load(tmp_path / "model.npz"), pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert again.get_params() == model.get_params()
        jax.tree.map(np.testing.assert_array_equal, drawn(again), drawn(model))
        # What is written of it is the same again.
        header, arrays = model._fitted_state()
        assert again._fitted_state()[0] == header
        np.testing.assert_equal(again._fitted_state()[1], arrays)


VERDICT = Verdict((Finding(Grade.BAD, "wrong", Cause.STIFFNESS), Finding(Grade.CARE, "slow")), ("seen",))


@dataclasses.dataclass(eq=False, repr=False)
class Mean(Estimator):
    """The least that an estimator says: what a fit sets."""

    _kind = "fitted mean"
    _attributes = ("_count", "verdict_")
    _arrays = (*Estimator._arrays, "_scale")
    _predicts = "regressor"

    draws: int = 2

    random_state = None

    def fit(self, X, y):
        self._seed, self._count, self.trace_ = new_seed(0), len(y), lambda: "a program"
        self.draws_ = {"mean": np.full(self.draws, np.mean(y)), "spread": np.full(self.draws, np.std(y))}
        self.verdict_ = VERDICT
        return self


def test_what_a_fit_sets_is_stored_by_its_names(tmp_path):
    mean = Mean(3).fit(COUNTS, COUNTS[:, 0])
    assert is_regressor(mean)
    assert get_tags(mean).target_tags.required
    mean.save(tmp_path / "mean.npz")
    for again in (Mean.load(tmp_path / "mean.npz"), pickle.loads(pickle.dumps(mean))):
        assert (again.draws, again._count, again._seed) == (3, 16, 0)
        assert again.verdict_ == VERDICT
        np.testing.assert_equal(again.draws_, mean.draws_)
        # What a fit did not set, and the run.
        assert not {"_scale", "trace_"} & vars(again).keys()
    mean._scale = 2.0
    assert pickle.loads(pickle.dumps(mean))._scale == 2.0
    header, _ = read_arrays(tmp_path / "mean.npz", "fitted mean", 1)
    write_arrays(tmp_path / "mean.npz", header, {"_scale": np.ones(1)})
    with pytest.raises(DamagedFileError, match="draws_"):
        Mean.load(tmp_path / "mean.npz")


@pytest.mark.parametrize("changes", [{"n_components": 10**9}, {"n_features_in_": 10**9}])
def test_topics_of_another_size_are_refused_before_they_take_memory(changes, tmp_path):
    lda = fitted("LDA")
    lda.save(tmp_path / "lda.npz")
    header, arrays = read_arrays(tmp_path / "lda.npz", "fitted LDA", 1)
    for name, value in changes.items():
        header["fitted" if name.endswith("_") else "parameters"][name] = value
    write_arrays(tmp_path / "lda.npz", header, arrays)
    with pytest.raises(DamagedFileError, match="the topics have the shape"):
        fk.models.LDA.load(tmp_path / "lda.npz")


def test_topics_of_an_older_file_go_on_to_the_bit(tmp_path):
    lda = fk.models.LDA(2, **LDA, validation_fraction=0.25, random_state=3).fit(COUNTS)
    lda.save(tmp_path / "lda.npz")
    header, arrays = read_arrays(tmp_path / "lda.npz", "fitted LDA", 1)
    # What estimators wrote before: the curve under a name of its own, and no sums of its first half.
    places = {"documents.": "curve.", "held_out.": "curve.", "sample.": "curve.sample."}
    older = {"curve.points": arrays.pop("curve")}
    for name, x in arrays.items():
        prefix = next((prefix for prefix in places if name.startswith(prefix)), "")
        if not name.startswith("early."):
            older[places.get(prefix, "") + name.removeprefix(prefix)] = x
    header["fitted"] |= {"_seed": header.pop("seed"), "n_documents_seen_": lda.n_documents_seen_}
    header["curve"] = {"is_held_out": header.pop("training")["is_held_out"]}
    header["parameters"] |= {"verbose": 0}
    del header["parameters"]["progress"]
    write_arrays(tmp_path / "older.npz", header, older)
    again = fk.models.LDA.load(tmp_path / "older.npz")
    assert str(again.verdict_) == str(lda.verdict_)
    assert "4 held-out documents" in str(again.verdict_)
    for estimator in (lda, again):
        estimator.partial_fit(COUNTS)
    np.testing.assert_array_equal(again.components_, lda.components_)
    np.testing.assert_array_equal(again.perplexity_curve_[:, :2], lda.perplexity_curve_[:, :2])


def test_documents_of_later_passes_are_no_new_evidence():
    for passes in (1, 3):
        training = fk.models.LDA(2, **{**LDA, "passes": passes}).fit(COUNTS)._training
        assert training.documents == passes * len(COUNTS)
        np.testing.assert_array_equal(training.word_counts, COUNTS.sum(0))
        assert training.sample.size == len(COUNTS)


def test_each_setting_of_topics_is_declared_once():
    """The parameters of the estimator and the options of the command are those of the settings."""
    of_estimator = inspect.signature(fk.models.LDA).parameters
    options = {p.name: p for p in get_command(app).commands["lda"].commands["run"].params}
    assert [field.name for field in dataclasses.fields(Settings)] == list(DECLARED)
    for name, declared in DECLARED.items():
        if declared.parameter:
            assert of_estimator[declared.parameter].default == getattr(Settings, name)
        if declared.help:
            has_default = declared.shown and declared.option is not bool
            shown = f" Default: {declared.shown}." if has_default else ""
            assert options[name].help == declared.help + shown
            assert options[name].default is None
    # Nothing that draws is hidden from both, but for how steps decay and the scale of θ.
    hidden = {name for name, known in DECLARED.items() if not (known.parameter or known.help)}
    assert hidden == {"decay_after", "decay_power", "start"}
    settings = Settings.of_parameters(fk.models.LDA(3, n_jobs=-1, draws=np.int64(7)).get_params(), seed=5)
    assert settings == Settings(topics=3, threads=-1, draws=7, seed=5)
    assert json.loads(json.dumps(settings.to_json()))["draws"] == 7
    assert settings.num_threads == Settings().num_threads


@pytest.mark.parametrize(
    ("check", "value", "message"),
    [
        (whole(1), True, "x must be a whole number of at least 1; True was given"),
        (whole(1), 0.5, "x must be a whole number of at least 1; 0.5 was given"),
        (positive, 0, "x must be a positive number; 0 was given"),
        (positive, np.inf, "x must be a positive number; inf was given"),
        (optional(positive), "1", "x must be a positive number; '1' was given"),
        (within(0, 1, "a share"), 1, "x must be a share; 1 was given"),
        (one_of(["left", "right"]), "rigth", "x is one of left, right, not 'rigth'. Did you mean 'right'?"),
        (one_of(["left"]), None, "x is one of left, not None."),
    ],
)
def test_checks_name_the_setting_and_what_was_given(check, value, message):
    with pytest.raises(ValueError) as raised:  # noqa: PT011
        check("x", value)
    assert message in str(raised.value)


def test_checks_return_plain_values():
    for value in (whole(0)("x", np.int64(3)), positive("x", np.float32(0.5)), within(0, 1, "")("x", 0)):
        assert type(value) in (int, float)
    assert optional(positive)("x", None) is None


def test_a_verdict_is_as_bad_as_its_worst_finding():
    care, bad = Verdict.of_problem("slow"), Verdict.of_problem("wrong", Grade.BAD)
    joined = Verdict.joined([Verdict(notes=("seen",)), care, bad])
    assert (joined.grade, joined.ok, joined.problems) == (Grade.BAD, False, ("slow", "wrong"))
    assert str(joined) == "Do not use:\nslow\nwrong\nseen"
    assert str(Verdict(notes=("seen",))) == "No problems found.\nseen"
    assert care.findings == (Finding(Grade.CARE, "slow"),)


@pytest.mark.parametrize("kind", ALL)
def test_a_pickle_of_another_release_is_refused_by_name(kind):
    state = kind().__getstate__()
    kind.__new__(kind).__setstate__(state)
    without = {name: value for name, value in state.items() if name != "draws"}
    with pytest.raises(ValueError, match=rf"pickle of a {kind.__name__} is of another release.*no draws"):
        kind.__new__(kind).__setstate__(without)
    with pytest.raises(ValueError, match=r"is damaged, or of another release.*fit it again"):
        kind.__new__(kind).__setstate__({**state, "_stored": ({}, {})})


def _of_a_fit():
    """The public methods and properties of every estimator, but for those of parameters and of fits."""
    of_no_fit = {"fit", "partial_fit", "set_params", "num_passes", "num_burn_in"}
    for kind in ALL:
        for name, value in inspect.getmembers(
            kind, lambda x: inspect.isfunction(x) or isinstance(x, property)
        ):
            module = inspect.unwrap(getattr(value, "fget", value)).__module__
            if module.startswith("fokker.models") and not name.startswith("_") and name not in of_no_fit:
                yield pytest.param(kind, name, value, id=f"{kind.__name__}.{name}")


@pytest.mark.parametrize(("kind", "name", "value"), list(_of_a_fit()))
def test_what_needs_a_fit_says_so_before_anything_else(kind, name, value):
    parameters = [] if isinstance(value, property) else list(inspect.signature(value).parameters.values())[1:]
    given = {p.name: np.ones((2, 2)) for p in parameters if p.default is p.empty}
    if "path" in given:
        given["path"] = "page.html"
    with pytest.raises(NotFittedError, match=f"this {kind.__name__} is not fitted yet"):
        getattr(kind(), name) if isinstance(value, property) else getattr(kind(), name)(**given)


def _start_as_draws(self, target, sampler, positions, *, steps, thin, **settings):
    """A run that stays at its start: the checks are of conventions, and every fit would be compiled anew."""
    draws = jax.tree.map(lambda x: np.repeat(np.asarray(x)[:, None], steps // thin, 1), positions)
    return SimpleNamespace(
        draws=draws, lost="", stopped=None, was_interrupted=False, state=SimpleNamespace(position=positions)
    )


class _OfConventions(fk.models.Network):
    """A network that learns nothing."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        for of_kind in (tags.classifier_tags, tags.regressor_tags):
            if of_kind:
                of_kind.poor_score = True
        return tags


# What scikit-learn asks for, and is otherwise here.
_OTHERWISE = {
    "check_dtype_object": "entries that are no numbers are a ValueError with the column",
    "check_supervised_y_2d": "one column of labels or of targets is meant as it is: no warning",
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of large columns
@pytest.mark.parametrize("likelihood", ["categorical", "gaussian"])
def test_checks_of_scikit_learn_pass_for_networks(likelihood, monkeypatch):
    monkeypatch.setattr(NetworkPosterior, "run", _start_as_draws)
    net = _OfConventions([], likelihood=likelihood, draws=2, chains=1, calibration=0, progress=False)
    results = check_estimator(net, on_fail=None, expected_failed_checks=_OTHERWISE)
    failed = {result["check_name"]: result["exception"] for result in results if result["status"] == "failed"}
    assert failed == {}
    assert sum(result["status"] == "passed" for result in results) > 40
