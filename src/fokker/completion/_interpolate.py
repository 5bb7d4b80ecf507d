"""A smooth function from values on a grid, some of which are unknown."""

from math import factorial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

# With degree 7 the error is of order h⁸, and derivatives up to the sixth are continuous.
_DEGREE = 7
_ORDER = 4


def _basis(t: Float[Array, " d"]) -> Float[Array, "d 8"]:
    """The values at offset t ∈ [0, 1) of the basis splines that are nonzero there, ordered by knot."""
    t = t[:, None]
    b = jnp.ones_like(t)
    for n in range(1, _DEGREE + 1):
        offset = t + jnp.arange(n + 1, dtype=t.dtype)[None, :]
        padded = jnp.pad(b, ((0, 0), (1, 1)))
        b = (offset * padded[:, 1:] + (n + 1 - offset) * padded[:, :-1]) / n
    return b[:, ::-1]


def _prefilter_taps() -> np.ndarray:
    """Taps of a finite filter that inverts the smoothing of the spline up to order 2·_ORDER in the spacing.

    The filter of exact interpolation is infinite; a finite one limits the influence of values outside the
    region of trust. The spline's samples are a series in the second difference δ²; its reciprocal is
    truncated at (δ²)⁴.
    """
    n = _DEGREE
    half = n // 2

    def B(x: int) -> float:
        terms = [(-1) ** j * factorial(n + 1) // (factorial(j) * factorial(n + 1 - j)) for j in range(x + 1)]
        return sum(c * (x - j) ** n for j, c in enumerate(terms)) / factorial(n)

    samples = np.array([B(j) for j in range(1, n + 1)])
    powers = [np.array([1.0])]
    for _ in range(max(half, _ORDER)):
        powers.append(np.convolve(powers[-1], [1.0, -2.0, 1.0]))
    series, remainder = np.zeros(half + 1), samples
    for m in range(half, -1, -1):  # the outermost sample belongs to the highest power of δ²
        series[m] = remainder[0]
        remainder = (remainder - series[m] * powers[m])[1:-1]
    reciprocal = np.zeros(_ORDER + 1)
    reciprocal[0] = 1.0
    for m in range(1, _ORDER + 1):
        reciprocal[m] = -sum(series[i] * reciprocal[m - i] for i in range(1, min(m, half) + 1))
    taps = np.zeros(2 * _ORDER + 1)
    for m, c in enumerate(reciprocal):
        taps[_ORDER - m : _ORDER + m + 1] += c * powers[m]
    return taps


class Spline(eqx.Module):
    """Values on a uniform grid as a smooth function; outside the grid, its value at the nearest edge."""

    coefficients: Float[Array, "..."]
    low: Float[Array, " d"]
    spacing: Float[Array, " d"]
    last: tuple[int, ...] = eqx.field(static=True)

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, " entries"]:
        """The entries at x."""
        d = len(self.last)
        last = jnp.asarray(self.last, x.dtype)
        u = jnp.clip((x - self.low.astype(x.dtype)) / self.spacing.astype(x.dtype), 0, last)
        cell = jnp.floor(u)
        weights = _basis(u - cell)
        start = [*(cell.astype(jnp.int32)[a] for a in range(d)), jnp.zeros((), jnp.int32)]
        size = (*(_DEGREE + 1,) * d, self.coefficients.shape[-1])
        value = jax.lax.dynamic_slice(self.coefficients, start, size).astype(x.dtype)
        for a in range(d):
            value = jnp.tensordot(weights[a], value, axes=1)
        return value


def fit_spline(values: np.ndarray, axes: list[np.ndarray]) -> Spline:
    """A spline through `values`, (entries, n₁, …, n_d), up to terms of order h⁸."""
    taps = _prefilter_taps()
    half = _DEGREE // 2
    pad = [(0, 0)] + [(_ORDER + half, _ORDER + half + 1)] * len(axes)
    c = np.pad(values, pad, mode="edge")
    for a in range(1, c.ndim):
        c = sum(t * c.take(np.arange(i, c.shape[a] - len(taps) + 1 + i), axis=a) for i, t in enumerate(taps))
    return Spline(
        coefficients=jnp.asarray(np.moveaxis(c, 0, -1)),
        low=jnp.asarray([axis[0] for axis in axes]),
        spacing=jnp.asarray([axis[1] - axis[0] for axis in axes]),
        last=tuple(len(axis) - 1 for axis in axes),
    )


def extend(values: np.ndarray, known: np.ndarray) -> np.ndarray:
    """`values`, (entries, grid), with unknown values replaced by an average of the nearest known ones.

    This is Shepard's interpolation with weights |distance|⁻⁶ in cells, as one convolution.
    """
    distance = np.zeros(known.shape)
    for a, n in enumerate(known.shape):
        offset = np.minimum(np.arange(n), n - np.arange(n)).astype(float)
        distance = distance + np.expand_dims(offset**2, tuple(b for b in range(known.ndim) if b != a))
    axes = tuple(range(known.ndim))
    kernel = np.fft.rfftn((distance + 1.0) ** -3, axes=axes)

    def smooth(x: np.ndarray) -> np.ndarray:
        return np.fft.irfftn(np.fft.rfftn(x, axes=axes) * kernel, s=known.shape, axes=axes)

    weight = np.maximum(smooth(known.astype(float)), np.finfo(float).tiny)
    return np.stack([np.where(known, v, smooth(np.where(known, v, 0.0)) / weight) for v in values])
