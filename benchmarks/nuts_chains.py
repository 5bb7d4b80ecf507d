"""NUTS with many chains at once against NumPyro's: effective draws per second of sampling.

    python benchmarks/nuts_chains.py [--chains 64 1024] [--steps 500]

A logistic regression of 1,000 rows and 25 coefficients, and a normal of 100 dimensions with scales from 0.1
to 10. Both warm up by 500 steps, with a diagonal mass matrix and an acceptance rate of 0.8; compilation and
warm-up are not counted. The effective draws are the least over the coordinates, by NumPyro's own estimate for
both.
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro.diagnostics import effective_sample_size
from numpyro.infer import MCMC, NUTS

import fokker as fk

WARM_UP = 500


def logistic():
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=(1000, 25)), jnp.float32)
    p = 1 / (1 + np.exp(-np.asarray(x) @ np.linspace(-1, 1, 25)))
    y = jnp.asarray(rng.uniform(size=1000) < p, jnp.float32)

    def log_density(theta):
        logits = x @ theta
        return jnp.sum(y * logits - jnp.logaddexp(0.0, logits)) - jnp.sum(theta**2) / 2

    return log_density, 25


def normal():
    scales = jnp.logspace(-1, 1, 100)
    return (lambda theta: -jnp.sum((theta / scales) ** 2) / 2), 100


def effective(draws):
    return float(np.min(effective_sample_size(np.asarray(draws))))


def ours(log_density, d, chains, steps):
    target = fk.Density(log_density)
    init = lambda key: 0.1 * jax.random.normal(key, (d,))  # noqa: E731
    options = {"init": init, "chains": chains, "progress": False}
    warmed = fk.sample(target, fk.samplers.nuts(), steps=steps, warm_up=WARM_UP, **options)
    seconds, trace = timed(lambda: warmed.rerun(seed=1))
    return effective(trace.samples) / seconds


def numpyros(log_density, d, chains, steps):
    kernel = NUTS(potential_fn=lambda theta: -log_density(theta))
    mcmc = MCMC(
        kernel,
        num_warmup=WARM_UP,
        num_samples=steps,
        num_chains=chains,
        chain_method="vectorized",
        progress_bar=False,
    )
    start = 0.1 * jax.random.normal(jax.random.key(0), (chains, d))
    mcmc.warmup(jax.random.key(1), init_params=start)
    mcmc.run(jax.random.key(2))  # compiles
    seconds, _ = timed(lambda: jax.block_until_ready(mcmc.run(jax.random.key(3)) or mcmc.last_state.z))
    return effective(mcmc.get_samples(group_by_chain=True)) / seconds


def timed(function):
    before = time.perf_counter()
    result = function()
    return time.perf_counter() - before, result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chains", type=int, nargs="*", default=[64, 1024])
    parser.add_argument("--steps", type=int, default=500)
    arguments = parser.parse_args()
    numpyro.enable_x64(False)
    print(f"{jax.devices()[0].device_kind}, {arguments.steps} steps")
    for name, make in (("logistic, d = 25", logistic), ("normal, d = 100", normal)):
        log_density, d = make()
        for chains in arguments.chains:
            rates = [f(log_density, d, chains, arguments.steps) for f in (ours, numpyros)]
            ratio = rates[0] / rates[1]
            print(
                f"{name}, {chains} chains: {rates[0]:,.0f} and {rates[1]:,.0f} per second: {ratio:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
