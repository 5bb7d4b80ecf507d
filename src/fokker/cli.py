"""The command `fokker`."""

import json
import traceback
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from fokker.datasets.command import app as data
from fokker.models.lda.command import app as lda
from fokker.run.sample_command import predict, report, resume, sample

app = typer.Typer(
    help="Bayesian inference by simulating stochastic dynamics: write D and Q, get a sampler, "
    "and check whether it is right.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(lda, name="lda")
app.add_typer(data, name="data")
console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)

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
    typer.Option(
        "--shape",
        metavar="VARIABLE=SHAPE",
        help="The shape of a variable, as in theta=3 or xi=2x2 (repeat for each); theta= is a scalar. "
        "Needed if the file does not determine it.",
    ),
]


Starts = Annotated[
    list[str] | None,
    typer.Option(
        "--start",
        metavar="VARIABLE=NUMBER",
        help="Where to start the search for the target's mass, as in theta=1 (every coordinate). Default: 0.",
    ),
]

# A command lists at most this many of the files that it wrote.
_MAX_FILES_LISTED = 8


class CommandError(Exception):
    """An error that the user can correct; printed without a traceback."""


def main() -> None:
    """Run the command; a user error gives one message and exit code 2."""
    try:
        app()
    except KeyboardInterrupt:
        errors.print("fokker: interrupted", markup=False)
        raise SystemExit(130) from None
    except (CommandError, ValueError, TypeError, OSError) as error:
        errors.print(f"fokker: {error}", style="red", markup=False, soft_wrap=True)
        raise SystemExit(2) from None
    except Exception as error:
        # An exception from the user's functions, which run long after their file was imported.
        frames = [f for f in traceback.extract_tb(error.__traceback__) if _is_user_file(f.filename)]
        where = f" at {frames[-1].filename}, line {frames[-1].lineno}" if frames else ""
        errors.print(f"fokker: {type(error).__name__}{where}: {error}", style="red", markup=False)
        raise SystemExit(2) from None


def _is_user_file(filename: str) -> bool:
    return "site-packages" not in filename and Path(__file__).parent not in Path(filename).parents


def _print_version(is_requested: bool) -> None:
    if is_requested:
        import fokker

        typer.echo(fokker.__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    name: Annotated[
        str, typer.Argument(help="The demonstration: logistic, network, ratings or recipe.")
    ] = "logistic",
    out: Annotated[Path, typer.Option(help="Folder for the picture and the report.")] = Path("fokker-demo"),
    seed: Annotated[int, typer.Option(help="Seed of the random numbers.")] = 0,
) -> None:
    """Logistic regression on a million rows; a network; 'recipe', right and wrong samplers side by side."""
    from fokker._core.state import nearest
    from fokker.demo import DEMOS

    if name not in DEMOS:
        raise CommandError(
            f"the demonstrations are {', '.join(DEMOS)}, not {name!r}.{nearest(name, list(DEMOS))}"
        )
    DEMOS[name](out, seed, console)


@app.command()
def check(
    source: Source,
    shape: Shapes = None,
    start: Starts = None,
    periodic: Annotated[
        list[str] | None,
        typer.Option(
            metavar="VARIABLE=PERIOD",
            help="An angle with its period, as in phi=6.283185307179586 or phi=2pi.",
        ),
    ] = None,
    sphere: Annotated[
        list[str] | None, typer.Option(metavar="VARIABLE", help="A unit vector (repeat for each).")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random points.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Check a sampler. Exit code 0 if it is right, 1 if it is wrong or in doubt, 2 for bad input."""
    import fokker

    report = fokker.check(
        load(source),
        state=parse_shapes(shape, start),
        periodic=parse_periods(periodic),
        sphere=sphere or (),
        seed=seed,
    )
    if as_json:
        typer.echo(json.dumps(report.to_json(), indent=2))
    else:
        console.print(str(report), markup=False, soft_wrap=True)
    raise typer.Exit(0 if report.ok else 1)


@app.command()
def complete(
    source: Source,
    shape: Shapes = None,
    start: Starts = None,
    box: Annotated[
        list[str] | None,
        typer.Option(
            metavar="VARIABLE=LOW:HIGH",
            help="The box: a range for each coordinate. Default: determined from the target.",
        ),
    ] = None,
    grid: Annotated[int | None, typer.Option(help="Grid points per dimension.")] = None,
    method: Annotated[str, typer.Option(help="fourier, axial, or auto.")] = "auto",
    axis: Annotated[str | None, typer.Option(help="Coordinate of the axial gauge, as in r or r[0].")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for completion.npz and completion.png.")] = None,
) -> None:
    """Find the Q of a drift (Ma et al. 2015, Theorem 2). Exit code 1 if the drift is not stationary."""
    import fokker

    state = parse_shapes(shape, start)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)  # before the work, not after it
    completion = fokker.complete(
        load(source), state=state, box=parse_box(box), grid=grid, method=method, axis=axis
    )
    console.print(str(completion), markup=False, soft_wrap=True)
    if out is not None:
        from fokker.report.plots import save_completion

        for path in save_completion(completion, out):
            console.print(f"wrote {path}", markup=False)
    raise typer.Exit(0 if completion.stationary else 1)


for _command in (sample, resume, report, predict):
    app.command()(_command)


@app.command()
def reproduce(
    name: Annotated[str, typer.Argument(help="The name of the experiment; 'list' lists them.")],
    out: Annotated[Path | None, typer.Option(help="Folder for figures and result.json.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer steps with the same code; takes under a minute.")
    ] = False,
    seeds: Annotated[
        int | None,
        typer.Option(min=1, help="The number of seeds to repeat it with. Default: that of the experiment."),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            help="The folder of data, for experiments that need it. Default: $FOKKER_DATA, or where "
            "`fokker data get` puts them."
        ),
    ] = None,
) -> None:
    """Reproduce an experiment from the papers; exit code 1 if a claim does not hold."""
    from fokker.lab.experiments import EXPERIMENTS
    from fokker.lab.experiments import reproduce as run

    if name == "list":
        for key, experiment in EXPERIMENTS.items():
            console.print(f"{key:20} {experiment.description}", markup=False)
        return
    folder = Path(f"fokker-{name}") if out is None else out
    result = run(name, folder, quick=quick, seeds=seeds, data_dir=data_dir)
    console.print(result.table())
    files = ["result.json", *result.figures]
    written = ", ".join(str(folder / name) for name in files[:_MAX_FILES_LISTED])
    written += f" and {len(files) - _MAX_FILES_LISTED} more" if len(files) > _MAX_FILES_LISTED else ""
    console.print(f"{result.wall_seconds:.1f} s; wrote {written}", markup=False, soft_wrap=True)
    raise typer.Exit(0 if all(claim.holds for claim in result.claims) else 1)


def load(source: str) -> Any:
    """The dynamics or the sampler that FILE.py:NAME names."""
    from fokker.dynamics import SDE, Dynamics
    from fokker.run.model import load_object
    from fokker.samplers import Sampler

    loaded = load_object(source)
    file, _, name = source.rpartition(":")
    if not isinstance(loaded, Dynamics | SDE | Sampler | dict):
        raise CommandError(
            f"{name} in {file} is of type {type(loaded).__name__}; a fk.Dynamics, a fk.SDE or a sampler is "
            "needed."
        )
    return loaded


def parse_shapes(shapes: list[str] | None, starts: list[str] | None = None) -> Any:
    """A state from options such as theta=3, xi=2x2 and r=, filled with the start values; None without any."""
    import jax.numpy as jnp

    start_values = {}
    for text in starts or []:
        name, _, number = text.partition("=")
        try:
            start_values[name] = float(number)
        except ValueError:
            raise CommandError(f"--start {text}: write VARIABLE=NUMBER, as in theta=1.") from None
    if start_values and not shapes:
        raise CommandError("--start needs --shape: give the shape of every variable.")
    if not shapes:
        return None
    state = {}
    for text in shapes:
        name, separator, size = text.partition("=")
        try:
            sizes = tuple(int(part) for part in size.split("x")) if size else ()
            if not separator or not name or any(n < 1 for n in sizes):
                raise ValueError
        except ValueError:
            raise CommandError(
                f"--shape {text}: write VARIABLE=SHAPE, as in theta=3, xi=2x2 or r=."
            ) from None
        state[name] = jnp.full(sizes, start_values.pop(name, 0.0))
    if start_values:
        raise CommandError(f"--start names {next(iter(start_values))!r}, which has no --shape.")
    return state


def parse_periods(texts: list[str] | None) -> dict[str, float]:
    """Periods from options such as phi=6.28 or phi=2pi."""
    import math

    periods = {}
    for text in texts or []:
        name, _, number = text.partition("=")
        try:
            periods[name] = float(number.removesuffix("pi") or 1) * (math.pi if number.endswith("pi") else 1)
        except ValueError:
            raise CommandError(f"--periodic {text}: write VARIABLE=PERIOD, as in phi=2pi.") from None
    return periods


def parse_box(ranges: list[str] | None) -> Any:
    """A box from options such as theta=-3:3; None without any."""
    if not ranges:
        return None
    box = {}
    for text in ranges:
        name, _, span = text.partition("=")
        low, separator, high = span.partition(":")
        try:
            box[name] = (float(low), float(high))
        except ValueError:
            separator = ""
        if not separator or not name:
            raise CommandError(f"--box {text}: write VARIABLE=LOW:HIGH, as in theta=-3:3.")
    return box
