"""Targets from NumPyro models."""

import dataclasses
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from fokker._core.labels import Labels, check_variable_names
from fokker.targets._given import Given
from fokker.targets._plate import (
    Subsample,
    check_on_one_row,
    check_plate,
    check_sum,
    plate_and_names,
    shapes,
    shapes_on_one_row,
    split,
)
from fokker.targets._program import (
    Function,
    LogDensity,
    LogLikelihood,
    LogPrior,
    Names,
    Program,
    Site,
    first_line,
    has_value,
    in_plate,
    is_latent,
    is_observed,
    site_labels,
)
from fokker.targets.constrained import Constrained, ConstrainedPosterior
from fokker.targets.constraints import Constraint
from fokker.targets.density import Density
from fokker.targets.posterior import Posterior
from fokker.targets.target import refuse_unknown

# Chains start uniformly between -2 and 2 in each unconstrained coordinate, as in NumPyro.
_RADIUS = 2.0


class Support(Constraint):
    """The support of a NumPyro site as a constraint, with NumPyro's transform."""

    support: Any
    shape: tuple[int, ...] = eqx.field(static=True)

    @property
    def _transform(self) -> Any:
        from numpyro.distributions import biject_to

        return biject_to(self.support)

    def constrain(self, y: Array) -> Array:
        """x(y)."""
        return self._transform(y)

    def unconstrain(self, x: Array) -> Array:
        """y(x)."""
        return self._transform._inverse(x)

    def log_jacobian(self, y: Array) -> Array:
        """log |det dx/dy|."""
        transform = self._transform
        return jnp.sum(transform.log_abs_det_jacobian(y, transform(y)))

    def check(self, x: Array, name: str) -> None:
        """Raise unless x has the site's shape and lies in its support."""
        if jnp.shape(x) != self.shape:
            raise ValueError(f"{name} has the shape {jnp.shape(x)}; the site has {self.shape}.")
        if not isinstance(x, jax.core.Tracer) and not np.all(self.support(x)):
            raise ValueError(
                f"{name} is {np.array2string(np.asarray(x), threshold=10)}, outside its support "
                f"{self.support}: start inside, as with init=target.init."
            )

    def draw(self, key: Key[Array, ""]) -> Array:
        """A value to start from."""
        free = self._transform.inverse_shape(self.shape)
        return self.constrain(jax.random.uniform(key, free, minval=-_RADIUS, maxval=_RADIUS))


class _NumPyroTarget(Constrained):
    """What is the same with and without minibatches."""

    constraints: dict[str, Constraint]

    @property
    @abstractmethod
    def program(self) -> Program:
        """The model with its arguments."""

    @property
    def _rows(self) -> PyTree[Array] | None:
        """The rows that are no part of the program."""
        return None

    def init(self, key: Key[Array, ""]) -> dict[str, Array]:
        """A theta to start from, uniform in the unconstrained space: `fk.sample(…, init=target.init)`."""
        return _draw(self.constraints, key)

    def derived(self, theta: PyTree[Array]) -> dict[str, Array]:
        """The deterministic sites at theta, with minibatches except those with one value per row."""
        return self.program.deterministic(theta, self._rows)

    def stored(self) -> "_NumPyroTarget":
        """The target in the precision that is on, of the arguments as they were given."""
        given = self.program.given
        return self if given is None else given.stored(self)

    def labels(self) -> Labels:
        """The plates of the sites, and the names of the user."""
        return self.program.labels

    def known_data(self) -> dict[str, dict[str, Any]]:
        """The values of the observed sites."""
        sites = self.program.run(_draw(self.constraints, jax.random.key(0)), self._rows)
        observed = {name: site["value"] for name, site in sites.items() if is_observed(site)}
        return {"observed_data": observed}

    def predictive(self, theta: PyTree[Array], key: Key[Array, ""]) -> dict[str, Array]:
        """A draw of the observed sites given theta, also of entries that a mask leaves out of the density."""
        sites = self.program.run(theta, self._rows)
        drawn = self.program.predictive(key, theta, self._rows)
        return {name: drawn[name]["value"] for name, site in sites.items() if is_observed(site)}

    def prior_predictive(self, key: Key[Array, ""]) -> dict[str, Array]:
        """A draw of all sites, with those that are observed."""
        sites = self.program.predictive(key, {}, self._rows)
        return {name: site["value"] for name, site in sites.items() if has_value(site)}

    def _check_names(self, tree: PyTree[Array]) -> None:
        super()._check_names(tree)
        refuse_unknown(tree, self.constraints, "latent site")


class NumPyroDensity(_NumPyroTarget):
    """The density of all latent sites of a NumPyro model."""

    @property
    def program(self) -> Program:
        """The model with its arguments."""
        return self.target.log_density.program

    def pointwise(self, theta: PyTree[Array]) -> dict[str, Array]:
        """The log likelihood of each entry of the observed sites; NaN for those that a mask leaves out."""
        return self.program.pointwise(theta)


class NumPyroPosterior(_NumPyroTarget, ConstrainedPosterior):
    """A NumPyro model whose plate over the data is subsampled in minibatches."""

    @property
    def program(self) -> Program:
        """The model with its arguments, without the rows."""
        return self.target.log_likelihood.program

    @property
    def _rows(self) -> PyTree[Array]:
        return self.data

    def log_likelihood_of_theta(self, theta: PyTree[Array], datum: PyTree[Array]) -> Array:
        """log p(datum|θ), without a scale; NaN for a row that a mask leaves out."""
        return self.program.row_log_likelihood(theta, jax.tree.map(lambda x: x[None], datum))


def from_numpyro(
    model: Function,
    *arguments: Any,
    subsample: Subsample | None = None,
    dims: Names = None,
    coords: Names = None,
    **keywords: Any,
) -> Any:
    r"""A NumPyro model, called with these arguments, as a target over a dictionary of its latent sites.

    ```python
    def model(x, y):
        w = numpyro.sample("w", dist.Normal(0, 1).expand([x.shape[1]]).to_event(1))
        scale = numpyro.sample("scale", dist.HalfNormal(1))
        with numpyro.plate("rows", x.shape[0]):
            numpyro.sample("y", dist.Normal(x @ w, scale), obs=y)

    target = fk.from_numpyro(model, x, y)                    # all the data in every step
    target = fk.from_numpyro(model, x, y, subsample="rows")  # or minibatches
    trace = fk.sample(target, sampler, init=target.init, batch_size=100, …)
    trace.samples["scale"]  # positive
    ```

    Arguments:

    - `model`: a function with NumPyro's statements.
    - `*arguments`, `**keywords`: what it is called with.
    - `subsample`: the plate over the data, for minibatches. The arguments whose first axis has the plate's
      length are its rows; if others have that length by coincidence, name the rows:
      `subsample={"rows": ["x", "y"]}`.
    - `coords`: the entries along the axes of sites, which are named by their plates, as in
      `coords={"city": ["Köln", "Bonn"]}`: tables then show a[Köln] in place of a[0], and `trace.to_arviz()`
      has them.
    - `dims`: names of other axes, as in `dims={"w": ["column"]}`.

    Returns a target whose `init(key)` draws a start, as NumPyro does. With `subsample` the model is run on a
    subset of the rows, so its sizes must come from the data, as in x.shape[0]. The sites inside the plate are
    the likelihood, scaled by N/n as in `fk.Posterior`; those outside are the prior.

    Sites are transformed to unconstrained space by NumPyro's transforms, as by `fk.constrain`. `init`, draws
    and moments are in terms of the sites; `target.init` draws a start as NumPyro does. `trace.to_arviz()`
    includes the deterministic sites. Arrays of NumPy are stored in the precision of the run: those that
    single precision would round noticeably need `fk.sample(…, precision="double")`. These are refused:
    discrete latent sites, supports that depend on other sites, and latent sites inside a subsampled plate.
    """
    try:
        import numpyro  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "fk.from_numpyro needs NumPyro, which is not installed: pip install 'fokker[numpyro]'."
        ) from error
    program = Program.of(model, arguments, keywords)
    return _target(program, subsample, dims, coords)


def _target(
    program: Program,
    subsample: Subsample | None,
    dims: Names,
    coords: Names,
    is_new: bool = True,
) -> Any:
    """The target of a program; of one that is not new, it is known that its rows are independent."""
    sites = _checked_sites(program)
    given = Given(program.named_arrays(), lambda: _target(program, subsample, dims, coords, False))
    labels = site_labels(sites, dims, coords)
    program = dataclasses.replace(program, labels=labels, given=given)
    constraints = _supports(sites, program)
    theta = _draw(constraints, jax.random.key(0))
    if subsample is not None:
        return _posterior(program, sites, constraints, theta, subsample, is_new)
    names = tuple(name for name, site in sites.items() if site["type"] == "deterministic")
    program = dataclasses.replace(program, derived=names)
    traced = program.traced()
    try:
        eqx.filter_eval_shape(lambda p, theta: p.log_density(theta), traced, theta)
    except Exception:  # it uses their values at compile time
        traced = program
    return NumPyroDensity(Density(LogDensity(traced)), constraints)


def _draw(constraints: Mapping[str, Any], key: Key[Array, ""]) -> dict[str, Array]:
    keys = jax.random.split(key, len(constraints))
    return {name: constraints[name].draw(k) for name, k in zip(sorted(constraints), keys, strict=True)}


def _checked_sites(program: Program) -> dict[str, Site]:
    try:
        sites = program.random_sites(0)
    except Exception as error:
        raise ValueError(
            f"the model could not be run with its arguments ({program.described_arguments()}): "
            f"{first_line(error)}"
        ) from error
    for name, site in sites.items():
        if site["type"] == "plate" and site["args"][1] not in (None, site["args"][0]):
            raise ValueError(
                f"the plate {name!r} has its own subsample_size={site['args'][1]}, which would "
                f"scale the likelihood a second time: leave it out, pass the rows to the model, "
                f"and call fk.from_numpyro(…, subsample={name!r}) and fk.sample(…, batch_size=…)."
            )
        if site["type"] == "param":
            raise ValueError(
                f"the model has a numpyro.param, {name!r}, which is optimised and not sampled: give it a "
                "prior with numpyro.sample, or replace it by its value."
            )
        if is_latent(site) and site["fn"].support.is_discrete:
            raise ValueError(
                f"the latent site {name!r} is discrete and has no gradient: sum it out of the model, as "
                "numpyro.distributions.MixtureSameFamily does, or give its values as obs."
            )
    check_variable_names(name for name, site in sites.items() if has_value(site))
    if not any(is_latent(site) for site in sites.values()):
        raise ValueError(
            "the model has no latent site, so there is nothing to sample. Add a site without obs, as in "
            'numpyro.sample("w", …).'
        )
    return sites


def _supports(sites: dict[str, Site], program: Program) -> dict[str, Constraint]:
    """The supports of the latent sites. Raise if they differ at another theta."""
    others = program.random_sites(1)
    supports: dict[str, Constraint] = {}
    for name, site in sites.items():
        if not is_latent(site):
            continue
        support = site["fn"].support
        other = others[name]["fn"].support if name in others else None
        if not _same(support, other):
            raise ValueError(
                f"the support of {name!r} depends on other sites or is random: draw from a fixed one and "
                f'transform, as in numpyro.deterministic("{name}", low + (high - low) * u) with u from '
                "dist.Uniform(0, 1)."
            )
        supports[name] = Support(support, jnp.shape(site["value"]))
    return supports


def _same(one: object, other: object) -> bool:
    if type(one) is not type(other):
        return False
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


def _posterior(
    program: Program,
    sites: dict[str, Site],
    constraints: dict[str, Constraint],
    theta: dict[str, Array],
    subsample: Subsample,
    is_new: bool,
) -> NumPyroPosterior:
    plate, row_names = plate_and_names(subsample, program)
    check_plate(plate, sites)
    size = sites[plate]["args"][0]
    rows, fixed = split(program, plate, size, row_names)
    row = jax.tree.map(lambda x: x[:1], rows)
    constant = dataclasses.replace(program, fixed=fixed, plate=plate)
    traced = constant.traced()
    try:
        on_one_row = shapes(traced, theta, row)
    except Exception:
        traced = constant
        on_one_row = shapes_on_one_row(constant, theta, row)
    check_on_one_row(on_one_row, plate, size, theta, rows)
    names = tuple(
        name
        for name, site in sites.items()
        if site["type"] == "deterministic"
        and not in_plate(site, plate)
        and on_one_row[name]["shape"] == jnp.shape(site["value"])
    )
    traced = dataclasses.replace(traced, derived=names)
    # On the device: deterministic sites are computed from all rows.
    rows = jax.tree.map(jnp.asarray, rows)
    posterior = Posterior(LogPrior(traced, row), LogLikelihood(traced), rows)
    if is_new:
        check_sum(posterior, traced, lambda key: _draw(constraints, key))
    return NumPyroPosterior(posterior, constraints)
