"""The plate over the data of a NumPyro model: which arguments are its rows, and whether it may be cut."""

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fokker._core.state import describe_shapes, nearest
from fokker.targets._program import Program, Site, first_line, in_plate, is_latent
from fokker.targets.posterior import Posterior

# Rows on which it is tried whether the likelihood is a sum over rows, and to how much of its size.
_TRIED = 1024
_TOLERANCE = 1e-4


def plate_and_names(subsample: Any, program: Program) -> tuple[str, list[str] | None]:
    if isinstance(subsample, str):
        return subsample, None
    if not isinstance(subsample, Mapping) or len(subsample) != 1:
        raise TypeError(
            'subsample is the name of the plate over the data, as in subsample="rows", or with the arguments '
            f'that are its rows, as in subsample={{"rows": ["x", "y"]}}; {subsample!r} was given.'
        )
    ((plate, names),) = subsample.items()
    names = [names] if isinstance(names, str) else list(names)
    for name in names:
        if name not in program.fixed:
            raise ValueError(
                f"subsample names the argument {name!r}, but the model was given "
                f"{', '.join(program.fixed) or 'none'}.{nearest(str(name), list(program.fixed))}"
            )
    return plate, names


def check_plate(plate: str, sites: dict[str, Site]) -> None:
    plates = [name for name, site in sites.items() if site["type"] == "plate"]
    if plate not in plates:
        there = f"its plates are {', '.join(plates)}" if plates else "it has none"
        raise ValueError(f"the model has no plate {plate!r}: {there}.{nearest(plate, plates)}")
    inside = {name: site for name, site in sites.items() if in_plate(site, plate)}
    for name, site in inside.items():
        if is_latent(site):
            raise ValueError(
                f"the latent site {name!r} is inside the plate {plate!r}, one for each row, and a minibatch "
                "does not see them all: sum it out of the model, give its values as obs, or leave subsample "
                "out."
            )
    if not any(site["type"] == "sample" for site in inside.values()):
        raise ValueError(
            f"nothing is observed inside the plate {plate!r}: put the likelihood there, as in "
            f'`with numpyro.plate("{plate}", len(y)): numpyro.sample("y", …, obs=y)`.'
        )


def split(
    program: Program, plate: str, size: int, chosen: list[str] | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The rows of data among the arguments, and the rest."""
    arguments = program.arguments()

    def is_rows(leaf: Any) -> bool:
        return isinstance(leaf, jax.Array | np.ndarray) and leaf.ndim > 0 and leaf.shape[0] == size

    names = list(arguments) if chosen is None else chosen
    rows = {name: eqx.filter(arguments[name], is_rows) for name in names}
    for name in chosen or ():
        if not jax.tree.leaves(rows[name]):
            raise ValueError(
                f"the plate {plate!r} has the size {size}, but the argument {name!r} has the shape "
                f"{describe_shapes(arguments[name])}: its first axis must be as long."
            )
    rows = {name: jax.tree.map(jnp.asarray, tree) for name, tree in rows.items() if jax.tree.leaves(tree)}
    if not rows:
        raise ValueError(
            f"the plate {plate!r} has the size {size}, but no argument of the model has a first axis of that "
            f"length (they are {program.told()}): give the data as arguments, as in "
            f"fk.from_numpyro(model, x, y, subsample={plate!r})."
        )
    fixed = {
        name: jax.tree.map(lambda leaf, row: leaf if row is None else None, held, _like(held, rows.get(name)))
        for name, held in program.fixed.items()
    }
    return rows, fixed


def _like(tree: Any, rows: Any) -> Any:
    """`rows`, in the structure of `tree` with None where there is no row."""
    if rows is None:
        return jax.tree.map(lambda leaf: None, tree)
    return rows


def shapes(program: Program, theta: Any, rows: Any) -> dict[str, Any]:
    """Types, shapes and plate sizes of all sites, without computing them."""
    found: dict[str, Any] = {}

    def look(program: Program, theta: Any, rows: Any) -> Array:
        for name, site in program.run(theta, rows).items():
            drawn = site["fn"].shape() if is_latent(site) else jnp.shape(site["value"])
            size = site["args"][0] if site["type"] == "plate" else None
            found[name] = {"shape": tuple(drawn), "size": size}
        return program.log_density(theta, rows)

    eqx.filter_eval_shape(look, program, theta, rows)
    return found


def on_one_row(program: Program, theta: Any, row: Any) -> dict[str, Any]:
    try:
        return shapes(program, theta, row)
    except Exception as error:
        names = ", ".join(row)
        raise ValueError(
            f"the model could not be run on one row of its data ({names}): {first_line(error)} Its sizes "
            "must come from the data, as x.shape[0] does; if not all of these are rows, say which are, as in "
            f'subsample={{"{program.plate}": ["{next(iter(row))}"]}}.'
        ) from error


def check_on_one_row(found: dict[str, Any], plate: str, size: int, theta: Any, rows: Any) -> None:
    on_one = found[plate]["size"]
    if on_one != 1:
        first = next(iter(rows))
        raise ValueError(
            f"the plate {plate!r} has the size {on_one} whatever rows the model is given, here one: take it "
            f'from the data, as in numpyro.plate("{plate}", {first}.shape[0]).'
        )
    for name, value in theta.items():
        if found[name]["shape"] != value.shape:
            raise ValueError(
                f"the latent site {name!r} has the shape {value.shape} on {size} rows and "
                f"{found[name]['shape']} on one: what has a value for each row cannot be seen by "
                "minibatches. Leave subsample out, or take its size from elsewhere."
            )


@eqx.filter_jit
def _both_sums(posterior: Posterior, program: Program, theta: Any) -> tuple[Array, Array, Array]:
    rows = jax.tree.map(lambda x: x[:_TRIED], posterior.data)
    each = jax.vmap(lambda datum: posterior.log_likelihood(theta, datum))(rows)
    prior = posterior.log_prior(theta)
    return program.log_density(theta, rows), jnp.sum(each) + prior, jnp.sum(jnp.abs(each)) + jnp.abs(prior)


def check_sum(posterior: Posterior, program: Program, draw: Callable[[Any], Any]) -> None:
    """Raise unless the density of many rows is the prior and a sum over them, at a theta that is drawn."""
    for seed in range(3):
        together, apart, scale = _both_sums(posterior, program, draw(jax.random.key(seed)))
        if not bool(jnp.isfinite(scale) & jnp.isfinite(together)):
            continue
        if abs(float(together - apart)) > _TOLERANCE * float(scale):
            raise ValueError(
                f"the log density of {min(posterior.size, _TRIED)} rows is {float(together):.6g} together "
                f"and {float(apart):.6g} row by row, so that minibatches would be wrong. Rows may not look "
                "at each other (standardise before, not in the model); all that depends on them must be "
                f"inside the plate {program.plate!r}; and of the arguments, those with a row a datum must be "
                f"taken for rows and no others, here {', '.join(posterior.data)}: "
                f'subsample={{"{program.plate}": [names]}} says which.'
            )
        return
