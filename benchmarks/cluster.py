"""Time, memory and traffic of one step on many GPUs, on paper, and the same by simulating every message.

    python benchmarks/cluster.py

Models of 10¹⁰ parameters and 10¹¹ rows on 64 GPUs. "dense": every row depends on all parameters, as in a
network (6 operations per parameter and row). "sparse": a row depends on 128 of them, as in a factorisation.
The parameters are dealt out over the GPUs, each of which updates its own part (θ, momentum and gradient in
float32, noise made on the spot); or every GPU holds them all, as with mesh={"data": 64}. What a machine
can do is in `Machine`: vendors' figures times what was measured of them. The simulation sends every message
of the rings, with times of computing that vary from GPU to GPU, and so sees waiting: the formula does not.
"""

import argparse
import heapq
from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Machine:
    """What a GPU, its node and the network between nodes can do, in SI units."""

    gpus: int = 64
    per_node: int = 8
    operations: float = 0.4 * 989e12  # bfloat16, of which networks reach some 40 %
    memory: float = 141e9
    memory_speed: float = 0.83 * 4.8e12  # SGHMC's share of copying, measured on one H200
    node_speed: float = 0.8 * 450e9  # per GPU and direction, within a node
    network_speed: float = 0.8 * 50e9  # per GPU and direction, between nodes
    disk_speed: float = 3e9  # per GPU, of the disks of its node
    latency: float = 15e-6  # of a message between nodes, with its launch
    node_latency: float = 5e-6
    jitter: float = 0.03  # relative spread of the time that GPUs take for equal work


@dataclass(frozen=True)
class Problem:
    """A model, and the rows that one step uses in all."""

    name: str
    parameters: float = 1e10
    rows: float = 1e11
    touched: float = 1e10  # parameters on which a row depends
    batch: float = 65_536
    row_bytes: float = 200
    gradient_bytes: float = 2  # of gradients and of parameters on their way: bfloat16
    replicated: bool = False  # every GPU holds all parameters: gradients are summed, no parameter is sent


DENSE = Problem("dense")
# What `fk.sample(mesh={"data": 64})` does, in float32.
REPLICATED = Problem("dense, parameters on every GPU", gradient_bytes=4, replicated=True)
SPARSE = Problem("sparse", touched=128, batch=1_048_576)


def paper(problem, machine):
    """Seconds of each part of a step, by formula, and bytes of memory per GPU."""
    G, nodes = machine.gpus, max(1, machine.gpus // machine.per_node)
    own = problem.parameters / (1 if problem.replicated else G)
    compute = 6 * problem.touched * problem.batch / G / machine.operations
    # θ, momentum and gradient are read, θ and momentum written.
    updated = min(own, problem.touched * problem.batch / G)
    update = 5 * 4 * updated / machine.memory_speed
    if problem.touched == problem.parameters:
        # Gradients are summed where they belong, and parameters fetched: in the node, then between nodes.
        moved = 2 * problem.parameters * problem.gradient_bytes
        in_node = moved * (machine.per_node - 1) / machine.per_node / machine.node_speed
        between = moved / machine.per_node * (nodes - 1) / nodes / machine.network_speed
        rounds = 2 * (machine.per_node - 1) * machine.node_latency + 2 * (nodes - 1) * machine.latency
    else:
        # Every GPU asks the owners of the parameters of its rows, and sends their gradients back.
        moved = 2 * problem.touched * problem.batch / G * 4
        in_node = moved * (machine.per_node - 1) / G / machine.node_speed
        between = moved * (G - machine.per_node) / G / machine.network_speed
        rounds = 2 * (machine.per_node - 1) * machine.node_latency + 2 * (nodes - 1) * machine.latency
    # θ, momentum and gradient; and the parameters of one node's GPUs while a layer is computed.
    fetched = 0.0 if problem.replicated else problem.gradient_bytes * own * machine.per_node
    memory = 3 * 4 * own + fetched
    return {
        "compute": compute,
        "update": update,
        "in the node": in_node,
        "between nodes": between,
        "latency": rounds,
        "reading": problem.batch / G * problem.row_bytes / machine.disk_speed,
        "memory": memory,
    }


def seconds(parts, hidden=False):
    """A step; `hidden`: messages travel while the next layer is computed. Rows are read ahead."""
    traffic = parts["in the node"] + parts["between nodes"] + parts["latency"]
    work = max(parts["compute"], traffic) if hidden else parts["compute"] + traffic
    return max(work + parts["update"], parts["reading"])


def simulated(problem, machine, steps, generator):
    """Seconds per step where every message of the rings is sent, and a GPU waits for what it needs.

    Within a node and then between the GPUs of equal number in all nodes, gradients go round a ring of which
    every member adds its own (as many messages as members less one); parameters go the same way back.
    """
    parts = paper(problem, machine)
    G, local, nodes = machine.gpus, machine.per_node, machine.gpus // machine.per_node
    ready = np.zeros(G)
    for _ in range(steps):
        before = ready.copy()
        ready = ready + parts["compute"] * generator.lognormal(0.0, machine.jitter, G)
        rings_in_node = [[node * local + i for i in range(local)] for node in range(nodes)]
        rings_between = [[node * local + i for node in range(nodes)] for i in range(local)]
        halves = (parts["in the node"] / 2, parts["between nodes"] / 2)
        for rings, whole, latency in (
            (rings_in_node, halves[0], machine.node_latency),
            (rings_between, halves[1], machine.latency),
            (rings_between, halves[1], machine.latency),
            (rings_in_node, halves[0], machine.node_latency),
        ):
            for ring in rings:
                _go_round(ready, ring, whole / max(1, len(ring) - 1) + latency)
        ready = np.maximum(ready + parts["update"], before + parts["reading"])
    return float(ready.max()) / steps


def _go_round(ready, ring, message):
    """The members of a ring send their neighbours as many messages as there are others, one after another."""
    # (time at which a message arrives, its round, its receiver): the earliest first.
    waiting = [(ready[member] + message, 1, place) for place, member in enumerate(ring)]
    if len(ring) < 2:
        return
    heapq.heapify(waiting)
    received = np.zeros(len(ring), int)
    free = np.array([ready[member] for member in ring])
    arrived = {place: {} for place in range(len(ring))}
    last = len(ring) - 1
    while waiting:
        time, turn, sender = heapq.heappop(waiting)
        receiver = (sender + 1) % len(ring)
        arrived[receiver][turn] = time
        # A member adds to a part, and passes it on, once it has received it and has sent the one before.
        while received[receiver] + 1 in arrived[receiver]:
            turn = received[receiver] + 1
            free[receiver] = max(free[receiver], arrived[receiver][turn])
            received[receiver] = turn
            if turn < last:
                heapq.heappush(waiting, (free[receiver] + message, turn + 1, receiver))
    for place, member in enumerate(ring):
        ready[member] = free[place]


def table(problem, machine):
    parts = paper(problem, machine)
    print(
        f"\n{problem.name}: {problem.parameters:.0e} parameters, {problem.rows:.0e} rows, "
        f"{problem.batch:,.0f} rows per step, {machine.gpus} GPUs"
    )
    for name in ("compute", "update", "in the node", "between nodes", "latency", "reading"):
        print(f"  {name:14} {1e3 * parts[name]:10.3f} ms")
    print(f"  memory per GPU {parts['memory'] / 1e9:10.2f} GB of {machine.memory / 1e9:.0f}")
    print(
        f"  data per GPU   {problem.rows * problem.row_bytes / machine.gpus / 1e9:10.0f} GB on disk, read at "
        f"{problem.batch / machine.gpus * problem.row_bytes / seconds(parts) / 1e6:.1f} MB/s"
    )
    plain, hidden = seconds(parts), seconds(parts, hidden=True)
    found = simulated(problem, machine, 20, np.random.default_rng(0))
    print(
        f"  a step         {1e3 * plain:10.3f} ms; simulated {1e3 * found:.3f} ms "
        f"({100 * (found / plain - 1):+.0f} % by waiting); traffic behind computing {1e3 * hidden:.3f} ms"
    )
    print(f"  a pass         {plain * problem.rows / problem.batch / 86400:10.2f} days")


def scaling(problem, machine):
    """Where more GPUs do not help: rows per second and GPU, relative to those of one node."""
    print(f"\n{problem.name}: share of the speed of one node's GPUs that is left")
    print(f"  {'GPUs':>6} {'batch fixed':>12} {'batch grows':>12} {'batch for 0.8':>14}")
    one = replace(machine, gpus=machine.per_node)
    batch = problem.batch * one.gpus / machine.gpus
    base = batch / one.gpus / seconds(paper(replace(problem, batch=batch), one))
    for gpus in (8, 16, 64, 256, 1024, 4096):
        many = replace(machine, gpus=gpus)
        shares = []
        for rows in (problem.batch, batch * gpus / one.gpus):
            shares.append(rows / gpus / seconds(paper(replace(problem, batch=rows), many)) / base)
        needed = problem.batch
        parts = paper(replace(problem, batch=needed), many)
        while parts["compute"] + parts["update"] < 0.8 * seconds(parts) and needed < 2**40:
            needed *= 2
            parts = paper(replace(problem, batch=needed), many)
        limit = f"{needed:,.0f}" if needed < 2**40 else "none"
        print(f"  {gpus:6,} {shares[0]:12.2f} {shares[1]:12.2f} {limit:>14}")


def main():
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    machine = Machine()
    for problem in (DENSE, REPLICATED, SPARSE):
        table(problem, machine)
        scaling(problem, machine)


if __name__ == "__main__":
    main()
