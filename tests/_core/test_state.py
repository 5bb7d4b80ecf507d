"""The state: its order as a vector, and how functions written in named variables are called on it."""

from collections import OrderedDict

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fokker._core.identity import identity_of
from fokker._core.state import (
    arguments_of,
    as_arrays,
    call,
    depends_on,
    dimension,
    inner,
    ravel,
    same_shapes,
    unravel,
    variable_names,
)

NAMES = st.sampled_from(["theta", "r", "xi", "a", "Theta", "z"])
SHAPES = st.sampled_from([(), (1,), (2,), (2, 3)])
TREES = st.recursive(
    SHAPES.map(lambda shape: np.zeros(shape, np.float32)),
    lambda children: st.one_of(
        st.dictionaries(NAMES, children, min_size=1, max_size=3),
        st.dictionaries(NAMES, children, min_size=1, max_size=3).map(OrderedDict),
        st.tuples(children, children),
        st.lists(children, max_size=2),
    ),
    max_leaves=6,
)


def numbered(tree):
    """The tree with every number different."""
    leaves, structure = jax.tree.flatten(tree)
    counted = [100.0 * i + np.arange(x.size, dtype=np.float32).reshape(x.shape) for i, x in enumerate(leaves)]
    return jax.tree.unflatten(structure, [jnp.asarray(x) for x in counted])


@pytest.mark.slow
@given(tree=TREES)
def test_unravel_is_the_inverse_of_ravel(tree):
    tree = numbered(tree)
    flat = ravel(tree)
    assert flat.shape == (dimension(tree),)
    back = unravel(flat, tree)
    assert jax.tree.structure(back) == jax.tree.structure(tree)
    for x, y in zip(jax.tree.leaves(tree), jax.tree.leaves(back), strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.slow
@given(tree=st.dictionaries(NAMES, TREES, min_size=1, max_size=4))
def test_a_variable_is_written_in_the_same_order_alone_and_within_the_state(tree):
    tree = numbered(tree)
    apart = [ravel(tree[name]) for name in variable_names(tree)]
    np.testing.assert_array_equal(ravel(tree), np.concatenate(apart))


def test_theta_comes_first_and_the_rest_follow_the_alphabet():
    z = {"xi": jnp.array(4.0), "theta": jnp.array([1.0, 2.0]), "r": jnp.array(3.0)}
    assert variable_names(z) == ("theta", "r", "xi")
    np.testing.assert_array_equal(ravel(z), [1.0, 2.0, 3.0, 4.0])
    np.testing.assert_array_equal(ravel(jax.tree.map(lambda x: x, z)), ravel(z))
    np.testing.assert_array_equal(ravel(z, ("xi", "r", "theta")), [4.0, 3.0, 1.0, 2.0])
    back = unravel(jnp.arange(4.0), z, ("xi", "r", "theta"))
    assert float(back["xi"]) == 0.0
    np.testing.assert_array_equal(back["theta"], [2.0, 3.0])


def test_unravel_keeps_the_dtypes():
    z = {"a": jnp.zeros(2, jnp.float16), "b": jnp.zeros(1, jnp.float32)}
    assert [x.dtype for x in jax.tree.leaves(unravel(ravel(z), z))] == [jnp.float16, jnp.float32]


Z = {"theta": 1.0, "r": 2.0}


def whole_by_star(*states):
    (z,) = states
    return z["theta"] * 10 + z["r"]


class Callable:
    def __call__(self, r):
        return r


@pytest.mark.parametrize(
    ("function", "value", "on_theta", "on_r"),
    [
        (lambda theta: theta, 1.0, True, False),
        (lambda r: r, 2.0, False, True),
        (lambda r, theta: 10 * theta + r, 12.0, True, True),
        (lambda z: 10 * z["theta"] + z["r"], 12.0, True, True),
        (lambda state: 10 * state["theta"] + state["r"], 12.0, True, True),
        (lambda **names: 10 * names["theta"] + names["r"], 12.0, True, True),
        (lambda r, **names: 10 * names["theta"] + r, 12.0, True, True),
        (lambda theta, scale=3.0: scale * theta, 3.0, True, False),
        (lambda *, theta: theta, 1.0, True, False),
        (lambda: 5.0, 5.0, False, False),
        (whole_by_star, 12.0, True, True),
        (Callable(), 2.0, False, True),
        (jax.jit(lambda theta: theta), 1.0, True, False),
    ],
)
def test_a_function_is_called_by_the_names_it_is_written_in(function, value, on_theta, on_r):
    assert float(call(function, Z)) == value
    assert depends_on(function, "theta", Z) is on_theta
    assert depends_on(function, "r", Z) is on_r
    assert depends_on(function, None, Z)


def test_z_is_the_whole_even_beside_variables_of_like_names():
    z = {"z1": 1.0, "z2": 2.0}
    assert call(lambda z: z["z1"] + z["z2"], z) == 3.0
    assert depends_on(lambda z: z["z2"], "z2", z)
    assert call(lambda z: z, {"z": 7.0, "theta": 1.0}) == 7.0  # unless it is itself a variable


class Unsigned:
    __signature__ = "none"  # as of some compiled functions: inspect raises

    def __call__(self, z):
        return z["r"]


def test_a_function_without_a_signature_takes_the_whole():
    assert arguments_of(Unsigned()) is None
    assert call(Unsigned(), Z) == 2.0
    assert depends_on(Unsigned(), "r", Z)


def test_a_state_without_names_is_given_whole():
    assert call(lambda theta: theta[0], jnp.array([3.0])) == 3.0


def test_a_misspelled_argument_is_named_with_the_nearest_variable():
    with pytest.raises(ValueError, match=r"the potential takes the argument 'tetha'.*Did you mean 'theta'"):
        call(lambda tetha: tetha, Z, "the potential")
    with pytest.raises(
        ValueError, match=r"takes the argument 'momentum'.*variables of the state are theta, r"
    ):
        call(lambda theta, momentum: theta, Z)


def test_as_arrays_gives_floating_point_and_keeps_the_precision_of_arrays():
    assert as_arrays(1).dtype == jnp.float32
    assert as_arrays(np.zeros(2, int)).dtype == jnp.float32
    assert as_arrays(jnp.zeros(2, jnp.float16)).dtype == jnp.float16
    with jax.enable_x64(True):
        assert as_arrays(1).dtype == jnp.float64
        assert as_arrays(jnp.zeros(2, jnp.float32)).dtype == jnp.float32


def test_same_shapes_sees_structure_and_shape():
    assert same_shapes({"a": 1.0}, {"a": jnp.zeros(())})
    assert not same_shapes({"a": jnp.zeros(2)}, {"a": jnp.zeros(3)})
    assert not same_shapes({"a": jnp.zeros(2)}, {"b": jnp.zeros(2)})
    assert not same_shapes((jnp.zeros(2),), [jnp.zeros(2)])


def test_inner_is_the_sum_over_all_leaves():
    a = {"x": jnp.array([1.0, 2.0]), "y": (jnp.array(3.0),)}
    assert float(inner(a, a)) == 14.0


def test_the_identity_of_a_tree_is_that_of_its_numbers_and_functions():
    def tree(number=1.0, dtype=jnp.float32, function=abs):
        return {"x": jnp.full(3, number, dtype), "f": jax.tree_util.Partial(function, 2)}

    assert identity_of(tree()) == identity_of(tree())
    others = [tree(2.0), tree(dtype=jnp.float16), tree(function=max), {**tree(), "y": 1}, tree()["x"]]
    assert all(identity_of(tree()) != identity_of(other) for other in others)
    assert identity_of(jnp.zeros(3)) != identity_of(jnp.zeros((3, 1)))
    assert jax.jit(lambda x: 0.0 if identity_of(x) is None else x)(1.0) == 0
    assert identity_of([1, {1}]) is None


def test_the_identity_of_a_large_array_is_the_array_itself_while_it_exists():
    large = jnp.zeros(2**19)
    kept = identity_of(large)
    assert kept == identity_of(large) != identity_of(jnp.zeros(2**19))
    del large
    assert kept != identity_of(jnp.zeros(2**19))
    assert identity_of(np.zeros(2**19)) is None
