"""An SGHMC update of 2²⁸ parameters on a GPU, as a share of the bandwidth of copying.

The update of `fk.samplers.recipe` reads position, momentum and gradient and writes position and momentum:
five times a gigabyte. Its bandwidth is set against that of a copy in the same run, by the kind of noise. Run
on a machine with a GPU: `python benchmarks/gpu.py`.
"""

import argparse
import statistics
import time

import jax
import jax.numpy as jnp

import fokker as fk
from fokker.dynamics import underdamped
from fokker.integrators import EulerMaruyama, SymplecticEuler
from fokker.integrators.noise import NOISES

REPEATS, INNER = 10, 10


def seconds_in_turns(programs):
    """The median time of one call of each, in turns."""
    times = {name: [] for name in programs}
    for program in programs.values():
        jax.block_until_ready(program())
    for _ in range(REPEATS):
        for name, program in programs.items():
            start = time.perf_counter()
            for _ in range(INNER):
                result = program()
            jax.block_until_ready(result)
            times[name].append((time.perf_counter() - start) / INNER)
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--exponent", type=int, default=28, help="of two: the number of parameters")
    n = 2 ** parser.parse_args().exponent
    print(jax.devices()[0].device_kind, f"{n:,} parameters")
    x = jnp.ones(n, jnp.float32)
    r, gradient = jnp.full(n, 0.25, jnp.float32), jnp.full(n, 0.5, jnp.float32)
    copy = jax.jit(lambda x: x + 1)
    programs = {"copy": lambda: copy(x)}
    for kind in NOISES:
        for integrator in (SymplecticEuler(), EulerMaruyama()):
            sampler = fk.samplers.recipe(
                underdamped(lambda theta: jnp.sum(theta**2) / 2, 1.0),
                1e-3,
                integrator=integrator,
                gradient=lambda theta, batch: batch,
                noise=kind,
            )
            step = jax.jit(lambda key, state, g, sampler=sampler: sampler.step(key, state, g)[0])
            state = fk.samplers.SamplerState({"theta": x, "r": r}, jnp.zeros((), jnp.int32))

            def program(step=step, state=state):
                return step(jax.random.key(0), state, gradient)

            programs[f"{kind}, {type(integrator).__name__}"] = program

    @jax.jit
    def by_hand(key, theta, r, g):
        r = r - 1e-3 * (g + r) + jnp.sqrt(2e-3) * jax.random.normal(key, r.shape)
        return theta + 1e-3 * r, r

    programs["gaussian, by hand in JAX"] = lambda: by_hand(jax.random.key(0), x, r, gradient)
    times = seconds_in_turns(programs)
    copied = 2 * 4 * n / times["copy"]
    print(f"{'copy':32} {1e6 * times['copy']:9.0f} µs {copied / 1e12:6.2f} TB/s")
    for name, t in times.items():
        if name != "copy":
            moved = 5 * 4 * n / t
            print(f"{name:32} {1e6 * t:9.0f} µs {moved / 1e12:6.2f} TB/s, {moved / copied:.2f} of copying")


if __name__ == "__main__":
    main()
