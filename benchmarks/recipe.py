"""The recipe against the same samplers written by hand in JAX; memory of Γ; time of the checker.

Run with `make bench`. Ratios are of speeds, the library's over the peer's, measured in turns in this one
process: 1.00 is parity, more is faster. `--quick` shortens it.
"""

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
from rich.console import Console
from rich.table import Table

import fokker as fk
from fokker.fields import Dense, Elementwise

H_STEP, FRICTION = 1e-3, 1.0
Step = Callable[[jax.Array, dict[str, jax.Array]], dict[str, jax.Array]]


def potential(theta):
    return jnp.sum(theta**2 / 2 + theta**4 / 40)


force = jax.grad(potential)


def metric(theta):
    return 1.5 * jnp.sqrt(1 + theta**2)


def root(theta):
    return jnp.sqrt(metric(theta))


def sgld_by_hand(key, z):
    theta = z["theta"]
    noise = jax.random.normal(key, theta.shape)
    return {"theta": theta - H_STEP * force(theta) + jnp.sqrt(2 * H_STEP) * noise}


def sghmc_by_hand(key, z):
    theta, r = z["theta"], z["r"]
    noise = jax.random.normal(key, r.shape)
    kick = -H_STEP * (force(theta) + FRICTION * r) + jnp.sqrt(2 * FRICTION * H_STEP) * noise
    return {"theta": theta + H_STEP * r, "r": r + kick}


def sgnht_by_hand(key, z):
    theta, r, xi = z["theta"], z["r"], z["xi"]
    noise = jax.random.normal(key, r.shape)
    kick = -H_STEP * (force(theta) + xi * r) + jnp.sqrt(2 * FRICTION * H_STEP) * noise
    return {"theta": theta + H_STEP * r, "r": r + kick, "xi": xi + H_STEP * (jnp.mean(r * r) - 1)}


def gsgrhmc_by_hand(key, z):
    theta, r = z["theta"], z["r"]
    noise = jax.random.normal(key, r.shape)
    g = metric(theta)
    s, slope = jax.jvp(root, (theta,), (jnp.ones_like(theta),))
    kick = H_STEP * (-s * force(theta) + slope - g * r) + jnp.sqrt(2 * H_STEP * g) * noise
    return {"theta": theta + H_STEP * s * r, "r": r + kick}


SAMPLERS = {
    "SGLD": (fk.dynamics.langevin(potential), sgld_by_hand, ("theta",)),
    "SGHMC": (fk.dynamics.underdamped(potential, FRICTION), sghmc_by_hand, ("theta", "r")),
    "SGNHT": (fk.dynamics.thermostat(potential, FRICTION), sgnht_by_hand, ("theta", "r", "xi")),
    "gSGRHMC": (
        fk.dynamics.riemann(potential, Elementwise(metric), Elementwise(root)),
        gsgrhmc_by_hand,
        ("theta", "r"),
    ),
}


def start_of(names, d):
    z = {name: jnp.ones(d) for name in names}
    return {**z, "xi": jnp.ones(())} if "xi" in names else z


def compiled(step, z, steps, chains):
    """One compiled program: `steps` steps of `chains` chains."""

    def chain(key, z):
        return jax.lax.scan(lambda z, k: (step(k, z), None), z, jax.random.split(key, steps))[0]

    program = jax.jit(jax.vmap(chain) if chains > 1 else chain)
    keys = jax.random.split(jax.random.key(0), chains) if chains > 1 else jax.random.key(0)
    states = jax.tree.map(lambda x: jnp.broadcast_to(x, (chains, *x.shape)), z) if chains > 1 else z
    program = program.lower(keys, states).compile()
    return lambda: jax.block_until_ready(program(keys, states))


def in_turns(programs, repeats):
    """Median seconds of each program, run in turns so that the machine's moods hit all alike."""
    times = [[] for _ in programs]
    for program in programs:
        program()
    for turn in range(repeats):
        order = range(len(programs)) if turn % 2 else reversed(range(len(programs)))
        for k in order:
            start = time.perf_counter()
            programs[k]()
            times[k].append(time.perf_counter() - start)
    return [statistics.median(t) for t in times]


def speed(console, quick):
    table = Table(
        title="Steps per second: fk.Dynamics over hand-written JAX (goal 0.95)", title_justify="left"
    )
    for column in ("sampler", "d", "chains", "Fokker µs/step", "by hand µs/step", "ratio"):
        table.add_column(column, justify="right")
    worst = float("inf")
    for name, (dynamics, by_hand, names) in SAMPLERS.items():
        sampler = fk.samplers.recipe(dynamics, H_STEP)

        def ours(key, z, sampler=sampler):
            return sampler.step(key, fk.samplers.SamplerState(z, jnp.zeros((), jnp.int32)))[0].z

        for d in (50, 100_000):
            for chains in (1, 64):
                steps = max(20, 20_000 // chains) if d == 50 else max(2, 400 // chains)
                steps = max(2, steps // 4) if quick else steps
                z = start_of(names, d)
                a, b = in_turns(
                    [compiled(ours, z, steps, chains), compiled(by_hand, z, steps, chains)],
                    5 if quick else 15,
                )
                worst = min(worst, b / a)
                row = (f"{1e6 * a / steps:.1f}", f"{1e6 * b / steps:.1f}", f"{b / a:.2f}")
                table.add_row(name, f"{d:,}", str(chains), *row)
    console.print(table)
    console.print(f"least ratio {worst:.2f}\n")


def memory(console):
    d = 200
    field = Dense(lambda z: jnp.outer(jnp.sin(z), jnp.cos(z)) + jnp.eye(d) * z)
    program = jax.jit(lambda z: field.divergence(z)).lower(jnp.ones(d)).compile()
    extra = program.memory_analysis().temp_size_in_bytes
    tensor = 4 * d**3
    console.print(
        f"Γ of a dense field, d = {d}: {extra / (4 * d * d):.1f} d² of memory (a rank-3 tensor: {d} d²)"
    )
    jacobian = (
        jax.jit(lambda z: jnp.einsum("ijj->i", jax.jacfwd(field.as_matrix)(z))).lower(jnp.ones(d)).compile()
    )
    a, b = in_turns(
        [
            lambda: jax.block_until_ready(program(jnp.ones(d))),
            lambda: jax.block_until_ready(jacobian(jnp.ones(d))),
        ],
        9,
    )
    peer = jacobian.memory_analysis().temp_size_in_bytes
    console.print(
        f"  {1e3 * a:.1f} ms, by the full Jacobian {1e3 * b:.1f} ms and {peer / tensor:.2f} of the tensor's "
        f"bytes: ratio {b / a:.2f}"
    )
    d = 10_000_000
    dynamics = fk.dynamics.riemann(potential, Elementwise(metric), Elementwise(root))
    sampler = fk.samplers.recipe(dynamics, H_STEP)
    start = time.perf_counter()
    state = sampler.init({"theta": jnp.ones(d), "r": jnp.ones(d)})
    step = jax.jit(sampler.step).lower(jax.random.key(0), state).compile()
    extra = step.memory_analysis().temp_size_in_bytes
    state, info = jax.block_until_ready(step(jax.random.key(0), state))
    first = time.perf_counter() - start
    start = time.perf_counter()
    jax.block_until_ready(step(jax.random.key(1), state))
    second = time.perf_counter() - start
    console.print(
        f"an elementwise field at d = {d:,}: {second:.2f} s a step, {extra / (4 * d):.1f} d of memory beside "
        f"the state, finite: {bool(info.is_finite)} (first step {first:.1f} s with compilation)\n"
    )


CHECK = """
import time
start = time.perf_counter()
import jax.numpy as jnp, fokker as fk
loaded = time.perf_counter()
report = fk.check(fk.dynamics.underdamped(lambda theta: jnp.sum(theta**4) / 4 + theta[0] * theta[1], 2.0),
                  state={"theta": jnp.zeros(2), "r": jnp.zeros(2)})
assert report.ok
print(f"{time.perf_counter() - loaded:.1f} s, and {loaded - start:.1f} s to import")
"""

ERRATA = """
import sys, tempfile, time, pathlib
start = time.perf_counter()
from fokker.lab.experiments import reproduce
with tempfile.TemporaryDirectory() as folder:
    result = reproduce("errata", pathlib.Path(folder))
print(f"{time.perf_counter() - start:.1f} s with imports; claims hold: {all(c.holds for c in result.claims)}")
"""


def answers(console):
    for what, program in (
        ("the checker on a 4-dimensional sampler (goal 10 s)", CHECK),
        ("errata (goal 60 s)", ERRATA),
    ):
        run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        console.print(f"{what}, compilation included, a fresh process: {run.stdout.strip()}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    arguments = parser.parse_args()
    output = Console(width=110, highlight=False)
    speed(output, arguments.quick)
    memory(output)
    answers(output)
