"""One process of several that learn topics together, for test_lda_processes.py.

python topics_in_processes.py NUMBER PROCESSES PORT FOLDER PART…

The parts are runs, one after the other, in folders of their names; each prints a line of JSON.
"""

import json
import os
import pickle
import signal
import sys
from pathlib import Path

import jax
import numpy as np
from scipy import sparse

import fokker as fk
from fokker.models.topics import run as run_module
from fokker.models.topics.reading import Reading
from fokker.models.topics.settings import Settings
from fokker.models.topics.starting import resume_run, start_run

FEW = {"batch": 20, "sweeps": 6, "burn_in": 2, "threads": 1, "start_documents": 30}
# Three topics of two processes: one of them has a single one.
KINDS = {
    "sgrhmc": {"topics": 3, "gamma": "hdp"},
    "scir": {"topics": 4, "sampler": "scir", "step": 0.3, "seed_words": {"a": ["#3", "#4"], "b": ["#40"]}},
    "sgld": {"topics": 4, "sampler": "sgld"},
    "sgrld": {"topics": 3, "sampler": "sgrld"},
    "jax": {"topics": 3, "engine": "jax"},
    # Of three processes one has no topic.
    "many": {"topics": 2, "sampler": "scir"},
}
NUM_DOCUMENTS, HELD_OUT = 150, 20


def write_corpus(path, seed=0):
    """Documents of 5 to 25 words; each has words of one subject, and few others."""
    rng = np.random.default_rng(seed)
    shares = np.full((4, 60), 0.002)
    for k in range(4):
        shares[k, 15 * k : 15 * k + 15] = 1
    shares /= shares.sum(1, keepdims=True)
    counts = [rng.multinomial(rng.integers(5, 25), shares[rng.integers(4)]) for _ in range(NUM_DOCUMENTS)]
    sparse.save_npz(path, sparse.csr_matrix(np.array(counts)))


def begin(folder, kind, **more):
    """A new run of two passes, in a folder beside the corpus."""
    settings = Settings(**FEW | KINDS[kind] | more)
    reading = Reading(str(folder.parent / "corpus.npz"), held_out=HELD_OUT)
    return start_run(reading, settings, folder, passes=2)


class Watching:
    """Does something after the n-th minibatch, or while the first topics are found."""

    def __init__(self, at=None, act=None, in_start=None):
        self.at, self.act, self.seen, self.messages = at, act, 0, []
        self.in_start = in_start

    def update(self, run):
        self.seen += 1
        if self.seen == self.at:
            self.act()

    def show(self, description, completed, total, unit):
        if description == "finding the first topics" and self.in_start is not None:
            self.in_start()

    def notify(self, text):
        self.messages.append(text)


def send(number):
    os.kill(os.getpid(), number)


def executed(run, watcher=None):
    run.execute(watcher or Watching())
    theta = run.training.chain.topics.all_rows()
    return {"position": run.plan.position, "interrupted": run.interrupted, "columns": theta.shape[1]}


def not_finite(folder, process):
    """The topics of one process leave the finite numbers."""
    run = begin(folder, "sgrhmc")

    def fail():
        run.share.check_step(process == 0, run.share._error)

    try:
        run.execute(Watching(5, fail))
    except ValueError as error:
        return {"error": str(error)}


def standard_input(folder):
    try:
        start_run(Reading("-"), Settings(**FEW), folder)
    except ValueError as error:
        return {"error": str(error)}


def other_documents(folder, process):
    """Each process has a corpus of its own behind the same name."""
    folder.parent.joinpath("others").mkdir(exist_ok=True)
    os.chdir(folder.parent / "others")
    Path(str(process)).mkdir()
    os.chdir(str(process))
    write_corpus("corpus.npz", seed=process)
    try:
        start_run(Reading("corpus.npz", held_out=HELD_OUT), Settings(**FEW), folder).execute(Watching())
    except ValueError as error:
        return {"error": str(error)}


def estimator(folder, name):
    X = sparse.load_npz(folder.parent / "corpus.npz")
    lda = fk.models.LDA(
        3, passes=2, batch_size=30, sweeps=4, burn_in=1, draws=4, start_documents=40, n_jobs=1
    )
    lda.fit(X)
    # A copy goes on as it would itself.
    pickle.loads(pickle.dumps(lda)).partial_fit(X)
    before = lda.draws_
    lda.partial_fit(X)
    arrays = {"draws": lda.draws_, "before": before, "curve": lda.perplexity_curve_}
    np.savez(folder.parent / f"estimator-{name}.npz", **arrays)
    return {}


def part(name, folder, process):
    if name in KINDS:
        return executed(begin(folder, name))
    if name == "interrupted":
        act = (lambda: send(signal.SIGTERM)) if process == 1 else lambda: None
        return executed(begin(folder, "scir"), Watching(8, act))
    if name == "interrupted start":
        act = (lambda: send(signal.SIGINT)) if process == 1 else None
        return executed(begin(folder, "scir"), Watching(in_start=act))
    if name == "resumed":
        return executed(resume_run(folder, {}))
    if name == "lost":
        run_module._MIN_SECONDS_BETWEEN_SAVES = run_module._SAVE_TIMES_BETWEEN_SAVES = 0.0
        act = (lambda: send(signal.SIGKILL)) if process == 1 else lambda: None
        return executed(begin(folder, "sgrhmc"), Watching(12, act))
    if name == "other documents":
        return other_documents(folder, process)
    if name == "standard input":
        return standard_input(folder)
    return not_finite(folder, process) if name == "not finite" else estimator(folder, process)


def main():
    process, processes, port, folder, *parts = sys.argv[1:]
    jax.config.update("jax_disable_most_optimizations", True)
    fk.processes.start(f"127.0.0.1:{port}", int(processes), int(process))
    for name in parts:
        result = part(name, Path(folder) / name, int(process))
        print(json.dumps({"part": name, **(result or {})}), flush=True)


if __name__ == "__main__":
    main()
