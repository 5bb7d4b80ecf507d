"""`fk.sample` against a plain JAX scan over the same sampler's `step`, written as a user would.

    python benchmarks/driver.py [--quick] [--cases network:64 network:256] [--share 0.2]

Chain-steps per second of both, in turns, without compilation, and their ratio: SGHMC of a logistic
regression and of a network of 784-100-10 units (79,510 parameters), with 1 to 4,096 chains. "Marginal"
is the ratio of the additional times of a run of all the steps over one of half of them, without the
fixed cost of a call; "fixed" is that cost of `fk.sample`, in seconds.
"""

import argparse
import functools
import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np

import fokker as fk

# Steps per draw: of the network few draws fit into memory.
THIN = {"logistic": 10, "network": 100}


def logistic(rows=100_000, d=50):
    keys = jax.random.split(jax.random.key(0), 3)
    x = jax.random.normal(keys[0], (rows, d))
    y = (jax.random.uniform(keys[1], (rows,)) < jax.nn.sigmoid(x @ jnp.linspace(-1, 1, d))).astype(
        jnp.float32
    )
    target = fk.Posterior(
        lambda theta: -jnp.sum(theta**2) / 2,
        lambda theta, row: row["y"] * (row["x"] @ theta) - jnp.logaddexp(0.0, row["x"] @ theta),
        {"x": x, "y": y},
    )
    return target, jnp.zeros(d), 100, 1e-4


def network(rows=10_000):
    keys = jax.random.split(jax.random.key(0), 4)
    x, y = jax.random.normal(keys[0], (rows, 784)), jax.random.randint(keys[1], (rows,), 0, 10)
    theta = {
        "w1": 0.03 * jax.random.normal(keys[2], (784, 100)),
        "b1": jnp.zeros(100),
        "w2": 0.1 * jax.random.normal(keys[3], (100, 10)),
        "b2": jnp.zeros(10),
    }

    def log_likelihood(theta, row):
        hidden = jax.nn.relu(row["x"] @ theta["w1"] + theta["b1"])
        return jax.nn.log_softmax(hidden @ theta["w2"] + theta["b2"])[row["y"]]

    def log_prior(theta):
        return -sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(theta)) / 2

    return fk.Posterior(log_prior, log_likelihood, {"x": x, "y": y}), theta, 20, 1e-4


def plain(target, sampler, init, batch_size, chains, steps, thin):
    """The user's own loop: seconds for `steps` steps of all chains."""
    placed = sampler.on(target)

    @functools.partial(jax.jit, static_argnums=2)
    def run(states, key, steps):
        def step(states, key):
            key_batch, key_step = jax.random.split(key)
            rows = jax.random.randint(key_batch, (chains, batch_size), 0, target.size)

            def one(key, state, rows):
                return placed.step(key, state, jax.tree.map(lambda x: x[rows], target.data))[0]

            return jax.vmap(one)(jax.random.split(key_step, chains), states, rows), None

        def draw(states, key):
            states, _ = jax.lax.scan(step, states, jax.random.split(key, thin))
            return states, states.position

        return jax.lax.scan(draw, states, jax.random.split(key, steps // thin))

    states = jax.jit(lambda keys: jax.vmap(lambda key: placed.init(init, key=key))(keys))(
        jax.random.split(jax.random.key(1), chains)
    )

    def seconds(seed, steps=steps):
        began = time.perf_counter()
        _, draws = run(states, jax.random.key(seed), steps)
        jax.tree.map(np.asarray, draws)
        return time.perf_counter() - began

    return seconds


def ours(target, sampler, init, batch_size, chains, steps, thin):
    def seconds(seed, steps=steps):
        began = time.perf_counter()
        fk.sample(
            target,
            sampler,
            init=init,
            steps=steps,
            thin=thin,
            chains=chains,
            batch_size=batch_size,
            batches="replacement",
            seed=seed,
            progress=False,
        )
        return time.perf_counter() - began

    return seconds


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a fifth of the steps")
    parser.add_argument("--share", type=float, help="of the steps, in place of all or a fifth")
    parser.add_argument("--cases", nargs="*", help="as in network:64; without it all, and two kinds of noise")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    # Chain-steps of one timing, some seconds of them.
    lengths = {"logistic": {1: 5e4, 64: 5e5, 1024: 5e5, 4096: 5e5}, "network": {1: 2e3, 64: 1e4, 256: 3e4}}
    if jax.default_backend() != "cpu":
        lengths = {
            "logistic": {1: 2e5, 64: 5e6, 1024: 4e7, 4096: 5e7},
            "network": {1: 4e4, 64: 1e6, 256: 2e6},
        }
    share = options.share or (0.2 if options.quick else 1.0)
    cases = [(name, c, "gaussian", share * n) for name, each in lengths.items() for c, n in each.items()]
    cases += [("network", 1, noise, share * lengths["network"][1]) for noise in ("three-point", "two-point")]
    if options.cases is not None:
        cases = [case for case in cases if f"{case[0]}:{case[1]}" in options.cases and case[2] == "gaussian"]
    print(f"{jax.devices()[0].device_kind}, JAX {jax.__version__}")
    print(
        f"{'':10} {'chains':>6} {'noise':12} {'fk.sample':>14} {'plain scan':>14} {'ratio':>6} "
        f"{'marginal':>8} {'fixed':>6}"
    )
    for name, chains, noise, length in cases:
        target, init, batch_size, step_size = {"logistic": logistic, "network": network}[name]()
        sampler = fk.samplers.sghmc(step_size, 1.0, noise=noise)
        thin = THIN[name]
        half = thin * max(1, round(length / chains / thin / 2))
        steps = 2 * half
        runs = [make(target, sampler, init, batch_size, chains, steps, thin) for make in (ours, plain)]
        for run in runs:
            run(0, half), run(0)
        times = [[run(1 + k, n) for n in (steps, half) for run in runs] for k in range(options.rounds)]
        own, theirs, own_half, theirs_half = (
            statistics.median(column) for column in zip(*times, strict=True)
        )
        ratio = statistics.median(row[1] / row[0] for row in times)
        marginal = (theirs - theirs_half) / (own - own_half)
        fixed = 2 * own_half - own
        print(
            f"{name:10} {chains:6} {noise:12} {chains * steps / own:14,.0f} {chains * steps / theirs:14,.0f} "
            f"{ratio:6.2f} {marginal:8.2f} {fixed:6.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
