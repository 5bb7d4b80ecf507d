"""The commands `fokker sample`, `resume`, `report` and `predict`."""

import contextlib
from pathlib import Path
from typing import Annotated, Any

import typer

from fokker.cli.console import show, show_error
from fokker.cli.flags import CommandError
from fokker.cli.options import (
    QUANTILES,
    Coordinator,
    Mesh,
    Model,
    Process,
    Processes,
    Quantiles,
    RunFolder,
    Seed,
    option,
)

# Imports of what needs JAX are inside functions: `fokker --help` is to be quick.
_SETTINGS = "fokker.settings"
# Options of `fokker sample` that are not those of the run, or that are stored in another form.
_TEXT_OPTIONS = ("separator", "decimal", "encoding", "missing")
_OUT = "fokker-sample"
_DATA = (
    "A table: .csv (with a header), .tsv, .jsonl, .parquet, .npz, or .npy as NAME=FILE. Repeat it for "
    "columns in several files."
)
_MISSING = "Texts that stand for a missing value, besides empty fields. Default: NA, NaN, null, …."
_SET = "An argument of the model's function, or of the sampler as sampler.KEY=VALUE (repeat)."
_CONFIG = (
    "Options of this command by their names, and the tables model and sampler for --set. Options of the "
    "command line take precedence."
)
_SAMPLER = (
    "The name of a sampler in fk.samplers or in the file; auto chooses one for the model, the data and "
    "--batch-size, and says why."
)
_INIT = "The name in the file of the initial position, or a function of a key."
_BURN_IN = "Steps before the first draw. Default: 0, or as many as --sampler auto chooses."
_WARM_UP = "Steps in which nuts, hmc and the like adapt their settings."
_START = "Where chains start: at init, or at the mode, which is found from there with all the data."
_GRADIENT = (
    "What is made of the rows of a step: with control variates at the mode, the noise of the gradient is "
    "small near it, and a step takes twice as long."
)
_DRY_RUN = "Say what would run, how long, and with how much memory and disk; write nothing."
_OF_PROCESSES = ("coordinator", "processes", "process")
_OF_THE_CALL = ("config", "double", "out", "overwrite", "dry_run", "mesh", *_OF_PROCESSES)


def _read_config(context: typer.Context, path: Path | None) -> Path | None:
    """Make the options of a TOML file the defaults of the command."""
    if path is None:
        return None
    from fokker.cli.settings import as_text, read_config

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


def _options_of_run(context: typer.Context) -> dict[str, Any]:
    """What `fokker sample` was given, as a run stores it; raise for what is not known."""
    from fokker.cli.settings import parse_list, parse_settings

    parameters = context.params
    for flag, value, known in (
        ("--start", parameters["start"], ("init", "mode")),
        ("--gradient", parameters["gradient"], ("minibatch", "control-variates")),
    ):
        if value not in known:
            raise CommandError(f"{flag} is one of {', '.join(known)}, not {value!r}.")
    if parameters["gradient"] != "minibatch" and parameters["batch_size"] is None:
        raise CommandError(f"--gradient {parameters['gradient']} is about minibatches: give --batch-size.")
    missing = parameters["missing"]
    return {name: parameters[name] for name in parameters if name not in (*_OF_THE_CALL, *_TEXT_OPTIONS)} | {
        "data": parameters["data"] or [],
        "columns": parse_list(parameters["columns"]) or None,
        "categories": dict.fromkeys(parse_list(parameters["categories"])),
        "dates": parse_list(parameters["dates"]),
        "text": {name: parameters[name] for name in _TEXT_OPTIONS}
        | {"missing": None if missing is None else parse_list(missing)},
        "settings": parse_settings(parameters["settings"] or [], context.meta.get(_SETTINGS)),
        "precision": "double" if parameters["double"] else None,
    }


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
    steps: Annotated[int, option("Steps after burn-in.")],
    data: Annotated[list[str] | None, option(_DATA, "FILE")] = None,
    columns: Annotated[str | None, option("Columns of the data to read. Default: all.", "NAME,…")] = None,
    categories: Annotated[str | None, option("Columns whose values become codes 0, 1, ….", "NAME,…")] = None,
    dates: Annotated[str | None, option("Columns that become days since 1970-01-01.", "NAME,…")] = None,
    separator: Annotated[str | None, option("Between the fields of a text file: ';', tab.", "CHAR")] = None,
    decimal: Annotated[str, option("The decimal mark in text files, . or a comma.", "CHAR")] = ".",
    encoding: Annotated[str, option("Of text files; Excel on Windows writes cp1252.")] = "utf-8-sig",
    missing: Annotated[str | None, option(_MISSING, "TEXT,…")] = None,
    settings: Annotated[list[str] | None, option(_SET, "KEY=VALUE", "--set")] = None,
    config: Annotated[Path | None, option(_CONFIG, "FILE.toml", callback=_read_config, is_eager=True)] = None,
    sampler: Annotated[str, option(_SAMPLER)] = "auto",
    step_size: Annotated[float | None, option("The step size. Default: tuned by short runs.")] = None,
    init: Annotated[str, option(_INIT)] = "init",
    start: Annotated[str, option(_START, "init|mode")] = "init",
    burn_in: Annotated[int | None, option(_BURN_IN)] = None,
    warm_up: Annotated[int | None, option(_WARM_UP)] = None,
    thin: Annotated[int, option("Keep every n-th step.")] = 1,
    chains: Annotated[int, option("The number of chains.")] = 4,
    batch_size: Annotated[int | None, option("Rows of data per step. Default: all.")] = None,
    batch_repeats: Annotated[int, option("Steps in a row that share a batch.")] = 1,
    gradient: Annotated[str, option(_GRADIENT, "minibatch|control-variates")] = "minibatch",
    temperature: Annotated[float, option("The temperature T of exp(-U/T).")] = 1.0,
    seed: Seed = 0,
    double: Annotated[bool, option("Compute in double precision.", None, "--double")] = False,
    quantiles: Quantiles = QUANTILES,
    out: Annotated[Path, option("Folder of the run: its draws, its state and report.html.")] = Path(_OUT),
    overwrite: Annotated[bool, option("Replace an existing run in the folder.", None, "--overwrite")] = False,
    dry_run: Annotated[bool, option(_DRY_RUN, None, "--dry-run")] = False,
    mesh: Mesh = None,
    coordinator: Coordinator = None,
    processes: Processes = None,
    process: Process = None,
) -> None:
    """Sample a posterior; exit code 1 if it has problems. The same command continues a stopped run.

    Draws are on disk about every second. SIGTERM, SIGHUP and Ctrl-C end the run with a report, and exit codes
    143, 129 and 130; after a kill at most the last second is lost. `fokker resume FOLDER` continues it too.
    """
    from fokker.cli.call import print_estimate, run_sampler
    from fokker.cli.execution import replacing_run
    from fokker.cli.folders import made_folder
    from fokker.cli.settings import parse_quantiles
    from fokker.run.processes import join

    parse_quantiles(quantiles)  # which are needed only after the run
    options = _options_of_run(context)
    if dry_run:
        print_estimate(options, out, overwrite)
        return
    if out.exists() and not out.is_dir():
        raise CommandError(f"--out {out} is a file: give the name of a folder.")
    mesh = join(mesh, coordinator, processes, process)  # before JAX is used
    with made_folder(out), replacing_run(out) if overwrite else contextlib.nullcontext():
        code = run_sampler(options, out, mesh)
    raise typer.Exit(code)


def resume(
    folder: RunFolder,
    model: Model = None,
    data: Annotated[
        list[str] | None,
        option("The files of data, where they are elsewhere now.", "FILE"),
    ] = None,
    steps: Annotated[int | None, option("Steps after burn-in, in all. Default: as before.")] = None,
    mesh: Mesh = None,
    coordinator: Coordinator = None,
    processes: Processes = None,
    process: Process = None,
) -> None:
    """Continue a run of `fokker sample`, to the bit as if it had never stopped.

    The file of the model is executed, as `fokker sample` did: it has to be below the current folder, and not
    in that of the run, unless --model names it. Nothing that is in the folder of the run is executed. The
    data are read again; other data than those of the run are refused.
    """
    from fokker.cli.call import run_sampler
    from fokker.cli.stored import has_all_steps, read_command
    from fokker.run.processes import join

    mesh = join(mesh, coordinator, processes, process)
    options = read_command(folder, model, data)
    if steps is not None:
        options["steps"] = steps
    if not has_all_steps(folder, options):
        show(f"continuing {folder} with the model {options['source']}")
    raise typer.Exit(run_sampler(options, folder, mesh))


def report(
    folder: RunFolder,
    quantiles: Quantiles = QUANTILES,
) -> None:
    """Write draws.html about the draws of a run so far, also while it is running.

    The model is not executed: the draws are compared with each other, not with the target, and the grade is
    "Use with care" at best. report.html is by `fokker sample` and `fokker resume`, which know the model.
    """
    import fokker
    from fokker.cli.execution import doubts_about, write_report_of
    from fokker.cli.settings import parse_quantiles
    from fokker.cli.stored import DRAWS_REPORT, REPORT, VERDICT

    probabilities = parse_quantiles(quantiles)
    trace = fokker.open(folder)
    if (folder / VERDICT).exists():
        verdict = doubts_about(folder) or "the verdict on this run is “No problems found”"
        show(f"{folder / REPORT} has the full verdict, by the model, which counts: {verdict}.")
        show("What follows is of the draws alone.\n")
    write_report_of(trace, folder / DRAWS_REPORT, str(folder), probabilities)


def predict(
    folder: RunFolder,
    data: Annotated[
        list[str],
        option("New rows, with the columns that the model uses, as in `sample`.", "FILE"),
    ],
    out: Annotated[Path, option("The CSV file to write.")] = Path("predictions.csv"),
    overwrite: Annotated[bool, option("Replace an existing file.", None, "--overwrite")] = False,
    model: Model = None,
    quantiles: Quantiles = QUANTILES,
    draws: Annotated[int, option("The largest number of draws to use, evenly spaced.", min=1)] = 1000,
    seed: Annotated[int, option("Seed of the noise, where predict takes a key.")] = 0,
) -> None:
    """Predict new rows with the draws of a run: mean, sd and quantiles of each, in the order of the rows.

    The model's file says what is predicted: predict(theta, datum) returns a number, a vector or a dictionary
    of them for one row, such as the mean of y. With a third argument `key` it may add the noise of an
    observation: predict(theta, datum, key). Without such a function the log predictive density of each row is
    written, by the model's likelihood. Predictions are made and written in blocks of rows. A run with another
    verdict than "No problems found" is used all the same, with a warning.
    """
    from fokker._core.precision import computing_in
    from fokker.cli.call import data_of_run, read_data
    from fokker.cli.execution import doubts_about
    from fokker.cli.folders import check_not_replaced
    from fokker.cli.model_file import ModelFile
    from fokker.cli.predictions import draws_of, open_with_theta, predictor, write_predictions
    from fokker.cli.settings import MODEL, parse_quantiles
    from fokker.cli.stored import read_command

    probabilities = parse_quantiles(quantiles)
    if out.is_dir():
        raise CommandError(f"--out {out} is a folder: give the name of a file.")
    check_not_replaced(out, overwrite)
    options = read_command(folder, model, data)
    doubts = doubts_about(folder)
    if doubts is not None:
        show_error(f"fokker: {doubts}.", "yellow")
    with computing_in(options.get("precision")):
        loaded = ModelFile.load(options["source"], options["settings"][MODEL], options["init"])
        prediction = predictor(loaded, read_data(options, are_new=True), seed)
        trace = open_with_theta(folder, loaded, options["init"], lambda: data_of_run(folder, options))
        chosen = draws_of(trace, draws)
        rows, columns = write_predictions(out, prediction, chosen, probabilities)
    show(f"predictions {'of' if prediction.is_log_density else 'by'} {prediction.description}")
    show(f"wrote {out}: {rows:,} rows, {columns:,} columns")
