"""Draws from the prior of a model, with the data that they would give."""

import numpy as np
from jaxtyping import Array, Key

from fokker._core.checks import check_whole
from fokker._core.keys import checked_key
from fokker.targets.target import Target, check_is_target


def prior_predictive(target: Target, draws: int = 1000, *, key: Key[Array, ""]) -> dict[str, np.ndarray]:
    """Draws of the parameters from their prior, and of the observed variables given them, by name.

    ```python
    prior = fk.prior_predictive(fk.from_numpyro(model, x, y), 500, key=jax.random.key(0))
    prior["y"]  # draw × row
    ```

    Arguments:

    - `target`: a model of `fk.from_numpyro` or `fk.from_pymc`; its factors (`numpyro.factor`,
      `pm.Potential`) have no part in the draws.
    - `draws`: how many.
    - `key`: a key of JAX.

    Returns a dictionary by name; the leading axis is that of the draws.
    """
    check_is_target(target)
    check_whole("draws", draws)
    checked = checked_key(key)
    if checked is None:
        raise TypeError("key must be a JAX key, such as jax.random.key(0), not None.")
    return target.prior_draws(int(draws), checked)
