"""The settings of a run over topics: priors, sampler, steps."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from fokker.models.lda.chain import TopicChain
    from fokker.models.lda.share import Share
    from fokker.models.lda.word_prior import WordPrior

ENGINES = ("numba", "jax")
SAMPLERS = ("sgrhmc", "sgrld", "scir", "sghmc", "sgld")
# How γ may be learned: one number for all topics, one per topic, or one per topic with only as many topics in
# use as the documents need. And every γ_k before any data.
LEARNED_GAMMA = ("symmetric", "asymmetric", "hdp")
INITIAL_GAMMA = 0.1

# By default a corpus is repeated until the chain has read this many documents.
_DOCUMENTS_TO_READ = 20_000
# More passes over fewer than a hundred documents learn nothing more.
_MOST_PASSES = 200

_POSITIVE_INTEGERS = ("topics", "batch", "sweeps")
_POSITIVE_NUMBERS = ("alpha", "step", "decay_after", "start", "friction", "seed_weight")


@dataclass(frozen=True)
class Settings:
    """All settings that determine the draws, besides the documents; `threads` changes only the time.

    `topics`: K. `sampler`: one of `SAMPLERS`. `alpha`: α of θ_kw ~ Gamma(α, 1). `gamma`: γ of the mixtures,
    π_d ~ Dirichlet(γ): a number, one per topic, or one of `LEARNED_GAMMA`, for a γ that is learned from
    `INITIAL_GAMMA` (`fokker.models.lda.document_prior`). `seed_words`: words of the first topics, by the
    names of these topics; each has `seed_weight` pseudo-counts in its topic (`fokker.models.lda.word_prior`).
    `step`: a of ε_t = a (1 + t/b)^{-c}, with b = `decay_after` minibatches and c = `decay_power`. A `step` of
    None, and for samplers with momentum a `friction` of None, is chosen according to the size of the corpus.
    `start_documents`: the topics start from a collapsed Gibbs chain over this many documents
    (`fokker.models.lda.start`); 0: from random topics. `start`: random θ ~ Gamma(start, 1); it also sets the
    scale of θ for the other start. `batch`: documents per step. `sweeps`, `burn_in`: Gibbs sweeps over a
    document, and how many of them are not counted. `threads`: None uses all processors. `engine`: of the
    sweeps: numba, or jax for a GPU, which is worthwhile for minibatches of many thousand documents. `total`:
    |S|, the number of documents in the corpus; "growing" uses the number read so far, None the number that
    the corpus declares. `exact_passes`: the last passes of a run, with exact draws of θ; None takes half of
    the passes.
    """

    topics: int = 50
    sampler: str = "sgrhmc"
    alpha: float = 0.01
    gamma: float | Sequence[float] | str = "asymmetric"
    seed_words: Mapping[str, Sequence[str]] | None = None
    seed_weight: float = 100.0
    step: float | None = None
    decay_after: float = 1000.0
    decay_power: float = 0.6
    start_documents: int = 2000
    start: float = 0.1
    friction: float | None = None
    batch: int = 50
    sweeps: int = 50
    burn_in: int = 25
    threads: int | None = None
    engine: str = "numba"
    seed: int = 0
    total: int | Literal["growing"] | None = None
    exact_passes: int | None = None

    def __post_init__(self) -> None:
        if self.sampler not in SAMPLERS:
            from fokker._core.state import nearest

            suggestion = nearest(str(self.sampler), SAMPLERS)
            raise ValueError(
                f"the samplers of topics are {', '.join(SAMPLERS)}, not {self.sampler!r}.{suggestion}"
            )
        if self.engine not in ENGINES:
            raise ValueError(f"the engines are {', '.join(ENGINES)}, not {self.engine!r}.")
        for name in _POSITIVE_INTEGERS:
            self._check_integer(name, 1)
        self._check_integer("burn_in", 0)
        self._check_seed()
        self._check_integer("start_documents", 0)
        if self.burn_in >= self.sweeps:
            raise ValueError(
                f"burn_in is {self.burn_in} of {self.sweeps} sweeps: at least one must remain to be counted."
            )
        if self.threads is not None:
            self._check_integer("threads", 1)
        if self.exact_passes is not None:
            self._check_integer("exact_passes", 0)
        if self.total is not None and self.total != "growing":
            self._check_integer("total", 1)
        for name in _POSITIVE_NUMBERS:
            value = getattr(self, name)
            if value is not None and not (_is_number(value) and value > 0):
                raise ValueError(f"{name} must be a positive number; {value!r} was given.")
        self._check_gamma()
        if self.seed_words is not None and len(self.seed_words) > self.topics:
            raise ValueError(
                f"there are {len(self.seed_words)} topics with seed words and {self.topics} topics: increase "
                "topics, or leave out some of the seeds."
            )
        if not (_is_number(self.decay_power) and self.decay_power >= 0):
            raise ValueError(
                f"decay_power must be a number, 0 (no decay) or more; {self.decay_power!r} was given."
            )

    def _check_gamma(self) -> None:
        if isinstance(self.gamma, str):
            if self.gamma not in LEARNED_GAMMA:
                from fokker._core.state import nearest

                raise ValueError(
                    f"gamma must be positive numbers, or one of {', '.join(LEARNED_GAMMA)}; {self.gamma!r} "
                    f"was given.{nearest(self.gamma, LEARNED_GAMMA)}"
                )
            return
        values: Sequence[Any] = self.gamma if isinstance(self.gamma, Sequence) else [self.gamma] * self.topics
        if len(values) != self.topics:
            raise ValueError(
                f"gamma has {len(values)} numbers for {self.topics} topics: give one for all, or one per "
                "topic."
            )
        for value in values:
            if not (_is_number(value) and value > 0):
                raise ValueError(f"gamma must be a positive number; {value!r} was given.")

    @property
    def topic_names(self) -> tuple[str, ...]:
        """The names of the topics: those of the seeds, then numbers."""
        names = tuple(self.seed_words or ())
        return names + tuple(str(k) for k in range(len(names), self.topics))

    def word_prior(self, index: Mapping[str, int]) -> "WordPrior":
        """The prior of the words of topics, given the ids of the words; unknown seed words are ignored."""
        from fokker.models.lda.word_prior import WordPrior

        prior = WordPrior.symmetric(self.alpha, self.topics)
        if not self.seed_words:
            return prior
        seeds = [[index[word] for word in words if word in index] for words in self.seed_words.values()]
        return prior.with_seeds(seeds, self.seed_weight)

    def _check_integer(self, name: str, minimum: int) -> None:
        value = getattr(self, name)
        if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
            raise ValueError(f"{name} must be a whole number of at least {minimum}; {value!r} was given.")

    def _check_seed(self) -> None:
        from fokker._core.keys import checked_seed  # with JAX, which `fokker --help` does without

        checked_seed(self.seed)

    @property
    def num_threads(self) -> int:
        """The number of threads that the sweeps use."""
        from fokker.models.lda.gibbs import cores

        return self.threads or cores()

    def num_exact_passes(self, passes: int | None) -> int:
        """How many of the passes are exact; None stands for passes without end, which have no last ones."""
        if passes is None:
            return 0
        return passes // 2 if self.exact_passes is None else min(self.exact_passes, passes)

    def chain(
        self, words: int, share: "Share | None" = None, word_prior: "WordPrior | None" = None
    ) -> "TopicChain":
        """A new chain over topics of this many words, or over the topics of a share.

        By default it has the prior `alpha` of all words.
        """
        from fokker.models.lda.chain import TopicChain, decaying

        if self.topics > words:
            raise ValueError(
                f"K larger than V: {self.topics} topics of a vocabulary of {words} words cannot all differ; "
                "use fewer topics or more words."
            )
        schedule = None if self.step is None else decaying(self.step, self.decay_after, self.decay_power)
        return TopicChain(
            words,
            self.topics,
            sampler=self.sampler,
            alpha=word_prior or self.alpha,
            gamma=self.gamma,
            step_size=schedule,
            start=self.start,
            friction=self.friction,
            sweeps=self.sweeps,
            burn_in=self.burn_in,
            threads=self.num_threads,
            engine=self.engine,
            seed=self.seed,
            share=share,
        )

    def to_json(self) -> dict[str, Any]:
        """The settings by name, as JSON types."""
        return dataclasses.asdict(self)

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> "Settings":
        """Settings from the result of `to_json`."""
        known = {entry.name for entry in dataclasses.fields(Settings)}
        if unknown := sorted(set(values) - known):
            raise ValueError(f"there is no setting {unknown[0]!r}; there are {', '.join(sorted(known))}.")
        return Settings(**values)


def default_passes(length: int | None) -> int:
    """As many passes over a corpus as the chain needs to read 20,000 documents, at most 200; 1 if unknown."""
    return 1 if length is None else min(_MOST_PASSES, -(-_DOCUMENTS_TO_READ // max(1, length)))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
