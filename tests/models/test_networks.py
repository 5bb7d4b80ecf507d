"""Parameters of neural networks as theta: Equinox modules, Flax's dictionaries and NNX states."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx

import fokker as fk
from fokker import samplers
from marks import long_case

pytestmark = pytest.mark.dependencies

X = np.linspace(-1.0, 1.0, 8, dtype=np.float32)[:, None]
KEY = jax.random.key(0)


class Linen(linen.Module):
    @linen.compact
    def __call__(self, x):
        return linen.Dense(1)(linen.tanh(linen.Dense(4)(x)))[..., 0]


class Nnx(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(1, 4, rngs=rngs)
        self.last = nnx.Linear(4, 1, rngs=rngs)

    def __call__(self, x):
        return self.last(nnx.tanh(self.first(x)))[..., 0]


def by_equinox():
    params, static = eqx.partition(eqx.nn.MLP(1, "scalar", 4, 1, key=KEY), eqx.is_inexact_array)
    return params, lambda params, x: eqx.combine(params, static)(x)


def by_linen():
    net = Linen()
    return net.init(KEY, X)["params"], lambda params, x: net.apply({"params": params}, x)


def by_nnx():
    graph, params = nnx.split(Nnx(nnx.Rngs(0)))
    return params, lambda params, x: nnx.merge(graph, params)(x)


@pytest.mark.parametrize(
    "made",
    [
        by_equinox,
        long_case("networks::draws_keep_the_tree_and_can_be_put_back_into_the_network", by_linen),
        by_nnx,
    ],
)
def test_draws_keep_the_tree_and_can_be_put_back_into_the_network(made):
    params, apply = made()
    target = fk.Posterior(
        lambda p: -sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(p)) / 2,
        lambda p, datum: -((datum["y"] - apply(p, datum["x"])) ** 2) / 2,
        {"x": X, "y": X[:, 0] ** 2},
    )
    trace = fk.sample(
        target, samplers.sgld(1e-3), init=params, steps=3, chains=2, batch_size=4, progress=False
    )
    assert trace.stopped is None
    assert jax.tree.structure(trace.samples) == jax.tree.structure(params)
    shapes = [(2, 3, *leaf.shape) for leaf in jax.tree.leaves(params)]
    assert [leaf.shape for leaf in jax.tree.leaves(trace.samples)] == shapes
    draw = jax.tree.map(lambda leaf: jnp.asarray(leaf[0, -1]), trace.samples)
    there, here = (np.asarray(jax.vmap(lambda x, p=p: apply(p, x))(X)) for p in (draw, params))
    # Three steps of size 1e-3 away.
    assert 0 < np.max(np.abs(there - here)) < 1


def test_a_module_with_functions_in_it_is_refused_with_the_way_out():
    with pytest.raises(TypeError, match=r"\.activation is .*eqx\.partition\(module, eqx\.is_inexact_array\)"):
        fk.sample(
            fk.Density(lambda net: 0.0),
            samplers.sgld(1e-3),
            init=eqx.nn.MLP(1, 1, 4, 1, key=KEY),
            steps=1,
            chains=1,
            progress=False,
        )


class Start(eqx.Module):
    centre: float

    def __call__(self, key):
        return self.centre + jax.random.normal(key)

    def draw(self, key):
        return self(key)


@pytest.mark.parametrize(
    "init",
    [Start(3.0), Start(3.0).draw, jax.tree_util.Partial(lambda c, key: c + 0 * jax.random.normal(key), 1.0)],
)
def test_objects_that_draw_a_start_are_called(init):
    trace = fk.sample(
        fk.Density(lambda x: -(x**2) / 2), samplers.sgld(1e-3), init=init, steps=2, chains=2, progress=False
    )
    assert trace.samples.shape == (2, 2)
