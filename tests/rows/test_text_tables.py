"""Text files as they are written elsewhere: separators, decimal commas, encodings, dates, names like NA."""

import bz2
import datetime
import gzip
import json
import lzma

import jax
import jax.numpy as jnp
import numpy as np
import pandas
import pytest
import zstandard
from typer.testing import CliRunner

import fokker as fk
from fokker.cli import app, call
from fokker.rows.column import TableColumn
from fokker.rows.delimited import TextFormat
from fokker.rows.table import ColumnError, read_table
from fokker.rows.texts import days

GERMAN = {"separator": ";", "decimal": ","}


def read(folder, text, encoding="utf-8", name="table.csv", form=None, **options):
    (folder / name).write_bytes(text.encode(encoding))
    return read_table([str(folder / name)], text=TextFormat(**(form or {})), **options)


@pytest.mark.parametrize("bad", ["inf", "-inf", "1e999", "nan", ""])
def test_what_is_no_finite_number_is_named_by_its_line(bad, tmp_path):
    # A blank line is no row.
    data = read(tmp_path, f"x,y\n1,0\n\n2,0\n{bad},0\n3,0\n")
    assert list(data) == ["y"]
    with pytest.raises(ColumnError, match=r"'x' has .* in line 5 of .*table\.csv"):
        data["x"]


def test_what_is_no_finite_number_of_json_lines_is_named_by_its_line(tmp_path):
    data = read(tmp_path, '{"x": 1, "y": 0}\n\n{"x": -Infinity, "y": 0}\n', name="t.jsonl")
    with pytest.raises(ColumnError, match=r"'x' has -inf in line 3 of .*t\.jsonl, which is not finite"):
        data["x"]


@pytest.mark.parametrize(
    ("text", "encoding", "form"),
    [
        ("x;Größe\n-1,4625;0,5\n2,5e1;1\n", "cp1252", {**GERMAN, "encoding": "cp1252"}),
        ("\ufeffx;Größe\n-1,4625;0,5\n2,5e1;1\n", "utf-8", GERMAN),
        ("sep=;\r\nx;Größe\r\n-1,4625;0,5\r\n2,5e1;1\r\n", "utf-8", {"decimal": ","}),
        ('x,Größe\n"-1,4625","0,5"\n"2,5e1",1\n', "utf-8", {"decimal": ","}),
        (
            "x\tGröße\n-1,4625\t0,5\n2,5e1\t1\n",
            "utf-16",
            {**GERMAN, "separator": "tab", "encoding": "utf-16"},
        ),
        ("x|Größe\n-1.4625|0.5\n2.5e1|1\n", "utf-8", {"separator": "|"}),
    ],
    ids=["Excel", "with a mark", "sep=", "in quotes", "Unicode text", "bar"],
)
def test_files_of_other_programs_give_the_same_numbers(text, encoding, form, tmp_path):
    data = read(tmp_path, text, encoding, form=form)
    np.testing.assert_array_equal(data.matrix("x", "Größe"), [[-1.4625, 0.5], [25.0, 1.0]])


def test_a_line_is_named_where_a_separator_line_comes_first(tmp_path):
    with pytest.raises(ColumnError, match="has 'zwölf' in line 4 of "):
        read(tmp_path, "sep=;\nx;y\n0,5;1\nzwölf;2\n1,5;3\n2,5;4\n", form={"decimal": ","})["x"]


ADVICE = {
    'x,y\n"-1,4625",1\n"0,5",2\n': "a number with a decimal comma: give decimal=','",
    'x,y\n1,1\n2,2\n"1,5",3\n4,4\n': "'1,5' in line 4 .* a number with a decimal comma: give decimal=','",
    'x,y\n"1,234",1\n"2,345",2\n': "commas between thousands: .*or if they are decimal commas give decimal=",
    'x,y\n"1,234.5",1\n"2,345",2\n': "commas between thousands: remove them from the file[.]$",
    "x,y\n12 %,1\n13 %,2\n": "looks like a number with further signs: write numbers alone",
    "x,y\n−5,1\n−6,2\n": "looks like a number with further signs",
    "x,y\n€5.00,1\n€6,2\n": "looks like a number with further signs",
    "x,y\n5 kg,1\n6 kg,2\n": "looks like a number with further signs",
    "x,y\n2024-12-31,1\n2023-01-01,2\n": "looks like a date: dates=\\['x'\\]",
    "x,y\n31.12.2024,1\n01.01.2023,2\n": "looks like a date: dates=\\['x'\\]",
    "x,y\nBerlin,1\nKöln,2\n": "numbers are needed: categories=\\['x'\\] gives each value a code",
}


@pytest.mark.parametrize("text", ADVICE)
def test_texts_that_stand_for_numbers_are_not_taken_for_categories(text, tmp_path):
    with pytest.raises(ColumnError, match=ADVICE[text]) as caught:
        read(tmp_path, text)["x"]
    assert "categories=" not in str(caught.value).partition("If it is a name")[0] or "Berlin" in text


def test_numbers_that_are_not_of_the_chosen_decimal_mark_are_refused(tmp_path):
    for text in ("x;y\n1.234,5;1\n2.000,1;2\n", "x;y\n1.5;1\n2.5;2\n"):
        with pytest.raises(ColumnError, match="no point between thousands: correct the file"):
            read(tmp_path, text, form=GERMAN)["x"]
    np.savez(tmp_path / "table.npz", x=np.array(["1,5", "2,5"]), y=np.ones(2))
    with pytest.raises(ColumnError, match=r"decimal comma: write numbers, as 1\.5"):
        read_table([str(tmp_path / "table.npz")])["x"]


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"separator": ";;"}, "separator=';;': give one character"),
        ({"decimal": ";"}, "decimal=';': give . or a comma"),
        ({"encoding": "klingon"}, "Python knows no such encoding"),
        ({}, "is one name, 'ä;b': .* or give separator=';'"),
    ],
)
def test_formats_that_cannot_be_are_refused(form, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        read(tmp_path, "ä;b\n1;2\n", form=form)
    with pytest.raises(ValueError, match=r"is not encoded in utf-8: .*encoding='cp1252'"):
        read(tmp_path, "ä,b\n1,2\n", "cp1252")


@pytest.mark.parametrize(
    "dates",
    [
        ("2024-12-31", "1970-01-01T12:00:00"),
        ("31.12.2024 00:00", "01.01.1970 12:00"),
        ("31/12/2024 00:00:00", "01/01/1970 12:00:00"),
        ("2024-12-31T02:00:00+02:00", "1970-01-01T12:00:00Z"),
    ],
)
def test_dates_become_days_since_1970(dates, tmp_path):
    text = f"t,y\n{dates[0]},1\n{dates[1]},2\n"
    assert read(tmp_path, text, dates=["t"])["t"].tolist() == [20088.0, 0.5]
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(text.encode()))
    assert read_table([str(tmp_path / "t.csv.gz")], dates=["t"], columns=["y"])["t"].tolist() == [
        20088.0,
        0.5,
    ]


def test_dates_of_parquet_have_their_own_type(tmp_path):
    times = pandas.to_datetime(["2024-12-31 00:00", "1970-01-01 12:00"])
    frame = pandas.DataFrame({"t": times, "day": [datetime.date(1970, 1, 3)] * 2, "y": [1, 2]})
    frame.to_parquet(tmp_path / "t.parquet")
    with pytest.raises(ColumnError, match=r"dates=\['t'\] makes days since 1970-01-01 of it"):
        read_table([str(tmp_path / "t.parquet")])["t"]
    data = read_table([str(tmp_path / "t.parquet")], dates=["t", "day"])
    np.testing.assert_array_equal(data.matrix("t", "day"), [[20088.0, 2.0], [0.5, 2.0]])


def test_dates_of_any_year_stay_what_they_are(tmp_path):
    wanted = [2932896.0, -171664.0, 20088.5]
    texts = ["9999-12-31", "1500-01-01", "2024-12-31T12:00"]
    times = {unit: np.array(texts, f"datetime64[{unit}]") for unit in ("s", "25s", "us", "h", "m")}
    for values in times.values():
        assert days("t", values, str).tolist() == wanted
    assert days("t", np.array(texts[:2], "datetime64[D]"), str).tolist() == wanted[:2]
    assert days("t", np.array(["9999", "NaT"], "datetime64[Y]"), str).tolist()[0] == 2932532.0
    assert np.isnan(days("t", np.array(["2024", "NaT"], "datetime64[ns]"), str)[1])
    objects = np.array([datetime.date(9999, 12, 31), datetime.datetime(1500, 1, 1)], object)
    assert days("t", objects, str).tolist() == wanted[:2]
    assert read(tmp_path, f"t,y\n{texts[0]},1\n{texts[1]},2\n", dates=["t"])["t"].tolist() == wanted[:2]
    assert read(tmp_path, "t,y\n31.12.9999,1\n01.01.1500,2\n", dates=["t"])["t"].tolist() == wanted[:2]
    pandas.DataFrame({"t": times["us"], "day": times["s"]}).to_parquet(tmp_path / "t.parquet")
    table = read_table([str(tmp_path / "t.parquet")], dates=["t", "day"])
    np.testing.assert_array_equal(table.matrix("t", "day"), np.stack([wanted, wanted], 1))
    with pytest.raises(ValueError, match="too far from 1970"):
        days("t", np.array([2**62], "datetime64[Y]"), str)


def test_dates_that_pandas_finds_too_far_are_read_one_by_one(monkeypatch):
    # As pandas 2 refuses what is beyond the years of nanoseconds.
    def refused(*values, **options):
        raise pandas.errors.OutOfBoundsDatetime

    zone = datetime.timezone(datetime.timedelta(hours=2))
    columns = (
        ["9999-12-31", None, "1500-01-01T02:00+02:00"],
        [datetime.date(9999, 12, 31), np.nan, datetime.datetime(1500, 1, 1, 2, tzinfo=zone)],
        [datetime.datetime(9999, 12, 31), pandas.NaT, datetime.date(1500, 1, 1)],
    )
    monkeypatch.setattr(pandas, "to_datetime", refused)
    for values in columns:
        np.testing.assert_array_equal(
            days("t", np.array(values, object), str), [2932896.0, np.nan, -171664.0]
        )
    dotted = np.array(["31.12.9999 12:00", "01.01.1500 00:00"], object)
    assert days("t", dotted, str).tolist() == [2932896.5, -171664.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("t,y\n01.02.68,1\n03.04.71,2\n", "'01.02.68' has a year of two digits"),
        ("t,y\n13/02/68 12:30,1\n14/04/71 1:00,2\n", "'13/02/68 12:30' has a year of two digits"),
        ("t,y\n2024-12-31,1\nNaT,2\n", "'t' has 1 missing value, first in line 3"),
        ("t,y\n01/02/2024,1\n03/04/2024,2\n", "'01/02/2024' may be day/month or month/day"),
        ("t,y\n2024-12-31,1\nhello,2\n", "'hello' in line 3 of .* is not a date as the others"),
        ("t,y\n2024-12-31,1\n,2\n", "'t' has 1 missing value, first in line 3"),
        ("y\n1\n", r"dates=\['t'\]: the data have no column 't'"),
    ],
)
def test_dates_that_are_not_clear_are_refused(text, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        read(tmp_path, text, dates=["t"])


def test_blank_lines_at_the_end_of_one_column_are_no_rows(tmp_path):
    assert read(tmp_path, "x\n1\n2\n\n\n")["x"].tolist() == [1, 2]
    with pytest.raises(ValueError, match=r"1 missing value.*line 3 of"):
        read(tmp_path, "x\n1\nNA\n\n")


@pytest.mark.parametrize("text", ["x\n1\n\n3\n", "\nx\n\n3\n", '"x\n"\n\n1\n'])
def test_a_blank_line_of_one_column_is_a_missing_value(text, tmp_path):
    line = text.index("\n\n", 1)
    with pytest.raises(ValueError, match=f"1 missing value.*line {text[:line].count(chr(10)) + 2} of"):
        read(tmp_path, text)
    assert read(tmp_path, "\nx,y\n\n1,2\n\n")["y"].tolist() == [2]
    assert read(tmp_path, "\nx\n1\n2")["x"].tolist() == [1, 2]


@pytest.mark.parametrize("value", ["True", "1" * 30])
def test_a_missing_value_beside_others_than_texts_is_named(value, tmp_path):
    data = read(tmp_path, f"x,y\n{value},1\n,2\n")
    with pytest.raises(ColumnError, match="the column 'x' has"):
        data["x"]


@pytest.mark.parametrize("missing", [" NA", "null ", "\t#N/A", "  ", " -9"])
def test_missing_values_may_have_spaces_around_them(missing, tmp_path):
    form = {"missing": ("-9",)} if "-9" in missing else {}
    text = f"x,c,y\n1,a,1\n{missing},{missing},2\n"
    with pytest.raises(ValueError, match="1 missing value, first in line 3"):
        read(tmp_path, text, categories={"c": None}, form=form)
    with pytest.raises(ColumnError, match="1 missing value, first in line 3"):
        read(tmp_path, text, form=form)["x"]


def test_na_is_a_category_where_asked(tmp_path):
    text = "country,y\nNA,1\nDE,2\nNA,3\n"
    with pytest.raises(ValueError, match=r"2 missing values, first in line 2 of .*missing=\(\)"):
        read(tmp_path, text, categories={"country": None})
    data = read(tmp_path, text, categories={"country": None}, form={"missing": ()})
    assert (data["country"].tolist(), data.labels["country"]) == ([1, 0, 1], ["DE", "NA"])
    with pytest.raises(ValueError, match="1 missing value, first in line 3"):
        read(tmp_path, text, categories={"country": None}, form={"missing": ("DE",)})
    with pytest.raises(ValueError, match="1 missing value, first in line 3"):
        read(tmp_path, "country,y\nNA,1\n,2\n", categories={"country": None}, form={"missing": ()})


def test_the_command_keeps_how_its_files_are_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "table.csv").write_bytes("x;t;Straße\n0,5;01.02.1970;NA\n1,5;02.02.1970;DE".encode("cp1252"))
    (tmp_path / "run.toml").write_text(
        'data = "table.csv"\nseparator = ";"\ndecimal = ","\nencoding = "cp1252"\ndates = ["t"]\n'
        'categories = ["Straße"]\nmissing = ""\nsteps = 20\n'
    )
    runs = []
    monkeypatch.setattr(call, "run_sampler", lambda options, *_: runs.append(options) or 0)
    assert CliRunner().invoke(app, ["sample", "model.py", "--config", "run.toml"]).exit_code == 0
    # Stored with the run, for `fokker resume` and `fokker predict`.
    options = json.loads(json.dumps(runs[0]))
    for are_new in (False, True):
        data = call.read_data(options, are_new)
        np.testing.assert_array_equal(data.matrix("x", "t", "Straße"), [[0.5, 31, 1], [1.5, 32, 0]])


def test_a_table_of_pandas_is_a_dictionary_of_its_columns():
    def log_likelihood(theta, datum):
        return -((datum["y"] - theta * datum["x"]) ** 2) / 2

    frame = pandas.DataFrame({"x": pandas.array([1, 2], "Int64"), "y": [0.5, 1.0], "ill": [True, False]})
    target = fk.Posterior(lambda theta: 0.0 * theta, log_likelihood, frame)
    assert jax.tree.map(lambda x: x.tolist(), target.data) == frame.to_dict("list")
    assert float(target.potential(jnp.array(0.5))) == 0.0
    for column, message in (
        (["u", "v"], r"data\['c'\] holds 'u' in row 0"),
        ([1.0, None], r"data\['c'\] .* not finite, nan,"),
        (pandas.to_datetime(["2024-12-31"] * 2), r"data\['c'\].* has the type datetime64"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            fk.Posterior(lambda theta: 0.0 * theta, log_likelihood, frame.assign(c=column))


CONTENTS = b"x,city\n1.5,Oslo\n2.5,Rome\n"


@pytest.mark.parametrize(
    ("ending", "compress"),
    [
        (".gz", gzip.compress),
        (".bz2", bz2.compress),
        (".xz", lzma.compress),
        (".zst", lambda contents: zstandard.compress(contents)),
        (".gz", lambda contents: contents),  # known by its first bytes, and not by its name
    ],
)
def test_tables_may_be_compressed(ending, compress, tmp_path):
    path = tmp_path / f"x.csv{ending}"
    path.write_bytes(compress(CONTENTS))
    table = read_table([str(path)], categories={"city": None})
    assert table["x"].tolist() == [1.5, 2.5]
    assert table["city"].tolist() == [0, 1]


def test_json_lines_are_a_table(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"x": 1, "city": "Oslo", "n": 2}\n\n{"city": "Rome", "x": 2.5}\n')
    table = read_table([str(path)], categories={"city": None})
    assert table["x"].tolist() == [1.0, 2.5]
    assert table.labels == {"city": ["Oslo", "Rome"]}
    with pytest.raises(ColumnError, match=r"the column 'n' has 1 missing value, first in line 3 of "):
        table["n"]
    for text, message in (
        ('{"x": 1}\n[2]\n', r"line 2 of .*: a JSON list, not an object; one object per line is needed"),
        ('{"x": 1}\n{"x": \n', r"line 2 of .*: not JSON"),
        ("\n", "has no rows"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            read_table([str(path)])


def test_values_that_are_looked_at_in_pieces_keep_their_places(monkeypatch):
    monkeypatch.setattr("fokker.rows.column._VALUES", 2)
    for value, first in ((np.nan, "has 1 missing value, first in row 4"), (np.inf, "has inf in row 4")):
        values = np.array([1.0, 2.0, 3.0, 4.0, value])
        assert first in TableColumn("x", values, lambda row: f"row {row}").problem
