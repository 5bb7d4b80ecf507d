"""Jumps of H count where the target has mass, and nowhere else."""

import jax.numpy as jnp
import numpy as np
import pytest

import fokker as fk


@pytest.mark.parametrize(("steepness", "is_wrong"), [(2.0, False), (0.1, True)])
def test_a_jump_counts_where_the_target_has_mass(steepness, is_wrong):
    """Two wells, and between them a barrier of H = 16 · steepness, on top of which H jumps by 3.

    The segments between points of both wells cross it. At H = 32 the density is 1e-14 of that in the wells.
    """

    def hamiltonian(theta):
        well = jnp.minimum((theta - 4) ** 2, (theta + 4) ** 2)
        return jnp.sum(steepness * well + 3.0 * (jnp.abs(theta) < 0.1))

    wells = np.repeat([-4.0, 4.0], 64)[:, None]
    points = wells + np.random.default_rng(0).normal(size=(128, 1)) / np.sqrt(2 * steepness)
    report = fk.check(
        fk.dynamics.langevin(hamiltonian), state={"theta": jnp.zeros(1)}, points=points, explain=False
    )
    assert (report.verdict == "wrong") == is_wrong, str(report)
    assert any("H jumps" in reason for reason in report.reasons) == is_wrong
