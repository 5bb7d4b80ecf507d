"""Dynamics from H, D and Q (Theorem 1), and dynamics from any drift and diffusion, as printed in a paper."""

import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from fokker import fields
from fokker._core.module import Module
from fokker._core.state import (
    State,
    arguments_of,
    as_arrays,
    call,
    describe_shapes,
    dimension,
    inner,
    is_leaf,
    ravel,
    same_shapes,
    unravel,
    variable_names,
    zeros_like,
)
from fokker._core.tracing import TRACING_ERRORS, check_real, not_real, untraceable
from fokker.dynamics.hamiltonian import Hamiltonian, check_hamiltonian, hamiltonian_gradient
from fokker.fields import Blocks, Field

# Above this many coordinates, D and Q are tested on random vectors before a run, not as full matrices.
_LARGEST_FULL_MATRIX = 512


class Dynamics(Module):
    r"""The stochastic dynamics with stationary density exp(-H/T), from a diffusion D and a curl Q.

        dz = f(z) dt + √(2 T D(z)) dW        (Itô)
        f(z) = -[D(z) + Q(z)] ∇H(z) + T Γ(z),     Γ_i = Σ_j ∂/∂z_j (D_ij + Q_ij)

    It is sufficient that D is positive semidefinite and Q is skew (Ma, Chen, Fox 2015, Theorem 1; their Eq. 6
    and 9 print Γ with the wrong sign). Γ is computed from D and Q. At T = 0 this is deterministic descent.

    ```python
    dynamics = fk.Dynamics(
        hamiltonian=lambda theta, r: U(theta) + jnp.sum(r**2) / 2,
        D={("r", "r"): 1.0},
        Q={("r", "theta"): 1.0},  # one triangle; Q[theta, r] = -1 follows
    )
    ```

    `hamiltonian` is a function of named variables or of the whole state, or a `fokker.Hamiltonian`. `D` and
    `Q` are fields, numbers, matrices, or dictionaries of blocks; by default they are zero. `temperature`
    scales both the noise and Γ.
    """

    hamiltonian: Callable[..., Any]
    D: Field
    Q: Field
    temperature: Array

    def __init__(
        self, hamiltonian: Callable[..., Any], D: Any = None, Q: Any = None, temperature: Any = 1.0
    ) -> None:
        if not callable(hamiltonian):
            raise TypeError(f"the Hamiltonian must be a function, not {type(hamiltonian).__name__}.")
        self.hamiltonian = hamiltonian
        self.D = _as_field(D, fields.symmetric)
        self.Q = _as_field(Q, fields.skew)
        self.temperature = as_arrays(temperature)
        if isinstance(self.Q, fields.Scalar | fields.Diagonal | fields.Elementwise | fields.Gram):
            raise ValueError(
                f"Q must be skew, and a field of kind {type(self.Q).__name__} is not. Declare one triangle, "
                "as in Q={('r', 'theta'): 1.0} or fk.fields.Skew(…). Friction belongs to D."
            )
        check_temperature(self.temperature)

    def gradient(self, z: State, gradient: PyTree[Array] | None = None) -> State:
        """∇H(z), with ∇U replaced by `gradient` unless it is None."""
        return hamiltonian_gradient(self.hamiltonian, z, gradient)

    def drift(self, z: State, gradient: PyTree[Array] | None = None, probe: State | None = None) -> State:
        """f(z). `gradient` replaces ∇U by an estimate; `probe` replaces Γ by its unbiased estimate."""
        dH = self.gradient(z, gradient)
        f = jax.tree.map(lambda d, q: -(d + q), self.D.mv(z, dH), self.Q.mv(z, dH))
        if not (self.D.varies_with(z, None) or self.Q.varies_with(z, None)):
            return f
        T = self.temperature
        return jax.tree.map(lambda a, g: a + T.astype(a.dtype) * g, f, self.gamma(z, probe))

    def gamma(self, z: State, probe: State | None = None) -> State:
        """Γ(z), exact, or estimated by one Jacobian-vector product along `probe` if that is cheaper."""
        return jax.tree.map(jnp.add, self.D.divergence(z, probe=probe), self.Q.divergence(z, probe=probe))

    def diffusion(self, z: State) -> Array:
        """T D(z) as a matrix, with theta first and the other variables in alphabetical order."""
        return self.temperature * self.D.as_matrix(z)

    def noise_like(self, z: State, noise_estimate: Field | None = None) -> PyTree[Any]:
        """Shapes of the unit noise that `noise` takes."""
        return _noise_like(self.D, noise_estimate, z)

    def noise(
        self, z: State, w: PyTree[Array], step_size: Any = 0.0, noise_estimate: Field | None = None
    ) -> tuple[State, Array]:
        r"""√(2 T D - ε B̂) w, and the smallest entry or eigenvalue of 2 T D - ε B̂ if it is below zero, else 0.

        `noise_estimate` is B̂, an estimate of the covariance of the drift's minibatch noise
        (D + Q)[N(0, V), 0] (Ma et al. 2015, Eq. 9). If 2TD - εB̂ is not positive semidefinite, the
        minibatch noise is already too large in some directions. No noise is added there, and the second
        result is negative, for the caller to report.
        """
        twice_T = 2 * self.temperature
        if noise_estimate is None:
            root = jnp.sqrt(twice_T)
            return jax.tree.map(lambda x: root.astype(x.dtype) * x, self.D.sqrt_mv(z, w)), jnp.zeros(())
        return _reduced_noise(twice_T * self.D, step_size * noise_estimate, z, w)

    def drift_noise(self, z: State, V: Field) -> Field:
        r"""B̂ = A V Aᵀ, with A the columns of D + Q over theta: noise of the drift for gradient noise V.

        It is a diagonal field if A and V are diagonal, as for the samplers with one noisy variable.
        """
        position = self.hamiltonian.position if isinstance(self.hamiltonian, Hamiltonian) else "theta"
        diagonal = self._diagonal_drift_noise(z, V, position)
        if diagonal is not None:
            return diagonal
        start = 0
        for name in variable_names(z):
            if name == position:
                break
            start += dimension(z[name])
        columns = (self.D.as_matrix(z) + self.Q.as_matrix(z))[:, start : start + dimension(z[position])]
        return fields.Dense(columns @ V.as_matrix(z, position, position) @ columns.T)

    def _diagonal_drift_noise(self, z: State, V: Field, position: str) -> Field | None:
        entries = V.diagonal(z, position)
        rows: dict[str, list[PyTree[Array]]] = {}
        for field in (self.D, self.Q):
            if not isinstance(field, Blocks | fields.Zero):
                return None
            for (row, column), block in field.blocks.items() if isinstance(field, Blocks) else ():
                if column == position:
                    rows.setdefault(row, []).append(block.diagonal(z, row))
        if entries is None or len(rows) != 1 or any(a is None for a in next(iter(rows.values()))):
            return None
        ((row, terms),) = rows.items()
        a = jax.tree.map(lambda *xs: sum(xs[1:], start=xs[0]), *terms)
        return fields.symmetric(
            {(row, row): fields.Diagonal(jax.tree.map(lambda x, v: x**2 * v, a, entries))}
        )

    def validate(self, z: State, matrices: bool = True) -> None:
        """Raise if the Hamiltonian or a field does not fit the state `z`.

        With `matrices`, also raise if D is not symmetric positive semidefinite or Q is not skew at `z`.
        """
        validate_state(z)
        check_hamiltonian(self.hamiltonian, z)
        for name, field in (("D", self.D), ("Q", self.Q)):
            check_field(field, z, name)
        if matrices:
            check_semidefinite(self.D, z, "D")
            check_skew(self.Q, z, "Q")


class SDE(Module):
    r"""Dynamics dz = f(z) dt + √(2D(z)) dW with any drift and diffusion, correct or not.

    `drift` and `diffusion` are functions of named variables or of the whole state. The drift returns the
    structure of the state; the diffusion is a field, a matrix, a diagonal in the structure of the state, or
    one number. `hamiltonian` defines the intended stationary density exp(-H); `fokker.check` tests whether it
    is stationary. `state` is an example of the state, for its shapes. The rows of a matrix are in the order
    of its variables, or of the Hamiltonian's arguments. A drift with an argument `gradient` receives ∇U, or
    its estimate from a minibatch.
    """

    drift_function: Callable[..., Any]
    diffusion_argument: Any
    hamiltonian: Callable[..., Any]
    state: State | None
    variables: tuple[str, ...] = eqx.field(static=True)

    def __init__(
        self, drift: Callable[..., Any], diffusion: Any, hamiltonian: Callable[..., Any], state: Any = None
    ) -> None:
        for name, function in (("drift", drift), ("hamiltonian", hamiltonian)):
            if not callable(function):
                raise TypeError(f"the {name} must be a function, not {type(function).__name__}.")
        self.drift_function = drift
        self.diffusion_argument = diffusion
        self.hamiltonian = hamiltonian
        # Read before as_arrays, because JAX sorts the keys of a dictionary that it rebuilds.
        self.variables = tuple(state) if isinstance(state, Mapping) else argument_names(hamiltonian)
        self.state = None if state is None else as_arrays(state)

    def drift(self, z: State, gradient: PyTree[Array] | None = None, probe: State | None = None) -> State:
        """f(z). A drift function with an argument `gradient` receives ∇U, or its estimate `gradient`."""
        f = call(self.drift_function, self._with_gradient(z, gradient), "the drift")
        if isinstance(z, Mapping) and not isinstance(f, Mapping):
            # A tuple has one entry per variable; for a single variable the tuple may be omitted.
            entries = f if isinstance(f, tuple | list) else (f,)
            if len(entries) == len(z):
                f = dict(zip(self.order(z), entries, strict=True))
        f = as_arrays(f)
        if not same_shapes(f, z):
            raise ValueError(
                f"the drift returns the structure {describe_shapes(f)}, but the state has "
                f"{describe_shapes(z)}. Return one entry per variable, in the structure of the state."
            )
        return f

    def _with_gradient(self, z: State, gradient: PyTree[Array] | None) -> State:
        arguments = arguments_of(self.drift_function)
        if arguments is None or "gradient" not in arguments[0]:
            if gradient is not None:
                raise TypeError(
                    "this drift has no gradient to replace: write it with an argument `gradient`, as in "
                    "`lambda theta, r, gradient: …`, or use fk.Dynamics."
                )
            return z
        if not isinstance(self.hamiltonian, Hamiltonian):
            raise TypeError(
                "a drift with an argument `gradient` needs hamiltonian=fk.Hamiltonian(potential, …)."
            )
        if gradient is None:
            gradient = jax.grad(self.hamiltonian.potential)(self.hamiltonian.position_of(z))
        return {**z, "gradient": gradient}

    def order(self, z: State) -> tuple[str, ...]:
        """The order of the variables in a matrix or tuple: that of the example state, else the library's."""
        return self.variables if set(self.variables) == set(variable_names(z)) else variable_names(z)

    def D_field(self, z: State) -> Field:
        """The diffusion as a field."""
        return diffusion_field(self.diffusion_argument, z, self.order(z))

    def diffusion(self, z: State) -> Array:
        """D(z) as a matrix."""
        return self.D_field(z).as_matrix(z)

    def noise_like(self, z: State, noise_estimate: Field | None = None) -> PyTree[Any]:
        """Shapes of the unit noise that `noise` takes."""
        return _noise_like(self.D_field(z), noise_estimate, z)

    def noise(
        self, z: State, w: PyTree[Array], step_size: Any = 0.0, noise_estimate: Field | None = None
    ) -> tuple[State, Array]:
        """√(2D - εB̂) w, as in `Dynamics.noise`."""
        D = self.D_field(z)
        if noise_estimate is None:
            return jax.tree.map(lambda x: jnp.sqrt(2.0).astype(x.dtype) * x, D.sqrt_mv(z, w)), jnp.zeros(())
        return _reduced_noise(2.0 * D, step_size * noise_estimate, z, w)

    def validate(self, z: State, matrices: bool = True) -> None:
        """Raise if the drift, the diffusion or the Hamiltonian does not fit the state `z`."""
        validate_state(z)
        check_hamiltonian(self.hamiltonian, z)
        try:
            check_real("the drift", jax.eval_shape(self.drift, z))
        except TRACING_ERRORS as error:
            raise untraceable("the drift", error) from error
        check_field(self.D_field(z), z, "the diffusion")


def _as_field(value: Any, of_blocks: Callable[[Mapping[Any, Any]], Blocks]) -> Field:
    if value is None:
        return fields.Zero()
    return of_blocks(value) if isinstance(value, Mapping) else fields.as_field(value)


def argument_names(hamiltonian: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a Hamiltonian's arguments; () if it is a function of the whole state."""
    if isinstance(hamiltonian, Hamiltonian):
        auxiliary = () if hamiltonian.auxiliary is None else argument_names(hamiltonian.auxiliary)
        return (hamiltonian.position, *(name for name in auxiliary if name != hamiltonian.position))
    arguments = arguments_of(hamiltonian)
    return () if arguments is None else tuple(arguments[0])


def diffusion_field(diffusion: Any, z: State, order: tuple[str, ...]) -> Field:
    """A field from a field, blocks, a matrix, a diagonal, a number, or a function that returns one."""
    if isinstance(diffusion, Field):
        return diffusion
    if isinstance(diffusion, Mapping) and diffusion and all(isinstance(key, tuple) for key in diffusion):
        return fields.symmetric(diffusion)

    def value(state: State) -> Any:
        return call(diffusion, state, "the diffusion") if callable(diffusion) else as_arrays(diffusion)

    try:
        shape = jax.eval_shape(value, z)
    except TRACING_ERRORS as error:
        raise untraceable("the diffusion", error) from error
    check_real("the diffusion", shape)
    d = dimension(z)
    is_array = is_leaf(shape)
    if is_array and shape.shape == (d, d):
        rows = _row_order(z, order)
        if not callable(diffusion):
            return fields.Dense(value(z)[rows][:, rows])
        return fields.Dense(lambda *z: value(z[0])[rows][:, rows])
    if same_shapes(shape, z):
        return fields.Diagonal(diffusion)
    if is_array and shape.shape == ():
        return fields.Scalar(diffusion)
    raise ValueError(
        f"the diffusion has shapes {describe_shapes(shape)}; for a state of {describe_shapes(z)} give a "
        f"matrix of shape ({d}, {d}), a diagonal in the structure of the state, or one number."
    )


def _row_order(z: State, order: tuple[str, ...]) -> np.ndarray:
    """The positions, in a matrix in the given order, of the rows of a matrix in the library's order.

    This uses NumPy, because traced programs build the diffusion again.
    """
    if not order:
        return np.arange(dimension(z))
    sizes = [dimension(z[name]) for name in order]
    starts = dict(zip(order, np.cumsum([0, *sizes]), strict=False))
    return np.concatenate([starts[name] + np.arange(dimension(z[name])) for name in variable_names(z)])


def _noise_like(D: Field, B: Field | None, z: State) -> PyTree[Any]:
    """Noise in the structure of D's square root, or of the state if 2D - εB̂ must be a full matrix."""
    if B is None or _both_diagonal(D, B, z):
        return D.noise_like(z)
    return jax.eval_shape(lambda: z)


def _both_diagonal(D: Field, B: Field, z: State) -> bool:
    return jax.eval_shape(lambda: None if D.diagonal(z) is None else B.diagonal(z)) is not None


def _reduced_noise(twice_D: Field, B: Field, z: State, w: PyTree[Array]) -> tuple[State, Array]:
    """√(2D - εB̂) w, by coordinates if both fields are diagonal, else by the full matrix.

    Rounding can make entries or eigenvalues negative by about eps·|2D|; only larger values are a shortfall.
    """
    if _both_diagonal(twice_D, B, z):
        entries = twice_D.diagonal(z)
        reduced = jax.tree.map(jnp.subtract, entries, B.diagonal(z))
        roots = jax.tree.map(lambda a: jnp.sqrt(jnp.maximum(a, 0)), reduced)
        shortfalls = jax.tree.map(lambda a, d: jnp.min(jnp.where(a < -_rounding(d), a, 0)), reduced, entries)
        noise = jax.tree.map(jnp.multiply, roots, _noise_of_state(w, z))
        return noise, jnp.minimum(jax.tree.reduce(jnp.minimum, shortfalls), 0)
    matrix = twice_D.as_matrix(z)
    rounding = len(matrix) * _rounding(jnp.max(jnp.abs(matrix)))
    matrix = matrix - B.as_matrix(z)
    values, vectors = jnp.linalg.eigh((matrix + matrix.T) / 2)
    root = (vectors * jnp.sqrt(jnp.maximum(values, 0))[None, :]) @ vectors.T
    return unravel(root @ ravel(w), z), jnp.where(values[0] < -rounding, values[0], 0)


def _rounding(size: Array) -> Array:
    return 4 * jnp.finfo(size.dtype).eps * size


def _noise_of_state(w: PyTree[Array], z: State) -> State:
    """Noise of the noisy variables, with zeros for all other variables of the state."""
    if w is None:
        return zeros_like(z)
    if not isinstance(z, Mapping):
        return w
    return {name: zeros_like(z[name]) if w.get(name) is None else w[name] for name in z}


def check_temperature(temperature: Array) -> None:
    """Raise unless the temperature is one finite non-negative number."""
    if temperature is None or isinstance(temperature, str | bytes):
        raise TypeError(f"the temperature must be a number, as in temperature=1.0, not {temperature!r}.")
    if jnp.shape(temperature) != ():
        raise ValueError(
            f"the temperature must be one number, not an array of shape {jnp.shape(temperature)}; to run at "
            "several temperatures, use jax.vmap."
        )
    if not isinstance(temperature, jax.core.Tracer) and not 0 <= float(temperature) < math.inf:
        raise ValueError(f"the temperature must be finite and not negative; {temperature} was given.")


def validate_state(z: State) -> None:
    """Raise unless all entries of `z` are finite floating-point numbers."""
    leaves = jax.tree.leaves(z)
    if not leaves:
        raise ValueError("the state is empty: give at least one variable.")
    for path, leaf in jax.tree.leaves_with_path(z):
        if not jnp.issubdtype(jnp.result_type(leaf), jnp.floating):
            raise ValueError(
                f"the state{jax.tree_util.keystr(path)} is of type {jnp.result_type(leaf)}; samplers need "
                "real numbers: give floating-point values, as in 0.0 or jnp.zeros(3)."
            )
        finite = jnp.all(jnp.isfinite(leaf))
        if not isinstance(finite, jax.core.Tracer) and not bool(finite):
            raise ValueError(f"the state{jax.tree_util.keystr(path)} is not finite: {leaf}.")


def check_field(field: Field, z: State, name: str) -> None:
    """Raise if a field does not fit the state: an unknown variable, or shapes that do not match."""
    if isinstance(field, Blocks):
        field.check_names(z)
        for key, block in field.blocks.items():
            _try_product(block, z, f"{name}[{key[0]}, {key[1]}]", *key)
    else:
        _try_product(field, z, name, None, None)


def _try_product(field: Field, z: State, name: str, row: str | None, column: str | None) -> None:
    source, target = (z if column is None else z[column]), (z if row is None else z[row])
    try:
        with warnings.catch_warnings():
            # Raised where entries are cast to the type of the state.
            warnings.simplefilter("error", np.exceptions.ComplexWarning)
            result = jax.eval_shape(lambda state, v: field.mv(state, v, row, column), z, source)
    except np.exceptions.ComplexWarning as error:
        raise not_real(name, "complex numbers") from error
    except TRACING_ERRORS as error:
        raise untraceable(name, error) from error
    except (TypeError, ValueError, IndexError) as error:
        raise ValueError(f"{name} does not fit the state {describe_shapes(z)}: {error}") from error
    check_real(name, result)
    if not same_shapes(result, target):
        raise ValueError(
            f"{name} maps {describe_shapes(source)} to {describe_shapes(result)}, but its row variable has "
            f"{describe_shapes(target)}. Between variables of different shapes use Dense, Column or Operator."
        )


def _matrix_and_tolerance(field: Field, z: State) -> tuple[Array, Array]:
    """A(z) and a bound on its rounding error; for a large A, VᵀA(z)V with two random unit vectors."""
    eps = jnp.finfo(jnp.result_type(*jax.tree.leaves(z))).eps
    if dimension(z) <= _LARGEST_FULL_MATRIX:
        matrix = field.as_matrix(z)
        return matrix, 100 * eps * matrix.shape[0] * jnp.max(jnp.abs(matrix))
    probed = [[_probed(field, z, jnp.uint32(i), jnp.uint32(j)) for j in range(2)] for i in range(2)]
    matrix = jnp.stack([jnp.stack([value for value, _ in row]) for row in probed])
    return matrix, 100 * eps * jnp.max(jnp.stack([size for _, size in probed[0]]))


# Compiled, and with signs that are computed on the spot, so that it takes little memory: a state may take a
# third of that of a GPU.
@eqx.filter_jit
def _probed(field: Field, z: State, i: Array, j: Array) -> tuple[Array, Array]:
    """v_iᵀA(z)v_j, with vectors of random signs and norm 1, and the norm of A(z)v_j."""
    leaves, structure = jax.tree.flatten(z)
    v, w = (
        jax.tree.unflatten(structure, [_signs(x, 2 * n + k) for n, x in enumerate(leaves)]) for k in (i, j)
    )
    product = field.mv(z, w)
    size = float(dimension(z))
    return inner(v, product) / size, jnp.sqrt(inner(product, product) / size)


def _signs(like: Array, seed: Array) -> Array:
    """±1 by a hash of the place of every entry (the finaliser of MurmurHash3)."""
    x = jnp.arange(like.size, dtype=jnp.uint32) + np.uint32(0x9E3779B9) * (seed + 1)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        x = (x ^ (x >> shift)) * np.uint32(factor)
    return (1 - 2 * (x >> 31).astype(like.dtype)).reshape(like.shape)


def _has_finite_root(D: Field, z: State) -> Array:
    """Whether √D times ones is finite."""
    ones = jax.tree.map(lambda s: jnp.ones(s.shape, s.dtype), D.noise_like(z))
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(D.sqrt_mv(z, ones))]))


def check_semidefinite(D: Field, z: State, name: str) -> None:
    """Raise unless D is symmetric, positive semidefinite and has a square root at `z`, up to rounding.

    A field that is too large for a full matrix is tested on two random vectors.
    """
    matrix, tolerance = _matrix_and_tolerance(D, z)
    if isinstance(matrix, jax.core.Tracer):
        return
    if not bool(jnp.all(jnp.isfinite(matrix))):
        raise ValueError(f"{name} is not finite at this state.")
    if float(jnp.max(jnp.abs(matrix - matrix.T))) > tolerance:
        raise ValueError(f"{name} must be symmetric; at this state {name} - {name}ᵀ is not zero.")
    least = float(jnp.linalg.eigvalsh(matrix)[0])
    if least < -tolerance:
        raise ValueError(
            f"{name} must be positive semidefinite; at this state its smallest eigenvalue is {least:.3g}. "
            "fk.fields.Gram(L) gives L Lᵀ, which is always positive semidefinite."
        )
    # Compiled where it is large, for the same reason.
    has_finite_root = (
        eqx.filter_jit(_has_finite_root) if dimension(z) > _LARGEST_FULL_MATRIX else _has_finite_root
    )
    if not bool(has_finite_root(D, z)):
        raise ValueError(
            f"{name} is positive semidefinite, but one of its terms is not, and the noise is drawn term by "
            "term. Write it as one field, such as fk.fields.Dense or fk.fields.Diagonal."
        )


def check_skew(Q: Field, z: State, name: str) -> None:
    """Raise unless Q is skew at `z` up to rounding; a large Q is tested on two random vectors."""
    matrix, tolerance = _matrix_and_tolerance(Q, z)
    if isinstance(matrix, jax.core.Tracer):
        return
    asymmetry = float(jnp.max(jnp.abs(matrix + matrix.T)))
    if not asymmetry <= tolerance:
        raise ValueError(
            f"{name} must be skew; at this state the largest entry of {name} + {name}ᵀ is {asymmetry:.3g}. "
            "Declare one triangle, with a dictionary of blocks or fk.fields.Skew(…): the other follows."
        )
