"""The command `fokker cite`."""

from typing import Annotated

import typer


def cite(
    name: Annotated[str, typer.Argument(help="A sampler of fk.samplers, or the folder of a run.")] = "recipe",
) -> None:
    """Print BibTeX of the papers of a sampler, or of the sampler of a run, and of Fokker."""
    from pathlib import Path

    import fokker
    from fokker.run.store import has_run

    path = Path(name)
    typer.echo(fokker.cite(fokker.open(path) if has_run(path) else name))
