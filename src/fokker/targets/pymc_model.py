"""Targets from PyMC models."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Key, PyTree

from fokker._core.draws import shape_of_draws
from fokker._core.labels import Labels
from fokker._core.names import nearest
from fokker._core.state import as_arrays
from fokker.targets._given import Given
from fokker.targets._independence import check_independence
from fokker.targets._program import first_line
from fokker.targets._pymc_graph import Program, Values, arrays_of, unchanged_settings
from fokker.targets.posterior import Posterior
from fokker.targets.target import Target, TargetWithData, check_number, check_variables

if TYPE_CHECKING:
    from pymc import Model

# Chains start where PyMC's do: at its initial point, moved by up to 1 in each unconstrained coordinate.
_JITTER = 1.0
# A theta that does not come back from the unconstrained space to within this is outside the support.
_ROUND_TRIP = 1e-3


class PyMCTarget(Target):
    r"""The density of a PyMC model's unconstrained values y, as `from_pymc` returns it.

    U_y(y) = -log p(x(y)) - T log|det dx/dy|
    """

    is_constrained: ClassVar[bool] = True
    may_change: ClassVar[bool] = False  # a graph
    program: Program
    start: Values
    rows: Values
    temperature: Any = 1.0

    def at_temperature(self, temperature: ArrayLike) -> "PyMCTarget":
        """The target for sampling at a temperature; the change of variables is not tempered."""
        return type(self)(self.program, self.start, self.rows, temperature)

    def potential(self, y: PyTree[Array]) -> Array:
        """U_y."""
        log_density = self.program.log_prior(y) + self.program.log_likelihood(y, self.rows)
        return -log_density - self._log_jacobian(y)

    def _log_jacobian(self, y: PyTree[Array]) -> Array:
        return self.temperature * self.program.log_jacobian(y)

    def constrain(self, y: PyTree[Array]) -> dict[str, Array]:
        """The free variables of the model, by name."""
        return self.program.constrain(y)

    def unconstrain(self, theta: PyTree[Any]) -> dict[str, Array]:
        """y(θ). Raise if theta is not in the support of the model."""
        theta = as_arrays(theta)
        self.check(theta)
        return self.program.unconstrain(theta)

    def stored(self) -> "PyMCTarget":
        """The target in the precision that is on, of the model's data as they are."""
        given = self.program.given
        return self if given is None else given.stored(self)

    def check(self, theta: PyTree[Array]) -> None:
        """Raise unless theta has the model's free variables, in its support."""
        expected = jax.eval_shape(self.program.constrain, self.start)
        check_variables(theta, {name: expected[name].shape for name in self.program.names}, "free variable")
        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(theta)):
            return
        y = self.program.unconstrain(dict(theta))
        back = self.program.constrain(y)
        for name in self.program.names:
            x = np.asarray(theta[name])
            inside = np.all(np.isfinite(y[name])) and np.allclose(back[name], x, _ROUND_TRIP, _ROUND_TRIP)
            if not inside:
                raise ValueError(
                    f"theta[{name!r}] is {np.array2string(x, threshold=10)}, outside its support or on the "
                    "boundary of it: start inside, as with init=target.init."
                )

    def validate(self, y: PyTree[Array]) -> None:
        """Raise unless the density is finite at y."""
        check_number(self._log_density, y, "the model's log density")

    def _log_density(self, y: PyTree[Array]) -> Array:
        return -self.potential(y)

    def derived(self, theta: PyTree[Array]) -> dict[str, Array]:
        """The deterministic variables at theta."""
        return self.program.derived(self.program.unconstrain(theta), self.rows)

    def labels(self) -> Labels:
        """The dims and coords of the model."""
        return self.program.labels

    def known_data(self) -> dict[str, dict[str, Any]]:
        """The observed values and the data containers of the model."""
        return self.program.known_data

    def pointwise(self, theta: PyTree[Array]) -> dict[str, Array]:
        """The log likelihood of each entry of the observed variables."""
        return self.program.pointwise(self.program.unconstrain(theta), self.rows)

    def predictive_at(self, draws: PyTree[Any], key: Key[Array, ""]) -> dict[str, np.ndarray]:
        """Draws of the observed variables at every draw, by PyMC, for its containers as they are now."""
        chains, number = shape_of_draws(draws)
        flat = {name: np.asarray(x).reshape(chains * number, *x.shape[2:]) for name, x in draws.items()}
        drawn = _drawn(lambda: self.program.predictive(flat, _seed(key)))
        return {name: x.reshape(chains, number, *x.shape[1:]) for name, x in drawn.items()}

    def prior_draws(self, number: int, key: Key[Array, ""]) -> dict[str, np.ndarray]:
        """Draws of all variables from their prior, by PyMC."""
        return _drawn(lambda: self.program.prior_predictive(number, _seed(key)))

    def init(self, key: Key[Array, ""]) -> dict[str, Array]:
        """A theta to start from, near PyMC's initial point: `fk.sample(…, init=target.init)`."""
        return _start(self, key)


@eqx.filter_jit
def _start(target: PyMCTarget, key: Key[Array, ""]) -> dict[str, Array]:
    keys = jax.random.split(key, len(target.start))
    moved = {
        name: y + jax.random.uniform(k, y.shape, y.dtype, -_JITTER, _JITTER)
        for (name, y), k in zip(sorted(target.start.items()), keys, strict=True)
    }
    return target.constrain(moved)


class PyMCPosterior(PyMCTarget, TargetWithData):
    """A PyMC model of which minibatches of rows are taken. The Jacobian is part of the prior."""

    @property
    def data(self) -> PyTree[Array]:
        """The data containers with one row per datum, by name."""
        return self.rows

    @property
    def _posterior(self) -> Posterior:
        """The posterior of y without the Jacobian: it sums over rows, and N/n is there."""
        return Posterior(self.program.log_prior, self.program.row_log_likelihood, self.rows)

    def log_prior(self, y: PyTree[Array]) -> Array:
        """log p(x(y)) + T log|det dx/dy|."""
        return self.program.log_prior(y) + self._log_jacobian(y)

    def log_likelihood(self, y: PyTree[Array], datum: PyTree[Array]) -> Array:
        """log p(datum | x(y))."""
        return self.program.row_log_likelihood(y, datum)

    def minibatch_potential(self, y: PyTree[Array], batch: PyTree[Array]) -> Array:
        """An unbiased estimate of U_y from a batch."""
        return self._posterior.minibatch_potential(y, batch) - self._log_jacobian(y)

    def validate(self, y: PyTree[Array]) -> None:
        """Raise unless the prior and the likelihood of one row are finite at y."""
        self._posterior.validate(y)

    def weighted(self, batch: PyTree[Array]) -> tuple[PyTree[Array], Any]:
        """The rows of a batch and their weights in the sum over all data."""
        return self._posterior.weighted(batch)


def _seed(key: Key[Array, ""]) -> int:
    """A seed of NumPy with all bits of a key of JAX."""
    return int.from_bytes(np.asarray(jax.random.key_data(key), np.uint32).tobytes(), "little")


def _drawn(draw: Callable[[], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    try:
        return draw()
    except Exception as error:  # of many kinds, by PyTensor, with pages of text
        raise ValueError(
            f"PyMC could not draw the variables of the model: {first_line(error)} It needs distributions "
            "that can be drawn from, and containers (pm.set_data) that fit the shapes of the free variables."
        ) from error


def from_pymc(model: "Model", *, subsample: Sequence[str] | None = None) -> PyMCTarget:
    r"""A PyMC model as a target over a dictionary of its free variables.

    ```python
    with pm.Model() as model:
        rows_x, rows_y = pm.Data("x", x), pm.Data("y", y)
        w = pm.Normal("w", 0, 1, shape=x.shape[1])
        scale = pm.HalfNormal("scale", 1)
        pm.Normal("observed", rows_x @ w, scale, observed=rows_y)

    target = fk.from_pymc(model)                        # all the data in every step
    target = fk.from_pymc(model, subsample=["x", "y"])  # or minibatches
    trace = fk.sample(target, fk.samplers.nuts(), init=target.init, steps=1_000, chains=4)
    trace.samples["scale"]  # positive
    ```

    Arguments:

    - `model`: a `pm.Model`.
    - `subsample`: names of the `pm.Data` containers whose first axis runs over the data, for minibatches. The
      observed variables are then the likelihood of their rows, scaled by N/n as in `fk.Posterior`; free
      variables and potentials are the prior.

    Returns a target whose `init(key)` draws a start. PyTensor compiles the log density to JAX, with the
    model's own transforms to unconstrained values and their Jacobian. `init`, draws and moments are in terms
    of the free variables; `target.init` starts near PyMC's initial point; `trace.to_arviz()` includes the
    deterministic variables. `trace.predict(key=…)` and `fk.prior_predictive` draw the observed variables, by
    PyMC. Values and gradients are in JAX's precision, single unless `jax_enable_x64` is set; data that this
    would round noticeably need `fk.sample(…, precision="double")`.

    These are refused: discrete free variables, `pm.Minibatch`, and with `subsample` models in which rows
    depend on one another.
    """
    try:
        with unchanged_settings():
            import pymc
            import pymc.sampling.jax
    except ImportError as error:
        raise ImportError(
            "fk.from_pymc needs PyMC, which is not installed: pip install 'fokker[pymc]'."
        ) from error
    if not isinstance(model, pymc.Model):
        raise TypeError(f"the model must be a pymc.Model, not {type(model).__name__}.")
    _check_variables(model)
    return _target(model, _checked_containers(model, subsample), subsample is not None)


def _target(model: "Model", names: list[str], has_rows: bool, is_new: bool = True) -> PyMCTarget:
    """The target of a model; of one that is not new, it is known that its rows are independent."""
    try:
        with unchanged_settings():
            program = Program(model, names)
            point = model.initial_point(random_seed=0)
    except NotImplementedError as error:
        raise ValueError(
            f"the model uses an operation that PyTensor cannot convert to JAX: {first_line(error)}"
        ) from error
    start = {v.name: jnp.asarray(point[model.rvs_to_values[v].name], float) for v in model.free_RVs}
    rows = {name: jnp.asarray(model[name].get_value()) for name in names}
    program.given = Given(arrays_of(model), lambda: _target(model, names, has_rows, False))
    if not has_rows:
        return PyMCTarget(program, start, rows)
    posterior = PyMCPosterior(program, start, rows)
    if is_new:
        _check_rows(posterior)
    return posterior


def _check_variables(model: "Model") -> None:
    from pytensor.compile import SharedVariable
    from pytensor.graph.traversal import ancestors
    from pytensor.tensor.random.type import RandomType

    if not model.free_RVs:
        raise ValueError(
            "the model has no free variable, so there is nothing to sample. Add one without observed, as in "
            'pm.Normal("w", 0, 1).'
        )
    for variable in model.free_RVs:
        if not np.issubdtype(np.dtype(variable.dtype), np.floating):
            raise ValueError(
                f"the free variable {variable.name!r} is discrete and has no gradient: sum it out of the "
                "model, as pm.Mixture does, or give its values as observed."
            )
    # In the log density values stand for the random variables: what is random there is drawn by the model.
    try:
        density = [model.logp(jacobian=False)]
    except NotImplementedError as error:
        raise ValueError(
            f"PyMC cannot compute the log density of this model: {first_line(error)} If "
            "pm.sample_posterior_predictive was called with it, which some releases do not leave as it was, "
            "make the model again."
        ) from error
    if any(isinstance(v, SharedVariable) and isinstance(v.type, RandomType) for v in ancestors(density)):
        raise ValueError(
            "the model draws minibatches itself (pm.Minibatch) or other random numbers that are none of its "
            "variables, so that its log density is no function of theta. For minibatches give it all the "
            'data in pm.Data("x", x), leave out total_size, and call '
            'fk.from_pymc(model, subsample=["x", …]) and fk.sample(…, batch_size=…).'
        )


def _checked_containers(model: "Model", subsample: Sequence[str] | None) -> list[str]:
    if subsample is None:
        return []
    names = [subsample] if isinstance(subsample, str) else list(subsample)
    known = [variable.name for variable in model.data_vars]
    for name in names:
        if name not in known:
            raise ValueError(
                f"subsample has {name!r}, but the pm.Data containers of the model are "
                f"{', '.join(known) or 'none'}.{nearest(str(name), known)} Wrap the rows, as in "
                f'pm.Data("x", x), and name them.'
            )
    if not names:
        raise ValueError('subsample is empty: name the pm.Data containers of the rows, as ["x", "y"].')
    from pymc.variational.minibatch_rv import MinibatchRandomVariable

    for variable in model.observed_RVs:
        if isinstance(variable.owner.op, MinibatchRandomVariable):
            raise ValueError(
                f"the observed variable {variable.name!r} has a total_size, which would scale the likelihood "
                "a second time: leave it out."
            )
    if not model.observed_RVs:
        raise ValueError("the model has no observed variable, so there are no rows: leave out subsample.")
    return names


def _check_rows(posterior: PyMCPosterior) -> None:
    """Raise unless the likelihood of many rows is the sum of the likelihoods of single rows."""
    advice = (
        "A row must not depend on other rows, every array with one entry per row must be a pm.Data container "
        f"named in subsample (here {', '.join(posterior.rows)}), and no free variable may have one entry per "
        "row."
    )

    def draw(seed: int) -> Values:
        return posterior.program.unconstrain(posterior.init(jax.random.key(seed)))

    check_independence(posterior.program, draw, posterior.rows, advice)
