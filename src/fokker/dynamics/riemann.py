"""Riemannian dynamics: SGRHMC and gSGRHMC."""

from collections.abc import Callable
from typing import Any

from fokker.dynamics._dynamics import Dynamics
from fokker.dynamics._kinetic import unit_mass
from fokker.dynamics.hamiltonian import Hamiltonian


def riemann(
    potential: Callable[..., Any], inverse_metric: Any, inverse_metric_root: Any, temperature: Any = 1.0
) -> Dynamics:
    r"""dθ = G^{-1/2} r dt, dr = [-G^{-1/2}∇U + T∇·G^{-1/2} - G⁻¹r] dt + √(2TG⁻¹) dW, with G = G(θ).

        H = U + rᵀr/2,  D = diag(0, G⁻¹),  Q = [[0, -G^{-1/2}], [G^{-1/2}, 0]]

    gSGRHMC for any symmetric G(θ), SGRHMC for the Fisher information (Ma et al. 2015, Algorithm 1; their
    Eq. 17 prints two signs wrong). `inverse_metric` is G⁻¹ and `inverse_metric_root` is G^{-1/2}, as fields.
    """
    return Dynamics(
        Hamiltonian(potential, unit_mass),
        D={("r", "r"): inverse_metric},
        Q={("r", "theta"): inverse_metric_root},
        temperature=temperature,
    )
