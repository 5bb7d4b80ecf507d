"""The graphs of a PyMC model as JAX functions of its unconstrained values."""

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fokker._core.labels import Labels, check_variable_names
from fokker.targets._given import Given

if TYPE_CHECKING:
    from pymc import Model

Values = dict[str, Array]


class Program:
    """A PyMC model, compiled by PyTensor to JAX.

    Every method takes y, the unconstrained values by the names of the model's free variables, and `rows`, the
    data containers with one row per datum that are not compiled in, by name.
    """

    def __init__(self, model: "Model", row_names: Sequence[str] = ()) -> None:
        self.names = [variable.name for variable in model.free_RVs]
        self.derived_names = [variable.name for variable in model.deterministics]
        self.row_names = list(row_names)
        self.given: Given | None = None
        values = [model.rvs_to_values[variable] for variable in model.free_RVs]
        containers = [model[name] for name in row_names]
        prior = model.logp(vars=[*model.free_RVs, *model.potentials], jacobian=False)
        likelihood = _total(
            [model.logp(vars=model.observed_RVs, jacobian=False)] if model.observed_RVs else []
        )
        self._prior = _compiled(values, [], [prior])
        self._likelihood = _compiled(values, containers, [likelihood])
        self._jacobian = _compiled(values, [], [_log_jacobian(model)])
        self._constrained = _compiled(values, [], model.replace_rvs_by_values(model.free_RVs))
        self._derived = _compiled(values, containers, model.replace_rvs_by_values(model.deterministics))
        self._free = _compiled(*_unconstrained(model))
        self.observed_names = [variable.name for variable in model.observed_RVs]
        each = model.logp(vars=model.observed_RVs, jacobian=False, sum=False) if self.observed_names else []
        self._pointwise = _compiled(values, containers, each)
        check_variable_names([*self.names, *self.derived_names])
        self.labels = _labels(model)
        self.known_data = _known_data(model)
        self._model = model

    def log_prior(self, y: Values) -> Array:
        """log p(x(y)) of the free variables and potentials, without the Jacobian."""
        return _call(self._prior, self._in_order(y))[0]

    def log_likelihood(self, y: Values, rows: Values) -> Array:
        """log p(data | x(y)) of the observed variables."""
        return _call(self._likelihood, self._inputs(y, rows))[0]

    def row_log_likelihood(self, y: Values, datum: Values) -> Array:
        """log p(datum | x(y)) of one row, without its first axis."""
        return self.log_likelihood(y, jax.tree.map(lambda x: x[None], datum))

    def log_likelihoods(self, y: Values, rows: Values) -> Array | None:
        """The term of each row in `log_likelihood`; None where a variable has no axis of rows."""
        number = len(rows[self.row_names[0]])
        each = list(self.pointwise(y, rows).values())
        if any(x.ndim == 0 or len(x) != number for x in each):
            return None
        return sum((x.reshape(number, -1).sum(1) for x in each), start=jnp.zeros(number))

    def log_jacobian(self, y: Values) -> Array:
        """log|det dx/dy|."""
        return _call(self._jacobian, self._in_order(y))[0]

    def constrain(self, y: Values) -> Values:
        """x(y)."""
        return dict(zip(self.names, _call(self._constrained, self._in_order(y)), strict=True))

    def unconstrain(self, x: Values) -> Values:
        """y(x), not finite outside the support."""
        return dict(zip(self.names, _call(self._free, self._in_order(x)), strict=True))

    def derived(self, y: Values, rows: Values) -> Values:
        """The deterministic variables."""
        return dict(zip(self.derived_names, _call(self._derived, self._inputs(y, rows)), strict=True))

    def pointwise(self, y: Values, rows: Values) -> Values:
        """The log likelihood of each entry of the observed variables."""
        return dict(zip(self.observed_names, _call(self._pointwise, self._inputs(y, rows)), strict=True))

    def predictive(self, draws: Mapping[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
        """The observed variables given the free ones, by PyMC, at draws without the axis of chains."""
        from pytensor.graph.replace import clone_replace

        free, observed = self._model.free_RVs, self._model.observed_RVs
        inputs = [variable.type() for variable in free]
        outputs = clone_replace(list(observed), replace=list(zip(free, inputs, strict=True)))
        values = [np.asarray(draws[v.name], x.type.dtype) for v, x in zip(free, inputs, strict=True)]
        return _drawn(inputs, self.observed_names, outputs, zip(*values, strict=True), seed)

    def prior_predictive(self, number: int, seed: int) -> dict[str, np.ndarray]:
        """Draws of all variables, by PyMC; potentials have no part in them."""
        model = self._model
        outputs = [*model.free_RVs, *model.deterministics, *model.observed_RVs]
        names = [*self.names, *self.derived_names, *self.observed_names]
        return _drawn([], names, outputs, ((),) * number, seed)

    def _inputs(self, y: Values, rows: Values) -> list[Array]:
        return [*self._in_order(y), *(rows[name] for name in self.row_names)]

    def _in_order(self, tree: Values) -> list[Array]:
        return [jnp.asarray(tree[name]) for name in self.names]


def _drawn(
    inputs: Sequence[Any], names: Sequence[str], outputs: Sequence[Any], draws: Iterable[Any], seed: int
) -> dict[str, np.ndarray]:
    """Random variables of a PyMC model, drawn for each of the values of its inputs."""
    from pymc.pytensorf import compile

    with _quietly(), unchanged_settings():
        # Without an optimising compiler: that takes far longer than the draws.
        function = compile(list(inputs), list(outputs), random_seed=seed, mode="FAST_COMPILE")
        values = [function(*draw) for draw in draws]
    return {name: np.stack([np.array(x[i]) for x in values]) for i, name in enumerate(names)}


def _of_all_threads() -> bool:
    """Whether double precision is enabled, whatever `with jax.enable_x64()` says in this thread."""
    with ThreadPoolExecutor(1) as another:
        return bool(another.submit(lambda: jax.config.values["jax_enable_x64"]).result())


@contextmanager
def unchanged_settings() -> Iterator[None]:
    """Undo what importing the JAX parts of PyMC changes: double precision, and a hundred devices on a CPU."""
    precision = _of_all_threads()
    flags = os.environ.get("XLA_FLAGS")
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", precision)
        os.environ.pop("XLA_FLAGS", None)
        if flags is not None:
            os.environ["XLA_FLAGS"] = flags


def _compiled(inputs: Sequence[Any], shared: Sequence[Any], outputs: Sequence[Any]) -> Callable[..., Any]:
    """A JAX function of the inputs, and of shared variables that are arguments of it."""
    from pymc.sampling.jax import get_jaxified_graph
    from pytensor.graph.replace import clone_replace

    if not outputs:
        return lambda *values: ()
    arguments = [container.type() for container in shared]
    if shared:
        outputs = clone_replace(list(outputs), replace=list(zip(shared, arguments, strict=True)))
    with _quietly():
        return jax.jit(get_jaxified_graph(inputs=[*inputs, *arguments], outputs=list(outputs)))


def _call(function: Callable[..., Any], values: Sequence[Array]) -> Any:
    dtype = jnp.result_type(float)
    # Traced, its operations are part of the program that it is traced for; else it is one program, not many.
    if any(isinstance(value, jax.core.Tracer) for value in values):
        function = getattr(function, "__wrapped__", function)
    with _quietly():
        outputs = function(*values)
    # PyTensor's graphs are in double precision, which JAX has only where it is enabled.
    return [jnp.asarray(value, dtype) for value in outputs]


@contextmanager
def _quietly() -> Iterator[None]:
    """Without the warnings of JAX that double precision is not enabled, and of PyTensor about assertions."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Explicitly requested dtype")
        warnings.filterwarnings("ignore", "Skipping .* Op")
        yield


def _labels(model: "Model") -> Labels:
    """The dims and coords of the model; those without entries are known by their length alone."""
    coords = {axis: entries for axis, entries in model.coords.items() if entries is not None}
    return Labels.checked(model.named_vars_to_dims, coords)


def _known_data(model: "Model") -> dict[str, dict[str, np.ndarray]]:
    """The observed values and the `pm.Data` containers.

    PyMC's posterior predictive draws what depends on a container from its prior, unless it finds the values
    of that container among the draws and they have not changed; likewise for the entries of an axis.
    """
    from pymc.backends.arviz import find_constants, find_observations

    groups = {"observed_data": find_observations(model), "constant_data": find_constants(model)}
    return {name: {k: np.asarray(x) for k, x in group.items()} for name, group in groups.items()}


def arrays_of(model: "Model") -> Iterator[tuple[str, np.ndarray]]:
    """The observed values, the containers, and the constants in the log density, with names for messages."""
    from pytensor.graph.basic import Constant
    from pytensor.graph.traversal import ancestors

    known = [*_known_data(model).values()]
    for name, values in (pair for group in known for pair in group.items()):
        yield f"the data {name}", values
    for variable in ancestors([model.logp(jacobian=False)]):
        if isinstance(variable, Constant) and isinstance(variable.data, np.ndarray):
            yield "an array in the model", variable.data


def _total(terms: Sequence[Any]) -> Any:
    import pytensor.tensor as pt

    return sum(terms, start=pt.constant(np.float64(0.0)))


def _log_jacobian(model: "Model") -> Any:
    """log|det dx/dy| of all transformed variables. A transform may depend on other variables."""
    terms = []
    for variable in model.free_RVs:
        transform = model.rvs_to_transforms[variable]
        if transform is not None:
            value = model.rvs_to_values[variable]
            terms.append(transform.log_jac_det(value, *variable.owner.inputs).sum())
    return model.replace_rvs_by_values([_total(terms)])[0]


def _unconstrained(model: "Model") -> tuple[list[Any], list[Any], list[Any]]:
    """Inputs x for every free variable, and y(x)."""
    from pytensor.graph.replace import clone_replace

    inputs = [variable.type() for variable in model.free_RVs]
    outputs = []
    for variable, x in zip(model.free_RVs, inputs, strict=True):
        transform = model.rvs_to_transforms[variable]
        outputs.append(x if transform is None else transform.forward(x, *variable.owner.inputs))
    replacements = list(zip(model.free_RVs, inputs, strict=True))
    return inputs, [], clone_replace(outputs, replace=replacements)
