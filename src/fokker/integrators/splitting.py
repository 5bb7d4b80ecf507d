"""Symmetric splittings of underdamped dynamics: BAOAB and its kin."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fokker._module import Module
from fokker._state import State
from fokker.dynamics import SDE, Dynamics
from fokker.fields import Field
from fokker.integrators._gradient import Gradient, evaluate, no_force
from fokker.integrators.euler_maruyama import one_number
from fokker.noise import draw_like


class Splitting(Module):
    r"""The flows A, B and O of underdamped dynamics, composed in the order of a word.

        A: θ' = θ + t f_θ        (drift)
        B: r' = r + t (-∇Ũ …)    (kick: the part of f_r that is not friction)
        O: r' = e^{-ckt} r + √((T/k)(1 - e^{-2ckt})) w     (friction and noise, solved exactly)

    with c the diagonal of D and k the curvature of H in r (1/mass). Each letter acts for the step divided by
    how often it stands in the word; a word that reads the same backwards has weak order 2 (Leimkuhler and
    Matthews 2013). `"ABOBA"` takes one gradient a step, `"BAOAB"` two. For dynamics of
    a position `theta` and a momentum `r` with a diagonal D on r, a constant Q and H = U(θ) + Σ k_i r_i²/2.
    """

    word: str = eqx.field(static=True, default="ABOBA")

    def __check_init__(self) -> None:
        if set(self.word) != set("ABO") or self.word != self.word[::-1] or self.word.count("O") != 1:
            raise ValueError(
                "a splitting is a word of A, B and one O that reads the same backwards, as BAOAB, not "
                f"{self.word!r}."
            )

    def check(self, dynamics: Dynamics | SDE, z: State) -> None:
        """Raise unless these are underdamped dynamics whose friction can be solved exactly."""
        words = "splittings are for dynamics of theta and r with a diagonal D on r and H quadratic in r"
        if not (isinstance(dynamics, Dynamics) and isinstance(z, Mapping) and set(z) == {"theta", "r"}):
            raise ValueError(f"{words}; this state or sampler is of another kind. Use SymplecticEuler().")
        diagonal = dynamics.D.diagonal(z)
        if diagonal is None:
            raise ValueError(f"{words}; this D is not diagonal. Use SymplecticEuler() or EulerMaruyama().")
        still = jax.tree.reduce(jnp.add, jax.tree.map(lambda x: jnp.sum(jnp.abs(x)), diagonal["theta"]))
        if not isinstance(still, jax.core.Tracer) and float(still) != 0:
            raise ValueError(f"{words}; this D has noise on theta. Use EulerMaruyama().")
        if dynamics.Q.varies_with(z, None) or not _is_quadratic(dynamics, z):
            raise ValueError(
                f"{words} coordinate by coordinate, and a constant Q; these are not. Use SymplecticEuler() "
                "or EulerMaruyama()."
            )

    def advance(
        self,
        dynamics: Dynamics | SDE,
        z: State,
        gradient: Gradient,
        noise: Any,
        step_size: Any,
        *,
        probe: State | None = None,
        noise_estimate: Field | None = None,
    ) -> tuple[State, Array]:
        """The state one step later; minibatch noise is not subtracted by an exact friction step."""
        assert isinstance(dynamics, Dynamics)
        if noise_estimate is not None:
            raise ValueError(
                "a splitting solves friction and noise exactly: use Euler steps with noise_estimate."
            )
        h = one_number(step_size)
        counts = Counter(self.word)
        force: PyTree[Array] | None = None
        fresh = False
        for letter in self.word:
            t = h / counts[letter]
            if letter == "A":
                f = dynamics.drift(z, no_force(dynamics, z), probe)["theta"]
                z = {**z, "theta": _add(z["theta"], f, t)}
                fresh = False
            elif letter == "B":
                if not fresh:
                    force, fresh = evaluate(gradient, dynamics, z), True
                z = {**z, "r": _add(z["r"], _kick(dynamics, z, force, probe), t)}
            else:
                z = {**z, "r": _friction(dynamics, z, noise["r"], t)}
        return z, jnp.zeros(())


def _add(x: PyTree[Array], f: PyTree[Array], t: Array) -> PyTree[Array]:
    return jax.tree.map(lambda a, b: a + (t * b).astype(a.dtype), x, f)


def _kick(dynamics: Dynamics, z: State, force: PyTree[Array] | None, probe: State | None) -> PyTree[Array]:
    """f_r without the friction -D∇H."""
    f = dynamics.drift(z, force, probe)["r"]
    friction = dynamics.D.mv(z, dynamics.gradient(z, force))["r"]
    return jax.tree.map(jnp.add, f, friction)


def _curvature(dynamics: Dynamics, z: State, v: PyTree[Array]) -> PyTree[Array]:
    """∂²H/∂r² v."""
    still = no_force(dynamics, z)
    return jax.jvp(lambda r: dynamics.gradient({**z, "r": r}, still)["r"], (z["r"],), (v,))[1]


def _is_quadratic(dynamics: Dynamics, z: State) -> bool:
    """Whether H is Σ k_i r_i²/2 in r, as far as one random direction tells; trusted while traced."""
    v = draw_like("gaussian", jax.random.key(0), jax.eval_shape(lambda: z["r"]))
    k = _curvature(dynamics, z, jax.tree.map(jnp.ones_like, v))
    found = dynamics.gradient({**z, "r": v}, no_force(dynamics, z))["r"]
    products = _curvature(dynamics, z, v)
    off = jax.tree.map(
        lambda k, v, *found: jnp.stack([jnp.max(jnp.abs(x - k * v) / (1e-3 * jnp.abs(k))) for x in found]),
        k,
        v,
        found,
        products,
    )
    largest = jnp.max(jnp.stack(jax.tree.leaves(off)))
    return isinstance(largest, jax.core.Tracer) or bool(largest < 1)


def _friction(dynamics: Dynamics, z: State, w: PyTree[Array], t: Array) -> PyTree[Array]:
    """The Ornstein–Uhlenbeck process dr = -ck r dt + √(2Tc) dW after time t, exactly."""
    diagonal = dynamics.D.diagonal(z)
    assert diagonal is not None
    curvature = _curvature(dynamics, z, jax.tree.map(jnp.ones_like, z["r"]))
    T = dynamics.temperature

    def relax(r: Array, c: Array, k: Array, noise: Array) -> Array:
        # expm1 keeps the digits of 1 - e^{-2ckt} where ckt is small.
        spread = jnp.sqrt(-jnp.expm1(-2 * c * k * t) * T / k)
        return jnp.exp(-c * k * t).astype(r.dtype) * r + spread.astype(r.dtype) * noise

    return jax.tree.map(relax, z["r"], diagonal["r"], curvature, w)
