"""The check of a start takes no more memory than a step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fokker as fk
from fokker.run import positions
from fokker.targets.blocks import InBlocks

ROWS, BATCH, WIDTH = 256, 4, 512
X = np.linspace(-1, 1, ROWS, dtype=np.float32)


def log_likelihood(theta, x):
    """Of a datum with many activations, which a gradient stores."""
    return -jnp.sum(jnp.tanh(jnp.sin(theta * x) ** 2 + jnp.arange(float(WIDTH))) ** 2)


TARGET = fk.Posterior(lambda theta: -jnp.sum(theta**2) / 2, log_likelihood, X)
THETA = jnp.full(WIDTH, 0.3)


def memory(function, *arguments):
    analysis = jax.jit(jax.grad(function)).lower(*arguments).compile().memory_analysis()
    if analysis is None or not analysis.temp_size_in_bytes:
        pytest.skip("this backend does not say how much memory a program takes.")
    return analysis.temp_size_in_bytes


@pytest.mark.parametrize("constrained", [False, True])
def test_the_potential_in_blocks_is_that_of_all_rows(constrained):
    target = fk.constrain(TARGET, "positive") if constrained else TARGET
    for rows in (BATCH, 100, ROWS):
        np.testing.assert_allclose(
            InBlocks(target, rows).potential(THETA), target.potential(THETA), rtol=1e-5
        )


def test_its_gradient_takes_no_more_memory_than_that_of_a_step(optimised):
    step = memory(TARGET.minibatch_potential, THETA, jnp.asarray(X[:BATCH]))
    # The sum over blocks has a gradient of its own beside that of a block.
    assert memory(InBlocks(TARGET, BATCH).potential, THETA) <= 1.1 * step + 4 * THETA.nbytes
    assert memory(TARGET.potential, THETA) > 10 * step


def test_a_run_by_minibatches_checks_its_start_in_blocks(monkeypatch):
    seen = []
    check = positions._check

    def watched(placed, *rest):
        seen.append(placed.own_target)
        return check(placed, *rest)

    monkeypatch.setattr(positions, "_check", watched)
    key = jax.random.split(jax.random.key(0), (2, 3))
    sampler = fk.samplers.sgld(1e-4).on(TARGET, 1.0)
    positions.checked_positions(sampler, TARGET, THETA, key, BATCH)
    positions.checked_positions(sampler, TARGET, 2 * THETA, key)
    assert [getattr(target, "rows", None) for target in seen] == [BATCH, None]
    # Rows that cannot be used are named as before.
    bad = fk.Posterior(
        TARGET.log_prior, log_likelihood, np.where(np.arange(ROWS) == 77, 1e30, X).astype(np.float32)
    )
    broken = fk.Posterior(bad.log_prior, lambda theta, x: jnp.sum(jnp.log(2.0 - x + 0 * theta)), bad.data)
    with pytest.raises(ValueError, match="row 77"):
        positions.checked_positions(fk.samplers.sgld(1e-4).on(broken, 1.0), broken, THETA, key, BATCH)
