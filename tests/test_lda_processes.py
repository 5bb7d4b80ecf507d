"""Topics in several processes: the draws of one process to the bit, on another number of processes too."""

import gzip
import json
import re
import socket

import numpy as np
import pytest

import topics_in_processes
from fokker.models.lda import files
from fokker.models.lda.run import Run
from fokker.models.lda.share import Alone, Processes
from test_mesh import program
from topics_in_processes import KINDS, Watching, begin, write_corpus


def together(folder, *parts, processes=2):
    """Run the parts in several processes: the results of each by part, exit codes, and errors."""
    with socket.create_server(("", 0)) as free:
        port = free.getsockname()[1]
    running = [
        program("topics_in_processes.py", number, processes, port, folder, *parts)
        for number in range(processes)
    ]
    outputs = [process.communicate(timeout=250) for process in running]
    lines = [[json.loads(line) for line in out.splitlines() if line.startswith("{")] for out, _ in outputs]
    results = [{line["part"]: line for line in of_one} for of_one in lines]
    return results, [process.returncode for process in running], [error for _, error in outputs]


def stored(folder):
    """All that a run has written, as bytes, but for the seconds."""
    header, arrays, _ = files.read_latest(folder, "checkpoint", 1)
    arrays["curve"] = np.delete(arrays["curve"], 1, axis=1)
    content = {name: (x.shape, x.tobytes()) for name, x in arrays.items()}
    content |= {name: header[name] for name in ("position", "trained", "tokens", "passes", "length")}
    content["mixtures"] = gzip.decompress((folder / "mixtures.csv.gz").read_bytes())
    return content


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """What one process writes, by kind."""
    folder, found = tmp_path_factory.mktemp("alone"), {}
    write_corpus(folder / "corpus.npz")

    def of(kind, **more):
        name = f"{kind} {more}"
        if name not in found:
            begin(folder / name, kind, **more).execute(Watching())
            found[name] = stored(folder / name)
        return found[name]

    return of


def differing(a, b):
    return sorted(name for name in a.keys() | b.keys() if a.get(name) != b.get(name))


def test_two_processes_are_one_to_the_bit_and_either_goes_on_with_the_other(tmp_path, alone):
    write_corpus(tmp_path / "corpus.npz")
    begun = begin(tmp_path / "resumed", "sgrhmc")
    begun.execute(Watching(9, lambda: topics_in_processes.send(topics_in_processes.signal.SIGINT)))
    assert begun.interrupted
    parts = ("sgrhmc", "scir", "interrupted", "resumed", "not finite", "other documents", "lost")
    results, codes, errors = together(tmp_path, *parts)
    first, second = results
    # Each has its own topics.
    assert [of["sgrhmc"]["columns"] for of in results] == [2, 1]
    for kind in ("sgrhmc", "scir"):
        assert differing(stored(tmp_path / kind), alone(kind)) == [], errors
    # A negative control: another seed gives other draws.
    assert "draws.draws" in differing(alone("scir", seed=1), alone("scir"))
    # A signal to one of them ends both after the same minibatch.
    assert first["interrupted"] == second["interrupted"]
    assert first["interrupted"]["interrupted"]
    assert first["interrupted"]["position"] in (160, 180)
    Run.resume(tmp_path / "interrupted", {}).execute(Watching())
    assert differing(stored(tmp_path / "interrupted"), alone("scir")) == []
    assert differing(stored(tmp_path / "resumed"), alone("sgrhmc")) == []
    # Errors are those of all.
    assert first["not finite"] == second["not finite"]
    assert "sgrhmc" in first["not finite"]["error"]
    assert first["other documents"] == second["other documents"]
    assert "process 1 reads other documents than process 0" in first["other documents"]["error"]
    # One is lost.
    assert codes == [1, -9]
    host = re.escape(socket.gethostname())
    assert re.search(rf"process 1 on {host} was lost, and process 0 on {host} ends", errors[0]), errors[0]
    again = Run.resume(tmp_path / "lost", {})
    assert 100 < again.position < 300
    again.execute(Watching())
    assert differing(stored(tmp_path / "lost"), alone("sgrhmc")) == []
