"""How far a run is, on disk every few seconds, for those who watch it: checkpoints are rarer."""

import contextlib
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fokker._core.files import read_json, write_text
from fokker.models.topics.curve import curve_to_array
from fokker.models.topics.model import top_words

if TYPE_CHECKING:
    from fokker.models.topics.run import TopicRun

PROGRESS = "progress.json"
# The least seconds between two, also as a multiple of the time that writing one takes.
_SECONDS, _TIMES = 2.0, 50.0
_WORDS = 10


class LiveProgress:
    """Writes the progress of a run to its folder from time to time."""

    def __init__(self) -> None:
        self._next = 0.0

    def update(self, run: "TopicRun", now: float) -> None:
        """Write, if it is time to."""
        if now < self._next:
            return
        self.write(run)
        took = time.monotonic() - now
        self._next = now + took + max(_SECONDS, _TIMES * took)

    def write(self, run: "TopicRun") -> None:
        """Write now; an error of the disk is told when the run itself is written."""
        if not run.training.documents or not run.share.is_first:
            return
        with contextlib.suppress(OSError):
            write_text(run.folder / PROGRESS, json.dumps(_content(run), ensure_ascii=False))


def _content(run: "TopicRun") -> dict[str, Any]:
    curve = [
        [x if np.isfinite(x) else None for x in row]
        for row in curve_to_array(run.training.curve.points).tolist()
    ]
    return {
        "source": run.corpus.source.label,
        "position": run.plan.position,
        "end": run.plan.end,
        "documents": run.training.documents,
        "steps": run.training.chain.number,
        "tokens": run.tokens,
        "seconds": run.seconds,
        "sampler": run.settings.sampler,
        "topics": _words(run),
        "curve": curve,
    }


def _words(run: "TopicRun") -> list[list[str]]:
    """The most probable words of each topic of this process, by the latest draw."""
    draws = run.training.draws.draws
    beta = draws[-1] if draws else run.training.beta()
    words = run.corpus.vocabulary.words
    return [[words[w] for w in row] for row in top_words(beta, _WORDS)]


def read_progress(folder: Path) -> dict[str, Any] | None:
    """What was last written of the run in a folder; None where there is nothing, or it is no such file."""
    try:
        content = read_json(folder / PROGRESS)
        rows = np.array(content["curve"], float).reshape(-1, 5)
        topics = [[str(word) for word in words] for words in content["topics"]]
        numbers = {name: int(content[name]) for name in ("position", "documents", "steps", "tokens")}
        end = None if content["end"] is None else int(content["end"])
        texts = {name: str(content[name]) for name in ("source", "sampler")}
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return {
        **numbers,
        **texts,
        "end": end,
        "topics": topics,
        "curve": rows,
        "seconds": float(content["seconds"]),
    }
