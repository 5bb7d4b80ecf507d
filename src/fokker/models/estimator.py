"""What all estimators share: parameters by name, columns by name, files without pickle, and pickling."""

import contextlib
import inspect
import json
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from fokker._core.files import interpreting, read_arrays, write_arrays

_VERSION = 1


class _NotFittedError(ValueError, AttributeError):
    """An estimator is used before it is fitted."""


if TYPE_CHECKING:
    NotFittedError = _NotFittedError
else:
    try:
        from sklearn.exceptions import NotFittedError
    except ImportError:
        NotFittedError = _NotFittedError


class Parameters:
    """Parameters by name, as scikit-learn's base class has them; its `clone` needs no more."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters by name."""
        for name, value in parameters.items():
            if name not in self.get_params():
                raise ValueError(f"there is no parameter {name!r}.")
            setattr(self, name, value)
        return self


class Stored:
    """`save` and `load`, and pickling, by what `_fitted_state` returns and `_restore` takes.

    `_kind`: what its files are called. `_rebuilt`: attributes that `_restore` makes, which cannot be pickled.
    `_remade`: parameters that `load` can do without.
    """

    _kind: ClassVar[str]
    _rebuilt: ClassVar[tuple[str, ...]] = ()
    _remade: ClassVar[tuple[str, ...]] = ()

    def _check_fitted(self) -> None:
        """Raise a `NotFittedError` where it is not fitted."""
        raise NotImplementedError

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """What was learned: values for JSON, and arrays."""
        raise NotImplementedError

    def _restore(self, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Restore a `_fitted_state`, given the parameters."""
        raise NotImplementedError

    def _stored_parameters(self) -> dict[str, Any]:
        """The parameters as `save` stores them."""
        parameters: dict[str, Any] = self.get_params(deep=False)  # type: ignore[attr-defined]
        return parameters

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to a .npz file with a checksum, which `load` reads.

        Nothing in the file is executed when it is read. Parameters that are programs, such as a module, are
        not in it: give them to `load` by name.
        """
        self._check_fitted()
        header, arrays = self._fitted_state()
        parameters = {name: as_json(value) for name, value in self._stored_parameters().items()}
        programs = [name for name, value in parameters.items() if not _is_json(value)]
        stored = {name: value for name, value in parameters.items() if name not in programs}
        header = {
            **header,
            "kind": self._kind,
            "version": _VERSION,
            "parameters": stored,
            "programs": programs,
        }
        write_arrays(Path(path), header, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str], **parameters: Any) -> Self:
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
            estimator = cls(**{**header["parameters"], **parameters})
            estimator._restore(header, arrays)
        return estimator

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        try:
            self._check_fitted()
        except NotFittedError:
            return state
        for name in self._rebuilt:
            state.pop(name, None)
        return {**state, "_stored": self._fitted_state()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        stored = state.get("_stored")
        self.__dict__.update({name: value for name, value in state.items() if name != "_stored"})
        if stored is not None:
            self._restore(*stored)


def as_json(value: Any) -> Any:
    """A parameter in a type that JSON has, where there is one."""
    if isinstance(value, np.random.RandomState | np.random.Generator):
        return None
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return [as_json(x) for x in value] if isinstance(value, tuple | list) else value


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


def column_names(X: Any) -> np.ndarray | None:
    """The names of the columns of a data frame, where they are text; None for anything else."""
    names = getattr(X, "columns", None)
    if names is None or not all(isinstance(name, str) for name in names):
        return None
    return np.asarray(list(names), dtype=object)


def remember_columns(estimator: Any, X: Any) -> None:
    """Set `feature_names_in_`, or remove that of an earlier fit."""
    names = column_names(X)
    if names is not None:
        estimator.feature_names_in_ = names
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


def check_columns(estimator: Any, X: Any) -> None:
    """Raise where the columns of X have other names than in fit, or another order, as scikit-learn does.

    Where only one of the two has names there is a warning.
    """
    names, known = column_names(X), getattr(estimator, "feature_names_in_", None)
    kind = type(estimator).__name__
    if names is None and known is None:
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
    if np.array_equal(names, known):
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


__all__ = ["NotFittedError", "Parameters", "Stored", "as_json", "check_columns", "remember_columns"]
