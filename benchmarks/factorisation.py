"""The cost of a lazy step with ten thousand and a million users: `python benchmarks/factorisation.py`."""

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import fokker as fk

ITEMS, COLUMNS, RATINGS, BATCH, STEPS, REPEATS = 2_000, 11, 200_000, 400, 400, 7
USERS = (10**4, 10**6)


def make_run(users: int) -> tuple[Callable[..., Any], Any]:
    """A compiled loop over steps, and the state that it starts from."""
    generator = np.random.default_rng(0)
    data = {
        "users": generator.integers(0, users, RATINGS),
        "items": generator.integers(0, ITEMS, RATINGS),
        "rating": generator.normal(size=RATINGS).astype(np.float32),
    }
    rows = {"users": users, "items": ITEMS}
    target = fk.tables(
        {name: fk.Table(number, jnp.zeros(COLUMNS), 4.0) for name, number in rows.items()},
        lambda rows, datum: -((datum["rating"] - rows["users"] @ rows["items"]) ** 2) / 2,
        data,
    )
    sampler = fk.lazy(fk.samplers.sgnht(1e-3, kind="diagonal")).on(target)
    start = {name: jnp.zeros((number, COLUMNS)) for name, number in rows.items()}

    def run(state: Any, key: Any) -> Any:
        def step(i: Any, state: Any) -> Any:
            batch_key, step_key = jax.random.split(jax.random.fold_in(key, i))
            chosen = jax.random.randint(batch_key, (BATCH,), 0, RATINGS)
            return sampler.step(step_key, state, {name: x[chosen] for name, x in target.data.items()})[0]

        return jax.lax.fori_loop(0, STEPS, step, state)

    return jax.jit(run, donate_argnums=0), sampler.init(start, key=jax.random.key(0))


def main() -> None:
    """Time both in turn, so that what else the machine does falls on both, and print the ratio."""
    runs = {users: make_run(users) for users in USERS}
    states = {
        users: jax.block_until_ready(run(state, jax.random.key(0))) for users, (run, state) in runs.items()
    }
    seconds: dict[int, list[float]] = {users: [] for users in USERS}
    for repeat in range(REPEATS):
        for users, (run, _) in runs.items():
            start = time.perf_counter()
            states[users] = jax.block_until_ready(run(states[users], jax.random.key(repeat)))
            seconds[users].append((time.perf_counter() - start) / STEPS)
    best = {users: min(times) for users, times in seconds.items()}
    for users, value in best.items():
        print(f"{users:>9,} users: {value * 1e6:7.0f} µs per step of {BATCH} ratings")
    few, many = USERS
    print(f"a million users / ten thousand: {best[many] / best[few]:.2f}")


if __name__ == "__main__":
    main()
