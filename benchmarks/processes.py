"""Two and four local processes against one, each on a core of its own.

    python benchmarks/processes.py [--rounds 3] [--processes 1 2 4]

SGHMC of a network of 784-100-10 units, four chains with 1,000 rows per step, whose chains or whose rows are
divided among the processes. Process i runs on core i alone (modulo the cores that there are), with one thread
of XLA. They take turns; the best round counts. Printed are steps per second, the ratio to one process, and
the CPU time of one process over that of all together for the same steps. The last is the cost of dividing the
work, and depends little on what else the machine does.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import time


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


def measured(processes, mesh, steps):
    """Wall time of the slowest process, and CPU time of all."""
    cores = sorted(os.sched_getaffinity(0))
    with socket.create_server(("", 0)) as free:
        port = free.getsockname()[1]
    running = []
    for number in range(processes):
        core = cores[number % len(cores)]
        arguments = ["--work", str(number), str(processes), str(port), mesh, str(steps)]
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
    times = [json.loads(line) for line in lines]
    return max(wall for wall, _ in times), sum(cpu for _, cpu in times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--work", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        number, processes, port, mesh, steps = options.work
        work(int(number), int(processes), port, mesh, int(steps))
        return
    several = [n for n in options.processes if n > 1]
    cases = [(1, "chains"), *((n, mesh) for mesh in ("chains", "data") for n in several)]
    best = dict.fromkeys(cases, (float("inf"), float("inf")))
    for _ in range(options.rounds):
        for case in cases:
            times = measured(*case, options.steps)
            best[case] = tuple(min(pair) for pair in zip(best[case], times, strict=True))
    wall, cpu = best[1, "chains"]
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    print(f"{cores} cores, load {load:.1f}, best of {options.rounds} rounds")
    print(f"{'processes':>9} {'divided':>8} {'steps/s':>8} {'ratio':>6} {'CPU of one / CPU of all':>24}")
    for (processes, mesh), (seconds, total) in best.items():
        divided, speed = mesh if processes > 1 else "", options.steps / seconds
        print(f"{processes:9} {divided:>8} {speed:8.2f} {wall / seconds:6.2f} {cpu / total:24.2f}")


if __name__ == "__main__":
    main()
