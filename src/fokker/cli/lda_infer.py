"""The commands `fokker lda infer` and `fokker lda export`, which apply a saved model."""

from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fokker.cli.console import show, show_error
from fokker.cli.flags import CommandError, translated
from fokker.cli.lda_options import option
from fokker.cli.options import Seed

if TYPE_CHECKING:
    import numpy as np

    from fokker.models.topics.model import TopicModel

# `infer` prints at most this many topics per document, of at least this share, with this many words.
_MAX_PRINTED_TOPICS, _MIN_SHARE, _WORDS = 4, 0.05, 6
_KEY = (
    "The key of the text in a JSON object, or its column in a table: its name, or in a CSV file without a "
    "header its number, from 1."
)
# The mixtures of all documents of a run, in their order.
_ALL_MIXTURES = "all-mixtures.csv.gz"


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
    out: Annotated[Path | None, option("Write all proportions to this file: .csv, .csv.gz or .npz.")] = None,
    format: Annotated[str | None, option("The format of the text.", "detected")] = None,
    key: Annotated[str | None, option(_KEY, "text")] = None,
    seed: Seed = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file of --out.")] = False,
) -> None:
    """Apply a saved model to new text: the topics of each document, with their words and shares."""
    from fokker._core.paths import as_file
    from fokker.cli.folders import check_not_replaced
    from fokker.models.topics.model import TopicModel
    from fokker.run.progress import Progress

    if out is not None:  # before the work, not after it
        _check_name(as_file(out, "out"))
        check_not_replaced(out, overwrite)
    if not text:
        if format is not None or key is not None:
            raise CommandError("--format and --key are of TEXT…, which is not given: leave them out.")
        out = out or _folder_of_run(model) / _ALL_MIXTURES
    loaded = TopicModel.load(model)
    topics = _in_words(loaded)
    names: list[str] = []
    lengths: list[np.ndarray] = []
    shares: list[np.ndarray] = []
    for source in text or [""]:
        corpus = (
            loaded.open(source, format=format, key=key or "text")
            if text
            else loaded.open_run(_folder_of_run(model))
        )
        # Without a file to be written before, documents are printed as they come: that is the progress.
        with Progress("inferring mixtures", corpus.size, unit="documents", enabled=bool(out)) as progress:
            for documents, mixtures in loaded.infer(corpus, seed=seed):
                if out is None:
                    _print_topics(topics, documents.names, documents.lengths, mixtures)
                    continue
                names += documents.names
                lengths.append(documents.lengths)
                shares.append(mixtures)
                progress.update(len(names))
        if summary := corpus.tally.sentence():
            show_error(translated(summary))
    if out is not None:
        _write_proportions(out, loaded.settings.topic_names, names, shares)
        if text:
            _print_topics(topics, names, chain.from_iterable(lengths), chain.from_iterable(shares))
    repeat_problems(_folder_of_run(model))
    if out is not None:
        show(f"wrote {out}")


def export(
    model: Annotated[Path, typer.Argument(help="The folder of a run.")],
    tool: Annotated[str, typer.Argument(help="pyldavis, mallet or gensim.")],
    out: Annotated[Path | None, option("Folder for the files.", "RUN/TOOL")] = None,
    seed: Seed = 0,
) -> None:
    """Write files that other tools read, with the mixtures of all documents of the run."""
    from fokker.cli.folders import made_folder
    from fokker.models.topics.export import TOOLS, Exported, write
    from fokker.models.topics.model import TopicModel
    from fokker.run.progress import Progress

    if tool not in TOOLS:
        raise ValueError(f"the tools are {', '.join(TOOLS)}, not {tool!r}.")
    loaded = TopicModel.load(model)
    folder = _folder_of_run(model)
    corpus, target = loaded.open_run(folder), out or folder / tool
    with made_folder(target), Progress("inferring mixtures", corpus.size, unit="documents") as progress:
        exported = Exported.of(loaded, corpus, seed, progress.update)
        progress.start_part(f"writing files for {tool}", unit=None)
        paths = write(exported, tool, target)
    if summary := corpus.tally.sentence():
        show_error(translated(summary))
    repeat_problems(folder)
    show(f"wrote {', '.join(path.name for path in paths)} to {paths[0].parent}")


def _in_words(model: "TopicModel") -> list[str]:
    """Each topic with its most probable words."""
    from fokker.models.topics.model import top_words

    return [
        f"topic {name}: {' '.join(model.vocabulary.words[w] for w in words)}"
        for name, words in zip(model.settings.topic_names, top_words(model.mean, _WORDS), strict=True)
    ]


def _print_topics(
    topics: Sequence[str],
    names: Sequence[str],
    lengths: "Iterable[np.integer]",
    mixtures: "Iterable[np.ndarray]",
) -> None:
    """Print the largest topics of each document, with its number of known words; `topics`: each in words."""
    from fokker._core.digits import percent  # with NumPy, which the command line starts without

    for name, length, proportions in zip(names, lengths, mixtures, strict=True):
        show(f"{name} ({length:,} known word{'' if length == 1 else 's'})")
        largest = (-proportions).argsort()[:_MAX_PRINTED_TOPICS]
        for k in [k for k in largest if proportions[k] >= _MIN_SHARE] or largest[:1]:
            show(f"  {percent(proportions[k], 1):>7}  {topics[k]}")


def _folder_of_run(model: Path) -> Path:
    return model if model.is_dir() else model.parent


def _check_name(path: Path) -> None:
    if not path.name.endswith((".csv", ".csv.gz", ".npz")):
        raise ValueError(f"--out {path}: give a file that ends in .csv, .csv.gz or .npz.")


def _write_proportions(
    path: Path, topics: Sequence[str], names: list[str], shares: "list[np.ndarray]"
) -> None:
    """Write one row per document, as a table or as arrays `documents` and `mixtures`."""
    import gzip

    import numpy as np

    from fokker._core.files import write_atomically
    from fokker.models.topics.files import csv_text

    proportions = np.concatenate(shares)
    if path.suffix == ".npz":
        write_atomically(
            path, lambda file: np.savez_compressed(file, documents=np.array(names), mixtures=proportions)
        )
        return
    rows = ([name, *(f"{x:.4f}" for x in row)] for name, row in zip(names, proportions, strict=True))
    content = csv_text(["document", *(f"topic {name}" for name in topics)], rows).encode("utf-8")
    write_atomically(
        path, lambda file: file.write(gzip.compress(content) if path.suffix == ".gz" else content)
    )


def repeat_problems(folder: Path) -> None:
    """Repeat what the verdict of a run warned of, beside results that come from its topics."""
    from fokker.models.topics.summary import RunSummary

    summary = RunSummary.read(folder)
    for problem in () if summary is None else summary.problems:
        show_error(f"The run warned: {problem}", "red")
