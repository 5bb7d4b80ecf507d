r"""Ding et al. (2014), section 5.2, Figure 3 (fourth row): the topics of conference abstracts.

Semi-collapsed LDA with 30 topics, mixtures ~ Dirichlet(0.1), a Gaussian prior N(0.1, 1) on θ_kw, minibatches
of 100 abstracts: test perplexity by SGHMC and SGNHT over η and a, which are ε² and Aε here. Minibatches and
sweeps leave noise in the gradient that SGHMC does not account for. The appendix that defines the topics by θ
is not available: β_kw = exp θ_kw / Σ_w exp θ_kw (natural) goes with a Gaussian prior; β_kw = θ_kw/θ_k· with θ
reflected at zero (mean), as in Patterson and Teh's experiments, is tried as well.
"""

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Key

from fokker import samplers
from fokker._core.random import fold_in
from fokker.corpora import open_corpus
from fokker.datasets.folder import find_file
from fokker.integrators import Reflecting, SymplecticEuler
from fokker.lab.experiments._ding import SAMPLERS
from fokker.lab.experiments._result import Claim, Result
from fokker.lab.experiments._stages import stage
from fokker.lab.experiments._topic_figures import draw_over_steps
from fokker.lab.experiments._topic_runs import DocumentStream, expected_counts
from fokker.models.topics._expected import MIN_PROBABILITY
from fokker.models.topics._uniform import seed_at
from fokker.models.topics.collapsed import local_words
from fokker.models.topics.evaluate import HeldOut
from fokker.models.topics.gibbs import cores
from fokker.samplers import SamplerState
from fokker.targets import Target

FIGURE = "ding-lda.png"
# Those of 2007 to 2011 that the paper had could not be found.
ABSTRACTS = "icml-abstracts-2013-2015"
TOPICS, BATCH, TEST_SHARE = 30, 100, 0.2
MIXTURE, PRIOR_MEAN = 0.1, 0.1
AMOUNTS, STEPS = (0.01, 0.1), (2e-5, 4e-5, 6e-5, 8e-5)
# Larger than the paper's: the noise of a minibatch matters more.
LARGER = (1.28e-3, 5.12e-3, 2.048e-2)
# What counts as no difference between two perplexities.
TIE = 0.01


@dataclass(frozen=True)
class Length:
    """How long a chain is: iterations, of which a share is dropped; sweeps per iteration; draws stored."""

    iterations: int
    sweeps: int
    draws: int
    dropped: float = 0.2


QUICK, FULL = Length(600, 4, 10), Length(10_000, 10, 50)


class NaturalTopics(Target):
    """U(θ) with N held where the E-step found it, for β_kw = exp θ_kw / Σ_w exp θ_kw."""

    def minibatch_potential(
        self, theta: Float[Array, "words topics"], N: Float[Array, "words topics"]
    ) -> Array:
        """Ũ(θ) for expected counts N times |S|/|S̃|."""
        likelihood = jnp.sum(N * theta) - jnp.sum(jnp.sum(N, 0) * jax.nn.logsumexp(theta, 0))
        return jnp.sum((theta - PRIOR_MEAN) ** 2) / 2 - likelihood

    def potential(self, theta: Float[Array, "words topics"]) -> Array:
        """U of the prior alone."""
        return self.minibatch_potential(theta, jnp.zeros_like(theta))

    def topics(self, theta: np.ndarray) -> np.ndarray:
        """β (V, K)."""
        # In a chain that diverges a word's share underflows: far too small, but not nothing.
        weights = np.maximum(np.exp(theta - theta.max(0)), np.float32(MIN_PROBABILITY))
        return weights / weights.sum(0)


class MeanTopics(Target):
    """The same for β_kw = θ_kw/θ_k·, θ above zero."""

    def minibatch_potential(
        self, theta: Float[Array, "words topics"], N: Float[Array, "words topics"]
    ) -> Array:
        """Ũ(θ) for expected counts N times |S|/|S̃|."""
        likelihood = jnp.sum(N * jnp.log(theta)) - jnp.sum(jnp.sum(N, 0) * jnp.log(jnp.sum(theta, 0)))
        return jnp.sum((theta - PRIOR_MEAN) ** 2) / 2 - likelihood

    def potential(self, theta: Float[Array, "words topics"]) -> Array:
        """U of the prior alone."""
        return jnp.sum((theta - PRIOR_MEAN) ** 2) / 2

    def topics(self, theta: np.ndarray) -> np.ndarray:
        """β (V, K)."""
        return theta / theta.sum(0)


# The smallest θ where it has to be positive, as N log θ is unbounded.
_LEAST = 1e-6
TARGETS: dict[str, tuple[Any, Any]] = {
    "natural": (NaturalTopics(), SymplecticEuler()),
    "mean": (MeanTopics(), Reflecting(lower=_LEAST, integrator=SymplecticEuler())),
}


@dataclass(frozen=True)
class LdaSetting:
    """A sampler in Ding et al.'s parametrisation: η = ε², a = Aε."""

    method: str
    a: float
    eta: float
    topics: str = "natural"

    def __str__(self) -> str:
        return f"{self.method}, a = {self.a:g}, η = {self.eta:g}"


def _sampler(method: str, topics: str, a: ArrayLike, eta: ArrayLike) -> samplers.Recipe:
    step_size = jnp.sqrt(eta)
    target, integrator = TARGETS[topics]
    return SAMPLERS[method](step_size, a / step_size, integrator=integrator).on(target)


@functools.partial(jax.jit, static_argnames=("method", "topics"))
def _start(
    method: str, topics: str, a: ArrayLike, eta: ArrayLike, theta: Array, key: Key[Array, ""]
) -> SamplerState:
    return _sampler(method, topics, a, eta).init(theta, key=key)


@functools.partial(jax.jit, static_argnames=("method", "topics"), donate_argnames="state")
def _advance(
    method: str, topics: str, a: ArrayLike, eta: ArrayLike, state: SamplerState, N: Array, key: Key[Array, ""]
) -> tuple[SamplerState, Array]:
    """One step, and the kinetic energy of a coordinate, 1/2 if the temperature is right."""
    sampler = _sampler(method, topics, a, eta)
    state, _ = sampler.step(fold_in(key, state.step), state, N)
    return state, jnp.mean(state.z["r"] ** 2) / 2


@dataclass(frozen=True)
class ChainResult:
    """The result of a chain: perplexity of p(w) averaged over its draws, infinite where it diverged.

    `kinetic`: the mean kinetic energy of a coordinate. `friction`: the mean ξ, or the friction given.
    """

    perplexity: float
    kinetic: float
    friction: float


def follow(stream: DocumentStream, setting: LdaSetting, seed: int, length: Length) -> ChainResult:
    """One chain; the E-step sees topics as they are at every iteration."""
    stage(f"sampling by {setting}, seed {seed}")
    generator = np.random.default_rng(seed)
    start_key, key, sweep_key = jax.random.split(jax.random.key(seed), 3)
    target, _ = TARGETS[setting.topics]
    V, size = len(stream.words), stream.documents.size
    theta = PRIOR_MEAN + generator.standard_normal((V, stream.topics), dtype=np.float32)
    theta = np.abs(theta) + np.float32(_LEAST) if setting.topics == "mean" else theta
    fixed = setting.method, setting.topics, setting.a, setting.eta
    state = _start(*fixed, jnp.asarray(theta), start_key)
    held_out = HeldOut(stream.held_out, seed)
    gamma = np.full(stream.topics, MIXTURE)
    first = int(length.dropped * length.iterations)
    every = max(1, (length.iterations - first) // length.draws)
    kinetic, friction = [], []
    beta = target.topics(theta)
    for number in range(1, length.iterations + 1):
        documents = stream.documents.select(generator.choice(size, stream.batch, replace=False))
        words, local = local_words(documents)
        expected = expected_counts(
            local,
            beta[words],
            gamma,
            seed_at(sweep_key, number),
            sweeps=length.sweeps,
            burn_in=length.sweeps // 2,
        )
        N = np.zeros((V, stream.topics), np.float32)
        N[words] = expected.counts * np.float32(size / stream.batch)
        state, energy = _advance(*fixed, state, N, key)
        theta = np.asarray(state.position)
        if not np.all(np.isfinite(theta)):
            return ChainResult(np.inf, np.inf, np.nan)
        beta = target.topics(theta)
        if number > first and (number - first) % every == 0:
            held_out.add(beta, gamma)
            kinetic.append(float(energy))
            friction.append(float(state.z["xi"]) if "xi" in state.z else setting.a / setting.eta**0.5)
    return ChainResult(held_out.perplexity, float(np.mean(kinetic)), float(np.mean(friction)))


def measure(
    stream: DocumentStream, settings: Sequence[LdaSetting], seeds: int, length: Length
) -> dict[LdaSetting, list[ChainResult]]:
    """Every setting with every seed, as many at a time as there are cores."""
    with ThreadPoolExecutor(cores()) as pool:
        waiting = {
            setting: [pool.submit(follow, stream, setting, seed, length) for seed in range(seeds)]
            for setting in settings
        }
        return {setting: [chain.result() for chain in chains] for setting, chains in waiting.items()}


def mean_perplexity(rows: Sequence[ChainResult]) -> float:
    """The mean over the seeds."""
    return float(np.mean([row.perplexity for row in rows]))


def claims(by_setting: Mapping[LdaSetting, Sequence[ChainResult]]) -> list[Claim]:
    """What section 5.2.1 says of Figure 3, for the paper's η and for larger ones."""
    results = []
    for topics in dict.fromkeys(setting.topics for setting in by_setting):
        chosen = {setting: rows for setting, rows in by_setting.items() if setting.topics == topics}
        printed = {s: rows for s, rows in chosen.items() if s.eta <= max(STEPS)}
        results += _claims(printed, f"β by the {topics} parameters")
        if len(printed) < len(chosen):
            results += _claims(chosen, f"β by the {topics} parameters, η up to {max(LARGER):g}")
    return results


def _claims(by_setting: Mapping[LdaSetting, Sequence[ChainResult]], where: str) -> list[Claim]:
    mean = {(s.method, s.a, s.eta): mean_perplexity(rows) for s, rows in by_setting.items()}
    amounts = sorted({setting.a for setting in by_setting})
    steps = sorted({setting.eta for setting in by_setting})

    def numbers(method: str) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for setting, rows in by_setting.items():
            if setting.method == method:
                energy, friction = np.mean([[row.kinetic, row.friction] for row in rows], axis=0)
                values[str(setting)] = (
                    f"{mean_perplexity(rows):.1f}, kinetic energy {energy:.3f}, friction {friction:.2f}"
                )
        return values

    def growth(method: str, a: float) -> float:
        best = min(mean[method, a, eta] for eta in steps)
        return mean[method, a, steps[-1]] / best

    better = {(a, eta): mean["SGNHT", a, eta] / mean["SGHMC", a, eta] for a in amounts for eta in steps}
    ratios = {f"SGNHT / SGHMC at a = {a:g}, η = {eta:g}": round(r, 4) for (a, eta), r in better.items()}
    grown = {m: {f"a = {a:g}": round(growth(m, a), 4) for a in amounts} for m in SAMPLERS}
    return [
        Claim(
            f"SGNHT is at least as good as SGHMC for every η and a; {where}",
            all(r <= 1 + TIE for r in better.values()),
            ratios,
        ),
        Claim(
            f"SGHMC gets worse as η grows, at the smaller a; {where}",
            bool(growth("SGHMC", amounts[0]) > 1 + TIE),
            {"perplexity at the largest η / at the best": grown["SGHMC"]} | numbers("SGHMC"),
        ),
        Claim(
            f"SGNHT is stable: at the largest η within a twentieth of its best; {where}",
            all(growth("SGNHT", a) <= 1.05 for a in amounts),
            {"perplexity at the largest η / at the best": grown["SGNHT"]} | numbers("SGNHT"),
        ),
    ]


def read_stream(data: Path | None) -> DocumentStream:
    """Abstracts in random order: four fifths to learn from, the rest to predict."""
    corpus = open_corpus(
        find_file(ABSTRACTS, "bow.npz", data), minimum_tokens=2, shuffle_buffer=10**6, seed=0
    )
    abstracts = next(corpus.batches(10**6))
    cut = round((1 - TEST_SHARE) * abstracts.size)
    words = tuple(corpus.vocabulary)
    return DocumentStream(
        abstracts.select(slice(cut)), abstracts.select(slice(cut, None)), words, TOPICS, BATCH
    )


def study(
    stream: DocumentStream, out: Path, settings: Sequence[LdaSetting], seeds: int, length: Length
) -> Result:
    """Sample, judge, draw."""
    by_setting = measure(stream, settings, seeds, length)
    unigram = stream.unigram_perplexity()
    figures = []
    for topics in dict.fromkeys(setting.topics for setting in settings):
        shown = {
            (s.method, s.a, s.eta): [row.perplexity for row in rows]
            for s, rows in by_setting.items()
            if s.topics == topics
        }
        figures.append(FIGURE if topics == "natural" else FIGURE.replace(".png", f"-{topics}.png"))
        draw_over_steps(shown, unigram, out / figures[-1])
    chosen = {
        "documents": stream.documents.size,
        "test documents": stream.held_out.size,
        "tokens per document": stream.documents.tokens / stream.documents.size,
        "words": len(stream.words),
        "topics": stream.topics,
        "minibatch": stream.batch,
        "prior of the mixtures": MIXTURE,
        "prior of θ": f"N({PRIOR_MEAN:g}, 1)",
        "iterations (the paper: 50,000)": length.iterations,
        "share dropped at the start": length.dropped,
        "sweeps per iteration (chosen)": f"{length.sweeps}, of which {length.sweeps // 2} are burn-in",
        "draws averaged (chosen)": length.draws,
        "perplexity": "document completion: half of each document's words predicted from the other half",
        "perplexity of the shares of words alone": unigram,
        "as good (chosen)": f"within {TIE:.0%}",
        "abstracts": "ICML 2013 to 2015; the paper's 765 of 2007 to 2011 could not be found",
    }
    entries = [
        {"method": s.method, "a": s.a, "η": s.eta, "β by parameters": s.topics, "seeds": rows}
        for s, rows in by_setting.items()
    ]
    return Result("ding-lda", claims(by_setting), chosen, tuple(range(seeds)), tuple(figures), entries)


def all_settings(topics: str, steps: Sequence[float]) -> list[LdaSetting]:
    """Every method with every a and some η."""
    every = itertools.product(SAMPLERS, AMOUNTS, steps)
    return [LdaSetting(method, a, eta, topics) for method, a, eta in every]


def run(out: Path, quick: bool, seeds: int, data: Path | None = None) -> Result:
    """On abstracts of a conference."""
    if quick:
        settings = all_settings("natural", (STEPS[0], STEPS[-1], LARGER[-1]))
    else:
        settings = all_settings("natural", STEPS + LARGER) + all_settings("mean", (STEPS[0], STEPS[-1]))
    result = study(read_stream(data), out, settings, seeds, QUICK if quick else FULL)
    return dataclasses.replace(result, settings={"quick": quick, **result.settings})
