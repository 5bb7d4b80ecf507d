r"""The article on dimension: what an effective draw of a d-dimensional normal costs.

Per effective draw RWM takes about d evaluations, MALA d^{1/3} gradients, HMC and NUTS d^{1/4}, each with the
step that keeps its acceptance as d grows: RWM 2.38 d^{-1/2} (Roberts, Gelman and Gilks 1997), MALA
ε = 1.36 d^{-1/3}, that is proposals of deviation √(2ε) = 1.65 d^{-1/6} (Roberts and Rosenthal 1998), HMC and
NUTS by d^{-1/4} (Beskos et al. 2013). A gradient costs d operations: in operations each exponent is one more.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import arviz
import jax
import jax.numpy as jnp
import numpy as np

from fokker import samplers
from fokker.experiments._result import Claim, Result
from fokker.plots import new_figure, tidy
from fokker.samplers import Sampler
from fokker.targets import Density

FIGURE = "article-scaling.png"
# A quarter of a period: on a normal a draw that forgets the last one.
_QUARTER = np.pi / 2
# Coordinates that are looked at: all are alike.
_LOOKED_AT = 8
# The laws are of large dimensions: those below this are drawn, and left out of the slope.
LEAST = 16
# What a tree's info may call the number of its gradients.
_COUNTS = ("gradients", "leapfrogs", "evaluations", "points", "leaps")


@dataclass(frozen=True)
class Method:
    """A sampler in d dimensions: `make(d)`, its gradients a step `cost(d)` (None: its info has them).

    `between(d)` are the steps from one draw that is looked at to the next; `slope` is the law, right within
    `tolerance`.
    """

    name: str
    make: Callable[[int], Sampler]
    cost: Callable[[int], float] | None
    between: Callable[[int], int]
    slope: float
    tolerance: float
    style: str


def _hmc_leaps(d: int) -> int:
    return int(np.ceil(_QUARTER / (1.5 * d**-0.25)))


def _named(name: str, *arguments: Any) -> Sampler:
    made: Sampler = getattr(samplers, name)(*arguments)
    return made


METHODS: tuple[Method, ...] = (
    Method(
        "rwm",
        lambda d: _named("rwm", 2.38 * d**-0.5),
        lambda d: 1.0,
        lambda d: max(1, d // 2),
        1.0,
        0.1,
        "o-",
    ),
    Method(
        "mala",
        lambda d: _named("mala", 1.36 * d ** (-1 / 3)),
        lambda d: 1.0,
        lambda d: max(1, round(d ** (1 / 3) / 3)),
        1 / 3,
        0.1,
        "s-",
    ),
    Method(
        "hmc",
        lambda d: _named("hmc", _QUARTER / _hmc_leaps(d), _hmc_leaps(d)),
        lambda d: float(_hmc_leaps(d)),
        lambda d: 1,
        1 / 4,
        0.1,
        "^-",
    ),
    # A tree has 2ᵏ points: its cost goes up in steps.
    Method("nuts", lambda d: _named("nuts", 1.2 * d**-0.25), None, lambda d: 1, 1 / 4, 0.15, "D-"),
)


@dataclass(frozen=True)
class Size:
    """Dimensions, chains, and draws looked at of each chain."""

    dimensions: tuple[int, ...]
    chains: int
    draws: int


QUICK = Size((4, 16, 64, 256), 32, 240)
FULL = Size((2, 4, 8, 16, 32, 64, 128, 256, 512, 1024), 32, 400)


def chains_of(method: Method, d: int, size: Size, key: Any) -> dict[str, np.ndarray]:
    """Draws (chain, draw, coordinate), gradients a step and acceptance, from stationary starts."""
    sampler = method.make(d).on(Density(lambda theta: -jnp.sum(theta**2) / 2))
    between = method.between(d)

    @jax.jit
    def run(key: Any) -> Any:
        start_key, first_key, key = jax.random.split(key, 3)
        starts = jax.random.normal(start_key, (size.chains * d,)).reshape(size.chains, d)
        states = jax.vmap(lambda x, k: sampler.init(x, key=k))(
            starts, jax.random.split(first_key, size.chains)
        )

        def step(states: Any, number: Any) -> Any:
            keys = jax.random.split(jax.random.fold_in(key, number), size.chains)
            states, info = jax.vmap(sampler.step)(keys, states)
            told = {"work": _work(info)} if method.cost is None else {}
            accepted = getattr(info, "accepted", None)
            if accepted is not None:
                told["accepted"] = jnp.mean(jnp.asarray(accepted, jnp.float32))
            return states, told

        def draw(states: Any, numbers: Any) -> Any:
            states, told = jax.lax.scan(step, states, numbers)
            position = jax.vmap(lambda state: state.position)(states)
            return states, (position[:, :_LOOKED_AT], jax.tree.map(jnp.mean, told))

        numbers = jnp.arange(size.draws * between).reshape(size.draws, between)
        _, (draws, told) = jax.lax.scan(draw, states, numbers)
        return {"draws": jnp.swapaxes(draws, 0, 1), **jax.tree.map(jnp.mean, told)}

    return {name: np.asarray(value, float) for name, value in run(key).items()}


def _work(info: Any) -> Any:
    for name in _COUNTS:
        if hasattr(info, name):
            return jnp.mean(jnp.asarray(getattr(info, name), jnp.float32))
    raise ValueError(
        f"the cost of a step is in none of {', '.join(_COUNTS)} of its info, which has "
        f"{', '.join(getattr(info, '_fields', ()))}."
    )


def effective(draws: np.ndarray) -> float:
    """Effective draws by ArviZ, averaged over coordinates: of θ or of θ², whichever has fewer."""
    sizes = [
        float(np.mean(np.asarray(arviz.ess(arviz.convert_to_dataset(x))["x"]))) for x in (draws, draws**2)
    ]
    return min(*sizes, float(draws.shape[0] * draws.shape[1]))


def measure(methods: Sequence[Method], size: Size, seeds: int) -> list[dict[str, Any]]:
    """A row for each method, dimension and seed."""
    rows = []
    for method in methods:
        for d in size.dimensions:
            for seed in range(seeds):
                found = chains_of(method, d, size, jax.random.fold_in(jax.random.key(seed), d))
                count = effective(found["draws"])
                steps = size.chains * size.draws * method.between(d)
                cost = float(found["work"]) if method.cost is None else method.cost(d)
                rows.append(
                    {
                        "method": method.name,
                        "dimension": d,
                        "seed": seed,
                        "cost per effective draw": cost * steps / count,
                        "effective draws": count,
                        "gradients a step": cost,
                        "acceptance": float(found.get("accepted", np.asarray(np.nan))),
                    }
                )
    return rows


def slope_of(rows: Sequence[Mapping[str, Any]]) -> float:
    """Of log cost on log dimension, from the dimension on at which laws of large ones hold."""
    far = [row for row in rows if row["dimension"] >= LEAST]
    x, y = (np.log([row[name] for row in far]) for name in ("dimension", "cost per effective draw"))
    return float(np.polyfit(x, y, 1)[0])


def claims(rows: Sequence[Mapping[str, Any]], methods: Sequence[Method]) -> list[Claim]:
    """The slope of each method."""
    told = []
    for method in methods:
        mine = [row for row in rows if row["method"] == method.name]
        slope = slope_of(mine)
        numbers = {"slope": slope, "in theory": method.slope, "tolerance": method.tolerance}
        numbers["slope in operations"] = slope + 1
        for row in mine:
            if row["seed"] == 0:
                numbers[f"cost per effective draw, d = {row['dimension']}"] = row["cost per effective draw"]
        name = method.name.upper()
        told.append(
            Claim(
                f"the cost of an effective draw by {name} grows as d^{method.slope:.2g}",
                bool(abs(slope - method.slope) <= method.tolerance),
                numbers,
            )
        )
    return told


def draw(rows: Sequence[Mapping[str, Any]], methods: Sequence[Method], path: Path) -> None:
    """Cost against dimension, and the laws beside it."""
    figure = new_figure(6.4, 4.4)
    axes = figure.subplots()
    colours = ("#D55E00", "#E69F00", "#0072B2", "#009E73")
    for method, colour in zip(methods, colours, strict=False):
        mine = [row for row in rows if row["method"] == method.name]
        d = np.array(sorted({row["dimension"] for row in mine}))
        mean = [np.mean([r["cost per effective draw"] for r in mine if r["dimension"] == n]) for n in d]
        label = f"{method.name.upper()}: {slope_of(mine):.2f} (theory {method.slope:.2g})"
        axes.loglog(d, mean, method.style, color=colour, label=label)
        far = d[d >= LEAST]
        axes.loglog(far, mean[-1] * (far / d[-1]) ** method.slope, ":", color=colour, linewidth=1)
    axes.legend(frameon=False, fontsize=8)
    tidy(
        axes,
        "Gradients per effective draw of a normal; dotted: the laws",
        "dimension",
        "gradients or densities",
    )
    figure.savefig(path, dpi=130)


def run(out: Path, quick: bool, seeds: int) -> Result:
    """Sample, fit, draw."""
    size = QUICK if quick else FULL
    rows = measure(METHODS, size, seeds)
    draw(rows, METHODS, out / FIGURE)
    settings = {
        "quick": quick,
        "dimensions": size.dimensions,
        "chains, from stationary starts (chosen)": size.chains,
        "draws looked at a chain": size.draws,
        "steps": "RWM 2.38 d^-1/2, MALA 1.36 d^-1/3, HMC 1.5 d^-1/4 over a quarter period, NUTS 1.2 d^-1/4",
        "effective draws": "ArviZ's, of θ or of θ², whichever has fewer; mean over coordinates",
        "slope": f"least squares over d ≥ {LEAST}",
    }
    return Result("article-scaling", claims(rows, METHODS), settings, tuple(range(seeds)), (FIGURE,), rows)
