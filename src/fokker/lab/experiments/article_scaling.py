r"""The article on dimension: what an effective draw of a d-dimensional normal costs.

Per effective draw RWM takes about d evaluations, MALA d^{1/3} gradients, HMC and NUTS d^{1/4}, each with the
step that keeps its acceptance as d grows: RWM 2.38 d^{-1/2} (Roberts, Gelman and Gilks 1997), MALA
ε = 1.36 d^{-1/3}, that is proposals of deviation √(2ε) = 1.65 d^{-1/6} (Roberts and Rosenthal 1998), HMC and
NUTS by d^{-1/4} (Beskos et al. 2013). A gradient costs d operations: in operations each exponent is one more.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from fokker import samplers
from fokker._core.random import fold_in, normal, split
from fokker._core.statistics import effective_sample_size
from fokker.lab.experiments._loop import in_blocks
from fokker.lab.experiments._result import Claim, Result
from fokker.lab.experiments._stages import stage
from fokker.report.plots import new_figure, tidy
from fokker.samplers import Sampler
from fokker.targets import Density

FIGURE = "article-scaling.png"
# A quarter of a period: on a normal the next draw is independent of the last one.
_QUARTER = np.pi / 2
# How many coordinates are analysed: all are alike.
_COORDINATES = 8
# The statistics that are analysed, of those that samplers record.
_RECORDED = ("num_integration_steps", "acceptance_rate")
# The laws hold in large dimensions: smaller ones than this are drawn, but not used for the slope.
LEAST = 16


@dataclass(frozen=True)
class Method:
    """A sampler in d dimensions: `make(d)`, its gradients per step `cost(d)` (None: it records them).

    `between(d)` is the number of steps between draws; `slope` is the law, right within
    `tolerance`. The chains' step sizes are spread evenly by a factor 1 ± `spread`.
    """

    name: str
    make: Callable[[int], Sampler]
    cost: Callable[[int], float] | None
    between: Callable[[int], int]
    slope: float
    tolerance: float
    style: str
    spread: float = 0.0


def _hmc_leaps(d: int) -> int:
    return int(np.ceil(_QUARTER / (1.5 * d**-0.25)))


METHODS: tuple[Method, ...] = (
    Method(
        "rwm",
        lambda d: samplers.rwm(2.38 * d**-0.5, "identity"),
        lambda d: 1.0,
        lambda d: max(1, d // 2),
        1.0,
        0.1,
        "o-",
    ),
    Method(
        "mala",
        lambda d: samplers.mala(1.36 * d ** (-1 / 3), "identity"),
        lambda d: 1.0,
        lambda d: max(1, round(d ** (1 / 3) / 3)),
        1 / 3,
        0.1,
        "s-",
    ),
    Method(
        "hmc",
        lambda d: samplers.hmc(_QUARTER / _hmc_leaps(d), _hmc_leaps(d), "identity"),
        lambda d: float(_hmc_leaps(d)),
        lambda d: 1,
        1 / 4,
        0.1,
        "^-",
    ),
    # A tree has 2ᵏ points: its cost goes up in steps, which many step sizes even out.
    Method(
        "nuts",
        lambda d: samplers.nuts(1.2 * d**-0.25, "identity"),
        None,
        lambda d: 1,
        1 / 4,
        0.15,
        "D-",
        0.25,
    ),
)


@dataclass(frozen=True)
class Size:
    """Dimensions, chains, and draws per chain; `most` is the largest dimension of some methods."""

    dimensions: tuple[int, ...]
    chains: int
    draws: int
    most: Mapping[str, int] = field(default_factory=dict)


# A random walk of a thousand dimensions takes a minute of its own.
QUICK = Size((16, 64, 256, 1024), 24, 160, {"rwm": 256})
FULL = Size((2, 4, 8, 16, 32, 64, 128, 256, 512, 1024), 32, 400)


def chains_of(method: Method, d: int, size: Size, key: Key[Array, ""]) -> dict[str, np.ndarray]:
    """Draws (chain, draw, coordinate), gradients per step and acceptance, from stationary starts.

    Not by `fk.sample`: chains of NUTS have a step size each, and long random walks take a third of the time.
    """
    sampler = method.make(d).on(Density(lambda theta: -jnp.sum(theta**2) / 2))
    between = method.between(d)

    factors = jnp.linspace(1 - method.spread, 1 + method.spread, size.chains)

    def one(factor: Array, key: Key[Array, ""], state: PyTree[Array]) -> Any:
        if not method.spread:
            return sampler.step(key, state)
        return sampler.with_step_size(sampler.step_size * factor).step(key, state)  # type: ignore[attr-defined]

    @jax.jit
    def run(key: Key[Array, ""]) -> Any:
        start_key, first_key, key = split(key, 3)
        starts = normal(start_key, (size.chains, d), jnp.float32)
        states = jax.vmap(lambda x, k: sampler.init(x, key=k))(starts, split(first_key, size.chains))

        def step(number: Array, states: PyTree[Array], _: None) -> Any:
            keys = split(fold_in(key, number), size.chains)
            return jax.vmap(one)(factors, keys, states)

        def record(_: PyTree[Array], info: Any) -> dict[str, Array]:
            stats = info.stats
            return {name: jnp.mean(stats[name]) for name in _RECORDED if name in stats}

        def draw(states: PyTree[Array], stats: dict[str, Array]) -> Any:
            position = jax.vmap(lambda state: state.position)(states)
            return position[:, :_COORDINATES], jax.tree.map(jnp.mean, stats)

        numbers = jnp.arange(size.draws * between).reshape(size.draws, between)
        draws, stats = in_blocks(step, states, numbers, lambda block, _: (block, None), record, draw)
        return {"draws": jnp.swapaxes(draws, 0, 1), **jax.tree.map(jnp.mean, stats)}

    return {name: np.asarray(value, float) for name, value in run(key).items()}


def effective(draws: np.ndarray) -> float:
    """Effective draws by ArviZ, averaged over coordinates: of θ or of θ², whichever has fewer."""
    sizes = [float(np.mean(effective_sample_size(x))) for x in (draws, draws**2)]
    return min(*sizes, float(draws.shape[0] * draws.shape[1]))


def measure(methods: Sequence[Method], size: Size, seeds: int) -> list[dict[str, Any]]:
    """A row for each method, dimension and seed."""
    rows = []
    for method in methods:
        for d in size.dimensions:
            if d > size.most.get(method.name, d):
                continue
            stage(f"sampling by {method.name} in {d} dimensions")
            for seed in range(seeds):
                chains = chains_of(method, d, size, jax.random.fold_in(jax.random.key(seed), d))
                count = effective(chains["draws"])
                steps = size.chains * size.draws * method.between(d)
                cost = float(chains["num_integration_steps"]) if method.cost is None else method.cost(d)
                rows.append(
                    {
                        "method": method.name,
                        "dimension": d,
                        "seed": seed,
                        "cost per effective draw": cost * steps / count,
                        "effective draws": count,
                        "gradients per step": cost,
                        "acceptance": float(chains.get("acceptance_rate", np.asarray(np.nan))),
                    }
                )
    return rows


def slope_of(rows: Sequence[Mapping[str, Any]], least: int = LEAST) -> float:
    """The slope of log cost on log dimension, over the dimensions that are large enough for the laws."""
    far = [row for row in rows if row["dimension"] >= least]
    x, y = (np.log([row[name] for row in far]) for name in ("dimension", "cost per effective draw"))
    return float(np.polyfit(x, y, 1)[0])


def claims(rows: Sequence[Mapping[str, Any]], methods: Sequence[Method]) -> list[Claim]:
    """The slope of each method."""
    results = []
    for method in methods:
        mine = [row for row in rows if row["method"] == method.name]
        slope = slope_of(mine)
        numbers = {"slope": slope, "in theory": method.slope, "tolerance": method.tolerance}
        numbers["slope in operations"] = slope + 1
        # The laws hold in large dimensions: in low ones steps are not small, and acceptance still changes.
        largest = sorted({row["dimension"] for row in mine})[-2:]
        numbers["slope of the largest two dimensions"] = slope_of(
            [row for row in mine if row["dimension"] in largest], largest[0]
        )
        for row in mine:
            if row["seed"] == 0:
                numbers[f"cost per effective draw, d = {row['dimension']}"] = row["cost per effective draw"]
        name = method.name.upper()
        results.append(
            Claim(
                f"the cost of an effective draw by {name} grows as d^{method.slope:.2g}",
                bool(abs(slope - method.slope) <= method.tolerance),
                numbers,
            )
        )
    return results


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
        "draws analysed per chain": size.draws,
        "steps": "RWM 2.38 d^-1/2, MALA 1.36 d^-1/3, HMC 1.5 d^-1/4 over a quarter period, NUTS 1.2 d^-1/4",
        "effective draws": "ArviZ's, of θ or of θ², whichever has fewer; mean over coordinates",
        "slope": f"least squares over d ≥ {LEAST}: in low ones steps are not small, and MALA's bends",
        "spread of NUTS's steps (chosen)": METHODS[-1].spread,
        "last dimension": size.most or "of all methods the same",
    }
    return Result("article-scaling", claims(rows, METHODS), settings, tuple(range(seeds)), (FIGURE,), rows)
