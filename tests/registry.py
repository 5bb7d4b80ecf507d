"""Every sampler of `fk.samplers`, listed once: how it is made, and what it claims.

`test_every_sampler.py` runs one list of checks over it. The names of settings and of the fields of a State
and an Info stand here alone.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import fokker as fk
from fokker import fields, samplers
from fokker.integrators import EulerMaruyama, Splitting

# Where a chain starts, and its target: a tree of two leaves, and a density that is not Gaussian.
THETA = {"a": jnp.array([0.75, -0.5, 1.25]), "b": jnp.array([0.5, 0.25])}


# Functions with names, and not lambda: samplers that have them can be pickled.
def _log_density(theta: Any) -> Any:
    return -jnp.sum(theta["a"] ** 4) / 4 - jnp.sum(theta["b"] ** 2) / 2


def _log_likelihood(theta: Any, x: Any) -> Any:
    return -jnp.sum((theta["a"] - x) ** 2)


def _row_likelihood(rows: Any, datum: Any) -> Any:
    return -((datum["y"] - rows["a"] @ rows["b"]) ** 2) / 2


TARGET = fk.Density(_log_density)


@dataclasses.dataclass(frozen=True)
class Setting:
    """A target and a start that suit a sampler, and data with a batch of them."""

    target: Any
    theta: Any
    posterior: Any
    batch: Any


USUAL = Setting(
    TARGET,
    THETA,
    fk.Posterior(TARGET.log_density, _log_likelihood, jnp.ones((6, 1))),
    jnp.ones((2, 1)),
)


def of_rows() -> Setting:
    """Tables of three and of two rows, of which a batch sees one twice and leaves out others."""
    data = {"a": np.arange(6) % 3, "b": np.arange(6) % 2, "y": np.linspace(-1, 1, 6, dtype=np.float32)}
    target = fk.tables(
        {"a": fk.Table(3, np.zeros(2), 2.0), "b": fk.Table(2, np.ones(2))},
        _row_likelihood,
        data,
    )
    theta = {
        "a": jnp.array([[0.75, -0.5], [1.25, 1.0], [0.5, 0.25]]),
        "b": jnp.array([[0.5, 1.5], [2.0, 1.0]]),
    }
    batch = {"a": jnp.array([0, 2, 2]), "b": jnp.array([1, 1, 1]), "y": jnp.array([0.5, 1.0, -0.5])}
    return Setting(target, theta, target, batch)


@dataclasses.dataclass(frozen=True)
class Entry:
    """A sampler with settings that suit its target, and its claims.

    `exact`: its step size leaves no bias. `half_precision`: it takes theta in bfloat16 and float16, and
    rounds at random. `minibatches`: a step takes a batch. `another_name`: for the code of one beside it.
    `keys_are_followed`: JAX's own search for keys that are used twice is not misled, as it is by a loop that
    takes the next key of an array each time, and by a branch that uses one under `vmap`.
    """

    make: Callable[[], Any]
    exact: bool = False
    half_precision: bool = False
    minibatches: bool = False
    another_name: bool = False
    keys_are_followed: bool = True
    setting: Setting = USUAL


def rounding(make: Callable[[], Any], **claims: bool) -> Entry:
    """A sampler of the stochastic-gradient kind: minibatches and half precision."""
    return Entry(make, half_precision=True, minibatches=True, **claims)


def exact(make: Callable[[], Any], **claims: bool) -> Entry:
    """A sampler that keeps the target whatever its step size."""
    return Entry(make, exact=True, **claims)


def _inverse_metric(theta: Any) -> Any:
    return jax.tree.map(lambda x: 1 + x**2, theta)


def _inverse_metric_root(theta: Any) -> Any:
    return jax.tree.map(lambda x: jnp.sqrt(1 + x**2), theta)


def metric() -> tuple[fields.Elementwise, fields.Elementwise]:
    """G⁻¹ and its root."""
    return fields.Elementwise(_inverse_metric), fields.Elementwise(_inverse_metric_root)


def conditional(name: str) -> Callable[[Any, Any], Any]:
    """A draw of one block of theta given the others."""
    return functools.partial(_draw_block, name)


def _draw_block(name: str, key: Any, theta: Any) -> Any:
    return jax.random.normal(key, theta[name].shape)


def of_dynamics(**settings: Any) -> Any:
    """Dynamics that have their own target, over a state with a momentum."""
    return samplers.recipe(fk.dynamics.underdamped(TARGET.potential), 0.1, **settings)


def of_hamiltonian() -> Any:
    """Hamiltonian dynamics of one's own, whose momentum is drawn for every tree."""
    dynamics = fk.dynamics.hamiltonian_flow(TARGET.potential, 2.0)
    tree = fk.corrections.Tree(max_depth=3)
    return samplers.recipe(dynamics, 0.3, integrator=fk.integrators.Leapfrog(), correction=tree)


def of_formulas() -> Any:
    """The same dynamics as a drift and a diffusion."""
    return samplers.recipe(fk.SDE(_drift, fields.symmetric({("r", "r"): 1.0}), _energy), 0.1)


def _drift(theta: Any, r: Any) -> Any:
    force = jax.grad(TARGET.potential)(theta)
    return {"theta": r, "r": jax.tree.map(lambda f, p: -f - p, force, r)}


def _energy(theta: Any, r: Any) -> Any:
    return TARGET.potential(theta) + sum(jnp.sum(p**2) for p in jax.tree.leaves(r)) / 2


# By the name of the sampler, and after a comma by the settings that are not its usual ones.
EVERY = {
    "recipe": Entry(of_dynamics, half_precision=True),
    "recipe, Γ estimated": Entry(lambda: of_dynamics(gamma="estimate"), half_precision=True),
    "recipe, formulas": Entry(of_formulas, half_precision=True),
    "sgld": rounding(lambda: samplers.sgld(0.1)),
    "sgfs": rounding(lambda: samplers.sgfs(0.1, 1.0, None)),
    "sgrld": rounding(lambda: samplers.sgrld(0.1, metric()[0])),
    "psgld": rounding(lambda: samplers.psgld(0.1, 0.1)),
    "sghmc": rounding(lambda: samplers.sghmc(0.1, resample=1), keys_are_followed=False),
    "naive_sghmc": rounding(lambda: samplers.naive_sghmc(0.1), another_name=True),
    "sgnht": rounding(lambda: samplers.sgnht(0.1, kind="diagonal")),
    "sgnht_by_ding": rounding(lambda: samplers.sgnht_by_ding(0.01, 0.1), another_name=True),
    "sgrhmc": rounding(lambda: samplers.sgrhmc(0.1, *metric()), another_name=True),
    "gsgrhmc": rounding(lambda: samplers.gsgrhmc(0.1, *metric())),
    "naive_sgrhmc": rounding(lambda: samplers.naive_sgrhmc(0.1, *metric()), another_name=True),
    "ula": rounding(lambda: samplers.ula(0.1), another_name=True),
    "ulmc": rounding(lambda: samplers.ulmc(0.1), another_name=True),
    "replica_exchange": rounding(lambda: samplers.replica_exchange(samplers.sgld(0.1), (1.0, 2.0), every=1)),
    "lazy": Entry(lambda: fk.lazy(samplers.sghmc(0.1)), minibatches=True, setting=of_rows()),
    "recipe, tree": Entry(of_hamiltonian, exact=True),
    "ghmc": exact(lambda: samplers.ghmc(0.1, mass_matrix="identity")),
    "gibbs": exact(lambda: samplers.gibbs({name: conditional(name) for name in "ab"})),
    "gibbs_normal": exact(lambda: samplers.gibbs_normal(jnp.zeros(5), jnp.eye(5))),
    "hmc": exact(lambda: samplers.hmc(0.1, 2, mass_matrix="identity")),
    "mala": exact(lambda: samplers.mala(0.1)),
    "maula": exact(lambda: samplers.maula(0.1)),
    "mchmc": exact(lambda: samplers.mchmc(0.1, 0.1, adjusted=True)),
    "mclmc": exact(lambda: samplers.mclmc(0.1, 0.2, adjusted=True)),
    "mclmc, unadjusted": Entry(lambda: samplers.mclmc(0.1, 0.2, adjusted=False)),
    "naive_nuts": exact(lambda: samplers.naive_nuts(0.3, max_depth=4)),
    "nuts": exact(lambda: samplers.nuts(0.3, mass_matrix="identity")),
    "rhmc": exact(lambda: samplers.rhmc(0.1, 1.0, 2)),
    "rwm": exact(lambda: samplers.rwm(0.1)),
    "slice_sampler": exact(samplers.slice_sampler, keys_are_followed=False),
}
ROUNDING = [name for name, entry in EVERY.items() if entry.half_precision and not entry.another_name]
REFUSING_HALF = [
    name for name, entry in EVERY.items() if not entry.half_precision and not name.startswith("recipe")
]


def placed(name: str, target: Any = None) -> Any:
    """The sampler on its target, or on another."""
    sampler = EVERY[name].make()
    target = EVERY[name].setting.target if target is None else target
    return sampler.on(target) if sampler.wants_target else sampler


def started(sampler: Any, theta: Any = THETA, key: Any = None) -> Any:
    """Its first state."""
    if sampler.wants_target:
        return sampler.init(theta, key=jax.random.key(1) if key is None else key)
    momentum = jax.tree.map(lambda x: jnp.full(x.shape, 0.5, x.dtype), theta)
    return sampler.init({"theta": theta, "r": momentum})


def past_the_first(state: Any) -> Any:
    """The state, or one from which psgld moves: at first it stands still and gathers V."""
    if isinstance(state, samplers.SamplerState) and "V" in state.z:
        ones = jax.tree.map(jnp.ones_like, state.z["V"])
        return state._replace(step=state.step + 50, z={**state.z, "V": ones})
    return state


def claims_to_be_exact(sampler: Any) -> bool:
    """Whether a run takes it to have no bias by its step size."""
    return sampler.is_exact


def is_finite(info: Any) -> Any:
    """What a step says of whether every number still is finite."""
    return info.is_finite


# Samplers whose step is affine on a Gaussian ----------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Affine:
    """A sampler made of a step size and a friction or diffusion; its mass, and the order of its bias."""

    make: Callable[..., Any]
    mass: Any = None
    order: int = 1


def gsgrhmc(h: Any, c: Any, **settings: Any) -> Any:
    """In the constant metric G⁻¹ = c."""
    return samplers.gsgrhmc(h, fields.Scalar(c), fields.Scalar(jnp.sqrt(c)), **settings)


AFFINE = {
    "sgld": Affine(lambda h, c: samplers.sgld(h, c)),
    "sgfs": Affine(lambda h, c: samplers.sgfs(h, c, 0.0)),
    "sgrld": Affine(lambda h, c: samplers.sgrld(h, fields.Scalar(c))),
    "ula": Affine(lambda h, c: samplers.ula(h, c)),
    "sghmc": Affine(lambda h, c: samplers.sghmc(h, c), 1.0),
    "sghmc, mass": Affine(lambda h, c: samplers.sghmc(h, c, 2.5), 2.5),
    "sghmc, Euler": Affine(lambda h, c: samplers.sghmc(h, c, 2.5, integrator=EulerMaruyama()), 2.5),
    "sghmc, ABOBA": Affine(lambda h, c: samplers.sghmc(h, c, 2.5, integrator=Splitting("ABOBA")), 2.5, 2),
    "sghmc, BAOAB": Affine(lambda h, c: samplers.sghmc(h, c, 2.5, integrator=Splitting("BAOAB")), 2.5, 2),
    "ulmc": Affine(lambda h, c: samplers.ulmc(h, c, 2.5), 2.5),
    "sgrhmc": Affine(lambda h, c: samplers.sgrhmc(h, fields.Scalar(c), fields.Scalar(jnp.sqrt(c))), 1.0),
    "gsgrhmc": Affine(gsgrhmc, 1.0),
}
