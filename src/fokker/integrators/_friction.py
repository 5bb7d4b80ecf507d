"""Friction on the momentum that acts coordinate by coordinate, as exact solutions of it need."""

from collections.abc import Collection, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fokker._core.required import require
from fokker._core.state import State, depends_on
from fokker.dynamics import SDE, Dynamics
from fokker.dynamics._checks import probe
from fokker.integrators._gradient import no_force


def friction_rate(dynamics: Dynamics, z: State) -> PyTree[Array]:
    """γ of f_r = -γ⊙r + …, one rate per coordinate."""
    rates = _product(dynamics, z, jax.tree.map(jnp.ones_like, z["r"]))
    return jax.tree.map(jnp.negative, rates)


def _product(dynamics: Dynamics, z: State, v: PyTree[Array]) -> PyTree[Array]:
    """∂f_r/∂r v."""
    still = no_force(dynamics, z)
    return jax.jvp(lambda r: dynamics.drift({**z, "r": r}, still)["r"], (z["r"],), (v,))[1]


def check_friction(dynamics: Dynamics | SDE, z: State, what: str, variables: Collection[set[str]]) -> None:
    """Raise unless f_r is linear in r coordinate by coordinate, D diagonal, and noise on r alone."""
    use = "Use SymplecticEuler() or EulerMaruyama()."
    what = f"{what} with a diagonal D on r and friction coordinate by coordinate"
    if not (isinstance(dynamics, Dynamics) and isinstance(z, Mapping) and set(z) in variables):
        raise ValueError(f"{what}; this state or sampler is of another kind. {use}")
    diagonal = dynamics.D.diagonal(z)
    if diagonal is None:
        raise ValueError(f"{what}; this D is not diagonal. {use}")
    noisy = [name for name in z if name != "r"]
    still = sum(jnp.sum(jnp.abs(x)) for name in noisy for x in jax.tree.leaves(diagonal[name]))
    require(
        still == 0,
        lambda: ValueError(f"{what}; this D has noise on {' or '.join(noisy)}. Use EulerMaruyama()."),
    )
    require(
        ~_pushes_position(dynamics, z),
        lambda: ValueError(
            f"{what}, and no force on theta itself; these have a Q or D that puts one there. {use}"
        ),
    )
    # A thermostat's Q depends on r, by which ξ is driven.
    fixed = ("theta",) if "xi" in z else tuple(z)
    turns = any(depends_on(function, name, z) for function in dynamics.Q.functions() for name in fixed)
    turns |= any(depends_on(function, "r", z) for function in dynamics.D.functions())

    def varies() -> ValueError:
        return ValueError(f"{what}, and Q and the mass the same everywhere; these are not. {use}")

    if turns:
        raise varies()
    require(~_moves_with_state(dynamics, z) & _is_linear(dynamics, z), varies)


def _pushes_position(dynamics: Dynamics, z: State) -> Array:
    """Whether f_θ depends on ∇U, as far as one random gradient tells."""
    rest = no_force(dynamics, z)
    if rest is None:
        return jnp.asarray(False)
    return _differ([_drifts(dynamics, "theta", [(z, probe(0, rest)), (z, rest)])])


def _moves_with_state(dynamics: Dynamics, z: State) -> Array:
    """Whether f_θ depends on theta, or what ∇U does to r depends on r, as far as a random point tells."""
    rest = no_force(dynamics, z)
    near = jax.tree.map(lambda x, w: x + 0.3 * (1 + jnp.abs(x)) * w, z["theta"], probe(1, z["theta"]))
    here = {**z, "r": probe(2, z["r"])}
    pairs = [_drifts(dynamics, "theta", [(here, rest), ({**here, "theta": near}, rest)])]
    if rest is not None:
        still, push = {**z, "r": jax.tree.map(jnp.zeros_like, z["r"])}, probe(3, rest)

        def force(at: State) -> PyTree[Array]:
            return jax.tree.map(jnp.subtract, *_drifts(dynamics, "r", [(at, push), (at, rest)]))

        pairs.append((force(still), force(here)))
    return _differ(pairs)


def _drifts(dynamics: Dynamics, name: str, places: list[tuple[State, PyTree[Array] | None]]) -> Any:
    return tuple(dynamics.drift(z, gradient)[name] for z, gradient in places)


def _differ(pairs: list[Any]) -> Array:
    """Whether any pair of trees differs beyond rounding; NaN, as outside a support, is no evidence."""
    off = [
        jnp.max(jnp.abs(a - b), initial=0) > 1e-3 * (1e-6 + jnp.max(jnp.abs(a), initial=0))
        for one, other in pairs
        for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    ]
    return jnp.any(jnp.stack(off))


def _is_linear(dynamics: Dynamics, z: State) -> Array:
    """Whether f_r = f_r(r = 0) - γ⊙r, as far as one random direction tells."""
    v = probe(0, z["r"])
    rate = friction_rate(dynamics, z)
    still = no_force(dynamics, z)

    def change(r: PyTree[Array]) -> PyTree[Array]:
        zero = jax.tree.map(jnp.zeros_like, r)
        moved, rest = (dynamics.drift({**z, "r": x}, still)["r"] for x in (r, zero))
        return jax.tree.map(jnp.subtract, moved, rest)

    off = [
        jnp.max(jnp.abs(drift_change + g * x)) <= 1e-3 * jnp.max(jnp.abs(g * x))
        for product in (change(v), _product(dynamics, z, v))
        for drift_change, g, x in zip(*(jax.tree.leaves(t) for t in (product, rate, v)), strict=True)
    ]
    return jnp.all(jnp.stack(off))
