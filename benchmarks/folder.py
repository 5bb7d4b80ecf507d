"""What a run on disk costs: the share of its time spent in storing, and runs in memory beside it in turns.

    python benchmarks/folder.py [--seconds 8] [--rounds 3]

Goal: less than 3 % at the default interval. A thread stores draws and writes checkpoints while the device
steps on; its time over the time of the run is an upper bound of the cost, and other work on the machine makes
both longer. The difference of the whole times is what a user sees, but noisy.
"""

import argparse
import contextlib
import shutil
import tempfile
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import fokker as fk
from fokker.run.folder import RunFolder


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


@contextlib.contextmanager
def storing():
    """The seconds in which the loop of a run stores something, added up in a list of one number."""
    spent, methods = [0.0], {name: getattr(RunFolder, name) for name in ("add", "commit")}

    def timed_method(method):
        def call(*args, **named):
            before = time.perf_counter()
            try:
                return method(*args, **named)
            finally:
                spent[0] += time.perf_counter() - before

        return call

    for name, method in methods.items():
        setattr(RunFolder, name, timed_method(method))
    try:
        yield spent
    finally:
        for name, method in methods.items():
            setattr(RunFolder, name, method)


def timed(call):
    before = time.perf_counter()
    call()
    return time.perf_counter() - before


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
            taken = timed(lambda s=steps: run(s))
        steps *= 4
        run(steps)
        rows = []
        with tempfile.TemporaryDirectory() as parent:
            folder = Path(parent, "run")
            for _ in range(options.rounds):
                memory = timed(lambda s=steps: run(s))
                with storing() as spent:
                    disk = timed(lambda s=steps: run(s, folder))  # noqa: B023
                size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
                shutil.rmtree(folder)
                rows.append([100 * spent[0] / disk, 100 * (disk / memory - 1), memory])
        share, difference, seconds = np.median(rows, axis=0)
        print(
            f"{name}: {steps:,} steps in {seconds:.1f} s, {size / 1e6:.0f} MB on disk; storing takes "
            f"{share:.1f} % of the time; whole runs differ by {difference:+.1f} %",
            flush=True,
        )


if __name__ == "__main__":
    main()
