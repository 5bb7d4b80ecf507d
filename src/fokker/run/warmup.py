"""Warm-up: a step size, and a scale of every coordinate, from the first steps of all chains together."""

import dataclasses
from collections.abc import Callable
from typing import Any

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
from fokker.run.trajectories import Steps, run_trajectories
from fokker.samplers.contract import SamplerState, Warmed, chunk_length, start_chains
from fokker.samplers.corrected import Corrected
from fokker.samplers.mass_matrix import estimate, identity

# Stan's plan: a share of the steps to reach the mass of the target, one for the last step size, and between
# them windows that double in length, each with the covariance learned from the one before.
_FIRST, _LAST, _WINDOW = 0.15, 0.1, 25
_FIRST_MOST, _LAST_MOST = 75, 50
# The most times that the first step size is doubled or halved.
_DOUBLINGS = 60
# The last step size is corrected for its acceptance rate, measured over this share of the last steps, by a
# factor within these bounds: rare regions may need smaller steps than those visited.
_MEASURED, _CORRECTED = 0.4, (0.5, 1.25)
# Steps whose result is noted down together, for a kill in warm-up.
_NOTED = 250
# A spread that grows by more than this from one window to one twice as long may have no limit.
_GROWTH = 4.0


def windows(steps: int) -> list[tuple[int, bool]]:
    """Lengths that sum to `steps`, and whether the scale is learned from each; the last only measures."""
    if steps < 20:
        return [(steps, False), (0, False)]
    if steps < 4 * _WINDOW:
        return [(steps // 2, True), (steps - steps // 2, False), (0, False)]
    first = min(_FIRST_MOST, round(_FIRST * steps))
    last = min(_LAST_MOST, round(_LAST * steps))
    left, size, plan = steps - first - last, _WINDOW, [(first, False)]
    while left:
        size = left if left < 3 * size else size  # too little would be left for one more
        plan.append((size, True))
        left, size = left - size, 2 * size
    measured = round(_MEASURED * last)
    return [*plan, (last - measured, False), (measured, False)]


class _Chains:
    """The chains of a warm-up, and what they have learned so far."""

    def __init__(
        self,
        sampler: Corrected,
        positions: PyTree[Array],
        keys: Key[Array, " chains"],
        capacity: int,
        devices: Devices,
        stage: Callable[..., Any],
    ) -> None:
        x = ravel(jax.tree.map(lambda x: x[0], positions))
        self.kind = sampler.mass_matrix if isinstance(sampler.mass_matrix, str) else None
        if self.kind is not None:
            sampler = dataclasses.replace(sampler, mass_matrix=identity(self.kind, x.size, x.dtype))
        # A placeholder: with "auto" in its place sampling would need another compilation.
        self.sampler = sampler.with_step_size(jnp.ones((), x.dtype))
        self.keys, self.capacity, self.taken = keys, capacity, 0
        self.devices, self.stage = devices, stage
        self.states: SamplerState = start_chains(self.sampler, positions, keys)
        check_chains(self.states, self.sampler.own_target)
        self.step_sizes = jnp.ones(keys.shape[0], x.dtype)

    def advance(self, sampler: Corrected, states: SamplerState, steps: Steps, search: StepSearch) -> Any:
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

    def window(self, length: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """The draws of `length` steps, chain × draw × d, and their statistics; the step sizes are learned."""
        search = StepSearch.around(self.step_sizes)
        pieces = []
        most = min(self.capacity, _NOTED)
        for done in range(0, length, most):
            search, out = self.learn(min(most, length - done), search, True)
            pieces.append(out)
        self.step_sizes = jnp.exp(search.log_average)
        stats = {name: np.concatenate([p[name] for p in pieces], axis=1) for name in pieces[0]}
        return stats.pop("position"), stats

    def settle(self, steps: int) -> None:
        """One step size for all chains, corrected for its acceptance rate.

        Averages of log ε leave the acceptance too high. The log of an acceptance ratio is about normal with a
        variance s² of twice its mean, and then accepted with 2Φ(-s/2); s grows with a power of ε.
        """
        step_size = jnp.exp(jnp.mean(jnp.log(self.step_sizes)))
        self.step_sizes = jnp.full_like(self.step_sizes, step_size)
        if steps == 0:
            return
        _, out = self.learn(steps, StepSearch.around(self.step_sizes), False)
        measured, wanted = (
            -ndtri(np.clip(rate, 0.001, 0.999) / 2)
            for rate in (float(np.mean(out["acceptance_rate"])), float(self.sampler.target_accept))
        )
        factor = np.clip((wanted / measured) ** (1 / self.sampler.error_order), *_CORRECTED)
        self.step_sizes = self.step_sizes * jnp.asarray(factor, self.step_sizes.dtype)

    def learn_scale(self, draws: np.ndarray) -> None:
        """Learn the scale from all chains' draws, then search for the step size again."""
        assert self.kind is not None
        mass_matrix = estimate(self.kind, draws, self.step_sizes.dtype)
        self.sampler = dataclasses.replace(self.sampler, mass_matrix=mass_matrix)
        self.states = start_chains(self.sampler, self.states.position, self.keys)
        self.find_first_step()


def warmed_up(
    sampler: Corrected,
    devices: Devices,
    positions: PyTree[Array],
    keys: Key[Array, " chains"],
    steps: int,
    stage: Callable[..., Any],
) -> Warmed:
    """Run windows of steps; after each, all chains continue with what they have learned together.

    `stage` as for `Sampler.warm_up`.
    """
    chains = _Chains(sampler, positions, keys, chunk_length(dimension(positions)) + 1, devices, stage)
    chains.find_first_step()
    before: np.ndarray | None = None
    notes: list[str] = []
    *plan, (measured, _) = windows(steps)
    for length, learns_scale in plan:
        draws, stats = chains.window(length)
        if chains.kind not in (None, "identity") and learns_scale:
            chains.learn_scale(draws)
        if learns_scale and length > _WINDOW:
            notes = _drifts(before, draws, jax.tree.map(lambda x: x[0], positions))
            before = draws
    if "is_divergent" in stats and stats["is_divergent"].all():
        raise ValueError(
            "every step of the last part of warm-up diverged: nothing can be learned about this target as it "
            "is written. Look for parameters that need a constraint (fk.constrain) or a prior, for a scale "
            "far from 1, start elsewhere (init), or run in float64."
        )
    notes += _zero_gradients(chains)
    chains.settle(measured)
    return Warmed(chains.sampler.with_step_size(chains.step_sizes[0]), chains.states.position, tuple(notes))


def _drifts(before: np.ndarray | None, now: np.ndarray, theta: PyTree[Array]) -> list[str]:
    """Warn about coordinates whose spread keeps growing: a sign of an improper posterior."""
    if before is None:
        return []
    spread, earlier = (np.sqrt(np.mean(np.var(x, axis=1), axis=0)) for x in (now, before))
    growth = spread / np.maximum(earlier, 1e-30)
    worst = int(np.argmax(growth))
    if not growth[worst] > _GROWTH:
        return []
    return [
        f"during warm-up {scalar_at(theta, worst)} spread {growth[worst]:.0f} times further from one "
        f"window to the next, to {spread[worst]:.3g}: it may drift to infinity, as in an improper posterior; "
        "give it a proper prior, or warm up for longer"
    ]


def _zero_gradients(chains: _Chains) -> list[str]:
    """Warn about coordinates on which the density depends only by jumps, or not at all."""
    if chains.states.memory.point.gradient is None:
        return []
    gradients = np.asarray(chains.states.memory.point.gradient)
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
