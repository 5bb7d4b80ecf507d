"""Batches made ahead are the batches; errors, the tally and the end come through, and no process is left."""

import gc
import itertools
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from fokker.corpora import open_corpus, prefetched

WORDS = ["bread", "eggs"]


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "lines.txt"
    file.write_text("".join("bread " * (i + 1) + "\n" if i % 7 else "nothing\n" for i in range(500)))
    return file


def assert_same(batches, others):
    for mine, theirs in itertools.zip_longest(batches, others):
        assert mine.names == theirs.names
        for array, other in zip(mine[:3], theirs[:3], strict=True):
            np.testing.assert_array_equal(array, other)
            assert array.dtype == other.dtype


@pytest.mark.parametrize("in_a_process", [True, False])
def test_the_batches_are_the_same(path, in_a_process):
    source = path if in_a_process else path.read_text().splitlines()
    settings = {"vocabulary": WORDS, "shuffle_buffer": 50, "seed": 1}
    corpus = open_corpus(source, **settings)
    with prefetched(corpus, 30, skip=11, ahead=2) as batches:
        assert (batches.process is not None) == in_a_process
        reference = open_corpus(source, **settings)
        expected = list(reference.batches(30, 11))
        first = next(batches)
        assert batches.tally.documents == 11 + 30  # of what was given, not of what was made ahead
        assert_same(itertools.chain([first], batches), expected)
        assert list(batches) == []
    assert corpus.tally == batches.tally == reference.tally
    assert corpus.tally.without_known_word == 72


def test_a_matrix_is_read_in_a_thread():
    with prefetched(open_corpus(np.eye(5, dtype=int)), 2) as batches:
        assert batches.process is None
        assert [batch.size for batch in batches] == [2, 2, 1]


@pytest.mark.slow
def test_an_endless_stream_can_be_left(path):
    corpus = open_corpus(path, vocabulary=WORDS, repeat=True)
    with prefetched(corpus, 100, ahead=1) as batches:
        assert sum(batch.size for batch in itertools.islice(batches, 12)) == 1_200
        process = batches.process
    assert process.poll() is not None
    assert list(batches) == []
    batches.close()  # a second time does nothing
    forgotten = prefetched(open_corpus(["bread"] * 5, vocabulary=WORDS, repeat=True), 1, ahead=1)
    next(forgotten)
    del forgotten
    forgotten = prefetched(corpus, 10, ahead=1)
    process = forgotten.process
    del forgotten
    gc.collect()
    assert process.poll() is not None


@pytest.mark.parametrize("in_a_process", [True, False])
def test_errors_come_through(tmp_path, in_a_process):
    if in_a_process:
        file = tmp_path / "x.dat"
        file.write_text("1 0:1\n1 1:1\n3 0:1\n")
        corpus, message = open_corpus(file, vocabulary=WORDS), "x.dat, line 3 declares 3 words and has 1"
    else:
        corpus, message = open_corpus(["bread", "eggs", 3], vocabulary=WORDS), "element 2 is a int"
    with prefetched(corpus, 1) as batches:
        assert next(batches).size == next(batches).size == 1
        with pytest.raises((ValueError, TypeError), match=message):
            next(batches)
        with pytest.raises(StopIteration):
            next(batches)


def test_an_unknown_word_and_bad_numbers_are_told(tmp_path, path):
    file = tmp_path / "x.dat"
    file.write_text("1 9:1\n")
    with (
        prefetched(open_corpus(file, vocabulary=WORDS), 1) as batches,
        pytest.raises(ValueError, match="the word id 9"),
    ):
        next(batches)
    corpus = open_corpus(path, vocabulary=WORDS)
    with pytest.raises(ValueError, match="size=0"):
        prefetched(corpus, 0)
    with pytest.raises(ValueError, match="ahead must be at least 1"):
        prefetched(corpus, 1, ahead=0)


def test_a_process_that_dies_is_told(path):
    with prefetched(open_corpus(path, vocabulary=WORDS, repeat=True), 10, ahead=1) as batches:
        next(batches)
        batches.process.kill()
        with pytest.raises(RuntimeError, match=r"the process that reads .*lines\.txt ended before.*-9"):
            list(batches)


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks for processes where Linux lists them")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_the_reader_ends_with_its_parent_and_in_silence(path, how):
    # A process started in the background may have been given SIGINT to ignore, and its children with it:
    # this one listens again.
    program = f"""
import signal
from fokker.corpora import *
signal.signal(signal.SIGINT, signal.default_int_handler)
corpus = open_corpus({str(path)!r}, vocabulary={WORDS}, repeat=True)
try:
    with prefetched(corpus, 10, ahead=1) as batches:
        next(batches)
        print(batches.process.pid, flush=True)
        for _ in batches:
            pass
except KeyboardInterrupt:
    print("interrupted")
"""
    # A session of its own, whose every process gets the signal, as from a keyboard.
    parent = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    child = int(parent.stdout.readline())
    try:
        os.killpg(parent.pid, how)
        out, errors = parent.communicate(timeout=60)
    finally:
        parent.kill()
    assert errors == ""
    assert out == ("interrupted\n" if how == signal.SIGINT else "")
    # It notices when it next has something to say: at once, but not at the same moment.
    for _ in range(1_000):
        if not is_running(child):
            break
        time.sleep(0.01)
    assert not is_running(child)
