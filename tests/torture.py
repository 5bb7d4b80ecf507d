"""Kill runs at random moments, go on with them, and compare the result with that of an uninterrupted run.

    python tests/torture.py --kills 200

Each run is a process of its own, killed by SIGKILL after a random time and started again by the same call,
until it is complete. Its draws must then be those of the run that was never stopped, to the bit. The kind
"flips" kills nothing: it damages the files of runs, see `flips.py`.
"""

import argparse
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import numpy as np

CALLS = {
    "sgnht": (
        "fk.sample(posterior, fk.samplers.sgnht(2e-4, 100.0), init=jnp.zeros(4), steps=4_000_000, thin=100,"
        " burn_in=1000, chains=3, batch_size=20, out=out)"
    ),
    "nuts": "fk.sample(density, 'nuts', init=jnp.zeros(4), steps=40_000, chains=3, out=out)",
    "moments": (
        "fk.sample(density, fk.samplers.sghmc(0.1), init=jnp.zeros(4), steps=1_500_000, chains=2,"
        " keep='moments', out=out)"
    ),
}
PROGRAM = """
import sys
import jax, jax.numpy as jnp
import fokker as fk
out = sys.argv[1]
if len(sys.argv) > 2:
    fk.processes.start(f"127.0.0.1:{sys.argv[2]}", 2, int(sys.argv[3]))
x = jax.random.normal(jax.random.key(1), (30_000, 4))
y = x @ jnp.arange(4.0) + jax.random.normal(jax.random.key(2), (30_000,))
posterior = fk.Posterior(
    lambda t: -jnp.sum(t**2) / 2, lambda t, d: -((d["y"] - d["x"] @ t) ** 2) / 2, {"x": x, "y": y}
)
density = fk.Density(lambda t: -jnp.sum(t**2 / jnp.arange(1.0, 5.0)) / 2)
CALL
"""


# Runs of the command: how one starts, and how it goes on once it has a checkpoint.
COMMANDS = {
    "lda": (
        ["lda", "run", "--out", "OUT", "--overwrite", "--passes", "3"],
        ["lda", "run", "--resume", "OUT"],
    ),
}
# The command with a checkpoint every second in place of every minute, which no such run takes.
OFTEN = """
import fokker.models.topics.run as run
from fokker.cli import main
run._MIN_SECONDS_BETWEEN_SAVES = 1.0
main()
"""
# The same in two processes.
TWO_LDA = "lda two processes"
_SMALL = "--topics 8 --sweeps 10 --burn-in 5 --start-documents 300 --passes 3 --threads 1"
COMMANDS[TWO_LDA] = (["lda", "run", "--out", "OUT", *_SMALL.split()], COMMANDS["lda"][1])
# Two processes of one run: one of them, or both, are killed.
TWO = "two processes"
CALLS[TWO] = (
    "fk.sample(posterior, fk.samplers.sgnht(2e-4, 100.0), init=jnp.zeros(4), steps=400_000, thin=100,"
    " burn_in=1000, chains=4, batch_size=20, out=out, mesh={'chains': 2})"
)
# Files damaged in place of kills.
FLIPS, _FLIPS = "flips", 2_000
NAMES = (*CALLS, *COMMANDS, FLIPS)


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


def start(name, folder):
    """The processes of a run."""
    program, variants = PROGRAM.replace("CALL", CALLS.get(name, "")), [[str(folder)]]
    if name in COMMANDS:
        first, again = COMMANDS[name]
        # The command itself: a checkpoint shows that there is something to go on with.
        given = again if list(folder.glob("checkpoint*.npz")) else first
        program = OFTEN
        variants = [[str(folder) if word == "OUT" else word for word in given]]
        if name == TWO_LDA:
            joined = ["--coordinator", f"127.0.0.1:{free_port()}", "--processes", "2", "--process"]
            variants = [[*variants[0], *joined, str(number)] for number in range(2)]
    elif name == TWO:
        port = free_port()
        variants = [[str(folder), port, str(number)] for number in range(2)]
    running = []
    for number, rest in enumerate(variants):
        with folder.with_name(f"{folder.name}.{number}.err").open("w") as said:
            quiet = {"stdout": subprocess.DEVNULL, "stderr": said}
            running.append(subprocess.Popen([sys.executable, "-c", program, *rest], **quiet))
    return running


def last_words(folder):
    """The end of what the processes of a run said."""
    texts = [path.read_text().strip() for path in sorted(folder.parent.glob(f"{folder.name}.*.err"))]
    return " | ".join(text.splitlines()[-1] for text in texts if text)


def end(running, limit=None):
    """Wait for all of them; the largest exit code."""
    until = None if limit is None else time.monotonic() + limit
    return max(
        abs(one.wait(timeout=None if until is None else max(0.0, until - time.monotonic())))
        for one in running
    )


def results(name, folder):
    """All the arrays of a run: its draws, statistics and moments."""
    if name in COMMANDS:
        with np.load(folder / "model.npz") as model:
            return {array: model[array] for array in model.files if array != "header"}
    import fokker as fk

    trace = fk.open(folder)
    assert trace.stopped is None, trace.stopped
    moments = {} if trace.moments is None else trace.moments
    return {**moments, **trace.sample_stats, **({} if trace.draws is None else {"theta": trace.draws})}


# Seconds in which a process that has lost the other has to end.
_ALONE = 120


def torture(name, kills, seed):
    """Kill a run `kills` times at random moments; what happened, and whether anything was wrong."""
    generator = random.Random(f"{name} {seed}")
    with tempfile.TemporaryDirectory() as parent:
        whole, broken = Path(parent, "whole"), Path(parent, "broken")
        begin = time.monotonic()
        if code := end(start(name, whole)):
            return f"the uninterrupted run ended with the exit code {code}: {last_words(whole)}", True
        seconds = time.monotonic() - begin
        done = finished = 0
        while True:
            running = start(name, broken)
            try:
                limit = generator.uniform(0.2, 1.0) * seconds if done < kills else None
                code = end(running, limit)
            except subprocess.TimeoutExpired:
                for killed in generator.sample(running, generator.randint(1, len(running))):
                    killed.kill()
                try:
                    end(running, _ALONE)  # the one that is left ends by itself
                except subprocess.TimeoutExpired:
                    for left in running:
                        left.kill()
                    return f"a process did not notice within {_ALONE} s that the other was killed", True
                done += 1
                continue
            if code:
                said = last_words(broken)
                return f"a run that went on ended with the exit code {code} after {done} kills: {said}", True
            finished += 1
            if problem := differences(name, whole, broken):
                return f"{problem} after {done} kills", True
            if done >= kills:
                break
            shutil.rmtree(broken)
    runs = f"{done} kills, {finished} runs completed, {seconds:.0f} s uninterrupted"
    return f"{runs}: the bits of the uninterrupted run", False


def differences(name, whole, broken):
    expected, found = results(name, whole), results(name, broken)
    if expected.keys() != found.keys():
        return f"other variables: {sorted(found)}"
    wrong = [array for array in expected if not np.array_equal(expected[array], found[array])]
    return f"other values: {wrong}" if wrong else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200, help="kills in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=NAMES, nargs="*", default=NAMES)
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time")
    options = parser.parse_args()
    names = [name for name in options.only if name != FLIPS]
    # Each name in as many parts as there are jobs, so that all jobs are busy.
    parts = max(1, options.jobs // max(1, len(names)))
    tasks = [(name, options.seed + part) for name in names for part in range(parts)]
    failed = False
    with ThreadPoolExecutor(options.jobs) as pool:
        kills = -(-options.kills // max(1, len(tasks)))
        ends = {pool.submit(torture, name, kills, seed): name for name, seed in tasks}
        if FLIPS in options.only:
            import flips

            ends[pool.submit(flips.flip, _FLIPS, options.seed)] = FLIPS
        for end in as_completed(ends):
            text, is_wrong = end.result()
            print(f"{ends[end]}: {text}", flush=True)
            failed = failed or is_wrong
    sys.exit(failed)


if __name__ == "__main__":
    main()
