"""Options that several commands share."""

from pathlib import Path
from typing import Annotated, Any

import typer


def option(help: str, metavar: str | None = None, *names: str, **more: Any) -> Any:
    """An option by its help, what stands for its value, and its names, by default that of the argument."""
    return typer.Option(*names, help=help, metavar=metavar, **more)


DataFolder = Annotated[
    Path | None,
    option(
        "The folder of data. Default: $FOKKER_DATA, or else the user's own data folder.", None, "--data-dir"
    ),
]
Seed = Annotated[int, option("Seed of the random numbers.")]
RunFolder = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="The folder of a run of `fokker sample`, finished or not.")
]
Model = Annotated[
    str | None,
    option("The model, where its file is elsewhere now, or not below this folder.", "FILE.py[:NAME]"),
]
Quantiles = Annotated[str, option("Probabilities of the quantiles in the table, with commas.")]
QUANTILES = "0.05,0.5,0.95"
Mesh = Annotated[
    str | None,
    option(
        "Devices that share the chains, the rows of each batch, or with parameters=2 theta; without a "
        "number an axis takes all that are left. Default: one device, or with many processes --mesh chains.",
        "chains=4,data=2",
    ),
]
Coordinator = Annotated[
    str | None,
    option(
        "Of many processes: a free port on the machine of the first. Under Slurm, Open MPI and "
        "Kubernetes it is known.",
        "HOST:PORT",
    ),
]
Processes = Annotated[int | None, option("The number of processes, each with the same command.")]
Process = Annotated[int | None, option("The number of this process, from 0.")]
