"""Token updates a second of the Gibbs sweeps over padded documents, on whatever device JAX has.

Run on a machine with a GPU: `python benchmarks/topics_gpu.py`.
"""

import argparse
import time

import jax
import numpy as np

from fokker.models.lda.gibbs_jax import expected_counts

SWEEPS, BURN_IN = 50, 25


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, nargs="+", default=[256, 2048, 16384])
    parser.add_argument("--topics", type=int, nargs="+", default=[50, 500])
    given = parser.parse_args()
    print(f"{jax.devices()[0].device_kind}, {SWEEPS} sweeps")
    rng = np.random.default_rng(0)
    words = 7702
    for topics in given.topics:
        beta = rng.gamma(0.1, 1, (words, topics)).astype(np.float32)
        beta /= beta.sum(0)
        for count in given.documents:
            lengths = np.minimum(rng.geometric(1 / 130, count), 1000)
            tokens = rng.integers(0, words, lengths.sum()).astype(np.int32)
            indptr = np.concatenate([[0], np.cumsum(lengths)])
            seconds = []
            for repeat in range(3):
                start = time.perf_counter()
                found = expected_counts(
                    jax.random.key(repeat),
                    indptr,
                    tokens,
                    np.ones_like(tokens),
                    beta,
                    np.full(topics, 0.1, np.float32),
                    SWEEPS,
                    BURN_IN,
                )
                seconds.append(time.perf_counter() - start)
            assert np.isclose(found.mixtures.sum(), lengths.sum(), rtol=1e-4)
            rate = SWEEPS * lengths.sum() / min(seconds[1:])
            print(
                f"K = {topics}, {count} documents of {lengths.mean():.0f} words: {rate / 1e6:.1f} million "
                f"token updates/s, {count / min(seconds[1:]):.0f} documents/s (first {seconds[0]:.1f} s)",
                flush=True,
            )


if __name__ == "__main__":
    main()
