"""Corpora in every form give the same counts; damage is reported and loses no more than it must."""

import bz2
import email
import functools
import gzip
import itertools
import json
import lzma
import os
import re
import subprocess
import sys
import sysconfig
import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from fokker.corpora import Documents, Tally, Vocabulary, letters, matches, open_corpus
from fokker.corpora._corpus import shuffled
from fokker.corpora._docstrings import Docstrings
from fokker.corpora._markup import pieces

WORDS = ["apple", "bread", "cheese", "dates", "eggs"]
TEXTS = ["Apple bread apple.", "Cheese, eggs; cheese!", "Dates and eggs and bread-apple"]
TABLE = np.array([[2, 1, 0, 0, 0], [0, 0, 2, 0, 1], [1, 1, 0, 1, 1]])
OPENERS = {"": open, ".gz": gzip.open, ".bz2": bz2.open, ".xz": functools.partial(lzma.open, preset=0)}


def read(corpus, size=2, skip=0):
    return Documents.concatenate(list(corpus.batches(size, skip)))


def table(corpus):
    return read(corpus).to_matrix(len(corpus.vocabulary)).toarray()


def write(path, text):
    suffix = path.suffix if path.suffix in OPENERS else ""
    with OPENERS[suffix](path, "wb") as file:
        file.write(text if isinstance(text, bytes) else text.encode())
    return path


def page(title, text, extra="<ns>0</ns>"):
    return f"<page><title>{title}</title>{extra}<revision><id>1</id><text>{text}</text></revision></page>\n"


def dump(pages, schema='xmlns="http://www.mediawiki.org/xml/export-0.10/"', site=""):
    return f"<mediawiki {schema}>\n{site}{''.join(pages)}</mediawiki>\n"


# Documents


def test_documents_are_selected_joined_and_turned_into_matrices():
    documents = Documents.from_matrix(TABLE, names=["a", "b", "c"])
    assert (documents.size, documents.tokens, documents.lengths.tolist()) == (3, 10, [3, 3, 4])
    assert [array.dtype for array in documents[:3]] == [np.int64, np.int32, np.int32]
    chosen = documents.select([2, 0, 2])
    assert chosen.names == ("c", "a", "c")
    np.testing.assert_array_equal(chosen.to_matrix(5).toarray(), TABLE[[2, 0, 2]])
    np.testing.assert_array_equal(documents.select(documents.lengths > 3).to_matrix(5).toarray(), TABLE[2:])
    both = Documents.concatenate([documents, chosen])
    np.testing.assert_array_equal(both.to_matrix(5).toarray(), np.concatenate([TABLE, TABLE[[2, 0, 2]]]))
    assert Documents.concatenate([]).size == 0
    with pytest.raises(ValueError, match="width is 3; the documents have word ids up to 4"):
        documents.to_matrix(3)


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.int64, np.uint64, np.float32, bool])
def test_counts_of_every_type_become_the_same(kind):
    matrix = (TABLE > 0).astype(kind) if kind is bool else TABLE.astype(kind)
    for form in (matrix, sparse.csc_matrix(matrix), sparse.coo_array(matrix)):
        np.testing.assert_array_equal(Documents.from_matrix(form).to_matrix(5).toarray(), matrix.astype(int))


def test_sixteen_bits_are_widened_before_anything_is_added_up():
    # Repeated words and counts that together are more than 65,535, in ids whose differences would wrap.
    documents = Documents.from_arrays(
        np.array([0, 3, 4], np.uint16),
        np.array([60_000, 5, 5], np.uint16).repeat([1, 1, 2]),
        np.array([65_535, 65_535, 65_535, 1], np.uint16),
    )
    assert documents.words.tolist() == [5, 60_000, 5]
    assert documents.counts.tolist() == [131_070, 65_535, 1]
    assert documents.tokens == 196_606
    assert documents.lengths.tolist() == [196_605, 1]


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[1, 0], [0, -3]], r"row 1 .*-3 is negative"),
        ([[1, 0], [0, 0.5]], r"row 1 .*0\.5 is not a whole number"),
        ([[1, np.nan]], r"row 0 .*nan is not a finite number"),
        ([[1, 2**31]], r"row 0 .*2147483648 is above the largest allowed count, 2,147,483,647"),
        ([1, 2], r"one row per document and one column per word; the shape \(2,\)"),
    ],
)
def test_what_is_no_count_is_named_with_its_row(matrix, message):
    with pytest.raises(ValueError, match=message):
        open_corpus(np.array(matrix))


def test_arrays_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="indptr describes 3 entries; there are 2 word ids"):
        Documents.from_arrays([0, 3], [0, 1], [1, 1])
    with pytest.raises(ValueError, match="never decrease"):
        Documents.from_arrays([0, 2, 1], [0], [1])
    with pytest.raises(ValueError, match="2 documents and 1 names"):
        Documents.from_matrix(TABLE[:2], names=["a"])


# Words


def test_the_default_tokeniser_follows_hoffman():
    text = "The well-known caf\u00e9 &amp; Schr\u00f6dinger's\u00a0cat\n(1935) \u212aelvin\tA&B"
    assert letters(text) == ["the", "well", "known", "caf", "schrdingerscat", "kelvin", "ab"]


def test_other_alphabets_have_a_pattern():
    corpus = open_corpus(["Дом и сад", "Сад, сад!"], vocabulary=["сад", "дом"], pattern=r"\w+")
    assert table(corpus).tolist() == [[1, 1], [2, 0]]
    assert matches(r"#(\w+)")("#One two #Three") == ["one", "three"]
    with pytest.raises(ValueError, match="not a regular expression"):
        matches("(")


# Vocabularies


def test_a_vocabulary_is_read_in_lower_case_and_written_back(tmp_path):
    path = write(tmp_path / "words.txt", "\ufeffbread\r\nNone\r\neggs\r\n\r\n")
    vocabulary = Vocabulary.load(path)
    assert vocabulary.words == ("bread", "none", "eggs")
    assert "none" in vocabulary
    vocabulary.save(tmp_path / "again.txt")
    assert Vocabulary.load(tmp_path / "again.txt") == vocabulary


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bread\neggs\nbread\n", r"'bread' twice, in lines 1 and 3: remove one"),
        ("Bread\neggs\nbread\n", r"'bread' twice, in lines 1 and 3 \(they differ in capitals only"),
        ("bread\n\neggs\n", "an empty line, 2"),
        ("\n\n", "is empty"),
        (b"br\xffead\n", "is not UTF-8"),
    ],
)
def test_a_bad_vocabulary_is_refused(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        Vocabulary.load(write(tmp_path / "words.txt", text))


def test_a_vocabulary_given_as_a_list_must_be_one():
    with pytest.raises(ValueError, match="'a' twice, as words 0 and 2"):
        Vocabulary(["a", "b", "a"])
    with pytest.raises(TypeError, match="the string 'abc'"):
        Vocabulary("abc")


def test_a_vocabulary_that_cannot_be_learned_names_its_limits_alone():
    """Whoever typed a command has not called the function that learns it."""
    with pytest.raises(ValueError, match="change the limits: minimum_documents=…, maximum_documents=…"):
        Vocabulary.learn([["a"], ["b"]])


def test_a_vocabulary_is_learned_from_the_words_of_most_documents():
    documents = [
        ["the", "bread", "eggs", "eggs"],
        ["the", "bread", "rare"],
        ["the", "eggs", "bread"],
        ["ox", "ox"],
    ]
    learn = functools.partial(Vocabulary.learn, maximum_documents=0.8)
    assert learn(documents).words == ("bread", "eggs")
    assert learn(documents, maximum_words=1).words == ("bread",)
    assert learn(documents, minimum_documents=1).words == ("bread", "eggs", "rare")
    assert learn(documents, maximum_documents=0.5).words == ("eggs",)
    assert learn(documents, stop_words=()).words == ("bread", "the", "eggs")
    assert learn(documents, minimum_documents=1, minimum_letters=2).words == ("bread", "eggs", "ox", "rare")
    with pytest.raises(ValueError, match="none of the 5 words of 4 documents"):
        learn(documents, minimum_documents=4)


def test_learning_forgets_the_rarest_within_the_bound_it_states():
    generator = np.random.default_rng(0)
    documents = [[f"word{k}" for k in generator.zipf(1.3, 30)] for _ in range(2_000)]
    exact: dict[str, int] = {}
    for document in documents:
        for word in set(document):
            exact[word] = exact.get(word, 0) + 1
    settings = {"minimum_documents": 20, "maximum_documents": 1.0, "maximum_words": 10**6}
    pruned = Vocabulary.learn(documents, maximum_entries=2_000, **settings)
    assert pruned.undercount > 0
    assert {word for word, n in exact.items() if n >= 20 + pruned.undercount} <= set(pruned)
    assert set(pruned) <= {word for word, n in exact.items() if n >= 20}
    assert Vocabulary.learn(documents, **settings).undercount == 0


# Every form of a corpus


def forms(tmp_path):
    """The same three documents, in every form."""
    (tmp_path / "folder" / "deeper").mkdir(parents=True)
    for name, text in zip(("a.txt", "deeper/b.txt.gz", "deeper/c"), TEXTS, strict=True):
        write(tmp_path / "folder" / name, text)
    write(tmp_path / "folder" / "picture.png", b"\x89PNG")
    yield tmp_path / "folder"
    yield str(tmp_path / "folder" / "**" / "[a-c]*")
    lines = [json.dumps({"title": f"T{i}", "text": text}) for i, text in enumerate(TEXTS)]
    triples = [(d + 1, w + 1, TABLE[d, w]) for d, w in zip(*np.nonzero(TABLE), strict=True)]
    pages = [page(f"T{i}", text) for i, text in enumerate(TEXTS)]
    for suffix in OPENERS:
        yield write(tmp_path / f"lines.txt{suffix}", "\n".join(TEXTS))
        yield write(tmp_path / f"some.jsonl{suffix}", "\n".join(lines) + "\n\n")
        yield write(tmp_path / f"unnamed{suffix}", "\n".join(lines))
        yield write(tmp_path / f"wiki.xml{suffix}", dump(pages))
        yield write(
            tmp_path / f"docword.x.txt{suffix}",
            "\n".join(["3", "5", "8", *(f"{d} {w} {n}" for d, w, n in triples)]),
        )
        yield write(
            tmp_path / f"food.dat{suffix}",
            "".join(
                f"{np.count_nonzero(row)} {' '.join(f'{w}:{row[w]}' for w in np.flatnonzero(row))}\n"
                for row in TABLE
            ),
        )
    matrix = sparse.csr_matrix(TABLE.astype(np.uint16))
    yield matrix
    yield TABLE
    yield Documents.from_matrix(TABLE)
    for save, name in ((sparse.csr_matrix, "csr"), (sparse.coo_matrix, "coo")):
        sparse.save_npz(tmp_path / f"{name}.npz", save(TABLE))
        yield tmp_path / f"{name}.npz"
    arrays = {"indptr": matrix.indptr, "indices": matrix.indices.astype(np.uint16), "counts": matrix.data}
    np.savez(tmp_path / "plain.npz", **arrays, page_id=np.array([7, 8, 9]))
    yield tmp_path / "plain.npz"
    yield write(tmp_path / "packed.npz.xz", (tmp_path / "plain.npz").read_bytes())
    yield TEXTS
    yield (text for text in TEXTS)
    yield np.array(TEXTS)


def test_every_form_gives_the_same_counts(tmp_path):
    write(tmp_path / "words", "\n".join(WORDS))
    number = 0
    for source in forms(tmp_path):
        number += 1
        corpus = open_corpus(source, vocabulary=tmp_path / "words")
        batches = list(corpus.batches(2))
        assert [batch.size for batch in batches] == [2, 1], source
        got = Documents.concatenate(batches).to_matrix(5).toarray()
        np.testing.assert_array_equal(got, TABLE, err_msg=str(source))
        assert corpus.tally == Tally(documents=3), source
        assert corpus.size in (None, 3)
    assert number > 30


def test_names_are_those_that_the_source_has(tmp_path):
    names = {}
    for source in forms(tmp_path):
        if isinstance(source, os.PathLike):
            names[source.name] = read(open_corpus(source, vocabulary=WORDS)).names
    assert names["folder"] == ("a.txt", os.path.join("deeper", "b.txt.gz"), os.path.join("deeper", "c"))
    assert names["some.jsonl"] == names["wiki.xml.bz2"] == ("T0", "T1", "T2")
    assert names["lines.txt"] == names["docword.x.txt"] == names["food.dat"] == ("1", "2", "3")
    assert names["packed.npz.xz"] == ("7", "8", "9")


def test_counts_bring_their_words_or_have_numbers(tmp_path):
    path = write(tmp_path / "docword.food.txt.gz", "2\n3\n3\n1 1 2\n1 3 1\n2 2 70000\n")
    assert open_corpus(path).vocabulary.words == ("#0", "#1", "#2")
    write(tmp_path / "vocab.txt", "x\ny\nz\n")
    assert open_corpus(path).vocabulary.words == ("x", "y", "z")
    write(tmp_path / "vocab.food.txt", "Bread\nbread\neggs\n")
    corpus = open_corpus(path)
    assert corpus.vocabulary.words == ("Bread", "bread", "eggs")
    assert table(corpus).tolist() == [[2, 0, 1], [0, 70_000, 0]]
    lda_c = write(tmp_path / "elsewhere.dat", "2 2:1 0:70000\n0\n1 1:3\n")
    (tmp_path / "vocab.txt").unlink()
    corpus = open_corpus(lda_c)
    assert table(corpus).tolist() == [[70_000, 0, 1], [0, 3, 0]]
    assert corpus.tally.empty == 1


def test_documents_without_an_entry_are_counted_as_empty(tmp_path):
    path = write(tmp_path / "docword.x.txt", "7\n2\n3\n2 1 1\n2 2 1\n5 1 3\n")
    corpus = open_corpus(path)
    assert read(corpus).names == ("2", "5")
    assert corpus.tally == Tally(documents=2, empty=5)


def test_the_format_can_be_said(tmp_path):
    path = write(tmp_path / "strange.dat", "Bread eggs\n")
    assert table(open_corpus(path, format="lines", vocabulary=WORDS)).tolist() == [[0, 1, 0, 0, 1]]
    with pytest.raises(ValueError, match="format='xls' is not one of files, lines, jsonl"):
        open_corpus(path, format="xls")


def test_json_has_its_text_under_any_key(tmp_path):
    path = write(tmp_path / "x.jsonl", '{"body": "bread", "id": 12}\n{"body": "eggs"}\n')
    corpus = open_corpus(path, key="body", vocabulary=WORDS)
    assert read(corpus).names == ("12", "2")
    with pytest.raises(ValueError, match=r"no key 'text' among 'body', 'id': set key="):
        open_corpus(path)


def run_on_standard_input(program, text):
    program = f"from fokker.corpora import *\n{program}"
    return subprocess.run(
        [sys.executable, "-c", program], input=text, capture_output=True, check=True
    ).stdout.decode()


def test_standard_input_is_read_once_and_replayed_after_learning():
    program = """
corpus = open_corpus("-", learn_from=4)
batch, = corpus.batches(10)
print(*corpus.vocabulary, batch.size, batch.tokens, batch.names[-1], corpus.tally.invalid_utf8)
try:
    corpus.batches(1)
except ValueError as error:
    print(error)
"""
    plain = run_on_standard_input(program, b"bread eggs\nbread\nham eggs\nham bread\nham\xff\neggs\n")
    assert plain.splitlines() == [
        "eggs ham 5 6 6 1",
        "standard input can be read only once and was already read: open it again.",
    ]
    as_json = run_on_standard_input(
        "print(open_corpus('-', vocabulary=['bread']).batches(9).__next__().names)",
        b'{"text": "bread", "name": "one"}\nnonsense\n{"text": "no bread"}\n',
    )
    assert as_json == "('one', '3')\n"


def test_the_built_in_corpus_is_docstrings(tmp_path):
    long = " ".join(["bread and eggs"] * 10)
    write(
        tmp_path / "kitchen.py",
        f'"""{long}"""\nclass Pan:\n    "Too short."\n    def fry(self):\n        "{long} ham"\n',
    )
    write(tmp_path / "broken.py", "def (:\n")
    (tmp_path / "tests").mkdir()
    write(tmp_path / "tests" / "more.py", f'"{long} left out"')
    found = {name: "".join(text) for name, text in Docstrings(tmp_path).texts(Tally())}
    assert found == {"kitchen": long, "kitchen.Pan.fry": f"{long} ham"}


def test_nothing_at_all_is_a_corpus(monkeypatch):
    # One package of the standard library in place of all: a second instead of many.
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"stdlib": os.path.dirname(email.__file__)})
    corpus = open_corpus(vocabulary=functools.partial(Vocabulary.learn, maximum_words=200))
    first = next(corpus.batches(50))
    assert first.size == 50
    assert len(corpus.vocabulary) == 200
    assert "header" in corpus.vocabulary
    assert first.names == next(corpus.batches(50)).names
    assert "message.Message.get_payload" in read(corpus).names


# Streams


def numbered(number):
    """Documents that can be told apart: the i-th has i + 1 times the word bread; every fifth is left out.

    The word comes after more than is looked at in one go where a document is skipped.
    """
    beginning = "nothing-of it " * 200
    return [beginning + ("bread " * (i + 1) if i % 5 else "") for i in range(number)]


def lengths(corpus, size=4, skip=0, limit=None):
    return [n for b in itertools.islice(corpus.batches(size, skip), limit) for n in b.lengths.tolist()]


@pytest.mark.parametrize("settings", [{}, {"shuffle_buffer": 7, "seed": 3}, {"shuffle_buffer": 100}])
def test_skipping_is_the_same_as_reading_and_dropping(settings):
    open_numbered = functools.partial(open_corpus, numbered(33), vocabulary=WORDS, **settings)
    everything = lengths(open_numbered())
    assert sorted(everything) == [i + 1 for i in range(33) if i % 5]
    assert open_numbered().count() == len(everything)
    for skip in (0, 1, 9, len(everything)):
        corpus = open_numbered()
        assert lengths(corpus, skip=skip) == everything[skip:]
        assert corpus.tally == Tally(documents=len(everything), without_known_word=7)
    endless = open_numbered(repeat=True)
    stream = lengths(endless, limit=50)
    assert stream[: len(everything)] == everything
    assert sorted(stream[len(everything) : 2 * len(everything)]) == sorted(everything)
    assert endless.tally == Tally(documents=len(everything), without_known_word=7)
    for skip in (3, len(everything), 4 * len(everything) + 5):
        assert lengths(endless, skip=skip, limit=10) == stream[skip : skip + 40]


def test_a_pass_is_shuffled_by_seed_and_anew_each_time():
    def order(seed, **settings):
        return lengths(
            open_corpus(numbered(40), vocabulary=WORDS, shuffle_buffer=10, seed=seed, **settings), limit=16
        )

    assert order(1) == order(1)
    assert order(1) != order(2)
    assert order(1) != sorted(order(1))
    twice = order(1, repeat=True)
    assert twice[:32] != twice[32:64]


def test_a_buffer_that_holds_everything_gives_every_order():
    orders = {tuple(shuffled(range(3), 5, np.random.default_rng(seed))) for seed in range(100)}
    assert len(orders) == 6


def test_short_documents_are_skipped_and_counted():
    corpus = open_corpus(
        ["bread", "", "bread eggs", "--", "nothing known"], vocabulary=WORDS, minimum_tokens=2
    )
    assert read(corpus).names == ("2",)
    assert corpus.tally.sentence() == (
        "1 document read; 2 empty documents skipped, 1 document without a known word skipped, "
        "1 document skipped as too short."
    )


def test_an_iterator_can_be_read_once():
    with pytest.raises(ValueError, match="repeat=True: the iterable of strings can be read only once"):
        open_corpus(iter(TEXTS), vocabulary=WORDS, repeat=True)
    corpus = open_corpus(iter(["bread eggs", "bread ham", "ham cheese", "bread"] * 2), learn_from=4)
    assert set(corpus.vocabulary) == {"ham"}
    assert read(corpus).size == 4


# MediaWiki


@pytest.mark.parametrize(
    "schema", ["", 'xmlns="http://www.mediawiki.org/xml/export-0.3/"', 'xmlns="any" version="0.11"']
)
def test_a_dump_gives_its_articles(tmp_path, schema):
    pages = [
        page("A", "'''Bread''' and [[egg|eggs]]"),
        page("B", "", '<ns>0</ns><redirect title="A" />'),
        page("C", "#REDIRECT [[A]]"),
        page("Talk:D", "bread", "<ns>1</ns>"),
        page("E", "bread &amp;lt; eggs&amp;nbsp;cheese &lt;ref&gt;dates&lt;/ref&gt;"),
        page("F", ""),
    ]
    corpus = open_corpus(write(tmp_path / "wiki.xml.bz2", dump(pages, schema)), vocabulary=WORDS)
    assert table(corpus).tolist() == [[0, 1, 0, 0, 1], [0, 1, 1, 0, 1]]
    assert corpus.tally == Tally(documents=2, redirects=2, other_namespaces=1, empty=1)


def test_an_old_dump_tells_namespaces_by_titles(tmp_path):
    site = '<siteinfo><namespace key="0" /><namespace key="6">Datei</namespace></siteinfo>'
    pages = [page("Datei:X", "bread", ""), page("Star Wars: bread", "bread [[Datei:E.png|eggs]]", "")]
    corpus = open_corpus(write(tmp_path / "wiki.xml", dump(pages, site=site)), vocabulary=WORDS)
    assert table(corpus).tolist() == [[0, 1, 0, 0, 0]]
    assert corpus.tally.other_namespaces == 1


def test_markup_is_stripped_to_prose():
    markup = """{{Infobox|name={{nested|x}}|}}<!-- hidden {{ -->
'''Bread''' is [[food]]<ref name="a">cited {{web}}</ref><ref name="a" /> and a [[staple (food)|staple]].
[[File:loaf.jpg|thumb|A [[loaf]] of it]]
{| class="wikitable"
| cell
{|
| inner
|}
|}
== History ==
Known since [http://example.org antiquity]; <math>x^2</math> {{unclosed and ]] stays.
[[Category:Food]]
[[de:Brot]]
"""
    assert letters(" ".join(pieces(markup))) == (
        letters("bread is food and a staple history known since antiquity unclosed and stays")
    )


def test_without_the_parser_a_dump_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "mwparserfromhell", None)
    corpus = open_corpus(write(tmp_path / "wiki.xml", dump([page("A", "bread")])), vocabulary=WORDS)
    with pytest.raises(ImportError, match=r"pip install 'fokker\[wikipedia\]'"):
        read(corpus)


@pytest.mark.slow
def test_a_dump_is_never_held_whole(tmp_path):
    generator = np.random.default_rng(0)
    filler = (" ".join(map(str, generator.integers(10**6, size=600))) for _ in range(2_000))
    path = write(
        tmp_path / "wiki.xml.bz2", dump(page(f"P{i}", f"bread {text}") for i, text in enumerate(filler))
    )
    corpus = open_corpus(path, vocabulary=["bread"])
    next(corpus.batches(1))  # imports
    tracemalloc.start()
    try:
        number = sum(batch.size for batch in corpus.batches(100, skip=1_900))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert number == 100
    # 8 MB unpacked; a block of bzip2 is 0.9 MB.
    assert peak < 4.5e6


# Damage


def multistream(number, each):
    """A dump in streams, as Wikipedia's are: the head, `number` streams of `each` pages, the tail."""
    generator = np.random.default_rng(0)

    def noise():
        return "".join(generator.choice(list("xyz "), 2_000))

    parts = ["<mediawiki>\n"]
    parts += ["".join(page(f"{i}-{j}", f"bread {noise()}") for j in range(each)) for i in range(number)]
    return [bz2.compress(part.encode()) for part in [*parts, "</mediawiki>"]]


def test_after_a_damaged_stream_reading_goes_on_with_the_next(tmp_path):
    streams = multistream(5, 4)
    broken = bytearray(streams[3])
    broken[len(broken) // 2] ^= 0xFF
    start = sum(map(len, streams[:3]))
    path = write(tmp_path / "wiki", b"".join([*streams[:3], bytes(broken), *streams[4:]]))
    corpus = open_corpus(path, vocabulary=WORDS)
    assert {name[0] for name in read(corpus).names} == {"0", "1", "3", "4"}
    assert corpus.tally.documents == 16
    assert corpus.tally.lost_bytes == len(broken)
    assert f"bytes {start:,} to {start + len(broken):,} of wiki" in corpus.tally.sentence()


def test_a_page_that_is_cut_by_damage_is_not_joined_to_another(tmp_path):
    streams = ["<mediawiki>" + page("A", "bread") + page("B", "bread")[:60], "x" * 5_000, page("C", "bread")]
    packed = [bytearray(bz2.compress(stream.encode())) for stream in streams]
    packed[1][-12] ^= 0xFF
    corpus = open_corpus(write(tmp_path / "wiki.xml", b"".join(packed)), vocabulary=WORDS)
    assert read(corpus).names == ("A", "C")
    assert corpus.tally.bad_pages == 1
    assert corpus.tally.lost_bytes == len(packed[1])


def test_of_a_file_cut_short_what_is_whole_is_read(tmp_path):
    streams = multistream(5, 4)
    whole = sum(map(len, streams[:4]))
    path = write(tmp_path / "wiki", b"".join(streams)[: whole + 700])
    corpus = open_corpus(path, vocabulary=WORDS)
    assert read(corpus).size == 12
    assert corpus.tally.lost_bytes == 700
    assert (
        f"bytes {whole:,} to {whole + 700:,} of wiki: the file ends within a stream"
        in corpus.tally.sentence()
    )


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
def test_lines_before_the_damage_are_read(tmp_path, suffix):
    generator = np.random.default_rng(0)
    text = "".join(f"bread {' '.join(map(str, generator.integers(10**6, size=100)))}\n" for _ in range(4_000))
    whole = write(tmp_path / f"whole.txt{suffix}", text).read_bytes()
    (tmp_path / f"cut.txt{suffix}").write_bytes(whole[: len(whole) * 3 // 4])
    corpus = open_corpus(tmp_path / f"cut.txt{suffix}", vocabulary=WORDS)
    number = read(corpus, 1_000).size
    assert 1_000 < number < 3_500
    assert corpus.tally.lost_bytes > 0
    assert "the file ends within a stream" in corpus.tally.sentence()
    # Two files in one, and zeros at the end, are whole.
    (tmp_path / f"two.txt{suffix}").write_bytes(whole + whole + bytes(512))
    corpus = open_corpus(tmp_path / f"two.txt{suffix}", vocabulary=WORDS)
    assert read(corpus, 1_000).size == 8_000
    assert corpus.tally.sentence() == ""
    (tmp_path / f"more.txt{suffix}").write_bytes(whole + b"something else")
    corpus = open_corpus(tmp_path / f"more.txt{suffix}", vocabulary=WORDS)
    assert read(corpus, 1_000).size == 4_000
    assert corpus.tally.lost_bytes == 14


def test_a_page_that_is_no_xml_costs_only_itself(tmp_path):
    pages = [page("A", "bread"), page("B", "bread & eggs <br>"), page("C", "bread")[:30], page("D", "bread")]
    text = dump([*pages, "<page><title>E</title><revision><text>bread"])[: -len("</mediawiki>\n")]
    corpus = open_corpus(write(tmp_path / "wiki.xml", text), vocabulary=WORDS)
    assert read(corpus).names == ("A", "D")
    assert corpus.tally.bad_pages == 3
    for told in (
        "page 'B' of wiki.xml: not well-formed",
        "'C' of wiki.xml is cut",
        "'E' of wiki.xml is cut short",
    ):
        assert told in corpus.tally.sentence()


def test_invalid_utf8_is_replaced_and_counted(tmp_path):
    lines = write(tmp_path / "lines.txt", b"bread \xff eggs\nbread\nche\xc3\n")
    corpus = open_corpus(lines, vocabulary=WORDS)
    assert table(corpus).sum() == 3
    assert corpus.tally.invalid_utf8 == 2
    assert "invalid UTF-8 replaced in 2 places" in corpus.tally.sentence()
    wiki = write(tmp_path / "wiki.xml", dump([page("A", "bread ?")]).encode().replace(b"?", b"\xfe"))
    corpus = open_corpus(wiki, vocabulary=WORDS)
    assert read(corpus).size == 1
    assert corpus.tally.invalid_utf8 == 1


def test_bad_json_lines_are_skipped_and_told(tmp_path):
    path = write(tmp_path / "x.jsonl", '{"text": "bread"}\n{"text": \n[1]\n{"text": 3}\n{"text": "eggs"}\n')
    corpus = open_corpus(path, vocabulary=WORDS)
    assert read(corpus).size == 2
    assert corpus.tally.bad_lines == 3
    for told in (
        "line 2: not JSON",
        "line 3: a JSON list, not an object",
        "line 4: 'text' is a int, not text",
    ):
        assert told in corpus.tally.sentence()
    path = write(tmp_path / "y.jsonl", "bread\neggs\n")
    with pytest.raises(
        ValueError, match=r"y\.jsonl has no document of at least 1 known word.*2 lines could not"
    ):
        read(open_corpus(path, vocabulary=WORDS))


@pytest.mark.parametrize("suffix", ["txt", "jsonl", "dat", "xml"])
def test_an_empty_corpus_is_named(tmp_path, suffix):
    path = write(tmp_path / f"empty.{suffix}", "")
    with pytest.raises(ValueError, match=rf"empty\.{suffix} (has no document|is empty)"):
        read(open_corpus(path))
    with pytest.raises(ValueError, match=rf"empty\.{suffix} has no document .*It is empty"):
        read(open_corpus(path, vocabulary=WORDS, repeat=True))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "docword.x.txt",
            "2\n3\n5\n1 1 1\n1 2 1\n2 3 1\n",
            r"cut short: its header declares 5 entries, 3 are present",
        ),
        ("docword.x.txt", "2\n3\n", "does not begin with three lines"),
        ("docword.x.txt", "1\n3\n2\n1 1 1\n1 0 1\n", r"line 5: the word id 0 is outside the vocabulary"),
        ("docword.x.txt", "1\n3\n2\n1 4 1\n1 1 1\n", r"line 4: the word id 4 .* has the ids 1 to 3"),
        ("docword.x.txt", "2\n3\n2\n2 1 1\n1 1 1\n", "document 1 comes after document 2"),
        ("docword.x.txt", "1\n3\n2\n1 1\n1 1 1\n", r"line 4: '1 1' is not `document word count`"),
        ("x.dat", "1 0:1\n3 0:1 2:1\n", r"line 2 declares 3 words and has 2: the file may be cut short"),
        ("x.dat", "1 0:1\n1 0:a\n", r"line 2 is not `n id:count"),
        ("x.dat", "1 0:3000000000\n", r"line 1: ids and counts must be from 0 to 2,147,483,647"),
        ("x.npz", b"PK\x03\x04", r"x\.npz is not a complete \.npz file"),
    ],
)
def test_a_broken_file_of_counts_is_refused_by_line(tmp_path, name, text, message):
    with pytest.raises(ValueError, match=message):
        read(open_corpus(write(tmp_path / name, text)))


@pytest.mark.slow
def test_a_damaged_file_of_counts_gives_what_is_whole(tmp_path):
    text = "40000\n9\n40000\n" + "".join(f"{d} {d % 9 + 1} {d * d % 97 + 1}\n" for d in range(1, 40_001))
    path = write(tmp_path / "docword.x.txt.gz", text)
    path.write_bytes(path.read_bytes()[:-20_000])
    corpus = open_corpus(path)
    documents = read(corpus, 1_000)
    assert 10_000 < documents.size < 40_000
    assert corpus.tally.empty == 0
    assert corpus.tally.lost_bytes > 0


def test_a_word_outside_the_vocabulary_is_named():
    with pytest.raises(
        ValueError, match=r"document '1' of the matrix has the word id 4 .*vocabulary of 3 words"
    ):
        read(open_corpus(TABLE, vocabulary=WORDS[:3]))


def test_what_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file or folder .*missing\.txt"):
        open_corpus(tmp_path / "missing.txt")
    with pytest.raises(FileNotFoundError, match=r"no file matches .*\*\.txt"):
        open_corpus(f"{tmp_path}/*.txt")
    with pytest.raises(FileNotFoundError, match="no vocabulary file nowhere"):
        open_corpus(TEXTS, vocabulary="nowhere")
    write(tmp_path / "picture.png", b"\x89PNG")
    with pytest.raises(ValueError, match="has no text files"):
        open_corpus(tmp_path)
    with pytest.raises(TypeError, match="a int is not a corpus"):
        open_corpus(3)
    with pytest.raises(TypeError, match="element 1 is a int: 3"):
        read(open_corpus(["bread", 3], vocabulary=WORDS))
    learn = functools.partial(Vocabulary.learn, maximum_documents=1.0)
    for wrong in ({"minimum_tokens": 0}, {"shuffle_buffer": -1}, {"learn_from": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            open_corpus(TEXTS, vocabulary=learn, **wrong)
    with pytest.raises(ValueError, match="size=0"):
        open_corpus(TEXTS, vocabulary=WORDS).batches(0)


def test_nothing_here_imports_jax():
    program = "import sys, fokker.corpora; print('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "False\n"


def test_it_is_said_where_frequent_words_are_most_of_a_corpus():
    often, seldom = ["bread", "eggs"], ["cheese", "butter"]
    # The seldom words are in 17 of 20 documents, and in 8 of these alone.
    documents = [often] * 3 + [[*often, *seldom]] * 9 + [seldom] * 8
    learn = functools.partial(Vocabulary.learn, maximum_documents=0.85)
    assert learn(documents).words == ("butter", "cheese", "bread", "eggs")
    learn = functools.partial(Vocabulary.learn, maximum_documents=12)
    expected = (
        "2 of 4 words are left out, as they are in more than 12 of the 20 documents (maximum_documents=12); "
        "8 of 20 documents have no other words. To keep them, give a larger maximum_documents."
    )
    with pytest.warns(UserWarning, match=f"^{re.escape(expected)}$"):
        assert learn(documents).words == ("bread", "eggs")
    # A third of the occurrences, and no document without words.
    documents = [["salt", "bread", f"word{'ab'[i % 2]}"] for i in range(20)]
    with pytest.warns(UserWarning, match=r"2 of 4 words .* 10 of the 20 documents \([^)]*0\.5\)\. To"):
        Vocabulary.learn(documents)
    # A tenth of the documents, and few occurrences.
    some = ["bread", "eggs", "cheese", "butter", "milk"]
    with pytest.warns(UserWarning, match="1 of 7 words is left .*; 2 of 20 documents have no other"):
        Vocabulary.learn([["salt"]] * 2 + [["salt", *some]] * 9 + [["rice"]] * 9)
    # A word among many others is what the limit is for, and so is one of nine documents.
    Vocabulary.learn([["salt", *(f"word{'abcdef'[(i + k) % 6]}" for k in range(3))] for i in range(24)])
    Vocabulary.learn(documents[:9])
