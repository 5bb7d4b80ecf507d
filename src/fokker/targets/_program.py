"""A NumPyro model with its arguments, which can be run on chosen latent values and rows of data."""

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from fokker._core.labels import AXES, NO_LABELS, Labels
from fokker._core.module import Module
from fokker._core.names import nearest
from fokker._core.state import describe_shapes
from fokker.targets._given import Given

if TYPE_CHECKING:
    from numpyro.distributions import Distribution

# NumPyro's record of one statement: a dictionary with its type, name, distribution and value.
Site = Mapping[str, Any]
# Names of axes by variable, or of the entries by axis.
Names = Mapping[str, Any] | None
Function = Callable[..., Any]


class _Constant:
    """An argument whose values a model may use at compile time, such as an array of group indices."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _is_array(leaf: object) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray)


def _is_constant(leaf: object) -> bool:
    return isinstance(leaf, _Constant)


def _hashable(leaf: object) -> bool:
    try:
        hash(leaf)
    except TypeError:
        return False
    return True


class Program(Module):
    """The model and its arguments by name, without those that are rows of data."""

    model: Any
    fixed: dict[str, Any]
    positional: tuple[str, ...] = eqx.field(static=True)
    plate: str | None = eqx.field(static=True, default=None)
    derived: tuple[str, ...] = eqx.field(static=True, default=())
    labels: Labels = eqx.field(static=True, default=NO_LABELS)
    given: Given | None = eqx.field(static=True, default=None)

    @classmethod
    def of(cls, model: Function, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> "Program":
        """A program whose arguments are all constants. Raise if the model does not take these arguments."""
        if not callable(model):
            raise TypeError(f"the model must be a function of NumPyro statements, not {model!r}.")
        names = _positional_names(model, arguments, keywords)
        by_name = {**dict(zip(names, arguments, strict=True)), **keywords}
        fixed = jax.tree.map(
            lambda leaf: _Constant(leaf) if _is_array(leaf) or not _hashable(leaf) else leaf, by_name
        )
        return cls(model, fixed, names)

    def traced(self) -> "Program":
        """The program with its arrays traced: only their shapes are known at compile time."""
        fixed = jax.tree.map(
            lambda leaf: jnp.asarray(leaf.value) if _is_constant(leaf) and _is_array(leaf.value) else leaf,
            self.fixed,
            is_leaf=_is_constant,
        )
        return dataclasses.replace(self, fixed=fixed)

    def arguments(self, rows: PyTree[Array] | None = None) -> dict[str, Any]:
        """The arguments of the model, including these rows."""
        combined = {
            name: eqx.combine(rows[name], value) if rows is not None and name in rows else value
            for name, value in self.fixed.items()
        }
        return jax.tree.map(
            lambda leaf: leaf.value if _is_constant(leaf) else leaf, combined, is_leaf=_is_constant
        )

    def named_arrays(self) -> Iterator[tuple[str, Any]]:
        """The arrays among the arguments, with names for messages."""
        for path, leaf in jax.tree_util.tree_leaves_with_path(self.arguments()):
            yield f"the argument {path[0].key}{jax.tree_util.keystr(path[1:])}", leaf

    def described_arguments(self) -> str:
        """The arguments and their shapes, for messages."""
        described = {name: describe_shapes(value) for name, value in self.arguments().items()}
        return ", ".join(f"{name}: {shapes}" for name, shapes in described.items()) or "none"

    def _sites(self, model: Function, rows: PyTree[Array] | None) -> dict[str, Site]:
        from numpyro import handlers

        arguments = self.arguments(rows)
        first = [arguments.pop(name) for name in self.positional]
        return dict(handlers.trace(model).get_trace(*first, **arguments))

    def random_sites(self, seed: int) -> dict[str, Site]:
        """All sites, with the latent ones drawn at random from their supports."""
        from numpyro import handlers
        from numpyro.infer import init_to_uniform

        model = handlers.substitute(handlers.seed(self.model, seed), substitute_fn=init_to_uniform())
        return self._sites(model, None)

    def run(self, theta: Mapping[str, Array], rows: PyTree[Array] | None = None) -> dict[str, Site]:
        """All sites, with the latent ones at theta."""
        from numpyro import handlers

        return self._sites(handlers.substitute(self.model, data=theta), rows)

    def log_density(self, theta: Mapping[str, Array], rows: PyTree[Array] | None = None) -> Array:
        """log p(theta, observations)."""
        return _total(self.run(theta, rows).values())

    def log_prior(self, theta: Mapping[str, Array], rows: PyTree[Array]) -> Array:
        """The log density of the sites outside the plate over the data."""
        return _total(site for site in self.run(theta, rows).values() if not in_plate(site, self.plate))

    def log_likelihood(self, theta: Mapping[str, Array], rows: PyTree[Array]) -> Array:
        """The log density of the sites inside the plate."""
        return _total(site for site in self.run(theta, rows).values() if in_plate(site, self.plate))

    def log_likelihoods(self, theta: Mapping[str, Array], rows: PyTree[Array]) -> Array | None:
        """The term of each row in `log_likelihood`; None where a site has no axis of rows."""
        total: Array | None = None
        for site in self.run(theta, rows).values():
            if site["type"] != "sample" or not in_plate(site, self.plate):
                continue
            (frame,) = (frame for frame in site["cond_indep_stack"] if frame.name == self.plate)
            log_prob = _log_prob(site)
            if log_prob.ndim < -frame.dim or log_prob.shape[frame.dim] != frame.size:
                return None
            others = [axis for axis in range(log_prob.ndim) if axis != log_prob.ndim + frame.dim]
            term = jnp.sum(log_prob, axis=tuple(others))
            total = term if total is None else total + term
        return total

    def deterministic(self, theta: Mapping[str, Array], rows: PyTree[Array] | None = None) -> dict[str, Any]:
        """The values of `numpyro.deterministic`."""
        sites = self.run(theta, rows)
        return {name: sites[name]["value"] for name in self.derived}

    def pointwise(self, theta: Mapping[str, Array]) -> dict[str, Array]:
        """The log likelihood of each entry of the observed sites; NaN for those that a mask leaves out."""
        return {name: pointwise_of(site) for name, site in self.run(theta).items() if is_observed(site)}

    def row_log_likelihood(self, theta: Mapping[str, Array], rows: PyTree[Array]) -> Array:
        """The log likelihood without a scale, as NumPyro has it; NaN where a mask leaves out all of it."""
        total, is_empty = jnp.zeros(()), jnp.array(True)
        for site in self.run(theta, rows).values():
            if site["type"] == "sample" and in_plate(site, self.plate):
                total += jnp.sum(site["fn"].log_prob(site["value"]))
                is_empty &= jnp.all(is_masked(site["fn"]))
        return jnp.where(is_empty, jnp.nan, total)

    def predictive(
        self, key: Key[Array, ""], theta: Mapping[str, Array], rows: PyTree[Array] | None = None
    ) -> dict[str, Site]:
        """All sites, with the latent ones at theta if they are there, and all others drawn."""
        from numpyro import handlers

        model = handlers.seed(handlers.substitute(handlers.uncondition(self.model), data=theta), key)
        try:
            return self._sites(model, rows)
        except NotImplementedError as error:
            raise ValueError(
                "the model has a distribution that NumPyro cannot draw from, such as "
                f"dist.ImproperUniform ({first_line(error)}): give its site a proper prior, as "
                "dist.Normal(0, 10)."
            ) from error


class LogDensity(Module):
    """`Program.log_density` as a function of theta."""

    program: Program

    def __call__(self, theta: PyTree[Array]) -> Array:
        return self.program.log_density(theta)


class LogPrior(Module):
    """`Program.log_prior` as a function of theta; the model is run on `row`, which may be any row."""

    program: Program
    row: PyTree[Array]

    def __call__(self, theta: PyTree[Array]) -> Array:
        return self.program.log_prior(theta, self.row)


class LogLikelihood(Module):
    """`Program.log_likelihood` of one datum: the model is run on a batch of one row."""

    program: Program

    def __call__(self, theta: PyTree[Array], datum: PyTree[Array]) -> Array:
        return self.program.log_likelihood(theta, jax.tree.map(lambda x: x[None], datum))


def first_line(error: Exception) -> str:
    """The type of an error and the first line of its message."""
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def in_plate(site: Site, plate: str | None) -> bool:
    """Whether a site is inside the plate of that name."""
    return any(frame.name == plate for frame in site.get("cond_indep_stack", ()))


def is_latent(site: Site) -> bool:
    """Whether a site is to be sampled."""
    return site["type"] == "sample" and not site["is_observed"]


def is_observed(site: Site) -> bool:
    """Whether a site has data."""
    return site["type"] == "sample" and site["is_observed"] and has_value(site)


def has_value(site: Site) -> bool:
    """Whether a site is a variable of the model, which `numpyro.factor` and a plate are not."""
    from numpyro.distributions import Unit

    return site["type"] == "deterministic" or (site["type"] == "sample" and not isinstance(site["fn"], Unit))


def site_labels(sites: Mapping[str, Site], dims: Names, coords: Names) -> Labels:
    """The plates of each site as names of its axes, and those of the user in their place."""
    names: dict[str, Any] = {}
    for name, site in sites.items():
        if not has_value(site):
            continue
        shape = jnp.shape(site["value"])
        batch = len(shape) - (site["fn"].event_dim if site["type"] == "sample" else 0)
        axes: list[str | None] = [None] * len(shape)
        frames = site.get("cond_indep_stack", ())
        for frame in frames:
            axis = batch + frame.dim
            if site["type"] == "deterministic":
                axis = _only_axis(shape, frame.size, [other.size for other in frames])
            if axis >= 0 and shape[axis] == frame.size and frame.name not in AXES:
                axes[axis] = frame.name
        if any(axes):
            names[name] = axes
    for name in Labels.checked(dims, None).dims:
        if name not in sites:
            raise ValueError(
                f"dims names {name!r}, but the sites of the model are {', '.join(sites)}."
                f"{nearest(name, list(sites))}"
            )
    labels = Labels.checked({**names, **(dims or {})}, coords)
    labels.check({name: jnp.shape(sites[name]["value"]) for name in labels.dims})
    return labels


def _only_axis(shape: tuple[int, ...], size: int, sizes: list[int]) -> int:
    """The axis of a computed value that a plate may be, or -1: nothing says where its plates are."""
    return shape.index(size) if shape.count(size) == 1 and sizes.count(size) == 1 else -1


def is_masked(distribution: "Distribution") -> Array:
    """Which entries of a distribution a mask leaves out of the density."""
    from numpyro.distributions import Independent, MaskedDistribution

    none = jnp.zeros(distribution.batch_shape, bool)
    base = getattr(distribution, "base_dist", None)
    if isinstance(distribution, MaskedDistribution):
        masked = jnp.broadcast_to(~jnp.asarray(distribution._mask, bool), none.shape)
        return masked | is_masked(base)
    if isinstance(distribution, Independent):
        inside = is_masked(base)
        return jnp.all(inside, axis=tuple(range(none.ndim, inside.ndim)))
    if base is not None and isinstance(getattr(base, "batch_shape", None), tuple):
        inside = is_masked(base)
        return jnp.broadcast_to(inside, none.shape) if inside.ndim <= none.ndim else none
    return none


def pointwise_of(site: Site) -> Array:
    """The log likelihood of each entry, without a scale, as NumPyro has it; NaN where it is masked."""
    log_prob = site["fn"].log_prob(site["value"])
    return jnp.where(jnp.broadcast_to(is_masked(site["fn"]), log_prob.shape), jnp.nan, log_prob)


def _log_prob(site: Site) -> Array:
    log_prob = site["fn"].log_prob(site["value"])
    # Only a user's own handler sets it: subsampling plates are refused, and Posterior applies N/n.
    return log_prob if site["scale"] is None else site["scale"] * log_prob


def _total(sites: Iterable[Site]) -> Array:
    each = [jnp.sum(_log_prob(site)) for site in sites if site["type"] == "sample"]
    return sum(each, start=jnp.zeros(()))


def _innermost(model: Function) -> Any:
    """The function inside NumPyro's handlers, which hide its signature."""
    from numpyro.primitives import Messenger

    while isinstance(model, Messenger) and model.fn is not None:
        model = model.fn
    return model


def _positional_names(
    model: Function, arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[str, ...]:
    try:
        signature = inspect.signature(_innermost(model))
    except (TypeError, ValueError):
        return tuple(f"argument {i}" for i in range(len(arguments)))
    try:
        signature.bind(*arguments, **keywords)
    except TypeError as error:
        name = getattr(_innermost(model), "__name__", "model")
        raise TypeError(
            f"the arguments do not match the model {name}{signature}: {error}. Give them after the model, as "
            "in fk.from_numpyro(model, x, y=y)."
        ) from error
    names = [
        p.name
        for p in signature.parameters.values()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    return tuple(names[i] if i < len(names) else f"argument {i}" for i in range(len(arguments)))
