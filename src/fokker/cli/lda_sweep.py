"""Runs that differ in the number of topics: each in a folder of its own, compared in a table and a plot."""

import dataclasses
import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fokker._core.files import read_json, write_text
from fokker.cli.console import show
from fokker.cli.lda_run import INTERRUPTED, learn, resumed, start
from fokker.models.topics.files import CHECKPOINT, PREVIOUS, SUMMARY, folder_of
from fokker.models.topics.settings import Settings

if TYPE_CHECKING:
    from fokker.models.topics.run import TopicRun

SWEEP = "sweep.json"


@dataclass(frozen=True)
class Sweep:
    """The settings of runs with several numbers of topics, stored in their folder.

    `reading`, `settings`, `learning`: those that were given, by name. `passes`: their number, or "default".
    """

    topics: tuple[int, ...]
    reading: dict[str, Any]
    settings: dict[str, Any]
    learning: dict[str, Any]
    vocabulary: str | None
    passes: int | Literal["default"]
    mixtures: bool

    @staticmethod
    def read(folder: Path) -> "Sweep | None":
        """The sweep in a folder; None if there is none."""
        path = folder / SWEEP
        if not path.is_file():
            return None
        try:
            values = read_json(path)
            return Sweep(**values | {"topics": tuple(values["topics"])})
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{path} is damaged ({error}): start again with --overwrite.") from None

    def write(self, folder: Path) -> None:
        """Store the settings."""
        write_text(folder / SWEEP, json.dumps(dataclasses.asdict(self), indent=2) + "\n")

    def check_same(self, other: "Sweep", folder: Path) -> None:
        """Raise if another sweep, in this folder, has other settings; the numbers of topics may differ."""
        differences = [
            f"{name} was {_text(theirs.get(name))}, not {_text(ours.get(name))}"
            for ours, theirs in (
                (self.reading, other.reading),
                (self.settings, other.settings),
                (self.learning, other.learning),
                ({"vocabulary": self.vocabulary}, {"vocabulary": other.vocabulary}),
            )
            for name in sorted(ours.keys() | theirs.keys())
            if ours.get(name) != theirs.get(name)
        ]
        if differences:
            raise ValueError(
                f"{folder} has a sweep with other settings: {'; '.join(differences)}. Give the same ones to "
                "continue it, replace it with --overwrite, or choose another --out."
            )

    def execute(self, folder: Path, threads: int | None) -> int:
        """Make the runs that are not done, compare all, and return the exit code."""
        from fokker.cli.folders import made_folder
        from fokker.models.topics.comparison import compare
        from fokker.models.topics.together import led_by_first, own_folder
        from fokker.run.processes import by_first, is_first

        by_first(lambda: self.write(folder))
        is_interrupted = False
        for topics in self.topics:
            subfolder = folder_of(folder, topics)
            if by_first(partial(self._is_done, subfolder)):
                show(f"{topics} topics: done before, in {subfolder}")
                continue
            with made_folder(subfolder if is_first() else None), own_folder(subfolder):
                run = self._run(subfolder, topics, threads)
                is_interrupted = run is None or not led_by_first(run, True, partial(_is_learned, run))
            if is_interrupted:
                break
            # After each run: what is done so far can be looked at.
            by_first(lambda: compare(folder, self.topics))
        comparison = by_first(lambda: compare(folder, self.topics))
        if comparison is not None:
            show(comparison.text)
        if is_interrupted:
            show(f"interrupted; to continue: fokker lda --resume {folder}")
            return INTERRUPTED
        assert comparison is not None
        show(f"wrote {', '.join(comparison.file_names)} to {folder}; each run has a report of its own there")
        return 0 if comparison.is_useful else 1

    def _is_done(self, folder: Path) -> bool:
        from fokker.models.topics.summary import RunSummary

        summary = RunSummary.read(folder)
        return summary is not None and summary.is_complete and self.passes in ("default", summary.passes)

    def _run(self, folder: Path, topics: int, threads: int | None) -> "TopicRun | None":
        """The run with this number of topics, new or at its checkpoint; None after an interruption."""
        from fokker.run.processes import by_first

        if by_first(lambda: any((folder / name).exists() for name in (CHECKPOINT, PREVIOUS))):
            run = resumed(folder, {}, self.passes, self.mixtures, threads)
            show(f"{topics} topics: continuing after {run.plan.position:,} documents")
            return run
        return start(
            self.reading,
            Settings(**self.settings, topics=topics, threads=threads),
            folder,
            vocabulary=self.vocabulary,
            learning=self.learning,
            passes=self.passes,
            mixtures=self.mixtures,
            overwrite=True,
        )


def _is_learned(run: "TopicRun") -> bool:
    return learn(run) is not None and not run.interrupted


def start_sweep(
    sweep: Sweep, folder: Path, stored: Sweep | None, resume: bool, overwrite: bool, threads: int | None
) -> int:
    """Execute a sweep; `stored`: the one that the folder has, which it continues unless `overwrite`.

    With `resume`, settings that are not given are those of the stored one, and numbers of topics are added.
    """
    from fokker.run.processes import by_first

    sweep = by_first(lambda: _prepared(sweep, folder, stored, resume, overwrite))
    return sweep.execute(folder, threads)


def _prepared(sweep: Sweep, folder: Path, stored: Sweep | None, resume: bool, overwrite: bool) -> Sweep:
    """The sweep with what is taken over from the stored one, whose runs are removed with `overwrite`."""
    if any((folder / name).exists() for name in (CHECKPOINT, PREVIOUS)) and not overwrite:
        raise ValueError(
            f"{folder} contains a single run: choose another --out for several numbers of topics."
        )
    if stored is None and resume:
        raise ValueError(f"{folder} has no {SWEEP}: there is nothing to resume. Give the corpus and --out.")
    if stored is not None and not overwrite:
        if resume:
            sweep = dataclasses.replace(
                stored,
                topics=sweep.topics,
                reading=stored.reading | sweep.reading,
                settings=stored.settings | sweep.settings,
                passes=stored.passes if sweep.passes == "default" else sweep.passes,
                mixtures=stored.mixtures and sweep.mixtures,
            )
        sweep.check_same(stored, folder)
        sweep = dataclasses.replace(sweep, topics=tuple(sorted({*stored.topics, *sweep.topics})))
    elif stored is not None:
        for topics in stored.topics:
            for name in (CHECKPOINT, PREVIOUS, SUMMARY):
                (folder_of(folder, topics) / name).unlink(missing_ok=True)
    return sweep


def _text(value: object) -> str:
    return "the default" if value is None else repr(value)
