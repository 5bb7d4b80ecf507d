"""Topics in several processes: the draws of one process to the bit, on another number of processes too."""

import gzip
import json
import re
import socket

import numpy as np
import pytest
from test_lda_command import command, interrupt

from fokker.models.topics import files
from fokker.models.topics.reading import Reading
from fokker.models.topics.settings import Settings
from fokker.models.topics.starting import is_unfinished, resume_run, start_run
from programs import outputs, program
from topics_in_processes import FEW, Watching, begin, write_corpus

MESSAGES = (
    "θ is not finite at step 3 of sgrhmc",
    "process 1 reads other documents than process 0: give a corpus that is the same for all processes.",
    "standard input can be read by one process only, and there are 2: give a file that all of them see.",
)


def together(folder, *parts, processes=2):
    """Run the parts in several processes: the results of each by part, exit codes, and errors."""
    with socket.create_server(("", 0)) as free:
        port = free.getsockname()[1]
    running = [
        program("topics_in_processes.py", number, processes, port, folder, *parts)
        for number in range(processes)
    ]
    written = outputs(running)
    lines = [[json.loads(line) for line in out.splitlines() if line.startswith("{")] for out, _ in written]
    results = [{line["part"]: line for line in of_one} for of_one in lines]
    return results, [process.returncode for process in running], [error for _, error in written]


def stored(folder):
    """All that a run has written, as bytes, but for the seconds."""
    header, arrays, _ = files.read_latest(folder)
    arrays["curve"] = np.delete(arrays["curve"], 1, axis=1)
    content = {name: (x.shape, x.tobytes()) for name, x in arrays.items()}
    content |= {name: header[name] for name in ("position", "trained", "tokens", "passes", "length")}
    name = files.PARTIAL_MIXTURES if (folder / files.PARTIAL_MIXTURES).exists() else "mixtures.csv.gz"
    content["mixtures"] = gzip.decompress((folder / name).read_bytes())
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


@pytest.mark.slow
def test_two_processes_are_one_to_the_bit_and_either_goes_on_with_the_other(tmp_path, alone):
    write_corpus(tmp_path / "corpus.npz")
    begun = begin(tmp_path / "resumed", "sgrhmc")
    begun.execute(Watching(9, interrupt))
    assert begun.interrupted
    # In the exact pass, whose topics of words the first process gets.
    assert "chain.assignments.z" in files.read_latest(tmp_path / "resumed")[1]
    errors_of_all = ("not finite", "other documents", "standard input")
    parts = ("sgrhmc", "scir", "interrupted", "interrupted start", "resumed", *errors_of_all, "lost")
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
    # In the start too, where there is nothing to save yet.
    assert first["interrupted start"]["interrupted"]
    assert second["interrupted start"]["interrupted"]
    assert first["interrupted start"]["position"] == second["interrupted start"]["position"] > 0
    assert not (tmp_path / "interrupted start" / files.CHECKPOINT).exists()
    resume_run(tmp_path / "interrupted", {}).execute(Watching())
    assert differing(stored(tmp_path / "interrupted"), alone("scir")) == []
    assert differing(stored(tmp_path / "resumed"), alone("sgrhmc")) == []
    # Errors are those of all.
    for part, message in zip(errors_of_all, MESSAGES, strict=True):
        assert first[part] == second[part]
        assert message in first[part]["error"]
    # One is lost.
    assert codes == [1, -9]
    host = re.escape(socket.gethostname())
    assert re.search(rf"process 1 on {host} was lost, and process 0 on {host} ends", errors[0]), errors[0]
    again = resume_run(tmp_path / "lost", {})
    assert 100 < again.plan.position < 300
    again.execute(Watching())
    assert differing(stored(tmp_path / "lost"), alone("sgrhmc")) == []


@pytest.mark.slow
def test_every_sampler_engine_and_the_estimator_in_several_processes(tmp_path):
    parts = ("scir", "sgld", "sgrld", "jax", "many", "estimator")
    results = {}
    # One process too: this one compiles JAX's programs with other options.
    for processes in (1, 2, 3):
        folder = tmp_path / str(processes)
        folder.mkdir()
        write_corpus(folder / "corpus.npz")
        results[processes], codes, errors = together(folder, *parts, processes=processes)
        assert codes == [0] * processes, errors
    for processes in (2, 3):
        columns = {part: [of[part].get("columns") for of in results[processes]] for part in parts}
        # Samplers that step in JAX have all topics in the first process.
        assert columns["sgld"] == [4, 0, 0][:processes]
        assert columns["many"] == [1, 1, 0][:processes]
        for kind in parts[:-1]:
            found, expected = (stored(tmp_path / str(n) / kind) for n in (processes, 1))
            assert differing(found, expected) == [], (kind, processes)
        with np.load(tmp_path / "1" / "estimator-0.npz") as expected:
            for number in range(processes):
                with np.load(tmp_path / str(processes) / f"estimator-{number}.npz") as found:
                    for name in expected.files:
                        np.testing.assert_array_equal(found[name], expected[name])


def test_the_same_command_goes_on_with_a_run_that_has_not_ended(tmp_path):
    write_corpus(tmp_path / "corpus.npz")
    options = ("--topics", 3, "--batch", 20, "--sweeps", 6, "--burn-in", 2, "--start-documents", 30)
    options += ("--held-out", 20, "--passes", 2, "--threads", 1)
    whole, broken = (
        (tmp_path / "corpus.npz", *options, "--out", tmp_path / name) for name in ("whole", "broken")
    )
    assert command(*whole)[0] in (0, 1)
    settings = Settings(**FEW, topics=3)
    reading = Reading(str(tmp_path / "corpus.npz"), held_out=20)
    start_run(reading, settings, tmp_path / "broken", passes=2).execute(Watching(8, interrupt))
    # Other settings are another run.
    code, _, error = command(*broken, "--alpha", 0.2)
    assert code == 2
    assert "already contains a run" in " ".join(error.split())
    code, output, _ = command(*broken)
    assert code in (0, 1)
    assert "continuing after 160 documents" in output
    assert differing(stored(tmp_path / "broken"), stored(tmp_path / "whole")) == []
    # It has ended, and is not begun again, unless it was killed before all results were there.
    code, _, error = command(*broken)
    assert code == 2
    assert "already contains a run" in " ".join(error.split())
    arguments = tmp_path / "broken", reading, settings, 2
    assert not is_unfinished(*arguments)
    (tmp_path / "broken" / files.SUMMARY).unlink()
    assert is_unfinished(*arguments)
