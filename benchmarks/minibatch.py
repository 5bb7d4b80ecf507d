"""Steps per second on logistic regression by minibatches, against BlackJAX and against a Numba loop.

N = 1,000,000 rows, 50 coefficients, batches of 100, one chain. BlackJAX is driven as its documentation shows (a
Python loop over a jitted step) and as well as it can be (one scan, the batch gathered inside). Ratios are of
speeds, Fokker's over the peer's, measured in turns in this one process. Run with `make bench`.
"""

import argparse
import statistics
import time
from typing import Any

import blackjax
import jax
import jax.numpy as jnp
import numba
import numpy as np
from rich.console import Console
from rich.table import Table

import fokker as fk

N, D, BATCH, STEP = 1_000_000, 50, 100, 1e-5


def log_prior(theta):
    return -jnp.sum(theta**2) / 2


def log_likelihood(theta, datum):
    eta = datum["x"] @ theta
    return datum["y"] * eta - jnp.logaddexp(0.0, eta)


def make_data() -> dict[str, jax.Array]:
    x = jax.random.normal(jax.random.key(0), (N, D))
    y = jax.random.bernoulli(jax.random.key(1), jax.nn.sigmoid(x @ (jnp.ones(D) / 10)))
    return {"x": x, "y": y.astype(jnp.float32)}


def fokker_run(target, sampler, steps):
    """The library's own runner, after compilation."""
    return lambda: fk.sample(
        target, sampler, init=jnp.zeros(D), steps=steps, batch_size=BATCH, keep="moments", progress=False
    )


def blackjax_kernels(data):
    gradient = blackjax.sgmcmc.gradients.grad_estimator(log_prior, log_likelihood, N)
    sghmc = blackjax.sghmc(gradient, num_integration_steps=1)
    sgnht = blackjax.sgnht(gradient)
    return {
        "sgld": (blackjax.sgld(gradient).step, jnp.zeros(D)),
        "sghmc": (sghmc.step, jnp.zeros(D)),
        "sgnht": (sgnht.step, sgnht.init(jnp.zeros(D), jax.random.key(0))),
    }


def blackjax_loop(step, state, data, steps):
    """As documented: a Python loop, a jitted step, a batch drawn outside."""
    jitted = jax.jit(step)
    generator = np.random.default_rng(0)
    x, y = np.asarray(data["x"]), np.asarray(data["y"])

    def run():
        z, key = state, jax.random.key(0)
        for _ in range(steps):
            key, sub = jax.random.split(key)
            rows = generator.integers(0, N, BATCH)
            z = jitted(sub, z, {"x": x[rows], "y": y[rows]}, STEP)
        return jax.block_until_ready(z)

    return run


def blackjax_scan(step, state, data, steps):
    """One scan, the batch gathered by index inside."""

    @jax.jit
    def run(key, data):
        def body(z, key):
            batch_key, step_key = jax.random.split(key)
            rows = jax.random.randint(batch_key, (BATCH,), 0, N)
            return step(step_key, z, jax.tree.map(lambda a: a[rows], data), STEP), None

        return jax.lax.scan(body, state, jax.random.split(key, steps))[0]

    return lambda: jax.block_until_ready(run(jax.random.key(0), data))


@numba.njit(fastmath=True)
def _numba_sghmc(x, y, steps, h, friction):
    theta, r = np.zeros(x.shape[1], np.float32), np.zeros(x.shape[1], np.float32)
    gradient = np.zeros(x.shape[1], np.float32)
    scale = np.float32(x.shape[0] / BATCH)
    root = np.float32(np.sqrt(2 * friction * h))
    for _ in range(steps):
        gradient[:] = theta
        for _ in range(BATCH):
            row = np.random.randint(0, x.shape[0])
            eta = np.float32(0)
            for j in range(x.shape[1]):
                eta += x[row, j] * theta[j]
            weight = scale * (1 / (1 + np.exp(-eta)) - y[row])
            for j in range(x.shape[1]):
                gradient[j] += weight * x[row, j]
        for j in range(x.shape[1]):
            r[j] += -h * (gradient[j] + friction * r[j]) + root * np.random.normal()
            theta[j] += h * r[j]
    return theta


def medians(programs, repeats):
    times: list[list[float]] = [[] for _ in programs]
    for program in programs:
        program()
    for _ in range(repeats):
        for k, program in enumerate(programs):
            start = time.perf_counter()
            program()
            times[k].append(time.perf_counter() - start)
    return [statistics.median(t) for t in times]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer steps and repeats")
    quick = parser.parse_args().quick
    console = Console(width=110, highlight=False)
    data = make_data()
    target = fk.Posterior(log_prior, log_likelihood, data)
    steps, slow, repeats = (4_000, 400, 3) if quick else (20_000, 2_000, 5)
    ours = {
        "sgld": fk.samplers.sgld(STEP),
        "sghmc": fk.samplers.sghmc(STEP),
        "sgnht": fk.samplers.sgnht(STEP),
    }
    table = Table(title="Steps per second, N = 10⁶, d = 50, batch 100", title_justify="left")
    for column in ("sampler", "Fokker", "BlackJAX loop", "ratio (goal 5)", "BlackJAX scan", "ratio (goal 1.4)"):
        table.add_column(column, justify="right")
    for name, (step, state) in blackjax_kernels(data).items():
        a, b, c = medians(
            [
                fokker_run(target, ours[name], steps),
                blackjax_loop(step, state, data, slow),
                blackjax_scan(step, state, data, steps),
            ],
            repeats,
        )
        rates: list[Any] = [steps / a, slow / b, steps / c]
        table.add_row(
            name,
            f"{rates[0]:,.0f}",
            f"{rates[1]:,.0f}",
            f"{rates[0] / rates[1]:.1f}",
            f"{rates[2]:,.0f}",
            f"{rates[0] / rates[2]:.2f}",
        )
    console.print(table)
    x, y = np.asarray(data["x"]), np.asarray(data["y"])
    h, friction = np.float32(STEP), np.float32(1.0)
    a, b = medians(
        [fokker_run(target, ours["sghmc"], steps), lambda: _numba_sghmc(x, y, steps, h, friction)], repeats
    )
    console.print(f"SGHMC against a hand-written Numba loop (goal 0.9): {b / a:.2f}")
    console.print("Fokker's times include validation and the compilation of its chunks in every run.")


if __name__ == "__main__":
    main()
