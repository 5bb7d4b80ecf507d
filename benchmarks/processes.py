"""Two and four local processes against one, each on a core of its own.

    python benchmarks/processes.py [--rounds 3] [--processes 1 2 4] [--only chains data topics]

SGHMC of a network of 784-100-10 units, four chains with 1,000 rows per step, whose chains or whose rows are
divided among the processes. `topics`: a run of `fokker lda` by sgrhmc, four passes over 4,000 documents drawn
from an LDA of 8,000 words, 150 tokens each, with its reading, evaluations and checkpoint: 50 topics and 50
documents per minibatch, 200 topics and 200 or 500 documents, and a default run of 50 topics, whose two passes
have a start and exact draws.

Process i runs on core i alone (modulo the cores that there are), with one thread of XLA and of the sweeps.
They take turns; the best round counts. Printed are steps per second (for topics, documents), the ratio to one
process, the CPU time of one process over that of all together for the same steps, and the seconds of each
process by the clock and of its CPU in the round with the least CPU time. The third is the cost of dividing
the work, and depends little on what else the machine does.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# Passes, and settings of a run.
STEPS_ONLY = {"start_documents": 0, "exact_passes": 0}
TOPICS = {
    "topics-50": (4, {"topics": 50, "batch": 50, **STEPS_ONLY}),
    "topics-200": (4, {"topics": 200, "batch": 200, **STEPS_ONLY}),
    "topics-200-500": (4, {"topics": 200, "batch": 500, **STEPS_ONLY}),
    "topics-default": (2, {"topics": 50}),
}
DOCUMENTS = 4000


def write_documents(folder):
    import numpy as np
    from scipy import sparse

    rng = np.random.default_rng(0)
    beta = rng.dirichlet(np.full(8000, 0.02), 50)
    rows = []
    for _ in range(DOCUMENTS):
        by_topic = rng.multinomial(150, rng.dirichlet(np.full(50, 0.1)))
        words = [rng.choice(8000, n, p=beta[k]) for k, n in enumerate(by_topic) if n]
        rows.append(sparse.csr_matrix(np.bincount(np.concatenate(words), minlength=8000)))
    sparse.save_npz(f"{folder}/documents.npz", sparse.vstack(rows))
    sparse.save_npz(f"{folder}/first.npz", sparse.vstack(rows[:1200]))


def work_on_topics(number, processes, port, kind, folder):
    """One process of a run over topics: print its seconds of wall and CPU time."""
    import fokker as fk
    from fokker.models.topics.reading import Reading
    from fokker.models.topics.settings import Settings
    from fokker.models.topics.starting import start_run
    from fokker.models.topics.together import Silent

    if processes > 1:
        fk.processes.start(f"127.0.0.1:{port}", processes, number)
    passes, given = TOPICS[kind]
    settings = Settings(threads=1, **given)

    def run(name):
        """A run over the documents of a file; the first one compiles."""
        learned = start_run(
            Reading(f"{folder}/{name}.npz", held_out=200),
            settings,
            Path(folder, f"run-{processes}"),
            passes=passes,
            overwrite=True,
            mixtures=False,
        )
        before, cpu = time.perf_counter(), time.process_time()
        learned.execute(Silent())
        return time.perf_counter() - before, time.process_time() - cpu

    run("first")
    print(json.dumps(run("documents")))


def work(number, processes, port, mesh, steps):
    """One process of a run: print its seconds of wall and CPU time."""
    import jax
    import jax.numpy as jnp

    import fokker as fk

    if processes > 1:
        fk.processes.start(f"127.0.0.1:{port}", processes, number)
    keys = jax.random.split(jax.random.key(0), 4)
    data = {
        "x": jax.random.normal(keys[0], (10_000, 784)),
        "y": jax.random.randint(keys[1], (10_000,), 0, 10),
    }
    init = {
        "w1": 0.03 * jax.random.normal(keys[2], (784, 100)),
        "w2": 0.1 * jax.random.normal(keys[3], (100, 10)),
    }

    def log_likelihood(theta, row):
        return jax.nn.log_softmax(jax.nn.relu(row["x"] @ theta["w1"]) @ theta["w2"])[row["y"]]

    def log_prior(theta):
        return -sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(theta)) / 2

    target = fk.Posterior(log_prior, log_likelihood, data)

    def run(steps):
        options = {"batch_size": 1000, "batches": "replacement", "chains": 4, "progress": False}
        return fk.sample(
            target,
            fk.samplers.sghmc(1e-5),
            init=init,
            steps=steps,
            thin=steps,
            mesh=mesh if processes > 1 else None,
            **options,
        )

    run(20)  # compiles
    before, cpu = time.perf_counter(), time.process_time()
    run(steps)
    print(json.dumps([time.perf_counter() - before, time.process_time() - cpu]))


def measured(processes, mesh, steps, folder):
    """Wall time and CPU time of each process."""
    cores = sorted(os.sched_getaffinity(0))
    with socket.create_server(("", 0)) as free:
        port = free.getsockname()[1]
    running = []
    for number in range(processes):
        core = cores[number % len(cores)]
        given = folder if mesh in TOPICS else str(steps)
        arguments = ["--work", str(number), str(processes), str(port), mesh, given]
        running.append(
            subprocess.Popen(
                [sys.executable, __file__, *arguments],
                stdout=subprocess.PIPE,
                text=True,
                # Before JAX is imported, which has as many threads as it may use cores.
                preexec_fn=lambda core=core: os.sched_setaffinity(0, {core}),
            )
        )
    lines = [process.communicate()[0].splitlines()[-1] for process in running]
    return [json.loads(line) for line in lines]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument(
        "--only", choices=("chains", "data", "topics"), nargs="+", default=["chains", "data", "topics"]
    )
    parser.add_argument("--work", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        number, processes, port, mesh, given = options.work
        if mesh in TOPICS:
            work_on_topics(int(number), int(processes), port, mesh, given)
        else:
            work(int(number), int(processes), port, mesh, int(given))
        return
    several = [n for n in options.processes if n > 1]
    networks = [mesh for mesh in ("chains", "data") if mesh in options.only]
    cases = [(1, "chains")] * bool(networks) + [(n, mesh) for mesh in networks for n in several]
    cases += [(n, kind) for kind in TOPICS if "topics" in options.only for n in (1, *several)]
    rounds = {case: [] for case in cases}
    with tempfile.TemporaryDirectory() as folder:
        if "topics" in options.only:
            write_documents(folder)
        for _ in range(options.rounds):
            for case in cases:
                rounds[case].append(measured(*case, options.steps, folder))
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    print(f"{cores} cores, load {load:.1f}, best of {options.rounds} rounds")
    print(
        f"{'processes':>9} {'divided':>14} {'steps/s':>8} {'ratio':>6} {'CPU of one / CPU of all':>24}  "
        "seconds (CPU) of each"
    )
    for (processes, kind), times in rounds.items():
        wall, cpu = shortest(rounds[1, kind if kind in TOPICS else "chains"])
        seconds, total = shortest(times)
        divided = kind if processes > 1 or kind in TOPICS else ""
        steps = TOPICS[kind][0] * DOCUMENTS if kind in TOPICS else options.steps
        each = ", ".join(f"{a:.1f} ({b:.1f})" for a, b in min(times, key=lambda one: sum(b for _, b in one)))
        print(
            f"{processes:9} {divided:>14} {steps / seconds:8.2f} {wall / seconds:6.2f} {cpu / total:24.2f}"
            f"  {each}"
        )


def shortest(rounds):
    """The shortest wall time of the slowest process, and CPU time of all, of several rounds."""
    return min(max(a for a, _ in times) for times in rounds), min(
        sum(b for _, b in times) for times in rounds
    )


if __name__ == "__main__":
    main()
