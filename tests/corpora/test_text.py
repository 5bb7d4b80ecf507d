"""Text of the world: words in any alphabet, stop words, bigrams, tables, and files that are not text."""

import csv
import functools
import io
import json
import sys
import unicodedata

import numpy as np
import pytest

from fokker.corpora import STOP_WORDS, Documents, Tally, Vocabulary, open_corpus, unicode_words
from fokker.corpora._tokens import num_letters

GERMAN = [
    "Die Brücke über den Fluß ist schön und groß",
    "Der Zug fährt über die Brücke und durch den Tunnel",
    "Auf der Straße fährt der Zug nicht",
    "Die Straße führt zu der Brücke und zum Fluß",
] * 3


def read(corpus):
    return Documents.concatenate(list(corpus.batches(100)))


# Words.


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Die Brücke über 20 Flüsse", "die brücke über flüsse"),
        ("L'été, aujourd’hui à l'école", "l été aujourd hui à l école"),
        ("Ёлка, подъезд; п'ять п’ять", "ёлка подъезд п'ять п'ять"),
        ("हिन्दी में शब्द", "हिन्दी में शब्द"),
        ("می‌خواهم", "می\u200cخواهم"),
        ("한국어 학교", "한국어 학교"),
        ("İstanbul ΟΔΟΣ", "istanbul οδος"),
        ("ISPARTALI DAĞI dağı IRAĞI ırağı In Nazım", "ispartali dağı dağı ırağı ırağı in nazım"),
        ("كِتَابٌ كتاب كـــتاب قُرْآن", "كتاب كتاب كتاب قرآن"),
        ("שָׁלוֹם שלום", "שלום שלום"),
        ("caf&eacute; eﬃcient Zu\u00adsammen", "café efficient zusammen"),
        ("co2 and the 2nd x_y in 1999", "co2 and the x y in"),
    ],
)
def test_words_are_those_of_the_language_however_they_are_encoded(text, words):
    assert unicode_words(text) == words.split(" ")
    assert unicode_words(unicodedata.normalize("NFD", text)) == words.split(" ")
    # The parts of a text have the words of the whole, which skipping relies on.
    assert [word for part in text.split(" ") for word in unicode_words(part)] == words.split(" ")


def test_the_default_counts_every_letter_and_the_old_rule_remains():
    learn = functools.partial(Vocabulary.learn, maximum_documents=0.8)
    corpus = open_corpus(GERMAN, vocabulary=learn)
    assert {"brücke", "straße", "fluß", "fährt"} <= set(corpus.vocabulary)
    assert corpus.vocabulary.language == "german"
    assert not set(corpus.vocabulary) & STOP_WORDS["german"]
    decomposed = [unicodedata.normalize("NFD", text) for text in GERMAN]
    again = read(open_corpus(decomposed, vocabulary=corpus.vocabulary))
    np.testing.assert_array_equal(again.counts, read(corpus).counts)
    # Negative control: the rule of the published experiments loses the letters.
    old = open_corpus(GERMAN, vocabulary=learn, pattern="letters")
    assert {"brcke", "strae"} <= set(old.vocabulary)


def test_a_vocabulary_file_is_normalised_like_the_text(tmp_path):
    (tmp_path / "words.txt").write_text(unicodedata.normalize("NFD", "Brücke\nStraße\n"))
    documents = read(open_corpus(GERMAN[:1], vocabulary=tmp_path / "words.txt"))
    assert documents.words.tolist() == [0]


def test_a_script_without_spaces_is_warned_of():
    texts = ["我们喜欢在图书馆看书", "我们今天去公园看书"] * 3
    everything = functools.partial(Vocabulary.learn, maximum_documents=1.0)
    with pytest.warns(UserWarning, match="6 of 6 documents are in a script without spaces"):
        open_corpus(texts, vocabulary=everything)
    with pytest.warns(UserWarning, match=r"jieba .*pattern=r'\\w'"):
        open_corpus(texts, vocabulary=everything)
    # Where one of the remedies was followed there is no warning: it would be an error.
    characters = open_corpus(texts, vocabulary=everything, pattern=r"\w")
    open_corpus(["我们 喜欢 在 图书馆 看书", "我们 今天 去 公园 看书"] * 3, vocabulary=everything)
    open_corpus(["ฉัน ชอบ อ่าน หนังสือ ใน ห้องสมุด"] * 3, vocabulary=everything)
    with pytest.warns(UserWarning, match="3 of 3 documents"):
        open_corpus(["ฉันชอบอ่านหนังสือในห้องสมุด วันนี้เราไปสวนสาธารณะ"] * 3, vocabulary=everything)
    assert {"书", "看"} <= set(characters.vocabulary)
    # Text with spaces, and a little Chinese in other text, are not warned of: a warning would be an error.
    open_corpus([*GERMAN, texts[0]])
    assert num_letters("학교") == 4


# Stop words, limits, bigrams.


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("english", "the house of the king is on the hill and it was built when he was young"),
        ("german", "das Haus des Königs steht auf dem Hügel und wurde gebaut als er jung war"),
        ("french", "la maison du roi est sur la colline et elle a été bâtie quand il était jeune"),
        ("russian", "дом короля стоит на холме и он был построен когда король был ещё молод"),
        ("spanish", "la casa del rey está en la colina y fue construida cuando él era joven"),
        ("italian", "la casa del re è sulla collina ed è stata costruita quando lui era giovane"),
        ("portuguese", "a casa do rei fica na colina e foi construída quando ele era jovem"),
        ("dutch", "het huis van de koning staat op de heuvel en het werd gebouwd toen hij jong was"),
        (None, "dom króla stoi wzgórzu zbudowano kiedy król młody"),
    ],
)
def test_the_language_is_detected(language, text):
    learned = Vocabulary.learn([unicode_words(text)], minimum_documents=1, maximum_documents=1.0)
    assert learned.language == language
    if language:
        assert not set(learned) & STOP_WORDS[language]


def test_stop_words_are_chosen(tmp_path):
    documents = [["und", "brücke", "zug"], ["und", "brücke", "the"]]
    learn = functools.partial(Vocabulary.learn, documents, minimum_documents=1, maximum_documents=1.0)
    path = tmp_path / "stop.txt"
    path.write_text("Brücke  # a comment\nund\n")
    assert set(learn(stop_words="none")) == {"und", "brücke", "zug", "the"}
    assert set(learn(stop_words="de")) == set(learn(stop_words="German")) == {"brücke", "zug", "the"}
    assert set(learn(stop_words=path)) == {"zug", "the"}
    assert set(learn(stop_words={"zug"})) == {"und", "brücke", "the"}
    with pytest.raises(ValueError, match=r"'klingon' is neither a file nor one of english, german, .*none"):
        learn(stop_words="klingon")
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe\xfd")
    with pytest.raises(ValueError, match="are not UTF-8 text"):
        learn(stop_words=tmp_path / "bad.txt")


def test_limits_are_numbers_or_shares_of_documents():
    documents = [["aaa", "bbb"], ["aaa", "bbb"], ["aaa", "ccc"], ["aaa"]]
    learn = functools.partial(Vocabulary.learn, documents, stop_words="none")
    assert learn(minimum_documents=0.5, maximum_documents=1.0).words == ("aaa", "bbb")
    assert learn(minimum_documents=1, maximum_documents=2).words == ("bbb", "ccc")
    assert learn(minimum_documents=1, maximum_documents=0.25).words == ("ccc",)
    with pytest.raises(ValueError, match=r"maximum_documents is a number .* or a share .* 1\.5 was given"):
        learn(maximum_documents=1.5)


def test_bigrams_replace_pairs_that_belong_together():
    generator = np.random.default_rng(0)
    # "new york" always follow each other; "red" and "car" are as frequent, and independent.
    texts = [
        " ".join(generator.permutation(["new york", "red", "car", *generator.choice(list("pqrstuv"), 6)]))
        for _ in range(60)
    ]
    learn = functools.partial(Vocabulary.learn, maximum_documents=1.0, minimum_letters=1)
    corpus = open_corpus(texts, bigrams=True, vocabulary=learn)
    assert [word for word in corpus.vocabulary if "_" in word] == ["new_york"]
    # Both words occur in no other way, so that they are no words of their own.
    assert not {"new", "york"} & set(corpus.vocabulary)
    again = open_corpus(["york new york york"], bigrams=True, vocabulary=["york", "new_york"])
    assert read(again).counts.tolist() == [2, 1]
    # Without the flag the same vocabulary finds no pair; skipping counts the same documents.
    assert read(open_corpus(["york new york york"], vocabulary=["york", "new_york"])).counts.tolist() == [3]
    pairs = open_corpus(
        ["new york", "york"] * 3, bigrams=True, vocabulary=["new_york", "york"], minimum_tokens=1
    )
    assert [batch.size for batch in pairs.batches(2, skip=3)] == [2, 1]
    with pytest.raises(TypeError, match="bigrams=True reads the documents twice"):
        Vocabulary.learn(iter([["a"]]), bigrams=True)


# Tables and JSON.


def as_csv(delimiter, header=("id", "Text"), rows=None):
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter)
    writer.writerows([header, *(rows or [(f"d{i}", text) for i, text in enumerate(GERMAN)])])
    return text.getvalue()


def forms(folder):
    entries = [{"id": f"d{i}", "text": text} for i, text in enumerate(GERMAN)]
    for name, text in {
        "comma.csv": as_csv(","),
        "semicolon.csv": "\ufeff" + as_csv(";"),
        "tab.tsv": as_csv("\t"),
        "array.json": json.dumps(entries),
        "pretty.json": json.dumps(entries, indent=1, ensure_ascii=False),
        "lines.json": "\n".join(map(json.dumps, entries)),
    }.items():
        (folder / name).write_text(text)
        yield folder / name


def test_tables_and_json_give_the_same_documents(tmp_path, monkeypatch):
    # Blocks of a few bytes: elements and characters are cut.
    monkeypatch.setattr("fokker.rows.compressed._PLAIN_READ_SIZE", 7)
    expected = open_corpus(GERMAN)
    counts = read(expected).counts
    for path in forms(tmp_path):
        corpus = open_corpus(path, vocabulary=expected.vocabulary)
        documents = read(corpus)
        assert documents.names[:2] == ("d0", "d1"), path
        np.testing.assert_array_equal(documents.counts, counts, err_msg=str(path))
        assert corpus.tally == Tally(documents=len(GERMAN)), path


def test_fields_have_line_ends_and_columns_have_numbers(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text('1,"zug\nbrücke, ""zug"""\n2,zug\n3\n')
    corpus = open_corpus(path, key="2", vocabulary=["zug", "brücke"])
    assert read(corpus).to_matrix(2).toarray().tolist() == [[2, 1], [1, 0]]
    assert "row 3 of x.csv: 1 column, none with the text" in corpus.tally.sentence()
    with pytest.raises(
        ValueError, match=r"x\.csv has 2 columns, numbered from 1, and key='9' is none of them"
    ):
        read(open_corpus(path, key="9", vocabulary=["zug"]))
    (tmp_path / "one.csv").write_text("comment\nzug\nbrücke\n")
    assert read(open_corpus(tmp_path / "one.csv", vocabulary=["zug", "brücke"])).size == 2
    with pytest.raises(ValueError, match="numbered from 1"):
        open_corpus(path, key="0")


def test_strings_in_an_array_and_arrays_that_are_cut(tmp_path):
    path = tmp_path / "x.json"
    path.write_text('["zug", "brücke zug"]')
    assert read(open_corpus(path, vocabulary=["zug", "brücke"])).counts.tolist() == [1, 1, 1]
    path.write_text('[{"text": "zug"}, {"body": "zug"}, 3, {"text": "zu')
    corpus = open_corpus(path, vocabulary=["zug"])
    assert read(corpus).size == 1
    assert corpus.tally.bad_lines == 3
    assert "no key 'text' among 'body': set key=…" in corpus.tally.sentence()
    assert "x.json after element 3" in corpus.tally.sentence()
    path.write_text('{\n "rows": ["zug"],\n "more": 1\n}')
    with pytest.raises(ValueError, match=r"is not a JSON array but an object with the keys 'rows', 'more'"):
        open_corpus(path)


def test_a_glob_of_arrays_is_one_corpus(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.json").write_text('["zug", "brücke"]')
    documents = read(open_corpus(f"{tmp_path}/*.json", vocabulary=["zug", "brücke"]))
    assert documents.names == ("a.json:1", "a.json:2", "b.json:1", "b.json:2")


def test_a_missing_column_is_named_with_those_there_are(tmp_path):
    (tmp_path / "x.csv").write_text("title,body\na,b\n")
    with pytest.raises(ValueError, match=r"no column 'text'\. The columns are title, body\. Choose .* key=…"):
        open_corpus(tmp_path / "x.csv")


def test_parquet(tmp_path):
    import pyarrow
    from pyarrow import parquet

    path = tmp_path / "x.parquet"
    parquet.write_table(pyarrow.table({"n": [1, 2, 3], "text": ["zug", None, "zug zug"]}), path)
    corpus = open_corpus(path, vocabulary=["zug"])
    assert read(corpus).counts.tolist() == [1, 2]
    assert corpus.tally.empty == 1
    path.rename(tmp_path / "unnamed")
    assert read(open_corpus(tmp_path / "unnamed", vocabulary=["zug"])).size == 2
    with pytest.raises(ValueError, match=r"the column 'n' of .* is of type int64, not text"):
        open_corpus(tmp_path / "unnamed", key="n")


def test_zstd(tmp_path):
    import zstandard

    path = tmp_path / "x.txt.zst"
    frames = [zstandard.compress(f"{text}\n".encode()) for text in GERMAN]
    path.write_bytes(b"".join(frames))
    assert read(open_corpus(path, vocabulary=["brücke", "zug"])).size == len(GERMAN)
    path.write_bytes(b"".join(frames)[:-4])
    corpus = open_corpus(path, vocabulary=["brücke", "zug"])
    read(corpus)
    assert corpus.tally.lost_bytes > 0


def test_packages_that_are_missing_are_named(tmp_path, monkeypatch):
    for package in ("pyarrow", "zstandard", "compression"):
        monkeypatch.setitem(sys.modules, package, None)
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    with pytest.raises(ImportError, match=r"needs pyarrow: pip install 'fokker\[arrow\]'"):
        open_corpus(tmp_path / "x.parquet")
    (tmp_path / "x.zst").write_bytes(b"\x28\xb5\x2f\xfd....")
    with pytest.raises(ImportError, match=r"needs zstandard: pip install 'fokker\[zstd\]'"):
        open_corpus(tmp_path / "x.zst")


# Files that are not text.


@pytest.mark.parametrize(
    ("contents", "kind"),
    [
        (b"%PDF-1.4 \xe2\xe3", r"a PDF file \(pdftotext"),
        (b"PK\x03\x04" + bytes(26) + b"[Content_Types].xml", "a Microsoft Office file"),
        (b"PK\x03\x04" + bytes(26) + b"letters.txt", r"a zip archive \(extract it\)"),
        ("Brücke".encode("utf-16"), r"UTF-16 text \(convert it with iconv"),
        (b"\x89PNG\r\n", "a PNG picture"),
        (b"text\0text", "binary, with zero bytes"),
        (bytes(257) + b"ustar", "a tar archive"),
    ],
)
def test_what_is_not_text_is_named(tmp_path, contents, kind):
    (tmp_path / "corpus").write_bytes(contents)
    with pytest.raises(ValueError, match=rf"corpus is not text but {kind}"):
        open_corpus(tmp_path / "corpus")
    # In a folder of other files it is skipped and counted.
    (tmp_path / "a.txt").write_text("zug")
    corpus = open_corpus(tmp_path, vocabulary=["zug"])
    assert read(corpus).size == 1
    assert "1 file skipped as not text (corpus is " in corpus.tally.sentence()
