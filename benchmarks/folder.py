"""What a run on disk costs: steps per second with `out=` against those in memory, in turns.

    python benchmarks/folder.py [--seconds 8] [--rounds 3]

Goal: less than 3 % at the default interval. Time is that of the whole call without compiling; processor time
beside it, which other work on the machine does not touch.
"""

import argparse
import shutil
import tempfile
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import fokker as fk


def cases():
    """Name, target, sampler, options and steps for about a second."""
    x = jax.random.normal(jax.random.key(1), (100_000, 20))
    y = (jax.random.uniform(jax.random.key(2), (100_000,)) < jax.nn.sigmoid(x[:, 0])).astype(jnp.float32)
    logistic = fk.Posterior(
        lambda theta: -jnp.sum(theta**2) / 2,
        lambda theta, d: d["y"] * (d["x"] @ theta) - jax.nn.softplus(d["x"] @ theta),
        {"x": x, "y": y},
    )
    normal = fk.Density(lambda theta: -jnp.sum(theta**2 / jnp.arange(1.0, 11.0)) / 2)
    large = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
    return [
        ("sgnht, logistic, 4 chains", logistic, fk.samplers.sgnht(1e-4, 100.0), jnp.zeros(20), 4, 10, 100),
        ("sgnht, logistic, 64 chains", logistic, fk.samplers.sgnht(1e-4, 100.0), jnp.zeros(20), 64, 10, 100),
        ("nuts, 10 normals, 4 chains", normal, fk.samplers.nuts(0.9), jnp.zeros(10), 4, 1, None),
        ("sghmc, 10⁶ normals", large, fk.samplers.sghmc(0.1), jnp.zeros(1_000_000), 1, 10, None),
    ]


def timed(call):
    wall, processor = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - wall, time.process_time() - processor


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=8.0, help="of each run")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    for name, target, sampler, init, chains, thin, batch_size in cases():
        given = {"init": init, "chains": chains, "thin": thin, "batch_size": batch_size, "progress": False}

        def run(steps, out=None, target=target, sampler=sampler, given=given):
            trace = fk.sample(target, sampler, steps=steps, out=out, **given)
            assert trace.stopped is None
            assert not trace.losses

        steps, taken = 100 * thin, 0.0
        while taken < options.seconds / 4:
            steps *= 4
            run(steps)  # compiles for this length
            taken, _ = timed(lambda s=steps: run(s))
        rows = []
        with tempfile.TemporaryDirectory() as parent:
            for _ in range(options.rounds):
                folder = Path(parent, "run")
                # A run and one three times as long: the difference is free of what every run costs once.
                short, long = (timed(lambda s=s: run(s)) for s in (steps, 3 * steps))
                measured = []
                for s in (steps, 3 * steps):
                    measured.append(timed(lambda s=s: run(s, folder)))  # noqa: B023
                    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
                    shutil.rmtree(folder)
                slopes = [(b - a, d - c) for a, b, c, d in zip(short, long, *measured, strict=True)]
                once = measured[0][0] - short[0] - (slopes[0][1] - slopes[0][0]) / 2
                rows.append([100 * (disk / memory - 1) for memory, disk in slopes] + [once, long[0]])
        wall, processor, once, seconds = np.median(rows, axis=0)
        print(
            f"{name}: {3 * steps:,} steps in {seconds:.1f} s, {size / 1e6:.0f} MB on disk; with a folder "
            f"steps take {wall:+.1f} % time, {processor:+.1f} % processor time; the run {once:+.2f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
