"""Riemannian dynamics: SGRHMC and gSGRHMC."""

from collections.abc import Callable
from typing import Any

from fokker._core.types import Number
from fokker.dynamics._dynamics import Dynamics
from fokker.dynamics._kinetic import unit_mass
from fokker.dynamics.hamiltonian import Hamiltonian
from fokker.fields import FieldLike


def riemann(
    potential: Callable[..., Any],
    inverse_metric: FieldLike,
    inverse_metric_root: FieldLike,
    temperature: Number = 1.0,
) -> Dynamics:
    r"""dθ = G^{-1/2} r dt, dr = [-G^{-1/2}∇U + T∇·G^{-1/2} - G⁻¹r] dt + √(2TG⁻¹) dW, with G = G(θ).

        H = U + rᵀr/2,  D = diag(0, G⁻¹),  Q = [[0, -G^{-1/2}], [G^{-1/2}, 0]]

    gSGRHMC for any symmetric G(θ), SGRHMC for the Fisher information (Ma et al. 2015, Algorithm 1; their
    Eq. 17 prints two signs wrong). `inverse_metric` is G⁻¹ and `inverse_metric_root` is G^{-1/2}, as fields.

    Arguments:

    - `potential`: U, a function of theta that returns a number.
    - `inverse_metric`: the field G(θ)⁻¹, positive definite.
    - `inverse_metric_root`: the field G(θ)^{-½}.
    - `temperature`: T.

    Returns a `fk.Dynamics` of `theta` and `r`.

    ```python
    potential = lambda theta: jnp.sum(theta**2) / 2
    inverse = fk.fields.Elementwise(lambda theta: 1 / (1 + theta**2))
    root = fk.fields.Elementwise(lambda theta: 1 / jnp.sqrt(1 + theta**2))
    dynamics = fk.dynamics.riemann(potential, inverse, root)
    drift = dynamics.drift({"theta": jnp.ones(2), "r": jnp.ones(2)})
    ```
    """
    return Dynamics(
        Hamiltonian(potential, unit_mass),
        D={("r", "r"): inverse_metric},
        Q={("r", "theta"): inverse_metric_root},
        temperature=temperature,
    )
