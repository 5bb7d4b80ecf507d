"""`fokker.complete`: from a drift, a diffusion and a target to the skew Q between them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fokker._problem import Problem, as_dynamics, make_problem
from fokker.completion._axial import AxialEntries, survey
from fokker.completion._box import Box, Energy, check_mass, find_box, given_box
from fokker.completion._completion import TOLERANCE, TRUST, Completion
from fokker.completion._curl import Curl, SplineEntries, curl_from_grid
from fokker.completion._explore import explore
from fokker.completion._flux import NEGLIGIBLE_FLUX
from fokker.completion._fourier import decaying_gauge, divergence_fraction, fourier_gauge, longitudinal_part
from fokker.completion._grid import adapted_flux, flux_on_grid, given_grid, grid_notes
from fokker.completion._projection import nearest_flux
from fokker.dynamics import SDE, Dynamics
from fokker.fields import Field, Zero

# q/p is written q p/(p² + δ²): where p has sunk below the rounding error of q, 0 instead of anything.
_DELTA = 1e-13


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

    The first argument is a drift function, with `diffusion` and `hamiltonian`, or an `fk.Dynamics`, an
    `fk.SDE` or a mapping with the three. `state` is an example of the state; `box` one (low, high) a
    coordinate, found where absent; `grid` the number of points a side, refined until it resolves the flux where absent.
    `temperature` is that of a drift or an SDE, whose target then is exp(-H/T); a Dynamics has its own.

    | method | dimensions | how |
    | --- | --- | --- |
    | `"fourier"` | 1 to 3 | by FFT on a periodic box, with Qp = 0 in the corner of the box |
    | `"axial"` | 2 and more | Q_ia p = ∫F_i dz_a along one `axis` a, the other entries 0; no grid |
    | `"auto"` | any | Fourier up to 3 dimensions, axial above |

    In two dimensions Q is unique, and is that of the formula. In three and more it is one of many with the
    same drift; the formula's own Q grows like 1/p in the tails, and the FFT is used for one that does not
    (`decaying_gauge`). A drift that does not keep exp(-H) is completed to the nearest that does, and the result says how far off it is.

    ```python
    found = fk.complete(
        lambda theta, r: (r, -jax.grad(U)(theta) - C * r),
        lambda theta, r: jnp.array([[0.0, 0.0], [0.0, C]]),
        lambda theta, r: U(theta) + r**2 / 2,
    )
    print(found)
    fk.Dynamics(hamiltonian=H, D=D, Q=found.Q)
    ```
    """
    if method not in ("auto", "fourier", "axial"):
        raise ValueError(f"method is 'auto', 'fourier' or 'axial', not {method!r}.")
    given = as_dynamics(drift, diffusion, hamiltonian, state)
    T = _temperature(given, temperature)
    with jax.enable_x64(True):
        problem = make_problem(given, state=state, temperature=T)
        d = problem.dimension
        if method == "fourier" and d > 3:
            raise ValueError(
                f"method='fourier' needs a grid, affordable in up to 3 dimensions; this state has {d}. "
                "Use method='axial', or 'auto'."
            )
        if method == "axial" and d == 1:
            raise ValueError("method='axial' needs two dimensions; in one, Q is zero: use method='auto'.")
        sides = None if box is None else given_box(box, problem)
        jitted = jax.jit(jax.vmap(problem.hamiltonian))

        def energy(points: np.ndarray) -> np.ndarray:
            H = np.asarray(jitted(jnp.asarray(points)))
            return np.where(np.isnan(H), np.inf, H)

        if method == "axial" or d > 3:
            if grid is not None:
                raise ValueError(
                    "grid=… goes with method='fourier'; the axial gauge has no grid: leave it out."
                )
            return _by_axis(given, problem, energy, sides, _axis(axis, problem), T)
        if axis is not None:
            raise ValueError("axis=… goes with method='axial'; add that, or leave axis out.")
        shape = None if grid is None else given_grid(grid, d)
        return _by_fourier(given, problem, energy, sides, shape, T)


def _temperature(given: Dynamics | SDE, temperature: float) -> float:
    own = float(given.temperature) if isinstance(given, Dynamics) else float(temperature)
    if isinstance(given, Dynamics) and temperature not in (1.0, own):
        raise ValueError(
            f"temperature={temperature} was given, but the Dynamics has its own, {own:g}: leave it out."
        )
    if not (np.isfinite(own) and own > 0):
        raise ValueError(f"the temperature must be positive for exp(-H/T) to be a density; it is {own:g}.")
    return own


def _axis(axis: str | int | None, problem: Problem) -> int | None:
    names = problem.coordinate_names()
    if axis is None:
        return None
    if isinstance(axis, str) and axis in names:
        return names.index(axis)
    if isinstance(axis, int) and 0 <= axis < len(names):
        return axis
    raise ValueError(
        f"axis is {axis!r}; it must name a coordinate ({', '.join(names)}) or be its number from 0."
    )


def _completed(given: Dynamics | SDE, problem: Problem, Q: Field, T: float) -> Dynamics:
    """Dynamics with the Q found; the D of an SDE holds the temperature already, which Dynamics would add."""
    if isinstance(given, Dynamics):
        return Dynamics(given.hamiltonian, given.D, Q, given.temperature)
    D = given.D_field(problem.example)
    return Dynamics(given.hamiltonian, D if T == 1 else D * (1 / T), Q, T)


def _by_fourier(
    given: Dynamics | SDE, problem: Problem, energy: Energy, box: Box | None, shape: Any, T: float
) -> Completion:
    d, names = problem.dimension, problem.coordinate_names()
    sides = find_box(energy, problem) if box is None else box
    flux = adapted_flux(problem, sides) if shape is None else flux_on_grid(problem, sides, shape)
    start_energy = float(energy(np.asarray(problem.start)[None])[0])
    notes = [] if box is None else check_mass(sides, flux.least, flux.faces(), start_energy, names)
    p = flux.density
    trusted = p > TRUST
    Q_grid = np.zeros((d, d, *p.shape))
    Q: Field = Zero()
    divergence = distance = 0.0
    method = "Fourier, on a periodic box" if d > 1 else "none needed in one dimension"
    if np.abs(flux.F).max() <= NEGLIGIBLE_FLUX * flux.size:
        notes.append("F = f p - ∇·(D p) is zero: the drift is reversible, -D∇H + ∇·D, and needs no Q.")
    else:
        notes += grid_notes(flux, names)
        divergence = divergence_fraction(flux.F_hat, flux.spectrum)
        F = flux.F
        if divergence > TOLERANCE:
            F, distance, undone = nearest_flux(problem, flux)
            if undone > 1e-6:
                notes.append(f"the nearest stationary drift is found only to about {undone:.1e} of the way.")
        if d > 1:
            F_hat = flux.spectrum.forward(F)
            if d == 2:
                q = fourier_gauge(F_hat, flux.spectrum)
                method += ", (Qp)^ = (F̂kᵀ - kF̂ᵀ)/(2πi kᵀk)"
            else:
                q = decaying_gauge(F - longitudinal_part(F_hat, flux.spectrum), p, flux.widths)
                method += ", in the axial gauge, whose Qp ends where p ends"
            Q_grid = q * (p / (p**2 + _DELTA**2)) / T
            pairs = tuple(zip(*(index.tolist() for index in np.triu_indices(d, 1)), strict=True))
            Q = Curl(SplineEntries(curl_from_grid(Q_grid, p, trusted, flux.axes)), pairs, problem.names, d)
    sizes = [
        (f"{names[i]}, {names[j]}", float(np.abs(Q_grid[i, j][trusted]).max()))
        for i in range(d)
        for j in range(i + 1, d)
    ]
    return Completion(
        Q=Q,
        dynamics=(completed := _completed(given, problem, Q, T)),
        divergence=divergence,
        distance=distance,
        method=method,
        box=sides,
        names=names,
        notes=notes,
        least_energy=flux.least,
        largest=sorted(sizes, key=lambda entry: -entry[1])[:3],
        axes=flux.axes,
        density=p,
        Q_on_grid=Q_grid,
        trusted=trusted,
        order=problem.names,
        projected=given.drift if divergence <= TOLERANCE else completed.drift,
    )


def _by_axis(
    given: Dynamics | SDE, problem: Problem, energy: Energy, box: Box | None, axis: int | None, T: float
) -> Completion:
    d, names = problem.dimension, problem.coordinate_names()
    found = explore(energy, problem, box)
    if box is not None:
        ends = _line_ends(energy, found.points, box)
        start_energy = float(energy(np.asarray(problem.start)[None])[0])
        notes = check_mass(box, found.least, ends, start_energy, names)
    else:
        notes = []
    seen = survey(problem, found, axis)
    a = seen.axis
    Q: Field = Zero()
    sizes: list[tuple[str, float]] = []
    if seen.is_zero:
        notes.append("F = f p - ∇·(D p) is zero: the drift is reversible, -D∇H + ∇·D, and needs no Q.")
    else:
        pairs = tuple((i, a) for i in range(d) if i != a)
        side = jnp.asarray(found.box[a])
        entries = AxialEntries(given, jnp.asarray(T, float), side, a, problem.names, seen.two_sided)
        Q = Curl(entries, pairs, problem.names, d)
        values = np.abs(
            jax.jit(jax.vmap(lambda x: entries(problem.to_state(x), x)))(jnp.asarray(found.points))
        )
        sizes = [(f"{names[i]}, {names[a]}", float(values[:, m].max())) for m, (i, _) in enumerate(pairs)]
        if not seen.two_sided:
            notes.append(
                f"the flux along whole lines of {names[a]} is {seen.leftover:.2g} of its size, not zero: Qp "
                f"does not end, and Q grows like 1/p where {names[a]} is large. Another axis=… may do better."
            )
        if seen.divergence > TOLERANCE:
            notes.append("the nearest stationary drift needs the Fourier method.")
    return Completion(
        Q=Q,
        dynamics=_completed(given, problem, Q, T),
        divergence=seen.divergence,
        distance=None,
        method=f"axial gauge, integrating the flux along {names[a]}",
        box=found.box,
        names=names,
        notes=notes,
        least_energy=found.least,
        largest=sorted(sizes, key=lambda entry: -entry[1])[:3],
        order=problem.names,
    )


def _line_ends(energy: Energy, points: np.ndarray, box: Box) -> np.ndarray:
    """The least H at the two ends of the lines through the points, for each axis: (d, 2)."""
    ends = np.zeros((len(box), 2))
    for a, side in enumerate(box):
        for e, value in enumerate(side):
            moved = points.copy()
            moved[:, a] = value
            ends[a, e] = energy(moved).min()
    return ends
