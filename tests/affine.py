"""On a Gaussian a step is affine, and its stationary covariance the solution of a Lyapunov equation."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from scipy.linalg import block_diag, solve_discrete_lyapunov

import fokker as fk
from conftest import quick_jit
from fokker.samplers import SamplerState

PRECISION = np.array([[2.0, 0.6], [0.6, 1.0]])


class Gaussian(fk.Target):
    """exp(-θᵀPθ/2), its gradient with the batch added as noise."""

    precision: np.ndarray

    def potential(self, theta):
        return theta @ jnp.asarray(self.precision, theta.dtype) @ theta / 2

    def minibatch_potential(self, theta, batch):
        return self.potential(theta) + batch @ theta


def precision_of(d):
    """Eigenvalues from 0.5 to 2 in a rotated basis."""
    if d == 2:
        return PRECISION
    basis, _ = np.linalg.qr(np.random.default_rng(d).normal(size=(d, d)))
    return basis @ np.diag(np.linspace(0.5, 2.0, d) if d > 1 else [1.3]) @ basis.T


def affine_in(make, target):
    """A, B, C of z' = Az + Bw + Cν as a function of what `make` and the temperature are given.

    w is the noise; ν that of the gradient, which comes by the batch. Compiled once for all settings.
    """
    d = len(target.precision)

    def jacobians(temperature, *settings):
        placed = make(*settings).on(target, temperature)
        state = placed.init(jnp.linspace(0.2, -0.3, d), key=jax.random.key(0))
        x, back = ravel_pytree(state.z)
        w, noise = ravel_pytree(placed.draw(jax.random.key(1), state))

        def step(x, w, nu):
            moved, info = placed.advance(noise(w), SamplerState(back(x), state.step), nu)
            return ravel_pytree(moved.z)[0], info.noise_shortfall

        zeros = jnp.zeros_like(w), jnp.zeros(d)
        return jax.jacfwd(step, argnums=(0, 1, 2), has_aux=True)(x, *zeros)

    compiled = quick_jit(jacobians)

    def matrices(temperature, *settings):
        ABC, shortfall = compiled(temperature, *settings)
        assert shortfall is None or float(shortfall) == 0  # None where it does not apply
        return tuple(np.asarray(M) for M in ABC)

    return matrices


def affine(sampler, target, temperature):
    return affine_in(lambda: sampler, target)(temperature)


def stationary(matrices, gradient_noise=None):
    """The stationary covariance; ravel_pytree has the variables by their names in order, r before theta."""
    A, B, C = matrices
    assert np.max(np.abs(np.linalg.eigvals(A))) < 1
    given = 0 if gradient_noise is None else C @ gradient_noise @ C.T
    return solve_discrete_lyapunov(A, B @ B.T + given)


def covariance(sampler, target, temperature=1.0, gradient_noise=None):
    """Of theta alone, wherever it stands among the variables of the state."""
    start = jnp.zeros(len(target.precision))
    z = sampler.on(target, temperature).init(start, key=jax.random.key(0)).z
    marked = {name: jax.tree.map(lambda x, n=name: jnp.full(x.shape, n == "theta"), z[name]) for name in z}
    places = np.flatnonzero(ravel_pytree(marked)[0])
    return stationary(affine(sampler, target, temperature), gradient_noise)[np.ix_(places, places)]


def wanted(target, mass, temperature):
    """T diag(M, P⁻¹), the covariance of exp(-H/T)."""
    sigma = np.linalg.inv(target.precision)
    return temperature * (sigma if mass is None else block_diag(mass * np.eye(len(sigma)), sigma))
