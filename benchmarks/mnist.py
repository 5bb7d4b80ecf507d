"""Test error and calibration on MNIST of SGD, averaged SGD and four samplers: 784-100-10, batches of 20.

Run with `python benchmarks/mnist.py --data FOLDER`, where the folder has the four IDX files, gzipped.
Pixels are scaled by one mean and one standard deviation. Everything else is the default of
`fk.models.Network`, but for the number of chains, draws and passes, which are options. SGD is the warm start
alone, without calibration, which decays its learning rate to zero over as many
passes as a sampler takes in all; averaged SGD is the mean of the predictions of as many such runs as there
are chains, from different weights. `--temperature` samples exp(-U/T).
"""

import argparse
import copy
import gzip
import time
from pathlib import Path

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

import fokker as fk
from fokker.models.network.evaluation import evaluate_classes
from fokker.models.network.metrics import Calibration

HEADER = {"images-idx3": 16, "labels-idx1": 8}


def read(folder: Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Images as rows of 784 numbers between 0 and 1, and labels."""
    images, labels = (
        np.frombuffer(
            gzip.decompress((folder / f"{part}-{kind}-ubyte.gz").read_bytes()), np.uint8, offset=skip
        )
        for kind, skip in HEADER.items()
    )
    return images.reshape(-1, 784).astype(np.float32) / 255, labels.astype(int)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--methods", nargs="+", default=["sgd", "sgnht", "sghmc", "sgld", "psgld"])
    parser.add_argument("--epochs", type=float, default=20)
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--draws", type=int, default=40)
    parser.add_argument("--temperature", type=float, default=1.0)
    options = parser.parse_args()
    X, y = read(options.data, "train")
    X_test, y_test = read(options.data, "t10k")
    mean, deviation = X.mean(), X.std()
    X, X_test = (X - mean) / deviation, (X_test - mean) / deviation
    shown = Table(title="MNIST, 784-100-10, batches of 20", title_justify="left")
    for column in ("", "test error", "NLL", "ECE", "Brier", "kinetic temperature", "seconds"):
        shown.add_column(column, justify="right")

    def add(name, probabilities, kinetic, seconds):
        scores = evaluate_classes(probabilities, y_test, 15)
        shown.add_row(
            name,
            f"{100 * (1 - scores.accuracy):.2f} %",
            f"{scores.negative_log_likelihood:.4f}",
            f"{scores.calibration_error:.4f}",
            f"{scores.brier:.4f}",
            kinetic,
            f"{seconds:.0f}",
        )

    for method in options.methods:
        begun = time.perf_counter()
        net = fk.models.Network(
            [100],
            sampler="sghmc" if method == "sgd" else method,
            batch_size=20,
            chains=options.chains,
            draws=1 if method == "sgd" else options.draws,
            passes=1 / 3000 if method == "sgd" else options.epochs,
            burn_in_passes=0 if method == "sgd" else None,
            warm_start_passes=1.5 * options.epochs if method == "sgd" else None,
            temperature=0.0 if method == "sgd" else options.temperature,
            # SGD is what others have: without the calibration of Fokker.
            calibration=0 if method == "sgd" else None,
            progress=False,
        ).fit(X, y)
        calibrated = None if method == "sgd" else net.predict_proba(X_test)
        net.sharpness_, net.label_noise_ = Calibration()
        per_chain = [
            _of_chain(net, chain, options.chains).predict_proba(X_test) for chain in range(options.chains)
        ]
        seconds = time.perf_counter() - begun
        kinetic = net.trace_.sample_stats.get("kinetic_temperature")
        shown_kinetic = "" if kinetic is None or method == "sgd" else f"{kinetic.mean():.3f}"
        add(f"{method}, one chain", per_chain[0], shown_kinetic, seconds)
        add(f"{method}, {options.chains} chains", np.mean(per_chain, 0), shown_kinetic, seconds)
        if calibrated is not None:
            add(f"{method}, {options.chains} chains, calibrated", calibrated, shown_kinetic, seconds)
    Console(width=120, highlight=False).print(shown)


def _of_chain(net, chain, chains):
    """The same network with the draws of one chain alone."""
    one = copy.copy(net)
    one.draws_ = jax.tree.map(lambda x: x.reshape(chains, -1, *x.shape[1:])[chain], net.draws_)
    return one


if __name__ == "__main__":
    main()
