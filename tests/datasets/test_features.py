"""Tables of features, as files and as `fokker ratings` takes them."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import fokker as fk
from fokker.cli import app

MOVIES = """id,year,genres,title
10,1995,Comedy|Drama,First
20,2001,Drama,Second
30,1987,Action,Third
"""


@pytest.fixture
def movies(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "movies.csv"
    path.write_text(MOVIES)
    return path


def test_texts_become_columns_of_0_and_1(movies):
    frame = fk.datasets.read_features(movies, columns=["genres", "year"])
    assert list(frame.columns) == ["genres: Action", "genres: Comedy", "genres: Drama", "year"]
    assert frame.index.tolist() == [10, 20, 30]
    np.testing.assert_array_equal(frame.to_numpy(), [[0, 1, 1, 1995], [0, 0, 1, 2001], [1, 0, 0, 1987]])
    movies.write_text("name,age\nann,3\nbob,4\n")
    frame = fk.datasets.read_features(movies)
    assert (frame.index.tolist(), list(frame.columns)) == (["ann", "bob"], ["age"])


def test_columns_that_cannot_be_used_are_named(movies):
    with pytest.raises(KeyError, match=r"no column 'genre'.* Did you mean 'genres'"):
        fk.datasets.read_features(movies, columns=["genre"])
    movies.write_text(MOVIES.replace("2001", ""))
    with pytest.raises(KeyError, match="the column 'year' has 1 missing value, first in line 3"):
        fk.datasets.read_features(movies, columns=["year"])
    movies.write_text("id,title\n" + "\n".join(f"{i},t{i}" for i in range(30)))
    too_many = (
        r"'title' of .* has 30 different texts in 30 rows: too many to learn from, and there is no other"
    )
    with pytest.raises(ValueError, match=too_many):
        fk.datasets.read_features(movies)


def test_columns_of_too_many_texts_are_left_out_unless_asked_for(movies):
    rows = [f"{i},{f't{i}' if i else ''},{'ab'[i % 2]},{i % 5},u{i}" for i in range(60)]
    movies.write_text("\n".join(["id,title,genre,n,url", *rows]))
    left_out = r"movies\.csv: columns with too many .* are left out: title \(59\), url \(60\)\.$"
    with pytest.warns(UserWarning, match=left_out):
        frame = fk.datasets.read_features(movies)
    assert list(frame.columns) == ["genre: a", "genre: b", "n"]
    assert frame.index.tolist() == list(range(60))
    with pytest.raises(ValueError, match=r"'url' of .* 60 different texts in 60 rows") as refused:
        fk.datasets.read_features(movies, columns=["genre", "url", "title"])
    assert str(refused.value).endswith("Choose others by columns=[…] from genre, n.")


def test_a_table_of_texts_alone_has_features(movies):
    movies.write_text("item,genre\ni1,b\ni2,a|b\n")
    frame = fk.datasets.read_features(movies)
    assert frame.index.tolist() == ["i1", "i2"]
    assert frame.to_dict("list") == {"genre: a": [0, 1], "genre: b": [1, 1]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,g,n\n1,a|b,1\n2,c,2\n3,,3\n", "'g' has 1 missing value, first in line 4 of .*such as unknown"),
        ("id,g\nx,a\ny,b\n,c\n,c\n", "'id' has 2 missing values, first in line 4 of .*write the identifier"),
        ("id,n\n1,1\n2,2\n,3\n", "'id' has 1 missing value, first in line 4 of .*write the identifier"),
    ],
)
def test_a_blank_text_or_identifier_is_refused_with_its_line(movies, text, message):
    # Its code, -1, would be that of the last text: of another genre, or of another row.
    movies.write_text(text)
    with pytest.raises(KeyError, match=rf"{message}"):
        fk.datasets.read_features(movies)


def test_a_table_without_features_says_so(movies):
    movies.write_text("item\ni1\ni2\n")
    with pytest.raises(ValueError, match=r"movies\.csv has the column 'item' alone, of identifiers: add"):
        fk.datasets.read_features(movies)
    movies.write_text(MOVIES)
    with pytest.raises(ValueError, match=r"columns=\[\] chooses none: give names of year, genres, title"):
        fk.datasets.read_features(movies, columns=[])


def run(*arguments):
    return CliRunner().invoke(app, ["ratings", *map(str, arguments)])


@pytest.fixture
def options(movies):
    """Those of a quick fit to ratings with features of items."""
    g = np.random.default_rng(0)
    users, items = (x.ravel() for x in np.indices((12, 2)))
    table = pd.DataFrame({"userId": users, "movieId": 10 + 10 * items, "rating": g.integers(1, 6, 24)})
    table.to_csv("ratings.csv", index=False)
    return ("ratings.csv", "--factors", 1, "--passes", 6, "--item-features", movies, "--out", "run")


def test_the_command_learns_from_ratings_and_features(options, movies):
    result = run(*options, "--item-columns", "genres,year", "--user", 3)
    assert result.exit_code == 0, result.output
    assert "24 ratings, 5 of them held out" in result.output
    assert ")  30  Third" in result.output  # which has no ratings
    assert "<td>19 ratings</td>" in Path("run/report.html").read_text()
    assert (
        "Recommended to user 3"
        in fk.models.Factorisation.load("run/model.npz").report("r.html", user=3).read_text()
    )
    assert "90 % intervals" in Path("run/report.html").read_text()
    for more, message in (
        (("--item-columns", "genre"), "no column 'genre'"),
        (("--user-columns", "age"), "--user-columns age: it is for --user-features FILE"),
        (("--user", "77"), "--user 77: the ratings have no such user; their identifiers look like 0"),
        (("--repeated", "no"), '--repeated no: give "refuse"'),
        (("--test", 0), "--test 0.0 of 24 ratings leaves no ratings in one of the two parts"),
        (("--seed", -1), "as in --seed 0; -1 was given"),
    ):
        assert message in str(run(*options, "--overwrite", *more).exception)
    Path("twice.csv").write_text(f"{Path('ratings.csv').read_text()}0,10,5\n")
    error = str(run("twice.csv", "--out", "new").exception)
    assert error.endswith("Choose --repeated first, --repeated last or --repeated mean.")
    # Features in movies.csv, beside the ratings, are no titles.
    Path("movies.csv").write_text("item,comedy\n10,1\n20,0\n10,2\n")
    result = run("ratings.csv", "--item-features", "movies.csv", "--out", "new")
    assert str(result.exception).startswith("--item-features has more than one row for 10: keep one")
    assert "titles" not in result.output
    movies.write_text(MOVIES.replace("20,2001,Drama,Second\n", ""))
    result = run(*options, "--overwrite", "--item-columns", "year")
    assert "no row for item 20 of the ratings" in str(result.exception)


def test_what_is_not_there_is_said_before_the_folder_of_results(options, movies):
    run(*options, "--item-columns", "genres,year")
    again = ("--item-features", "nothere.csv", "--out", "run")
    assert str(run("nofile.csv", "--out", "run").exception) == "there is no file or folder nofile.csv."
    assert str(run("ratings.csv", *again).exception) == "--item-features nothere.csv: there is no such file."
    assert "has model.npz already" in str(run("ratings.csv", "--out", "run").exception)


@pytest.mark.filterwarnings("default")
def test_a_warning_of_the_library_is_a_line_without_its_place_in_the_source(options):
    """Here that all ratings are the same, which no recommendation can be learned from."""
    table = pd.read_csv("ratings.csv").assign(rating=3)
    table.to_csv("same.csv", index=False)
    result = run("same.csv", *options[1:5], "--out", "same")
    assert result.output.startswith("all 19 ratings are 3: they do not say which items a user prefers")
    assert "there is, in Python, fk.models.Factorisation(confidence=1.0)." in result.output
    assert "Warning" not in result.output
    assert ".py:" not in result.output


def test_the_command_writes_before_it_prints(options, closed_output):
    assert run(*options, "--item-columns", "genres,year").exit_code == 1
    assert Path("run/model.npz").exists()
    assert Path("run/report.html").exists()


@pytest.mark.filterwarnings("default")
def test_the_command_goes_on_without_what_it_cannot_use(options):
    rows = [f"{10 + 10 * i},Film {i},{'ab'[i % 2]}" for i in range(60)]
    # A file that nobody named has no identifiers, and titles are no features.
    Path("movies.csv").write_text("film,title,genre\n" + "\n".join(rows))
    result = run(*options[:5], "--out", "plain", "--user", 3)
    assert result.exit_code == 1, result.output
    assert "Do not use:" in result.output
    assert "Nothing to recommend to user 3, who has rated all items." in result.output
    note = "titles beside the ratings are not used: movies.csv: the header 'film,title,genre' names"
    assert result.output.startswith(note)
    result = run(*options, "--user", 3)
    assert result.exit_code == 0, result.output
    assert "are left out: title (60)." in result.output
    assert ")  600  Film 59" in result.output or ")  590  Film 58" in result.output
    # Without titles there is no column of them.
    assert [">title<" in Path(name, "report.html").read_text() for name in ("plain", "run")] == [False, True]
    # One that was asked for is refused, in the words of the command.
    error = str(run(*options, "--overwrite", "--item-columns", "title").exception)
    assert error.endswith("too many to learn from. Choose others by --item-columns NAME,… from genre.")


def test_the_command_refuses_a_place_for_its_files_before_the_fit(options, monkeypatch):
    Path("file").write_text("")
    Path("run").mkdir()
    Path("run/notes.txt").write_text("mine")
    columns = ("--item-columns", "genres, year")
    assert run(*options, *columns).exit_code == 0
    before = Path("run/model.npz").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(fk.models.Factorisation, "fit", lambda *_, **__: pytest.fail("the fit began"))
        for out, message in (
            ("file", "--out file must be a folder, but file is a file"),
            ("file/run", "--out file/run must be a folder, but file is a file"),
            ("run", "--out run has model.npz already: give another name, or --overwrite."),
        ):
            assert message in str(run(*options, *columns, "--out", out).exception)
        # What is wrong in the rest of the command leaves no folder.
        assert "no column 'genre'" in str(run(*options, "--item-columns", "genre", "--out", "new").exception)
        assert not Path("new").exists()
        access = os.access
        patch.setattr("os.access", lambda path, mode: str(path) != "other" and access(path, mode))
        assert "you may not write to this" in str(run(*options, *columns, "--out", "other").exception)
    Path("run/model.npz").unlink()
    assert "--out run has report.html already" in str(run(*options, *columns).exception)
    assert run(*options, *columns, "--overwrite", "--seed", 1).exit_code == 0
    assert Path("run/model.npz").read_bytes() != before
