"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

DataFolder = Annotated[
    Path | None,
    typer.Option(
        "--data-dir", help="The folder of data. Default: $FOKKER_DATA, or else the user's own data folder."
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of the random numbers.")]
RunFolder = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="The folder of a run of `fokker sample`, finished or not.")
]
Model = Annotated[
    str | None,
    typer.Option(
        metavar="FILE.py[:NAME]",
        help="The model, where its file is elsewhere now, or not below this folder.",
    ),
]
Quantiles = Annotated[str, typer.Option(help="Probabilities of the quantiles in the table, with commas.")]
QUANTILES = "0.05,0.5,0.95"
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
