"""What `fokker.complete` found, and how to say it."""

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

# Above this share of divergence in the flux, the drift is said not to keep exp(-H).
TOLERANCE = 1e-6
# The region of trust: the density, as a fraction of its greatest value, below which Q is not vouched for.
TRUST = 1e-6


@dataclass(frozen=True, eq=False)
class Completion:
    r"""The skew Q of a drift f with diffusion D and target exp(-H/T) (Ma, Chen, Fox 2015, Theorem 2).

    | attribute | what |
    | --- | --- |
    | `Q` | a skew field over the user's state, for `fk.Dynamics(hamiltonian=H, D=D, Q=completion.Q)` |
    | `dynamics` | just that `fk.Dynamics`, with the temperature |
    | `divergence`, `stationary` | the share of divergence in the flux, in [0, 1]; whether ≤ 1e-6 |
    | `nearest_drift(z)`, `distance` | the nearest drift that keeps the target; how far f is from it |
    | `axes`, `density`, `Q_on_grid`, `trusted` | for plots: coordinates, p/max p, Q (d, d, grid), p > 1e-6 |
    | `is_trusted(z)` | the same at any state |
    | `box`, `names`, `method`, `notes` | sides, coordinates in the order of the rows; what to know |

    `distance` is ∫p|f - f'|² over ∫p|F/p|², the share of the irreversible part of the drift that the nearest
    f' is without: 0 for a stationary drift, 1 for one with nothing but error; None in the axial gauge.

    `Q` is computed in double precision and kept so; evaluated on a float32 state it is right to about 1e-6 of
    its size. On the grid its error is about 1e-15/p, less than 1e-8 in the region of trust for a grid that
    resolves the flux; between the grid's points a spline of degree 7 stands for it. Beyond the region of
    trust it is continued by its nearest values. In the axial gauge there is no grid: the four
    arrays are None, and every evaluation is an integral along a line, some 160 evaluations of the drift.
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
        """Whether the drift given keeps exp(-H): its flux is divergence free up to a share of 1e-6."""
        return self.divergence <= TOLERANCE

    @property
    def temperature(self) -> float:
        """T."""
        return float(self.dynamics.temperature)

    def nearest_drift(self, z: State) -> State:
        r"""Of the drifts that keep exp(-H/T), the nearest f' to f: ∫ p |f - f'|² is least.

        It is f itself where f keeps the target, and else the drift of `dynamics`, f' = f - ∇ψ with
        ∇·(p∇ψ) = ∇·F, up to the interpolation of Q; it keeps the target exactly.
        """
        if self.projected is None:
            raise ValueError(
                "nearest_drift is a projection that needs a grid: it is there for method='fourier', in up to "
                "3 dimensions, and not for the axial gauge."
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
            share = f"{self.divergence:.1e} of its flux has divergence; up to {TOLERANCE:g} counts as none"
            lines.append(f"  stationary: yes, the drift keeps the target ({share})")
        else:
            lines.append(
                f"  stationary: NO, {self.divergence:.2g} of the flux (0 none, 1 all of it) has divergence; "
                f"up to {TOLERANCE:g} counts as none"
            )
            lines.append(
                "    Q belongs to the nearest stationary drift, .nearest_drift, not to the one given; they "
                f"differ by {self.distance:.2g} of the mean square of the irreversible drift F/p"
                if self.distance is not None
                else "    Q reproduces every row of the drift given but that of the axis of integration"
            )
        lines.append(f"  method: {self.method}")
        lines.append("  found: " + self._found())
        sides = ", ".join(
            f"{n} ∈ [{lo:.4g}, {hi:.4g}]" for n, (lo, hi) in zip(self.names, self.box, strict=True)
        )
        shape = "" if self.density is None else f", {' × '.join(map(str, self.density.shape))} points"
        lines.append(f"  box: {sides}{shape}")
        trust = "  trusted where p > 1e-6 of its greatest value"
        if self.trusted is not None and self.axes is not None:
            where = [np.flatnonzero(self.trusted.any(axis=_others(a, d))) for a in range(d)]
            spans = [
                f"{n} ∈ [{x[i[0]]:.3g}, {x[i[-1]]:.3g}]"
                for n, x, i in zip(self.names, self.axes, where, strict=True)
            ]
            trust += ": within " + ", ".join(spans)
        if not isinstance(self.Q, Zero):
            lines.append(trust)
            lines.append("    beyond, Q is an extrapolation; as it is skew, the target is kept all the same")
        if d > 2 and not isinstance(self.Q, Zero):
            lines.append(
                "  gauge: in three dimensions and more Q is not unique; any with the same Σ_j ∂_j(Q_ij p) "
                "gives the same drift."
            )
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)

    def _found(self) -> str:
        if isinstance(self.Q, Zero):
            return "Q = 0" + ("" if len(self.names) > 1 else " (in one dimension a skew matrix is zero)")
        entries = ", ".join(f"Q[{pair}] up to {size:.4g}" for pair, size in self.largest if size > 0)
        return f"a skew Q; largest entries in the region of trust: {entries}"


def _others(a: int, d: int) -> tuple[int, ...]:
    return tuple(b for b in range(d) if b != a)


def completed_dynamics(given: Dynamics | SDE, problem: Problem, Q: Field, T: float, wide: bool) -> Dynamics:
    """Dynamics with the Q found, in the caller's precision.

    The D of an SDE holds the temperature already, which Dynamics would put in a second time.
    """
    if isinstance(given, Dynamics):
        return Dynamics(given.hamiltonian, given.D, Q, given.temperature)
    with jax.enable_x64(wide):
        D = given.D_field(jax.tree.map(lambda x: jnp.zeros(x.shape), problem.example))
        return Dynamics(given.hamiltonian, D if T == 1 else D * (1 / T), Q, T)
