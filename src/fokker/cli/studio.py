"""The command `fokker studio`."""

from typing import Annotated

from fokker.cli.console import show
from fokker.cli.flags import CommandError
from fokker.cli.options import option


def studio(
    port: Annotated[int, option("The port; 0 takes one that is free.", min=0, max=65535)] = 0,
    open_browser: Annotated[bool, option("Open the page in the browser.", None, "--open/--no-open")] = True,
) -> None:
    """Design a sampler in the browser, watch it run, and learn whether it is right."""
    try:
        from fokker.studio import server
    except ModuleNotFoundError as error:
        raise CommandError(
            f"the page needs {error.name}, of the extra `studio`: pip install 'fokker[studio]'."
        ) from None
    bound = server.listen(port)
    token = server.new_token()
    address = server.address(token, bound.getsockname()[1])
    show(f"The studio is at {address}\nIt is for this machine alone; the address is its key. Ctrl-C ends it.")
    if open_browser:
        import webbrowser

        webbrowser.open(address)
    server.serve(bound, token)
