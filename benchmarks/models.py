"""Networks and ratings against what is one import away: `make bench-models`.

Networks: the default `fk.models.Network`, the same with a tenth of the rows for calibration, and AdamW with a
learning rate that decays to zero, one network and the mean of five, all with the same layers and batches of
100. Rows are split 60/20/20: the second part chooses the decay of AdamW, then all methods fit the first two,
and the test rows are seen once. Ratings: a fifth is held out; `surprise` (SVD, its defaults) where it is
installed. Methods are run in turns in one process, and times are of its CPU. The tables are in the form of
the documents.
"""

import argparse
import importlib.metadata
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn import datasets

import fokker as fk
from fokker.datasets.folder import data_folder
from fokker.models.factorisation.report import coverage
from fokker.models.network.evaluation import evaluate_classes
from fokker.models.network.networks import Perceptron, perceptron_start

DECAYS, MEMBERS, STEPS, BATCH = (0.01, 0.3, 1.0), 5, 3000, 100
RATINGS = ("movielens-latest-small", "movielens-latest-first2149", "goodbooks-10k")


def digits(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """8 × 8 pixels of all ten digits."""
    X, y = datasets.load_digits(return_X_y=True)
    return (X - X.mean()) / X.std(), y


def cancer(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Wisconsin's breast cancer set."""
    X, y = datasets.load_breast_cancer(return_X_y=True)
    return (X - X.mean(0)) / X.std(0), y


def made(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Four classes in 20 columns, with one label in twenty at random."""
    return datasets.make_classification(
        1500, 20, n_informative=8, n_redundant=4, n_classes=4, flip_y=0.05, class_sep=1.2, random_state=seed
    )


SETS: dict[str, tuple[Callable[[int], tuple[np.ndarray, np.ndarray]], int]] = {
    "digits": (digits, 100),
    "cancer": (cancer, 50),
    "made": (made, 50),
}


def split(X: np.ndarray, y: np.ndarray, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows to fit, to choose by, and to be tested on."""
    order = np.random.default_rng(seed).permutation(len(y))
    parts = np.split(order, [int(0.6 * len(y)), int(0.8 * len(y))])
    return [(X[part].astype(np.float32), y[part]) for part in parts]


def adamw(
    X: np.ndarray, y: np.ndarray, hidden: int, decay: float, seed: int
) -> Callable[[np.ndarray], np.ndarray]:
    """Predictions of a network trained by AdamW."""
    outputs = int(y.max()) + 1
    apply = jax.vmap(Perceptron("relu"), (None, 0))
    optimiser = optax.adamw(optax.cosine_decay_schedule(1e-3, STEPS), weight_decay=decay)
    params = perceptron_start(jax.random.key(seed), [X.shape[1], hidden, outputs])

    @jax.jit
    def train(params, X, y, key):
        def step(carry, key):
            params, state = carry
            rows = jax.random.randint(key, (BATCH,), 0, len(y))

            def loss(params):
                return optax.softmax_cross_entropy_with_integer_labels(apply(params, X[rows]), y[rows]).mean()

            updates, state = optimiser.update(jax.grad(loss)(params), state, params)
            return (optax.apply_updates(params, updates), state), None

        start = (params, optimiser.init(params))
        return jax.lax.scan(step, start, jax.random.split(key, STEPS))[0][0]

    params = train(params, jnp.asarray(X), jnp.asarray(y), jax.random.key(seed + 1000))
    return lambda rows: np.asarray(jax.nn.softmax(apply(params, jnp.asarray(rows))), float)


def ensembles(parts, hidden: int, seed: int) -> dict[str, np.ndarray]:
    """Test probabilities of one network and of five, with the decay that validation rows prefer."""
    (X, y), (X_choice, y_choice), (X_test, _) = parts

    def loss(decay: float) -> float:
        members = [adamw(X, y, hidden, decay, MEMBERS * seed + i) for i in range(2)]
        chosen = np.mean([member(X_choice) for member in members], 0)
        return evaluate_classes(chosen, y_choice, 15).negative_log_likelihood

    decay = min(DECAYS, key=loss)
    X, y = (np.concatenate(x) for x in zip(*parts[:2], strict=True))
    members = [adamw(X, y, hidden, decay, MEMBERS * seed + i)(X_test) for i in range(MEMBERS)]
    return {"AdamW": members[0], f"{MEMBERS} × AdamW": np.mean(members, 0)}


def networks(names: list[str], seeds: int) -> None:
    """One table for all sets: means over the seeds, with standard errors."""
    print("\n| | | error | NLL | ECE | CPU seconds |\n| --- | --- | --- | --- | --- | --- |", flush=True)
    for name in names:
        make, hidden = SETS[name]
        rows: dict[str, list[tuple[float, ...]]] = {}
        for seed in range(seeds):
            parts = split(*make(seed), seed)
            y_test = parts[2][1]
            for method, calibration in (("Network", 0.0), ("Network, calibration=0.1", 0.1)):
                start = time.process_time()
                net = fk.models.Network([hidden], calibration=calibration, random_state=seed, progress=False)
                net.fit(*(np.concatenate(x) for x in zip(*parts[:2], strict=True)))
                probabilities = net.predict_proba(parts[2][0])
                rows.setdefault(method, []).append(_scores(probabilities, y_test, start))
            start = time.process_time()
            for method, probabilities in ensembles(parts, hidden, seed).items():
                rows.setdefault(method, []).append(_scores(probabilities, y_test, start))
        for method, values in rows.items():
            mean, error = np.mean(values, 0), np.std(values, 0, ddof=1) / len(values) ** 0.5
            shown = [f"{m:.4f} ± {e:.4f}" for m, e in zip(mean[:3], error[:3], strict=True)]
            print(f"| {name} | {method} | {' | '.join(shown)} | {mean[3]:.0f} |", flush=True)


def _scores(probabilities: np.ndarray, labels: np.ndarray, start: float) -> tuple[float, ...]:
    scores = evaluate_classes(probabilities, labels, 15)
    seconds = time.process_time() - start
    return (1 - scores.accuracy, scores.negative_log_likelihood, scores.calibration_error, seconds)


def ratings(names: list[str], seeds: int) -> None:
    """Error and coverage on public ratings, a row for each method."""
    print("\n| | ratings | | test RMSE | 90 % intervals cover | CPU seconds |\n|" + " --- |" * 6)
    for name in names:
        for seed in range(seeds):
            train, test = fk.datasets.read_ratings(data_folder() / name, repeated="last").split(
                0.2, seed=seed
            )
            size = f"{len(train) + len(test):,}"
            for factors in (5, 10):
                start = time.process_time()
                model = fk.models.Factorisation(factors, random_state=seed, progress=False).fit(train)
                seconds = time.process_time() - start
                shown = f"{model.score(test):.4f} | {coverage(model, test, 0.9):.3f} | {seconds:.1f}"
                print(f"| {name}, split {seed} | {size} | {factors} factors | {shown} |", flush=True)
            _surprise(f"| {name}, split {seed} | {size}", train, test, seed)


def _surprise(label: str, train, test, seed: int) -> None:
    try:
        import pandas
        import surprise
    except ImportError:
        return
    frame = pandas.DataFrame({"u": train.users, "i": train.items, "r": train.values.astype(float)})
    data = surprise.Dataset.load_from_df(
        frame, surprise.Reader(rating_scale=train.range)
    ).build_full_trainset()
    start = time.process_time()
    model = surprise.SVD(random_state=seed).fit(data)
    seconds = time.process_time() - start
    predicted = np.array([model.predict(u, i).est for u, i in zip(test.users, test.items, strict=True)])
    error = np.sqrt(np.mean((predicted - test.values) ** 2))
    print(f"{label} | SVD of surprise | {error:.4f} | | {seconds:.1f} |", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=["networks", "ratings"], choices=["networks", "ratings"])
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--ratings", nargs="+", default=list(RATINGS))
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    versions = ", ".join(
        f"{name} {importlib.metadata.version(name)}" for name in ("jax", "optax", "scikit-learn")
    )
    print(f"{versions}; {options.seeds} seeds")
    if "networks" in options.parts:
        networks(options.sets, options.seeds)
    if "ratings" in options.parts:
        ratings(options.ratings, min(options.seeds, 2))


if __name__ == "__main__":
    main()
