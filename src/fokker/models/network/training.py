"""From initial weights to draws: a warm start by SGD, then the sampler; both are runs of `fk.sample`."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from fokker._core.state import as_arrays
from fokker.models.network.networks import Apply, Functional
from fokker.models.network.posterior import LOG_NOISE_MEAN, NetworkLogLikelihood, NetworkLogPrior, Outputs
from fokker.models.network.settings import GAUSSIAN_CURVATURE, StepSettings
from fokker.run.api import sample
from fokker.run.positions import PerChain
from fokker.run.trace import Trace
from fokker.samplers.contract import Sampler
from fokker.targets import Posterior

# Without a number of passes: as many as this, but at least so many steps.
_PASSES, _LEAST_STEPS = 20, 10_000
# Without a batch size: up to so many rows every step sees all of them, and beyond that so many.
_MOST_WHOLE, _BATCH = 500, 100
# Seeds of the runs within one fit.
_WARM_START_SEED = 1
# Rows on which the curvature is measured.
_PROBED = 64
# Rows whose residuals start a noise, and the least that they may give.
_RESIDUALS, _LEAST_RESIDUAL = 1000, 0.01
# A noise that the network has yet to learn may become as small as this, in units of the deviation of y.
_LEAST_NOISE = 0.2


@dataclass(frozen=True)
class Lengths:
    """Rows per step; steps of the warm start, of burn-in and between draws; draws of each chain."""

    batch_size: int
    warm_start: int
    burn_in: int
    thin: int
    draws: int
    period: int

    @classmethod
    def of(
        cls,
        rows: int,
        batch_size: int | None,
        passes: float | None,
        burn_in: float | None,
        warm_start: float | None,
        draws: int,
        cycles: int | None,
    ) -> "Lengths":
        """In steps, from passes over the data; None is chosen."""
        if batch_size is None:
            batch_size = rows if rows <= _MOST_WHOLE else _BATCH
        steps_per_pass = max(1.0, rows / batch_size)
        steps = max(_PASSES * steps_per_pass, _LEAST_STEPS) if passes is None else passes * steps_per_pass
        before = [
            round(steps / 4) if length is None else round(length * steps_per_pass)
            for length in (warm_start, burn_in)
        ]
        if cycles is None:
            return cls(batch_size, before[0], before[1], max(1, round(steps / draws)), draws, 0)
        # Draws are taken at equal distances, and those of the first half of each cycle are then left out.
        per_cycle = 2 * -(-draws // cycles)
        thin = max(1, round(steps / (per_cycle * cycles)))
        return cls(batch_size, before[0], 0, thin, per_cycle * cycles, per_cycle * thin)

    def shortened(self, share: float) -> "Lengths":
        """With this share of the steps that are sampled: as many draws, closer together, or fewer cycles.

        As many, so that the run shares the program of a run of the whole length, as the period of a cycle is
        compiled in and the room for draws is.
        """
        if not self.period and self.thin > 1:
            return replace(self, thin=round(share * self.thin))
        per_cycle = self.period // self.thin or 1
        return replace(self, draws=per_cycle * max(1, round(share * self.draws / per_cycle)))

    def selected(self) -> np.ndarray:
        """The draws to be used: all, or those of the second half of every cycle."""
        numbers = np.arange(1, self.draws + 1) * self.thin
        return (
            np.full(self.draws, True) if not self.period else (numbers - 1) % self.period >= self.period / 2
        )


class Fit(NamedTuple):
    """What a warm start and the run after it share; `size`: the number of rows that their steps are for."""

    data: dict[str, np.ndarray]
    settings: StepSettings
    lengths: Lengths
    chosen: PyTree[bool]
    size: int


@dataclass(frozen=True)
class NetworkPosterior:
    """A network, its likelihood and its prior: everything of the posterior but the data."""

    network: Functional
    scales: PyTree[float]
    likelihood: str
    noise_scale: Any
    outputs: int
    seed: int
    progress: bool

    def target(self, data: dict[str, np.ndarray], chosen: PyTree[bool], fixed: PyTree[Array]) -> Posterior:
        """The posterior of the chosen weights, the others being fixed."""
        # Arrays, so that another prior runs by the same compiled programs.
        prior = NetworkLogPrior(as_arrays(eqx.filter(self.scales, chosen)))
        return Posterior(prior, self.log_likelihood(fixed), data)

    def log_likelihood(self, fixed: PyTree[Array]) -> NetworkLogLikelihood:
        """log p(y | x, θ) with these weights fixed."""
        return NetworkLogLikelihood(Outputs(self.network.apply, fixed), self.likelihood, self.noise_scale)

    def start(self) -> PyTree[Array]:
        """Theta of every chain at the initial weights."""
        theta = {"weights": self.network.starts}
        if self.likelihood == "gaussian" and self.noise_scale is None:
            chains = jax.tree.leaves(self.network.starts)[0].shape[0]
            theta["log_noise"] = jnp.full((chains, self.outputs), LOG_NOISE_MEAN)
        return theta

    def curvature(
        self, rows: np.ndarray, positions: PyTree[Array] | None = None, fixed: PyTree[Array] = None
    ) -> float:
        """κ of `settings`, at the initial weights.

        For a Gaussian likelihood also at the weights of `positions`, and with the noise there if it is
        learned: a categorical -log p becomes flatter as the network learns, a Gaussian one does not.
        """
        kappa = float(
            _square_jacobian(self.network.apply, self.network.first_start, jnp.asarray(rows[:_PROBED]))
        )
        if self.likelihood == "categorical":
            return kappa
        noise: Any = _LEAST_NOISE if self.noise_scale is None else self.noise_scale
        if positions is not None:
            if "log_noise" in positions:
                noise = np.exp(positions["log_noise"])
            weights = eqx.combine(jax.tree.map(lambda x: x[0], positions["weights"]), fixed)
            kappa = max(
                kappa, float(_square_jacobian(self.network.apply, weights, jnp.asarray(rows[:_PROBED])))
            )
        return kappa * GAUSSIAN_CURVATURE / float(np.min(noise)) ** 2

    def run(
        self,
        target: Posterior,
        sampler: Sampler,
        positions: PyTree[Array],
        *,
        batch_size: int,
        temperature: float,
        steps: int,
        thin: int,
        seed: int,
        burn_in: int = 0,
    ) -> Trace:
        """One run of `fk.sample`; raise where it left the finite numbers."""
        trace = sample(
            target,
            sampler,
            init=PerChain(positions),
            steps=steps,
            burn_in=burn_in,
            thin=thin,
            batch_size=batch_size if batch_size < target.size else None,
            seed=seed,
            temperature=temperature,
            progress=self.progress,
        )
        if trace.lost or (trace.stopped is not None and not trace.was_interrupted):
            raise RuntimeError(
                f"{trace.lost or trace.stopped}: give a smaller learning_rate, or standardise the columns of "
                "X if they are large."
            )
        return trace

    def started(self, fit: Fit) -> tuple[PyTree[Array], PyTree[Array]]:
        """Theta of every chain after the warm start, and the weights that are not chosen."""
        positions = self.start()
        chains = jax.tree.leaves(positions)[0].shape[0]
        is_part = not all(jax.tree.leaves(fit.chosen))
        if is_part:  # the fixed weights are those of one warm start
            positions = jax.tree.map(lambda x: x[:1], positions)
        if fit.lengths.warm_start:
            positions = self.warm_started(fit, positions)
        weights, rest = eqx.partition(positions["weights"], fit.chosen)
        fixed = jax.tree.map(lambda x: x[0], rest)
        positions = {**positions, "weights": weights}
        if is_part:
            positions = jax.tree.map(lambda x: np.repeat(x, chains, axis=0), positions)
        return positions, fixed

    def sampled(
        self, fit: Fit, positions: PyTree[Array], fixed: PyTree[Array], temperature: float, seed: int
    ) -> Trace:
        """The run from these positions on."""
        lengths = fit.lengths
        curvature = self.curvature(fit.data["x"], positions, fixed)
        return self.run(
            self.target(fit.data, fit.chosen, fixed),
            fit.settings.make(fit.size, curvature, lengths.period),
            positions,
            batch_size=lengths.batch_size,
            temperature=temperature,
            burn_in=lengths.burn_in,
            steps=lengths.thin * lengths.draws,
            thin=lengths.thin,
            seed=seed,
        )

    def warm_started(self, fit: Fit, positions: PyTree[Array]) -> PyTree[Array]:
        """Theta of every chain after SGD with momentum: SGHMC at temperature 0.

        A noise that is to be learned is 1 until then, for least squares, and the residuals give its start:
        were it learned by SGD too, the curvature would rise on the way.
        """
        data, lengths = fit.data, fit.lengths
        if "log_noise" in positions:
            known = replace(self, noise_scale=np.ones(self.outputs, np.float32))
            weights = {"weights": positions["weights"]}
            theta = known.warm_started(fit, weights)
            return {**theta, "log_noise": _log_residuals(self.network.apply, theta["weights"], data)}
        everything = jax.tree.map(lambda _: True, self.scales)
        nothing = jax.tree.map(lambda _: None, self.scales)
        target = self.target(data, everything, nothing)
        sampler = fit.settings.warm_start(fit.size, self.curvature(data["x"]), lengths.warm_start)
        # One draw, the last: its whole way would be stored otherwise.
        trace = self.run(
            target,
            sampler,
            positions,
            batch_size=lengths.batch_size,
            temperature=0.0,
            steps=lengths.warm_start,
            thin=lengths.warm_start,
            seed=(self.seed + _WARM_START_SEED) % 2**32,
        )
        if trace.was_interrupted:
            raise KeyboardInterrupt
        return trace.state.position


@eqx.filter_jit
def _square_jacobian(apply: Apply, weights: PyTree[Array], rows: Array) -> Array:
    """E_x|∂f/∂θ|² per output: |Jᵀv|² for random signs v has the mean |J|²."""
    outputs = jax.eval_shape(apply, weights, rows[0]).size
    drawn = np.random.default_rng(0).choice([-1.0, 1.0], (len(rows), outputs))
    signs = jnp.asarray(drawn, jnp.result_type(float))  # by NumPy, which compiles nothing

    def square(row: Array, v: Array) -> Array:
        gradient = jax.grad(lambda w: jnp.sum(apply(w, row).ravel() * v))(weights)
        return jnp.sum(jnp.stack([jnp.sum(g.astype(v.dtype) ** 2) for g in jax.tree.leaves(gradient)]))

    squares = jax.lax.map(lambda pair: square(*pair), (rows, signs))
    return jnp.mean(squares) / outputs


def _log_residuals(apply: Apply, weights: PyTree[Array], data: dict[str, np.ndarray]) -> Array:
    """The log of the root mean square residual of every chain and output, on some rows."""
    rows, targets = (jnp.asarray(data[name][:_RESIDUALS]) for name in ("x", "y"))
    fitted = jax.vmap(lambda w: jax.lax.map(lambda x: apply(w, x), rows))(weights)
    return jnp.log(jnp.maximum(jnp.sqrt(jnp.mean((targets[None] - fitted) ** 2, 1)), _LEAST_RESIDUAL))
