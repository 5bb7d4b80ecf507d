"""The command `fokker studio`."""

from pathlib import Path
from typing import Annotated

from fokker.cli.console import show
from fokker.cli.flags import CommandError
from fokker.cli.options import option


def studio(
    port: Annotated[int, option("The port; 0 takes one that is free.", min=0, max=65535)] = 0,
    run: Annotated[
        Path | None,
        option("Watch the run in this folder, of `fokker sample` or `fokker lda`, while it runs."),
    ] = None,
    gallery: Annotated[
        Path | None,
        option("Record the runs of all stories on this page, FILE.html, which needs no server; then end."),
    ] = None,
    open_browser: Annotated[bool, option("Open the page in the browser.", None, "--open/--no-open")] = True,
) -> None:
    """Design a sampler in the browser, watch it run, and learn whether it is right.

    With --run, the page of a run that another command writes: traces, ranks and the verdict so far, and a
    button that ends it as Ctrl-C does. With --gallery, one file with recorded runs: it takes some minutes.
    """
    if gallery is not None:
        _record(gallery)
        return
    if run is not None and not run.is_dir():
        problem = "is not a folder" if run.exists() else "does not exist yet"
        raise CommandError(
            f"--run {run} {problem}: start the run first, in another terminal, and give its --out here."
        )
    try:
        from fokker.studio import server
    except ModuleNotFoundError as error:
        raise CommandError(
            f"the page needs {error.name}, of the extra `studio`: pip install 'fokker[studio]'."
        ) from None
    bound = server.listen(port)
    token = server.new_token()
    address = server.address(token, bound.getsockname()[1])
    view = None
    if run is not None:
        from fokker.studio.run_view import RunView

        view, address = RunView(run), f"{address}run"
    show(f"The studio is at {address}\nIt is for this machine alone; the address is its key. Ctrl-C ends it.")
    if open_browser:
        import webbrowser

        webbrowser.open(address)
    server.serve(bound, token, view)


def _record(file: Path) -> None:
    if file.suffix != ".html" or not file.parent.is_dir() or file.is_dir():
        raise CommandError(f"--gallery {file} must be a file named *.html in a folder that exists.")
    from fokker.studio.gallery import gallery

    file.write_text(gallery(report=lambda title: show(f"recording: {title}")), encoding="utf-8")
    show(f"wrote {file}, {file.stat().st_size / 1e6:.1f} MB")
