"""The manners of scikit-learn, with or without it."""

from typing import TYPE_CHECKING, Any

from fokker.models.estimator import NotFittedError

if TYPE_CHECKING:
    Base: Any = object

else:
    try:
        from sklearn.base import BaseEstimator
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
        from fokker.models.estimator import Parameters as Base


__all__ = ["Base", "NotFittedError"]
