"""`fokker demo`: Bayesian logistic regression on a million rows, by minibatches."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from rich.console import Console

from fokker.demo._console import print_end, print_table
from fokker.gradients import control_variates
from fokker.integrators import Splitting
from fokker.report.figures import Axis, Figure, Mark, rule
from fokker.report.page import figure_part, table
from fokker.run.api import sample
from fokker.samplers import sgnht
from fokker.targets import Posterior, find_mode

ROWS, COEFFICIENTS, BATCH = 1_000_000, 20, 500
STEPS, BURN_IN, CHAINS = 12_000, 2_000, 4


def make_data(seed: int) -> tuple[dict[str, Array], Array]:
    """Standard normal covariates, coefficients of both signs, and outcomes drawn from the model."""
    covariates_key, coefficients_key, outcomes_key = jax.random.split(jax.random.key(seed), 3)
    x = jax.random.normal(covariates_key, (ROWS, COEFFICIENTS))
    truth = jax.random.normal(coefficients_key, (COEFFICIENTS,)) / 2
    y = jax.random.bernoulli(outcomes_key, jax.nn.sigmoid(x @ truth)).astype(jnp.float32)
    return {"x": x, "y": y}, truth


def log_prior(theta: Array) -> Array:
    """N(0, 1) on every coefficient."""
    return -jnp.sum(theta**2) / 2


def log_likelihood(theta: Array, datum: dict[str, Array]) -> Array:
    """log p(y | x, theta) of one row: y η - log(1 + e^η)."""
    eta = datum["x"] @ theta
    return datum["y"] * eta - jnp.logaddexp(0.0, eta)


def laplace(target: Posterior, mode: Array) -> Array:
    """The posterior covariance by a quadratic at the mode: the inverse of XᵀWX + I."""
    x = target.data["x"]
    p = jax.nn.sigmoid(x @ mode)
    return jnp.linalg.inv(x.T @ (x * (p * (1 - p))[:, None]) + jnp.eye(mode.size))


_COLUMNS = ("coefficient", "truth", "Laplace", "posterior", "off by")


class Estimates(NamedTuple):
    """The coefficients by name: their true values, and mean and standard deviation by both methods."""

    names: Sequence[str]
    truth: np.ndarray
    laplace: tuple[np.ndarray, np.ndarray]
    posterior: tuple[np.ndarray, np.ndarray]

    def rows(self) -> list[list[str]]:
        """A row of a table for each coefficient."""
        return [
            [
                name,
                f"{truth:.4f}",
                f"{mode:.4f} ± {laplace_sd:.4f}",
                f"{mean:.4f} ± {sd:.4f}",
                f"{(mean - truth) / sd:+.1f} sd",
            ]
            for name, truth, mode, laplace_sd, mean, sd in zip(
                self.names, self.truth, *self.laplace, *self.posterior, strict=True
            )
        ]

    def figure(self) -> Figure:
        """Both intervals of each coefficient, around its true value."""
        place = np.arange(self.truth.size)
        marks = [rule(0, "the truth", along="x")]
        for shift, (mean, sd), colour, label in (
            (0.12, self.posterior, "chain-0", "SGNHT"),
            (-0.12, self.laplace, "chain-1", "Laplace"),
        ):
            off, y = mean - self.truth, shift - place
            ends = {"low": off - 2 * sd, "high": off + 2 * sd}
            marks += [
                Mark("points", colour, label, off, y),
                Mark("intervals", colour, y=y, along="x", **ends),
            ]
        text = "Each coefficient minus its true value, with two standard deviations."
        return Figure("Difference from the truth", text, marks, Axis("difference"), Axis(names=self.names))


def run(out: Path, seed: int, console: Console) -> None:
    """Sample the posterior and compare it with the truth and the Laplace approximation."""
    start = time.perf_counter()
    out.mkdir(parents=True, exist_ok=True)
    console.print(
        f"[bold]Logistic regression[/bold], {ROWS:,} rows, {COEFFICIENTS} coefficients, by SGNHT with"
    )
    console.print(f"minibatches of {BATCH} rows and control variates, {CHAINS} chains of {STEPS:,} steps\n")
    data, truth = make_data(seed)
    target = Posterior(log_prior, log_likelihood, data)
    with console.status("finding the mode …"):
        mode = find_mode(target, jnp.zeros(COEFFICIENTS))
        covariance = laplace(target, mode)
    # Curvatures of U at the mode set the time scales: the step is a fifth of the fastest, the friction is
    # near critical, and the thermostat is as fast as theta.
    curvatures = 1 / np.linalg.eigvalsh(np.asarray(covariance, float))
    slowest = float(curvatures.min())
    step_size = 0.2 / np.sqrt(curvatures.max())
    sampler = sgnht(step_size, friction=slowest**0.5, thermostat_mass=1 / slowest, integrator=Splitting())
    # Chains that start apart, twice as wide as the posterior, show whether they agree.
    spread = 2 * jnp.linalg.cholesky(covariance)
    trace = sample(
        target,
        sampler,
        gradient=control_variates(mode),
        init=lambda key: mode + spread @ jax.random.normal(key, mode.shape),
        steps=STEPS,
        burn_in=BURN_IN,
        chains=CHAINS,
        batch_size=BATCH,
        thin=10,
        seed=seed,
    )
    summary = trace.summary()
    deviation = np.sqrt(np.diag(np.asarray(covariance)))
    laplace_moments, moments = (np.asarray(mode), deviation), (summary.mean, summary.deviation)
    estimates = Estimates(trace.flat().names, np.asarray(truth), laplace_moments, moments)
    rows = estimates.rows()
    print_table(console, "Posterior against truth and Laplace", _COLUMNS, rows)
    worst = float(np.max(np.abs(summary.mean - mode) / deviation))
    ratio = summary.deviation / deviation
    console.print(f"means within {worst:.2f} standard deviations of Laplace's, ", end="")
    console.print(f"standard deviations {ratio.min():.2f} to {ratio.max():.2f} times theirs")
    kinetic = trace.sample_stats["kinetic_temperature"].mean()
    console.print(
        f"kinetic temperature {kinetic:.3f} (1 is right), R-hat at most {summary.r_hat.max():.3f}, ", end=""
    )
    console.print(f"at least {summary.effective.min():,.0f} effective draws")
    console.print(summary.verdict if summary.trusted else str(summary), markup=False, soft_wrap=True)
    against = [
        "<h2>Against truth and Laplace</h2>",
        table(_COLUMNS, rows),
        figure_part(estimates.figure()),
    ]
    path = out / "report.html"
    trace.report(path, title="Logistic regression on a million rows", extra=against, summary=summary)
    print_end(console, start, path)
