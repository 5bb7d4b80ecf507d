"""What the estimator needs of scikit-learn, which may be absent."""

from typing import TYPE_CHECKING, Any

import numpy as np

from fokker.models.estimator import NotFittedError, Parameters, check_columns, remember_columns


def refuse_texts(X: Any) -> None:
    """Raise for documents that are not counted yet."""
    if isinstance(X, str) or (isinstance(X, list | tuple) and X and isinstance(X[0], str)):
        raise ValueError(
            "X is text, and counts are needed, one row per document and one column per word: "
            "CountVectorizer().fit_transform(texts) of scikit-learn makes them, or `fokker lda` reads text."
        )


if TYPE_CHECKING:
    Base: Any = object

    def validated(estimator: Any, X: Any, *, reset: bool) -> Any:
        """X as an array or a compressed sparse matrix, checked; `reset`: remember its columns."""

else:
    try:
        # Version 1.6 or later: cloning, pipelines, grid searches, set_output, tags.
        from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
        from sklearn.utils.validation import validate_data

        class Base(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
            """The base classes of a scikit-learn transformer."""

            def __sklearn_tags__(self) -> Any:
                tags = super().__sklearn_tags__()
                tags.input_tags.sparse = True
                tags.input_tags.positive_only = True
                # Mixtures are float32, whatever the type of the counts.
                tags.transformer_tags.preserves_dtype = []
                return tags

        def validated(estimator: Any, X: Any, *, reset: bool) -> Any:
            """X as an array or a compressed sparse matrix, checked; `reset`: remember its columns."""
            refuse_texts(X)
            return validate_data(estimator, X, reset=reset, accept_sparse="csr")

    except ImportError:

        class Base(Parameters):
            """The methods of scikit-learn's base classes that the estimator needs."""

            def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
                """Fit, then return the mixtures of the same documents."""
                return self.fit(X, y).transform(X)

        def validated(estimator: Any, X: Any, *, reset: bool) -> Any:
            """X as an array or a sparse matrix, checked; `reset`: remember its columns."""
            refuse_texts(X)
            frame = X
            if not hasattr(X, "tocsr"):
                X = np.asarray(X)
            if X.ndim != 2:
                raise ValueError(
                    "X must have one row per document and one column per word: give a matrix of counts."
                )
            if reset:
                estimator.n_features_in_ = X.shape[1]
                remember_columns(estimator, frame)
                return X
            if X.shape[1] != estimator.n_features_in_:
                raise ValueError(
                    f"X has {X.shape[1]} features, but {type(estimator).__name__} is expecting "
                    f"{estimator.n_features_in_} features as input: use the same vocabulary."
                )
            check_columns(estimator, frame)
            return X


__all__ = ["Base", "NotFittedError", "validated"]
