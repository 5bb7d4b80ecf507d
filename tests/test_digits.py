"""The decimals of estimates: as many as their standard errors leave certain."""

import numpy as np
import pytest

from fokker._core.digits import r_hat_text, with_error, without_minus_zero
from fokker._core.labels import scalar_at
from fokker.diagnostics.summary import _form
from fokker.report.trace_page import _setting_text


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (1.1, 0.007, "1.100 ± 0.007"),
        (1.0042, 0.021, "1.00 ± 0.02"),
        (0.5, 0.12, "0.5 ± 0.1"),
        (326.4, 20.3, "326 ± 20"),
        (2.0, 0.0, "2.00 ± 0.00"),
        (2.0, np.nan, "2.00 ± nan"),
    ],
)
def test_an_estimate_ends_where_its_error_starts(value, error, text):
    assert with_error(value, error) == text
    assert with_error(value, error, "+") == f"+{text}"


def test_a_row_of_the_table_ends_at_the_error_of_its_mean():
    forms = [_form(1.078, 0.115, effective) for effective in (1285, 20, np.nan)]
    assert [format(1.07812, form) for form in forms] == ["1.078", "1.08", "1.078"]
    assert format(1.07812e-7, _form(1.078e-7, 1.15e-8, 1285)) == "1.078e-07"
    assert format(1.07812e9, _form(1.078e9, 1.15e8, 1285)) == "1.078e+09"
    assert _form(3.0, 0.0, np.nan) == ".4g"


def test_a_scalar_is_named_by_its_leaf_and_place():
    tree = {"a": np.zeros(()), "w": np.zeros((2, 3))}
    assert [scalar_at(tree, place) for place in (0, 1, 6)] == ["a", "w[0,0]", "w[1,2]"]
    assert scalar_at(np.zeros(2), 1) == "theta[1]"
    with pytest.raises(IndexError):
        scalar_at(tree, 7)


def test_a_value_rounded_to_zero_has_no_sign():
    assert with_error(-0.0004, 0.01) == "0.00 ± 0.01"
    assert [without_minus_zero(text) for text in ("-0.000", "-0", "-0.01", "-10")] == [
        "0.000",
        "0",
        "-0.01",
        "-10",
    ]


def test_r_hat_of_chains_that_stand_still_is_short():
    assert [r_hat_text(value) for value in (1.0042, 5998514167737027.0, float("inf"), float("nan"))] == [
        "1.004",
        "> 1000",
        "> 1000",
        "–",
    ]


def test_settings_of_a_report_have_six_digits_and_separators():
    values = (0.1, float(np.float32(0.1)), np.float32(0.1), 3_000_000, True, "auto")
    assert list(map(_setting_text, values)) == ["0.1", "0.1", "0.1", "3,000,000", "True", "auto"]
