"""The command `fokker lda`. Large modules are imported when a command runs."""

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from fokker.cli.console import show
from fokker.cli.help import Group
from fokker.cli.lda_infer import export, infer
from fokker.cli.lda_options import option, parsed, with_settings
from fokker.cli.lda_run import INTERRUPTED, execute, print_by_first_only, resumed, start
from fokker.cli.lda_trends import trends
from fokker.cli.options import Coordinator, Process, Processes
from fokker.models.declared import declared_in
from fokker.models.topics.reading import Reading
from fokker.models.topics.settings import DECLARED as SETTINGS
from fokker.models.topics.settings import Settings
from fokker.models.topics.wording import number_of_documents

READING = declared_in(Reading)

# The built-in corpus is small.
_BUILT_IN_TOPICS = 20
_OUT = Path("fokker-lda")


class DefaultToRun(Group):
    """A group that runs its command `run` if no command is named, and includes it in its help."""

    default = "run"

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert `run` if no command is named."""
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            if args and not os.path.exists(args[0]):
                near = difflib.get_close_matches(args[0], self.commands, n=1)
                if near:
                    raise ValueError(
                        f"there is no command and no corpus {args[0]!r}: did you mean fokker lda {near[0]}?"
                    )
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Both commands, then all options of `run`."""
        super().format_help(ctx, formatter)
        command = self.commands[self.default]
        with command.make_context(self.default, [], parent=ctx, resilient_parsing=True) as run_context:
            command.format_help(run_context, formatter)


app = typer.Typer(
    cls=DefaultToRun,
    help="Learn the topics of a stream of documents by stochastic-gradient MCMC.\n\n"
    "fokker lda [CORPUS] learns topics (short for fokker lda run), --topics 5,10,20 compares several numbers "
    "of them; fokker lda infer MODEL TEXT… applies them to new text; fokker lda trends RUN --by COLUMN shows "
    "them over time or by group; fokker lda export RUN TOOL writes files for other tools.",
    pretty_exceptions_enable=False,
)


app.command("infer")(infer)
app.command("export")(export)
app.command("trends")(trends)


@app.command("run")
@with_settings(SETTINGS, READING)
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
    *,
    vocab: Annotated[
        Path | None, option("A file with one word per line. Default: learned from the text.")
    ] = None,
    vocab_size: Annotated[int | None, option("The maximum size of a learned vocabulary.", "10000")] = None,
    out: Annotated[Path | None, option("Folder for the results and checkpoints.", _OUT)] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing run in the folder.")
    ] = False,
    resume: Annotated[
        Path | None, option("Continue the run or the runs in this folder, with their corpus and settings.")
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
        option("Passes over the corpus.", "2; 1 for 20,000 documents or more, and for standard input"),
    ] = None,
    forever: Annotated[bool, typer.Option("--forever", help="Repeat passes until Ctrl-C.")] = False,
    stop_words: Annotated[
        str | None,
        option(
            "Words to leave out: a language (english, german, french, …), a file with one word per line, or "
            "none.",
            "auto, those of the language of the text",
        ),
    ] = None,
    min_df: Annotated[
        str | None,
        option("Leave out words in fewer documents: a number, or a share such as 0.001.", "2"),
    ] = None,
    max_df: Annotated[
        str | None, option("Leave out words in more documents: a number, or a share.", "0.5")
    ] = None,
    no_mixtures: Annotated[
        bool, typer.Option("--no-mixtures", help="Do not write the mixtures of the documents.")
    ] = False,
    coordinator: Coordinator = None,
    processes: Processes = None,
    process: Process = None,
    **options: Any,
) -> None:
    """Learn topics, and write them with a report to a folder; Ctrl-C saves, --resume continues.

    The same command continues a run that has not ended, too. Exit code 1 if the topics are no better than the
    word frequencies.
    """
    from fokker.run.processes import join

    join(None, coordinator, processes, process)  # before JAX is used
    reading = parsed(options, READING)
    if corpus is not None:
        reading["corpus"] = corpus if corpus == "-" else os.path.abspath(corpus)
    settings = parsed(options, SETTINGS)
    numbers, threads = settings.pop("topics", ()), settings.pop("threads", None)
    if len(numbers) == 1:
        settings = {"topics": numbers[0], **settings}
    if forever and passes is not None:
        raise ValueError("--passes and --forever contradict each other: give one of them.")
    if overwrite and resume is not None:
        raise ValueError("--overwrite replaces a run and --resume continues it: give one of them.")
    if no_skip and resume is None:
        raise ValueError("--no-skip is for --resume FOLDER, which is not given.")
    from fokker.cli.folders import made_folder
    from fokker.cli.lda_sweep import SWEEP, Sweep, start_sweep
    from fokker.models.topics.together import of_all, own_folder
    from fokker.run.processes import by_first, is_first, together

    learning = _learning(
        resume is not None,
        {"--out": out, "--vocab": vocab},
        {
            "--vocab-size": ("maximum_words", vocab_size),
            "--stop-words": ("stop_words", stop_words),
            "--min-df": ("minimum_documents", _parse_limit("--min-df", min_df)),
            "--max-df": ("maximum_documents", _parse_limit("--max-df", max_df)),
        },
    )
    folder = resume or out or _OUT
    print_by_first_only()
    # Two runs in one folder would overwrite each other's files.
    made = folder if resume is None and is_first() else None
    with together(), made_folder(made, SWEEP), own_folder(folder):
        stored = by_first(lambda: Sweep.read(folder))
        if len(numbers) > 1 or (resume is not None and stored is not None):
            if forever or corpus == "-":
                raise of_all(
                    ValueError(
                        "several numbers of --topics need documents that can be read again, and an end: not "
                        f"{'--forever' if forever else 'standard input'}."
                    )
                )
            if no_skip:
                raise of_all(
                    ValueError("--no-skip is for a single run: those of several topics read it again.")
                )
            settings.pop("topics", None)
            sweep = Sweep(
                numbers,
                reading,
                settings,
                learning,
                None if vocab is None else os.path.abspath(vocab),
                "default" if passes is None else passes,
                not no_mixtures,
            )
            code = start_sweep(sweep, folder, stored, resume is not None, overwrite, threads)
        else:
            if stored is not None and not overwrite:
                raise of_all(
                    ValueError(
                        f"{folder} contains runs with several numbers of topics: add this one by --resume "
                        f"{folder} --topics {settings.get('topics', Settings.topics)}, or choose another "
                        "--out."
                    )
                )
            if corpus is None and resume is None:
                settings.setdefault("topics", _BUILT_IN_TOPICS)
            code = _single_run(
                folder,
                reading,
                settings,
                threads=threads,
                resume=resume is not None,
                overwrite=overwrite,
                skip=not no_skip,
                vocabulary=vocab,
                learning=learning,
                passes=None if forever else "default" if passes is None else passes,
                mixtures=not no_mixtures,
            )
    raise typer.Exit(code)


def _learning(
    is_resumed: bool, places: Mapping[str, Path | None], options: Mapping[str, tuple[str, Any]]
) -> dict[str, Any]:
    """The settings of a vocabulary that is learned; raise where options contradict each other.

    `places`: the values of --out and --vocab. `options`: by their names, those of `Vocabulary.learn`.
    """
    learning = {name: value for name, value in options.values() if value is not None}
    chosen = [option for option, (_, value) in options.items() if value is not None]
    if is_resumed and (new := [*(option for option, value in places.items() if value is not None), *chosen]):
        raise ValueError(
            f"{new[0]} cannot be used with --resume, which continues a run with its own settings."
        )
    if places["--vocab"] is not None and learning:
        raise ValueError(f"--vocab gives the words and {chosen[0]} learns them: give one of them.")
    return learning


def _single_run(
    folder: Path,
    reading: dict[str, Any],
    settings: dict[str, Any],
    *,
    threads: int | None,
    resume: bool,
    overwrite: bool,
    skip: bool,
    **new: Any,
) -> int:
    """The exit code of a run with one number of topics. `new`: further arguments of `start`."""
    from fokker.models.topics.starting import is_unfinished
    from fokker.models.topics.together import led_by_first

    passes = new["passes"]
    if resume or (not overwrite and is_unfinished(folder, Reading(**reading), Settings(**settings), passes)):
        run = resumed(folder, {**reading, **settings}, passes, new["mixtures"], threads)
        show(f"continuing after {number_of_documents(run.plan.position)} of {run.corpus.source.label}")
    else:
        started = start(reading, Settings(**settings, threads=threads), folder, overwrite=overwrite, **new)
        if started is None:
            return INTERRUPTED
        run = started
    return led_by_first(run, skip, lambda: execute(run, skip=skip))


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
