"""The options of `fokker sample` as a call of `fk.sample`."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import fokker
from fokker._core.keys import key_of_seed
from fokker._core.precision import computing_in
from fokker._core.state import is_function
from fokker.cli.console import show, show_error
from fokker.cli.estimate import estimate
from fokker.cli.execution import run_and_report
from fokker.cli.flags import CommandError
from fokker.cli.model_file import ModelFile
from fokker.cli.options import QUANTILES
from fokker.cli.settings import MODEL, SAMPLER, parse_quantiles
from fokker.cli.stored import MODEL_OPTIONS, REPORT, has_all_steps, option_of_run, written_command
from fokker.gradients import control_variates
from fokker.rows.delimited import TextFormat
from fokker.rows.table import Columns, read_table
from fokker.run.choice import AUTO
from fokker.run.positions import PerChain
from fokker.run.processes import by_first, is_first
from fokker.run.store import has_run
from fokker.run.trace import Trace
from fokker.targets import find_mode


class SampleCall:
    """The options of `fokker sample` as the arguments of `fk.sample`.

    `folder`: that of the run. Where there is one, its mode is used, so that it goes on with the same numbers.
    """

    def __init__(self, options: dict[str, Any], folder: Path) -> None:

        self.options = {name: value for name, value in options.items() if name not in MODEL_OPTIONS}
        settings = options.get("settings", {MODEL: {}, SAMPLER: {}})
        self.quantiles = parse_quantiles(options.get("quantiles", QUANTILES))
        model = ModelFile.load(options["source"], settings[MODEL], options["init"])
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
        what = model.source if model.name is not None else str(model.file)
        is_chosen = self.sampler == AUTO
        self.title = (
            f"{what}, sampler chosen automatically" if is_chosen else f"{what} by {options['sampler']}"
        )

    def _mode(self, folder: Path) -> Any:
        """The mode of the target, found from init, or that of the run in the folder."""

        init = self.options["init"]
        if isinstance(init, PerChain):
            init = jax.tree.map(lambda x: x[0], init.positions)
        init = init(key_of_seed(self.options["seed"])) if is_function(init) else init
        leaves, structure = jax.tree.flatten(jax.tree.map(jnp.asarray, init))
        before = option_of_run(folder, "mode") if has_run(folder) else None
        if before is not None and [np.shape(x) for x in before] == [x.shape for x in leaves]:
            mode = jax.tree.unflatten(
                structure, [jnp.asarray(x, y.dtype) for x, y in zip(before, leaves, strict=True)]
            )
        else:
            show_error("finding the mode, from init and with all the data")
            mode = find_mode(self.target, init)
        # As numbers of JSON, which give back every bit.
        self.mode = [np.asarray(x).tolist() for x in jax.tree.leaves(mode)]
        return mode


def read_data(options: dict[str, Any], are_new: bool = False) -> Columns | None:
    """The columns of --data, or None without it; `are_new`: of rows to predict."""
    if not options.get("data"):
        if options.get("columns") or options.get("categories") or options.get("dates"):
            raise CommandError("--columns, --categories and --dates are about --data, which was not given.")
        return None

    option = "columns_of_run" if are_new else "columns"
    return read_table(
        options["data"],
        categories=options["categories"],
        uses_all_rows=not are_new and options["batch_size"] is None,
        dates=options.get("dates", ()),
        text=TextFormat.read(options.get("text", {})),
        **{option: options["columns"]},
    )


def data_of_run(folder: Path, options: dict[str, Any]) -> Columns | None:
    """The data of a run, by which new rows are predicted."""

    try:
        return read_data({**options, "data": option_of_run(folder, "data")})
    except OSError as error:
        raise CommandError(
            f"{options['init']} in the model's file takes the data of the run, to say what theta is made of, "
            f"and {error} Put them back, or make {options['init']} a theta or a function of a key."
        ) from error


def _precision(options: dict[str, Any], folder: Path) -> Any:
    """That of --double, or of the command whose run is in the folder, which is made and read in it.

    Numbers that were rounded to single precision before would be other data.
    """
    if options.get("precision") is None and has_run(folder):
        return option_of_run(folder, "precision")
    return options.get("precision")


def print_estimate(options: dict[str, Any], out: Path, overwrite: bool) -> None:
    """Print what the options of `fokker sample` would run."""

    if not overwrite:
        options = {**options, "precision": _precision(options, out)}
    with computing_in(options.get("precision")):
        call = SampleCall(options, out)
        settings = options["settings"]
        for line in estimate(call.target, call.sampler, call.options, out, call.title, overwrite, settings):
            show(line)


def run_sampler(options: dict[str, Any], out: Path, mesh: str | None) -> int:
    """Sample as the options of `fokker sample` say, and return the exit code."""

    precision = by_first(lambda: _precision(options, out))
    options = {**options, "precision": precision}
    with computing_in(precision):
        call = SampleCall(options, out)
        as_used = {**options, "columns": call.columns, "categories": call.labels, "mode": call.mode}

        def run() -> Trace:
            was_finished = has_all_steps(out, options)
            with written_command(out, as_used):
                trace = fokker.sample(call.target, call.sampler, out=out, mesh=mesh, **call.options)
            if was_finished and is_first():
                show(
                    f"the run in {out} is finished: it has its {options['steps']:,} steps. Its report is "
                    f"{out / REPORT}. Give more --steps to make it longer; start again by `fokker sample` "
                    "with --overwrite or another --out."
                )
            return trace

        return run_and_report(out, run, call.title, call.quantiles)
