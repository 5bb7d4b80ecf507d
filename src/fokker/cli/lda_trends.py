"""The command `fokker lda trends`: the prevalence of topics over time or by group."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from fokker.cli.console import console, show
from fokker.cli.lda_infer import repeat_problems
from fokker.cli.lda_options import option
from fokker.cli.options import Seed

if TYPE_CHECKING:
    from fokker.models.topics.trends import Trends


_PER = "words: the share of a topic in all words of a group; documents: the mean of its shares."
_NO_SAMPLING = "Intervals of these documents alone, without the sampling of documents."
_WRITTEN = (
    "Use the mixtures that the run has written: quick, but shares are --per documents, and intervals are "
    "without the posterior."
)


# Typer takes a `Literal` in its newer releases alone.
class Bin(StrEnum):
    """How dates are grouped."""

    year = "year"
    month = "month"
    day = "day"


class Per(StrEnum):
    """What a share is of."""

    words = "words"
    documents = "documents"


def trends(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
    by: Annotated[
        str,
        typer.Option(help="The column that has the groups or dates: of the corpus, or of --metadata."),
    ],
    metadata: Annotated[
        Path | None,
        option("A table with one row per document: CSV, TSV, JSON lines, Parquet or .npz."),
    ] = None,
    id: Annotated[
        str | None,
        option(
            "The column of --metadata with the names of the documents, as in mixtures.csv.gz.",
            "its rows are in the order of the corpus",
        ),
    ] = None,
    bin: Annotated[
        Bin | None,
        option("Treat the values as dates, and group them.", "the values as they are"),
    ] = None,
    per: Annotated[Per, typer.Option(help=_PER)] = Per.words,
    no_sampling: Annotated[bool, typer.Option("--no-sampling", help=_NO_SAMPLING)] = False,
    written: Annotated[bool, typer.Option("--written", help=_WRITTEN)] = False,
    probability: Annotated[
        float, typer.Option(help="That of the intervals, and of no clear difference by chance.")
    ] = 0.9,
    out: Annotated[Path | None, option("Folder for trends-COLUMN.csv and .png.", "RUN")] = None,
    seed: Seed = 0,
) -> None:
    """The prevalence of topics by date or group, with intervals: a table, a plot and a CSV file."""
    from fokker.cli.folders import made_folder
    from fokker.models.topics.run_trends import run_trends
    from fokker.run.progress import Progress

    with made_folder(out):
        with Progress("drawing the topics of all words", None, unit="documents") as progress:
            result = run_trends(
                folder,
                by,
                metadata=metadata,
                id=id,
                bin=None if bin is None else bin.value,
                per=per.value,
                sampling=not no_sampling,
                written=written,
                probability=probability,
                seed=seed,
                show=lambda completed, total: progress.update(completed, total=total),
            )
        files = _write(result, by, out or folder)
    _show(result)
    repeat_problems(folder)
    show(files)


def _show(result: "Trends") -> None:
    """Print the table, and what is to be known of it."""
    from fokker.models.topics.trends_plot import trends_table

    heads, rows = trends_table(result)
    table = Table(*heads)
    for row in rows:
        table.add_row(*row)
    console.print(table)
    if len(heads) <= len(result.groups):
        show(f"{len(heads) - 1} of the {len(result.groups)} groups are shown here; the file has all.")
    if result.num_clear is not None:
        verb = "differs" if result.num_clear == 1 else "differ"
        of_these = "" if "documents" in result.includes else " of these documents"
        show(
            f"{result.num_clear} of {len(result.topics)} topics {verb} clearly between groups{of_these}. "
            "Those that differ most come first."
        )
    for note in result.notes:
        show(note)


def _write(result: "Trends", by: str, target: Path) -> str:
    """Write the table and the plot as files of a folder, and return a line about them."""
    from fokker._core.files import write_atomically, write_text
    from fokker.models.topics.trends_plot import trends_figure

    name = "".join(c if c.isalnum() or c in "-_" else "-" for c in by)
    paths = [target / f"trends-{name}.csv", target / f"trends-{name}.png"]
    write_text(paths[0], result.csv())
    figure = trends_figure(result)
    write_atomically(paths[1], lambda file: figure.savefig(file, format="png", dpi=130))
    return f"wrote {' and '.join(path.name for path in paths)} to {target}"
