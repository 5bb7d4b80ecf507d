"""Isokinetic dynamics: a particle of unit speed that the force turns."""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fokker._core.state import ravel, unravel
from fokker._core.types import Number
from fokker.dynamics._sde import SDE
from fokker.dynamics.hamiltonian import Hamiltonian
from fokker.fields import Dense, Zero, symmetric


def isokinetic(
    potential: Callable[[PyTree[Array]], Array], scale: Number = 1.0, length: Number | None = None
) -> SDE:
    r"""dθ = s u dt,  du = [-(1 - uuᵀ)s∇U/(d-1) - (d-1)c u] dt + √(2c)(1 - uuᵀ) dW,  c = 1/(Ld),  |u| = 1.

        H = U(θ), and u is uniform on the unit sphere

    Keeps exp(-U) (Robnik, De Luca, Silverstein and Seljak 2023; Robnik and Seljak 2024). `u` is a vector of
    as many numbers as theta, at least two. `scale` is s: a number, or a vector of the coordinates' sizes.
    `length` is L, over which u is forgotten; without it there is no noise, c = 0.

    Arguments:

    - `potential`: U, a function of theta that returns a number.
    - `scale`: s: a number, or a vector with one number per coordinate of theta.
    - `length`: L; None (the default) for no noise.

    Returns a `fk.SDE` of `theta` and `u`.

    ```python
    potential = lambda theta: jnp.sum(theta**2) / 2
    dynamics = fk.dynamics.isokinetic(potential)
    drift = dynamics.drift({"theta": jnp.ones(2), "u": jnp.array([0.6, 0.8])})
    ```
    """

    def drift(theta: PyTree[Array], u: Array, gradient: PyTree[Array]) -> dict[str, PyTree[Array]]:
        s = jnp.asarray(scale, u.dtype)
        force = s * ravel(gradient)
        d = float(u.size)
        turn = -(force - u * (u @ force)) / (d - 1)
        if length is not None:
            turn -= (d - 1) / (length * d) * u
        return {"theta": unravel(s * u, theta), "u": turn}

    def along_the_sphere(u: Array) -> Array:
        assert length is not None
        return (jnp.eye(u.size, dtype=u.dtype) - jnp.outer(u, u)) / (length * u.size)

    noise = Zero() if length is None else symmetric({("u", "u"): Dense(along_the_sphere)})
    return SDE(drift, noise, Hamiltonian(potential, lambda u: 0 * jnp.sum(u)))
