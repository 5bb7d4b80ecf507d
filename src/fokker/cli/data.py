"""The command `fokker data`. What reads data is imported when a command runs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from fokker.cli.console import console, show
from fokker.cli.help import Group
from fokker.cli.options import DataFolder
from fokker.datasets.catalogue import CATALOGUE, DataFile, find_dataset

if TYPE_CHECKING:
    from fokker.datasets.download import Progress

app = typer.Typer(
    cls=Group,
    help="List, download and check the data sets of the experiments.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.command("list")
def list_datasets(data_dir: DataFolder = None) -> None:
    """The known data sets, and which of their files are in the folder of data."""
    from textwrap import fill

    from fokker.datasets.folder import data_folder, stored_file

    folder = data_folder(data_dir)
    show(f"data sets in {folder}")
    for dataset in CATALOGUE.values():
        num_stored = sum(stored_file(folder, dataset.name, file) is not None for file in dataset.files)
        num_files = sum(bool(file.address) for file in dataset.files)
        download = f"{num_files} of {len(dataset.files)} files"
        lines = {
            "what": dataset.description,
            "rows": dataset.rows,
            "stored": f"{num_stored} of {len(dataset.files)} files" if dataset.files else "-",
            "download": f"no: {dataset.refusal}" if dataset.refusal else download,
        }
        show(f"\n{dataset.name}")
        # Below each other: a table of so many columns has no room for words in 80 characters.
        for name, text in lines.items():
            show(
                fill(f"    {name}: {text}", console.width, subsequent_indent=" " * 8, break_long_words=False)
            )


@app.command()
def get(
    name: Annotated[str, typer.Argument(help="The name of the data set; `fokker data list` shows them.")],
    data_dir: DataFolder = None,
) -> None:
    """Download a data set, check it, and say on which terms it may be used."""
    from fokker.datasets.download import get_dataset
    from fokker.datasets.folder import data_folder

    dataset = find_dataset(name)
    folder = data_folder(data_dir)
    with _progress() as progress:
        written = get_dataset(dataset, folder, progress)
    for path in written:
        show(f"wrote {path}")
    if not written:
        show(f"{name} is already in {folder / name}, and its checksums are right.")
    missing = [file.name for file in dataset.files if not file.address]
    if missing:
        show(f"Not published, so not downloaded: {', '.join(missing)}.")
    show(f"From: {dataset.source}.\nTerms: {dataset.terms}.\nRead it with {dataset.reader}.")


@app.command()
def check(
    name: Annotated[str | None, typer.Argument(help="A data set. Default: all that are stored.")] = None,
    data_dir: DataFolder = None,
) -> None:
    """Compare the stored files with their checksums; exit code 1 if one is wrong or none is there."""
    from fokker.datasets.download import check_file
    from fokker.datasets.folder import data_folder

    folder = data_folder(data_dir)
    datasets = list(CATALOGUE.values()) if name is None else [find_dataset(name)]
    statuses = [
        (dataset, check_file(folder, dataset, file)) for dataset in datasets for file in dataset.files
    ]
    shown = [(dataset, status) for dataset, status in statuses if name is not None or status.path is not None]
    for dataset, status in shown:
        file = status.file.name if status.path is None else status.path.name
        show(f"{dataset.name}/{file}: {status}")
    num_there = sum(status.path is not None for _, status in shown)
    if not num_there:
        show(f"{folder} contains no known data set.")
    has_wrong = any(status.is_right is False for _, status in shown)
    raise typer.Exit(1 if has_wrong or not num_there else 0)


@contextmanager
def _progress() -> "Iterator[Callable[[DataFile], Progress]]":
    """A bar per file."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console) as bars:

        def start(file: DataFile) -> "Callable[[int, int], None]":
            task = bars.add_task(file.name, total=None)
            return lambda received, total: bars.update(task, completed=received, total=total or None)

        yield start
