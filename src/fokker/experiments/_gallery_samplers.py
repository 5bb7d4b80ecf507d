"""The samplers of the gallery, one row each: how it is made for a target, and what is said of it.

A row whose sampler `fokker.samplers` does not have is left out. To add a sampler, add a row.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from jaxtyping import Array

from fokker import samplers
from fokker.experiments._gallery_targets import CORRELATION, TARGETS, GalleryTarget
from fokker.fields import Scalar
from fokker.integrators import Splitting, SymplecticEuler
from fokker.samplers import Sampler


class Setting(NamedTuple):
    """A target as a sampler is told of it: all but the density are numbers, which may be traced.

    `energy(theta)` is U less its least value.
    """

    step_size: Any
    friction: Any
    curvature: Any
    energy: Callable[[Array], Array]


@dataclass(frozen=True)
class Row:
    """A sampler of the gallery.

    `factor` times 1/curvature (times 1/√curvature, where `inertial`) is its step size; `cost` is about how
    many gradients a step takes; `panels` are the numbers shown below; `exact` says that no step size biases
    it, `right` that it samples the target as the step goes to zero; `caveat` is what speaks against it;
    `only` are the targets that it can be used on, where those are not all.
    """

    name: str
    title: str
    make: Callable[[Setting], Sampler]
    factor: float
    line: str
    text: str
    inertial: bool = True
    cost: float = 1.0
    panels: tuple[str, ...] = ()
    exact: bool = False
    right: bool = True
    caveat: str = ""
    only: tuple[str, ...] = ()

    @property
    def exists(self) -> bool:
        """Whether the library has it."""
        return hasattr(samplers, self.name)

    def fits(self, target: GalleryTarget) -> bool:
        """Whether it can sample the target."""
        return not self.only or target.name in self.only

    def step_size(self, target: GalleryTarget) -> float:
        """The step for a target: a fixed part of the largest that is stable."""
        return self.factor / (target.curvature**0.5 if self.inertial else target.curvature)


def _called(name: str, *arguments: Any) -> Sampler:
    """`fk.samplers.name(*arguments)`, of a sampler that may not be there when this file is read."""
    made: Sampler = getattr(samplers, name)(*arguments)
    return made


def _by_name(name: str, *rest: Any) -> Callable[[Setting], Sampler]:
    """`fk.samplers.name(step_size, *rest)`."""
    return lambda setting: _called(name, setting.step_size, *rest)


def _metric(setting: Setting, power: float = 0.5) -> tuple[Scalar, Scalar]:
    """G⁻¹ = √(1 + U) and its root: larger steps where the density is low (Ma et al. 2015)."""
    return (
        Scalar(lambda theta: (1 + setting.energy(theta)) ** power),
        Scalar(lambda theta: (1 + setting.energy(theta)) ** (power / 2)),
    )


# A constant speed needs a second dimension to turn in.
_PLANE = tuple(target.name for target in TARGETS.values() if target.dimension > 1)
_HEAT = ("kinetic_temperature",)
_ACCEPT = ("accepted",)
_METRIC = "with G⁻¹ = √(1 + U)"

ROWS: tuple[Row, ...] = (
    Row(
        "rwm",
        "RWM",
        _by_name("rwm"),
        1.2,
        "random walk × Gaussian proposal × Metropolis",
        "Steps anywhere, and stays where it is too often: no gradient, and slow for it.",
        panels=_ACCEPT,
        exact=True,
    ),
    Row(
        "gibbs_normal",
        "Gibbs",
        lambda setting: _called("gibbs_normal", [0.0, 0.0], [[1.0, CORRELATION], [CORRELATION, 1.0]]),
        1.0,
        "coordinate by coordinate × exact conditionals × none needed",
        "Moves along the axes: quick where coordinates are independent, slow where they hang together.",
        exact=True,
        only=("correlated",),
    ),
    Row(
        "slice_sampler",
        "Slice",
        _by_name("slice_sampler"),
        2.0,
        "coordinate by coordinate × stepping out and shrinking × none needed",
        "Draws from under the density; its width finds itself.",
        cost=8.0,
        exact=True,
    ),
    Row(
        "ula",
        "ULA",
        _by_name("ula"),
        0.1,
        "Langevin × Euler–Maruyama × none",
        "Drifts uphill in log density and is shaken; its step leaves a bias.",
        inertial=False,
    ),
    Row(
        "mala",
        "MALA",
        _by_name("mala"),
        0.5,
        "Langevin × Euler–Maruyama × Metropolis",
        "ULA's step as a proposal: the bias goes, rejections come.",
        inertial=False,
        cost=1.0,
        panels=_ACCEPT,
        exact=True,
    ),
    Row(
        "ulmc",
        "ULMC",
        _by_name("ulmc"),
        0.2,
        "underdamped Langevin × exact Ornstein–Uhlenbeck × none",
        "Has momentum, friction and noise: glides where ULA trembles.",
        panels=_HEAT,
    ),
    Row(
        "maula",
        "MAULA",
        _by_name("maula"),
        0.4,
        "underdamped Langevin × exact Ornstein–Uhlenbeck × Metropolis with momentum flip",
        "ULMC as a proposal; a rejection turns it round.",
        panels=("accepted", "kinetic_temperature"),
        exact=True,
    ),
    Row(
        "hmc",
        "HMC",
        _by_name("hmc", 12),
        0.5,
        "Hamiltonian × leapfrog × Metropolis",
        "Rolls along the density with a fresh push each time.",
        cost=12.0,
        panels=_ACCEPT,
        exact=True,
    ),
    Row(
        "ghmc",
        "GHMC",
        _by_name("ghmc"),
        0.4,
        "Hamiltonian with partly kept momentum × leapfrog × Metropolis",
        "One leap at a time, most of the momentum kept.",
        panels=_ACCEPT,
        exact=True,
    ),
    Row(
        "naive_nuts",
        "Naive NUTS",
        _by_name("naive_nuts"),
        0.5,
        "Hamiltonian × leapfrog × tree, all points stored",
        "Doubles its path until it turns back, and picks one of the points.",
        cost=20.0,
        exact=True,
    ),
    Row(
        "nuts",
        "NUTS",
        _by_name("nuts"),
        0.5,
        "Hamiltonian × leapfrog × tree",
        "Doubles its path until it turns back; keeps a few points only.",
        cost=12.0,
        exact=True,
    ),
    Row(
        "rhmc",
        "RHMC",
        lambda setting: _called(
            "rhmc", setting.step_size, lambda theta: (1 + setting.energy(theta)) ** -0.5, 6
        ),
        0.3,
        f"Hamiltonian, Riemannian {_METRIC} × generalised leapfrog × Metropolis",
        "HMC whose mass grows where the density is high.",
        cost=40.0,
        panels=_ACCEPT,
        exact=True,
    ),
    Row(
        "mclmc",
        "MCLMC",
        lambda setting: _called("mclmc", setting.step_size, 1 / setting.friction),
        0.4,
        "isokinetic × its own splitting × none",
        "Speed is constant, only the direction is shaken.",
        cost=2.0,
        only=_PLANE,
    ),
    Row(
        "mchmc",
        "MCHMC",
        lambda setting: _called("mchmc", setting.step_size, 1 / setting.friction),
        0.4,
        "isokinetic × its own splitting × bounces",
        "Energy is kept to the end; now and then a new direction.",
        cost=2.0,
        only=_PLANE,
    ),
    Row(
        "sgld",
        "SGLD",
        _by_name("sgld"),
        0.1,
        "Langevin × Euler–Maruyama × none",
        "Langevin dynamics that take minibatches; here it sees the whole gradient.",
        inertial=False,
    ),
    Row(
        "psgld",
        "pSGLD",
        _by_name("psgld"),
        0.1,
        "Langevin, learnt diagonal metric × Euler–Maruyama × none",
        "Scales each coordinate by the gradients seen lately.",
        cost=2.0,
        caveat="its metric is an average over the last hundred steps, in which the chain moves",
    ),
    Row(
        "sgrld",
        "SGRLD",
        lambda setting: samplers.sgrld(setting.step_size, _metric(setting)[0]),
        0.06,
        f"Langevin {_METRIC} × Euler–Maruyama × none",
        "Strides where the density is low; Γ keeps it from crowding there.",
        inertial=False,
        cost=2.0,
    ),
    Row(
        "sghmc",
        "SGHMC",
        lambda setting: samplers.sghmc(setting.step_size, setting.friction),
        0.1,
        "underdamped Langevin × symplectic Euler × none",
        "Momentum with friction against the noise of minibatches.",
        panels=_HEAT,
    ),
    Row(
        "sgnht",
        "SGNHT",
        lambda setting: samplers.sgnht(
            setting.step_size, setting.friction, 1 / setting.curvature, integrator=Splitting()
        ),
        0.2,
        "thermostat × splitting × none",
        "The friction ξ moves by itself until the temperature is right.",
        panels=("xi", "kinetic_temperature"),
    ),
    Row(
        "gsgrhmc",
        "gSGRHMC",
        lambda setting: samplers.gsgrhmc(setting.step_size, *_metric(setting), integrator=SymplecticEuler()),
        0.1,
        f"underdamped, Riemannian {_METRIC} × symplectic Euler × none",
        "Momentum and a metric, and Γ for both.",
        cost=2.0,
        panels=_HEAT,
    ),
    Row(
        "replica_exchange",
        "Replica exchange",
        lambda setting: samplers.replica_exchange(
            samplers.sgld(setting.step_size), (1.0, 2.0, 4.0), every=10
        ),
        0.1,
        "Langevin at T, 2T, 4T × Euler–Maruyama × Metropolis between them",
        "Hot copies cross between modes and hand positions down.",
        inertial=False,
        cost=3.0,
        panels=("exchange_rate",),
    ),
    Row(
        "naive_sgrhmc",
        "naive SGRHMC",
        lambda setting: samplers.naive_sgrhmc(setting.step_size, *_metric(setting, 1.0)),
        0.05,
        "gSGRHMC with G⁻¹ = 1 + U, Γ forgotten × Euler–Maruyama × none",
        "WRONG on purpose: a control, to see that the comparison finds it out.",
        cost=2.0,
        panels=_HEAT,
        right=False,
        caveat="Γ is forgotten",
    ),
)
