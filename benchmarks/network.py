"""Steps per second on a 784-100-10 network with batches of 20 rows, against BlackJAX and posteriors.

60,000 rows of noise in the shape of MNIST, one chain. `fk.sample` runs SGHMC with the noise that
`fk.models.Network` takes by default (two-point) and with Gaussian noise. BlackJAX's SGHMC is driven as its
documentation shows: a Python loop over a jitted step, ten updates per step on one batch, counted as ten.
`posteriors` runs its SGHMC on PyTorch as its documentation shows, with `torch.func`. Ratios are of speeds,
Fokker's over the peer's, medians of runs taken in turns in this one process. Compilation is left out. It
needs `blackjax`, `torch` and `posteriors`. The second table is what two-point noise costs: variance and
kurtosis on a standard normal with either noise, at the same step size.
"""

import argparse
import itertools
import statistics
import time

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import posteriors
import torch
from rich.console import Console
from rich.table import Table

import fokker as fk

N, BATCH, LEARNING_RATE, MOMENTUM = 60_000, 20, 0.01, 0.9


def make_data():
    rng = np.random.default_rng(0)
    return {"x": rng.normal(size=(N, 784)).astype(np.float32), "y": rng.integers(0, 10, N).astype(np.int32)}


def start():
    rng = np.random.default_rng(1)
    sizes = (784, 100, 10)
    return [
        {
            "weight": jnp.asarray(rng.normal(size=(m, n)) * np.sqrt(2 / m), jnp.float32),
            "bias": jnp.zeros(n),
        }
        for m, n in itertools.pairwise(sizes)
    ]


def log_prior(theta):
    return -sum(jnp.sum(x**2) for x in jax.tree.leaves(theta)) / 2


def log_likelihood(theta, datum):
    h = jax.nn.relu(datum["x"] @ theta[0]["weight"] + theta[0]["bias"])
    return jax.nn.log_softmax(h @ theta[1]["weight"] + theta[1]["bias"])[datum["y"]]


def make_sampler(noise):
    size = (LEARNING_RATE / N) ** 0.5
    return fk.samplers.sghmc(size, (1 - MOMENTUM) / size, noise=noise)


def fokker_rate(target, sampler, steps):
    """Steps per second of the additional steps of a longer run over a shorter one, which compiles first."""

    def run(number):
        begun = time.perf_counter()
        fk.sample(
            target, sampler, init=start(), steps=number, chains=1, thin=500, batch_size=BATCH, progress=False
        )
        return time.perf_counter() - begun

    run(1000)
    short = run(1000)
    return steps / (run(1000 + steps) - short)


def blackjax_rate(data, steps):
    gradient = blackjax.sgmcmc.gradients.grad_estimator(log_prior, log_likelihood, N)
    step = jax.jit(blackjax.sghmc(gradient, num_integration_steps=10).step)
    generator = np.random.default_rng(0)

    def run(number):
        z, key = start(), jax.random.key(0)
        begun = time.perf_counter()
        for _ in range(number):
            key, sub = jax.random.split(key)
            rows = generator.integers(0, N, BATCH)
            z = step(sub, z, {name: x[rows] for name, x in data.items()}, 1e-7)
        jax.block_until_ready(z)
        return time.perf_counter() - begun

    run(2)
    return steps / run(steps // 10)


def posteriors_rate(data, steps):
    model = torch.nn.Sequential(torch.nn.Linear(784, 100), torch.nn.ReLU(), torch.nn.Linear(100, 10))
    x, y = torch.as_tensor(data["x"]), torch.as_tensor(data["y"]).long()

    def log_posterior(params, batch):
        outputs = torch.func.functional_call(model, params, batch[0])
        likelihood = -torch.nn.functional.cross_entropy(outputs, batch[1])
        return likelihood + posteriors.diag_normal_log_prob(params) / N, outputs

    transform = posteriors.sgmcmc.sghmc.build(log_posterior, lr=1e-3, temperature=1 / N)
    generator = np.random.default_rng(0)

    def run(number):
        state = transform.init({name: p.detach() for name, p in model.named_parameters()})
        begun = time.perf_counter()
        for _ in range(number):
            rows = torch.as_tensor(generator.integers(0, N, BATCH))
            state, _ = transform.update(state, (x[rows], y[rows]))
        return time.perf_counter() - begun

    run(5)
    return steps / run(steps)


def noise_bias(console, steps):
    """Moments of a standard normal by SGHMC and SGNHT, with either noise and at the same step size."""
    shown = Table(title="A standard normal: variance and kurtosis (right: 1 and 3)", title_justify="left")
    for column in ("sampler", "momentum", "noise", "variance", "standard error", "kurtosis"):
        shown.add_column(column, justify="right")
    target = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
    for name in ("sghmc", "sgnht"):
        for momentum in (0.9, 0.99):
            for noise in ("gaussian", "two-point"):
                size = 0.1  # a learning rate of 0.01, where the curvature is 1
                friction = (1 - momentum) / size
                settings = (size, friction) if name == "sghmc" else (size, friction, 2 / friction**2)
                sampler = getattr(fk.samplers, name)(*settings, noise=noise)
                trace = fk.sample(
                    target,
                    sampler,
                    init=lambda key: jax.random.normal(key, (100,)),
                    steps=steps,
                    burn_in=1000,
                    thin=20,
                    chains=4,
                    progress=False,
                )
                x = trace.samples.astype(float)
                by_coordinate = np.mean(x**2, (0, 1))
                error = by_coordinate.std() / np.sqrt(by_coordinate.size)
                kurtosis = np.mean(x**4) / np.mean(x**2) ** 2
                shown.add_row(
                    name, f"{momentum}", noise, f"{np.mean(x**2):.4f}", f"{error:.4f}", f"{kurtosis:.3f}"
                )
    console.print(shown)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer steps and repeats")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    steps, slow, repeats = (2_000, 300, 3) if quick else (20_000, 1_000, 5)
    data = make_data()
    target = fk.Posterior(log_prior, log_likelihood, data)
    two_point, gaussian = make_sampler("two-point"), make_sampler("gaussian")
    programs = {
        "Fokker, two-point noise": lambda: fokker_rate(target, two_point, steps),
        "Fokker, Gaussian noise": lambda: fokker_rate(target, gaussian, steps),
        "BlackJAX": lambda: blackjax_rate(data, slow),
        "posteriors": lambda: posteriors_rate(data, slow),
    }
    rates = {name: [] for name in programs}
    for _ in range(repeats):
        for name, program in programs.items():
            rates[name].append(program())
    medians = {name: statistics.median(values) for name, values in rates.items()}
    console = Console(width=120, highlight=False)
    shown = Table(title="SGHMC, 784-100-10, batch 20", title_justify="left")
    for column in ("", "steps per second", "two-point over it", "Gaussian over it"):
        shown.add_column(column, justify="right")
    ours = [medians[name] for name in programs if name.startswith("Fokker")]
    for name, rate in medians.items():
        shown.add_row(name, f"{rate:,.0f}", *(f"{mine / rate:.2f}" for mine in ours))
    console.print(shown)
    console.print("goals: 2 over BlackJAX, 5 over posteriors")
    noise_bias(console, 20_000 if quick else 200_000)


if __name__ == "__main__":
    main()
