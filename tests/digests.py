"""Small runs of everything that draws, and checksums of their draws: new structure must not change a bit.

`python tests/digests.py` compares with `tests/digests.json`; `--write` stores what the code draws now, for a
change that draws otherwise on purpose, whose reason stands in CHANGELOG.md. Bits depend on XLA's code for the
machine, so they are compared only where JAX and the processor are those that they were written with
(`environment`, of all or of one run); elsewhere the last numbers of each run are compared with a tolerance.
"""

import argparse
import hashlib
import json
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import fokker as fk
from estimators import ESTIMATORS, LDA, counts
from fokker import samplers
from registry import EVERY, THETA, metric

STORED = Path(__file__).with_name("digests.json")
# A run is short enough for rounding not to be amplified beyond this.
TOLERANCE = 1e-3
_LAST = 6
_SHORT = {"steps": 10, "burn_in": 4, "thin": 2, "chains": 2, "seed": 3, "progress": False}


def _normal(theta: Any) -> Any:
    return -jnp.sum(jnp.arange(1.0, 4.0) * theta**2) / 2


_NORMAL = fk.Density(_normal)
_ROWS = np.linspace(-1, 2, 4000, dtype=np.float32)[:, None]
_POSTERIOR = fk.Posterior(
    lambda theta: -jnp.sum(theta**2) / 2, lambda theta, x: -jnp.sum((theta - x) ** 2) / 2, _ROWS
)
_POSITIVE = fk.constrain(fk.Density(lambda theta: jnp.sum(jnp.log(theta) - theta)), "positive")


def _by_steps(name: str) -> Any:
    """Steps of one's own loop, for samplers that have their own target."""
    sampler = EVERY[name].make()
    state = sampler.init({"theta": THETA, "r": jax.tree.map(lambda x: 0.5 * jnp.ones_like(x), THETA)})
    keys = jax.random.split(jax.random.key(3), 10)
    step = jax.jit(lambda state: jax.lax.scan(lambda s, key: (sampler.step(key, s)[0], None), state, keys)[0])
    return step(state).z


def _by_run(name: str) -> Any:
    """The draws of `fk.sample`, by minibatches where the sampler takes them."""
    entry = EVERY[name]
    target = entry.setting.posterior if entry.minibatches else entry.setting.target
    size = {"batch_size": 2} if entry.minibatches else {}
    # At the step size of its entry the metric of sgrld leaves the finite numbers.
    sampler = samplers.sgrld(0.01, metric()[0]) if name == "sgrld" else entry.make()
    trace = fk.sample(target, sampler, init=entry.setting.theta, **size, **_SHORT)
    return trace.samples


def _of(name: str) -> Callable[[], Any]:
    return lambda: (_by_run if EVERY[name].make().wants_target else _by_steps)(name)


def _draws(target: Any, sampler: Any, **settings: Any) -> Callable[[], Any]:
    return lambda: fk.sample(target, sampler, **{"init": jnp.full(3, 0.5), **_SHORT, **settings}).samples


def _batched(**settings: Any) -> Callable[[], Any]:
    return _draws(_POSTERIOR, samplers.sgld(1e-5), init=jnp.zeros(1), batch_size=4, **settings)


def _moments() -> Any:
    trace = fk.sample(_NORMAL, samplers.sgld(0.1), init=jnp.zeros(3), keep="moments", **_SHORT)
    return [trace.moments["mean"], trace.moments["variance"]]


def _tuned() -> Any:
    sizes = [0.05, 0.1, 0.2]
    tuning = fk.tune(
        _NORMAL, samplers.sgld(0.1), init=jnp.zeros(3), step_sizes=sizes, steps=60, seed=3, progress=False
    )
    return [
        np.asarray([[trial.step_size, trial.discrepancy] for trials in tuning.rounds for trial in trials])
    ]


def _fitted(name: str, **parameters: Any) -> Callable[[], Any]:
    return lambda: ESTIMATORS[name].drawn(ESTIMATORS[name].fit(**parameters))


def _streamed(sampler: str) -> Callable[[], Any]:
    """By `partial_fit`, whose topics come from the dynamics alone."""
    return lambda: fk.models.LDA(**LDA, sampler=sampler).partial_fit(counts()).components_


RUNS: dict[str, Callable[[], Any]] = {
    **{name: _of(name) for name in EVERY},
    "nuts, warm-up": _draws(_NORMAL, "nuts", warm_up=60),
    "nuts, dense": _draws(_NORMAL, samplers.nuts(mass_matrix="dense"), warm_up=60),
    "hmc, warm-up": _draws(_NORMAL, "hmc", warm_up=60),
    "mala, warm-up": _draws(_NORMAL, "mala", warm_up=60),
    "mclmc, warm-up": _draws(_NORMAL, "mclmc", warm_up=200),
    "sghmc, temperature": _draws(_NORMAL, samplers.sghmc(0.1), temperature=0.5),
    "sgld, schedule": _draws(_NORMAL, samplers.sgld(fk.schedules.cyclical(0.1, 5))),
    "sgld, constrained": _draws(_POSITIVE, samplers.sgld(0.01)),
    "nuts, constrained": _draws(_POSITIVE, samplers.nuts(0.3)),
    "sgld, windows": _batched(batches="window"),
    "sgld, no replacement": _batched(batches="no replacement"),
    "sgld, control variates": _batched(gradient=fk.gradients.control_variates(jnp.full(1, 0.4))),
    "sgld, SAGA": _batched(gradient=fk.gradients.saga()),
    "sgld, SVRG": _batched(gradient=fk.gradients.svrg(5)),
    "sgld, moments": _moments,
    "tune": _tuned,
    **{name: _fitted(name) for name in ESTIMATORS},
    "LDA, topics that overlap": _fitted("LDA", overlap=1),
    "LDA, sgrhmc in a stream": _streamed("sgrhmc"),
    "LDA, scir in a stream": _streamed("scir"),
    "Factorisation, sgnht": _fitted("Factorisation", sampler="sgnht", batch_size=20),
}


def environment() -> dict[str, str]:
    """What the bits depend on beside the code."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    fields = dict(reversed([[part.strip() for part in line.split(":", 1)] for line in lines if ":" in line]))
    # A virtual machine may have the same name on processors of different generations.
    processor = " ".join(fields[key] for key in ("model name", "cpu family", "model") if key in fields)
    return {"jax": jax.__version__, "numpy": np.__version__, "processor": processor or platform.processor()}


def digest(name: str) -> dict[str, Any]:
    """The checksum of a run's draws, and the last numbers of them."""
    arrays = [np.asarray(x) for x in jax.tree.leaves(RUNS[name]())]
    whole = hashlib.sha256()
    for array in arrays:
        whole.update(f"{array.dtype}{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    numbers = np.concatenate([np.asarray(x, np.float64).ravel() for x in arrays])
    return {"sha256": whole.hexdigest(), "last": numbers[-_LAST:].tolist()}


def difference(name: str, stored: dict[str, Any]) -> str | None:
    """What of a run is other than stored, in words."""
    draws, before = digest(name), stored["runs"].get(name)
    if before is None:
        return f"{name}: not stored; python tests/digests.py --write --only '{name}'"
    if before.get("environment", stored["environment"]) == environment():
        return (
            None
            if draws["sha256"] == before["sha256"]
            else f"{name}: other bits: {draws['last']} ≠ {before['last']}"
        )
    close = np.allclose(draws["last"], before["last"], rtol=TOLERANCE, atol=TOLERANCE)
    return None if close else f"{name}: other draws: {draws['last']} ≠ {before['last']}"


def write(names: list[str]) -> None:
    """Store these runs; where the others were stored elsewhere, with the environment that they have here."""
    here, stored = {"environment": environment()}, json.loads(STORED.read_text())
    others = {name: run for name, run in stored["runs"].items() if name in RUNS and name not in names}
    of_all = {"environment": stored["environment"]} if others else here
    own = {} if of_all == here else here
    runs = {**others, **{name: {**digest(name), **own} for name in names}}
    STORED.write_text(json.dumps({**of_all, "runs": runs}, indent=1, ensure_ascii=False) + "\n")


def chosen(only: str) -> list[str]:
    """The runs of that name, with the settings after its comma; where none has it, those with it in theirs.

    A new run is stored by its name: the bits of others, whose names have it within, stay as they are.
    """
    named = [name for name in RUNS if only in (name, name.partition(",")[0])]
    return named or [name for name in RUNS if only in name]


def main() -> None:
    """Compare, or write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="store what the code draws now")
    parser.add_argument("--only", default="", help="runs of this name, or else with this in it")
    parser.add_argument("--half", type=int, choices=(0, 1), help="every second run")
    arguments = parser.parse_args()
    names = chosen(arguments.only)
    names = names if arguments.half is None else names[arguments.half :: 2]
    if arguments.write:
        write(names)
        return
    stored, others = json.loads(STORED.read_text()), 0
    for name in names:
        message = difference(name, stored)
        others += message is not None
        print(message or f"{name}: as stored", flush=True)
    raise SystemExit(f"{others} of {len(names)} differ" if others else 0)


if __name__ == "__main__":
    main()
