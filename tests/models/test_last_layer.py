"""The last layer of a network is told by what its output is computed from."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx

from fokker.models.network.last_layer import UnknownLastLayerError, last_layer
from fokker.models.network.networks import functional, paths
from fokker.models.network.posterior import prior_scales, sampled_leaves

ROW = np.array([0.3, -1.0, 2.0], np.float32)
KEYS = jax.random.split(jax.random.key(0), 2)


def arrays(**shapes):
    return {name: jnp.full(shape, 0.1) for name, shape in shapes.items()}


def last_of(apply, params):
    chosen = last_layer(apply, params, jnp.asarray(ROW))
    return [name for name, is_last in zip(paths(params), chosen, strict=True) if is_last]


def dense(names):
    """Layers by their names, in the order in which they are applied."""

    def apply(p, x):
        for name in names[:-1]:
            x = jnp.tanh(x @ p[name]["w"] + p[name]["b"])
        return x @ p[names[-1]]["w"] + p[names[-1]]["b"]

    sizes = [3, *[4] * (len(names) - 1), 2]
    params = {name: arrays(w=(m, n), b=(n,)) for name, m, n in zip(names, sizes[:-1], sizes[1:], strict=True)}
    return apply, params


@pytest.mark.parametrize(
    "names",
    [("stem", "head"), ("trunk", "head"), ("hidden", "final"), ("b", "a"), ("z10", "z9", "z1"), ("x",)],
)
def test_names_do_not_matter(names):
    assert last_of(*dense(names)) == [f"{names[-1]}.b", f"{names[-1]}.w"]


FLAT = arrays(w1=(3, 4), b1=(4,), w2=(4, 2), b2=(2,))
SKIP = FLAT | arrays(w3=(3, 2))


def flat(p, x):
    return jax.nn.relu(x @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"]


def hidden(p, x):
    return jax.nn.relu(x @ p["w1"] + p["b1"])


CENTRES = arrays(w1=(3, 4), b1=(4,), c=(2, 4))
PROGRAMS = {
    "flat": (flat, FLAT, ["b2", "w2"]),
    "compiled": (jax.jit(flat), FLAT, ["b2", "w2"]),
    "rematerialised": (jax.checkpoint(flat), FLAT, ["b2", "w2"]),
    "a vector": (lambda p, x: jnp.tanh(x @ p["a"]) @ p["b"], arrays(a=(3, 4), b=(4,)), ["b"]),
    "outputs that go through a function": (lambda p, x: jnp.tanh(flat(p, x)), FLAT, ["b2", "w2"]),
    "side by side": (
        lambda p, x: jnp.concatenate(
            [jnp.tanh(x @ p["w1"]) @ p["w2"], jnp.tanh(x @ p["w1"] + p["b1"]) @ p["v"]]
        ),
        FLAT | arrays(v=(4, 1)),
        ["v", "w2"],
    ),
    "around the hidden layer": (lambda p, x: flat(p, x) + x @ p["w3"], SKIP, ["b2", "w2", "w3"]),
    "log probabilities": (lambda p, x: jax.nn.log_softmax(flat(p, x)), FLAT, ["b2", "w2"]),
    "a mean and a scale": (
        lambda p, x: jnp.concatenate([flat(p, x), jax.nn.softplus(jnp.tanh(x @ p["w1"]) @ p["v"])]),
        FLAT | arrays(v=(4, 1)),
        ["b2", "v", "w2"],
    ),
    "a mean and a scale by a mask": (
        lambda p, x: jnp.where(jnp.arange(2) < 1, flat(p, x), jax.nn.softplus(flat(p, x))),
        FLAT,
        ["b2", "w2"],
    ),
    "averaged, in units": (lambda p, x: (flat(p, x) + flat(p, -x)) / 2 * 3.0, FLAT, ["b2", "w2"]),
    "scaled before": (
        lambda p, x: (jnp.tanh(x @ p["w1"]) * p["scale"] + p["b1"]) @ p["w2"],
        FLAT | arrays(scale=(4,)),
        ["w2"],
    ),
    "normalised weights": (
        lambda p, x: jnp.tanh(x @ p["w1"]) @ (p["g"] * p["w2"] / jnp.linalg.norm(p["w2"])),
        FLAT | arrays(g=()),
        ["g", "w2"],
    ),
    "after a loop": (
        lambda p, x: (
            jax.lax.scan(lambda h, w: (jnp.tanh(h @ w), None), x @ p["in"], p["layers"])[0] @ p["out"]
        ),
        arrays(**{"in": (3, 4), "layers": (2, 4, 4), "out": (4, 2)}),
        ["out"],
    ),
}


@pytest.mark.parametrize("kind", PROGRAMS)
def test_the_last_layer_of_any_program(kind):
    apply, params, wanted = PROGRAMS[kind]
    assert last_of(apply, params) == wanted


UNKNOWN = {
    "tied": (lambda p, x: jnp.tanh(x @ p["w"]) @ p["w"].T, arrays(w=(3, 4)), "used before it too"),
    "a temperature": (lambda p, x: p["t"] * flat(p, x), FLAT | arrays(t=()), "no product of weights"),
    "centres": (
        lambda p, x: -jnp.sum((hidden(p, x)[None] - p["c"]) ** 2, -1),
        CENTRES,
        "no product of weights",
    ),
    "the distance to centres": (
        lambda p, x: -jnp.linalg.norm(hidden(p, x)[None] - p["c"], axis=-1),
        CENTRES,
        "no product of weights",
    ),
    "centres by their products": (
        lambda p, x: 2 * p["c"] @ hidden(p, x) - jnp.sum(hidden(p, x) ** 2) - jnp.sum(p["c"] ** 2, -1),
        CENTRES,
        "otherwise than in layers",
    ),
    "a triangular system": (
        lambda p, x: jax.scipy.linalg.solve_triangular(p["c"].T @ p["c"], hidden(p, x), lower=True),
        CENTRES,
        "no product of weights",
    ),
    "a triangular system of a linear layer": (
        lambda p, x: jax.scipy.linalg.solve_triangular(p["c"].T @ p["c"], x @ p["w1"], lower=True),
        CENTRES,
        "no product of weights",
    ),
    "scales in a matrix": (
        lambda p, x: (flat(p, x)[None] * p["s"])[0],
        FLAT | arrays(s=(1, 2)),
        "no product of weights",
    ),
    "a product and a sum": (
        lambda p, x: jnp.sum(jnp.tanh(x @ p["w1"])[:, None] * p["w2"], 0) + p["b2"],
        FLAT,
        "no product of weights",
    ),
    "shifted after a function": (
        lambda p, x: jnp.tanh(hidden(p, x) @ p["w2"]) + p["b2"],
        FLAT,
        "no product of weights",
    ),
    "a threshold": (lambda p, x: jnp.maximum(x @ p["w1"], p["b1"]), FLAT, "no product of weights"),
    "a function beside a product": (
        lambda p, x: jnp.tanh(hidden(p, x) @ p["w2"]) + x @ p["w3"],
        SKIP,
        "otherwise than in layers",
    ),
    "a gate": (
        lambda p, x: jax.nn.sigmoid(hidden(p, x) @ p["w2"]) * (x @ p["w3"]),
        SKIP,
        "otherwise than in layers",
    ),
    "a mean and a scale, shifted": (
        lambda p, x: jnp.concatenate([(x @ p["w3"])[:1], jnp.exp(x @ p["w3b"])[:1]]) + p["b2"],
        SKIP | arrays(w3b=(3, 2)),
        "otherwise than in layers",
    ),
    "no row": (lambda p, x: p["b2"] + 0 * p["w2"][0], FLAT, "no product of weights"),
    "layers in a loop": (
        lambda p, x: jax.lax.scan(lambda h, w: (jnp.tanh(h @ w), None), x, p["w"])[0],
        arrays(w=(2, 3, 3)),
        "a loop or a condition",
    ),
}


@pytest.mark.parametrize("kind", UNKNOWN)
def test_what_cannot_be_told_is_asked(kind):
    apply, params, why = UNKNOWN[kind]
    row = jnp.asarray(ROW)
    with pytest.raises(UnknownLastLayerError, match=why):
        last_layer(apply, params, row)
    names = ", ".join(paths(params))
    with pytest.raises(ValueError, match=rf"sampled='last', but .*{why}.* parts of paths, of {names}"):
        sampled_leaves("last", params, lambda: last_layer(apply, params, row))
    with pytest.warns(UserWarning, match=f"cannot be determined: .*{why}"):
        scales = prior_scales("fan-in", params, -1, lambda: last_layer(apply, params, row))
    assert jax.tree.structure(scales) == jax.tree.structure(params)
    # A prior of numbers does not ask.
    prior_scales(1.0, params, -1, lambda: last_layer(apply, params, row))


class StemHead(nnx.Module):
    def __init__(self, rngs):
        self.stem = nnx.Linear(3, 4, rngs=rngs)
        self.norm = nnx.BatchNorm(4, rngs=rngs)
        self.head = nnx.Linear(4, 2, rngs=rngs)

    def __call__(self, x):
        return self.head(nnx.relu(self.norm(self.stem(x))))


class Named(linen.Module):
    @linen.compact
    def __call__(self, x):
        x = linen.LayerNorm(name="out_norm")(linen.relu(linen.Dense(4, name="trunk")(x)))
        return linen.Dense(2, name="head")(x)


class Attention(eqx.Module):
    final: eqx.nn.Linear
    attention: eqx.nn.MultiheadAttention

    def __call__(self, x):
        tokens = jnp.stack([x, x**2])
        return self.final(self.attention(tokens, tokens, tokens).mean(0))


@pytest.mark.parametrize(
    ("model", "last"),
    [
        (StemHead(nnx.Rngs(0)), "head"),
        (Named(), "head"),
        (Attention(eqx.nn.Linear(3, 2, key=KEYS[0]), eqx.nn.MultiheadAttention(1, 3, key=KEYS[1])), "final"),
        ([4, 5], "2"),
    ],
    ids=["nnx", "linen", "equinox", "sizes"],
)
def test_modules_of_every_framework_and_their_prior(model, last):
    network = functional(model, None, "relu", ROW, 2, KEYS)
    names = paths(network.first_start)
    is_last = network.last_layer(ROW)
    assert is_last == [name.startswith(last) for name in names]
    scales = jax.tree.leaves(
        prior_scales("fan-in", network.first_start, network.output_axis, lambda: is_last)
    )
    # 1 for vectors, 2 for the last layer, √(2/m) for the other weights.
    for scale, leaf, one in zip(scales, jax.tree.leaves(network.first_start), is_last, strict=True):
        weight = 2.0 if one else (2 * leaf.shape[network.output_axis] / leaf.size) ** 0.5
        assert scale == pytest.approx(1.0 if leaf.ndim < 2 else weight)
