"""Coherence as gensim computes it; files for other tools; documents of a run, also of an older one."""

import gzip
import json
import shutil

import numpy as np
import pytest
from test_lda_command import OPTIONS, command

from fokker._core.files import read_arrays, write_arrays
from fokker.corpora import Documents, open_corpus
from fokker.models.topics import files
from fokker.models.topics.coherence import c_v, npmi, u_mass
from fokker.models.topics.export import Exported, gensim, mallet, pyldavis
from fokker.models.topics.model import MODEL, TopicModel

TEXTS = ["a b c d", "a b", "b c e", "a d e f", "c d", "a b c e f", "f e", "b d f"]
TOPICS = np.array([[0, 1, 2], [5, 3, 4], [2, 4, 0]])
SUBJECTS = ("brücke straße bahnhof zug tunnel", "äpfel käse milch brot nüsse")


# Coherence.


def test_coherence_is_that_of_gensim():
    documents = next(open_corpus(TEXTS, vocabulary=list("abcdef")).batches(10))
    # Of gensim 4.4, for these texts and topics.
    np.testing.assert_allclose(u_mass(documents, TOPICS), [-0.497218292256, -0.789041204706, -0.693147180556])
    np.testing.assert_allclose(c_v(documents, TOPICS), [0.705588647955, 0.576139965623, 0.577350269193])


def test_coherence_of_words_that_never_occur_is_not_a_number():
    documents = Documents.from_matrix(np.array([[1, 1, 0], [1, 1, 0], [1, 0, 0]]))
    topics = np.array([[0, 1], [1, 2]])
    assert np.isnan(u_mass(documents, topics[:, ::-1])).tolist() == [False, True]
    assert np.isnan(c_v(documents, topics)).tolist() == [False, True]
    assert npmi(documents, topics)[1] == -1


# Runs.


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run over 60 lines of German in table form, of two subjects."""
    folder = tmp_path_factory.mktemp("german")
    generator = np.random.default_rng(0)
    lines = [" ".join(generator.choice(SUBJECTS[i % 2].split(), 8)) for i in range(60)]
    lines[30] = ""
    (folder / "x.csv").write_text("title;body\n" + "".join(f"d{i};{text}\n" for i, text in enumerate(lines)))
    options = ("--key", "body", "--max-df", 0.9, "--min-df", 2, "--stop-words", "none")
    ended = command(
        folder / "x.csv", *options, "--passes", 3, "--out", folder / "run", *OPTIONS, "--topics", 2
    )
    assert ended[0] in (0, 1), ended
    return folder / "run"


def test_all_documents_of_a_run_have_mixtures_in_their_order(run, tmp_path):
    code, out, _ = command("infer", run)
    assert (code, "all-mixtures.csv.gz" in out) == (0, True)
    rows = gzip.decompress((run / "all-mixtures.csv.gz").read_bytes()).decode().splitlines()
    # Those that were held out too; not the empty one.
    assert [row.split(",")[0] for row in rows[1:]] == [f"d{i}" for i in range(60) if i != 30]
    assert command("infer", run, "--out", tmp_path / "x.npz")[0] == 0
    with np.load(tmp_path / "x.npz") as arrays:
        assert arrays["mixtures"].shape == (59, 2)


def test_mixtures_do_not_depend_on_the_batches(run):
    model = TopicModel.load(run)
    by_size = [
        np.concatenate([mixtures for _, mixtures in model.infer(model.open_run(run), batch=size)])
        for size in (7, 100)
    ]
    np.testing.assert_array_equal(*by_size)


def test_a_run_is_exported_for_other_tools(run, tmp_path):
    model = TopicModel.load(run)
    exported = Exported.of(model, model.open_run(run))
    arguments = json.loads(pyldavis(exported)["pyldavis.json"])
    np.testing.assert_allclose(np.sum(arguments["topic_term_dists"], 1), 1, atol=1e-6)
    np.testing.assert_allclose(np.sum(arguments["doc_topic_dists"], 1), 1, atol=1e-6)
    assert arguments["vocab"] == list(model.vocabulary)
    assert sum(arguments["doc_lengths"]) == sum(arguments["term_frequency"]) == 59 * 8
    by_name = {name: content.decode().splitlines() for name, content in mallet(exported).items()}
    assert by_name["doc-topics.txt"][0].split("\t")[:2] == ["0", "d0"]
    # gensim's reader splits at any white space.
    named = exported._replace(documents=exported.documents._replace(names=("a title", "", *"x" * 57)))
    rows = mallet(named)["doc-topics.txt"].decode().splitlines()
    assert [row.split()[1] for row in rows[:2]] == ["a_title", "no-name"]
    assert {len(row.split()) for row in rows} == {2 + 2}
    assert len(by_name["topic-keys.txt"]) == 2
    total = sum(float(line.split("\t")[2]) for line in by_name["topic-word-weights.txt"])
    assert total == pytest.approx(59 * 8, rel=1e-3)
    contents = gensim(exported)
    matrix = contents["corpus.mm"].decode().splitlines()
    assert matrix[1].split()[:2] == ["59", str(len(model.vocabulary))]
    counts = np.array([line.split() for line in matrix[2:]], int)
    np.testing.assert_array_equal(counts[:, 1] - 1, exported.documents.words)
    dictionary = contents["dictionary.txt"].decode().splitlines()
    words = {int(line.split("\t")[0]): line.split("\t")[1] for line in dictionary[1:]}
    assert [words[w] for w in range(len(words))] == list(model.vocabulary)
    for tool, name in (("pyldavis", "pyldavis.json"), ("mallet", "topic-keys.txt"), ("gensim", "sstats.npy")):
        assert command("export", run, tool, "--out", tmp_path / tool)[0] == 0
        assert (tmp_path / tool / name).is_file()
    code, _, err = command("export", run, "excel")
    assert (code, "the tools are pyldavis, mallet, gensim, not 'excel'" in err) == (2, True)


def older(path, kind, changed):
    """Rewrite a file as it was written before words had other rules than the letters a to z."""
    header, arrays = read_arrays(path, kind, 1)
    changed(header)
    write_arrays(path, header, arrays)


def test_older_runs_and_models_keep_the_letters_a_to_z(run, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(run, folder)

    def forget_reading(header):
        header["reading"]["pattern"] = None
        del header["reading"]["bigrams"]

    def forget_model(header):
        header["pattern"] = None
        del header["bigrams"]

    older(folder / files.CHECKPOINT, "checkpoint", forget_reading)
    older(folder / MODEL, "model", forget_model)
    model = TopicModel.load(folder)
    assert model.pattern == "letters"
    assert model.open(["Brot Brücke"]).tokenise("Brücke") == ["brcke"]
    assert TopicModel.load(run).open(["Brot"]).tokenise("Brücke") == ["brücke"]
    for option, message in (
        (("--pattern", "unicode"), "pattern was 'letters'"),
        (("--bigrams",), "bigrams was"),
    ):
        code, _, err = command("--resume", folder, *option)
        assert (code, message in " ".join(err.split())) == (2, True)
    code, out, _ = command("--resume", folder, "--passes", 4)
    assert code in (0, 1), out
    assert read_arrays(folder / files.CHECKPOINT, "checkpoint", 1)[0]["reading"]["pattern"] == "letters"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--vocab", "words.txt", "--stop-words", "de"),
            "--vocab gives the words and --stop-words learns them",
        ),
        (("--min-df", "many"), "--min-df is a number of documents, such as 5"),
        (("--max-df", "1.5"), "--max-df is a number of documents"),
        (("--stop-words", "klingon"), "'klingon' is neither a file nor one of"),
        (("--resume", "run", "--max-df", "3"), "--max-df cannot be used with --resume"),
    ],
)
def test_options_of_text_are_checked(run, tmp_path, arguments, message):
    corpus = () if "--resume" in arguments else (run.parent / "x.csv", "--key", "body")
    out = () if "--resume" in arguments else ("--out", tmp_path / "y")
    code, _, err = command(*corpus, *arguments, *out)
    assert code == 2
    assert message in " ".join(err.split())
