"""The plate over the data of a NumPyro model: which arguments hold its rows, and if it can be subsampled."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from fokker._core.names import nearest
from fokker._core.state import describe_shapes
from fokker.targets._independence import check_independence
from fokker.targets._program import Program, Site, first_line, in_plate, is_latent
from fokker.targets.posterior import Posterior

# The name of the plate over the data, or also the arguments that are its rows.
Subsample = str | Mapping[str, str | Sequence[str]]
Theta = Mapping[str, Array]
Rows = dict[str, PyTree[Array]]


def plate_and_names(subsample: Subsample, program: Program) -> tuple[str, list[str] | None]:
    """The plate that `subsample` names, and the arguments that it says are its rows."""
    if isinstance(subsample, str):
        return subsample, None
    if not isinstance(subsample, Mapping) or len(subsample) != 1:
        raise TypeError(
            'subsample is the name of the plate over the data, as in subsample="rows", or also names the '
            f'arguments that are its rows, as in subsample={{"rows": ["x", "y"]}}; not {subsample!r}.'
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
        known = f"its plates are {', '.join(plates)}" if plates else "it has none"
        raise ValueError(f"the model has no plate {plate!r}: {known}.{nearest(plate, plates)}")
    inside = {name: site for name, site in sites.items() if in_plate(site, plate)}
    for name, site in inside.items():
        if is_latent(site):
            raise ValueError(
                f"the latent site {name!r} is inside the plate {plate!r}, with one value per row, which a "
                "minibatch cannot all update: sum it out of the model, give its values as obs, or leave out "
                "subsample."
            )
    if not any(site["type"] == "sample" for site in inside.values()):
        raise ValueError(
            f"nothing is observed inside the plate {plate!r}: put the likelihood there, as in "
            f'`with numpyro.plate("{plate}", len(y)): numpyro.sample("y", …, obs=y)`.'
        )


def split(
    program: Program, plate: str, size: int, row_names: list[str] | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arguments that are rows of data, and the remaining arguments."""
    arguments = program.arguments()

    def is_rows(leaf: object) -> bool:
        return isinstance(leaf, jax.Array | np.ndarray) and leaf.ndim > 0 and leaf.shape[0] == size

    names = list(arguments) if row_names is None else row_names
    rows = {name: eqx.filter(arguments[name], is_rows) for name in names}
    for name in row_names or ():
        if not jax.tree.leaves(rows[name]):
            raise ValueError(
                f"the plate {plate!r} has the size {size}, but the argument {name!r} has the shape "
                f"{describe_shapes(arguments[name])}: its first axis must have that length."
            )
    rows = {name: jax.tree.map(jnp.asarray, tree) for name, tree in rows.items() if jax.tree.leaves(tree)}
    if not rows:
        raise ValueError(
            f"the plate {plate!r} has the size {size}, but no argument of the model has a first axis of that "
            f"length ({program.described_arguments()}): give the data as arguments, as in "
            f"fk.from_numpyro(model, x, y, subsample={plate!r})."
        )
    fixed = {
        name: jax.tree.map(
            lambda leaf, row: leaf if row is None else None, value, _like(value, rows.get(name))
        )
        for name, value in program.fixed.items()
    }
    return rows, fixed


def _like(tree: PyTree[object], rows: PyTree[Array] | None) -> Any:
    """`rows`, or a tree like `tree` of None if there are no rows."""
    if rows is None:
        return jax.tree.map(lambda leaf: None, tree)
    return rows


def shapes(program: Program, theta: Theta, rows: Rows) -> dict[str, Any]:
    """Shapes and plate sizes of all sites, without computing their values."""
    sites: dict[str, Any] = {}

    def record(program: Program, theta: Theta, rows: Rows) -> Array:
        for name, site in program.run(theta, rows).items():
            shape = site["fn"].shape() if is_latent(site) else jnp.shape(site["value"])
            size = site["args"][0] if site["type"] == "plate" else None
            sites[name] = {"shape": tuple(shape), "size": size}
        return program.log_density(theta, rows)

    eqx.filter_eval_shape(record, program, theta, rows)
    return sites


def shapes_on_one_row(program: Program, theta: Theta, row: Rows) -> dict[str, Any]:
    """`shapes`, or an error that says what to change in the model."""
    try:
        return shapes(program, theta, row)
    except Exception as error:
        names = ", ".join(row)
        raise ValueError(
            f"the model could not be run on one row of its data ({names}): {first_line(error)} Its sizes "
            "must come from the data, as in x.shape[0]; if not all of these are rows, name those that are: "
            f'subsample={{"{program.plate}": ["{next(iter(row))}"]}}.'
        ) from error


def check_on_one_row(
    on_one_row: dict[str, Any],
    plate: str,
    size: int,
    theta: Theta,
    rows: Rows,
) -> None:
    plate_size = on_one_row[plate]["size"]
    if plate_size != 1:
        first = next(iter(rows))
        raise ValueError(
            f"the plate {plate!r} has the size {plate_size} even if the model is run on one row: take it "
            f'from the data, as in numpyro.plate("{plate}", {first}.shape[0]).'
        )
    for name, value in theta.items():
        if on_one_row[name]["shape"] != value.shape:
            raise ValueError(
                f"the latent site {name!r} has the shape {value.shape} on {size} rows and "
                f"{on_one_row[name]['shape']} on one row: a site with one value per row cannot be sampled "
                "with minibatches. Leave out subsample, or do not take its size from the data."
            )


def check_sum(posterior: Posterior, program: Program, draw: Callable[[Any], Any]) -> None:
    """Raise unless the log density is a prior, which no row enters, plus a sum over rows."""
    advice = (
        "A row must not depend on other rows, nor the prior on any (standardise before the model, not in it, "
        "and give such a mean as an argument). Everything that depends on rows must be inside the plate "
        f"{program.plate!r}. The arguments with one row per datum, and no others, must be taken as rows, "
        f'here {", ".join(posterior.data)}: name them by subsample={{"{program.plate}": [names]}}.'
    )
    check_independence(program, lambda seed: draw(jax.random.key(seed)), posterior.data, advice, True)
