"""Targets with constrained parameters, such as positive numbers or probabilities."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Key, PyTree

from fokker._core.labels import Labels
from fokker._core.names import nearest
from fokker._core.random import split
from fokker._core.state import as_arrays, is_leaf
from fokker.targets.constraints import Constraint, as_constraint
from fokker.targets.target import Target, TargetWithData, check_is_target


class Constrained(Target):
    r"""The density of y for a target over θ = x(y), as `constrain` returns it.

    U_y(y) = U(x(y)) - T log|det dx/dy|,   so that exp(-U_y/T) dy = exp(-U/T) dθ
    """

    is_constrained: ClassVar[bool] = True
    target: Any
    constraints: Constraint | dict[str, Constraint]
    temperature: Any = 1.0

    def at_temperature(self, temperature: ArrayLike) -> "Constrained":
        """The target for sampling at a temperature T: the log-Jacobian in U_y is multiplied by T."""
        return dataclasses.replace(self, temperature=temperature)

    def _of(self, target: Target) -> Self:
        """The same constraints on another target."""
        return self if target is self.target else dataclasses.replace(self, target=target)

    def stored(self) -> Self:
        """With the target in the precision that is on."""
        return self._of(self.target.stored())

    def on_first_rows(self) -> Self:
        """Itself, or, of data in a file or a stream, with the first rows alone."""
        return self._of(self.target.on_first_rows())

    def labels(self) -> Labels:
        """Names of the axes of parameters, and of the entries along them."""
        return self.target.labels()

    def labelled(self, theta: PyTree[Array]) -> Self:
        """With names of axes that the target finds out at a theta."""
        return self._of(self.target.labelled(theta))

    def known_data(self) -> dict[str, dict[str, Any]]:
        """What the target was given, by name."""
        return self.target.known_data()

    def derived(self, theta: PyTree[Array]) -> dict[str, Array]:
        """Quantities that the target computes from theta, by name."""
        return self.target.derived(theta)

    def pointwise(self, theta: PyTree[Array]) -> dict[str, Array]:
        """The log likelihood of each entry of each observed variable of the target, by name."""
        return self.target.pointwise(theta)

    # Not `prior_predictive`: draws of the target's prior need not meet the constraints, which cut it off.
    def predictive(self, theta: PyTree[Array], key: Key[Array, ""]) -> dict[str, Array]:
        """A draw of the observed variables of the target given theta, by name."""
        return self.target.predictive(theta, key)

    def constrain(self, y: PyTree[Array]) -> PyTree[Array]:
        """θ = x(y)."""
        if isinstance(self.constraints, Constraint):
            return self.constraints.constrain(y)
        return {**y, **{name: rule.constrain(y[name]) for name, rule in self.constraints.items()}}

    def unconstrain(self, theta: PyTree[Any]) -> PyTree[Array]:
        """y(θ). Raise if theta does not meet the constraints."""
        theta = as_arrays(theta)
        self.check(theta)
        if isinstance(self.constraints, Constraint):
            return self.constraints.unconstrain(theta)
        return {**theta, **{name: rule.unconstrain(theta[name]) for name, rule in self.constraints.items()}}

    @property
    def is_one_to_one(self) -> bool:
        """Whether θ determines y."""
        if isinstance(self.constraints, Constraint):
            return self.constraints.is_one_to_one
        return all(rule.is_one_to_one for rule in self.constraints.values())

    def redraw(self, y: PyTree[Array], key: Key[Array, ""]) -> PyTree[Array]:
        """A y with the same θ, from its density given θ."""
        if isinstance(self.constraints, Constraint):
            return self.constraints.redraw(y, key)
        keys = split(key, len(self.constraints))
        pairs = zip(self.constraints.items(), keys, strict=True)
        return {**y, **{name: rule.redraw(y[name], key) for (name, rule), key in pairs}}

    def log_jacobian(self, y: PyTree[Array]) -> Array:
        """T log|det dx/dy|."""
        if isinstance(self.constraints, Constraint):
            return self.temperature * self.constraints.log_jacobian(y)
        each = [rule.log_jacobian(y[name]) for name, rule in self.constraints.items()]
        return self.temperature * sum(each, start=jnp.zeros(()))

    def check(self, theta: PyTree[Array]) -> None:
        """Raise unless theta has the constrained leaves and meets the constraints."""
        self._check_names(theta)
        if isinstance(self.constraints, Constraint):
            self.constraints.check(theta, "theta")
        else:
            for name, rule in self.constraints.items():
                rule.check(theta[name], f"theta[{name!r}]")

    def _check_names(self, tree: PyTree[Array]) -> None:
        if isinstance(self.constraints, Constraint):
            if not is_leaf(tree):
                raise ValueError(
                    "a single constraint needs a theta that is one array, but theta is a tree: give a "
                    'dictionary of constraints by name, as in {"scale": "positive"}.'
                )
            return
        if not isinstance(tree, Mapping):
            raise ValueError(
                f"the constraints are given by name ({', '.join(self.constraints)}), but theta is not a "
                "dictionary: give a single constraint, or a theta with names."
            )
        for name in self.constraints:
            if name not in tree:
                raise ValueError(
                    f"{name!r} is constrained, but theta has only {', '.join(map(str, tree))}."
                    f"{nearest(name, [str(known) for known in tree])}"
                )
            if not is_leaf(tree[name]):
                raise ValueError(f"theta[{name!r}] is constrained and must be one array; it is a tree.")

    def potential(self, y: PyTree[Array]) -> Array:
        """U_y."""
        return self.target.potential(self.constrain(y)) - self.log_jacobian(y)

    def validate(self, y: PyTree[Array]) -> None:
        """Raise unless y has the constrained leaves and the target is finite at x(y)."""
        self._check_names(y)
        self.target.validate(self.constrain(y))


class ConstrainedPosterior(Constrained, TargetWithData):
    """A `Constrained` target with data. The Jacobian is part of the prior."""

    @property
    def data(self) -> PyTree[Array]:
        """The data of the posterior."""
        return self.target.data

    def log_prior(self, y: PyTree[Array]) -> Array:
        """log p(x(y)) + T log|det dx/dy|."""
        return self.target.log_prior(self.constrain(y)) + self.log_jacobian(y)

    def log_likelihood(self, y: PyTree[Array], datum: PyTree[Array]) -> Array:
        """log p(datum | x(y))."""
        return self.target.log_likelihood(self.constrain(y), datum)

    def log_likelihood_of_theta(self, theta: PyTree[Array], datum: PyTree[Array]) -> Array:
        """log p(datum|θ), also where theta is rounded to the boundary of its support."""
        return self.target.log_likelihood(theta, datum)

    def minibatch_potential(self, y: PyTree[Array], batch: PyTree[Array]) -> Array:
        """An unbiased estimate of U_y from a batch."""
        return self.target.minibatch_potential(self.constrain(y), batch) - self.log_jacobian(y)

    def weighted(self, batch: PyTree[Array]) -> tuple[PyTree[Array], Any]:
        """The rows of a batch and their weights in the sum over all data."""
        return self.target.weighted(batch)


def constrain(target: Target, constraints: Constraint | str | Mapping[str, Constraint | str]) -> Constrained:
    r"""The target with constraints on theta, or on named leaves of it.

    ```python
    target = fk.constrain(posterior, {"scale": "positive", "weights": "simplex"})
    trace = fk.sample(target, sampler, init={"mean": 0.0, "scale": 1.0, "weights": jnp.ones(3) / 3}, …)
    trace.samples["scale"]  # positive
    ```

    Arguments:

    - `target`: a `fk.Density`, a `fk.Posterior` or another target over θ, without constraints so far.
    - `constraints`: one for a theta that is one array, or a dictionary of them by the names of leaves; leaves
      that are not named are real. A constraint is "real", "positive", "unit" (between 0 and 1), "simplex",
      "ordered", "zero_sum", "unit_vector", "correlation", "correlation_cholesky", or one of `fk.constraints`,
      such as `fk.constraints.lower(2.0)`.

    Returns a target of the unconstrained numbers y, which the sampler moves, with θ = x(y). The log-Jacobian
    of x is added to the potential, at any temperature, so that θ has the density of the target: with respect
    to Lebesgue measure, on a simplex on all entries but the last, of matrices of correlations on those below
    the diagonal, of unit vectors by the area of the sphere.

    These use θ: `init`, draws and moments, `fk.find_mode`, `fk.gradients.norms` and the centre of
    `fk.gradients.control_variates`. These use y: the target's own methods, `init` and `step` of a sampler,
    and `trace.state`. `target.constrain` and `target.unconstrain` convert between the two.
    """
    check_is_target(target)
    if target.is_constrained:
        raise TypeError("this target is already constrained: give all its constraints at once.")
    kind = ConstrainedPosterior if isinstance(target, TargetWithData) else Constrained
    if isinstance(constraints, Mapping):
        return kind(target, {name: as_constraint(rule) for name, rule in constraints.items()})
    return kind(target, as_constraint(constraints))


def constrained(target: Target | None, y: PyTree[Array]) -> PyTree[Array]:
    """Theta as the user sees it, from the y of a sampler; a sampler of a user's dynamics has no target."""
    return y if target is None else target.constrain(y)
