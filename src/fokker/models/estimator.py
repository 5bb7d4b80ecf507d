"""The base of all estimators: parameters, seeds and columns by one convention, files without pickle.

With scikit-learn (1.6 or later) they are its estimators, for cloning, pipelines, grid searches and tags.
Without it they work alone.
"""

import contextlib
import inspect
import json
import os
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from fokker._core.files import interpreting, read_arrays, write_arrays
from fokker._core.keys import checked_seed
from fokker._core.names import nearest
from fokker.diagnostics import Verdict
from fokker.models.fits import as_fitted, parameters_now
from fokker.models.labels import check_labels
from fokker.models.named_arrays import with_prefix, without_prefix

_VERSION = 1
_MAX_SEED = 2**31 - 1
# A seed, a generator to draw one from, or None for another seed each time.
RandomState = int | np.random.RandomState | np.random.Generator | None


class _NotFittedError(ValueError, AttributeError):
    """An estimator is used before it is fitted."""


class _Parameters:
    """Parameters by name, as scikit-learn's base class has them; its `clone` needs no more."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **parameters: object) -> Self:
        """Set parameters by name."""
        for name, value in parameters.items():
            if name not in self.get_params():
                raise ValueError(f"there is no parameter {name!r}.")
            setattr(self, name, value)
        return self


class _Transformer:
    """The method of scikit-learn's transformers that an estimator needs."""

    def fit_transform(self, X: ArrayLike, y: ArrayLike | None = None) -> np.ndarray:
        """Fit, then transform the same rows."""
        return self.fit(X, y).transform(X)  # type: ignore[attr-defined]


def _validated(
    estimator: "Estimator", X: ArrayLike, *, reset: bool, accept_sparse: str, ensure_all_finite: bool
) -> Any:
    """X as an array or a sparse matrix, checked; `reset`: remember its columns.

    The other arguments are for scikit-learn's function of this name; estimators look for values that are not
    finite themselves.
    """
    # Of any type that has rows and columns: a sparse matrix is left as it is.
    values: Any = X if hasattr(X, "tocsr") else np.asarray(X)
    if values.ndim != 2:
        raise ValueError(f"X must be a matrix with one row per datum; its shape is {values.shape}.")
    if reset:
        estimator.n_features_in_ = values.shape[1]
        remember_columns(estimator, X)
        return values
    if values.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has {values.shape[1]} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input: give the same columns."
        )
    check_columns(estimator, X)
    return values


if TYPE_CHECKING:
    NotFittedError = _NotFittedError
    validate_data = _validated
    _Base = _Parameters
    Transformer = _Transformer
else:
    try:
        from sklearn.base import BaseEstimator as _Base
        from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
        from sklearn.exceptions import NotFittedError
        from sklearn.utils.validation import validate_data

        class Transformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
            """The base classes of a scikit-learn transformer."""

    except ImportError:
        NotFittedError, validate_data = _NotFittedError, _validated
        _Base, Transformer = _Parameters, _Transformer


class Estimator(_Base):
    """Parameters by name; `save`, `load` and pickling by what `_fitted_state` returns and `_restore` takes.

    All estimators have `random_state`, `progress` and `draws`. `_kind`: what its files are
    called. `_fitted_by`: the attribute that a fit sets. `_rebuilt`: attributes that `_restore` makes, which
    cannot be pickled. `_attributes`: those that a file has as they are, where they are set; `_arrays`: those
    that are arrays, or arrays by name. `_labels`: which of the values of `_fitted_state` for JSON are lists
    of the user's labels. `_remade`: parameters that `load` can do without. `_renamed`: earlier names of
    parameters, and their names now. `_predicts`: what it is to scikit-learn. The run of a fit, `trace_`, is
    in no file and no pickle: it holds programs and keys.
    """

    _kind: ClassVar[str]
    _fitted_by: ClassVar[str] = "draws_"
    _rebuilt: ClassVar[tuple[str, ...]] = ()
    _attributes: ClassVar[tuple[str, ...]] = ()
    _arrays: ClassVar[tuple[str, ...]] = ("draws_",)
    _labels: ClassVar[tuple[str, ...]] = ()
    _remade: ClassVar[tuple[str, ...]] = ()
    _renamed: ClassVar[dict[str, str]] = {}
    random_state: RandomState
    feature_names_in_: np.ndarray
    n_features_in_: int
    _seed: int
    _fitted_with: dict[str, Any]

    def __new__(cls, *parameters: object, **by_name: object) -> Self:
        """Refuse names that no parameter has."""
        cls._check_names(by_name, TypeError)
        return super().__new__(cls)

    def set_params(self, **parameters: object) -> Self:
        """Set parameters by name, and return the estimator."""
        self._check_names(parameters, ValueError)
        return super().set_params(**parameters)

    @classmethod
    def _check_names(cls, names: Iterable[str], error: type[Exception]) -> None:
        """Raise for names that no parameter has, with the one that may be meant."""
        known = list(inspect.signature(cls).parameters)
        # A subclass may take any name, and hand it on.
        hands_on = inspect.getfullargspec(cls.__init__).varkw is not None
        for name in names:
            if name in cls._renamed:
                raise error(
                    f"{cls.__name__} has no parameter {name!r} any more: it is {cls._renamed[name]!r} now."
                )
            if not hands_on and name not in known and "__" not in name:
                hint = nearest(name, known) or f" It has {', '.join(known)}."
                raise error(f"{cls.__name__} has no parameter {name!r}.{hint}")

    def __sklearn_is_fitted__(self) -> bool:
        return self._fitted_by in self.__dict__

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet: call fit first.")

    @property
    def _predicts(self) -> Literal["classifier", "regressor"] | None:
        return None

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, RegressorTags

        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.estimator_type = self._predicts
        tags.classifier_tags = ClassifierTags() if self._predicts == "classifier" else None
        tags.regressor_tags = RegressorTags() if self._predicts == "regressor" else None
        tags.target_tags.required = self._predicts is not None
        return tags

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """What was learned: values for JSON, and arrays; here `_arrays`, where they are set."""
        arrays: dict[str, np.ndarray] = {}
        for name in self._arrays:
            value = getattr(self, name, {})  # what is not set has no arrays
            arrays |= with_prefix(name, value) if isinstance(value, Mapping) else {name: np.asarray(value)}
        return {}, arrays

    def _restore(self, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Restore a `_fitted_state`, given the parameters; here `_arrays`."""
        for name in self._arrays:
            by_name = without_prefix(name, arrays)
            if by_name or name in arrays:
                setattr(self, name, by_name or arrays[name])
            elif name == self._fitted_by:
                raise KeyError(name)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to a .npz file with a checksum, which `load` reads.

        Nothing in the file is executed when it is read. Its parameters are those of the fit; those that are
        programs, such as a module, are not in it: give them to `load` by name.
        """
        self._check_fitted()
        header, arrays = self._fitted_state()
        for name in self._labels:
            check_labels(header[name])
        fitted_with = as_fitted(self)
        parameters = {name: as_json(value) for name, value in fitted_with.get_params(deep=False).items()}
        if fitted_with.random_state is not None:
            # A generator is stored as the seed that was drawn from it.
            parameters["random_state"] = self._seed
        programs = [name for name, value in parameters.items() if not _is_json(value)]
        stored = {name: value for name, value in parameters.items() if name not in programs}
        names = ("n_features_in_", *self._attributes)
        fitted = {name: as_json(getattr(self, name)) for name in names if hasattr(self, name)}
        header = {
            **header,
            "kind": self._kind,
            "version": _VERSION,
            "seed": self._seed,
            "fitted": fitted,
            "feature_names": as_json(getattr(self, "feature_names_in_", None)),
            "parameters": stored,
            "programs": programs,
        }
        write_arrays(Path(path), header, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str], **parameters: object) -> Self:
        """Read a file written by `save`; `parameters`: those that it could not store, by name."""
        header, arrays = read_arrays(Path(path), cls._kind, _VERSION)
        missing = [name for name in header.get("programs", ()) if name not in parameters]
        if required := [name for name in missing if name not in cls._remade]:
            raise ValueError(
                f"{path} has everything but {', '.join(required)}, which is a program: give it as it was, "
                f"{cls.__name__}.load(path, {', '.join(f'{name}=…' for name in required)})."
            )
        # Where a program is given, an error may be of what was given instead of the file.
        with contextlib.nullcontext() if parameters else interpreting(Path(path), cls._kind):
            stored = {cls._renamed.get(name, name): value for name, value in header["parameters"].items()}
            estimator = cls(**{**stored, **parameters})
            fitted = header.get("fitted", {})
            for name in ("n_features_in_", *cls._attributes):
                if name in fitted:
                    value = fitted[name]  # of all that are stored here, only verdicts are dictionaries
                    setattr(estimator, name, Verdict.from_json(value) if isinstance(value, dict) else value)
            if header.get("feature_names") is not None:
                estimator.feature_names_in_ = np.asarray(header["feature_names"], dtype=object)
            # Older files have the seed elsewhere, or as a parameter.
            known = (header.get("seed"), fitted.get("_seed"), estimator.random_state)
            estimator._seed = next(new_seed(seed) for seed in known if seed is not None)
            estimator._fitted_with = parameters_now(estimator)
            estimator._restore(header, arrays)
        return estimator

    def __getstate__(self) -> dict[str, Any]:
        if not self.__sklearn_is_fitted__():
            return dict(self.__dict__)
        left_out = {"trace_", *self._rebuilt, *self._arrays}
        state = {name: value for name, value in self.__dict__.items() if name not in left_out}
        return {**state, "_stored": self._fitted_state()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        stored = state.get("_stored")
        self.__dict__.update({name: value for name, value in state.items() if name != "_stored"})
        kind = type(self).__name__
        advice = f"fit it again, and keep it by save and {kind}.load, which read earlier releases."
        if missing := [name for name in inspect.signature(type(self)).parameters if name not in state]:
            raise ValueError(
                f"this pickle of a {kind} is of another release of Fokker: it has no {', '.join(missing)}. "
                f"Read it with that release, or {advice}"
            )
        if stored is None:
            return
        try:
            self.__dict__.setdefault("_fitted_with", parameters_now(self))  # an older pickle has none
            self._restore(*stored)
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            raise ValueError(
                f"this pickle of a {kind} is damaged, or of another release of Fokker ({error!r}). Read it "
                f"with that release, or {advice}"
            ) from error


def new_seed(random_state: RandomState) -> int:
    """The seed of a fit: as given, drawn from a generator of NumPy, or another one each time."""
    if random_state is None:
        return int(np.random.default_rng().integers(_MAX_SEED))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(_MAX_SEED))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(_MAX_SEED))
    try:
        return checked_seed(random_state, "random_state")
    except ValueError as error:
        raise ValueError(f"{error} Or give a numpy.random.RandomState or Generator, or None.") from None


def as_json(value: object) -> Any:
    """A parameter in a type that JSON has, where there is one."""
    if isinstance(value, np.random.RandomState | np.random.Generator):
        return None
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Verdict):
        return value.to_json()
    return [as_json(x) for x in value] if isinstance(value, tuple | list) else value


def _is_json(value: object) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


def column_names(X: ArrayLike) -> np.ndarray | None:
    """The names of the columns of a data frame, where they are text; None for anything else."""
    names = getattr(X, "columns", None)
    if names is None or not all(isinstance(name, str) for name in names):
        return None
    return np.asarray(list(names), dtype=object)


def remember_columns(estimator: "Estimator", X: ArrayLike) -> None:
    """Set `feature_names_in_`, or remove that of an earlier fit."""
    estimator.__dict__.pop("feature_names_in_", None)
    if (names := column_names(X)) is not None:
        estimator.feature_names_in_ = names


def check_columns(estimator: "Estimator", X: ArrayLike) -> None:
    """Raise where the columns of X have other names than in fit, or another order, as scikit-learn does.

    Where only one of the two has names there is a warning.
    """
    names, known = column_names(X), getattr(estimator, "feature_names_in_", None)
    kind = type(estimator).__name__
    if np.array_equal(names, known):  # type: ignore[arg-type]  # also where neither has names
        return
    if names is None or known is None:
        if hasattr(X, "columns") and names is None:
            return  # other names than text are not looked at
        has, fitted = ("no", "with") if names is None else ("the", "without")
        warnings.warn(
            f"X has {has} names of columns, but {kind} was fitted {fitted} names: the order is not checked.",
            UserWarning,
            stacklevel=4,
        )
        return
    unseen = [name for name in names if name not in set(known)]
    absent = [name for name in known if name not in set(names)]
    parts = [
        f"{text} {_shown(some)}" for text, some in (("unseen in fit:", unseen), ("missing:", absent)) if some
    ]
    reason = "; ".join(parts) or "they are in another order"
    raise ValueError(
        f"The feature names should match those that were passed during fit: {reason}. Give X with the "
        "columns of fit, X[list(model.feature_names_in_)]."
    )


def _shown(names: list[str]) -> str:
    return ", ".join(map(repr, names[:5])) + (", …" if len(names) > 5 else "")


__all__ = [
    "Estimator",
    "NotFittedError",
    "RandomState",
    "Transformer",
    "as_json",
    "check_columns",
    "new_seed",
    "remember_columns",
    "validate_data",
]
