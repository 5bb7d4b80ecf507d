"""The command `fokker lda`. Large modules are imported when a command runs."""

import contextlib
import functools
import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from fokker.models.lda.seeds import read_seeds
from fokker.models.lda.settings import ENGINES, SAMPLERS, Settings

if TYPE_CHECKING:
    import numpy as np

    from fokker.models.lda.model import Model
    from fokker.models.lda.results import Findings
    from fokker.models.lda.run import Run

console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)

_DEFAULTS = Settings()
# The built-in corpus is small.
_BUILT_IN_TOPICS = 20
_OUT = Path("fokker-lda")
# `infer` prints at most this many topics per document, of at least this share, with this many words.
_MAX_PRINTED_TOPICS, _MIN_SHARE, _WORDS = 4, 0.05, 6
# A run prints this many topics at its end, the most prevalent first.
_NUM_TOPICS_SHOWN = 10
_NOTHING_YET = "interrupted before the first step: there is nothing to save."
# The mixtures of all documents of a run, in their order.
_ALL_MIXTURES = "all-mixtures.csv.gz"
# The exit code after Ctrl-C.
_INTERRUPTED = 130


class DefaultToRun(TyperGroup):
    """A group that runs its command `run` if no command is named, and includes it in its help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert `run` if no command is named."""
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = ["run", *args]
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Both commands, then all options of `run`."""
        super().format_help(ctx, formatter)
        command = self.commands["run"]
        with command.make_context("run", [], parent=ctx, resilient_parsing=True) as run_context:
            command.format_help(run_context, formatter)


app = typer.Typer(
    cls=DefaultToRun,
    help="Learn the topics of a stream of documents by stochastic-gradient MCMC.\n\n"
    "fokker lda [CORPUS] learns topics (short for fokker lda run); fokker lda infer MODEL TEXT… "
    "applies them to new text; fokker lda export RUN TOOL writes files for other tools.",
    pretty_exceptions_enable=False,
)


def _option(help: str, default: object = None, **more: Any) -> Any:
    """An option that is None unless given, which --resume needs to know. The help shows the default."""
    return typer.Option(help=help, show_default=False if default is None else str(default), **more)


@app.command("run")
def run(
    corpus: Annotated[
        str | None,
        typer.Argument(
            metavar="CORPUS",
            help="A file, folder or glob (see docs/corpora.md), or - for standard input. Default: the "
            "docstrings of the running Python.",
            show_default=False,
        ),
    ] = None,
    topics: Annotated[
        int | None,
        _option(
            "The number of topics, K.", f"{_DEFAULTS.topics}; {_BUILT_IN_TOPICS} for the built-in corpus"
        ),
    ] = None,
    sampler: Annotated[str | None, _option(f"One of {', '.join(SAMPLERS)}.", _DEFAULTS.sampler)] = None,
    batch: Annotated[int | None, _option("Documents per step.", _DEFAULTS.batch)] = None,
    vocab: Annotated[
        Path | None, _option("A file with one word per line. Default: learned from the text.")
    ] = None,
    vocab_size: Annotated[int | None, _option("The maximum size of a learned vocabulary.", "10000")] = None,
    out: Annotated[Path | None, _option("Folder for the results and checkpoints.", _OUT)] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing run in the folder.")
    ] = False,
    resume: Annotated[
        Path | None, _option("Continue the run in this folder, with its corpus and settings.")
    ] = None,
    no_skip: Annotated[
        bool,
        typer.Option(
            "--no-skip",
            help="With --resume: the stream continues where it stopped, as a live one does, instead of "
            "starting again from its beginning.",
        ),
    ] = False,
    passes: Annotated[
        int | None,
        _option("Passes over the corpus.", "enough to read 20,000 documents; 1 for standard input"),
    ] = None,
    exact_passes: Annotated[
        int | None,
        _option("The last passes, with exact draws of the topics.", "half of the passes, rounded down"),
    ] = None,
    forever: Annotated[bool, typer.Option("--forever", help="Repeat passes until Ctrl-C.")] = False,
    total: Annotated[
        str | None,
        _option(
            "|S|, the number of documents that a minibatch represents; 'growing': those read so far.",
            "counted if that is quick, else growing",
        ),
    ] = None,
    alpha: Annotated[
        float | None, _option("Prior of the words of topics, θ ~ Gamma(α, 1).", _DEFAULTS.alpha)
    ] = None,
    gamma: Annotated[
        str | None,
        _option(
            "Prior of the mixtures of documents, π ~ Dirichlet(γ). Fixed: a number, or one per topic such as "
            "0.1,0.5,…. Learned: symmetric (one number), asymmetric (one per topic), hdp (as many topics in "
            "use as the documents need, at most --topics).",
            _DEFAULTS.gamma,
        ),
    ] = None,
    step: Annotated[
        float | None, _option("The initial step size; it decays.", "from the size of the corpus")
    ] = None,
    friction: Annotated[
        float | None, _option("The friction of sghmc and sgrhmc.", "from the size of the corpus")
    ] = None,
    seed_words: Annotated[
        Path | None,
        _option("A file with words that belong together: a line 'name: word word …' for each named topic."),
    ] = None,
    seed_weight: Annotated[
        float | None,
        _option("How often each seed word counts as seen in its topic.", _DEFAULTS.seed_weight),
    ] = None,
    start_documents: Annotated[
        int | None,
        _option(
            "The topics start from a collapsed Gibbs chain over this many documents; 0: random topics.",
            _DEFAULTS.start_documents,
        ),
    ] = None,
    engine: Annotated[
        str | None, _option(f"Engine of the sweeps: {', '.join(ENGINES)}; jax is for GPUs.", _DEFAULTS.engine)
    ] = None,
    sweeps: Annotated[int | None, _option("Gibbs sweeps over a document.", _DEFAULTS.sweeps)] = None,
    burn_in: Annotated[
        int | None, _option("The first sweeps, which are not counted.", _DEFAULTS.burn_in)
    ] = None,
    threads: Annotated[
        int | None, _option("Threads; they do not change the result.", "all processors")
    ] = None,
    seed: Annotated[int | None, _option("Seed of the random numbers.", _DEFAULTS.seed)] = None,
    held_out: Annotated[
        int | None,
        _option(
            "Documents held out for evaluation.", "1 % of those read, 100 to 1000; 100 for standard input"
        ),
    ] = None,
    minimum_tokens: Annotated[int | None, _option("Documents with fewer known words are skipped.", 1)] = None,
    format: Annotated[str | None, _option("The format of the corpus.", "detected")] = None,
    key: Annotated[
        str | None, _option("The key of the text in a JSON object, or its column in a table.", "text")
    ] = None,
    pattern: Annotated[
        str | None,
        _option(
            "What a word is: unicode (letters of any alphabet), letters (a to z alone), or a regular "
            "expression.",
            "unicode",
        ),
    ] = None,
    stop_words: Annotated[
        str | None,
        _option(
            "Words to leave out: a language (english, german, french, …), a file with one word per line, or "
            "none.",
            "auto: those of the language of the text",
        ),
    ] = None,
    min_df: Annotated[
        str | None,
        _option("Leave out words in fewer documents: a number, or a share such as 0.001.", "2"),
    ] = None,
    max_df: Annotated[
        str | None, _option("Leave out words in more documents: a number, or a share.", "0.5")
    ] = None,
    bigrams: Annotated[
        bool | None,
        typer.Option(
            "--bigrams", help="Pairs of words that belong together, such as new_york, are words too."
        ),
    ] = None,
    shuffle_buffer: Annotated[
        int | None,
        _option(
            "Shuffle with a buffer of this many documents; 0: no shuffling.", "5000; 0 for standard input"
        ),
    ] = None,
    no_mixtures: Annotated[
        bool, typer.Option("--no-mixtures", help="Do not write the mixtures of the documents.")
    ] = False,
) -> None:
    """Learn topics, and write them with a report to a folder; Ctrl-C saves, --resume continues.

    Exit code 1 if the topics are no better than the word frequencies.
    """
    reading_options = {
        "corpus": corpus if corpus in (None, "-") else os.path.abspath(str(corpus)),
        "format": format,
        "key": key,
        "pattern": pattern,
        "bigrams": bigrams,
        "minimum_tokens": minimum_tokens,
        "shuffle_buffer": shuffle_buffer,
        "held_out": held_out,
    }
    sampling_options = {
        "topics": topics,
        "sampler": sampler,
        "batch": batch,
        "alpha": alpha,
        "gamma": _parse_gamma(gamma),
        "step": step,
        "friction": friction,
        "seed_words": None if seed_words is None else read_seeds(seed_words),
        "seed_weight": seed_weight,
        "start_documents": start_documents,
        "engine": engine,
        "sweeps": sweeps,
        "burn_in": burn_in,
        "seed": seed,
        "total": _parse_total(total),
        "exact_passes": exact_passes,
    }
    reading, settings = _specified(reading_options), _specified(sampling_options)
    if forever and passes is not None:
        raise ValueError("--passes and --forever contradict each other: give one of them.")
    from fokker._core.files import locked
    from fokker.models.lda.reading import Reading, learned_vocabulary
    from fokker.models.lda.run import Run
    from fokker.run.interruption import Interruption

    learning_options = {
        "--vocab-size": ("maximum_words", vocab_size),
        "--stop-words": ("stop_words", stop_words),
        "--min-df": ("minimum_documents", _parse_limit("--min-df", min_df)),
        "--max-df": ("maximum_documents", _parse_limit("--max-df", max_df)),
    }
    learning = _specified(dict(learning_options.values()))
    if resume is not None:
        for name, value in (
            ("--out", out),
            ("--vocab", vocab),
            *((name, value) for name, (_, value) in learning_options.items()),
        ):
            if value is not None:
                raise ValueError(
                    f"{name} cannot be used with --resume, which continues a run with its own settings."
                )
    folder = resume or out or _OUT
    if resume is None:
        folder.mkdir(parents=True, exist_ok=True)
    # Two runs in one folder would overwrite each other's files.
    with locked(folder) if folder.is_dir() else contextlib.nullcontext():
        if resume is not None:
            lda_run = Run.resume(
                resume,
                {**reading, **settings},
                passes=None if forever else "as before" if passes is None else passes,
                mixtures=not no_mixtures,
                threads=threads,
                notify=lambda text: errors.print(text, markup=False, soft_wrap=True),
            )
            _print(f"continuing after {lda_run.position:,} documents of {lda_run.corpus.source.label}")
        else:
            if vocab is not None and learning:
                name = next(name for name, (_, value) in learning_options.items() if value is not None)
                raise ValueError(f"--vocab gives the words and {name} learns them: give one of them.")
            if corpus is None:
                settings.setdefault("topics", _BUILT_IN_TOPICS)
            run_settings = Settings(**settings, threads=threads)
            # An exception inside a library call may be lost, so Ctrl-C only sets a flag.
            with Interruption() as interruption, warnings.catch_warnings(record=True) as caught:
                lda_run = Run.start(
                    Reading(**reading),
                    run_settings,
                    folder,
                    vocabulary=learned_vocabulary(**learning) if learning else vocab,
                    passes=None if forever else "default" if passes is None else passes,
                    mixtures=not no_mixtures,
                    overwrite=overwrite,
                )
            for warning in caught:
                errors.print(str(warning.message), markup=False, soft_wrap=True)
            if interruption.asked:
                _print(_NOTHING_YET)
                raise typer.Exit(_INTERRUPTED)
            _print(_start_message(lda_run))
        raise typer.Exit(_execute(lda_run, skip=not no_skip))


def _specified(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _parse_total(text: str | None) -> int | str | None:
    if text is None or text == "growing":
        return text
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"--total is a number of documents, or 'growing'; {text!r} was given.") from None


def _parse_gamma(text: str | None) -> float | list[float] | str | None:
    """Numbers, or text as it is: the settings say which is allowed."""
    if text is None:
        return None
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        return text
    return numbers[0] if len(numbers) == 1 else numbers


def _parse_limit(name: str, text: str | None) -> float | None:
    """A number of documents (int), or a share of them (float)."""
    if text is None:
        return None
    try:
        limit = int(text) if text.isdigit() else float(text)
    except ValueError:
        limit = -1
    if limit < 0 or (isinstance(limit, float) and limit > 1):
        raise ValueError(
            f"{name} is a number of documents, such as 5, or a share of them, such as 0.1; {text!r} was "
            "given."
        )
    return limit


def _print(text: str) -> None:
    console.print(text, markup=False, soft_wrap=True)


def _start_message(run: "Run") -> str:
    settings = run.settings
    size = "" if run.length is None else f"{run.length:,} documents, "
    total = "growing with the documents read" if run.length is None else f"{run.total(1):,.0f}"
    total = total if settings.total is None else str(settings.total)
    language = run.corpus.vocabulary.language
    without = f" (without {language} stop words)" if language else ""
    passes = "no end" if run.passes is None else "1 pass" if run.passes == 1 else f"{run.passes} passes"
    if exact := settings.num_exact_passes(run.passes):
        passes += f" (the last {exact} exact)"
    num_documents = min(settings.start_documents, run.length or settings.start_documents)
    start = f"first topics from {num_documents:,} documents" if num_documents else "random first topics"
    return (
        f"{run.corpus.source.label}: {size}{len(run.corpus.vocabulary):,} words{without}; "
        f"{settings.topics} topics by {settings.sampler}, {settings.batch} documents per step, {passes}, "
        f"|S| {total}, {run.reading.held_out:,} documents held out; {start}; writing to {run.folder}"
    )


def _execute(run: "Run", skip: bool) -> int:
    """Step to the end, write the results, and return the exit code."""
    from fokker.models.lda.progress import RunProgress
    from fokker.models.lda.results import analyse, by_prevalence

    with RunProgress(run, console) as progress:
        run.execute(progress, skip=skip)
    resume_command = f"fokker lda --resume {run.folder}"
    if not run.trained:
        _print(_NOTHING_YET)
        return _INTERRUPTED
    if summary := run.tally.sentence():
        _print(summary)
    model, findings = analyse(run)
    file_names = _write(run, model, findings, resume_command)
    for topic in by_prevalence(findings.topics)[:_NUM_TOPICS_SHOWN]:
        _print(f"topic {topic.label}: {' '.join(topic.words[:10])}")
    for problem in findings.problems:
        console.print(problem, style="red", markup=False, soft_wrap=True)
    for note in findings.notes:
        _print(note)
    if run.dropped_mixtures:
        _print(f"the mixtures of {run.dropped_mixtures:,} documents are missing: the disk was full.")
    _print(f"{run.trained:,} documents in {run.seconds:.1f} s; wrote {', '.join(file_names)} to {run.folder}")
    if run.interrupted:
        _print(f"interrupted; to continue: {resume_command}")
        return _INTERRUPTED
    return 0 if findings.perplexity < findings.unigram else 1


def _write(run: "Run", model: "Model", findings: "Findings", resume_command: str) -> list[str]:
    """Write the results separately, so that an error affects one file; return the file names."""
    from fokker._core.files import write_text
    from fokker.models.lda.files import CHECKPOINT
    from fokker.models.lda.model import MODEL
    from fokker.models.lda.report import report
    from fokker.models.lda.results import tables
    from fokker.models.lda.run import MIXTURES

    texts = {"report.html": report(run, findings), **tables(model, findings)}
    writers: dict[str, Callable[[], None]] = {
        name: functools.partial(write_text, run.folder / name, text) for name, text in texts.items()
    }
    writers[MODEL] = functools.partial(model.save, run.folder / MODEL)
    if run.saved_at != run.position:
        writers[CHECKPOINT] = run.save
    errors_by_file: dict[str, OSError] = {}
    for name, write in writers.items():
        try:
            write()
        except OSError as error:
            errors_by_file[name] = error
    if errors_by_file:
        advice = (
            "There is no checkpoint: start again on another disk (--out)."
            if run.saved_at is None
            else f"The checkpoint there is of {run.saved_at:,} documents: free some space, then: "
            f"{resume_command}"
        )
        raise OSError(
            f"{', '.join(errors_by_file)} could not be written to {run.folder} after {run.position:,} "
            f"documents: {next(iter(errors_by_file.values()))}. Files written before still exist. {advice}"
        )
    return [*texts, MODEL, *([MIXTURES] if (run.folder / MIXTURES).is_file() else [])]


@app.command("infer")
def infer(
    model: Annotated[Path, typer.Argument(help="model.npz, or the folder of a run.")],
    text: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEXT…",
            help="Files, folders or globs as for CORPUS; - for standard input. Default: all documents of the "
            "run, in their order, which are only written to --out.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[Path | None, _option("Write all proportions to this file: .csv, .csv.gz or .npz.")] = None,
    format: Annotated[str | None, _option("The format of the text.", "detected")] = None,
    key: Annotated[
        str | None, _option("The key of the text in a JSON object, or its column in a table.", "text")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random numbers.")] = 0,
) -> None:
    """Apply a saved model to new text: the topics of each document, with their words and shares."""
    from fokker.models.lda.model import Model, top_words

    if not text:
        out = out or _folder_of_run(model) / _ALL_MIXTURES
    if out is not None:
        _check_name(out)
    loaded = Model.load(model)
    words = top_words(loaded.mean, _WORDS)
    topic_names = loaded.settings.topic_names
    topic_words = [" ".join(loaded.vocabulary.words[w] for w in topic) for topic in words]
    names: list[str] = []
    shares: list[np.ndarray] = []
    for source in text or [""]:
        corpus = (
            loaded.open(source, format=format, key=key or "text")
            if text
            else loaded.open_run(_folder_of_run(model))
        )
        for documents, mixtures in loaded.infer(corpus, seed=seed):
            for name, proportions in zip(documents.names, mixtures, strict=True) if text else ():
                _print(name)
                largest = (-proportions).argsort()[:_MAX_PRINTED_TOPICS]
                for k in [k for k in largest if proportions[k] >= _MIN_SHARE] or largest[:1]:
                    _print(f"  {proportions[k]:6.1%}  topic {topic_names[k]}: {topic_words[k]}")
            if out is not None:
                names += documents.names
                shares.append(mixtures)
        if summary := corpus.tally.sentence():
            errors.print(summary, markup=False, soft_wrap=True)
    if out is not None:
        _write_proportions(out, topic_names, names, shares)
        _print(f"wrote {out}")


@app.command("export")
def export(
    model: Annotated[Path, typer.Argument(help="The folder of a run.")],
    tool: Annotated[str, typer.Argument(help="pyldavis, mallet or gensim.")],
    out: Annotated[Path | None, _option("Folder for the files.", "RUN/TOOL")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random numbers.")] = 0,
) -> None:
    """Write files that other tools read, with the mixtures of all documents of the run."""
    from fokker.models.lda.export import TOOLS, Exported, write
    from fokker.models.lda.model import Model

    if tool not in TOOLS:
        raise ValueError(f"the tools are {', '.join(TOOLS)}, not {tool!r}.")
    loaded = Model.load(model)
    folder = _folder_of_run(model)
    corpus = loaded.open_run(folder)
    paths = write(Exported.of(loaded, corpus, seed), tool, out or folder / tool)
    if summary := corpus.tally.sentence():
        errors.print(summary, markup=False, soft_wrap=True)
    _print(f"wrote {', '.join(path.name for path in paths)} to {paths[0].parent}")


def _folder_of_run(model: Path) -> Path:
    return model if model.is_dir() else model.parent


def _check_name(path: Path) -> None:
    if not path.name.endswith((".csv", ".csv.gz", ".npz")):
        raise ValueError(f"--out {path}: give a file that ends in .csv, .csv.gz or .npz.")


def _write_proportions(
    path: Path, topics: "Sequence[str]", names: "list[str]", shares: "list[np.ndarray]"
) -> None:
    """Write one row per document, as a table or as arrays `documents` and `mixtures`."""
    import csv
    import gzip
    import io

    import numpy as np

    from fokker._core.files import write_atomically

    proportions = np.concatenate(shares)
    if path.suffix == ".npz":
        write_atomically(
            path, lambda file: np.savez_compressed(file, documents=np.array(names), mixtures=proportions)
        )
        return
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["document", *(f"topic {name}" for name in topics)])
    writer.writerows([name, *(f"{x:.4f}" for x in row)] for name, row in zip(names, proportions, strict=True))
    content = text.getvalue().encode("utf-8")
    write_atomically(
        path, lambda file: file.write(gzip.compress(content) if path.suffix == ".gz" else content)
    )
