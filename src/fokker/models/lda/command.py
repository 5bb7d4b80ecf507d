"""The command `fokker lda`. What is heavy is imported when a command runs."""

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from fokker.models.lda.settings import ENGINES, SAMPLERS, Settings

if TYPE_CHECKING:
    import numpy as np

    from fokker.models.lda.model import Model
    from fokker.models.lda.results import Findings
    from fokker.models.lda.run import Run

console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)

_DEFAULTS = Settings()
# The corpus that is built in is small: fewer topics, more often read.
_BUILT_IN_TOPICS, _BUILT_IN_PASSES = 20, 10
_OUT = Path("fokker-lda")
# Topics of a document that `infer` prints at the most, the least share of one, and words of each.
_PRINTED, _LEAST_SHARE, _WORDS = 4, 0.05, 6
# Topics that a run prints at its end, the most prevalent.
_LISTED = 10
# The exit code of a program that Ctrl-C ended.
_NOTHING_YET = "interrupted before the first step: there is nothing to save."
_INTERRUPTED = 130


class RunUnlessNamed(TyperGroup):
    """A group that runs its command `run` where no command is named, and whose help shows it whole."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put in the command that is meant."""
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = ["run", *args]
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Both commands, then all that the first one can be told."""
        super().format_help(ctx, formatter)
        command = self.commands["run"]
        with command.make_context("run", [], parent=ctx, resilient_parsing=True) as below:
            command.format_help(below, formatter)


app = typer.Typer(
    cls=RunUnlessNamed,
    help="Topics of a stream of documents by stochastic-gradient MCMC.\n\n"
    "fokker lda [CORPUS] learns topics (it is short for fokker lda run); fokker lda infer MODEL TEXT… "
    "applies them to new text.",
    pretty_exceptions_enable=False,
)


def _option(help: str, default: object = None, **more: Any) -> Any:
    """An option that is None unless it was given: a resume must know. The help tells the default."""
    return typer.Option(help=help, show_default=False if default is None else str(default), **more)


@app.command("run")
def run(
    corpus: Annotated[
        str | None,
        typer.Argument(
            metavar="CORPUS",
            help="A file, folder or glob (see docs/corpora.md), or - for standard input; the docstrings of "
            "this Python if absent.",
            show_default=False,
        ),
    ] = None,
    topics: Annotated[
        int | None,
        _option("K.", f"{_DEFAULTS.topics}; {_BUILT_IN_TOPICS} of the built-in corpus"),
    ] = None,
    sampler: Annotated[str | None, _option(f"{', '.join(SAMPLERS)}.", _DEFAULTS.sampler)] = None,
    batch: Annotated[int | None, _option("Documents a step.", _DEFAULTS.batch)] = None,
    vocab: Annotated[
        Path | None, _option("A file of one word a line. Learned from the text if absent.")
    ] = None,
    vocab_size: Annotated[
        int | None, _option("The most words of a vocabulary that is learned.", "10000")
    ] = None,
    out: Annotated[Path | None, _option("Folder for the results and checkpoints.", _OUT)] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Give up a run that is in that folder.")
    ] = False,
    resume: Annotated[
        Path | None, _option("Go on with the run of this folder; it knows its corpus and settings.")
    ] = None,
    no_skip: Annotated[
        bool,
        typer.Option(
            "--no-skip",
            help="With --resume: the stream goes on where it was left, as a live one does; it is not given "
            "again from its beginning.",
        ),
    ] = False,
    passes: Annotated[
        int | None, _option("Passes over the corpus.", f"1; {_BUILT_IN_PASSES} over the built-in corpus")
    ] = None,
    forever: Annotated[bool, typer.Option("--forever", help="Pass after pass, until Ctrl-C.")] = False,
    total: Annotated[
        str | None,
        _option(
            "|S|, the number of documents that a minibatch stands for; 'growing': those seen so far.",
            "counted where that is quick, else growing",
        ),
    ] = None,
    alpha: Annotated[
        float | None, _option("Prior of the topics' words, θ ~ Gamma(α, 1).", _DEFAULTS.alpha)
    ] = None,
    gamma: Annotated[
        float | None, _option("Prior of the documents' mixtures, π ~ Dirichlet(γ).", _DEFAULTS.gamma)
    ] = None,
    step: Annotated[
        float | None, _option("The first step size; it decays.", "by the size of the corpus")
    ] = None,
    friction: Annotated[float | None, _option("Of sghmc and sgrhmc.", "by the size of the corpus")] = None,
    learn_gamma: Annotated[
        bool | None, typer.Option("--learn-gamma", help="Learn γ, a number a topic, from there on.")
    ] = None,
    engine: Annotated[
        str | None, _option(f"Of the sweeps: {', '.join(ENGINES)}; jax is for a GPU.", _DEFAULTS.engine)
    ] = None,
    sweeps: Annotated[int | None, _option("Gibbs sweeps over a document.", _DEFAULTS.sweeps)] = None,
    burn_in: Annotated[int | None, _option("Those of them that are not counted.", _DEFAULTS.burn_in)] = None,
    threads: Annotated[int | None, _option("Processors; they do not change the result.", "all")] = None,
    seed: Annotated[int | None, _option("Seed of the random numbers.", _DEFAULTS.seed)] = None,
    held_out: Annotated[
        int | None,
        _option("Documents kept for evaluation.", "a tenth, at most 1000; 100 of standard input"),
    ] = None,
    minimum_tokens: Annotated[
        int | None, _option("Known words below which a document is left out.", 1)
    ] = None,
    format: Annotated[str | None, _option("How to read the corpus.", "seen from it")] = None,
    key: Annotated[str | None, _option("Where a JSON object has its text.", "text")] = None,
    pattern: Annotated[
        str | None, _option("A regular expression for words.", "of the letters a to z")
    ] = None,
    shuffle_buffer: Annotated[
        int | None,
        _option("Mix the order through so many documents; 0: as it is.", "5000; 0 of standard input"),
    ] = None,
    no_mixtures: Annotated[
        bool, typer.Option("--no-mixtures", help="Do not write the documents' mixtures.")
    ] = False,
) -> None:
    """Learn topics, and write them with a report into a folder; Ctrl-C saves, --resume goes on.

    Exit code 1 if the topics are no better than the words' frequencies.
    """
    about_reading = {
        "corpus": corpus if corpus in (None, "-") else os.path.abspath(str(corpus)),
        "format": format,
        "key": key,
        "pattern": pattern,
        "minimum_tokens": minimum_tokens,
        "shuffle_buffer": shuffle_buffer,
        "held_out": held_out,
    }
    about_sampling = {
        "topics": topics,
        "sampler": sampler,
        "batch": batch,
        "alpha": alpha,
        "gamma": gamma,
        "step": step,
        "friction": friction,
        "learn_gamma": learn_gamma,
        "engine": engine,
        "sweeps": sweeps,
        "burn_in": burn_in,
        "seed": seed,
        "total": _parse_total(total),
    }
    reading, settings = _given(about_reading), _given(about_sampling)
    if forever and passes is not None:
        raise ValueError("--passes and --forever contradict each other: give one of them.")
    from fokker.models.lda.run import Reading, Run, learned
    from fokker.run.interruption import Interruption

    if resume is not None:
        for name, value in (("--out", out), ("--vocab", vocab), ("--vocab-size", vocab_size)):
            if value is not None:
                raise ValueError(
                    f"{name} does not go with --resume, which goes on in its folder as it was begun."
                )
        this = Run.resume(
            resume,
            {**reading, **settings},
            passes=None if forever else "as before" if passes is None else passes,
            mixtures=not no_mixtures,
            threads=threads,
            say=lambda text: errors.print(text, markup=False, soft_wrap=True),
        )
        _say(f"going on after {this.position:,} documents of {this.corpus.source.label}")
    else:
        if vocab is not None and vocab_size is not None:
            raise ValueError("--vocab gives the words and --vocab-size learns them: give one of them.")
        if corpus is None:
            settings.setdefault("topics", _BUILT_IN_TOPICS)
            passes = _BUILT_IN_PASSES if passes is None else passes
        chosen = Settings(**settings, threads=threads)
        # An exception that comes while a library is at work may be lost in it: the wish is noted instead.
        with Interruption() as interruption:
            this = Run.begin(
                Reading(**reading),
                chosen,
                out or _OUT,
                vocabulary=vocab if vocab_size is None else learned(vocab_size),
                passes=None if forever else 1 if passes is None else passes,
                mixtures=not no_mixtures,
                overwrite=overwrite,
            )
        if interruption.asked:
            _say(_NOTHING_YET)
            raise typer.Exit(_INTERRUPTED)
        _say(_beginning(this))
    raise typer.Exit(_carry_out(this, skip=not no_skip))


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _parse_total(text: str | None) -> int | str | None:
    if text is None or text == "growing":
        return text
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"--total is a number of documents, or 'growing'; {text!r} was given.") from None


def _say(text: str) -> None:
    console.print(text, markup=False, soft_wrap=True)


def _beginning(run: "Run") -> str:
    settings = run.settings
    size = "" if run.length is None else f"{run.length:,} documents, "
    total = "growing with those seen" if run.length is None else f"{run.total(1):,.0f}"
    total = total if settings.total is None else str(settings.total)
    return (
        f"{run.corpus.source.label}: {size}{len(run.corpus.vocabulary):,} words; {settings.topics} topics by "
        f"{settings.sampler}, {settings.batch} documents a step, |S| {total}, "
        f"{run.reading.held_out:,} documents held out; writing to {run.folder}"
    )


def _carry_out(run: "Run", skip: bool) -> int:
    """Step to the end, write the results, and return the exit code."""
    from fokker.models.lda.progress import RunProgress
    from fokker.models.lda.results import by_prevalence, find

    with RunProgress(run, console) as progress:
        run.go(progress, skip=skip)
    again = f"fokker lda --resume {run.folder}"
    if not run.trained:
        _say(_NOTHING_YET)
        return _INTERRUPTED
    if told := run.tally.sentence():
        _say(told)
    model, findings = find(run)
    written = _write(run, model, findings, again)
    for topic in by_prevalence(findings.topics)[:_LISTED]:
        _say(f"topic {topic.number}: {' '.join(topic.words[:10])}")
    for worry in findings.worries:
        console.print(worry, style="red", markup=False, soft_wrap=True)
    for note in findings.notes:
        _say(note)
    if run.dropped_mixtures:
        _say(f"the mixtures of {run.dropped_mixtures:,} documents are missing: there was no room for them.")
    _say(f"{run.trained:,} documents in {run.seconds:.1f} s; wrote {', '.join(written)} to {run.folder}")
    if run.interrupted:
        _say(f"interrupted; to go on: {again}")
        return _INTERRUPTED
    return 0 if findings.perplexity < findings.unigram else 1


def _write(run: "Run", model: "Model", findings: "Findings", again: str) -> list[str]:
    """Write the results, each for itself, so that what there is room for is written; return their names."""
    from fokker.models.lda.files import CHECKPOINT, write_text
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
    failed: dict[str, OSError] = {}
    for name, write in writers.items():
        try:
            write()
        except OSError as error:
            failed[name] = error
    if failed:
        advice = (
            "There is no checkpoint: begin again where there is room (--out)."
            if run.saved_at is None
            else f"The checkpoint there is of {run.saved_at:,} documents: make room, then: {again}"
        )
        raise OSError(
            f"{', '.join(failed)} could not be written to {run.folder} after {run.position:,} documents: "
            f"{next(iter(failed.values()))}. What was written before is still there. {advice}"
        )
    return [*texts, MODEL, *([MIXTURES] if (run.folder / MIXTURES).is_file() else [])]


@app.command("infer")
def infer(
    model: Annotated[Path, typer.Argument(help="model.npz, or the folder of a run.")],
    text: Annotated[
        list[str],
        typer.Argument(metavar="TEXT…", help="Files, folders or globs as for CORPUS; - for standard input."),
    ],
    out: Annotated[Path | None, _option("Write all proportions to this file: .csv, .csv.gz or .npz.")] = None,
    format: Annotated[str | None, _option("How to read the text.", "seen from it")] = None,
    key: Annotated[str | None, _option("Where a JSON object has its text.", "text")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random numbers.")] = 0,
) -> None:
    """Apply a saved model to new text: the topics of each document, with their words and shares."""
    from fokker.models.lda.model import Model, top_words

    if out is not None:
        _check_name(out)
    loaded = Model.load(model)
    words = top_words(loaded.mean, _WORDS)
    named = [" ".join(loaded.vocabulary.words[w] for w in topic) for topic in words]
    names: list[str] = []
    shares: list[np.ndarray] = []
    for source in text:
        corpus = loaded.open(source, format=format, key=key or "text")
        for documents, found in loaded.infer(corpus, seed=seed):
            for name, proportions in zip(documents.names, found, strict=True):
                _say(name)
                best = (-proportions).argsort()[:_PRINTED]
                for k in [k for k in best if proportions[k] >= _LEAST_SHARE] or best[:1]:
                    _say(f"  {proportions[k]:6.1%}  topic {k}: {named[k]}")
            if out is not None:
                names += documents.names
                shares.append(found)
        if told := corpus.tally.sentence():
            errors.print(told, markup=False, soft_wrap=True)
    if out is not None:
        _write_proportions(out, names, shares)
        _say(f"wrote {out}")


def _check_name(path: Path) -> None:
    if not path.name.endswith((".csv", ".csv.gz", ".npz")):
        raise ValueError(f"--out {path}: give a file that ends in .csv, .csv.gz or .npz.")


def _write_proportions(path: Path, names: "list[str]", shares: "list[np.ndarray]") -> None:
    """A row a document, as a table or as arrays `documents` and `mixtures`."""
    import csv
    import gzip
    import io

    import numpy as np

    from fokker.models.lda.files import write_whole

    proportions = np.concatenate(shares)
    if path.suffix == ".npz":
        write_whole(
            path, lambda file: np.savez_compressed(file, documents=np.array(names), mixtures=proportions)
        )
        return
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["document", *(f"topic {k}" for k in range(proportions.shape[1]))])
    writer.writerows([name, *(f"{x:.4f}" for x in row)] for name, row in zip(names, proportions, strict=True))
    content = text.getvalue().encode("utf-8")
    write_whole(path, lambda file: file.write(gzip.compress(content) if path.suffix == ".gz" else content))
