"""Kill runs at random moments, go on with them, and compare the result with that of an uninterrupted run.

    python tests/torture.py --kills 200

Each run is a process of its own, killed by SIGKILL after a random time and started again by the same call,
until it is complete. Its draws must then be those of the run that was never stopped, to the bit.
"""

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

CALLS = {
    "sgnht": (
        "fk.sample(posterior, fk.samplers.sgnht(1e-3, 10.0), init=jnp.zeros(4), steps=4_000_000, thin=100,"
        " burn_in=1000, chains=3, batch_size=20, out=out)"
    ),
    "nuts": "fk.sample(density, 'nuts', init=jnp.zeros(4), steps=40_000, chains=3, out=out)",
    "moments": (
        "fk.sample(density, fk.samplers.sghmc(0.1), init=jnp.zeros(4), steps=30_000_000, chains=2,"
        " keep='moments', out=out)"
    ),
}
PROGRAM = """
import sys
import jax, jax.numpy as jnp
import fokker as fk
out = sys.argv[1]
x = jax.random.normal(jax.random.key(1), (30_000, 4))
y = x @ jnp.arange(4.0) + jax.random.normal(jax.random.key(2), (30_000,))
posterior = fk.Posterior(
    lambda t: -jnp.sum(t**2) / 2, lambda t, d: -((d["y"] - d["x"] @ t) ** 2) / 2, {"x": x, "y": y}
)
density = fk.Density(lambda t: -jnp.sum(t**2 / jnp.arange(1.0, 5.0)) / 2)
CALL
"""


def process(name, folder):
    program = PROGRAM.replace("CALL", CALLS[name])
    return subprocess.Popen([sys.executable, "-c", program, str(folder)], stderr=subprocess.DEVNULL)


def results(folder):
    """All the arrays of a run: its draws, statistics and moments."""
    import fokker as fk

    trace = fk.open(folder)
    moments = {} if trace.moments is None else trace.moments
    return {**moments, **trace.sample_stats, **({} if trace.draws is None else {"theta": trace.draws})}


def torture(name, kills, generator, folder):
    """Kill a run `kills` times, some of them in its first second; say what was wrong."""
    whole, broken = folder / "whole", folder / "broken"
    begin = time.monotonic()
    assert process(name, whole).wait() == 0
    seconds = time.monotonic() - begin
    done = finished = 0
    while done < kills:
        running = process(name, broken)
        try:
            running.wait(timeout=generator.uniform(0.2, 1.0) * seconds)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()
            done += 1
            continue
        if running.returncode:
            return f"a run that went on ended with the exit code {running.returncode}"
        finished += 1
        if problem := differences(whole, broken):
            return problem
        shutil.rmtree(broken)
    if process(name, broken).wait():
        return "the last run failed"
    print(f"{name}: {done} kills, {finished + 1} runs completed, {seconds:.0f} s uninterrupted")
    return differences(whole, broken)


def differences(whole, broken):
    expected, found = results(whole), results(broken)
    if expected.keys() != found.keys():
        return f"other variables: {sorted(found)}"
    wrong = [name for name in expected if not np.array_equal(expected[name], found[name])]
    return f"other values: {wrong}" if wrong else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200, help="kills in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=list(CALLS))
    options = parser.parse_args()
    names = [options.only] if options.only else list(CALLS)
    generator = random.Random(options.seed)
    failed = False
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            problem = torture(name, -(-options.kills // len(names)), generator, Path(folder))
        print(f"{name}: {problem or 'the bits of the uninterrupted run'}")
        failed = failed or problem is not None
    sys.exit(failed)


if __name__ == "__main__":
    main()
