"""MNIST, 784-100-10: the default `Network`, settings chosen on validation rows, AdamW, and five of them.

    python benchmarks/mnist.py --data FOLDER [--seeds 5] [--passes 22 60 150]

FOLDER has the four IDX files, gzipped. Pixels are scaled by one mean and one standard deviation. AdamW has
batches of 100, 30 passes and a cosine schedule; its decay is chosen by two networks on 10,000 of the training
rows, which are left out for that, and so are the width of the prior of the first layer and the learning rate
of `Network`. The test rows are seen once, by fits to all training rows. Four chains with 22 passes make, with
their warm starts, burn-in and the fold of the calibration, as many passes as five networks of AdamW, 150.
"""

import argparse
import gzip
import time
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from rich.console import Console
from rich.table import Table

import fokker as fk
from fokker.models.network.evaluation import evaluate_classes
from fokker.models.network.metrics import Calibration
from fokker.models.network.networks import Perceptron, perceptron_start

HEADER = {"images-idx3": 16, "labels-idx1": 8}
HIDDEN, BATCH, PASSES, MEMBERS = 100, 100, 30, 5
DECAYS = (1e-4, 1e-2, 0.1, 1.0)
WIDTHS, RATES = (None, 0.1, 0.15), (1.0, 3.0, 10.0)  # of the first layer; times the default learning rate
EQUAL = 22  # passes of four chains

apply = jax.vmap(Perceptron("relu"), (None, 0))


def read(folder: Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Images as rows of 784 numbers between 0 and 1, and labels."""
    images, labels = (
        np.frombuffer(
            gzip.decompress((folder / f"{part}-{kind}-ubyte.gz").read_bytes()), np.uint8, offset=skip
        )
        for kind, skip in HEADER.items()
    )
    return images.reshape(-1, 784).astype(np.float32) / 255, labels.astype(int)


def scores(probabilities: np.ndarray, labels: np.ndarray) -> tuple[float, ...]:
    """Error, NLL, ECE and Brier score."""
    found = evaluate_classes(probabilities, labels, 15)
    return 1 - found.accuracy, found.negative_log_likelihood, found.calibration_error, found.brier


@partial(jax.jit, static_argnums=5)
def _trained(starts, X, y, keys, decay, steps):
    optimiser = optax.adamw(optax.cosine_decay_schedule(1e-3, steps), weight_decay=decay)

    def step(carry, key):
        params, state = carry
        rows = jax.random.randint(key, (BATCH,), 0, len(y))

        def loss(params):
            logits = apply(params, X[rows])
            return optax.softmax_cross_entropy_with_integer_labels(logits, y[rows]).mean()

        updates, state = optimiser.update(jax.grad(loss)(params), state, params)
        return (optax.apply_updates(params, updates), state), None

    def one(params, key):
        return jax.lax.scan(step, (params, optimiser.init(params)), jax.random.split(key, steps))[0][0]

    return jax.vmap(one)(starts, keys)


def adamw(X, y, decay, seeds):
    """What gives the probabilities of networks trained by AdamW for rows, network × row × class."""
    starts = [perceptron_start([seed], [X.shape[1], HIDDEN, 10]) for seed in seeds]
    keys = jnp.stack([jax.random.key(seed + 1000) for seed in seeds])
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *starts)
    params = _trained(stacked, jnp.asarray(X), jnp.asarray(y), keys, decay, PASSES * len(y) // BATCH)
    outputs = jax.jit(jax.vmap(lambda p, rows: jax.nn.softmax(apply(p, rows)), (0, None)))
    return lambda rows: np.asarray(outputs(params, jnp.asarray(rows)), float)


def network(seed, **settings):
    return fk.models.Network([HIDDEN], random_state=seed, progress=False, **settings)


def default_rate(X, y):
    """The learning rate that `Network` takes, by a fit of a few steps."""
    short = {"passes": 0.01, "warm_start_passes": 0.01, "burn_in_passes": 0.01, "draws": 1, "calibration": 0}
    net = network(0, **short).fit(X, y)
    return net._step_settings().default_rate(net._posterior.curvature(X))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--passes", type=float, nargs="+", default=[EQUAL, 60, 150])
    options = parser.parse_args()
    X, y = read(options.data, "train")
    X_test, y_test = read(options.data, "t10k")
    mean, deviation = X.mean(), X.std()
    X, X_test = (X - mean) / deviation, (X_test - mean) / deviation
    order = np.random.default_rng(0).permutation(len(y))
    fitted, validation = order[:-10_000], order[-10_000:]

    def loss(probabilities):
        return scores(probabilities, y[validation])[1]

    def of_decay(decay):
        return loss(adamw(X[fitted], y[fitted], decay, range(2))(X[validation]).mean(0))

    def of_settings(settings):
        net = network(0, chains=4, passes=EQUAL, **settings).fit(X[fitted], y[fitted])
        found = loss(net.predict_proba(X[validation]))
        print(f"validation rows: NLL {found:.4f} by {settings}", flush=True)
        return found

    decay = min(DECAYS, key=of_decay)
    rate = default_rate(X, y)
    grid = [
        {"learning_rate": times * rate, **({} if width is None else {"prior": {"0": width}})}
        for width in WIDTHS
        for times in RATES
    ]
    chosen = min(grid, key=of_settings)
    print(f"chosen: a decay of {decay:g}; {chosen}, default learning rate {rate:.3g}", flush=True)

    found: dict[str, list[tuple[float, ...]]] = {}

    def add(name, probabilities, seconds):
        found.setdefault(name, []).append((*scores(probabilities, y_test), seconds))

    def add_network(name, seed, **settings):
        start = time.perf_counter()
        net = network(seed, **settings).fit(X, y)
        add(name, net.predict_proba(X_test), time.perf_counter() - start)
        net.sharpness_, net.label_noise_ = Calibration()
        add(f"{name}, not calibrated", net.predict_proba(X_test), np.nan)

    for seed in range(options.seeds):
        start = time.perf_counter()
        members = adamw(X, y, decay, range(MEMBERS * seed, MEMBERS * (seed + 1)))(X_test)
        add("AdamW", members[0], np.nan)
        add(f"{MEMBERS} × AdamW", members.mean(0), time.perf_counter() - start)
        add_network("Network", seed)
        for passes in options.passes:
            add_network(
                f"Network, chosen, 4 chains of {passes:g} passes", seed, chains=4, passes=passes, **chosen
            )
    shown = Table(title=f"MNIST, {options.seeds} seeds, {jax.devices()[0].device_kind}", title_justify="left")
    for column in ("", "error", "NLL", "ECE", "Brier", "seconds, the last fit"):
        shown.add_column(column, justify="right")
    for name, rows in found.items():
        means, errors = np.mean(rows, 0), np.std(rows, 0, ddof=1) / len(rows) ** 0.5
        pairs = [f"{m:.4f} ± {e:.4f}" for m, e in zip(means[:-1], errors[:-1], strict=True)]
        shown.add_row(name, *pairs, "" if np.isnan(rows[-1][-1]) else f"{rows[-1][-1]:.0f}")
    Console(width=140, highlight=False).print(shown)


if __name__ == "__main__":
    main()
