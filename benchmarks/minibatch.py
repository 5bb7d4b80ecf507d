"""Steps per second on logistic regression by minibatches, against BlackJAX and against a Numba loop.

N = 1,000,000 rows, 50 coefficients, batches of 100, one chain. BlackJAX is driven as its documentation shows
(a Python loop over a jitted step) and as well as it can be (one scan, the batch gathered by index inside).
Its SGHMC takes ten updates a step on one batch; they are counted as ten. (With one, the gradient has no
influence on the position that it returns, and the compiler leaves it out.) Fokker is driven by `fk.sample`,
once with its default batches (windows of a shuffled copy) and once with independent rows gathered by index,
as the peers do, and with windows that ten steps share, as ten updates of BlackJAX's SGHMC share
a batch. Ratios are of speeds, Fokker's over the peer's, medians of runs taken in turns in this one
process. Fokker's rate is that of the additional steps of a longer run over a shorter one, so that
compilation, which the peers' figures leave out too, does not count. Run with `make bench`.
"""

import argparse
import statistics
import time

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


def fokker_seconds(target, sampler, steps, batches, repeats=1):
    """Seconds for `steps` further steps of the library's own runner."""

    def run(number):
        start = time.perf_counter()
        fk.sample(
            target,
            sampler,
            init=jnp.zeros(D),
            steps=number,
            chains=1,
            thin=10,
            batch_size=BATCH,
            batches=batches,
            batch_repeats=repeats,
            progress=False,
        )
        return time.perf_counter() - start

    return run(1000 + steps) - run(1000)


def blackjax_kernels(data):
    gradient = blackjax.sgmcmc.gradients.grad_estimator(log_prior, log_likelihood, N)
    sghmc = blackjax.sghmc(gradient, num_integration_steps=10)
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
            row = np.random.randint(0, x.shape[0])  # noqa: NPY002 (all that Numba compiles)
            eta = np.float32(0)
            for j in range(x.shape[1]):
                eta += x[row, j] * theta[j]
            weight = scale * (1 / (1 + np.exp(-eta)) - y[row])
            for j in range(x.shape[1]):
                gradient[j] += weight * x[row, j]
        for j in range(x.shape[1]):
            r[j] += -h * (gradient[j] + friction * r[j]) + root * np.random.normal()  # noqa: NPY002
            theta[j] += h * r[j]
    return theta


def seconds(program):
    start = time.perf_counter()
    program()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer steps and repeats")
    quick = parser.parse_args().quick
    console = Console(width=120, highlight=False)
    data = make_data()
    target = fk.Posterior(log_prior, log_likelihood, data)
    steps, slow, repeats = (20_000, 500, 3) if quick else (100_000, 2_000, 5)
    ours = {
        "sgld": fk.samplers.sgld(STEP),
        "sghmc": fk.samplers.sghmc(STEP),
        "sgnht": fk.samplers.sgnht(STEP),
    }
    x, y = np.asarray(data["x"]), np.asarray(data["y"])
    h, friction = np.float32(STEP), np.float32(1.0)
    table = Table(title="Steps per second, N = 10⁶, d = 50, batch 100", title_justify="left")
    for column in ("sampler", "batches", "Fokker", "over BlackJAX loop", "over its scan", "over Numba"):
        table.add_column(column, justify="right")
    _numba_sghmc(x, y, 10, h, friction)  # compile
    for name, (step, state) in blackjax_kernels(data).items():
        updates = 10 if name == "sghmc" else 1
        loop = blackjax_loop(step, state, data, slow // updates)
        scan = blackjax_scan(step, state, data, steps // updates)
        loop(), scan()
        times = []
        for _ in range(repeats):
            times.append(
                (
                    fokker_seconds(target, ours[name], steps, None) / steps,
                    fokker_seconds(target, ours[name], steps, "replacement") / steps,
                    fokker_seconds(target, ours[name], steps, None, 10) / steps,
                    seconds(loop) / slow,
                    seconds(scan) / steps,
                    seconds(lambda: _numba_sghmc(x, y, steps, h, friction)) / steps,
                )
            )
        window, gathered, shared, *peers = (statistics.median(column) for column in zip(*times, strict=True))
        for kind, mine in (("window", window), ("replacement", gathered), ("window of 10 steps", shared)):
            ratios = [f"{peer / mine:.2f}" for peer in peers]
            table.add_row(name, kind, f"{1 / mine:,.0f}", *ratios[:2], ratios[2] if name == "sghmc" else "")
    console.print(table)
    console.print("goals: 5 over the loop, 1.4 over the scan, 0.9 over Numba (a hand-written SGHMC)")


if __name__ == "__main__":
    main()
