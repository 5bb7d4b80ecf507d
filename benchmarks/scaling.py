"""How the cost of a step grows: with the noise, the chains, the rows of data and the number of steps.

Each figure is a ratio of medians of runs taken in turns in this one process; memory is the peak of a child
process. Run with `make bench`.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
from rich.console import Console
from rich.table import Table

import fokker as fk
from fokker.integrators.noise import NOISES, draw_like

STEPS = {1: 50_000, 64: 5_000}
LAYERS = {"w1": (784, 100), "b1": (100,), "w2": (100, 10), "b2": (10,)}


def seconds(program):
    start = time.perf_counter()
    jax.block_until_ready(program())
    return time.perf_counter() - start


def in_turns(programs, repeats):
    """The median time of each, after one call that is not counted."""
    for program in programs.values():
        program()
    times = {name: [] for name in programs}
    for _ in range(repeats):
        for name, program in programs.items():
            times[name].append(seconds(program))
    return {name: statistics.median(values) for name, values in times.items()}


def net_of_80_000(repeats):
    """SGHMC steps of a 784-100-10 net on one datum a batch, by the kind of noise; and the drawing alone."""
    theta = {name: jnp.zeros(shape) for name, shape in LAYERS.items()}
    x = jax.random.normal(jax.random.key(0), (1000, 784))
    y = jax.random.randint(jax.random.key(1), (1000,), 0, 10)

    def log_likelihood(theta, datum):
        hidden = jax.nn.relu(datum["x"] @ theta["w1"] + theta["b1"])
        return jax.nn.log_softmax(hidden @ theta["w2"] + theta["b2"])[datum["y"]]

    def log_prior(theta):
        return -sum(jnp.sum(v**2) for v in theta.values()) / 2

    target = fk.Posterior(log_prior, log_likelihood, {"x": x, "y": y})

    def steps_of(kind):
        sampler = fk.samplers.sghmc(1e-4, noise=kind).on(target)
        state = sampler.init(theta, key=jax.random.key(2))
        batch = jax.tree.map(lambda v: v[:1], target.data)

        @jax.jit
        def run(state, key):
            def step(state, key):
                return sampler.step(key, state, batch)[0], None

            return jax.lax.scan(step, state, jax.random.split(key, 50))[0]

        return lambda: run(state, jax.random.key(3))

    like = jax.eval_shape(lambda: theta)

    @jax.jit
    def leaf_by_leaf(key):
        keys = jax.random.split(key, len(LAYERS))
        return {name: jax.random.normal(k, LAYERS[name]) for name, k in zip(LAYERS, keys, strict=True)}

    ours = jax.jit(lambda key: draw_like("gaussian", key, like))
    steps = in_turns({kind: steps_of(kind) for kind in NOISES}, repeats)
    draws = in_turns(
        {"ours": lambda: ours(jax.random.key(0)), "leaf": lambda: leaf_by_leaf(jax.random.key(0))},
        10 * repeats,
    )
    table = Table(title="A net of 79,510 parameters, SGHMC, one core", title_justify="left")
    for column in ("noise", "steps/s", "over Gaussian"):
        table.add_column(column, justify="right")
    for kind, t in steps.items():
        table.add_row(kind, f"{50 / t:,.0f}", f"{steps['gaussian'] / t:.2f}")
    return table, f"Gaussian noise, over jax.random.normal leaf by leaf: {draws['leaf'] / draws['ours']:.2f}"


def logistic(n):
    x = jax.random.normal(jax.random.key(0), (n, 50))
    y = jax.random.bernoulli(jax.random.key(1), jax.nn.sigmoid(x @ (jnp.ones(50) / 10))).astype(jnp.float32)

    def log_likelihood(theta, datum):
        eta = datum["x"] @ theta
        return datum["y"] * eta - jnp.logaddexp(0.0, eta)

    return fk.Posterior(lambda theta: -jnp.sum(theta**2) / 2, log_likelihood, {"x": x, "y": y})


def further_steps(target, steps, **options):
    """Seconds for `steps` further steps of a run."""
    sampler = fk.samplers.sghmc(1e-5)

    def run(number):
        start = time.perf_counter()
        fk.sample(
            target,
            sampler,
            init=jnp.zeros(50),
            steps=number,
            thin=10,
            batch_size=10,
            progress=False,
            **options,
        )
        return time.perf_counter() - start

    return lambda: run(1000 + steps) - run(1000)


def medians(programs, repeats):
    """As `in_turns`, of programs that return their own time."""
    for program in programs.values():
        program()
    times = {name: [] for name in programs}
    for _ in range(repeats):
        for name, program in programs.items():
            times[name].append(program())
    return {name: statistics.median(values) for name, values in times.items()}


def peak_megabytes(steps):
    """The largest resident memory of a run that keeps moments, in a process of its own."""
    program = f"""
import resource, jax, jax.numpy as jnp, fokker as fk
target = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
sampler, init = fk.samplers.sgld(0.01), jnp.zeros(100_000)
fk.sample(target, sampler, init=init, steps={steps}, keep="moments", progress=False)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""
    return float(
        subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--net", action="store_true", help="only the net, on the cores of this process")
    parser.add_argument("--quick", action="store_true", help="fewer repeats and rows")
    given = parser.parse_args()
    quick = given.quick
    console = Console(width=110, highlight=False)
    repeats = 3 if quick else 7
    if given.net:
        table, line = net_of_80_000(repeats)
        console.print(table)
        console.print(line, "(goals: three-point 2, leaf by leaf 1)")
        return
    # On one core, which has to be chosen before XLA makes its threads.
    subprocess.run(
        [sys.executable, __file__, "--net"], check=True, preexec_fn=lambda: os.sched_setaffinity(0, {0})
    )

    target = logistic(100_000)
    times = medians({c: further_steps(target, STEPS[c], chains=c) for c in (1, 64)}, repeats)
    per_step = {c: t / STEPS[c] for c, t in times.items()}
    console.print(f"64 chains cost {per_step[64] / per_step[1]:.1f} times one chain (goal: below 20)")

    sizes = (10_000, 1_000_000) if quick else (10_000, 10_000_000)
    targets = {n: logistic(n) for n in sizes}
    times = medians({n: further_steps(t, 20_000) for n, t in targets.items()}, repeats)
    console.print(
        f"a step with N = {sizes[1]:,} rows takes {times[sizes[1]] / times[sizes[0]]:.2f} times as long as "
        f"with {sizes[0]:,} (goal: 1)"
    )
    few, many = peak_megabytes(500), peak_megabytes(5000)
    console.print(f"peak memory with moments kept: {few:,.0f} MB after 500 steps, {many:,.0f} MB after 5,000")


if __name__ == "__main__":
    main()
