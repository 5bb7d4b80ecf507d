"""The manners of scikit-learn, with or without it."""

from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    Base: Any = object

    class NotFittedError(ValueError, AttributeError):
        """Raised by methods that need a fitted model."""

else:
    try:
        from sklearn.base import BaseEstimator
        from sklearn.exceptions import NotFittedError
        from sklearn.utils import ClassifierTags, RegressorTags

        class Base(BaseEstimator):
            """The base class of a scikit-learn estimator: a classifier or a regressor, by its likelihood."""

            def __sklearn_tags__(self) -> Any:
                tags = super().__sklearn_tags__()
                is_classifier = self.likelihood == "categorical"
                tags.estimator_type = "classifier" if is_classifier else "regressor"
                tags.classifier_tags = ClassifierTags() if is_classifier else None
                tags.regressor_tags = None if is_classifier else RegressorTags()
                tags.target_tags.required = True
                return tags

    except ImportError:
        import inspect

        class NotFittedError(ValueError, AttributeError):
            """Raised by methods that need a fitted model."""

        class Base:
            """The methods of scikit-learn's base class that the estimator needs."""

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


__all__ = ["Base", "NotFittedError"]
