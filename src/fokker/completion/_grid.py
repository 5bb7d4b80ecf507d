"""The flux on a periodic grid that is refined until it resolves the spectrum of the flux."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fokker.completion._box import Box
from fokker.completion._flux import flat_flux, require_finite
from fokker.completion._fourier import Spectrum
from fokker.dynamics.problem import Problem

Array = np.ndarray

_FIRST = {1: 1024, 2: 256, 3: 64}
_MOST_POINTS = {1: 2**16, 2: 2**20, 3: 2**21}
_LEAST_SIDE = 16
# The tail of F̂, relative to its largest entry, at which refinement stops; the error of Q is about tail/p.
_AIMED_TAIL = 1e-12
_COARSE_TAIL = 1e-9
_BATCH = 8192


@dataclass(frozen=True, eq=False)
class GridFlux:
    """H, p = exp(-(H - min H)) and F on a grid; `size` is the largest sum of the sizes of F's terms."""

    axes: tuple[Array, ...]
    widths: Array
    energy: Array
    density: Array
    F: Array
    F_hat: Array
    size: float
    spectrum: Spectrum
    tails: Array

    @property
    def least(self) -> float:
        """The least H."""
        return float(self.energy.min())


def validated_grid(grid: Any, d: int) -> tuple[int, ...]:
    """The user's grid as one number of points per coordinate, validated."""
    sides = (grid,) * d if np.ndim(grid) == 0 else tuple(grid)
    wanted = f"grid takes one number of points for all coordinates, or a sequence of {d}"
    if len(sides) != d:
        raise ValueError(f"grid has {len(sides)} entries. {wanted}.")
    for n in sides:
        if isinstance(n, bool) or not isinstance(n, int | np.integer):
            raise ValueError(f"grid contains {n!r}, which is not an integer. {wanted}.")
        if n < _LEAST_SIDE:
            raise ValueError(f"grid: {n} points per side are too few for a Fourier series; give at least 16.")
    return tuple(int(n) for n in sides)


def flux_on_grid(problem: Problem, box: Box, shape: Sequence[int]) -> GridFlux:
    """F = p (f - ∇·D + D∇H) at the points of a periodic grid (each axis without its high end)."""
    axes = tuple(low + (high - low) * np.arange(n) / n for (low, high), n in zip(box, shape, strict=True))
    d = len(axes)
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, d)
    local = flat_flux(problem)
    evaluate = jax.jit(lambda x: jax.lax.map(local, x, batch_size=_BATCH))
    H, f, velocity, size = (np.asarray(part) for part in evaluate(jnp.asarray(points)))
    names = problem.coordinate_names()
    # H = +∞ is a density of zero; NaN and -∞ are errors.
    require_finite(np.where(np.isposinf(H), 0.0, H), "the Hamiltonian", points, names)
    require_finite(f, "the drift", points, names)
    p = np.exp(-(H - H.min()))
    require_finite(
        np.where(p[:, None] > 0, velocity, 0.0), "f - ∇·D + D∇H (a derivative of D or H)", points, names
    )
    with np.errstate(invalid="ignore", over="ignore"):
        F = np.where(p[:, None] > 0, velocity * p[:, None], 0.0).T.reshape(d, *shape)
        sizes = np.where(p[:, None] > 0, size * p[:, None], 0.0)
    widths = np.array([high - low for low, high in box])
    spectrum = Spectrum(tuple(shape), widths)
    F_hat = spectrum.forward(F)
    return GridFlux(
        axes=axes,
        widths=widths,
        energy=H.reshape(shape),
        density=p.reshape(shape),
        F=F,
        F_hat=F_hat,
        size=float(sizes.max()),
        spectrum=spectrum,
        tails=_tails(F_hat, tuple(shape)),
    )


def _tails(F_hat: Array, shape: tuple[int, ...]) -> Array:
    """For each axis, the largest |F̂| in the upper third of its frequencies, relative to its maximum."""
    size = np.abs(F_hat).max(axis=0)
    if not size.max() > 0:
        return np.zeros(len(shape))
    tails = []
    for a, n in enumerate(shape):
        index = np.arange(size.shape[a])
        high = np.minimum(index, n - index) > n / 3
        tails.append(float(size.compress(high, axis=a).max() / size.max()))
    return np.array(tails)


def adapted_flux(problem: Problem, box: Box, most_steps: int) -> GridFlux:
    """The flux on a grid that is refined by axes until its spectrum has decayed or the grid is too large."""
    d = problem.dimension
    shape = (_FIRST[d],) * d
    flux = flux_on_grid(problem, box, shape)
    for _ in range(most_steps):
        coarse = flux.tails > _AIMED_TAIL
        # The lengths 64, 96, 128, 192, … (2ᵏ and 3·2ᵏ) are all efficient for an FFT.
        finer = [_next_length(n) if c else n for n, c in zip(shape, coarse, strict=True)]
        if not coarse.any() or np.prod(finer) > _MOST_POINTS[d]:
            break
        shape = tuple(finer)
        flux = flux_on_grid(problem, box, shape)
    return flux


def _next_length(n: int) -> int:
    return n * 3 // 2 if n & (n - 1) == 0 else n * 4 // 3


def grid_notes(flux: GridFlux, names: list[str]) -> list[str]:
    """A note if the grid is too coarse."""
    worst = int(np.argmax(flux.tails))
    if flux.tails[worst] <= _COARSE_TAIL:
        return []
    return [
        f"the grid is too coarse in {names[worst]} ({len(flux.axes[worst])} points): the spectrum of the "
        f"flux has decayed only to {flux.tails[worst]:.1e} of its maximum, so Q has an error of about that "
        "over p, relative to its size at the mode. Give a larger grid=… or a tighter box=…."
    ]
