"""Warm-up: a step size, and a scale of every coordinate, from the first steps of all chains together."""

import dataclasses
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree
from scipy.special import ndtri

from fokker._core.labels import scalar_at
from fokker._core.state import dimension, ravel
from fokker.run.mesh import Devices
from fokker.run.positions import check_chains
from fokker.run.step_search import StepSearch
from fokker.run.trajectories import Steps, known_gradient, run_trajectories
from fokker.samplers.contract import (
    SamplerState,
    Stages,
    Warmed,
    chunk_length,
    start_chains,
)
from fokker.samplers.mass_matrix import MassMatrix, by_gradients, diagonal, estimate, identity, spread
from fokker.samplers.trajectory_sampler import TrajectorySampler

# A share of the steps to reach the mass of the target, one for the last step size, and between them windows
# that double in length, each with the covariance learned from the one before (Stan's plan).
_FIRST, _LAST, _WINDOW = 0.15, 0.1, 25
_FIRST_MOST, _LAST_MOST = 75, 50
# Windows from this length on search for the step size in this share of their steps; in the rest all chains
# have one, which costs less: a path with a step too short by chance is twice as long.
_LONG, _SEARCHED = 100, 0.4
# The most times that the first step size is doubled or halved.
_DOUBLINGS = 60
# A step size is corrected for its acceptance rate by no less than the first at once, and by no more than the
# second since the search: rare regions may need smaller steps than those visited.
_CORRECTED = (0.5, 1.25)
# The step size is searched for again where a new scale changes its unit by more, as chains on the way to the
# mass of the target have another scale than there.
_RESCALED = 2.0
# Steps whose result is noted down together, for a kill in warm-up.
_NOTED = 250
# A spread that grows by more than this from one window to one twice as long may have no limit.
_GROWTH = 4.0


class Window(NamedTuple):
    """Steps of warm-up, and what the scale is learned from after them: gradients, draws, or nothing."""

    length: int
    scale: str | None = None


def windows(steps: int) -> list[Window]:
    """The windows of a warm-up of so many steps, of which the last only measures."""
    if steps < 20:
        return [Window(steps), Window(0)]
    if steps < 4 * _WINDOW:
        return [Window(steps // 2, "draws"), Window(steps - steps // 2), Window(0)]
    first = min(_FIRST_MOST, round(_FIRST * steps))
    last = min(_LAST_MOST, round(_LAST * steps))
    # On the way to the mass of the target draws are far wider spread than there.
    plan = [Window(n, "gradients") for n in _doubling(first, _WINDOW)]
    plan += [Window(n, "draws") for n in _doubling(steps - first - last, _WINDOW)]
    return [*plan, Window(last)]


def _doubling(steps: int, size: int, most: int | None = None) -> Iterator[int]:
    """Lengths that sum to `steps`, each twice the one before and `most` at most."""
    while steps:
        length = steps if steps < 3 * size else size  # too little would be left for one more
        length = min(length, most or length)
        yield length
        steps, size = steps - length, 2 * size


class _Chains:
    """The chains of a warm-up, and what they have learned so far."""

    # The most that log ε is corrected to, and in how many steps it was measured since the last search.
    ceiling, measured = math.inf, 0.0

    def __init__(
        self,
        sampler: TrajectorySampler,
        positions: PyTree[Array],
        keys: Key[Array, " chains"],
        capacity: int,
        devices: Devices,
        stage: Stages,
    ) -> None:
        x = jax.eval_shape(lambda: ravel(jax.tree.map(lambda x: x[0], positions)))
        kind = sampler.own_mass_matrix
        self.kind = kind if isinstance(kind, str) else None
        if self.kind is not None:
            sampler = _with_mass_matrix(sampler, identity(self.kind, x.size, x.dtype))
        # A placeholder: with "auto" in its place sampling would need another compilation.
        self.sampler = sampler.with_step_size(jnp.asarray(np.ones((), x.dtype)))
        self.keys, self.capacity, self.taken = keys, capacity, 0
        self.devices, self.stage = devices, stage
        self.states: SamplerState = start_chains(self.sampler, positions, keys)
        if self.sampler.holds_potential:
            check_chains(self.states, self.sampler.own_target)
        self.step_sizes = jnp.asarray(np.ones(keys.shape[0], x.dtype))
        # Of each coordinate, what the scale was last learned from.
        self.deviations = np.ones(x.size)
        if self.learns_scale and (gradient := known_gradient(self.sampler, self.states)) is not None:
            # Steep directions take short steps; a slope below 1 says nothing of how far a flat one extends.
            steepness = np.mean(np.abs(np.asarray(gradient, float)), axis=0)
            self.scale_early(1 / np.sqrt(np.maximum(steepness, 1)))

    @property
    def learns_scale(self) -> bool:
        """Whether the mass matrix is learned."""
        return self.kind not in (None, "identity")

    def advance(
        self, sampler: TrajectorySampler, states: SamplerState, steps: Steps, search: StepSearch
    ) -> Any:
        """At most `capacity` steps: the chains, and what was recorded."""
        devices = self.devices
        chains, out = devices.gathered(
            run_trajectories(
                devices.share(sampler, None)[0],  # type: ignore[arg-type]
                self.capacity,
                devices.on_all(steps),
                devices.by_chain(states),
                None,
                devices.by_chain(search),
                devices.by_chain(self.keys),
                devices.mesh,
            )
        )
        if "acceptance_rate" not in out:
            raise TypeError(
                f"warm-up learns by acceptance: Info of {sampler.name} needs an acceptance_rate; or leave "
                "out learns = True, and fk.tune finds its step size."
            )
        # Cut by NumPy: JAX would compile a program for every length.
        return chains, {name: np.asarray(x)[:, : int(steps.number)] for name, x in out.items()}

    def find_first_step(self) -> None:
        """Double or halve every chain's step size until the acceptance of a single move crosses 0.8."""
        # Each trial has its own randomness, which no step uses.
        steps = Steps.of(2**31 + self.taken, _DOUBLINGS, tries=True)
        search = StepSearch.around(self.step_sizes)
        chains, _ = self.advance(self.sampler.with_one_move(), self.states, steps, search)
        self.step_sizes = jnp.exp(chains.search.log_step)
        direction = np.asarray(chains.search.direction)
        if not direction.any():
            return
        if (direction > 0).any():
            raise ValueError(
                "every step is accepted, however long: the density is constant around the start, or its "
                "gradient is zero, or it grows without end (a wrong sign?). Look at the log density "
                "and at where the chains start (init)."
            )
        raise ValueError(
            "no step is accepted, however short: the density jumps or is not finite right beside the start, "
            "or float32 cannot resolve it. Look for a `where`, a rounding or a support that ends there; "
            "transform the parameters (fk.constrain), start elsewhere, or run in float64 "
            "(jax.config.update('jax_enable_x64', True))."
        )

    def learn(self, steps: int, search: StepSearch, learns: bool) -> tuple[StepSearch, dict[str, np.ndarray]]:
        """At most `capacity` steps, which are noted down: how the search continues, and what was recorded."""

        def compute() -> Any:
            number = Steps.of(self.taken - steps, steps, learns=learns)
            chains, out = self.advance(self.sampler, self.states, number, search)
            return (chains.state, chains.search), out

        self.taken += steps
        (self.states, search), out = self.stage(self.taken, (self.states, search), compute)
        return search, out

    def window(self, length: int) -> dict[str, np.ndarray]:
        """What `length` steps recorded, chain × draw × …; the step sizes are learned."""
        start = StepSearch.near if self.taken >= _FIRST_MOST else StepSearch.around
        search, pieces = start(self.step_sizes), []
        searched = round(_SEARCHED * length) if length >= _LONG else length
        for steps in _doubling(searched, searched, min(self.capacity, _NOTED)):
            search, out = self.learn(steps, search, True)
            pieces.append(out)
        self.step_sizes, self.measured = jnp.exp(search.log_average), 0.0
        if searched < length:
            pieces += self.settle(length - searched)
        return {name: np.concatenate([p[name] for p in pieces], axis=1) for name in pieces[0]}

    def settle(self, steps: int) -> list[dict[str, np.ndarray]]:
        """One step size for all chains, corrected for its acceptance rate as often as the steps double.

        Averages of log ε leave the acceptance too high. The log of an acceptance ratio is about normal with a
        variance s² of twice its mean, and then accepted with 2Φ(-s/2); s grows with a power of ε. Steps of
        earlier measurements count half as much each time.
        """
        log_step = float(jnp.mean(jnp.log(self.step_sizes)))
        smallest, largest = np.log(_CORRECTED)
        if not self.measured:
            self.ceiling = log_step + largest
        pieces = []
        for length in _doubling(steps, _WINDOW, min(self.capacity, _NOTED)):
            self.same_step(log_step)
            _, out = self.learn(length, StepSearch.around(self.step_sizes), False)
            pieces.append(out)
            found, wanted = (
                -ndtri(np.clip(rate, 0.001, 0.999) / 2)
                for rate in (float(np.mean(out["acceptance_rate"])), float(self.sampler.target_accept))
            )
            change = max(np.log(wanted / found) / self.sampler.error_order, smallest)
            if np.any(out.get("is_divergent", False)):
                change = min(change, 0.0)
            log_step = min(log_step + change * length / (self.measured + length), self.ceiling)
            self.measured = (self.measured + length) / 2
        self.same_step(log_step)
        return pieces

    def same_step(self, log_step: float) -> None:
        """Continue with one step size for all chains."""
        sizes = self.step_sizes
        self.step_sizes = jnp.asarray(np.full(sizes.shape, np.exp(log_step), sizes.dtype))

    def learn_scale(self, window: Window, out: dict[str, np.ndarray]) -> None:
        """Learn the scale from what all chains recorded in a window."""
        if not self.learns_scale or window.scale is None:
            return
        if window.scale == "draws":
            before, self.deviations = self.deviations, spread(out["position"], self.deviations)
            self.scale(estimate(str(self.kind), out["position"], self.step_sizes.dtype))
            # In units of the scale before, the step size is about as long as the shortest deviation.
            shortest = float(np.min(self.deviations / before))
            if not 1 / _RESCALED < shortest < _RESCALED:
                self.find_first_step()
                self.measured = 0.0
        elif "gradient" in out:
            gradients = out["gradient"] / self.deviations  # recorded in coordinates of that scale
            self.scale_early(by_gradients(out["position"], gradients, self.deviations))
            self.find_first_step()

    def scale(self, mass_matrix: MassMatrix) -> None:
        """Continue with a mass matrix."""
        self.sampler = _with_mass_matrix(self.sampler, mass_matrix)
        self.states = start_chains(self.sampler, self.states.position, self.keys)

    def scale_early(self, deviations: np.ndarray) -> None:
        """Continue with a deviation for each coordinate, as a mass matrix of the kind that is learned."""
        self.deviations = deviations
        self.scale(diagonal(str(self.kind), deviations, self.step_sizes.dtype))


def _with_mass_matrix(sampler: TrajectorySampler, mass_matrix: MassMatrix) -> TrajectorySampler:
    return dataclasses.replace(sampler, mass_matrix=mass_matrix)  # type: ignore[call-arg]


def warmed_up(
    sampler: TrajectorySampler,
    devices: Devices,
    positions: PyTree[Array],
    keys: Key[Array, " chains"],
    steps: int,
    stage: Stages,
) -> Warmed:
    """Run windows of steps; after each, all chains continue with what they have learned together.

    `stage` as for `Sampler.warm_up`.
    """
    chains = _Chains(sampler, positions, keys, chunk_length(dimension(positions)) + 1, devices, stage)
    chains.find_first_step()
    before: np.ndarray | None = None
    notes: list[str] = []
    *plan, last = windows(steps)
    for window in plan:
        stats = chains.window(window.length)
        chains.learn_scale(window, stats)
        if window.scale == "draws" and window.length > _WINDOW:
            notes = _drifts(before, stats["position"], positions)
            before = stats["position"]
    if "is_divergent" in stats and stats["is_divergent"].all():
        raise ValueError(
            "every step of the last part of warm-up diverged: nothing can be learned about this target as it "
            "is written. Look for parameters that need a constraint (fk.constrain) or a prior, for a scale "
            "far from 1, start elsewhere (init), or run in float64."
        )
    notes += _zero_gradients(chains)
    chains.settle(last.length)
    return Warmed(chains.sampler.with_step_size(chains.step_sizes[0]), chains.states.position, tuple(notes))


def _drifts(before: np.ndarray | None, now: np.ndarray, positions: PyTree[Array]) -> list[str]:
    """Warn about coordinates whose spread keeps growing: a sign of an improper posterior."""
    if before is None:
        return []
    spread, earlier = (np.sqrt(np.mean(np.var(x, axis=1), axis=0)) for x in (now, before))
    growth = spread / np.maximum(earlier, 1e-30)
    worst = int(np.argmax(growth))
    if not growth[worst] > _GROWTH:
        return []
    theta = jax.tree.map(lambda x: x[0], positions)
    return [
        f"during warm-up {scalar_at(theta, worst)} spread {growth[worst]:.0f} times further from one "
        f"window to the next, to {spread[worst]:.3g}: it may drift to infinity, as in an improper posterior; "
        "give it a proper prior, or warm up for longer"
    ]


def _zero_gradients(chains: _Chains) -> list[str]:
    """Warn about coordinates on which the density depends only by jumps, or not at all."""
    gradients = known_gradient(chains.sampler, chains.states)
    if gradients is None:
        return []
    gradients = np.asarray(gradients)
    mixed = chains.kind in ("dense", "low-rank")  # gradients along directions, not coordinates
    if not (np.all(gradients == 0) if mixed else np.any(np.all(gradients == 0, axis=0))):
        return []
    place = int(np.argmax(np.all(gradients == 0, axis=0)))
    theta = jax.tree.map(lambda x: x[0], chains.states.position)
    return [
        f"at the end of warm-up the gradient by {scalar_at(theta, place)} was zero in every chain: the "
        "density does not depend on it, or jumps where it should have a slope, which a gradient-based "
        "sampler does not see; give it a prior, write it without rounding, or use fk.samplers.rwm"
    ]
