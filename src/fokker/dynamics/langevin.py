"""Overdamped Langevin dynamics: ULA, MALA, SGLD, SGFS and SGRLD."""

from collections.abc import Callable
from typing import Any

from fokker._core.types import Number
from fokker.dynamics._dynamics import Dynamics
from fokker.dynamics.hamiltonian import Hamiltonian
from fokker.fields import FieldLike


def langevin(potential: Callable[..., Any], D: FieldLike = 1.0, temperature: Number = 1.0) -> Dynamics:
    r"""dθ = [-D∇U + T ∇·D] dt + √(2TD) dW with z = θ, H = U, Q = 0.

    D constant: ULA, SGLD (Welling and Teh 2011), SGFS (Ahn et al. 2012). D = G(θ)⁻¹: SGRLD (Patterson and Teh
    2013), where Γ = ∇·D is the correct term for Lebesgue measure (Xifara et al. 2014).

    Arguments:

    - `potential`: U, a function of theta that returns a number.
    - `D`: a number, a matrix, or a field of `fk.fields`.
    - `temperature`: T.

    Returns a `fk.Dynamics` of `theta`.

    ```python
    potential = lambda theta: jnp.sum(theta**2) / 2
    dynamics = fk.dynamics.langevin(potential)
    drift = dynamics.drift({"theta": jnp.ones(2)})
    ```
    """
    return Dynamics(Hamiltonian(potential), D={("theta", "theta"): D}, temperature=temperature)
