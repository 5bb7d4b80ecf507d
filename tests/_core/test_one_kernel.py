"""Functions as one kernel of a CPU: the same results, and a refusal where XLA could not write them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fokker._core import one_kernel as module
from fokker._core.as_loops import evaluate, has_loops
from fokker._core.one_kernel import NoKernel, one_kernel

pytestmark = pytest.mark.dependencies  # which operations XLA can write in a kernel depends on its version

X = np.linspace(-1.0, 2.0, 10, dtype=np.float32)
S = np.float32(np.eye(5) + 0.1 * np.arange(25).reshape(5, 5) % 0.7)
S = S @ S.T
# Wider than a vector of the processor, and no multiple of it.
W = np.float32(9 * np.eye(9) + np.cos(np.arange(81)).reshape(9, 9))
INDEX = np.array([0, 3, 3, 9, -2], np.int32)


def looped(step):
    return lambda x: jax.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, step(c[1])), (0, x))[1]


FITS = {
    "elementwise": lambda x: jnp.tanh(x) * jnp.where(x > 0, x, jnp.exp(x)),
    "gradient of a gather": jax.grad(lambda x: jnp.sum(jnp.sin(x[INDEX]) * jnp.arange(5.0))),
    "gradient of rows": jax.grad(lambda x: jnp.sum(jnp.cos(x.reshape(5, 2)[jnp.array([1, 1, 4])]))),
    "gradient of columns": jax.grad(lambda x: jnp.sum(jnp.cos(x.reshape(2, 5)[:, jnp.array([0, 4, 4])]))),
    "outside is dropped": lambda x: x.at[jnp.array([2, 70, 3])].add(x[:3], mode="drop"),
    "in a scan": jax.grad(lambda x: jax.lax.scan(lambda c, i: (c + x[i] * x[i - 1], c), 0.0, INDEX)[0]),
    "in a branch": lambda x: jax.lax.cond(x[0] < 0, lambda x: x.at[INDEX].add(1.0), lambda x: 2 * x, x),
    "in a loop": looped(lambda x: x.at[INDEX].add(0.1 * x[:5])),
    "gradient of Cholesky": jax.grad(
        lambda x: jnp.sum(jnp.linalg.cholesky(S + jnp.diag(x[:5] ** 2)) @ x[5:])
    ),
    "gradient of a wider Cholesky": jax.grad(
        lambda x: jnp.sum(jnp.linalg.cholesky(W @ W.T + jnp.diag(x[:9] ** 2)) @ x[1:])
    ),
    "wider systems": lambda x: jax.scipy.linalg.solve_triangular(
        np.where(np.tri(9, k=-1) == 1, np.float32(np.nan), W), jnp.outer(x[1:], x), trans=1
    ),
    "no Cholesky factor": lambda x: jnp.linalg.cholesky(S - 9 * jnp.eye(5, dtype=S.dtype)),
    "product of matrices": lambda x: jnp.outer(x, x) @ jnp.outer(x, 1 + x),
    "batched product": lambda x: jnp.einsum(
        "bij,bkj->bik", x.reshape(5, 1, 2), x.reshape(5, 2, 1) * S[:5, None, :2]
    ),
    "product with a vector": lambda x: S @ x[:5],
}
FITS |= {
    f"triangular {lower} {transposed} {unit}": lambda x, lower=lower, transposed=transposed, unit=unit: (
        jax.scipy.linalg.solve_triangular(
            S, x.reshape(5, 2), lower=lower, trans=int(transposed), unit_diagonal=unit
        )
    )
    for lower in (False, True)
    for transposed in (False, True)
    for unit in (False, True)
}
REFUSED = {
    "clipped below": jax.grad(lambda x: jnp.sum(x.at[jnp.array([-19])].get(mode="clip") ** 2)),
    "integers that overflow": lambda x: (
        jnp.outer(x, x).astype(jnp.int8) @ jnp.outer(x, 9 + x).astype(jnp.int8)
    ),
    "nothing": lambda x: x + jnp.sum(jnp.zeros((0, 10), x.dtype) @ x),
    "half precision": lambda x: jnp.outer(x, x).astype(jnp.bfloat16) @ x.astype(jnp.bfloat16),
    "many operations": lambda x: [x := jnp.sin(x) for _ in range(5_000)][-1],
    "sort": jnp.sort,
    "callback": lambda x: jax.pure_callback(lambda x: x, jax.ShapeDtypeStruct((10,), jnp.float32), x),
    "eigenvalues": lambda x: jnp.linalg.eigvalsh(jnp.outer(x, x)),
    "complex numbers": lambda x: jnp.abs(x + 1j * x),
    "many matrices": lambda x: jnp.linalg.cholesky(jnp.stack([S, S])),
    "sort in a loop": looped(jnp.sort),
    "a long scan": lambda x: jax.lax.scan(lambda c, _: (jnp.sin(c), None), x, length=10**6)[0],
}


needs_kernels = pytest.mark.skipif(
    jax.__version_info__[:2] not in module._RELEASES, reason="XLA's kernels of this release are not used"
)


def as_loops(function):
    traced = jax.make_jaxpr(function)(X)
    return lambda x: evaluate(traced.jaxpr, traced.consts, x)[0]


@pytest.mark.parametrize("name", FITS)
def test_loops_compute_what_the_operations_do(name, quickly):
    """In the order of a loop in place of that of a library."""
    both = jax.jit(lambda x: (as_loops(FITS[name])(x), FITS[name](x)))
    np.testing.assert_allclose(*both(X), rtol=3e-5, atol=3e-5)


@pytest.mark.slow
@needs_kernels
def test_a_kernel_computes_what_its_function_does():
    """All operations in one; what goes in has words of 8 to 64 bits, and a key."""

    def function(x, small, flag, count, key):
        sums = [jnp.sum(jnp.nan_to_num(f(x))) for f in FITS.values()]
        noise = jax.random.key_data(key)[1].astype(jnp.float32) / 2**32
        return {"a": jnp.stack([*sums, noise]), "b": (small + 1, ~flag, count[::-1])}

    with jax.enable_x64(True):
        arguments = (X, jnp.int8(-3), jnp.array([True, False]), jnp.array([2.0, 5.0]), jax.random.key(4))
        compiled = jax.jit(lambda *a: one_kernel(function, *a, most=10**6)).lower(*arguments).compile()
        kernel, plain = compiled(*arguments), jax.jit(function)(*arguments)
    assert "xla_cpu_small_call" in compiled.as_text()
    for got, wanted in zip(jax.tree.leaves(kernel), jax.tree.leaves(plain), strict=True):
        assert got.dtype == wanted.dtype
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


@needs_kernels
def test_matrices_of_whole_vectors_are_multiplied_in_a_kernel():
    """A sum of products of such sizes is a kind of kernel that XLA does not write inside another."""
    function = looped(lambda a: a @ a.T / 16)
    a = np.cos(np.arange(256, dtype=np.float32)).reshape(16, 16)
    kernel = jax.jit(lambda a: one_kernel(function, a, most=10**6))
    np.testing.assert_allclose(kernel(a), function(a), rtol=1e-4, atol=1e-5)


@needs_kernels
def test_an_argument_that_is_not_used_ends_nothing():
    """XLA removes what a loop only carries along; a parameter that is left over would end the process."""

    def function(x, unused, n):
        loop = jax.lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, 2 * c[1], c[2]), (0, x, unused))
        return loop[1]

    kernel = jax.jit(lambda *a: one_kernel(function, *a, most=10**6))
    np.testing.assert_array_equal(kernel(X, X + 1, 3), 8 * X)


@pytest.mark.parametrize("name", REFUSED)
def test_what_xla_could_not_write_is_refused(name):
    with pytest.raises(NoKernel):
        jax.eval_shape(lambda x: one_kernel(REFUSED[name], x, most=10**6), X)


def test_without_the_attribute_of_jax_nothing_is_a_kernel(monkeypatch):
    monkeypatch.setattr(module, "set_xla_metadata", None)
    with pytest.raises(NoKernel):
        jax.eval_shape(lambda x: one_kernel(jnp.sin, x, most=10**6), X)


def test_in_other_releases_nothing_is_a_kernel(monkeypatch):
    monkeypatch.setattr(module, "_RELEASES", ())
    with pytest.raises(NoKernel):
        jax.eval_shape(lambda x: one_kernel(jnp.sin, x, most=10**6), X)


def test_what_has_no_loop_is_left_as_it_is():
    assert not has_loops(jax.make_jaxpr(looped(jnp.sin))(X).jaxpr)
    assert has_loops(jax.make_jaxpr(looped(lambda x: x.at[INDEX].add(1.0)))(X).jaxpr)
