"""A run in blocks of steps, and what is shown of it: cloud, path, histogram, divergence, effective draws."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fokker._core.statistics import effective_sample_size
from fokker.studio import loop
from fokker.studio.design import MAX_STEPS, Design, DesignError
from fokker.studio.program import build
from fokker.studio.truth import truth_of

# Effective draws are estimated from this many chains and steps, every so many frames.
_CHAINS_JUDGED, _STEPS_JUDGED, _EVERY = 32, 1_000, 5
# Draws are far from the target from this KL on, in nats, where chance has a small part in it and the chains
# have moved enough: it is that of a normal distribution a quarter too wide in each coordinate.
_FAR, _TIMES_CHANCE, _FEWEST = 0.1, 5, 400


class Simulation:
    """All chains of a design; `advance` takes one block of steps. Deterministic given the design."""

    def __init__(self, design: Design) -> None:
        self.design = design
        self.built = build(design)
        self.truth = truth_of(design.target.potential, design.settings.temperature)
        self.keys = loop.chain_keys(self.built)
        try:
            self.states = loop.start(self.built, self.keys)
        except (ValueError, TypeError) as error:
            raise DesignError("sampler", str(error)) from None
        self.has_trajectories = loop.has_trajectories(self.built)
        self.frames = 0
        # Of every other chain apart: what differs between the halves is chance.
        self.counts = np.zeros((2, *self.truth.cells.shape))
        self.number = 0
        self.recent: list[np.ndarray] = []
        self.effective: float | None = None

    @property
    def steps(self) -> int:
        """Steps taken by each chain."""
        return self.frames * self.design.run.steps

    @property
    def is_over(self) -> bool:
        """Whether the most steps are taken."""
        return self.steps + self.design.run.steps > MAX_STEPS

    def advance(self, *, with_trajectory: bool = False) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """One block: numbers, and arrays by name; also the first step of the first chain point by point."""
        run = self.design.run
        chosen, trajectory = self._trajectory() if with_trajectory and self.has_trajectories else ({}, {})
        first = jnp.asarray(self.steps)
        batch = self.design.settings.batch
        self.states, (theta, info) = loop.block(
            self.built.sampler, self.states, self.keys, first, self.built.rows, run.steps, batch
        )
        draws = np.asarray(theta)
        self.frames += 1
        is_counted = np.arange(self.steps - run.steps, self.steps) >= run.burn_in
        self._count(draws[is_counted])
        numbers = {
            "step": self.steps,
            "number": self.number,
            "lost": int(np.sum(~np.all(np.isfinite(draws[-1]), axis=-1))),
            "over": self.is_over,
            **self._divergence(),
            **self._statistics(info),
            **chosen,
        }
        shares = self.counts.sum(axis=0) / max(self.number, 1)
        return numbers, {"cloud": draws[-1], "path": draws[:, 0], "histogram": shares, **trajectory}

    def _trajectory(self) -> tuple[dict[str, int], dict[str, np.ndarray]]:
        """Which point becomes the next state, and rows of x, y, doubling and direction in time."""
        step = loop.trajectory(self.built, self.states, self.keys, self.steps)
        number = len(step.points)
        depth = np.zeros(number) if step.depth is None else step.depth
        direction = np.ones(number) if step.direction is None else step.direction
        return {"chosen": step.chosen}, {"trajectory": np.column_stack([step.points, depth, direction])}

    def _count(self, draws: np.ndarray) -> None:
        if not draws.size:
            return
        for half in (0, 1):
            self.counts[half] += self.truth.histogram(draws[:, half::2].reshape(-1, 2))
        self.number += draws.shape[0] * draws.shape[1]
        self.recent.append(draws[:, :_CHAINS_JUDGED])
        while sum(map(len, self.recent)) > _STEPS_JUDGED and len(self.recent) > 1:
            self.recent.pop(0)

    def _divergence(self) -> dict[str, float | bool | None]:
        """KL, how much of it is chance, the effective draws, and whether these are far from the target."""
        if not self.number:
            return {"kl": None, "chance": None, "effective": None, "far": False}
        if self.frames % _EVERY == 0 or self.effective is None:
            self.effective = self._effective()
        kl, chance = self.truth.divergence(self.counts.sum(axis=0), self.number), self._chance()
        has_moved = chance is not None and self.effective is not None and self.effective >= _FEWEST
        far = has_moved and kl > max(_FAR, _TIMES_CHANCE * (chance or 0.0))
        return {"kl": kl, "chance": chance, "effective": self.effective, "far": far}

    def _chance(self) -> float | None:
        """The KL that draws of the target itself would have, by the difference between halves of the chains.

        KL is Σ(h - p)²/2p up to higher orders, and (h₁ - h₂)²/4 has the mean of (h - p)² where
        h = (h₁ + h₂)/2 is right on average. It knows of autocorrelation, as the chains are independent.
        """
        chains = self.design.run.chains
        if chains < 2:
            return None
        steps = self.number / chains
        sizes = np.array([(chains + 1) // 2, chains // 2]) * steps
        halves = self.counts / sizes[:, None, None]
        both = self.counts.sum(axis=0) / self.number
        used = both > 0
        return float(np.sum((halves[0] - halves[1])[used] ** 2 / both[used]) / 8)

    def _effective(self) -> float | None:
        """Of the slower coordinate: the rate of the recent steps of some chains, times all counted."""
        recent = np.swapaxes(np.concatenate(self.recent), 0, 1)
        if recent.shape[1] < 8 or not np.all(np.isfinite(recent)) or np.any(np.ptp(recent, axis=(0, 1)) == 0):
            return None
        rate = float(np.min(effective_sample_size(recent))) / (recent.shape[0] * recent.shape[1])
        return min(rate, 1.0) * self.number

    def _statistics(self, info: Any) -> dict[str, float]:
        numbers = {}
        if info.acceptance_rate is not None:
            numbers["acceptance"] = float(np.nanmean(np.asarray(info.acceptance_rate)))
        z = getattr(self.states, "z", None)
        if isinstance(z, dict) and "r" in z and np.shape(z["r"])[-1:] == (2,):
            squares = np.sum(np.square(np.asarray(jax.device_get(z["r"]), float)), axis=-1)
            with np.errstate(all="ignore"):
                numbers["kinetic"] = float(np.mean(squares) / 2)
        if isinstance(z, dict) and "xi" in z and np.ndim(z["xi"]) == 1:
            numbers["thermostat"] = float(np.mean(np.asarray(z["xi"])))
        return {name: number for name, number in numbers.items() if np.isfinite(number)}
