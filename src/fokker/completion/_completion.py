"""The result of `fokker.complete`, and its text form."""

from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import field as attribute

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fokker._core.state import State, ravel
from fokker.completion._box import Box
from fokker.dynamics import SDE, Dynamics
from fokker.dynamics.hamiltonian import hamiltonian_value
from fokker.dynamics.problem import Problem
from fokker.fields import Field, Zero

# If the share of divergence in the flux is larger, exp(-H) is reported as not stationary.
TOLERANCE = 1e-6
# The region of trust: Q is reliable where the density is above this fraction of its maximum.
TRUST = 1e-6


@dataclass(frozen=True, eq=False)
class Completion:
    r"""The skew Q of a drift f with diffusion D and target exp(-H/T) (Ma, Chen, Fox 2015, Theorem 2).

    | attribute | meaning |
    | --- | --- |
    | `Q` | a skew field over the user's state, for `fk.Dynamics(hamiltonian=H, D=D, Q=completion.Q)` |
    | `dynamics` | that `fk.Dynamics`, with the temperature |
    | `divergence`, `stationary` | the share of divergence in the flux, in [0, 1]; whether ≤ 1e-6 |
    | `nearest_drift(z)`, `distance` | the nearest drift with the right target; the distance of f from it |
    | `axes`, `density`, `Q_on_grid`, `trusted` | for plots: coordinates, p/max p, Q (d, d, grid), p > 1e-6 |
    | `is_trusted(z)` | whether p(z) > 1e-6 max p |
    | `box`, `names`, `method`, `notes` | sides, coordinates in the order of the rows, remarks |

    `distance` is ∫p|f - f'|² over ∫p|F/p|², the share of the irreversible part of the drift that the nearest
    f' does not have: 0 for a stationary drift, 1 for a drift whose irreversible part is all error; None in
    the axial gauge.

    `Q` is computed and stored in double precision; evaluated on a float32 state it is accurate to about 1e-6
    of its size. On the grid its error is about 1e-15/p, less than 1e-8 in the region of trust if the grid
    resolves the flux; between grid points it is a spline of degree 7. Outside the region of trust it is
    extended by its nearest values. In the axial gauge there is no grid: the four arrays are None, and each
    evaluation is an integral along a line, with about 160 evaluations of the drift.
    """

    Q: Field
    dynamics: Dynamics
    divergence: float
    distance: float | None
    method: str
    box: Box
    names: list[str]
    notes: list[str]
    least_energy: float
    largest: list[tuple[str, float]]
    axes: tuple[np.ndarray, ...] | None = None
    density: np.ndarray | None = None
    Q_on_grid: np.ndarray | None = None
    trusted: np.ndarray | None = None
    order: tuple[str, ...] = ()
    projected: Callable[[State], State] | None = attribute(default=None, repr=False)

    @property
    def stationary(self) -> bool:
        """Whether exp(-H) is stationary under the drift: its flux is divergence free up to 1e-6."""
        return self.divergence <= TOLERANCE

    @property
    def temperature(self) -> float:
        """T."""
        return float(self.dynamics.temperature)

    def nearest_drift(self, z: State) -> State:
        r"""The drift f' nearest to f with stationary density exp(-H/T): ∫ p |f - f'|² is least.

        If exp(-H/T) is stationary under f, this is f itself. Otherwise it is the drift of `dynamics`, f' = f
        - ∇ψ with ∇·(p∇ψ) = ∇·F, up to the interpolation of Q; exp(-H/T) is exactly stationary under it.
        """
        if self.projected is None:
            raise ValueError(
                "nearest_drift is a projection that needs a grid: it exists for method='fourier', in up to 3 "
                "dimensions, and not for the axial gauge."
            )
        return self.projected(z)

    def is_trusted(self, z: State) -> Array:
        """Whether p(z) > 1e-6 max p, inside the box."""
        x = ravel(z, self.order or None)
        H = hamiltonian_value(self.dynamics.hamiltonian, z) / self.temperature
        sides = np.array(self.box)
        inside = jnp.all((x >= sides[:, 0].astype(x.dtype)) & (x <= sides[:, 1].astype(x.dtype)))
        return inside & (H - self.least_energy < -np.log(TRUST))

    def __str__(self) -> str:
        d = len(self.names)
        target = "exp(-H)" if self.temperature == 1 else f"exp(-H/T) at T = {self.temperature:g}"
        lines = [f"Completion of a drift over {', '.join(self.names)} with target {target}"]
        if self.stationary:
            share = f"{self.divergence:.1e} of its flux has divergence; up to {TOLERANCE:g} counts as zero"
            lines.append(f"  stationary: yes ({share})")
        else:
            lines.append(
                f"  stationary: NO, {self.divergence:.2g} of the flux (from 0 to 1) has divergence; "
                f"up to {TOLERANCE:g} counts as zero"
            )
            lines.append(
                "    Q belongs to the nearest stationary drift, .nearest_drift, not to the given one; they "
                f"differ by {self.distance:.2g} of the mean square of the irreversible drift F/p"
                if self.distance is not None
                else "    Q reproduces every row of the given drift except that of the axis of integration"
            )
        lines.append(f"  method: {self.method}")
        lines.append("  result: " + self._result())
        sides = ", ".join(
            f"{n} ∈ [{lo:.4g}, {hi:.4g}]" for n, (lo, hi) in zip(self.names, self.box, strict=True)
        )
        shape = "" if self.density is None else f", {' × '.join(map(str, self.density.shape))} points"
        lines.append(f"  box: {sides}{shape}")
        trust = "  reliable where p > 1e-6 of its maximum"
        if self.trusted is not None and self.axes is not None:
            where = [np.flatnonzero(self.trusted.any(axis=_others(a, d))) for a in range(d)]
            spans = [
                f"{n} ∈ [{x[i[0]]:.3g}, {x[i[-1]]:.3g}]"
                for n, x, i in zip(self.names, self.axes, where, strict=True)
            ]
            trust += ": within " + ", ".join(spans)
        if not isinstance(self.Q, Zero):
            lines.append(trust)
            lines.append(
                "    outside, Q is an extrapolation; because it is skew, the target is still stationary"
            )
        if d > 2 and not isinstance(self.Q, Zero):
            lines.append(
                "  gauge: in three or more dimensions Q is not unique; any Q with the same Σ_j ∂_j(Q_ij p) "
                "gives the same drift."
            )
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)

    def _result(self) -> str:
        if isinstance(self.Q, Zero):
            return "Q = 0" + ("" if len(self.names) > 1 else " (in one dimension a skew matrix is zero)")
        entries = ", ".join(f"Q[{pair}] up to {size:.4g}" for pair, size in self.largest if size > 0)
        return f"a skew Q; largest entries in the region of trust: {entries}"


def _others(a: int, d: int) -> tuple[int, ...]:
    return tuple(b for b in range(d) if b != a)


def completed_dynamics(
    dynamics: Dynamics | SDE, problem: Problem, Q: Field, T: float, wide: bool
) -> Dynamics:
    """Dynamics with the completed Q, in the caller's precision.

    The D of an SDE already contains the temperature, and Dynamics would multiply by it again.
    """
    if isinstance(dynamics, Dynamics):
        return Dynamics(dynamics.hamiltonian, dynamics.D, Q, dynamics.temperature)
    with jax.enable_x64(wide):
        D = dynamics.D_field(jax.tree.map(lambda x: jnp.zeros(x.shape), problem.example))
        return Dynamics(dynamics.hamiltonian, D if T == 1 else D * (1 / T), Q, T)
