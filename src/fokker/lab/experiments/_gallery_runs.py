r"""Chains of a sampler on all targets of a dimension, and whether they reached the Monte Carlo floor.

The distance of n independent draws from their own distribution, by Kolmogorov and Smirnov, is 0.87/√n on
average: the floor. ArviZ says how many independent draws those of a chain are worth.

The chains run in the loop of `_loop.py`, not by `fk.sample`: the animations show every step of the first
chain with its proposals, and the verdict needs the other chains to go on where one leaves the finite numbers.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, PyTree

from fokker._core.module import Module
from fokker._core.random import fold_in, split
from fokker._core.statistics import effective_sample_size, split_r_hat
from fokker.lab.experiments._gallery_samplers import Row, TargetNumbers
from fokker.lab.experiments._gallery_targets import GalleryTarget, Marginal
from fokker.lab.experiments._loop import in_blocks
from fokker.samplers import Sampler
from fokker.targets import Density

# √(π/2) log 2, the mean of Kolmogorov's distribution.
FLOOR = 0.8687
# One in ten thousand sets of exact draws is further away than this many floors.
WITHIN = 2.5
# With fewer effective draws nothing can be called converged. Many short chains from one point always have an
# R-hat above 1.01: where the distance is too large, an R-hat above this one means that the run is too short.
LEAST_EFFECTIVE, R_HAT = 1000, 1.2
BURN_IN = 0.25
# A change (half the step, or a sampler without the flaw) that removes this share of the distance beyond the
# floor is its cause.
_OFF_BY = 0.3
# If half the step makes the distance this many times as large, the run was too short.
_LATE = 1.3
# Why a floor is not reached.
LEFT, SLOW, BIASED = "left the finite numbers", "too slow", "bias of the step"
CAVEAT, OTHER = "a known flaw", "another density"
RECORDED = ("is_accepted", "proposal", "num_integration_steps")


@dataclass(frozen=True)
class Budget:
    """Numbers of chains, of gradients per chain, and of draws stored per chain."""

    chains: int
    gradients: int
    draws: int

    def thin(self, cost: float) -> int:
        """Steps from one draw to the next."""
        return max(1, round(self.gradients / cost / self.draws))


class Switched(Module):
    """The log density of one of several targets; which one is an array, so that one program serves all."""

    which: Array
    functions: tuple[Callable[[Any], Any], ...] = eqx.field(static=True)

    def __call__(self, theta: Array) -> Array:
        """log p, up to a constant."""
        value: Array = jax.lax.switch(self.which, self.functions, theta)
        return value


def sampler_on(row: Row, targets: Sequence[GalleryTarget], which: ArrayLike, step_size: ArrayLike) -> Sampler:
    """The sampler of a row on one of the targets, all of one dimension; both arguments may be traced."""
    density = Density(Switched(jnp.asarray(which), tuple(target.log_density for target in targets)))
    lengths, curvatures, lowest = (
        jnp.asarray([getattr(target, name) for target in targets])[which]
        for name in ("length", "curvature", "lowest")
    )
    setting = TargetNumbers(
        step_size,
        lengths,
        curvatures,
        targets[0].dimension,
        lambda theta: density.potential(theta) - lowest,
    )
    return row.make(setting).on(density)


def trajectories(
    row: Row, targets: Sequence[GalleryTarget], which: int, budget: Budget, key: Array, number: int = 3
) -> list[Any]:
    """The first steps of the first chain of `compiled`, point by point, of samplers that show them."""
    if not row.paths or targets[which].dimension < 2:  # in one dimension paths cover themselves
        return []
    sampler: Any = sampler_on(row, targets, which, jnp.asarray(row.step_size(targets[which])))
    first_key, key = split(key)
    state = sampler.init(jnp.asarray(targets[which].start), key=split(first_key, budget.chains)[0])
    steps = []
    for i in range(number):
        steps.append(sampler.trajectory(split(fold_in(key, i), budget.chains)[0], state))
        state = steps[-1].state
    return steps


Chains = Callable[..., tuple[Array, dict[str, Array]]]


def compiled(row: Row, targets: Sequence[GalleryTarget], budget: Budget) -> Chains:
    """`run(which, step_size, key)`: draws (chain, draw, coordinate), and every step of the first chain.

    One compilation serves all targets of a dimension: which of them it is, is an argument.
    """
    starts = jnp.asarray([target.start for target in targets])
    thin = budget.thin(row.cost)

    @jax.jit
    def run(which: Array, step_size: Array, key: Array) -> tuple[Array, dict[str, Array]]:
        sampler = sampler_on(row, targets, which, step_size)
        first_key, key = split(key)
        position = starts[which]
        states = jax.vmap(lambda k: sampler.init(position, key=k))(split(first_key, budget.chains))

        def record(states: PyTree[Array], info: Any) -> dict[str, Array]:
            first = jax.tree.map(lambda x: x[0], states)
            shown = {
                name: getattr(info, name)[0] for name in RECORDED if getattr(info, name, None) is not None
            }
            return {"position": first.position, **sampler.record(first), **shown}

        def randomness(numbers: Array, states: PyTree[Array]) -> Any:
            keys = jax.vmap(lambda number: split(fold_in(key, number), budget.chains))(numbers)
            return jax.vmap(jax.vmap(sampler.draw), in_axes=(0, None))(keys, states), None

        def draw(states: PyTree[Array], first: PyTree[Array]) -> Any:
            # Chain by chain: a position may be a part of a state.
            return jax.vmap(lambda state: state.position)(states), first

        numbers = jnp.arange(budget.draws * thin).reshape(budget.draws, thin)
        draws, first = in_blocks(jax.vmap(sampler.advance), states, numbers, randomness, record, draw)
        return jnp.swapaxes(draws, 0, 1), jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), first)

    return run


@dataclass(frozen=True)
class MarginalVerdict:
    """How far draws are from the exact marginals, in the worst coordinate.

    `curve` has the numbers of draws and the distances of so many; `reason` is empty where the floor was
    reached.
    """

    distance: float
    floor: float
    effective: float
    r_hat: float
    finite: float
    curve: Mapping[str, list[float]]
    reason: str = ""

    @property
    def reached(self) -> bool:
        """Whether the distance is no larger than chance makes it."""
        return not self.reason

    @property
    def ratio(self) -> float:
        """Distance in floors."""
        return self.distance / self.floor


def judge(draws: np.ndarray, marginals: Sequence[Marginal]) -> MarginalVerdict:
    """Judge draws (chain, draw, coordinate), without their first quarter."""
    burnt = draws[:, int(BURN_IN * draws.shape[1]) :]
    finite = np.isfinite(burnt).all(axis=(1, 2))
    share = float(finite.mean())
    if share < 1:
        curve = {"draws": [float(burnt[..., 0].size)], "distance": [1.0], "floor": [FLOOR]}
        return MarginalVerdict(1.0, FLOOR, 0.0, float("nan"), share, curve, LEFT)
    counts, r_hats = (f(burnt).reshape(-1) for f in (effective_sample_size, split_r_hat))
    # Chains that never moved have no effective size.
    counts = np.minimum(np.nan_to_num(counts, nan=1.0), burnt[..., 0].size)
    floors = FLOOR / np.sqrt(counts)
    distances = np.array([m.distance(burnt[..., i]) for i, m in enumerate(marginals)])
    worst = int(np.argmax(distances / floors))
    r_hat, effective = float(np.nan_to_num(np.max(r_hats), nan=np.inf)), float(counts.min())
    curve = _curve(draws[..., worst], marginals[worst], counts[worst] / burnt[..., worst].size)
    reason = ""
    far = bool(distances[worst] > WITHIN * floors[worst])
    if effective < LEAST_EFFECTIVE or (far and r_hat > R_HAT):
        reason = SLOW
    elif far:
        reason = OTHER
    return MarginalVerdict(
        float(distances[worst]), float(floors[worst]), effective, r_hat, share, curve, reason
    )


def _curve(draws: np.ndarray, marginal: Marginal, worth: float) -> dict[str, list[float]]:
    """The distance after 1, 2, 4, … draws per chain, from the first on, and the floor of as many draws."""
    lengths = np.unique(np.geomspace(1, draws.shape[1], 9).astype(int))
    # The last three quarters of each, as for the whole run.
    parts = [draws[:, int(BURN_IN * n) : n] for n in lengths]
    return {
        "draws": [float(part.size) for part in parts],
        "distance": [marginal.distance(part) for part in parts],
        "floor": [float(FLOOR / np.sqrt(max(1.0, worth * part.size))) for part in parts],
    }


def explained(
    verdict: MarginalVerdict,
    half: MarginalVerdict,
    row: Row,
    target: GalleryTarget,
    cured: MarginalVerdict | None = None,
) -> MarginalVerdict:
    """Add the full reason, from a run with half the step and one without the known flaw."""
    if verdict.reason == LEFT:
        then = "with half the step none does" if half.finite == 1 else "with half the step too"
        share = 100 * (1 - verdict.finite)
        reason = f"{LEFT}: {share:.2g} % of the chains ({then}); far out the potential is steep for the step"
    elif verdict.reason == SLOW:
        reason = f"{SLOW}: {verdict.effective:.0f} effective draws, R-hat {verdict.r_hat:.2f}"
        reason += f"; {_WHERE[target.name]}" if target.name in _WHERE else ""
    else:
        blamed = not row.exact and _falls(verdict, half)
        # Further from the truth in half the time: it was still converging.
        late = half.distance > _LATE * verdict.distance
        flawed = cured is not None and _falls(verdict, cured)
        reason = CAVEAT if flawed else BIASED if blamed else SLOW if late else OTHER
        reason += f": distance {verdict.distance:.3f}, with half the step {half.distance:.3f}"
        reason += f", without the flaw {cured.distance:.3f}" if cured is not None else ""
        reason += f"; {row.caveat}" if row.caveat and (flawed or not (blamed or late)) else ""
    return dataclasses.replace(verdict, reason=reason)


def _falls(verdict: MarginalVerdict, other: MarginalVerdict) -> bool:
    """Whether much of the distance beyond its floor is gone."""
    beyond, left = (max(v.distance - v.floor, 0.0) for v in (verdict, other))
    return left < (1 - _OFF_BY) * beyond


_WHERE = {
    "mixture": "chains rarely cross between modes",
    "banana": "the valley is a hundred times as long as it is wide",
    "rosenbrock": "the valley is long and narrow, and steepens",
    "correlated": "the density is thin",
    "student-t": "the tails are heavy",
}
