"""NUTS against nutpie, NumPyro and BlackJAX: effective draws per second of whole runs.

Every library gets the same posterior, four chains, 1000 steps of warm-up and 1000 draws, a diagonal mass
matrix, acceptance 0.8 and trees of at most 2^10 leaves, in turns in one process. The first run of each
compiles, and is left out. Per library: effective draws per second of processor time of all threads, which
other work of the machine hardly changes, and per second by the clock; medians over seeds. Effective draws
are the fewest (ArviZ's bulk ESS) of any scalar of theta, the constrained parameters, which are the same in
all libraries; the time includes their computation. Chains of NumPyro and BlackJAX are vectorised; nutpie has
a thread per chain.

The models are those of `fokker.posteriors`, which nutpie gets as the PyMC models of `pymc_posteriors.py`,
and those of `pymc_models.py`, which the others get by `fk.from_pymc`. nutpie compiles all of them by Numba.
For the former it is checked that both densities are the same. nutpie starts its chains where it does by
default, the others at `init` of the posterior. Fokker, NumPyro and BlackJAX compute in single precision,
nutpie in double.

    OPENBLAS_NUM_THREADS=1 python benchmarks/nuts.py [NAME …] [--seeds 3] [--without NumPyro BlackJAX]

With more threads OpenBLAS makes small matrices several times slower, in nutpie most of all.
"""

import argparse
import importlib.metadata
import time
from collections.abc import Callable
from typing import Any

import arviz
import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import nutpie
from numpyro.infer import MCMC, NUTS

import fokker as fk
from fokker._core.precision import computing_in
from fokker._core.state import ravel, unravel
from fokker.posteriors import POSTERIORS
from fokker.run.precision import precision_of
from pymc_models import MODELS
from pymc_posteriors import density_gap, named, pymc_model

CHAINS, WARM_UP, DRAWS = 4, 1000, 1000
PACKAGES = ("fokker", "jax", "nutpie", "numpyro", "blackjax", "pymc", "numba", "numpy")


Draws = dict[str, np.ndarray]  # theta by name, each chain × draw × …


def effective(draws: Draws) -> float:
    """The fewest effective draws of a scalar."""
    return min(float(np.asarray(arviz.ess(arviz.convert_to_dataset(x))["x"]).min()) for x in draws.values())


class Problem:
    """A posterior, the same over unconstrained vectors, and as a PyMC model."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.model = MODELS[name]() if name in MODELS else pymc_model(name)
        posterior: Any = POSTERIORS[name]() if name in POSTERIORS else None
        self.target: Any = posterior.target if posterior else fk.from_pymc(self.model)
        self.init: Any = posterior.init if posterior else self.target.init
        self.precision = precision_of(None, self.target)
        with computing_in(self.precision):
            starts = [
                self.target.unconstrain(self.init(key)) for key in jax.random.split(jax.random.key(0), CHAINS)
            ]
            like = starts[0]
            self.starts = jnp.stack([ravel(x) for x in starts])
        self.potential: Callable[[Any], Any] = lambda x: self.target.potential(unravel(x, like))
        self.log_density: Callable[[Any], Any] = lambda x: -self.potential(x)
        self._constrain = jax.jit(jax.vmap(jax.vmap(lambda x: self.target.constrain(unravel(x, like)))))

    def theta(self, vectors: Any) -> Draws:
        """Theta for vectors, chain × draw × entry."""
        return named(self._constrain(vectors))


class Fokker:
    """This library."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def run(self, seed: int) -> Draws:
        """The draws of a whole run."""
        self.trace = fk.sample(
            self.problem.target,
            fk.samplers.nuts(),
            init=self.problem.init,
            steps=DRAWS,
            warm_up=WARM_UP,
            chains=CHAINS,
            seed=seed,
            progress=False,
        )
        return named(self.trace.samples)


class Nutpie:
    """nutpie with the PyMC model, compiled by Numba."""

    def __init__(self, problem: Problem) -> None:
        self.names = [variable.name for variable in problem.model.free_RVs]
        self.compiled = nutpie.compile_pymc_model(problem.model)
        if problem.name in POSTERIORS:
            gap = density_gap(problem.name, problem.model, lambda x: self.compiled.logp_func(x)[0])
            if not gap < 1e-9:
                raise ValueError(
                    f"the PyMC model of {problem.name} has another density: differences of its logarithm "
                    f"between points differ by {gap:.1e}."
                )

    def run(self, seed: int) -> Draws:
        """The draws of a whole run."""
        self.trace = nutpie.sample(
            self.compiled, draws=DRAWS, tune=WARM_UP, chains=CHAINS, seed=seed, progress_bar=False
        )
        return {name: self.trace.posterior[name].values for name in self.names}


class NumPyro:
    """NumPyro's NUTS with its own warm-up."""

    def __init__(self, problem: Problem) -> None:
        self.theta, self.starts = problem.theta, problem.starts
        self.mcmc = MCMC(
            NUTS(potential_fn=problem.potential, target_accept_prob=0.8),
            num_warmup=WARM_UP,
            num_samples=DRAWS,
            num_chains=CHAINS,
            chain_method="vectorized",
            progress_bar=False,
        )

    def run(self, seed: int) -> Draws:
        """The draws of a whole run."""
        self.mcmc.run(jax.random.key(seed), init_params=self.starts)
        return self.theta(self.mcmc.get_samples(group_by_chain=True))


class BlackJAX:
    """BlackJAX's NUTS with its window adaptation, chains by vmap, as one program."""

    def __init__(self, problem: Problem) -> None:
        self.theta, self.starts = problem.theta, problem.starts
        adaptation = blackjax.window_adaptation(blackjax.nuts, problem.log_density)
        kernel = blackjax.nuts.build_kernel()

        def chain(key: Any, start: Any) -> Any:
            warm_key, key = jax.random.split(key)
            (state, p), _ = adaptation.run(warm_key, start, num_steps=WARM_UP)

            def step(state: Any, key: Any) -> Any:
                new, _ = kernel(key, state, problem.log_density, p["step_size"], p["inverse_mass_matrix"])
                return new, new.position

            return jax.lax.scan(step, state, jax.random.split(key, DRAWS))[1]

        self.program = jax.jit(jax.vmap(chain))

    def run(self, seed: int) -> Draws:
        """The draws of a whole run."""
        return self.theta(self.program(jax.random.split(jax.random.key(seed), CHAINS), self.starts))


LIBRARIES: dict[str, Any] = {"Fokker": Fokker, "nutpie": Nutpie, "NumPyro": NumPyro, "BlackJAX": BlackJAX}


def measure(name: str, seeds: int, libraries: list[str]) -> dict[str, np.ndarray]:
    """By library, medians: effective draws per second of the processor and by the clock, and both times."""
    problem = Problem(name)
    measured: dict[str, list[list[float]]] = {library: [] for library in libraries}
    with computing_in(problem.precision):
        runners = {library: LIBRARIES[library](problem) for library in libraries}
        for seed in range(seeds + 1):
            shapes = []
            for library, runner in runners.items():
                processor, clock = time.process_time(), time.perf_counter()
                draws = runner.run(seed)
                times = [time.process_time() - processor, time.perf_counter() - clock]
                shapes.append({key: x.shape for key, x in sorted(draws.items())})
                if shapes[-1] != shapes[0]:
                    raise ValueError(f"{library} has other quantities: {shapes[-1]}, not {shapes[0]}.")
                if seed:  # the first compiles
                    count = effective(draws)
                    measured[library].append([count / times[0], count / times[1], *times])
    return {library: np.median(rows, axis=0) for library, rows in measured.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=[*POSTERIORS, *MODELS])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--without", nargs="*", default=[])
    arguments = parser.parse_args()
    libraries = [library for library in LIBRARIES if library not in arguments.without]
    print(", ".join(f"{package} {importlib.metadata.version(package)}" for package in PACKAGES))
    print("effective draws per second of processor time (seconds of a run); ratios: of it, and by the clock")
    print(f"{'':26}" + "".join(f"{library:>20}" for library in libraries))
    ratios: dict[str, list[np.ndarray]] = {library: [] for library in libraries[1:]}
    for name in arguments.names:
        rows = measure(name, arguments.seeds, libraries)
        for library in ratios:
            ratios[library].append(rows["Fokker"][:2] / rows[library][:2])
        columns = "".join(f"{f'{row[0]:.0f} ({row[2]:.2f})':>20}" for row in rows.values())
        last = ", ".join(f"{library} {r[-1][0]:.2f} {r[-1][1]:.2f}" for library, r in ratios.items())
        print(f"{name:26}{columns}   {last}", flush=True)
    for library, rows_of_one in ratios.items():
        means, least = np.exp(np.mean(np.log(rows_of_one), axis=0)), np.min(rows_of_one, axis=0)
        print(
            f"over {library}: geometric mean {means[0]:.2f} by processor time, {means[1]:.2f} by the clock; "
            f"least {least[0]:.2f}, {least[1]:.2f}"
        )


if __name__ == "__main__":
    main()
