"""The Gibbs sweeps of one minibatch: the JAX engine on whatever device JAX has, over the CPU's Numba engine.

    python benchmarks/topics_gpu.py [--documents 256 …] [--topics 50 …] [--threads 1 …] [--cpu-rate 2900 …]

Run it on a machine with a GPU; the engines take turns. A ratio above 1: the device is faster. Both have the
same error: the JAX engine makes `gibbs_jax.SWEEPS` sweeps for each one of the other.

It needs JAX, NumPy, Equinox and jaxtyping. Without Numba, or with `--cpu-rate`, the device alone is measured;
`--cpu-rate` is the documents per second of one core of the CPU for each number of topics, as this prints them
elsewhere.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from fokker.models.topics import gibbs_jax

SWEEPS, BURN_IN = 50, 25
WORDS = 7702


def minibatch(count: int) -> tuple[np.ndarray, np.ndarray]:
    """The bounds of documents of 130 words on average, at most 1000, and these words."""
    rng = np.random.default_rng(count)
    lengths = np.minimum(rng.geometric(1 / 130, count), 1000)
    return np.concatenate([[0], np.cumsum(lengths)]), rng.integers(0, WORDS, lengths.sum()).astype(np.int32)


def engines(
    threads: list[int], indptr: np.ndarray, words: np.ndarray, beta: np.ndarray, gamma: np.ndarray
) -> dict[str, Callable[[int], Any]]:
    """What sweeps over a minibatch with a seed, and gives n_dk and how often each token was counted."""
    counts = np.ones_like(words)
    sweeps, burn_in = (gibbs_jax.SWEEPS * number for number in (SWEEPS, BURN_IN))

    def on_device(seed: int) -> tuple[np.ndarray, int]:
        key = jax.random.key(seed)
        totals = gibbs_jax.topic_counts(key, indptr, words, counts, beta, gamma, sweeps, burn_in)
        return totals[1], sweeps - burn_in

    found: dict[str, Callable[[int], Any]] = {"device": on_device}
    if threads:
        from fokker.corpora import Documents
        from fokker.models.topics import gibbs

        documents = Documents(indptr, words, counts, ("",) * (len(indptr) - 1))
        for number in dict.fromkeys(threads):

            def in_threads(seed: int, number: int = number) -> tuple[np.ndarray, int]:
                totals = gibbs.topic_counts(
                    documents, beta, gamma, np.uint64(seed), sweeps=SWEEPS, burn_in=BURN_IN, threads=number
                )
                return totals[1], SWEEPS - BURN_IN

            found[f"{number} threads"] = in_threads
    return found


def default_threads() -> list[int]:
    """One core, and all; none without Numba."""
    try:
        from fokker.models.topics import gibbs
    except ImportError:
        return []
    return [1, gibbs.cores()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, nargs="+", default=[256, 2048, 16384])
    parser.add_argument("--topics", type=int, nargs="+", default=[50, 500])
    parser.add_argument("--threads", type=int, nargs="+", help="of the CPU")
    parser.add_argument("--cpu-rate", type=float, nargs="+", help="of one core, for each number of topics")
    given = parser.parse_args()
    threads = given.threads or ([] if given.cpu_rate else default_threads())
    device = jax.devices()[0].device_kind
    print(f"{device}: {gibbs_jax.SWEEPS * SWEEPS} sweeps; CPU: {SWEEPS} sweeps, {len(threads)} settings")
    for i, topics in enumerate(given.topics):
        rng = np.random.default_rng(0)
        beta = rng.gamma(0.1, 1, (WORDS, topics)).astype(np.float32)
        beta /= beta.sum(0)
        gamma = np.full(topics, 0.1, np.float32)
        for count in given.documents:
            indptr, words = minibatch(count)
            found = engines(threads, indptr, words, beta, gamma)
            seconds: dict[str, list[float]] = {name: [] for name in found}
            for repeat in range(4):
                for name, engine in found.items():
                    start = time.perf_counter()
                    mixtures, num_counted = engine(repeat)
                    seconds[name].append(time.perf_counter() - start)
                    assert mixtures.sum() == len(words) * num_counted
            rates = {name: count / min(times[1:]) for name, times in seconds.items()}
            if given.cpu_rate:
                rate = given.cpu_rate[min(i, len(given.cpu_rate) - 1)]
                rates |= {"one core, as given": rate, "16 such cores": 16 * rate}
            ratios = (f"{rates['device'] / rate:.2f} over {name}" for name, rate in rates.items())
            print(
                f"K = {topics}, {count} documents of {len(words) / count:.0f} words: documents per second "
                + ", ".join(f"{name} {rate:,.0f}" for name, rate in rates.items())
                + f"; ratios {', '.join(list(ratios)[1:])} (first call {seconds['device'][0]:.1f} s)",
                flush=True,
            )


if __name__ == "__main__":
    main()
