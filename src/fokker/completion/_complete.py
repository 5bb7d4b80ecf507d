"""`fokker.complete`: the skew Q of a drift, a diffusion and a target."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fokker.completion._box import validated_box
from fokker.completion._by_axis import complete_by_axis
from fokker.completion._by_fourier import complete_by_fourier
from fokker.completion._completion import Completion
from fokker.completion._grid import validated_grid
from fokker.dynamics import SDE, Dynamics
from fokker.dynamics.problem import Problem, as_dynamics, make_problem


def complete(
    drift: Any,
    diffusion: Any = None,
    hamiltonian: Any = None,
    *,
    state: Any = None,
    box: Any = None,
    grid: Any = None,
    method: str = "auto",
    axis: str | int | None = None,
    temperature: float = 1.0,
) -> Completion:
    r"""The skew Q with f = -(D + Q)∇H + Γ, from f, D and H (Ma, Chen, Fox 2015, Theorem 2).

        F = f p - ∇·(D p) = p (f - ∇·D + D∇H)     is divergence free iff p ∝ exp(-H) is stationary; then
        Σ_j ∂_j (Q_ij p) = F_i   is solved by   (Qp)^(k) = (F̂ kᵀ - k F̂ᵀ)/(2πi kᵀk)

    In two dimensions Q is unique and given by the formula. In three and more it is one of many with the same
    drift. The Q of the formula grows like 1/p in the tails; the FFT method computes one that does not
    (`decaying_gauge`). If exp(-H) is not stationary under the drift, the result belongs to the nearest drift
    for which it is, and contains the distance.

    | method | dimensions | computation |
    | --- | --- | --- |
    | `"fourier"` | 1 to 3 | by FFT on a periodic box, with Qp = 0 in the corner of the box |
    | `"axial"` | 2 and more | Q_ia p = ∫F_i dz_a along one `axis` a, the other entries 0; no grid |
    | `"auto"` | any | Fourier up to 3 dimensions, axial above |

    Arguments:

    - `drift`: f, a function of named variables or of the whole state, with `diffusion` and `hamiltonian`; or
      an `fk.Dynamics`, an `fk.SDE`, or a dictionary with the three names, which are given alone.
    - `diffusion`: D of a drift, with the temperature in it: a number, a diagonal in the structure of the
      state, a matrix, a dictionary of blocks, a field, or a function that returns one.
    - `hamiltonian`: H of a drift, a function of the state.
    - `state`: an example of the state, for its shapes and as a start for the search of the mass. Without it,
      named variables are taken as single numbers; a function of one variable needs it.
    - `box`: one (low, high) per coordinate, in their order or as a dictionary by name. None finds a box at
      whose faces the density is below 1e-15 of its maximum.
    - `grid`: the points per side of the grid for Fourier, one number or one per coordinate, each at least 16.
      None refines the grid until it resolves the flux.
    - `method`: a row of the table.
    - `axis`: the axis a of the axial method, as the name of a coordinate or its number from 0. None takes
      that along which the flux sums most nearly to zero.
    - `temperature`: T of a drift or an SDE, whose target is then exp(-H/T); a Dynamics has its own.

    Returns a `fk.Completion`: `.Q`, and `.dynamics` with it.

    ```python
    completion = fk.complete(
        lambda theta, r: (r, -theta - 0.5 * r),
        {("r", "r"): 0.5},
        lambda theta, r: (theta**2 + r**2) / 2,
    )
    print(completion)
    z = {"theta": jnp.ones(()), "r": jnp.zeros(())}
    completion.Q.as_matrix(z)  # [[0, -1], [1, 0]]
    ```
    """
    if method not in ("auto", "fourier", "axial"):
        raise ValueError(f"method is 'auto', 'fourier' or 'axial', not {method!r}.")
    dynamics = as_dynamics(drift, diffusion, hamiltonian, state)
    wide = jnp.zeros(()).dtype == jnp.float64
    T = _temperature(dynamics, temperature)
    with jax.enable_x64(True):
        problem = make_problem(dynamics, state=state, temperature=T)
        d = problem.dimension
        if method == "fourier" and d > 3:
            raise ValueError(
                f"method='fourier' needs a grid, which is possible up to 3 dimensions; this state has {d}. "
                "Use method='axial', or 'auto'."
            )
        if method == "axial" and d == 1:
            raise ValueError("method='axial' needs two dimensions; in one, Q is zero: use method='auto'.")
        sides = None if box is None else validated_box(box, problem)
        jitted = jax.jit(jax.vmap(problem.hamiltonian))

        def energy(points: np.ndarray) -> np.ndarray:
            H = np.asarray(jitted(jnp.asarray(points)))
            return np.where(np.isnan(H), np.inf, H)

        if method == "axial" or d > 3:
            if grid is not None:
                raise ValueError("grid=… is for method='fourier'; the axial gauge has no grid: leave it out.")
            return complete_by_axis(dynamics, problem, energy, sides, _axis(axis, problem), T, wide)
        if axis is not None:
            raise ValueError("axis=… is for method='axial': give that method, or leave out axis.")
        shape = None if grid is None else validated_grid(grid, d)
        return complete_by_fourier(dynamics, problem, energy, sides, shape, T, wide)


def _temperature(dynamics: Dynamics | SDE, temperature: float) -> float:
    T = float(dynamics.temperature) if isinstance(dynamics, Dynamics) else float(temperature)
    if isinstance(dynamics, Dynamics) and temperature not in (1.0, T):
        raise ValueError(
            f"temperature={temperature} was given, but the Dynamics has its own, {T:g}: leave it out."
        )
    if not (np.isfinite(T) and T > 0):
        raise ValueError(f"the temperature must be positive for exp(-H/T) to be a density; it is {T:g}.")
    return T


def _axis(axis: str | int | None, problem: Problem) -> int | None:
    names = problem.coordinate_names()
    if axis is None:
        return None
    if isinstance(axis, str) and axis in names:
        return names.index(axis)
    if isinstance(axis, int) and 0 <= axis < len(names):
        return axis
    raise ValueError(
        f"axis is {axis!r}; it must be the name of a coordinate ({', '.join(names)}) or its number from 0."
    )
