"""Steps per second with data in a file or a stream, against the same data in memory.

    python benchmarks/files.py [--rows 1000000] [--steps 4000] [--turns 5] [--batch-size 100] [--only npy]

SGLD of a logistic regression in 50 coefficients, four chains. Files are in the page cache. Each kind takes
turns with the data in memory, without compilation but with what a run does before its first step, such as
the shuffled copy of windows; the ratio is the median over the turns. In-memory batches are those of the same
scheme, and beside it windows, the default in memory.
"""

import argparse
import contextlib
import statistics
import tempfile
import time
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import fokker as fk
from fokker.batches import BlockBatches

D, CHAINS = 50, 4


def log_prior(theta):
    return -jnp.sum(theta**2) / 2


def log_likelihood(theta, row):
    logit = row["x"] @ theta
    return row["y"] * logit - jnp.logaddexp(0.0, logit)


def made(rows):
    random = np.random.default_rng(0)
    x = random.standard_normal((rows, D), np.float32)
    return {"x": x, "y": (random.random(rows) < 0.5).astype(np.float32)}


class Loader:
    """Batches of shuffled rows, as a DataLoader gives them, without its overhead."""

    def __init__(self, data, n):
        self.data, self.n = data, n

    def __iter__(self):
        order = np.random.default_rng().permutation(len(self.data["y"]))
        for first in range(0, len(order) - self.n + 1, self.n):
            rows = order[first : first + self.n]
            yield {name: x[rows] for name, x in self.data.items()}


def kinds(folder, data, n):
    """The data in each kind of file, by name; of those that are installed."""
    for name, x in data.items():
        np.save(folder / f"{name}.npy", x)
    yield "npy", {name: folder / f"{name}.npy" for name in data}, {}
    with contextlib.suppress(ImportError):
        import pyarrow as pa
        from pyarrow import parquet

        x = pa.FixedSizeListArray.from_arrays(pa.array(data["x"].ravel()), D)
        parquet.write_table(
            pa.table({"x": x, "y": data["y"]}), folder / "data.parquet", row_group_size=20_000
        )
        yield "Parquet", folder / "data.parquet", {}
    with contextlib.suppress(ImportError):
        import h5py

        with h5py.File(folder / "data.h5", "w") as file:
            for name, x in data.items():
                file[name] = x
                file.create_dataset(f"chunked {name}", data=x, chunks=(20_000, *x.shape[1:]))
        file = h5py.File(folder / "data.h5", "r")
        yield "HDF5, contiguous", {name: file[name] for name in data}, {}
        yield "HDF5, in chunks", {name: file[f"chunked {name}"] for name in data}, {}
    import zarr

    group = zarr.open_group(folder / "data.zarr", mode="w")
    for name, x in data.items():
        group.create_array(name, data=x, chunks=(20_000, *x.shape[1:]))
    yield "Zarr", {name: group[name] for name in data}, {}
    yield "stream", Loader(data, n), {"size": len(data["y"])}


def speed(target, steps, **options):
    """Chain-steps per second, after a run that compiles."""
    before = time.perf_counter()
    run = {"init": jnp.zeros(D), "steps": steps, "thin": 50, "chains": CHAINS, "progress": False}
    trace = fk.sample(target, fk.samplers.sgld(1e-7), **run, **options)
    jax.block_until_ready(trace.state)
    return CHAINS * steps / (time.perf_counter() - before)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name, default in (("rows", 1_000_000), ("steps", 4000), ("turns", 5), ("batch-size", 100)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--only", default="", help="kinds of data whose name has this in it")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    n, steps = arguments.batch_size, arguments.steps
    data = made(arguments.rows)
    memory = fk.Posterior(log_prior, log_likelihood, {name: jnp.asarray(x) for name, x in data.items()})
    print(f"{arguments.rows:,} rows of {D} numbers, batches of {n}, {CHAINS} chains: chain-steps per second")
    heads = f"{'file':>9} {'memory':>9} {'ratio':>6} {'memory, windows':>16} {'ratio':>6}"
    print(f"{'data':18} {'batches':10} {heads}")
    with tempfile.TemporaryDirectory() as folder:
        for kind, given, options in kinds(Path(folder), data, n):
            if arguments.only not in kind:
                continue
            target = fk.Posterior(log_prior, log_likelihood, given, **options)
            names = ["stream"] if options else ["window", "blocks"]
            for name in names:
                own = {} if options else {"batch_size": n, "batches": name}
                same = own or {"batch_size": n, "batches": "reshuffle"}
                if name == "blocks":
                    same = {"batch_size": n, "batches": BlockBatches.of(target.data, n)}
                runs = [(target, own), (memory, same), (memory, {"batch_size": n, "batches": "window"})]
                if kind in ("Parquet", "HDF5, in chunks", "Zarr") and name == "window":
                    continue  # every block of steps would decode the whole file
                for run, settings in runs:
                    speed(run, steps, **settings)
                turns = [[speed(run, steps, **s) for run, s in runs] for _ in range(arguments.turns)]
                of_file, of_memory, of_windows = (statistics.median(x) for x in zip(*turns, strict=True))
                ratios = (statistics.median(t[0] / t[k] for t in turns) for k in (1, 2))
                print(
                    f"{kind:18} {name:10} {of_file:9,.0f} {of_memory:9,.0f} {next(ratios):6.2f} "
                    f"{of_windows:16,.0f} {next(ratios):6.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
