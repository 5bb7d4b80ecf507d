"""What the first result of a process costs: seconds of processor time and of waiting, and memory.

Each case is a fresh process, once with an empty folder of stored programs and once more with those that the
first left there. Then imports, with their peak memory, and the size of the installed packages. Run by
`python benchmarks/first_result.py`; other work on the machine makes processor time larger too.
"""

import importlib.metadata
import os
import resource
import subprocess
import sys
import tempfile
import time

NETWORK = """
from sklearn.datasets import load_iris
import fokker as fk
X, y = load_iris(return_X_y=True)
fk.models.Network([16], progress=False{}).fit(X.astype("float32"), y)
"""
EIGHT_SCHOOLS = """
import jax, jax.numpy as jnp
import fokker as fk
y, s = jnp.array([28.0, 8, -3, 7, -1, 1, 18, 12]), jnp.array([15.0, 10, 16, 11, 9, 11, 10, 18])
def log_density(t):
    effects = t["mu"] + t["tau"] * t["z"]
    residuals = jnp.sum((effects - y) ** 2 / s**2 + t["z"] ** 2)
    return -residuals / 2 - t["mu"] ** 2 / 50 - jnp.log1p((t["tau"] / 5) ** 2)
target = fk.constrain(fk.Density(log_density), {"tau": "positive"})
start = lambda key: {"mu": 0.0, "tau": 1.0, "z": jax.random.normal(key, 8)}
sampler = fk.samplers.nuts(target_accept=0.95)
str(fk.sample(target, sampler, init=start, steps=1000, progress=False).summary())
"""
LOGISTIC = """
import jax.numpy as jnp, numpy as np
import fokker as fk
x = np.random.default_rng(0).normal(size=(1000, 2)).astype("float32")
def log_likelihood(theta, row):
    logit = row["x"] @ theta
    return row["y"] * logit - jnp.logaddexp(0.0, logit)
rows = {"x": x, "y": (x[:, 0] > 0).astype("float32")}
target = fk.Posterior(lambda theta: -jnp.sum(theta**2) / 2, log_likelihood, rows)
sampler = fk.samplers.sgnht(1e-3)
fk.sample(target, sampler, init=jnp.zeros(2), steps=1000, batch_size=50, progress=False)
"""
RUNS = {
    "Network([16]), iris": NETWORK.format(""),
    "the same, calibration=0": NETWORK.format(", calibration=0"),
    "eight schools by NUTS, with its summary": EIGHT_SCHOOLS,
    "logistic regression by sgnht, batches of 50": LOGISTIC,
}
STARTS = {
    "python -c pass": ["-c", "pass"],
    "import jax": ["-c", "import jax"],
    "import fokker": ["-c", "import fokker"],
    "fokker --help": ["-m", "fokker", "--help"],
}
PACKAGES = ("fokker", "jax", "jaxlib", "numpy", "scipy", "equinox", "arviz-stats", "xarray", "pandas")


def measured(arguments: list[str], folder: str) -> tuple[float, float]:
    """Seconds of processor time and of waiting of a process of Python."""
    environment = {key: value for key, value in os.environ.items() if key != "JAX_COMPILATION_CACHE_DIR"}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        [sys.executable, *arguments],
        env={**environment, "FOKKER_CACHE": folder},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used, time.perf_counter() - start


def peak(arguments: list[str]) -> float:
    """Peak memory of a process of Python in MB: of the children of one that has no other."""
    program = (
        "import resource, subprocess, sys; subprocess.run([sys.executable, *sys.argv[1:]], check=True, "
        "stdout=subprocess.DEVNULL); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)"
    )
    return float(subprocess.check_output([sys.executable, "-c", program, *arguments]))


def size(package: str) -> float:
    """MB of the files of a package."""
    files = importlib.metadata.files(package) or []
    paths = [file.locate() for file in files]
    return sum(os.path.getsize(path) for path in paths if os.path.isfile(path)) / 1e6


def main() -> None:
    """Print the tables."""
    print(
        "| seconds of processor time, of waiting | without stored programs | with them |\n| --- | --- | --- |"
    )
    for name, program in RUNS.items():
        with tempfile.TemporaryDirectory() as folder:
            cells = ["{:.1f}, {:.1f}".format(*measured(["-c", program], folder)) for _ in range(2)]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    print("\n| | processor time, waiting | peak memory |\n| --- | --- | --- |")
    for name, arguments in STARTS.items():
        seconds = "{:.2f}, {:.2f}".format(*measured(arguments, "off"))
        print(f"| {name} | {seconds} | {peak(arguments):.0f} MB |", flush=True)
    print("\n| installed | MB |\n| --- | --- |")
    for package in PACKAGES:
        try:
            print(f"| {package} {importlib.metadata.version(package)} | {size(package):.0f} |")
        except importlib.metadata.PackageNotFoundError:
            continue


if __name__ == "__main__":
    main()
