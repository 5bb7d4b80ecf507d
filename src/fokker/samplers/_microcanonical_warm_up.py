"""How the microcanonical samplers find their step size, L and scale."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree
from scipy.special import ndtri

from fokker._core.state import choose, ravel
from fokker._core.statistics import effective_sample_size
from fokker.samplers.composed import TrajectoryDraws
from fokker.samplers.contract import SamplerState
from fokker.samplers.loop import take_steps

# Targets: E[ΔE²]/d of a step without correction, the acceptance rate of a trajectory with one, and L as a
# share of the length over which the sampler decorrelates (Robnik and Seljak 2024; Robnik et al. 2025).
ENERGY_ERROR, ACCEPTANCE, FORGETTING = 5e-4, 0.9, 0.4
# The warm-up in rounds of equal length: until _ARRIVED the chains approach the mass of the target; the scale
# is set twice, at the ends of the next two spans; then the step size is fixed, and L after it.
_ROUNDS, _ARRIVED, _SCALED, _RESCALED, _SETTLED = 20, 3, 6, 12, 16
_SHORTEST = 10
# Steps tried at the start; a step's error is capped at this many times the target.
_TRIED = 2.0 ** np.arange(-30, 31)
_WORST = 1e4
# Coordinates whose autocorrelation is computed.
_COORDINATES = 64


class Round(NamedTuple):
    """Results of a round of steps: a chain's mean error or acceptance, moments of theta, some coordinates."""

    error: Array
    mean: Array
    square: Array
    coordinates: Array


def warm_up(
    sampler: Any, positions: PyTree[Array], keys: Key[Array, " chains"], steps: int, stage: Callable[..., Any]
) -> tuple[Any, PyTree[Array]]:
    r"""The sampler with step size, L and scale found, and the positions of the chains after it.

    Twenty rounds of all chains, whose statistics are pooled. In every round E[ΔE²]/d is measured, which grows
    with ε⁶, and ε set to where it would be 5e-4; L is the size of the sample, √Σ Var; the scale is its
    standard deviations. The last four rounds of `mclmc` give autocorrelations, and L = 0.4 times the length
    over which it decorrelates. The adjusted kinds warm up without correction for the first twelve rounds,
    which brings them to the mass of the target sooner; then ε is set to where 90 % would be accepted: for a
    normal ΔE of variance s² that is 2Φ(-s/2), and s grows with ε².
    """
    length = steps // _ROUNDS
    if length < _SHORTEST:
        raise ValueError(
            f"{sampler.name} needs at least {_ROUNDS * _SHORTEST} steps to warm up in; {steps} were given."
        )
    states = jax.vmap(lambda theta, key: sampler.init(theta, key=key))(positions, keys)
    x = jax.vmap(ravel)(positions)
    d, dtype = x.shape[1], x.dtype
    columns = np.unique(np.linspace(0, d - 1, min(d, _COORDINATES)).astype(int))
    fixed_step = None if isinstance(sampler.step_size, str) else sampler.step_size
    fixed_L = None if isinstance(sampler.L, str) else float(sampler.L)
    scale = np.broadcast_to(np.asarray(sampler.scale, dtype), (d,)).copy()
    free = dataclasses.replace(sampler, adjusted=False, partial=True)

    def settings(kind: Any, step: float, L: float) -> Any:
        return dataclasses.replace(
            kind,
            step_size=jnp.asarray(step, dtype),
            L=jnp.asarray(L, dtype),
            scale=jnp.asarray(scale, dtype),
        )

    def run(kind: Any, number: int) -> Round:
        nonlocal states
        own = jax.vmap(lambda key: jax.random.fold_in(key, number))(keys)

        def compute() -> Any:
            after, result = _round(kind, states, own, length, columns)
            return after, result._asdict()

        states, values = stage(length * (number + 1), states, compute)
        return Round(**values)

    step = _first_step(settings(free, 1.0, math.inf), states)
    L = fixed_L or 16 * step
    results: list[Round] = []
    coefficients: list[float] = []
    for number in range(_RESCALED if sampler.adjusted else _SETTLED):
        result = run(settings(free, step, L), number)
        coefficients.append(max(float(jnp.mean(result.error)), 1e-30) / step**6)
        step *= min(4.0, max(0.25, (ENERGY_ERROR / coefficients[-1] / step**6) ** (1 / 6)))
        results.append(result)
        variance = _variance(results)
        L = fixed_L or math.sqrt(np.sum(variance / scale**2))
        if number + 1 in (_SCALED, _RESCALED) and sampler.preconditioned:
            scale = np.where(variance > 0, np.sqrt(variance), scale).astype(dtype)
            step, L = _first_step(settings(free, step, L), states), fixed_L or math.sqrt(d)
        if number + 1 in (_ARRIVED, _SCALED, _RESCALED):
            results, coefficients = [], []
    if sampler.adjusted:
        step = _accepted_step(lambda h, n: run(settings(sampler, h, L), n), step)
    else:
        step = (ENERGY_ERROR / float(np.mean(coefficients))) ** (1 / 6)
        draws = [run(settings(sampler, step, L), number).coordinates for number in range(_SETTLED, _ROUNDS)]
        if sampler.partial and fixed_L is None:
            L = _decorrelation_length(np.concatenate(draws, axis=1), step, L)
    tuned = settings(sampler, step, L)
    if fixed_step is not None:
        tuned = dataclasses.replace(tuned, step_size=fixed_step)
    return tuned, states.position


def _accepted_step(run: Callable[[float, int], Round], step: float) -> float:
    """The step with the wanted acceptance rate, from rounds of trajectories."""
    wanted = -2 * float(ndtri(ACCEPTANCE / 2))
    coefficients = []
    for number in range(_RESCALED, _ROUNDS):
        accepted = min(0.999, max(0.001, float(jnp.mean(run(step, number).error))))
        coefficients.append(-2 * float(ndtri(accepted / 2)) / step**2)
        step *= min(4.0, max(0.25, math.sqrt(wanted / coefficients[-1]) / step))
    return math.sqrt(wanted / float(np.mean(coefficients[_SETTLED - _RESCALED :])))


def _decorrelation_length(draws: np.ndarray, step: float, L: float) -> float:
    """0.4 times the length over which the chains decorrelate, within a factor 4 of the sample's size."""
    chains, length, _ = draws.shape
    ess = effective_sample_size(draws)
    # In a short run the ESS may be below what ArviZ can estimate.
    time = float(np.mean(chains * length / np.maximum(ess, 1.0)))
    return min(4 * L, max(L / 4, FORGETTING * step * time))


def _variance(results: list[Round]) -> np.ndarray:
    """The variance of every coordinate, over all chains and rounds."""
    mean = np.concatenate([np.asarray(r.mean, float) for r in results])
    within = np.concatenate([np.asarray(r.square, float) for r in results]).mean(axis=0)
    return within + mean.var(axis=0)


@eqx.filter_jit
def _first_steps(sampler: Any, states: SamplerState, tried: Array) -> Array:
    def error(h: Array) -> Array:
        kind = dataclasses.replace(sampler, step_size=h)
        _, info = jax.vmap(
            lambda state: kind.advance(TrajectoryDraws(jnp.zeros_like(state.z["u"]), ()), state)
        )(states)
        return jnp.mean(info.energy_change**2) / states.z["u"].shape[1]

    return jax.lax.map(error, tried)


def _first_step(sampler: Any, states: SamplerState) -> float:
    """The last of the steps tried before the error goes out of bounds.

    Not the largest in bounds: a step so large that the force reverses it leads back to the start.
    """
    errors = np.asarray(_first_steps(sampler, states, jnp.asarray(_TRIED, states.z["u"].dtype)))
    good = errors < ENERGY_ERROR  # NaN is not
    # At very small steps rounding has its own errors.
    first = int(np.argmax(good))
    last = first + int(np.argmin(np.append(good[first:], False)))
    return float(_TRIED[max(0, last - 1)])


@eqx.filter_jit
def _round(
    sampler: Any, states: SamplerState, keys: Array, length: int, columns: np.ndarray
) -> tuple[SamplerState, Round]:
    """Steps of all chains; a step that leaves the finite numbers is not taken; its u is reversed."""

    def chain(state: SamplerState, key: Array) -> tuple[SamplerState, Round]:
        centre = ravel(state.position)

        def one(key: Array, carry: PyTree[Array], _: None) -> Any:
            state, first, second = carry
            after, info = sampler.step(key, state)
            if sampler.adjusted:
                value = info.acceptance_rate
            else:
                good = info.is_finite & jnp.isfinite(info.energy_change)
                back = state._replace(z={**state.z, "u": -state.z["u"]}, step=after.step)
                after = choose(good, after, back)
                value = jnp.where(good, info.energy_change**2 / float(centre.size), jnp.inf)
                value = jnp.minimum(value, _WORST * ENERGY_ERROR)
            x = ravel(after.position) - centre
            return (after, first + x, second + x**2), (value, ravel(after.position)[columns])

        carry = (state, jnp.zeros_like(centre), jnp.zeros_like(centre))
        inputs = (jax.random.split(key, length), None)
        (state, first, second), (values, coordinates) = take_steps(one, carry, inputs, lambda _, info: info)
        mean = first / length
        return state, Round(
            jnp.mean(values), centre + mean, jnp.maximum(second / length - mean**2, 0), coordinates
        )

    return jax.vmap(chain)(states, keys)
