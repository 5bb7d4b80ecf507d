"""Theorem 2 on a periodic grid: q = Q p from the flux F by FFT."""

import numpy as np

Array = np.ndarray


class Spectrum:
    """Wave numbers and transforms of a real field on a periodic grid, (d, n₁, …, n_d)."""

    def __init__(self, shape: tuple[int, ...], widths: Array) -> None:
        self.shape, self.d = shape, len(shape)
        self.axes = tuple(range(-self.d, 0))
        frequencies = []
        for a, (n, width) in enumerate(zip(shape, widths, strict=True)):
            k = (np.fft.rfftfreq if a == self.d - 1 else np.fft.fftfreq)(n, width / n)
            # At the Nyquist frequency ∂ has no real symbol (sin is zero on the grid): this mode is left out.
            frequencies.append(np.where(np.isclose(np.abs(k), n / (2 * width)), 0.0, k))
        self.k = np.meshgrid(*frequencies, indexing="ij", sparse=True)
        self.k2: Array = np.sum(np.broadcast_arrays(*(k**2 for k in self.k)), axis=0)
        # For a real field half the spectrum is stored; all planes except the first and the Nyquist count
        # twice.
        n = shape[-1]
        self.weight = np.full(n // 2 + 1, 2.0)
        self.weight[0] = 1.0
        if n % 2 == 0:
            self.weight[-1] = 1.0

    def forward(self, field: Array) -> Array:
        """The transform over the grid axes."""
        return np.fft.rfftn(field, axes=self.axes)

    def backward(self, field: Array) -> Array:
        """The inverse transform."""
        return np.fft.irfftn(field, s=self.shape, axes=self.axes)

    def derivative(self, field: Array, axis: int) -> Array:
        """∂/∂z_axis."""
        return self.backward(2j * np.pi * self.k[axis] * self.forward(field))

    def inverse_k2(self) -> Array:
        """1/kᵀk, and 0 for the modes that F does not determine."""
        return np.divide(1.0, self.k2, out=np.zeros_like(self.k2), where=self.k2 > 0)


def divergence_fraction(F_hat: Array, spectrum: Spectrum) -> float:
    r"""‖k·F̂‖ / ‖|k| |F̂|‖ in [0, 1]: 0 for a divergence-free F, 1 for a gradient."""
    k_dot_F = sum(k * F for k, F in zip(spectrum.k, F_hat, strict=True))
    top = np.sum(spectrum.weight * np.abs(k_dot_F) ** 2)
    bottom = np.sum(spectrum.weight * spectrum.k2 * np.sum(np.abs(F_hat) ** 2, axis=0))
    return float(np.sqrt(top / bottom)) if bottom > 0 else 0.0


def longitudinal_part(F_hat: Array, spectrum: Spectrum) -> Array:
    """The inverse transform of k (k·F̂)/kᵀk and of the mean of F, which no decaying Q p can have.

    In a stationary flux it comes from rounding and the grid, and would not vanish at the faces of the box.
    """
    k_dot_F = sum(k * F for k, F in zip(spectrum.k, F_hat, strict=True)) * spectrum.inverse_k2()
    out = np.stack([k * k_dot_F for k in spectrum.k])
    return spectrum.backward(np.where(spectrum.k2 > 0, out, F_hat))


def fourier_gauge(F_hat: Array, spectrum: Spectrum) -> Array:
    r"""q with q̂_ij = (F̂_i k_j - k_i F̂_j)/(2πi kᵀk), zero in the corner of the box: (d, d, …).

    The mode k = 0 is not determined by F. Q p must vanish where p does, so we subtract the value in the
    corner, the point farthest from the mass.
    """
    d, inverse = spectrum.d, spectrum.inverse_k2() / (2j * np.pi)
    q = np.zeros((d, d, *spectrum.shape))
    for i in range(d):
        for j in range(i + 1, d):
            entry = spectrum.backward((F_hat[i] * spectrum.k[j] - spectrum.k[i] * F_hat[j]) * inverse)
            q[i, j] = entry - entry[(0,) * d]
            q[j, i] = -q[i, j]
    return q


def decaying_gauge(F: Array, p: Array, widths: Array) -> Array:
    r"""q with Σ_j ∂_j q_ij = F_i that vanishes where p does, in two and three dimensions: (d, d, …).

    In three dimensions Q is not unique. With the Q of the Fourier formula, q = Q p decays only like a power,
    so that Q = q/p grows without bound. Here q_ia = ∫ F_i dz_a along an axis a (the axial gauge), which
    vanishes at both faces if the total flux L_i of the line is zero. If it is not, L is a divergence-free
    flux for the marginal p_a = ∫ p dz_a in one dimension fewer. Its Q', a function of the other coordinates,
    gives Q' p, whose line integrals are exactly L; its flux is subtracted from F first.
    """
    d = len(F)
    spectrum = Spectrum(p.shape, widths)
    if d == 2:
        return fourier_gauge(spectrum.forward(F), spectrum)
    q = np.zeros((d, d, *p.shape))
    totals = [[np.abs(F[i].mean(axis=a)).max() if i != a else 0.0 for i in range(d)] for a in range(d)]
    axis = int(np.argmin(np.max(totals, axis=1)))
    rest = [i for i in range(d) if i != axis]
    F = F.copy()
    if np.max(totals[axis]) > 1e-14 * np.abs(F).max():
        marginal = p.mean(axis=axis)
        inner = decaying_gauge(F[rest].mean(axis=axis + 1), marginal, widths[rest])
        expanded = np.expand_dims(marginal, axis)
        conditional = np.divide(p, expanded, out=np.zeros_like(p), where=expanded > 0)
        for m, i in enumerate(rest):
            for n, j in enumerate(rest):
                if i != j:
                    q[i, j] = np.expand_dims(inner[m, n], axis) * conditional
                    F[i] -= spectrum.derivative(q[i, j], j)
    k = np.broadcast_to(spectrum.k[axis], spectrum.k2.shape)
    inverse = np.divide(1.0, 2j * np.pi * k, out=np.zeros(k.shape, complex), where=k != 0)
    for i in rest:
        primitive = spectrum.backward(spectrum.forward(F[i]) * inverse)
        q[i, axis] = primitive - primitive.take([0], axis=axis)
        q[axis, i] = -q[i, axis]
    return q
