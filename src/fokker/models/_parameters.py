"""What estimators have of scikit-learn where it is not installed."""

import inspect
from typing import Any, Self


class NotFittedError(ValueError, AttributeError):
    """An estimator is used before it is fitted."""


class Parameters:
    """Parameters by name, as scikit-learn's base class has them."""

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
