"""Damage the files of runs one at a time, by a flipped bit or by an end cut off, and read them or go on.

A third of them are replaced as a whole, by a file of another run, of an earlier time or of another place.

All in one process. A damaged file must be refused by its name, or the checkpoint before it must be used with
a warning that names the file, or the draws must be those of the run that was never damaged.
"""

import contextlib
import dataclasses
import gzip
import io
import os
import random
import sys
import tempfile
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import fokker as fk
import fokker.models.topics.run as lda
import fokker.models.topics.starting as starting
import fokker.run.recording as recording
from fokker import cli
from fokker.models.topics.files import PARTIAL_MIXTURES
from fokker.models.topics.model import MODEL, TopicModel
from fokker.models.topics.settings import Settings
from fokker.run import journal, store

Arrays = Mapping[str, np.ndarray]
# One damage in this many cuts a file short, one in this many puts another file there; the others flip a bit.
_CUT, _SWAP = 5, 3
_NOT_READ = (".lock",)


class Case(NamedTuple):
    """A folder with a run in it, and what is done with it: it gives arrays, and warnings.

    `expected`: what it gives undamaged. `before`: what it gives from the checkpoint before the last, where
    that is not the same. `others`: the files of other runs and of earlier times.
    """

    name: str
    files: Mapping[Path, bytes]
    use: Callable[[Path], tuple[Arrays, list[str]]]
    expected: Arrays
    before: Arrays | None = None
    others: tuple[Mapping[Path, bytes], ...] = ()

    def swapped(self, path: Path, generator: random.Random) -> bytes | None:
        """What is put in the place of a file: the same one of elsewhere, or another one of its kind."""
        sources = [files[path] for files in self.others if path in files]
        sources += [x for other, x in self.files.items() if other.suffix == path.suffix and other != path]
        sources = [x for x in sources if x != self.files[path]]
        return generator.choice(sources) if sources and self.others else None


def contents_of(folder: Path) -> dict[Path, bytes]:
    """The files of a folder, by their relative names."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in _NOT_READ]
    return {path.relative_to(folder): path.read_bytes() for path in paths}


def restore(folder: Path, files: Mapping[Path, bytes]) -> None:
    """Make a folder have these files; those that are right already are not written."""
    for path, contents in contents_of(folder).items():
        if path not in files:
            (folder / path).unlink()
        elif contents == files[path]:
            continue
        else:
            (folder / path).write_bytes(files[path])
    for path in files:
        if not (folder / path).exists():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(files[path])


@contextlib.contextmanager
def _often() -> Iterator[None]:
    """A checkpoint after each block or minibatch, and chunks of few draws; nothing waits for the disk."""
    changes: dict[tuple[Any, str], Any] = {
        (os, "fsync"): lambda descriptor: None,
        (store, "_CHUNK"): 20 * 2 * 2 * 4,
        (recording, "_COMMIT_SECONDS"): 0.0,
        (recording, "_COMMIT_TIMES"): 0,
        (journal, "_SECONDS"): 0.0,
        (lda, "_MIN_SECONDS_BETWEEN_SAVES"): 0.0,
        (lda, "_SAVE_TIMES_BETWEEN_SAVES"): 0.0,
    }
    before = {place: getattr(*place) for place in changes}
    for (module, name), value in changes.items():
        setattr(module, name, value)
    try:
        yield
    finally:
        for (module, name), value in before.items():
            setattr(module, name, value)


class _Killed(BaseException):
    """Ends a run where it stands, as a kill does: nothing is written after it."""


@contextlib.contextmanager
def _killed_at(owner: Any, method: str, call: int) -> Iterator[None]:
    """End a run before the given call of a method."""
    right, calls = getattr(owner, method), [0]

    def counted(*arguments: Any, **options: Any) -> Any:
        calls[0] += 1
        if calls[0] >= call:
            raise _Killed
        return right(*arguments, **options)

    setattr(owner, method, counted)
    try:
        with contextlib.suppress(_Killed):
            yield
    finally:
        setattr(owner, method, right)
    if calls[0] < call:
        raise AssertionError(f"{method} was called {calls[0]} times only")


def _of_trace(trace: Any) -> Arrays:
    parts = {"draws": trace.draws, "statistics": trace.sample_stats, "moments": trace.moments}
    leaves = jax.tree.leaves_with_path(parts)
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def _warned(use: Callable[[], Any]) -> tuple[Any, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = use()
    return result, [str(warning.message) for warning in caught]


def sample_cases(folder: Path) -> Iterator[Case]:
    """Runs of `fk.sample`: with draws, with moments, and in warm-up; killed and finished."""
    target = fk.Density(lambda theta: -jnp.sum(theta["a"] ** 2) / 2 - theta["b"] ** 2)
    common = {"init": {"a": jnp.zeros(2), "b": jnp.ones(())}, "chains": 2, "progress": False, "chunk": 20}
    sghmc = fk.samplers.sghmc(0.1)
    kinds: dict[str, tuple[Any, dict[str, Any]]] = {
        "draws": (sghmc, {"steps": 120, "burn_in": 7, "thin": 2}),
        "moments": (sghmc, {"steps": 120, "keep": "moments"}),
        "nuts": ("nuts", {"steps": 80, "warm_up": 200}),
    }
    for name, (sampler, options) in kinds.items():

        def run(out: Path, sampler: Any = sampler, options: dict[str, Any] = options, **changes: Any) -> Any:
            return fk.sample(target, sampler, out=out, **{**common, **options, **changes})

        def go_on(out: Path, run: Callable[[Path], Any] = run) -> tuple[Arrays, list[str]]:
            return _warned(lambda: _of_trace(run(out)))

        whole, killed = folder / f"{name}-whole", folder / f"{name}-killed"
        expected = _of_trace(run(whole))
        with _killed_at(store.Store, "commit", 4):
            run(killed)
        files = contents_of(killed)
        run(folder / f"{name}-other", seed=1)
        others = (files, contents_of(whole), contents_of(folder / f"{name}-other"))
        for state, out in (("finished", whole), ("killed", killed)):
            stored = contents_of(out)
            newest = _opened(out)[0]
            (out / store.CHECKPOINT).unlink()
            yield Case(f"{name}, {state}, opened", stored, _opened, newest, _opened(out)[0], others)
        yield Case(f"{name}, killed, gone on with", files, go_on, expected, others=others)
        if name == "nuts":
            in_warm_up = folder / f"{name}-warm-up"
            with _killed_at(journal, "write_arrays", 3):
                run(in_warm_up)
            with _killed_at(journal, "write_arrays", 3):
                run(folder / f"{name}-other-warm-up", seed=1)
            others = (contents_of(folder / f"{name}-other-warm-up"),)
            in_journal = contents_of(in_warm_up)
            yield Case(f"{name}, killed in warm-up, gone on with", in_journal, go_on, expected, None, others)


def _opened(out: Path) -> tuple[Arrays, list[str]]:
    return _warned(lambda: _of_trace(fk.open(out)))


class _Silent:
    """Receives the progress of a run of topics, and keeps what is said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def update(self, run: lda.Run) -> None:
        """Called after each minibatch."""

    def show(self, description: str, completed: int, total: int, unit: str) -> None:
        """Called during work besides the minibatches."""

    def notify(self, text: str) -> None:
        """Called with messages to the user."""
        self.said.append(text)


def _of_topics(run: lda.Run) -> Arrays:
    with gzip.open(run.folder / PARTIAL_MIXTURES) as file:
        mixtures = np.frombuffer(file.read(), np.uint8)
    return {
        **{f"chain {name}": np.array(x) for name, x in run.training.chain.state().items()},
        **{f"draws {name}": np.array(x) for name, x in run.training.draws.state().items()},
        "perplexity": np.array([(e.documents, e.of_draw, e.of_average) for e in run.training.curve.points]),
        "word counts": run.training.word_counts,
        "mixtures": mixtures,
    }


def _go_on_with_topics(folder: Path) -> tuple[Arrays, list[str]]:
    watcher = _Silent()
    run = starting.resume_run(folder, {}, threads=1, notify=watcher.notify)
    run.execute(watcher)
    return _of_topics(run), watcher.said


def _model(folder: Path) -> tuple[Arrays, list[str]]:
    model = TopicModel.load(folder)
    return {name: np.asarray(x) for name, x in vars(model).items() if isinstance(x, np.ndarray)}, []


def topic_cases(folder: Path) -> Iterator[Case]:
    """Runs of `fokker lda`: killed and gone on with, and finished."""
    generator = np.random.default_rng(1)
    words = [f"word{letter}" for letter in "abcdefghijklmnopqrst"]
    corpus = folder / "corpus.txt"
    lines = [" ".join(generator.choice(words[5 * (i % 4) : 5 * (i % 4) + 5], 12)) for i in range(60)]
    corpus.write_text("\n".join(lines) + "\n")
    (folder / "words.txt").write_text("\n".join(words) + "\n")
    settings = Settings(topics=4, batch=10, sweeps=4, burn_in=2, threads=1, start_documents=15)

    def begin(out: Path, settings: Settings = settings) -> lda.Run:
        return starting.start_run(
            lda.Reading(str(corpus)), settings, out, vocabulary=folder / "words.txt", passes=3
        )

    whole, killed = folder / "topics-whole", folder / "topics-killed"
    run = begin(whole)
    run.execute(_Silent())
    expected = _of_topics(run)
    with _killed_at(lda.Run, "save", 16):
        begin(killed).execute(_Silent())
    begin(folder / "topics-other", dataclasses.replace(settings, seed=1)).execute(_Silent())
    others = tuple(contents_of(out) for out in (killed, whole, folder / "topics-other"))
    for state, out in (("killed", killed), ("finished", whole)):
        files = contents_of(out)
        yield Case(f"topics, {state}, gone on with", files, _go_on_with_topics, expected, None, others)
    command = folder / "topics-command"
    before, sys.argv = sys.argv, ["fokker", "lda", str(corpus), "--topics", "4", "--out", str(command)]
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
            cli.main()
    finally:
        sys.argv = before
    models = {path: contents for path, contents in contents_of(command).items() if path.name == MODEL}
    yield Case("topics, finished, model read", models, _model, _model(command)[0])


def damaged(contents: bytes, generator: random.Random) -> bytes:
    """The same file with a bit flipped, or cut short."""
    place = generator.randrange(len(contents))
    if not generator.randrange(_CUT):
        return contents[:place]
    return contents[:place] + bytes([contents[place] ^ 1 << generator.randrange(8)]) + contents[place + 1 :]


def names_it(text: str, folder: Path, path: Path) -> bool:
    """Whether a message names a file, or a folder within the run that it is in."""
    within = [path, *path.parents][:-1]
    return any(str(folder / part) in text for part in within)


def outcome(case: Case, folder: Path, path: Path) -> tuple[str, str]:
    """What became of a damaged file: "refused", "fell back" or "same"; or "WRONG", and why."""
    try:
        arrays, said = case.use(folder)
    except (ValueError, FileNotFoundError) as error:
        return ("refused", "") if names_it(str(error), folder, path) else ("WRONG", f"not named: {error!r}")
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        # A file for other programs, whose own checksum they compare.
        is_for_others = path.name == PARTIAL_MIXTURES
        return ("refused", "") if is_for_others else ("WRONG", repr(error))
    except Exception as error:
        return "WRONG", repr(error)
    has_fallen_back = any(names_it(text, folder, path) for text in said)
    expected = case.before if has_fallen_back and case.before is not None else case.expected
    if arrays.keys() != expected.keys():
        return "WRONG", f"other variables: {sorted(arrays)}"
    wrong = [name for name, x in expected.items() if not np.array_equal(x, arrays[name])]
    if wrong:
        return "WRONG", f"other values of {wrong}"
    return ("fell back" if has_fallen_back else "same"), ""


def flip(count: int, seed: int) -> tuple[str, bool]:
    """Damage files so many times; what happened, and whether anything was wrong."""
    generator = random.Random(f"flips {seed}")
    seen: Counter[str] = Counter()
    wrong: list[str] = []
    swaps = 0
    with tempfile.TemporaryDirectory() as parent, _often():
        cases = [*sample_cases(Path(parent)), *topic_cases(Path(parent))]
        folder = Path(parent, "run")
        for case in cases:  # without damage each gives what is expected: otherwise nothing is shown
            restore(folder, case.files)
            if (found := outcome(case, folder, Path("none"))) != ("same", ""):
                return f"{case.name}, without any damage: {found[1] or found[0]}", True
        for number in range(count):
            case = cases[number % len(cases)]
            restore(folder, case.files)
            path = generator.choice(sorted(path for path, contents in case.files.items() if contents))
            other = case.swapped(path, generator) if not generator.randrange(_SWAP) else None
            contents = damaged(case.files[path], generator) if other is None else other
            swaps += other is not None
            (folder / path).write_bytes(contents)
            found, why = outcome(case, folder, path)
            seen[found] += 1
            if found == "WRONG":
                wrong.append(f"{case.name}, {path} ({_change(case.files[path], contents)}): {why}")
    counts = ", ".join(f"{seen[name]} {name}" for name in ("refused", "fell back", "same", "WRONG"))
    text = f"{count} damaged files, {swaps} of them replaced by others: {counts}"
    return "\n  ".join([text, *wrong[:20]]), bool(wrong)


def _change(before: bytes, after: bytes) -> str:
    if sum(x != y for x, y in zip(before, after, strict=False)) > 1:
        return "another file"
    if len(after) < len(before):
        return f"cut to {len(after)} of {len(before)} bytes"
    place = next(i for i, (x, y) in enumerate(zip(before, after, strict=True)) if x != y)
    return f"byte {place} of {len(before)}: {before[place]:#04x} to {after[place]:#04x}"
