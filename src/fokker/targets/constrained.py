"""Targets over parameters that are not free to be any real number."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fokker._core.module import Module
from fokker._core.state import as_arrays, is_leaf, nearest
from fokker.targets.constraints import Constraint, as_constraint


class Constrained(Module):
    r"""The density of y for a target over θ = x(y); made by `constrain`.

    U_y(y) = U(x(y)) - T log|det dx/dy|,   so that exp(-U_y/T) dy = exp(-U/T) dθ
    """

    target: Any
    constraints: Constraint | dict[str, Constraint]
    temperature: Any = 1.0

    def at_temperature(self, temperature: Any) -> "Constrained":
        """For sampling at a temperature: a change of variables is not tempered, so its part of U_y is T's."""
        return type(self)(self.target, self.constraints, temperature)

    def constrain(self, y: PyTree[Array]) -> PyTree[Array]:
        """θ = x(y)."""
        if isinstance(self.constraints, Constraint):
            return self.constraints.constrain(y)
        return {**y, **{name: rule.constrain(y[name]) for name, rule in self.constraints.items()}}

    def unconstrain(self, theta: PyTree[Any]) -> PyTree[Array]:
        """y, for a theta that meets the constraints; one that does not is refused."""
        theta = as_arrays(theta)
        self.check(theta)
        if isinstance(self.constraints, Constraint):
            return self.constraints.unconstrain(theta)
        return {**theta, **{name: rule.unconstrain(theta[name]) for name, rule in self.constraints.items()}}

    def log_jacobian(self, y: PyTree[Array]) -> Array:
        """T log|det dx/dy|."""
        if isinstance(self.constraints, Constraint):
            return self.temperature * self.constraints.log_jacobian(y)
        each = [rule.log_jacobian(y[name]) for name, rule in self.constraints.items()]
        return self.temperature * sum(each, start=jnp.zeros(()))

    def check(self, theta: PyTree[Array]) -> None:
        """Raise unless theta has the leaves that are constrained and meets the constraints."""
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
                    "one constraint is for a theta that is one array; this one is a tree: give a dictionary "
                    'of constraints by name, as in {"scale": "positive"}.'
                )
            return
        if not isinstance(tree, Mapping):
            raise ValueError(
                f"the constraints are by name ({', '.join(self.constraints)}), but theta is no dictionary: "
                "give one constraint, or a theta with names."
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
        """Raise unless y has the leaves that are constrained and the target is finite at x(y)."""
        self._check_names(y)
        self.target.validate(self.constrain(y))


class ConstrainedPosterior(Constrained):
    """A `Constrained` target with data: the Jacobian is part of the prior; made by `constrain`."""

    @property
    def data(self) -> PyTree[Array]:
        """Those of the posterior."""
        return self.target.data

    @property
    def size(self) -> int:
        """N, the number of data."""
        return self.target.size

    def log_prior(self, y: PyTree[Array]) -> Array:
        """log p(x(y)) + T log|det dx/dy|."""
        return self.target.log_prior(self.constrain(y)) + self.log_jacobian(y)

    def log_likelihood(self, y: PyTree[Array], datum: PyTree[Array]) -> Array:
        """log p(datum | x(y))."""
        return self.target.log_likelihood(self.constrain(y), datum)

    def minibatch_potential(self, y: PyTree[Array], batch: PyTree[Array]) -> Array:
        """The unbiased estimate of U_y over a batch."""
        return self.target.minibatch_potential(self.constrain(y), batch) - self.log_jacobian(y)

    def weighted(self, batch: PyTree[Array]) -> tuple[PyTree[Array], Any]:
        """The rows of a batch, and what each counts for."""
        return self.target.weighted(batch)

    def datum_gradients(self, y: PyTree[Array], rows: PyTree[Array]) -> PyTree[Array]:
        """-∇log p(datum | x(y)) by y of every datum in `rows`, along a new first axis."""
        return jax.vmap(jax.grad(lambda u, datum: -self.log_likelihood(u, datum)), (None, 0))(y, rows)


def constrain(target: Any, constraints: Any) -> Constrained:
    r"""The target with theta, or leaves of it by name, kept positive, in an interval, a simplex, or in order.

    ```python
    target = fk.constrain(posterior, {"scale": "positive", "weights": "simplex"})
    trace = fk.sample(target, sampler, init={"mean": 0.0, "scale": 1.0, "weights": jnp.ones(3) / 3}, …)
    trace.samples["scale"]  # positive
    ```

    A constraint is "real", "positive", "unit" (between 0 and 1), "simplex", "ordered", or one of
    `fk.constraints`; leaves that are not named are real. The sampler moves unconstrained numbers y with
    θ = x(y) and the log-Jacobian of x in the potential, whatever the temperature, so that the density of θ is
    the target's (with respect to Lebesgue measure; on a simplex, on all entries but the last).

    What a user gives and gets is θ: `init`, draws and moments, `fk.find_mode`, `fk.gradients.norms` and the
    centre of `fk.gradients.control_variates`. The target's own methods, `init` and `step` of a sampler, and
    `trace.state` are in terms of y; `target.constrain` and `target.unconstrain` go between the two.
    """
    if not hasattr(target, "potential"):
        raise TypeError(
            f"the target must be a fk.Density or a fk.Posterior, not {type(target).__name__}; a function is "
            "made one by fk.Density(log_density)."
        )
    if isinstance(target, Constrained):
        raise TypeError("this target is constrained already: give all its constraints at once.")
    kind = ConstrainedPosterior if hasattr(target, "minibatch_potential") else Constrained
    if isinstance(constraints, Mapping):
        return kind(target, {name: as_constraint(given) for name, given in constraints.items()})
    return kind(target, as_constraint(constraints))


def unconstrained(target: Any, theta: PyTree[Any]) -> PyTree[Array]:
    """Theta as a sampler of the target knows it: y, where the target has constraints."""
    return target.unconstrain(theta) if hasattr(target, "unconstrain") else as_arrays(theta)


def constrained(target: Any, y: PyTree[Array]) -> PyTree[Array]:
    """Theta as the user knows it, for the y of a sampler."""
    return target.constrain(y) if hasattr(target, "constrain") else y
