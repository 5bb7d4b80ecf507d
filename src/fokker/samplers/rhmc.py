"""Riemannian Hamiltonian Monte Carlo."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from fokker import corrections
from fokker._core.count import Count, no_steps
from fokker._core.state import as_arrays, describe_shapes, is_leaf, ravel, same_structure, unravel
from fokker.fields import Field
from fokker.gradients import Estimator
from fokker.integrators.generalised_leapfrog import reversible_leapfrog
from fokker.samplers import _whole
from fokker.samplers._sampler import Sampler, SamplerState, all_finite, check_step_size, step_size_at
from fokker.samplers._whole import StepInfo


class Draws(NamedTuple):
    """The randomness of one step: a unit momentum, and a uniform number to accept with."""

    noise: Array
    uniform: Array


class RiemannianHMC(Sampler):
    """Trajectories of the Hamiltonian in a metric, with Metropolis; made by `rhmc`."""

    step_size: Any
    metric: Any
    tolerance: Any
    leaps: int = eqx.field(static=True)
    iterations: int = eqx.field(static=True)
    target: Any = None
    temperature: Any = 1.0

    name = "rhmc"

    corrected = True
    decides = True

    def on(self, target: Any, temperature: Any = 1.0, gradient: Estimator | None = None) -> "RiemannianHMC":
        """The sampler of exp(-U/T) for a target."""
        return _whole.placed(self, target, temperature, gradient)

    def _factor(self, theta: PyTree[Array]) -> Callable[[Array], Array]:
        """The root of G at a vector that stands for a tree like theta: a diagonal or a triangle."""

        def factor(x: Array) -> Array:
            G = _metric_at(self.metric, unravel(x, theta)).astype(x.dtype)
            return jnp.linalg.cholesky(G) if G.ndim == 2 else jnp.broadcast_to(jnp.sqrt(G), x.shape)

        return factor

    def hamiltonian(self, theta: PyTree[Array]) -> Callable[[Array, Array], Array]:
        """H of position and momentum, vectors that stand for trees like theta."""
        factor = self._factor(theta)
        potential = _whole.tempered(self.own_target, self.temperature, theta)

        def H(x: Array, r: Array) -> Array:
            root = factor(x)
            if root.ndim == 2:
                y = jax.scipy.linalg.solve_triangular(root, r, lower=True)
                return potential(x) + jnp.sum(jnp.log(jnp.diag(root))) + y @ y / 2
            return potential(x) + jnp.sum(jnp.log(root)) + jnp.sum((r / root) ** 2) / 2

        return H

    def init(self, position: PyTree[Any], *, key: Key[Array, ""] | None = None) -> SamplerState:
        """The state to start from, after the metric there has been looked at."""
        theta = _whole.check_position(self, position)
        x = ravel(theta)
        G = _metric_at(self.metric, theta)
        if G.shape not in ((), x.shape, (x.size, x.size)):
            raise ValueError(
                f"the metric of a theta of {x.size} numbers must be one number, {x.size} numbers, or a "
                f"matrix of {x.size} × {x.size}; it has the shape {G.shape}."
            )
        root = self._factor(theta)(x)
        diagonal = jnp.diag(root) if root.ndim == 2 else root
        symmetric = jnp.all(jnp.abs(G - G.T) <= 1e-5 * jnp.max(jnp.abs(G))) if G.ndim == 2 else True
        good = jnp.all(diagonal > 0) & symmetric  # NaN for what has no root
        if not isinstance(good, jax.core.Tracer) and not bool(good):
            raise ValueError(
                f"the metric is not symmetric and positive definite at the initial position: it is {G}. Give "
                "G(θ), not its inverse; add a multiple of the identity, or use the Fisher information."
            )
        U = self.own_target.potential(theta)
        _whole.check_finite_start(U, U)
        return SamplerState({"theta": theta}, no_steps())

    def draw(self, key: Key[Array, ""], state: SamplerState) -> Draws:
        """A momentum in units of the metric's root, and the number to accept with."""
        noise_key, accept_key = jax.random.split(key)
        x = ravel(state.position)
        noise = jax.random.normal(noise_key, x.shape, x.dtype)
        return Draws(noise, jax.random.uniform(accept_key, (), x.dtype))

    def advance(
        self, draws: Draws, state: SamplerState, batch: Any = None, number: Count | None = None
    ) -> tuple[SamplerState, Any]:
        """One trajectory with the randomness given."""
        _whole.no_batch(self, batch)
        theta = state.position
        x, H = ravel(theta), self.hamiltonian(theta)
        h = jnp.asarray(step_size_at(self.step_size, state.step if number is None else number), x.dtype)
        root = self._factor(theta)(x)
        r = root @ draws.noise if root.ndim == 2 else root * draws.noise
        tolerance = self.tolerance
        if tolerance is None:
            tolerance = 1e-5 if jnp.finfo(x.dtype).bits == 32 else 1e-10

        def leap(_: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            y, p, sound = carry
            y, p, good = reversible_leapfrog(H, y, p, h, tolerance, self.iterations)
            return y, p, sound & good

        y, p, sound = jax.lax.fori_loop(0, self.leaps, leap, (x, r, jnp.asarray(True)))
        change = H(y, p) - H(x, r)
        accepted, acceptance, divergent = corrections.metropolis(draws.uniform, change, sound)
        proposal = unravel(y, theta)
        moved = _whole.choose(accepted, proposal, theta)
        finite = all_finite(moved) & (h >= 0)
        info = StepInfo(finite, jnp.zeros(()), accepted, acceptance, proposal, change, divergent)
        return SamplerState({"theta": moved}, state.step + 1), info


def _metric_at(metric: Any, theta: PyTree[Array]) -> Array:
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


def rhmc(
    step_size: Any, metric: Any, leaps: int = 10, *, tolerance: float | None = None, iterations: int = 50
) -> RiemannianHMC:
    r"""Riemannian Hamiltonian Monte Carlo (Girolami and Calderhead 2011, Eq. 13 to 18).

        H = U(θ)/T + ½ log det G(θ) + ½ rᵀG(θ)⁻¹r,   r ~ N(0, G(θ)) at every step

    of which theta's marginal is exp(-U/T). A step is `leaps` generalised leapfrogs, whose implicit equations
    are solved by iteration, to `tolerance` of the way gone (1e-5, in double precision 1e-10) within so many
    `iterations`; a leap that is not solved, or that taken back does not end where it began, is rejected and
    counted in `info.divergent`. Then Metropolis: exact for every step size, up to that tolerance.

    `metric` is G: a function of theta that gives a number (G = g·1), a vector or a tree like theta (a
    diagonal), or a matrix, in the order in which theta is written as a vector; a field of `fk.fields`; or a
    constant. A leap takes some ten gradients, and of a full matrix as many decompositions.

    `sgrhmc` is its relative for minibatches, with friction in place of Metropolis. There the momentum has
    unit mass: with r ↦ G^{-½}r, ½rᵀG⁻¹r is ½rᵀr and log det G is gone. In one dimension the two are the same
    Hamiltonian flow, Γ = ∇·G^{-½} being the force of log det G; in more, Q = G^{-½} keeps exp(-U) too, but by
    other paths.

    ```python
    sampler = fk.samplers.rhmc(0.3, lambda theta: 1 + jnp.exp(theta))
    ```
    """
    _whole.check_whole("leaps", leaps)
    _whole.check_whole("iterations", iterations)
    if tolerance is not None and not tolerance > 0:
        raise ValueError(f"the tolerance must be positive; {tolerance} was given.")
    if isinstance(step_size, str):
        raise ValueError(f"rhmc needs a step size that is a number, not {step_size!r}.")
    constant = not callable(metric) and not isinstance(metric, Field)
    return RiemannianHMC(
        check_step_size(step_size), as_arrays(metric) if constant else metric, tolerance, leaps, iterations
    )
