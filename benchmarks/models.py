"""Networks against what is one import away: `make bench-models`, which runs ratings.py too.

Networks: the default `fk.models.Network`, its draws without calibration, and AdamW with a learning rate
that decays to zero, one network and the mean of five, all with the same layers. Rows are split 60/20/20: the
second part chooses the decay of AdamW, then all methods fit the first two, and the test rows are seen once.
Methods are run in turns in one process, and times are of its CPU. The table is in the form of the documents;
`--write` puts it into a page, between the marks `<!-- models -->` and `<!-- end -->`.
"""

import argparse
import importlib.metadata
import multiprocessing
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from scipy import ndimage
from sklearn import datasets

import fokker as fk
from fokker.models.network.evaluation import evaluate_classes
from fokker.models.network.metrics import Calibration
from fokker.models.network.networks import Perceptron, perceptron_start
from pages import write_between

DECAYS, MEMBERS, STEPS, BATCH = (0.01, 0.1, 0.3, 1.0), 5, 3000, 100
Rows = tuple[np.ndarray, np.ndarray]
Prediction = Callable[[np.ndarray], np.ndarray]


def _standard(X: np.ndarray) -> np.ndarray:
    return (X - X.mean(0)) / X.std(0)


def digits(seed: int) -> Rows:
    """8 × 8 pixels of all ten digits."""
    X, y = datasets.load_digits(return_X_y=True)
    return (X - X.mean()) / X.std(), y


def cancer(seed: int) -> Rows:
    """Wisconsin's breast cancer set."""
    X, y = datasets.load_breast_cancer(return_X_y=True)
    return _standard(X), y


def wine(seed: int) -> Rows:
    """Three cultivars by 13 measurements."""
    X, y = datasets.load_wine(return_X_y=True)
    return _standard(X), y


def iris(seed: int) -> Rows:
    """Three species by four measurements."""
    X, y = datasets.load_iris(return_X_y=True)
    return _standard(X), y


def moons(seed: int) -> Rows:
    """Two half circles with noise."""
    return datasets.make_moons(600, noise=0.3, random_state=seed)


def made(seed: int) -> Rows:
    """Four classes in 20 columns, with one label in twenty at random."""
    return datasets.make_classification(
        1500, 20, n_informative=8, n_redundant=4, n_classes=4, flip_y=0.05, class_sep=1.2, random_state=seed
    )


def images(seed: int) -> Rows:
    """12 × 12 pixels made here: ten patterns in pairs that are alike, each bent, moved, dimmed and noisy."""
    side, number = 12, 2000
    patterns = np.random.default_rng(0)  # the same classes for every seed
    smooth = ndimage.gaussian_filter(patterns.normal(size=(10, 2 * side, 2 * side)), (0, 2, 2))
    smooth /= smooth.std((1, 2), keepdims=True)
    smooth[1::2] = smooth[0::2] + 0.6 * smooth[1::2]
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 10, number)
    places = np.indices((side, side)) + side / 2 - 0.5
    bends = ndimage.gaussian_filter(rng.normal(size=(number, 2, side, side)), (0, 0, 2, 2)) * 5
    moves = 0.7 * rng.normal(size=(number, 2, 1, 1))
    X = np.stack(
        [ndimage.map_coordinates(smooth[k], places + b + m, order=1, mode="nearest")
         for k, b, m in zip(y, bends, moves, strict=True)]
    )  # fmt: skip
    X = np.clip(X + 0.5, 0, 2) * rng.uniform(0.6, 1.4, (number, 1, 1)) + 0.2 * rng.normal(size=X.shape)
    X = X.reshape(number, -1)
    return (X - X.mean()) / X.std(), y


def diabetes(seed: int) -> Rows:
    """Progression of a disease after a year, by ten measurements."""
    X, y = datasets.load_diabetes(return_X_y=True)
    return _standard(X), y / y.std()


def friedman(seed: int) -> Rows:
    """A smooth function of five of ten columns, with noise."""
    X, y = datasets.make_friedman1(600, noise=1.0, random_state=seed)
    return _standard(X), y / y.std()


def waves(seed: int) -> Rows:
    """An arc tangent of four columns (Friedman's third), with noise."""
    X, y = datasets.make_friedman3(600, noise=0.1, random_state=seed)
    return _standard(X), y / y.std()


CLASSES: dict[str, Callable[[int], Rows]] = {
    "digits": digits, "cancer": cancer, "wine": wine, "iris": iris, "moons": moons, "made": made,
    "images": images,
}  # fmt: skip
REGRESSIONS: dict[str, Callable[[int], Rows]] = {"diabetes": diabetes, "friedman": friedman, "waves": waves}
HIDDEN = {"digits": 100, "images": 100}


def split(X: np.ndarray, y: np.ndarray, seed: int) -> list[Rows]:
    """Rows to fit, to choose by, and to be tested on."""
    order = np.random.default_rng(seed).permutation(len(y))
    parts = np.split(order, [int(0.6 * len(y)), int(0.8 * len(y))])
    return [(X[part].astype(np.float32), y[part]) for part in parts]


def _joined(parts: list[Rows]) -> Rows:
    """The rows to fit and to choose by."""
    X, y = (np.concatenate(x) for x in zip(*parts[:2], strict=True))
    return X, y


def _loss(params, X, y, is_classes):
    f = jax.vmap(Perceptron("relu"), (None, 0))(params, X)
    if is_classes:
        return optax.softmax_cross_entropy_with_integer_labels(f, y).mean()
    return jnp.mean((f[:, 0] - y) ** 2) / 2


# Compiled once for a set: neither the decay nor the seed is compiled in.
@partial(jax.jit, static_argnums=5)
def _trained(params, X, y, key, decay, is_classes):
    optimiser = optax.adamw(optax.cosine_decay_schedule(1e-3, STEPS), weight_decay=decay)

    def step(carry, key):
        params, state = carry
        rows = jax.random.randint(key, (BATCH,), 0, len(y))
        gradient = jax.grad(_loss)(params, X[rows], y[rows], is_classes)
        updates, state = optimiser.update(gradient, state, params)
        return (optax.apply_updates(params, updates), state), None

    start = (params, optimiser.init(params))
    return jax.lax.scan(step, start, jax.random.split(key, STEPS))[0][0]


def adamw(X: np.ndarray, y: np.ndarray, hidden: int, decay: float, seed: int) -> Prediction:
    """Predictions of a network trained by AdamW: logits of classes, or means of a regression."""
    is_classes = y.dtype.kind == "i"
    params = perceptron_start([seed], [X.shape[1], hidden, int(y.max()) + 1 if is_classes else 1])
    target = jnp.asarray(y if is_classes else y - y.mean(), None if is_classes else jnp.float32)
    params = _trained(params, jnp.asarray(X), target, jax.random.key(seed + 1000), decay, is_classes)
    outputs = jax.jit(jax.vmap(Perceptron("relu"), (None, 0)))
    if is_classes:
        return lambda rows: np.asarray(jax.nn.softmax(outputs(params, jnp.asarray(rows))), float)
    return lambda rows: np.asarray(outputs(params, jnp.asarray(rows))[:, 0], float) + y.mean()


def chosen_decay(parts: list[Rows], hidden: int, seed: int, loss: Callable[..., float]) -> float:
    """The decay with which two networks together predict the validation rows best."""

    def of(decay: float) -> float:
        members = [adamw(*parts[0], hidden, decay, MEMBERS * seed + i)(parts[1][0]) for i in range(2)]
        return loss(np.mean(members, 0), parts[1][1])

    return min(DECAYS, key=of)


def class_scores(probabilities: np.ndarray, labels: np.ndarray) -> tuple[float, ...]:
    """Error, NLL and ECE."""
    scores = evaluate_classes(probabilities, labels, 15)
    return 1 - scores.accuracy, scores.negative_log_likelihood, scores.calibration_error


def target_scores(y: np.ndarray, mean: np.ndarray, deviation: np.ndarray) -> tuple[float, ...]:
    """RMSE, NLL, and by how much 90 % intervals of a normal miss their level."""
    z = (y - mean) / deviation
    nll = np.mean(z**2 / 2 + np.log(deviation) + np.log(2 * np.pi) / 2)
    return float(np.sqrt(np.mean((y - mean) ** 2))), float(nll), abs(float(np.mean(abs(z) < 1.645)) - 0.9)


def classification(name: str, seed: int) -> dict[str, tuple[float, ...]]:
    """The scores of every method on one split, and CPU seconds."""
    parts, hidden = split(*CLASSES[name](seed), seed), HIDDEN.get(name, 50)
    (X, y), (X_test, y_test) = _joined(parts), parts[2]
    start = time.process_time()
    net = fk.models.Network([hidden], random_state=seed, progress=False).fit(X, y)
    scores = class_scores(net.predict_proba(X_test), y_test)
    rows = {"Network": (*scores, time.process_time() - start)}
    # The draws are those of a fit with calibration=0.
    net.sharpness_, net.label_noise_ = Calibration()
    rows["Network, not calibrated"] = (*class_scores(net.predict_proba(X_test), y_test), np.nan)
    start = time.process_time()
    decay = chosen_decay(parts, hidden, seed, lambda p, y: evaluate_classes(p, y, 15).negative_log_likelihood)
    members = [adamw(X, y, hidden, decay, MEMBERS * seed + i)(X_test) for i in range(MEMBERS)]
    seconds = time.process_time() - start
    rows["AdamW"] = (*class_scores(members[0], y_test), seconds)
    rows[f"{MEMBERS} × AdamW"] = (*class_scores(np.mean(members, 0), y_test), seconds)
    return rows


def regression(name: str, seed: int) -> dict[str, tuple[float, ...]]:
    """The same for a regression; the noise of AdamW is that of the validation rows."""
    parts, hidden = split(*REGRESSIONS[name](seed), seed), HIDDEN.get(name, 50)
    (X, y), (X_test, y_test) = _joined(parts), parts[2]
    start = time.process_time()
    net = fk.models.Network([hidden], likelihood="gaussian", random_state=seed, progress=False).fit(X, y)
    mean, deviation = net.predict(X_test, return_std=True)
    rows = {"Network": (*target_scores(y_test, mean, deviation), time.process_time() - start)}
    start = time.process_time()

    def error(mean: np.ndarray, y: np.ndarray) -> float:
        return float(np.mean((mean - y) ** 2))

    decay = chosen_decay(parts, hidden, seed, error)
    first = [adamw(*parts[0], hidden, decay, MEMBERS * seed + i) for i in range(MEMBERS)]
    members = [adamw(X, y, hidden, decay, MEMBERS * seed + i)(X_test) for i in range(MEMBERS)]
    seconds = time.process_time() - start
    choice, y_choice = parts[1]
    noise = error(first[0](choice), y_choice)
    rows["AdamW"] = (*target_scores(y_test, members[0], np.full(len(y_test), noise**0.5)), seconds)
    noise = error(np.mean([f(choice) for f in first], 0), y_choice)
    deviation = np.sqrt(noise + np.var(members, 0))
    rows[f"{MEMBERS} × AdamW"] = (*target_scores(y_test, np.mean(members, 0), deviation), seconds)
    return rows


def compared(task: tuple[str, int]) -> dict[str, tuple[float, ...]]:
    """The scores of every method on one split of one set."""
    return (classification if task[0] in CLASSES else regression)(*task)


def networks(names: list[str], seeds: int, processes: int) -> Iterator[str]:
    """The lines of one table for all sets: means over the seeds, with standard errors."""
    yield "| | | error or RMSE | NLL | ECE, or miss of 90 % intervals | CPU seconds |"
    yield "| --- | --- | --- | --- | --- | --- |"
    tasks = [(name, seed) for name in names for seed in range(seeds)]
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        results = pool.imap(compared, tasks) if processes > 1 else map(compared, tasks)
        for name in names:
            yield from rows_of(name, [next(results) for _ in range(seeds)])


def rows_of(name: str, results: list[dict[str, tuple[float, ...]]]) -> Iterator[str]:
    """The rows of one set, a row for each method; of one split without standard errors."""
    for method in results[0]:
        values = [result[method] for result in results]
        mean = np.mean(values, 0)
        shown = [f"{m:.4f}" for m in mean[:3]]
        if len(values) > 1:
            errors = np.std(values, 0, ddof=1) / len(values) ** 0.5
            shown = [f"{m} ± {e:.4f}" for m, e in zip(shown, errors[:3], strict=True)]
        seconds = "" if np.isnan(mean[3]) else f"{mean[3]:.0f}"
        yield f"| {name} | {method} | {' | '.join(shown)} | {seconds} |"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--sets", nargs="+", default=[*CLASSES, *REGRESSIONS], choices=[*CLASSES, *REGRESSIONS]
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--processes", type=int, default=1, help="splits of networks at a time")
    parser.add_argument("--write", type=Path, help="the page that the table is put into")
    options = parser.parse_args()
    versions = ", ".join(
        f"{name} {importlib.metadata.version(name)}" for name in ("jax", "optax", "scikit-learn")
    )
    lines = [f"{versions}; seeds: {options.seeds}.", ""]
    print("\n".join(lines), flush=True)
    for line in networks(options.sets, options.seeds, options.processes):
        print(line, flush=True)
        lines.append(line)
    write_between(options.write, "models", "\n".join(lines))


if __name__ == "__main__":
    main()
