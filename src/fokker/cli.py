"""The command `fokker`."""

import importlib.util
import json
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer
from rich.console import Console

from fokker.datasets.command import app as data
from fokker.models.lda.command import app as lda

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
        errors.print(f"fokker: {error}", style="red", markup=False)
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
    from fokker.lab.demo import DEMOS

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


Mesh = Annotated[
    str | None,
    typer.Option(
        metavar="chains=4,data=2",
        help="Devices that share the chains, and the rows of each batch; without a number an axis takes all "
        "that are left. Default: one device, or with many processes --mesh chains.",
    ),
]
Coordinator = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Of many processes: a free port on the machine of the first. Under Slurm, Open MPI and "
        "Kubernetes it is known.",
    ),
]
Processes = Annotated[int | None, typer.Option(help="The number of processes, each with the same command.")]
Process = Annotated[int | None, typer.Option(help="The number of this process, from 0.")]


@app.command()
def sample(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE.py:NAME",
            help="A Python file, and the name of a fk.Density or fk.Posterior in it, or of a function "
            "without arguments that returns one.",
        ),
    ],
    steps: Annotated[int, typer.Option(help="Steps after burn-in.")],
    sampler: Annotated[
        str, typer.Option(help="The name of a sampler in fk.samplers or in the file.")
    ] = "sgld",
    step_size: Annotated[
        float | None, typer.Option(help="The step size. Default: tuned by short runs.")
    ] = None,
    init: Annotated[
        str,
        typer.Option(help="The name in the file of the initial position, or of a function of a key."),
    ] = "init",
    burn_in: Annotated[int, typer.Option(help="Steps before the first draw.")] = 0,
    warm_up: Annotated[
        int | None, typer.Option(help="Steps in which nuts, hmc and similar samplers adapt their settings.")
    ] = None,
    thin: Annotated[int, typer.Option(help="Keep every n-th step.")] = 1,
    chains: Annotated[int, typer.Option(help="The number of chains.")] = 4,
    batch_size: Annotated[int | None, typer.Option(help="Rows of data per step. Default: all.")] = None,
    temperature: Annotated[float, typer.Option(help="The temperature T of exp(-U/T).")] = 1.0,
    seed: Annotated[int, typer.Option(help="Seed of the random numbers.")] = 0,
    out: Annotated[
        Path, typer.Option(help="Folder of the run: its draws, its state and report.html.")
    ] = Path("fokker-sample"),
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing run in the folder.")
    ] = False,
    mesh: Mesh = None,
    coordinator: Coordinator = None,
    processes: Processes = None,
    process: Process = None,
) -> None:
    """Sample a posterior; exit code 1 if it has problems. A stopped run goes on by the same command.

    Draws are on disk about every second. SIGTERM and Ctrl-C end the run with a report, and exit codes 143 and
    130; after a kill nothing but the last second is lost. `fokker resume FOLDER` goes on too.
    """
    options = {
        "source": str(source),
        "sampler": sampler,
        "step_size": step_size,
        "init": init,
        "steps": steps,
        "burn_in": burn_in,
        "warm_up": warm_up,
        "thin": thin,
        "chains": chains,
        "batch_size": batch_size,
        "temperature": temperature,
        "seed": seed,
    }
    from fokker.run.command import clear_run
    from fokker.run.processes import join

    mesh = join(mesh, coordinator, processes, process)
    out.mkdir(parents=True, exist_ok=True)  # before the work, not after it
    if overwrite:
        clear_run(out)
    raise typer.Exit(_run_sampler(options, out, mesh))


def _run_sampler(options: dict[str, Any], out: Path, mesh: str | None) -> int:
    """Sample as the options of `fokker sample` say, and return the exit code."""
    import fokker
    from fokker.run.command import run_and_report, write_command
    from fokker.samplers._named import by_name

    call = dict(options)
    source, name, init, step_size = (call.pop(key) for key in ("source", "sampler", "init", "step_size"))
    module, target = _load_object(source)
    if not hasattr(target, "potential"):
        raise CommandError(
            f"{source} is of type {type(target).__name__}; a fk.Density or fk.Posterior is needed."
        )
    if not hasattr(module, init):
        raise CommandError(f"the file has no name {init!r} to start from: give --init NAME.")
    file_sampler = getattr(module, name, None)
    sampler: Any = file_sampler if isinstance(file_sampler, fokker.samplers.Sampler) else name
    if step_size is not None:
        sampler = by_name(name)(step_size) if sampler is name else sampler.with_step_size(step_size)
    write_command(out, options)
    return run_and_report(
        out,
        lambda: fokker.sample(target, sampler, init=getattr(module, init), out=out, mesh=mesh, **call),
        f"{source} by {name}",
        console,
    )


@app.command()
def resume(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of a run of `fokker sample`.")],
    model: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.py:NAME",
            help="The model, where its file is elsewhere now, or not below this folder.",
        ),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="Steps after burn-in, in all. Default: as before.")
    ] = None,
    mesh: Mesh = None,
    coordinator: Coordinator = None,
    processes: Processes = None,
    process: Process = None,
) -> None:
    """Go on with a run of `fokker sample`, to the bit as if it had never stopped.

    The file of the model is executed, as `fokker sample` did: it has to be below the current folder, and not
    in that of the run, unless --model names it. Nothing that is in the folder of the run is executed.
    """
    from fokker.run.command import read_command
    from fokker.run.processes import join

    mesh = join(mesh, coordinator, processes, process)
    options = read_command(folder, model)
    if steps is not None:
        options["steps"] = steps
    console.print(f"continuing {folder} with the model {options['source']}", markup=False)
    raise typer.Exit(_run_sampler(options, folder, mesh))


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of a run, finished or not.")],
) -> None:
    """Write draws.html about the draws of a run so far, also while it is running.

    The model is not executed: the draws are compared with each other, not with the target, and the grade is
    "Use with care" at best. report.html is by `fokker sample` and `fokker resume`, which know the model.
    """
    import fokker
    from fokker.run.command import DRAWS_REPORT, write_report_of

    write_report_of(fokker.open(folder), folder / DRAWS_REPORT, str(folder), console)


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


def _load_object(source: str) -> tuple[ModuleType, Any]:
    """The module and the object of FILE.py:NAME; a function is called to create the object."""
    from fokker._core.module import Module
    from fokker._core.state import nearest

    file, separator, name = source.rpartition(":")
    if not separator or not file or not name:
        raise CommandError(f"give a file and a name in it, as in sampler.py:dynamics, not {source!r}.")
    module = _import_file(Path(file))
    if not hasattr(module, name):
        public = [key for key in vars(module) if not key.startswith("_")]
        objects = [key for key in public if isinstance(vars(module)[key], Module)]
        contents = (
            f"It has: {', '.join(objects)}." if objects else "It has no Fokker object at its top level."
        )
        raise CommandError(f"{file} has no name {name!r}.{nearest(name, public)} {contents}")
    loaded = getattr(module, name)
    if callable(loaded) and not isinstance(loaded, Module):
        try:
            loaded = loaded()
        except TypeError as error:
            raise CommandError(
                f"{name} in {file} is a function that could not be called without arguments: {error}. For a "
                "drift, use fk.SDE(drift, diffusion, hamiltonian)."
            ) from error
    return module, loaded


def load(source: str) -> Any:
    """The dynamics or the sampler that FILE.py:NAME names."""
    from fokker.dynamics import SDE, Dynamics

    _, loaded = _load_object(source)
    file, _, name = source.rpartition(":")
    if not isinstance(loaded, Dynamics | SDE | dict) and not hasattr(loaded, "dynamics"):
        raise CommandError(
            f"{name} in {file} is of type {type(loaded).__name__}; a fk.Dynamics or a fk.SDE is needed."
        )
    return loaded


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise CommandError(f"there is no file {path}.")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise CommandError(f"{path} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise CommandError(f"{path} could not be run: {type(error).__name__}: {error}") from error
    finally:
        sys.path.pop(0)
    return module


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
