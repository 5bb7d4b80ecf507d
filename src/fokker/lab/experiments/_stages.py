"""What an experiment is doing now, shown beside the time so far while `reproduce` runs it."""

from collections.abc import Iterator
from contextlib import contextmanager

from fokker.run.progress import Progress

# The experiments that run, the last one innermost. Not a context variable: stages begin in threads too.
_running: list[Progress] = []


@contextmanager
def stages(name: str) -> Iterator[None]:
    """Show the progress of an experiment: a bar in a terminal, elsewhere a plain line every ten seconds."""
    with Progress(f"reproducing {name}", unit=None) as progress:
        _running.append(progress)
        try:
            yield
        finally:
            _running.remove(progress)


def stage(text: str) -> None:
    """Say what the experiment does from now on; nothing is shown where none runs."""
    for progress in _running[-1:]:
        progress.update(note=text)
