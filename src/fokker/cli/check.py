"""The commands `fokker check` and `fokker complete`."""

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from fokker.cli.console import show, show_columns
from fokker.cli.flags import CommandError, translated
from fokker.cli.options import Seed, option

if TYPE_CHECKING:
    from jaxtyping import Array

Value = TypeVar("Value")

Source = Annotated[
    str,
    typer.Argument(
        metavar="FILE.py:NAME",
        help="A Python file, and the name of a fk.Dynamics, fk.SDE or sampler in it, or of a function "
        "without arguments that returns one.",
    ),
]
Shapes = Annotated[
    list[str] | None,
    option(
        "The shape of a variable, as in theta=3 or xi=2x2 (repeat for each); theta= is a scalar. "
        "Needed if the file does not determine it.",
        "VARIABLE=SHAPE",
        "--shape",
    ),
]
Starts = Annotated[
    list[str] | None,
    option(
        "Where to start the search for the target's mass, as in theta=1 (every coordinate). Default: 0.",
        "VARIABLE=NUMBER",
        "--start",
    ),
]


def check(
    source: Source,
    shape: Shapes = None,
    start: Starts = None,
    periodic: Annotated[
        list[str] | None,
        option("An angle with its period, as in phi=6.283185307179586 or phi=2pi.", "VARIABLE=PERIOD"),
    ] = None,
    sphere: Annotated[list[str] | None, option("A unit vector (repeat for each).", "VARIABLE")] = None,
    seed: Seed = 0,
    as_json: Annotated[bool, option("Print the report as JSON.", None, "--json")] = False,
) -> None:
    """Check a sampler. Exit code 0 if it is right, 1 if it is wrong or in doubt, 2 for bad input."""
    import fokker
    from fokker.checker._report import TEXT_COLUMN

    report = fokker.check(
        load(source),
        state=_state(shape, start),
        periodic=_parsed("--periodic", periodic, _period, "VARIABLE=PERIOD, as in phi=2pi"),
        sphere=sphere or (),
        seed=seed,
    )
    if as_json:
        notes = [translated(note) for note in report.notes]
        typer.echo(json.dumps({**report.to_json(), "notes": notes}, indent=2))
    else:
        show_columns(translated(report), TEXT_COLUMN)
    raise typer.Exit(0 if report.ok else 1)


def complete(
    source: Source,
    shape: Shapes = None,
    start: Starts = None,
    box: Annotated[
        list[str] | None,
        option(
            "The box: a range for each coordinate. Default: determined from the target.", "VARIABLE=LOW:HIGH"
        ),
    ] = None,
    grid: Annotated[int | None, option("Grid points per dimension.")] = None,
    method: Annotated[str, option("fourier, axial, or auto.")] = "auto",
    axis: Annotated[str | None, option("Coordinate of the axial gauge, as in r or r[0].")] = None,
    out: Annotated[Path | None, option("Folder for completion.npz and completion.png.")] = None,
) -> None:
    """Find the Q of a drift (Ma et al. 2015, Theorem 2). Exit code 1 if the drift is not stationary."""
    import fokker
    from fokker.cli.folders import made_folder

    state = _state(shape, start)
    ranges = _parsed("--box", box, _range, "VARIABLE=LOW:HIGH, as in theta=-3:3") or None
    with made_folder(out):
        completion = fokker.complete(
            load(source), state=state, box=ranges, grid=grid, method=method, axis=axis
        )
        paths: list[Path] = []
        if out is not None:
            from fokker.report.plots import save_completion

            paths = save_completion(completion, out)
    show(completion)
    for path in paths:
        show(f"wrote {path}")
    raise typer.Exit(0 if completion.stationary else 1)


def load(source: str) -> Any:
    """The dynamics or the sampler that FILE.py:NAME names."""
    from fokker import samplers
    from fokker.cli.model_file import load_object
    from fokker.dynamics import SDE, Dynamics
    from fokker.samplers import Sampler

    if source in samplers.__all__:
        raise CommandError(
            f"{source} is a name of fk.samplers: put sampler = fk.samplers.{source}(…), with your settings, "
            "into a file, and give sampler.py:sampler."
        )
    loaded = load_object(source)
    file, _, name = source.rpartition(":")
    if not isinstance(loaded, Dynamics | SDE | Sampler | dict):
        raise CommandError(
            f"{name} in {file} is of type {type(loaded).__name__}; a fk.Dynamics, a fk.SDE or a sampler is "
            "needed."
        )
    return loaded


def _parsed(
    option: str, texts: Sequence[str] | None, parse: Callable[[str], Value], wanted: str
) -> dict[str, Value]:
    """Values by their variables, of options such as theta=3."""
    values = {}
    for text in texts or ():
        name, _, value = text.partition("=")
        try:
            if not name or "=" not in text:
                raise ValueError
            values[name] = parse(value)
        except ValueError:
            raise CommandError(f"{option} {text}: write {wanted}.") from None
    return values


def _shape(text: str) -> tuple[int, ...]:
    sizes = tuple(int(part) for part in text.split("x")) if text else ()
    if any(size < 1 for size in sizes):
        raise ValueError
    return sizes


def _period(text: str) -> float:
    return float(text.removesuffix("pi") or 1) * (math.pi if text.endswith("pi") else 1)


def _range(text: str) -> tuple[float, float]:
    low, high = text.split(":")
    return float(low), float(high)


def _state(shapes: list[str] | None, starts: list[str] | None) -> "dict[str, Array] | None":
    """A state of these shapes, filled with the start values; None without any."""
    import jax.numpy as jnp

    sizes = _parsed("--shape", shapes, _shape, "VARIABLE=SHAPE, as in theta=3, xi=2x2 or r=")
    values = _parsed("--start", starts, float, "VARIABLE=NUMBER, as in theta=1")
    if values and not sizes:
        raise CommandError("--start needs --shape: give the shape of every variable.")
    if unknown := next((name for name in values if name not in sizes), None):
        raise CommandError(f"--start names {unknown!r}, which has no --shape.")
    return {name: jnp.full(size, values.get(name, 0.0)) for name, size in sizes.items()} or None
