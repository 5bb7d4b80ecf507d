"""Rows of tables that move one by one: where they stand in a batch, and the law by which they catch up."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, UInt32

from fokker._core.random import normal
from fokker._core.state import State, same_shapes, same_structure
from fokker._core.types import Number
from fokker.dynamics import Dynamics
from fokker.integrators.quadratic_well import langevin_law, underdamped_law
from fokker.samplers.family import Family
from fokker.samplers.plain import Plain
from fokker.targets.tables import RowPrior, Table

Tables = dict[str, Float[Array, "rows k"]]

REFUSED = "fk.lazy cannot move rows one by one with this sampler"


class Coefficients(NamedTuple):
    """Of the dynamics of the prior: D where theta alone moves, else friction C and mass M of its momentum."""

    friction: Array
    mass: Array | None = None


class Places(NamedTuple):
    """Where the rows of a table stand in a batch: in the place of the first datum that depends on them.

    `of_datum`: that place, for each datum. `written`: the row that each place is written back to, a number
    beyond the table where the row stands in an earlier place: what is computed there is dropped. `seen`: when
    the row of each place was last seen. `table`: the array of these, overwritten.
    """

    of_datum: Int[Array, " n"]
    written: Int[Array, " n"]
    seen: UInt32[Array, " n"]
    table: UInt32[Array, " rows"]


def places_of(seen: UInt32[Array, " rows"], numbers: Int[Array, " n"]) -> Places:
    """The places of rows in a batch, without sorting: `seen`, to be written anyway, notes them meanwhile."""
    n, rows = numbers.shape[0], seen.shape[0]
    order = jnp.arange(n, dtype=jnp.uint32)
    when = seen.at[numbers].get(mode="clip")
    # Any number from n on would do. This one depends on what was read: without an order between reading and
    # writing, XLA copies the whole table at every step. By a minimum, since it is not defined everywhere
    # which of several writes is the last.
    cleared = seen.at[numbers].set(jnp.maximum(when, np.uint32(n)), mode="drop")
    table = cleared.at[numbers].min(order, mode="drop")
    first = table.at[numbers].get(mode="clip")
    written = jnp.where(first == order, numbers, rows)
    return Places(first.astype(numbers.dtype), written, when, table)


def for_each(function: Callable[[str, Array], Any], z: dict[str, Tables]) -> dict[str, Any]:
    """`function(name, table)` of each table of each variable."""
    return {variable: {name: function(name, x) for name, x in t.items()} for variable, t in z.items()}


def moved_rows(
    key: Key[Array, ""],
    rows: dict[str, Array],
    prior: Table,
    time: Float[Array, " m"],
    scale: Float[Array, " m"] | None,
    coefficients: Coefficients,
    temperature: Number,
) -> dict[str, Array]:
    """Rows after a time of their own each, in the eigenvectors of the prior's precision."""
    theta = rows["theta"]
    dtype = theta.dtype
    # One column per row of the table: a CPU computes short rows several times slower.
    V, curvature = prior.eigenvectors.astype(dtype), prior.eigenvalues.astype(dtype)[:, None]
    mean, time = prior.mean.astype(dtype), time[None, :]
    T, friction = jnp.asarray(temperature, dtype), coefficients.friction.astype(dtype)
    deviations = (theta - mean[None, :]).T
    s = jnp.ones_like(time) if scale is None else scale.astype(dtype)[None, :]
    # In q = θ/s, of unit mass, the curvature is s²λ.
    x, curvature = V.T @ deviations / s, curvature * s**2
    if coefficients.mass is None:
        decay, spread = langevin_law(curvature, time, friction, T)
        x = decay * x + spread * normal(key, x.shape, dtype)
        return {**rows, "theta": mean[None, :] + (s * (V @ x)).T}
    law = underdamped_law(curvature, time, friction, coefficients.mass.astype(dtype), T)
    r = V.T @ rows["r"].T
    w_x, w_r = normal(key, (2, *x.shape), dtype)
    new_x = law.P_xx * x + law.P_xr * r + law.cross * w_r + law.rest * w_x
    new_r = law.P_rx * x + law.P_rr * r + law.spread * w_r
    return {**rows, "theta": mean[None, :] + (s * (V @ new_x)).T, "r": (V @ new_r).T}


def family_of(inner: Plain) -> Family:
    assert isinstance(inner.dynamics, Family)
    return inner.dynamics


def coefficients_of(inner: Plain) -> Coefficients:
    """D, or C and M, read off the dynamics at a state of one row per table; raise where it is coupled."""
    tables: dict[str, Table] = inner.own_target.log_prior.tables
    theta = {name: table.mean[None, :] + 0.5 for name, table in tables.items()}
    two_rows = {name: jnp.concatenate([x, x]) for name, x in theta.items()}
    z: State = {
        "theta": two_rows,
        **family_of(inner).auxiliaries(jax.random.key(0), two_rows, inner.temperature),
    }
    if "r" in z:
        z = {**z, "r": jax.tree.map(jnp.ones_like, two_rows)}
    for variable, x in z.items():
        if not same_shapes(x, two_rows):
            what = f"{variable} is one for all rows" if same_structure(x, 0.0) else f"{variable} couples rows"
            hint = ' Take fk.samplers.sgnht(…, kind="diagonal").' if variable == "xi" else ""
            raise ValueError(f"{REFUSED}: {what}.{hint}")
    refused = ValueError(
        f"{REFUSED}: their dynamics must be those of sgld, sghmc or sgnht, with D, friction and mass one "
        "number each."
    )
    dynamics = inner.placed
    try:
        inner.integrator.check(dynamics, z)
        if not isinstance(dynamics, Dynamics):
            raise refused
        diagonal = dynamics.D.diagonal(z)
        pull = _prior_gradient(tables, z["theta"])
        drift = dynamics.drift(z, pull)
    except (TypeError, ValueError) as error:
        raise refused from error
    noisy = "r" if "r" in z else "theta"
    if diagonal is None:
        raise refused
    friction = jax.tree.leaves(diagonal[noisy])[0].reshape(-1)[0]
    mass = None
    expected: State
    if noisy == "theta":
        expected = {"theta": jax.tree.map(lambda g: -friction * g, pull)}
    else:
        first = jax.tree.leaves(z["r"])[0].reshape(-1)[0]
        mass = first / jax.tree.leaves(drift["theta"])[0].reshape(-1)[0]
        expected = {
            "theta": jax.tree.map(lambda r: r / mass, z["r"]),
            "r": jax.tree.map(lambda g, r: -g - friction / mass * r, pull, z["r"]),
        }
    for variable, tree in expected.items():
        for a, b in zip(jax.tree.leaves(drift[variable]), jax.tree.leaves(tree), strict=True):
            off = jnp.max(jnp.abs(a - b)) > 1e-3 * (1e-6 + jnp.max(jnp.abs(b)))
            if not isinstance(off, jax.core.Tracer) and bool(off):
                raise refused
    return Coefficients(friction, mass)


def _prior_gradient(tables: dict[str, Table], theta: Tables) -> Tables:
    return jax.grad(lambda t: -RowPrior(tables)(t))(theta)
