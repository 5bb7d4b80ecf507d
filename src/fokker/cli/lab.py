"""The commands `fokker demo` and `fokker reproduce`."""

from pathlib import Path
from typing import Annotated

import typer

from fokker.cli.console import console, show, show_error
from fokker.cli.flags import CommandError
from fokker.cli.options import DataFolder, Seed, option

# A command lists at most this many of the files that it wrote.
_MAX_FILES_LISTED = 8


def demo(
    name: Annotated[
        str, typer.Argument(help="The demonstration: logistic, network, ratings or recipe.")
    ] = "logistic",
    out: Annotated[Path, option("Folder for the picture and the report.")] = Path("fokker-demo"),
    seed: Seed = 0,
) -> None:
    """Logistic regression on a million rows; a network; ratings; right and wrong samplers side by side."""
    from fokker._core.keys import checked_seed
    from fokker._core.names import nearest
    from fokker.cli.folders import made_folder
    from fokker.demo import DEMOS

    if name not in DEMOS:
        raise CommandError(
            f"the demonstrations are {', '.join(DEMOS)}, not {name!r}.{nearest(name, list(DEMOS))}"
        )
    checked_seed(seed)
    with made_folder(out):
        DEMOS[name](out, seed, console)


def reproduce(
    name: Annotated[str, typer.Argument(help="The name of the experiment; 'list' lists them.")],
    out: Annotated[Path | None, option("Folder for figures and result.json.")] = None,
    quick: Annotated[
        bool, option("Fewer steps with the same code; takes under a minute.", None, "--quick")
    ] = False,
    seeds: Annotated[
        int | None,
        option("The number of seeds to repeat it with. Default: that of the experiment.", min=1),
    ] = None,
    data_dir: DataFolder = None,
) -> None:
    """Reproduce an experiment from the papers; exit code 1 if a claim does not hold."""
    from fokker.cli.folders import made_folder
    from fokker.lab.experiments import EXPERIMENTS
    from fokker.lab.experiments import reproduce as run

    if name == "list":
        for key, experiment in EXPERIMENTS.items():
            show(f"{key:20} {experiment.description}")
        return
    folder = Path(f"fokker-{name}") if out is None else out
    if name in EXPERIMENTS:
        show_error(f"reproducing {name}{' in a quick version' if quick else ''}; writing to {folder}")
    with made_folder(folder):
        result = run(name, folder, quick=quick, seeds=seeds, data_dir=data_dir)
    console.print(result.table())
    files = ["result.json", *result.figures]
    written = ", ".join(str(folder / name) for name in files[:_MAX_FILES_LISTED])
    written += f" and {len(files) - _MAX_FILES_LISTED} more" if len(files) > _MAX_FILES_LISTED else ""
    show(f"{result.wall_seconds:.1f} s; wrote {written}")
    raise typer.Exit(0 if result.holds else 1)
