"""The samplers of the gallery, one row each: how to make it for a target, and a description.

To add a sampler, add a row. Left out are those that need more than a density: `sgfs` and the estimates of
noise, made for minibatches, and `gibbs`, made of conditionals.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fokker import samplers
from fokker.fields import Scalar
from fokker.integrators import Splitting, SymplecticEuler
from fokker.lab.experiments._gallery_targets import TARGETS, GalleryTarget
from fokker.samplers import Sampler


class TargetNumbers(NamedTuple):
    """What a sampler may use of a target: all but the density are numbers, which may be traced.

    `energy(theta)` is U less its least value; `length` the largest standard deviation.
    """

    step_size: Any
    length: Any
    curvature: Any
    dimension: int
    energy: Callable[[Array], Array]

    @property
    def friction(self) -> Any:
        """The friction that forgets a momentum in the time that unit speed takes across the target."""
        return 1 / self.length


@dataclass(frozen=True)
class Row:
    """A sampler of the gallery.

    `factor` times 1/curvature (times 1/√curvature, where `inertial`) is its step size; `cost` is about how
    many gradients a step takes; `panels` are the numbers shown below; `exact` says that no step size biases
    it, `right` that it samples the target as the step goes to zero; `caveat` is a known flaw, and
    `cure` the sampler without it, by which the caveat is tested; `only` are the targets that it can be used
    on, where those are not all; `paths` says that a step is a path worth showing point by point.
    """

    name: str
    title: str
    make: Callable[[TargetNumbers], Sampler]
    factor: float
    text: str
    inertial: bool = True
    cost: float = 1.0
    panels: tuple[str, ...] = ()
    exact: bool = False
    right: bool = True
    caveat: str = ""
    cure: Callable[[TargetNumbers], Sampler] | None = None
    only: tuple[str, ...] = ()
    paths: bool = False

    @property
    def line(self) -> str:
        """What the sampler is made of, in its own words."""
        return str(
            self.make(TargetNumbers(jnp.asarray(0.1), 1.0, 1.0, 2, lambda theta: jnp.sum(theta**2) / 2))
        )

    def fits(self, target: GalleryTarget) -> bool:
        """Whether it can sample the target."""
        return not self.only or target.name in self.only

    def step_size(self, target: GalleryTarget) -> float:
        """The step for a target: a fixed part of the largest that is stable."""
        return self.factor / (target.curvature**0.5 if self.inertial else target.curvature)


def _hmc(setting: TargetNumbers) -> Sampler:
    """HMC with paths of random length, about a quarter of a period where the target is widest."""
    wide = jnp.full(setting.dimension, setting.length)
    return samplers.hmc(setting.step_size / setting.length, None, 1 / wide**2)


def _ghmc(setting: TargetNumbers) -> Sampler:
    """GHMC that forgets its momentum over the width of the target."""
    persistence = jnp.exp(-setting.friction * setting.step_size)
    return samplers.ghmc(setting.step_size, persistence, "identity")


def _maula(setting: TargetNumbers) -> Sampler:
    return samplers.maula(setting.step_size, jnp.asarray(setting.friction), "identity")


def _gibbs(setting: TargetNumbers) -> Sampler:
    """Gibbs sampling of a normal, whose precision is the Hessian of its potential."""
    origin = jnp.zeros(setting.dimension)
    sampler = samplers.gibbs_normal(np.zeros(setting.dimension), np.eye(setting.dimension))
    return dataclasses.replace(sampler, precision=jax.hessian(setting.energy)(origin))


def _metric(setting: TargetNumbers, power: float = 0.5) -> tuple[Scalar, Scalar]:
    """G⁻¹ = √(1 + U) and its root: larger steps where the density is low (Ma et al. 2015)."""
    return (
        Scalar(lambda theta: (1 + setting.energy(theta)) ** power),
        Scalar(lambda theta: (1 + setting.energy(theta)) ** (power / 2)),
    )


# A constant speed needs a second dimension to turn in.
_PLANE = tuple(target.name for target in TARGETS.values() if target.dimension > 1)
_HEAT = ("kinetic_temperature",)
_ACCEPT = ("is_accepted",)
_TREE = ("num_integration_steps",)
_METRIC = "with G⁻¹ = √(1 + U)"

ROWS: tuple[Row, ...] = (
    Row(
        "rwm",
        "RWM",
        lambda s: samplers.rwm(s.step_size, "identity"),
        1.2,
        "Steps anywhere, and stays where it is too often: no gradient, and slow for it.",
        panels=_ACCEPT,
        exact=True,
    ),
    Row(
        "gibbs_normal",
        "Gibbs",
        _gibbs,
        1.0,
        "Moves along the axes: quick where coordinates are independent, slow where they are correlated.",
        exact=True,
        only=("normal-1d", "normal-2d", "correlated"),
    ),
    Row(
        "slice_sampler",
        "Slice",
        lambda s: samplers.slice_sampler(s.step_size),
        2.0,
        "Draws from under the density; its width finds itself.",
        cost=8.0,
        exact=True,
    ),
    Row(
        "ula",
        "ULA",
        lambda s: samplers.ula(s.step_size),
        0.1,
        "Drifts uphill in log density and is shaken; its step leaves a bias.",
        inertial=False,
    ),
    Row(
        "mala",
        "MALA",
        lambda s: samplers.mala(s.step_size, "identity"),
        0.8,
        "ULA's step as a proposal: the bias goes, rejections come.",
        inertial=False,
        cost=1.0,
        panels=_ACCEPT,
        exact=True,
    ),
    Row(
        "ulmc",
        "ULMC",
        lambda s: samplers.ulmc(s.step_size, jnp.sqrt(s.curvature)),
        0.1,
        "Has momentum, friction and noise: glides where ULA trembles.",
        panels=_HEAT,
    ),
    Row(
        "maula",
        "MAULA",
        _maula,
        0.4,
        "ULMC as a proposal; a rejection turns it round.",
        panels=_ACCEPT,
        exact=True,
    ),
    Row(
        "hmc",
        "HMC",
        _hmc,
        0.35,
        "Rolls along the density with a fresh push each time.",
        cost=40.0,
        panels=_ACCEPT,
        paths=True,
        exact=True,
    ),
    Row(
        "ghmc",
        "GHMC",
        _ghmc,
        0.4,
        "One leap at a time, most of the momentum kept.",
        panels=_ACCEPT,
        exact=True,
    ),
    Row(
        "naive_nuts",
        "Naive NUTS",
        lambda s: samplers.naive_nuts(s.step_size, "identity", max_depth=5),
        0.5,
        "Doubles its path until it turns back, and picks one of the points.",
        cost=60.0,
        panels=_TREE,
        exact=True,
    ),
    Row(
        "nuts",
        "NUTS",
        lambda s: samplers.nuts(s.step_size, "identity", max_depth=8),
        0.5,
        "Doubles its path until it turns back; keeps a few points only.",
        cost=30.0,
        panels=_TREE,
        paths=True,
        exact=True,
    ),
    Row(
        "rhmc",
        "RHMC",
        lambda s: samplers.rhmc(s.step_size, lambda theta: (1 + s.energy(theta)) ** -0.5, 12),
        0.4,
        "HMC whose mass grows where the density is high.",
        cost=80.0,
        panels=_ACCEPT,
        exact=True,
    ),
    Row(
        "mclmc",
        "MCLMC",
        lambda s: samplers.mclmc(s.step_size, s.length),
        0.4,
        "Speed is constant, only the direction is shaken.",
        cost=2.0,
        only=_PLANE,
    ),
    Row(
        "mchmc",
        "MCHMC",
        lambda s: samplers.mchmc(s.step_size, s.length),
        0.4,
        "Energy is kept to the end; now and then a new direction.",
        cost=2.0,
        only=_PLANE,
    ),
    Row(
        "sgld",
        "SGLD",
        lambda s: samplers.sgld(s.step_size),
        0.1,
        "Langevin dynamics that take minibatches; here it sees the whole gradient.",
        inertial=False,
    ),
    Row(
        "psgld",
        "pSGLD",
        lambda s: samplers.psgld(s.step_size),
        0.1,
        "Scales each coordinate by the gradients seen lately.",
        cost=2.0,
        caveat="its metric averages a hundred steps and lags behind the chain, which one of a thousand "
        "hardly does",
        cure=lambda s: samplers.psgld(s.step_size, 0.999),
    ),
    Row(
        "sgrld",
        "SGRLD",
        lambda setting: samplers.sgrld(setting.step_size, _metric(setting)[0]),
        0.06,
        "Strides where the density is low; Γ keeps it from crowding there.",
        inertial=False,
        cost=2.0,
    ),
    Row(
        "sghmc",
        "SGHMC",
        lambda setting: samplers.sghmc(setting.step_size, setting.friction),
        0.1,
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
        "The friction ξ moves by itself until the temperature is right.",
        panels=("xi", "kinetic_temperature"),
    ),
    Row(
        "gsgrhmc",
        "gSGRHMC",
        lambda setting: samplers.gsgrhmc(setting.step_size, *_metric(setting), integrator=SymplecticEuler()),
        0.1,
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
        "Hot copies cross between modes and hand positions down.",
        inertial=False,
        cost=3.0,
        panels=("exchange_rate",),
    ),
    Row(
        "naive_sgrhmc",
        "naive SGRHMC (a control)",
        lambda setting: samplers.naive_sgrhmc(setting.step_size, *_metric(setting, 1.0)),
        0.05,
        "WRONG on purpose: a control, to see that the comparison finds it out.",
        cost=2.0,
        panels=_HEAT,
        right=False,
        caveat="Γ is forgotten",
    ),
)
