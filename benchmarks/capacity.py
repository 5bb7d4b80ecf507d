"""What one machine holds: the largest number of parameters that SGHMC samples, and the time per step.

    python benchmarks/capacity.py [--parameters 1e8 1e9] [--devices 4]

Each size is tried in a process of its own. Bytes per parameter: position, momentum, gradient and the draw in
float32, plus what the compiler adds. With several devices the parameters are dealt over them, and the bytes
are those of the device that has most; of a CPU, which has one memory, those of all devices together.
"""

import argparse
import os
import subprocess
import sys

PROGRAM = """
import sys, time, warnings
warnings.simplefilter("ignore")
import jax, jax.numpy as jnp
import numpy as np
import fokker as fk
size, devices = int(float(sys.argv[1])), int(sys.argv[2])
mesh = {"parameters": devices} if devices > 1 else None
target = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
init = np.zeros(size, np.float32)
def run(steps):
    begin = time.perf_counter()
    options = dict(init=init, steps=steps, thin=steps, progress=False, mesh=mesh)
    trace = fk.sample(target, fk.samplers.sghmc(0.1, 1.0), **options)
    return time.perf_counter() - begin, float(trace.samples[0, 0, :1000000].std())
run(20)
run(220)
short, _ = run(20)
long, spread = run(220)
peak = max((device.memory_stats() or {}).get("peak_bytes_in_use", 0) for device in jax.devices())
if not peak:
    import resource
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(f"{size:.2g} parameters: {1e3 * (long - short) / 200:.2f} ms per step, {peak / size:.1f} bytes per "
      f"parameter, sd {spread:.3f} (1 is right) on {devices} {jax.devices()[0].device_kind}")
"""


def _problem(text):
    """The line of an error message that says what happened."""
    lines = [line for line in text.splitlines() if "Error" in line]
    return lines[-1][:200] if lines else text[-200:]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parameters", nargs="*", default=["1e7", "1e8", "1e9"])
    parser.add_argument("--devices", type=int, default=1)
    options = parser.parse_args()
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={options.devices}"
    for size in options.parameters:
        run = subprocess.run(
            [sys.executable, "-c", PROGRAM, size, str(options.devices)],
            env={**os.environ, "XLA_FLAGS": flags},
            capture_output=True,
            text=True,
        )
        print(
            run.stdout.strip() or f"{size} parameters: {_problem(run.stderr)}",
            flush=True,
        )


if __name__ == "__main__":
    main()
