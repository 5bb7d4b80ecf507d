"""The experiments of the papers, each one command: `fokker reproduce NAME`."""

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fokker._core.names import nearest
from fokker.lab.experiments import (
    article_background,
    article_gallery,
    article_scaling,
    ding_bnn,
    ding_bpmf,
    ding_fig1,
    ding_fig2_mean,
    ding_fig2_var,
    ding_lda,
    errata,
    ma_fig2_2d,
    ma_fig2_kl,
    ma_lda,
)
from fokker.lab.experiments._result import Claim, Result
from fokker.lab.experiments._stages import stages

__all__ = ["EXPERIMENTS", "Claim", "Experiment", "Result", "reproduce"]


@dataclass(frozen=True)
class Experiment:
    """`run(out, quick, seeds)` writes figures into the folder `out` and returns a `Result`.

    Where it `needs_data`, `run` takes the folder of data too. `seeds`: the number of seeds by
    default; a quick run has one.
    """

    run: Callable[..., Result]
    description: str
    needs_data: bool = False
    seeds: int = 1


EXPERIMENTS: dict[str, Experiment] = {
    "errata": Experiment(
        errata.run, "the checker on every formula of the papers known to be misprinted, and on its correction"
    ),
    "ma-fig2-kl": Experiment(
        ma_fig2_kl.run, "which of five samplers have the right density in one dimension (Ma et al. 2015)"
    ),
    "ma-fig2-2d": Experiment(
        ma_fig2_2d.run, "how many steps SGLD, SGHMC and gSGRHMC need to explore a valley (Ma et al. 2015)"
    ),
    "ding-fig1": Experiment(
        ding_fig1.run, "fixed frictions and a thermostat against unknown noise (Ding et al. 2014)"
    ),
    "ding-fig2-mean": Experiment(
        ding_fig2_mean.run, "the mean of a normal by minibatches, SGNHT and SGHMC (Ding et al. 2014)"
    ),
    "ding-fig2-var": Experiment(
        ding_fig2_var.run, "mean and precision: accuracy against autocorrelation (Ding et al. 2014)"
    ),
    "ma-lda": Experiment(
        ma_lda.run, "the topics of a stream of Wikipedia articles, five samplers (Ma et al. 2015)", True, 3
    ),
    "ding-bnn": Experiment(
        ding_bnn.run, "a neural network on MNIST, SGNHT and SGHMC (Ding et al. 2014)", True
    ),
    "ding-bpmf": Experiment(
        ding_bpmf.run, "ratings of movies as factors, SGNHT and SGHMC (Ding et al. 2014)", True
    ),
    "ding-lda": Experiment(
        ding_lda.run, "the topics of conference abstracts, SGNHT and SGHMC (Ding et al. 2014)", True
    ),
    "article-background": Experiment(
        article_background.run, "ODE and SDE, Itô and Stratonovich, Fokker–Planck, Gibbs, NUTS in pictures"
    ),
    "article-gallery": Experiment(
        article_gallery.run, "every sampler on every target of the article: animations, and which converge"
    ),
    "article-scaling": Experiment(
        article_scaling.run, "what an effective draw costs as the dimension grows: RWM, MALA, HMC, NUTS"
    ),
}


def reproduce(
    name: str,
    out: str | Path,
    quick: bool = False,
    seeds: int | None = None,
    data_dir: str | Path | None = None,
) -> Result:
    """Run the experiment `name`; write its figures and `result.json` into the folder `out`; return it all.

    `quick` shortens it to under a minute on two cores; `seeds` is the number of repetitions, None for
    the experiment's own. `data_dir`: the folder of data, for those that need some; the one
    that the environment variable FOKKER_DATA names if None.
    """
    if name not in EXPERIMENTS:
        raise ValueError(
            f"there is no experiment {name!r}.{nearest(name, list(EXPERIMENTS))} "
            f"There are: {', '.join(sorted(EXPERIMENTS))}."
        )
    experiment = EXPERIMENTS[name]
    if seeds is None:
        seeds = 1 if quick else experiment.seeds
    if seeds < 1:
        raise ValueError(f"seeds must be at least 1; {seeds} was given.")
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    data = (Path(data_dir) if data_dir is not None else None,) if experiment.needs_data else ()
    with stages(name):
        result = experiment.run(folder, quick, seeds, *data)
    result = dataclasses.replace(result, wall_seconds=time.perf_counter() - start)
    result.write(folder)
    return result
