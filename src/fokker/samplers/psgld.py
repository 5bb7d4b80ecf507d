"""Preconditioned stochastic gradient Langevin dynamics, with its correction."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from fokker._core.count import Count, no_steps
from fokker._core.random import split
from fokker._core.rounding import draw_rounding, is_half, raised, rounded
from fokker._core.state import as_arrays
from fokker._core.types import Arrays, Number
from fokker.dynamics import Dynamics, langevin
from fokker.dynamics._checks import validate_state
from fokker.fields import Diagonal
from fokker.gradients import Estimator
from fokker.integrators.euler_maruyama import one_number
from fokker.integrators.noise import check_noise, draw_like
from fokker.samplers._checks import check_target, prepared
from fokker.samplers._time_scale import curvature_time
from fokker.samplers.contract import (
    Followed,
    Info,
    Memory,
    Sampler,
    SamplerState,
    all_finite,
    theta_of,
)
from fokker.samplers.schedules import StepSize, check_step_size, step_size_at
from fokker.targets.target import Target


class PreconditionedSGLD(Sampler):
    """SGLD with a diagonal preconditioner learned from past gradients; made by `psgld`.

    A sampler of its own: D is a running average over the chain's own path, with a memory beside the state,
    and so no function of z, as the D of dynamics is.
    """

    step_size: Any
    alpha: Array
    regularisation: Array
    noise: str = eqx.field(static=True, default="gaussian")
    target: Any = None
    estimator: Estimator = Estimator()
    temperature: Any = 1.0

    name = "psgld"
    takes_batches = True
    batches_undivided = ""
    replicas_refused = "its preconditioner is learned from the path of a chain, which exchanges break"
    needs_more_than_gradient = (
        "its correction needs Hessian-vector products, and an optimiser is given gradients"
    )

    def __str__(self) -> str:
        return "Langevin with a learned diagonal D × Euler–Maruyama"

    def on(
        self, target: Target, temperature: Number = 1.0, gradient: Estimator | None = None
    ) -> "PreconditionedSGLD":
        """The sampler of exp(-U/T) for a target, by an estimator of its gradient."""
        target = check_target(target, temperature, gradient)
        estimator = prepared(gradient, target)
        return dataclasses.replace(
            self, target=target, estimator=estimator, temperature=as_arrays(temperature)
        )

    def follows(self, state: PyTree[Any] | None = None) -> Followed:
        """Those of an average that has caught up, in which the chain's own memory is missing."""
        whole = None if state is None else {"theta": theta_of(state)}
        doubt = (
            "the preconditioner was taken to be that of the gradient where the chain is, V = ∇U². That of "
            "the sampler is an average over earlier steps, and its bias is not in these dynamics: compare "
            "the variances of a run with those of an exact sampler"
        )
        return Followed(self._without_memory, whole, doubt=doubt)

    @property
    def _without_memory(self) -> Dynamics:
        r"""dθ = [-D∇U + TΓ] dt + √(2TD) dW with D = diag(1/(λ + |∇U|))."""
        potential, least = self.own_target.potential, self.regularisation

        def D(theta: PyTree[Array]) -> PyTree[Array]:
            gradient = jax.grad(potential)(theta)
            return jax.tree.map(lambda g: 1 / (least.astype(g.dtype) + jnp.abs(g)), gradient)

        return langevin(potential, Diagonal(D), temperature=self.temperature)

    def fastest_time(
        self, target: Target, temperature: Number, theta: PyTree[Array], key: Key[Array, ""]
    ) -> float:
        """√(T/λ): it is preconditioned by 1/√(T∇²U), the root mean square of ∇U."""
        return curvature_time(target, temperature, theta)

    @property
    def gathering_steps(self) -> int:  # type: ignore[override]
        """Steps in which the chain does not move."""
        return round(1 / (1 - float(self.alpha)))

    def init(self, position: PyTree[Any], *, key: Key[Array, ""] | None = None) -> SamplerState:
        """No gradients yet."""
        theta = as_arrays(position)
        validate_state(theta)
        single = raised(theta)
        nothing = jax.tree.map(jnp.zeros_like, single)
        z = {"theta": theta, "V": nothing, "W": nothing}
        return SamplerState(z, no_steps(), Memory(estimator=self.estimator.init(self.own_target, single)))

    def draw(self, key: Key[Array, ""], state: SamplerState) -> tuple[PyTree[Array], ...]:
        """Noise, the signs along which the curvature is probed, and bits to round half precision with."""
        rounding_key = None
        if any(is_half(x) for x in jax.tree.leaves(state.position)):
            key, rounding_key = split(key)
        like = jax.eval_shape(lambda: raised(state.position))
        noise_key, probe_key = split(key)
        noise, signs = draw_like(self.noise, noise_key, like), draw_like("two-point", probe_key, like)
        return noise, signs, draw_rounding(rounding_key, state.position)

    def advance(
        self, draws: Arrays, state: SamplerState, batch: Arrays = None, number: Count | None = None
    ) -> tuple[SamplerState, Info]:
        """One step with the randomness given."""
        number = state.step if number is None else number
        target, theta, T = self.own_target, raised(state.position), self.temperature
        w, v, rounding = draws

        def gradient(x: PyTree[Array]) -> PyTree[Array]:
            if batch is None:
                return jax.grad(target.potential)(x)
            return self.estimator.gradient(target, state.memory.estimator, x, batch)

        g, Hv = jax.jvp(gradient, (theta,), (v,))
        h, alpha = one_number(step_size_at(self.step_size, state.step)), self.alpha
        gathers = state.step < jnp.round(1 / (1 - alpha))
        total = jnp.where(gathers, 1.0, 1 - alpha ** state.step.astype(alpha.dtype))  # of the weights in V

        def move(
            x: Array, g: Array, w: Array, v: Array, Hv: Array, V: Array, W: Array
        ) -> tuple[Array, Array, Array]:
            # The averages of earlier steps: D and this step's minibatch are then independent.
            root = jnp.sqrt(V / total)
            D = 1 / (self.regularisation + root)
            derivative = jnp.where(root > 0, W / total / jnp.where(root > 0, 2 * root, 1), 0)
            step = h * (-D * g - T * D**2 * derivative) + jnp.sqrt(2 * h * T * D) * w
            curvature = v * Hv
            # At a mode g says nothing about later gradients, whose mean square is T·diag(∇²U).
            expected = jnp.where(gathers, T * jnp.abs(curvature), 0)
            # What is gathered at the start does not depend on theta.
            new_derivative = jnp.where(gathers, 0, 2 * g * curvature)
            # Bounded: a single probe can be far off, and paths diverge where the curvature is negative.
            retained = jnp.clip(1 - h * D * curvature, -1, 1)
            x_new = x + jnp.where(gathers, 0, step)
            V_new = alpha * V + (1 - alpha) * (g**2 + expected)
            W_new = alpha * retained * W + (1 - alpha) * new_derivative
            return x_new.astype(x.dtype), V_new.astype(V.dtype), W_new.astype(W.dtype)

        moved = jax.tree.map(move, theta, g, w, v, Hv, state.z["V"], state.z["W"])
        z = dict(
            zip(("theta", "V", "W"), jax.tree.transpose(jax.tree.structure(theta), None, moved), strict=True)
        )
        z["theta"] = rounded(z["theta"], state.position, rounding)
        remembered = state.memory.estimator
        if batch is not None:
            remembered = self.estimator.update(target, remembered, theta, batch, number)
        return SamplerState(z, state.step + 1, Memory(estimator=remembered)), Info(all_finite(z) & (h >= 0))


def psgld(
    step_size: StepSize, alpha: float = 0.99, regularisation: float = 1e-5, *, noise: str = "gaussian"
) -> PreconditionedSGLD:
    r"""θ' = θ + ε[-D∇Ũ + TΓ] + N(0, 2εTD) with D = diag(1/(λ + √V)), V a running average of ∇Ũ².

        V ← αV + (1 - α) ∇Ũ²,   W ← α(1 - εD diag(∇²Ũ))W + (1 - α) 2∇Ũ ⊙ diag(∇²Ũ),   Γ = -½ D² W/√V

    Preconditioned SGLD (Li et al. 2016) with its correction Γ = ∂D/∂θ, which is commonly dropped and without
    which the samples crowd where gradients are small. V depends on theta through every gradient in its
    average, and so does Γ: W is the derivative of V, by one Hessian-vector product per step along random
    signs v, whose v ⊙ ∇²Ũv is unbiased for the diagonal. The paper's own Γ counts the newest gradient
    alone, which is 1 - α of it. An old gradient depends on where theta is now only as far as theta still
    remembers where it was: two paths with the same noise approach each other by 1 - εD∇²U per step, and W
    counts old gradients less by that factor (its diagonal, between -1 and 1). D is made from earlier steps,
    so as not to depend on this step's minibatch. Keeps exp(-U/T) as ε → 0 for a fixed α on paper only: as V
    follows the gradient where the chain is, D grows to 1/λ where that vanishes, and the steps at hand are
    never small against it. On a standard normal with α = 0.99 variances come out 3 to 8 % too large at every
    ε from 0.05 to 0.0001; a larger λ, or an α nearer to 1, has less of it. A small α, which leaves D to a
    few gradients, needs small steps.

    The chain stands still for its first 1/(1 - α) steps, while V gathers ∇Ũ² + T|v ⊙ ∇²Ũv|: burn them in.
    The second term is what ∇U² will be on average, E[∂_iU²] = T E[∂_i²U] under exp(-U/T), and lets the chain
    start at the mode, where gradients are zero; it is forgotten as fast as any gradient. Where gradient and
    curvature both vanish at the start, D is 1/λ there: start elsewhere or take a larger λ. `regularisation`
    is λ. Two gradients' work per step.

    Arguments:

    - `step_size`: ε: a number, a schedule (a function of the number of steps taken, as in `fk.schedules`), or
      "auto" to have it found by `fk.tune`.
    - `alpha`: α, the weight of the past in V, between 0 and 1.
    - `regularisation`: λ, positive.
    - `noise`: the kind of unit noise: "gaussian", "three-point", "two-point" or "binomial"
      (`fokker.integrators.noise`).

    Returns a sampler of its own class: with V and W beside theta it is not dynamics × integrator. For
    `fk.sample` or a loop of your own.

    ```python
    trace = fk.sample(target, fk.samplers.psgld(1e-3), init=jnp.zeros(2), steps=1000)
    ```
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must be between 0 and 1; {alpha} was given.")
    if not regularisation > 0:
        raise ValueError(f"the regularisation must be positive; {regularisation} was given.")
    check_noise(noise)
    return PreconditionedSGLD(check_step_size(step_size), as_arrays(alpha), as_arrays(regularisation), noise)
