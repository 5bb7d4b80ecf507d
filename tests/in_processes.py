"""One process of a run of two, for test_mesh.py: it may end by a signal after some blocks.

python in_processes.py NUMBER PORT FOLDER STEPS [SIGNAL BLOCK]
"""

import os
import signal
import sys

import jax
import jax.numpy as jnp

import fokker as fk
from fokker.run import loop

TARGET = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)


def sample(steps, **options):
    return fk.sample(
        TARGET,
        fk.samplers.sgld(0.1),
        init=jnp.ones(2),
        steps=steps,
        chains=2,
        chunk=8,
        progress=False,
        **options,
    )


def ending(number, after):
    """Send this process a signal with its n-th block."""
    right, sent = loop.Run._send, []

    def send(self, *given):
        sent.append(given)
        if len(sent) == after:
            os.kill(os.getpid(), number)
        return right(self, *given)

    loop.Run._send = send


if __name__ == "__main__":
    number, port, folder, steps, *rest = sys.argv[1:]
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_disable_most_optimizations", True)
    fk.processes.start(f"127.0.0.1:{port}", 2, int(number))
    if rest:
        ending(signal.Signals[rest[0]], int(rest[1]))
    trace = sample(int(steps), mesh="chains", out=folder)
    print(trace.settings["taken"], trace.stopped)
