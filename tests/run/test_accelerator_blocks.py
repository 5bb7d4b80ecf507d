"""Blocks as an accelerator takes them, tried on a CPU: other loops, and draws that are sent in parts."""

import jax.numpy as jnp
import numpy as np
import pytest

import fokker as fk
from fokker.run import loop
from fokker.run.block import room_for

TARGET = fk.Density(lambda theta: -jnp.sum(theta["a"] ** 2) / 2 - jnp.sum(theta["b"] ** 2) / 2)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", [fk.samplers.sgld(0.05), fk.samplers.nuts(0.5)], ids=["lockstep", "nuts"])
def test_draws_are_those_of_a_cpu(monkeypatch, sampler):
    def draws():
        init = {"a": jnp.zeros(2), "b": jnp.zeros(())}
        return fk.sample(
            TARGET, sampler, init=init, steps=400, thin=2, chains=3, seed=1, progress=False
        ).draws

    expected, sent = draws(), []
    first_draws = loop._first_draws

    def seen(block, axis):
        out = first_draws(block, axis)
        sent.append((block.piece.draws, out["position"]["a"].shape[axis], block.out["position"]["a"].shape))
        return out

    monkeypatch.setattr(loop, "_is_on_cpu", lambda states: False)
    monkeypatch.setattr(loop, "_first_draws", seen)
    got = draws()
    for name in expected:
        np.testing.assert_allclose(got[name], expected[name], atol=1e-5)
    assert sum(number for number, _, _ in sent) == 200
    # The first block has few draws, and is not sent with the memory of all.
    assert sent[0][1] < max(sent[0][2])
    assert all(number <= room <= room_for(number) for number, room, _ in sent)
