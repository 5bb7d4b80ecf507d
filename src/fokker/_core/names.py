"""Names that were meant."""

import difflib
from collections.abc import Sequence


def nearest(name: str, names: Sequence[str]) -> str:
    """A hint such as " Did you mean 'theta'?", or an empty string."""
    by_lower_case = {other.lower(): other for other in names}
    close = difflib.get_close_matches(name.lower(), by_lower_case, n=1, cutoff=0.6)
    return f" Did you mean {by_lower_case[close[0]]!r}?" if close else ""
