"""The mark of tests that repeat at length what another shows: each names that one."""

from typing import Any

import pytest


def long_case(shown_by: str, *values: Any) -> Any:
    """A case of a test that repeats what `shown_by` shows, "file::name" as in tests/mutations."""
    return pytest.param(*values, marks=pytest.mark.long(shown_by))
