"""The Gibbs sweeps of one minibatch: the JAX engine on whatever device JAX has, over the CPU's Numba engine.

    python benchmarks/topics_gpu.py [--documents 256 …] [--topics 50 …] [--threads 1 …]

Run it on a machine with a GPU; the engines take turns. A ratio above 1: the device is faster.
"""

import argparse
import time

import jax
import numpy as np

from fokker.corpora import Documents
from fokker.models.topics import gibbs, gibbs_jax

SWEEPS, BURN_IN = 50, 25


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, nargs="+", default=[256, 2048, 16384])
    parser.add_argument("--topics", type=int, nargs="+", default=[50, 500])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, gibbs.cores()], help="of the CPU")
    given = parser.parse_args()
    print(f"{jax.devices()[0].device_kind} against {gibbs.cores()} cores, {SWEEPS} sweeps")
    rng = np.random.default_rng(0)
    words = 7702
    for topics in given.topics:
        beta = rng.gamma(0.1, 1, (words, topics)).astype(np.float32)
        beta /= beta.sum(0)
        gamma = np.full(topics, 0.1, np.float32)
        for count in given.documents:
            lengths = np.minimum(rng.geometric(1 / 130, count), 1000)
            tokens = rng.integers(0, words, lengths.sum()).astype(np.int32)
            indptr = np.concatenate([[0], np.cumsum(lengths)])
            documents = Documents(indptr, tokens, np.ones_like(tokens), ("",) * count)
            engines = {
                "device": lambda repeat, d=documents, b=beta, g=gamma: gibbs_jax.topic_counts(
                    jax.random.key(repeat), d.indptr, d.words, d.counts, b, g, SWEEPS, BURN_IN
                )
            }
            for threads in dict.fromkeys(given.threads):
                engines[f"{threads} threads"] = lambda repeat, d=documents, b=beta, g=gamma, n=threads: (
                    gibbs.expected_counts(
                        d, b, g, np.uint64(repeat), sweeps=SWEEPS, burn_in=BURN_IN, threads=n
                    )
                )
            seconds: dict[str, list[float]] = {name: [] for name in engines}
            for repeat in range(4):
                for name, engine in engines.items():
                    start = time.perf_counter()
                    found = engine(repeat)
                    seconds[name].append(time.perf_counter() - start)
                    assert np.isclose(found.mixtures.sum(), lengths.sum(), rtol=1e-4)
            best = {name: min(times[1:]) for name, times in seconds.items()}
            rates = ", ".join(f"{name} {count / s:,.0f}" for name, s in best.items())
            ratios = ", ".join(f"{s / best['device']:.2f}" for name, s in best.items() if name != "device")
            print(
                f"K = {topics}, {count} documents of {lengths.mean():.0f} words: documents per second "
                f"{rates}; ratios {ratios} (first call {seconds['device'][0]:.1f} s)",
                flush=True,
            )


if __name__ == "__main__":
    main()
