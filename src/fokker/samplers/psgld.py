"""Preconditioned stochastic gradient Langevin dynamics, with its correction."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from fokker._count import Count, no_steps
from fokker._random import split
from fokker._rounding import draw_rounding, is_half, raised, rounded
from fokker._state import as_arrays
from fokker.dynamics._dynamics import validate_state
from fokker.gradients import Estimator
from fokker.integrators.euler_maruyama import one_number
from fokker.noise import check_noise, draw_like
from fokker.samplers._sampler import (
    Info,
    Sampler,
    SamplerState,
    all_finite,
    check_step_size,
    check_target,
    step_size_at,
)


class PreconditionedSGLD(Sampler):
    """SGLD with a diagonal preconditioner learnt from past gradients; made by `psgld`."""

    step_size: Any
    alpha: Array
    regularisation: Array
    noise: str = eqx.field(static=True, default="gaussian")
    target: Any = None
    estimator: Estimator = Estimator()
    temperature: Any = 1.0

    def on(
        self, target: Any, temperature: Any = 1.0, gradient: Estimator | None = None
    ) -> "PreconditionedSGLD":
        """The sampler of exp(-U/T) for a target, by an estimator of its gradient."""
        target = check_target(target, temperature, gradient)
        estimator = (gradient or Estimator()).on(target)
        return dataclasses.replace(
            self, target=target, estimator=estimator, temperature=as_arrays(temperature)
        )

    def init(self, position: PyTree[Any], *, key: Key[Array, ""] | None = None) -> SamplerState:
        """No gradients seen yet."""
        theta = as_arrays(position)
        validate_state(theta)
        single = raised(theta)
        nothing = jax.tree.map(jnp.zeros_like, single)
        z = {"theta": theta, "V": nothing, "W": nothing}
        return SamplerState(z, no_steps(), self.estimator.init(self.own_target, single))

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
        self, draws: Any, state: SamplerState, batch: Any = None, number: Count | None = None
    ) -> tuple[SamplerState, Info]:
        """One step with the randomness given."""
        number = state.step if number is None else number
        target, theta, T = self.own_target, raised(state.position), self.temperature
        w, v, rounding = draws

        def gradient(x: PyTree[Array]) -> PyTree[Array]:
            if batch is None:
                return jax.grad(target.potential)(x)
            return self.estimator.gradient(target, state.estimator, x, batch)

        g, Hv = jax.jvp(gradient, (theta,), (v,))
        h, alpha = one_number(step_size_at(self.step_size, state.step)), self.alpha
        seen = 1 - alpha ** state.step.astype(alpha.dtype)
        moves = state.step * (1 - alpha) >= 1

        def move(x: Array, g: Array, w: Array, V: Array, W: Array) -> Array:
            # The averages of the steps before: D and this step's minibatch are then independent.
            root = jnp.sqrt(V / jnp.where(moves, seen, 1.0))
            D = 1 / (self.regularisation + root)
            slope = jnp.where(root > 0, W / jnp.where(moves, seen, 1.0) / jnp.where(root > 0, 2 * root, 1), 0)
            step = h * (-D * g - T * D**2 * slope) + jnp.sqrt(2 * h * T * D) * w
            return x + jnp.where(moves, step, 0).astype(x.dtype)

        V, W = state.z["V"], state.z["W"]
        z = {
            "theta": rounded(jax.tree.map(move, theta, g, w, V, W), state.position, rounding),
            "V": jax.tree.map(lambda a, g: (alpha * a + (1 - alpha) * g**2).astype(a.dtype), V, g),
            "W": jax.tree.map(
                lambda a, g, v, Hv: (alpha * a + (1 - alpha) * 2 * g * v * Hv).astype(a.dtype), W, g, v, Hv
            ),
        }
        remembered = state.estimator
        if batch is not None:
            remembered = self.estimator.update(target, remembered, theta, batch, number)
        return SamplerState(z, state.step + 1, remembered), Info(all_finite(z) & (h >= 0), jnp.zeros(()))


def psgld(
    step_size: Any, alpha: float = 0.99, regularisation: float = 1e-5, *, noise: str = "gaussian"
) -> PreconditionedSGLD:
    r"""θ' = θ + ε[-D∇Ũ + TΓ] + N(0, 2εTD) with D = diag(1/(λ + √V)), V a running average of ∇Ũ².

        V ← αV + (1 - α) ∇Ũ²,   W ← αW + (1 - α) 2∇Ũ ⊙ diag(∇²Ũ),   Γ = ∂D/∂θ = -½ D² W/√V

    Preconditioned SGLD (Li et al. 2016) with its correction Γ, which is commonly dropped and without
    which the samples crowd where gradients are small. V depends on theta through every gradient in its
    average, and so does Γ: W is the derivative of V, by one Hessian-vector product a step along random
    signs v, whose v ⊙ ∇²Ũv is unbiased for the diagonal. The paper's own Γ counts the newest gradient
    alone, which is 1 - α of it. D is made of the steps before, so as not to depend on this step's
    minibatch. Keeps exp(-U/T) as ε → 0 for a fixed α, minibatches or not; but V lags behind, and while
    theta moves far within 1/(1 - α) steps the draws are too narrow (by a fifth on two coordinates
    correlated by 0.95 at ordinary steps). The chain stands still for its first 1/(1 - α) steps, while V
    is gathered: burn them in. `regularisation` is λ. Two gradients' work a step.
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must be between 0 and 1; {alpha} was given.")
    if not regularisation > 0:
        raise ValueError(f"the regularisation must be positive; {regularisation} was given.")
    check_noise(noise)
    return PreconditionedSGLD(check_step_size(step_size), as_arrays(alpha), as_arrays(regularisation), noise)
