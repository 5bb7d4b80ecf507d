"""NUTS on classic posteriors against NumPyro's and BlackJAX's: effective draws a second, time to the first.

Every library gets the same function, four chains from the same starts, 1000 steps of warm-up, a diagonal mass
matrix, acceptance 0.8 and trees of at most 2^10 leaves, in turns in one process. Two columns a library:
effective draws (the fewest of any scalar, ArviZ's bulk ESS) a second of sampling, compilation and warm-up
left out; and seconds from the call to the first draw, with both. Chains are vectorised in each.

    python benchmarks/nuts.py [NAME …] [--rounds 3]
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import arviz
import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer import MCMC, NUTS

import fokker as fk
from fokker._core.state import ravel, unravel
from fokker.posteriors import POSTERIORS

CHAINS, WARM_UP, DRAWS = 4, 1000, 1000


def effective(draws: np.ndarray) -> float:
    """The fewest effective draws of a scalar; `draws` are chain × draw × d."""
    return float(np.asarray(arviz.ess(arviz.convert_to_dataset(draws))["x"]).min())


class Problem:
    """A posterior over unconstrained vectors, as all libraries take it."""

    def __init__(self, name: str) -> None:
        posterior = POSTERIORS[name]()
        target = posterior.target
        keys = jax.random.split(jax.random.key(0), CHAINS)
        starts = jax.vmap(posterior.init)(keys)
        starts = jax.vmap(target.unconstrain)(starts)
        like = jax.tree.map(lambda x: x[0], starts)
        self.starts = jax.vmap(ravel)(starts)
        self.potential: Callable[[Any], Any] = lambda x: target.potential(unravel(x, like))
        self.log_density: Callable[[Any], Any] = lambda x: -self.potential(x)


class Fokker:
    """This library."""

    def __init__(self, problem: Problem) -> None:
        self.target = fk.Density(problem.log_density)
        self.starts = problem.starts

    def first(self, seed: int) -> None:
        """Everything up to the first draw."""
        starts = self.starts
        self.trace = fk.sample(
            self.target,
            fk.samplers.nuts(),
            init=lambda key: _pick(key, starts, seed),
            steps=1,
            warm_up=WARM_UP,
            chains=CHAINS,
            seed=seed,
            progress=False,
        )

    def draws(self) -> np.ndarray:
        """More of them."""
        before = np.asarray(self.trace.samples).shape[1]
        self.trace = self.trace.resume(DRAWS)
        return np.asarray(self.trace.samples)[:, before:]


def _pick(key: Any, starts: Any, seed: int) -> Any:
    """The start of the chain whose key this is."""
    keys = jax.random.split(jax.random.key(seed), (CHAINS, 3))[:, 0]
    same = jnp.all(jax.random.key_data(keys) == jax.random.key_data(key)[None], axis=1)
    return jnp.sum(jnp.where(same[:, None], starts, 0), axis=0)


class NumPyro:
    """NumPyro's NUTS: `MCMC` for the first draw, its kernel in one scan for the others."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.run: Any = None

    def first(self, seed: int) -> None:
        """Everything up to the first draw."""
        self.kernel = NUTS(potential_fn=self.problem.potential, target_accept_prob=0.8)
        mcmc = MCMC(
            self.kernel,
            num_warmup=WARM_UP,
            num_samples=1,
            num_chains=CHAINS,
            chain_method="vectorized",
            progress_bar=False,
        )
        mcmc.run(jax.random.key(seed), init_params=self.problem.starts)
        jax.block_until_ready(mcmc.get_samples())
        self.state = mcmc.last_state

    def draws(self) -> np.ndarray:
        """More of them."""
        if self.run is None:
            sample = self.kernel.sample

            def run(state: Any) -> Any:
                return jax.lax.scan(lambda s, _: (lambda n: (n, n.z))(sample(s, (), {})), state, length=DRAWS)

            self.run = jax.jit(run)
        self.state, z = self.run(self.state)
        return np.asarray(jnp.swapaxes(z, 0, 1))


class BlackJAX:
    """BlackJAX's NUTS with its window adaptation, chains by vmap."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.run: Any = None

    def first(self, seed: int) -> None:
        """Everything up to the first draw."""
        adaptation = blackjax.window_adaptation(blackjax.nuts, self.problem.log_density)

        def warm(key: Any, start: Any) -> Any:
            (state, parameters), _ = adaptation.run(key, start, num_steps=WARM_UP)
            return state, parameters

        keys = jax.random.split(jax.random.key(seed), CHAINS)
        self.state, self.parameters = jax.jit(jax.vmap(warm))(keys, self.problem.starts)
        kernel = blackjax.nuts.build_kernel()
        step = jax.jit(
            jax.vmap(
                lambda k, s, p: kernel(
                    k, s, self.problem.log_density, p["step_size"], p["inverse_mass_matrix"]
                )[0]
            )
        )
        parameters = {k: v for k, v in self.parameters.items() if k in ("step_size", "inverse_mass_matrix")}
        self.parameters = parameters
        self.state = jax.block_until_ready(step(keys, self.state, parameters))
        self.key = jax.random.key(seed + 1000)

    def draws(self) -> np.ndarray:
        """More of them."""
        if self.run is None:
            kernel = blackjax.nuts.build_kernel()
            density = self.problem.log_density

            def chain(key: Any, state: Any, p: Any) -> Any:
                def step(state: Any, key: Any) -> Any:
                    new, _ = kernel(key, state, density, p["step_size"], p["inverse_mass_matrix"])
                    return new, new.position

                return jax.lax.scan(step, state, jax.random.split(key, DRAWS))

            self.run = jax.jit(jax.vmap(chain))
        self.key, key = jax.random.split(self.key)
        self.state, z = self.run(jax.random.split(key, CHAINS), self.state, self.parameters)
        return np.asarray(z)


LIBRARIES = {"Fokker": Fokker, "NumPyro": NumPyro, "BlackJAX": BlackJAX}


def measure(name: str, rounds: int) -> dict[str, tuple[float, float]]:
    """Effective draws a second and seconds to the first draw, by library; the median of the rounds."""
    rates: dict[str, list[float]] = {library: [] for library in LIBRARIES}
    firsts: dict[str, list[float]] = {library: [] for library in LIBRARIES}
    for seed in range(rounds):
        problem = Problem(name)  # functions of its own: nothing is compiled yet
        for library, make in LIBRARIES.items():
            runner = make(problem)
            start = time.perf_counter()
            runner.first(seed)
            firsts[library].append(time.perf_counter() - start)
            runner.draws()  # compiles
            start = time.perf_counter()
            drawn = runner.draws()
            taken = time.perf_counter() - start
            rates[library].append(effective(drawn) / taken)
    return {
        library: (float(np.median(rates[library])), float(np.median(firsts[library])))
        for library in LIBRARIES
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(POSTERIORS))
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    others = [library for library in LIBRARIES if library != "Fokker"]
    print(f"{'':26}{'effective draws/s':>44}{'seconds to the first draw':>44}")
    print(f"{'':26}" + 2 * "".join(f"{library:>12}" for library in LIBRARIES) + "   ratios")
    ratios: dict[str, list[tuple[float, float]]] = {library: [] for library in others}
    for name in arguments.names:
        found = measure(name, arguments.rounds)
        for library in others:
            ratios[library].append(
                (found["Fokker"][0] / found[library][0], found[library][1] / found["Fokker"][1])
            )
        rates = "".join(f"{found[library][0]:12.0f}" for library in LIBRARIES)
        firsts = "".join(f"{found[library][1]:12.1f}" for library in LIBRARIES)
        last = ", ".join(
            f"{library} {ratios[library][-1][0]:.2f} {ratios[library][-1][1]:.2f}" for library in others
        )
        print(f"{name:26}{rates}{firsts}   {last}", flush=True)
    for library in others:
        both = np.exp(np.mean(np.log(np.array(ratios[library])), axis=0))
        print(f"over {library}, geometric means: effective draws/s {both[0]:.2f}, to the first {both[1]:.2f}")


if __name__ == "__main__":
    main()
