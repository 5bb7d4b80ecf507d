"""Where the chains of a run start, each checked before the first step."""

import inspect
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from fokker._core.identity import identity_of
from fokker._core.labels import check_variable_names, named_leaves
from fokker._core.parts import sharded
from fokker._core.required import run_quickly
from fokker._core.rounding import lowered, raised
from fokker._core.state import as_arrays, entry, is_function, ravel_each
from fokker.dynamics import SDE, Dynamics
from fokker.dynamics.hamiltonian import Hamiltonian, hamiltonian_value
from fokker.rows import span
from fokker.samplers._checks import check_finite_start
from fokker.samplers.contract import Sampler, start_chains
from fokker.targets.target import Target, TargetWithData


@dataclass(frozen=True)
class PerChain:
    """A start for each chain.

    - `positions`: a tree like theta, with a leading axis over chains on every leaf.

    ```python
    fk.sample(target, "nuts", init=fk.PerChain(jnp.array([[-3.0, 0.0], [3.0, 0.0]])), steps=1000)
    ```
    """

    positions: PyTree[Any]

    @property
    def number(self) -> int:
        """How many positions there are, by the first leaf."""
        shapes = [jnp.shape(leaf) for leaf in jax.tree.leaves(self.positions)]
        return shapes[0][0] if shapes and shapes[0] else 1

    def of(self, chains: int) -> PyTree[Array]:
        """The positions as arrays; raise unless there is one per chain."""
        _check_position(self.positions, "fk.PerChain needs a tree like theta with an axis over chains, not")
        positions = as_arrays(self.positions)
        for leaf in jax.tree.leaves(positions):
            if leaf.ndim == 0 or leaf.shape[0] != chains:
                raise ValueError(
                    f"fk.PerChain needs a leading axis of {chains}, one position per chain, on every leaf; "
                    f"one has the shape {leaf.shape}."
                )
        return positions


@dataclass(frozen=True)
class WarmedUp:
    """Where warm-up left the chains, in the sampler's coordinates: the start of a second run."""

    positions: PyTree[Array]
    notes: tuple[str, ...]
    one_start: bool

    def of(self, chains: int) -> PyTree[Array]:
        """Positions of `chains` chains: a second run may have more, or fewer, than were warmed up."""
        if all(x.shape[0] == chains for x in jax.tree.leaves(self.positions)):
            return self.positions
        return jax.tree.map(lambda x: x[np.arange(chains) % x.shape[0]], self.positions)


# Theta of all chains, a function of a key that draws it for each, or theta of each chain.
Init: TypeAlias = PyTree[Any] | Callable[[Key[Array, ""]], PyTree[Any]] | PerChain


def check_same_target(target: Target | None, dynamics: Dynamics | SDE | None, init: Init) -> None:
    """Raise where a sampler made of dynamics comes with another target, as far as one step tells."""
    H = None if dynamics is None else dynamics.hamiltonian
    if not isinstance(target, Target) or not isinstance(H, Hamiltonian) or not isinstance(init, Mapping):
        return
    here = as_arrays(H.position_of(dict(init)))
    there = jax.tree.map(lambda x: x + jnp.asarray(0.1, x.dtype), here)
    try:
        theirs, ours = (U(there) - U(here) for U in (target.potential, H.potential))
    except (TypeError, ValueError, KeyError):  # of another shape: other checks say so
        return
    off = jnp.abs(theirs - ours)
    if bool(off > 1e-2 * (jnp.abs(theirs) + jnp.abs(ours)) + 1e-4):
        raise ValueError(
            "the target is not that of the sampler's dynamics, whose U changes otherwise around init. Give "
            "the target that the dynamics were made of: it is used for diagnostics."
        )


def differs(init: Init) -> bool:
    """Whether each chain has its own start."""
    return is_function(init) or isinstance(init, PerChain)


# A start that does not come back from the unconstrained space to within this is checked individually.
_ROUND_TRIP = 1e-3


def first_states(
    placed: Sampler,
    target: Target | None,
    init: Init,
    keys: Key[Array, "chains 3"],
    batch_size: int | None = None,
) -> Any:
    """The first state of every chain; a run by minibatches has memory for `batch_size` rows."""
    positions = checked_positions(placed, target, init, keys, batch_size)
    states = start_chains(placed, positions, keys[:, 1])
    if placed.holds_potential:
        check_chains(states, placed.own_target)
    return states


def check_chains(states: PyTree[Array], target: Target | None) -> None:
    """Raise unless U and its gradient are finite where every chain starts, naming the row that is not."""
    point = states.memory.point
    potentials = np.asarray(point.potential)
    gradients = potentials[:, None]
    if point.gradient is not None:
        gradients = np.asarray(ravel_each(point.gradient))
    if np.isfinite(potentials).all() and np.isfinite(gradients).all():
        return
    for chain, (U, gradient) in enumerate(zip(potentials, gradients, strict=True)):
        try:
            check_finite_start(U, gradient)
        except ValueError as error:
            row = unusable_row(target, entry(states.position, chain))
            raise ValueError(f"chain {chain + 1} of {len(potentials)}: {row or error}") from error


def unusable_row(target: Target | None, position: PyTree[Array]) -> str | None:
    """The first datum that makes U, or its gradient, not finite at a position; None without data."""
    return target.unusable_row(position) if isinstance(target, TargetWithData) else None


def given_positions(init: Init, keys: Key[Array, "chains 3"]) -> PyTree[Array]:
    """Where each chain starts, as `init` says."""
    number = keys.shape[0]
    if isinstance(init, PerChain):
        return sharded(init.of(number), 1)
    if is_function(init):
        return sharded(jax.vmap(partial(_drawn, init))(keys[:, 0]), 1)
    _check_position(init, "init must be theta, an array or a tree of arrays, or a function of a key; it is")
    # From the host's memory straight to the devices that divide it: it may be too large for one.
    divided = jax.tree.map(lambda x: sharded(x, 0) if isinstance(x, np.ndarray) else x, init)
    one = sharded(as_arrays(divided), 0)
    return sharded(jax.tree.map(lambda x: jnp.broadcast_to(x, (number, *x.shape)), one), 1)


def _drawn(init: Callable[[Key[Array, ""]], PyTree[Array]], key: Key[Array, ""]) -> PyTree[Array]:
    """The start that a function draws for a key."""
    try:
        inspect.signature(init).bind(key)
    except TypeError as error:
        raise TypeError(
            f"init must be a function of a key, as in init=lambda key: jax.random.normal(key, (3,)): {error}."
        ) from error
    except ValueError:  # some compiled functions have no signature
        pass
    position = init(key)
    _check_position(position, "init must return theta, an array or a tree of arrays; it returned")
    return position


def _check_position(position: PyTree[Any], wanted: str) -> None:
    """Raise unless theta is made of numbers. None within a tree is no leaf of it."""
    leaves = jax.tree.leaves(position)
    if not leaves:
        raise ValueError(f"{wanted} {position!r}.")
    for leaf in leaves:
        is_array = isinstance(leaf, jax.Array | np.ndarray | np.generic)
        if isinstance(leaf, str | bytes) or (is_array and leaf.dtype.kind in "OUSM"):
            raise TypeError(f"{wanted} {leaf!r}, which is not a number.")


def checked_positions(
    placed: Sampler,
    target: Target | None,
    init: Init,
    keys: Key[Array, "chains 3"],
    batch_size: int | None = None,
) -> PyTree[Array]:
    """Where each chain starts, in the sampler's coordinates; raise where a chain cannot start there.

    The first chain is checked in full, all the others in one compiled call. A chain that is not finite there,
    or breaks a constraint, is then checked individually for its error message. A full check that has passed
    is not repeated for the same sampler, target and position, nor for others of its shapes in such a call.
    """
    number = keys.shape[0]
    positions = given_positions(init, keys)
    check_variable_names(named_leaves(positions))
    own_target = placed.own_target if placed.wants_target else None
    transform = own_target if own_target is not None and own_target.is_constrained else None

    in_blocks = placed if batch_size is None else placed.in_blocks(batch_size)

    def check(chain: int, computes: bool = True) -> None:
        position, key = entry((positions, keys[:, 1]), chain)
        identity = identity_of((placed, target, position))
        if identity is not None and identity in _PASSED:
            return
        try:
            _check(in_blocks, target, transform, position, key, computes)
        except ValueError as error:
            if hint := _of_lists(init):
                raise ValueError(f"{str(error).rstrip('.')}. {hint}") from error
            if not differs(init):
                raise
            raise ValueError(f"chain {chain + 1} of {number}, which has its own start: {error}") from error
        if computes:
            _remember(identity)

    by_all = differs(init) and number > 1
    shapes = jax.tree.map(lambda x: f"{x.shape} {x.dtype}", positions)
    # With a potential in its states, that and the gradient are checked for all chains.
    of_shapes = identity_of((placed, target, shapes)) if by_all and placed.holds_potential else None
    if of_shapes is None or of_shapes not in _PASSED:
        # First: its errors say more than those of a call for all chains at once, which has the value of U.
        check(0, computes=not by_all or isinstance(target, TargetWithData))
        _remember(of_shapes)
    if by_all:
        checked_target = target if placed.wants_target else placed.own_dynamics
        first_row = span(checked_target.data, 0, 1) if isinstance(checked_target, TargetWithData) else None
        is_sound = np.asarray(run_quickly(_sound, transform, checked_target, positions, first_row))
        for chain in np.flatnonzero(~is_sound):
            check(int(chain))
    return positions if transform is None else _unconstrained(transform, positions)


def _of_lists(init: Init) -> str:
    """What to say of the first list of numbers in theta, which JAX takes for a tree of them."""

    def is_list(x: Any) -> bool:  # a list of arrays is a tree, as of the layers of a network
        return isinstance(x, list) and all(isinstance(y, int | float) for y in jax.tree.leaves(x))

    for path, leaf in jax.tree.leaves_with_path(init, is_leaf=is_list):
        if is_list(leaf):
            array = f"jnp.zeros({len(leaf)})" if leaf == [0] * len(leaf) else f"jnp.array({leaf})"
            return f"init{jax.tree_util.keystr(path)} is a list; for a vector give {array}."
    return ""


# What passed the full check, the oldest first: a second run from the same start is not checked again. The key
# of the run is no part of it: it draws auxiliary variables, from densities in which they are finite.
_PASSED: dict[Hashable, None] = {}
_MOST_PASSED = 64


def forget_passed() -> None:
    """Check all starts again, as a density has changed."""
    _PASSED.clear()


def _remember(identity: Hashable | None) -> None:
    if identity is None:
        return
    _PASSED[identity] = None
    if len(_PASSED) > _MOST_PASSED:
        del _PASSED[next(iter(_PASSED))]


def _unconstrained(transform: Target, positions: PyTree[Array]) -> PyTree[Array]:
    return lowered(jax.vmap(transform.unconstrain)(raised(positions)), positions)


def _check(
    placed: Sampler,
    target: Target | None,
    transform: Target | None,
    position: PyTree[Array],
    key: Key[Array, ""],
    computes: bool,
) -> None:
    """Raise where a chain cannot start; without `computes` U is traced alone, and may not be finite."""
    if transform is not None:
        transform.check(raised(position))
        position = lowered(transform.unconstrain(raised(position)), position)
    if target is not None and placed.wants_target:
        if computes:
            target.validate(raised(position))
        else:
            jax.eval_shape(lambda theta: target.validate(raised(theta)), position)
    if not placed.holds_potential:
        try:
            placed.check_start(position, key)
        except ValueError as error:
            row = unusable_row(placed.own_target, position) if placed.wants_target else None
            raise (ValueError(row) if row else error) from error


def _sound(
    transform: Target | None,
    target: Target | Dynamics | SDE | None,
    positions: PyTree[Array],
    first_row: PyTree[Array],
) -> Array:
    """For each chain: whether its start meets the constraints and U, of one datum, is finite."""

    def one(position: PyTree[Array]) -> Array:
        position = raised(position)
        sound = _finite(position)
        if transform is not None:
            free = transform.unconstrain(position)
            back = transform.constrain(free)
            off = jax.tree.map(
                lambda a, b: jnp.all(jnp.abs(a - b) <= _ROUND_TRIP * (1 + jnp.abs(b))), back, position
            )
            sound &= jnp.all(jnp.stack(jax.tree.leaves(off)))
            position = free
        if isinstance(target, Dynamics | SDE):
            return sound & _finite(hamiltonian_value(target.hamiltonian, position))
        if target is None:
            return sound
        if isinstance(target, TargetWithData):
            return sound & _finite(target.minibatch_potential(position, first_row))
        return sound & _finite(target.potential(position))

    return jax.vmap(one)(positions)


def _finite(tree: PyTree[Array]) -> Array:
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(tree)]))
