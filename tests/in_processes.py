"""One process of a run of many, for test_mesh.py: it may end by a signal after some blocks.

python in_processes.py NUMBER PROCESSES PORT CALL MESH FOLDER STEPS [SIGNAL BLOCK]
"""

import os
import signal
import sys

import jax
import jax.numpy as jnp

import fokker as fk
from fokker.run import loop

TARGET = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)


def posterior():
    """A mean of 4003 points: not a multiple of two or four."""
    data = 1 + jax.random.normal(jax.random.key(1), (4003, 2))
    return fk.Posterior(
        lambda theta: -jnp.sum(theta**2) / 2, lambda theta, x: -jnp.sum((x - theta) ** 2) / 2, data
    )


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


def sample_posterior(steps, **options):
    """Four chains with windows of rows."""
    return fk.sample(
        posterior(),
        fk.samplers.sghmc(1e-4),
        init=jnp.ones(2),
        steps=steps,
        chains=4,
        batch_size=4,
        chunk=8,
        progress=False,
        **options,
    )


def sample_divided(steps, **options):
    """A theta that is large enough to be divided."""
    start = {"init": jnp.ones(2048), "chains": 2, "chunk": 8, "progress": False}
    return fk.sample(TARGET, fk.samplers.sgld(0.1), steps=steps, **start, **options)


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
    number, count, port, call, mesh, folder, steps, *rest = sys.argv[1:]
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_disable_most_optimizations", True)
    fk.processes.start(f"127.0.0.1:{port}", int(count), int(number))
    if rest:
        ending(signal.Signals[rest[0]], int(rest[1]))
    calls = {"sample": sample, "sample_posterior": sample_posterior, "sample_divided": sample_divided}
    trace = calls[call](int(steps), mesh=mesh, out=folder)
    print(trace.settings["taken"], trace.stopped)
