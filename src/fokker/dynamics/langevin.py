"""Overdamped Langevin dynamics: ULA, MALA, SGLD, SGFS and SGRLD."""

from collections.abc import Callable
from typing import Any

from fokker.dynamics._dynamics import Dynamics
from fokker.dynamics.hamiltonian import Hamiltonian


def langevin(potential: Callable[..., Any], D: Any = 1.0, temperature: Any = 1.0) -> Dynamics:
    r"""dθ = [-D∇U + T ∇·D] dt + √(2TD) dW with z = θ, H = U, Q = 0.

    D constant: ULA, SGLD (Welling and Teh 2011), SGFS (Ahn et al. 2012). D = G(θ)⁻¹: SGRLD (Patterson and Teh
    2013), where Γ = ∇·D is the correct term for Lebesgue measure (Xifara et al. 2014).
    """
    return Dynamics(Hamiltonian(potential), D={("theta", "theta"): D}, temperature=temperature)
