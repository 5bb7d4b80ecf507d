"""The stationary flux nearest to a flux that is not stationary."""

import jax
import jax.numpy as jnp
import numpy as np

from fokker.completion._grid import GridFlux
from fokker.dynamics.problem import Problem

_TOLERANCE = 1e-12
_MOST_STEPS = {1: 4000, 2: 600, 3: 300}


def nearest_flux(problem: Problem, flux: GridFlux) -> tuple[np.ndarray, float, float]:
    r"""F' = p (F/p - ∇ψ), divergence free, with least ∫ p |∇ψ|²; its share; and the residual.

    Of all drifts with stationary density p, f - ∇ψ is nearest to f in mean square over p. (Projection in
    Fourier space, F̂ - k(k·F̂)/kᵀk, gives the nearest flux without the weight 1/p. There the change of the
    drift is a power divided by p and grows without bound in the tails.)

    With u = √p ψ and B u = √p ∇(u/√p) = ∇u + u∇H/2 it is the least-squares problem min |F/√p - B u|², solved
    by conjugate gradients with (c - Δ)⁻¹ as preconditioner. The share is ∫p|∇ψ|² over ∫p|F/p|². The residual
    is that of the normal equations, relative to its initial value.
    """
    d, shape, spectrum = len(flux.F), flux.density.shape, flux.spectrum
    points = np.stack(np.meshgrid(*flux.axes, indexing="ij"), axis=-1).reshape(-1, d)
    gradient = jax.jit(lambda x: jax.lax.map(jax.grad(problem.hamiltonian), x, batch_size=8192))
    half = jnp.nan_to_num(gradient(jnp.asarray(points)).T.reshape(d, *shape) / 2, posinf=0.0, neginf=0.0)
    k = [jnp.asarray(2 * np.pi * np.broadcast_to(axis, spectrum.k2.shape)) for axis in spectrum.k]
    axes = tuple(range(d))
    root = np.sqrt(flux.density)
    # F/√p, and 0 where p underflows.
    target = jnp.asarray(np.divide(flux.F, root, out=np.zeros_like(flux.F), where=root > 0))

    def differentiate(u: jax.Array, a: int) -> jax.Array:
        return jnp.fft.irfftn(1j * k[a] * jnp.fft.rfftn(u, axes=axes), s=shape, axes=axes)

    def B(u: jax.Array) -> jax.Array:
        return jnp.stack([differentiate(u, a) + u * half[a] for a in range(d)])

    def B_transposed(s: jax.Array) -> jax.Array:
        return sum((s[a] * half[a] - differentiate(s[a], a) for a in range(d)), jnp.zeros(shape))

    potential = float(jnp.sum(flux.density * jnp.sum(half**2, axis=0)) / np.sum(flux.density))
    smoothing = 1 / (sum(x**2 for x in k) + potential)

    def precondition(u: jax.Array) -> jax.Array:
        return jnp.fft.irfftn(smoothing * jnp.fft.rfftn(u, axes=axes), s=shape, axes=axes)

    @jax.jit
    def solve(target: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        right = B_transposed(target)
        u, _ = jax.scipy.sparse.linalg.cg(
            lambda u: B_transposed(B(u)), right, tol=_TOLERANCE, maxiter=_MOST_STEPS[d], M=precondition
        )
        change = B(u)
        residual = jnp.linalg.norm(B_transposed(target - change)) / jnp.linalg.norm(right)
        return change, residual, jnp.sum(change**2) / jnp.sum(target**2)

    change, residual, share = solve(target)
    return flux.F - root * np.asarray(change), float(share), float(residual)
