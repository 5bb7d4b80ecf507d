"""The commands `fokker sample`, `resume`, `report` and `predict`."""

import contextlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

# Imports of what needs JAX are inside functions: `fokker --help` is to be quick.
console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)
_SETTINGS = "fokker.settings"

DataFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--data",
        metavar="FILE",
        help="A table: .csv (with a header), .tsv, .parquet, .npz, or .npy as NAME=FILE. Repeat it for "
        "columns in several files.",
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        metavar="FILE.py[:NAME]",
        help="The model, where its file is elsewhere now, or not below this folder.",
    ),
]
Quantiles = Annotated[str, typer.Option(help="Probabilities of the quantiles in the table, with commas.")]
Mesh = Annotated[
    str | None,
    typer.Option(
        metavar="chains=4,data=2",
        help="Devices that share the chains, the rows of each batch, or with parameters=2 theta; without a "
        "number an axis takes all that are left. Default: one device, or with many processes --mesh chains.",
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


def _read_config(context: typer.Context, path: Path | None) -> Path | None:
    """Make the options of a TOML file the defaults of the command."""
    if path is None:
        return None
    from fokker.run.options import as_text, read_config

    known = {
        name.removeprefix("--"): parameter
        for parameter in context.command.params
        for name in (parameter.opts if parameter.opts[0].startswith("-") else [parameter.name or ""])
        if parameter.name not in ("config", "settings", "help")
    }
    options, settings = read_config(path, {name: parameter.name or "" for name, parameter in known.items()})
    several = [p.name for p in known.values() if getattr(p, "multiple", False)]
    for name, value in options.items():
        if name in several:
            options[name] = value if isinstance(value, list) else [value]
        elif isinstance(value, list):
            options[name] = as_text(value)
    context.default_map = options
    context.meta[_SETTINGS] = settings
    return path


def sample(
    context: typer.Context,
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE.py[:NAME]",
            help="A Python file with log_prior(theta) and log_likelihood(theta, datum); or the name in it of "
            "a fk.Density, a fk.Posterior, or a function that returns one, of the data or without arguments.",
        ),
    ],
    steps: Annotated[int, typer.Option(help="Steps after burn-in.")],
    data: DataFiles = None,
    columns: Annotated[
        str | None, typer.Option(metavar="NAME,…", help="Columns of the data to read. Default: all.")
    ] = None,
    categories: Annotated[
        str | None,
        typer.Option(metavar="NAME,…", help="Columns whose values are replaced by codes 0, 1, …."),
    ] = None,
    dates: Annotated[
        str | None,
        typer.Option(metavar="NAME,…", help="Columns of dates, which become days since 1970-01-01."),
    ] = None,
    separator: Annotated[
        str | None,
        typer.Option(metavar="CHAR", help="Between the fields of a text file, as ';' or tab."),
    ] = None,
    decimal: Annotated[
        str, typer.Option(metavar="CHAR", help="The decimal mark in text files, . or a comma.")
    ] = ".",
    encoding: Annotated[
        str, typer.Option(help="That of text files; Excel on Windows writes cp1252.")
    ] = "utf-8-sig",
    missing: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT,…",
            help="Texts that stand for a missing value, besides empty fields. Default: NA, NaN, null, ….",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="An argument of the model's function, or of the sampler as sampler.KEY=VALUE (repeat).",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.toml",
            callback=_read_config,
            is_eager=True,
            help="Options of this command by their names, and tables [model] and [sampler] for --set. What "
            "is given here comes before it.",
        ),
    ] = None,
    sampler: Annotated[
        str | None,
        typer.Option(
            help="The name of a sampler in fk.samplers or in the file. Default: nuts; with --batch-size sgld."
        ),
    ] = None,
    step_size: Annotated[
        float | None, typer.Option(help="The step size. Default: tuned by short runs.")
    ] = None,
    init: Annotated[
        str,
        typer.Option(help="The name in the file of the initial position, or of a function of a key."),
    ] = "init",
    start: Annotated[
        str,
        typer.Option(
            metavar="init|mode",
            help="Where chains start: at init, or at the mode, which is found from there with all the data.",
        ),
    ] = "init",
    burn_in: Annotated[int, typer.Option(help="Steps before the first draw.")] = 0,
    warm_up: Annotated[
        int | None, typer.Option(help="Steps in which nuts, hmc and similar samplers adapt their settings.")
    ] = None,
    thin: Annotated[int, typer.Option(help="Keep every n-th step.")] = 1,
    chains: Annotated[int, typer.Option(help="The number of chains.")] = 4,
    batch_size: Annotated[int | None, typer.Option(help="Rows of data per step. Default: all.")] = None,
    gradient: Annotated[
        str,
        typer.Option(
            metavar="minibatch|control-variates",
            help="What is made of the rows of a step: with control variates at the mode, the noise of the "
            "gradient is small near it, and a step takes twice as long.",
        ),
    ] = "minibatch",
    temperature: Annotated[float, typer.Option(help="The temperature T of exp(-U/T).")] = 1.0,
    seed: Annotated[int, typer.Option(help="Seed of the random numbers.")] = 0,
    double: Annotated[
        bool,
        typer.Option("--double", help="Compute in double precision, for data that single would round."),
    ] = False,
    quantiles: Quantiles = "0.05,0.5,0.95",
    out: Annotated[
        Path, typer.Option(help="Folder of the run: its draws, its state and report.html.")
    ] = Path("fokker-sample"),
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing run in the folder.")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Say what would run, how long, and with how much memory and disk; write nothing.",
        ),
    ] = False,
    mesh: Mesh = None,
    coordinator: Coordinator = None,
    processes: Processes = None,
    process: Process = None,
) -> None:
    """Sample a posterior; exit code 1 if it has problems. A stopped run goes on by the same command.

    Draws are on disk about every second. SIGTERM, SIGHUP and Ctrl-C end the run with a report, and exit codes
    143, 129 and 130; after a kill nothing but the last second is lost. `fokker resume FOLDER` goes on too.
    """
    from fokker.run.command import replacing_run
    from fokker.run.options import parse_list, parse_quantiles, parse_settings
    from fokker.run.processes import join

    parse_quantiles(quantiles)  # which are needed only after the run
    options = {
        "source": str(source),
        "data": data or [],
        "columns": parse_list(columns) or None,
        "categories": dict.fromkeys(parse_list(categories)),
        "dates": parse_list(dates),
        "text": {
            "separator": separator,
            "decimal": decimal,
            "encoding": encoding,
            "missing": None if missing is None else parse_list(missing),
        },
        "settings": parse_settings(settings or [], context.meta.get(_SETTINGS)),
        "sampler": sampler or ("nuts" if batch_size is None else "sgld"),
        "step_size": step_size,
        "init": init,
        "start": start,
        "gradient": gradient,
        "quantiles": quantiles,
        "steps": steps,
        "burn_in": burn_in,
        "warm_up": warm_up,
        "thin": thin,
        "chains": chains,
        "batch_size": batch_size,
        "temperature": temperature,
        "seed": seed,
        "precision": "double" if double else None,
    }
    for option, value, known in (
        ("--start", start, ("init", "mode")),
        ("--gradient", gradient, ("minibatch", "control-variates")),
    ):
        if value not in known:
            raise ValueError(f"{option} is one of {', '.join(known)}, not {value!r}.")
    if gradient != "minibatch" and batch_size is None:
        raise ValueError(f"--gradient {gradient} is about minibatches: give --batch-size.")
    if dry_run:
        _print_estimate(options, out, overwrite)
        return
    if out.exists() and not out.is_dir():
        raise ValueError(f"--out {out} is a file: give the name of a folder.")
    mesh = join(mesh, coordinator, processes, process)  # before JAX is used
    out.mkdir(parents=True, exist_ok=True)  # before the work, not after it
    with replacing_run(out) if overwrite else contextlib.nullcontext():
        code = _run_sampler(options, out, mesh)
    raise typer.Exit(code)


class _Call:
    """The options of `fokker sample` as the arguments of `fk.sample`.

    `folder`: that of the run. Where there is one, its mode is used, so that it goes on with the same numbers.
    """

    def __init__(self, options: dict[str, Any], folder: Path) -> None:
        from fokker.gradients import control_variates
        from fokker.run.command import MODEL_OPTIONS
        from fokker.run.model import Model
        from fokker.run.options import MODEL, SAMPLER, parse_quantiles

        self.options = {name: value for name, value in options.items() if name not in MODEL_OPTIONS}
        settings = options.get("settings", {MODEL: {}, SAMPLER: {}})
        self.quantiles = parse_quantiles(options.get("quantiles", "0.05,0.5,0.95"))
        model = Model.load(options["source"], settings[MODEL], options["init"])
        data = read_data(options)
        # As they were read: new rows are to have the same columns in this order, and the same codes.
        self.columns = None if data is None else list(data.order)
        self.labels = {} if data is None else dict(data.labels)
        self.target = model.target(data)
        self.sampler = model.sampler(options["sampler"], options["step_size"], settings[SAMPLER])
        self.options["init"] = model.init(options["init"], self.target, data)
        self.mode: list[Any] | None = None
        start, gradient = options.get("start", "init"), options.get("gradient", "minibatch")
        if start == "mode" or gradient != "minibatch":
            mode = self._mode(folder)
            self.options["init"] = mode if start == "mode" else self.options["init"]
            self.options["gradient"] = control_variates(mode) if gradient != "minibatch" else None
        self.title = f"{model.source} by {options['sampler']}"

    def _mode(self, folder: Path) -> Any:
        """The mode of the target, found from init, or that of the run in the folder."""
        import jax
        import jax.numpy as jnp
        import numpy as np

        from fokker._core.state import is_function
        from fokker.run.command import option_of_run
        from fokker.run.positions import PerChain
        from fokker.run.store import has_run
        from fokker.targets import find_mode

        init = self.options["init"]
        if isinstance(init, PerChain):
            init = jax.tree.map(lambda x: x[0], init.positions)
        init = init(jax.random.key(self.options["seed"])) if is_function(init) else init
        leaves, structure = jax.tree.flatten(jax.tree.map(jnp.asarray, init))
        before = option_of_run(folder, "mode") if has_run(folder) else None
        if before is not None and [np.shape(x) for x in before] == [x.shape for x in leaves]:
            mode = jax.tree.unflatten(
                structure, [jnp.asarray(x, y.dtype) for x, y in zip(before, leaves, strict=True)]
            )
        else:
            errors.print("finding the mode, from init and with all the data", markup=False)
            mode = find_mode(self.target, init)
        # As numbers of JSON, which give back every bit.
        self.mode = [np.asarray(x).tolist() for x in jax.tree.leaves(mode)]
        return mode


def read_data(options: dict[str, Any], are_new: bool = False) -> Any:
    """The columns of --data, or None without it; `are_new`: of rows to predict."""
    if not options.get("data"):
        if options.get("columns") or options.get("categories") or options.get("dates"):
            raise ValueError("--columns, --categories and --dates are about --data, which was not given.")
        return None
    from fokker.rows.csv_table import TextFormat
    from fokker.rows.table import read_table

    option = "columns_of_run" if are_new else "columns"
    return read_table(
        options["data"],
        categories=options["categories"],
        uses_all_rows=not are_new and options["batch_size"] is None,
        dates=options.get("dates", ()),
        text=TextFormat.read(options.get("text", {})),
        **{option: options["columns"]},
    )


def _data_of_run(folder: Path, options: dict[str, Any]) -> Any:
    """The data of a run, by which new rows are predicted."""
    from fokker.run.command import option_of_run

    try:
        return read_data({**options, "data": option_of_run(folder, "data")})
    except OSError as error:
        raise ValueError(
            f"{options['init']} in the model's file takes the data of the run, to say what theta is made of, "
            f"and {error} Put them back, or make {options['init']} a theta or a function of a key."
        ) from error


@contextlib.contextmanager
def _naming_double() -> Iterator[None]:
    """What the command line offers for data that single precision would round."""
    from fokker.rows.precision import PrecisionError

    try:
        yield
    except PrecisionError as error:
        raise ValueError(f"{error} At the command line: --double.") from None


def _print_estimate(options: dict[str, Any], out: Path, overwrite: bool) -> None:
    from fokker._core.precision import computing_in
    from fokker.run.estimate import estimate

    with computing_in(options.get("precision")), _naming_double():
        call = _Call(options, out)
        settings = options["settings"]
        for line in estimate(call.target, call.sampler, call.options, out, call.title, overwrite, settings):
            console.print(line, markup=False, soft_wrap=True)


def _run_sampler(options: dict[str, Any], out: Path, mesh: str | None) -> int:
    """Sample as the options of `fokker sample` say, and return the exit code."""
    import fokker
    from fokker._core.precision import computing_in
    from fokker.run.command import run_and_report, written_command

    with computing_in(options.get("precision")), _naming_double():
        call = _Call(options, out)
        as_used = {**options, "columns": call.columns, "categories": call.labels, "mode": call.mode}

        def run() -> Any:
            with written_command(out, as_used):
                return fokker.sample(call.target, call.sampler, out=out, mesh=mesh, **call.options)

        return run_and_report(out, run, call.title, console, call.quantiles)


def resume(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of a run of `fokker sample`.")],
    model: Model = None,
    data: Annotated[
        list[str] | None,
        typer.Option("--data", metavar="FILE", help="The files of data, where they are elsewhere now."),
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
    in that of the run, unless --model names it. Nothing that is in the folder of the run is executed. The
    data are read again; other data than those of the run are refused.
    """
    from fokker.run.command import read_command
    from fokker.run.processes import join

    mesh = join(mesh, coordinator, processes, process)
    options = read_command(folder, model, data)
    if steps is not None:
        options["steps"] = steps
    console.print(f"continuing {folder} with the model {options['source']}", markup=False, soft_wrap=True)
    raise typer.Exit(_run_sampler(options, folder, mesh))


def report(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of a run, finished or not.")],
    quantiles: Quantiles = "0.05,0.5,0.95",
) -> None:
    """Write draws.html about the draws of a run so far, also while it is running.

    The model is not executed: the draws are compared with each other, not with the target, and the grade is
    "Use with care" at best. report.html is by `fokker sample` and `fokker resume`, which know the model.
    """
    import fokker
    from fokker.run.command import DRAWS_REPORT, REPORT, VERDICT, doubts_about, write_report_of
    from fokker.run.options import parse_quantiles

    probabilities = parse_quantiles(quantiles)
    write_report_of(fokker.open(folder), folder / DRAWS_REPORT, str(folder), console, probabilities)
    if (folder / VERDICT).exists():
        verdict = doubts_about(folder) or "the verdict on this run is “No problems found”"
        console.print(f"by {REPORT}, which knows the model: {verdict}", markup=False, soft_wrap=True)


def predict(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run of `fokker sample`.")],
    data: Annotated[
        list[str],
        typer.Option(
            "--data", metavar="FILE", help="New rows, with the columns that the model uses, as in `sample`."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The CSV file to write.")] = Path("predictions.csv"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
    model: Model = None,
    quantiles: Quantiles = "0.05,0.5,0.95",
    draws: Annotated[int, typer.Option(min=1, help="The most draws to use, evenly spaced.")] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of the noise, where predict takes a key.")] = 0,
) -> None:
    """Predict new rows with the draws of a run: mean, sd and quantiles of each, in the order of the rows.

    The model's file says what is predicted: predict(theta, datum) returns a number, a vector or a dictionary
    of them for one row, such as the mean of y. With a third argument `key` it may add the noise of an
    observation: predict(theta, datum, key). Without such a function the log predictive density of each row is
    written, by the model's likelihood. Predictions are made and written in blocks of rows. A run with another
    verdict than "No problems found" is used all the same, with a warning.
    """
    from fokker._core.precision import computing_in
    from fokker.run.command import doubts_about, read_command
    from fokker.run.model import Model
    from fokker.run.options import MODEL, parse_quantiles
    from fokker.run.predictions import draws_of, open_with_theta, predictor, write_predictions

    probabilities = parse_quantiles(quantiles)
    if out.is_dir():
        raise ValueError(f"--out {out} is a folder: give the name of a file.")
    if out.exists() and not overwrite:
        raise ValueError(f"--out {out} is there already: give another name, or --overwrite.")
    options = read_command(folder, model, data)
    doubts = doubts_about(folder)
    if doubts is not None:
        errors.print(f"fokker: {doubts}.", style="yellow", markup=False, soft_wrap=True)
    with computing_in(options.get("precision")):
        loaded = Model.load(options["source"], options["settings"][MODEL], options["init"])
        made = predictor(loaded, read_data(options, are_new=True), seed)
        trace = open_with_theta(folder, loaded, options["init"], partial(_data_of_run, folder, options))
        chosen = draws_of(trace, draws)
        rows, columns = write_predictions(out, made, chosen, probabilities)
    console.print(f"predicted {made.description}", markup=False, soft_wrap=True)
    console.print(f"wrote {out}: {rows:,} rows, {columns:,} columns", markup=False, soft_wrap=True)
