"""The command `fokker`. What needs JAX is imported when a command runs: `fokker --help` is to be quick."""

import traceback
from pathlib import Path
from typing import Annotated

import typer

from fokker.cli import check, cite, data, lab, lda, ratings, sample, studio
from fokker.cli.console import show_error
from fokker.cli.flags import with_flags
from fokker.cli.help import Command, Group

__all__ = ["app", "main"]

app = typer.Typer(
    cls=Group,
    help="Bayesian inference by simulating stochastic dynamics: write D and Q, get a sampler, "
    "and check whether it is right.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(lda.app, name="lda")
app.add_typer(data.app, name="data")
_OF_RUNS = (sample.resume, sample.report, sample.predict)  # they go on with a run of `fokker sample`
_COMMANDS = (
    *(lab.demo, check.check, check.complete, sample.sample, *_OF_RUNS),
    *(ratings.ratings, lab.reproduce, studio.studio, cite.cite),
)
for _command in _COMMANDS:
    app.command()(_command)
for _registered in (*app.registered_commands, *lda.app.registered_commands, *data.app.registered_commands):
    _registered.cls = Command
    if _registered.callback is not None:
        _first = (sample.sample,) if _registered.callback in _OF_RUNS else ()
        _registered.callback = with_flags(_registered.callback, *_first)


def main() -> None:
    """Run the command; a user error gives one message and exit code 2."""
    try:
        app()
    except (ValueError, TypeError, OSError) as error:
        show_error(f"fokker: {error}", "red")
        raise SystemExit(2) from None
    except Exception as error:
        # An exception from the user's functions, which run long after their file was imported.
        frames = [f for f in traceback.extract_tb(error.__traceback__) if _is_user_file(f.filename)]
        where = f"at {frames[-1].filename}, line {frames[-1].lineno}" if frames else ""
        # An error of Fokker's own says what is wrong: its class adds nothing for a user.
        kind = "" if type(error).__module__.startswith("fokker.") else type(error).__name__
        place = f"{kind} {where}".strip()
        show_error(f"fokker: {place}: {error}" if place else f"fokker: {error}", "red")
        raise SystemExit(2) from None


def _is_user_file(filename: str) -> bool:
    return "site-packages" not in filename and Path(__file__).parents[1] not in Path(filename).parents


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
