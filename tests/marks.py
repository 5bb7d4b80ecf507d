"""The mark of tests that repeat at length what a quick one shows: each names that one."""

from typing import Any

import pytest


def long_case(quick_test: str, *values: Any) -> Any:
    """A case of a test that repeats what `quick_test` shows, "file::name" as in tests/mutations."""
    return pytest.param(*values, marks=pytest.mark.long(quick_test))
