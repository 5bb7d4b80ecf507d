r"""Ma, Chen, Fox (2015), section 4.2, Figure 3 and Table S.1: the topics of a stream of Wikipedia articles.

LDA with 50 topics and the expanded mean β_kw = θ_kw/θ_k· over Hoffman's vocabulary, minibatches of 50, one
pass: held-out perplexity against documents for SGLD and SGHMC (γ = 0.1, α = 0.01), SGRLD and SGRHMC (γ =
0.01, α = 0.0001), to which SCIR is added; then all of them with the first priors. Each has the best steps of
a small grid, as in the paper. Perplexity is of p(w) averaged over the draws of the last half of the stream so
far; what single draws have is reported.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fokker._core.files import write_text
from fokker.corpora import open_corpus
from fokker.datasets.folder import find_file
from fokker.lab.experiments._online_vb import DECAY, OFFSET, follow_online_vb, has_gensim
from fokker.lab.experiments._result import Claim, Result
from fokker.lab.experiments._topic_figures import draw_curves, markdown_table
from fokker.lab.experiments._topic_runs import (
    INTERVAL,
    Curve,
    DocumentStream,
    TopicSetting,
    follow,
    search,
    seconds_per_hundred,
    top_words,
)

FIGURE, TABLES = "ma-lda.png", "ma-lda.md"
# Word counts of articles with page ids 18,228,284 to 20,925,000, in Hoffman's vocabulary.
ARTICLES, WORDS = "bow_range2014.npz", "dictnostops.txt"
TOPICS, BATCH, HELD_OUT, SHORTEST = 50, 50, 1_000, 20
# The search has a seed of its own, so as not to choose a setting that is lucky with the seeds reported.
SEARCH_SEED, ORDER_SEED = 1_000, 0
TOP_WORDS = 10
# Documents, held-out documents, minibatches timed.
QUICK, FULL = (1_500, 200, 10), (10_000, HELD_OUT, 40)
# What counts as no difference between two perplexities.
TIE = 0.01

NAMES = {"sgld": "SGLD", "sghmc": "SGHMC", "sgrld": "SGRLD", "sgrhmc": "SGRHMC", "scir": "SCIR"}
ONLINE_VB = "online VB"
# What the paper reports, for articles of unknown length.
SECONDS_OF_THE_PAPER = {"SGLD": 0.778, "SGHMC": 0.815, "SGRLD": 0.730, "SGRHMC": 0.806}


@dataclass(frozen=True)
class Priors:
    """θ_kw ~ Gamma(α, 1) and the mixtures ~ Dirichlet(γ)."""

    alpha: float
    gamma: float

    def __str__(self) -> str:
        return f"γ = {self.gamma:g}, α = {self.alpha:g}"


WIDE, NARROW = Priors(0.01, 0.1), Priors(0.0001, 0.01)
AS_PRINTED, ALL_WIDE = "the paper's priors", f"all with {WIDE}"


def grid(sampler: str, priors: Priors) -> list[TopicSetting]:
    """The settings tried for a sampler; a quick run tries the first two.

    Every sampler has both starts: how large θ is at first decides how fast topics move, and much of the rest.
    """
    # First the step sizes that follow from the size of the stream.
    tried: list[dict[str, float]] = [{}]
    if sampler in ("sgrld", "scir"):
        # Patterson and Teh's schedule, and one that decays faster.
        tried += [{"step": h, "c": 0.6} for h in (0.01, 0.003, 0.03)] + [{"step": 0.02, "b": 50.0, "c": 1.0}]
    elif sampler == "sgrhmc":
        pairs = ((0.15, 10.0), (0.1, 5.0), (0.07, 10.0), (0.1, 3.0))
        tried += [{"step": h, "c": 0.3, "friction": C} for h, C in pairs]
    elif sampler == "sghmc":
        tried += [{"step": h, "friction": C} for h, C in ((0.1, 1.0), (0.1, 3.0), (0.03, 1.0), (0.3, 1.0))]
    else:
        tried += [{"step": h} for h in (0.01, 0.003, 0.03, 0.1)]
    return [
        TopicSetting(sampler, priors.alpha, priors.gamma, start=start, **item)
        for item in tried
        for start in (0.1, 0.5)
    ]


def read_stream(data: Path | None, documents: int, held_out: int) -> DocumentStream:
    """Articles with at least 20 words of the vocabulary, shuffled; those to predict come after the others."""
    words = find_file("wikipedia", WORDS, data)
    articles = find_file("wikipedia", ARTICLES, data)
    # A buffer larger than the file: the order is fully random.
    corpus = open_corpus(
        articles,
        vocabulary=words,
        pattern="letters",
        minimum_tokens=SHORTEST,
        shuffle_buffer=10**7,
        seed=ORDER_SEED,
    )
    articles_read = next(corpus.batches(documents + held_out))
    return DocumentStream(
        articles_read.select(slice(documents)),
        articles_read.select(slice(documents, None)),
        tuple(corpus.vocabulary),
        TOPICS,
        BATCH,
    )


@dataclass(frozen=True)
class BestSetting:
    """A sampler at the best setting of its grid: the grid's perplexities, and a curve for each seed."""

    setting: TopicSetting
    searched: Sequence[tuple[TopicSetting, float]]
    curves: Sequence[Curve]

    @property
    def mean(self) -> float:
        """The perplexity at the end, over the seeds."""
        return float(np.mean([curve.last for curve in self.curves]))


def measure(
    stream: DocumentStream, grids: Mapping[tuple[str, Priors], Sequence[TopicSetting]], seeds: int
) -> dict[tuple[str, Priors], BestSetting]:
    """The best setting of each grid, run with every seed; samplers that never stay finite are left out."""
    results = {}
    for key, settings in grids.items():
        searched = search(stream, settings, SEARCH_SEED)
        best = searched[0][0]
        curves = [follow(stream, best, seed) for seed in range(seeds)]
        finite = [curve for curve in curves if curve is not None]
        if finite:
            results[key] = BestSetting(best, searched, finite)
    return results


def priors_of(panel: str, name: str) -> Priors:
    """As the paper chose them, or the same for all."""
    return NARROW if panel == AS_PRINTED and name not in ("SGLD", "SGHMC") else WIDE


def claims(panels: Mapping[str, Mapping[str, BestSetting]]) -> list[Claim]:
    """What section 4.2 says of Figure 3, with the paper's priors and with the same for all."""
    results = []
    for panel, by_name in panels.items():
        # A sampler that never stayed finite counts as infinitely bad.
        mean = {name: by_name[name].mean if name in by_name else np.inf for name in NAMES.values()}
        numbers: dict[str, Any] = {name: round(row.mean) for name, row in by_name.items()}
        numbers |= {f"{name}, by seed": [round(curve.last) for curve in row.curves]
                    for name, row in by_name.items() if len(row.curves) > 1}  # fmt: skip
        results.append(
            Claim(
                f"SGRLD and SGRHMC have lower perplexity than SGLD and SGHMC; {panel}",
                bool(max(mean["SGRLD"], mean["SGRHMC"]) < min(mean["SGLD"], mean["SGHMC"])),
                numbers,
            )
        )
        results.append(
            Claim(
                f"SGRHMC is at least as good as SGRLD; {panel}",
                bool(mean["SGRHMC"] <= (1 + TIE) * mean["SGRLD"]),
                {"SGRHMC / SGRLD": round(mean["SGRHMC"] / mean["SGRLD"], 4)},
            )
        )
    return results


def described(setting: TopicSetting) -> str:
    """The steps in a line."""
    start = f"θ from Gamma({setting.start:g})"
    if setting.step is None:
        return f"by the size of the stream, {start}"
    decay = f" (1 + t/{setting.b:g})^-{setting.c:g}" if setting.c else ""
    friction = "" if setting.friction is None else f", friction {setting.friction:g}"
    return f"ε = {setting.step:g}{decay}{friction}, {start}"


def online_vb_curves(stream: DocumentStream, panels: Sequence[str], seeds: int) -> dict[str, list[Curve]]:
    """gensim's curves for each panel; none where it is not installed."""
    if not has_gensim():
        return {}
    curves = {}
    for panel in panels:
        priors = priors_of(panel, ONLINE_VB)
        curves[panel] = [follow_online_vb(stream, priors.alpha, priors.gamma, seed) for seed in range(seeds)]
    return curves


def study(
    stream: DocumentStream,
    out: Path,
    grids: Mapping[tuple[str, Priors], Sequence[TopicSetting]],
    seeds: int,
    rounds: int,
) -> Result:
    """Search, follow, judge, draw."""
    measured = measure(stream, grids, seeds)
    panels: dict[str, dict[str, BestSetting]] = {}
    for panel in (AS_PRINTED, ALL_WIDE):
        wanted = {name: (sampler, priors_of(panel, name)) for sampler, name in NAMES.items()}
        panels[panel] = {name: measured[key] for name, key in wanted.items() if key in measured}
    curves = {panel: {name: row.curves for name, row in rows.items()} for panel, rows in panels.items()}
    for panel, repeats in online_vb_curves(stream, list(panels), seeds).items():
        curves[panel][ONLINE_VB] = repeats
    unigram = stream.unigram_perplexity()
    draw_curves(curves, unigram, out / FIGURE)

    seconds = seconds_per_hundred(
        stream, {name: row.setting for name, row in panels[AS_PRINTED].items()}, rounds
    )
    panel, best = min(
        ((panel, name) for panel, rows in panels.items() for name in rows),
        key=lambda key: panels[key[0]][key[1]].mean,
    )
    # Of one seed: with another the topics come in another order.
    topics = top_words(panels[panel][best].curves[0].beta, stream.words, TOP_WORDS)
    text = tables(stream, curves, unigram, seconds, f"{best}, {panel}", topics)
    write_text(out / TABLES, text)

    entries: list[dict[str, Any]] = [
        {
            "priors": panel,
            "method": name,
            "documents": repeats[0].documents,
            "perplexity by seed": [curve.averaged for curve in repeats],
            "perplexity of single draws by seed": [curve.single for curve in repeats],
        }
        for panel, rows in curves.items()
        for name, repeats in rows.items()
    ]
    entries += [
        {"sampler": name, "priors": str(priors), "searched": {described(s): p for s, p in row.searched}}
        for (name, priors), row in measured.items()
    ]
    entries += [{"seconds per 100 documents": seconds, "the paper's": SECONDS_OF_THE_PAPER}]
    entries += [{"topic": k, "words": words} for k, words in enumerate(topics)]
    return Result(
        "ma-lda",
        claims(panels),
        _settings(stream, measured, unigram),
        tuple(range(seeds)),
        (FIGURE, TABLES),
        entries,
    )


def _settings(
    stream: DocumentStream, measured: Mapping[tuple[str, Priors], BestSetting], unigram: float
) -> dict[str, Any]:
    """What was given and what was chosen."""
    return {
        "documents": stream.documents.size,
        "tokens per document": stream.documents.tokens / stream.documents.size,
        "held-out documents": stream.held_out.size,
        "words": len(stream.words),
        "topics": stream.topics,
        "minibatch": stream.batch,
        "sweeps (chosen)": "50, of which 25 are not counted",
        "perplexity": "document completion: half of each document's words predicted from the other half; "
        "a probability below 1e-30 counts as 1e-30, which matters for SGRLD with α = 0.0001",
        "averaged": f"p(w) over the last half of the stream so far, topics evaluated every {INTERVAL} "
        "minibatches (as Patterson and Teh)",
        "perplexity of the shares of words alone": unigram,
        "steps (the best of a small grid, found with a seed of its own)": {
            f"{NAMES[sampler]}, {priors}": described(row.setting)
            for (sampler, priors), row in measured.items()
        },
        "chosen by": "perplexity of the held-out documents that are reported: all are a little too good",
        "as good (chosen)": f"within {TIE:.0%}",
        "online VB": f"gensim, offset {OFFSET}, decay {DECAY}, the same minibatches and priors (α for eta)"
        if has_gensim()
        else "not drawn: gensim is not installed (pip install gensim)",
        "articles": "the paper's were drawn at random from Wikipedia; these are a range of page ids",
    }


def tables(
    stream: DocumentStream,
    curves: Mapping[str, Mapping[str, Sequence[Curve]]],
    unigram: float,
    seconds: Mapping[str, Mapping[str, float]],
    best: str,
    topics: Sequence[Sequence[str]],
) -> str:
    """Perplexities, runtimes and topics, in Markdown."""
    perplexities = [
        (
            panel,
            name,
            *(f"{np.mean(x):.0f}" for x in zip(*((c.last, c.single[-1]) for c in repeats), strict=True)),
        )
        for panel, rows in curves.items()
        for name, repeats in rows.items()
    ]
    runtimes = [
        (name, f"{taken['wall']:.3f}", f"{taken['processor']:.3f}", SECONDS_OF_THE_PAPER.get(name, "–"))
        for name, taken in seconds.items()
    ]
    tokens = stream.documents.tokens / stream.documents.size
    parts = [
        f"# Topics of {stream.documents.size:,} documents",
        f"Held-out perplexity after one pass; of the shares of words alone {unigram:.0f}.",
        markdown_table(("priors", "method", "averaged", "last draw alone"), perplexities),
        f"Seconds per 100 documents on one thread, {tokens:.0f} tokens per document; the paper says neither "
        "its machine nor how long its documents are.",
        markdown_table(("sampler", "wall", "processor", "the paper"), runtimes),
        f"The most probable words of each topic: {best}.",
        markdown_table(("topic", "words"), [(k, " ".join(words)) for k, words in enumerate(topics)]),
    ]
    return "\n\n".join(parts) + "\n"


def run(out: Path, quick: bool, seeds: int, data: Path | None = None) -> Result:
    """On Wikipedia articles."""
    documents, held_out, rounds = QUICK if quick else FULL
    stream = read_stream(data, documents, held_out)
    keys = [(sampler, WIDE) for sampler in NAMES]
    keys += [(sampler, NARROW) for sampler, name in NAMES.items() if name not in ("SGLD", "SGHMC")]
    grids = {key: grid(*key)[: 2 if quick else None] for key in keys}
    result = study(stream, out, grids, seeds, rounds)
    return dataclasses.replace(result, settings={"quick": quick, **result.settings})
