"""The sweeps of `gibbs_jax` over documents that are padded by hand, and as averages, for its tests."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key
from numpy.typing import ArrayLike, NDArray

from fokker.models.topics import gibbs_jax
from fokker.models.topics._expected import ExpectedCounts, averaged


def pad(
    indptr: ArrayLike, words: ArrayLike, counts: ArrayLike, multiple: int = 8
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Tokens (D, T) and lengths (D,) of documents that are rows of a sparse matrix.

    Document d has `counts[i]` tokens of `words[i]`, for i from `indptr[d]` to `indptr[d + 1] - 1`. T is a
    power of two times `multiple`, so that few lengths need compilation.
    """
    tokens, ends = gibbs_jax._tokens(indptr, words, counts)
    lengths = np.diff(ends)
    T = gibbs_jax._rounded_up(int(lengths.max(initial=0)), multiple)
    return gibbs_jax._padded(tokens, ends[:-1], lengths, T), lengths.astype(np.int32)


def expected_counts_padded(
    key: Key[Array, ""],
    words: ArrayLike,
    lengths: ArrayLike,
    beta: ArrayLike,
    gamma: ArrayLike,
    sweeps: int,
    burn_in: int,
    documents: int | ArrayLike = 0,
) -> ExpectedCounts:
    """E[n_kw] and E[n_dk] as averages over sweeps `burn_in` to `sweeps - 1`; compiled for each shape.

    Sweep 0 draws the topic of each token given those before it. `documents` are the numbers of the documents,
    or the first number if they are consecutive.
    """
    gibbs_jax._check_sweeps(sweeps, burn_in)
    if np.ndim(documents) == 0:
        documents = np.asarray(documents) + np.arange(np.shape(words)[0])
    counts, mixtures, _ = gibbs_jax._totals(
        key,
        jnp.asarray(words, jnp.int32),
        jnp.asarray(lengths, jnp.int32),
        jnp.asarray(beta, jnp.float32),
        jnp.asarray(gamma, jnp.float32),
        jnp.asarray(documents, jnp.int32),
        sweeps=sweeps,
        burn_in=burn_in,
    )
    num_counted = np.float32(sweeps - burn_in)
    return ExpectedCounts(
        counts.astype(jnp.float32) / num_counted, mixtures.astype(jnp.float32) / num_counted
    )


def expected_counts(
    key: Key[Array, ""],
    indptr: ArrayLike,
    words: ArrayLike,
    counts: ArrayLike,
    beta: ArrayLike,
    gamma: ArrayLike,
    sweeps: int,
    burn_in: int,
    first: int | ArrayLike = 0,
    multiple: int = 8,
    sample: bool = False,
) -> ExpectedCounts:
    """The same for rows of a sparse matrix (see `pad`), as NumPy arrays: `topic_counts` over the sweeps."""
    totals = gibbs_jax.topic_counts(
        key, indptr, words, counts, beta, gamma, sweeps, burn_in, first, multiple, sample=sample
    )
    return averaged(*totals, sweeps - burn_in, sample)
