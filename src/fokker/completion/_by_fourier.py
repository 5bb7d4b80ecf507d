"""Completion on a grid, in one to three dimensions."""

import itertools
from typing import Any

import numpy as np

from fokker.completion._box import Box, Energy, check_mass, coarse_points, find_box, least_on_faces
from fokker.completion._completion import TOLERANCE, TRUST, Completion, completed_dynamics
from fokker.completion._curl import Curl, SplineEntries, curl_from_grid
from fokker.completion._flux import NEGLIGIBLE_FLUX, REVERSIBLE
from fokker.completion._fourier import decaying_gauge, divergence_fraction, fourier_gauge, longitudinal_part
from fokker.completion._grid import GridFlux, adapted_flux, flux_on_grid, grid_notes
from fokker.completion._projection import nearest_flux
from fokker.dynamics import SDE, Dynamics
from fokker.dynamics.problem import Problem
from fokker.fields import Field, Zero

# q/p is computed as q p/(p² + δ²), which is about 0 where p is below the rounding error of q.
_DELTA = 1e-13


def complete_by_fourier(
    dynamics: Dynamics | SDE,
    problem: Problem,
    energy: Energy,
    box: Box | None,
    shape: Any,
    T: float,
    wide: bool,
) -> Completion:
    """Q by FFT on a periodic box, given or found automatically."""
    d, names = problem.dimension, problem.coordinate_names()
    sides = find_box(energy, problem) if box is None else box
    notes = [] if box is None else _check_box(energy, problem, box)
    if shape is None:
        # If the flux does not vanish at the faces, its spectrum decays slowly, and refining does not help.
        flux = adapted_flux(problem, sides, most_steps=0 if notes else 8)
    else:
        flux = flux_on_grid(problem, sides, shape)
    p = flux.density
    trusted = p > TRUST
    Q_grid = np.zeros((d, d, *p.shape))
    Q: Field = Zero()
    divergence = distance = 0.0
    method = "Fourier, on a periodic box" if d > 1 else "none needed in one dimension"
    if np.abs(flux.F).max() <= NEGLIGIBLE_FLUX * flux.size:
        notes.append(REVERSIBLE)
    else:
        notes += grid_notes(flux, names)
        divergence = divergence_fraction(flux.F_hat, flux.spectrum)
        F = flux.F
        if divergence > TOLERANCE:
            F, distance, residual = nearest_flux(problem, flux)
            if residual > 1e-6:
                notes.append(f"the nearest stationary drift has a relative error of about {residual:.1e}.")
        if d > 1:
            q, gauge = _in_gauge(F, flux)
            method += gauge
            Q_grid = q * (p / (p**2 + _DELTA**2)) / T
            pairs = tuple(zip(*(index.tolist() for index in np.triu_indices(d, 1)), strict=True))
            Q = Curl(SplineEntries(curl_from_grid(Q_grid, p, trusted, flux.axes)), pairs, problem.names, d)
    return Completion(
        Q=Q,
        dynamics=(completed := completed_dynamics(dynamics, problem, Q, T, wide)),
        divergence=divergence,
        distance=distance,
        method=method,
        box=sides,
        names=names,
        notes=notes,
        least_energy=flux.least,
        largest=_largest_entries(Q_grid[..., trusted], names),
        axes=flux.axes,
        density=p,
        Q_on_grid=Q_grid,
        trusted=trusted,
        order=problem.names,
        projected=dynamics.drift if divergence <= TOLERANCE else completed.drift,
    )


def _in_gauge(F: np.ndarray, flux: GridFlux) -> tuple[np.ndarray, str]:
    """Qp whose divergence is F, and how it was chosen."""
    F_hat = flux.spectrum.forward(F)
    if len(F) == 2:
        return fourier_gauge(F_hat, flux.spectrum), ", (Qp)^ = (F̂kᵀ - kF̂ᵀ)/(2πi kᵀk)"
    q = decaying_gauge(F - longitudinal_part(F_hat, flux.spectrum), flux.density, flux.widths)
    return q, ", in the axial gauge, in which Qp vanishes where p does"


def _largest_entries(Q: np.ndarray, names: list[str]) -> list[tuple[str, float]]:
    """The three pairs of coordinates between which |Q| (d, d, points) is largest, and how large it is."""
    pairs = itertools.combinations(range(len(names)), 2)
    sizes = [(f"{names[i]}, {names[j]}", float(np.abs(Q[i, j]).max())) for i, j in pairs]
    return sorted(sizes, key=lambda entry: -entry[1])[:3]


def _check_box(energy: Energy, problem: Problem, box: Box) -> list[str]:
    """Raise if a box misses the mass; return notes if it cuts into the mass."""
    points = coarse_points(np.array(box))
    H = energy(points.reshape(-1, len(box))).reshape(points.shape[:-1])
    start = float(energy(np.asarray(problem.start)[None])[0])
    return check_mass(box, float(H.min()), least_on_faces(H), start, problem.coordinate_names())
