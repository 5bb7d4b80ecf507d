"""Whether an installed wheel works; run by `make smoke` in a clean environment, away from the sources."""

import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from importlib.metadata import version
from pathlib import Path

import jax
import jax.numpy as jnp

import fokker as fk

# Python with -I looks for modules in no folder of the sources.
sys.path.append(str(Path(__file__).parent))
import documents

BIN = Path(sys.executable).parent


def printed(*command: str, **environment: str) -> str:
    """What a command prints; it must end well."""
    variables = {**os.environ, **environment}
    return subprocess.run(command, check=True, capture_output=True, text=True, env=variables).stdout


def check_is_installed() -> None:
    """The package is that of the wheel, and so are its types and data."""
    folder = Path(fk.__file__).parent
    assert "site-packages" in folder.parts, folder
    assert (folder / "py.typed").is_file()
    wheel = next(Path.cwd().glob("*.whl"))
    assert wheel.name.startswith(f"fokker-{version('fokker')}-"), wheel


def check_commands() -> None:
    """The command, and the module as one."""
    assert printed(str(BIN / "fokker"), "--version").strip() == version("fokker")
    assert printed(sys.executable, "-m", "fokker", "--version").strip() == version("fokker")
    assert "@article{hoffman2014" in printed(str(BIN / "fokker"), "cite", "nuts")
    # `--show-completion` prints this for the shell that it is called from; that of make has no completion.
    assert "complete -o default" in printed(str(BIN / "fokker"), _FOKKER_COMPLETE="source_bash")


def check_run() -> None:
    """A run of a normal distribution, by a sampler that is chosen."""
    target = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
    options = {"steps": 1000, "chains": 4, "progress": False}
    trace = fk.sample(target, init=lambda key: jax.random.normal(key, (2,)), **options)
    assert trace.summary().trusted, trace.summary()


def check_start_page() -> None:
    """The programs of the first page run, and print what it shows."""
    page = documents.ROOT / "docs/start.md"
    differences = documents.run(page.name, documents.programs(page))
    assert not differences, "\n".join(differences)


def fetched(address: str) -> bytes:
    """What is at an address; a server that is starting may need a while."""
    for _ in range(60):
        try:
            with urllib.request.urlopen(address, timeout=30) as page:
                return page.read()
        except urllib.error.URLError:
            time.sleep(1)
    raise TimeoutError(address)


def check_studio() -> None:
    """The page opens, with its script."""
    command = [str(BIN / "fokker"), "studio", "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as studio:
        try:
            assert studio.stdout is not None
            address = re.search(r"http://\S+", studio.stdout.readline() + studio.stdout.readline())
            assert address is not None, "the command did not say where the page is"
            for name, text in (("", b"studio.js"), ("studio.js", b"function")):
                assert text in fetched(address[0] + name), name
        finally:
            studio.terminate()


if __name__ == "__main__":
    for check in (check_is_installed, check_commands, check_run, check_start_page, check_studio):
        check()
        print(f"{check.__name__}: ok")
