r"""Samplers whose step moves only the rows of its minibatch; other rows are moved when they are next seen."""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree, UInt32

from fokker._core.count import Count, no_steps
from fokker._core.random import fold_in, split
from fokker._core.state import as_arrays, describe_shapes
from fokker._core.types import Arrays, Number
from fokker.batches import Batch
from fokker.gradients import Estimator
from fokker.samplers._checks import check_position
from fokker.samplers._rows import (
    REFUSED,
    Coefficients,
    Tables,
    coefficients_of,
    family_of,
    for_each,
    moved_rows,
    places_of,
)
from fokker.samplers._time_scale import curvature_time
from fokker.samplers.contract import Followed, Info, Memory, Sampler, SamplerState
from fokker.samplers.coordinates import ByRow
from fokker.samplers.corrected import Corrected
from fokker.samplers.plain import Plain
from fokker.samplers.schedules import StepSize
from fokker.targets.posterior import Posterior
from fokker.targets.tables import RowLikelihood, RowPrior, Table
from fokker.targets.target import Target


class Seen(NamedTuple):
    """What is remembered of rows: each stands in the state as it was after step `rows` of the chain.

    `key`: the words of a key, for reading rows without moving them.
    """

    rows: dict[str, UInt32[Array, " rows"]]
    key: UInt32[Array, " words"]


class Lazy(Sampler):
    """Dynamics × integrator on the rows of a minibatch; made by `lazy`.

    A sampler of its own: rows that are not seen move by an exact law, each at its own time. The position of a
    state has each row as it was last seen; `position(state)` gives all of them at the same time.
    """

    inner: Plain
    coefficients: Coefficients | None = None
    # 1/√M of each row, by table; None where all masses are 1.
    scales: dict[str, Float[Array, " rows"]] | None = None

    name = "lazy"
    takes_batches = True
    batches_undivided = "fk.lazy moves rows of its own on every device"
    batches_unrepeated = "fk.lazy is for rows that are seen rarely"
    theta_undivided = "fk.lazy moves single rows of theta"
    reads_all_data = False

    def __str__(self) -> str:
        return f"{self.inner}, by rows"

    @property
    def cited_as(self) -> str:
        """That of the sampler by which it moves rows."""
        return self.inner.cited_as

    @property
    def target(self) -> Posterior | None:
        """The target of the recipe."""
        return self.inner.target

    @property
    def step_size(self) -> Any:
        """The step size of the recipe."""
        return self.inner.step_size

    @property
    def temperature(self) -> Any:
        """The temperature of the recipe."""
        return self.inner.temperature

    def with_step_size(self, step_size: StepSize) -> "Lazy":
        """The same with another step size."""
        return dataclasses.replace(self, inner=self.inner.with_step_size(step_size))

    @property
    def tables(self) -> dict[str, Table]:
        """The priors of the tables."""
        return self.own_target.log_prior.tables

    def on(self, target: Target, temperature: Number = 1.0, gradient: Estimator | None = None) -> "Lazy":
        """The sampler of exp(-U/T) for a target of `fk.tables`."""
        if (
            not isinstance(target, Posterior)
            or not isinstance(target.log_prior, RowPrior)
            or not isinstance(target.log_likelihood, RowLikelihood)
        ):
            raise TypeError(
                f"fk.lazy moves rows of tables: make the target with fk.tables; {type(target).__name__} was "
                "given."
            )
        if gradient is not None:
            raise ValueError(
                "fk.lazy takes the plain minibatch gradient: an estimator with baselines has one for every "
                "row of every table, at every step. Leave gradient out."
            )
        inner = self.inner.on(target, temperature)
        if self.scales is not None:
            shapes = {name: x.shape for name, x in self.scales.items()}
            wanted = {name: (table.rows,) for name, table in target.log_prior.tables.items()}
            if shapes != wanted:
                raise ValueError(f"masses must be a dictionary of the shapes {wanted}; they have {shapes}.")
        return Lazy(inner, coefficients_of(inner), self.scales)

    def follows(self, state: PyTree[Any] | None = None) -> Followed | None:
        """Those of the recipe, as if every step saw every row."""
        if state is None:
            tables = self.tables.items()
            state = {
                name: jnp.broadcast_to(table.mean, (table.rows, len(table.mean))) for name, table in tables
            }
        followed = self.inner.follows(state)
        note = (
            "every row was taken to be seen at every step; that rows which are not seen move by the law of "
            "their prior was not checked"
        )
        return None if followed is None else followed._replace(notes=(*followed.notes, note))

    def fastest_time(
        self, target: Target, temperature: Number, theta: PyTree[Array], key: Key[Array, ""]
    ) -> float:
        """√(T/λ)."""
        return curvature_time(target, temperature, theta)

    def with_target(self, target: Target) -> "Lazy":
        """The same on a target that differs in its numbers alone, such as the means of the priors."""
        return dataclasses.replace(self, inner=dataclasses.replace(self.inner, target=target))

    def init(self, position: PyTree[Any], *, key: Key[Array, ""] | None = None) -> SamplerState:
        """The state to start from: `position` is a dictionary of tables."""
        if key is None:
            raise ValueError("the auxiliary variables are drawn at random: pass key=jax.random.key(…).")
        shapes = {name: (table.rows, table.mean.shape[0]) for name, table in self.tables.items()}
        if not isinstance(position, dict) or {n: jnp.shape(x) for n, x in position.items()} != shapes:
            raise ValueError(
                f"theta must be a dictionary of tables of the shapes {shapes}; it is "
                f"{describe_shapes(position)}."
            )
        theta = check_position(self, position)
        own_key, read_key = split(key)
        z = {"theta": theta, **family_of(self.inner).auxiliaries(own_key, theta, self.temperature)}
        rows = {name: jnp.zeros(x.shape[0], jnp.uint32) for name, x in theta.items()}
        return SamplerState(z, no_steps(), Memory(rows=Seen(rows, jax.random.key_data(read_key))))

    def advance(
        self, draws: Arrays, state: SamplerState, batch: Arrays = None, number: Count | None = None
    ) -> tuple[SamplerState, Info]:
        """Bring the rows of the batch up to date, and move them by a step of the recipe."""
        update_key, step_key = split(draws)
        if batch is None:  # all the data, and so every row
            state = self.synchronised(update_key, state)
            local = SamplerState(state.z, state.step)
            moved, info = self._advance_rows(step_key, local, None, number, self.scales)
            rows = jax.tree.map(lambda x: jnp.full_like(x, moved.step.low), state.memory.rows.rows)
            return _with_rows(state, moved.z, moved.step, rows), info
        data = batch.data if isinstance(batch, Batch) else batch
        numbers = {name: data[name] for name in self.tables}
        places = {name: places_of(state.memory.rows.rows[name], x) for name, x in numbers.items()}
        data = {**data, **{name: p.of_datum for name, p in places.items()}}
        batch = batch._replace(data=data) if isinstance(batch, Batch) else data
        z = for_each(lambda name, x: x.at[numbers[name]].get(mode="clip"), state.z)
        missed = {name: state.step.low - p.seen for name, p in places.items()}
        scales = self.scales
        if scales is not None:
            scales = {name: x.at[numbers[name]].get(mode="clip") for name, x in scales.items()}
        local = SamplerState(self._brought_up(update_key, z, missed, scales), state.step)
        moved, info = self._advance_rows(step_key, local, batch, number, scales)
        z = jax.tree.map(
            lambda x, row, rows: x.at[row].set(rows, mode="drop"),
            state.z,
            for_each(lambda name, x: places[name].written, state.z),
            moved.z,
        )
        rows = {name: p.table.at[p.written].set(moved.step.low, mode="drop") for name, p in places.items()}
        return _with_rows(state, z, moved.step, rows), info

    def _advance_rows(
        self,
        key: Key[Array, ""],
        state: SamplerState,
        batch: PyTree[Array],
        number: Count | None,
        scales: dict[str, Float[Array, " m"]] | None,
    ) -> tuple[SamplerState, Info]:
        """A step of the recipe for these rows; with masses, in the coordinates q = √M θ."""
        if scales is None:
            return self.inner.advance(self.inner.draw(key, state), state, batch, number)
        target, chart = self.own_target, ByRow(scales)
        in_q = eqx.tree_at(
            lambda x: (x.log_prior, x.log_likelihood),
            target,
            (lambda q: target.log_prior(chart(q)), lambda q, datum: target.log_likelihood(chart(q), datum)),
        )
        inner = dataclasses.replace(self.inner, target=in_q)
        state = state._replace(z=chart.enter(state.z))
        moved, info = inner.advance(inner.draw(key, state), state, batch, number)
        return moved._replace(z=chart.leave(moved.z)), info

    def _brought_up(
        self,
        key: Key[Array, ""],
        z: dict[str, Tables],
        missed: dict[str, UInt32[Array, " m"]],
        scales: dict[str, Float[Array, " m"]] | None,
    ) -> dict[str, Tables]:
        """Rows after the steps that they missed, by the exact law of the dynamics of their prior."""
        assert self.coefficients is not None
        names = list(z["theta"])
        for name, own in zip(names, split(key, len(names)), strict=True):
            rows = {variable: t[name] for variable, t in z.items()}
            dtype = rows["theta"].dtype
            time = jnp.asarray(self.step_size, dtype) * missed[name].astype(dtype)
            scale = None if scales is None else scales[name]
            moved = moved_rows(own, rows, self.tables[name], time, scale, self.coefficients, self.temperature)
            z = {variable: {**t, name: moved[variable]} for variable, t in z.items()}
        return z

    def synchronised(self, key: Key[Array, ""], state: SamplerState) -> SamplerState:
        """The state with every row brought up to date: the cost is that of all rows."""
        seen = state.memory.rows.rows
        missed = {name: state.step.low - x for name, x in seen.items()}
        rows = {name: jnp.full_like(x, state.step.low) for name, x in seen.items()}
        z = self._brought_up(key, state.z, missed, self.scales)
        return _with_rows(state, z, state.step, rows)

    def position(self, state: SamplerState) -> Tables:
        """theta with every row up to date, drawn without a change of the chain.

        The draw depends on the chain's key and the number of steps alone. It has the law of the row at this
        step given the row when it was last seen; the chain itself draws the row again when it next sees it.
        """
        key = fold_in(jax.random.wrap_key_data(state.memory.rows.key), state.step)
        return self.synchronised(key, state).position

    def record(self, state: SamplerState) -> dict[str, Array]:
        """The kinetic temperature, of rows each at its own time."""
        return self.inner.record(SamplerState(state.z, state.step))


def _with_rows(
    state: SamplerState, z: dict[str, Tables], step: Count, rows: dict[str, UInt32[Array, " rows"]]
) -> SamplerState:
    """The state after steps, with when each row was last seen."""
    return SamplerState(z, step, Memory(rows=state.memory.rows._replace(rows=rows)))


def lazy(sampler: Plain, masses: Mapping[str, Any] | None = None) -> Lazy:
    r"""A step for the rows of its minibatch alone, in tables of any number of rows.

    `sampler` is sgld, sghmc or sgnht with one thermostat per coordinate. A step moves the rows that its
    minibatch depends on, by a step of that sampler with the gradient of their prior and N/n times that of the
    likelihood. A row that is not seen feels its prior alone, a quadratic potential, in which the dynamics
    have an exact solution after any time (`fokker.integrators.quadratic_well`): the row is drawn from it when
    it is next seen, for all steps missed at once.

    Why the target is kept. A dense step also adds, for a row that the minibatch does not touch, only the
    gradient of its prior. The lazy step solves this part exactly and not by the integrator. Both are
    splittings of the same dynamics, and have a bias of order ε. For a thermostat a row variable ξ stands
    still while its row is not seen, and the friction is A meanwhile. With p the probability that a row is
    seen, its average dynamics are

        dr = [-∇U - (pξ + (1-p)A) r] dt + √(2TA) dW,   dξ = p (r²/T - 1)/μ dt,

    which is the recipe with D = diag(0, A, 0), H = U + r²/2 + (μT/2)(ξ - A)² and Q[r, ξ] = pr/(μT): it keeps
    exp(-H/T) for every p, another for each row. The noise of a minibatch comes in exactly when a row is seen,
    and that is when its ξ acts. Rarely seen rows have a slow thermostat. Noise
    that the coordinates of a row share, beyond its diagonal, is not absorbed; its bias is of order ε.

    `masses` are M of each row, {table: (rows,)}: rows of much data, whose posterior is narrow, take a large
    one. The sampler then moves q = √M θ, of unit mass, and its settings are those of q.

    What couples rows is refused: a single thermostat, a matrix of them, a mass matrix. `fk.sample` reads all
    rows for a draw that it stores, so that `thin` should be of the order of the number of rows over the batch
    size. `fk.models.LDA` does the same for words, whose dynamics are those of a Gamma prior.

    Arguments:

    - `sampler`: `fk.samplers.sgld`, `sghmc` or `sgnht(…, kind="diagonal")`, with a step size that is a
      number.
    - `masses`: M of each row, {table: (rows,)}; None for 1.

    Returns a sampler of its own class, made of the given one, for a target of `fk.tables`.

    ```python
    sampler = fk.lazy(fk.samplers.sgnht(0.01, friction=1.0, kind="diagonal"))
    ```
    """
    if not isinstance(sampler, Plain | Corrected):
        hint = "; call it, as in fk.samplers.sgld(1e-3)" if callable(sampler) else ""
        raise TypeError(f"fk.lazy takes sgld, sghmc or sgnht of fk.samplers, not {sampler!r}{hint}.")
    if isinstance(sampler, Corrected):
        raise ValueError(f"{REFUSED}: a correction decides about all rows at once.")
    reasons = {
        "it was made of dynamics, which have a target": not sampler.wants_target,
        "a mass matrix couples rows": sampler.mass_matrix is not None,
        "a noise_estimate is of all rows": sampler.noise_estimate is not None,
        "resample draws the momentum of rows that are not seen": sampler.resample is not None,
        "an estimate of Γ couples rows": sampler.gamma != "exact",
        "the time that a row has missed is known for a constant step size, a number": callable(
            sampler.step_size
        )
        or isinstance(sampler.step_size, str)
        or jnp.ndim(sampler.step_size) > 0,
    }
    for reason, is_so in reasons.items():
        if is_so:
            raise ValueError(f"{REFUSED}: {reason}.")
    if masses is None:
        return Lazy(sampler)
    scales = {}
    for name, values in masses.items():
        mass = as_arrays(np.asarray(values))
        if mass.ndim != 1 or not bool(jnp.all(jnp.isfinite(mass) & (mass > 0))):
            raise ValueError(f"masses[{name!r}] must be a vector of positive numbers, one for each row.")
        scales[name] = 1 / jnp.sqrt(mass)
    return Lazy(sampler, scales=scales)
