"""Riemannian Hamiltonian Monte Carlo."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fokker._core.state import as_arrays, describe_shapes, is_leaf, ravel, same_structure, unravel
from fokker._core.types import Number
from fokker.corrections import Metropolis
from fokker.dynamics import Dynamics
from fokker.dynamics.hamiltonian import Hamiltonian
from fokker.fields import Field, FieldLike
from fokker.integrators import GeneralisedLeapfrog
from fokker.samplers._momentum import NewMomentum
from fokker.samplers.corrected import Corrected
from fokker.samplers.family import Family, Potential
from fokker.samplers.schedules import StepSize, check_step_size


def rhmc(
    step_size: StepSize,
    metric: FieldLike,
    num_integration_steps: int = 10,
    *,
    tolerance: float | None = None,
    iterations: int = 50,
) -> Corrected:
    r"""Riemannian Hamiltonian Monte Carlo (Girolami and Calderhead 2011, Eq. 13 to 18).

        H = U(θ)/T + ½ log det G(θ) + ½ rᵀG(θ)⁻¹r,   r ~ N(0, G(θ)) at every step

    of which theta's marginal is exp(-U/T). A step is `num_integration_steps` (L) steps of
    `fokker.integrators.GeneralisedLeapfrog`, which has `tolerance` and `iterations`; one that is not solved,
    or does not lead back, is rejected and counted in `info.is_divergent`. Then Metropolis: exact for every
    step size, up to that tolerance.

    `metric` is G: a function of theta that returns a number (G = g·1), a vector or a tree like theta (a
    diagonal), or a matrix, in the order in which theta is written as a vector; a field of `fk.fields`; or a
    constant. A leapfrog takes some ten gradients, and of a full matrix as many decompositions.

    `sgrhmc` is its relative for minibatches, with friction in place of Metropolis. There the momentum has
    unit mass: with r ↦ G^{-½}r, ½rᵀG⁻¹r is ½rᵀr and log det G is gone. In one dimension the two are the same
    Hamiltonian flow, Γ = ∇·G^{-½} being the force of log det G; in more, Q = G^{-½} keeps exp(-U) too, but by
    other paths.

    Arguments:

    - `step_size`: ε, a number.
    - `metric`: G(θ), as above.
    - `num_integration_steps`: L, the steps of a path.
    - `tolerance`: of the implicit equations; None for one that fits the precision.
    - `iterations`: the most that they are given.

    Returns a sampler with a correction (`fokker.samplers.corrected.Corrected`), for `fk.sample` or a loop of
    your own.

    ```python
    sampler = fk.samplers.rhmc(0.3, lambda theta: 1 + theta**2)
    trace = fk.sample(target, sampler, init=jnp.zeros(2), steps=1000)
    ```
    """
    if isinstance(step_size, str):
        raise ValueError(f"rhmc needs a step size that is a number, not {step_size!r}.")
    return Corrected(
        RiemannianHamiltonian(metric),
        check_step_size(step_size),
        GeneralisedLeapfrog(tolerance, iterations),
        correction=Metropolis(num_integration_steps),
        momentum=NewMomentum(),
        name="rhmc",
    )


class RiemannianHamiltonian(Family):
    """H = U + ½ log det G + ½ rᵀG⁻¹r of position and momentum."""

    metric: Any

    label = "Riemannian"

    def _kinetic(self, theta: PyTree[Array], r: PyTree[Array]) -> Array:
        root, p = _root(self.metric, theta), ravel(r)
        if root.ndim == 2:
            y = jax.scipy.linalg.solve_triangular(root, p, lower=True)
            return jnp.sum(jnp.log(jnp.diag(root))) + y @ y / 2
        return jnp.sum(jnp.log(root)) + jnp.sum((p / root) ** 2) / 2

    def dynamics(self, potential: Potential, temperature: Number) -> Dynamics:
        """The flow of H."""
        return Dynamics(Hamiltonian(potential, self._kinetic), Q={("r", "theta"): 1.0})

    def new_momentum(self, noise: Array, theta: PyTree[Array]) -> PyTree[Array]:
        """r ~ N(0, G(θ))."""
        root = _root(self.metric, theta)
        return unravel(root @ noise if root.ndim == 2 else root * noise, theta)

    def check(self, theta: PyTree[Array]) -> None:
        """Raise unless G is a metric at theta."""
        _check(self.metric, theta)


def _root(metric: FieldLike, theta: PyTree[Array]) -> Array:
    """The root of G: a diagonal or a triangle."""
    x = ravel(theta)
    G = _metric_at(metric, theta).astype(x.dtype)
    return jnp.linalg.cholesky(G) if G.ndim == 2 else jnp.broadcast_to(jnp.sqrt(G), x.shape)


def _check(metric: FieldLike, theta: PyTree[Array]) -> None:
    """Raise unless G is a metric at theta."""
    x, G = ravel(theta), _metric_at(metric, theta)
    if G.shape not in ((), x.shape, (x.size, x.size)):
        raise ValueError(
            f"the metric of a theta of {x.size} numbers must be one number, {x.size} numbers, or a "
            f"matrix of {x.size} × {x.size}; it has the shape {G.shape}."
        )
    root = _root(metric, theta)
    diagonal = jnp.diag(root) if root.ndim == 2 else root
    symmetric = jnp.all(jnp.abs(G - G.T) <= 1e-5 * jnp.max(jnp.abs(G))) if G.ndim == 2 else True
    good = jnp.all(diagonal > 0) & symmetric  # NaN for what has no root
    if not isinstance(good, jax.core.Tracer) and not bool(good):
        raise ValueError(
            f"the metric is not symmetric and positive definite at the initial position: it is {G}. Give "
            "G(θ), not its inverse; add a multiple of the identity, or use the Fisher information."
        )


def _metric_at(metric: FieldLike, theta: PyTree[Array]) -> Array:
    """G(θ) as a number, a vector or a matrix."""
    if isinstance(metric, Field):
        z = {"theta": theta}
        entries = metric.diagonal(z, "theta")
        return metric.as_matrix(z, "theta", "theta") if entries is None else ravel(entries)
    G = as_arrays(metric(theta) if callable(metric) else metric)
    if is_leaf(G):
        return G
    if not same_structure(G, theta):
        raise ValueError(f"the metric is a tree unlike theta: {describe_shapes(G)}.")
    return ravel(G)
