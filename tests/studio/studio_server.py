"""A server of the page in a thread."""

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from base64 import urlsafe_b64encode

from fokker.studio import server

TOKEN = "token-of-the-test"
SMALL = {"seed": 1, "chains": 60, "steps": 20, "burn_in": 40}


class Served:
    """A server in a thread, which can be stopped and started again at its port."""

    def __init__(self, port=0, run=None):
        bound = server.listen(port)
        self.port = bound.getsockname()[1]
        self.uvicorn = server.server_of(bound, TOKEN, run)
        self.thread = threading.Thread(target=self.uvicorn.run, args=([bound],), daemon=True)
        self.thread.start()
        until(lambda: self.uvicorn.started)

    @property
    def address(self):
        return server.address(TOKEN, self.port)

    @property
    def connections(self):
        return self.uvicorn.config.app._app.state.connections

    def stop(self):
        self.uvicorn.should_exit = True
        self.thread.join(20)


# As whoever starts it has it: the tests compile with fewer optimisations.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}


@contextlib.contextmanager
def command(first="", environment=ENVIRONMENT):
    """The command, in a process of its own that does this first: its address."""
    program = f"import sys, fokker.cli\n{first}\nsys.argv[1:] = ['studio', '--no-open']\nfokker.cli.main()\n"
    start = [sys.executable, "-c", program]
    with subprocess.Popen(start, env=environment, stdout=subprocess.PIPE, text=True) as studio:
        try:
            yield re.search(r"http://\S+", studio.stdout.readline() + studio.stdout.readline())[0]
        finally:
            studio.terminate()


def until(is_so, seconds=120):
    """Wait; the page's security policy forbids the function of Playwright, which evaluates texts."""
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.05)


def link(address, panels, target=None, run=None):
    """The address of the page with this state."""
    state = {"target": target or {"name": "normal"}, "run": SMALL if run is None else run, "panels": panels}
    return f"{address}#{urlsafe_b64encode(json.dumps(state).encode()).decode().rstrip('=')}"
