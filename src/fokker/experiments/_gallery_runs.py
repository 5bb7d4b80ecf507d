r"""Chains of a sampler on all targets of a dimension, and whether they reached the Monte Carlo floor.

The distance of n independent draws from their own distribution, by Kolmogorov and Smirnov, is 0.87/√n on
average: the floor. ArviZ says how many independent draws those of a chain are worth.
"""

import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import arviz
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fokker.experiments._gallery_samplers import Row, Setting
from fokker.experiments._gallery_targets import GalleryTarget, Marginal
from fokker.targets import Density

# √(π/2) log 2, the mean of Kolmogorov's distribution.
FLOOR = 0.8687
# Of exact draws one in ten thousand is further than this many floors.
WITHIN = 2.5
# With fewer effective draws nothing can be called converged. Many short chains, started at one point, always
# have an R-hat above 1.01: where the distance is too large, an R-hat above this says that time is what lacks.
LEAST_EFFECTIVE, R_HAT = 1000, 1.2
BURN_IN = 0.25
# Where half the step takes off this part of the distance beyond the floor, the step was to blame.
_OFF_BY_HALVING = 0.3
# Where it makes the distance so many times as large, time was lacking.
_LATE = 1.3
# Why a floor is not reached.
LEFT, SLOW, BIASED, OTHER = "left the finite numbers", "too slow", "bias of the step", "another density"
RECORDED = ("accepted", "proposal")


@dataclass(frozen=True)
class Budget:
    """Chains, gradients a chain, and draws kept of each."""

    chains: int
    gradients: int
    draws: int

    def thin(self, cost: float) -> int:
        """Steps from one draw to the next."""
        return max(1, round(self.gradients / cost / self.draws))


Chains = Callable[..., tuple[Array, dict[str, Array]]]


def compiled(row: Row, targets: Sequence[GalleryTarget], budget: Budget) -> Chains:
    """`run(which, step_size, key)`: draws (chain, draw, coordinate), and all of the first chain.

    One compilation serves all targets of a dimension: which of them it is, is an argument.
    """
    starts, frictions, curvatures, lowest = (
        jnp.asarray([f(t) for t in targets])
        for f in (lambda t: t.start, lambda t: 1 / t.length, lambda t: t.curvature, lambda t: t.lowest)
    )
    thin = budget.thin(row.cost)

    @jax.jit
    def run(which: Array, step_size: Array, key: Array) -> tuple[Array, dict[str, Array]]:
        density = Density(lambda theta: jax.lax.switch(which, [t.log_density for t in targets], theta))
        setting = Setting(
            step_size,
            frictions[which],
            curvatures[which],
            lambda theta: density.potential(theta) - lowest[which],
        )
        sampler = row.make(setting).on(density)
        first_key, key = jax.random.split(key)
        position = starts[which]
        states = jax.vmap(lambda k: sampler.init(position, key=k))(jax.random.split(first_key, budget.chains))

        def step(states: Any, number: Array) -> Any:
            keys = jax.random.split(jax.random.fold_in(key, number), budget.chains)
            states, info = jax.vmap(sampler.step)(keys, states)
            first = jax.tree.map(lambda x: x[0], states)
            shown = {name: getattr(info, name)[0] for name in RECORDED if hasattr(info, name)}
            return states, {"position": first.position, **sampler.record(first), **shown}

        def draw(states: Any, numbers: Array) -> Any:
            states, first = jax.lax.scan(step, states, numbers)
            # Of each chain, not of them all together: a position may be a part of a state.
            return states, (jax.vmap(lambda state: state.position)(states), first)

        numbers = jnp.arange(budget.draws * thin).reshape(budget.draws, thin)
        _, (draws, first) = jax.lax.scan(draw, states, numbers)
        return jnp.swapaxes(draws, 0, 1), jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), first)

    return run


@dataclass(frozen=True)
class Verdict:
    """How far draws are from the exact marginals, the worst coordinate counting.

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
        """Whether nothing but chance keeps the draws from the truth."""
        return not self.reason

    @property
    def ratio(self) -> float:
        """Distance in floors."""
        return self.distance / self.floor


def judge(draws: np.ndarray, marginals: Sequence[Marginal]) -> Verdict:
    """Of draws (chain, draw, coordinate), their first quarter left out."""
    burnt = draws[:, int(BURN_IN * draws.shape[1]) :]
    finite = np.isfinite(burnt).all(axis=(1, 2))
    share = float(finite.mean())
    if share < 1:
        curve = {"draws": [float(burnt[..., 0].size)], "distance": [1.0], "floor": [FLOOR]}
        return Verdict(1.0, FLOOR, 0.0, float("nan"), share, curve, LEFT)
    with warnings.catch_warnings():  # of more chains than draws, and of chains that never move
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        data = arviz.convert_to_dataset(burnt)
        counts, r_hats = (np.asarray(f(data)["x"]).reshape(-1) for f in (arviz.ess, arviz.rhat))
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
    return Verdict(float(distances[worst]), float(floors[worst]), effective, r_hat, share, curve, reason)


def _curve(draws: np.ndarray, marginal: Marginal, worth: float) -> dict[str, list[float]]:
    """The distance after 1, 2, 4, … draws a chain, from the first, and the floor of as many."""
    lengths = np.unique(np.geomspace(1, draws.shape[1], 9).astype(int))
    # The latter three quarters of what there is, as of the whole.
    parts = [draws[:, int(BURN_IN * n) : n] for n in lengths]
    return {
        "draws": [float(part.size) for part in parts],
        "distance": [marginal.distance(part) for part in parts],
        "floor": [float(FLOOR / np.sqrt(max(1.0, worth * part.size))) for part in parts],
    }


def explained(verdict: Verdict, half: Verdict, row: Row, target: GalleryTarget) -> Verdict:
    """With the reason that it did not reach the floor in full, in view of a run with half the step."""
    if verdict.reason == LEFT:
        then = "with half the step none does" if half.finite == 1 else "with half the step too"
        share = 100 * (1 - verdict.finite)
        told = f"{LEFT}: {share:.2g} % of the chains ({then}); far out the potential is steep for the step"
    elif verdict.reason == SLOW:
        told = f"{SLOW}: {verdict.effective:.0f} effective draws, R-hat {verdict.r_hat:.2f}"
        told += f"; {_WHERE[target.name]}" if target.name in _WHERE else ""
    else:
        beyond, halved = (max(v.distance - v.floor, 0.0) for v in (verdict, half))
        blamed = not row.exact and halved < (1 - _OFF_BY_HALVING) * beyond
        # In half the time further from the truth: it was still on its way.
        late = half.distance > _LATE * verdict.distance
        told = f"{BIASED if blamed else SLOW if late else OTHER}: distance {verdict.distance:.3f}"
        told += f", with half the step {half.distance:.3f}"
        told += f"; {row.caveat}" if row.caveat and not blamed and not late else ""
    return dataclasses.replace(verdict, reason=told)


_WHERE = {
    "mixture": "modes are crossed seldom",
    "banana": "the valley is a hundred times as long as it is wide",
    "rosenbrock": "the valley is long and narrow, and steepens",
    "correlated": "the density is thin",
    "student-t": "the tails are heavy",
}
