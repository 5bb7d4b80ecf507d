"""Symmetric splittings of underdamped dynamics and of thermostats: BAOAB and relatives."""

from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fokker._core.required import require
from fokker._core.state import State
from fokker._core.types import Number
from fokker.dynamics import SDE, Dynamics
from fokker.fields import Field
from fokker.fields._blocks import vanishes
from fokker.integrators._friction import check_friction, friction_rate
from fokker.integrators._gradient import evaluate, no_force
from fokker.integrators._integrator import StepInput
from fokker.integrators._proposal import Correctable, Point, Proposal, evaluate_point
from fokker.integrators.euler_maruyama import one_number
from fokker.integrators.leapfrog import add


class Splitting(Correctable):
    r"""The flows A, B, O and, for a thermostat, D of the dynamics, composed in the order of a word.

        A: θ' = θ + t f_θ        (drift)
        B: r' = r + t (-∇Ũ …)    (kick: the part of f_r that is not friction)
        O: r' = e^{-γt} r + √(Tc(1 - e^{-2γt})/γ) w     (friction and noise, solved exactly)
        D: ξ' = ξ + t f_ξ        (thermostat)

    with c the diagonal of D on r and γ the rate of friction: c/mass, or ξ/mass in a thermostat. Each letter
    acts for the step divided by how often it occurs in the word; a word that reads the same backwards has
    weak order 2 (Leimkuhler and Matthews 2013; Leimkuhler and Shang 2016). `"ABOBA"` and, for thermostats,
    `"ADBOBDA"` take one gradient per step and are the default; `"BAOAB"` takes two. For dynamics of a
    position `theta`, a momentum `r` and at most a thermostat `xi`, with a diagonal D on r and friction
    coordinate by coordinate.

    Arguments:

    - `word`: the order of the flows, a palindrome of A, B, one O and for thermostats D; None for "ABOBA", or
      "ADBOBDA" with a thermostat.

    ```python
    sampler = fk.samplers.sghmc(0.1, integrator=fk.integrators.Splitting("BAOAB"))
    trace = fk.sample(target, sampler, init=jnp.zeros(2), steps=1000)
    ```
    """

    word: str | None = eqx.field(static=True, default=None)

    error_order: ClassVar = 3.0

    @property
    def label(self) -> str:  # type: ignore[override]
        """The word."""
        return self.word or "splitting"

    def __check_init__(self) -> None:
        word = self.word
        if word is None:
            return
        letters = set(word) in (set("ABO"), set("ABOD"))
        if not letters or word != word[::-1] or word.count("O") != 1:
            raise ValueError(
                "a splitting is a word of A, B, one O and for thermostats D that reads the same backwards, "
                f"as BAOAB or BADODAB, not {word!r}."
            )

    def _word(self, z: State) -> str:
        if self.word is not None:
            return self.word
        return "ADBOBDA" if "xi" in z else "ABOBA"

    def check(self, dynamics: Dynamics | SDE, z: State, subtracts: bool = False) -> None:
        """Raise unless the friction of these dynamics can be solved exactly."""
        if subtracts:
            raise ValueError(
                "a splitting solves friction and noise exactly and cannot subtract a noise_estimate: use "
                "SymplecticEuler() or EulerMaruyama() with it."
            )
        require(
            not isinstance(dynamics, Dynamics) or ~vanishes(dynamics.D),
            lambda: ValueError(
                "a splitting solves friction and noise exactly, and these dynamics have none: use "
                "fk.integrators.Leapfrog()."
            ),
        )
        what = "splittings are for dynamics of theta and r, and xi in a thermostat,"
        check_friction(dynamics, z, what, ({"theta", "r"}, {"theta", "r", "xi"}))
        if ("D" in self._word(z)) != ("xi" in z):
            need = "needs a D" if "xi" in z else "has no thermostat for the D of"
            raise ValueError(f"this sampler {need} in the word {self.word!r} of its splitting.")

    def fits_simple(self, variables: set[str]) -> bool:
        """Those with a momentum, by the word that is chosen for them."""
        return self.word is None and "r" in variables

    def noise_like(self, dynamics: Dynamics | SDE, z: State, noise_estimate: Field | None = None) -> Any:
        """Noise for r."""
        return dynamics.noise_like(z)

    def advance(self, step: StepInput) -> tuple[State, Array]:
        """The state one step later."""
        dynamics = step.dynamics
        at = lambda z: Point(gradient=evaluate(step.gradient, dynamics, z))  # noqa: E731
        given = dynamics, step.z, at, step.noise, step.step_size, step.probe
        # Heat is for a correction: to trace it takes a tenth of the time of the step.
        return self._compose(*given, counts_heat=False)[0], jnp.zeros(())

    def evaluate(self, dynamics: Dynamics | SDE, z: State) -> Point:
        """U, and ∇U where a step begins with a kick."""
        return evaluate_point(dynamics, z, with_gradient=self._word(z)[0] == "B")

    def propose(
        self, dynamics: Dynamics | SDE, z: State, noise: PyTree[Array], step_size: Number, point: Point
    ) -> Proposal:
        """The step; the energy that friction and noise add is heat, which leaves the work of A and B."""
        known = point if self._word(z)[0] == "B" else None
        at = lambda z: evaluate_point(dynamics, z)  # noqa: E731
        new, heat, last = self._compose(dynamics, z, at, noise, step_size, None, known)
        return Proposal(new, self.evaluate(dynamics, new) if last is None else last, heat)

    def _compose(
        self,
        dynamics: Dynamics | SDE,
        z: State,
        evaluated: Callable[[State], Point],
        noise: PyTree[Array],
        step_size: Number,
        probe: State | None = None,
        point: Point | None = None,
        counts_heat: bool = True,
    ) -> tuple[State, Array, Point | None]:
        """The state one step later, the energy over T that friction and noise added, and U, ∇U if known."""
        assert isinstance(dynamics, Dynamics)
        h = one_number(step_size)
        word = self._word(z)
        heat = jnp.zeros(())
        counts = Counter(word)
        fresh = point is not None
        for letter in word:
            t = h / counts[letter]
            if letter in "AD":
                name = "theta" if letter == "A" else "xi"
                f = dynamics.drift(z, no_force(dynamics, z), probe)[name]
                z = {**z, name: add(z[name], f, t)}
                fresh = fresh and letter == "D"
            elif letter == "B":
                if not fresh:
                    point, fresh = evaluated(z), True
                assert point is not None
                z = {**z, "r": add(z["r"], _kick(dynamics, z, point.gradient, probe), t)}
            else:
                rate = friction_rate(dynamics, z)
                relaxed = {**z, "r": _friction(dynamics, z, noise["r"], t, rate)}
                if counts_heat:
                    heat = heat + _heat(dynamics, z, relaxed, rate)
                z = relaxed
        return z, heat, point if fresh else None


def _kick(dynamics: Dynamics, z: State, force: PyTree[Array] | None, probe: State | None) -> PyTree[Array]:
    """f_r without its friction: f_r at r = 0."""
    still = {**z, "r": jax.tree.map(jnp.zeros_like, z["r"])}
    return dynamics.drift(still, force, probe)["r"]


def _friction(dynamics: Dynamics, z: State, w: PyTree[Array], t: Array, rate: PyTree[Array]) -> PyTree[Array]:
    """The Ornstein–Uhlenbeck process dr = -γr dt + √(2Tc) dW after time t, exactly; γ may be negative."""
    diagonal = dynamics.D.diagonal(z)
    assert diagonal is not None
    T = dynamics.temperature

    def relax(r: Array, c: Array, gamma: Array, noise: Array) -> Array:
        variance = 2 * T * c * t * relative_growth(-2 * gamma * t)
        return jnp.exp(-gamma * t).astype(r.dtype) * r + jnp.sqrt(variance).astype(r.dtype) * noise

    return jax.tree.map(relax, z["r"], diagonal["r"], rate, w)


def _heat(dynamics: Dynamics, z: State, new: State, rates: PyTree[Array]) -> Array:
    r"""log of q(-r' → -r)/q(r → r') of the friction's own step, Σ γ(r'² - r²)/2Tc: with γ = c/m, ΔK/T."""
    diagonal = dynamics.D.diagonal(z)
    assert diagonal is not None

    def one(r: Array, r_new: Array, c: Array, gamma: Array) -> Array:
        noisy = c > 0
        rate = jnp.where(noisy, gamma / jnp.where(noisy, c, 1), 0)
        return jnp.sum(rate * (r_new - r) * (r_new + r)) / (2 * dynamics.temperature)

    each = jax.tree.map(one, z["r"], new["r"], diagonal["r"], rates)
    return jax.tree.reduce(jnp.add, each)


def relative_growth(x: Array) -> Array:
    """(eˣ - 1)/x, accurate where x is small."""
    small = jnp.abs(x) < 1e-4
    safe = jnp.where(small, 1.0, x)
    return jnp.where(small, 1 + x / 2 + x**2 / 6, jnp.expm1(safe) / safe)
