"""The series that the page draws one at a time: thinned draws, histograms, ranks, autocorrelation.

What is left out is said in words: `note`. The bounds keep a report below about 10 MB.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import rankdata

from fokker._core.statistics import autocorrelation, effective_sample_size
from fokker.report.packing import floats, words

# The most parameters and chains that are drawn, bytes of draws in all, and draws of one chain, at least one
# point per pixel of a wide screen.
MOST_NAMES, MOST_CHAINS, _BYTES, _DRAWS = 500, 16, 4_000_000, 2_000
_BINS, _RANK_BINS, _LAGS, _LENGTHS = 40, 20, 60, 8
_DIVERGENCES = 300
# Numbers of draws whose effective number is computed along the run: about a second per million.
_WORK = 6_000_000


class Shown(NamedTuple):
    """What is drawn, in the order of the table: names, and all draws of each, chain × draw."""

    names: Sequence[str]
    series: Sequence[np.ndarray]


def parameters_data(
    shown: Shown,
    is_divergent: np.ndarray | None,
    numbers: Sequence[int] | None = None,
    work: int = _WORK,
) -> dict[str, Any]:
    """What `studio/src/report/parameters.ts` reads.

    `numbers`: those of the chains, from 0, where some were stopped. `work`: of the growth of effective draws.
    """
    series = shown.series[:MOST_NAMES]
    chains, draws = series[0].shape
    places = _chains(series)
    every = max(1, -(-draws // _DRAWS), -(-len(series) * len(places) * draws * 2 // _BYTES))
    ends = np.array([_ends(x) for x in series])
    low, high = ends.T
    thinned = np.stack([x[places, ::every] for x in series])
    lags = _lags(draws)
    counts, ranks, correlations = _by_parameter(series, places, ends, lags)
    lengths, grown, bulk, tail = _growth(series, work)
    divergent = _divergent_draws(series, is_divergent)
    return {
        "names": list(shown.names[:MOST_NAMES]),
        "chains": [int(chain if numbers is None else numbers[chain]) + 1 for chain in places],
        "allChains": chains,
        "draws": draws,
        "every": every,
        "places": thinned.shape[2],
        "means": [[m if np.isfinite(m) else None for m in x[places].mean(1, dtype=float)] for x in series],
        "low": low.tolist(),
        "high": high.tolist(),
        "values": words(thinned, low[:, None, None], high[:, None, None]),
        "bins": _BINS,
        "counts": words(counts, 0, 65534),
        "ranks": words(ranks, 0, 65534),
        "rankBins": _RANK_BINS,
        "lags": lags,
        "autocorrelation": words(correlations, -1, 1),
        "lengths": lengths,
        "grown": list(range(grown)),
        "bulk": floats(bulk),
        "tail": floats(tail),
        "divergent": words(divergent, low[:, None], high[:, None]),
        "divergences": None if is_divergent is None else int(np.sum(is_divergent)),
        "shownDivergences": divergent.shape[1],
        "note": _note(chains, len(places), draws, every, len(shown.names), len(series), grown),
    }


def _note(chains: int, shown: int, draws: int, every: int, among: int, chosen: int, grown: int) -> str:
    """What the figures leave out."""
    parts = ["Histograms, ranks and autocorrelations are of all draws."]
    if every > 1:
        parts.append(f"Traces and pairs show one in {every} of {draws:,} draws of a chain.")
    if shown < chains:
        parts.append(f"Of {chains} chains, the {shown} whose means are farthest from the others' are drawn.")
    if chosen < among:
        parts.append(f"Of {among:,} parameters, the first {chosen} of the table are drawn.")
    if grown < chosen:
        parts.append(f"The growth of effective draws is computed for the first {grown} of the table.")
    parts.append(
        "Drag in a figure to zoom, double click for the whole; or + - 0 and arrows when it has the focus."
    )
    return " ".join(parts)


def _ends(series: np.ndarray) -> tuple[float, float]:
    """The least and the largest draw that is finite; zeros where none is."""
    finite = series[np.isfinite(series)]
    return (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)


def _chains(series: Sequence[np.ndarray]) -> np.ndarray:
    """The chains that are drawn: all, or those whose means are farthest from the others'."""
    chains = len(series[0])
    if chains <= MOST_CHAINS:
        return np.arange(chains)
    with np.errstate(all="ignore"):
        means = np.nan_to_num(np.array([x.mean(axis=1) for x in series]))
        spread = np.maximum(means.std(axis=1, keepdims=True), 1e-300)
        distance = np.abs(means - np.median(means, axis=1, keepdims=True)) / spread
    return np.sort(np.argsort(-distance.max(axis=0), kind="stable")[:MOST_CHAINS])


def _lags(draws: int) -> list[int]:
    """All small lags, and then ever fewer up to half of the draws."""
    most = max(1, draws // 2)
    far = np.geomspace(1, most, _LAGS // 2).round().astype(int)
    return sorted({*range(min(_LAGS // 2, most + 1)), *far.tolist()})


def _by_parameter(
    series: Sequence[np.ndarray], places: np.ndarray, ends: np.ndarray, lags: list[int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Counts of a histogram, counts of ranks, and autocorrelations: parameter × chain × …."""
    shape = (len(series), len(places))
    counts, ranks = np.zeros((*shape, _BINS)), np.zeros((*shape, _RANK_BINS))
    correlations = np.zeros((*shape, len(lags)))
    for k, values in enumerate(series):
        ranked = rankdata(np.where(np.isnan(values), np.inf, values)).reshape(values.shape)
        share = np.clip((ranked - 0.5) / values.size, 0, 1 - 1e-12)
        low, high = ends[k] if ends[k, 1] > ends[k, 0] else ends[k] + [-0.5, 0.5]
        for i, chain in enumerate(places):
            finite = values[chain][np.isfinite(values[chain])]
            counts[k, i] = np.histogram(finite, _BINS, (low, high))[0]
            ranks[k, i] = np.histogram(share[chain], _RANK_BINS, (0, 1))[0]
        correlations[k] = autocorrelation(values[places], lags)
    # Counts of long chains are scaled into 16 bits: the page needs the shares alone.
    scale = min(1.0, 65_000 / series[0].shape[1])
    return counts * scale, ranks * scale, correlations


def _growth(series: Sequence[np.ndarray], work: int) -> tuple[list[int], int, np.ndarray, np.ndarray]:
    """Effective draws after parts of the run: their lengths, of how many parameters, bulk and tail."""
    draws = series[0].shape[1]
    lengths = sorted({max(8, draws * (i + 1) // _LENGTHS) for i in range(_LENGTHS)})
    if draws < 2 * lengths[0]:
        return [], 0, np.zeros(0), np.zeros(0)
    grown = min(len(series), max(1, work // series[0].size))
    values = np.stack(series[:grown], axis=2)
    bulk, tail = (
        np.stack([effective_sample_size(values[:, :length], method) for length in lengths], axis=1)
        for method in ("bulk", "tail")
    )
    return lengths, grown, bulk, tail


def _divergent_draws(series: Sequence[np.ndarray], is_divergent: np.ndarray | None) -> np.ndarray:
    """Draws at which the sampler says that it diverged, parameter × draw, at most some hundred."""
    if is_divergent is None or is_divergent.shape != series[0].shape:
        return np.zeros((len(series), 0))
    at = np.argwhere(is_divergent)
    if len(at) > _DIVERGENCES:
        at = at[np.linspace(0, len(at) - 1, _DIVERGENCES).astype(int)]
    return np.stack([values[at[:, 0], at[:, 1]] for values in series])
