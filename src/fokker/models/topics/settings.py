"""The settings of topics: each is declared once, for `fokker lda`, `fk.models.LDA` and stored runs."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fokker._core.names import nearest
from fokker.models.checks import one_of, optional, positive, refuse_ignored, whole, within
from fokker.models.declared import declared_in, setting
from fokker.models.topics.seeds import read_seeds, seed_columns

if TYPE_CHECKING:
    from fokker.models.topics.word_prior import WordPrior

ENGINES = ("numba", "jax")
SAMPLERS = ("sgrhmc", "sgrld", "scir", "sghmc", "sgld")
# Those whose steps have a friction.
WITH_MOMENTUM = ("sghmc", "sgrhmc")
# How γ may be learned: one number for all topics, one per topic, or one per topic with only as many topics in
# use as the documents need. And every γ_k before any data.
LEARNED_GAMMA = ("symmetric", "asymmetric", "hdp")
INITIAL_GAMMA = 0.1

# By default a corpus of fewer documents than this is read twice: once with steps, once for exact draws.
_DOCUMENTS_TO_READ = 20_000


def _parse_topics(name: str, text: str) -> tuple[int, ...]:
    """The numbers of topics, ascending."""
    try:
        return tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        raise ValueError(
            f"{name} is a number, such as 20, or several, such as 5,10,20; {text!r} was given."
        ) from None


def _parse_total(name: str, text: str) -> int | str:
    try:
        return text if text == "growing" else int(text)
    except ValueError:
        raise ValueError(f"{name} is a number of documents, or 'growing'; {text!r} was given.") from None


def _parse_gamma(name: str, text: str) -> float | list[float] | str:
    """Numbers, or text as it is: its check says which is allowed."""
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        return text
    return numbers[0] if len(numbers) == 1 else numbers


def _check_alpha(name: str, value: Any) -> Any:
    """A number, one per word, or one per topic and word; its shape is checked where the words are known."""
    value = _as_lists(value)
    return [_check_alpha(name, x) for x in value] if isinstance(value, list) else positive(name, value)


def _check_gamma(name: str, value: Any) -> Any:
    value = _as_lists(value)
    if isinstance(value, list):
        return [positive(name, x) for x in value]
    if isinstance(value, str) and value not in LEARNED_GAMMA:
        raise ValueError(
            f"{name} must be a positive number, one per topic, or one of {', '.join(LEARNED_GAMMA)}; "
            f"{value!r} was given.{nearest(value, LEARNED_GAMMA)}"
        )
    return value if isinstance(value, str) else positive(name, value)


def _as_lists(value: Any) -> Any:
    """An array or a sequence as lists."""
    value = value.tolist() if hasattr(value, "tolist") else value
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value


def _check_total(name: str, value: Any) -> Any:
    return value if value == "growing" else whole(1)(name, value)


def _check_seed(name: str, value: object) -> int:
    from fokker._core.keys import checked_seed  # with JAX, which the command line starts without

    return checked_seed(value, name)


def _check_threads(name: str, value: object) -> int:
    if value == 0 or isinstance(value, bool):
        raise ValueError(f"{name} must be a whole number other than 0, or None; {value!r} was given.")
    return int(whole(-(2**31))(name, value))


@dataclass(frozen=True)
class Settings:
    """All settings that determine the draws, besides the documents; `threads` changes only the time.

    Their meaning is in the help of each. `decay_after` and `decay_power` are b and c of
    ε_t = a (1 + t/b)^{-c}, where a is `step`. `start`: random θ ~ Gamma(start, 1); it also sets the scale
    of θ for the other start. `total` None is the number of documents that the corpus declares.
    """

    topics: int = setting(
        50,
        whole(1),
        "n_components",
        "The number of topics, K; several, as in 5,10,20, are tried one after the other and compared.",
        option=str,
        parse=_parse_topics,
        shown="50; 20 for the built-in corpus",
    )
    sampler: str = setting("sgrhmc", one_of(SAMPLERS), "sampler", f"One of {', '.join(SAMPLERS)}.")
    alpha: float | Sequence[Any] = setting(
        0.01, _check_alpha, "topic_word_prior", "Prior of the words of topics, θ ~ Gamma(α, 1)."
    )
    gamma: float | Sequence[float] | str = setting(
        "asymmetric",
        _check_gamma,
        "doc_topic_prior",
        "Prior of the mixtures of documents, π ~ Dirichlet(γ). Fixed: a number, or one per topic such as "
        "0.1,0.5,…. Learned: symmetric (one number), asymmetric (one per topic), hdp (as many topics in use "
        "as the documents need, at most the number given).",
        parse=_parse_gamma,
    )
    seed_words: Mapping[str, Sequence[str | int]] | None = setting(
        None,
        lambda name, value: value or None,
        "seed_words",
        "A file with words that belong together: a line 'name: word word …' for each named topic.",
        option=Path,
        parse=lambda name, path: read_seeds(path),
    )
    seed_weight: float = setting(
        100.0, positive, "seed_weight", "How often each seed word counts as seen in its topic."
    )
    step: float | None = setting(
        None,
        optional(positive),
        "step_size",
        "The initial step size; it decays.",
        option=float,
        shown="from the size of the corpus",
    )
    decay_after: float = setting(1000.0, positive)
    decay_power: float = setting(0.6, within(0, float("inf"), "a number, 0 (no decay) or more"))
    start_documents: int = setting(
        2000,
        whole(0),
        "start_documents",
        "The topics start from a collapsed Gibbs chain over this many documents; 0: random topics.",
    )
    start: float = setting(0.1, positive)
    friction: float | None = setting(
        None,
        optional(positive),
        "friction",
        "The friction of sghmc and sgrhmc.",
        option=float,
        shown="from the size of the corpus",
    )
    batch: int = setting(50, whole(1), "batch_size", "Documents per step.")
    sweeps: int = setting(50, whole(1), "sweeps", "Gibbs sweeps over a document.")
    burn_in: int = setting(25, whole(0), "burn_in", "The first sweeps, which are not counted.")
    threads: int | None = setting(
        None,
        optional(_check_threads),
        "n_jobs",
        "Threads; they do not change the result. -1: all processors, -2: all but one.",
        option=int,
        shown="all processors",
    )
    engine: str = setting(
        "numba", one_of(ENGINES), None, f"Engine of the sweeps: {', '.join(ENGINES)}; jax is for GPUs."
    )
    seed: int = setting(0, _check_seed, None, "Seed of the random numbers.")
    total: int | Literal["growing"] | None = setting(
        None,
        optional(_check_total),
        "total_samples",
        "|S|, the number of documents that a minibatch represents; 'growing': those read so far.",
        option=str,
        parse=_parse_total,
        shown="counted if that is quick, else growing",
    )
    exact_passes: int | None = setting(
        None,
        optional(whole(0)),
        "exact_passes",
        "The last passes, with exact draws of the topics.",
        option=int,
        shown="half of the passes, rounded down",
    )
    draws: int = setting(20, whole(1), "draws", "Stored draws of the topics.")

    def __post_init__(self) -> None:
        for name, value in checked({name: getattr(self, name) for name in DECLARED}).items():
            object.__setattr__(self, name, value)

    @property
    def topic_names(self) -> tuple[str, ...]:
        """The names of the topics: those of the seeds, then numbers."""
        names = tuple(str(name) for name in self.seed_words or ())
        return names + tuple(str(k) for k in range(len(names), self.topics))

    def word_prior(self, words: int, names: Sequence[str] | None) -> "WordPrior":
        """The prior of the words of topics, given their number and their names; unknown seeds are ignored."""
        import numpy as np

        from fokker.models.topics.word_prior import WordPrior

        alpha = np.asarray(self.alpha, np.float64)
        if alpha.shape not in ((), (words,), (self.topics, words)):
            raise ValueError(
                f"topic_word_prior must be a positive number, one per word ({words},), or one per topic and "
                f"word ({self.topics}, {words}); an array of shape {alpha.shape} was given."
            )
        prior = WordPrior.of_array(alpha, self.topics)
        if self.seed_words is None:
            return prior
        return prior.with_seeds(seed_columns(self.seed_words, names, words), self.seed_weight)

    @property
    def num_threads(self) -> int:
        """The number of threads that the sweeps use."""
        from fokker.models.topics.gibbs import cores

        threads = self.threads or cores()
        return threads if threads > 0 else max(1, cores() + 1 + threads)

    def num_exact_passes(self, passes: int | None) -> int:
        """How many of the passes are exact; None stands for passes without end, which have no last ones."""
        if passes is None:
            return 0
        return passes // 2 if self.exact_passes is None else min(self.exact_passes, passes)

    def represented(self, distinct: int, trained: int) -> int:
        """|S|: as given, the number of distinct documents, or growing with the number of those trained on."""
        if isinstance(self.total, int):
            return self.total
        return distinct if self.total is None else min(distinct, trained)

    def check_for_start(self) -> None:
        """Raise for what would be ignored: of a new chain alone, because stored ones may have it."""
        if self.sampler not in WITH_MOMENTUM:
            reason = f"is of {' and '.join(WITH_MOMENTUM)}, and sampler={self.sampler!r} has none"
            refuse_ignored(self, ("friction",), f"{reason}: leave it out.")
        if self.seed_words is None:
            refuse_ignored(self, ("seed_weight",), "is of seed_words=…, which are not given: leave it out.")

    def to_json(self) -> dict[str, Any]:
        """The settings by name, as JSON types."""
        return dataclasses.asdict(self)

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> "Settings":
        """Settings from the result of `to_json`."""
        if unknown := sorted(set(values) - set(DECLARED)):
            raise ValueError(f"there is no setting {unknown[0]!r}; there are {', '.join(sorted(DECLARED))}.")
        return Settings(**values)

    @staticmethod
    def of_parameters(parameters: Mapping[str, Any], seed: int) -> "Settings":
        """Settings from the parameters of an estimator, with errors in their names."""
        values = {name: parameters[known.parameter] for name, known in DECLARED.items() if known.parameter}
        return Settings(
            **checked(values, {name: DECLARED[name].parameter or name for name in values}), seed=seed
        )


# What another minibatch may have another value of; the others belong to the chain from its start.
MAY_CHANGE = ("batch", "sweeps", "burn_in", "threads", "total", "start_documents", "exact_passes")
FIELDS = {entry.name: entry for entry in dataclasses.fields(Settings)}
DECLARED = declared_in(Settings)


def checked(values: Mapping[str, Any], names: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Settings by name as plain values, or an error; `names`: those by which the user knows them."""
    names = names or {name: name for name in values}
    plain = {name: DECLARED[name].check(names[name], value) for name, value in values.items()}
    topics, gamma = plain["topics"], plain["gamma"]
    if plain["burn_in"] >= plain["sweeps"]:
        raise ValueError(
            f"{names['burn_in']} is {plain['burn_in']} of {plain['sweeps']} {names['sweeps']}: at least one "
            "must remain to be counted."
        )
    if isinstance(gamma, list) and len(gamma) != topics:
        raise ValueError(
            f"{names['gamma']} has {len(gamma)} numbers for {topics} topics: give one for all, or one per "
            "topic."
        )
    if len(seeds := plain["seed_words"] or ()) > topics:
        raise ValueError(
            f"there are {len(seeds)} topics with seed words and {topics} topics: increase {names['topics']}, "
            "or leave out some of the seeds."
        )
    return plain


def default_passes(length: int | None) -> int:
    """Two passes over fewer than 20,000 documents, of which the second is exact; else, or if unknown, one."""
    return 1 if length is None or length >= _DOCUMENTS_TO_READ else 2
