"""Dynamics as functions of a flat vector in double precision, for the checker and the completion."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from fokker._core.state import State, as_arrays, call, dimension, ravel, unravel, variable_names
from fokker._core.types import Arrays, Number
from fokker.dynamics import SDE, Dynamics
from fokker.dynamics._checks import validate_state
from fokker.dynamics.hamiltonian import Hamiltonian, argument_names, hamiltonian_value
from fokker.fields import FieldLike

Vector = Float[Array, " d"]
Matrix = Float[Array, "d d"]


@dataclass(frozen=True)
class Problem:
    """dx = f(x) dt + √(2D(x)) dW on ℝᵈ, with the target exp(-H(x)); temperature is inside H and D.

    Every function takes the flat vector x. `example` is a state in the user's structure; `variables` has the
    slice of x of each named variable. `Q_mv` is None if Q is unknown, `noise_covariance` if the noise is not
    computed by the library, and `auxiliary` if H is not split into parts. `guessed` says that the shapes of
    the state were not specified.
    """

    example: State
    names: tuple[str, ...]
    variables: dict[str, slice]
    drift: Callable[[Vector], Vector]
    D_mv: Callable[[Vector, Vector], Vector]
    hamiltonian: Callable[[Vector], Array]
    Q_mv: Callable[[Vector, Vector], Vector] | None
    noise_covariance: Callable[[Vector], Matrix] | None
    auxiliary: Callable[[Vector], Array] | None
    position: str
    guessed: bool

    @property
    def dimension(self) -> int:
        """d."""
        return dimension(self.example)

    @property
    def start(self) -> Vector:
        """The example state as a vector."""
        return ravel(self.example, self.names or None)

    def to_state(self, x: Vector) -> State:
        """The state of a vector."""
        return unravel(x, self.example, self.names or None)

    def to_vector(self, z: State) -> Vector:
        """The vector of a state."""
        return ravel(z, self.names or None)

    def to_tangent(self, x: Vector, velocity: Vector) -> State:
        """A velocity at x, in the structure of the state."""
        return self.to_state(velocity)

    def D_matrix(self, x: Vector) -> Matrix:
        """D(x) as a matrix."""
        return _matrix_of(self.D_mv, x)

    def Q_matrix(self, x: Vector) -> Matrix:
        """Q(x) as a matrix."""
        assert self.Q_mv is not None
        return _matrix_of(self.Q_mv, x)

    def coordinate_names(self) -> list[str]:
        """A name for each coordinate: theta, or theta[0], theta[1], …"""
        if not self.names:
            return [f"z[{i}]" for i in range(self.dimension)]
        result: list[str] = []
        for name in self.names:
            size = dimension(self.example[name])
            result += [name] if size == 1 else [f"{name}[{i}]" for i in range(size)]
        return result


def _matrix_of(product: Callable[[Vector, Vector], Vector], x: Vector) -> Matrix:
    return jax.vmap(lambda e: product(x, e))(jnp.eye(x.size, dtype=x.dtype)).T


def infer_state(dynamics: Dynamics | SDE) -> State:
    """An example state if none was specified: named scalars from the arguments of H, or a vector from D."""
    if isinstance(dynamics, SDE) and dynamics.state is not None:
        return dynamics.state
    names = argument_names(dynamics.hamiltonian)
    blocks = getattr(getattr(dynamics, "D", None), "blocks", {}) | getattr(
        getattr(dynamics, "Q", None), "blocks", {}
    )
    named_by_blocks = {name for key in blocks for name in key}
    if len(names) > 1 or isinstance(dynamics.hamiltonian, Hamiltonian) or set(names) & named_by_blocks:
        return {name: jnp.zeros(()) for name in dict.fromkeys((*names, *sorted(named_by_blocks)))}
    matrix: Any = getattr(dynamics, "diffusion_argument", None)
    if not callable(matrix) and not isinstance(matrix, Mapping) and np.ndim(matrix) == 2:
        return jnp.zeros(len(matrix))
    raise ValueError(
        "the shape of the state is not known: give state=… (in Python an example, such as "
        '{"theta": jnp.zeros(2), "r": jnp.zeros(2)} or jnp.zeros(3)).'
    )


def double(tree: PyTree[Array]) -> Any:
    """`tree` with all floating-point arrays in double precision, which must be enabled."""
    return jax.tree.map(
        lambda x: jnp.asarray(x, jnp.float64) if eqx.is_inexact_array_like(x) else x,
        tree,
        is_leaf=lambda x: x is None,
    )


def positive_temperature(temperature: Number) -> float:
    """The temperature as a number; raise unless exp(-H/T) is a density at it."""
    try:
        value = float(temperature)
    except (TypeError, ValueError):
        value = math.nan
    if not 0 < value < math.inf:
        raise ValueError(
            "the temperature must be one finite number above zero, as the target is exp(-H/T); "
            f"{temperature} was given."
        )
    return value


def dynamics_of(dynamics: Any) -> Any:
    """The dynamics of a sampler; anything else is returned unchanged."""
    if not hasattr(type(dynamics), "placed"):  # which samplers have, of a part above this one
        return dynamics
    placed = dynamics.placed
    if placed is None:
        raise TypeError(
            f"the sampler {dynamics.name} has no continuous dynamics: give a fk.Dynamics or a fk.SDE."
        )
    return placed


def make_problem(
    dynamics: Any,
    diffusion: FieldLike = None,
    hamiltonian: Any = None,
    state: Arrays = None,
    temperature: float = 1.0,
) -> Problem:
    """A `Problem` from a Dynamics, an SDE, a sampler, or (drift, diffusion, hamiltonian), validated.

    Double precision must be enabled for this call and for all calls of the problem's functions.
    """
    dynamics = as_dynamics(dynamics, diffusion, hamiltonian, state)
    order = tuple(state) if isinstance(state, Mapping) else ()
    first = as_arrays(infer_state(dynamics) if state is None else state)
    validate_state(first)
    example = double(first)
    if isinstance(dynamics, Dynamics):
        dynamics = double(dynamics)
    names = order or (dynamics.order(example) if isinstance(dynamics, SDE) else variable_names(example))
    is_guessed = _validated(dynamics, example, names, state)
    slices, start = {}, 0
    for name in names:
        slices[name] = slice(start, start + dimension(example[name]))
        start = slices[name].stop

    def to_state(x: Vector) -> State:
        return unravel(x, example, names or None)

    def to_vector(z: State) -> Vector:
        return ravel(z, names or None)

    if isinstance(dynamics, Dynamics):
        T, D, Q = dynamics.temperature, dynamics.D, dynamics.Q
        positive_temperature(T)
        noise = dynamics.noise_like(example)
    else:
        T = jnp.asarray(positive_temperature(temperature))
        D, Q, noise = dynamics.D_field(example), None, None

    def D_mv(x: Vector, v: Vector) -> Vector:
        product = to_vector(D.mv(to_state(x), to_state(v)))
        return T * product if isinstance(dynamics, Dynamics) else product

    def Q_mv(x: Vector, v: Vector) -> Vector:
        assert Q is not None
        return T * to_vector(Q.mv(to_state(x), to_state(v)))

    def noise_covariance(x: Vector) -> Matrix:
        flat, rebuild = jax.flatten_util.ravel_pytree(jax.tree.map(lambda s: jnp.zeros(s.shape), noise))
        root = jax.vmap(lambda e: to_vector(dynamics.noise(to_state(x), rebuild(e))[0]))(jnp.eye(flat.size)).T
        return root @ root.T

    H = dynamics.hamiltonian
    auxiliary = None
    if isinstance(H, Hamiltonian):
        g = H.auxiliary

        def auxiliary(x: Vector) -> Array:
            return jnp.zeros(()) if g is None else call(g, to_state(x), "the auxiliary part of H") / T

    return Problem(
        example=example,
        names=names,
        variables=slices,
        drift=lambda x: to_vector(dynamics.drift(to_state(x))),
        D_mv=D_mv,
        hamiltonian=lambda x: hamiltonian_value(H, to_state(x)) / T,
        Q_mv=None if Q is None else Q_mv,
        noise_covariance=None if noise is None else noise_covariance,
        auxiliary=auxiliary,
        position=H.position if isinstance(H, Hamiltonian) else "theta",
        guessed=is_guessed,
    )


def _validated(dynamics: Dynamics | SDE, example: State, names: tuple[str, ...], state: Arrays) -> bool:
    """Whether variables were taken as single numbers, for want of a state; raise where this does not fit."""
    is_guessed = bool(names) and state is None and getattr(dynamics, "state", None) is None
    try:
        dynamics.validate(example, matrices=False)
    except Exception as error:  # a user's own function may raise anything
        if not is_guessed:
            raise
        shown = ", ".join(f'"{name}": jnp.zeros(2)' for name in names)
        raise ValueError(
            f"no state was given, so that a single number was taken for {' and '.join(names)}, and with "
            f"that it fails: {str(error).strip().rstrip('.')}. If the shape is another, give an example by "
            f"state=…, in Python such as state={{{shown}}}, or of a sampler theta alone, state=jnp.zeros(2)."
        ) from error
    return is_guessed


def as_dynamics(
    dynamics: Any, diffusion: FieldLike = None, hamiltonian: Any = None, state: PyTree[Array] = None
) -> Dynamics | SDE:
    """A Dynamics or SDE, from one of them, from a sampler, from a mapping, or from functions."""
    dynamics = dynamics_of(dynamics)
    if isinstance(dynamics, Mapping) and {"drift", "diffusion", "hamiltonian"} <= set(dynamics):
        return SDE(
            dynamics["drift"], dynamics["diffusion"], dynamics["hamiltonian"], dynamics.get("state", state)
        )
    if isinstance(dynamics, Dynamics | SDE):
        if diffusion is not None or hamiltonian is not None:
            raise TypeError(
                "diffusion and hamiltonian are only for a drift; a Dynamics or SDE has its own. Pass an "
                "example of the state by name: state=…"
            )
        return dynamics
    if not callable(dynamics) or diffusion is None or hamiltonian is None:
        raise TypeError(
            "give a fk.Dynamics, or a drift together with a diffusion and a Hamiltonian: "
            "(drift=…, diffusion=…, hamiltonian=…); or a sampler on its target, as "
            "fk.samplers.sgld(1e-3).on(target), or one of your own, a fk.samplers.Sampler."
        )
    return SDE(dynamics, diffusion, hamiltonian, state)
